"""Takes the pictures of the live page: `python -m tests.consumers.page.picture --out deploy/live-page.png`.

A trainer learns the HTRU2 survey through an embedded broker, and a headless Chromium shows its page. `--all DIRECTORY`
takes every look of it: wide and narrow, light and dark, linear and RBF.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from PIL import Image

from consumers.host.runtime import configure_logging
from consumers.settings import LogConfig
from streamsvm.kafka import EmbeddedBroker
from tests.consumers.page.browser import chromium, photograph
from tests.consumers.page.stage import staged

HEIGHT = 1_790
"""Of the picture for README."""
LOOKS = {
    "wide-light": (1280, "light"),
    "wide-dark": (1280, "dark"),
    "half-light": (500, "light"),
    "narrow-dark": (360, "dark"),
}


def main() -> None:
    """Take them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="PNG of the page, wide and light")
    parser.add_argument("--all", type=Path, help="directory for every look")
    parser.add_argument("--points", type=int, default=15_400)
    given = parser.parse_args()
    configure_logging(LogConfig(level="warning"))
    for kernel in ("linear", "rbf") if given.all else ("linear",):
        with tempfile.TemporaryDirectory() as work, EmbeddedBroker() as broker:
            home = Path(work)
            with staged(broker.connection, "candidates", home / "state", kernel=kernel) as stage:
                for begin in range(0, given.points, 1_000):
                    stage.produce(min(1_000, given.points - begin), bad=3 if begin == 4_000 else 0)
                    stage.settle()
                for look, (width, scheme) in LOOKS.items() if given.all else {"wide-light": (1280, "light")}.items():
                    with chromium(home / look, width, scheme=scheme) as chrome:
                        chrome.get(stage.url)
                        file = given.all / f"{kernel}-{look}.png" if given.all else given.out
                        photograph(chrome, file, width)
    if given.out is not None and not given.all:
        _shrink(given.out)


def _shrink(file: Path) -> None:
    """Keep the upper part of the page."""
    with Image.open(file) as picture:
        upper = picture.convert("RGB").crop((0, 0, picture.width, min(picture.height, HEIGHT)))
    upper.save(file, optimize=True)


if __name__ == "__main__":
    main()

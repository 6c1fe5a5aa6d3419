"""`python -m tests.fuzz NAME --more N --json FILE`: N cases beyond those of FILE; exit 1 if any case escaped.

NAME `all` takes the targets one after the other, N of each, and a folder for FILE.
"""

from __future__ import annotations

import argparse
import gc
import sys
from pathlib import Path

from tests.fuzz.every_target import TARGETS
from tests.fuzz.running import Found, run


def main() -> int:
    """Run what is asked for; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("name", choices=[*TARGETS, "all"])
    parser.add_argument("--more", type=int, default=10_000, help="cases beyond those of FILE")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=None)
    asked = parser.parse_args()
    gc.freeze()  # what was imported is never garbage: a quarter of the time went into looking whether it is
    escapes = 0
    for name in TARGETS if asked.name == "all" else [asked.name]:
        path = asked.json / f"{name}.json" if asked.json and asked.name == "all" else asked.json
        count = Found.load(path, name, asked.seed).tried + asked.more
        found = run(TARGETS[name], count, seed=asked.seed, path=path)
        escapes += found.escapes
        rate = found.tried / found.seconds if found.seconds else 0.0
        said = ", ".join(f"{count:,} {word}" for word, count in found.outcomes.items())
        print(f"{name}: {found.tried:,} cases, {rate:,.0f}/s, {found.peak_mb:.0f} MB: {said}", flush=True)
        for one in found.kept[:5]:
            print(f"  case {one['index']}: {bytes.fromhex(str(one['value']))[:200]!r}\n{one['error']}", flush=True)
    return 1 if escapes else 0


if __name__ == "__main__":
    sys.exit(main())

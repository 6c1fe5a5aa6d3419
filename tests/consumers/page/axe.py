"""axe-core, the checker of accessibility: fetched by npm once into a cache, and run inside of the page under test."""

from __future__ import annotations

from pathlib import Path

from tests.npm import packages

MANIFEST = Path(__file__).parent / "package.json"
INSTALL_TIMEOUT_S = 60.0


def checker() -> str:
    """Return the text of axe-core's script.

    Raises
    ------
    CannotRun
        If it cannot be had here.
    """
    return (packages(MANIFEST, "axe", INSTALL_TIMEOUT_S) / "axe-core" / "axe.min.js").read_text()

"""Bytes that earlier builds wrote, with what they mean: every later build reads them the same.

A folder a release, named by the release that first wrote what is in it; `tests.golden.frozen` holds it still.
"""

from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent / "0.1.0"
"""Where the bytes of this release are."""

"""How much memory a part of a file may take, where files are compressed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from streamsvm.errors import ConfigurationError

PART_BYTES: Final = 1 << 30
"""What a part of any size may take."""
EXPANSION: Final = 64
"""What a larger one may take for each of its bytes in the file. Numbers that differ shrink to a tenth at best; a
kilobyte of zeros can be written in a byte."""


def require_bounded(path: Path, part: str, needed: int, stored: int) -> None:
    """Refuse a part that would take too much memory, before any is taken.

    Raises
    ------
    ConfigurationError
    """
    if needed > max(PART_BYTES, EXPANSION * stored):
        raise ConfigurationError(
            f"{path}: {part} has {stored:,} bytes, and would take {needed:,} in memory",
            "Write the file anew in smaller row groups, record batches or pages; or leave it out.",
        )

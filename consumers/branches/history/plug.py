"""What history plugs in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PLUGS: Final[Mapping[str, tuple[str, ...]]] = {
    "trainer": ("consumers.branches.history.wanted:TRAINER",),
}

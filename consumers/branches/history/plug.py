"""What history plugs in among the daemons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PLUGS: Final[Mapping[str, tuple[str, ...]]] = {
    "settings": ("consumers.branches.history.settings:ARCHIVE",),
    "trainer": ("consumers.branches.history.wanted:TRAINER",),
}

"""What history plugs in among the daemons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PLUGS: Final[Mapping[str, tuple[str, ...]]] = {
    "commands": (
        "consumers.branches.history.refine_command:REFINE",
        "consumers.branches.history.archive_commands:BUILD",
        "consumers.branches.history.archive_commands:ARCHIVE",
        "consumers.branches.history.archive_commands:FORGET",
    ),
    "settings": ("consumers.branches.history.settings:ARCHIVE",),
    "trainer": ("consumers.branches.history.wanted:TRAINER",),
}

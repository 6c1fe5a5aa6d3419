"""What history plugs in among the daemons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PLUGS: Final[Mapping[str, tuple[str, ...]]] = {
    "row_stores": (
        "consumers.branches.history.stores:ARCHIVED",
        "consumers.branches.history.stores:SET_ASIDE",
    ),
    "shown_facts": ("consumers.branches.history.showing:SHOWN",),
    "verifiers": ("consumers.branches.history.verifying:VERIFIES",),
    "commands": ("consumers.branches.history.history_commands:HISTORY",),
    "settings": (
        "consumers.branches.history.settings:ARCHIVE",
        "consumers.branches.history.settings:KEPT",
        "consumers.branches.history.settings:DELETES",
    ),
    "trainer": (
        "consumers.branches.history.wanted:TRAINER",
        "consumers.branches.history.wanted:DELETES",
    ),
    "status": ("consumers.branches.history.status:BLOCK",),
    "trainer_metrics": (
        "consumers.branches.history.metrics:OF_DELETES",
        "consumers.branches.history.metrics:OF_ERASURE",
        "consumers.branches.history.metrics:TRAINER",
    ),
}

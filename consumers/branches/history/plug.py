"""What history plugs in among the daemons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PLUGS: Final[Mapping[str, tuple[str, ...]]] = {
    "shown_facts": ("consumers.branches.history.showing:SHOWN",),
    "verifiers": ("consumers.branches.history.verifying:VERIFIES",),
    "commands": ("consumers.branches.history.history_commands:HISTORY",),
    "settings": ("consumers.branches.history.settings:KEPT",),
    "trainer": ("consumers.branches.history.wanted:TRAINER",),
    "status": ("consumers.branches.history.status:BLOCK",),
    "trainer_metrics": ("consumers.branches.history.metrics:OF_ERASURE",),
}

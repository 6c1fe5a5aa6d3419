"""What challenges plug in among the daemons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PLUGS: Final[Mapping[str, tuple[str, ...]]] = {
    "commands": ("consumers.branches.challenges.served_command:SERVED",),
    "judges": ("consumers.branches.challenges.judging:JUDGE",),
    "kernels": ("consumers.branches.challenges.wanted:KERNELS",),
    "scorer": ("consumers.branches.challenges.wanted_shadow:SCORER",),
    "settings": (
        "consumers.branches.challenges.settings:GATE",
        "consumers.branches.challenges.settings:SHADOW",
    ),
    "status": ("consumers.branches.challenges.status:BLOCK",),
    "trainer_metrics": ("consumers.branches.challenges.metrics:TRAINER",),
    "scorer_metrics": ("consumers.branches.challenges.metrics:SCORER",),
    "trainer": ("consumers.branches.challenges.wanted:TRAINER",),
}

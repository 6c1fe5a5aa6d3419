"""What challenges plug in among the daemons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PLUGS: Final[Mapping[str, tuple[str, ...]]] = {
    "settings": (
        "consumers.branches.challenges.settings:GATE",
        "consumers.branches.challenges.settings:SHADOW",
    ),
    "trainer_metrics": ("consumers.branches.challenges.metrics:TRAINER",),
    "scorer_metrics": ("consumers.branches.challenges.metrics:SCORER",),
    "trainer": ("consumers.branches.challenges.wanted:TRAINER",),
}

"""What workers plug in among the daemons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PLUGS: Final[Mapping[str, tuple[str, ...]]] = {
    "commands": ("consumers.branches.workers.commands:WORKER",),
    "train_flags": ("consumers.branches.workers.commands:FROM_CORESETS",),
    "topics": ("consumers.branches.workers.coresets_topic:TOPICS",),
    "settings": (
        "consumers.branches.workers.settings:TRAINING",
        "consumers.branches.workers.settings:WORKER",
    ),
    "trainer_metrics": ("consumers.branches.workers.metrics:TRAINER",),
    "daemon_metrics": ("consumers.branches.workers.metrics:DAEMON",),
    "trainer": ("consumers.branches.workers.wanted:TRAINER",),
}

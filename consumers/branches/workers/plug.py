"""What workers plug in among the daemons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PLUGS: Final[Mapping[str, tuple[str, ...]]] = {
    "settings": (
        "consumers.branches.workers.settings:TRAINING",
        "consumers.branches.workers.settings:WORKER",
    ),
    "trainer": ("consumers.branches.workers.wanted:TRAINER",),
}

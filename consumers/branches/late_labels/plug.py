"""What late labels plug in among the daemons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PLUGS: Final[Mapping[str, tuple[str, ...]]] = {
    "kernels": ("consumers.branches.late_labels.wanted:KERNELS",),
    "shown_facts": ("consumers.branches.late_labels.showing:SHOWN",),
    "verifiers": ("consumers.branches.late_labels.verifying:VERIFIES",),
    "settings": ("consumers.branches.late_labels.settings:LABELS",),
    "status": ("consumers.branches.late_labels.status:BLOCK",),
    "trainer": ("consumers.branches.late_labels.wanted:TRAINER",),
    "trainer_metrics": ("consumers.branches.late_labels.metrics:TRAINER",),
}

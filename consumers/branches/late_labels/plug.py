"""What this branch has for the sockets of the daemons."""

from typing import Final

PLUGS: Final = {
    "settings": ("consumers.branches.late_labels.settings:LABELS",),
    "trainer_metrics": ("consumers.branches.late_labels.metrics:TRAINER",),
}

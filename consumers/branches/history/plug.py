"""What this branch has for the sockets of the daemons."""

from typing import Final

PLUGS: Final = {
    "settings": ("consumers.branches.history.settings:ARCHIVE",),
    "trainer_metrics": ("consumers.branches.history.metrics:TRAINER",),
}

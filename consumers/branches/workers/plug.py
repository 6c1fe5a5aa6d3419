"""What this branch has for the sockets of the daemons."""

from typing import Final

PLUGS: Final = {
    "settings": (
        "consumers.branches.workers.settings:TRAINING",
        "consumers.branches.workers.settings:WORKER",
    ),
    "trainer_metrics": (
        "consumers.branches.workers.metrics:ADOPTING",
        "consumers.branches.workers.metrics:TRAINER",
    ),
    "daemon_metrics": ("consumers.branches.workers.metrics:DAEMON",),
}

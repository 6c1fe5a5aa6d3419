"""What this branch has for the sockets of the daemons."""

from typing import Final

PLUGS: Final = {
    "settings": (
        "consumers.branches.challenges.settings:GATE",
        "consumers.branches.challenges.settings:SHADOW",
    ),
    "trainer_metrics": ("consumers.branches.challenges.metrics:TRAINER",),
    "scorer_metrics": ("consumers.branches.challenges.metrics:SCORER",),
}

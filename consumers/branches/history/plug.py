"""What the branch has for which socket."""

from typing import Final

PLUGS: Final = {
    "shown_facts": ("consumers.branches.history.showing:SHOWN",),
    "verifiers": ("consumers.branches.history.verifying:VERIFIES",),
    "commands": (
        "consumers.branches.history.refine_command:REFINE",
        "consumers.branches.history.archive_commands:BUILD",
        "consumers.branches.history.archive_commands:ARCHIVE",
        "consumers.branches.history.archive_commands:FORGET",
    ),
}

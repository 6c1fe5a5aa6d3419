"""What the branch has for which socket."""

from typing import Final

PLUGS: Final = {
    "commands": (
        "consumers.branches.history.refine_command:REFINE",
        "consumers.branches.history.archive_commands:BUILD",
        "consumers.branches.history.archive_commands:ARCHIVE",
        "consumers.branches.history.archive_commands:FORGET",
    ),
}

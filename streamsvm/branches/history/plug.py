"""What the branch has for which socket."""

from typing import Final

PLUGS: Final = {
    "message_parts": (
        "streamsvm.branches.history.built_part:PART",
        "streamsvm.branches.history.refined_part:PART",
    ),
    "checkpoint_parts": ("streamsvm.branches.history.erased_part:PLUGGED",),
}

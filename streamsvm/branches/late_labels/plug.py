"""What this branch has for the sockets of the library."""

from typing import Final

PLUGS: Final = {
    "model_options": ("streamsvm.branches.late_labels.options:OPTIONS",),
    "message_parts": ("streamsvm.branches.late_labels.labels_part:PART",),
    "checkpoint_parts": (
        "streamsvm.branches.late_labels.checkpoint_parts:SNAPSHOT",
        "streamsvm.branches.late_labels.checkpoint_parts:PARTITION",
        "streamsvm.branches.late_labels.checkpoint_parts:CUT",
    ),
}

"""What this branch has for the sockets of the library."""

from typing import Final

PLUGS: Final = {
    "supports": (
        "streamsvm.branches.late_labels.combinations:LATE_ROWS",
        "streamsvm.branches.late_labels.combinations:EVALUATE_ROWS",
    ),
    "model_options": ("streamsvm.branches.late_labels.options:OPTIONS",),
    "message_parts": ("streamsvm.branches.late_labels.labels_part:PART",),
    "state_kinds": ("streamsvm.branches.late_labels.joining:KINDS",),
}

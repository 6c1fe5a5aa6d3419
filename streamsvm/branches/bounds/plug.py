"""What the branch has for which socket."""

from typing import Final

PLUGS: Final = {
    "accounting": ("streamsvm.branches.bounds.accounting:TOTALS",),
    "checkpoint_parts": (
        "streamsvm.branches.bounds.checkpoint_parts:OF_BUCKET",
        "streamsvm.branches.bounds.checkpoint_parts:OF_LEAF",
        "streamsvm.branches.bounds.checkpoint_parts:OF_SCREEN",
        "streamsvm.branches.bounds.checkpoint_parts:OF_CUT",
    ),
}

"""What the branch has for which socket."""

from typing import Final

PLUGS: Final = {
    "accounting": ("streamsvm.branches.bounds.accounting:TOTALS",),
    "certifying": ("streamsvm.branches.bounds.certificate.certifying:CERTIFYING",),
    "version_bounds": ("streamsvm.branches.bounds.certified:PLUGGED",),
    "checkpoint_parts": (
        "streamsvm.branches.bounds.checkpoint_parts:OF_BUCKET",
        "streamsvm.branches.bounds.checkpoint_parts:OF_LEAF",
        "streamsvm.branches.bounds.checkpoint_parts:OF_SCREEN",
        "streamsvm.branches.bounds.checkpoint_parts:OF_CUT",
    ),
}

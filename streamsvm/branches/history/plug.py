"""What the branch has for which socket."""

from typing import Final

PLUGS: Final = {
    "message_parts": ("streamsvm.branches.history.without_part:PART",),
    "supports": ("streamsvm.branches.history.combinations:ROWS",),
    "left_out": ("streamsvm.branches.history.erased:READER",),
    "state_kinds": ("streamsvm.branches.history.erased_part:KINDS",),
}

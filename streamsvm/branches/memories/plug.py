"""What the branch has for which socket."""

from typing import Final

PLUGS: Final = {
    "memories": (
        "streamsvm.branches.memories.kinds:WINDOW",
        "streamsvm.branches.memories.kinds:DECAY",
        "streamsvm.branches.memories.kinds:ADAPTIVE",
    ),
    "checkpoint_parts": ("streamsvm.branches.memories.checkpoint_parts:PLUGGED",),
    "voting_forms": ("streamsvm.branches.memories.checkpoint_parts:PlacedVoting",),
}

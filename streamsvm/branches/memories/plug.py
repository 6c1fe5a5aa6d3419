"""What the branch has for which socket."""

from typing import Final

from streamsvm.learning.memory_kinds import MemoryKind

_WHERE: Final = "streamsvm.branches.memories.forgetful:ForgetfulMemory"
WINDOW: Final = MemoryKind("window", _WHERE)
DECAY: Final = MemoryKind("decay", _WHERE)
ADAPTIVE: Final = MemoryKind("adaptive", _WHERE)

PLUGS: Final = {
    "memories": (
        "streamsvm.branches.memories.plug:WINDOW",
        "streamsvm.branches.memories.plug:DECAY",
        "streamsvm.branches.memories.plug:ADAPTIVE",
    ),
    "checkpoint_parts": ("streamsvm.branches.memories.checkpoint_parts:PLUGGED",),
    "voting_forms": ("streamsvm.branches.memories.checkpoint_parts:PlacedVoting",),
}

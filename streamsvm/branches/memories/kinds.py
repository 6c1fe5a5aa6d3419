"""The memories of this branch, by the name that `coreset.memory` has for each."""

from __future__ import annotations

from typing import Final

from streamsvm.learning.memory_kinds import MemoryKind

_WHERE: Final = "streamsvm.branches.memories.forgetful:ForgetfulMemory"
WINDOW: Final = MemoryKind("window", _WHERE)
DECAY: Final = MemoryKind("decay", _WHERE)
ADAPTIVE: Final = MemoryKind("adaptive", _WHERE)

"""Which memories there are, by the name that `coreset.memory` has for each: the trunk's, and those that are plugged in.

Nothing that learns is loaded before a memory is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from streamsvm.sockets import plugged

SOCKET: Final = "memories"


@dataclass(frozen=True, slots=True)
class MemoryKind:
    """A memory that can be chosen.

    Attributes
    ----------
    name : str
        In `coreset.memory`.
    where : str
        `module:name` of a class of `streamsvm.learning.memories.PartitionMemory`.
    """

    name: str
    where: str


EVERYTHING: Final = MemoryKind("all", "streamsvm.learning.memories:EverythingKept")


@cache
def memory_kinds() -> dict[str, MemoryKind]:
    """Return all kinds by name."""
    return {kind.name: kind for kind in (EVERYTHING, *plugged(SOCKET, MemoryKind))}


def memory_kind(name: str) -> MemoryKind:
    """Return a kind by name.

    Raises
    ------
    ValueError
        If nothing of this name is plugged in.
    """
    known = memory_kinds()
    if name not in known:
        raise ValueError(f"coreset.memory = {name} is not available in this build. Available: {', '.join(known)}")
    return known[name]

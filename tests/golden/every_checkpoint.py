"""Every golden checkpoint: those of the trunk, and those of each branch from the module `golden` of its tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from streamsvm.checkpoint import Snapshot
from tests.golden.checkpoint import handmade, handmade_taken
from tests.plugged import of_branches

OWN: Final[Mapping[str, Callable[[], Snapshot]]] = {
    "checkpoint-1": handmade,
    "checkpoint-1-taken": handmade_taken,
}
HANDMADE: Final = {name: make for found in (OWN, *of_branches("golden", "CHECKPOINTS")) for name, make in found.items()}
"""What makes the snapshot of each golden file."""

PARTS: Final[tuple[tuple[str, str, str], ...]] = tuple(one for found in of_branches("golden", "PARTS") for one in found)
"""In which object of which golden file which named part stands."""

"""Every golden checkpoint: those of the trunk, and those of each branch from the module `golden` of its tests.

``python -m tests.golden.every_checkpoint`` writes the files where there are none. It never changes one: what was once
released stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from streamsvm.checkpoint import Snapshot, encode
from tests.golden import HERE
from tests.golden.checkpoint import as_json, handmade, handmade_taken
from tests.plugged import of_branches

OWN: Final[Mapping[str, Callable[[], Snapshot]]] = {
    "checkpoint-1": handmade,
    "checkpoint-1-taken": handmade_taken,
}
HANDMADE: Final = {name: make for found in (OWN, *of_branches("golden", "CHECKPOINTS")) for name, make in found.items()}
"""What makes the snapshot of each golden file."""

PARTS: Final[tuple[tuple[str, str, str], ...]] = tuple(one for found in of_branches("golden", "PARTS") for one in found)
"""In which object of which golden file which named part stands."""


if __name__ == "__main__":
    for name, make in HANDMADE.items():
        for path, content in (
            (HERE / f"{name}.ssvm", encode(make())),
            (HERE / f"{name}.json", json.dumps(as_json(make()), indent=1).encode() + b"\n"),
        ):
            if not path.exists():
                path.write_bytes(content)

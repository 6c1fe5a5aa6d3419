"""The golden checkpoint under a record of erased rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from streamsvm.branches.history.erased_part import Obeyed, obeying
from streamsvm.checkpoint import Snapshot

OBEYED: Final = Obeyed(sha256="0e" * 32, continues=1, rows=3, rows_sha256="1f" * 32)
SNAPSHOTS: Final[Mapping[str, Callable[[Snapshot], Snapshot]]] = {
    "checkpoint-1-erased": lambda saved: obeying(saved, OBEYED)
}

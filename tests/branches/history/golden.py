"""The golden checkpoint under a record of erased rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from streamsvm.branches.history.erased_part import Obeyed, obeying
from streamsvm.branches.history.without_part import WithoutRows
from streamsvm.checkpoint import Snapshot
from streamsvm.model import Lineage
from tests.golden.checkpoint import handmade


def handmade_erased() -> Snapshot:
    """Return the same, made under a record of erased rows."""
    return obeying(handmade(), Obeyed(sha256="0e" * 32, continues=1, rows=2, rows_sha256="1f" * 32))


def without(_: Lineage) -> WithoutRows:
    """Return what it says of the record of erased rows that it obeys."""
    return WithoutRows(sha256="0e" * 32)


CHECKPOINTS: Final[Mapping[str, Callable[[], Snapshot]]] = {"checkpoint-1-erased": handmade_erased}
PARTS: Final = (("snapshot", "checkpoint-1-erased", "erased"),)
FACTS: Final = {"without": without}

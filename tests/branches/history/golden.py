"""The golden checkpoint under a record of erased rows, and what a version says of how it was built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from streamsvm.branches.history.built_part import Built, BuiltOf
from streamsvm.branches.history.deletes_part import DeletesApplied
from streamsvm.branches.history.erased_part import Obeyed, obeying
from streamsvm.branches.history.without_part import WithoutRows
from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.model.version import Lineage
from tests.golden.checkpoint import handmade


def handmade_erased() -> Snapshot:
    """Return the same, made under a record of erased rows."""
    return obeying(handmade(), Obeyed(sha256="0e" * 32, continues=1, rows=2, rows_sha256="1f" * 32))


def built(lineage: Lineage) -> Built:
    """Return what the golden version of a whole lineage says of its stretch."""
    parts = tuple(
        BuiltOf(
            partition=one.partition,
            start=(begun.offset, begun.row),
            end=(one.offset, one.row),
            level=0,
            first_row=0,
            sha256="",
        )
        for begun, one in zip(lineage.base, lineage.cut, strict=True)
    )
    return Built(
        model="clicks",
        erased="0e" * 32,
        parts=parts,
        leaf_rows=10,
        span_rows=80,
        bucket_points=20,
        since_ms=None,
        until_ms=1_700_000_000_000,
        without_ms=((1_600_000_000_000, 1_600_000_001_000),),
        exact=False,
        forgotten=((0, 12, 0),),
    )


def deletes(_: Lineage) -> DeletesApplied:
    """Return what it says of deletes that come as records."""
    return DeletesApplied(topic="deletes", topic_id="", by="id", cut=((0, 3), (1, 0)), input=((0, 40),))


def without(_: Lineage) -> WithoutRows:
    """Return what it says of the record of erased rows that it obeys."""
    return WithoutRows(sha256="0e" * 32)


CHECKPOINTS: Final[Mapping[str, Callable[[], Snapshot]]] = {"checkpoint-1-erased": handmade_erased}
PARTS: Final = (("snapshot", "checkpoint-1-erased", "erased"),)
FACTS: Final = {"built": built, "deletes": deletes, "without": without}
WRONG: Final = (
    ("parts.info_built", "parts", []),
    ("parts.info_without", "sha256", "ab"),
    ("parts.info_deletes", "cut", [[0, -1]]),
)
"""Values that no version has: where they stand, the field, the value."""

"""The part ``join``: what a checkpoint has besides where labels come from a log of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.branches.late_labels.joining import PART, Joining, joining_of, with_joining
from streamsvm.checkpoint.forms import Form, OptionalPart, Pairs, PlacedArray, PlacedPoints, describes
from streamsvm.checkpoint.parts import PartOf
from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.coreset.partition import PartitionState
from streamsvm.errors import CorruptCheckpoint
from streamsvm.joining.rows import LEFT_OUT, JoinState, LogState
from streamsvm.learning.learner import Cut
from streamsvm.points import Points, Position, Rows, Times

_DTYPES: Final = (np.uint64, np.int64, np.int64, np.int32, np.int8)


def _require_columns(what: str, length: int, columns: Mapping[str, NDArray[Any]], dtypes: tuple[type, ...]) -> None:
    """Refuse columns that are not of one length, each of its type."""
    for (name, column), dtype in zip(columns.items(), dtypes, strict=True):
        if column.shape != (length,) or column.dtype != dtype:
            raise CorruptCheckpoint(f"{name} of {what} is described as {column.dtype} {column.shape}")


@describes(LogState)
class PlacedJoinLog(Form):
    """Describes how far a log is merged."""

    next: Position
    time_ms: int
    leader_epoch: int


def _check_join(state: JoinState) -> None:
    for kind, length in (("row", len(state.row_points)), ("early", state.early_key.size)):
        names = (f"{kind}_{name}" for name in ("key", "time", "offset", "row", "sign"))
        _require_columns("a join", length, {name: getattr(state, name) for name in names}, _DTYPES)


@describes(JoinState, check=_check_join)
class PlacedJoin(Form):
    """Describes the join of a partition."""

    features: PlacedJoinLog
    labels: PlacedJoinLog
    scalars: tuple[int, int, int, int]
    counts: tuple[int, ...]
    row_key: PlacedArray
    row_time: PlacedArray
    row_offset: PlacedArray
    row_row: PlacedArray
    row_sign: PlacedArray
    row_points: PlacedPoints
    early_key: PlacedArray
    early_time: PlacedArray
    early_offset: PlacedArray
    early_row: PlacedArray
    early_sign: PlacedArray


def _waiting(points: Points, labels_offset: NDArray[Any], **columns: Any) -> Rows:
    n = len(points)
    every = {**columns, "labels_offset": labels_offset}
    _require_columns("rows that wait", n, every, (np.int64,) * len(every))
    accepted, last = points.weight > LEFT_OUT, np.zeros(n, np.bool_)
    times = Times.of(columns.pop("time_ms"))
    return Rows(
        partition=-1, last=last, times=times, accepted=accepted, points=points, beside_offset=labels_offset, **columns
    )


@dataclass(frozen=True, slots=True)
class _Waiting:
    offset: NDArray[np.int64]
    row: NDArray[np.int64]
    time_ms: NDArray[np.int64]
    leader_epoch: NDArray[np.int64]
    labels_offset: NDArray[np.int64] | None
    points: Points


@describes(_Waiting, make=_waiting)
class PlacedWaiting(Form):
    """Describes rows that are joined and wait to be learned."""

    offset: PlacedArray
    row: PlacedArray
    time_ms: PlacedArray
    leader_epoch: PlacedArray
    labels_offset: PlacedArray
    points: PlacedPoints


class SnapshotJoin(Form, tag_field="part", tag=PART):
    """Of a snapshot: the log of the labels, and the joins of partitions."""

    topic: str
    topic_id: str
    base: Pairs[Position]
    partitions: Pairs[PlacedJoin]
    waiting: Pairs[PlacedWaiting]


class PartitionJoin(Form, tag_field="part", tag=PART):
    """Of a partition: the offset after the newest record of the labels log that counted."""

    labels_offset: int


class CutJoin(Form, tag_field="part", tag=PART):
    """Of a cut: the same of each partition."""

    labels_offsets: Pairs[int]


def _of_snapshot(snapshot: Snapshot) -> Mapping[str, Any]:
    own = joining_of(snapshot)
    assert own is not None
    waiting = {
        partition: _Waiting(rows.offset, rows.row, rows.time_ms, rows.leader_epoch, rows.beside_offset, rows.points)
        for partition, rows in own.waiting.items()
    }
    return {name: getattr(own, name) for name in SnapshotJoin.__struct_fields__} | {"waiting": waiting}


def _with_snapshot(
    snapshot: Snapshot, base: Pairs[Position], partitions: Pairs[JoinState], waiting: Pairs[Rows], **fields: str
) -> Snapshot:
    joining = Joining(
        base=dict(base),
        partitions=dict(partitions),
        waiting={partition: replace(rows, partition=partition) for partition, rows in waiting},
        **fields,
    )
    return with_joining(snapshot, joining)


def _with_cut(cut: Cut, labels_offsets: Pairs[int]) -> Cut:
    return replace(cut, beside_offsets=dict(labels_offsets))


def _with_partition(state: PartitionState, labels_offset: int) -> PartitionState:
    return replace(state, beside_offset=labels_offset)


SNAPSHOT: Final = PartOf(
    "snapshot",
    OptionalPart(
        form=SnapshotJoin,
        has=lambda snapshot: joining_of(snapshot) is not None,
        of=_of_snapshot,
        joined=_with_snapshot,
    ),
)
PARTITION: Final = PartOf(
    "partition",
    OptionalPart(
        form=PartitionJoin,
        has=lambda state: state.beside_offset >= 0,
        of=lambda state: {"labels_offset": state.beside_offset},
        joined=_with_partition,
    ),
)
CUT: Final = PartOf(
    "cut",
    OptionalPart(
        form=CutJoin,
        has=lambda cut: bool(cut.beside_offsets),
        of=lambda cut: {"labels_offsets": cut.beside_offsets},
        joined=_with_cut,
    ),
)

"""Checkpoints as bytes, in the one format, number 1.

`streamsvm.checkpoint.framing` has the frame, ``CHECKPOINT.md``, in the package above, every object of the header. The
part of each partition is independent of the others: position, leader epoch, buckets, open leaf, the exact moments of
each, and the audit sample, or that of each label.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Final, TypeVar

from streamsvm.checkpoint.forms import (
    Form,
    Pairs,
    PlacedExtent,
    PlacedMoments,
    PlacedParts,
    PlacedPoints,
    PlacedReservoir,
    PlacedSampled,
    StateReader,
    StateWriter,
    describes,
)
from streamsvm.checkpoint.framing import RecordFormat
from streamsvm.checkpoint.partition_codec import (
    PARTITION_PARTS,
    PlacedBucket,
    PlacedPartition,
    PlacedScreened,
    partition_state,
)
from streamsvm.checkpoint.parts import parts_of
from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.coreset.audit_sample import Held
from streamsvm.coreset.buckets import Bucket
from streamsvm.coreset.partition import PartitionState
from streamsvm.errors import CorruptCheckpoint
from streamsvm.learning.learner import Cut, LearnerState
from streamsvm.model.pointers import Head
from streamsvm.points import Points, Position

_Result = TypeVar("_Result")

_ANEW: Final = (
    "or start under a new name; or move the checkpoints away and start again: the trainer then prints the --reset that "
    "begins anew."
)
FILE: Final = RecordFormat(b"SSVMCKPT", "file", f"Use the build that wrote it; {_ANEW}")


def _cut(positions: Pairs[Position], leader_epochs: Pairs[int], **fields: Any) -> Cut:
    return Cut(positions=dict(positions), leader_epochs=dict(leader_epochs), **fields)


@describes(Cut, make=_cut, parts=parts_of("cut"))
class PlacedCut(Form):
    """Describes a cut with its training set."""

    positions: Pairs[Position]
    leader_epochs: Pairs[int]
    points: PlacedPoints
    moments: PlacedMoments
    rows: int
    first_time_ms: int
    last_time_ms: int
    audit: tuple[PlacedSampled, ...]
    parts: PlacedParts


@describes(None, make=partition_state, parts=PARTITION_PARTS)
class PlacedTaken(Form):
    """Describes what a partition was when a cut was taken, by reference to what it is where that is still the same."""

    partition: int
    buckets: tuple[int | PlacedBucket, ...]
    leaf_points: int | PlacedPoints
    audit: tuple[bool | PlacedReservoir, ...]
    sealed: int
    leader_epoch: int
    leaf_extent: PlacedExtent
    screened: PlacedScreened | None
    parts: PlacedParts


def _snapshot(
    partitions: Mapping[int, PartitionState],
    leaves_since_cut: int,
    pending: Cut | None,
    taken: Mapping[int, PartitionState] | None,
    base: Pairs[Position],
    read_to: Pairs[int],
    **fields: Any,
) -> Snapshot:
    if pending is not None and taken is not None:
        raise CorruptCheckpoint("there are two pending cuts")
    return Snapshot(
        learner=LearnerState(partitions, leaves_since_cut),
        pending=pending if taken is None else LearnerState(taken, 0),
        base=dict(base),
        read_to=dict(read_to),
        **fields,
    )


@describes(None, make=_snapshot, parts=parts_of("snapshot"))
class PlacedSnapshot(Form):
    """The header of a checkpoint."""

    name: str
    incarnation: int
    sequence: int
    topic: str
    topic_id: str
    base: Pairs[Position]
    configuration: dict[str, Any]
    configuration_sha256: str
    build: dict[str, str]
    head: Head | None
    leaves_since_cut: int
    partitions: tuple[PlacedPartition, ...]
    pending: PlacedCut | None
    taken: tuple[PlacedTaken, ...] | None
    read_to: Pairs[int]
    parts: PlacedParts


def encode(snapshot: Snapshot) -> bytes:
    """Encode a snapshot: the same snapshot gives the same bytes."""
    return finished(encoding(snapshot))


def finished(steps: Generator[None, None, _Result]) -> _Result:
    """Return what steps come to, after taking all of them."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _Result = end.value
            return result


def encoding(snapshot: Snapshot) -> Generator[None, None, bytes]:
    """Encode a snapshot as `encode` does, a partition a step; what happens between two steps changes nothing."""
    writer, learner, pending = StateWriter(), snapshot.learner, snapshot.pending
    partitions: list[PlacedPartition] = []
    for partition, state in sorted(learner.partitions.items()):
        partitions.append(writer.described(PlacedPartition, state, partition=partition))
        yield
    taken: tuple[PlacedTaken, ...] | None = None
    waits = writer.value(pending) if isinstance(pending, Cut) else None
    if isinstance(pending, LearnerState):
        taken = yield from _taken(writer, pending, learner)
    header = writer.described(
        PlacedSnapshot,
        snapshot,
        configuration=snapshot.configuration,
        build=snapshot.build,
        leaves_since_cut=learner.leaves_since_cut,
        partitions=tuple(partitions),
        pending=waits,
        taken=taken,
    )
    yield
    return FILE.framed(header, writer)


def decode(content: bytes) -> Snapshot:
    """Decode a snapshot.

    Raises
    ------
    CorruptCheckpoint
        If a byte is damaged, the file is cut short, its format is another one, or it has a part that is not known.
    """
    header, reader = FILE.opened(content, PlacedSnapshot)
    if wrote := header.build.get("streamsvm"):
        reader.remedy = f"Use streamsvm {wrote}, which wrote it, or a newer one; {_ANEW}"
    partitions = {placed.partition: reader.value(placed) for placed in header.partitions}
    snapshot = reader.made(
        header,
        partitions=partitions,
        pending=reader.value(header.pending),
        taken=None if header.taken is None else _were(reader, header.taken, partitions),
    )
    assert isinstance(snapshot, Snapshot)
    reader.end()
    return snapshot


def _taken(
    writer: StateWriter, then: LearnerState, now: LearnerState
) -> Generator[None, None, tuple[PlacedTaken, ...]]:
    taken: list[PlacedTaken] = []
    for partition, state in sorted(then.partitions.items()):
        taken.append(_taken_partition(writer, partition, state, now.partitions[partition]))
        yield
    return tuple(taken)


def _taken_partition(writer: StateWriter, partition: int, then: PartitionState, now: PartitionState) -> PlacedTaken:
    places = {(bucket.level, bucket.index): place for place, bucket in enumerate(now.buckets)}
    known = [places.get((bucket.level, bucket.index), -1) for bucket in then.buckets]
    leaf_points = len(then.leaf_points)
    leaf_is_known = _same(then.leaf_points, now.leaf_points.take(slice(0, leaf_points)))
    return writer.described(
        PlacedTaken,
        then,
        partition=partition,
        buckets=tuple(
            place if place >= 0 and _same(bucket.points, now.buckets[place].points) else writer.value(bucket)
            for place, bucket in zip(known, then.buckets, strict=True)
        ),
        leaf_points=leaf_points if leaf_is_known else writer.value(then.leaf_points),
        audit=tuple(
            _same_sample(old, new) or writer.value(old) for old, new in zip(then.audit, now.audit, strict=True)
        ),
    )


def _same_sample(then: Held, now: Held) -> bool:
    same = then.threshold == now.threshold and _same(then.points, now.points)
    return same and then.priority.tobytes() == now.priority.tobytes()


def _same(one: Points, other: Points) -> bool:
    """Return whether two sets have the same bytes."""
    if one.X is other.X:
        return True
    pairs = ((one.X, other.X), (one.y, other.y), (one.weight, other.weight))
    return all(own.shape == its.shape and own.tobytes() == its.tobytes() for own, its in pairs)


def _were(
    reader: StateReader, taken: tuple[PlacedTaken, ...], now: Mapping[int, PartitionState]
) -> dict[int, PartitionState]:
    """Read what partitions were when a cut was taken.

    Raises
    ------
    CorruptCheckpoint
        If one names what the partition does not have.
    """
    missing = [placed.partition for placed in taken if placed.partition not in now]
    if missing:
        raise CorruptCheckpoint(f"a cut is of partition {missing[0]}, which the learner does not have")
    return {placed.partition: _was(reader, placed, now[placed.partition]) for placed in taken}


def _was(reader: StateReader, placed: PlacedTaken, now: PartitionState) -> Any:
    buckets = tuple(_at(now.buckets, one) if isinstance(one, int) else reader.value(one) for one in placed.buckets)
    leaf = placed.leaf_points
    points = _first(now.leaf_points, leaf) if isinstance(leaf, int) else reader.value(leaf)
    if len(placed.audit) != len(now.audit):
        raise CorruptCheckpoint(f"a cut has {len(placed.audit)} audit samples of a partition of {len(now.audit)}")
    audit = tuple(
        known if isinstance(one, bool) else reader.value(one)
        for one, known in zip(placed.audit, now.audit, strict=True)
    )
    return reader.made(placed, buckets=buckets, leaf_points=points, audit=audit)


def _at(buckets: tuple[Bucket, ...], place: int) -> Bucket:
    if not 0 <= place < len(buckets):
        raise CorruptCheckpoint(f"a cut names bucket {place} of a partition that has {len(buckets)}")
    return buckets[place]


def _first(points: Points, n: int) -> Points:
    if not 0 <= n <= len(points):
        raise CorruptCheckpoint(f"a cut names {n} points of an open leaf that has {len(points)}")
    return points.take(slice(0, n))

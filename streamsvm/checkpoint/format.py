"""Checkpoints as bytes: format 6, 7 where something is forgotten, or 8 where labels come from a log of their own.

======  ====  =========================================================================
offset  size  content
======  ====  =========================================================================
0       8     ``SSVMCKPT``
8       4     format version, unsigned, little-endian
12      8     H, the header's length in bytes, unsigned, little-endian
20      H     header: JSON (UTF-8) that names every array by dtype, shape and place
20 + H  B     arrays one after another, little-endian, C order
end-32  32    SHA-256 of everything before
======  ====  =========================================================================

``CHECKPOINT.md``, in the package above, describes the header. The first twelve bytes and the checksum at the end are
the same in every format, past or future, so that a damaged file can be distinguished from one that another build wrote.
The part of each partition is independent of the others: position, leader epoch, buckets, open leaf, the exact moments
of each, and the audit sample, or that of each label.

Invariant: a reader checks the checksum first, and then compares every size with the file's length before it allocates
memory. Each byte of the arrays belongs to exactly one array, so the file's length bounds the memory.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from streamsvm.checkpoint.join_codec import Joining, JoinReader, JoinWriter, PlacedJoining
from streamsvm.checkpoint.partition_codec import (
    PlacedArray,
    PlacedBucket,
    PlacedExtent,
    PlacedForgetful,
    PlacedHeld,
    PlacedLearned,
    PlacedMoments,
    PlacedOwnBucket,
    PlacedPartition,
    PlacedPartition1,
    PlacedPartition3,
    PlacedPartition7,
    PlacedPartition8,
    PlacedPoints,
    PlacedScreened,
    PlacedTotals,
)
from streamsvm.coreset.audit_sample import Held, Sampled
from streamsvm.coreset.forgetting import Horizon
from streamsvm.coreset.structure import Bucket
from streamsvm.coreset.totals import Ledger
from streamsvm.errors import CorruptCheckpoint
from streamsvm.learning.cutting import Cut, HeldOfCut, HeldOfPartition, LearnerState
from streamsvm.learning.partition import PartitionState
from streamsvm.model.pointers import Head
from streamsvm.model.version import PartitionCut, partition_cuts, positions
from streamsvm.points import Points, Position

MAGIC: Final = b"SSVMCKPT"
FORMAT: Final = 6
FORGETFUL_FORMAT: Final = 7
"""Of partitions that forget: their buckets have their own audit samples and say what was learned before them."""
JOINED_FORMAT: Final = 8
"""Where labels are joined: what the joiners are, and what was joined and is not learned yet."""
_PREFIX: Final = struct.Struct("<8sIQ")
_CHECKSUM_BYTES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The learner's state, a pure function of the log, and what it belongs to.

    Attributes
    ----------
    name : str
    incarnation : int
    sequence : int
        Increases by one with each checkpoint written.
    topic, topic_id : str
    base : mapping of partition to Position
        Where this incarnation began.
    configuration : mapping
        The part of the configuration that affects models.
    configuration_sha256 : str
    build : mapping of str to str
    head : Head or None
        The newest head record seen.
    learner : LearnerState
    pending : Cut, LearnerState or None
        A cut that was not published yet: with its training set; or, where that was not made yet, what the learner was
        when the cut was taken.
    read_to : mapping of partition to int
        Offsets past the positions of some partitions. Between position and offset the log held nothing to learn, only
        transaction markers and aborted records.
    joining : Joining or None
        None where labels come with the features.
    """

    name: str
    incarnation: int
    sequence: int
    topic: str
    topic_id: str
    base: Mapping[int, Position]
    configuration: dict[str, Any]
    configuration_sha256: str
    build: dict[str, str]
    head: Head | None
    learner: LearnerState
    pending: Cut | LearnerState | None
    read_to: Mapping[int, int] = field(default_factory=dict)
    joining: Joining | None = None

    @property
    def positions(self) -> dict[int, Position]:
        """The next row to learn of each partition."""
        return self.learner.positions


class _Sampled(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    points: PlacedPoints
    threshold: float
    class_weight: PlacedArray


class _Cut1(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    cut: tuple[PartitionCut, ...]
    points: PlacedPoints
    moments: PlacedMoments
    rows: int
    first_time_ms: int
    last_time_ms: int


class _Ledger(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    points: PlacedPoints | msgspec.UnsetType = msgspec.UNSET
    totals: PlacedTotals


class _Cut(_Cut1, frozen=True, forbid_unknown_fields=True, kw_only=True):
    audit: tuple[_Sampled, ...]
    ledger: _Ledger | msgspec.UnsetType = msgspec.UNSET


class _HeldOfPartition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    partition: int
    oldest: tuple[int, int]
    before: PlacedLearned
    horizons: tuple[tuple[int, float], ...]


class _Held7(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    learned: PlacedLearned
    partitions: tuple[_HeldOfPartition, ...]


class _Cut7(_Cut, frozen=True, forbid_unknown_fields=True, kw_only=True):
    held: _Held7


class _Header1(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: str
    incarnation: int
    sequence: int
    topic: str
    topic_id: str
    base: tuple[PartitionCut, ...]
    configuration: dict[str, Any]
    configuration_sha256: str
    build: dict[str, str]
    head: Head | None
    leaves_since_cut: int
    partitions: tuple[PlacedPartition1, ...]
    pending: _Cut1 | None


class _Header2(_Header1, frozen=True, forbid_unknown_fields=True, kw_only=True):
    read_to: tuple[tuple[int, int], ...]


class _Header3(_Header2, frozen=True, forbid_unknown_fields=True, kw_only=True):
    partitions: tuple[PlacedPartition3, ...]
    pending: _Cut | None


class _Taken(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    partition: int
    sealed: int
    leader_epoch: int
    buckets: tuple[int | PlacedBucket, ...]
    leaf_points: int | PlacedPoints
    leaf_extent: PlacedExtent
    screened: PlacedScreened | None
    audit: tuple[bool | PlacedHeld, ...]


class _Header(_Header2, frozen=True, forbid_unknown_fields=True, kw_only=True):
    partitions: tuple[PlacedPartition, ...]
    pending: _Cut | None
    taken: tuple[_Taken, ...] | None


class _Taken7(_Taken, frozen=True, forbid_unknown_fields=True, kw_only=True):
    buckets: tuple[int | PlacedOwnBucket, ...]
    forgetful: PlacedForgetful


class _Header7(_Header, frozen=True, forbid_unknown_fields=True, kw_only=True):
    partitions: tuple[PlacedPartition7, ...]
    pending: _Cut7 | None
    taken: tuple[_Taken7, ...] | None


class _Cut8(_Cut, frozen=True, forbid_unknown_fields=True, kw_only=True):
    labels_offsets: tuple[tuple[int, int], ...]


class _Taken8(_Taken, frozen=True, forbid_unknown_fields=True, kw_only=True):
    labels_offset: int


class _Header8(_Header, frozen=True, forbid_unknown_fields=True, kw_only=True):
    partitions: tuple[PlacedPartition8, ...]
    pending: _Cut8 | None
    taken: tuple[_Taken8, ...] | None
    joining: PlacedJoining


def encode(snapshot: Snapshot) -> bytes:
    """Encode a snapshot: the same snapshot gives the same bytes."""
    writer = _Writer(joins=snapshot.joining is not None)
    learner, pending = snapshot.learner, snapshot.pending
    forgets = any(state.forgetful is not None for state in learner.partitions.values())
    assert snapshot.joining is None or not forgets
    kind: Callable[..., _Header] = _Header7 if forgets else _Header
    form = FORGETFUL_FORMAT if forgets else FORMAT
    if snapshot.joining is not None:
        kind, form = _Header8, JOINED_FORMAT
    header = msgspec.json.encode(
        kind(
            name=snapshot.name,
            incarnation=snapshot.incarnation,
            sequence=snapshot.sequence,
            topic=snapshot.topic,
            topic_id=snapshot.topic_id,
            base=partition_cuts(snapshot.base, {}),
            configuration=snapshot.configuration,
            configuration_sha256=snapshot.configuration_sha256,
            build=snapshot.build,
            head=snapshot.head,
            leaves_since_cut=learner.leaves_since_cut,
            partitions=tuple(
                writer.partition(partition, learner.partitions[partition]) for partition in sorted(learner.partitions)
            ),
            pending=writer.cut(pending) if isinstance(pending, Cut) else None,
            taken=writer.taken(pending, learner) if isinstance(pending, LearnerState) else None,
            read_to=tuple(sorted(snapshot.read_to.items())),
            **({} if snapshot.joining is None else {"joining": writer.joining(snapshot.joining)}),
        ),
        order="deterministic",
    )
    body = b"".join([_PREFIX.pack(MAGIC, form, len(header)), header, *writer.parts])
    return body + hashlib.sha256(body).digest()


def decode(content: bytes) -> Snapshot:
    """Decode a snapshot.

    Raises
    ------
    CorruptCheckpoint
        If a byte is damaged, the file is cut short, or its format is of another version.
    """
    if len(content) < _PREFIX.size + _CHECKSUM_BYTES:
        raise CorruptCheckpoint(f"the file has only {len(content)} bytes")
    magic, version, header_bytes = _PREFIX.unpack_from(content)
    if magic != MAGIC:
        raise CorruptCheckpoint(f"the file is not a checkpoint: it does not begin with {MAGIC.decode()}")
    body = memoryview(content)[:-_CHECKSUM_BYTES]
    if hashlib.sha256(body).digest() != content[-_CHECKSUM_BYTES:]:
        raise CorruptCheckpoint("the file's checksum does not match: bytes were lost or changed")
    if version not in _DECODERS:
        raise _unknown(version)
    return _DECODERS[version](body[_PREFIX.size :], header_bytes)


def _unknown(version: int) -> CorruptCheckpoint:
    read = f"this build reads the versions {', '.join(str(known) for known in sorted(_DECODERS))}"
    if version > JOINED_FORMAT:
        return CorruptCheckpoint(
            f"the file's format version is {version}, newer than this build's; {read}",
            "Use the build that wrote the file, or a newer one.",
        )
    return CorruptCheckpoint(f"the file's format version is {version}, which no build writes; {read}")


def _decode_1(content: memoryview, header_bytes: int) -> Snapshot:
    """Decode the bytes between prefix and checksum of format 1, which had no `read_to`."""
    return _decoded(content, header_bytes, _Header1)


def _decode_2(content: memoryview, header_bytes: int) -> Snapshot:
    """Decode the bytes between prefix and checksum of format 2, without screened leaves and audit samples."""
    return _decoded(content, header_bytes, _Header2)


def _decode_3(content: memoryview, header_bytes: int) -> Snapshot:
    """Decode the bytes between prefix and checksum of format 3, whose head had no tuning and no gate."""
    return _decoded(content, header_bytes, _Header3)


def _decode_4(content: memoryview, header_bytes: int) -> Snapshot:
    """Decode the bytes between prefix and checksum of format 4, whose gate named no earlier versions."""
    return _decoded(content, header_bytes, _Header3)


def _decode_5(content: memoryview, header_bytes: int) -> Snapshot:
    """Decode the bytes between prefix and checksum of format 5, whose pending cut always had its training set."""
    return _decoded(content, header_bytes, _Header3)


def _decode_6(content: memoryview, header_bytes: int) -> Snapshot:
    """Decode the bytes between prefix and checksum of format 6."""
    return _decoded(content, header_bytes, _Header)


def _decode_7(content: memoryview, header_bytes: int) -> Snapshot:
    """Decode the bytes between prefix and checksum of format 7."""
    return _decoded(content, header_bytes, _Header7)


def _decode_8(content: memoryview, header_bytes: int) -> Snapshot:
    """Decode the bytes between prefix and checksum of format 8."""
    return _decoded(content, header_bytes, _Header8)


def _decoded(content: memoryview, header_bytes: int, kind: type[_Header1]) -> Snapshot:
    if header_bytes > len(content):
        raise CorruptCheckpoint("the file's header is longer than the file")
    try:
        header = msgspec.json.decode(content[:header_bytes], type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptCheckpoint(f"the file's header is damaged: {error}") from None
    reader = _Reader(content[header_bytes:])
    snapshot = reader.snapshot(header)
    reader.end()
    return snapshot


_DECODERS: Final[dict[int, Callable[[memoryview, int], Snapshot]]] = {
    1: _decode_1,
    2: _decode_2,
    3: _decode_3,
    4: _decode_4,
    5: _decode_5,
    6: _decode_6,
    7: _decode_7,
    8: _decode_8,
}
"""The decoder of each format that can be read; only formats 6 to 8 are written."""


class _Writer(JoinWriter):
    """Writes what only a checkpoint holds besides the states of partitions."""

    def taken(self, then: LearnerState, now: LearnerState) -> tuple[_Taken, ...]:
        """Write what the learner was, by reference to what it is where that is still the same."""
        return tuple(
            self.taken_partition(partition, then.partitions[partition], now.partitions[partition])
            for partition in sorted(then.partitions)
        )

    def taken_partition(self, partition: int, then: PartitionState, now: PartitionState) -> _Taken:
        places = {(bucket.level, bucket.index): place for place, bucket in enumerate(now.buckets)}
        known = [places.get((bucket.level, bucket.index), -1) for bucket in then.buckets]
        held = len(then.leaf_points)
        leaf_is_known = _same(then.leaf_points, now.leaf_points.take(slice(0, held)))
        kind: Callable[..., _Taken] = _Taken if then.forgetful is None else _Taken7
        kind = _Taken8 if self._joins else kind
        return kind(
            partition=partition,
            sealed=then.sealed,
            leader_epoch=then.leader_epoch,
            buckets=tuple(
                place if place >= 0 and _same(bucket.points, now.buckets[place].points) else self.bucket(bucket)
                for place, bucket in zip(known, then.buckets, strict=True)
            ),
            leaf_points=held if leaf_is_known else self.points(then.leaf_points),
            leaf_extent=self.extent(then.leaf_extent),
            screened=None if then.screened is None else self.screened(then.screened),
            audit=tuple(self.taken_audit(old, new) for old, new in zip(then.audit, now.audit, strict=True)),
            **self.forgotten(then.forgetful),
            **self.labelled(then),
        )

    def taken_audit(self, then: Held, now: Held) -> bool | PlacedHeld:
        """Write an audit sample: True where it is still that of the partition."""
        same = then.threshold == now.threshold and _same(then.points, now.points)
        return (same and then.priority.tobytes() == now.priority.tobytes()) or self.held(then)

    def sampled(self, part: Sampled) -> _Sampled:
        return _Sampled(self.points(part.points), part.threshold, self.array(part.class_weight))

    def cut(self, cut: Cut) -> _Cut:
        kind: Callable[..., _Cut] = _Cut if cut.held is None else _Cut7
        offsets = {"labels_offsets": tuple(sorted(cut.labels_offsets.items()))} if self._joins else {}
        kind = _Cut8 if self._joins else kind
        return kind(
            cut=partition_cuts(cut.positions, cut.leader_epochs),
            points=self.points(cut.points),
            moments=self.moments(cut.moments),
            rows=cut.rows,
            first_time_ms=cut.first_time_ms,
            last_time_ms=cut.last_time_ms,
            audit=tuple(self.sampled(part) for part in cut.audit),
            **self.held_of_cut(cut.held),
            **offsets,
            ledger=msgspec.UNSET if cut.ledger is None else self.ledger(cut.ledger, cut.points),
        )

    def ledger(self, ledger: Ledger, training_set: Points) -> _Ledger:
        """Write what bounds are made of; its points only where they are not the training set."""
        shared = ledger.shares(training_set)
        points = msgspec.UNSET if shared else self.points(ledger.points)
        return _Ledger(points=points, totals=self.totals(ledger.totals))

    def held_of_cut(self, held: HeldOfCut | None) -> dict[str, Any]:
        """Write what a cut is of, where that is not everything."""
        if held is None:
            return {}
        partitions = tuple(
            _HeldOfPartition(
                partition=partition, oldest=one.oldest, before=self.learned(one.before), horizons=one.horizons
            )
            for partition, one in sorted(held.partitions.items())
        )
        return {"held": _Held7(learned=self.learned(held.learned), partitions=partitions)}


def _same(one: Points, other: Points) -> bool:
    """Tell whether two sets have the same bytes."""
    if one.X is other.X:
        return True
    pairs = ((one.X, other.X), (one.y, other.y), (one.weight, other.weight))
    return all(own.shape == its.shape and own.tobytes() == its.tobytes() for own, its in pairs)


class _Reader(JoinReader):
    """Reads what only a checkpoint holds besides the states of partitions."""

    def taken(self, placed: _Taken, now: PartitionState | None) -> PartitionState:
        if now is None:
            raise CorruptCheckpoint(f"a cut is of partition {placed.partition}, which the learner does not have")
        leaf = placed.leaf_points
        return PartitionState(
            sealed=placed.sealed,
            leader_epoch=placed.leader_epoch,
            buckets=tuple(
                _at(now.buckets, one) if isinstance(one, int) else self.bucket(one) for one in placed.buckets
            ),
            leaf_points=_first(now.leaf_points, leaf) if isinstance(leaf, int) else self.points(leaf),
            leaf_extent=self.extent(placed.leaf_extent),
            screened=None if placed.screened is None else self.screened(placed.screened),
            audit=self.taken_audit(placed, now),
            forgetful=self.forgetful(placed.forgetful) if isinstance(placed, _Taken7) else None,
            labels_offset=placed.labels_offset if isinstance(placed, _Taken8) else -1,
        )

    def taken_audit(self, placed: _Taken, now: PartitionState) -> tuple[Held, ...]:
        if len(placed.audit) != len(now.audit):
            raise CorruptCheckpoint(f"a cut has {len(placed.audit)} audit samples of a partition of {len(now.audit)}")
        return tuple(
            known if isinstance(one, bool) else self.held(one)
            for one, known in zip(placed.audit, now.audit, strict=True)
        )

    def sampled(self, placed: _Sampled) -> Sampled:
        return Sampled(self.points(placed.points), placed.threshold, self.array(placed.class_weight))

    def cut(self, placed: _Cut1) -> Cut:
        training_set = self.points(placed.points)
        return Cut(
            positions=positions(placed.cut),
            leader_epochs={part.partition: part.leader_epoch for part in placed.cut},
            points=training_set,
            moments=self.moments(placed.moments),
            rows=placed.rows,
            first_time_ms=placed.first_time_ms,
            last_time_ms=placed.last_time_ms,
            audit=tuple(self.sampled(part) for part in placed.audit) if isinstance(placed, _Cut) else (),
            held=self.held_of_cut(placed.held) if isinstance(placed, _Cut7) else None,
            labels_offsets=dict(placed.labels_offsets) if isinstance(placed, _Cut8) else {},
            ledger=self.ledger(placed.ledger, training_set) if isinstance(placed, _Cut) else None,
        )

    def ledger(self, placed: _Ledger | msgspec.UnsetType, training_set: Points) -> Ledger | None:
        if isinstance(placed, msgspec.UnsetType):
            return None
        points = training_set if isinstance(placed.points, msgspec.UnsetType) else self.points(placed.points)
        return Ledger(points, self.totals(placed.totals, points))

    def held_of_cut(self, placed: _Held7) -> HeldOfCut:
        # In the order in which they were written: the totals of the whole come after those of the partitions.
        partitions = {
            one.partition: HeldOfPartition(
                Position(*one.oldest), self.learned(one.before), tuple(Horizon(*horizon) for horizon in one.horizons)
            )
            for one in placed.partitions
        }
        return HeldOfCut(self.learned(placed.learned), partitions)

    def pending(self, header: _Header1, now: LearnerState) -> Cut | LearnerState | None:
        taken = header.taken if isinstance(header, _Header) else None
        if taken is None:
            return None if header.pending is None else self.cut(header.pending)
        if header.pending is not None:
            raise CorruptCheckpoint("there are two pending cuts")
        return LearnerState({part.partition: self.taken(part, now.partitions.get(part.partition)) for part in taken}, 0)

    def snapshot(self, header: _Header1) -> Snapshot:
        learner = LearnerState(
            {part.partition: self.partition(part) for part in header.partitions}, header.leaves_since_cut
        )
        pending = self.pending(header, learner)
        return Snapshot(
            name=header.name,
            incarnation=header.incarnation,
            sequence=header.sequence,
            topic=header.topic,
            topic_id=header.topic_id,
            base=positions(header.base),
            configuration=header.configuration,
            configuration_sha256=header.configuration_sha256,
            build=header.build,
            head=header.head,
            learner=learner,
            pending=pending,
            read_to=dict(header.read_to) if isinstance(header, _Header2) else {},
            joining=self.joining(header.joining) if isinstance(header, _Header8) else None,
        )


def _at(buckets: tuple[Bucket, ...], place: int) -> Bucket:
    if not 0 <= place < len(buckets):
        raise CorruptCheckpoint(f"a cut names bucket {place} of a partition that has {len(buckets)}")
    return buckets[place]


def _first(points: Points, n: int) -> Points:
    if not 0 <= n <= len(points):
        raise CorruptCheckpoint(f"a cut names {n} points of an open leaf that has {len(points)}")
    return points.take(slice(0, n))

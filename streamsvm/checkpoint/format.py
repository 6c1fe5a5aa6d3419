"""Checkpoints as bytes: format 6, or 7 where something is forgotten.

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
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamsvm.coreset.audit_sample import Held, Sampled
from streamsvm.coreset.forgetting import Horizon
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.screening import Screen, Screened
from streamsvm.coreset.shares import Shares
from streamsvm.coreset.structure import Bucket, Extent, Learned
from streamsvm.errors import CorruptCheckpoint
from streamsvm.learning.cutting import Cut, HeldOfCut, HeldOfPartition, LearnerState
from streamsvm.learning.partition import Forgetful, PartitionState
from streamsvm.learning.voting import Expert, Voting
from streamsvm.model.pointers import Head
from streamsvm.model.version import PartitionCut, partition_cuts, positions
from streamsvm.points import Points, Position

MAGIC: Final = b"SSVMCKPT"
FORMAT: Final = 6
FORGETFUL_FORMAT: Final = 7
"""Of partitions that forget: their buckets have their own audit samples and say what was learned before them."""
_PREFIX: Final = struct.Struct("<8sIQ")
_CHECKSUM_BYTES: Final = 32
LARGEST_LENGTH: Final = 1 << 40
"""Largest length of an array along one axis. An array with an empty axis holds no bytes, so only this bounds its
others."""
_DTYPES: Final = frozenset({"<f4", "<f8", "|i1"})


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

    @property
    def positions(self) -> dict[int, Position]:
        """The next row to learn of each partition."""
        return self.learner.positions


class _Array(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    at: int
    dtype: str
    shape: tuple[int, ...]


class _Points(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    X: _Array
    y: _Array
    weight: _Array


class _Moments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    count: int
    class_weight: _Array
    mean: _Array
    square: _Array


class _Extent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    start: tuple[int, int]
    end: tuple[int, int]
    rows: int
    first_time_ms: int
    last_time_ms: int
    moments: _Moments


class _Bucket(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    level: int
    index: int
    points: _Points
    extent: _Extent


class _Learned(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    rows: int
    count: int
    class_weight: _Array
    first_time_ms: int
    last_time_ms: int


class _Screened(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    rows: int
    rate: float
    scaling: _Array
    coefficients: _Array
    intercept: float
    label_mean: _Array
    terms: _Array
    projection: _Array
    thinnings: int
    accepted: int
    sums: _Array
    weight: _Array
    totals: _Array


class _Held(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    points: _Points
    priority: _Array
    threshold: float


class _OwnBucket(_Bucket, frozen=True, forbid_unknown_fields=True):
    audit: tuple[_Held, ...]
    times: tuple[int, int]
    before: _Learned


class _Expert(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    border: int
    trained_at: int
    coefficients: _Array
    intercepts: _Array


class _Shares(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    slots: tuple[float, ...]
    borders: tuple[int, ...]
    starts: tuple[float, ...]
    mix: tuple[float, float]


class _Voting(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    span: int
    experts: tuple[_Expert, ...]
    shares: _Shares
    end: int


class _Forgetful(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    learned: _Learned
    times: _Array
    voting: _Voting | None


class _Partition1(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    partition: int
    sealed: int
    leader_epoch: int
    buckets: tuple[_Bucket, ...]
    leaf_points: _Points
    leaf_extent: _Extent


class _Partition3(_Partition1, frozen=True, forbid_unknown_fields=True, kw_only=True):
    screened: _Screened | None
    audit: _Held | None


class _Partition(_Partition1, frozen=True, forbid_unknown_fields=True, kw_only=True):
    screened: _Screened | None
    audit: tuple[_Held, ...]


class _Partition7(_Partition, frozen=True, forbid_unknown_fields=True, kw_only=True):
    buckets: tuple[_OwnBucket, ...]
    forgetful: _Forgetful


class _Sampled(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    points: _Points
    threshold: float
    class_weight: _Array


class _Cut1(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    cut: tuple[PartitionCut, ...]
    points: _Points
    moments: _Moments
    rows: int
    first_time_ms: int
    last_time_ms: int


class _Cut(_Cut1, frozen=True, forbid_unknown_fields=True, kw_only=True):
    audit: tuple[_Sampled, ...]


class _HeldOfPartition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    partition: int
    oldest: tuple[int, int]
    before: _Learned
    horizons: tuple[tuple[int, float], ...]


class _Held7(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    learned: _Learned
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
    partitions: tuple[_Partition1, ...]
    pending: _Cut1 | None


class _Header2(_Header1, frozen=True, forbid_unknown_fields=True, kw_only=True):
    read_to: tuple[tuple[int, int], ...]


class _Header3(_Header2, frozen=True, forbid_unknown_fields=True, kw_only=True):
    partitions: tuple[_Partition3, ...]
    pending: _Cut | None


class _Taken(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    partition: int
    sealed: int
    leader_epoch: int
    buckets: tuple[int | _Bucket, ...]
    leaf_points: int | _Points
    leaf_extent: _Extent
    screened: _Screened | None
    audit: tuple[bool | _Held, ...]


class _Header(_Header2, frozen=True, forbid_unknown_fields=True, kw_only=True):
    partitions: tuple[_Partition, ...]
    pending: _Cut | None
    taken: tuple[_Taken, ...] | None


class _Taken7(_Taken, frozen=True, forbid_unknown_fields=True, kw_only=True):
    buckets: tuple[int | _OwnBucket, ...]
    forgetful: _Forgetful


class _Header7(_Header, frozen=True, forbid_unknown_fields=True, kw_only=True):
    partitions: tuple[_Partition7, ...]
    pending: _Cut7 | None
    taken: tuple[_Taken7, ...] | None


def encode(snapshot: Snapshot) -> bytes:
    """Encode a snapshot: the same snapshot gives the same bytes."""
    writer = _Writer()
    learner, pending = snapshot.learner, snapshot.pending
    forgets = any(state.forgetful is not None for state in learner.partitions.values())
    kind: Callable[..., _Header] = _Header7 if forgets else _Header
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
        ),
        order="deterministic",
    )
    form = FORGETFUL_FORMAT if forgets else FORMAT
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
    if version > FORGETFUL_FORMAT:
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
}
"""The decoder of each format that can be read; only formats 6 and 7 are written."""


class _Writer:
    """Appends arrays one after another and keeps their places."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._at = 0

    def array(self, array: NDArray[Any]) -> _Array:
        dtype = array.dtype.newbyteorder("<").str
        assert dtype in _DTYPES
        content = np.ascontiguousarray(array, dtype=dtype).tobytes()
        placed = _Array(self._at, dtype, array.shape)
        self.parts.append(content)
        self._at += len(content)
        return placed

    def points(self, points: Points) -> _Points:
        return _Points(self.array(points.X), self.array(points.y), self.array(points.weight))

    def moments(self, moments: Moments) -> _Moments:
        return _Moments(
            moments.count, self.array(moments.class_weight), self.array(moments.mean), self.array(moments.square)
        )

    def extent(self, extent: Extent) -> _Extent:
        return _Extent(
            start=extent.start,
            end=extent.end,
            rows=extent.rows,
            first_time_ms=extent.first_time_ms,
            last_time_ms=extent.last_time_ms,
            moments=self.moments(extent.moments),
        )

    def partition(self, partition: int, state: PartitionState) -> _Partition:
        forgetful = state.forgetful
        kind: Callable[..., _Partition] = _Partition if forgetful is None else _Partition7
        return kind(
            partition=partition,
            sealed=state.sealed,
            leader_epoch=state.leader_epoch,
            buckets=tuple(self.bucket(bucket) for bucket in state.buckets),
            leaf_points=self.points(state.leaf_points),
            leaf_extent=self.extent(state.leaf_extent),
            screened=None if state.screened is None else self.screened(state.screened),
            audit=tuple(self.held(held) for held in state.audit),
            **self.forgotten(forgetful),
        )

    def forgotten(self, state: Forgetful | None) -> dict[str, _Forgetful]:
        """Write what a partition that forgets knows besides; nothing of another."""
        if state is None:
            return {}
        learned, times = self.learned(state.learned), self.array(state.times.astype(np.float64))
        return {"forgetful": _Forgetful(learned=learned, times=times, voting=self.voting(state.voting))}

    def voting(self, voting: Voting | None) -> _Voting | None:
        if voting is None:
            return None
        shares = voting.shares
        return _Voting(
            span=voting.span,
            experts=tuple(
                _Expert(one.border, one.trained_at, self.array(one.coefficients), self.array(one.intercepts))
                for one in voting.experts
            ),
            shares=_Shares(slots=shares.slots, borders=shares.borders, starts=shares.starts, mix=shares.mix),
            end=voting.end,
        )

    def learned(self, learned: Learned) -> _Learned:
        return _Learned(
            rows=learned.rows,
            count=learned.count,
            class_weight=self.array(learned.class_weight),
            first_time_ms=learned.first_time_ms,
            last_time_ms=learned.last_time_ms,
        )

    def bucket(self, bucket: Bucket) -> _Bucket:
        points, extent = self.points(bucket.points), self.extent(bucket.extent)
        if bucket.before is None:
            return _Bucket(bucket.level, bucket.index, points, extent)
        audit = tuple(self.held(held) for held in bucket.audit)
        return _OwnBucket(bucket.level, bucket.index, points, extent, audit, bucket.times, self.learned(bucket.before))

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
        )

    def taken_audit(self, then: Held, now: Held) -> bool | _Held:
        """Write an audit sample: True where it is still that of the partition."""
        same = then.threshold == now.threshold and _same(then.points, now.points)
        return (same and then.priority.tobytes() == now.priority.tobytes()) or self.held(then)

    def screened(self, state: Screened) -> _Screened:
        screen = state.screen
        return _Screened(
            rows=screen.rows,
            rate=screen.rate,
            scaling=self.array(screen.scaling),
            coefficients=self.array(screen.coefficients),
            intercept=screen.intercept,
            label_mean=self.array(screen.label_mean),
            terms=self.array(screen.terms),
            projection=self.array(screen.projection),
            thinnings=state.thinnings,
            accepted=state.accepted,
            sums=self.array(state.sums),
            weight=self.array(state.weight),
            totals=self.array(state.totals),
        )

    def held(self, held: Held) -> _Held:
        return _Held(self.points(held.points), self.array(held.priority), held.threshold)

    def sampled(self, part: Sampled) -> _Sampled:
        return _Sampled(self.points(part.points), part.threshold, self.array(part.class_weight))

    def cut(self, cut: Cut) -> _Cut:
        kind: Callable[..., _Cut] = _Cut if cut.held is None else _Cut7
        return kind(
            cut=partition_cuts(cut.positions, cut.leader_epochs),
            points=self.points(cut.points),
            moments=self.moments(cut.moments),
            rows=cut.rows,
            first_time_ms=cut.first_time_ms,
            last_time_ms=cut.last_time_ms,
            audit=tuple(self.sampled(part) for part in cut.audit),
            **self.held_of_cut(cut.held),
        )

    def held_of_cut(self, held: HeldOfCut | None) -> dict[str, _Held7]:
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


class _Reader:
    """Reads arrays in the order in which they were written; checks every size against the bytes that are left."""

    def __init__(self, arrays: memoryview) -> None:
        self._arrays = arrays
        self._at = 0

    def array(self, placed: _Array) -> NDArray[Any]:
        if placed.dtype not in _DTYPES or not all(0 <= length <= LARGEST_LENGTH for length in placed.shape):
            raise CorruptCheckpoint(f"an array is described as {placed.dtype} {placed.shape}")
        if placed.at != self._at:
            raise CorruptCheckpoint(
                f"an array begins at byte {placed.at}, but the array before it ends at byte {self._at}"
            )
        dtype = np.dtype(placed.dtype)
        self._at += math.prod(placed.shape) * dtype.itemsize
        if self._at > len(self._arrays):
            raise CorruptCheckpoint(
                f"an array ends at byte {self._at}, but the file has only {len(self._arrays)} bytes of arrays"
            )
        flat = np.frombuffer(self._arrays[placed.at : self._at], dtype=dtype)
        return flat.reshape(placed.shape).astype(dtype.newbyteorder("="))

    def end(self) -> None:
        if self._at != len(self._arrays):
            raise CorruptCheckpoint(
                f"the arrays end at byte {self._at}, but the file has {len(self._arrays)} bytes of arrays"
            )

    def points(self, placed: _Points) -> Points:
        points = Points(self.array(placed.X), self.array(placed.y), self.array(placed.weight))
        if points.X.ndim != 2 or not points.y.shape == points.weight.shape == (len(points.X),):
            raise CorruptCheckpoint("a set of points has arrays of different shapes")
        return points

    def moments(self, placed: _Moments) -> Moments:
        return Moments(
            placed.count, self.array(placed.class_weight), self.array(placed.mean), self.array(placed.square)
        )

    def extent(self, placed: _Extent) -> Extent:
        return Extent(
            start=Position(*placed.start),
            end=Position(*placed.end),
            rows=placed.rows,
            first_time_ms=placed.first_time_ms,
            last_time_ms=placed.last_time_ms,
            moments=self.moments(placed.moments),
        )

    def partition(self, placed: _Partition1) -> PartitionState:
        return PartitionState(
            sealed=placed.sealed,
            leader_epoch=placed.leader_epoch,
            buckets=tuple(self.bucket(bucket) for bucket in placed.buckets),
            leaf_points=self.points(placed.leaf_points),
            leaf_extent=self.extent(placed.leaf_extent),
            screened=self.screened(placed.screened)
            if isinstance(placed, (_Partition3, _Partition)) and placed.screened is not None
            else None,
            audit=tuple(self.held(held) for held in _held_by(placed)),
            forgetful=self.forgetful(placed.forgetful) if isinstance(placed, _Partition7) else None,
        )

    def forgetful(self, placed: _Forgetful) -> Forgetful:
        learned, times = self.learned(placed.learned), self.array(placed.times)
        if times.ndim != 1:
            raise CorruptCheckpoint(f"the times of a span have the shape {times.shape}")
        return Forgetful(
            learned=learned,
            times=times.astype(np.int64),
            voting=None if placed.voting is None else self.voting(placed.voting),
        )

    def voting(self, placed: _Voting) -> Voting:
        shares = placed.shares
        experts = tuple(
            Expert(one.border, one.trained_at, self.array(one.coefficients), self.array(one.intercepts))
            for one in placed.experts
        )
        if not len(experts) == len(shares.borders) == len(shares.starts):
            raise CorruptCheckpoint(f"there are {len(experts)} experts, but {len(shares.borders)} borders")
        if any(one.coefficients.ndim != 2 or len(one.coefficients) != one.intercepts.size for one in experts):
            raise CorruptCheckpoint("an expert has arrays of different lengths")
        return Voting(
            placed.span,
            experts,
            Shares(slots=shares.slots, borders=shares.borders, starts=shares.starts, mix=shares.mix),
            placed.end,
        )

    def learned(self, placed: _Learned) -> Learned:
        return Learned(
            rows=placed.rows,
            count=placed.count,
            class_weight=self.array(placed.class_weight),
            first_time_ms=placed.first_time_ms,
            last_time_ms=placed.last_time_ms,
        )

    def bucket(self, placed: _Bucket) -> Bucket:
        points, extent = self.points(placed.points), self.extent(placed.extent)
        if not isinstance(placed, _OwnBucket):
            return Bucket(placed.level, placed.index, points, extent)
        audit = tuple(self.held(held) for held in placed.audit)
        return Bucket(placed.level, placed.index, points, extent, audit, placed.times, self.learned(placed.before))

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
        )

    def screened(self, placed: _Screened) -> Screened:
        screen = Screen(
            rows=placed.rows,
            rate=placed.rate,
            scaling=self.array(placed.scaling),
            coefficients=self.array(placed.coefficients),
            intercept=placed.intercept,
            label_mean=self.array(placed.label_mean),
            terms=self.array(placed.terms),
            projection=self.array(placed.projection),
        )
        return Screened(
            screen=screen,
            thinnings=placed.thinnings,
            accepted=placed.accepted,
            sums=self.array(placed.sums),
            weight=self.array(placed.weight),
            totals=self.array(placed.totals),
        )

    def taken_audit(self, placed: _Taken, now: PartitionState) -> tuple[Held, ...]:
        if len(placed.audit) != len(now.audit):
            raise CorruptCheckpoint(f"a cut has {len(placed.audit)} audit samples of a partition of {len(now.audit)}")
        return tuple(
            known if isinstance(one, bool) else self.held(one)
            for one, known in zip(placed.audit, now.audit, strict=True)
        )

    def held(self, placed: _Held) -> Held:
        held = Held(self.points(placed.points), self.array(placed.priority), placed.threshold)
        if held.priority.shape != (len(held.points),):
            raise CorruptCheckpoint("an audit sample has arrays of different lengths")
        return held

    def sampled(self, placed: _Sampled) -> Sampled:
        return Sampled(self.points(placed.points), placed.threshold, self.array(placed.class_weight))

    def cut(self, placed: _Cut1) -> Cut:
        return Cut(
            positions=positions(placed.cut),
            leader_epochs={part.partition: part.leader_epoch for part in placed.cut},
            points=self.points(placed.points),
            moments=self.moments(placed.moments),
            rows=placed.rows,
            first_time_ms=placed.first_time_ms,
            last_time_ms=placed.last_time_ms,
            audit=tuple(self.sampled(part) for part in placed.audit) if isinstance(placed, _Cut) else (),
            held=self.held_of_cut(placed.held) if isinstance(placed, _Cut7) else None,
        )

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
            pending=self.pending(header, learner),
            read_to=dict(header.read_to) if isinstance(header, _Header2) else {},
        )


def _held_by(placed: _Partition1) -> tuple[_Held, ...]:
    if isinstance(placed, _Partition):
        return placed.audit
    return (placed.audit,) if isinstance(placed, _Partition3) and placed.audit is not None else ()


def _at(buckets: tuple[Bucket, ...], place: int) -> Bucket:
    if not 0 <= place < len(buckets):
        raise CorruptCheckpoint(f"a cut names bucket {place} of a partition that has {len(buckets)}")
    return buckets[place]


def _first(points: Points, n: int) -> Points:
    if not 0 <= n <= len(points):
        raise CorruptCheckpoint(f"a cut names {n} points of an open leaf that has {len(points)}")
    return points.take(slice(0, n))

"""The coresets topic: what workers learned, as records of a compacted log, and how it is read back.

A partition of the topic holds what was learned of the input's partition of the same number:

- an *opening*, written by the trainer: which incarnation of which model begins where, under which configuration;
- *parts*: a bucket; the *rest* of a partition (open leaf, screen, audit sample); its *newest rows*. A part is named by
  its place in the input and the SHA-256 of its bytes, and lies in the log as pieces of at most `PIECE_BYTES`;
- *manifests*: a position, and the names of all parts that make up the partition there.

The protocol is: parts, then, once they are stored, the manifest, then tombstones of what no manifest from that position
on names. What a partition is at a position is a function of its log, so two who learn the same partition write the same
bytes under the same names, and whoever is behind harms nothing. Nobody is fenced, and nothing is transactional.

Invariant: at every prefix of the log the manifest of the highest position has all of its parts. So only what is
certain to be needed by no higher manifest is given a tombstone: what a writer itself held at a lower position and holds
no more, and what lies inside a bucket that a higher manifest names. A bucket that nobody names *yet* is left alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import numpy as np

from streamsvm.checkpoint.forms import Form, Parts, PlacedArray, PlacedParts, PlacedPoints, StateWriter, describes
from streamsvm.checkpoint.forms import Part as NamedPart
from streamsvm.checkpoint.framing import CHECKSUM_BYTES, Frame
from streamsvm.checkpoint.records import (
    BucketName,
    decode_bucket,
    decode_partition,
    encode_bucket,
    encode_partition,
)
from streamsvm.config import ModelConfig
from streamsvm.coreset.structure import Bucket
from streamsvm.errors import CorruptCheckpoint
from streamsvm.learning.partition_state import PartitionState
from streamsvm.places import Count, Incarnation, Offset, Partition, Row, whole_number
from streamsvm.points import Position, Rows

FORMAT: Final = 1
"""Of openings, manifests and keys; it is part of every key, so another format's records are another incarnation's."""
PIECE_BYTES: Final = 768 * 1024
"""Most bytes of a record: below 1 MB, which brokers and clients take by default."""
LARGEST_PART: Final = 1 << 34
"""Most bytes of a part: a manifest that names a larger one is damaged."""
LARGEST_SMALL: Final = 1 << 20
"""Most bytes of an opening or a manifest."""
LONGEST_KEY: Final = 1_000
"""Most characters of a key that is remembered."""
PIECE_COST: Final = 4_096
"""Bytes that a piece, or a record without an opening, counts beside its value: some of memory, the rest for the time
that it takes to look at it at each adoption."""
MANIFEST_COST: Final = 2_048
MOST_INCARNATIONS: Final = 100_000_000
"""Keys have eight digits of the number."""
NEWEST_ROWS: Final = 1_000
"""Newest rows that manifests of all `coreset.max_partitions` partitions carry together: a gate's window."""
LEAST_NEWEST_ROWS: Final = 16
ROWS: Final = Frame(b"SSVMROWS")

Kind = TypeVar("Kind")

_POSITION: Final = r"(\d{20})\.(\d{10})"
_KEY: Final = re.compile(
    rf"(?:m/(?P<manifest>{_POSITION})"
    rf"|(?P<part>(?:b/(?P<start>{_POSITION})-(?P<end>{_POSITION})/\d+\.\d+|[ln]/(?P<at>{_POSITION}))"
    r"#(?P<sha256>[0-9a-f]{64}))/(?P<piece>\d{1,9}))",
    re.ASCII,
)


def place(position: Position) -> str:
    """Return a position as keys have it, which sorts as positions do."""
    return f"{position.offset:020d}.{position.row:010d}"


def _placed(text: str) -> Position:
    offset, row = text.split(".")
    return Position(int(offset), int(row))


class Opening(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Says what is to be learned of a partition: written by a trainer when it begins, under a key of its incarnation.

    Attributes
    ----------
    format : int
    name : str
        The model's.
    incarnation : int
        The highest one in a partition counts.
    topic, topic_id : str
        The input; the id is empty where the broker tells none.
    partition : int
    base : (offset, row)
        Where the incarnation begins in it.
    configuration : dict
        Canonical, as it goes on from the trainer's checkpoint.
    configuration_sha256 : str
    """

    format: int
    name: str
    incarnation: Incarnation
    topic: str
    topic_id: str
    partition: Partition
    base: tuple[Offset, Row]
    configuration: dict[str, Any]
    configuration_sha256: str

    @property
    def key(self) -> bytes:
        """Its own key."""
        return f"{self.name}/o/{self.incarnation:08d}".encode()

    @property
    def prefix(self) -> str:
        """What the keys of its parts and manifests begin with: whatever decides their bytes is in it."""
        decided = msgspec.json.encode(
            [FORMAT, self.topic, self.topic_id, self.partition, self.base, self.configuration_sha256]
        )
        return f"{self.name}/{self.incarnation:08d}-{hashlib.sha256(decided).hexdigest()[:16]}/"

    def encode(self) -> bytes:
        """Return it as a record's value."""
        return msgspec.json.encode(self, order="deterministic")


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part as a manifest names it: its key without prefix and piece, and its length in bytes."""

    name: str
    size: int

    @property
    def pieces(self) -> int:
        """Records that it takes."""
        return max(1, -(-self.size // PIECE_BYTES))


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a partition is at a position.

    Attributes
    ----------
    position : (offset, row)
        The next row to learn.
    rows : int
        Learned since the base.
    buckets : tuple of Part
        The oldest first.
    rest : Part
        The partition record of `streamsvm.checkpoint.records`.
    newest : Part or None
        The newest rows before the position; None where there are none.
    """

    position: tuple[Offset, Row]
    rows: Count
    buckets: tuple[Part, ...]
    rest: Part
    newest: Part | None

    @property
    def parts(self) -> tuple[Part, ...]:
        """All of its parts."""
        return (*self.buckets, self.rest, *(() if self.newest is None else (self.newest,)))

    @property
    def at(self) -> Position:
        """Its position."""
        return Position(*self.position)

    @property
    def key(self) -> str:
        """Its key without prefix."""
        return f"m/{place(self.at)}"

    def encode(self) -> bytes:
        """Return it as a record's value."""
        return msgspec.json.encode(self, order="deterministic")


class _PassedOver(Form, tag_field="part", tag="passed_over"):
    passed_over: PlacedArray


_PASSED_OVER: Final = NamedPart(
    form=_PassedOver,
    has=lambda rows: rows.passed_over is not None and rows.passed_over.any(),
    of=lambda rows: {"passed_over": rows.passed_over.astype(np.int8)},
    joined=lambda rows, passed_over: replace(rows, passed_over=passed_over.astype(np.bool_)),
)


@describes(None, make=Rows, parts=Parts(_PASSED_OVER))
class _NewestHeader(Form):
    last: PlacedArray
    accepted: PlacedArray
    partition: int
    offset: PlacedArray
    row: PlacedArray
    time_ms: PlacedArray
    leader_epoch: PlacedArray
    points: PlacedPoints
    parts: PlacedParts


def newest_rows(config: ModelConfig) -> int:
    """Return how many newest rows a manifest carries: a function of the configuration, so that bytes are."""
    return max(LEAST_NEWEST_ROWS, -(-NEWEST_ROWS // config.coreset.max_partitions))


def encode_rows(rows: Rows) -> bytes:
    """Encode rows of one partition. What stands for a rejected row's point is replaced by zeros: it may be anything."""
    writer, points = StateWriter(), rows.points
    X, y, weight = points.X.copy(), np.asarray(points.y, np.int8).copy(), np.asarray(points.weight, np.float64).copy()
    for array in (X, y, weight):
        array[~rows.accepted] = 0
    header = writer.described(
        _NewestHeader,
        replace(rows, points=type(points)(X, y, weight)),
        last=writer.array(rows.last.astype(np.int8)),
        accepted=writer.array(rows.accepted.astype(np.int8)),
    )
    return ROWS.framed(header, writer)


def decode_rows(value: bytes) -> Rows:
    """Decode rows.

    Raises
    ------
    CorruptCheckpoint
        If a byte is damaged or missing, or arrays differ in length.
    """
    header, reader = ROWS.opened(value, _NewestHeader)
    rows = reader.made(header)
    assert isinstance(rows, Rows)
    reader.end()
    columns = [rows.offset, rows.row, rows.last, rows.time_ms, rows.accepted, rows.leader_epoch]
    columns += [] if rows.passed_over is None else [rows.passed_over]
    if any(column.shape != (len(rows.points),) for column in columns):
        raise CorruptCheckpoint("the newest rows have arrays of different lengths")
    return replace(rows, last=rows.last.astype(np.bool_), accepted=rows.accepted.astype(np.bool_))


# --------------------------------------------------------------------- writing


@dataclass(frozen=True, slots=True)
class Publication:
    """What to write for one state of a partition, in this order, each kind once the one before it is stored.

    Attributes
    ----------
    position : Position
    parts : list of (key, value)
        Those that were not written before.
    manifest : (key, value)
    tombstones : list of bytes
        Keys that no manifest from this position on names.
    """

    position: Position
    parts: list[tuple[bytes, bytes]]
    manifest: tuple[bytes, bytes]
    tombstones: list[bytes]

    @property
    def size(self) -> int:
        """Bytes of keys and values."""
        records = (*self.parts, self.manifest, *((key, b"") for key in self.tombstones))
        return sum(len(key) + len(value) for key, value in records)


class PartitionWriter:
    """Writes states of one partition, the later ones after the earlier ones.

    Parameters
    ----------
    opening : Opening
    held : Complete, optional
        What the log holds already, where this goes on from that.
    """

    def __init__(self, opening: Opening, held: Complete | None = None) -> None:
        self._prefix, self._partition = opening.prefix, opening.partition
        self._names: dict[int, tuple[Bucket, Part, BucketName]] = {}
        self._live: set[str] = set()
        self._written: set[str] = set()
        if held is None:
            return
        self._live = {held.manifest.key, *_keys(held.manifest.parts)}
        self._written = {part.name for part in held.manifest.parts}
        for bucket, part in zip(held.state.buckets, held.manifest.buckets, strict=True):
            name = BucketName(bucket.level, bucket.index, part.name.rpartition("#")[2])
            self._names[id(bucket)] = (bucket, part, name)

    def write(self, state: PartitionState, newest: Rows | None) -> Publication:
        """Return what to write for a state; the caller writes all of it, or ends."""
        values: list[tuple[Part, bytes]] = []
        known, self._names = self._names, {}
        for bucket in state.buckets:
            # By identity: a bucket never changes, and one that was merged is another object.
            if id(bucket) in known:
                self._names[id(bucket)] = known[id(bucket)]
            else:
                record = encode_bucket(bucket)
                extent = bucket.extent
                where = f"{place(extent.start)}-{place(extent.end)}/{bucket.level}.{bucket.index}"
                part = Part(f"b/{where}#{record.name.sha256}", len(record.value))
                values.append((part, record.value))
                self._names[id(bucket)] = (bucket, part, record.name)
        named = [self._names[id(bucket)] for bucket in state.buckets]
        rest, value = self._made("l", state.position, encode_partition(self._partition, state, [n for *_, n in named]))
        values.append((rest, value))
        newest_part = None
        if newest is not None and len(newest):
            newest_part, value = self._made("n", state.position, encode_rows(newest))
            values.append((newest_part, value))
        manifest = Manifest(
            position=(*state.position,),
            rows=state.learned.rows,
            buckets=tuple(part for _, part, _ in named),
            rest=rest,
            newest=newest_part,
        )
        return self._publication(manifest, values)

    def _made(self, kind: str, position: Position, value: bytes) -> tuple[Part, bytes]:
        return Part(f"{kind}/{place(position)}#{value[-CHECKSUM_BYTES:].hex()}", len(value)), value

    def _publication(self, manifest: Manifest, values: list[tuple[Part, bytes]]) -> Publication:
        pieces = [
            (self._key(f"{part.name}/{piece}"), value[piece * PIECE_BYTES : (piece + 1) * PIECE_BYTES])
            for part, value in values
            if part.name not in self._written
            for piece in range(part.pieces)
        ]
        live = {manifest.key, *_keys(manifest.parts)}
        # Only what this writer held itself at a lower position: what others wrote may not have come to life yet.
        dead, self._live = sorted(self._live - live), live
        self._written = {part.name for part in manifest.parts}
        return Publication(
            manifest.at, pieces, (self._key(manifest.key), manifest.encode()), list(map(self._key, dead))
        )

    def _key(self, name: str) -> bytes:
        return (self._prefix + name).encode()


def _keys(parts: Iterable[Part]) -> Iterator[str]:
    for part in parts:
        yield from (f"{part.name}/{piece}" for piece in range(part.pieces))


# --------------------------------------------------------------------- reading


class Fault(NamedTuple):
    """A record that was passed over, and why."""

    offset: int
    key: str
    why: str


@dataclass(frozen=True, slots=True)
class Complete:
    """A manifest with all that it names.

    Attributes
    ----------
    manifest : Manifest
    state : PartitionState
    newest : Rows or None
    told : mapping of str to bytes
        Headers of its record: what is not a function of the input.
    """

    manifest: Manifest
    state: PartitionState
    newest: Rows | None
    told: Mapping[str, bytes]


@dataclass(slots=True)
class _Stored:
    manifest: Manifest
    told: Mapping[str, bytes]
    offset: int
    size: int
    fault: str = ""
    """Why it is not complete; empty while nobody has looked, or since one of its parts came."""
    complete: Complete | None = None
    """What it is with its parts, where somebody has looked, and none of them came since."""
    beyond: bool = False
    """Whether it was said that it lies beyond the input."""


@dataclass(slots=True)
class _Incarnation:
    """What is held of one; of parts that nobody names yet, and of manifests, so many bytes at most."""

    opening: Opening
    pieces: dict[str, dict[int, bytes]] = field(default_factory=dict)
    manifests: dict[Position, _Stored] = field(default_factory=dict)
    decoded: dict[str, Bucket] = field(default_factory=dict)
    named: dict[str, set[Position]] = field(default_factory=dict)
    """Parts that manifests name, and where these stand."""
    unnamed: dict[str, int] = field(default_factory=dict)
    """Parts that no manifest names, the oldest first, and their bytes."""
    unnamed_bytes: int = 0
    manifest_bytes: int = 0

    def put(self, stored: _Stored) -> None:
        """Hold a manifest."""
        self.drop(stored.manifest.at)
        self.manifests[stored.manifest.at] = stored
        self.manifest_bytes += stored.size
        for part in stored.manifest.parts:
            self.named.setdefault(part.name, set()).add(stored.manifest.at)
            self.unnamed_bytes -= self.unnamed.pop(part.name, 0)

    def drop(self, position: Position) -> None:
        """Hold a manifest no more; its parts may be those of a later one."""
        stored = self.manifests.pop(position, None)
        if stored is None:
            return
        self.manifest_bytes -= stored.size
        for part in stored.manifest.parts:
            positions = self.named.get(part.name, set())
            positions.discard(position)
            if not positions:
                self.named.pop(part.name, None)
                if part.name in self.pieces:
                    self._count(part.name)

    def put_piece(self, part: str, piece: int, value: bytes) -> None:
        """Hold a piece of a part."""
        self.pieces.setdefault(part, {})[piece] = value
        self._changed(part)

    def drop_piece(self, part: str, piece: int) -> None:
        """Hold a piece no more."""
        pieces = self.pieces.get(part, {})
        pieces.pop(piece, None)
        if not pieces:
            self.drop_part(part)
        self._changed(part)

    def drop_part(self, part: str) -> None:
        """Hold a part no more."""
        self.pieces.pop(part, None)
        self.unnamed_bytes -= self.unnamed.pop(part, 0)

    def _changed(self, part: str) -> None:
        for position in self.named.get(part, ()):
            stored = self.manifests[position]
            stored.fault, stored.complete = "", None
        if part not in self.named and part in self.pieces:
            self._count(part)

    def _count(self, part: str) -> None:
        size = sum(PIECE_COST + len(value) for value in self.pieces[part].values())
        self.unnamed_bytes += size - self.unnamed.get(part, 0)
        self.unnamed[part] = size


class PartitionLog:
    """What a partition of the coresets topic holds of one model; records are offered in the order of the log.

    Whoever may write to the topic may write what nobody needs. So what is held of it is bounded by bytes: records whose
    opening is not there yet, parts that no manifest names, and manifests that are not complete. What honest writers
    leave is far below the bounds, and what is given up beyond them is read again where it is needed (`again`).

    Parameters
    ----------
    name : str
        The model's; records of others are passed over.
    partition : int
    dimension : int
        Number of features, which every state must have.

    Attributes
    ----------
    faults : list of Fault
        What was passed over since somebody took it; at most `MOST_FAULTS`.
    more_faults : int
        How many there were beyond these.
    told_again : mapping of str to bytes
        Headers of the adopted manifest, where it was written again since.
    """

    MOST_FAULTS: Final = 20
    MOST_EARLY_BYTES: Final = 64 << 20
    MOST_UNNAMED_BYTES: Final = 256 << 20
    MOST_MANIFEST_BYTES: Final = 16 << 20
    MOST_KEYS: Final = 200_000
    """Keys that `garbage` looks at: what is beyond them is cleared away later."""

    def __init__(self, name: str, partition: int, dimension: int) -> None:
        self._name, self._partition, self._dimension = name, partition, dimension
        self._newest: _Incarnation | None = None
        self._early: list[tuple[int, str, bytes | None, Mapping[str, bytes]]] = []
        self._early_bytes = 0
        self._early_lost = self._parts_lost = self._pinned = self._lacks = False
        self._closed: set[int] = set()
        self._ignored: frozenset[int] = frozenset()
        self._adopted = Position(-1)
        self._alive: tuple[tuple[Position, Position], ...] = ()
        self._live: dict[str, None] = {}
        self.faults: list[Fault] = []
        self.more_faults = 0
        self.told_again: Mapping[str, bytes] = {}

    @property
    def partition(self) -> int:
        """Of the topic."""
        return self._partition

    @property
    def opening(self) -> Opening | None:
        """Of the highest incarnation; None before any was read."""
        return None if self._newest is None else self._newest.opening

    @property
    def again(self) -> bool:
        """Whether the log is to be read again from its beginning, by what `rest` returns.

        An opening was taken back, so that another one counts, or something that was given up is needed.
        """
        return self._lacks or (self.taken_back and not self._pinned)

    @property
    def taken_back(self) -> bool:
        """Whether the opening that is followed has a tombstone."""
        return self.opening is not None and self.opening.incarnation in self._closed

    def rest(self) -> PartitionLog:
        """Return what reads the log again, and knows beforehand what it will need."""
        found = PartitionLog(self._name, self._partition, self._dimension)
        found._live, found._pinned, own = self._live, self._pinned, self._newest
        found._ignored = found._ignored | self._closed
        if own is not None and (self._pinned or own.opening.incarnation not in self._closed):
            found._newest = _Incarnation(own.opening)
            found._adopted, found._alive = self._adopted, self._alive
            found._newest.decoded = own.decoded
            for stored in own.manifests.values():
                found._newest.put(stored)
        return found

    def pin(self, opening: Opening) -> None:
        """Follow this opening from now on, and no other, whatever comes."""
        self._begin(opening)
        self._pinned, self._lacks, self._early = True, False, []

    def feed(self, offset: int, key: bytes | None, value: bytes | None, told: Mapping[str, bytes]) -> None:
        """Take in a record; a value of None is a tombstone."""
        text = "" if key is None else key.decode("utf-8", "replace")
        if not text.startswith(f"{self._name}/"):
            return
        if value is None:
            self._live.pop(text, None)
        elif len(self._live) < self.MOST_KEYS and len(text) <= LONGEST_KEY:
            self._live[text] = None
        if text.startswith(f"{self._name}/o/"):
            self._open(offset, text, value)
            return
        if self._newest is None or not text.startswith(self._newest.opening.prefix):
            # Of an incarnation that is over, or whose opening was written anew behind it: compaction keeps the last.
            if not self._pinned and (self._newest is None or text > self._newest.opening.prefix):
                self._hold_early(offset, text, value, told)
            return
        self._take(self._newest, offset, text, value, told)

    def _hold_early(self, offset: int, key: str, value: bytes | None, told: Mapping[str, bytes]) -> None:
        self._early_bytes += PIECE_COST + len(key) + len(value or b"")
        if self._early_bytes > self.MOST_EARLY_BYTES:
            if not self._early_lost:
                self._fault(offset, key, "there is no opening yet for more bytes of records than are held")
            self._early, self._early_lost = [], True
            return
        self._early.append((offset, key, value, told))

    def _open(self, offset: int, key: str, value: bytes | None) -> None:
        number = whole_number(key.removeprefix(f"{self._name}/o/"), MOST_INCARNATIONS)
        if value is None:
            if number is not None and len(self._closed) < self.MOST_KEYS:
                self._closed.add(number)
            return
        try:
            opening = _decoded(value, Opening)
            if opening.format != FORMAT or opening.name != self._name or opening.key.decode() != key:
                raise CorruptCheckpoint(f"the opening is of format {opening.format} and of {opening.key.decode()}")
            if opening.partition != self._partition:
                raise CorruptCheckpoint(f"the opening is of partition {opening.partition}")
        except CorruptCheckpoint as error:
            self._fault(offset, key, error.what)
            return
        known = self._newest
        self._closed.discard(opening.incarnation)
        if self._pinned:
            if known is not None and opening.incarnation > known.opening.incarnation:
                self._fault(offset, key, f"this trainer is at incarnation {known.opening.incarnation}")
            return
        over = known is not None and opening.incarnation < known.opening.incarnation
        if not over and opening.incarnation not in self._ignored:
            self._begin(opening)

    def _begin(self, opening: Opening) -> None:
        if self._newest is not None and self._newest.opening.prefix == opening.prefix:
            return
        own = self._newest = _Incarnation(opening)
        self._adopted, self._alive = Position(-1), ()
        early, self._early = self._early, []
        self._lacks, self._early_lost, self._early_bytes = self._early_lost, False, 0
        for one in early:
            if one[1].startswith(opening.prefix):
                self._take(own, *one)
            elif one[1] > opening.prefix:
                self._hold_early(*one)

    def _take(self, own: _Incarnation, offset: int, key: str, value: bytes | None, told: Mapping[str, bytes]) -> None:
        found = _KEY.fullmatch(key.removeprefix(own.opening.prefix))
        if found is None:
            self._fault(offset, key, "the key is of no kind that this build knows")
            return
        if found["manifest"] is not None:
            self._take_manifest(own, offset, key, _placed(found["manifest"]), value, told)
            return
        part, piece = found["part"], int(found["piece"])
        if value is None:
            own.drop_piece(part, piece)
        elif len(value) > PIECE_BYTES:
            self._fault(offset, key, f"the piece has {len(value)} bytes, more than {PIECE_BYTES}")
        elif not self._is_dead(found) and part not in own.decoded:
            own.put_piece(part, piece, value)
            while own.unnamed_bytes > self.MOST_UNNAMED_BYTES:
                oldest = next(iter(own.unnamed))
                own.drop_part(oldest)
                if not self._parts_lost:
                    why = "there are more bytes of parts that no manifest names than are held"
                    self._fault(offset, own.opening.prefix + oldest, why)
                self._parts_lost = True

    def _take_manifest(
        self,
        own: _Incarnation,
        offset: int,
        key: str,
        position: Position,
        value: bytes | None,
        told: Mapping[str, bytes],
    ) -> None:
        if value is None:
            own.drop(position)
            return
        try:
            manifest = _decoded(value, Manifest)
            if manifest.at != position:
                raise CorruptCheckpoint(f"the manifest is of position {(*manifest.at,)}")
            for part in manifest.parts:
                if not 0 < part.size <= LARGEST_PART or _KEY.fullmatch(f"{part.name}/0") is None:
                    raise CorruptCheckpoint(f"the manifest names a part of {part.size} bytes, {part.name!r}")
        except CorruptCheckpoint as error:
            self._fault(offset, key, error.what)
            return
        if position > self._adopted:
            own.put(_Stored(manifest, told, offset, MANIFEST_COST + 3 * len(value)))
            if own.manifest_bytes > self.MOST_MANIFEST_BYTES:
                self._shed(own)
        elif position == self._adopted:
            self.told_again = told

    def _shed(self, own: _Incarnation) -> None:
        """Hold half as many manifests: give up those that are not complete, the oldest first."""
        half, offset = self.MOST_MANIFEST_BYTES // 2, -1
        for stored in sorted(own.manifests.values(), key=lambda one: one.offset):
            if own.manifest_bytes > half and self._missing(own, stored.manifest):
                own.drop(stored.manifest.at)
                offset, self.more_faults = stored.offset, self.more_faults + 1
        if own.manifest_bytes > half:  # all that is left seems complete: nothing below the highest that is, is needed
            highest = self.highest()
            for position in list(own.manifests):
                if highest is None or position < highest.manifest.at or own.manifests[position].fault:
                    own.drop(position)
                    self.more_faults += 1
        if offset >= 0:
            self._fault(offset, own.opening.prefix + "m/", "there are more manifests without their parts than are held")

    def claimed(self) -> tuple[int, int]:
        """Return the most rows, and the highest offset, that a manifest names which may be complete; (0, -1) of none.

        Nobody has looked whether it is: this only tells whether it is worth looking. Below one that is, none counts.
        """
        own = self._newest
        may = [] if own is None else [one for one in own.manifests.values() if not one.fault]
        least = max((one.manifest.at for one in may if one.complete is not None), default=self._adopted)
        found = [one.manifest for one in may if one.manifest.at >= least]
        return max((one.rows for one in found), default=0), max((one.at.offset for one in found), default=-1)

    def highest(self, end: int | None = None) -> Complete | None:
        """Return the manifest of the highest position that is complete, past what was adopted; None if there is none.

        Those above it are passed over by name, once each, until one of their parts comes.

        Parameters
        ----------
        end : int, optional
            Where the input ends: nobody can have learned what lies beyond, so manifests there are passed over.
        """
        own = self._newest
        if own is None:
            return None
        for position in sorted(own.manifests, reverse=True):
            stored = own.manifests[position]
            if end is not None and position > Position(end):
                if not stored.beyond:
                    stored.beyond = True
                    key = own.opening.prefix + stored.manifest.key
                    self._fault(stored.offset, key, f"the input ends at {end}: nobody has learned what lies beyond")
                continue
            if stored.complete is not None:
                return stored.complete
            if stored.fault:
                continue
            try:
                complete = self._completed(own, stored)
                for other in own.manifests.values():
                    other.complete = None
                stored.complete = complete
                return complete
            except CorruptCheckpoint as error:
                stored.fault = error.what
                self._lacks |= self._parts_lost and bool(self._missing(own, stored.manifest))
                self._fault(stored.offset, own.opening.prefix + stored.manifest.key, error.what)
        return None

    def adopt(self, complete: Complete) -> None:
        """Forget what lies below a complete manifest; its buckets are kept as they were decoded."""
        own, manifest = self._newest, complete.manifest
        assert own is not None
        self.told_again = {}
        self._adopted = manifest.at
        self._alive = tuple((bucket.extent.start, bucket.extent.end) for bucket in complete.state.buckets)
        own.decoded = {part.name: bucket for part, bucket in zip(manifest.buckets, complete.state.buckets, strict=True)}
        for position in [position for position in own.manifests if position <= manifest.at]:
            own.drop(position)
        for name in [name for name in own.pieces if name in own.decoded or self._is_dead(_match(name))]:
            own.drop_part(name)

    def garbage(self) -> list[bytes]:
        """Return the keys in the log that no manifest past the adopted one will name: to be given tombstones.

        Records of incarnations that are over are among them; what may belong to a higher manifest is not.
        """
        own, found = self._newest, list[str]()
        if own is None:
            return []
        prefix = own.opening.prefix
        for key in self._live:
            if key.startswith(prefix):
                matched = _KEY.fullmatch(key.removeprefix(prefix))
                if matched is None:
                    continue
                if matched["manifest"] is not None:
                    dead = _placed(matched["manifest"]) < self._adopted
                else:
                    dead = self._is_dead(matched)
            else:
                dead = self._is_over(key, own.opening)
            if dead:
                found.append(key)
        return [key.encode() for key in found]

    def take_faults(self) -> list[Fault]:
        """Return what was passed over since the last call."""
        faults, self.faults, self.more_faults = self.faults, [], 0
        return faults

    def _is_dead(self, key: re.Match[str]) -> bool:
        """Tell whether a part lies below what was adopted, and is certain to be named by no higher manifest."""
        if key["at"] is not None:
            return _placed(key["at"]) < self._adopted
        start, end = _placed(key["start"]), _placed(key["end"])
        if not self._alive:
            return False
        # Merged into one that lives, or forgotten. One that holds living ones may be yet to come.
        return end <= self._alive[0][0] or any(
            low <= start and end <= high and (low, high) != (start, end) for low, high in self._alive
        )

    def _is_over(self, key: str, opening: Opening) -> bool:
        """Tell whether a key that is not of this incarnation is of one before it."""
        plain = key.removeprefix(f"{self._name}/o/")
        number = whole_number(plain.removeprefix(f"{self._name}/")[:8])
        if number is None:
            return False
        # One of the same number, but another base or configuration, was begun before this one under the same key.
        return number < opening.incarnation or (plain == key and number == opening.incarnation)

    def _completed(self, own: _Incarnation, stored: _Stored) -> Complete:
        manifest = stored.manifest
        missing = self._missing(own, manifest)
        if missing:
            raise CorruptCheckpoint(
                f"the manifest at {(*manifest.at,)} names {len(manifest.parts)} parts, but {len(missing)} of them are "
                f"not there whole, such as {missing[0]}"
            )
        buckets = dict(self._bucket(own, part) for part in manifest.buckets)
        partition, state = decode_partition(self._value(own, manifest.rest), buckets)
        if partition != self._partition or state.position != manifest.at or len(state.buckets) != len(buckets):
            raise CorruptCheckpoint(
                f"the parts of the manifest at {(*manifest.at,)} are of partition {partition} at {(*state.position,)}"
            )
        if state.leaf_points.X.shape[1] != self._dimension or state.learned.rows != manifest.rows:
            raise CorruptCheckpoint(
                f"the manifest at {(*manifest.at,)} is of {manifest.rows} rows of {self._dimension} features, its "
                f"parts of {state.learned.rows} rows of {state.leaf_points.X.shape[1]}"
            )
        newest = None if manifest.newest is None else decode_rows(self._value(own, manifest.newest))
        if newest is not None and (newest.partition != self._partition or newest.points.dimension != self._dimension):
            raise CorruptCheckpoint(f"the newest rows of the manifest at {(*manifest.at,)} are of another partition")
        return Complete(manifest, state, newest, stored.told)

    def _missing(self, own: _Incarnation, manifest: Manifest) -> list[str]:
        return [part.name for part in manifest.parts if not self._is_there(own, part)]

    def _is_there(self, own: _Incarnation, part: Part) -> bool:
        if part.name in own.decoded:
            return True
        pieces = own.pieces.get(part.name, {})
        return len(pieces) >= part.pieces and sum(len(pieces.get(at, b"")) for at in range(part.pieces)) == part.size

    def _bucket(self, own: _Incarnation, part: Part) -> tuple[BucketName, Bucket]:
        sha256 = part.name.rpartition("#")[2]
        if part.name in own.decoded:
            bucket = own.decoded[part.name]
            return BucketName(bucket.level, bucket.index, sha256), bucket
        name, bucket = decode_bucket(self._value(own, part))
        return name, bucket

    def _value(self, own: _Incarnation, part: Part) -> bytes:
        pieces = own.pieces[part.name]
        value = b"".join(pieces[at] for at in range(part.pieces))
        if value[-CHECKSUM_BYTES:].hex() != part.name.rpartition("#")[2]:
            raise CorruptCheckpoint(f"the part {part.name} has the bytes of another one")
        return value

    def _fault(self, offset: int, key: str, why: str) -> None:
        if len(self.faults) < self.MOST_FAULTS:
            self.faults.append(Fault(offset, key[:LONGEST_KEY], why))
        else:
            self.more_faults += 1


def _match(part: str) -> re.Match[str]:
    found = _KEY.fullmatch(f"{part}/0")
    assert found is not None
    return found


def _decoded(value: bytes, kind: type[Kind]) -> Kind:
    if len(value) > LARGEST_SMALL:
        raise CorruptCheckpoint(f"the record has {len(value)} bytes, more than {LARGEST_SMALL}")
    try:
        return msgspec.json.decode(value, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptCheckpoint(f"the record is damaged: {error}") from None

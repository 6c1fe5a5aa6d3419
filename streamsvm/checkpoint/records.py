"""Records of buckets and partitions: what somebody who learns hands over to whoever combines.

A *bucket record* holds one bucket. Its name is its place in the structure, with the SHA-256 of its bytes: whoever has a
record of that name has that bucket. A *partition record* holds everything else of a partition, the open leaf, its
screen and the audit sample among it, and names its buckets. Both are framed alike:

======  ====  ===========================================================================
offset  size  content
======  ====  ===========================================================================
0       8     ``SSVMBUCK`` of a bucket, ``SSVMPART`` of a partition
8       4     format version, unsigned, little-endian
12      8     H, the header's length in bytes, unsigned, little-endian
20      H     header: JSON (UTF-8) that names every array, as in a checkpoint
20 + H  B     arrays one after another, little-endian, C order
end-32  32    SHA-256 of everything before
======  ====  ===========================================================================

Invariant: the same state gives the same bytes, whoever encodes it. A partition is decoded only with all of its buckets.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from streamsvm.checkpoint.partition_codec import (
    PlacedBucket,
    PlacedExtent,
    PlacedForgetful,
    PlacedHeld,
    PlacedOwnBucket,
    PlacedPoints,
    PlacedScreened,
    StateReader,
    StateWriter,
)
from streamsvm.coreset.structure import Bucket
from streamsvm.errors import CorruptCheckpoint
from streamsvm.learning.partition import PartitionState

FORMAT: Final = 1
BUCKET: Final = b"SSVMBUCK"
PARTITION: Final = b"SSVMPART"
_PREFIX: Final = struct.Struct("<8sIQ")
CHECKSUM_BYTES: Final = 32


class BucketName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a bucket stands in its partition's structure, and the SHA-256 of its record."""

    level: int
    index: int
    sha256: str

    def __str__(self) -> str:
        return f"b/{self.level}/{self.index}#{self.sha256}"


class _PartitionHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    partition: int
    sealed: int
    leader_epoch: int
    buckets: tuple[BucketName, ...]
    leaf_points: PlacedPoints
    leaf_extent: PlacedExtent
    screened: PlacedScreened | None
    audit: tuple[PlacedHeld, ...]
    forgetful: PlacedForgetful | None = None


Header = TypeVar("Header")


@dataclass(frozen=True, slots=True)
class BucketRecord:
    """A bucket as bytes, under its name."""

    name: BucketName
    value: bytes


def encode_bucket(bucket: Bucket) -> BucketRecord:
    """Encode a bucket."""
    writer = StateWriter()
    value = framed(BUCKET, writer.bucket(bucket), writer)
    return BucketRecord(BucketName(bucket.level, bucket.index, value[-CHECKSUM_BYTES:].hex()), value)


def decode_bucket(value: bytes) -> tuple[BucketName, Bucket]:
    """Decode a bucket, and return the name that its bytes have.

    Raises
    ------
    CorruptCheckpoint
        If a byte is damaged or missing, or the format is of another build.
    """
    header_bytes, rest = unframed(BUCKET, value)
    # Which kind it is stands in the header: only the buckets of partitions that forget say what was before them.
    kind = PlacedOwnBucket if b'"before":' in bytes(rest[:header_bytes]) else PlacedBucket
    header, reader = header_of(rest, header_bytes, kind)
    bucket = reader.bucket(header)
    reader.end()
    return BucketName(bucket.level, bucket.index, value[-CHECKSUM_BYTES:].hex()), bucket


def encode_partition(partition: int, state: PartitionState, buckets: Iterable[BucketName]) -> bytes:
    """Encode what a partition is besides its buckets, which are named in their order."""
    writer = StateWriter()
    return framed(
        PARTITION,
        _PartitionHeader(
            partition=partition,
            sealed=state.sealed,
            leader_epoch=state.leader_epoch,
            buckets=tuple(buckets),
            leaf_points=writer.points(state.leaf_points),
            leaf_extent=writer.extent(state.leaf_extent),
            screened=None if state.screened is None else writer.screened(state.screened),
            audit=tuple(writer.held(held) for held in state.audit),
            **writer.forgotten(state.forgetful),
        ),
        writer,
    )


def decode_partition(value: bytes, buckets: Mapping[BucketName, Bucket]) -> tuple[int, PartitionState]:
    """Decode a partition with its buckets.

    Raises
    ------
    CorruptCheckpoint
        If a byte is damaged or missing, the format is of another build, or a bucket that it names is not there.
    """
    header, reader = _partition_header(value)
    missing = [name for name in header.buckets if name not in buckets]
    if missing:
        raise CorruptCheckpoint(
            f"partition {header.partition} consists of {len(header.buckets)} buckets, but {len(missing)} of them are "
            f"not there, such as {missing[0]}"
        )
    state = PartitionState(
        sealed=header.sealed,
        leader_epoch=header.leader_epoch,
        buckets=tuple(buckets[name] for name in header.buckets),
        leaf_points=reader.points(header.leaf_points),
        leaf_extent=reader.extent(header.leaf_extent),
        screened=None if header.screened is None else reader.screened(header.screened),
        audit=tuple(reader.held(held) for held in header.audit),
        forgetful=None if header.forgetful is None else reader.forgetful(header.forgetful),
    )
    reader.end()
    return header.partition, state


def buckets_named(value: bytes) -> tuple[BucketName, ...]:
    """Return the buckets that a partition record names.

    Raises
    ------
    CorruptCheckpoint
    """
    return _partition_header(value)[0].buckets


class Sender:
    """Encodes the states of partitions for one receiver, each bucket once."""

    def __init__(self) -> None:
        self._names: dict[int, dict[int, tuple[Bucket, BucketName]]] = {}

    def encode(self, partition: int, state: PartitionState) -> tuple[list[bytes], bytes]:
        """Return the records of buckets that were not sent before, and that of the partition.

        Buckets that the partition holds no more are forgotten here, as `Receiver` forgets them.
        """
        known, new, names = self._names.get(partition, {}), [], {}
        for bucket in state.buckets:
            # By identity: a bucket never changes, and one that was merged is another object.
            if id(bucket) in known:
                names[id(bucket)] = known[id(bucket)]
            else:
                record = encode_bucket(bucket)
                new.append(record.value)
                names[id(bucket)] = (bucket, record.name)
        self._names[partition] = names
        return new, encode_partition(partition, state, [names[id(bucket)][1] for bucket in state.buckets])


class Receiver:
    """Decodes what a `Sender` encoded, in that order; keeps the buckets of each partition's newest state."""

    def __init__(self) -> None:
        self._buckets: dict[int, dict[BucketName, Bucket]] = {}

    def decode(self, partition: int, buckets: Iterable[bytes], value: bytes) -> PartitionState:
        """Return a partition's state.

        Raises
        ------
        CorruptCheckpoint
            As of `decode_partition`, or if the record is of another partition.
        """
        known = {**self._buckets.get(partition, {}), **dict(map(decode_bucket, buckets))}
        found, state = decode_partition(value, known)
        if found != partition:
            raise CorruptCheckpoint(f"the record is of partition {found}, not of partition {partition}")
        self._buckets[partition] = dict(zip(buckets_named(value), state.buckets, strict=True))
        return state


def framed(magic: bytes, header: Any, writer: StateWriter) -> bytes:
    """Return a header and arrays as a record of a kind that eight bytes name."""
    described = msgspec.json.encode(header, order="deterministic")
    body = b"".join([_PREFIX.pack(magic, FORMAT, len(described)), described, *writer.parts])
    return body + hashlib.sha256(body).digest()


def unframed(magic: bytes, value: bytes) -> tuple[int, memoryview]:
    """Return the header's length, and header and arrays; the checksum is checked first.

    Raises
    ------
    CorruptCheckpoint
    """
    if len(value) < _PREFIX.size + CHECKSUM_BYTES:
        raise CorruptCheckpoint(f"the record has only {len(value)} bytes")
    found, version, header_bytes = _PREFIX.unpack_from(value)
    if found != magic:
        raise CorruptCheckpoint(f"the record does not begin with {magic.decode()}")
    body = memoryview(value)[:-CHECKSUM_BYTES]
    if hashlib.sha256(body).digest() != value[-CHECKSUM_BYTES:]:
        raise CorruptCheckpoint("the record's checksum does not match: bytes were lost or changed")
    if version != FORMAT:
        raise CorruptCheckpoint(f"the record's format version is {version}; this build reads version {FORMAT}")
    if header_bytes > len(body) - _PREFIX.size:
        raise CorruptCheckpoint("the record's header is longer than the record")
    return header_bytes, body[_PREFIX.size :]


def header_of(rest: memoryview, header_bytes: int, kind: type[Header]) -> tuple[Header, StateReader]:
    """Return a record's header and what reads its arrays.

    Raises
    ------
    CorruptCheckpoint
    """
    try:
        header = msgspec.json.decode(rest[:header_bytes], type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptCheckpoint(f"the record's header is damaged: {error}") from None
    return header, StateReader(rest[header_bytes:])


def _partition_header(value: bytes) -> tuple[_PartitionHeader, StateReader]:
    header_bytes, rest = unframed(PARTITION, value)
    return header_of(rest, header_bytes, _PartitionHeader)

"""Records of buckets and partitions: what a process that learns hands over to the one that combines.

A *bucket record* holds one bucket. Its name is its place in the structure, with the SHA-256 of its bytes: whoever has a
record of that name has that bucket. A *partition record* holds everything else of a partition, the open leaf, its
screen and the audit sample among it, and names its buckets. Both have the frame of `streamsvm.checkpoint.framing`, with
``SSVMBUCK`` or ``SSVMPART``, and the trunks and parts of checkpoints.

Invariant: the same state gives the same bytes, in whatever process it is encoded. A partition is decoded only with all
of its buckets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from streamsvm.checkpoint.forms import (
    Form,
    PlacedExtent,
    PlacedParts,
    PlacedPoints,
    PlacedReservoir,
    StateWriter,
    describes,
)
from streamsvm.checkpoint.framing import CHECKSUM_BYTES, RecordFormat
from streamsvm.checkpoint.partition_codec import PARTITION_PARTS, PlacedBucket, PlacedScreened, partition_state
from streamsvm.coreset.buckets import Bucket
from streamsvm.coreset.partition import PartitionState
from streamsvm.errors import CorruptCheckpoint

BUCKET: Final = RecordFormat(b"SSVMBUCK")
PARTITION: Final = RecordFormat(b"SSVMPART")


class BucketName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a bucket stands in its partition's structure, and the SHA-256 of its record."""

    level: int
    index: int
    sha256: str

    def __str__(self) -> str:
        return f"b/{self.level}/{self.index}#{self.sha256}"


@describes(None, make=partition_state, parts=PARTITION_PARTS)
class _PartitionHeader(Form):
    partition: int
    buckets: tuple[BucketName, ...]
    sealed: int
    leader_epoch: int
    leaf_points: PlacedPoints
    leaf_extent: PlacedExtent
    screened: PlacedScreened | None
    audit: tuple[PlacedReservoir, ...]
    parts: PlacedParts


@dataclass(frozen=True, slots=True)
class BucketRecord:
    """A bucket as bytes, under its name."""

    name: BucketName
    value: bytes


def encode_bucket(bucket: Bucket) -> BucketRecord:
    """Encode a bucket."""
    writer = StateWriter()
    value = BUCKET.framed(writer.described(PlacedBucket, bucket), writer)
    return BucketRecord(_name_of(bucket, value), value)


def decode_bucket(value: bytes) -> tuple[BucketName, Bucket]:
    """Decode a bucket, and return the name that its bytes have.

    Raises
    ------
    CorruptCheckpoint
        If a byte is damaged or missing, or another build wrote it.
    """
    header, reader = BUCKET.opened(value, PlacedBucket)
    bucket = reader.value(header)
    assert isinstance(bucket, Bucket)
    reader.end()
    return _name_of(bucket, value), bucket


def _name_of(bucket: Bucket, value: bytes) -> BucketName:
    return BucketName(bucket.level, bucket.index, value[-CHECKSUM_BYTES:].hex())


def encode_partition(partition: int, state: PartitionState, buckets: Iterable[BucketName]) -> bytes:
    """Encode what a partition is besides its buckets, which are named in their order."""
    writer = StateWriter()
    header = writer.described(_PartitionHeader, state, partition=partition, buckets=tuple(buckets))
    return PARTITION.framed(header, writer)


def decode_partition(value: bytes, buckets: Mapping[BucketName, Bucket]) -> tuple[int, PartitionState]:
    """Decode a partition with its buckets.

    Raises
    ------
    CorruptCheckpoint
        If a byte is damaged or missing, another build wrote it, or a bucket that it names is not there.
    """
    header, reader = PARTITION.opened(value, _PartitionHeader)
    missing = [name for name in header.buckets if name not in buckets]
    if missing:
        raise CorruptCheckpoint(
            f"partition {header.partition} consists of {len(header.buckets)} buckets, but {len(missing)} of them are "
            f"not there, such as {missing[0]}"
        )
    state = reader.made(header, buckets=tuple(buckets[name] for name in header.buckets))
    assert isinstance(state, PartitionState)
    reader.end()
    return header.partition, state

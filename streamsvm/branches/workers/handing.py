"""States of partitions between two processes: each bucket is sent once, and kept by its receiver."""

from __future__ import annotations

from collections.abc import Iterable

from streamsvm.checkpoint.records import (
    BucketName,
    buckets_named,
    decode_bucket,
    decode_partition,
    encode_bucket,
    encode_partition,
)
from streamsvm.coreset.structure import Bucket
from streamsvm.errors import CorruptCheckpoint
from streamsvm.learning.partition_state import PartitionState


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

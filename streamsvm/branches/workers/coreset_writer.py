"""Writes what was learned of a partition into the coresets topic: what to write, and in which order.

The protocol is: parts, then, once they are stored, the manifest, then tombstones of what no manifest from that position
on names. What a partition is at a position is a function of its log, so two who learn the same partition write the same
bytes under the same names, and whoever is behind harms nothing. Nobody is fenced, and nothing is transactional.

Invariant: at every prefix of the log the manifest of the highest position has all of its parts. So only what is
certain to be needed by no higher manifest is given a tombstone: what a writer itself held at a lower position and holds
no more, and what lies inside a bucket that a higher manifest names. A bucket that nobody names *yet* is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamsvm.branches.workers.coreset_records import (
    PIECE_BYTES,
    Complete,
    Manifest,
    Opening,
    PartEntry,
    encode_rows,
    keys_of,
    place,
)
from streamsvm.checkpoint.framing import CHECKSUM_BYTES
from streamsvm.checkpoint.records import BucketName, encode_bucket, encode_partition
from streamsvm.coreset.buckets import Bucket
from streamsvm.coreset.partition import PartitionState
from streamsvm.points import Position, Rows


@dataclass(frozen=True, slots=True)
class CoresetWrite:
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
    stored : Complete, optional
        What the log holds already, where this goes on from that.
    """

    def __init__(self, opening: Opening, stored: Complete | None = None) -> None:
        self._prefix, self._partition = opening.prefix, opening.partition
        self._names: dict[int, tuple[Bucket, PartEntry, BucketName]] = {}
        self._live: set[str] = set()
        self._written: set[str] = set()
        if stored is None:
            return
        self._live = {stored.manifest.key, *keys_of(stored.manifest.parts)}
        self._written = {part.name for part in stored.manifest.parts}
        for bucket, part in zip(stored.state.buckets, stored.manifest.buckets, strict=True):
            name = BucketName(bucket.level, bucket.index, part.name.rpartition("#")[2])
            self._names[id(bucket)] = (bucket, part, name)

    def write(self, state: PartitionState, newest: Rows | None) -> CoresetWrite:
        """Return what to write for a state; the caller writes all of it, or ends."""
        values: list[tuple[PartEntry, bytes]] = []
        known, self._names = self._names, {}
        for bucket in state.buckets:
            # By identity: a bucket never changes, and one that was merged is another object.
            if id(bucket) in known:
                self._names[id(bucket)] = known[id(bucket)]
            else:
                record = encode_bucket(bucket)
                extent = bucket.extent
                where = f"{place(extent.start)}-{place(extent.end)}/{bucket.level}.{bucket.index}"
                part = PartEntry(f"b/{where}#{record.name.sha256}", len(record.value))
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

    def _made(self, kind: str, position: Position, value: bytes) -> tuple[PartEntry, bytes]:
        return PartEntry(f"{kind}/{place(position)}#{value[-CHECKSUM_BYTES:].hex()}", len(value)), value

    def _publication(self, manifest: Manifest, values: list[tuple[PartEntry, bytes]]) -> CoresetWrite:
        pieces = [
            (self._key(f"{part.name}/{piece}"), value[piece * PIECE_BYTES : (piece + 1) * PIECE_BYTES])
            for part, value in values
            if part.name not in self._written
            for piece in range(part.pieces)
        ]
        live = {manifest.key, *keys_of(manifest.parts)}
        # Only what this writer held itself at a lower position: what others wrote may not have come to life yet.
        dead, self._live = sorted(self._live - live), live
        self._written = {part.name for part in manifest.parts}
        return CoresetWrite(
            manifest.at, pieces, (self._key(manifest.key), manifest.encode()), list(map(self._key, dead))
        )

    def _key(self, name: str) -> bytes:
        return (self._prefix + name).encode()

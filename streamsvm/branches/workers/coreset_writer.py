"""Writes what was learned of a partition into the coresets topic: what to write, and in which order.

The protocol is: parts, then, once they are stored, the manifest, then tombstones of what no manifest from that position
on names. What a partition is at a position is a function of its log, so two who learn the same partition write the same
bytes under the same names, and whoever is behind harms nothing. Nobody is fenced, and nothing is transactional.

Invariant: at every prefix of the log the manifest of the highest position has all of its parts. So only what is
certain to be needed by no higher manifest is given a tombstone: what a writer itself held at a lower position and holds
no more, and what lies inside a bucket that a higher manifest names. A bucket that nobody names *yet* is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
from streamsvm.coreset.buckets import Bucket
from streamsvm.coreset.partition import PartitionState
from streamsvm.coreset.state import CHECKSUM_BYTES, encode_state
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
        self._prefix, self._of = opening.prefix, opening.names
        self._named: dict[int, tuple[Bucket, PartEntry]] = {}
        self._live: set[str] = set()
        self._written: set[str] = set()
        if stored is None:
            return
        self._live = {stored.manifest.key, *keys_of(stored.manifest.parts)}
        self._written = {part.name for part in stored.manifest.parts}
        for bucket, part in zip(stored.state.buckets, stored.manifest.buckets, strict=True):
            self._named[id(bucket)] = (bucket, part)

    def write(self, state: PartitionState, newest: Rows | None) -> CoresetWrite:
        """Return what to write for a state; the caller writes all of it, or ends."""
        values: list[tuple[PartEntry, bytes]] = []
        known, self._named = self._named, {}
        for bucket in state.buckets:
            # By identity: a bucket never changes, and one that was merged is another object.
            if id(bucket) not in known:
                where = f"b/{place(bucket.extent.start)}-{place(bucket.extent.end)}"
                values.append(_part(where, encode_state(bucket, self._of)))
                known[id(bucket)] = (bucket, values[-1][0])
            self._named[id(bucket)] = known[id(bucket)]
        at = place(state.position)
        values.append(_part(f"l/{at}", encode_state(replace(state, buckets=()), self._of)))
        rest = values[-1][0]
        newest_part = None
        if newest is not None and len(newest):
            values.append(_part(f"n/{at}", encode_rows(newest, self._of)))
            newest_part = values[-1][0]
        manifest = Manifest(
            position=(*state.position,),
            rows=state.learned.rows,
            buckets=tuple(self._named[id(bucket)][1] for bucket in state.buckets),
            rest=rest,
            newest=newest_part,
        )
        return self._publication(manifest, values)

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


def _part(where: str, value: bytes) -> tuple[PartEntry, bytes]:
    return PartEntry(f"{where}#{value[-CHECKSUM_BYTES:].hex()}", len(value)), value

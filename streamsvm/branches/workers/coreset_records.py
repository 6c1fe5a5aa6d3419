"""Records of the coresets topic: their keys and their bytes.

A partition of the topic holds what was learned of the input's partition of the same number:

- an *opening*, written by the trainer: which incarnation of which model begins where, under which configuration;
- *parts*, each a state as `streamsvm.coreset.state` has it: a bucket; the *rest* of a partition, which is all that it
  is without its buckets; its *newest rows*. A part is named by its place in the input and the SHA-256 of its bytes, and
  lies in the log as pieces of at most `PIECE_BYTES`;
- *manifests*: a position, and the names of all parts that make up the partition there.

In which order they are written is `streamsvm.branches.workers.coreset_writer`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
import numpy as np

from streamsvm.coreset.partition import PartitionState
from streamsvm.coreset.state import Names, encode_state
from streamsvm.places import Count, Incarnation, Offset, Partition, Row
from streamsvm.points import Points, Position, Rows

FORMAT: Final = 1
"""Of openings, manifests and keys; it is part of every key, so another format's records are another incarnation's."""
PIECE_BYTES: Final = 768 * 1024
"""Most bytes of a record: below 1 MB, which brokers and clients take by default."""
NEWEST_ROWS: Final = 16
"""Newest rows that each manifest carries: those of 64 partitions are a gate's window."""

POSITION: Final = r"(\d{20})\.(\d{10})"
KEY: Final = re.compile(
    rf"(?:m/(?P<manifest>{POSITION})"
    rf"|(?P<part>(?:b/(?P<start>{POSITION})-(?P<end>{POSITION})|[ln]/(?P<at>{POSITION}))"
    r"#(?P<sha256>[0-9a-f]{64}))/(?P<piece>\d{1,9}))",
    re.ASCII,
)


def place(position: Position) -> str:
    """Return a position as keys have it, which sorts as positions do."""
    return f"{position.offset:020d}.{position.row:010d}"


def placed(text: str) -> Position:
    """Return the position that a key's text has."""
    offset, row = text.split(".")
    return Position(int(offset), int(row))


class Opening(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
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
    left_out : tuple of (offset, row)
        Rows of the partition that count as rejected ones, without dead letters: they were erased.
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
    left_out: tuple[tuple[Offset, Row], ...] = ()

    @property
    def key(self) -> bytes:
        """Its own key."""
        return f"{self.name}/o/{self.incarnation:08d}".encode()

    @property
    def prefix(self) -> str:
        """What the keys of its parts and manifests begin with: whatever decides their bytes is in it."""
        decided = [FORMAT, self.topic, self.topic_id, self.partition, self.base, self.configuration_sha256]
        decided += [self.left_out] if self.left_out else []
        return f"{self.name}/{self.incarnation:08d}-{hashlib.sha256(msgspec.json.encode(decided)).hexdigest()[:16]}/"

    @property
    def names(self) -> Names:
        """What its parts are named as states."""
        left_out = hashlib.sha256(msgspec.json.encode(self.left_out)).hexdigest() if self.left_out else ""
        return Names(self.incarnation, self.topic_id, self.configuration_sha256, left_out)

    def encode(self) -> bytes:
        """Return it as a record's value."""
        return msgspec.json.encode(self, order="deterministic")


class PartEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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
    buckets : tuple of PartEntry
        The oldest first.
    rest : PartEntry
        All that it is without its buckets.
    newest : PartEntry or None
        The newest rows before the position; None where there are none.
    """

    position: tuple[Offset, Row]
    rows: Count
    buckets: tuple[PartEntry, ...]
    rest: PartEntry
    newest: PartEntry | None

    @property
    def parts(self) -> tuple[PartEntry, ...]:
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


def encode_rows(rows: Rows, names: Names) -> bytes:
    """Encode rows of one partition. What stands for a rejected row's point is replaced by zeros: it may be anything."""
    points = rows.points
    X, y, weight = points.X.copy(), np.asarray(points.y, np.int8).copy(), np.asarray(points.weight, np.float64).copy()
    for array in (X, y, weight):
        array[~rows.accepted] = 0
    passed_over = rows.passed_over if rows.passed_over is not None and rows.passed_over.any() else None
    return encode_state(replace(rows, points=Points(X, y, weight), passed_over=passed_over, beside_offset=None), names)


def keys_of(parts: Iterable[PartEntry]) -> Iterator[str]:
    """Yield the keys of all pieces of parts, without prefix."""
    for part in parts:
        yield from (f"{part.name}/{piece}" for piece in range(part.pieces))


@dataclass(frozen=True, slots=True)
class Complete:
    """A manifest with all that it names.

    Attributes
    ----------
    manifest : Manifest
    state : PartitionState
    newest : Rows or None
    headers : mapping of str to bytes
        Headers of its record: what is not a function of the input.
    """

    manifest: Manifest
    state: PartitionState
    newest: Rows | None
    headers: Mapping[str, bytes]

"""What workers leave for a trainer: complete at every prefix of the log, one content for one name; and what is adopted.

A second reading of the keys of the coresets topic, by plain dictionaries and without decoding a part. A key is
name/incarnation/rest; of a manifest the rest is m/position, of a piece of a part it is the part's name and the piece's
number. The promise is about the log as it was written. Compaction may have removed an earlier copy of a part that was
written twice: then only the whole log, and every prefix behind the newest copy, holds what it should.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.promise.anomalies import Anomaly, each
from tests.promise.records import Record, cut_of

PIECE_BYTES = 768 * 1024
OPENINGS = ("o", "f")
"""What stands in the place of an incarnation in keys that are of no state."""


@dataclass(frozen=True)
class Left:
    """What a partition of the coresets topic holds.

    `records, manifests`: How many there were. `lacking`: One for each prefix whose highest manifest lacks a part, or
    has one with other bytes. `rewritten`: Parts and manifests that were written again with other bytes, removed
    meanwhile or not. `complete`: Positions of manifests that were the highest of some prefix and had all parts, as keys
    have them.
    """

    records: int
    manifests: int
    lacking: tuple[str, ...]
    rewritten: tuple[str, ...]
    complete: frozenset[str]

    def anomalies(self) -> list[Anomaly]:
        """Return what is wrong with it."""
        return [
            *each("incomplete-manifest", "the highest manifest lacks a part", self.lacking),
            *each("rewritten-state", "two workers wrote other bytes under one name", self.rewritten),
        ]


@dataclass(slots=True)
class _Incarnation:
    """The pieces and manifests of one incarnation of a model, at the prefix that was read."""

    pieces: dict[str, Record] = field(default_factory=dict)
    manifests: dict[str, Record] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    complete: set[str] = field(default_factory=set)
    highest: str = ""
    named: frozenset[str] = frozenset()
    fault: str = ""

    def take(self, key: str, record: Record) -> bool:
        """Take in the next record; tell whether its name had another content before."""
        kept = self.manifests if key.startswith("m/") else self.pieces
        if record.sha256 is None:
            kept.pop(key, None)
        else:
            kept[key] = record
        self._look_again(key)
        return record.sha256 is not None and self.written.setdefault(key, record.sha256) != record.sha256

    def _look_again(self, changed: str) -> None:
        """Look at the highest manifest, if it is another one now, or the key that changed is one of its parts."""
        highest = max(self.manifests, default="")
        if highest == self.highest and changed != highest and changed.rpartition("/")[0] not in self.named:
            return
        self.highest, self.fault, self.named = highest, "", frozenset()
        if highest:
            manifest = self.manifests[highest].value
            parts = [part for part in (*manifest["buckets"], manifest["rest"], manifest["newest"]) if part]
            self.named = frozenset(part["name"] for part in parts)
            self.fault = next(filter(None, map(self._fault_of, parts)), "")
            if not self.fault:
                self.complete.add(highest.rpartition("/")[2])

    def _fault_of(self, part: Mapping[str, Any]) -> str:
        """Say what is wrong with a part; by its bytes where they are known, else by the number of its pieces."""
        name, size, whole, piece = part["name"], part["size"], b"", 0
        while piece == 0 or len(whole) < size:
            found = self.pieces.get(f"{name}/{piece}")
            if found is None:
                return f"{self.highest} lacks {name}"
            whole += bytes(min(PIECE_BYTES, size - len(whole))) if found.content is None else found.content
            piece += 1
            if found.content is None and len(whole) >= size:
                return ""
        if len(whole) != size:
            return f"{self.highest} names {name}, which has other bytes"
        if hashlib.sha256(whole[:-32]).hexdigest() != name.rpartition("#")[2]:
            return f"{self.highest} names {name}, whose bytes have another hash"
        return ""


def look(records: Iterable[Record]) -> Left:
    """Look at one partition of the topic, from the log's beginning."""
    seen: defaultdict[str, _Incarnation] = defaultdict(_Incarnation)
    lacking, rewritten, count, manifests, begun = list[str](), list[str](), 0, 0, ""
    for record in records:
        count += 1
        name, _, rest = (record.key or "").partition("/")
        incarnation, _, key = rest.partition("/")
        if incarnation == "o" and record.sha256 is not None:
            begun = max(begun, key)
        # What an incarnation left is taken away in any order once a later one has begun.
        if not key or incarnation in OPENINGS or incarnation.partition("-")[0] < begun:
            continue
        own = seen[f"{name}/{incarnation}"]
        manifests += key.startswith("m/") and record.sha256 is not None
        if own.take(key, record):
            rewritten.append(f"{record.key} {record.at}")
        if own.fault:
            lacking.append(f"{own.fault} after {record.at}")
    complete = frozenset(key for own in seen.values() for key in own.complete)
    return Left(count, manifests, tuple(lacking), tuple(rewritten), complete)


def adopted(versions: Iterable[Record], left: Mapping[int, Left]) -> list[Anomaly]:
    """A version stands only where a complete manifest of a worker stood, or at the beginning."""
    nothing: Container[str] = ()
    strange = [
        f"{one.key} at {_place(*at)} in partition {partition}"
        for one in versions
        for partition, at in cut_of(one).items()
        if at != (0, 0) and _place(*at) not in (left[partition].complete if partition in left else nothing)
    ]
    why = "no complete manifest stood there, so no state of it can have been adopted"
    return each("adopted-incomplete", why, strange)


def _place(offset: int, row: int) -> str:
    """Return a position as keys have it."""
    return f"{offset:020d}.{row:010d}"

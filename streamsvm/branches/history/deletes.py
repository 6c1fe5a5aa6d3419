"""Deletes as records of a topic of their own: what they say, and how far they were applied.

A delete names an id, or the key of records, and has a time: that of its record. It takes out every row of that name
whose record is not younger. So the order in which the two logs are read decides nothing: a delete that comes before its
rows takes them out when they come, one that comes twice is one, and a row that comes later, with a later time, is of
somebody who is back.

Invariant: which rows are taken out follows from the deletes up to some positions and the input up to others, both of
which are named (`Applied`); anybody who has the two logs finds the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from streamsvm.branches.history.deletes_part import By
from streamsvm.model.pointers import decode_record
from streamsvm.places import Offset, Partition

OP: Final = "delete"
MOST_NAME_CHARACTERS: Final = 1_000


class Delete(msgspec.Struct, frozen=True):
    """The value of a delete by id; further fields are for whoever wrote it."""

    op: str
    id: str | int


class Applied(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How far deletes were applied to a model, in the aliases topic under `applied_key`.

    Attributes
    ----------
    topic, topic_id : str
        Of the deletes.
    by : "id" or "key"
    deletes : tuple of (int, int)
        Partition, and the offset before which every delete was applied.
    input : tuple of (int, int)
        Partition of the input, and the offset before which its rows were looked at.
    """

    topic: str
    topic_id: str
    by: By
    deletes: tuple[tuple[Partition, Offset], ...]
    input: tuple[tuple[Partition, Offset], ...]


@dataclass(slots=True)
class Wanted:
    """The names that deletes want to be taken out, and until when.

    Attributes
    ----------
    by : "id" or "key"
    until : dict of str to int
        The time of the newest delete of each name, in milliseconds.
    doubled, unreadable : int
        Deletes of a name that had one before, and records that are no deletes.
    """

    by: By
    until: dict[str, int] = field(default_factory=dict)
    doubled: int = 0
    unreadable: int = 0

    def add(self, key: bytes | None, value: bytes | None, time_ms: int) -> str:
        """Take in a record; return the name that it deletes, empty if it is no delete."""
        name = _name(self.by, key, value)
        if not name:
            self.unreadable += 1
            return ""
        self.doubled += name in self.until
        self.until[name] = max(time_ms, self.until.get(name, -1))
        return name

    @property
    def ids(self) -> tuple[str, ...]:
        """Those that are ids."""
        return tuple(self.until) if self.by == "id" else ()

    @property
    def keys(self) -> tuple[str, ...]:
        """Those that are keys."""
        return tuple(self.until) if self.by == "key" else ()

    def only(self, names: Iterable[str]) -> Wanted:
        """Return some of them."""
        return Wanted(self.by, {name: self.until[name] for name in names})


def _name(by: By, key: bytes | None, value: bytes | None) -> str:
    if by == "key":
        if value is not None or not key:
            return ""
        try:
            return key.decode()
        except UnicodeDecodeError:
            return ""
    try:
        found = msgspec.json.decode(value or b"", type=Delete)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    name = str(found.id)
    return name if found.op == OP and 0 < len(name) <= MOST_NAME_CHARACTERS else ""


def applied_key(name: str) -> str:
    """Return the key of the record that says how far deletes were applied; it stands beside the erased rows' own."""
    return f"{name}@erased#deletes"


def encode_applied(applied: Applied) -> bytes:
    """Encode the record's value."""
    return msgspec.json.encode(applied)


def decode_applied(value: bytes) -> Applied:
    """Decode the record's value; `InvalidMessage` if it is not one."""
    return decode_record(value, Applied)


def offsets_of(pairs: tuple[tuple[int, int], ...]) -> dict[int, int]:
    """Return offsets by partition."""
    return dict(pairs)


def pairs_of(offsets: Mapping[int, int]) -> tuple[tuple[int, int], ...]:
    """Return offsets as they are written, in ascending order of partition."""
    return tuple(sorted(offsets.items()))

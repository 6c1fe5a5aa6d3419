"""A topic of deletes, read once: whose rows are to be erased, and up to which time.

A delete names an id, as the value ``{"op": "delete", "id": ...}``; or the key of records, as a tombstone under that
key. It takes out every row of that name whose record is not younger than the delete: a row that comes later is of
somebody who is back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from streamsvm.kafka import Cluster

OP: Final = "delete"
MOST_NAME_CHARACTERS: Final = 1_000


class Delete(msgspec.Struct, frozen=True):
    """The value of a delete by id; further fields are for whoever wrote it."""

    op: str
    id: str | int


@dataclass(slots=True)
class Named:
    """The names whose rows are wanted, each with the time, in milliseconds, up to which; None: all of its rows.

    Attributes
    ----------
    ids, keys : dict of str to int or None
    unreadable : int
        Records that are no deletes.
    """

    ids: dict[str, int | None] = field(default_factory=dict)
    keys: dict[str, int | None] = field(default_factory=dict)
    unreadable: int = 0

    def add(self, key: bytes | None, value: bytes | None, time_ms: int | None) -> None:
        """Take in a record of a topic of deletes."""
        names, name = (self.keys, _key(key)) if value is None else (self.ids, _id(value))
        if not name:
            self.unreadable += 1
            return
        until = names.get(name, -1)
        if until is not None:
            names[name] = None if time_ms is None else max(time_ms, until)


def read_deletes(cluster: Cluster, topic: str, named: Named, timeout_s: float) -> None:
    """Add the names of all deletes of a topic, up to its present end.

    Raises
    ------
    TopicMissing, TransientError
        As of `Cluster.read_to_end`.
    """
    for partition in cluster.describe(topic).partitions:
        for record in cluster.read_to_end(topic, partition, timeout_s=timeout_s):
            named.add(record.key, record.value, record.timestamp_ms)


def _key(key: bytes | None) -> str:
    try:
        return (key or b"").decode()
    except UnicodeDecodeError:
        return ""


def _id(value: bytes) -> str:
    try:
        found = msgspec.json.decode(value, type=Delete)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    name = str(found.id)
    return name if found.op == OP and len(name) <= MOST_NAME_CHARACTERS else ""

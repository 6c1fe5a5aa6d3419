"""Steps that the contract's tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from streamsvm.kafka import Connection, Message, Outbox, Record
from tests import deadline

PATIENCE_S = 60.0
"""How long a test waits for what must happen; never how long it takes."""


class Pollable(Protocol):
    def poll(self, max_records: int, timeout_s: float) -> list[Record]: ...


def send(connection: Connection, messages: Iterable[Message]) -> None:
    """Store messages and wait for the broker."""
    outbox = Outbox(connection)
    for message in messages:
        outbox.send(message)
    outbox.flush(PATIENCE_S)
    outbox.close()


def send_values(connection: Connection, topic: str, values: Iterable[bytes]) -> None:
    """Store values in partition 0."""
    send(connection, [Message(topic, value, partition=0) for value in values])


def numbers(count: int, start: int = 0) -> list[bytes]:
    """Return `count` distinct values."""
    return [b"%d" % number for number in range(start, start + count)]


def drain(reader: Pollable, count: int) -> list[Record]:
    """Poll until `count` records have come; more are a failure."""
    records: list[Record] = []
    eventually(lambda: (records.extend(reader.poll(1000, 0.1)), len(records))[1] >= count, f"{count} records come")
    assert len(records) == count
    return records


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds; the condition itself may wait a little."""
    deadline.eventually(condition, what, PATIENCE_S)


def values_of(records: Iterable[Record]) -> list[bytes | None]:
    """Return the values of records."""
    return [record.value for record in records]

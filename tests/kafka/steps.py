"""Steps that the contract's tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import pytest

from streamsvm.errors import TransientError
from streamsvm.kafka import FROM_THE_FIRST, Connection, GroupPosition, Message, Outbox, Record, client
from tests import deadline

PATIENCE_S = 60.0
"""How long a test waits for what must happen; never how long it takes."""


def as_the_group_says(
    partitions: Iterable[int], hints: Mapping[int, GroupPosition], begun: Mapping[int, int]
) -> dict[int, int]:
    """Place a member where its group says, or else where it began, or at the first record."""
    if not hints:
        raise TransientError("the group's coordinator does not answer")
    offsets = {partition: hints[partition].offset for partition in partitions}
    return {p: begun.get(p, FROM_THE_FIRST) if at is None else at for p, at in offsets.items()}


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


def clients_made(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that grows by one with each client of the library that is made from now on."""
    made: list[object] = []
    options = client.options_for
    monkeypatch.setattr(client, "options_for", lambda *given: made.append(given) or options(*given))
    return made

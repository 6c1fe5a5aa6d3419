"""`streamsvm dead-letters`: what was rejected, why, and what to do about it.

It only reads; copies of one letter (delivery is at least once) are shown once, the newest of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from consumers.foreign import printable
from consumers.topics import READ_TIMEOUT_S
from streamsvm.codec import deadletter
from streamsvm.codec.deadletter import Rejected
from streamsvm.codec.points import REASONS, REMEDIES
from streamsvm.errors import InvalidMessage
from streamsvm.kafka import Connection, Record, describe_topic, log_range, read_to_end

SHOWN_BYTES: Final = 80
"""Of a value, to people."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter and when it was written, in milliseconds since the epoch."""

    rejected: Rejected
    time_ms: int


@dataclass(frozen=True, slots=True)
class Letters:
    """What a dead-letter topic holds.

    Attributes
    ----------
    topic : str
    letters : list of Letter
        The newest, oldest first.
    earlier : int
        Offsets before them, at most so many letters.
    foreign : int
        Records among them that are no dead letters of ours.
    """

    topic: str
    letters: list[Letter]
    earlier: int
    foreign: int


def read_letters(connection: Connection, topic: str, last: int) -> Letters:
    """Read the newest dead letters of a topic.

    Parameters
    ----------
    connection : Connection
    topic : str
        The dead-letter topic.
    last : int
        How many of the newest.

    Raises
    ------
    ConfigurationError
        As `TopicMissing` if there is no such topic.
    TransientError
        If no broker answers.
    """
    found: dict[str, Letter] = {}
    earlier = foreign = 0
    for partition in describe_topic(connection, topic).partitions:
        low, high = log_range(connection, topic, partition)
        start = max(low, high - last)
        earlier += start - low
        for record in read_to_end(connection, topic, partition, start=start, timeout_s=READ_TIMEOUT_S):
            try:
                letter = _letter(record)
            except InvalidMessage:
                foreign += 1
            else:
                found[letter.rejected.id] = letter
    ordered = sorted(found.values(), key=lambda letter: letter.time_ms)
    return Letters(topic, ordered[-last:], earlier + max(0, len(ordered) - last), foreign)


def _letter(record: Record) -> Letter:
    return Letter(deadletter.decode(record.value, record.headers), record.timestamp_ms or 0)


def lines(letter: Letter) -> Iterator[str]:
    """Yield where a record stood and what is wrong with it, its first bad row for all of them; then how it begins."""
    one, first = letter.rejected, letter.rejected.rows[0]
    rows = "" if one.rejected == "1 of 1" else f" row {first.row}, {one.rejected} rows"
    yield printable(f"{one.topic}[{one.partition}]@{one.offset}{rows}  {first.reason}: {first.message}")
    more = f" ... ({one.value_bytes:,} bytes)" if one.value_bytes > SHOWN_BYTES else ""
    yield "    " + printable((one.value or b"")[:SHOWN_BYTES].decode(errors="backslashreplace")) + more


def advice(letters: Iterable[Letter]) -> Iterator[str]:
    """Yield a line for each reason, the commonest first: how many rows, what it means, what to do."""
    counted = Counter(row.reason for letter in letters for row in letter.rejected.rows)
    for reason, count in counted.most_common():
        meaning, remedy = REASONS.get(reason, "a reason of another build"), REMEDIES.get(reason, "")
        yield printable(f"{reason} ({count:,}): {meaning}. {remedy}".rstrip())


def plain(letter: Letter) -> dict[str, Any]:
    """Return a letter as a plain JSON value; bytes of the record's value that are no UTF-8 are escaped."""
    one = letter.rejected
    return {
        "topic": one.topic,
        "partition": one.partition,
        "offset": one.offset,
        "time_ms": letter.time_ms,
        "rejected": one.rejected,
        "rows": [{"row": row.row, "reason": row.reason, "message": row.message} for row in one.rows],
        "value": None if one.value is None else one.value.decode(errors="backslashreplace"),
        "value_bytes": one.value_bytes,
    }

"""Readers of one partition: everything up to its end, what comes after, and single records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from confluent_kafka import TopicPartition

from streamsvm.errors import BrokerUnavailable, TransientError
from streamsvm.kafka.client import SLICE_S, Link, make_consumer
from streamsvm.kafka.connection import Connection, Option
from streamsvm.kafka.consuming import assign_positions, buffer_of
from streamsvm.kafka.failures import OffsetOutOfRange
from streamsvm.kafka.feed import Feed
from streamsvm.kafka.log import log_range, offset_since
from streamsvm.kafka.records import Record

_BATCH = 500
_BUFFERED_BYTES = 8 * 2**20
_TO_THE_END: dict[str, Option] = {"enable.partition.eof": True, "fetch.wait.max.ms": 50}
_WHATEVER_IS_STORED: dict[str, Option] = {**_TO_THE_END, "isolation.level": "read_uncommitted"}


def read_to_end(
    connection: Connection, topic: str, partition: int, *, start: int | None = None, timeout_s: float
) -> Iterator[Record]:
    """Read a partition up to its end as of now: every committed record below it, then stop.

    The end is the read-uncommitted high watermark, taken before this returns. Control records and
    aborted ones at the tail are passed over. A transaction still open below the end is waited for: the
    iterator never ends early, since a committed record might yet appear there.

    Parameters
    ----------
    connection : Connection
        The broker.
    topic, partition
        What to read.
    start : int, optional
        The first offset to read; the log's first by default.
    timeout_s : float
        How long, in seconds, the iterator waits without any progress.

    Returns
    -------
    iterator of Record
        It holds a connection until it is exhausted or closed. Its steps may block, and raise
        `BrokerUnavailable` after `timeout_s` without progress, or `TransientError` if by then a
        transaction is still open below the end.

    Raises
    ------
    OffsetOutOfRange
        If `start` lies outside the log.
    TopicMissing, BrokerUnavailable
        As for `log_range`, which this calls.
    """
    low, high = log_range(connection, topic, partition)
    position = low if start is None else start
    if not low <= position <= high:
        raise OffsetOutOfRange(topic, partition, position, low, high)
    return _read_until(connection, topic, partition, position, high, timeout_s)


@dataclass(frozen=True, slots=True)
class Stored:
    """A record as the log holds it.

    Attributes
    ----------
    record : Record
    committed : bool
        Whether readers of committed records get it.
    """

    record: Record
    committed: bool


def read_stored(
    connection: Connection,
    topic: str,
    partition: int,
    wanted: Callable[[Record], bool],
    *,
    start: int | None = None,
    since_ms: int | None = None,
    timeout_s: float,
) -> list[Stored]:
    """Read every record of a partition up to its end as of now, aborted ones too, and keep those that are wanted.

    Parameters
    ----------
    connection, topic, partition
    wanted : callable
        Tells of a record whether to keep it.
    start : int, optional
        Begin at this offset; at the log's first by default.
    since_ms : int, optional
        Begin with the first record that is not older, in milliseconds since the epoch, if that comes later.
    timeout_s : float
        How long, in seconds, it waits without any progress.

    Raises
    ------
    TransientError
        If a transaction is open below the end: what is committed there cannot be told yet.
    TopicMissing, BrokerUnavailable
        As for `log_range`.
    """
    low, high = log_range(connection, topic, partition)
    low = low if start is None else max(low, start)
    if since_ms is not None:
        since = offset_since(connection, topic, partition, since_ms)
        low = high if since is None else max(low, since)
    found = [
        record
        for record in _read_until(connection, topic, partition, low, high, timeout_s, _WHATEVER_IS_STORED)
        if wanted(record)
    ]
    if not found:
        return []
    first = found[0].offset
    visible = {record.offset for record in _read_until(connection, topic, partition, first, high, timeout_s)}
    return [Stored(record, record.offset in visible) for record in found]


def stored_at(connection: Connection, topic: str, partition: int, offset: int, timeout_s: float) -> Record | None:
    """Return the record at an offset, or the first one after it, committed or not; None if there is none.

    Raises
    ------
    TopicMissing, BrokerUnavailable
        As for `log_range`.
    """
    high = log_range(connection, topic, partition)[1]
    return next(_read_until(connection, topic, partition, offset, high, timeout_s, _WHATEVER_IS_STORED), None)


def _read_until(
    connection: Connection,
    topic: str,
    partition: int,
    position: int,
    high: int,
    timeout_s: float,
    options: dict[str, Option] = _TO_THE_END,
) -> Iterator[Record]:
    if position >= high:
        return
    tail = Tail(connection, topic, partition, position, _options=options)
    try:
        since = time.monotonic()
        while position < high:
            records = tail.poll(_BATCH, SLICE_S)
            for record in records:
                if record.offset >= high:
                    return
                yield record
            reached = max(tail.position, tail.end or 0)
            if records or reached > position:
                position, since = reached, time.monotonic()
            elif time.monotonic() - since > timeout_s:
                raise _stuck(topic, partition, position, high, timeout_s, tail.end)
    finally:
        tail.close()


def _stuck(topic: str, partition: int, position: int, high: int, timeout_s: float, end: int | None) -> TransientError:
    where = f"{topic}[{partition}] from offset {position} to {high} within {timeout_s:g} s"
    if end is None:
        return BrokerUnavailable(f"no broker delivered {where}", "Check that the broker runs, and try again.")
    return TransientError(
        f"could not read {where}: a transaction is open there",
        "It ends with its producer, at the latest after that one's transaction timeout; try again then.",
    )


class Tail:
    """Follows one partition from an offset on. Not thread-safe, except for `connected`.

    Blocks at construction at most the connection's request timeout, to see that the topic exists.

    Parameters
    ----------
    connection : Connection
        The broker.
    topic, partition
        What to follow.
    offset : int
        The first offset to read.

    Raises
    ------
    TopicMissing
        If the topic or the partition does not exist.
    BrokerUnavailable
        If no broker answers in time.
    """

    def __init__(
        self,
        connection: Connection,
        topic: str,
        partition: int,
        offset: int,
        *,
        _options: dict[str, Option] | None = None,
    ) -> None:
        self._link = Link(connection)
        self._partition = partition
        self._position = offset
        self._consumer = make_consumer(connection, self._link, fixed={**buffer_of(_BUFFERED_BYTES), **(_options or {})})
        self._feed = Feed(self._consumer, self._link, connection, topic)
        try:
            assign_positions(self._consumer, self._link, connection, topic, {partition: offset})
        except BaseException:
            self._consumer.close()
            raise

    @property
    def position(self) -> int:
        """The next offset to be returned by `poll`, at the least."""
        return self._position

    @property
    def end(self) -> int | None:
        """The offset at which the end was last seen, by a reader that asks for it."""
        return self._feed.ends.get(self._partition)

    def poll(self, max_records: int, timeout_s: float) -> list[Record]:
        """Return at most `max_records` records as soon as there are any; blocks at most `timeout_s`.

        Raises
        ------
        OffsetOutOfRange, TopicMissing, ConfigurationError, FatalError
            As for `Input.poll`.
        """
        records = list(self._feed.take(max_records, timeout_s, gather=False))
        if records:
            self._position = records[-1].offset + 1
        return records

    def connected(self) -> bool:
        """Return whether a broker's connection was up at the last `poll`; any thread may ask."""
        return self._link.up

    def close(self) -> None:
        """Let go of the broker."""
        self._consumer.close()


class Reader:
    """Fetches single records by coordinates over one kept connection. Not thread-safe.

    Parameters
    ----------
    connection : Connection
        The broker; nothing blocks or fails here for want of one.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._link = Link(connection)
        self._consumer = make_consumer(
            connection,
            self._link,
            fixed={**_TO_THE_END, **buffer_of(_BUFFERED_BYTES), "queued.min.messages": 1},
        )

    def fetch_one(self, topic: str, partition: int, offset: int, timeout_s: float) -> Record | None:
        """Return the record at an offset, None if no committed record is there (any more, or yet).

        Blocks at most `timeout_s` plus the connection's request timeout.

        Raises
        ------
        TopicMissing
            If the topic or the partition does not exist.
        BrokerUnavailable
            If the broker does not answer in time.
        ConfigurationError, FatalError
            As for `Input.poll`.
        """
        assign_positions(self._consumer, self._link, self._connection, topic, {partition: offset})
        feed = Feed(self._consumer, self._link, self._connection, topic)
        try:
            return self._find(feed, TopicPartition(topic, partition, offset), timeout_s)
        except OffsetOutOfRange:
            return None
        finally:
            self._consumer.unassign()

    def _find(self, feed: Feed, wanted: TopicPartition, timeout_s: float) -> Record | None:
        deadline = time.monotonic() + timeout_s
        while True:
            for record in feed.take(1, SLICE_S, gather=False):
                return record if record.offset == wanted.offset else None
            if wanted.partition in feed.ends:
                return None
            if time.monotonic() >= deadline:
                raise BrokerUnavailable(
                    f"no broker delivered {wanted.topic}[{wanted.partition}] at offset {wanted.offset} "
                    f"within {timeout_s:g} s",
                    "Check that the broker runs, and try again.",
                )

    def close(self) -> None:
        """Let go of the broker."""
        self._consumer.close()


def fetch_one(connection: Connection, topic: str, partition: int, offset: int, timeout_s: float) -> Record | None:
    """Fetch one record over a connection of its own; see `Reader.fetch_one`."""
    reader = Reader(connection)
    try:
        return reader.fetch_one(topic, partition, offset, timeout_s)
    finally:
        reader.close()

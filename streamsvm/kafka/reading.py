"""Readers of one partition: everything up to its end, what comes after, and single records."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from confluent_kafka import Consumer, TopicPartition

from streamsvm.errors import BrokerUnavailable, TransientError
from streamsvm.kafka.client import SLICE_S, Link, lent_consumer, make_consumer
from streamsvm.kafka.connection import Connection, Option
from streamsvm.kafka.consuming import assign_positions, buffer_of
from streamsvm.kafka.failures import OffsetOutOfRange
from streamsvm.kafka.feed import Feed
from streamsvm.kafka.log import log_range, log_ranges
from streamsvm.kafka.records import Record

_BATCH = 500
_RETENTION_RACES = 3
_BUFFERED_BYTES = 8 * 2**20
_FETCHED_BYTES = 64 * 2**10
"""What is fetched for a single record beyond its batch, which comes whole however large it is."""
_TO_THE_END: dict[str, Option] = {"enable.partition.eof": True, "fetch.wait.max.ms": 5}
"""A broker waits so long before it says that an end was met, and the connection's next question waits with it."""
_WHATEVER_IS_STORED: dict[str, Option] = {**_TO_THE_END, "isolation.level": "read_uncommitted"}
_ONE_AT_A_TIME: dict[str, Option] = {
    **_TO_THE_END,
    **buffer_of(_BUFFERED_BYTES),
    # Fetching ahead of the one record that is wanted would be thrown away with the next assignment.
    "queued.min.messages": 1,
    "fetch.message.max.bytes": _FETCHED_BYTES,
}


def read_to_end(
    connection: Connection, topic: str, partition: int, *, start: int | None = None, timeout_s: float
) -> Iterator[Record]:
    """See `Cluster.read_to_end`."""
    low, high = log_range(connection, topic, partition)
    position = low if start is None else start
    if not low <= position <= high:
        raise OffsetOutOfRange(topic, partition, position, low, high)
    return _read_ranges(connection, topic, {partition: (position, high)}, timeout_s, _TO_THE_END)


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
    partitions: Collection[int],
    wanted: Callable[[Record], bool],
    *,
    start: int | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    timeout_s: float,
) -> list[Stored]:
    """See `Cluster.stored`; the partitions of one topic."""
    # Between asking for the first offset and reading it, retention may remove it; then the range is asked for again.
    for _ in range(_RETENTION_RACES):
        ranges = log_ranges(connection, topic, partitions, since_ms=since_ms, until_ms=until_ms)
        begun = {partition: (max(low, start or 0), high) for partition, (low, high) in ranges.items()}
        with suppress(OffsetOutOfRange):  # retention moved the log's beginning meanwhile
            return _stored(connection, topic, begun, wanted, timeout_s)
    raise TransientError(
        f"retention removes records of {topic} faster than they are read",
        "Try again, or increase the topic's retention.",
    )


def _stored(
    connection: Connection,
    topic: str,
    ranges: Mapping[int, tuple[int, int]],
    wanted: Callable[[Record], bool],
    timeout_s: float,
) -> list[Stored]:
    records = _read_ranges(connection, topic, ranges, timeout_s, _WHATEVER_IS_STORED)
    # Partitions are read at once and arrive mixed.
    found = sorted(filter(wanted, records), key=lambda record: (record.partition, record.offset))
    spans = {
        partition: (min(offsets), max(offsets) + 1)
        for partition in ranges
        if (offsets := [record.offset for record in found if record.partition == partition])
    }
    visible = {
        # A second reading, of committed records only: the client does not say of a record whether its transaction was
        # committed.
        (record.partition, record.offset)
        for record in _read_ranges(connection, topic, spans, timeout_s, _TO_THE_END)
    }
    return [Stored(record, (record.partition, record.offset) in visible) for record in found]


def stored_at(connection: Connection, topic: str, partition: int, offset: int, timeout_s: float) -> Record | None:
    """See `Cluster.stored_at`."""
    high = log_range(connection, topic, partition)[1]
    return next(_read_ranges(connection, topic, {partition: (offset, high)}, timeout_s, _WHATEVER_IS_STORED), None)


def _read_ranges(
    connection: Connection,
    topic: str,
    ranges: Mapping[int, tuple[int, int]],
    timeout_s: float,
    options: dict[str, Option],
) -> Iterator[Record]:
    """Read partitions at the same time, each from an offset up to before another."""
    at = {partition: low for partition, (low, high) in ranges.items() if low < high}
    if not at:
        return
    with lent_consumer(connection, topic, {**buffer_of(_BUFFERED_BYTES), **options}) as (consumer, link):
        feed = Feed(consumer, link, connection, topic)
        assign_positions(consumer, link, connection, topic, at)
        since = time.monotonic()
        while at:
            before = dict(at)
            for record in feed.take(_BATCH, SLICE_S, gather=False, to_end=True):
                if record.partition not in at:
                    continue  # the client had fetched it ahead
                at[record.partition] = record.offset + 1
                if record.offset < ranges[record.partition][1]:
                    yield record
            # Markers and aborted records at the end come out as no record: only the end event moves past them.
            at = {partition: max(offset, feed.ends.get(partition, 0)) for partition, offset in at.items()}
            if at != before:
                since = time.monotonic()
            # Without progress, not in total: a long log may take as long as it needs.
            elif time.monotonic() - since > timeout_s:
                partition = min(at)
                _, high = ranges[partition]
                raise _stuck(topic, partition, at[partition], high, timeout_s, feed.ends.get(partition))
            at = _unread(consumer, topic, at, ranges)


def _unread(
    consumer: Consumer, topic: str, at: dict[int, int], ranges: Mapping[int, tuple[int, int]]
) -> dict[int, int]:
    """Return the partitions that are not read to their ends, and have no more fetched of the others."""
    left = {partition: offset for partition, offset in at.items() if offset < ranges[partition][1]}
    # A partition that is done would go on filling the client's buffer, and the others would wait.
    if left and len(left) < len(at):
        consumer.incremental_unassign([TopicPartition(topic, partition) for partition in at.keys() - left.keys()])
    return left


def _stuck(topic: str, partition: int, position: int, high: int, timeout_s: float, end: int | None) -> TransientError:
    where = f"{topic}[{partition}] from offset {position} to {high} within {timeout_s:g} s"
    # An end event proves that a broker answers: then a transaction, not the network, is in the way.
    if end is None:
        return BrokerUnavailable(f"no broker delivered {where}", "Check that the broker runs, and try again.")
    return TransientError(
        f"could not read {where}: an open transaction holds readers up there",
        "The transaction ends with its producer, or when its timeout expires. Try again then.",
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

    def __init__(self, connection: Connection, topic: str, partition: int, offset: int) -> None:
        self._link = Link(connection)
        self._position = offset
        self._consumer = make_consumer(connection, self._link, fixed=buffer_of(_BUFFERED_BYTES))
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


def fetch_one(connection: Connection, topic: str, partition: int, offset: int, timeout_s: float) -> Record | None:
    """See `RecordFetcher.fetch_one`."""
    with lent_consumer(connection, topic, _ONE_AT_A_TIME) as client:
        return RecordFetcher(connection, _client=client).fetch_one(topic, partition, offset, timeout_s)


class RecordFetcher:
    """Fetches single records by coordinates over one kept connection. Not thread-safe.

    Parameters
    ----------
    connection : Connection
        The broker; nothing blocks or fails here for want of one.
    """

    def __init__(self, connection: Connection, *, _client: tuple[Consumer, Link] | None = None) -> None:
        self._connection = connection
        if _client is None:
            link = Link(connection)
            _client = make_consumer(connection, link, fixed=_ONE_AT_A_TIME), link
        self._consumer, self._link = _client

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
        found = self.fetch_from(topic, partition, offset, 1, timeout_s)
        # The client returns the next record where the one at this offset is a marker, aborted or compacted.
        return found[0] if found and found[0].offset == offset else None

    def fetch_from(self, topic: str, partition: int, offset: int, most: int, timeout_s: float) -> list[Record]:
        """Return the first committed records at or past an offset, one at least and `most` at most; none at the end.

        Blocks and raises as `fetch_one`, and waits up to 0.1 s for more than one. An offset outside the log has none.
        """
        assign_positions(self._consumer, self._link, self._connection, topic, {partition: offset})
        feed = Feed(self._consumer, self._link, self._connection, topic)
        try:
            return self._first(feed, TopicPartition(topic, partition, offset), most, timeout_s)
        # Retention may have removed it, or it may not be written yet: either way there is no such record now.
        except OffsetOutOfRange:
            return []
        finally:
            self._consumer.unassign()

    def _first(self, feed: Feed, wanted: TopicPartition, most: int, timeout_s: float) -> list[Record]:
        deadline = time.monotonic() + timeout_s
        while True:
            if records := list(feed.take(most, SLICE_S, gather=most > 1, to_end=True)):
                return records
            if wanted.partition in feed.ends:
                return []
            if time.monotonic() >= deadline:
                raise BrokerUnavailable(
                    f"no broker delivered {wanted.topic}[{wanted.partition}] at offset {wanted.offset} "
                    f"within {timeout_s:g} s",
                    "Check that the broker runs, and try again.",
                )

    def close(self) -> None:
        """Let go of the broker."""
        self._consumer.close()

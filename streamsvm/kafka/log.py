"""Questions about a log: which offsets it holds, and where to start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Literal

from confluent_kafka import Consumer, KafkaException, TopicPartition

from streamsvm.errors import ConfigurationError, TopicMissing
from streamsvm.kafka.client import Link, make_consumer, partitions_of
from streamsvm.kafka.connection import Connection
from streamsvm.kafka.failures import error_of

Start = Literal["earliest", "latest"] | datetime


def log_range(connection: Connection, topic: str, partition: int) -> tuple[int, int]:
    """Return a partition's first offset and the one after its last, whether committed or not.

    Blocks at most three times the connection's request timeout.

    Raises
    ------
    TopicMissing
        If there is no such topic or partition.
    BrokerUnavailable
        If no broker answers in time.
    """
    with _questions(connection, topic, [partition], "read_uncommitted") as (consumer, link):
        return _watermarks(consumer, link, connection, topic, partition)


def start_positions(connection: Connection, topic: str, partitions: Iterable[int], start: Start) -> dict[int, int]:
    """Return the position of each partition at which to start reading.

    Blocks at most a few times the connection's request timeout.

    Parameters
    ----------
    connection : Connection
        The broker.
    topic : str
        The topic.
    partitions : iterable of int
        Its partitions of interest.
    start : "earliest", "latest" or aware datetime
        The log's first record; the end of what is committed now (records of transactions still open
        lie behind it, none is skipped); or the first record that is not older, the end if all are.

    Raises
    ------
    ConfigurationError
        If a time has no zone, or the embedded broker is asked for a time, which it cannot search.
    TopicMissing, BrokerUnavailable
        As for `log_range`.
    """
    wanted = list(partitions)
    if isinstance(start, datetime):
        _check_time(connection, start)
    with _questions(connection, topic, wanted, "read_committed") as (consumer, link):
        ranges = {p: _watermarks(consumer, link, connection, topic, p) for p in wanted}
        if start == "earliest":
            return {p: low for p, (low, _) in ranges.items()}
        ends = {p: high for p, (_, high) in ranges.items()}
        if start == "latest":
            return ends
        return {**ends, **_offsets_at(consumer, link, connection, topic, wanted, start)}


def require_partitions(topic: str, wanted: Iterable[int], existing: Iterable[int]) -> None:
    """Raise `TopicMissing` if the topic lacks a partition that is wanted."""
    missing = sorted(set(wanted) - set(existing))
    if missing:
        numbers = ", ".join(map(str, missing))
        raise TopicMissing(f"topic {topic} has no partition {numbers}", "Was it made anew with fewer partitions?")


@contextmanager
def _questions(
    connection: Connection, topic: str, partitions: Iterable[int], isolation: str
) -> Iterator[tuple[Consumer, Link]]:
    link = Link(connection)
    consumer = make_consumer(connection, link, fixed={"isolation.level": isolation})
    try:
        require_partitions(topic, partitions, partitions_of(consumer, link, connection, topic))
        yield consumer, link
    finally:
        consumer.close()


def _watermarks(consumer: Consumer, link: Link, connection: Connection, topic: str, partition: int) -> tuple[int, int]:
    try:
        low, high = consumer.get_watermark_offsets(
            TopicPartition(topic, partition), timeout=connection.request_timeout_s
        )
    except KafkaException as error:
        raise link.failure(error_of(error), f"ask for the range of {topic}[{partition}]") from error
    return low, high


def _check_time(connection: Connection, start: datetime) -> None:
    if start.tzinfo is None:
        raise ConfigurationError(f"the start {start.isoformat()} has no time zone", "Add one, such as Z.")
    if connection.embedded:
        raise ConfigurationError(
            "the embedded broker cannot search by time", "Start at earliest or latest, or use a real broker."
        )


def _offsets_at(
    consumer: Consumer,
    link: Link,
    connection: Connection,
    topic: str,
    partitions: Iterable[int],
    start: datetime,
) -> dict[int, int]:
    since_ms = max(int(start.timestamp() * 1000), 0)
    doing = f"search {topic} for {start.isoformat()}"
    asked = [TopicPartition(topic, p, since_ms) for p in partitions]
    try:
        found = consumer.offsets_for_times(asked, timeout=connection.request_timeout_s)
    except KafkaException as error:
        raise link.failure(error_of(error), doing) from error
    for answer in found:
        if answer.error is not None:
            raise link.failure(answer.error, doing)
    return {answer.partition: answer.offset for answer in found if answer.offset >= 0}

"""Questions about a log: which offsets it holds, and where to start."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from streamsvm.errors import ConfigurationError
from streamsvm.kafka.client import ASKS, Link, lent_consumer, make_consumer, partitions_of
from streamsvm.kafka.connection import Connection, Option
from streamsvm.kafka.failures import error_of, partitions_missing
from streamsvm.kafka.topics import failure_of

Start = Literal["earliest", "latest"] | datetime

Place = tuple[str, int]
"""A topic and one of its partitions."""

_MOVED: Final = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)
"""A leader that was elected this moment, of a new topic say: who asks again at once is told."""

_ASKED_AGAIN: Final = _MOVED | {KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT}
"""A new client says that all brokers are down as soon as its first connection fails; the next may stand."""

_PAUSE_S: Final = 0.1
"""Before a leader is asked again."""

_FIRST_LOOK_S: Final = 2.0
"""How long a question waits for its answer before a new client asks it, in seconds; twice as long each time. A client
goes on waiting for a leader that has died, also where there is another by now."""


@dataclass(frozen=True, slots=True)
class Watermarks:
    """How far a partition goes.

    Attributes
    ----------
    stable : int
        Readers of committed records get no further: the first offset of a transaction that has no end yet, or `end`.
    end : int
        The offset after the last record, committed or not.
    """

    stable: int
    end: int


def log_range(connection: Connection, topic: str, partition: int) -> tuple[int, int]:
    """See `Cluster.log_range`."""
    with _questions(connection, topic, [partition], "read_uncommitted") as (consumer, link):
        return _watermarks(consumer, link, connection, topic, partition)


class Marks:
    """Asks how far partitions go, over connections that are kept. Safe from any thread.

    Parameters
    ----------
    connection : Connection
        The broker; nothing blocks or fails here for want of one.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._link = Link(connection)
        # Of idle clients: `poll` waits until another thread's question to the same client is answered.
        self._idle: dict[str, list[Consumer]] = {"read_committed": [], "read_uncommitted": []}

    def of(self, places: Iterable[Place]) -> dict[Place, Watermarks]:
        """Return the marks of partitions: two requests to each of their leaders.

        Blocks at most twice the connection's request timeout.

        Raises
        ------
        TopicMissing
            If there is no such topic or partition.
        BrokerUnavailable, TransientError
            If no broker answers in time, or a leader cannot say it now.
        ConfigurationError
            If the broker refuses us.
        """
        wanted = list(places)
        stable = self._offsets(wanted, "read_committed")
        end = self._offsets(wanted, "read_uncommitted")
        return {place: Watermarks(stable[place], end[place]) for place in wanted}

    def stable(self, places: Iterable[Place], timeout_s: float | None = None) -> dict[Place, int]:
        """Return the stable offsets of partitions; otherwise as `of`, with one request, which may have a limit."""
        return self._offsets(list(places), "read_committed", timeout_s)

    def _offsets(self, places: list[Place], isolation: str, timeout_s: float | None = None) -> dict[Place, int]:
        if not places:
            return {}
        deadline = time.monotonic() + min(self._connection.request_timeout_s, timeout_s or math.inf)
        look_s = _FIRST_LOOK_S
        while True:
            found, failed = self._ask(places, isolation, min(look_s, max(deadline - time.monotonic(), _PAUSE_S)))
            if failed is None:
                self._link.saw_answer()
                return found
            (topic, partition), error = failed
            if error.code() > 0:  # a broker's own
                self._connection.outage.over()
            # By new clients from now on: those that are kept may know a leader or an epoch that is gone, and ask by it
            # for ever.
            if not self._connection.outage.lasts():
                for idle in self._idle.values():
                    idle.clear()
            if error.code() == KafkaError._TIMED_OUT:
                look_s *= 2
            if error.code() not in _ASKED_AGAIN or time.monotonic() + 2 * _PAUSE_S >= deadline:
                doing = f"ask for the end of {topic}[{partition}]"
                raise failure_of(error, self._link, self._connection, topic, partition, doing)
            time.sleep(_PAUSE_S)

    def _ask(
        self, places: list[Place], isolation: str, timeout_s: float
    ) -> tuple[dict[Place, int], tuple[Place, KafkaError] | None]:
        """Ask once; return the offsets, or what the first partition without one failed with.

        By a consumer: an administrator's client now and then waits three seconds for leaders that it knows.
        """
        fixed: dict[str, Option] = {"isolation.level": isolation, "statistics.interval.ms": 0}
        try:
            consumer = self._idle[isolation].pop()
        except IndexError:  # asked for by `pop`, not before: other threads take clients, too
            consumer = make_consumer(self._connection, self._link, defaults=ASKS, fixed=fixed)
        consumer.poll(0)  # serves callbacks: their queue would grow
        wanted = [TopicPartition(topic, partition, OFFSET_END) for topic, partition in places]
        try:
            answers = consumer.offsets_for_times(wanted, timeout=timeout_s)
        except KafkaException as error:
            consumer.poll(0)  # which know why
            self._idle[isolation].append(consumer)
            return {}, (places[0], error_of(error))
        self._idle[isolation].append(consumer)
        failed = next((at for at in answers if at.error is not None or at.offset < 0), None)
        if failed is not None:
            nobody = KafkaError(KafkaError.LEADER_NOT_AVAILABLE)
            return {}, ((failed.topic, failed.partition), failed.error or nobody)
        return {(at.topic, at.partition): at.offset for at in answers}, None


def log_ranges(
    connection: Connection,
    topic: str,
    partitions: Iterable[int],
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
) -> dict[int, tuple[int, int]]:
    """Return of each partition the first offset and the one after the last, committed or not, between two times.

    Parameters
    ----------
    connection, topic, partitions
    since_ms : int, optional
        Begin with the first record that is not older, in milliseconds since the epoch, as the records' timestamps say
        it.
    until_ms : int, optional
        End before the first record that is not older.

    Raises
    ------
    TopicMissing, BrokerUnavailable
        As for `log_range`.
    """
    wanted = list(partitions)
    with _questions(connection, topic, wanted, "read_uncommitted") as (consumer, link):
        found = {p: _watermarks(consumer, link, connection, topic, p) for p in wanted}
        if since_ms is not None:
            since = _offsets_since(consumer, link, connection, topic, wanted, since_ms)
            found = {p: (max(low, since.get(p, high)), high) for p, (low, high) in found.items()}
        if until_ms is not None:
            until = _offsets_since(consumer, link, connection, topic, wanted, until_ms)
            found = {p: (low, min(high, until.get(p, high))) for p, (low, high) in found.items()}
    return found


def start_positions(connection: Connection, topic: str, partitions: Iterable[int], start: Start) -> dict[int, int]:
    """See `Cluster.starts`."""
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
        since_ms = int(start.timestamp() * 1000)
        return {**ends, **_offsets_since(consumer, link, connection, topic, wanted, since_ms)}


def require_partitions(topic: str, wanted: Iterable[int], existing: Iterable[int]) -> None:
    """Raise `TopicMissing` if the topic lacks a partition that is wanted."""
    missing = sorted(set(wanted) - set(existing))
    if missing:
        raise partitions_missing(topic, missing)


@contextmanager
def _questions(
    connection: Connection, topic: str, partitions: Iterable[int], isolation: str
) -> Iterator[tuple[Consumer, Link]]:
    with lent_consumer(connection, topic, {"isolation.level": isolation}) as (consumer, link):
        require_partitions(topic, partitions, partitions_of(consumer, link, connection, topic))
        yield consumer, link


def _watermarks(consumer: Consumer, link: Link, connection: Connection, topic: str, partition: int) -> tuple[int, int]:
    deadline = time.monotonic() + connection.request_timeout_s
    while True:
        left_s = max(deadline - time.monotonic(), _PAUSE_S)
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=left_s)
        except KafkaException as error:
            if error_of(error).code() not in _MOVED or left_s <= 2 * _PAUSE_S:
                doing = f"ask for the range of {topic}[{partition}]"
                raise failure_of(error_of(error), link, connection, topic, partition, doing) from error
            time.sleep(_PAUSE_S)
        else:
            return low, high


def _check_time(connection: Connection, start: datetime) -> None:
    if start.tzinfo is None:
        raise ConfigurationError(
            f"the start {start.isoformat()} has no time zone", "Add a time zone, such as Z for UTC."
        )
    if connection.embedded:
        raise ConfigurationError(
            "the embedded broker cannot look up offsets by time", "Start at earliest or latest, or use a real broker."
        )


def _offsets_since(
    consumer: Consumer, link: Link, connection: Connection, topic: str, partitions: Iterable[int], since_ms: int
) -> dict[int, int]:
    doing = f"look up the offset of time {since_ms} ms in {topic}"
    since_ms = max(since_ms, 0)
    wanted = [TopicPartition(topic, p, since_ms) for p in partitions]
    try:
        found = consumer.offsets_for_times(wanted, timeout=connection.request_timeout_s)
    except KafkaException as error:
        raise link.failure(error_of(error), doing) from error
    for answer in found:
        if answer.error is not None:
            raise failure_of(answer.error, link, connection, topic, answer.partition, doing)
    return {answer.partition: answer.offset for answer in found if answer.offset >= 0}

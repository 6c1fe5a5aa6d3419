"""The long-running reader whose positions are the caller's; the group's member is in `membership`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streamsvm.errors import ConfigurationError
from streamsvm.kafka.client import CLOSE_TIMEOUT_S, Link, close_within, make_consumer, partitions_of
from streamsvm.kafka.connection import Connection, Option
from streamsvm.kafka.failures import error_of, text_of, translate
from streamsvm.kafka.feed import Feed
from streamsvm.kafka.log import require_partitions
from streamsvm.kafka.records import Batch

DEFAULT_BUFFERED_BYTES = 32 * 2**20
"""Default bound of what a reader holds ahead of its caller; one fetched batch may come on top."""

logger = logging.getLogger("streamsvm.kafka")


class Input:
    """Reads partitions at positions that are the caller's truth: no group membership, no reset.

    Not thread-safe, except for `connected`. Only committed records are returned, in the order of
    each partition's log.

    Parameters
    ----------
    connection : Connection
        The broker; nothing blocks or fails here for want of one.
    topic : str
        The topic.
    group : str or None
        Where `commit` publishes positions for observers; None if nobody wants to see them.
    max_buffered_bytes : int
        How much is fetched ahead of `poll`, in bytes; one fetched batch may come on top.
    """

    def __init__(
        self,
        connection: Connection,
        topic: str,
        *,
        group: str | None,
        max_buffered_bytes: int = DEFAULT_BUFFERED_BYTES,
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._group = group
        self._link = Link(connection)
        self._forbidden: ConfigurationError | None = None
        self._consumer = make_consumer(
            connection,
            self._link,
            group,
            # A fetch that waits at the log's end holds up the first one of another assignment.
            defaults={"fetch.wait.max.ms": 100},
            fixed={**buffer_of(max_buffered_bytes), "enable.partition.eof": True},
            on_commit=self._on_commit,
        )
        self._feed = Feed(self._consumer, self._link, connection, topic, group=group)
        self._assigned: list[int] = []

    def assign(self, positions: Mapping[int, int]) -> None:
        """Read these partitions from these offsets on, and no others.

        Blocks at most the connection's request timeout, to see that the topic exists.

        Parameters
        ----------
        positions : mapping of int to int
            Partition to the next offset to read. Whether the log holds it shows at `poll`.

        Raises
        ------
        TopicMissing
            If the topic or a partition does not exist.
        BrokerUnavailable
            If no broker answers in time.
        """
        assign_positions(self._consumer, self._link, self._connection, self._topic, positions)
        self._assigned = sorted(positions)
        # An end that was seen before the assignment says nothing of where the new positions stand.
        self._feed.ends.clear()

    def poll(self, max_records: int, timeout_s: float) -> Batch:
        """Return at most `max_records` records; blocks at most `timeout_s`, then returns none.

        With records at hand it waits at most 0.1 s for the batch to fill. Call it often, also while
        paused: it is what notices that a broker came or went. While no broker answers it returns
        nothing and `connected` is False.

        Raises
        ------
        OffsetOutOfRange
            If the log does not hold an assigned position (a `StateError`).
        TopicMissing
            If the topic has been deleted.
        ConfigurationError
            If the broker refuses us.
        FatalError
            If a record batch is damaged, or the client cannot go on.
        """
        # The commit's callback runs inside the client, where nothing can be raised.
        if self._forbidden is not None:
            raise self._forbidden
        return self._feed.take(max_records, timeout_s, gather=True)

    def pause(self, partitions: Iterable[int] | None = None) -> None:
        """Stop fetching from some partitions, by default from all; keep polling.

        What was fetched ahead is dropped and fetched again after `resume` (librdkafka#2703): pause
        rarely, or keep the buffer small.
        """
        chosen = self._assigned if partitions is None else partitions
        self._consumer.pause([TopicPartition(self._topic, p) for p in chosen])

    def resume(self, partitions: Iterable[int] | None = None) -> None:
        """Go on fetching from some partitions, by default from all, where `poll` left off."""
        chosen = self._assigned if partitions is None else partitions
        self._consumer.resume([TopicPartition(self._topic, p) for p in chosen])

    def stable_end(self, partition: int) -> int | None:
        """Return the offset after the last record that `poll` can return, as of the last fetch; never blocks.

        None before the first fetch. Behind it are those of `in_open_transactions`.
        """
        tp = TopicPartition(self._topic, partition)
        try:
            _, high = self._consumer.get_watermark_offsets(tp, cached=True)
        except KafkaException:
            return None
        # -1001 stands for what the client does not know.
        return high - self._link.open.get((self._topic, partition), 0) if high >= 0 else None

    def in_open_transactions(self) -> dict[int, int]:
        """Return how many offsets of each partition `poll` withholds, as of the last second; never blocks.

        They begin with the first record of a transaction that is open. Partitions without any are left out.
        """
        return {partition: count for (topic, partition), count in self._link.open.items() if topic == self._topic}

    def seen_end(self, partition: int) -> int | None:
        """Return where the partition's end was last met: `poll` returned every committed record before it.

        None before the end is met after `assign`. It lies past the markers of transactions and past aborted records,
        which a position after the last record does not.
        """
        return self._feed.ends.get(partition)

    def commit(self, positions: Mapping[int, int]) -> None:
        """Publish positions for observers of the group; returns at once, failures are only logged.

        A refusal for want of permission is raised by a later `poll`. Without a group it does nothing.
        """
        # Group offsets are for observers; a checkpoint says where a trainer goes on.
        if self._group is None or not positions:
            return
        offsets = [TopicPartition(self._topic, p, offset) for p, offset in positions.items()]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as error:
            self._on_commit(error_of(error), offsets)

    def connected(self) -> bool:
        """Return whether a broker's connection was up at the last `poll`; any thread may ask."""
        return self._link.up

    def close(self) -> None:
        """Send off pending commits and let go of the broker; blocks at most `CLOSE_TIMEOUT_S`."""
        close_within(self._consumer, CLOSE_TIMEOUT_S)

    def _on_commit(self, error: KafkaError | None, _: list[TopicPartition]) -> None:
        if error is None:
            return
        meaning = translate(error, self._connection, f"commit positions of {self._topic} as {self._group}")
        if isinstance(meaning, ConfigurationError):
            self._forbidden = meaning
        logger.debug("positions were not committed: %s", text_of(error))


def buffer_of(max_bytes: int) -> dict[str, Option]:
    """Return the options that bound what a consumer fetches ahead."""
    return {"queued.max.messages.kbytes": max(max_bytes // 1024, 1)}


def assign_positions(
    consumer: Consumer, link: Link, connection: Connection, topic: str, positions: Mapping[int, int]
) -> None:
    """Assign explicit offsets after seeing that the topic has the partitions."""
    # The client reads negative numbers as earliest, latest or stored, and would begin somewhere else.
    negative = {p: offset for p, offset in positions.items() if offset < 0}
    if negative:
        raise ValueError(f"positions must be offsets of 0 or more, not {negative}")
    require_partitions(topic, positions, partitions_of(consumer, link, connection, topic))
    consumer.assign([TopicPartition(topic, p, offset) for p, offset in positions.items()])

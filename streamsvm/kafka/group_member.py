"""A member of a consumer group that reads nothing: the group says whose partitions are whose.

They are read by positions of the reader's own, with a client of its own (`streamsvm.kafka.consuming`). For a while two
members may each believe that they own the same partition: a caller must be safe then, too.

Callbacks only note what the group decided; the thread that polls acts on it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from streamsvm.kafka.client import CLOSE_TIMEOUT_S, FOLLOWS_PARTITIONS, SLICE_S, Link, close_within, make_consumer
from streamsvm.kafka.connection import Connection, Option
from streamsvm.kafka.failures import error_of, text_of
from streamsvm.kafka.feed import Feed

LEAVE_TIMEOUT_S: Final = 3.0
"""How long a member that leaves waits for a rebalance that is under way."""

_CLASSIC: Final[Mapping[str, Option]] = {
    "group.protocol": "classic",
    "partition.assignment.strategy": "cooperative-sticky",
}
_LIVELINESS: Final[Mapping[str, Option]] = {"heartbeat.interval.ms": 300, "session.timeout.ms": 6000}
"""6 s is the least that brokers allow by default. A killed member is missed up to a heartbeat before they have passed,
and the next one hears of it up to a heartbeat later."""

logger = logging.getLogger("streamsvm.kafka")


class GroupMember:
    """A member of a consumer group that shares a topic's partitions. Not thread-safe.

    Parameters
    ----------
    connection : Connection
        The broker; nothing blocks or fails here for want of one.
    topic : str
    group : str
    """

    def __init__(self, connection: Connection, topic: str, *, group: str) -> None:
        self._topic, self._group = topic, group
        self._owned = set[int]()
        self._link = Link(connection)
        self._consumer = make_consumer(
            connection,
            self._link,
            group,
            defaults=FOLLOWS_PARTITIONS if connection.embedded else {**FOLLOWS_PARTITIONS, **_LIVELINESS},
            fixed={"group.protocol": "consumer"} if connection.embedded else _CLASSIC,
        )
        self._feed = Feed(self._consumer, self._link, connection, topic, group=group)
        self._consumer.subscribe([topic], on_assign=self._given, on_revoke=self._taken, on_lost=self._taken)

    def poll(self) -> frozenset[int]:
        """Return the partitions that are owned now; hardly blocks. Call it often.

        Raises
        ------
        TopicMissing, ConfigurationError, FatalError
            As for `Input.poll`.
        """
        self._feed.take(1, 0.0, gather=False)
        return frozenset(self._owned)

    def commit(self, positions: Mapping[int, int]) -> None:
        """Show observers how far owned partitions are; returns at once, and a failure is only logged."""
        owned = [TopicPartition(self._topic, p, offset) for p, offset in positions.items() if p in self._owned]
        if not owned:
            return
        try:
            self._consumer.commit(offsets=owned, asynchronous=True)
        except KafkaException as error:
            logger.debug("positions of %s were not committed: %s", self._group, text_of(error_of(error)))

    def close(self) -> None:
        """Leave the group, so that others take over at once; blocks some seconds at most."""
        deadline = time.monotonic() + LEAVE_TIMEOUT_S
        with suppress(KafkaException):
            self._consumer.unsubscribe()
            while self._consumer.memberid() and time.monotonic() < deadline:
                self._consumer.consume(1, SLICE_S)
        close_within(self._consumer, CLOSE_TIMEOUT_S)

    def _given(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        # Nothing is fetched by this client, so nothing is assigned to it.
        consumer.incremental_assign([])
        self._owned |= {one.partition for one in partitions}

    def _taken(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_unassign([])
        self._owned -= {one.partition for one in partitions}

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
from typing import Final, Literal

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streamsvm.errors import ConfigurationError, FatalError
from streamsvm.kafka.client import (
    CLOSE_TIMEOUT_S,
    FOLLOWS_PARTITIONS,
    SLICE_S,
    ConnectionLog,
    Link,
    close_within,
    make_consumer,
)
from streamsvm.kafka.connection import Connection, Option
from streamsvm.kafka.failures import error_of, text_of
from streamsvm.kafka.feed import Feed

LEAVE_TIMEOUT_S: Final = 3.0
"""How long a member that leaves waits for a rebalance that is under way."""

GroupProtocol = Literal["classic", "consumer"]

_PROTOCOLS: Final[Mapping[str, Mapping[str, Option]]] = {
    "classic": {"group.protocol": "classic", "partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}
_REASONS: Final = (KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_VERSION, KafkaError.GROUP_ID_NOT_FOUND)
"""Why a broker refuses `consumer`: before Kafka 4; told not to serve it; told to keep a group of classic members so."""
_LIVELINESS: Final[Mapping[str, Option]] = {"heartbeat.interval.ms": 300, "session.timeout.ms": 6000}
"""6 s is the least that brokers allow by default. A killed member is missed up to a heartbeat before they have passed,
and the next one hears of it up to a heartbeat later. Of the protocol `consumer` both are the broker's settings."""

logger = logging.getLogger("streamsvm.kafka")


class _ProtocolLog(ConnectionLog):
    """Passes lines on, and notes why the broker refuses the protocol `consumer`, in the client's words: `refused`.

    Of a broker before Kafka 4 nothing else says so: the client falls silent, and never asks again. The line comes with
    ``debug``; other lines of that are passed on only if a person wants them.
    """

    def __init__(self, least: int) -> None:
        super().__init__()
        self._least, self.refused = least, ""

    def log(self, level: int, template: str, *args: object) -> None:
        """Note and pass on one line; the signature is `logging.Logger.log`'s, which the client calls."""
        text = str(args[-1]) if args else template
        if "ConsumerGroupHeartbeat" in text:  # the request by which a member joins
            known = (str(KafkaError(code).str()) for code in _REASONS)
            self.refused = next((words for words in known if words in text), self.refused)
        if level >= self._least:
            super().log(level, template, *args)


class GroupMember:
    """A member of a consumer group that shares a topic's partitions. Not thread-safe.

    Parameters
    ----------
    connection : Connection
        The broker; nothing blocks or fails here for want of one.
    topic : str
    group : str
    protocol : "classic" or "consumer"
        How the group is coordinated: classic, cooperative-sticky; or as of KIP-848, which brokers know from Kafka 4 on.
    """

    def __init__(self, connection: Connection, topic: str, *, group: str, protocol: GroupProtocol = "classic") -> None:
        self._topic, self._group = topic, group
        self._owned = set[int]()
        self._link = Link(connection)
        known = dict(_PROTOCOLS["consumer" if connection.embedded else protocol])
        debug = str(connection.options.get("debug", ""))
        self._servers, self._log = connection.servers, _ProtocolLog(logging.DEBUG if debug else logging.INFO)
        if known["group.protocol"] == "consumer":
            known["debug"] = f"{debug},cgrp".lstrip(",")
        self._consumer = make_consumer(
            connection,
            self._link,
            group,
            defaults={**FOLLOWS_PARTITIONS, **(_LIVELINESS if known["group.protocol"] == "classic" else {})},
            fixed=known,
            log=self._log,
        )
        self._feed = Feed(self._consumer, self._link, connection, topic, group=group)
        self._consumer.subscribe([topic], on_assign=self._given, on_revoke=self._taken, on_lost=self._taken)

    def poll(self) -> frozenset[int]:
        """Return the partitions that are owned now; hardly blocks. Call it often.

        Raises
        ------
        TopicMissing, ConfigurationError, FatalError
            As for `Input.poll`; `ConfigurationError` also if the broker refuses the protocol.
        """
        try:
            self._feed.take(1, 0.0, gather=False)
        except FatalError:
            if not self._log.refused:
                raise
        if self._log.refused:
            raise ConfigurationError(
                f"the broker at {self._servers} does not let this process join the group {self._group} by the protocol "
                f"`consumer`: {self._log.refused}",
                "Set worker.group_protocol = classic, the same for all workers of the group. `consumer` needs Kafka 4, "
                "its feature group.version, and `consumer` in the broker's group.coordinator.rebalance.protocols.",
            )
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

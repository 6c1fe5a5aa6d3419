"""Stable and end offsets, and what a `read_committed` reader sees: looked up beside the code under test."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from streamsvm.kafka import Connection
from tests.kafka.foreign import Silent

Partition = tuple[str, int]

ASK_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 60.0
POLL_S = 0.2


@dataclass(frozen=True)
class Offsets:
    """Where partitions stand.

    Attributes
    ----------
    stable, end : mapping of (topic, partition) to int
        Where committed readers stop, and where the next record goes.
    """

    stable: Mapping[Partition, int]
    end: Mapping[Partition, int]

    @property
    def apart(self) -> dict[Partition, tuple[int, int]]:
        """The partitions whose stable offset is not their end: a transaction is open there, or hangs."""
        return {where: (self.stable[where], end) for where, end in self.end.items() if self.stable[where] != end}

    @property
    def visible(self) -> int:
        """How many offsets committed readers may pass, over all partitions."""
        return sum(self.stable.values())

    def passed(self, before: Offsets) -> bool:
        """Tell whether committed readers see past everything that was there before."""
        return all(self.stable[where] >= end for where, end in before.end.items())


class Offsetter:
    """Asks for offsets again and again.

    Parameters
    ----------
    connection : Connection
    """

    def __init__(self, connection: Connection) -> None:
        self._admin = AdminClient(dict(connection.options), logger=Silent())

    def look(self, partitions: Iterable[Partition]) -> Offsets | None:
        """Ask for the offsets of partitions; None if the broker does not say now."""
        latest = {TopicPartition(topic, number): OffsetSpec.latest() for topic, number in partitions}
        try:
            stable = self._ask(latest, IsolationLevel.READ_COMMITTED)
            return Offsets(stable, self._ask(latest, IsolationLevel.READ_UNCOMMITTED))  # ends later than they are
        except (KafkaException, TimeoutError):
            return None

    def _ask(self, latest: dict[TopicPartition, OffsetSpec], level: IsolationLevel) -> dict[Partition, int]:
        asked = self._admin.list_offsets(latest, isolation_level=level, request_timeout=ASK_TIMEOUT_S)
        found = {(one.topic, one.partition): future.result(ASK_TIMEOUT_S).offset for one, future in asked.items()}
        if min(found.values(), default=0) < 0:
            raise TimeoutError  # the client's answer where a leader gave none
        return found


def look(connection: Connection, partitions: Iterable[Partition]) -> Offsets | None:
    """Ask once; see `Offsetter.look`."""
    return Offsetter(connection).look(partitions)


def committed(connection: Connection, partitions: Iterable[Partition]) -> list[Message]:
    """Return every record that committed readers see now, those of a partition in their order."""
    wanted = [TopicPartition(topic, number, 0) for topic, number in partitions]
    options = {
        **connection.options,
        "group.id": uuid.uuid4().hex,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
    }
    found: list[Message] = []
    until = time.monotonic() + READ_TIMEOUT_S
    with closing(Consumer(options, logger=Silent())) as consumer:
        consumer.assign(wanted)
        ended: set[Partition] = set()
        while len(ended) < len(wanted):
            assert time.monotonic() < until, f"{connection.servers} does not let us read {wanted} to the end"
            for message in consumer.consume(1_000, POLL_S):
                error = message.error()
                if error is None:
                    found.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add((message.topic(), message.partition()))
    return found

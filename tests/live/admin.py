"""What administrators and people do to topics, by the client library's own calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
)

from streamsvm.errors import TopicMissing
from streamsvm.kafka import Cluster, Connection
from tests.kafka.foreign import TIMEOUT_S, Silent


def _ask(connection: Connection, question: Callable[[AdminClient], Mapping[Any, Future[Any]]]) -> None:
    """Put a question and wait for its answers: a client that is let go of before them never gives them."""
    admin = AdminClient(dict(connection.options), logger=Silent())
    for future in question(admin).values():
        future.result(TIMEOUT_S)


def delete_topic(connection: Connection, topic: str) -> None:
    """Delete a topic, and wait until nobody is told of it any more."""
    _ask(connection, lambda admin: admin.delete_topics([topic], operation_timeout=TIMEOUT_S))
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            Cluster(connection).describe(topic)
        except TopicMissing:
            return
        time.sleep(0.05)
    raise AssertionError(f"{topic} was not deleted")


def delete_records(connection: Connection, topic: str, before: int, partition: int = 0) -> None:
    """Remove the records of a partition below an offset, as retention does."""
    at = TopicPartition(topic, partition, before)
    _ask(connection, lambda admin: admin.delete_records([at]))


def add_partitions(connection: Connection, topic: str, total: int) -> None:
    """Give a topic more partitions, and wait until they can be seen."""
    _ask(connection, lambda admin: admin.create_partitions([NewPartitions(topic, total)]))
    deadline = time.monotonic() + TIMEOUT_S
    while len(Cluster(connection).describe(topic).partitions) != total:
        assert time.monotonic() < deadline, f"{topic} has no more partitions"
        time.sleep(0.05)


def set_option(connection: Connection, topic: str, name: str, value: str) -> None:
    """Change one setting of a topic, and wait until the broker says so."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    _ask(connection, lambda admin: admin.incremental_alter_configs([resource]))
    deadline = time.monotonic() + TIMEOUT_S
    while Cluster(connection).describe(topic).config[name] != value:
        assert time.monotonic() < deadline, f"{name} of {topic} is not {value}"
        time.sleep(0.05)

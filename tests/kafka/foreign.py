"""Stand-ins for other people's clients and for administrators, by the client library's own calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupState, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions

from streamsvm.errors import TopicMissing
from streamsvm.kafka import Cluster, Connection
from tests.deadline import eventually

TIMEOUT_S = 20.0


class Silent:
    """Takes the client's log lines and keeps them to itself."""

    def log(self, *line: object) -> None:
        """Drop a line."""


def produce(
    connection: Connection, topic: str, values: Iterable[bytes], timestamp_ms: int = 0, partition: int = 0
) -> None:
    """Store values in a partition, with a timestamp in milliseconds since the epoch if one is given."""
    producer = Producer(dict(connection.options), logger=Silent())
    for value in values:
        producer.produce(topic, value, partition=partition, timestamp=timestamp_ms)
    assert producer.flush(TIMEOUT_S) == 0
    producer.close()


@contextmanager
def open_transaction(
    connection: Connection,
    topic: str,
    values: Iterable[bytes],
    key: bytes | None = None,
    headers: Sequence[tuple[str, bytes]] = (),
    transactional_id: str = "",
) -> Iterator[Producer]:
    """Store values in partition 0 in a transaction that the caller may end; a compacted topic wants a key."""
    own = transactional_id or f"foreign-{topic}"
    producer = Producer({**connection.options, "transactional.id": own}, logger=Silent())
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, key, partition=0, headers=list(headers))
    assert producer.flush(TIMEOUT_S) == 0
    yield producer
    producer.close()


def aborted(connection: Connection, topic: str, values: Iterable[bytes]) -> None:
    """Store values in partition 0 in a transaction, and abort it; what is sent afterwards stands after the marker."""
    observer = Consumer({**connection.options, "group.id": f"foreign-{topic}"}, logger=Silent())
    place = TopicPartition(topic, 0)
    with open_transaction(connection, topic, values) as producer:
        _, end = observer.get_watermark_offsets(place, TIMEOUT_S)
        producer.abort_transaction(TIMEOUT_S)
    # A broker answers before it has written the marker.
    eventually(lambda: observer.get_watermark_offsets(place, TIMEOUT_S)[1] > end, "the marker is there", TIMEOUT_S)
    observer.close()


@contextmanager
def positions_in_doubt(connection: Connection, group: str, topic: str) -> Iterator[Callable[[], None]]:
    """Place a position of a group in a transaction that stays open until the caller aborts it by what this gives."""
    observer = Consumer({**connection.options, "group.id": group}, logger=Silent())
    producer = Producer({**connection.options, "transactional.id": f"foreign-{group}"}, logger=Silent())
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 1)], observer.consumer_group_metadata(), TIMEOUT_S)
    yield lambda: producer.abort_transaction(TIMEOUT_S)
    producer.close()
    observer.close()


def committed(connection: Connection, group: str, topic: str, partition: int) -> int:
    """Return a group's position as any observer sees it, negative if there is none."""
    consumer = Consumer({**connection.options, "group.id": group}, logger=Silent())
    (found,) = consumer.committed([TopicPartition(topic, partition)], timeout=TIMEOUT_S)
    consumer.close()
    return int(found.offset)


def commit(connection: Connection, group: str, topic: str, partition: int, offset: int, metadata: str) -> None:
    """Set a group's position, with what may be said beside it; the group has no member."""
    consumer = Consumer({**connection.options, "group.id": group}, logger=Silent())
    (done,) = consumer.commit(offsets=[TopicPartition(topic, partition, offset, metadata)], asynchronous=False)
    assert done.error is None
    consumer.close()


def members(connection: Connection, group: str) -> int:
    """Return how many members a group has, and 0 while it is not agreed on who they are."""
    admin = AdminClient(dict(connection.options), logger=Silent())
    (future,) = admin.describe_consumer_groups([group], request_timeout=TIMEOUT_S).values()
    try:
        found = future.result()
    except KafkaException:  # its coordinator has only begun
        return 0
    return len(found.members) if found.state is ConsumerGroupState.STABLE else 0


def instances(connection: Connection, group: str) -> dict[str, str]:
    """Return the client id of each static member of a group, by its instance id."""
    admin = AdminClient(dict(connection.options), logger=Silent())
    (future,) = admin.describe_consumer_groups([group], request_timeout=TIMEOUT_S).values()
    return {member.group_instance_id: member.client_id for member in future.result().members}


def _ask(connection: Connection, question: Callable[[AdminClient], Mapping[Any, Future[Any]]]) -> None:
    """Put a question and wait for its answers: a client that is let go of before them never gives them."""
    admin = AdminClient(dict(connection.options), logger=Silent())
    for future in question(admin).values():
        future.result(TIMEOUT_S)


def delete_group(connection: Connection, group: str) -> None:
    """Delete a group that has no member."""
    _ask(connection, lambda admin: admin.delete_consumer_groups([group]))


def delete_topic(connection: Connection, topic: str) -> None:
    """Delete a topic, and wait until nobody is told of it any more."""
    _ask(connection, lambda admin: admin.delete_topics([topic], operation_timeout=TIMEOUT_S))

    def is_gone() -> bool:
        try:
            Cluster(connection).describe(topic)
        except TopicMissing:
            return True
        return False

    eventually(is_gone, f"{topic} is deleted", TIMEOUT_S)


def delete_records(connection: Connection, topic: str, partitions: int | Iterable[int], before: int) -> None:
    """Remove the records of a partition, or of several at once, below an offset, as retention does."""
    numbers = [partitions] if isinstance(partitions, int) else partitions
    at = [TopicPartition(topic, partition, before) for partition in numbers]
    _ask(connection, lambda admin: admin.delete_records(at))


def add_partitions(connection: Connection, topic: str, total: int) -> None:
    """Give a topic more partitions, and wait until they can be seen."""
    _ask(connection, lambda admin: admin.create_partitions([NewPartitions(topic, total)]))
    cluster = Cluster(connection)
    eventually(lambda: len(cluster.describe(topic).partitions) == total, f"{topic} has more partitions", TIMEOUT_S)


def set_option(connection: Connection, topic: str, name: str, value: str) -> None:
    """Change one setting of a topic, and wait until the broker says so."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    _ask(connection, lambda admin: admin.incremental_alter_configs([resource]))
    cluster = Cluster(connection)
    eventually(lambda: cluster.describe(topic).config[name] == value, f"{name} of {topic} is {value}", TIMEOUT_S)

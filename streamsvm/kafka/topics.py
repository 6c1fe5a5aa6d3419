"""Topics: what the broker says about one, and making those that are missing."""

from __future__ import annotations

import difflib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic  # type: ignore[attr-defined]

from streamsvm.errors import ConfigurationError, StreamsvmError, TopicMissing, TransientError
from streamsvm.kafka.client import SLICE_S, Admin, Link, make_producer, partitions_of
from streamsvm.kafka.connection import Connection
from streamsvm.kafka.embedded import EMBEDDED_PARTITIONS
from streamsvm.kafka.failures import FAULTS, Fault, PublishRefused, error_of, fault_of, partitions_missing, unavailable

_NO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
"""The zero UUID, as the client writes it."""


GONE_AFTER_S: Final = 10.0
"""A topic is gone once brokers have said so for this long, in seconds."""


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """What the broker says about a topic.

    Attributes
    ----------
    name
        Its name.
    topic_id
        The broker's id of this incarnation of the name; None where the broker gives none (embedded, or older than
        Kafka 2.8).
    partitions
        Its partitions, ascending.
    config
        Its effective settings (``cleanup.policy``, ``max.message.bytes``, ...); empty on the embedded
        broker, and where we may not ask.
    """

    name: str
    topic_id: str | None
    partitions: tuple[int, ...]
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic that ought to exist.

    Attributes
    ----------
    name
        Its name.
    partitions
        How many partitions.
    replication_factor
        How many replicas; -1 takes the broker's default.
    config
        Settings that differ from the broker's defaults.
    """

    name: str
    partitions: int = 1
    replication_factor: int = -1
    config: Mapping[str, str] = field(default_factory=dict)


def describe_topic(connection: Connection, topic: str, until: float = 0.0, admin: Admin | None = None) -> TopicInfo:
    """See `Cluster.describe`; a topic that is missing is asked for again until that monotonic time."""
    if connection.embedded:
        return TopicInfo(topic, None, _touch(connection, Link(connection), topic))
    admin = admin or Admin(connection)
    while True:
        try:
            return _described(admin, topic)
        except TopicMissing:
            if time.monotonic() >= until:
                raise TopicMissing(
                    f"topic {topic} does not exist at {connection.servers}",
                    f"Create the topic, or correct its name{_alike(admin, connection, topic)}.",
                ) from None
            admin.client.poll(SLICE_S)


def failure_of(
    error: KafkaError, link: Link, connection: Connection, topic: str, partition: int, doing: str
) -> StreamsvmError:
    """Return our error for the client's about a partition; blocks at most about `GONE_AFTER_S`.

    The client says of a partition without a leader what it says of one that does not exist, and a broker that has just
    started may not know its topics yet. So brokers are asked what there is, again for a while, if any answers.
    """
    if fault_of(error) is not Fault.MISSING or connection.embedded:
        return link.failure(error, doing)
    if connection.outage.lasts():
        return unavailable(connection, link.last_trouble)
    try:
        found = describe_topic(connection, topic, time.monotonic() + GONE_AFTER_S)
    except StreamsvmError as known:
        return known
    if partition not in found.partitions:
        return partitions_missing(topic, [partition])
    return TransientError(f"failed to {doing}: the partition has no leader at the moment", "Try again.")


def create_topics(connection: Connection, specs: Sequence[TopicSpec]) -> list[str]:
    """See `Cluster.create`."""
    if connection.embedded:
        return _touch_missing(connection, Link(connection), specs)
    admin, timeout_s = Admin(connection), connection.request_timeout_s
    missing = [_new_topic(spec) for spec in specs if not _exists(admin, spec.name)]
    if not missing:
        return []
    another_was_faster = {KafkaError.TOPIC_ALREADY_EXISTS: False}
    try:
        answers = admin.ask(
            "create topic", AdminClient.create_topics, missing, another_was_faster, operation_timeout=timeout_s
        )
    except (ConfigurationError, PublishRefused) as refused:
        if refused.remedy not in (Fault.UNUSABLE.remedy, Fault.REFUSED.remedy):
            raise  # a permission, a password or a name: the topic's settings are not at fault
        raise ConfigurationError(refused.what, "Correct the topic's settings, or the broker's.") from refused
    created = [name for name, answer in answers.items() if answer is None]
    for name in created:
        _wait_for(admin, connection, name)
    return created


_LOOKS: Final = 0.2, 0.4, 0.4
"""Shares of the request timeout after which a new client asks for an id: one goes on waiting for a broker that has
died, also where others could answer."""


class Topics:
    """Asks what topics are like, over one kept connection. Safe from any thread.

    A client of its own for each question would connect, and log in, for each.

    Parameters
    ----------
    connection : Connection
        The broker; nothing blocks or fails here for want of one.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._admin: Admin | None = None

    def id_of(self, topic: str) -> str | None:
        """See `Cluster.topic_id`."""
        if self._connection.embedded:
            return None
        for share in _LOOKS:
            try:
                with self._lent() as admin:
                    return _partitions(admin, topic, share)[0]
            except TransientError as error:
                failure = error
        raise failure

    def describe(self, topic: str, until: float) -> TopicInfo:
        """See `describe_topic`."""
        if self._connection.embedded:
            return describe_topic(self._connection, topic)
        with self._lent() as admin:
            return describe_topic(self._connection, topic, until, admin)

    @contextmanager
    def _lent(self) -> Iterator[Admin]:
        """Lend the client; after a question that was not answered the next one has what a new client finds out."""
        with self._lock:
            admin = self._admin = self._admin or Admin(self._connection)
        try:
            yield admin
        except TransientError:
            if not self._connection.outage.lasts():
                with self._lock:
                    self._admin = None
            raise


def _new_topic(spec: TopicSpec) -> NewTopic:
    return NewTopic(
        spec.name,
        num_partitions=spec.partitions,
        replication_factor=spec.replication_factor,
        config=dict(spec.config),
    )


def _exists(admin: Admin, name: str) -> bool:
    try:
        _partitions(admin, name)
    except TopicMissing:
        return False
    return True


def _wait_for(admin: Admin, connection: Connection, name: str) -> None:
    """Wait until the cluster's metadata know the topic."""
    deadline = time.monotonic() + connection.request_timeout_s
    while not _exists(admin, name):
        if time.monotonic() >= deadline:
            raise unavailable(connection, f"topic {name} was created but does not appear in the cluster")
        admin.client.poll(SLICE_S)


def _partitions(admin: Admin, topic: str, share: float = 1.0) -> tuple[str | None, tuple[int, ...]]:
    """Return a topic's id and partitions; unlike a plain metadata request this never creates it.

    Blocks at most for this share of what a question may take.
    """
    asked = admin.ask("look up topic", AdminClient.describe_topics, TopicCollection([topic]), share=share)
    found = asked[topic]
    topic_id = str(found.topic_id)  # a broker without ids sends zero
    return None if topic_id in ("", _NO_ID) else topic_id, tuple(sorted(partition.id for partition in found.partitions))


def _alike(admin: Admin, connection: Connection, topic: str) -> str:
    """Return which topics have names like this one's, as far as the broker shows them to us."""
    try:
        names = admin.client.list_topics(timeout=connection.request_timeout_s).topics
    except KafkaException:
        return ""
    alike = difflib.get_close_matches(topic, names, 3)
    return f"; topics with similar names: {' and '.join(alike)}" if alike else ""


def _described(admin: Admin, topic: str) -> TopicInfo:
    topic_id, partitions = _partitions(admin, topic)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    forbidden: dict[int, object] = {code: {} for code, fault in FAULTS.items() if fault is Fault.FORBIDDEN}
    entries = admin.ask("ask for the settings of topic", AdminClient.describe_configs, [resource], forbidden)[resource]
    config = {name: entry.value for name, entry in entries.items() if entry.value is not None}
    return TopicInfo(topic, topic_id, partitions, MappingProxyType(config))


def _touch(connection: Connection, link: Link, topic: str) -> tuple[int, ...]:
    producer = make_producer(connection, link)
    try:
        return partitions_of(producer, link, connection, topic)
    finally:
        producer.close()


def _touch_missing(connection: Connection, link: Link, specs: Sequence[TopicSpec]) -> list[str]:
    for spec in specs:
        if spec.partitions > EMBEDDED_PARTITIONS:
            raise ConfigurationError(
                f"topic {spec.name} needs {spec.partitions} partitions, but topics of the embedded broker have "
                f"{EMBEDDED_PARTITIONS}",
                "Use fewer partitions, or a real broker.",
            )
    producer = make_producer(connection, link)
    try:
        existing = producer.list_topics(timeout=connection.request_timeout_s).topics
        missing = [spec.name for spec in specs if spec.name not in existing]
        for name in missing:
            partitions_of(producer, link, connection, name)
        return missing
    except KafkaException as failure:
        raise link.failure(error_of(failure), "list topics") from failure
    finally:
        producer.close()

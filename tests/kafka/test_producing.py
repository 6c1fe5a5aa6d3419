"""Writers: nothing is lost unsaid, groups are atomic, one publisher per id, refusals leave nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import pytest

from streamsvm.errors import Fenced, TopicMissing
from streamsvm.kafka import Cluster, Connection, Message, Outbox, Publisher, PublishRefused, Subscription
from tests.brokers.fixtures import TestBroker
from tests.kafka import foreign
from tests.kafka.steps import PATIENCE_S, as_the_group_says, drain, numbers, send_values, values_of

MAX_BYTES = 20_000
TOO_LARGE_FOR_TOPIC = bytes(range(256)) * 100  # 25,600 bytes


def stored(broker: TestBroker, topic: str) -> list[bytes | None]:
    return values_of(Cluster(broker.connection).read_to_end(topic, 0, timeout_s=PATIENCE_S))


@contextmanager
def publishing(connection: Connection, broker: TestBroker) -> Iterator[Publisher]:
    """Yield a publisher that has started, of an id of its own."""
    with closing(Publisher(connection, broker.name("id"))) as publisher:
        publisher.start()
        yield publisher


@contextmanager
def two_publishers(broker: TestBroker) -> Iterator[tuple[Publisher, Publisher]]:
    """Yield two of one transactional id."""
    name = broker.name("id")
    with (
        closing(Publisher(broker.connection, name)) as first,
        closing(Publisher(broker.connection, name)) as second,
    ):
        yield first, second


def test_an_outbox_delivers_in_order_and_drops_nothing(broker: TestBroker) -> None:
    """After a flush every message is stored, more than the queue holds, too; one beyond the client's limit is refused.

    The outbox goes on with the others.
    """
    topic, values = broker.topic(), [b"%06d" % number + bytes(1000) for number in range(300)]
    connection = broker.connect(message_max_bytes=MAX_BYTES)
    with closing(Outbox(connection, max_queued_bytes=10_000)) as outbox:
        for value in values[:150]:
            outbox.send(Message(topic, value, partition=0))
        with pytest.raises(PublishRefused, match=r"max\.message\.bytes"):
            outbox.send(Message(topic, TOO_LARGE_FOR_TOPIC, partition=0))
        for value in values[150:]:
            outbox.send(Message(topic, value, partition=0))
        outbox.flush(PATIENCE_S)
        outbox.poll()
    assert stored(broker, topic) == values


@pytest.mark.real_broker
def test_a_failed_delivery_surfaces_and_stays(broker: TestBroker) -> None:
    """A message that the broker refuses fails the outbox for good."""
    topic = broker.topic(config={"max.message.bytes": "2000"})
    with closing(Outbox(broker.connect(compression_type="none"))) as outbox:
        outbox.send(Message(topic, TOO_LARGE_FOR_TOPIC, partition=0))
        for again in (
            lambda: outbox.flush(PATIENCE_S),
            lambda: outbox.send(Message(topic, b"y", partition=0)),
            outbox.poll,
        ):
            with pytest.raises(PublishRefused, match=topic):
                again()


def test_a_message_for_a_missing_partition_surfaces(broker: TestBroker) -> None:
    """A message whose partition does not exist is an error, at once or when it is flushed."""
    topic = broker.topic()

    def send_to_nowhere() -> None:
        outbox.send(Message(topic, b"x", partition=99))
        outbox.flush(PATIENCE_S)

    with closing(Outbox(broker.connection)) as outbox, pytest.raises(TopicMissing, match=topic):
        send_to_nowhere()


def test_a_group_is_published_with_its_offsets(broker: TestBroker) -> None:
    """They are returned, and given to the messages that point at it, in another topic; to publish none is harmless."""
    models, aliases = broker.topic(), broker.topic()
    with publishing(broker.connection, broker) as publisher:

        def alias(offsets: Sequence[int]) -> list[Message]:
            return [Message(aliases, b"%d" % offset, b"current", partition=0) for offset in offsets]

        assert publisher.publish([]) == []
        first = publisher.publish([Message(models, value, partition=0) for value in numbers(2)], alias)
        second = publisher.publish([Message(models, b"2", partition=0)], alias)
    assert first == [0, 1]
    assert second == [2 if broker.kind == "embedded" else 3]  # a marker ends each transaction
    assert stored(broker, models) == numbers(3)
    assert stored(broker, aliases) == [b"%d" % offset for offset in first + second]


@pytest.mark.real_broker
def test_a_group_that_fails_is_invisible(broker: TestBroker) -> None:
    """Where what points at it cannot be made, a topic is too small for it, or is missing: the next one works."""
    topic, missing = broker.topic(config={"max.message.bytes": "2000"}), broker.name()
    never = Message(topic, b"never", partition=0)

    def fail(_: Sequence[int]) -> list[Message]:
        raise RuntimeError("no alias")

    with publishing(broker.connect(request_timeout_s=2.0, compression_type="none"), broker) as publisher:
        publisher.publish([Message(topic, b"0", partition=0)])
        with pytest.raises(RuntimeError, match="no alias"):
            publisher.publish([never], fail)
        publisher.publish([Message(topic, b"1", partition=0)])
        with pytest.raises(PublishRefused, match=topic):
            publisher.publish([never, Message(topic, TOO_LARGE_FOR_TOPIC, partition=0)])
        publisher.publish([Message(topic, b"2", partition=0)])
        with pytest.raises(TopicMissing, match=missing):
            publisher.publish([never, Message(missing, b"x", partition=0)])
        publisher.publish([Message(topic, b"3", partition=0)])
    assert stored(broker, topic) == numbers(4)


@pytest.mark.real_broker
def test_a_group_travels_compressed(broker: TestBroker) -> None:
    """What exceeds the topic's limit as it is, and not compressed, is stored."""
    topic = broker.topic(config={"max.message.bytes": "2000", "compression.type": "zstd"})
    with publishing(broker.connection, broker) as publisher:
        publisher.publish([Message(topic, TOO_LARGE_FOR_TOPIC, partition=0)])
    assert stored(broker, topic) == [TOO_LARGE_FOR_TOPIC]


def test_a_message_too_large_for_the_client_refuses_its_group(broker: TestBroker) -> None:
    """The client's limit refuses the group; the publisher goes on with the next."""
    topic = broker.topic()
    with publishing(broker.connect(message_max_bytes=MAX_BYTES), broker) as publisher:
        with pytest.raises(PublishRefused, match=topic):
            publisher.publish([Message(topic, TOO_LARGE_FOR_TOPIC, partition=0)])
        publisher.publish([Message(topic, b"1", partition=0)])
    assert stored(broker, topic) == [b"1"]


@pytest.mark.real_broker
def test_a_second_publisher_fences_the_first(broker: TestBroker) -> None:
    """Whoever starts last with an id owns it; the other learns so, and its messages stay invisible."""
    topic = broker.topic()
    with two_publishers(broker) as (first, second):
        first.start()
        first.publish([Message(topic, b"0", partition=0)])
        second.start()
        second.publish([Message(topic, b"1", partition=0)])
        for _ in range(2):
            with pytest.raises(Fenced, match="another instance"):
                first.publish([Message(topic, b"never", partition=0)])
        second.publish([Message(topic, b"2", partition=0)])
    assert stored(broker, topic) == numbers(3)


@pytest.mark.real_broker
def test_taking_over_ends_what_the_predecessor_left_open(broker: TestBroker) -> None:
    """A successor aborts the predecessor's open transaction; fencing shows at the commit."""
    topic = broker.topic()
    with two_publishers(broker) as (first, second):
        first.start()

        def overtaken(_: Sequence[int]) -> list[Message]:
            second.start()
            second.publish([Message(topic, b"1", partition=0)])
            return []

        with pytest.raises(Fenced):
            first.publish([Message(topic, b"never", partition=0)], overtaken)
    assert stored(broker, topic) == [b"1"]


@pytest.mark.real_broker
def test_a_sweep_publishes_nothing(broker: TestBroker) -> None:
    """It aborts what it adds, on each partition: readers reach the end, and the next group follows."""
    topic, asked, group = broker.topic(), broker.topic(), broker.name("group")
    send_values(broker.connection, asked, numbers(6))
    with (
        closing(Subscription(broker.connection, asked, group=group, place=as_the_group_says)) as member,
        closing(Publisher(broker.connection, broker.name("id"))) as publisher,
    ):
        drain(member, 6)
        publisher.start()
        publisher.publish([Message(topic, b"before", partition=0)], progress=member.progress({0: 4}))
        publisher.sweep([Message(topic, b"swept", partition=0)])
        assert stored(broker, topic) == [b"before"]
        assert foreign.committed(broker.connection, group, asked, 0) == 4
        publisher.publish([Message(topic, b"after", partition=0)], progress=member.progress({0: 5}))
        assert stored(broker, topic) == [b"before", b"after"]
        assert foreign.committed(broker.connection, group, asked, 0) == 5


@pytest.mark.real_broker
def test_a_position_that_is_in_doubt_is_the_one_before(broker: TestBroker) -> None:
    """A group's position is a hint: a transaction that moves it, and that nobody may ever end, holds nobody up."""
    asked, group = broker.topic(), broker.name("group")
    send_values(broker.connection, asked, numbers(6))
    with closing(Subscription(broker.connection, asked, group=group, place=as_the_group_says)) as member:
        drain(member, 6)
        member.commit({0: 4})
        with foreign.positions_in_doubt(broker.connection, group, asked) as end:
            member.rewind()
            assert values_of(drain(member, 2)) == numbers(2, 4)
            end()
        assert member.unplaced == ""

"""Writers: nothing is lost unsaid, groups are atomic, one publisher per id, refusals leave nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import pytest

from streamsvm.errors import Fenced, TopicMissing
from streamsvm.kafka import Cluster, GroupStanding, Message, Outbox, Publisher, PublishRefused, Standings, Subscription
from tests.brokers.fixtures import TestBroker
from tests.kafka import foreign
from tests.kafka.steps import PATIENCE_S, drain, numbers, send_values, values_of

MAX_BYTES = 20_000
TOO_LARGE_FOR_TOPIC = bytes(range(256)) * 100  # 25,600 bytes


def stored(broker: TestBroker, topic: str) -> list[bytes | None]:
    return values_of(Cluster(broker.connection).read_to_end(topic, 0, timeout_s=PATIENCE_S))


@contextmanager
def two_publishers(broker: TestBroker) -> Iterator[tuple[Publisher, Publisher]]:
    """Yield two of one transactional id."""
    name = broker.name("id")
    with (
        closing(Publisher(broker.connection, name)) as first,
        closing(Publisher(broker.connection, name)) as second,
    ):
        yield first, second


def test_an_outbox_delivers_in_order(broker: TestBroker) -> None:
    """After a flush every message is stored, in the order of sending."""
    topic = broker.topic()
    with closing(Outbox(broker.connection)) as outbox:
        for value in numbers(500):
            outbox.send(Message(topic, value, partition=0))
        outbox.flush(PATIENCE_S)
        outbox.poll()
    assert stored(broker, topic) == numbers(500)


def test_a_full_outbox_blocks_and_drops_nothing(broker: TestBroker) -> None:
    """More than the local queue holds is sent all the same."""
    topic = broker.topic()
    values = [b"%06d" % number + bytes(1000) for number in range(300)]
    with closing(Outbox(broker.connection, max_queued_bytes=10_000)) as outbox:
        for value in values:
            outbox.send(Message(topic, value, partition=0))
        outbox.flush(PATIENCE_S)
    assert stored(broker, topic) == values


@pytest.mark.real_broker
def test_a_failed_delivery_surfaces_and_stays(broker: TestBroker) -> None:
    """A message that the broker refuses fails the outbox for good."""
    topic = broker.topic(config={"max.message.bytes": "2000"})
    with closing(Outbox(broker.connect(compression_type="none"))) as outbox:
        outbox.send(Message(topic, TOO_LARGE_FOR_TOPIC, partition=0))
        with pytest.raises(PublishRefused, match=topic):
            outbox.flush(PATIENCE_S)
        with pytest.raises(PublishRefused, match=topic):
            outbox.send(Message(topic, b"y", partition=0))
        with pytest.raises(PublishRefused, match=topic):
            outbox.poll()


def test_a_message_for_a_missing_partition_surfaces(broker: TestBroker) -> None:
    """A message whose partition does not exist is an error, at once or when it is flushed."""
    topic = broker.topic()

    def send_to_nowhere() -> None:
        outbox.send(Message(topic, b"x", partition=99))
        outbox.flush(PATIENCE_S)

    with closing(Outbox(broker.connection)) as outbox, pytest.raises(TopicMissing, match=topic):
        send_to_nowhere()


def test_a_message_too_large_for_the_client_is_refused_at_once(broker: TestBroker) -> None:
    """The client's own limit refuses a message; the outbox goes on with the others."""
    topic = broker.topic()
    with closing(Outbox(broker.connect(message_max_bytes=MAX_BYTES))) as outbox:
        with pytest.raises(PublishRefused, match=r"max\.message\.bytes"):
            outbox.send(Message(topic, TOO_LARGE_FOR_TOPIC, partition=0))
        outbox.send(Message(topic, b"y", partition=0))
        outbox.flush(PATIENCE_S)
    assert stored(broker, topic) == [b"y"]


def test_a_group_is_published_with_its_offsets(broker: TestBroker) -> None:
    """The offsets of a group are returned, and given to the messages that point at it."""
    models, aliases = broker.topic(), broker.topic()
    with closing(Publisher(broker.connection, broker.name("id"))) as publisher:
        publisher.start()

        def alias(offsets: Sequence[int]) -> list[Message]:
            return [Message(aliases, b"%d" % offset, b"current", partition=0) for offset in offsets]

        first = publisher.publish([Message(models, value, partition=0) for value in numbers(2)], alias)
        second = publisher.publish([Message(models, b"2", partition=0)], alias)
    assert first == [0, 1]
    assert second == [2 if broker.kind == "embedded" else 3]  # a marker ends each transaction
    assert stored(broker, models) == numbers(3)
    assert stored(broker, aliases) == [b"%d" % offset for offset in first + second]


def test_a_group_spans_topics_and_may_be_empty(broker: TestBroker) -> None:
    """Messages for several topics go in one group; publishing none is harmless."""
    one, two = broker.topic(), broker.topic()
    with closing(Publisher(broker.connection, broker.name("id"))) as publisher:
        publisher.start()
        assert publisher.publish([]) == []
        publisher.publish([Message(one, b"1", partition=0), Message(two, b"2", partition=0)])
    assert (stored(broker, one), stored(broker, two)) == ([b"1"], [b"2"])


@pytest.mark.real_broker
def test_a_group_that_fails_is_invisible(broker: TestBroker) -> None:
    """If the messages that point at a group cannot be made, nothing of it is seen, and the next works."""
    topic = broker.topic()

    def fail(_: Sequence[int]) -> list[Message]:
        raise RuntimeError("no alias")

    with closing(Publisher(broker.connection, broker.name("id"))) as publisher:
        publisher.start()
        with pytest.raises(RuntimeError, match="no alias"):
            publisher.publish([Message(topic, b"never", partition=0)], fail)
        publisher.publish([Message(topic, b"next", partition=0)])
    assert stored(broker, topic) == [b"next"]


@pytest.mark.real_broker
def test_a_message_too_large_for_the_topic_refuses_its_group(broker: TestBroker) -> None:
    """The topic's limit refuses the whole group; the publisher goes on with the next."""
    topic = broker.topic(config={"max.message.bytes": "2000"})
    connection = broker.connect(compression_type="none")
    with closing(Publisher(connection, broker.name("id"))) as publisher:
        publisher.start()
        publisher.publish([Message(topic, b"0", partition=0)])
        with pytest.raises(PublishRefused, match=topic):
            publisher.publish([Message(topic, b"never", partition=0), Message(topic, TOO_LARGE_FOR_TOPIC, partition=0)])
        publisher.publish([Message(topic, b"1", partition=0)])
    assert stored(broker, topic) == [b"0", b"1"]


@pytest.mark.real_broker
def test_a_group_travels_compressed(broker: TestBroker) -> None:
    """What exceeds the topic's limit as it is, and not compressed, is stored."""
    topic = broker.topic(config={"max.message.bytes": "2000", "compression.type": "zstd"})
    with closing(Publisher(broker.connection, broker.name("id"))) as publisher:
        publisher.start()
        publisher.publish([Message(topic, TOO_LARGE_FOR_TOPIC, partition=0)])
    assert stored(broker, topic) == [TOO_LARGE_FOR_TOPIC]


@pytest.mark.parametrize(("options", "kept"), [({}, 12), ({"compression_type": "none"}, 5)])
def test_the_embedded_broker_keeps_what_is_compressed_as_it_came(
    embedded_broker: TestBroker, options: dict[str, str], kept: int
) -> None:
    """It keeps some megabytes a partition, and all of twelve that are sent compressed, as groups are unless told."""
    topic = embedded_broker.topic()
    values = [bytes([number]) * 900_000 for number in range(12)]
    with closing(Publisher(embedded_broker.connect(**options), embedded_broker.name("id"))) as publisher:
        publisher.start()
        for value in values:
            publisher.publish([Message(topic, value, partition=0)])
    assert stored(embedded_broker, topic) == values[-kept:]


def test_a_message_too_large_for_the_client_refuses_its_group(broker: TestBroker) -> None:
    """The client's limit refuses the group; the publisher goes on with the next."""
    topic = broker.topic()
    with closing(Publisher(broker.connect(message_max_bytes=MAX_BYTES), broker.name("id"))) as publisher:
        publisher.start()
        with pytest.raises(PublishRefused, match=topic):
            publisher.publish([Message(topic, TOO_LARGE_FOR_TOPIC, partition=0)])
        publisher.publish([Message(topic, b"1", partition=0)])
    assert stored(broker, topic) == [b"1"]


@pytest.mark.real_broker
def test_publishing_to_a_missing_topic_names_it(broker: TestBroker) -> None:
    """A topic that does not exist refuses the group, and the publisher goes on."""
    topic, missing = broker.topic(), broker.name()
    with closing(Publisher(broker.connect(request_timeout_s=2.0), broker.name("id"))) as publisher:
        publisher.start()
        with pytest.raises(TopicMissing, match=missing):
            publisher.publish([Message(topic, b"never", partition=0), Message(missing, b"x", partition=0)])
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
        with pytest.raises(Fenced, match="another instance"):
            first.publish([Message(topic, b"never", partition=0)])
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


@pytest.mark.embedded_broker
def test_the_embedded_broker_fences_nobody(broker: TestBroker) -> None:
    """On the embedded broker two publishers of one id both publish: it has no transactions."""
    topic = broker.topic()
    with two_publishers(broker) as (first, second):
        first.start()
        second.start()
        first.publish([Message(topic, b"0", partition=0)])
        second.publish([Message(topic, b"1", partition=0)])
    assert stored(broker, topic) == numbers(2)


@pytest.mark.real_broker
def test_a_sweep_publishes_nothing_and_moves_no_group(broker: TestBroker) -> None:
    """It aborts what it adds, on each partition: readers reach the end, positions stay, and the next group follows."""
    topic, asked, group = broker.topic(), broker.topic(), broker.name("group")
    send_values(broker.connection, asked, numbers(6))
    with (
        closing(Subscription(broker.connection, asked, group=group)) as member,
        closing(Publisher(broker.connection, broker.name("id"))) as publisher,
    ):
        drain(member, 6)
        publisher.start()
        publisher.publish([Message(topic, b"before", partition=0)], progress=member.progress({0: 4}))
        publisher.sweep([Message(topic, b"swept", partition=0)], member.progress({0: 1}))
        assert stored(broker, topic) == [b"before"]
        assert foreign.committed(broker.connection, group, asked, 0) == 4
        publisher.publish([Message(topic, b"after", partition=0)], progress=member.progress({0: 5}))
        assert stored(broker, topic) == [b"before", b"after"]
        assert foreign.committed(broker.connection, group, asked, 0) == 5


@pytest.mark.real_broker
def test_a_group_whose_positions_are_in_doubt_says_so_until_they_are_settled(broker: TestBroker) -> None:
    """While a transaction that moves the group is open, a rewound member reads nothing and says why."""
    asked, group = broker.topic(), broker.name("group")
    send_values(broker.connection, asked, numbers(6))
    standings = Standings(broker.connection, group, asked)
    with closing(Subscription(broker.connection, asked, group=group)) as member:
        drain(member, 6)
        member.commit({0: 4})
        with foreign.positions_in_doubt(broker.connection, group, asked) as end:
            member.rewind()
            assert member.poll(10, 0.1) == []
            assert member.unplaced
            assert standings.of([0]) == {0: GroupStanding(4, in_doubt=True)}
            end()
        assert values_of(drain(member, 2)) == numbers(2, 4)
        assert member.unplaced == ""
        assert standings.of([0]) == {0: GroupStanding(4)}

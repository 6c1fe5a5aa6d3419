"""Readers: records as they were written, positions that are the caller's, groups at least once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import closing
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, Message as Consumed, TopicPartition

from streamsvm.errors import TopicMissing, TransientError
from streamsvm.kafka import Input, Message, OffsetOutOfRange, Record, Subscription
from streamsvm.kafka.client import Link
from streamsvm.kafka.feed import Feed
from tests.brokers.fixtures import TestBroker
from tests.kafka import foreign
from tests.kafka.steps import as_the_group_says, drain, eventually, numbers, send, send_values, values_of


@contextlib.contextmanager
def reading(broker: TestBroker, topic: str, start: int = 0, group: str | None = None) -> Iterator[Input]:
    """Read partition 0 of a topic from an offset."""
    with closing(Input(broker.connection, topic, group=group)) as reader:
        reader.assign({0: start})
        yield reader


def test_a_record_comes_as_it_was_sent(broker: TestBroker) -> None:
    """Key, value, repeated headers, tombstone, coordinates, and bytes that nobody can decode survive the way."""
    topic, poison = broker.topic(), bytes(range(256))
    headers = (("kind", b"a"), ("kind", b""), ("\u03c0", b"\x00\xff"))
    send(
        broker.connection,
        [Message(topic, b"\x00v", b"k", headers, partition=0), Message(topic, None, b"k", partition=0)],
    )
    send_values(broker.connection, topic, [poison, b"", b"2"])
    with reading(broker, topic) as reader:
        first, second, *others = drain(reader, 5)
    assert (first.topic, first.partition, first.offset) == (topic, 0, 0)
    assert (first.key, first.value, first.headers) == (b"k", b"\x00v", headers)
    assert first.timestamp_ms is not None
    assert first.timestamp_ms > 0
    assert (second.offset, second.value, second.headers) == (1, None, ())
    assert values_of(others) == [poison, b"", b"2"]


def test_a_key_always_finds_its_partition(broker: TestBroker) -> None:
    """Without a partition the key decides, and as a Java client would (murmur2)."""
    topic = broker.topic(partitions=4)
    send(broker.connection, [Message(topic, b"v", key) for key in (b"21", b"foobar", b"21")])
    with closing(Input(broker.connection, topic, group=None)) as reader:
        reader.assign(dict.fromkeys(range(4), 0))
        partitions = {(record.key, record.partition) for record in drain(reader, 3)}
    # from the test vectors of the Java client: toPositive(murmur2(key)) % 4
    assert partitions == {(b"21", (-973932308 & 0x7FFFFFFF) % 4), (b"foobar", (-790332482 & 0x7FFFFFFF) % 4)}


def test_positions_are_the_readers_own(broker: TestBroker) -> None:
    """A batch is bounded; at the end there is none; the next reader, and one that paused, miss and repeat nothing."""
    topic = broker.topic()
    send_values(broker.connection, topic, numbers(50))
    with reading(broker, topic) as reader:
        records = list(reader.poll(7, 10.0))
        assert len(records) <= 7
    with reading(broker, topic, records[-1].offset + 1) as reader:
        records += reader.poll(7, 10.0)
        reader.pause()
        assert reader.poll(7, 0.2) == []
        reader.resume()
        records += drain(reader, 50 - len(records))
        assert values_of(records) == numbers(50)
        assert reader.poll(2, 0.0) == []
        assert reader.connected()
        assert reader.stable_end(0) == 50
        assert reader.stable_end(3) is None


@pytest.mark.real_broker
def test_the_end_lies_past_markers_and_aborted_records(broker: TestBroker) -> None:
    """It is told once it is met, and stands before a transaction that is open; a pause does not go back before it."""
    topic = broker.topic()
    with closing(Input(broker.connection, topic, group=None)) as reader:
        with foreign.open_transaction(broker.connection, topic, numbers(5)) as writer:
            reader.assign({0: 0})
            assert reader.seen_end(0) is None
            eventually(lambda: (reader.poll(1, 0.1), reader.seen_end(0))[1] == 0, "the end is met")
            writer.commit_transaction(foreign.TIMEOUT_S)
        assert values_of(drain(reader, 5)) == numbers(5)
        foreign.aborted(broker.connection, topic, numbers(3))
        eventually(lambda: (reader.poll(1, 0.1), reader.seen_end(0))[1] == 10, "the end is met")
        reader.pause()
        reader.poll(1, 0.1)
        foreign.delete_records(broker.connection, topic, 0, 10)
        reader.resume()
        send_values(broker.connection, topic, numbers(1))
        assert [record.offset for record in drain(reader, 1)] == [10]
        reader.assign({0: 10})
        assert reader.seen_end(0) is None


@pytest.mark.real_broker
def test_a_member_reads_partitions_that_are_added(broker: TestBroker) -> None:
    """From their first record, without a restart, and long before the client's own five minutes are over."""
    topic = broker.topic()
    send_values(broker.connection, topic, numbers(2))
    with closing(Subscription(broker.connection, topic, group=broker.name("g"), place=as_the_group_says)) as member:
        read = list[Record]()
        eventually(lambda: (read.extend(member.poll(9, 0.1)), len(read))[1] == 2, "what is there is read")
        member.commit({0: 2})
        foreign.add_partitions(broker.connection, topic, 2)
        send(broker.connection, [Message(topic, b"new", None, (), partition=1)])
        eventually(lambda: (read.extend(member.poll(9, 0.1)), len(read))[1] == 3, "the new partition is read")
    assert (read[-1].partition, read[-1].offset) == (1, 0)


class Late:
    """A client that says so late: with records of the partition, or after they were committed."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self.says_so = ""

    def consume(self, count: int, timeout_s: float) -> list[Any]:
        found = self._consumer.consume(count, timeout_s)
        if self.says_so == "alone" or (self.says_so and found):
            self.says_so = ""
            unplaced = Consumed(partition=0, error=KafkaError(KafkaError._AUTO_OFFSET_RESET))
            return [*found[:1], unplaced, *found[1:]]
        return found  # type: ignore[no-any-return]


def test_what_a_client_says_late_of_a_position_makes_nothing_come_twice(broker: TestBroker) -> None:
    """It had asked before the partition was placed and read; a record that came with it comes once, too."""
    topic, read = broker.topic(), list[Record]()
    with closing(Subscription(broker.connection, topic, group=broker.name("g"), place=as_the_group_says)) as member:
        late = member._feed._consumer = Late(member._feed._consumer)  # type: ignore[assignment]
        for end in (9, 18):  # at the second time some are committed
            late.says_so = "with records"
            send_values(broker.connection, topic, numbers(9, end - 9))
            eventually(lambda end=end: (read.extend(member.poll(9, 0.1)), len(read))[1] >= end, "all are read")  # type: ignore[misc]
            member.commit({0: end})
            late.says_so = "alone"
            for _ in range(5):
                read.extend(member.poll(9, 0.1))
            assert not late.says_so
    assert values_of(read) == numbers(18)


@pytest.mark.real_broker
@pytest.mark.parametrize("committed", [4, None])
def test_a_member_that_reads_nothing_has_a_lag(broker: TestBroker, committed: int | None) -> None:
    """After a restart at the end of the log, or at a log that is empty, it is 0 and not unknown."""
    topic, group = broker.topic(), broker.name("g")
    if committed:
        send_values(broker.connection, topic, numbers(committed))
        with closing(Subscription(broker.connection, topic, group=group, place=as_the_group_says)) as member:
            read = list[Record]()
            eventually(lambda: (read.extend(member.poll(9, 0.1)), len(read))[1] == committed, "all are read")
            member.commit({0: committed})
    with closing(Subscription(broker.connection, topic, group=group, place=as_the_group_says)) as member:
        eventually(lambda: (member.poll(9, 0.1), member.backlog())[1] == {0: 0}, "there is no lag")


@pytest.mark.real_broker
def test_an_open_transaction_is_no_lag(broker: TestBroker) -> None:
    """What it wrote, and what others wrote behind it, is told apart from what can be read; a group's member alike."""
    topic = broker.topic()
    send_values(broker.connection, topic, numbers(2))
    with (
        reading(broker, topic) as reader,
        closing(Subscription(broker.connection, topic, group=broker.name("g"), place=as_the_group_says)) as member,
        foreign.open_transaction(broker.connection, topic, numbers(3)) as writer,
    ):
        send_values(broker.connection, topic, numbers(5))
        assert len(drain(reader, 2)) == 2
        eventually(lambda: (reader.poll(1, 0.1), reader.in_open_transactions())[1] == {0: 8}, "it is told")
        assert reader.stable_end(0) == 2
        read = list[Record]()
        eventually(lambda: (read.extend(member.poll(9, 0.1)), member.in_open_transactions())[1] == {0: 8}, "it is told")
        eventually(lambda: (read.extend(member.poll(9, 0.1)), len(read))[1] == 2, "what is committed is read")
        assert member.backlog() == {0: 0}
        writer.commit_transaction(foreign.TIMEOUT_S)
        assert len(drain(reader, 8)) == 8
        eventually(lambda: (reader.poll(1, 0.1), reader.in_open_transactions())[1] == {}, "it is over")
        assert reader.stable_end(0) == 11, "with its marker"


@pytest.mark.parametrize("offset", [6, 2**40])
def test_a_position_beyond_the_log_is_an_error_with_the_logs_range(broker: TestBroker, offset: int) -> None:
    """Where the log does not hold a position the reader says so, and never moves by itself."""
    topic = broker.topic()
    send_values(broker.connection, topic, numbers(5))
    with reading(broker, topic, offset) as reader:
        with pytest.raises(OffsetOutOfRange, match="the log starts at 0 and ends at 5") as error:
            drain(reader, 1)
        assert f"offset {offset} of {topic}[0]" in str(error.value)
        with pytest.raises(OffsetOutOfRange):
            reader.poll(1, 0.0)


def test_records_before_an_error_are_delivered(broker: TestBroker) -> None:
    """An error on one partition loses no record of another that was fetched with it."""
    topic = broker.topic(partitions=2)
    send(broker.connection, [Message(topic, value, partition=1) for value in numbers(3)])
    with closing(Input(broker.connection, topic, group=None)) as reader:
        reader.assign({1: 0})
        assert values_of(drain(reader, 3)) == numbers(3)
        reader.assign({0: 99, 1: 1})
        seen: list[Record] = []
        with pytest.raises(OffsetOutOfRange):
            eventually(lambda: seen.extend(reader.poll(10, 0.1)) is not None, "the error is raised")
    assert values_of(seen) in ([], numbers(2, 1))


def test_a_committed_position_is_visible_to_observers_and_without_a_group_there_is_none(broker: TestBroker) -> None:
    """Also one that is committed just before closing."""
    topic, group = broker.topic(), broker.name("group")
    send_values(broker.connection, topic, numbers(5))
    for own in (group, None):
        with reading(broker, topic, group=own) as reader:
            drain(reader, 5)
            reader.commit({0: 3})
    eventually(lambda: foreign.committed(broker.connection, group, topic, 0) == 3, "the commit is seen")
    assert foreign.committed(broker.connection, "streamsvm-reader", topic, 0) < 0


@pytest.mark.real_broker
def test_a_missing_topic_is_named(broker: TestBroker) -> None:
    """Reading a topic that does not exist says so; the embedded broker would create it."""
    with (
        closing(Input(broker.connection, "no-such-topic", group=None)) as reader,
        pytest.raises(TopicMissing, match="no-such-topic"),
    ):
        reader.assign({0: 0})


def test_a_missing_partition_is_named_and_a_negative_position_is_a_mistake_of_ours(broker: TestBroker) -> None:
    """The client's logical offsets are no positions."""
    with closing(Input(broker.connection, broker.topic(), group=None)) as reader:
        with pytest.raises(TopicMissing, match="no partition 9"):
            reader.assign({0: 0, 9: 0})
        with pytest.raises(ValueError):
            reader.assign({0: -2})


def test_a_group_goes_on_at_its_committed_position(broker: TestBroker) -> None:
    """A member that left without committing has its records read again, by whoever comes next."""
    topic, group = broker.topic(), broker.name("group")
    send_values(broker.connection, topic, numbers(6))
    with closing(Subscription(broker.connection, topic, group=group, place=as_the_group_says)) as member:
        records = drain(member, 6)
        assert values_of(records) == numbers(6)
        member.commit({0: 4})
    with closing(Subscription(broker.connection, topic, group=group, place=as_the_group_says)) as member:
        assert values_of(drain(member, 2)) == numbers(2, 4)
        assert member.connected()


@pytest.mark.real_broker
def test_a_member_that_lost_its_place_cannot_commit(broker: TestBroker) -> None:
    """A commit after the group took the partitions away is a passing error or does nothing."""
    topic, group = broker.topic(), broker.name("group")
    send_values(broker.connection, topic, numbers(3))
    slow = broker.connect(max_poll_interval_ms=1000, session_timeout_ms=1000, heartbeat_interval_ms=100)
    with closing(Subscription(slow, topic, group=group, place=as_the_group_says)) as late:
        drain(late, 3)
        with closing(Subscription(broker.connection, topic, group=group, place=as_the_group_says)) as other:
            drain(other, 3)  # once the group has given up the one that does not poll
            other.commit({0: 3})
            with contextlib.suppress(TransientError):
                late.commit({0: 1})
        assert foreign.committed(broker.connection, group, topic, 0) == 3


@pytest.mark.real_broker
def test_a_member_that_leaves_before_its_first_partition_is_gone_at_once(broker: TestBroker) -> None:
    """Those who stay have every partition again long before its session has run out."""
    topic, group = broker.topic(partitions=4), broker.name("group")
    patient = broker.connect(session_timeout_ms=300_000, heartbeat_interval_ms=100)
    with closing(Subscription(patient, topic, group=group, place=as_the_group_says)) as stays:
        eventually(lambda: _has(stays, 4), "it has them all")
        with closing(Subscription(patient, topic, group=group, place=as_the_group_says)) as leaves:
            eventually(
                lambda: leaves.poll(1, 0.1) == [] and foreign.members(broker.connection, group) == 2, "it is a member"
            )
            leaves.poll(1, 0.5)  # takes in that it has nothing yet: who has it all must give up some first
            assert leaves._consumer.assignment() == []
        eventually(lambda: (stays.poll(1, 0.1), foreign.members(broker.connection, group))[1] == 1, "one is left")
        eventually(lambda: _has(stays, 4), "it has them all again")


@pytest.mark.real_broker
def test_a_partition_taken_away_before_it_has_a_position_is_let_go(broker: TestBroker) -> None:
    """A group without positions: that a partition has none is learned with its revocation, and read on without it."""
    topic, group = broker.topic(partitions=4), broker.name("group")
    quick = broker.connect(heartbeat_interval_ms=100)
    with closing(Subscription(quick, topic, group=group, place=as_the_group_says)) as first:
        eventually(lambda: first.poll(1, 0.0) == [] and len(first._consumer.assignment()) == 4, "it has them all")
        with closing(Subscription(quick, topic, group=group, place=as_the_group_says)) as second:
            eventually(
                lambda: second.poll(1, 0.1) == [] and foreign.members(broker.connection, group) == 2, "another joins"
            )
            eventually(
                lambda: first.poll(10, 0.1) == second.poll(10, 0.1) == [] and len(first._consumer.assignment()) == 2,
                "it gives up two",
            )
        send(broker.connection, [Message(topic, b"v", partition=partition) for partition in range(4)])
        assert {record.partition for record in drain(first, 4)} == set(range(4))


def _has(member: Subscription, many: int) -> bool:
    """Poll, and tell whether a member was given so many partitions; there is nothing to read yet."""
    return member.poll(1, 0.1) == [] and len(member._consumer.assignment()) == many


class Cut:
    """A client whose log was cut below where it stands: it says so, and names no offset."""

    def consume(self, _most: int, _timeout_s: float) -> list[Consumed]:
        return [Consumed(partition=0, error=KafkaError(KafkaError._AUTO_OFFSET_RESET))]

    def position(self, places: list[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition(one.topic, one.partition, 2) for one in places]


def test_a_log_that_was_cut_and_has_grown_again_is_named_so(broker: TestBroker) -> None:
    """With the offset that was reached, which the log holds again."""
    topic = broker.topic()
    send_values(broker.connection, topic, numbers(3))
    feed = Feed(cast(Consumer, Cut()), Link(broker.connection), broker.connection, topic)
    with pytest.raises(OffsetOutOfRange, match=r"offset 2 of .*starts at 0 and ends at 3; it was cut below that"):
        feed.take(1, 1.0, gather=False)

"""One partition's log: its range, where to start, reading to the end, following, single records."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streamsvm.errors import ConfigurationError, TopicMissing, TransientError
from streamsvm.kafka import (
    Cluster,
    Connection,
    Marks,
    Message,
    OffsetOutOfRange,
    Place,
    Publisher,
    RecordFetcher,
    Stamp,
    Tail,
    TopicSpec,
    Watermarks,
    reading,
)
from streamsvm.kafka.client import Link, make_consumer
from streamsvm.kafka.failures import error_of
from tests.brokers.fixtures import TestBroker
from tests.kafka import foreign
from tests.kafka.steps import PATIENCE_S, drain, numbers, send_values, values_of
from tests.registry.test_subscriber import eventually, restartable_broker

HOUR_MS = 3_600_000
EPOCH_MS = 1_700_000_000_000


def read(broker: TestBroker, topic: str, start: int | None = None) -> list[bytes | None]:
    return values_of(Cluster(broker.connection).read_to_end(topic, 0, start=start, timeout_s=PATIENCE_S))


def test_the_range_of_a_log_and_where_to_start(broker: TestBroker) -> None:
    """A range is the first offset and the one after the last: the earliest start, and the latest."""
    cluster, topic = Cluster(broker.connection), broker.topic(partitions=2)
    assert cluster.log_range(topic, 0) == (0, 0)
    send_values(broker.connection, topic, numbers(3))
    assert cluster.log_range(topic, 0) == (0, 3)
    assert cluster.starts(topic, [0, 1], "earliest") == {0: 0, 1: 0}
    assert cluster.starts(topic, [0, 1], "latest") == {0: 3, 1: 0}
    with pytest.raises(ConfigurationError, match="time zone"):
        cluster.starts(topic, [0], datetime(2026, 1, 1))


@pytest.mark.real_broker
def test_marks_tell_what_readers_get_and_what_writers_wrote(broker: TestBroker) -> None:
    """The stable offset, and the latest start, stand before an open transaction, the log's end behind it.

    A topic that is missing is named.
    """
    cluster, topic = Cluster(broker.connection), broker.topic(partitions=2)
    send_values(broker.connection, topic, numbers(2))
    marks = Marks(broker.connection)
    with foreign.open_transaction(broker.connection, topic, [b"open"]):
        assert marks.of([(topic, 0), (topic, 1)]) == {(topic, 0): Watermarks(2, 3), (topic, 1): Watermarks(0, 0)}
        assert cluster.log_range(topic, 0) == (0, 3)
        assert cluster.starts(topic, [0], "latest") == {0: 2}
    with pytest.raises(TopicMissing, match="nowhere"):
        marks.stable([("nowhere", 0)])
    assert marks.stable([(topic, 1)]) == {(topic, 1): 0}


@pytest.mark.long
def test_marks_are_told_again_after_the_broker_was_killed() -> None:
    """A leader's epoch is another one then; what is asked meanwhile is worth trying again."""
    with restartable_broker() as broker:
        connection = Connection(options={"bootstrap.servers": broker.bootstrap_servers})
        Cluster(connection).create([TopicSpec("t", 1)])
        marks = Marks(connection)
        eventually(lambda: stable_now(marks) == {("t", 0): 0}, "the topic's leader knows of it")
        broker.kill()
        with pytest.raises(TransientError):
            marks.stable([("t", 0)])
        broker.start()
        eventually(lambda: stable_now(marks) == {("t", 0): 0}, "they are told again")


@pytest.mark.real_broker
def test_marks_that_nobody_answers_hold_up_no_other_thread(broker: TestBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client is one thread's at a time: its `poll` waits for the question that another thread asks by it."""
    topic, asked, over = broker.topic(), threading.Event(), threading.Event()
    made = make_consumer(broker.connection, Link(broker.connection))

    class Unanswered:
        def poll(self, _: float) -> None:
            assert not asked.is_set(), "a client is shared"

        def offsets_for_times(self, asked_for: list[TopicPartition], timeout: float) -> list[TopicPartition]:
            asked.set()
            over.wait(PATIENCE_S)
            return made.offsets_for_times(asked_for, timeout=timeout)

    clients = iter([Unanswered(), made])
    monkeypatch.setattr("streamsvm.kafka.log.make_consumer", lambda *_, **__: next(clients))
    marks = Marks(broker.connection)
    waiting = threading.Thread(target=lambda: marks.stable([(topic, 0)]), daemon=True)
    waiting.start()
    assert asked.wait(PATIENCE_S)
    assert marks.stable([(topic, 0)]) == {(topic, 0): 0}
    over.set()
    waiting.join(PATIENCE_S)
    made.close()


def test_an_answer_that_never_comes_is_one_that_timed_out() -> None:
    """The client library keeps to its own limit, if it is still there: nobody waits without one."""
    link = Link(Connection(options={"bootstrap.servers": "127.0.0.1:1"}, request_timeout_s=0.05))
    with pytest.raises(KafkaException) as failed:
        link.answer(Future())
    assert error_of(failed.value).code() == KafkaError._TIMED_OUT


class Electing:
    """A client whose first answer comes from a broker that does not yet know of its leadership."""

    def __init__(self, consumer: Consumer, code: int) -> None:
        self._consumer, self._code = consumer, code
        self.waits: list[float] = []

    def offsets_for_times(self, asked: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        self.waits.append(timeout)
        if len(self.waits) > 1:
            return self._consumer.offsets_for_times(asked, timeout=timeout)
        raise KafkaException(KafkaError(self._code))

    def poll(self, timeout_s: float) -> None:
        self._consumer.poll(timeout_s)


@pytest.mark.parametrize("code", [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError._ALL_BROKERS_DOWN])
def test_a_leader_of_this_moment_is_asked_again(broker: TestBroker, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that was made a moment ago has a leader that may not know of it yet."""
    topic = broker.topic()
    send_values(broker.connection, topic, numbers(2))
    made = make_consumer(broker.connection, Link(broker.connection))
    electing = Electing(made, code)
    monkeypatch.setattr("streamsvm.kafka.log.make_consumer", lambda *_, **__: electing)
    assert Marks(broker.connection).stable([(topic, 0)]) == {(topic, 0): 2}
    electing = Electing(made, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(ConfigurationError):
        Marks(broker.connection).stable([(topic, 0)])
    made.close()


@pytest.mark.real_broker
def test_a_leader_that_died_is_not_waited_for(broker: TestBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client that waits for it never stops; another, made soon, asks the leader that there is by now."""
    topic = broker.topic()
    made = make_consumer(broker.connection, Link(broker.connection))
    waiting = Electing(made, KafkaError._TIMED_OUT)
    clients = iter([waiting, made])
    monkeypatch.setattr("streamsvm.kafka.log.make_consumer", lambda *_, **__: next(clients))
    assert Marks(broker.connection).stable([(topic, 0)]) == {(topic, 0): 0}
    assert waiting.waits[0] <= broker.connection.request_timeout_s / 4
    made.close()


def stable_now(marks: Marks) -> dict[Place, int] | None:
    try:
        return marks.stable([("t", 0)])
    except TransientError:
        return None


@pytest.mark.real_broker
def test_aborted_records_are_read_where_they_are_wanted(broker: TestBroker) -> None:
    """Each stored record with whether readers get it; an open transaction below the end is no time to ask."""
    topic = broker.topic()
    with closing(Publisher(broker.connection, broker.name("id"))) as publisher:
        publisher.start()
        publisher.publish([Message(topic, b"0", partition=0)])
        publisher.sweep([Message(topic, b"swept", partition=0)])
    found = Cluster(broker.connection).stored([(topic, 0)], lambda record: True, timeout_s=PATIENCE_S)
    assert [(one.record.value, one.committed) for one in found] == [(b"0", True), (b"swept", False)]
    stamps = [Stamp.of(one.record.headers) for one in found]
    assert [(stamp.part, stamp.parts) for stamp in stamps if stamp] == [(1, 1), (1, 1)]
    assert len({stamp.attempt for stamp in stamps if stamp}) == 2
    swept = Cluster(broker.connection).stored_at(topic, 0, 1, PATIENCE_S)
    assert swept is not None
    assert swept.value == b"swept"
    with foreign.open_transaction(broker.connection, topic, [b"open"]):
        with pytest.raises(TransientError, match="open"):
            Cluster(broker.connection).stored([(topic, 0)], lambda record: True, timeout_s=0.5)
        wanted = Cluster(broker.connection).stored([(topic, 0)], lambda record: record.value == b"0", timeout_s=60.0)
        assert [(one.record.value, one.committed) for one in wanted] == [(b"0", True)], "what is open is behind it"


@pytest.mark.real_broker
def test_stored_records_are_read_between_two_times(broker: TestBroker) -> None:
    """In each of several partitions, from the first record that is not older to before the first that is not."""
    topic = broker.topic(partitions=4, config={"retention.ms": "-1"})
    for hour, partition in [(0, 0), (1, 0), (2, 0), (1, 1), (2, 2)]:
        foreign.produce(broker.connection, topic, [b"%d" % hour], EPOCH_MS + hour * HOUR_MS, partition)

    def between(since_ms: int | None, until_ms: int | None) -> list[tuple[int, bytes | None]]:
        found = Cluster(broker.connection).stored(
            [(topic, partition) for partition in range(4)],
            lambda record: True,
            since_ms=since_ms,
            until_ms=until_ms,
            timeout_s=PATIENCE_S,
        )
        assert all(one.committed for one in found)
        return [(one.record.partition, one.record.value) for one in found]

    assert between(EPOCH_MS + 1, EPOCH_MS + 2 * HOUR_MS) == [(0, b"1"), (1, b"1")]
    assert between(EPOCH_MS + 2 * HOUR_MS, None) == [(0, b"2"), (2, b"2")]
    assert between(None, EPOCH_MS + 1) == [(0, b"0")]
    assert between(EPOCH_MS + 3 * HOUR_MS, None) == []


@pytest.mark.real_broker
def test_a_start_in_time_is_the_first_record_not_older(broker: TestBroker) -> None:
    """A time finds the first record that is not older, and the end if all are."""
    topic = broker.topic(partitions=2, config={"retention.ms": "-1"})  # these records are years old
    for hour in range(3):
        foreign.produce(broker.connection, topic, [b"x"], EPOCH_MS + hour * HOUR_MS)
    first = datetime.fromtimestamp(EPOCH_MS / 1000, UTC)

    def found(hours: float) -> dict[int, int]:
        return Cluster(broker.connection).starts(topic, [0, 1], first + timedelta(hours=hours))

    assert [found(hours)[0] for hours in (-1e5, 0, 0.5, 2, 2.5)] == [0, 0, 1, 2, 3]
    assert found(0)[1] == 0


@pytest.mark.embedded_broker
def test_the_embedded_broker_cannot_search_by_time(broker: TestBroker) -> None:
    """Asking the embedded broker for a time says what to do instead."""
    with pytest.raises(ConfigurationError, match="earliest or latest"):
        Cluster(broker.connection).starts(broker.topic(), [0], datetime.now(UTC))


def test_reading_to_the_end_stops_there(broker: TestBroker) -> None:
    """Everything below the end of the moment of the call comes, from the beginning or from an offset in the log."""
    cluster, topic = Cluster(broker.connection), broker.topic()
    assert read(broker, topic) == []
    send_values(broker.connection, topic, numbers(1200))
    assert read(broker, topic) == numbers(1200)
    assert read(broker, topic, start=1190) == numbers(10, 1190)
    assert read(broker, topic, start=1200) == []
    for outside in (-1, 1201):
        with pytest.raises(OffsetOutOfRange, match="starts at 0 and ends at 1200"):
            cluster.read_to_end(topic, 0, start=outside, timeout_s=1.0)
    records = cluster.read_to_end(topic, 0, timeout_s=PATIENCE_S)
    given_up = cluster.read_to_end(topic, 0, timeout_s=PATIENCE_S)
    send_values(broker.connection, topic, [b"later"])
    assert values_of(records) == numbers(1200)
    assert next(given_up).value == b"0"
    given_up.close()  # type: ignore[attr-defined]
    assert list(given_up) == []


def test_an_end_that_is_met_is_not_waited_at(broker: TestBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records to the end, and the absence of one behind it, are known before the wait for more records is over."""
    topic = broker.topic()
    send_values(broker.connection, topic, numbers(3))
    monkeypatch.setattr(reading, "SLICE_S", PATIENCE_S)
    begun = time.monotonic()
    assert read(broker, topic) == numbers(3)
    assert Cluster(broker.connection).record(topic, 3, PATIENCE_S) is None
    assert time.monotonic() - begun < PATIENCE_S


def test_control_records_at_the_tail_do_not_hang_it(broker: TestBroker) -> None:
    """A log that ends with the commit marker of a transaction is read to its end."""
    topic = broker.topic()
    with closing(Publisher(broker.connection, broker.name("id"))) as publisher:
        publisher.start()
        for value in numbers(3):
            publisher.publish([Message(topic, value, partition=0)])
    assert read(broker, topic) == numbers(3)
    _, high = Cluster(broker.connection).log_range(topic, 0)
    assert high == (3 if broker.kind == "embedded" else 6)


@pytest.mark.real_broker
def test_what_was_aborted_or_is_open_is_not_there(broker: TestBroker) -> None:
    """Also where it is all of the log, or its end; by its offset no more than a control record."""
    topic = broker.topic()
    foreign.aborted(broker.connection, topic, [b"never"])
    assert read(broker, topic) == []
    send_values(broker.connection, topic, [b"after"])
    foreign.aborted(broker.connection, topic, [b"never"])
    assert read(broker, topic) == [b"after"]
    assert read(broker, topic, start=4) == []
    with (
        closing(RecordFetcher(broker.connection)) as reader,
        foreign.open_transaction(broker.connection, topic, [b"open"]),
    ):
        records = [reader.fetch_one(topic, 0, offset, PATIENCE_S) for offset in range(6)]
    assert [record and record.value for record in records] == [None, None, b"after", None, None, None]


@pytest.mark.real_broker
def test_an_open_transaction_is_waited_for_and_one_that_stays_open_is_an_error_and_no_end(broker: TestBroker) -> None:
    """What a transaction open at the call commits is read, whenever it does; the reader never ends early."""
    topic = broker.topic()
    send_values(broker.connection, topic, [b"before"])
    with foreign.open_transaction(broker.connection, topic, [b"open"]) as producer:
        hasty = Cluster(broker.connection).read_to_end(topic, 0, timeout_s=0.7)
        records = Cluster(broker.connection).read_to_end(topic, 0, timeout_s=PATIENCE_S)
        assert next(hasty).value == next(records).value == b"before"
        with pytest.raises(TransientError, match="an open transaction holds readers up there"):
            next(hasty)
        producer.commit_transaction(foreign.TIMEOUT_S)
        assert values_of(records) == [b"open"]


def test_a_tail_follows_from_an_offset(broker: TestBroker) -> None:
    """A follower gets what is there from its offset on, then what is added."""
    topic = broker.topic()
    send_values(broker.connection, topic, numbers(3))
    with closing(Tail(broker.connection, topic, 0, 1)) as tail:
        assert values_of(drain(tail, 2)) == numbers(2, 1)
        assert tail.poll(10, 0.0) == []
        send_values(broker.connection, topic, [b"new"])
        assert values_of(drain(tail, 1)) == [b"new"]
        assert tail.position == 4
        assert tail.connected()


def test_a_single_record_by_its_offset(broker: TestBroker) -> None:
    """A record is fetched by coordinates; where there is none the answer is None."""
    topic = broker.topic()
    send_values(broker.connection, topic, numbers(3))
    found = Cluster(broker.connection).record(topic, 1, PATIENCE_S)
    assert found is not None
    assert found.value == b"1"
    with closing(RecordFetcher(broker.connection)) as reader:
        records = [reader.fetch_one(topic, 0, offset, PATIENCE_S) for offset in (2, 0, 3, 99)]
    assert [record and record.value for record in records] == [b"2", b"0", None, None]

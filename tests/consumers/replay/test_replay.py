"""Replay: what is in the source is on the topic, at the rate asked for, and only what is stored is counted."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from consumers.replay.replay import Sent, prepare_topic, replay
from streamsvm.config import PointsConfig
from streamsvm.datasets import dataset_source
from streamsvm.errors import ConfigurationError, TopicMissing, TransientError
from streamsvm.ingest import PointDecoder, PointSource, from_arrays, open_source
from streamsvm.kafka import Cluster, Connection, Message, Outbox, PublishRefused
from tests.brokers.fixtures import TestBroker


class FakeOutbox:
    """Keeps messages; `stored` counts those that a flush has confirmed."""

    def __init__(self, stop_after: int | None = None, stop: threading.Event | None = None) -> None:
        self.messages: list[Message] = []
        self.stored = 0
        self.polls = 0
        self._stop_after, self._stop = stop_after, stop

    def send(self, message: Message) -> None:
        self.messages.append(message)
        if self._stop is not None and len(self.messages) == self._stop_after:
            self._stop.set()

    def poll(self) -> None:
        self.polls += 1

    def flush(self, timeout_s: float) -> None:
        self.stored = len(self.messages)

    @property
    def values(self) -> list[Any]:
        return [json.loads(message.value or b"") for message in self.messages]


class FakeTime:
    """A clock that only sleeping moves, unless a step is given for each reading."""

    def __init__(self, step_s: float = 0.0) -> None:
        self.now, self.slept, self._step_s = 1e9, 0.0, step_s

    def clock(self) -> float:
        self.now += self._step_s
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds
        self.slept += seconds


def points(n: int, d: int = 2, **options: Any) -> PointSource:
    return from_arrays("here", np.arange(float(n * d)).reshape(n, d), [row % 2 for row in range(n)], **options)


def sent(source: PointSource, outbox: FakeOutbox | None = None, **options: Any) -> tuple[Sent, FakeOutbox]:
    """Replay a source to the topic `t`; return the result, and the outbox."""
    outbox = outbox or FakeOutbox()
    return replay(source, outbox, "t", **options), outbox


# What is sent


@given(
    st.lists(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3), min_size=1),
    st.integers(1, 5),
)
def test_values_read_back_as_the_same_numbers(X: list[list[float]], rows_per_record: int) -> None:
    """A float32 is written so that float64, and float32, read it back unchanged, however rows share records."""
    source = from_arrays("here", np.array(X, np.float32), [1] * len(X))
    result, outbox = sent(source, rows_per_record=rows_per_record)
    found = [p["x"] for value in outbox.values for p in (value if isinstance(value, list) else [value])]
    assert np.array(found).tobytes() == np.array(X).tobytes()
    assert result.points == len(X)
    assert result.records == len(outbox.messages) == -(-len(X) // rows_per_record)
    assert result.bytes == sum(len(message.value or b"") for message in outbox.messages)


def test_a_record_is_a_point_with_its_label_weight_and_id() -> None:
    """Fields that the source does not have are left out; text, integers and booleans stay what they are."""
    _, outbox = sent(from_arrays("here", [[1.5]] * 3, ["a", 1, True], weight=[1, 2, 0.5], ids=["i", 7, None]))
    assert [message.value for message in outbox.messages] == [
        b'{"x":[1.5],"y":"a","w":1.0,"id":"i"}',
        b'{"x":[1.5],"y":1,"w":2.0,"id":7}',
        b'{"x":[1.5],"y":true,"w":0.5}',
    ]
    assert {(m.topic, m.key, m.partition) for m in outbox.messages} == {("t", None, None)}


def test_unlabeled_points_have_no_label() -> None:
    """A labeled source can feed the topic of points to score; an unlabeled one can feed nothing else."""
    assert sent(points(1), labeled=False)[1].values == [{"x": [0.0, 1.0]}]
    with pytest.raises(ConfigurationError, match="here has no labels"):
        sent(from_arrays("here", [[1.0]]))


def test_the_id_can_be_the_key_and_the_partition_can_be_fixed() -> None:
    """A key chooses the partition; a fixed partition overrules it."""
    _, outbox = sent(points(2, ids=["a", 7]), key="id", partition=3)
    assert [(message.key, message.partition) for message in outbox.messages] == [(b"a", 3), (b"7", 3)]
    told = r"here: row 2 has no id to use as its key \(1 points were stored before\)"
    with pytest.raises(ConfigurationError, match=told):
        sent(points(2, ids=["a", None]), key="id")
    with pytest.raises(ConfigurationError, match="row 1 has no id"):
        sent(points(2), key="id")


def test_a_limit_ends_early_and_the_last_record_may_be_short() -> None:
    """The limit counts points, not records."""
    result, outbox = sent(points(10), rows_per_record=3, limit=7)
    assert [len(value) for value in outbox.values] == [3, 3, 1]
    assert (result.points, result.records) == (7, 3)


def test_a_shuffle_sends_every_point_once_in_an_order_that_the_seed_decides() -> None:
    """Two replays with one seed are the same, and differ from the source's order."""
    one, again, another, plain = (sent(points(50), shuffle_seed=seed)[1].values for seed in (1, 1, 2, None))
    assert one == again != another
    assert sorted(map(str, one)) == sorted(map(str, plain))
    assert one != plain


# Pace


@pytest.mark.parametrize(("rate_per_s", "rows_per_record"), [(0.5, 1), (7, 1), (1000, 1), (1000, 30), (1e6, 100)])
def test_the_rate_counts_points_whatever_a_record_holds(rate_per_s: float, rows_per_record: int) -> None:
    """The first record goes at once, every later point waits its turn."""
    time = FakeTime()
    pace = {"rate_per_s": rate_per_s, "rows_per_record": rows_per_record}
    result, _ = sent(points(300), **pace, clock=time.clock, sleep=time.sleep)
    assert result.seconds == pytest.approx((300 - rows_per_record) / rate_per_s, rel=1e-3, abs=1e-4)
    assert result.seconds == pytest.approx(time.slept, rel=1e-3, abs=1e-4)


def test_a_stall_is_not_made_up_for_by_a_flood() -> None:
    """After ten seconds in which nothing could be sent, at most a tenth of a second's points go at once."""
    time = FakeTime()

    class Stalling(FakeOutbox):
        def send(self, message: Message) -> None:
            super().send(message)
            if len(self.messages) == 100:
                time.now += 10.0

    result, _ = sent(points(1100), Stalling(), rate_per_s=1000, clock=time.clock, sleep=time.sleep)
    assert result.seconds == pytest.approx(10.0 + 1.1 - 0.1, abs=0.01)


def test_failed_deliveries_are_noticed_during_a_long_wait() -> None:
    """At one point in ten seconds the outbox is still asked every second."""
    time = FakeTime()
    _, outbox = sent(points(2), rate_per_s=0.1, clock=time.clock, sleep=time.sleep)
    assert outbox.polls >= 10


# The end


def test_stopping_waits_for_what_was_sent_and_counts_it() -> None:
    """The event ends a replay between two records; the result is what was stored."""
    stop = threading.Event()
    result, outbox = sent(points(10), FakeOutbox(stop_after=4, stop=stop), stop=stop)
    assert result.points == result.records == outbox.stored == 4


def test_stopping_ends_a_wait_at_once() -> None:
    """A low rate does not hold a stop up: the point that was waiting is not sent."""
    stop = threading.Event()
    result, _ = sent(points(10), FakeOutbox(stop_after=1, stop=stop), rate_per_s=1e-6, stop=stop)
    assert result.points == 1


def test_a_bad_row_is_told_with_the_count_of_what_went_before(tmp_path: Path) -> None:
    """Rows of earlier batches are on the topic by then, and stored."""
    path, outbox = tmp_path / "a.jsonl", FakeOutbox()
    path.write_text('{"x":[1],"y":0}\n' * 300_000 + '{"x":[1]}\n')
    with pytest.raises(ConfigurationError, match=r"row 300001, column y: .* \(262144 points were stored before\)"):
        replay(open_source(path), outbox, "t")
    assert outbox.stored == 262_144


def test_a_record_that_is_too_large_is_told_with_the_count_of_what_went_before() -> None:
    """The outbox refused one message and holds others: they are waited for."""

    class Refusing(FakeOutbox):
        def send(self, message: Message) -> None:
            if len(self.messages) == 2:
                raise PublishRefused("too large", "Send less.")
            super().send(message)

    outbox = Refusing()
    with pytest.raises(PublishRefused, match=r"too large \(20 points were stored before\)\. Send less\."):
        replay(points(100), outbox, "t", rows_per_record=10)
    assert outbox.stored == 2


def test_what_is_not_acknowledged_is_not_reported() -> None:
    """A flush that fails leaves no result."""

    class Deaf(FakeOutbox):
        def flush(self, timeout_s: float) -> None:
            raise TransientError(f"3 messages are not acknowledged within {timeout_s:g} s")

    with pytest.raises(TransientError, match="3 messages are not acknowledged within 5 s"):
        replay(points(3), Deaf(), "t", flush_timeout_s=5)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"rate_per_s": 0}, "rate_per_s is 0"),
        ({"rate_per_s": float("nan")}, "rate_per_s is nan"),
        ({"rows_per_record": 0}, "rows_per_record is 0"),
        ({"limit": 0}, "limit is 0"),
        ({"key": "x"}, "key is 'x'"),
        ({"key": "id", "rows_per_record": 2}, "several points"),
    ],
)
def test_options_are_checked_before_anything_is_sent(options: dict[str, Any], says: str) -> None:
    """One line that names the option."""
    outbox = FakeOutbox()
    with pytest.raises(ConfigurationError, match=says):
        sent(points(2), outbox, **options)
    assert outbox.messages == []


# Progress


def test_progress_is_told_now_and_then_and_at_the_end() -> None:
    """Ten times a second by the clock, however many points there are; the last report is the whole."""
    time, seen = FakeTime(step_s=0.01), list[Sent]()
    result, _ = sent(points(100), progress=seen.append, clock=time.clock)
    assert 5 <= len(seen) <= 15
    assert [one.points for one in seen] == sorted(one.points for one in seen)
    assert seen[-1] == Sent(result.points, result.records, result.bytes)


# With a broker


@pytest.mark.parametrize("rows_per_record", [1, 50])
def test_what_is_replayed_can_be_read_and_decoded(embedded_broker: TestBroker, rows_per_record: int) -> None:
    """Data set, JSON, broker, decoder: the same float32 values and signs come out, in order."""
    topic, source, connection = embedded_broker.name("in"), dataset_source("htru2"), embedded_broker.connection
    with closing(Outbox(connection)) as outbox:
        result = replay(source, outbox, topic, partition=0, rows_per_record=rows_per_record, limit=5_000)
    records = list(Cluster(connection).read_to_end(topic, 0, timeout_s=30))
    decoded = PointDecoder(PointsConfig(dimension=8)).decode(records)
    given = next(iter(source.batches()))
    assert (result.points, result.records) == (5_000, len(records))
    assert result.bytes == sum(len(record.value or b"") for record in records)
    assert decoded.rejected == []
    assert np.array_equal(decoded.rows[0].points.X, given.X[:5_000].astype(np.float32))
    assert decoded.rows[0].points.y.tolist() == (given.y or [])[:5_000]


@pytest.mark.parametrize("rows_per_record", [1, 7])
def test_records_without_a_key_go_to_the_partitions_in_turn(embedded_broker: TestBroker, rows_per_record: int) -> None:
    """So the file says where each row lies, and in which order."""
    name, connection = embedded_broker.name("in-turn"), embedded_broker.connection
    with closing(Outbox(connection)) as outbox:
        replay(points(500, ids=list(range(500))), outbox, name, partitions=4, rows_per_record=rows_per_record)
    for partition in range(4):
        records = Cluster(connection).read_to_end(name, partition, timeout_s=30)
        held = [json.loads(record.value or b"") for record in records]
        rows = [row["id"] for one in held for row in (one if isinstance(one, list) else [one])]
        assert rows == [row for row in range(500) if row // rows_per_record % 4 == partition]


def test_a_partition_that_does_not_exist_is_refused(embedded_broker: TestBroker) -> None:
    """Before anything is sent."""
    cluster = Cluster(embedded_broker.connection)
    assert prepare_topic(cluster, "here", create_partitions=4, partition=3) == (0, 1, 2, 3)
    with pytest.raises(ConfigurationError, match="topic here has no partition 4"):
        prepare_topic(cluster, "here", partition=4)
    with pytest.raises(ConfigurationError, match="create_partitions is 0"):
        prepare_topic(cluster, "here", create_partitions=0)


def test_a_missing_topic_is_told_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The embedded broker makes every topic that is asked for, so the answer of a real one is played."""

    def missing(_: Cluster, topic: str) -> None:
        raise TopicMissing(f"topic {topic} does not exist")

    monkeypatch.setattr(Cluster, "describe", missing)
    with pytest.raises(
        TopicMissing, match=r"topic none does not exist at somewhere:9092\. Create the topic, give create_partitions"
    ):
        prepare_topic(Cluster(Connection(options={"bootstrap.servers": "somewhere:9092"})), "none")

"""The scorer as a daemon: no point is lost or answered twice, whatever happens around it."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from typing import Any

import pytest

import consumers.scorer.scorer as scorer_module
from consumers import constants
from consumers.scorer.scorer import portions
from consumers.settings import Settings
from consumers.streams import input_watch
from streamsvm.errors import FatalError
from streamsvm.ingest import avro, encode
from streamsvm.kafka import Cluster, Connection, Message, Outbox, Record, Slot, Subscription, Tail, TopicSpec
from tests.brokers.fixtures import TestBroker
from tests.consumers import leaderless
from tests.consumers.scorer.running import Running, points, produce, scores, stored
from tests.consumers.trainers import changed
from tests.ingest.rows import SHELF, Shelf
from tests.ingest.test_scored import in_avro, record_of
from tests.kafka.foreign import members
from tests.kafka.steps import as_the_group_says, clients_made
from tests.registry.test_subscriber import DEADLINE_S, Trainer, eventually, version_of

pytestmark = pytest.mark.enough("real")


def test_points_in_scores_out(connection: Connection, settings: Settings, trainer: Trainer) -> None:
    """Good, bad and array records: every good row has its score, every bad record its dead letter."""
    topic = settings.scoring.topic
    trainer.publish(version_of(2, labels=("noise", "pulsar")))
    array = b"[" + b",".join([encode([-1, -2], id="x"), encode([1, 2, 3]), encode([5, 5], id="y")]) + b"]"
    half = b'{"x": [1, 2], "\\ud800": 1}'
    bad: list[bytes | None] = [b"not json", None, encode([1.0], id="short"), half]
    produce(connection, topic, [*points(range(20)), array, *bad], key=b"star")
    with Running(settings, connection) as running:
        eventually(lambda: running.value("streamsvm_scored_points_total") == 22, "22 points are scored")
        eventually(lambda: len(stored(connection, settings.scoring.dead_letters)) == 5, "five dead letters")
        assert running.health.ready()[0], running.health.ready()
    by_id = {score["id"]: score for score in scores(connection, settings)}
    assert by_id.keys() == {*range(20), "x", "y"}
    for number in range(20):
        assert (by_id[number]["score"], by_id[number]["version"]) == (4.0 * number + 2.0, 2)
        assert (by_id[number]["label"], by_id[number]["points"]) == ("pulsar", 180)
    assert (by_id["x"]["score"], by_id["x"]["label"], by_id["x"]["row"]) == (-4.0, "noise", 0)
    assert by_id["y"]["row"] == 2
    assert {record.key for record in stored(connection, settings.scoring.output_topic)} == {b"star"}
    letters = stored(connection, settings.scoring.dead_letters)
    assert {dict(letter.headers)["__streams.errors.exception"] for letter in letters} == {
        b"wrong_dimension",
        b"malformed_json",
        b"empty_record",
    }
    assert {letter.value for letter in letters} == {array, *bad}
    assert all(dict(letter.headers)["trace"] == b"t" and letter.key == b"star" for letter in letters)
    assert running.value("streamsvm_dead_letters_total", reason="wrong_dimension") == 2
    assert running.value("streamsvm_serving_version") == 2
    assert running.value("streamsvm_serving_loaded_timestamp_seconds") > 1.7e9
    assert len(Cluster(connection).describe(settings.scoring.output_topic).partitions) == 4


def test_points_wait_while_the_schema_registry_is_away(
    connection: Connection, settings: Settings, trainer: Trainer
) -> None:
    """Nothing is scored or rejected meanwhile, everyone can see why, and each point is scored once afterwards."""
    trainer.publish(version_of(2))
    shelf = Shelf(SHELF.schemas, away=True)
    kind = (("content-type", avro.CONTENT_TYPE.encode()),)
    with closing(Outbox(connection)) as outbox:
        for number in range(10):
            outbox.send(Message(settings.scoring.topic, in_avro([number, 0.0], 1), None, kind, partition=number % 4))
        outbox.flush(DEADLINE_S)
    with Running(settings, connection, shelf) as running:
        eventually(lambda: running.value("streamsvm_registry_waiting_seconds") > 0.6, "it says how long it waits")
        eventually(lambda: len(shelf.asked) > 1, "it asks again")
        assert running.waiting_for() == {"registry": "the registry is away"}
        assert running.value("streamsvm_scored_points_total") == 0
        shelf.away = False
        eventually(lambda: running.value("streamsvm_scored_points_total") == 10, "all points are scored")
        assert running.value("streamsvm_registry_waiting_seconds") == 0
        assert running.health.ready()[0], running.health.ready()
    assert stored(connection, settings.scoring.dead_letters) == []
    assert len(scores(connection, settings)) == 10


def test_nothing_is_consumed_before_there_is_a_model(
    connection: Connection, settings: Settings, trainer: Trainer
) -> None:
    """Without a model the scorer is not ready, says why, and scores every point once a model comes."""
    produce(connection, settings.scoring.topic, points(range(5)))
    with Running(settings, connection) as running:
        eventually(lambda: "has no alias" in running.waiting_for().get("model", ""), "it says what it waits for")
        assert running.value("streamsvm_serving_version") == 0
        trainer.publish_hashed(b"{", 1)
        eventually(lambda: running.value("streamsvm_model_messages_refused_total") == 1, "the refusal is counted")
        assert running.value("streamsvm_scored_points_total") == 0
        trainer.publish(version_of(2))
        eventually(lambda: running.value("streamsvm_scored_points_total") == 5, "all are scored")
    assert {score["id"] for score in scores(connection, settings)} == set(range(5))


@pytest.mark.embedded_broker
def test_a_version_of_another_dimension_decides_what_a_point_is(
    connection: Connection, settings: Settings, trainer: Trainer
) -> None:
    """Points are decoded by the dimension of the version that serves."""
    trainer.publish(version_of(1))
    with Running(settings, connection) as running:
        produce(connection, settings.scoring.topic, points([1, 2]))
        eventually(lambda: running.value("streamsvm_scored_points_total") == 2, "two are scored")
        trainer.publish(version_of(2, dimension=3))
        eventually(lambda: running.value("streamsvm_serving_version") == 2, "the new version serves")
        produce(connection, settings.scoring.topic, [*points([3]), *points([4, 5], dimension=3)])
        eventually(lambda: running.value("streamsvm_scored_points_total") == 4, "two more are scored")
        eventually(
            lambda: running.value("streamsvm_dead_letters_total", reason="wrong_dimension") == 1, "one is rejected"
        )
    assert {score["id"] for score in scores(connection, settings)} == {1, 2, 4, 5}


@pytest.mark.embedded_broker
def test_a_crash_before_the_commit_of_positions_changes_nothing(
    connection: Connection, served: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group's position is a hint: how far the input was scored stands beside the scores."""
    produce(connection, served.scoring.topic, points(range(30)))

    def die(self: Subscription, positions: dict[int, int]) -> None:
        raise FatalError(f"killed before committing {positions}")

    with monkeypatch.context() as patched:
        patched.setattr(Subscription, "commit", die)
        with pytest.raises(FatalError, match="killed before committing"), Running(served, connection) as running:
            eventually(running.ended, "it dies")
    copies = len(scores(connection, served))
    assert copies > 0
    with Running(served, connection) as running:
        eventually(lambda: running.value("streamsvm_scored_points_total") == 30 - copies, "the rest is scored")
    sources = [dict(record.headers)["streamsvm.source"] for record in stored(connection, served.scoring.output_topic)]
    assert (len(sources), len(set(sources))) == (30, 30)
    assert {score["id"] for score in scores(connection, served)} == set(range(30))


def joins(connection: Connection, settings: Settings) -> Subscription:
    """Return a member that takes slot 0 of the scorers' group, as somebody does who does not ask."""
    scoring = settings.scoring
    return Subscription(
        connection, scoring.topic, group=scoring.group, slot=Slot(scoring.group, 0), place=as_the_group_says
    )


@pytest.mark.real_broker
def test_a_scorer_whose_slot_is_taken_goes_on_in_another(broker: TestBroker, served: Settings) -> None:
    """It claims the next slot, with its transactional id, and what it had polled is scored once, by whomever."""
    connection = broker.connect(fetch_wait_max_ms=10, heartbeat_interval_ms=100)
    with Running(served, connection) as running:
        produce(connection, served.scoring.topic, points(range(10)))
        eventually(lambda: running.value("streamsvm_scored_points_total") == 10, "the first are scored")
        assert running.transactional_id == f"{served.scoring.group}-0"
        with closing(joins(connection, served)) as thief:
            eventually(lambda: not thief.poll(1, 0.1) and running.transactional_id.endswith("-1"), "it claims slot 1")
            eventually(lambda: not thief.poll(1, 0.1) and members(connection, served.scoring.group) == 2, "both are in")
        produce(connection, served.scoring.topic, points(range(10, 30)))
        eventually(lambda: running.value("streamsvm_scored_points_total") == 30, "all are scored")
        eventually(lambda: running.health.ready()[0], "it is ready")
    assert sorted(score["id"] for score in scores(connection, served)) == list(range(30))


@pytest.mark.embedded_broker
@pytest.mark.parametrize("verb", ["commit", "close"])
def test_a_call_that_never_returns_does_not_hold_up_the_stop(
    connection: Connection, served: Settings, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """What the client blocks on for want of a broker is left behind at a stop."""
    for_ever, called = threading.Event(), threading.Event()

    class Stuck(Subscription):
        def _stick(self, *_: object) -> None:
            called.set()
            for_ever.wait()

    setattr(Stuck, verb, Stuck._stick)

    def subscription(cluster: Cluster, topic: str, **more: Any) -> Stuck:
        return Stuck(cluster.connection, topic, **more)

    monkeypatch.setattr(Cluster, "subscription", subscription)
    monkeypatch.setattr(scorer_module, "GRACE_S", 0.1)
    produce(connection, served.scoring.topic, points([1]))
    with Running(served, connection) as running:
        scored = verb == "close"
        eventually(
            lambda: running.value("streamsvm_scored_points_total") == 1 if scored else called.is_set(),
            "it is scored, or its commit hangs",
        )
    assert called.is_set()
    for_ever.set()


@pytest.mark.embedded_broker
def test_a_subscriber_that_ended_stops_the_scorer(
    connection: Connection, served: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scorer never goes on with a model that nobody follows any more."""

    def broken(*_: object) -> list[Record]:
        raise FatalError("the client cannot go on")

    with Running(served, connection) as running:
        eventually(lambda: running.value("streamsvm_serving_version") == 1, "it serves")
        monkeypatch.setattr(Tail, "poll", broken)
        eventually(running.ended, "it stops")
        failure, running.failure = running.failure, None
    assert str(failure) == "the client cannot go on"


@pytest.mark.real_broker
@pytest.mark.parametrize("missing", ["input", "models"])
def test_a_scorer_may_come_before_its_topics(broker: TestBroker, settings: Settings, missing: str) -> None:
    """It is not ready, names the topic that is not there, and goes on when it is."""
    absent = broker.name("absent")
    section, option = {"input": ("scoring", "topic"), "models": ("output", "models_topic")}[missing]
    without = changed(settings, section, **{option: absent})
    said = f"topic {absent} does not exist at {broker.connection.servers}"
    with Running(without, broker.connection) as running:
        eventually(lambda: said in str(running.health.ready()), said)
        assert not running.health.ready()[0]
        Cluster(broker.connection).create([TopicSpec(absent), TopicSpec(f"{absent}.aliases")])
        eventually(lambda: f"has no alias {settings.name}@current" in str(running.health.ready()), "it goes on")


@pytest.mark.real_broker
def test_a_scorer_may_go_over_to_another_topic(connection: Connection, served: Settings) -> None:
    """Under the same group, and at once: the group has not forgotten what the slot read before."""
    produce(connection, served.scoring.topic, points(range(20)))
    with Running(served, connection) as running:
        eventually(lambda: running.value("streamsvm_scored_points_total") == 20, "all are scored")
    other = f"{served.scoring.topic}-other"
    Cluster(connection).create([TopicSpec(other, 4)])
    produce(connection, other, points(range(30)))
    moved = changed(served, "scoring", topic=other, output_topic=f"{other}-scores", progress_topic="")
    with Running(moved, connection) as running:
        eventually(lambda: running.value("streamsvm_scored_points_total") == 30, "all of the other topic are scored")
    assert sorted(score["id"] for score in scores(connection, moved)) == list(range(30))


def test_a_batch_is_taken_in_portions_of_so_many_bytes() -> None:
    """Every record once, in order; one that is larger than a portion alone; a small batch as it is."""
    records = [record_of(b"x" * size, offset=at) for at, size in enumerate([3, 4, 30, 1, 0, 9, 1])]
    parts = [[len(record.value or b"") for record in part] for part in portions(records, 10)]
    assert parts == [[3, 4], [30], [1, 0, 9], [1]]
    assert next(portions(records, 48)) is records
    assert list(portions([], 10)) == [[]]


@pytest.mark.real_broker
def test_portions_are_scored_once_each(
    connection: Connection, served: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each in a transaction of its own, through a stop in their midst, too."""
    monkeypatch.setattr(scorer_module, "PORTION_BYTES", 200)
    produce(connection, served.scoring.topic, points(range(300)))
    with Running(served, connection) as running:
        eventually(lambda: running.value("streamsvm_scored_points_total") >= 20, "some are scored")
    with Running(served, connection) as running:
        eventually(lambda: len(scores(connection, served)) >= 300, "all are scored")
    ids = [score["id"] for score in scores(connection, served)]
    assert sorted(ids) == sorted(set(ids))
    assert len(ids) == 300


@pytest.mark.real_broker
def test_an_input_without_a_leader_is_shown(
    broker: TestBroker, served: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scorer is not ready while nobody answers for its partitions, and is ready again by itself."""
    leaderless.without_patience(monkeypatch)
    with Running(served, broker.connection) as scorer:
        leaderless.shows(scorer, served.scoring.topic, monkeypatch)


def test_connections_last_and_small_batches_wait_for_each_other(
    broker: TestBroker, settings: Settings, trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a low rate a scorer makes no client after its start, which would have to log in, and gathers what comes."""
    monkeypatch.setattr(constants, "WATCH_INTERVAL_S", 0.2)
    monkeypatch.setattr(input_watch, "INTERVAL_S", 0.2)
    made = clients_made(monkeypatch)
    trainer.publish(version_of(2))
    with Running(settings, broker.connection) as running, closing(Outbox(broker.connection)) as outbox:

        def answered(until: int) -> None:
            while running.value("streamsvm_scored_points_total") < until:
                outbox.send(Message(settings.scoring.topic, encode([1.0, 2.0])))
                outbox.flush(DEADLINE_S)

        answered(100)
        before, batches = len(made), running.value("streamsvm_scored_batches_total", outcome="committed")
        begun = time.monotonic()
        answered(300)
        lasted = time.monotonic() - begun
        assert made[before:] == []
        batches = running.value("streamsvm_scored_batches_total", outcome="committed") - batches
        assert batches <= lasted / scorer_module.APART_S + 3  # a commit of before may be counted late

"""A topic that is deleted and made again under its name, between a fetch and what is made of it: nothing of it counts.

The very question whether the topic is the same makes it again, so that each test meets the moment that it is about.
Without the question in that place no test here would end.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import consumers.scorer.scorer as scorer_module
from consumers import constants
from consumers.settings import Settings
from consumers.streams import identity as identity_module
from consumers.streams.identity import TopicIdentity, identity_of
from consumers.verify.verify import verify
from streamsvm.errors import LogGap, TransientError
from streamsvm.ingest import encode
from streamsvm.kafka import Cluster, Connection, Recreated, TopicSpec
from streamsvm.verification import Outcome
from tests.brokers.fixtures import TestBroker
from tests.consumers.scorers import Running as Scoring, scores, settings_for as scoring_settings
from tests.consumers.trainers import Running, produce, records, run_until, settings_for, versions
from tests.kafka import foreign
from tests.registry.test_subscriber import Trainer, eventually, version_of

pytestmark = pytest.mark.real_broker

WAY_OUT = r"was recreated: its id was \S{22} and is now \S{22}"


@pytest.fixture(autouse=True)
def never_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look by the clock never helps here."""
    monkeypatch.setattr(constants, "WATCH_INTERVAL_S", 3_600.0)


def recreate(connection: Connection, topic: str, values: list[bytes] | None = None, partitions: int = 1) -> None:
    """Put another topic in the place of one, longer than the old one if values are given."""
    foreign.delete_topic(connection, topic)
    Cluster(connection).create([TopicSpec(topic, partitions)])
    if values:
        produce(connection, topic, values)


class AtTheQuestion:
    """Does something the moment that it is asked, once armed, whether a topic is still the same."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, topic: str, happens: Callable[[], None]) -> None:
        self.armed = False
        confirm = TopicIdentity.confirm

        def asked(identity: TopicIdentity, reached: dict[int, int]) -> None:
            if self.armed and identity._topic == topic:
                self.armed = False
                happens()
            confirm(identity, reached)

        monkeypatch.setattr(TopicIdentity, "confirm", asked)


@pytest.fixture
def connection(real_broker: TestBroker) -> Connection:
    return real_broker.connection


@pytest.fixture
def settings(real_broker: TestBroker, tmp_path: Path) -> Settings:
    return never_looking(real_broker, tmp_path / "checkpoint")


def never_looking(broker: TestBroker, directory: Path) -> Settings:
    """Return a trainer's settings, with its input topic made, that ask the question only where they must."""
    made = settings_for(broker.name("again"), directory)
    Cluster(broker.connection).create([TopicSpec(made.input.topic)])
    return made


# ---------------------------------------------------------------- the question


def test_a_topic_that_grows_is_the_same(real_broker: TestBroker) -> None:
    """Records and partitions that are added are no reason to stop."""
    topic = real_broker.topic()
    identity = identity_of(Cluster(real_broker.connection), topic)
    produce(real_broker.connection, topic, records(3))
    foreign.add_partitions(real_broker.connection, topic, 3)
    identity.confirm({0: 3})


def test_another_topic_of_the_name_is_refused_with_both_ids(real_broker: TestBroker) -> None:
    """And with the way out that its owner gave; the id of the new one is at hand."""
    topic, cluster = real_broker.topic(), Cluster(real_broker.connection)
    identity = identity_of(cluster, topic, remedy="Begin anew.")
    before = cluster.topic_id(topic)
    recreate(real_broker.connection, topic)
    with pytest.raises(Recreated, match=f"{topic} {WAY_OUT}. Begin anew.") as refused:
        identity.confirm({0: 3})
    assert str(before) in refused.value.what
    assert refused.value.topic_id == cluster.topic_id(topic)


def test_a_missing_topic_is_asked_for_twice(real_broker: TestBroker) -> None:
    """A broker that has just started may not know its topics yet."""
    topic = real_broker.topic()
    identity = identity_of(Cluster(real_broker.connection), topic)
    foreign.delete_topic(real_broker.connection, topic)
    with pytest.raises(TransientError):
        identity.confirm({})
    with pytest.raises(LogGap, match=f"{topic} no longer exists"):
        identity.confirm({})


def test_without_ids_records_are_compared(real_broker: TestBroker) -> None:
    """A topic of the same values, and as long, is another one; one that grew or lost its beginning is not."""
    connection, topic, values = real_broker.connection, real_broker.topic(), records(6)
    produce(connection, topic, values[:3])
    identity = TopicIdentity(Cluster(connection), topic, "", {0: 3})
    produce(connection, topic, values[3:])
    identity.confirm({0: 6})
    foreign.delete_records(connection, topic, 0, 6)
    identity.confirm({0: 6})
    produce(connection, topic, values)
    identity.confirm({0: 12})
    recreate(connection, topic, [*values, *values])
    with pytest.raises(Recreated, match=rf"offset 11 of {topic}\[0\] is not the one that was read"):
        identity.confirm({0: 12})


def test_without_ids_a_shorter_topic_is_another_one(real_broker: TestBroker) -> None:
    """Where there is no record any more, and retention did not take it."""
    connection, topic = real_broker.connection, real_broker.topic()
    produce(connection, topic, records(3))
    identity = TopicIdentity(Cluster(connection), topic, "", {0: 3})
    recreate(connection, topic, records(1))
    with pytest.raises(Recreated):
        identity.confirm({0: 3})


def test_without_ids_that_is_said_once(real_broker: TestBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warning at the start; none on the embedded broker, whose topics cannot be deleted, and which is not asked."""
    said: list[str] = []
    monkeypatch.setattr(identity_module.log, "warning", lambda event, **_: said.append(event))
    TopicIdentity(Cluster(real_broker.connection), real_broker.topic(), "", {})
    assert said == ["topic_without_id"]


# ---------------------------------------------------------------- learning


def test_no_version_of_a_recreated_input_is_published(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second version is trained when its topic goes: the trainer ends with both ids and the way out."""
    question = AtTheQuestion(
        monkeypatch, settings.input.topic, lambda: recreate(connection, settings.input.topic, records(120, seed=9))
    )
    produce(connection, settings.input.topic, records(50))
    with Running(settings, connection) as running:
        running.wait_until(lambda: running.value("streamsvm_model_version") == 1)
        question.armed = True
        produce(connection, settings.input.topic, records(50, seed=1))
        with pytest.raises(Recreated, match=rf"{WAY_OUT}.*--reset m/1"):
            running.wait_until(lambda: False)
        running.failure = None
    assert [version.stream.points for version in versions(connection, settings)] == [40]


def refuse_to_say() -> None:
    raise TransientError("the broker does not say")


def test_a_version_waits_for_a_broker_that_does_not_say(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is published once the broker does, and once only."""
    question = AtTheQuestion(monkeypatch, settings.input.topic, refuse_to_say)
    question.armed = True
    produce(connection, settings.input.topic, records(50))
    with Running(settings, connection) as running:
        running.wait_until(lambda: running.value("streamsvm_model_version") == 1)
        assert running.value("streamsvm_producer_renewals_total") == 1
    assert [version.stream.points for version in versions(connection, settings)] == [40]


# ---------------------------------------------------------------- scoring


def points(numbers: range) -> list[bytes]:
    return [encode([float(number), 0.0], id=number) for number in numbers]


@pytest.fixture
def scored(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> Settings:
    return asking_always(connection, monkeypatch)


def asking_always(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return a scorer's settings, with a version to score by; the question is asked for every batch."""
    monkeypatch.setattr(scorer_module, "CONFIRM_EVERY_S", 0.0)
    settings = scoring_settings(connection)
    with closing(Trainer(connection, settings.output.models_topic)) as trainer:
        trainer.publish(version_of(1))
    return settings


def beginning(settings: Settings) -> Settings:
    return settings.model_copy(update={"scoring": settings.scoring.model_copy(update={"on_gap": "beginning"})})


def ids_of(connection: Connection, settings: Settings) -> list[int]:
    return sorted(score["id"] for score in scores(connection, settings))


def ends_in(running: Scoring, settings: Settings, words: str) -> None:
    """Wait until a scorer ends, which must name the way out."""
    eventually(running.ended, "it ends")
    failure, running.failure = running.failure, None
    assert isinstance(failure, LogGap)
    for word in (words, "streamsvm score --scoring-on-gap beginning", f"--group {settings.scoring.group} "):
        assert word in str(failure), failure


def test_no_score_of_a_recreated_input_is_committed(
    connection: Connection, scored: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scorer ends with the way out; taken, it scores each record of the new topic once."""
    topic = scored.scoring.topic
    question = AtTheQuestion(monkeypatch, topic, lambda: recreate(connection, topic, points(range(100, 140)), 4))
    with Scoring(scored, connection) as running:
        produce(connection, topic, points(range(10)))
        eventually(lambda: running.value("streamsvm_scored_points_total") == 10, "the first are scored")
        question.armed = True
        produce(connection, topic, points(range(10, 12)))
        ends_in(running, scored, "was recreated")
    assert ids_of(connection, scored) == list(range(10))
    with Scoring(beginning(scored), connection) as running:
        eventually(lambda: running.value("streamsvm_scored_points_total") == 40, "the new topic is scored")
    assert ids_of(connection, scored) == [*range(10), *range(100, 140)]


def test_a_batch_waits_for_a_broker_that_does_not_say(
    connection: Connection, scored: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is put back, and scored once the broker does."""
    monkeypatch.setattr(scorer_module, "RETRY_S", 0.0)
    question = AtTheQuestion(monkeypatch, scored.scoring.topic, refuse_to_say)
    question.armed = True
    produce(connection, scored.scoring.topic, points(range(10)))
    with Scoring(scored, connection) as running:
        eventually(lambda: running.value("streamsvm_scored_points_total") == 10, "they are scored")
        assert running.value("streamsvm_scored_batches_total", outcome="put_back") == 1
    assert ids_of(connection, scored) == list(range(10))


def test_a_scorer_goes_over_to_a_recreated_input(
    connection: Connection, scored: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With scoring.on_gap = beginning it does so by itself, and skips no record of the new topic."""
    topic, told = scored.scoring.topic, beginning(scored)
    question = AtTheQuestion(monkeypatch, topic, lambda: recreate(connection, topic, points(range(100, 140)), 4))
    with Scoring(told, connection) as running:
        produce(connection, topic, points(range(10)))
        eventually(lambda: running.value("streamsvm_scored_points_total") == 10, "the first are scored")
        question.armed = True
        produce(connection, topic, points(range(10, 12)))
        eventually(lambda: len(scores(connection, told)) >= 50, "the new topic is scored")
    assert ids_of(connection, told) == [*range(10), *range(100, 140)]


@pytest.mark.parametrize("on_gap", ["fail", "beginning"])
def test_a_position_of_a_deleted_topic_is_not_believed(connection: Connection, scored: Settings, on_gap: str) -> None:
    """A commit that met the deletion leaves it in the group of the new topic: its metadata name the old one."""
    scoring = scored.scoring
    produce(connection, scoring.topic, points(range(20)))
    foreign.commit(connection, scoring.group, scoring.topic, 0, 12, f"a/1 1700000000000 {'A' * 22} {scoring.group}-0")
    if on_gap == "fail":
        with Scoring(scored, connection) as running:
            ends_in(running, scored, f"the position 12 of group {scoring.group} in {scoring.topic}[0]")
        assert scores(connection, scored) == []
        return
    with Scoring(beginning(scored), connection) as running:
        eventually(lambda: running.value("streamsvm_scored_points_total") == 20, "all are scored")
    with Scoring(scored, connection) as running:  # and what was committed since is believed
        produce(connection, scoring.topic, points(range(20, 30)))
        eventually(lambda: running.value("streamsvm_scored_points_total") == 10, "it goes on")
    assert ids_of(connection, scored) == list(range(30))


def test_a_position_that_a_person_has_set_is_believed(connection: Connection, scored: Settings) -> None:
    """Kafka's own tools write no id."""
    scoring = scored.scoring
    produce(connection, scoring.topic, points(range(20)))
    foreign.commit(connection, scoring.group, scoring.topic, 0, 12, "")
    with Scoring(scored, connection) as running:
        eventually(lambda: running.value("streamsvm_scored_points_total") == 8, "the others are scored")
    assert ids_of(connection, scored) == list(range(12, 20))


def test_a_scorer_gets_past_records_that_retention_took(connection: Connection, scored: Settings) -> None:
    """Refused with the command; given, it goes on at the first record that is left."""
    topic = scored.scoring.topic
    produce(connection, topic, points(range(10)))
    with Scoring(scored, connection) as running:
        eventually(lambda: running.value("streamsvm_scored_points_total") == 10, "the first are scored")
    produce(connection, topic, points(range(10, 30)))
    foreign.delete_records(connection, topic, 0, 15)
    with Scoring(scored, connection) as running:
        ends_in(running, scored, f"offset 10 of {topic}[0] is out of range: the log starts at 15 and ends at 30")
    with Scoring(beginning(scored), connection) as running:
        eventually(lambda: running.value("streamsvm_scored_points_total") == 15, "what is left is scored")
    assert ids_of(connection, scored) == [*range(10), *range(15, 30)]


# ---------------------------------------------------------------- reading back


def test_a_version_is_not_compared_with_two_logs(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Verify says that the input is another one by now, not that the version is wrong."""
    topic = settings.input.topic
    produce(connection, topic, records(50))
    run_until(settings, connection, 50)
    question = AtTheQuestion(monkeypatch, topic, lambda: recreate(connection, topic, records(60, seed=9)))
    question.armed = True
    report = verify(Cluster(connection), settings)
    assert [row.outcome for row in report.rows] == [Outcome.UNAVAILABLE]
    assert "was recreated" in report.rows[0].note

"""A scorer whose input is deleted and made again under its name, or cut, or whose position is of another log."""

from __future__ import annotations

from contextlib import closing

import pytest

import consumers.scorer.scorer as scorer_module
from consumers.settings import Settings
from streamsvm.errors import LogGap
from streamsvm.kafka import Connection
from tests.consumers.recreated import AtTheQuestion, recreate, refuse_to_say
from tests.consumers.scorer.running import Running as Scoring, points, scores, settings_for
from tests.consumers.trainers import changed, produce
from tests.kafka import foreign
from tests.registry.test_subscriber import Trainer, eventually, version_of

pytestmark = pytest.mark.real_broker


@pytest.fixture
def scored(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> Settings:
    return asking_always(connection, monkeypatch)


def asking_always(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return a scorer's settings, with a version to score by; the question is asked for every batch."""
    monkeypatch.setattr(scorer_module, "CONFIRM_EVERY_S", 0.0)
    settings = settings_for(connection)
    with closing(Trainer(connection, settings.output.models_topic)) as trainer:
        trainer.publish(version_of(1))
    return settings


def beginning(settings: Settings) -> Settings:
    return changed(settings, "scoring", on_gap="beginning")


def ids_of(connection: Connection, settings: Settings) -> list[int]:
    return sorted(score["id"] for score in scores(connection, settings))


def ends_in(running: Scoring, words: str) -> None:
    """Wait until a scorer ends, which must name the way out."""
    eventually(running.ended, "it ends")
    failure, running.failure = running.failure, None
    assert isinstance(failure, LogGap)
    for word in (words, "streamsvm score --scoring-on-gap beginning"):
        assert word in str(failure), failure


@pytest.mark.parametrize("goes_over", [False, True])
def test_no_score_of_a_recreated_input_is_committed(
    connection: Connection, scored: Settings, monkeypatch: pytest.MonkeyPatch, goes_over: bool
) -> None:
    """The scorer ends with the way out; taken, or given before, it scores each record of the new topic once."""
    topic, settings = scored.scoring.topic, beginning(scored) if goes_over else scored
    question = AtTheQuestion(monkeypatch, topic, lambda: recreate(connection, topic, points(range(100, 140)), 4))
    with Scoring(settings, connection) as running:
        produce(connection, topic, points(range(10)))
        eventually(lambda: running.value("streamsvm_scored_points_total") == 10, "the first are scored")
        question.armed = True
        produce(connection, topic, points(range(10, 12)))
        if goes_over:
            eventually(lambda: len(scores(connection, scored)) >= 50, "the new topic is scored")
        else:
            ends_in(running, "was recreated")
    if not goes_over:
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


@pytest.mark.parametrize("told", [f"a/1 1700000000000 {'A' * 22} GROUP-0", ""])
def test_a_position_of_a_deleted_topic_is_not_believed(connection: Connection, scored: Settings, told: str) -> None:
    """A commit that met the deletion leaves it in the new topic's group, and names the old one; people's tools do not.

    The scorer ends with the way out; taken, it scores all, and what it commits is believed at the next start.
    """
    scoring = scored.scoring
    produce(connection, scoring.topic, points(range(20)))
    foreign.commit(connection, scoring.group, scoring.topic, 0, 12, told.replace("GROUP", scoring.group))
    if told:
        with Scoring(scored, connection) as running:
            ends_in(running, f"offset 12 of {scoring.topic}[0], to which it was scored")
        assert scores(connection, scored) == []
        with Scoring(beginning(scored), connection) as running:
            eventually(lambda: running.value("streamsvm_scored_points_total") == 20, "all are scored")
    produce(connection, scoring.topic, points(range(20, 30)))
    left = range(20 if told else 12, 30)
    with Scoring(scored, connection) as running:
        eventually(lambda: running.value("streamsvm_scored_points_total") == len(left), "it goes on")
    assert ids_of(connection, scored) == list(range(0 if told else 12, 30))


def test_a_scorer_gets_past_records_that_retention_took(connection: Connection, scored: Settings) -> None:
    """Refused with the command; given, it goes on at the first record that is left."""
    topic = scored.scoring.topic
    produce(connection, topic, points(range(10)))
    with Scoring(scored, connection) as running:
        eventually(lambda: running.value("streamsvm_scored_points_total") == 10, "the first are scored")
    produce(connection, topic, points(range(10, 30)))
    foreign.delete_records(connection, topic, 0, 15)
    with Scoring(scored, connection) as running:
        ends_in(running, f"offset 10 of {topic}[0] is out of range: the log starts at 15 and ends at 30")
    with Scoring(beginning(scored), connection) as running:
        eventually(lambda: running.value("streamsvm_scored_points_total") == 15, "what is left is scored")
    assert ids_of(connection, scored) == [*range(10), *range(15, 30)]

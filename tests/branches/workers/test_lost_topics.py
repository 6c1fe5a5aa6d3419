"""Topics of the daemons' own that are deleted: each daemon says so, running or at its next start, and goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from consumers import constants
from consumers.branches.workers.coresets_topic import topic_spec
from consumers.branches.workers.settings import coresets_topic
from consumers.settings import Settings
from consumers.streams import output_topics
from streamsvm.errors import StateError, TopicMissing, TransientError
from streamsvm.kafka import Cluster, Connection, TopicSpec
from streamsvm.model import current_key
from tests.branches.workers.group_workers import WorkerRunning
from tests.branches.workers.test_group_workers import adopting_settings
from tests.brokers.fixtures import TestBroker
from tests.consumers import trainers
from tests.consumers.scorer.running import Running as Scoring, points, settings_for as scoring_settings
from tests.consumers.trainers import START_S, Running, aliases, changed, ends_by, produce, records, run_until, versions
from tests.deadline import eventually
from tests.kafka import foreign
from tests.registry.test_subscriber import Trainer, version_of

pytestmark = pytest.mark.real_broker

TRAINERS: dict[str, Callable[[Settings], str]] = {
    "aliases": lambda own: own.output.aliases_topic,
    "audit": lambda own: own.output.audit_topic,
    "dead letters": lambda own: own.input.dead_letters,
    "models": lambda own: own.output.models_topic,
}
SCORERS: dict[str, Callable[[Settings], str]] = {
    "aliases": lambda own: own.output.aliases_topic,
    "dead letters": lambda own: own.scoring.dead_letters,
    "models": lambda own: own.output.models_topic,
    "progress": lambda own: own.scoring.progress,
    "scores": lambda own: own.scoring.output_topic,
}


@pytest.fixture(autouse=True)
def looking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "WATCH_INTERVAL_S", 0.5)


@pytest.fixture
def said() -> Iterator[list[Any]]:
    with capture_logs() as logs:
        yield logs


@pytest.fixture
def trained(broker: TestBroker, tmp_path: Path) -> Settings:
    """Settings of a trainer that has published two versions, and has stopped."""
    made = trainers.settings_for(broker.name("lost"), tmp_path / "checkpoint")
    Cluster(broker.connection).create([TopicSpec(made.input.topic)])
    produce(broker.connection, made.input.topic, records(80))
    run_until(made, broker.connection, 80)
    return made


def waits_for(running: trainers.Running, topic: str) -> Callable[[], bool]:
    """Return what tells whether a daemon is not ready, and names a topic that does not exist, and a command."""

    def look() -> bool:
        why = running.health.ready()[1]["waiting_for"].get(f"topic {topic}", "")
        return f"the topic {topic} does not exist" in why and "streamsvm topics create" in why

    return look


def ready_with_warning(running: trainers.Running, topic: str) -> Callable[[], bool]:
    """Return what tells whether a daemon is ready, and warns of a topic that was made again."""

    def look() -> bool:
        ready, found = running.health.ready()
        return ready and "made" in found.get("warnings", {}).get(f"topic {topic}", "")

    return look


def lose_and_make(running: trainers.Running, connection: Connection, name: str, specs: list[TopicSpec]) -> None:
    """Delete a topic under a daemon, which is not ready then, and make it again, with which it is."""
    foreign.delete_topic(connection, name)
    running.wait_until(waits_for(running, name))
    Cluster(connection).create(specs)
    running.wait_until(ready_with_warning(running, name))


@pytest.mark.parametrize("lost", sorted(TRAINERS))
def test_a_trainer_whose_topic_goes_says_so(lost: str, trained: Settings, connection: Connection) -> None:
    """Not ready, by the topic's name; made again while nothing was due, the next version is published into it."""
    with Running(trained, connection) as running:
        running.wait_until_started()
        running.wait_until(lambda: running.health.ready()[0])
        lose_and_make(running, connection, TRAINERS[lost](trained), output_topics(trained))
        produce(connection, trained.input.topic, records(40, seed=1))
        running.wait_until(lambda: running.value("streamsvm_model_version") == 3)
    assert versions(connection, trained)[-1].number == 3
    assert b'"number":3' in aliases(connection, trained, current_key(trained.name))[-1]
    run_until(trained, connection, 0)


@pytest.mark.parametrize("lost", sorted(TRAINERS.keys() - {"dead letters"}))
def test_a_trainer_that_needs_a_lost_topic_ends(lost: str, trained: Settings, connection: Connection) -> None:
    """With a version to publish, and nowhere to do so; it waits for no answer for ever."""
    with Running(trained, connection) as running:
        running.wait_until_started()
        foreign.delete_topic(connection, name := TRAINERS[lost](trained))
        produce(connection, trained.input.topic, records(40, seed=1))
        running.wait_until(running.ended, START_S)
        running.failure, failure = None, running.failure
    assert isinstance(failure, TopicMissing)
    assert name in str(failure)


@pytest.mark.parametrize("lost", sorted(TRAINERS.keys() - {"aliases"}))
def test_a_trainer_that_starts_makes_a_lost_topic(lost: str, trained: Settings, connection: Connection) -> None:
    """It says so, goes on with the next number, and a current version that is lost makes way."""
    foreign.delete_topic(connection, name := TRAINERS[lost](trained))
    produce(connection, trained.input.topic, records(40, seed=1))
    with Running(trained, connection) as running:
        running.wait_until(lambda: running.value("streamsvm_model_version") == 3, START_S)
        running.wait_until(ready_with_warning(running, name))
    assert versions(connection, trained)[-1].number == 3
    assert b'"number":3' in aliases(connection, trained, current_key(trained.name))[-1]


def test_a_trainer_without_its_aliases_begins_anew_when_told(
    trained: Settings, connection: Connection, said: list[Any]
) -> None:
    """Nobody knows what else was published: it names the option, with which version numbers go on."""
    foreign.delete_topic(connection, trained.output.aliases_topic)
    ends_by(StateError, r"the aliases topic holds no m: was it deleted\?.*--reset m/1", trained, connection)
    with Running(trained, connection, reset="m/1") as running:
        running.wait_until(lambda: running.value("streamsvm_model_version") == 4)
    assert [one.number for one in versions(connection, trained)] == [1, 2, 3, 4]


def scored(connection: Connection) -> Settings:
    """Return settings of a scorer, whose model has a version; topics are as the daemons make them."""
    made = scoring_settings(connection, partitions=1)
    made = changed(made, "output", models_topic=f"{made.output.models_topic}-kept")
    Cluster(connection).create(output_topics(made)[:2])
    publish(connection, made, 1)
    produce(connection, made.scoring.topic, points(range(10)))
    return made


def publish(connection: Connection, settings: Settings, number: int) -> None:
    with closing(Trainer(connection, settings.output.models_topic)) as trainer:
        trainer.publish(version_of(number))


def specs_of(settings: Settings) -> list[TopicSpec]:
    scoring = settings.scoring
    own = [
        TopicSpec(scoring.output_topic),
        TopicSpec(scoring.dead_letters),
        TopicSpec(scoring.progress, config={"cleanup.policy": "compact"}),
    ]
    return [*output_topics(settings)[:2], *own]


@pytest.mark.parametrize("lost", sorted(SCORERS))
def test_a_scorer_whose_topic_goes_says_so(lost: str, connection: Connection) -> None:
    """Not ready, by the topic's name; made again, what comes next is scored."""
    settings = scored(connection)
    with Scoring(settings, connection) as running:
        running.wait_until(lambda: running.value("streamsvm_scored_points_total") == 10)
        lose_and_make(running, connection, SCORERS[lost](settings), specs_of(settings))
        produce(connection, settings.scoring.topic, points(range(10, 20)))
        running.wait_until(lambda: running.value("streamsvm_scored_points_total") == 20)


@pytest.mark.parametrize("lost", ["dead letters", "progress", "scores"])
def test_a_scorer_that_starts_makes_a_lost_topic(lost: str, connection: Connection) -> None:
    """It says so, and scores what comes."""
    settings = scored(connection)
    with Scoring(settings, connection) as running:
        running.wait_until(lambda: running.value("streamsvm_scored_points_total") == 10)
    foreign.delete_topic(connection, name := SCORERS[lost](settings))
    produce(connection, settings.scoring.topic, points(range(10, 20)))
    with Scoring(settings, connection) as running:
        running.wait_until(lambda: running.value("streamsvm_scored_points_total") >= 10)
        running.wait_until(ready_with_warning(running, name))


@pytest.mark.parametrize("lost", ["aliases", "models"])
def test_a_scorer_that_starts_waits_for_a_lost_model(lost: str, connection: Connection) -> None:
    """Not ready, by the topic's name; it scores by the version that is published once the topic is there."""
    settings = scored(connection)
    foreign.delete_topic(connection, name := SCORERS[lost](settings))
    with Scoring(settings, connection) as running:
        running.wait_until(waits_for(running, name))
        Cluster(connection).create(specs_of(settings))
        publish(connection, settings, 2)
        running.wait_until(lambda: running.value("streamsvm_scored_points_total") == 10)


def lose(connection: Connection, name: str, trainer: Running, worker: WorkerRunning) -> None:
    """Delete a topic once rows are learned, and wait until both say that they wait for it."""
    trainer.wait_until(lambda: trainer.value("streamsvm_model_points_covered") >= 80, START_S)
    foreign.delete_topic(connection, name)
    for each in (trainer, worker):
        each.wait_until(waits_for(each, name))


def test_the_dead_letters_of_workers_are_watched_by_both(
    broker: TestBroker, connection: Connection, tmp_path: Path
) -> None:
    """Trainer and worker are not ready, and go on once the topic is there again."""
    settings = adopting_settings(broker, tmp_path / "checkpoint", 1)
    produce(connection, settings.input.topic, records(80))
    with Running(settings, connection) as trainer, WorkerRunning(settings, connection) as worker:
        lose(connection, name := settings.input.dead_letters, trainer, worker)
        Cluster(connection).create(output_topics(settings))
        for each in (trainer, worker):
            each.wait_until(ready_with_warning(each, name))
        produce(connection, settings.input.topic, records(40, seed=1))
        trainer.wait_until(lambda: trainer.value("streamsvm_model_points_covered") >= 120)


def test_lost_coresets_are_left_anew_by_the_next_start(
    broker: TestBroker, connection: Connection, tmp_path: Path
) -> None:
    """Trainer and worker are not ready; where the topic is made again both end, to be started again (75)."""
    settings = adopting_settings(broker, tmp_path / "checkpoint", 1)
    produce(connection, settings.input.topic, records(80))
    with Running(settings, connection) as trainer, WorkerRunning(settings, connection) as worker:
        lose(connection, coresets_topic(settings), trainer, worker)
        Cluster(connection).create([topic_spec(settings, 1)])
        produce(connection, settings.input.topic, records(40, seed=1))
        for each in (trainer, worker):
            eventually(each.ended, "it ends", START_S)
            each.failure, failure = None, each.failure
            assert isinstance(failure, TransientError), failure
            assert "no longer holds what was read" in str(failure)
    with Running(settings, connection) as trainer, WorkerRunning(settings, connection):
        trainer.wait_until(lambda: trainer.value("streamsvm_model_points_covered") >= 120, START_S)


def test_a_start_without_coresets_leaves_them_anew(broker: TestBroker, connection: Connection, tmp_path: Path) -> None:
    """The trainer has in its checkpoint what it adopted; a worker learns the rest."""
    settings = adopting_settings(broker, tmp_path / "checkpoint", 1)
    produce(connection, settings.input.topic, records(80))
    for covered in (80, 120):
        with Running(settings, connection) as trainer, WorkerRunning(settings, connection):
            wanted = covered
            trainer.wait_until(lambda wanted=wanted: trainer.value("streamsvm_model_points_covered") >= wanted, START_S)  # type: ignore[misc]
        foreign.delete_topic(connection, coresets_topic(settings))
        produce(connection, settings.input.topic, records(40, seed=1))

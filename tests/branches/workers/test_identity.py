"""Workers whose input is deleted and made again."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumers import constants
from consumers.branches.workers.settings import coresets_topic
from consumers.settings import Settings
from streamsvm.kafka import Cluster, Connection, Recreated
from tests.branches.workers.group_workers import WorkerRunning
from tests.brokers.fixtures import TestBroker
from tests.consumers.recreated import WAY_OUT, AtTheQuestion, never_looking, recreate
from tests.consumers.trainers import Running, produce, records, versions

pytestmark = pytest.mark.real_broker


@pytest.fixture
def connection(real_broker: TestBroker) -> Connection:
    return real_broker.connection


@pytest.fixture
def settings(real_broker: TestBroker, tmp_path: Path) -> Settings:
    return never_looking(real_broker, tmp_path / "checkpoint")


def from_coresets(settings: Settings) -> Settings:
    """Return a trainer that adopts what workers learn."""
    training = settings.training.model_copy(update={"from_coresets": True})
    return settings.model_copy(update={"name": settings.input.topic, "training": training})


def test_no_manifest_of_a_recreated_input_is_left(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker ends with the way out before it writes."""
    settings = from_coresets(settings)
    produce(connection, settings.input.topic, records(50))
    with Running(settings, connection) as trainer:
        trainer.wait_until_started()
    question = AtTheQuestion(
        monkeypatch,
        settings.input.topic,
        lambda: recreate(connection, settings.input.topic, records(120, seed=9)),
        after=1,
    )
    question.armed = True
    before = Cluster(connection).log_range(coresets_topic(settings), 0)
    with WorkerRunning(settings, connection, ordinal=0, of=1) as worker:
        with pytest.raises(Recreated, match=rf"{WAY_OUT}.*--reset {settings.name}/1"):
            worker.wait_until(lambda: False)
        worker.failure = None
    assert Cluster(connection).log_range(coresets_topic(settings), 0) == before


def test_a_worker_follows_a_trainer_that_begins_anew(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under input.on_gap = reset both go over to the new topic, and its rows alone are learned."""
    monkeypatch.setattr(constants, "WATCH_INTERVAL_S", 0.2)
    told = settings.input.model_copy(update={"on_gap": "reset"})
    settings = from_coresets(settings.model_copy(update={"input": told}))
    produce(connection, settings.input.topic, records(50))
    question = AtTheQuestion(
        monkeypatch, settings.input.topic, lambda: recreate(connection, settings.input.topic, records(90, seed=9))
    )
    with Running(settings, connection) as trainer:
        trainer.wait_until_started()
        with WorkerRunning(settings, connection, ordinal=0, of=1) as worker:
            trainer.wait_until(lambda: trainer.value("streamsvm_model_version") == 1)
            question.armed = True
            produce(connection, settings.input.topic, records(30, seed=1))
            trainer.wait_until(lambda: trainer.value("streamsvm_model_version") == 2)
            assert worker.failure is None
    first, second = versions(connection, settings)
    assert second.lineage.topic_id == Cluster(connection).topic_id(settings.input.topic) != first.lineage.topic_id
    assert 80 <= second.stream.rows <= 90

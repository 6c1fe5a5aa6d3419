"""Copies of a trainer, of which one works: the others stand by, and go on where it ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumers.settings import Settings
from consumers.trainer import standing_by
from consumers.trainer.standing_by import TurnLost
from streamsvm.errors import TransientError
from streamsvm.kafka import Cluster, TopicSpec
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import Running, produce, records, run_until, settings_for, topic
from tests.test_subscriber import eventually

VALUES = records(240, seed=4)


@pytest.fixture
def settings(broker: TestBroker, tmp_path: Path) -> Settings:
    made = settings_for(broker.name("standby"), tmp_path / "checkpoint", standby=True)
    Cluster(broker.connection).create([TopicSpec(made.input.topic)])
    return made


@pytest.mark.long(keep=("real",))
def test_the_next_copy_goes_on_at_once_where_one_stops(settings: Settings, broker: TestBroker, tmp_path: Path) -> None:
    """While it stands by it is alive, not ready, and says so; the versions are those of one trainer."""
    connection = broker.connection
    produce(connection, settings.input.topic, VALUES[:80])
    with Running(settings, connection) as first:
        first.wait_until(lambda: first.value("streamsvm_model_version") == 2)
        with Running(settings, connection) as second:
            eventually(lambda: second.value("streamsvm_standby") == 1, "it stands by")
            eventually(lambda: "stands by" in second.health.ready()[1]["waiting_for"].get("start", ""), "it says so")
            assert second.health.healthy()[0]
            assert first.value("streamsvm_standby") == 0
            produce(connection, settings.input.topic, VALUES[80:160])
            first.wait_until(lambda: first.value("streamsvm_model_version") == 4)
            first.stop()
            produce(connection, settings.input.topic, VALUES[160:])
            second.wait_until(lambda: second.value("streamsvm_model_version") == 6)
            assert second.value("streamsvm_standby") == 0
    assert published(broker, settings) == one_trainer(broker, settings, tmp_path)


def test_a_rehearsal_that_fails_keeps_nobody_from_its_turn(
    settings: Settings, broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is made again and again while a copy stands by, and what comes of it counts for nothing."""
    tried: list[None] = []

    def fails(*_: object) -> None:
        tried.append(None)
        raise TransientError("no broker answers")

    monkeypatch.setattr(standing_by, "read_pointers", fails)
    monkeypatch.setattr(standing_by, "REHEARSE_EVERY_S", 0.1)
    with Running(settings, broker.connection) as first:
        first.wait_until(lambda: first.health.ready()[0])
        with Running(settings, broker.connection) as second:
            eventually(lambda: second.value("streamsvm_standby") == 1 and len(tried) > 2, "it stands by")
            first.stop()
            produce(broker.connection, settings.input.topic, VALUES[:40])
            second.wait_until(lambda: second.value("streamsvm_model_version") == 1)


@pytest.mark.long(keep=("embedded",))
def test_a_copy_that_stands_by_stops_when_told_to(settings: Settings, broker: TestBroker) -> None:
    """It has taken nothing over, and publishes nothing."""
    with Running(settings, broker.connection) as first:
        first.wait_until(lambda: first.health.ready()[0])
        with Running(settings, broker.connection) as second:
            eventually(lambda: second.value("streamsvm_standby") == 1, "it stands by")
            second.stop()
        produce(broker.connection, settings.input.topic, VALUES[:40])
        first.wait_until(lambda: first.value("streamsvm_model_version") == 1)


@pytest.mark.long(keep=("embedded",))
def test_a_copy_whose_turn_is_over_ends_and_is_started_again(
    settings: Settings, broker: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a pause longer than the session: what it published stands, and the next one goes on from there."""
    connection = broker.connection
    produce(connection, settings.input.topic, VALUES[:80])
    first = Running(settings, connection)
    with pytest.raises(TurnLost, match="another copy's turn"):
        lose_its_turn(first, monkeypatch)
    produce(connection, settings.input.topic, VALUES[80:])
    with Running(settings, connection) as again:
        again.wait_until(lambda: again.value("streamsvm_model_version") == 6)
    assert published(broker, settings) == one_trainer(broker, settings, tmp_path)


def lose_its_turn(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a trainer until two versions are published and it is told that its turn is over; raises what ends it."""
    with running, monkeypatch.context() as patched:
        running.wait_until(lambda: running.value("streamsvm_model_version") == 2)
        patched.setattr(standing_by, "PARTITION", 99)  # which nobody owns
        eventually(lambda: running.failure is not None, "it ends")


def published(broker: TestBroker, settings: Settings) -> list[bytes | None]:
    return [record.value for record in topic(broker.connection, settings.output.models_topic)]


def one_trainer(broker: TestBroker, settings: Settings, directory: Path) -> list[bytes | None]:
    """Return the versions that a trainer without copies makes of the same records."""
    output = settings.output.model_copy(update={"models_topic": f"{settings.output.models_topic}-alone"})
    checkpoint = settings.checkpoint.model_copy(update={"directory": directory / "alone"})
    training = settings.training.model_copy(update={"standby": False})
    alone = settings.model_copy(update={"output": output, "checkpoint": checkpoint, "training": training})
    run_until(alone, broker.connection, len(VALUES))
    return published(broker, alone)

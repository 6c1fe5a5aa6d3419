"""A broker that goes away: the trainer goes on when it comes back, and stops when told to while it is gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamsvm.kafka import Connection, TopicSpec, create_topics
from tests.brokers.jvm import CannotRun, JvmBroker
from tests.consumers.trainers import Running, produce, records, settings_for, versions


@pytest.fixture
def restartable() -> Iterator[JvmBroker]:
    """A broker of this test's own, to be killed and started again at the same address."""
    broker = JvmBroker()
    try:
        broker.start()
    except CannotRun as error:
        pytest.skip(f"no broker to kill: {error}")
    yield broker
    broker.stop()


def test_an_outage_only_delays(restartable: JvmBroker, tmp_path: Path) -> None:
    """Killed while the trainer waits for points and started again: the next points are learned, nothing twice."""
    connection = Connection({"bootstrap.servers": restartable.bootstrap_servers}, request_timeout_s=5.0)
    settings = settings_for("outage", tmp_path / "checkpoint")
    create_topics(connection, [TopicSpec(settings.input.topic, 1)])
    values = records(100)
    produce(connection, settings.input.topic, values[:50])
    with Running(settings, connection) as running:
        running.wait_for_rows(50)
        running.wait_until(lambda: running.value("streamsvm_model_version") == 1)
        restartable.kill()
        running.wait_until(lambda: "broker" in running.health.ready()[1]["waiting_for"])
        assert running.health.healthy()[0]
        restartable.restart()
        produce(connection, settings.input.topic, values[50:])
        running.wait_for_rows(100)
        running.wait_until(lambda: running.value("streamsvm_model_version") == 2)
    assert [version.stream.points for version in versions(connection, settings)] == [40, 80]


def test_a_stop_without_a_broker_ends(restartable: JvmBroker, tmp_path: Path) -> None:
    """Told to stop while no broker answers, the trainer saves and ends: it does not wait for observers' offsets."""
    connection = Connection({"bootstrap.servers": restartable.bootstrap_servers}, request_timeout_s=5.0)
    settings = settings_for("outage", tmp_path / "checkpoint")
    create_topics(connection, [TopicSpec(settings.input.topic, 1)])
    produce(connection, settings.input.topic, records(50))
    with Running(settings, connection) as running:
        running.wait_for_rows(50)
        running.wait_until(lambda: running.value("streamsvm_model_version") == 1)
        restartable.kill()
        running.wait_until(lambda: "broker" in running.health.ready()[1]["waiting_for"])
    assert list(settings.checkpoint.directory.glob("checkpoint-*"))

"""Broker killed and restarted; paused."""

from __future__ import annotations

import re
import threading
from collections import Counter
from pathlib import Path

import pytest

from streamsvm.kafka import TopicSpec, create_topics
from tests.consumers.trainers import Running, produce, records, settings_for
from tests.faults.stage import FaultyBroker, Trainee

RSS_GROWTH = 60 * 2**20
"""What a trainer may take more during an outage: the client's buffers, and a second producer."""

CLIENT = "streamsvm.kafka.client"


@pytest.mark.parametrize("again", [1, pytest.param(5, marks=pytest.mark.faults_long)])
def test_an_outage_only_delays(stage: FaultyBroker, again: int) -> None:
    """Killed while versions are published and started again: it says so, goes on by itself, nothing twice."""
    trainee = stage.trainee()
    daemon = trainee.begin()
    for _ in range(again):
        daemon.wait_for("model_published", times=4)
        before = daemon.rss_bytes()
        stage.broker.kill()
        trainee.wait_until(lambda: not trainee.ready()[0], "it is not ready")
        stage.broker.restart()
        daemon.wait_for("model_published")
        trainee.wait_until(lambda: trainee.ready()[0], "it is ready again")
        assert daemon.rss_bytes() - before < RSS_GROWTH
    trainee.finish()


def test_an_outage_is_said_once(stage: FaultyBroker) -> None:
    """A line that the client library repeats while the broker is away comes once a minute, with its count."""
    trainee = stage.trainee()
    daemon = trainee.begin()
    daemon.wait_for("model_published", times=2)
    stage.broker.kill()
    trainee.wait_until(lambda: not trainee.ready()[0], "it is not ready")
    threading.Event().wait(5.0)  # how long the broker is away
    stage.broker.restart()
    trainee.finish()
    assert repeated(daemon.log) == {}


def repeated(log: list[str]) -> dict[str, int]:
    """Return the client library's lines that came more than once, their numbers left out."""
    lines = Counter(re.sub(r"\d+", "#", line.split('"timestamp"')[0]) for line in log if f'"{CLIENT}"' in line)
    return {line: count for line, count in lines.items() if count > 1}


@pytest.mark.parametrize("pause_s", [5.0, pytest.param(30.0, marks=pytest.mark.faults_long)])
def test_a_pause_only_delays(stage: FaultyBroker, pause_s: float) -> None:
    """A broker that freezes in the midst of publishing, connections open, and thaws: nothing is lost or doubled."""
    trainee = stage.trainee()
    daemon = trainee.begin()
    daemon.wait_for("model_published", times=4)
    before = daemon.rss_bytes()
    stage.broker.pause()
    threading.Event().wait(pause_s)  # the fault itself
    assert daemon.rss_bytes() - before < RSS_GROWTH
    if pause_s > 15.0:
        assert not trainee.ready()[0]
    stage.broker.resume()
    trainee.finish()


@pytest.mark.parametrize("defect", ["dies_of_an_outage", "always_ready"])
def test_an_outage_shows_a_defect(stage: FaultyBroker, defect: str) -> None:
    """A trainer that ends with the broker, or claims to be ready without one, does not get through."""
    with pytest.raises(AssertionError, match="the process ended|took too long"):
        survive_an_outage(stage, stage.trainee(defect))


def survive_an_outage(stage: FaultyBroker, trainee: Trainee) -> None:
    """Kill the broker in the midst of publishing, and start it again."""


def test_a_stop_without_a_broker_ends(stage: FaultyBroker, tmp_path: Path) -> None:
    """Told to stop while no broker answers, the trainer saves and ends: it does not wait for observers' offsets."""
    connection = stage.direct
    settings = settings_for("outage", tmp_path / "checkpoint")
    create_topics(connection, [TopicSpec(settings.input.topic, 1)])
    produce(connection, settings.input.topic, records(50))
    with Running(settings, connection) as running:
        running.wait_for_rows(50)
        running.wait_until(lambda: running.value("streamsvm_model_version") == 1)
        stage.broker.kill()
        running.wait_until(lambda: "broker" in running.health.ready()[1]["waiting_for"])
    assert list(settings.checkpoint.directory.glob("checkpoint-*"))

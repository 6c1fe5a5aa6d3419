"""Broker killed and restarted, or paused."""

from __future__ import annotations

import re
import threading
from collections import Counter
from pathlib import Path

import pytest

from streamsvm.kafka import Cluster, TopicSpec
from tests.consumers.trainers import Running, produce, records, settings_for
from tests.faults.faulty import RSS_GROWTH, FaultyBroker, Trainee

LONGEST_BEAT_S = 15.0
"""After a pause this long a trainer must have said that it is not ready."""


def survive_outages(faulty: FaultyBroker, trainee: Trainee, times: int = 1) -> None:
    """Kill the broker in the midst of publishing and start it again, some times; let the trainer finish."""
    daemon = trainee.begin()
    for _ in range(times):
        daemon.wait_for("model_published", times=4)
        before = daemon.rss_bytes()
        faulty.broker.kill()
        faulty.counts["broker_kills"] += 1
        trainee.check_amid()
        trainee.wait_until(lambda: not trainee.ready()[0], "it is not ready")
        faulty.broker.restart()
        trainee.wait_until(lambda: trainee.ready()[0], "it is ready again")
        assert daemon.rss_bytes() - before < RSS_GROWTH
    trainee.finish()


def test_an_outage_only_delays(faulty: FaultyBroker) -> None:
    """Killed while versions are published and started again: it says so, once, and goes on; nothing lost or doubled."""
    trainee = faulty.trainee("steady")
    survive_outages(faulty, trainee)
    assert repeated(trainee.daemon.log) == {}


@pytest.mark.faults_long
def test_outages_only_delay(faulty: FaultyBroker) -> None:
    """The same, again and again."""
    survive_outages(faulty, faulty.trainee("unhurried"), 5)


@pytest.mark.faults_long
def test_an_outage_shows_a_trainer_that_gives_up(faulty: FaultyBroker) -> None:
    """Planted: a trainer that ends with the broker does not get through."""
    with pytest.raises(AssertionError, match="the process ended"):
        survive_outages(faulty, faulty.trainee("steady", "gives-up"))


def repeated(log: list[str]) -> dict[str, int]:
    """Return the client library's lines that came more than once, numbers left out."""
    said = (line.split('"timestamp"')[0] for line in log if '"streamsvm.kafka.client"' in line)
    lines = Counter(re.sub(r"\d+", "#", line) for line in said)
    return {line: count for line, count in lines.items() if count > 1}


@pytest.mark.long
@pytest.mark.parametrize("pause_s", [5.0, pytest.param(30.0, marks=pytest.mark.faults_long)])
def test_a_pause_only_delays(faulty: FaultyBroker, pause_s: float) -> None:
    """A broker that freezes in the midst of publishing, connections open, and thaws: nothing is lost or doubled."""
    trainee = faulty.trainee("steady")
    daemon = trainee.begin()
    daemon.wait_for("model_published", times=4)
    before = daemon.rss_bytes()
    faulty.broker.pause()
    faulty.counts["broker_pauses"] += 1
    trainee.check_amid()
    threading.Event().wait(pause_s)  # the fault itself
    assert daemon.rss_bytes() - before < RSS_GROWTH
    if pause_s > LONGEST_BEAT_S:
        assert not trainee.ready()[0]
    faulty.broker.resume()
    trainee.finish()


@pytest.mark.long
def test_a_stop_without_a_broker_ends(faulty: FaultyBroker, tmp_path: Path) -> None:
    """Told to stop while no broker answers, the trainer saves and ends: it does not wait for observers' offsets."""
    settings = settings_for("outage", tmp_path / "checkpoint")
    Cluster(faulty.direct).create([TopicSpec(settings.input.topic, 1)])
    produce(faulty.direct, settings.input.topic, records(50))
    with Running(settings, faulty.direct) as running:
        running.wait_for_rows(50)
        running.wait_until(lambda: running.value("streamsvm_model_version") == 1)
        faulty.broker.kill()
        running.wait_until(lambda: "broker" in running.health.ready()[1]["waiting_for"])
    assert list(settings.checkpoint.directory.glob("checkpoint-*"))

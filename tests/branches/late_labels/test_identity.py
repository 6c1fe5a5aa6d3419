"""A topic of labels that is deleted and made again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from consumers import constants
from consumers.branches.late_labels.joined_intake import CONFIRM_AGAIN_S, JoinedIntake
from consumers.branches.late_labels.joined_source import JoinedSource
from consumers.host import Health
from consumers.streams import DeadLetters, identity_of
from streamsvm.branches.late_labels.joining import Joining
from streamsvm.kafka import Message, Recreated
from streamsvm.points import Position
from tests.branches.late_labels.test_labels import HORIZON_S, joined_settings, stream, topics, write
from tests.brokers.fixtures import TestBroker
from tests.consumers.recreated import WAY_OUT, AtTheQuestion, recreate, refuse_to_say
from tests.consumers.trainers import Running, records, versions
from tests.simulation import ports
from tests.simulation.broker import Entry
from tests.simulation.choices import Script
from tests.simulation.world import Life, Profile, World, clock_of

ROWS = 12
OLD, NEW = 5, 40
"""Labels in the topic when it is read first, and records in the one that takes its place."""


class Joined:
    """An intake on simulated logs: features of which all have labels, and the first labels, a second apart.

    Its reader of labels does not notice that a topic was made again, as the client's may not.
    """

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        settings = joined_settings("t", directory, absent="dead_letter")
        self.world = World(Profile(), Script({}), ports.Ports)
        monkeypatch.setattr(self.world, "decide", lambda what, *_: "unnoticed" if what == "client" else "")
        self.input, self.labels = settings.input.topic, settings.labels.topic
        for topic in (self.input, self.labels):
            self.world.broker.create(topic, 1)
        self.cluster = ports.Cluster(self.world, Life(self.world.first, "A1"))
        self.rows, self.sent = list[Any](), list[Message]()
        self.health = Health(stuck_after_s=60.0)
        base, clock = {0: Position(0)}, clock_of(self.world)
        metrics: Any = ports.NoMetrics()
        cluster: Any = self.cluster
        self.intake = JoinedIntake(
            settings,
            pipeline=SimpleNamespace(base=base, offer=self.rows.append, points_accepted=lambda: 0),
            source=JoinedSource(
                cluster,
                settings.models(),
                features=self.input,
                labels=self.labels,
                group=None,
                most_rows=1_000,
                left_out={},
            ),
            cluster=cluster,
            outbox=SimpleNamespace(send=self.sent.append),
            letters={
                "features": DeadLetters("m", self.input, "letters", metrics),
                "labels": DeadLetters("m", self.labels, "letters", metrics),
            },
            joining=Joining(topic=self.labels, topic_id="", base=base, partitions={}, waiting={}),
            identity=identity_of(cluster, self.labels),
            surveyor=SimpleNamespace(),
            metrics=metrics,
            health=self.health,
            monotonic=clock.monotonic,
            now=clock.now,
        )
        self.write(self.input, [{"x": [1.0, 2.0, 3.0], "id": f"t{row}"} for row in range(ROWS)])
        self.write(self.labels, [{"id": f"t{row}", "y": 1} for row in range(OLD)])
        self.intake.assign({0: 0})

    def write(self, topic: str, values: Sequence[dict[str, Any]], begin_s: float = 0.0) -> None:
        for at, one in enumerate(values):
            time_ms = 1_000_000 + round(1_000 * (begin_s + at))
            self.world.broker.log(topic).append(Entry(json.dumps(one).encode(), time_ms=time_ms))

    def recreate(self) -> None:
        """Put a longer topic in the place of the labels, whose records are all past the horizon of the rows."""
        self.world.broker.create(self.labels, 1)
        self.write(self.labels, [{"id": f"other{row}", "y": 1} for row in range(NEW)], begin_s=10 * HORIZON_S)

    def read(self, times: int = 10) -> int:
        """Read, and return how many points are joined by then."""
        for _ in range(times):
            self.intake.read(100, 0.1)
        return sum(len(rows) for rows in self.rows)

    def why(self) -> str:
        waiting_for: dict[str, str] = self.health.ready()[1]["waiting_for"]
        return waiting_for.get("labels", "")


def test_no_row_is_refused_because_of_labels_of_another_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader goes on in the middle of a longer topic: its times decide nothing about rows whose labels are gone."""
    joined = Joined(tmp_path, monkeypatch)
    assert joined.read() == OLD
    joined.recreate()
    with pytest.raises(Recreated, match="was recreated: its id was"):
        joined.read()
    assert joined.sent == []
    assert sum(len(rows) for rows in joined.rows) == OLD


def test_nothing_is_joined_while_the_broker_does_not_say_whose_labels_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both logs are paused meanwhile, readiness says why, and the broker is asked about once a second."""
    joined = Joined(tmp_path, monkeypatch)
    assert joined.read() == OLD
    asked, topic_id = list[float](), joined.cluster.topic_id

    def refused(_: str) -> None:
        asked.append(joined.world.time)
        refuse_to_say()

    monkeypatch.setattr(joined.cluster, "topic_id", refused)
    monkeypatch.setattr(ports, "POLL_S", 0.01)
    joined.write(joined.labels, [{"id": f"t{row}", "y": 1} for row in range(OLD, ROWS)], begin_s=OLD)
    assert joined.read(500) == OLD
    assert "does not say" in joined.why()
    assert min(later - at for at, later in pairwise(asked)) >= CONFIRM_AGAIN_S
    assert len(asked) > 2
    joined.write(joined.input, [{"x": [1.0, 2.0, 3.0], "id": f"t{ROWS}"}] * NEW, begin_s=ROWS)
    joined.intake.release()  # as the trainer does in each turn that reads
    before = joined.intake.reading("features")
    assert joined.read() == OLD
    assert joined.intake.reading("features") == before
    monkeypatch.setattr(joined.cluster, "topic_id", topic_id)
    joined.world.time += CONFIRM_AGAIN_S
    assert joined.read() == ROWS
    assert joined.why() == ""
    assert joined.intake.reading("features") != before


def test_labels_that_come_fast_are_confirmed_before_they_are_joined_and_not_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that come within the least time between two checks wait for the next one."""
    joined = Joined(tmp_path, monkeypatch)
    assert joined.read() == OLD
    asked, topic_id = list[int](), joined.cluster.topic_id

    def counted(topic: str) -> str | None:
        asked.append(joined.intake.reading("labels")[0].offset)
        return topic_id(topic)

    monkeypatch.setattr(joined.cluster, "topic_id", counted)
    monkeypatch.setattr(ports, "POLL_S", 0.005)
    for row in range(OLD, ROWS - 1):  # as there may be another row of the last one's time, its label would wait
        joined.write(joined.labels, [{"id": f"t{row}", "y": 1}], begin_s=row)
        count = joined.read(1)
        assert count <= max(asked, default=OLD)
    assert joined.read() == ROWS - 1
    assert 0 < len(asked) < ROWS - 1 - OLD


@pytest.mark.real_broker
def test_no_version_of_recreated_labels_is_published(
    real_broker: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The labels' topic alone is another one."""
    connection = real_broker.connection
    settings = joined_settings(real_broker.name("labels"), tmp_path / "checkpoint")
    monkeypatch.setattr(constants, "WATCH_INTERVAL_S", 3_600.0)
    topics(connection, settings)
    features, labels, _ = stream(200)
    question = AtTheQuestion(
        monkeypatch, settings.labels.topic, lambda: recreate(connection, settings.labels.topic, records(300))
    )
    question.armed = True
    write(connection, settings.labels.topic, labels)
    write(connection, settings.input.topic, features)
    with Running(settings, connection) as running:
        with pytest.raises(Recreated, match=rf"{settings.labels.topic} {WAY_OUT}.*--reset m/1"):
            running.wait_until(lambda: False)
        running.failure = None
    assert versions(connection, settings) == []

"""A screened leaf of several labels, through a trainer that is started again and again."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumers.verify.verify import verify
from streamsvm.branches.classes.class_screening import ClassScreened
from streamsvm.config import CoresetConfig
from streamsvm.kafka import Cluster, TopicSpec
from streamsvm.learning.learner import Learner
from streamsvm.points import Position
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainer.test_classes import bytes_of, oracle, records_of, seven, several
from tests.consumers.trainers import produce, run_until, settings_for, versions
from tests.streams import rows_of


def test_a_screened_leaf_of_seven_labels_survives_restarts(
    broker: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint in the midst of one goes on to the models of the mathematics, which verify makes again."""
    monkeypatch.setattr(CoresetConfig, "SCREENING", 1.0)
    settings = seven(settings_for(broker.name("k"), tmp_path / "checkpoint"))
    Cluster(broker.connection).create([TopicSpec(settings.input.topic, 4)])
    points, start = several(1_500), 0
    for end in (610, 790, 1_333, 1_500):
        produce(broker.connection, settings.input.topic, records_of(points)[start:end])
        run_until(settings, broker.connection, end - start)
        start = end
    published = versions(broker.connection, settings)
    assert [bytes_of(one.model) for one in published] == [bytes_of(own) for own in oracle(settings.models(), points)]
    learner = Learner(settings.models(), {0: Position(0)}, 1 << 30)
    learner.learn(rows_of(points.take(slice(0, 790))))
    assert isinstance(learner.state().partitions[0].screened, ClassScreened)
    report = verify(Cluster(broker.connection), settings)
    assert report.clean, list(report.lines())

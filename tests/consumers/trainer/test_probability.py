"""Probabilities on their way: from the trainer through the topic to readers and to `streamsvm verify`."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from consumers.settings import Settings
from streamsvm.config import CoresetConfig, ModelConfig, SvmConfig
from streamsvm.kafka import Cluster, Connection, TopicSpec
from streamsvm.learning.learner import Learner
from streamsvm.learning.training import train, with_probability
from streamsvm.model.parts import probability_part as part_codec
from streamsvm.model.parts.probability_part import SigmoidForm
from streamsvm.model.probability import Sigmoid
from streamsvm.model.version import Version
from streamsvm.points import Position
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import produce, records, run_until, settings_for, versions
from tests.streams import gaussian, rows_of

pytestmark = pytest.mark.enough("embedded")

ROWS = 250


@pytest.fixture
def settings(broker: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A trainer whose audit sample is so small that not every version has ten points of the rarer label."""
    monkeypatch.setattr("streamsvm.config.sizes.AUDITED", 4)
    made = settings_for(broker.name("p"), tmp_path / "checkpoint", every_leaves=1)
    made = made.model_copy(
        update={
            "svm": SvmConfig(C=1.0, probability="sigmoid"),
            "coreset": CoresetConfig(points=133, structure="tree", train_points=500),
        }
    )
    Cluster(broker.connection).create([TopicSpec(made.input.topic, 4)])
    return made


def form_of(probability: Sigmoid | None) -> SigmoidForm | None:
    return None if probability is None else part_codec.encoded(probability)


def oracle(config: ModelConfig, n: int) -> list[SigmoidForm | None]:
    """Fit the same stream's probabilities without broker, batches or daemon."""
    learner, rows, found = Learner(config, {0: Position(0)}, 1), rows_of(gaussian(n)), []
    while len(rows):
        rows = rows.slice(learner.learn(rows), len(rows))
        if learner.cut_due:
            cut = learner.cut()
            trained = with_probability(train(cut.points, cut.moments, config.svm), cut.audit, config.svm)
            found.append(form_of(trained.model.probability))
    return found


def parts(found: list[Version]) -> list[SigmoidForm | None]:
    return [form_of(version.model.probability) for version in found]


def test_versions_have_the_probabilities_of_the_stream(settings: Settings, connection: Connection) -> None:
    """To the last bit what the mathematics gives, null where there is no ground, and the log says which and why."""
    produce(connection, settings.input.topic, records(ROWS))
    with capture_logs() as logs:
        run_until(settings, connection, ROWS)
    found = versions(connection, settings)
    assert parts(found) == oracle(settings.models(), ROWS)
    without = [version.key for version in found if version.model.probability is None]
    assert 0 < len(without) < len(found)
    warned = [entry for entry in logs if entry["event"] == "no_probability"]
    assert [entry["version"] for entry in warned] == without
    assert all("10 are needed" in entry["reason"] for entry in warned)

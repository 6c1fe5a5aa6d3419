"""Probabilities on their way: from the trainer through the topic to readers and to `streamsvm verify`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from structlog.testing import capture_logs

from consumers.settings import Settings
from consumers.verify.verify import verify
from streamsvm.config import CoresetConfig, ModelConfig, SvmConfig
from streamsvm.kafka import Cluster, Connection, TopicSpec
from streamsvm.learning.learner import Learner
from streamsvm.learning.training import train, with_probability
from streamsvm.model.parts import probability_part as part_codec
from streamsvm.model.parts.probability_part import SigmoidForm
from streamsvm.model.probability import Sigmoid
from streamsvm.model.version import Version
from streamsvm.points import Position
from streamsvm.registry.loading import load_version
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import produce, records, run_until, settings_for, versions
from tests.consumers.verify.test_verify import Forged
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


def with_one(found: list[Version]) -> Version:
    """Return the newest version that has probabilities."""
    return next(version for version in reversed(found) if version.model.probability is not None)


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


@pytest.mark.parametrize("first_life", [41, 100, 200])
def test_stopping_and_starting_changes_no_probability(
    first_life: int, settings: Settings, connection: Connection
) -> None:
    """The audit sample comes back from the checkpoint in its places."""
    produce(connection, settings.input.topic, records(ROWS)[:first_life])
    run_until(settings, connection, first_life)
    produce(connection, settings.input.topic, records(ROWS)[first_life:])
    run_until(settings, connection, ROWS - first_life)
    assert parts(versions(connection, settings)) == oracle(settings.models(), ROWS)


def test_a_reader_gets_probabilities(settings: Settings, connection: Connection) -> None:
    """A loaded version answers as the published function says of its decision values."""
    produce(connection, settings.input.topic, records(ROWS))
    run_until(settings, connection, ROWS)
    published = with_one(versions(connection, settings))
    assert published.model.probability is not None
    loaded = load_version(connection, "m", models_topic=settings.output.models_topic, number=published.number)
    X = gaussian(50, seed=3).X
    said = loaded.version.model.predict_proba(X)
    assert said[:, 1].tobytes() == published.model.probability.of(published.model.decision_function(X)).tobytes()


def test_a_changed_probability_is_found(settings: Settings, connection: Connection) -> None:
    """Verify recomputes it from the log: the true topic is clean, one last digit of it changed is not."""
    produce(connection, settings.input.topic, records(ROWS))
    run_until(settings, connection, ROWS)
    assert verify(Cluster(connection), settings).clean
    forged = Forged(settings, connection)
    forged.change(with_one(versions(connection, settings)).number, nudged)
    forged.rechain()
    report = verify(Cluster(connection), forged.store())
    assert not report.clean
    assert "probability." in "; ".join(report.lines())


def nudged(version: Version) -> Version:
    found = version.model.probability
    assert found is not None
    changed = replace(found, b=float(np.nextafter(found.b, np.inf)))
    return replace(version, model=replace(version.model, probability=changed))

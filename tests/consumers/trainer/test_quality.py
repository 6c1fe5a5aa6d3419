"""What the trainer scores before it learns, and what it tells of quality and freshness."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score, hinge_loss

from streamsvm.config import CoresetConfig, SvmConfig
from streamsvm.ingest import encode
from streamsvm.model import skill_header as header
from tests.brokers.fixtures import TestBroker
from tests.config.sizes import sized
from tests.consumers.trainers import Running, changed, learn, produce, records, run_until, settings_for, topic, versions
from tests.streams import DIMENSION, gaussian

pytestmark = pytest.mark.enough("real")

CUT_ROWS = 40
"""Of `settings_for`: two leaves of 20 rows."""


def scored(running: Running) -> int:
    return int(running.value("streamsvm_prequential_points_total"))


def figure(running: Running, name: str, scorer: str) -> float:
    return running.value(f"streamsvm_prequential_{name}", scorer=scorer)


def test_figures_are_of_the_current_version_on_points_it_has_not_learned(
    embedded_broker: TestBroker, tmp_path: Path
) -> None:
    """After a restart that publishes nothing, they are scikit-learn's of the newest version on the new points alone."""
    connection, settings = embedded_broker.connection, settings_for(embedded_broker.name(), tmp_path)
    learn(settings, connection, 200)
    (*_, current) = versions(connection, settings)
    produce(connection, settings.input.topic, records(130, seed=5))
    rare = changed(settings, "training", every_leaves=1_000)
    running = run_until(rare, connection, 130)
    points, model = gaussian(130, 5), current.model
    X = np.asarray(points.X, np.float64)
    answered, weight = model.predict_sign(X), points.weight
    assert scored(running) == 130
    expected = {
        "accuracy": accuracy_score(points.y, answered, sample_weight=weight),
        "balanced_accuracy": balanced_accuracy_score(points.y, answered, sample_weight=weight),
        "hinge_loss": hinge_loss(points.y, model.decision_function(X), sample_weight=weight),
    }
    for name, value in expected.items():
        assert figure(running, name, "model") == pytest.approx(value, abs=1e-6), name
    assert figure(running, "accuracy", "majority") > 0.5
    assert running.value("streamsvm_model_rows_behind") == 130


def test_what_is_read_again_is_not_scored(embedded_broker: TestBroker, tmp_path: Path) -> None:
    """A trainer that comes back with an old checkpoint scores only what lies past the newest version's cut."""
    connection, settings = embedded_broker.connection, settings_for(embedded_broker.name(), tmp_path / "now")
    learn(settings, connection, 120)
    shutil.copytree(tmp_path / "now", tmp_path / "old")
    learn(settings, connection, 200, seed=1)
    shutil.rmtree(tmp_path / "now")
    shutil.copytree(tmp_path / "old", tmp_path / "now")
    produce(connection, settings.input.topic, records(30, seed=2))
    running = run_until(settings, connection, 230)
    assert scored(running) == 30
    assert running.value("streamsvm_model_rows_behind") == 30


def test_freshness_is_told(embedded_broker: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One observation a version and a leaf, the rows since the newest cut, and the rows between two."""
    monkeypatch.setattr(CoresetConfig, "SCREENING", 0.0)  # a screened leaf is longer
    settings = settings_for(embedded_broker.name(), tmp_path)
    running = learn(settings, embedded_broker.connection, 210)
    assert running.value("streamsvm_model_staleness_seconds_count") == 210 // CUT_ROWS
    assert running.value("streamsvm_coreset_reduce_seconds_count") == 210 // 20
    assert running.value("streamsvm_model_rows_behind") == 210 % CUT_ROWS
    assert running.value("streamsvm_model_rows_between_cuts") == CUT_ROWS
    assert running.value("streamsvm_coreset_weight") == pytest.approx(float(gaussian(210).weight.sum()))


def noise(n: int, positive: float, seed: int = 3) -> list[bytes]:
    """Return points whose labels have nothing to do with their features."""
    random = np.random.default_rng(seed)
    y = np.where(random.random(n) < positive, 1, -1)
    return [encode(x, int(label), 1.0) for x, label in zip(random.normal(size=(n, DIMENSION)), y, strict=True)]


@pytest.mark.parametrize("class_weight", ["none", "balanced"])
def test_a_model_of_noise_is_never_called_good(
    embedded_broker: TestBroker,
    tmp_path: Path,
    class_weight: Literal["none", "balanced"],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """24 % positives, no signal: one answer without class weights, no skill with them; in page, header and metrics."""
    connection, settings = embedded_broker.connection, settings_for(embedded_broker.name(), tmp_path)
    settings = changed(settings, "training", every_leaves=4)
    sections = {"coreset": sized(points=16_000, audit_points=1_000), "svm": SvmConfig(class_weight=class_weight)}
    settings = settings.model_copy(update=sections)
    produce(connection, settings.input.topic, noise(12_000, 0.24))
    running = run_until(settings, connection, 12_000)
    snapshot = running.board.snapshot
    assert snapshot is not None
    assert snapshot.verdict.good is not True
    (*_, newest) = topic(connection, settings.output.models_topic)
    skill = header.decode(newest.headers)
    assert skill is not None
    assert snapshot.skill is not None
    assert skill.state == snapshot.skill.state
    assert running.value("streamsvm_model_labels_never_answered") == float(skill.answers != "both")
    if class_weight == "none":
        assert skill.answers == "negative"
        assert snapshot.verdict.headline == "Current, but it gives one answer to every point"
        assert "try svm.class_weight = balanced" in snapshot.verdict.detail
        said = capsys.readouterr()
        assert (said.out + said.err).count("no_skill") == 1
    else:
        assert (skill.state, skill.answers) != ("some", "negative")
        assert running.value("streamsvm_model_skill") == {"none": -1.0, "unknown": 0.0}[skill.state]


@pytest.mark.parametrize("signal", [False, True])
def test_a_kernel_machine_is_judged_by_what_it_was_not_trained_on(
    embedded_broker: TestBroker, tmp_path: Path, signal: bool
) -> None:
    """It knows random labels by heart: no version of them has skill; of labels with a signal the second one has."""
    connection, settings = embedded_broker.connection, settings_for(embedded_broker.name(), tmp_path)
    coreset = sized(leaf_rows=200, bucket_points=200, audit_points=200, train_points=600, landmarks=None)
    settings = settings.model_copy(update={"coreset": coreset, "svm": SvmConfig(alpha=1e-4, kernel="rbf", gamma=1.0)})
    with Running(settings, connection) as running:
        for turn in range(5):
            produce(connection, settings.input.topic, records(400, turn) if signal else noise(400, 0.5, turn))
            running.wait_for_rows(400 * (turn + 1))
            running.wait_until(lambda at=turn: running.value("streamsvm_model_version") >= at + 1)
    skills = [header.decode(record.headers) for record in topic(connection, settings.output.models_topic)]
    states = [skill.state for skill in skills if skill is not None]
    assert len(states) >= 5
    assert ("some" in states[:2]) is signal
    assert ("some" in states) is signal

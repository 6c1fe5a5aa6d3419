"""`CoresetSVC(tune="auto")`: what it says of its choice, and that the trainer makes the same one."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from consumers.settings import CheckpointConfig, InputConfig, OutputConfig, Settings, TrainingConfig
from streamsvm import CoresetSVC
from streamsvm.datasets import load_htru2
from streamsvm.ingest.decoder import encode
from streamsvm.kafka import Cluster, TopicSpec
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import produce, run_until, versions

pytestmark = pytest.mark.filterwarnings("ignore::streamsvm.estimators.stream.CoresetWarning")
TUNED = [
    CoresetSVC(points=600, tune="auto"),
    CoresetSVC(points=600, tune="auto", kernel="rbf"),
    CoresetSVC(points=600, tune="auto", C=1.0, class_weight="balanced"),
]


@pytest.fixture(scope="module")
def htru2() -> tuple[np.ndarray, np.ndarray]:
    X, y, _ = load_htru2()
    order = np.random.default_rng(5).permutation(len(y))[:3_000]
    return X[order], y[order].astype(int)


@pytest.mark.parametrize("estimator", TUNED, ids=["linear", "rbf", "C"])
def test_the_table_says_what_was_chosen(estimator: CoresetSVC, htru2) -> None:
    """The best of the table is in force, and the attributes are those of a machine that is given it."""
    machine = clone(estimator).fit(*htru2)
    best = max(machine.tuning_, key=lambda score: score.mean)
    assert pytest.approx(best.C, rel=1e-12) == machine.C_
    assert machine.alpha_ == pytest.approx(best.alpha, rel=1e-12)
    assert machine.gamma_ == best.gamma
    given = {"C": best.C} if estimator.C else {"alpha": best.alpha}
    width = {} if best.gamma is None else {"gamma": best.gamma}
    trained = clone(estimator).set_params(tune=None, **given, **width).fit(*htru2)
    agree = machine.predict(htru2[0]) == trained.predict(htru2[0])
    assert agree.mean() > 0.99  # pilots go by what is configured, so that the coresets are not quite the same


def test_without_the_option_there_is_no_table(htru2) -> None:
    """The penalty in force is the configured one."""
    machine = CoresetSVC(points=600, alpha=1e-3).fit(*htru2)
    assert machine.tuning_ == ()
    assert machine.alpha_ == pytest.approx(1e-3, rel=1e-12)


def test_a_copy_keeps_its_table(htru2) -> None:
    """Pickled and restored it has the same scores and predicts the same."""
    machine = clone(TUNED[1]).fit(*htru2)
    copy = pickle.loads(pickle.dumps(machine))
    assert copy.tuning_ == machine.tuning_
    assert copy.alpha_ == machine.alpha_
    assert np.array_equal(copy.decision_function(htru2[0]), machine.decision_function(htru2[0]))


def test_portions_change_nothing(htru2) -> None:
    """The choice depends on the rows, not on the calls that brought them, nor on predictions in between."""
    X, y = htru2
    once, portions = clone(TUNED[0]).fit(X, y), clone(TUNED[0])
    for start in range(0, len(y), 700):
        portions.partial_fit(X[start : start + 700], y[start : start + 700], classes=[-1, 1]).predict(X[:1])
    assert portions.tuning_ == once.tuning_
    assert portions.coef_.tobytes() == once.coef_.tobytes()


def test_the_trainer_chooses_the_same(
    broker: TestBroker, tmp_path: Path, htru2, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tuned at every cut, a trainer publishes the coefficients of an estimator of the same rows to the last bit."""
    monkeypatch.setattr("streamsvm.learning.tuning.EVERY_LEAVES", 1)
    X, y = htru2[0][:1_200], htru2[1][:1_200]
    config = clone(TUNED[0]).fit(X, y).model_config
    settings = Settings(
        name="m",
        kafka={"bootstrap.servers": "unused:1"},
        points=config.points,
        coreset=config.coreset,
        svm=config.svm,
        seed=config.seed,
        input=InputConfig(topic=broker.name("in")),
        output=OutputConfig(models_topic=broker.name("models")),
        training=TrainingConfig(policy="every"),
        checkpoint=CheckpointConfig(directory=tmp_path),
    )
    Cluster(broker.connection).create([TopicSpec(settings.input.topic, 4)])
    produce(broker.connection, settings.input.topic, [encode(x, int(s), 1.0) for x, s in zip(X, y, strict=True)])
    run_until(settings, broker.connection, len(y))
    published = versions(broker.connection, settings)
    assert len(published) > 3
    for version in published:
        covered = version.lineage.cut[0].offset
        ours = clone(TUNED[0]).fit(X[:covered], y[:covered])
        assert version.lineage.tuned_at == version.lineage.cut
        assert version.fit.C == ours.C_
        assert version.model.machine.coefficients.tobytes() == ours.model_.machine.coefficients.tobytes()

"""`CoresetSVC` against scikit-learn's checks, against the learner and the trainer, and against the full data."""

from __future__ import annotations

import doctest
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from streamsvm import STDASVC, CoresetSVC
from streamsvm.codec.points import encode
from streamsvm.config import CheckpointConfig, CoresetConfig, InputConfig, OutputConfig, Settings, TrainingConfig
from streamsvm.datasets import load_htru2
from streamsvm.estimators import coresetsvc
from streamsvm.kafka import TopicSpec, create_topics
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import produce, run_until, versions


@pytest.fixture(scope="module")
def htru2() -> tuple[np.ndarray, np.ndarray]:
    X, y, _ = load_htru2()
    order = np.random.default_rng(5).permutation(len(y))
    return X[order], y[order].astype(int)


@parametrize_with_checks(
    [
        CoresetSVC(C=1.0, tol=1e-8),
        CoresetSVC(C=1.0, kernel="rbf", tol=1e-10),
        CoresetSVC(C=1.0, tol=1e-8, class_weight="balanced", structure="tree"),
    ]
)
def test_scikit_learns_checks(estimator: CoresetSVC, check: object) -> None:
    """scikit-learn's checks pass; their sets are smaller than the memory, so that nothing is reduced."""
    check(estimator)  # type: ignore[operator]


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_what_fits_into_memory_is_not_reduced(htru2, kernel) -> None:
    """Below `memory_points` the machine is that of all points, standardised."""
    X, y = htru2[0][:2_000].astype(float), htru2[1][:2_000]
    Z = StandardScaler().fit_transform(X)
    ours = CoresetSVC(C=1.0, kernel=kernel, gamma=0.1, tol=1e-6).fit(X, y)
    theirs = STDASVC(C=1.0, kernel=kernel, gamma=0.1, tol=1e-6).fit(Z, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(Z), atol=1e-4)


@pytest.mark.parametrize("structure", ["tree", "chain"])
def test_portions_do_not_matter(htru2, structure) -> None:
    """One call, or portions of any size with predictions in between: the same training set and the same bits."""
    X, y = htru2
    whole = CoresetSVC(memory_points=1_000, structure=structure).fit(X, y)
    parts = clone(whole)
    start = 0
    for size in (1, 700, 3, 5_000, 2_999, 20_000):
        parts.partial_fit(X[start : start + size], y[start : start + size], classes=[-1, 1])
        if start:
            parts.predict(X[:3])
        start += size
    assert parts.training_set_sha256_ == whole.training_set_sha256_
    assert parts.coef_.tobytes() == whole.coef_.tobytes()
    assert parts._stream.learner.points_held <= 1_000


def test_a_small_memory_comes_near_all_the_data(htru2) -> None:
    """With a tenth of the points the objective over all of them is within one per cent of the optimum."""
    X, y = htru2
    Z = StandardScaler().fit_transform(X.astype(float))
    best = STDASVC(C=1.0, kernel="linear", tol=1e-6).fit(Z, y)
    ours = CoresetSVC(C=1.0, memory_points=1_800, tol=1e-6).fit(X, y)
    scale, mean = X.astype(float).std(axis=0), X.astype(float).mean(axis=0)
    w = ours.coef_[0] * scale
    b = float(ours.intercept_[0]) + float(ours.coef_[0] @ mean)
    assert objective(Z, y, w, b) <= 1.01 * objective(Z, y, best.coef_[0], float(best.intercept_[0]))


def test_a_weight_is_worth_repetitions_on_average(htru2) -> None:
    """Where points are reduced (m < n / 4), weights of 1 to 3 and repetitions are both within two per cent of the
    optimum: scikit-learn's check cannot hold bit for bit, because other rows are drawn."""
    X, y = htru2[0][:6_000], htru2[1][:6_000]
    times = np.random.default_rng(1).integers(1, 4, len(y))
    Z = StandardScaler().fit(X.astype(float), sample_weight=times).transform(X.astype(float))
    best = STDASVC(C=1.0, kernel="linear", tol=1e-6).fit(Z, y, sample_weight=times)
    optimum = objective(Z, y, best.coef_[0], float(best.intercept_[0]), times)
    mean, scale = np.average(X.astype(float), axis=0, weights=times), (X[0] - X[1]) / (Z[0] - Z[1])
    shuffled = np.random.default_rng(2).permutation(int(times.sum()))
    given = {
        "weights": (X, y, times),
        "repetitions": (np.repeat(X, times, axis=0)[shuffled], np.repeat(y, times)[shuffled], None),
    }
    for features, labels, weight in given.values():
        for seed in range(5):
            machine = CoresetSVC(C=1.0, memory_points=1_400, tol=1e-6, seed=seed).fit(features, labels, weight)
            w = machine.coef_[0] * scale
            b = float(machine.intercept_[0]) + float(machine.coef_[0] @ mean)
            assert objective(Z, y, w, b, times) <= 1.02 * optimum


def objective(Z, y, w, b, weight=1.0) -> float:
    """1/2 |w|^2 + sum of weight times hinge, C = 1."""
    return 0.5 * float(w @ w) + float((weight * np.maximum(0.0, 1.0 - y * (Z @ w + b))).sum())


def test_the_trainer_publishes_the_same_bits(broker: TestBroker, tmp_path: Path, htru2) -> None:
    """A trainer of the same configuration publishes the same training set, scaler and coefficients to the last bit."""
    X, y = htru2[0][:3_000], htru2[1][:3_000]
    connection, config = broker.connection, CoresetSVC(memory_points=600).fit(X[:500], y[:500]).model_config
    sizes = config.coreset.model_dump(exclude={"memory_points", "memory_bytes", "max_partitions"})
    settings = Settings(
        name="m",
        kafka={"bootstrap.servers": "unused:1"},
        points=config.points,
        coreset=CoresetConfig(**sizes, max_partitions=4),  # as many as the embedded broker gives a topic
        svm=config.svm,
        seed=config.seed,
        input=InputConfig(topic=broker.name("in")),
        output=OutputConfig(models_topic=broker.name("models")),
        training=TrainingConfig(policy="every"),
        checkpoint=CheckpointConfig(directory=tmp_path),
    )
    create_topics(connection, [TopicSpec(settings.input.topic, 4)])
    produce(connection, settings.input.topic, [encode(x, int(sign), 1.0) for x, sign in zip(X, y, strict=True)])
    run_until(settings, connection, len(y))
    published = versions(connection, settings)
    assert len(published) > 5
    for version in published:
        covered = version.lineage.cut[0].offset
        ours = CoresetSVC(memory_points=600).fit(X[:covered], y[:covered])
        assert version.lineage.training_set_sha256 == ours.training_set_sha256_
        made = ours._stream.trained()[1].model
        assert version.model.machine.coefficients.tobytes() == made.machine.coefficients.tobytes()
        assert version.model.machine.intercept == made.machine.intercept
        assert version.model.scaler.mean.tobytes() == made.scaler.mean.tobytes()
        assert version.model.scaler.scale.tobytes() == made.scaler.scale.tobytes()


def test_more_classes_by_one_against_the_rest(htru2) -> None:
    """Three classes are told apart inside scikit-learn's own wrapper; without it the refusal names the wrapper."""
    X = htru2[0][:900]
    y = np.digitize(X[:, 0], np.quantile(X[:, 0], [0.3, 0.6]))
    assert OneVsRestClassifier(CoresetSVC(memory_points=200)).fit(X, y).score(X, y) > 0.6
    with pytest.raises(ValueError, match="OneVsRestClassifier"):
        CoresetSVC().fit(X, y)


def test_what_makes_no_sense_is_named(htru2) -> None:
    """A wrong parameter, a label from nowhere and other classes are refused by name; nothing is learned of them."""
    X, y = htru2[0][:50], htru2[1][:50]
    for options, said in [
        ({"alpha": 1e-4, "C": 1.0}, "alpha and svm.C are both given"),
        ({"tol": -1.0}, "tol"),
        ({"kernel": "poly"}, "kernel"),
        ({"memory_points": 3}, "memory_points"),
    ]:
        with pytest.raises(ValueError, match=said):
            CoresetSVC(**options).partial_fit(X, y, classes=[-1, 1])
    machine = CoresetSVC().partial_fit(X, y, classes=[-1, 1])
    with pytest.raises(ValueError, match="none of the classes"):
        machine.partial_fit(X, np.full(50, 7))
    with pytest.raises(ValueError, match="first call"):
        machine.partial_fit(X, y, classes=[0, 1])
    assert machine._stream.rows == 50


def test_the_examples_of_the_docstring() -> None:
    """The docstring's example says what it prints."""
    assert doctest.testmod(coresetsvc) == doctest.TestResults(failed=0, attempted=6)

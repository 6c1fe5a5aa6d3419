"""`coreset_` is a training set for any estimator that takes sample weights."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import balanced_accuracy_score
from sklearn.svm import SVC, LinearSVC

from streamsvm import CoresetSVC
from streamsvm.datasets import load_htru2

SOLVERS: dict[str, Callable[[], Any]] = {
    "LinearSVC": lambda: LinearSVC(C=1e-3, random_state=0),
    "SVC": lambda: SVC(kernel="linear", C=1e-3),
    "SGDClassifier": lambda: SGDClassifier(alpha=1e-3, average=True, max_iter=200, tol=None, random_state=0),
    "LightGBM": lambda: import_module("lightgbm").LGBMClassifier(n_estimators=50, verbose=-1, random_state=0),
}


@pytest.fixture(scope="module")
def learned() -> tuple[CoresetSVC, np.ndarray, np.ndarray]:
    """HTRU2 in a random order, standardised, and a coreset of 2,000 of its first 12,000 rows."""
    X, y, _ = load_htru2()
    order = np.random.default_rng(0).permutation(len(y))
    X, labels = (X[order] - X.mean(axis=0)) / X.std(axis=0), np.where(y[order] > 0, "pulsar", "noise")
    return CoresetSVC(points=2_000).fit(X[:12_000], labels[:12_000]), X, labels


@pytest.mark.long(keep=("LinearSVC", "SGDClassifier"))
@pytest.mark.parametrize("name", SOLVERS)
def test_any_solver_learns_from_the_weighted_points(name: str, learned) -> None:
    """On rows set aside it is about as good as the same solver after all rows."""
    machine, X, y = learned
    rows, labels, weight = machine.coreset_
    found = SOLVERS[name]().fit(rows, labels, sample_weight=weight)
    whole = SOLVERS[name]().fit(X[:12_000], y[:12_000])
    scores = [balanced_accuracy_score(y[12_000:], one.predict(X[12_000:])) for one in (found, whole)]
    assert scores[0] > scores[1] - 0.03
    assert set(found.classes_) == {"noise", "pulsar"}


def test_it_is_what_the_model_was_trained_on(learned) -> None:
    """At most so many points as fit into the memory, and the weight of all rows of each label."""
    machine, _, y = learned
    before = machine.training_set_sha256_
    _, labels, weight = machine.coreset_
    assert len(weight) <= 2_000
    for label in ("noise", "pulsar"):
        assert weight[labels == label].sum() == pytest.approx((y[:12_000] == label).sum())
    assert machine.training_set_sha256_ == before


def test_labels_of_several_classes_are_their_own() -> None:
    """Of three classes each point has its class."""
    X = np.repeat(np.arange(3.0), 50)[:, None]
    rows, labels, _ = CoresetSVC(points=300).fit(X, np.array(["a", "b", "c"])[X[:, 0].astype(int)]).coreset_
    assert (np.array(["a", "b", "c"])[rows[:, 0].astype(int)] == labels).all()

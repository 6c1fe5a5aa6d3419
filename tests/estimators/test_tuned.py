"""`CoresetSVC(tune="auto")`: what it says of its choice; `tests/conformance` has it beside a trainer."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from streamsvm import CoresetSVC
from streamsvm.datasets import load_htru2

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


def test_a_copy_keeps_its_table(htru2) -> None:
    """Pickled and restored it has the same scores and predicts the same."""
    machine = clone(TUNED[1]).fit(*htru2)
    copy = pickle.loads(pickle.dumps(machine))
    assert copy.tuning_ == machine.tuning_
    assert copy.alpha_ == machine.alpha_
    assert np.array_equal(copy.decision_function(htru2[0]), machine.decision_function(htru2[0]))

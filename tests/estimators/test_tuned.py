"""`CoresetSVC(tune="auto")`: what it says of its choice; `tests/conformance` has it beside a trainer."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from streamsvm import CoresetSVC

pytestmark = pytest.mark.filterwarnings("ignore::streamsvm.estimators.stream.CoresetWarning")
TUNED = [
    CoresetSVC(points=600, tune="auto"),
    CoresetSVC(points=600, tune="auto", kernel="rbf"),
    CoresetSVC(points=600, tune="auto", C=1.0, class_weight="balanced"),
]


@pytest.mark.parametrize("estimator", TUNED, ids=["linear", "rbf", "C"])
def test_the_table_says_what_was_chosen(estimator: CoresetSVC, htru2) -> None:
    """The best of the table is in force, and the attributes are those of a machine that is given it; a copy has it."""
    X, y = htru2[0][:3_000], htru2[1][:3_000]
    machine = clone(estimator).fit(X, y)
    best = max(machine.tuning_, key=lambda score: score.mean)
    assert pytest.approx(best.C, rel=1e-12) == machine.C_
    assert machine.alpha_ == pytest.approx(best.alpha, rel=1e-12)
    assert machine.gamma_ == best.gamma
    given = {"C": best.C} if estimator.C else {"alpha": best.alpha}
    width = {} if best.gamma is None else {"gamma": best.gamma}
    trained = clone(estimator).set_params(tune=None, **given, **width).fit(X, y)
    agree = machine.predict(X) == trained.predict(X)
    assert agree.mean() > 0.99  # pilots go by what is configured, so that the coresets are not quite the same
    copy = pickle.loads(pickle.dumps(machine))
    assert (copy.tuning_, copy.alpha_) == (machine.tuning_, machine.alpha_)
    assert np.array_equal(copy.decision_function(X), machine.decision_function(X))

"""What a model looks at: the features that decide are found, by what others found, and by a bounded effort."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.inspection import permutation_importance
from sklearn.svm import SVC

from streamsvm.model.kernels import Float, RbfKernel
from streamsvm.model.machine import KernelMachine, LinearMachine, Model, Scaler
from streamsvm.points import Points
from streamsvm.quality import importance as looked
from streamsvm.quality.importance import importance

GAMMA = 0.2


def circle(n: int, dimension: int = 5, seed: int = 1) -> tuple[Float, Float]:
    """Points inside and outside of a circle in the features 1 and 3; the others are noise."""
    X = np.random.Generator(np.random.PCG64(seed)).standard_normal((n, dimension))
    return X, np.where(X[:, 1] ** 2 + 2.0 * X[:, 3] ** 2 > 2.0, 1.0, -1.0)


def points(X: Float, y: Float) -> Points:
    return Points(X, y.astype(np.int8), np.ones(len(y)))


def rbf(X: Float, y: Float, gamma: float = GAMMA) -> tuple[Model, SVC]:
    """A machine that LIBSVM trained, in our form, and as it is."""
    svc = SVC(gamma=gamma).fit(X, y)
    machine = KernelMachine(RbfKernel(gamma), svc.support_vectors_, svc.dual_coef_[0], float(svc.intercept_[0]))
    return Model(Scaler.identity(X.shape[1]), machine), svc


class Deciding(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Our model with scikit-learn's face."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.classes_ = np.array([-1.0, 1.0])

    def fit(self, X: Float, y: Float) -> Deciding:
        return self

    def decision_function(self, X: Float) -> Float:
        return self.model.decision_function(X)


def test_a_kernel_machine_looks_at_what_scikit_learn_says() -> None:
    """The falls of the AUC are those of scikit-learn's permutation importance, up to what an exchange varies."""
    (X, y), (test, truth) = circle(400), circle(1_000, seed=2)
    model, _ = rbf(X, y)
    found = importance(model, points(test, truth))
    assert found is not None
    oracle = permutation_importance(
        Deciding(model), test, truth, scoring="roc_auc", n_repeats=50, random_state=np.random.RandomState(0)
    )
    apart = np.abs(found.value - oracle.importances_mean)
    assert (apart < 4.0 * oracle.importances_std / np.sqrt(looked.REPEATS) + 1e-3).all(), apart
    assert set(np.argsort(-found.share)[:2]) == {1, 3}
    assert found.share[[1, 3]].sum() > 0.9
    assert (found.signed, found.share.sum()) == (False, pytest.approx(1.0))


def test_a_linear_machine_says_it_itself() -> None:
    """Its coefficients over standardised features, their signs, and their sizes as shares; no sample is needed."""
    model = Model(Scaler(np.zeros(3), np.array([1.0, 100.0, 0.01])), LinearMachine(np.array([3.0, -1.0, 0.0]), 0.5))
    found = importance(model, None)
    assert found is not None
    assert found.value.tolist() == [3.0, -1.0, 0.0]
    assert found.share.tolist() == [0.75, 0.25, 0.0]
    assert found.signed


def test_what_says_nothing_has_no_shares() -> None:
    """A machine of zeros: shares of nothing are 0, not NaN."""
    found = importance(Model(Scaler.identity(2), LinearMachine(np.zeros(2), -1.0)), None)
    assert found is not None
    assert found.share.tolist() == [0.0, 0.0]


def test_a_kernel_machine_needs_a_sample_of_both_labels() -> None:
    """Without a sample, or with too few points of a label, nothing is said."""
    X, y = circle(200)
    model, _ = rbf(X, y)
    assert importance(model, None) is None
    few = np.flatnonzero(y < 0)[: looked.LEAST_OF_A_LABEL - 1]
    chosen = np.concatenate((few, np.flatnonzero(y > 0)))
    assert importance(model, points(X[chosen], y[chosen])) is None


def test_the_same_model_and_sample_give_the_same_bits() -> None:
    """Twice the same; and the sample is left as it was."""
    X, y = circle(300)
    model, _ = rbf(X, y)
    sample = points(X.copy(), y)
    first, second = importance(model, sample), importance(model, sample)
    assert first is not None
    assert second is not None
    assert first.value.tobytes() == second.value.tobytes()
    assert (np.asarray(sample.X) == X).all()


def test_the_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many features, points and support vectors: no more kernel values than the limit."""
    X, y = circle(600, dimension=60)
    X[:, 1] += y  # a shift of the mean, by which features are chosen where not all can be looked at
    model, svc = rbf(X[:300], y[:300], gamma=1.0 / 60.0)
    monkeypatch.setattr(looked, "MOST_KERNEL_VALUES", 10 * looked.REPEATS * looked.LEAST_POINTS * len(svc.support_))
    found = importance(model, points(X[300:], y[300:]))
    assert found is not None
    asked = int(np.isfinite(found.value).sum())
    assert found.points * asked * looked.REPEATS * len(svc.support_) <= looked.MOST_KERNEL_VALUES
    assert asked == 10
    assert int(np.argmax(found.share)) == 1


def test_an_exchange_gives_the_values_of_the_exchanged_points() -> None:
    """Moving one coordinate in the distances is the same as asking the machine about the points so changed."""
    X, y = circle(300)
    model, _ = rbf(X, y)
    machine = model.machine
    assert isinstance(machine, KernelMachine)
    order = np.random.Generator(np.random.PCG64(9)).permutation(300)
    values = looked._exchanged(machine, X, np.array([1, 4]), [order])
    for place, feature in enumerate((1, 4)):
        changed = X.copy()
        changed[:, feature] = X[order, feature]
        np.testing.assert_allclose(values[place, 0], machine.decide(changed), rtol=0, atol=1e-9)

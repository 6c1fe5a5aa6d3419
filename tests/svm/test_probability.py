"""Probabilities of decision values: scikit-learn's as the oracle, and what every fit must hold."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator

from streamsvm.model import Sigmoid
from streamsvm.svm.probability import LEAST_POINTS, fit_probability, objection, silenced

Float = NDArray[np.float64]


class Decided(ClassifierMixin, BaseEstimator):
    """A classifier whose decision value is its only feature."""

    def __init__(self) -> None:
        self.classes_ = np.array([-1, 1])

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Float, y: object) -> Decided:
        return self

    def decision_function(self, X: Float) -> Float:
        return X[:, 0]

    def predict(self, X: Float) -> NDArray[np.intp]:
        return np.where(X[:, 0] > 0, 1, -1)


def oracle(decision: Float, y: NDArray[np.int8], weight: Float, at: Float) -> Float:
    """What scikit-learn says of a machine that is there already."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Since FrozenEstimator")
        fitted = CalibratedClassifierCV(FrozenEstimator(Decided()), method="sigmoid")
        fitted.fit(decision[:, None], y, sample_weight=weight)
    return np.asarray(fitted.predict_proba(at[:, None])[:, 1])


def overlapping(n: int, sharpness: float = 1.5, seed: int = 0) -> tuple[Float, NDArray[np.int8]]:
    random = np.random.default_rng(seed)
    decision = random.normal(-0.3, 1.2, n)
    y = np.where(random.random(n) < 0.5 + 0.5 * np.tanh(0.5 * (sharpness * decision - 0.4)), 1, -1)
    return decision, y.astype(np.int8)


def bits(probability: Sigmoid) -> bytes:
    return np.array([probability.a, probability.b]).tobytes()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sharpness", [0.0, 1.5, 100.0])
def test_probabilities_are_scikit_learns(sharpness: float, weighted: bool) -> None:
    """Those of CalibratedClassifierCV around a frozen machine, whether the values say nothing, much or everything."""
    decision, y = overlapping(1_000, sharpness)
    weight = np.random.default_rng(1).uniform(0.2, 3.0, 1_000) if weighted else np.ones(1_000)
    weight /= weight.mean()
    at = np.linspace(-6.0, 6.0, 999)
    found = fit_probability(decision, y, weight).of(at)
    np.testing.assert_allclose(found, oracle(decision, y, weight, at), atol=1e-6)


def test_the_unit_of_weights_does_not_matter() -> None:
    """A long stream makes no one surer than the points that stand for it; powers of two change no bit."""
    decision, y = overlapping(300)
    weight = np.random.default_rng(1).uniform(0.2, 3.0, 300)
    found = bits(fit_probability(decision, y, weight))
    assert bits(fit_probability(decision, y, weight * 2.0**40)) == found


def test_weights_set_how_often_a_label_is() -> None:
    """Where the decision value says nothing, every probability is the label's share of the weight."""
    y = np.where(np.arange(400) % 4 == 0, 1, -1).astype(np.int8)
    weight = np.where(y > 0, 9.0, 1.0)
    found = fit_probability(np.full(400, 0.7), y, weight).of(np.array([-1e9, 0.0, 0.7, 5.0]))
    np.testing.assert_allclose(found, 0.75, atol=0.003)  # Platt's targets draw a little to the middle
    assert len(set(found)) == 1


def test_separated_labels_leave_a_sigmoid_finite() -> None:
    """Platt's targets say how sure so many points make one."""
    decision = np.concatenate((np.linspace(-2.0, -1.0, 20), np.linspace(1.0, 2.0, 20)))
    y = np.where(decision > 0, 1, -1).astype(np.int8)
    found = fit_probability(decision, y, np.ones(40))
    assert found.a < 0.0
    assert 0.01 < found.of(np.array([-1.5]))[0] < 0.06
    assert 0.94 < found.of(np.array([1.5]))[0] < 0.99


@pytest.mark.parametrize("label", [-1, 1])
def test_too_few_points_of_a_label_are_no_ground(label: int) -> None:
    """The reason names the label and the number; one point more is enough."""
    decision, y = np.linspace(-1.0, 1.0, 100), np.full(100, -label, np.int8)
    y[: LEAST_POINTS - 1] = label
    which = "positive" if label > 0 else "negative"
    assert f"holds {LEAST_POINTS - 1} points of the {which} label, but {LEAST_POINTS} are" in objection(decision, y)
    y[LEAST_POINTS - 1] = label
    assert not objection(decision, y)
    fit_probability(decision, y, np.ones(100))


def test_a_decision_value_beyond_float64_is_no_ground() -> None:
    """One row of monstrous features must not stop a daemon."""
    decision, y = overlapping(100)
    decision[3] = np.inf
    assert "not finite" in objection(decision, y)


scales = st.sampled_from([1e-12, 1e-3, 1.0, 1e4, 1e12])


@example(n=20, ties=True, scale=1.0, shift=0.0, weights=0.0, sharpness=1.0, seed=2459552)
@settings(max_examples=150, deadline=None)
@given(
    n=st.integers(2 * LEAST_POINTS, 200),
    ties=st.booleans(),
    scale=scales,
    shift=st.sampled_from([0.0, 1.0, -1e3]),
    weights=st.sampled_from([0.0, 1.0, 6.0]),
    sharpness=st.sampled_from([-3.0, 0.0, 1.0, 1e3]),
    seed=st.integers(0, 1 << 30),
)
def test_every_fit_is_monotone_within_bounds_and_repeatable(
    n: int, ties: bool, scale: float, shift: float, weights: float, sharpness: float, seed: int
) -> None:
    """Of any values, ties and weights over twelve orders: probabilities of one direction, but for the last bit, of 0
    to 1, without a warning, and to the last bit the same again."""
    decision, y = overlapping(n, sharpness, seed)
    decision = scale * (shift + (np.round(decision) if ties else decision))
    y[:LEAST_POINTS], y[LEAST_POINTS : 2 * LEAST_POINTS] = 1, -1
    weight = 10.0 ** np.random.default_rng(seed).uniform(-weights, weights, n)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fit_probability(decision, y, weight)
        again = fit_probability(decision.copy(), y.copy(), weight.copy())
    assert bits(found) == bits(again)
    at = np.sort(np.concatenate((np.linspace(-1e3, 1e3, 500) * scale, decision, [-1e300, 1e300])))
    values = found.of(at)
    assert ((values >= 0.0) & (values <= 1.0)).all()
    steps = np.diff(values)
    last_bit = np.spacing(values[1:])  # numpy's exponentials and logarithms are right but for that
    assert (steps >= -last_bit).all() or (isinstance(found, Sigmoid) and found.a > 0.0 and (steps <= last_bit).all())


def test_a_warning_is_silent_in_the_thread_that_silences_it_only() -> None:
    """Another thread's warnings stay, and the filters of others too."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        def elsewhere() -> None:
            with pytest.raises(ConvergenceWarning):
                warnings.warn("loud", ConvergenceWarning, stacklevel=1)

        with silenced(ConvergenceWarning), ThreadPoolExecutor(1) as pool:
            warnings.warn("quiet", ConvergenceWarning, stacklevel=1)
            pool.submit(elsewhere).result()
        elsewhere()
        with silenced(ConvergenceWarning, "beginning"):
            warnings.warn("beginning of a message", ConvergenceWarning, stacklevel=1)
            elsewhere()

"""The RBF pilot: what scikit-learn would decide, roughly, from the problem that training has."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from streamsvm.config import SvmConfig
from streamsvm.coreset import Moments
from streamsvm.learning.pilots import kernel_pilot, linear_pilot
from streamsvm.points import Points
from tests.streams import gaussian


def moments_of(points: Points) -> Moments:
    return Moments.zero(points.dimension).add(points)


@pytest.mark.parametrize("gamma", ["scale", "auto", 0.7])
@pytest.mark.parametrize("class_weight", ["none", (1.0, 5.0)])
def test_its_margins_are_those_of_the_machine_that_would_be_trained(
    gamma: str | float, class_weight: str | tuple[float, float]
) -> None:
    """At most a few points are active for one and idle for the other, under the node's share of the regulariser."""
    points = gaussian(600)
    config = SvmConfig(C=0.5, kernel="rbf", gamma=gamma, class_weight=class_weight)
    seen = moments_of(points)
    pilot = kernel_pilot(points, 0.5 * seen.weight, seen, config)
    Z = StandardScaler().fit_transform(points.X.astype(float), sample_weight=points.weight)
    oracle = SVC(
        C=1.0,
        gamma=gamma,
        class_weight=None if isinstance(class_weight, str) else {-1: class_weight[0], 1: class_weight[1]},
    ).fit(Z, points.y, sample_weight=points.weight)
    expected = oracle.decision_function(Z)
    assert pilot.penalty == pytest.approx(1.0)
    assert pilot.decisions is not None
    assert np.abs(pilot.decisions - expected).max() < 0.2
    differ = (points.y * pilot.decisions < 1.0) != (points.y * expected < 1.0)
    assert differ.mean() < 0.1


def test_its_bound_is_below_the_optimum_and_positive() -> None:
    """A dual objective certifies it."""
    points = gaussian(300)
    seen = moments_of(points)
    rough = kernel_pilot(points, seen.weight, seen, SvmConfig(C=1.0, kernel="rbf"))
    upper = points.weight.sum()  # w = 0 without any margin costs no more than this
    assert 0.0 < rough.lower_bound < upper


def test_one_label_is_told_by_a_bound_of_zero() -> None:
    """There is no margin then."""
    points = gaussian(30)
    alone = Points(points.X, np.ones(30, np.int8), points.weight)
    pilot = kernel_pilot(alone, 1.0, moments_of(alone), SvmConfig(kernel="rbf"))
    assert (pilot.lower_bound, pilot.intercept, pilot.decisions) == (0.0, 1.0, None)


@pytest.mark.parametrize(("dimension", "count", "gap"), [(8, 600, 0.002), (80, 2_000, 0.002), (80, 800, 0.03)])
def test_a_linear_bound_is_near_the_optimum(dimension: int, count: int, gap: float) -> None:
    """Of dense features by Newton's method, to a tenth of a per cent; of few rows a feature by interior points."""
    random = np.random.default_rng(dimension + count)
    X = random.normal(size=(count, dimension)).astype(np.float32)
    y = np.where(X[:, 0] + X[:, 1] + random.normal(size=count) > 0, 1, -1).astype(np.int8)
    points = Points(X, y, np.ones(count))
    seen = moments_of(points)
    pilot = linear_pilot(points, seen.weight, seen, SvmConfig(C=1.0))
    Z = StandardScaler().fit_transform(X.astype(float))
    oracle = SVC(C=1.0, kernel="linear", tol=1e-6).fit(Z, y)
    hinge = np.maximum(0.0, 1.0 - y * oracle.decision_function(Z)).sum()
    optimum = float(0.5 * np.square(oracle.coef_).sum() + hinge)
    assert (1.0 - gap) * optimum < pilot.lower_bound <= (1.0 + 1e-6) * optimum

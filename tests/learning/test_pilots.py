"""Pilots: what scikit-learn would decide, roughly, from the problem that training has, and a certified bound of it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from streamsvm.learning.pilots import kernel_pilot, linear_pilot
from threadpoolctl import threadpool_limits

from streamsvm.config import SvmConfig
from streamsvm.coreset.buckets import Moments
from streamsvm.learning.training import train
from streamsvm.model import LinearKernel
from streamsvm.points import Points
from streamsvm.process_wide import one_algebra_thread
from streamsvm.svm import Problem, primal_objective
from tests.streams import gaussian
from tests.svm.foreign import LibsvmSolver


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


@pytest.mark.parametrize("svm", [SvmConfig(C=0.3), SvmConfig(alpha=1e-3), SvmConfig(standardize=False)])
def test_a_pilot_bounds_the_optimum_of_its_own_node(svm: SvmConfig) -> None:
    """Its bound is certified: below the optimum under the node's share of the regulariser, and within a tenth of it."""
    stream = gaussian(900)
    node = stream.take(slice(300, 600))
    seen, own = moments_of(stream), moments_of(node)
    pilot = linear_pilot(node, own.weight, seen, svm)
    assert pilot.penalty == pytest.approx(svm.penalty(seen.weight) * seen.weight / own.weight)
    Z, upper = pilot.transform(node.X), pilot.penalty * node.weight
    exact = LibsvmSolver().solve(
        Problem(Z=Z, y=node.y, upper=upper, kernel=LinearKernel(), tolerance=1e-6, max_iterations=10_000_000)
    )
    w = (node.y * exact.alpha) @ Z
    optimum = primal_objective(Z @ w + exact.intercept, node.y, upper, float(w @ w))
    assert 0.9 * optimum < pilot.lower_bound <= optimum
    found = Z @ pilot.coefficients + pilot.intercept
    assert primal_objective(found, node.y, upper, float(pilot.coefficients @ pilot.coefficients)) < 1.1 * optimum


@pytest.mark.parametrize("standardize", [True, False])
def test_a_pilot_scales_features_as_the_trainer_does(standardize: bool) -> None:
    """Same moments, same scaler."""
    points = gaussian(100)
    svm = SvmConfig(standardize=standardize)
    scaler = train(points, moments_of(points), svm).model.scaler
    pilot = linear_pilot(points, 1.0, moments_of(points), svm)
    np.testing.assert_array_equal(pilot.mean, scaler.mean)
    np.testing.assert_array_equal(pilot.scale, scaler.scale)
    np.testing.assert_array_equal(pilot.transform(points.X), scaler.transform(points.X))


@pytest.mark.parametrize(("n", "sign"), [(1, 1), (1, -1), (30, 1), (30, -1)])
def test_a_pilot_of_one_label_knows_no_bound_but_zero(n: int, sign: int) -> None:
    """The constant of that label, and 0: there is no margin then."""
    points = gaussian(n)
    alone = Points(points.X, np.full(n, sign, np.int8), points.weight)
    pilot = linear_pilot(alone, 1.0, moments_of(alone), SvmConfig())
    assert (pilot.intercept, pilot.lower_bound, pilot.coefficients.any()) == (sign, 0.0, False)
    rbf = kernel_pilot(alone, 1.0, moments_of(alone), SvmConfig(kernel="rbf"))
    assert (rbf.intercept, rbf.lower_bound, rbf.decisions) == (sign, 0.0, None)


def test_a_solver_that_is_stopped_early_still_certifies() -> None:
    """Weights over twelve orders and an enormous C: bounded iterations, a positive finite bound."""
    points = gaussian(400).reweighted(10.0 ** np.random.default_rng(0).uniform(-6, 6, 400))
    pilot = linear_pilot(points, float(points.weight.sum()), moments_of(points), SvmConfig(C=1e3))
    assert 0 < pilot.lower_bound < np.inf
    assert np.isfinite(pilot.coefficients).all()


def test_a_pilot_does_not_depend_on_the_threads_that_linear_algebra_has() -> None:
    """Above 10,000 features it would, by its last bit; with one thread it is the same on every machine."""
    random = np.random.default_rng(1)
    y = np.where(random.random(60) < 0.5, 1, -1).astype(np.int8)
    X = random.normal(size=(60, 11_000))
    X[:, :3] += y[:, None]
    points = Points(X.astype(np.float32), y, random.uniform(0.5, 2.0, 60))
    seen, config = moments_of(points), SvmConfig(alpha=0.1)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads), one_algebra_thread():
            found.append(linear_pilot(points, seen.weight, seen, config).lower_bound)
    assert found[0] == found[1]

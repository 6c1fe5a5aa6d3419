"""Pilots: certified bounds, and what bounds of sensitivity are worth beside the truth."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.svm import SVC, LinearSVC

from streamsvm.config import SvmConfig
from streamsvm.coreset.buckets import Moments
from streamsvm.coreset.pilot import EXACT, again, dual_bound, measured, scaled_rows, solved, sparse_of
from tests.coreset.streams import Float, measure, mixture


def objective(Z: Float, y: NDArray[np.int8], upper: Float, w: Float, b: float) -> float:
    return float(0.5 * w @ w + upper @ np.maximum(0.0, 1.0 - y * (Z @ w + b)))


@pytest.mark.parametrize("seed", range(50))
def test_no_bound_exceeds_the_optimum(seed: int) -> None:
    """LIBSVM's machine has an objective above each bound, and its dual variables give a bound just below it."""
    random = np.random.default_rng(seed)
    n, d = int(random.integers(20, 80)), int(random.integers(1, 8))
    Z, y = random.standard_normal((n, d)), np.where(random.random(n) < 0.4, 1, -1).astype(np.int8)
    Z += (seed % 5) * 0.5 * y[:, None]
    upper = 10.0 ** random.uniform(-2, 0) * 10.0 ** random.uniform(-0.5, 0.5, n)
    machine = SVC(kernel="linear", C=1.0, tol=1e-6).fit(Z, y, sample_weight=upper)
    optimum = objective(Z, y, upper, machine.coef_[0], machine.intercept_[0])
    for alpha in (upper, np.zeros(n), upper * random.random(n), upper * (random.random(n) < 0.3), 2.0 * upper):
        assert 0.0 <= dual_bound(Z, y, upper, alpha) <= optimum
    alpha = np.zeros(n)
    alpha[machine.support_] = np.abs(machine.dual_coef_[0])
    assert optimum * (1.0 - 1e-4) <= dual_bound(Z, y, upper, alpha) <= optimum
    squared = LinearSVC(C=1.0, dual=False, tol=1e-10, intercept_scaling=1e4, max_iter=10_000)
    squared.fit(Z, y, sample_weight=upper)
    lowest = float(
        0.5 * squared.coef_[0] @ squared.coef_[0] + upper @ np.maximum(0, 1 - y * squared.decision_function(Z)) ** 2
    )
    w, bound = solved(np.c_[Z, np.ones(n)], y, upper, None, loss="squared_hinge")
    assert 0.998 * lowest <= bound <= lowest * (1.0 + 1e-6)
    for alpha in (upper, upper * random.random(n), 3.0 * upper):
        assert 0.0 <= dual_bound(Z, y, upper, alpha, "squared_hinge") <= lowest * (1.0 + 1e-6)
    w, bound = solved(np.c_[Z, np.ones(n)], y, upper, None)
    assert 0.98 * optimum <= bound <= optimum
    assert objective(Z, y, upper, w[:-1], w[-1]) <= 1.02 * optimum


@pytest.mark.parametrize(("n", "d"), [(40, 100), (300, 100), (1_700, 100)])
def test_wide_problems_have_bounds_too(n: int, d: int) -> None:
    """Whichever method solves them: dense, and one-hot."""
    random = np.random.default_rng(n)
    for Z in (random.standard_normal((n, d)), np.eye(d)[random.integers(0, d, n)]):
        y = np.where(Z @ random.standard_normal(d) + random.standard_normal(n) > 0, 1, -1).astype(np.int8)
        upper = random.uniform(0.1, 1.0, n)
        machine = SVC(kernel="linear", C=1.0, tol=1e-9).fit(Z, y, sample_weight=upper)
        optimum = objective(Z, y, upper, machine.coef_[0], machine.intercept_[0])
        rows = np.c_[Z, np.ones(n)]
        assert 0.8 * optimum <= solved(rows, y, upper, sparse_of(rows))[1] <= optimum


@pytest.mark.parametrize("labels", [2, 4])
@pytest.mark.parametrize(("class_weight", "alpha"), [("none", 1e-4), ("balanced", 0.1)])
@pytest.mark.parametrize("name", ["hinge", "squared_hinge"])
def test_no_machine_gives_a_row_a_larger_share_than_its_sensitivity(
    labels: int, class_weight: str, alpha: float, name: str
) -> None:
    """Of 1,000 machines: the pilot on many scales and with noise, and ones that point at single rows."""
    points = mixture(400, 3, labels, decades=2.0)
    points.X[:5] *= 30.0
    found = measure(points, labels, class_weight=class_weight, alpha=alpha, loss=name)
    pilot, random, power = found.pilot, np.random.default_rng(8), 1 if name == "hinge" else 2
    penalty = SvmConfig(alpha=alpha).penalty(points.weight.sum())
    v, Z = points.weight * pilot.class_weight[found.label], found.rows[:, :-1]
    for problem, side in enumerate(pilot.side[:, found.label]):
        terms = pilot.terms[problem]
        # The factor that gives them their mean is the same for both sides: the first term is 1 / V_side without it.
        factor = terms[:, 0] * [v[side == one].sum() for one in (0, 1)]
        np.testing.assert_allclose(factor[0], factor[1], rtol=1e-9)
        r = np.linalg.norm(Z - pilot.centre[problem][side], axis=1)
        base, curved, steep = (terms / factor[0])[side].T
        bound = v * (base + np.minimum(curved * r**2, steep * r))
        sign, nearest = 2.0 * side - 1.0, np.inf
        for at in range(1_000):
            w = 10.0 ** random.uniform(-2, 1) * pilot.w[problem] + 10.0 ** random.uniform(
                -3, 0.5
            ) * random.standard_normal(4)
            if at % 2:
                i = at // 2 % len(v)
                w[:3] -= sign[i] * 10.0 ** random.uniform(-2, 1) * (Z[i] - pilot.centre[problem][side[i]]) / r[i]
                w[3] = sign[i] * (1.0 + random.random()) - w[:3] @ pilot.centre[problem][side[i]]
            loss = np.maximum(0.0, 1.0 - sign * (found.rows @ w)) ** power
            whole = 0.5 * w[:3] @ w[:3]
            share = (v / v.sum() * whole + penalty * v * loss) / (whole + penalty * v @ loss)
            assert (share <= bound * (1.0 + 1e-9)).all()
            nearest = min(nearest, float((bound / share).min()))
        # So far from the truth that anything would hold, the bound would test nothing.
        assert nearest < (30.0 if power == 1 else 200.0)


@pytest.mark.parametrize(("labels", "d"), [(2, 3), (4, 3), (2, EXACT), (2, EXACT + 1), (4, 60)])
@pytest.mark.parametrize("class_weight", ["none", "balanced"])
def test_points_are_worth_the_same_when_they_are_measured_again(labels: int, d: int, class_weight: str) -> None:
    """With so low a penalty that no sensitivity is held to 1, as those of kept points are."""
    points = mixture(1_000, d, labels, decades=2.0)
    found = measure(points, labels, class_weight=class_weight, alpha=1.0)
    anew = again(points, found.pilot)
    np.testing.assert_allclose(anew.worth, found.worth, rtol=1e-5)
    np.testing.assert_allclose(anew.margin, found.margin, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("given", [1e-4, 0.1])
def test_worth_is_the_mixture_that_is_written_down(given: float) -> None:
    """Recomputed from its formula with the pilot's machine and LIBSVM's optimum, which the bound is near to."""
    points = mixture(600, 3, decades=1.0)
    found, sign = measure(points, alpha=given), points.y.astype(np.float64)
    X, v = points.X.astype(np.float64), points.weight
    mean = np.average(X, axis=0, weights=v)
    Z = (X - mean) / np.sqrt(np.average(np.square(X - mean), axis=0, weights=v))
    C, w, V = SvmConfig(alpha=given).penalty(v.sum()), found.pilot.w[0], v.sum()
    machine = SVC(kernel="linear", C=1.0, tol=1e-8).fit(Z, points.y, sample_weight=C * v)
    optimum = objective(Z, points.y, C * v, machine.coef_[0], machine.intercept_[0])
    margin, one = sign * (Z @ w[:-1] + w[-1]), np.column_stack([Z, np.ones(600)])
    s = np.empty(600)
    for side in (-1, 1):
        own = points.y == side
        inside, outside = v[own].sum(), v[~own].sum()
        r = np.linalg.norm(Z[own] - np.average(Z[own], axis=0, weights=v[own]), axis=1)
        alpha = outside / (2.0 * C * V * inside)
        s[own] = 1.0 / inside + C * np.minimum(r**2 / (4.0 * alpha * optimum), r * np.sqrt(2.0 / optimum))
    bend = np.where(np.abs(1.0 - margin) < 0.3, 1.0 / 0.6, 0.0)
    H = np.diag([1.0, 1.0, 1.0, 0.0]) + C * (one * (v * bend)[:, None]).T @ one
    steep = np.clip((1.3 - margin) / 0.6, 0.0, 1.0)
    a = np.sqrt(np.einsum("ij,ij->i", one @ np.linalg.inv(H), one) * steep)
    s = np.minimum(s, 1.0 / v)
    wanted = 0.25 * s / (v @ s / V) + 0.15 + 0.6 * a / (v @ a / V)
    np.testing.assert_allclose(found.worth, wanted, rtol=1e-2)


@pytest.mark.parametrize("d", [3, 60])
def test_parts_of_one_problem_have_mean_one(d: int) -> None:
    """So a row's worth is 1 on average, whether the norm is exact or estimated."""
    points = mixture(800, d, decades=2.0)
    assert np.average(measure(points).worth, weights=points.weight) == pytest.approx(1.0, rel=1e-9)


def test_class_weights_keep_the_weight_of_what_was_seen() -> None:
    """Balanced ones give each label that was seen the same weight; a label that was not seen has the factor 1."""
    seen = np.array([6.0, 0.0, 2.0, 1.0])
    balanced = np.array(SvmConfig(class_weight="balanced").class_weights(seen))
    np.testing.assert_allclose(balanced * seen, [3.0, 0.0, 3.0, 3.0])
    assert balanced[1] == 1.0
    assert SvmConfig(class_weight="none").class_weights(seen) == (1.0,) * 4
    assert SvmConfig(class_weight=(1.0, 2.0, 3.0, 4.0)).class_weights(seen) == (1.0, 2.0, 3.0, 4.0)


@pytest.mark.parametrize("labels", [2, 4])
def test_one_label_alone_has_no_pilot(labels: int) -> None:
    points = mixture(50, labels=labels)
    only = points.take(points.y == points.y[0])
    seen = Moments.zero(3, labels).add(only)
    assert measured(only, seen.weight, seen, SvmConfig(), np.random.default_rng(0)) is None


def test_own_margins_are_those_of_the_problem_of_the_label() -> None:
    """A label without a problem has the margin 0."""
    points = mixture(200, labels=4)
    points = points.take(points.y != 2)
    found = measure(points, 4)
    assert found.pilot.side.tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]]
    own = found.pilot.own_margin(found.margin, found.label)
    rows = scaled_rows(points, found.pilot.scaling)
    for problem, label in enumerate((0, 1, 3)):
        mine = points.y == label
        np.testing.assert_allclose(own[mine], (rows @ found.pilot.w[problem])[mine], atol=1e-9)
    assert not found.pilot.own_margin(found.margin, np.full(len(points), 2)).any()

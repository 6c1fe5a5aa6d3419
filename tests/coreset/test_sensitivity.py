"""Bounds of how much a point can matter, and certified lower bounds of the optimum."""

from __future__ import annotations

import numpy as np
import pytest

from streamsvm.coreset.sensitivity import direct_bound, dual_bound, mean_bound
from streamsvm.model import LinearKernel
from streamsvm.points import Points
from streamsvm.svm import Problem, Solution, StdaSolver, optimality
from tests.streams import gaussian


def small_set(n: int = 14, dimension: int = 2, spread: float = 0.0, seed: int = 3) -> Points:
    """Return few points of two overlapping classes, weights over `spread` orders of magnitude."""
    points = gaussian(n, seed=seed, dimension=dimension)
    weight = 10.0 ** (spread * np.random.default_rng(seed + 1).random(n))
    return Points(points.X.astype(np.float64), points.y, weight)


def solved(points: Points, penalty: float) -> tuple[Solution, float]:
    """Return a solution to ten digits, and the certified lower bound that it gives."""
    upper = penalty * points.weight
    solution = StdaSolver().solve(
        Problem(Z=points.X, y=points.y, upper=upper, kernel=LinearKernel(), tolerance=1e-9, max_iterations=1_000_000)
    )
    return solution, dual_bound(points.X, points.y, upper, solution.alpha)


def test_the_direct_bound_is_the_greatest_value_of_its_curve() -> None:
    """The closed form equals a fine search over r of (a r - alpha r^2) / max(opt, r^2 / 2)."""
    random = np.random.default_rng(2)
    r = np.concatenate([[0.0], np.geomspace(1e-6, 1e6, 400_001)])
    for _ in range(20):
        alpha, distance, optimum = 10.0 ** random.uniform(-2, 2, 3)
        curve = (distance * r - alpha * r * r) / np.maximum(optimum, r * r / 2)
        made = direct_bound(np.array([alpha]), np.array([distance]), optimum)[0]
        assert made == pytest.approx(curve.max(), rel=1e-4)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("penalty", [1e-6, 1e-2, 1.0, 1e4])
def test_lower_bounds_are_below_the_optimum(seed: int, penalty: float) -> None:
    """From good, poor and senseless dual variables, and from the means alone: positive, and below F."""
    points = small_set(60, 3, spread=3, seed=seed)
    upper = penalty * points.weight
    solution, tight = solved(points, penalty)
    primal = optimality(points.X, points.y, upper, solution.alpha, solution.intercept, LinearKernel()).primal
    random = np.random.default_rng(seed)
    for alpha in (solution.alpha, solution.alpha * random.uniform(0.5, 1.5, 60), random.normal(size=60) * upper):
        assert 0 < dual_bound(points.X, points.y, upper, alpha) <= primal
    assert 0 < mean_bound(points.X, points.y, points.weight, penalty) <= tight * (1 + 1e-6)


def test_one_label_has_no_positive_bound() -> None:
    """The optimum is 0, so is its bound."""
    points = small_set()
    alone = Points(points.X, np.ones(len(points), np.int8), points.weight)
    assert mean_bound(alone.X, alone.y, alone.weight, 1.0) == 0.0
    assert dual_bound(alone.X, alone.y, alone.weight, alone.weight) == 0.0

"""The two subproblems against scipy and against their own optimality conditions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from streamsvm.model import Float
from streamsvm.papers.subproblem import minimise_in_box, minimise_with_equality, move_pair


def quadratic(seed: int, m: int, rank: int) -> tuple[Float, Float, Float, Float, Float]:
    """Return a root A of H = A'A of a given rank, c in its range and off it, and bounds around 0."""
    random = np.random.default_rng(seed)
    A = random.normal(size=(rank, m))
    low, high = -random.exponential(size=m), random.exponential(size=m)
    low[random.random(m) < 0.3] = 0.0
    return A, A.T @ A, random.normal(size=m), low, high


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 10_000), st.integers(1, 15), st.integers(1, 15))
def test_the_box_minimum_meets_the_conditions(seed: int, m: int, rank: int) -> None:
    """At a lower bound the gradient is >= 0, at an upper <= 0, inside 0; singular Hessians included."""
    _, H, c, low, high = quadratic(seed, m, rank)
    t = np.zeros(m)
    decrease = minimise_in_box(H, c, low, high, 1e-9, t)
    gradient = H @ t + c
    assert (low <= t).all()
    assert (t <= high).all()
    assert decrease == pytest.approx(-(0.5 * t @ H @ t + c @ t), abs=1e-9)
    inside = (t > low) & (t < high)
    assert np.abs(gradient[inside]).max(initial=0.0) <= 1e-8
    assert gradient[t == low].min(initial=0.0) >= -1e-8
    assert gradient[t == high].max(initial=0.0) <= 1e-8


def test_a_direction_without_curvature_runs_to_its_bound() -> None:
    """Two duplicated points under different labels: H = 0, and the step is as long as the box."""
    t = np.zeros(2)
    minimise_in_box(np.zeros((2, 2)), np.array([-1.0, 2.0]), np.array([-3.0, -4.0]), np.array([5.0, 6.0]), 1e-9, t)
    assert t.tolist() == [5.0, -4.0]


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 10_000), st.integers(2, 20))
def test_the_equality_minimum_leaves_no_violating_pair(seed: int, m: int) -> None:
    """The sum is kept, the box too, and no pair violates by more than asked for."""
    _, K, p, low, high = quadratic(seed, m, m + 5)
    b = np.zeros(m)
    gradient = p.copy()
    minimise_with_equality(K, gradient, low, high, 1e-6, b)
    assert abs(b.sum()) <= 1e-12
    assert ((low <= b) & (b <= high)).all()
    np.testing.assert_allclose(gradient, K @ b + p, atol=1e-9)
    assert gradient[b > low].max(initial=-np.inf) - gradient[b < high].min(initial=np.inf) <= 1e-6


@pytest.mark.parametrize(("t", "expected"), [(0.5, (0.7, -0.7)), (9.0, (1.0, -1.0)), (-9.0, (0.0, 0.0))])
def test_a_pair_stands_exactly_on_the_bound_it_reaches(t: float, expected: tuple[float, float]) -> None:
    """A step to the end of the box ends on the bound's own bits, not a rounding away from it."""
    b = np.array([0.2, -0.2])
    move_pair(b, np.array([0.0, -1.0]), np.array([1.0, 0.0]), 0, 1, t)
    assert b.tolist() == list(expected)

"""STDA-SVM: the rules of the paper one by one, and properties that no input may break; `tests/svm` has the oracles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from streamsvm.model import Float, LinearKernel
from streamsvm.papers.stda import Method, PaperStdaSolver, along_directions, minimise_in_box, violating_pairs
from tests.svm.problems import Case, problem_of
from tests.svm.references import certified

METHODS: tuple[Method, ...] = ("stda", "svmlight")


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1_000), st.sampled_from(METHODS))
def test_every_iterate_is_feasible_and_none_is_worse(seed: int, method: Method) -> None:
    """Boxes hold exactly, the equality to rounding, the dual never falls and stays below the primal."""
    case = Case("gaussian" if seed % 2 else "htru2", 60 + seed % 50, "rbf" if seed % 3 else "linear", 3.0, seed % 4)
    problem, _ = case.make(tolerance=1e-5)
    last, total = 0.0, problem.upper.sum()
    for iterations in range(1, 30):
        found = PaperStdaSolver(method).solve(replace(problem, max_iterations=iterations))
        assert ((found.alpha >= 0) & (found.alpha <= problem.upper)).all()
        assert abs(problem.y @ found.alpha) <= 1e-13 * total
        primal, dual, _ = certified(problem, found)
        assert last - 1e-12 * total <= dual <= primal + 1e-9
        last = dual


def test_the_first_level_saves_columns_and_eta_rules_it() -> None:
    """Small eta computes fewer columns than eta = 1, where only pairs that tie with the worst come from the cache."""
    problem, _ = Case("htru2", 1_000, "rbf", 10.0, 0.0).make()
    few, many = (PaperStdaSolver(eta=eta, cache_bytes=100 * 8 * 1_000).solve(problem) for eta in (0.1, 1.0))
    assert few.converged
    assert many.converged
    assert few.columns is not None
    assert many.columns is not None
    assert few.columns < many.columns


def test_a_cache_too_small_for_one_direction_is_refused() -> None:
    """Fewer than two columns cannot make a step; two are enough."""
    problem, _ = Case("gaussian", 50, "rbf", 1.0, 0.0).make()
    with pytest.raises(ValueError, match="no room for 2 columns"):
        PaperStdaSolver(cache_bytes=16 * 50 - 1).solve(problem)
    assert PaperStdaSolver(cache_bytes=16 * 50).solve(problem).converged


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 10_000), st.integers(2, 30), st.integers(1, 8), st.sampled_from([0.0, 2.5]))
def test_pairs_are_those_of_algorithm_1(seed: int, n: int, q: int, threshold: float) -> None:
    """Sorted lists walked from both ends choose the same pairs, F with ties: disjoint, at most q."""
    random = np.random.default_rng(seed)
    F = random.integers(-5, 6, n).astype(np.float64)
    may_rise, may_fall = (np.flatnonzero(random.random(n) < 0.7) for _ in range(2))
    rising, falling = violating_pairs(F, may_rise, may_fall, q, threshold)
    R, S = sorted(may_rise.tolist(), key=lambda i: F[i]), sorted(may_fall.tolist(), key=lambda i: -F[i])
    expected = [(i, j) for i, j in zip(R[:q], S[:q], strict=False) if F[j] - F[i] > threshold]
    assert list(zip(rising, falling, strict=True)) == expected
    chosen = [*rising, *falling]
    assert len(set(chosen)) == len(chosen) <= 2 * q


@pytest.mark.parametrize("sense", [-1, 1])
@pytest.mark.parametrize("rising", [-1, 1])
@pytest.mark.parametrize("falling", [-1, 1])
def test_the_bounds_of_a_step_are_the_papers(rising: int, falling: int, sense: int) -> None:
    """The four printed cases of Section 3.3, in the variables x and C of the paper, with i rising and j falling."""
    C, x_i, x_j = 5.0, 1.0, 3.5
    y = np.array([rising, falling], np.float64)
    b, low, high = y * np.array([x_i, x_j]), np.minimum(C * y, 0), np.maximum(C * y, 0)
    printed = {
        (1, 1): (max(-x_i, x_j - C), min(x_j, C - x_i)),
        (-1, -1): (max(-x_j, x_i - C), min(x_i, C - x_j)),
        (1, -1): (max(-x_i, -x_j), min(C - x_j, C - x_i)),
        (-1, 1): (max(x_j - C, x_i - C), min(x_i, x_j)),
    }
    moved = along_directions(np.zeros((2, 2)), np.array([-1.0, 1.0]) * sense, b, low, high, 1e-9)
    t = printed[rising, falling][sense > 0]
    assert (moved - b).tolist() == [t, -t]


def test_the_first_order_term_is_the_whole_gradient() -> None:
    """A pair of different labels, for which D'e is not 0: one iteration reaches the exact optimum of two points."""
    Z, y = np.array([[1.0], [-1.0]]), np.array([1, -1], np.int8)
    found = PaperStdaSolver().solve(problem_of(Z, y, 10.0, LinearKernel(), 1e-9, max_iterations=1))
    assert found.alpha.tolist() == pytest.approx([0.5, 0.5])
    assert found.coefficients is not None
    assert found.coefficients.tolist() == pytest.approx([1.0])


def test_without_free_support_vectors_the_bias_is_the_middle() -> None:
    """Boxes so small that every variable stands on one: the optimality conditions leave an interval for the bias."""
    Z = np.array([[-3.0], [-1.0], [1.0], [5.0]])
    y = np.array([-1, -1, 1, 1], np.int8)
    found = PaperStdaSolver().solve(problem_of(Z, y, 1e-3, LinearKernel(), 1e-6))
    assert found.converged
    assert (found.alpha == 1e-3).all()
    w = 1e-3 * (5 + 1 + 1 + 3)
    allowed = (max(-1 - w * z for z in (-3.0, -1.0)), min(1 - w * z for z in (1.0, 5.0)))
    assert found.intercept == pytest.approx(sum(allowed) / 2)


def test_the_last_iteration_allowed_may_converge() -> None:
    """A bound that is met by the very iteration that reaches the optimum counts as converged."""
    problem, _ = Case("gaussian", 200, "rbf", 1.0, 0.0).make()
    needed = PaperStdaSolver().solve(problem).iterations
    assert PaperStdaSolver().solve(replace(problem, max_iterations=needed)).converged
    assert not PaperStdaSolver().solve(replace(problem, max_iterations=needed - 1)).converged


def quadratic(seed: int, m: int, rank: int) -> tuple[Float, Float, Float, Float]:
    """Return H of a given rank, c in its range and off it, and bounds around 0."""
    random = np.random.default_rng(seed)
    A = random.normal(size=(rank, m))
    low, high = -random.exponential(size=m), random.exponential(size=m)
    low[random.random(m) < 0.3] = 0.0
    return A.T @ A, random.normal(size=m), low, high


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 10_000), st.integers(1, 15), st.integers(1, 15))
def test_the_box_minimum_meets_the_conditions(seed: int, m: int, rank: int) -> None:
    """At a lower bound the gradient is >= 0, at an upper <= 0, inside 0; singular Hessians included."""
    H, c, low, high = quadratic(seed, m, rank)
    t = minimise_in_box(H, c, low, high, 1e-9)
    gradient = H @ t + c
    assert ((low <= t) & (t <= high)).all()
    inside = (t > low) & (t < high)
    assert np.abs(gradient[inside]).max(initial=0.0) <= 1e-8
    assert gradient[t == low].min(initial=0.0) >= -1e-8
    assert gradient[t == high].max(initial=0.0) <= 1e-8


def test_a_direction_without_curvature_runs_to_its_bound() -> None:
    """Two duplicated points under different labels: H = 0, and the step is as long as the box."""
    t = minimise_in_box(np.zeros((2, 2)), np.array([-1.0, 2.0]), np.array([-3.0, -4.0]), np.array([5.0, 6.0]), 1e-9)
    assert t.tolist() == [5.0, -4.0]

"""STDA-SVM: the optimum by outside oracles, the paper's rules one by one, and properties that no input may break."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from streamsvm.model import Float, Kernel, LinearKernel, RbfKernel
from streamsvm.papers.stda import Descent, Method, PaperStdaSolver, StdaState, select_pairs, step_bounds
from streamsvm.svm import Problem, optimality, scores_without_bias
from tests.svm.foreign import LibsvmSolver
from tests.svm.problems import Case, weights

METHODS: tuple[Method, ...] = ("stda", "svmlight")

CASES = [
    Case("gaussian", 600, "linear", 100.0, 3.0),
    Case("gaussian", 800, "rbf", 1.0, 3.0),
    Case("htru2", 1_500, "linear", 1.0, 3.0),
    Case("htru2", 1_500, "rbf", 100.0, 0.0),
    Case("htru2", 400, "rbf", 1e4, 3.0),
]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_optimum_is_that_of_libsvm(case: Case, method: Method) -> None:
    """The same dual objective to 1e-6, the same sign on 99.9 % of fresh points, and our true gap is the one asked for.

    The primal objectives agree only as far as either is certified: each lies within its own duality gap.
    """
    problem, fresh = case.make(tolerance=1e-4)
    ours, theirs = PaperStdaSolver(method).solve(problem), LibsvmSolver().solve(problem)
    measured = [
        optimality(problem.Z, problem.y, problem.upper, found.alpha, found.intercept, problem.kernel)
        for found in (ours, theirs)
    ]
    assert ours.converged
    assert measured[0].kkt_gap <= 1e-4
    assert measured[0].dual == pytest.approx(measured[1].dual, rel=1e-6)
    assert measured[0].dual <= measured[1].primal
    assert measured[1].dual <= measured[0].primal
    signs = [
        np.sign(problem.kernel.gram(fresh, problem.Z) @ (problem.y * found.alpha) + found.intercept)
        for found in (ours, theirs)
    ]
    assert np.mean(signs[0] == signs[1]) > 0.999


@pytest.mark.parametrize("case", [case for case in CASES if case.box == 1.0], ids=str)
def test_a_polished_optimum_is_certified(case: Case) -> None:
    """At a tolerance of 1e-6 primal and dual objective agree to 1e-5: float64 kernel values reach what is asked for."""
    problem, _ = case.make(tolerance=1e-6)
    found = PaperStdaSolver().solve(problem)
    measured = optimality(problem.Z, problem.y, problem.upper, found.alpha, found.intercept, problem.kernel)
    assert found.converged
    assert measured.kkt_gap <= 1e-6
    assert measured.primal == pytest.approx(measured.dual, rel=1e-5)


def brute_force(problem: Problem) -> float:
    """Return the least f over every way to put each variable on a bound or leave it free."""
    y = problem.y.astype(np.float64)
    K = problem.kernel.gram(problem.Z, problem.Z)
    G = K * np.outer(y, y)
    best = np.inf
    for places in itertools.product((0, 1, 2), repeat=len(y)):
        place = np.array(places)
        a = np.where(place == 1, problem.upper, 0.0)
        free = np.flatnonzero(place == 2)
        if len(free):
            k = len(free)
            system = np.zeros((k + 1, k + 1))
            system[:k, :k] = G[np.ix_(free, free)]
            system[:k, k] = system[k, :k] = y[free]
            right = np.append(1.0 - G[free] @ a, -(y @ a))
            a[free] = np.linalg.lstsq(system, right, rcond=None)[0][:k]
        feasible = (a >= -1e-12).all() and (a <= problem.upper + 1e-12).all() and abs(y @ a) < 1e-10
        if feasible:
            best = min(best, float(0.5 * a @ G @ a - a.sum()))
    return best


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.integers(2, 6), st.sampled_from(METHODS), st.booleans())
def test_small_problems_by_brute_force(seed: int, n: int, method: Method, linear: bool) -> None:
    """Up to six points, every set of active bounds tried: no f is lower than ours."""
    random = np.random.default_rng(seed)
    Z = random.normal(size=(n, 2)).round(1)
    y = np.array([1, -1, *random.choice([-1, 1], n - 2)], np.int8)
    kernel: Kernel = LinearKernel() if linear else RbfKernel(0.7)
    problem = Problem(
        Z=Z, y=y, upper=random.uniform(0.1, 3.0, n), kernel=kernel, tolerance=1e-9, max_iterations=100_000
    )
    run = Descent(Z, y, problem.upper, kernel, 1e-9, method)
    run.advance(100_000)
    assert run.converged
    assert run.objective == pytest.approx(brute_force(problem), abs=1e-7)


def small_run(seed: int, method: Method, **options: int) -> tuple[Problem, Descent]:
    case = Case("gaussian" if seed % 2 else "htru2", 60 + seed % 50, "rbf" if seed % 3 else "linear", 3.0, seed % 4)
    problem, _ = case.make(tolerance=1e-5)
    return problem, Descent(problem.Z, problem.y, problem.upper, problem.kernel, 1e-5, method, **options)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1_000), st.sampled_from(METHODS))
def test_every_iterate_is_feasible_and_none_is_worse(seed: int, method: Method) -> None:
    """Boxes hold exactly, the equality to rounding, the dual never falls and stays below the primal."""
    problem, run = small_run(seed, method)
    last = 0.0
    for _ in range(60):
        run.advance(1)
        alpha = run.alpha
        assert (alpha >= 0).all()
        assert (alpha <= problem.upper).all()
        assert abs(problem.y @ alpha) <= 1e-13 * problem.upper.sum()
        scores = scores_without_bias(problem.Z, problem.y, alpha, problem.kernel)
        norm = float((problem.y * alpha) @ scores)
        dual = float(alpha.sum()) - 0.5 * norm
        hinge = np.maximum(0.0, 1.0 - problem.y * scores)
        assert dual >= last - 1e-12 * problem.upper.sum()
        assert dual <= 0.5 * norm + problem.upper @ hinge + 1e-9
        assert run.objective == pytest.approx(-dual, rel=1e-9, abs=1e-9)
        last = dual


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1_000), st.sampled_from(METHODS), st.lists(st.integers(1, 20), max_size=5))
def test_a_run_in_parts_gives_the_bits_of_the_whole(seed: int, method: Method, parts: list[int]) -> None:
    """However a run is cut up, and however often it is repeated, its result has the same bits."""
    _, whole = small_run(seed, method)
    whole.advance(10_000)
    _, run = small_run(seed, method)
    for part in [*parts, 10_000]:
        run.advance(part)
    assert run.alpha.tobytes() == whole.alpha.tobytes()
    assert run.centred_intercept == whole.centred_intercept


def test_the_first_level_saves_columns_and_eta_rules_it() -> None:
    """Small eta: most iterations run on cached columns; eta = 1: only those whose pairs all tie with the worst."""
    problem, _ = Case("htru2", 1_000, "rbf", 10.0, 0.0).make()
    runs = [
        Descent(problem.Z, problem.y, problem.upper, problem.kernel, 1e-3, "stda", eta=eta, cache_bytes=100 * 8 * 1_000)
        for eta in (0.1, 1.0)
    ]
    for run in runs:
        run.advance(100_000)
        assert run.converged
    assert runs[0].cached_iterations > 0.5 * runs[0].iterations
    assert runs[1].cached_iterations < 0.1 * runs[1].iterations
    assert runs[0].cache_counts[1] < runs[1].cache_counts[1]


def state_of(seed: int, n: int) -> StdaState:
    """Return a random state: some variables on each bound, gradients with ties."""
    random = np.random.default_rng(seed)
    low = -random.choice([0.0, 1.0], n)
    high = low + 1.0
    b = np.clip(random.uniform(-1.5, 1.5, n), low, high)
    return StdaState(b, random.integers(-5, 6, n).astype(np.float64), low, high, np.arange(n), np.zeros(1, np.int64))


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 10_000), st.integers(2, 30), st.integers(1, 8), st.sampled_from([0.0, 2.5]))
def test_partial_selection_is_sorting(seed: int, n: int, q: int, threshold: float) -> None:
    """Algorithm 1 by its letter, sorted lists walked from both ends, chooses the same pairs: disjoint, at most q."""
    state = state_of(seed, n)
    high, low = np.empty(q, np.int64), np.empty(q, np.int64)
    pairs = select_pairs(state, state.everyone, q, threshold, high, low)
    may_fall = [i for i in np.argsort(-state.F, kind="stable") if state.b[i] > state.low[i]]
    may_rise = [j for j in np.argsort(state.F, kind="stable") if state.b[j] < state.high[j]]
    expected = [(i, j) for i, j in zip(may_fall[:q], may_rise[:q], strict=False) if state.F[i] - state.F[j] > threshold]
    assert list(zip(high[:pairs], low[:pairs], strict=True)) == expected
    chosen = [*high[:pairs], *low[:pairs]]
    assert len(set(chosen)) == len(chosen) <= 2 * q


@pytest.mark.parametrize("rising", [-1, 1])
@pytest.mark.parametrize("falling", [-1, 1])
def test_the_bounds_of_a_step_are_the_papers(rising: int, falling: int) -> None:
    """The four printed cases of Section 3.3, in the variables x and C of the paper, with i rising and j falling."""
    C, x_i, x_j = 5.0, 1.0, 3.5
    y = np.array([rising, falling], np.float64)
    bound = C * y
    b = y * np.array([x_i, x_j])
    state = StdaState(b, np.zeros(2), np.minimum(bound, 0), np.maximum(bound, 0), np.arange(2), np.zeros(1, np.int64))
    printed = {
        (1, 1): (max(-x_i, x_j - C), min(x_j, C - x_i)),
        (-1, -1): (max(-x_j, x_i - C), min(x_i, C - x_j)),
        (1, -1): (max(-x_i, -x_j), min(C - x_j, C - x_i)),
        (-1, 1): (max(x_j - C, x_i - C), min(x_i, x_j)),
    }
    assert step_bounds(state, 0, 1) == printed[rising, falling]


def test_the_first_order_term_is_the_whole_gradient() -> None:
    """A pair of different labels, for which D'e is not 0: one iteration reaches the exact optimum of two points."""
    Z, y = np.array([[1.0], [-1.0]]), np.array([1, -1], np.int8)
    run = Descent(Z, y, np.full(2, 10.0), LinearKernel(), 1e-9)
    run.advance(1)
    assert run.alpha.tolist() == pytest.approx([0.5, 0.5])
    assert run.coefficients.tolist() == pytest.approx([1.0])


def test_without_free_support_vectors_the_bias_is_the_middle() -> None:
    """Boxes so small that every variable stands on one: the optimality conditions leave an interval for the bias."""
    Z = np.array([[-3.0], [-1.0], [1.0], [5.0]])
    y = np.array([-1, -1, 1, 1], np.int8)
    run = Descent(Z, y, np.full(4, 1e-3), LinearKernel(), 1e-6)
    run.advance(100)
    assert run.converged
    assert (run.alpha == 1e-3).all()
    w = 1e-3 * (5 + 1 + 1 + 3)
    allowed = (max(-1 - w * z for z in (-3.5, -1.5)), min(1 - w * z for z in (0.5, 4.5)))
    assert run.centred_intercept == pytest.approx(sum(allowed) / 2)


@pytest.mark.parametrize("shift", [1e3, 1e6])
@pytest.mark.parametrize("kernel", [LinearKernel(), RbfKernel(0.2)], ids=str)
def test_an_offset_does_not_make_the_result_wrong(kernel: Kernel, shift: float) -> None:
    """Features far from the origin give the same objective and the same decisions as near it."""
    problem, fresh = Case("gaussian", 300, "rbf", 1.0, 1.0).make(tolerance=1e-5)

    def decide(Z: Float, points: Float) -> tuple[float, Float]:
        there = Problem(Z=Z, y=problem.y, upper=problem.upper, kernel=kernel, tolerance=1e-5, max_iterations=100_000)
        found = PaperStdaSolver().solve(there)
        assert found.converged
        measured = optimality(Z, problem.y, problem.upper, found.alpha, found.intercept, kernel)
        if found.coefficients is not None:
            return measured.primal, points @ found.coefficients + found.intercept
        return measured.primal, kernel.gram(points, Z) @ (problem.y * found.alpha) + found.intercept

    near, far = decide(problem.Z, fresh), decide(problem.Z + shift, fresh + shift)
    assert far[0] == pytest.approx(near[0], rel=1e-5)
    np.testing.assert_allclose(far[1], near[1], atol=1e-3)


def test_the_last_iteration_allowed_may_converge() -> None:
    """A bound that is met by the very iteration that reaches the optimum counts as converged."""
    problem, _ = Case("gaussian", 200, "rbf", 1.0, 0.0).make()
    needed = PaperStdaSolver().solve(problem).iterations
    assert PaperStdaSolver().solve(replace(problem, max_iterations=needed)).converged
    assert not PaperStdaSolver().solve(replace(problem, max_iterations=needed - 1)).converged


def test_weights_over_twelve_orders() -> None:
    """Tiny boxes beside huge ones: feasible, converged, and certified by the duality gap."""
    case = Case("gaussian", 200, "rbf", 1.0, 0.0)
    problem, _ = case.make()
    upper = weights(200, 12.0, 1.0)
    found = PaperStdaSolver().solve(
        Problem(Z=problem.Z, y=problem.y, upper=upper, kernel=problem.kernel, tolerance=1e-6, max_iterations=10**6)
    )
    assert found.converged
    measured = optimality(problem.Z, problem.y, upper, found.alpha, found.intercept, problem.kernel)
    assert measured.kkt_gap <= 1e-6
    assert measured.primal == pytest.approx(measured.dual, rel=1e-5)

"""STDA-SVM: the rules of the paper one by one, and properties that no input may break; `tests/svm` has the oracles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from streamsvm.model import LinearKernel
from streamsvm.papers.kernel_columns import COMPUTED
from streamsvm.papers.stda import FIRST_LEVEL, Descent, Method, PaperStdaSolver, StdaState, select_pairs, step_bounds
from streamsvm.svm import Problem, scores_without_bias
from tests.svm.problems import Case

METHODS: tuple[Method, ...] = ("stda", "svmlight")


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
    first_level = [run._state.counts[FIRST_LEVEL] / run.iterations for run in runs]
    assert first_level[0] > 0.5
    assert first_level[1] < 0.1
    assert runs[0]._columns.counts[COMPUTED] < runs[1]._columns.counts[COMPUTED]


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


def test_the_last_iteration_allowed_may_converge() -> None:
    """A bound that is met by the very iteration that reaches the optimum counts as converged."""
    problem, _ = Case("gaussian", 200, "rbf", 1.0, 0.0).make()
    needed = PaperStdaSolver().solve(problem).iterations
    assert PaperStdaSolver().solve(replace(problem, max_iterations=needed)).converged
    assert not PaperStdaSolver().solve(replace(problem, max_iterations=needed - 1)).converged

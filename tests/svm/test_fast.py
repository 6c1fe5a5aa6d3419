"""STDA by blocks: the optimum by outside oracles, the same bits always, and a defined end to every run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from streamsvm.model import Kernel, LinearKernel, RbfKernel
from streamsvm.papers import PaperStdaSolver
from streamsvm.svm.block import descent as fast
from streamsvm.svm.block.descent import BlockDescent
from streamsvm.svm.objective import optimality
from streamsvm.svm.problem import Problem, Solution
from streamsvm.svm.solvers import StdaSolver
from tests.papers.test_stda import CASES, brute_force
from tests.streams import gaussian
from tests.svm.foreign import LibsvmSolver
from tests.svm.problems import Case, copies, weights

LARGER = [
    Case("gaussian", 2_000, "linear", 1.0, 3.0),
    Case("gaussian", 2_000, "rbf", 10.0, 3.0),
    Case("htru2", 3_000, "linear", 10.0, 3.0),
    Case("htru2", 3_000, "rbf", 1.0, 0.0),
    Case("htru2", 3_000, "rbf", 1e3, 3.0),
]


def certified(problem: Problem, found: Solution) -> tuple[float, float, float]:
    """Return primal, dual and gap by the definitions, with numpy's own exponential."""
    centred = problem.Z - problem.Z.mean(axis=0)
    scores = problem.kernel.gram(centred, centred) @ (problem.y * found.alpha)
    norm = float((problem.y * found.alpha) @ scores)
    shift = float(found.coefficients @ problem.Z.mean(axis=0)) if found.coefficients is not None else 0.0
    hinge = np.maximum(0.0, 1.0 - problem.y * (scores + found.intercept + shift))
    F = scores - problem.y
    may_fall = np.where(problem.y > 0, found.alpha > 0, found.alpha < problem.upper)
    may_rise = np.where(problem.y > 0, found.alpha < problem.upper, found.alpha > 0)
    gap = F[may_fall].max() - F[may_rise].min()
    return 0.5 * norm + float(problem.upper @ hinge), float(found.alpha.sum()) - 0.5 * norm, max(0.0, float(gap))


@pytest.mark.parametrize("case", [*CASES, *LARGER], ids=str)
def test_the_optimum_is_libsvms_or_better_and_what_a_solution_says_of_itself_is_true(case: Case) -> None:
    """At an equal tolerance no dual objective is 1e-6 below LIBSVM's, and signs on fresh points are the same; gap and
    both objectives are those of an independent computation, and the gap meets the tolerance."""
    problem, fresh = case.make(tolerance=1e-3)
    ours, theirs = StdaSolver().solve(problem), LibsvmSolver().solve(problem)
    primal, dual, gap = certified(problem, ours)
    other = certified(problem, theirs)[1]
    assert ours.converged
    assert dual >= other - 1e-6 * abs(other)
    K = problem.kernel.gram(fresh, problem.Z)
    signs = [np.sign(K @ (problem.y * found.alpha) + found.intercept) for found in (ours, theirs)]
    assert np.mean(signs[0] == signs[1]) > 0.999
    assert ours.optimality is not None
    assert gap == pytest.approx(ours.optimality.kkt_gap, abs=1e-9 * max(1.0, case.box))
    assert gap <= 1e-3
    assert primal == pytest.approx(ours.optimality.primal, rel=1e-9)
    assert dual == pytest.approx(ours.optimality.dual, rel=1e-9)


@pytest.mark.parametrize("tolerance", [1e-5, 1e-9])
@pytest.mark.parametrize("case", [case for case in CASES if case.box == 1.0], ids=str)
def test_tight_tolerances_are_met(case: Case, tolerance: float) -> None:
    """Where float32 kernel values end, float64 ones go on: primal and dual objective meet."""
    problem, _ = case.make(tolerance=tolerance)
    found = StdaSolver().solve(problem)
    primal, dual, gap = certified(problem, found)
    assert found.converged
    assert gap <= tolerance + 1e-12
    assert primal == pytest.approx(dual, rel=10 * tolerance)


@pytest.mark.long(keep=("htru2-*",))
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("source", ["gaussian", "htru2"])
def test_large_unequal_boxes_reach_the_optimum(source: str, kernel: str) -> None:
    """Mean box 1e4 over three orders: converged and certified, where LIBSVM is stopped by its bound or no better."""
    problem, _ = Case(source, 1_500, kernel, 1e4, 3.0).make(tolerance=1e-3, max_iterations=1_000_000)
    found, other = StdaSolver().solve(problem), LibsvmSolver().solve(problem)
    primal, dual, gap = certified(problem, found)
    assert found.converged
    assert gap <= 1e-3
    assert primal == pytest.approx(dual, rel=1e-2)
    assert dual >= certified(problem, other)[1] * (1 - 1e-6)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.integers(2, 6), st.booleans())
def test_small_problems_by_brute_force(seed: int, n: int, linear: bool) -> None:
    """Up to six points, every set of active bounds tried: no f is lower than ours."""
    random = np.random.default_rng(seed)
    Z = random.normal(size=(n, 2)).round(1)
    y = np.array([1, -1, *random.choice([-1, 1], n - 2)], np.int8)
    kernel: Kernel = LinearKernel() if linear else RbfKernel(0.7)
    problem = Problem(
        Z=Z, y=y, upper=random.uniform(0.1, 3.0, n), kernel=kernel, tolerance=1e-9, max_iterations=100_000
    )
    found = StdaSolver().solve(problem)
    assert found.optimality is not None
    assert found.converged
    assert -found.optimality.dual == pytest.approx(brute_force(problem), abs=1e-7)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1_000), st.lists(st.integers(1, 300), min_size=1, max_size=6))
def test_every_state_is_feasible_and_none_is_worse(seed: int, parts: list[int]) -> None:
    """Wherever a run is stopped: boxes hold exactly, the equality to rounding, and f never rises."""
    case = Case("gaussian" if seed % 2 else "htru2", 500, "rbf" if seed % 3 else "linear", 3.0, seed % 4)
    problem, _ = case.make(tolerance=1e-4)
    run = BlockDescent(problem.Z, problem.y, problem.upper, problem.kernel, problem.tolerance)
    last = 0.0
    for part in parts:
        run.advance(part)
        assert (run.alpha >= 0).all()
        assert (run.alpha <= problem.upper).all()
        assert abs(run.b.sum()) <= 1e-12 * problem.upper.sum()
        f = 0.5 * float(run.b @ (run.F - problem.y))
        assert f <= last + 1e-9 * abs(last)
        last = f


def test_an_interior_start_that_was_cut_short_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the bound on iterations ends the interior-point method early, the run stays where it was."""
    monkeypatch.setattr(fast, "PATIENCE", 0.05)
    problem, _ = Case("gaussian", 500, "linear", 3.0, 1).make(tolerance=1e-4)
    run = BlockDescent(problem.Z, problem.y, problem.upper, problem.kernel, problem.tolerance)
    last = 0.0
    while run.patience_ns < np.inf:
        run.advance(2)
        f = 0.5 * float(run.b @ (run.F - problem.y))
        assert f <= last
        last = f


@pytest.mark.parametrize(
    ("kernel", "dimension", "box"),
    [("linear", 3, 10.0), ("linear", 60, 10.0), ("rbf", 3, 1e4), ("rbf", 20, 10.0), ("rbf", 60, 10.0)],
)
def test_memory_does_not_matter(kernel: str, dimension: int, box: float) -> None:
    """The same numbers give the same bits, wherever and in which order they lie, in fresh buffers or used ones; large
    boxes take Newton's method inside a block."""
    points = gaussian(1_500, seed=3, dimension=dimension)
    made: Kernel = LinearKernel() if kernel == "linear" else RbfKernel(1.0 / dimension)
    upper = weights(1_500, 3.0, box)
    problem = Problem(
        Z=points.X.astype(np.float64), y=points.y, upper=upper, kernel=made, tolerance=1e-3, max_iterations=10**6
    )
    found = [StdaSolver().solve(replace(problem, Z=Z)) for Z in copies(problem.Z)]
    assert len({solution.alpha.tobytes() for solution in found}) == 1
    assert len({solution.intercept for solution in found}) == 1
    assert len({solution.iterations for solution in found}) == 1


def test_sparse_and_dense_layouts_agree() -> None:
    """One-hot features, standardised so that no entry is 0, are sparse around their common values; same optimum."""
    random = np.random.default_rng(4)
    X = (random.uniform(size=(2_000, 40)) < 0.05).astype(np.float64)
    y = np.where(X[:, :20].sum(axis=1) - X[:, 20:].sum(axis=1) + random.normal(0, 0.5, 2_000) > 0, 1, -1).astype(
        np.int8
    )
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    problem = Problem(
        Z=Z, y=y, upper=weights(2_000, 2.0, 5.0), kernel=RbfKernel(1 / 40), tolerance=1e-3, max_iterations=10**6
    )
    run = BlockDescent(problem.Z, problem.y, problem.upper, problem.kernel, problem.tolerance)
    assert run.source.layout.sparse  # type: ignore[union-attr]
    found, other = StdaSolver().solve(problem), PaperStdaSolver().solve(problem)
    assert found.converged
    assert certified(problem, found)[1] == pytest.approx(certified(problem, other)[1], rel=1e-6)


def test_many_dense_features_agree() -> None:
    """With more features than a small matrix product may have, the optimum is still LIBSVM's."""
    points = gaussian(1_200, seed=5, dimension=130)
    problem = Problem(
        Z=points.X.astype(np.float64),
        y=points.y,
        upper=np.full(1_200, 2.0),
        kernel=RbfKernel(1 / 130),
        tolerance=1e-3,
        max_iterations=10**6,
    )
    found, other = StdaSolver().solve(problem), LibsvmSolver().solve(problem)
    assert found.converged
    assert certified(problem, found)[1] == pytest.approx(certified(problem, other)[1], rel=1e-6)


@pytest.mark.parametrize("kernel", [LinearKernel(), RbfKernel(0.2)], ids=str)
def test_an_exhausted_run_says_so_with_its_true_gap(kernel: Kernel) -> None:
    """The bound on steps is kept to the step; what is reported is true, and more than was asked for."""
    problem, _ = Case("htru2", 1_500, "rbf", 1e3, 3.0).make(tolerance=1e-6, max_iterations=700)
    problem = replace(problem, kernel=kernel)
    found = StdaSolver().solve(problem)
    assert not found.converged
    assert found.iterations <= 700
    assert found.optimality is not None
    assert found.optimality.kkt_gap == pytest.approx(certified(problem, found)[2], rel=1e-6)
    assert found.optimality.kkt_gap > 1e-6


def test_a_tolerance_below_rounding_ends_unconverged() -> None:
    """Nothing can meet 1e-300: the run ends by itself, long before its bound, near the optimum."""
    problem, _ = Case("htru2", 600, "rbf", 10.0, 1.0).make(tolerance=1e-300, max_iterations=10**9)
    found = StdaSolver().solve(problem)
    assert not found.converged
    assert found.iterations < 10**7
    assert found.optimality is not None
    assert found.optimality.kkt_gap < 1e-6


def test_a_run_can_be_ended_between_blocks() -> None:
    """The callback sees blocks and steps grow, and its false ends the run, whose result is still a feasible one."""
    problem, _ = Case("htru2", 4_000, "rbf", 10.0, 2.0).make()
    seen: list[tuple[int, int, float]] = []

    def enough(blocks: int, steps: int, gap: float) -> bool:
        seen.append((blocks, steps, gap))
        return len(seen) < 3

    found = StdaSolver(progress=enough).solve(problem)
    assert [blocks for blocks, _, _ in seen] == [1, 2, 3]
    assert found.iterations == seen[-1][1] > seen[0][1]
    assert not found.converged
    assert (found.alpha <= problem.upper).all()


def test_the_bound_on_time_ends_a_run() -> None:
    """By the caller's clock: the third reading after the start is too late. Phases add up to what the clock showed."""
    problem, _ = Case("htru2", 4_000, "rbf", 10.0, 2.0).make()
    ticks = iter(range(10**6))
    found = StdaSolver(clock=lambda: float(next(ticks)), max_seconds=5.0).solve(problem)
    assert not found.converged
    assert found.seconds is not None
    assert set(found.seconds) == set(fast.PHASES)
    assert 0 < sum(found.seconds.values()) < next(ticks)


def test_without_a_clock_no_time_is_told() -> None:
    """Nothing that enters a model depends on time; columns and steps are counted."""
    problem, _ = Case("htru2", 1_500, "rbf", 1.0, 0.0).make()
    found = StdaSolver().solve(problem)
    assert found.seconds is None
    assert found.columns is not None
    assert np.count_nonzero(found.alpha) <= found.columns


@pytest.mark.parametrize("kernel", [LinearKernel(), RbfKernel(0.125)], ids=str)
def test_weights_over_twelve_orders(kernel: Kernel) -> None:
    """Tiny boxes beside huge ones: feasible, converged, and certified by the duality gap."""
    case = Case("htru2", 1_000, "rbf", 1.0, 0.0)
    problem, _ = case.make(tolerance=1e-4)
    problem = replace(problem, kernel=kernel, upper=weights(1_000, 12.0, 1.0))
    found = StdaSolver().solve(problem)
    primal, dual, gap = certified(problem, found)
    assert found.converged
    assert gap <= 1e-4
    assert primal == pytest.approx(dual, rel=1e-3)


def test_float32_hands_over_to_float64() -> None:
    """Far outliers make float32 exponents coarse: the gap is then met by correction from scratch or by float64."""
    problem, _ = Case("htru2", 2_000, "rbf", 1e3, 2.0).make(tolerance=2e-5)
    Z = problem.Z.copy()
    Z[::50] *= 300.0
    problem = replace(problem, Z=Z, kernel=RbfKernel(0.1))
    found = StdaSolver().solve(problem)
    measured = optimality(problem.Z, problem.y, problem.upper, found.alpha, found.intercept, problem.kernel)  # type: ignore[arg-type]
    assert found.converged
    assert measured.kkt_gap <= 2e-5


@pytest.mark.parametrize("case", LARGER[:4], ids=str)
def test_a_path_over_c_ends_where_cold_starts_do(case: Case) -> None:
    """Boxes that grow tenfold, the run going on each time: the same objectives as from nothing."""
    problem, _ = case.make(tolerance=1e-4)
    run = BlockDescent(problem.Z, problem.y, problem.upper / 100.0, problem.kernel, problem.tolerance)
    run.advance(problem.max_iterations)
    for step in (10.0, 10.0):
        run.scale_boxes(step)
        run.advance(problem.max_iterations)
    run.refresh()
    upper = run.high - run.low
    warm = optimality(problem.Z, problem.y, upper, run.alpha, _intercept(run), problem.kernel)
    cold = StdaSolver().solve(problem)
    assert run.converged
    assert upper == pytest.approx(problem.upper, rel=1e-12)
    assert ((run.alpha >= 0) & (run.alpha <= upper)).all()
    assert warm.kkt_gap <= problem.tolerance
    assert warm.dual == pytest.approx(certified(problem, cold)[1], rel=1e-6)


def _intercept(run: BlockDescent) -> float:
    w = run.coefficients
    return run.centred_intercept - (0.0 if w is None else float(w @ run.centre))

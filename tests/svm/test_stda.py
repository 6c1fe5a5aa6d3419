"""STDA by blocks: the optimum by outside oracles, the same bits always, and a defined end to every run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC, LinearSVC

from streamsvm.model import Kernel, LinearKernel, RbfKernel
from streamsvm.papers import PaperStdaSolver
from streamsvm.svm import stda
from streamsvm.svm.problem import optimality
from streamsvm.svm.rbf import KernelRows, RbfBlocks, rough_decisions
from streamsvm.svm.stda import Descent, solve
from streamsvm.svm.working_set import choose, extremes
from tests.streams import gaussian
from tests.svm.foreign import libsvm
from tests.svm.problems import Case, copies, problem_of, weights
from tests.svm.references import certified


@pytest.mark.long(keep=("htru2-*",))
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("source", ["gaussian", "htru2"])
def test_large_unequal_boxes_reach_the_optimum(source: str, kernel: str) -> None:
    """Mean box 1e4 over three orders: converged and certified, where LIBSVM is stopped by its bound or no better."""
    problem, _ = Case(source, 1_500, kernel, 1e4, 3.0).make(tolerance=1e-3, max_iterations=1_000_000)
    found, other = solve(problem), libsvm(problem)
    primal, dual, gap = certified(problem, found)
    assert found.converged
    assert gap <= 1e-3
    assert primal == pytest.approx(dual, rel=1e-2)
    assert dual >= certified(problem, other)[1] * (1 - 1e-6)


@pytest.mark.parametrize("digits", [1, 2, 9])
@pytest.mark.parametrize("fresh", [1, 30, 64])
def test_a_block_has_the_most_violating_points_and_then_free_ones(fresh: int, digits: int) -> None:
    """From each side as many as are wanted, by numpy's sort to a class's width; then the previous block's free points
    in its order."""
    n, random = 3_000, np.random.default_rng(fresh)
    F, low, high = random.normal(size=n).round(digits), np.zeros(n), np.ones(n)
    b = random.choice([0.0, 0.5, 1.0], n)
    top, bottom = extremes(F, b, low, high)
    previous, members = random.permutation(n), np.empty(160, np.int64)
    room = np.empty((2, n), np.int32), np.zeros(n, np.bool_), members
    assert choose(F, b, low, high, top, bottom, previous, fresh, *room) == len(set(members)) == 160
    rises, falls = np.sort(F[b < 1.0])[:fresh], np.sort(F[b > 0.0])[-fresh:]
    atol = 0.0 if digits == 1 else (top - bottom) / 1_000
    np.testing.assert_allclose(np.sort(F[members[: 2 * fresh]]), np.append(rises, falls), rtol=0.0, atol=atol)
    free = previous[(b[previous] == 0.5) & ~np.isin(previous, members[: 2 * fresh])]
    np.testing.assert_array_equal(members[2 * fresh :], free[: 160 - 2 * fresh])
    assert not room[1].any()


@pytest.mark.parametrize(("box", "grows"), [(0.1, False), (1e4, True)])
def test_blocks_grow_where_most_of_their_points_are_free(
    box: float, grows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small boxes leave few points free, and every block has its first size; of large boxes blocks become larger."""
    monkeypatch.setattr(stda, "BLOCK", 64)
    sizes, gram = [], RbfBlocks.gram
    monkeypatch.setattr(RbfBlocks, "gram", lambda own, members: sizes.append(len(members)) or gram(own, members))
    assert solve(Case("gaussian", 800, "rbf", box, 3.0).make(tolerance=1e-3)[0]).converged
    assert len(sizes) > 1
    assert (max(sizes) > 64) == grows


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1_000), st.lists(st.integers(1, 300), min_size=1, max_size=6))
def test_every_state_is_feasible_and_none_is_worse(seed: int, parts: list[int]) -> None:
    """Wherever a run is stopped: boxes hold exactly, the equality to rounding, and f never rises."""
    case = Case("gaussian" if seed % 2 else "htru2", 500, "rbf" if seed % 3 else "linear", 3.0, seed % 4)
    problem, _ = case.make(tolerance=1e-4)
    run = Descent(problem.Z, problem.y, problem.upper, problem.kernel, problem.tolerance)
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
    monkeypatch.setattr(stda, "PATIENCE", 0.05)
    problem, _ = Case("gaussian", 500, "linear", 3.0, 1).make(tolerance=1e-4)
    run = Descent(problem.Z, problem.y, problem.upper, problem.kernel, problem.tolerance)
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
    problem = problem_of(points.X, points.y, upper, made)
    found = [solve(replace(problem, Z=Z)) for Z in copies(problem.Z)]
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
    problem = problem_of(Z, y, weights(2_000, 2.0, 5.0), RbfKernel(1 / 40))
    run = Descent(problem.Z, problem.y, problem.upper, problem.kernel, problem.tolerance)
    assert run.source.layout.sparse  # type: ignore[union-attr]
    found, other = solve(problem), PaperStdaSolver().solve(problem)
    assert found.converged
    assert certified(problem, found)[1] == pytest.approx(certified(problem, other)[1], rel=1e-6)


def test_a_tolerance_below_rounding_ends_unconverged() -> None:
    """Nothing can meet 1e-300: the run ends by itself, long before its bound, near the optimum."""
    problem, _ = Case("htru2", 600, "rbf", 10.0, 1.0).make(tolerance=1e-300, max_iterations=10**9)
    found = solve(problem)
    assert not found.converged
    assert found.iterations < 10**7
    assert found.kkt_gap < 1e-6


def test_columns_are_counted() -> None:
    """Each support vector took one at least."""
    problem, _ = Case("htru2", 1_500, "rbf", 1.0, 0.0).make()
    found = solve(problem)
    assert found.columns is not None
    assert np.count_nonzero(found.alpha) <= found.columns


def test_float32_hands_over_to_float64() -> None:
    """Far outliers make float32 exponents coarse: the gap is then met by correction from scratch or by float64."""
    problem, _ = Case("htru2", 2_000, "rbf", 1e3, 2.0).make(tolerance=2e-5)
    Z = problem.Z.copy()
    Z[::50] *= 300.0
    problem = replace(problem, Z=Z, kernel=RbfKernel(0.1))
    found = solve(problem)
    _, _, gap = optimality(problem.Z, problem.y, problem.upper, found.alpha, found.intercept, problem.kernel)
    assert found.converged
    assert gap <= 2e-5


@pytest.mark.parametrize(
    "case", [Case("gaussian", 2_000, "rbf", 10.0, 3.0), Case("htru2", 3_000, "linear", 10.0, 3.0)], ids=str
)
def test_a_path_over_c_ends_where_cold_starts_do(case: Case) -> None:
    """Boxes that grow tenfold, the run going on each time: the same objectives as from nothing."""
    problem, _ = case.make(tolerance=1e-4)
    run = Descent(problem.Z, problem.y, problem.upper / 100.0, problem.kernel, problem.tolerance)
    run.advance(problem.max_iterations)
    for step in (10.0, 10.0):
        run.scale_boxes(step)
        run.advance(problem.max_iterations)
    run.refresh()
    upper = run.high - run.low
    _, dual, gap = optimality(problem.Z, problem.y, upper, run.alpha, run.intercept, problem.kernel)
    cold = solve(problem)
    assert run.converged
    assert upper == pytest.approx(problem.upper, rel=1e-12)
    assert ((run.alpha >= 0) & (run.alpha <= upper)).all()
    assert gap <= problem.tolerance
    assert dual == pytest.approx(certified(problem, cold)[1], rel=1e-6)


def test_a_run_that_float32_cannot_end_is_confirmed_in_double() -> None:
    """Where boxes are so large that its errors reach the tolerance, sums are computed from scratch."""
    random = np.random.default_rng(0)
    Z = random.normal(size=(600, 3))
    y = np.where(((Z**2).sum(axis=1) > 3) ^ (random.random(600) < 0.1), 1, -1).astype(np.int8)
    weight = random.uniform(0.5, 2.0, 600)
    for source in (None, KernelRows(Z, 0.2, KernelRows(Z, 0.1))):
        confirmed = []
        for box in (1.0, 1e6):
            run = Descent(Z, y, box * weight, RbfKernel(0.2), 0.03, source=source, rough=True)
            run.advance(20_000)
            confirmed.append(run.exact)
        assert confirmed == [False, True]


@pytest.mark.parametrize("times", [2.0, 4.0, 3.0])
def test_squares_of_kernel_values_are_those_of_a_larger_gamma(times: float) -> None:
    """To what float32 resolves; of other multiples they are computed anew."""
    random = np.random.default_rng(0)
    Z, others = random.normal(size=(200, 3)), random.normal(size=(400, 3))
    gammas = (0.2, times * 0.2)
    got, expected = KernelRows(Z, gammas[1], KernelRows(Z, gammas[0])), KernelRows(Z, gammas[1])
    np.testing.assert_allclose(got.gram(np.arange(200)), expected.gram(np.arange(200)), rtol=2e-5, atol=1e-30)
    b = random.normal(size=(2, 3, 200))
    for gamma, own, decided in zip(gammas, b, rough_decisions(Z, others, gammas, b), strict=True):
        np.testing.assert_allclose(decided, own @ rbf_kernel(Z, others, gamma), atol=1e-4)


@pytest.mark.parametrize("kernel", [LinearKernel(), RbfKernel(0.2)], ids=str)
@pytest.mark.parametrize(("source", "n", "box", "decades"), [
    ("gaussian", 30, 1.0, 3.0), ("htru2", 900, 0.1, 0.0), ("htru2", 900, 10.0, 3.0), ("gaussian", 900, 1e3, 2.0),
])  # fmt: skip
def test_a_squared_hinge_is_a_hard_margin_of_a_softer_kernel(
    source: str, n: int, box: float, decades: float, kernel: Kernel
) -> None:
    """With 1 / (2 C_i) on the diagonal and no upper bounds LIBSVM finds no greater dual objective; by the definitions
    primal and dual objective meet, and what a solution says of itself is true."""
    problem, _ = Case(source, n, "rbf", box, decades).make(1e-5)
    problem = replace(problem, kernel=kernel, loss="squared_hinge")
    found, y, upper = solve(problem), problem.y, problem.upper
    centred = problem.Z - problem.Z.mean(axis=0)
    K = kernel.gram(centred, centred)
    theirs = SVC(kernel="precomputed", C=1e9, tol=1e-6).fit(K + np.diag(0.5 / upper), y)
    signed = np.zeros(n)
    signed[theirs.support_] = theirs.dual_coef_[0]

    def dual(b: np.ndarray) -> float:
        return float(np.abs(b).sum() - 0.5 * b @ (K + np.diag(0.5 / upper)) @ b)

    b = y * found.alpha
    shift = 0.0 if found.coefficients is None else float(found.coefficients @ problem.Z.mean(axis=0))
    slack = np.maximum(0.0, 1.0 - y * (K @ b + found.intercept + shift))
    F = 0.5 * float(b @ K @ b) + float(upper @ slack**2)
    assert found.converged
    assert (found.alpha >= 0.0).all()
    assert abs(b.sum()) <= 1e-9 * found.alpha.sum()
    assert dual(signed) * (1.0 - 1e-6) <= dual(b) <= dual(signed) * (1.0 + 1e-4)
    assert pytest.approx(F, rel=1e-6) == dual(b)
    assert (found.primal, found.dual) == pytest.approx((F, dual(b)), rel=1e-6)  # sums of large terms of both signs
    assert found.squared_norm == pytest.approx(float(b @ K @ b), rel=1e-6)
    assert optimality(problem.Z, y, upper, found.alpha, found.intercept, kernel, "squared_hinge")[2] <= 1.1e-5


def test_a_squared_hinge_is_liblinears() -> None:
    """Weights over three orders: the hyperplane of LinearSVC, which has a penalty of 1e-8 on the bias."""
    problem, fresh = Case("htru2", 1_500, "linear", 1.0, 3.0).make(1e-6)
    found = solve(replace(problem, loss="squared_hinge"))
    theirs = LinearSVC(C=1.0, dual=False, tol=1e-10, intercept_scaling=1e4, max_iter=10_000)
    theirs.fit(problem.Z, problem.y, sample_weight=problem.upper)
    assert found.coefficients is not None
    np.testing.assert_allclose(
        fresh @ found.coefficients + found.intercept, theirs.decision_function(fresh), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("n", [300, 1_200])
def test_a_path_over_c_of_a_squared_hinge_ends_where_cold_starts_do(kernel: str, n: int) -> None:
    """Where C grows tenfold the diagonal shrinks, and the variables stay; in one block and in many."""
    problem, _ = Case("htru2", n, kernel, 10.0, 2.0).make(1e-5)
    problem = replace(problem, loss="squared_hinge")
    run = Descent(problem.Z, problem.y, problem.upper / 100.0, problem.kernel, 1e-5, loss="squared_hinge")
    run.advance(problem.max_iterations)
    for _ in range(2):
        run.scale_boxes(10.0)
        run.advance(problem.max_iterations)
    run.refresh()
    _, dual, gap = optimality(
        problem.Z, problem.y, problem.upper, run.alpha, run.intercept, problem.kernel, "squared_hinge"
    )
    assert gap <= 1.1e-5
    assert dual == pytest.approx(solve(problem).dual, rel=1e-8)

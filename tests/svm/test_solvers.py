"""Every solver behind the one interface: a defined answer to every input, and how near the optimum it comes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse

from streamsvm.model import Kernel, LinearKernel, RbfKernel
from streamsvm.papers import PaperStdaSolver
from streamsvm.svm.problem import Problem, Solution, optimality
from streamsvm.svm.stda import solve
from tests.svm.foreign import libsvm
from tests.svm.problems import Case, problem_of
from tests.svm.references import brute_force, certified, decide, interior, primal

SOLVERS: dict[str, Callable[[Problem], Solution]] = {
    "stda": solve,
    "stda-paper": PaperStdaSolver().solve,
    "interior": lambda problem: interior(problem, 1e-7),
}
LINEAR, RBF = LinearKernel(), RbfKernel(0.5)
PAIRS = [(name, LINEAR) for name in SOLVERS] + [("stda", RBF), ("stda-paper", RBF)]

DESCENTS: dict[str, tuple[Callable[[Problem], Solution], float]] = {
    "stda": (solve, 1e-3),
    "stda-paper": (PaperStdaSolver().solve, 1e-4),
    "svmlight": (PaperStdaSolver("svmlight").solve, 1e-4),
}
"""Solvers of the dual problem, and the tolerance at which each has LIBSVM's objective to six digits."""
CASES = [
    Case("gaussian", 600, "linear", 100.0, 3.0),
    Case("gaussian", 800, "rbf", 1.0, 3.0),
    Case("htru2", 1_500, "linear", 1.0, 3.0),
    Case("htru2", 1_500, "rbf", 100.0, 0.0),
    Case("htru2", 400, "rbf", 1e4, 3.0),
]
LARGER = [
    Case("gaussian", 2_000, "linear", 1.0, 3.0),
    Case("gaussian", 2_000, "rbf", 10.0, 3.0),
    Case("htru2", 3_000, "linear", 10.0, 3.0),
    Case("htru2", 3_000, "rbf", 1.0, 0.0),
    Case("htru2", 3_000, "rbf", 1e3, 3.0),
    Case("many features", 1_200, "rbf", 2.0, 0.0),
]


@pytest.mark.parametrize(
    ("name", "case"), [*itertools.product(DESCENTS, CASES), *(("stda", case) for case in LARGER)], ids=str
)
def test_the_optimum_is_libsvms_or_better_and_what_a_solution_says_of_itself_is_true(name: str, case: Case) -> None:
    """At an equal tolerance no dual objective is 1e-6 below LIBSVM's, and signs on fresh points are the same; gap and
    both objectives are those of an independent computation, and the gap meets the tolerance."""
    solver, tolerance = DESCENTS[name]
    problem, fresh = case.make(tolerance)
    ours, theirs = solver(problem), libsvm(problem)
    F, dual, gap = certified(problem, ours)
    other = certified(problem, theirs)[1]
    assert ours.converged
    assert dual >= other - 1e-6 * abs(other)
    assert dual <= F
    signs = [np.sign(decide(problem, found, fresh)) for found in (ours, theirs)]
    assert np.mean(signs[0] == signs[1]) > 0.999
    assert gap <= tolerance
    if not np.isnan(ours.dual):
        assert gap == pytest.approx(ours.kkt_gap, abs=1e-9 * max(1.0, case.box))
        assert pytest.approx(ours.primal, rel=1e-9) == F
        assert dual == pytest.approx(ours.dual, rel=1e-9)


@pytest.mark.parametrize("kernel", [LINEAR, RBF], ids=str)
def test_csr_points_have_the_optimum_of_dense_ones(kernel: Kernel) -> None:
    """The same points in a CSR array: LIBSVM's objective, and the machine is that of the dual variables."""
    random = np.random.default_rng(2)
    Z = random.normal(size=(700, 30)) * (random.random((700, 30)) < 0.1)
    y = np.where(Z.sum(axis=1) + random.normal(size=700) > 0.3, 1, -1).astype(np.int8)
    dense = problem_of(Z, y, 2.0, kernel)
    found = solve(replace(dense, Z=sparse.csr_array(Z)))
    F, dual, gap = certified(dense, found)
    assert gap <= dense.tolerance
    assert dual == pytest.approx(certified(dense, libsvm(dense))[1], rel=1e-6)
    assert (found.primal, found.dual) == pytest.approx((F, dual), rel=1e-9)
    assert primal(dense, found) == pytest.approx(F, rel=1e-9)


@pytest.mark.parametrize(("name", "tolerance"), [("stda", 1e-5), ("stda", 1e-9), ("stda-paper", 1e-6)])
@pytest.mark.parametrize("case", [case for case in CASES if case.box == 1.0], ids=str)
def test_tight_tolerances_are_met(name: str, case: Case, tolerance: float) -> None:
    """Where float32 kernel values end, float64 ones go on: primal and dual objective meet."""
    problem, _ = case.make(tolerance)
    found = SOLVERS[name](problem)
    F, dual, gap = certified(problem, found)
    assert found.converged
    assert gap <= tolerance + 1e-12
    assert pytest.approx(dual, rel=10 * tolerance) == F


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 10_000), st.integers(2, 6), st.sampled_from(list(DESCENTS)), st.booleans())
def test_small_problems_by_brute_force(seed: int, n: int, name: str, linear: bool) -> None:
    """Up to six points, every set of active bounds tried: none is better than ours."""
    random = np.random.default_rng(seed)
    Z, kernel = random.normal(size=(n, 2)).round(1), LINEAR if linear else RbfKernel(0.7)
    y = np.array([1, -1, *random.choice([-1, 1], n - 2)], np.int8)
    problem = problem_of(Z, y, random.uniform(0.1, 3.0, n), kernel, 1e-9, 100_000)
    found = DESCENTS[name][0](problem)
    assert found.converged
    assert certified(problem, found)[1] == pytest.approx(brute_force(problem), abs=1e-7)


@pytest.mark.parametrize("kernel", [LINEAR, RbfKernel(0.125)], ids=str)
@pytest.mark.parametrize(("name", "source", "n"), [("stda", "htru2", 1_000), ("stda-paper", "gaussian", 200)])
def test_weights_over_twelve_orders(name: str, source: str, n: int, kernel: Kernel) -> None:
    """Tiny boxes beside huge ones: feasible, converged, and certified by the duality gap."""
    problem, _ = Case(source, n, "rbf", 1.0, 12.0).make()
    problem = replace(problem, kernel=kernel)
    found = SOLVERS[name](problem)
    F, dual, gap = certified(problem, found)
    assert found.converged
    assert ((found.alpha >= 0) & (found.alpha <= problem.upper)).all()
    assert gap <= 1e-4
    assert pytest.approx(dual, rel=1e-3) == F


@pytest.mark.parametrize("kernel", [LINEAR, RbfKernel(0.2)], ids=str)
@pytest.mark.parametrize("name", ["stda", "stda-paper"])
def test_an_exhausted_run_says_so_with_its_true_gap(name: str, kernel: Kernel) -> None:
    """The bound on steps is kept to the step, a field says that it was met, and what is reported is true."""
    problem, _ = Case("htru2", 1_500, "rbf", 1e3, 3.0).make(tolerance=1e-6, max_iterations=700)
    problem = replace(problem, kernel=kernel)
    found = SOLVERS[name](problem)
    gap = certified(problem, found)[2]
    assert not found.converged
    assert found.iterations <= 700
    assert gap > 1e-6
    if not np.isnan(found.kkt_gap):
        assert found.kkt_gap == pytest.approx(gap, rel=1e-6)


@pytest.mark.parametrize("shift", [1e3, 1e6])
@pytest.mark.parametrize("kernel", [LINEAR, RbfKernel(0.2)], ids=str)
@pytest.mark.parametrize("name", ["stda", "stda-paper"])
def test_an_offset_does_not_make_the_result_wrong(name: str, kernel: Kernel, shift: float) -> None:
    """Features far from the origin give the same objective and the same decisions as near it."""
    problem, fresh = Case("gaussian", 300, "rbf", 1.0, 1.0).make(tolerance=1e-5)
    problem = replace(problem, kernel=kernel)
    moved = replace(problem, Z=problem.Z + shift)
    near, far = (SOLVERS[name](given) for given in (problem, moved))
    assert far.converged
    assert certified(moved, far)[0] == pytest.approx(certified(problem, near)[0], rel=1e-5)
    np.testing.assert_allclose(decide(moved, far, fresh + shift), decide(problem, near, fresh), atol=1e-3)


def small(kernel: Kernel, n: int = 40, max_iterations: int = 100_000) -> Problem:
    problem, _ = Case("gaussian", n, "linear", 1.0, 1.0).make(1e-4, max_iterations)
    return replace(problem, kernel=kernel)


@pytest.mark.parametrize(("name", "kernel"), PAIRS, ids=str)
def test_the_same_problem_gives_the_same_bits(name: str, kernel: Kernel) -> None:
    """No solver depends on chance that is not seeded."""
    one, two = (SOLVERS[name](small(kernel)) for _ in range(2))
    for a, b in ((one.alpha, two.alpha), (one.coefficients, two.coefficients)):
        assert (a is None and b is None) or (a is not None and b is not None and a.tobytes() == b.tobytes())
    assert one.intercept == two.intercept


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize(("name", "kernel"), PAIRS, ids=str)
def test_one_label_alone_is_its_constant(name: str, kernel: Kernel, sign: int) -> None:
    """One label only, also when the other has no weight, also for a single point: w = 0, the bias at that label, or 0
    where no point has weight."""
    problem = small(kernel)
    alone = replace(problem, y=np.full(40, sign, np.int8))
    weightless = replace(problem, upper=np.where(problem.y == sign, problem.upper, 0.0))
    single = problem_of(np.ones((1, 2)), np.array([sign], np.int8), kernel=kernel, max_iterations=100)
    for posed in (alone, weightless, single):
        found = SOLVERS[name](posed)
        assert decide(posed, found, posed.Z).tolist() == [float(sign)] * len(posed.y)
        assert (found.iterations, found.converged) == (0, True)
    nothing = replace(problem, upper=np.zeros(40))
    assert decide(nothing, SOLVERS[name](nothing), problem.Z).tolist() == [0.0] * 40


@pytest.mark.parametrize(("name", "kernel"), PAIRS, ids=str)
def test_points_without_weight_count_for_nothing(name: str, kernel: Kernel) -> None:
    """Half the weights zero: the same machine, bit for bit, as without those points."""
    problem = small(kernel)
    half = np.arange(40) % 2 == 0
    whole = SOLVERS[name](replace(problem, upper=np.where(half, problem.upper, 0.0)))
    part = SOLVERS[name](replace(problem, Z=problem.Z[half], y=problem.y[half], upper=problem.upper[half]))
    assert whole.intercept == part.intercept
    if not np.isnan(whole.alpha).any():
        assert whole.alpha[half].tobytes() == part.alpha.tobytes()
        assert not whole.alpha[~half].any()


@pytest.mark.parametrize("bad", [np.nan, -np.inf, 1e200])
@pytest.mark.parametrize(("name", "kernel"), PAIRS, ids=str)
def test_what_is_no_number_is_refused(name: str, kernel: Kernel, bad: float) -> None:
    """NaN, infinities and features whose square overflows raise a sentence."""
    problem = small(kernel)
    Z = problem.Z.copy()
    Z[3, 1] = bad
    with pytest.raises(ValueError, match="a feature is NaN, infinite, or beyond"):
        SOLVERS[name](replace(problem, Z=Z))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_bounds_and_labels_are_checked(bad: float) -> None:
    """Upper bounds must be finite and not negative, labels must be signs, shapes must fit."""
    problem = small(LINEAR)
    with pytest.raises(ValueError, match="an upper bound is"):
        solve(replace(problem, upper=np.full(40, bad)))
    with pytest.raises(ValueError, match="neither -1 nor"):
        solve(replace(problem, y=np.zeros(40, np.int8)))
    with pytest.raises(ValueError, match="shape"):
        solve(replace(problem, y=problem.y[:-1]))


@pytest.mark.parametrize(("name", "kernel"), PAIRS, ids=str)
def test_duplicates_act_as_weights(name: str, kernel: Kernel) -> None:
    """Every point twice at half the weight is the same problem: the exact solvers find the same objective."""
    problem = small(kernel)
    doubled = replace(
        problem, Z=np.tile(problem.Z, (2, 1)), y=np.tile(problem.y, 2), upper=np.tile(problem.upper / 2, 2)
    )
    one, two = (primal(given, SOLVERS[name](given)) for given in (problem, doubled))
    assert two == pytest.approx(one, rel=1e-3)


@pytest.mark.parametrize(("name", "kernel"), PAIRS, ids=str)
def test_contradictory_duplicates_have_a_finite_answer(name: str, kernel: Kernel) -> None:
    """One place under both labels, weighted 3 to 1: w = 0, the loss is twice the lighter weight."""
    problem = problem_of(np.ones((4, 2)), np.array([1, 1, 1, -1], np.int8), 1.0, kernel, 1e-4, 10_000)
    found = SOLVERS[name](problem)
    assert primal(problem, found) == pytest.approx(2.0, abs=1e-6)
    assert (decide(problem, found, problem.Z) > 0).all()


@pytest.mark.parametrize(("name", "kernel"), PAIRS, ids=str)
def test_constant_features_do_no_harm(name: str, kernel: Kernel) -> None:
    """A feature that never changes gets no coefficient and changes no decision."""
    problem = replace(small(kernel), tolerance=1e-8)
    wider = replace(problem, Z=np.column_stack([problem.Z, np.full(40, 7.0)]))
    plain, found = (SOLVERS[name](given) for given in (problem, wider))
    np.testing.assert_allclose(decide(wider, found, wider.Z), decide(problem, plain, problem.Z), atol=1e-6)
    if found.coefficients is not None:
        assert found.coefficients[-1] == 0.0


@pytest.mark.parametrize(
    ("scale", "shift", "penalty"),
    [(1e-4, 0.0, 1.0), (1e4, 1e3, 1.0), (1e-90, 0.0, 1.0), (1e90, 0.0, 1.0), (1.0, 0.0, 1e6)],
)
@pytest.mark.parametrize(("name", "kernel"), PAIRS, ids=str)
def test_bad_scales_and_penalties_end_in_a_finite_answer(
    name: str, kernel: Kernel, scale: float, shift: float, penalty: float
) -> None:
    """Raw features far away or of another size, up to where squares barely fit, and C = 1e6 on overlapping classes end
    with numbers within the bound on iterations, converged or saying that they are not."""
    problem = small(kernel, max_iterations=20_000)
    problem = replace(problem, Z=problem.Z * scale + shift, upper=problem.upper * penalty)
    found = SOLVERS[name](problem)
    assert np.isfinite(decide(problem, found, problem.Z)).all()
    assert (found.alpha <= problem.upper).all()


@pytest.mark.parametrize("shift", [1e3, 1e6])
def test_rbf_values_do_not_depend_on_the_origin(shift: float) -> None:
    """Both sets moved together give the same values, but for the rounding of the moved features themselves."""
    random = np.random.default_rng(0)
    A, B = random.normal(size=(20, 4)), random.normal(size=(30, 4))
    moved = RBF.gram(A + shift, B + shift)
    np.testing.assert_allclose(moved, RBF.gram(A, B), atol=1e-15 * shift)


def test_optimality_does_not_depend_on_the_origin() -> None:
    """A linear problem moved far away, its intercept moved with it, has the same objectives and gap."""
    problem, _ = Case("gaussian", 200, "linear", 1.0, 0.0).make()
    alpha = problem.upper * np.where(problem.y > 0, 1.0, (problem.y > 0).sum() / (problem.y < 0).sum())
    w = problem.Z.T @ (problem.y * alpha)
    near = optimality(problem.Z, problem.y, problem.upper, alpha, 0.5, LINEAR)
    far = optimality(problem.Z + 1e5, problem.y, problem.upper, alpha, 0.5 - 1e5 * w.sum(), LINEAR)
    assert far == pytest.approx(near, rel=1e-7)

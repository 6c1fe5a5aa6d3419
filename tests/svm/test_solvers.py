"""Every solver behind the one interface: a defined answer to every input, and how near the optimum it comes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from streamsvm.model import Float, Kernel, LinearKernel, RbfKernel
from streamsvm.papers import PaperStdaSolver
from streamsvm.svm.block.interior_point import InteriorPointSolver
from streamsvm.svm.objective import primal_objective
from streamsvm.svm.problem import CheckedSolver, Problem, Solution
from streamsvm.svm.solvers import StdaSolver
from tests.svm.problems import Case

SOLVERS: dict[str, Callable[[], CheckedSolver]] = {
    "stda": StdaSolver,
    "stda-paper": PaperStdaSolver,
    "interior": lambda: InteriorPointSolver(gap=1e-7),
}
LINEAR, RBF = LinearKernel(), RbfKernel(0.5)
PAIRS = [(name, LINEAR) for name in SOLVERS] + [("stda", RBF), ("stda-paper", RBF)]


def decide(problem: Problem, found: Solution, points: Float) -> Float:
    if found.coefficients is not None:
        return points @ found.coefficients + found.intercept
    return problem.kernel.gram(points, problem.Z) @ (problem.y * found.alpha) + found.intercept


def primal(problem: Problem, found: Solution) -> float:
    """F by its definition."""
    if found.coefficients is not None:
        norm = float(found.coefficients @ found.coefficients)
    else:
        signed = problem.y * found.alpha
        norm = float(signed @ problem.kernel.gram(problem.Z, problem.Z) @ signed)
    return primal_objective(decide(problem, found, problem.Z), problem.y, problem.upper, norm)


def small(kernel: Kernel, n: int = 40, max_iterations: int = 100_000) -> Problem:
    problem, _ = Case("gaussian", n, "linear", 1.0, 1.0).make(1e-4, max_iterations)
    return replace(problem, kernel=kernel)


@pytest.mark.parametrize(("name", "kernel"), PAIRS, ids=str)
def test_the_same_problem_gives_the_same_bits(name: str, kernel: Kernel) -> None:
    """No solver depends on chance that is not seeded."""
    one, two = (SOLVERS[name]().solve(small(kernel)) for _ in range(2))
    for a, b in ((one.alpha, two.alpha), (one.coefficients, two.coefficients)):
        assert (a is None and b is None) or (a is not None and b is not None and a.tobytes() == b.tobytes())
    assert one.intercept == two.intercept


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize(("name", "kernel"), PAIRS, ids=str)
def test_one_label_alone_is_its_constant(name: str, kernel: Kernel, sign: int) -> None:
    """One label only, also when the other has no weight, also for a single point: w = 0, the bias at that label."""
    problem = small(kernel)
    alone = replace(problem, y=np.full(40, sign, np.int8))
    weightless = replace(problem, upper=np.where(problem.y == sign, problem.upper, 0.0))
    single = Problem(
        Z=np.ones((1, 2)),
        y=np.array([sign], np.int8),
        upper=np.ones(1),
        kernel=kernel,
        tolerance=1e-3,
        max_iterations=100,
    )
    for given in (alone, weightless, single):
        found = SOLVERS[name]().solve(given)
        assert decide(given, found, given.Z).tolist() == [float(sign)] * len(given.y)
        assert (found.iterations, found.converged) == (0, True)


@pytest.mark.parametrize(("name", "kernel"), PAIRS, ids=str)
def test_no_weight_at_all_is_zero(name: str, kernel: Kernel) -> None:
    """Without any weight every w costs its norm only: w = 0, bias 0."""
    problem = replace(small(kernel), upper=np.zeros(40))
    assert decide(problem, SOLVERS[name]().solve(problem), problem.Z).tolist() == [0.0] * 40


@pytest.mark.parametrize(("name", "kernel"), PAIRS, ids=str)
def test_points_without_weight_count_for_nothing(name: str, kernel: Kernel) -> None:
    """Half the weights zero: the same machine, bit for bit, as without those points."""
    problem = small(kernel)
    half = np.arange(40) % 2 == 0
    whole = SOLVERS[name]().solve(replace(problem, upper=np.where(half, problem.upper, 0.0)))
    part = SOLVERS[name]().solve(replace(problem, Z=problem.Z[half], y=problem.y[half], upper=problem.upper[half]))
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
        SOLVERS[name]().solve(replace(problem, Z=Z))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_bounds_and_labels_are_checked(bad: float) -> None:
    """Upper bounds must be finite and not negative, labels must be signs, shapes must fit."""
    problem = small(LINEAR)
    with pytest.raises(ValueError, match="an upper bound is"):
        StdaSolver().solve(replace(problem, upper=np.full(40, bad)))
    with pytest.raises(ValueError, match="neither -1 nor"):
        StdaSolver().solve(replace(problem, y=np.zeros(40, np.int8)))
    with pytest.raises(ValueError, match="shape"):
        StdaSolver().solve(replace(problem, y=problem.y[:-1]))


@pytest.mark.parametrize(("name", "kernel"), PAIRS, ids=str)
def test_duplicates_act_as_weights(name: str, kernel: Kernel) -> None:
    """Every point twice at half the weight is the same problem: the exact solvers find the same objective."""
    problem = small(kernel)
    doubled = replace(
        problem, Z=np.tile(problem.Z, (2, 1)), y=np.tile(problem.y, 2), upper=np.tile(problem.upper / 2, 2)
    )
    one, two = (primal(given, SOLVERS[name]().solve(given)) for given in (problem, doubled))
    assert two == pytest.approx(one, rel=1e-3)


@pytest.mark.parametrize(("name", "kernel"), PAIRS, ids=str)
def test_contradictory_duplicates_have_a_finite_answer(name: str, kernel: Kernel) -> None:
    """One place under both labels, weighted 3 to 1: w = 0, the loss is twice the lighter weight."""
    problem = Problem(
        Z=np.ones((4, 2)),
        y=np.array([1, 1, 1, -1], np.int8),
        upper=np.ones(4),
        kernel=kernel,
        tolerance=1e-4,
        max_iterations=10_000,
    )
    found = SOLVERS[name]().solve(problem)
    assert primal(problem, found) == pytest.approx(2.0, abs=1e-6)
    assert (decide(problem, found, problem.Z) > 0).all()


@pytest.mark.parametrize(("name", "kernel"), PAIRS, ids=str)
def test_constant_features_do_no_harm(name: str, kernel: Kernel) -> None:
    """A feature that never changes gets no coefficient and changes no decision."""
    problem = replace(small(kernel), tolerance=1e-8)
    wider = replace(problem, Z=np.column_stack([problem.Z, np.full(40, 7.0)]))
    plain, found = (SOLVERS[name]().solve(given) for given in (problem, wider))
    np.testing.assert_allclose(decide(wider, found, wider.Z), decide(problem, plain, problem.Z), atol=1e-6)
    if found.coefficients is not None:
        assert found.coefficients[-1] == 0.0


@pytest.mark.parametrize(("scale", "shift"), [(1e-4, 0.0), (1e4, 1e3), (1e-90, 0.0), (1e90, 0.0)])
@pytest.mark.parametrize(("name", "kernel"), PAIRS, ids=str)
def test_badly_scaled_features_end_in_a_finite_answer(name: str, kernel: Kernel, scale: float, shift: float) -> None:
    """Raw features far away or of another size, up to where squares barely fit, end with numbers."""
    problem = small(kernel, max_iterations=20_000)
    problem = replace(problem, Z=problem.Z * scale + shift)
    found = SOLVERS[name]().solve(problem)
    assert np.isfinite(decide(problem, found, problem.Z)).all()


@pytest.mark.parametrize(("name", "kernel"), PAIRS, ids=str)
def test_a_huge_penalty_ends(name: str, kernel: Kernel) -> None:
    """C = 1e6 on overlapping classes ends within the bound on iterations, converged or saying that it is not."""
    problem = small(kernel, max_iterations=20_000)
    problem = replace(problem, upper=problem.upper * 1e6)
    found = SOLVERS[name]().solve(problem)
    assert np.isfinite(decide(problem, found, problem.Z)).all()
    if not np.isnan(found.alpha).any():
        assert (found.alpha <= problem.upper).all()


@pytest.mark.parametrize("name", SOLVERS)
def test_an_exhausted_solver_says_so(name: str) -> None:
    """The bound on iterations is the solver's own, and meeting it is a field, not a warning."""
    problem, _ = Case("htru2", 300, "linear", 1e3, 0.0).make(tolerance=1e-6, max_iterations=5)
    found = SOLVERS[name]().solve(problem)
    assert not found.converged
    assert found.iterations <= 5

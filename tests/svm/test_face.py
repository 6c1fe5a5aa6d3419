"""Newton's method inside a block: feasible, never uphill, at the optimum by outside oracles, or nothing changed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from streamsvm.model import RbfKernel
from streamsvm.svm import face, stda, working_set as inner
from streamsvm.svm.rbf import RbfBlocks, Values
from streamsvm.svm.stda import Descent
from tests.svm.problems import Case, weights

PRECISIONS = [np.float32, np.float64]


class Block:
    """A block of random points in a state that pairs have reached after a few steps."""

    def __init__(self, seed: int, m: int, box: float, pairs: int, precision: type = np.float64) -> None:
        random = np.random.default_rng(seed)
        Z = random.normal(size=(m, 3))
        y = np.where(Z[:, 0] + random.normal(size=m) > 0, 1.0, -1.0)
        y[:2] = 1.0, -1.0
        self.K: Values = np.ascontiguousarray(RbfKernel(0.3).gram(Z, Z).astype(precision))
        np.fill_diagonal(self.K, 1.0)
        bound = y * weights(m, 2.0, box)
        self.y, self.low, self.high = y, np.minimum(bound, 0.0), np.maximum(bound, 0.0)
        self.b, self.F = np.zeros(m), -y
        inner.descend(self.K, self.F, self.b, self.low, self.high, 0.0, 1e-9, pairs)

    @property
    def f(self) -> float:
        """The objective of this very K, from scratch."""
        return float(0.5 * self.b @ self.K.astype(np.float64) @ self.b - self.y @ self.b)

    @property
    def free(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return (self.b > self.low) & (self.b < self.high)

    @property
    def violation(self) -> float:
        top, bottom = inner.extremes(self.F, self.b, self.low, self.high)
        return float(top - bottom)

    def descend_face(self, stop: float = 1e-9, limit: int = 10_000) -> int:
        return face.descend_face(self.K, self.F, self.b, self.low, self.high, stop, limit)

    def solve(self, floor: float, limit: int) -> int:
        change = np.empty(len(self.b))
        before = self.b.copy()
        steps = face.solve_block(
            self.K, np.arange(len(self.b)), self.F, self.b, self.low, self.high, 0.0, floor, limit, change
        )
        assert (change == self.b - before).all()
        self.F += self.K.astype(np.float64) @ change
        return steps


@settings(deadline=None, max_examples=60)
@example(seed=5906, m=55, box=0.1, pairs=20, limit=2, precision=np.float32)  # ends where several met bounds at once
@given(
    st.integers(0, 10_000),
    st.integers(2, 60),
    st.sampled_from([0.1, 1.0, 1e3]),
    st.integers(0, 60),
    st.integers(1, 40),
    st.sampled_from(PRECISIONS),
)
def test_a_descent_is_feasible_and_goes_down(
    seed: int, m: int, box: float, pairs: int, limit: int, precision: type
) -> None:
    """From any state, with any bound: boxes exact, sum to rounding, f lower, F true, the bound kept; or no change."""
    block = Block(seed, m, box, pairs, precision)
    b, F, f = block.b.copy(), block.F.copy(), block.f
    steps = block.descend_face(limit=limit)
    assert steps <= limit
    assert (block.low <= block.b).all()
    assert (block.b <= block.high).all()
    assert abs(block.b.sum() - b.sum()) <= 1e-12 * np.abs(block.high - block.low).sum()
    if steps:
        assert block.f < f + 1e-12 * abs(f)
        np.testing.assert_allclose(
            block.F, F + block.K.astype(np.float64) @ (block.b - b), atol=1e-10 * (1.0 + np.abs(b).max())
        )
    else:
        assert (block.b == b).all()
        assert (block.F == F).all()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_without_bounds_in_the_way_the_free_points_are_at_their_optimum(precision: type) -> None:
    """The answer is the solution of the equations of the optimum, by another solver, and F is equal where b is free."""
    block = Block(1, 40, 1e6, 400, precision)
    free = block.free
    assert np.count_nonzero(free) > 10
    block.low[free] -= 1e9
    block.high[free] += 1e9
    K = block.K.astype(np.float64)[np.ix_(free, free)]
    system = np.block([[K, np.ones((len(K), 1))], [np.ones((1, len(K))), np.zeros((1, 1))]])
    x = np.linalg.solve(system, np.append(-block.F[free], 0.0))[:-1]
    b, apart = block.b.copy(), np.ptp(block.F[free])
    assert block.descend_face() > 0
    assert np.ptp(block.F[free]) < 1e-4 * apart
    if precision is np.float64:
        np.testing.assert_allclose((block.b - b)[free], x, rtol=1e-3, atol=1e-3 * np.abs(x).max())
    assert (block.b[~free] == b[~free]).all()


def test_points_that_meet_a_bound_stand_on_it_exactly() -> None:
    """Several bounds lie in the way: who met one is on it, and the others agree on F as if those were not there."""
    block = Block(3, 60, 30.0, 40)
    before = np.count_nonzero(block.free)
    steps = block.descend_face()
    after = np.count_nonzero(block.free)
    assert steps > before - after > 2
    assert np.ptp(block.F[block.free]) < 1e-7


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("seed", range(5))
def test_with_pairs_it_ends_at_the_optimum_of_pairs_alone(seed: int, precision: type) -> None:
    """Large boxes: the same objective within the tolerance's worth, by fewer steps."""
    one, other = Block(seed, 80, 1e4, 0, precision), Block(seed, 80, 1e4, 0, precision)
    steps = one.solve(1e-6, 5_000_000)
    pairs = inner.descend(other.K, other.F, other.b, other.low, other.high, 0.0, 1e-6, 5_000_000)
    assert one.violation <= 1.1e-6
    assert one.f <= other.f + 1e-9 * abs(other.f)
    assert steps < 0.5 * pairs


@pytest.mark.parametrize("limit", [1, 7, 200, 300])
def test_the_bound_on_steps_is_kept_to_the_step(limit: int) -> None:
    """Pairs and Newton's method together make no step more."""
    block = Block(2, 80, 1e4, 0)
    assert block.solve(1e-12, limit) == limit


def test_a_matrix_that_is_none_of_a_kernel_is_left_to_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the factor does not exist nothing changes, and the block goes on by pairs alone."""
    monkeypatch.setattr(face, "LEAST_RIDGE", -1e-2)
    monkeypatch.setattr(face, "RIDGE", -1e9)
    one, other = Block(4, 60, 1e2, 0), Block(4, 60, 1e2, 0)
    assert one.descend_face() == 0
    steps = one.solve(1e-4, 1_000_000)
    assert steps == inner.descend(other.K, other.F, other.b, other.low, other.high, 0.0, 1e-4, 1_000_000)
    assert (one.b == other.b).all()


def test_at_the_optimum_nothing_changes() -> None:
    """Where F is equal among the free points already, there is no step; what rounding leads uphill is undone."""
    block = Block(5, 40, 1e6, 400)
    block.descend_face(stop=0.0)
    block.F[block.free] = block.F[block.free].mean()
    b, F = block.b.copy(), block.F.copy()
    assert block.descend_face(stop=0.0) == 0
    assert (block.b == b).all()
    assert (block.F == F).all()


def test_large_boxes_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the same problem takes many times the steps, and its objective is no better."""
    problem, _ = Case("htru2", 1_500, "rbf", 1e4, 3.0).make(tolerance=1e-3)

    def run() -> Descent:
        made = Descent(problem.Z, problem.y, problem.upper, problem.kernel, problem.tolerance)
        made.advance(problem.max_iterations)
        return made

    ours = run()
    monkeypatch.setattr(face, "newton_ns", lambda _: 1e18)
    without = run()
    assert ours.iterations < 0.3 * without.iterations
    assert ours.f <= without.f + 1e-7 * abs(without.f)


class Crowd:
    """A problem with more free points than its largest blocks hold, as few points as that takes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tolerance: float = 1e-3) -> None:
        monkeypatch.setattr(stda, "BLOCK", 64)
        monkeypatch.setattr(stda, "LARGEST_BLOCK", 64)
        self.problem, _ = Case("gaussian", 800, "rbf", 1e4, 3.0).make(tolerance=tolerance)

    def run(self) -> Descent:
        posed = self.problem
        made = Descent(posed.Z, posed.y, posed.upper, posed.kernel, posed.tolerance)
        made.advance(posed.max_iterations)
        return made


def test_a_crowd_of_free_points_moves_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where blocks hold too few, all free points together reach the same optimum in a fraction of the blocks; counts
    decide when they move, so the same problem takes the same way to the last bit."""
    crowd = Crowd(monkeypatch)
    calls: list[int] = []
    together = face.move_all
    monkeypatch.setattr(face, "move_all", lambda *given: calls.append(together(*given)) or calls[-1])
    ours = crowd.run()
    assert sum(calls) > 0
    assert crowd.run().b.tobytes() == ours.b.tobytes()
    monkeypatch.setattr(face, "MOST_FREE", 0)
    without = crowd.run()
    assert ours.converged
    assert ours.gap < crowd.problem.tolerance
    assert ours.blocks < 0.5 * without.blocks
    assert ours.f <= without.f + 1e-7 * abs(without.f)


def test_moving_all_goes_down_and_keeps_every_box(monkeypatch: pytest.MonkeyPatch) -> None:
    """From a state of large violation: f falls, boxes and sum hold, and F is that of the new b."""
    problem = Crowd(monkeypatch).problem
    monkeypatch.setattr(face, "MOST_FREE", 0)
    run = Descent(problem.Z, problem.y, problem.upper, problem.kernel, problem.tolerance)
    run.advance(20_000)
    run.exact = False
    run.refresh()
    f, gap = run.f, run.gap
    source = RbfBlocks(run.Z, 1.0 / problem.Z.shape[1], np.float64)
    assert face.move_all(source, run.soft, run.F, run.b, run.low, run.high, problem.tolerance, 1_000) > 0
    assert run.f < f
    assert (run.low <= run.b).all()
    assert (run.b <= run.high).all()
    assert abs(run.b.sum()) < 1e-9 * np.abs(run.b).sum()
    F = run.F.copy()
    run.exact = False
    run.refresh()
    np.testing.assert_allclose(F, run.F, atol=1e-6 * gap)


def test_points_leave_bounds_only_to_where_the_free_ones_are() -> None:
    """Of four at a bound and two free ones with F = 0 and 1: who may rise and is below, or may fall and is above."""
    F = np.array([0.0, 1.0, 0.4, 0.6, 0.6, 0.4])
    b = np.array([0.5, 0.5, 0.0, 0.0, 1.0, 1.0])
    left = face.leaving(F, b, np.zeros(6), np.ones(6), 0.1)
    assert left.tolist() == [False, False, True, False, True, False]

r"""STDA-SVM: a decomposition method that steps along many violating pairs at once.

Problem (the dual of `streamsvm.svm.objective`), with a box of its own for each point:

    min f(a) = 1/2 sum_ij a_i a_j y_i y_j k_ij - sum_i a_i,   0 <= a_i <= C_i,   sum_i y_i a_i = 0.

Source: Liuzzi, Lucidi, Manno and Rinaldi 2015 ("the paper"), Algorithms 1 to 4; q, eta and the tolerance have the
paper's defaults. Where we differ, and why:

*Variables.* We keep b_i = y_i a_i, so that sum b_i = 0, min(0, y_i C_i) <= b_i <= max(0, y_i C_i), and
F_i = grad f_i / y_i = sum_j b_j k_ij - y_i. Then R (eq. 3) holds the points whose b may rise, S (eq. 4) those whose b
may fall, and a direction adds t to b_j, j in R, and takes it from b_i, i in S, with t between
max(low_j - b_j, b_i - high_i) and min(high_j - b_j, b_i - low_i): the four lines of bounds in Section 3.3 are this one.

*Sign.* Equation (9) has i in R and d_i = 1/y_i; Algorithms 1 to 3 call i-bar the point of S and give it -1/y_i. It is
one direction under two names. We say `low` (the point of R, with small F, that rises) and `high` (of S, that falls).

*Linear term.* Section 3.3 drops D'e because "D'e = 0". That holds only where the pair's labels agree (else it is +-2).
The linear term of the subproblem is D' grad f, which is F_low - F_high < 0 for each direction.

*Optimality of the subproblem.* The two printed conditions are the same line. With g_l = F_low - F_high at the new
point they should read: g_l >= 0 if t_l = l_l; g_l = 0 inside; g_l <= 0 if t_l = u_l.

*Number of directions.* `while (m <= q)` admits q + 1; we take at most q, as the text says.

*First level.* The printed test, violation > eta Delta, falls below the tolerance when Delta nears it: the first level
would polish pairs that are optimal already and never return to the violating ones. We test > max(eta Delta, eps).

*Selection.* We pick the q extremes in one pass instead of sorting all points: the same pairs, and where F ties, the
point that stands first.

Floating point: everything is float64, including kernel values; points are centred first (the kernel matrix of the RBF
does not change; that of the linear kernel changes by terms that sum b_i = 0 cancels). F is updated by increments;
when the stopping rule is met it is recomputed from scratch, and the run goes on if the true gap is larger. No chance,
no clock, no fastmath: the same problem gives the same bits on the same build, CPU target and number of BLAS threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.linalg import Index
from streamsvm.model.kernels import Float, Kernel, LinearKernel
from streamsvm.papers.kernel_columns import USED, KernelColumns, fetch, make_columns
from streamsvm.papers.subproblem import minimise_in_box, minimise_with_equality, move_pair
from streamsvm.points import Signs
from streamsvm.svm.objective import scores_without_bias
from streamsvm.svm.problem import CheckedSolver, Problem, Solution

Method = Literal["stda", "svmlight"]

DIRECTIONS = 15
"""q of the paper's experiments; SVMLight's working set has 2 q variables."""
ETA = 0.1
"""eta of the paper's experiments."""
CACHE_BYTES = 200 << 20
"""The paper names none; LIBSVM's own default is 100 MiB of float32."""

MOVED, OPTIMAL, STALLED = 0, 1, 2
"""How `_step` ended: a step was made; the violation is below the tolerance; no step changes any variable any more."""

FIRST_LEVEL = 0
"""Place in `State.counts`: iterations whose directions all came from the cache."""

SUBPROBLEM_ACCURACY = 0.1
"""Share of the tolerance to which subproblems are solved."""


class StdaState(NamedTuple):
    """Where a run stands.

    Attributes
    ----------
    b : ndarray of shape (n,), float64
        y_i a_i.
    F : ndarray of shape (n,), float64
        sum_j b_j k_ij - y_i.
    low, high : ndarray of shape (n,), float64
        Bounds of b.
    everyone : ndarray of shape (n,), int64
        0, 1, ..., n - 1.
    counts : ndarray of shape (1,), int64
    """

    b: Float
    F: Float
    low: Float
    high: Float
    everyone: Index
    counts: Index


class Descent:
    """One run of the method; it can be advanced in parts, and the parts give the bits of the whole.

    Parameters
    ----------
    Z : ndarray of shape (n, d), float64
        Finite.
    y : ndarray of shape (n,), -1 or +1, both present
    upper : ndarray of shape (n,), float64, positive
    kernel : Kernel
    tolerance : float
        KKT gap below which the point counts as optimal, the paper's epsilon.
    method : str
        `stda`, or `svmlight`: the same selection of pairs without the first level, but the subproblem is over the
        2 q variables themselves, with the equality constraint (Joachims 1998). For comparison.
    directions : int
        q, the most directions of an iteration; fewer if the cache cannot hold two columns of each.
    eta : float
        In (0, 1]: how violating a pair from the cache must be, as a share of the most violating pair.
    cache_bytes : int
        Bound on the bytes of cached columns.
    """

    def __init__(
        self,
        Z: Float,
        y: Signs,
        upper: Float,
        kernel: Kernel,
        tolerance: float,
        method: Method = "stda",
        directions: int = DIRECTIONS,
        eta: float = ETA,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        n = len(y)
        signs = y.astype(np.float64)
        bound = signs * upper
        self._columns: KernelColumns = make_columns(Z - Z.mean(axis=0), kernel, cache_bytes)
        self._directions = min(directions, len(self._columns.owner) // 2)
        self._state = StdaState(
            np.zeros(n),
            -signs,
            np.minimum(bound, 0.0),
            np.maximum(bound, 0.0),
            np.arange(n),
            np.zeros(1, np.int64),
        )
        self._y, self._kernel = signs, kernel
        self._tolerance, self._method, self._eta = tolerance, method, eta
        self.iterations = 0
        self.converged = False
        """Whether the true gap, from scratch, is below the tolerance."""

    @property
    def alpha(self) -> Float:
        """Dual variables, shape (n,)."""
        return np.asarray(self._y * self._state.b, dtype=np.float64)

    @property
    def objective(self) -> float:
        """f, which is minus the dual objective, from the running F."""
        return 0.5 * float(self._state.b @ (self._state.F - self._y))

    @property
    def gap(self) -> float:
        """KKT gap, from the running F; 0 if no pair can move."""
        F, (may_fall, may_rise) = self._state.F, self._movable()
        return max(0.0, float(np.max(F[may_fall], initial=-np.inf) - np.min(F[may_rise], initial=np.inf)))

    @property
    def coefficients(self) -> Float:
        """Coefficients of the linear kernel, from centred points, shape (d,)."""
        return np.asarray(self._columns.Z.T @ self._state.b, dtype=np.float64)

    @property
    def centred_intercept(self) -> float:
        """Bias of the machine over centred points.

        The mean of -F over the free support vectors; without any, the middle of the interval in which the optimality
        conditions leave it, from the largest F that may fall to the smallest that may rise.
        """
        F, (may_fall, may_rise) = self._state.F, self._movable()
        free = may_fall & may_rise
        if free.any():
            return -float(F[free].mean())
        return -0.5 * float(F[may_fall].max() + F[may_rise].min())

    def advance(self, limit: int) -> None:
        """Iterate until the true gap is below the tolerance, nothing moves any more, or `limit` iterations are done."""
        stop = self.iterations + limit
        while not self.converged and self.iterations < stop:
            before = self.iterations
            done, status = _iterate(
                self._state,
                self._columns,
                self._method == "stda",
                self._directions,
                self._eta,
                self._tolerance,
                stop - self.iterations,
            )
            self.iterations += done
            if status == MOVED and self.gap >= self._tolerance:
                return
            self.refresh()
            self.converged = self.gap < self._tolerance
            if self.iterations == before:
                return

    def refresh(self) -> None:
        """Recompute F from scratch."""
        scores = scores_without_bias(self._columns.Z, self._y, self.alpha, self._kernel)
        self._state.F[:] = scores - self._y

    def _movable(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return masks of the points that may fall and of those that may rise."""
        return self._state.b > self._state.low, self._state.b < self._state.high


@dataclass(frozen=True, slots=True)
class PaperStdaSolver(CheckedSolver):
    """STDA-SVM to the letter, or SVMLight's rule on the same machinery.

    Releases the GIL while it solves.

    Attributes
    ----------
    method : str
        `stda` or `svmlight`.
    directions : int
        q: most directions of an iteration.
    eta : float
        In (0, 1]; the larger, the rarer are iterations with cached columns only.
    cache_bytes : int
        Bound on the memory of cached columns.
    """

    method: Method = "stda"
    directions: int = DIRECTIONS
    eta: float = ETA
    cache_bytes: int = CACHE_BYTES

    def solve_checked(self, problem: Problem) -> Solution:
        """Solve; see `CheckedSolver`."""
        run = Descent(
            problem.Z,
            problem.y,
            problem.upper,
            problem.kernel,
            tolerance=problem.tolerance,
            method=self.method,
            directions=self.directions,
            eta=self.eta,
            cache_bytes=self.cache_bytes,
        )
        run.advance(problem.max_iterations)
        if isinstance(problem.kernel, LinearKernel):
            w = run.coefficients
            intercept = run.centred_intercept - float(w @ problem.Z.mean(axis=0))
            return Solution(
                alpha=run.alpha, intercept=intercept, iterations=run.iterations, converged=run.converged, coefficients=w
            )
        return Solution(
            alpha=run.alpha, intercept=run.centred_intercept, iterations=run.iterations, converged=run.converged
        )


@njit(cache=True, nogil=True)
def _iterate(state, columns, by_directions, q, eta, tolerance, limit):  # type: ignore[no-untyped-def]
    """Run Algorithm 4 for at most `limit` iterations; return how many were made and how the last `_step` ended."""
    high, low = np.empty(q, np.int64), np.empty(q, np.int64)
    for done in range(limit):
        status = _step(state, columns, by_directions, q, eta, tolerance, high, low)
        if status != MOVED:
            return done, status
    return limit, MOVED


@njit(cache=True, nogil=True)
def _step(state, columns, by_directions, q, eta, tolerance, high, low):  # type: ignore[no-untyped-def]
    """Make one iteration: Algorithm 4, Steps 1 to 4."""
    pairs = select_pairs(state, state.everyone, q, 0.0, high, low)
    if pairs == 0:
        return OPTIMAL
    delta = state.F[high[0]] - state.F[low[0]]
    if delta < tolerance:
        return OPTIMAL
    if by_directions:
        pairs = _prefer_cached(state, columns, q, max(eta * delta, tolerance), pairs, high, low)
    members = np.concatenate((low[:pairs], high[:pairs]))
    fetch(columns, members)
    before = state.b[members]
    if by_directions:
        _move_along_directions(state, columns, members, pairs, SUBPROBLEM_ACCURACY * tolerance)
    else:
        _move_working_set(state, columns, members, SUBPROBLEM_ACCURACY * tolerance)
    change = state.b[members] - before
    if not change.any():
        return STALLED
    _update(state.F, columns, members, change)
    return MOVED


@njit(cache=True, nogil=True)
def select_pairs(state, candidates, q, threshold, high, low):  # type: ignore[no-untyped-def]
    """Select at most q disjoint violating pairs, the most violating first (Algorithm 1, and the loops of 2 and 3).

    Parameters
    ----------
    state : StdaState
    candidates : ndarray of int64
        Points to choose from, distinct.
    q : int
    threshold : float
        Not negative; a pair must violate by more, F[high] - F[low] > threshold.
    high, low : ndarray of shape (q,), int64
        Out: the pairs; `high` in S by descending F, `low` in R by ascending F.

    Returns
    -------
    int
        How many pairs. They are disjoint without a check: every F chosen as high exceeds every F chosen as low.
    """
    highs = lows = 0
    for i in candidates:
        F = state.F[i]
        if state.b[i] > state.low[i] and (highs < q or state.F[high[highs - 1]] < F):
            highs = min(highs + 1, q)
            k = highs - 1
            while k > 0 and state.F[high[k - 1]] < F:
                high[k] = high[k - 1]
                k -= 1
            high[k] = i
        if state.b[i] < state.high[i] and (lows < q or state.F[low[lows - 1]] > F):
            lows = min(lows + 1, q)
            k = lows - 1
            while k > 0 and state.F[low[k - 1]] > F:
                low[k] = low[k - 1]
                k -= 1
            low[k] = i
    pairs = 0
    while pairs < min(highs, lows) and state.F[high[pairs]] - state.F[low[pairs]] > threshold:
        pairs += 1
    return pairs


@njit(cache=True, nogil=True)
def _prefer_cached(state, columns, q, threshold, pairs, high, low):  # type: ignore[no-untyped-def]
    """Replace the pairs by pairs of cached columns if there are at least two (Algorithm 2); return how many hold now.

    Otherwise the pairs chosen among all points stand: Algorithm 3, whose first pair is the most violating one.
    """
    cached_high, cached_low = np.empty(q, np.int64), np.empty(q, np.int64)
    cached = select_pairs(state, columns.owner[: columns.counts[USED]], q, threshold, cached_high, cached_low)
    if cached < 2:
        return pairs
    state.counts[FIRST_LEVEL] += 1
    high[:cached] = cached_high[:cached]
    low[:cached] = cached_low[:cached]
    return cached


@njit(cache=True, nogil=True)
def _block(columns, members):  # type: ignore[no-untyped-def]
    """Return the kernel values among cached members."""
    m = len(members)
    K = np.empty((m, m))
    for r in range(m):
        column = columns.values[columns.slot[members[r]]]
        for s in range(m):
            K[r, s] = column[members[s]]
    return K


@njit(cache=True, nogil=True)
def _move_along_directions(state, columns, members, pairs, accuracy):  # type: ignore[no-untyped-def]
    """Solve the box-constrained subproblem (eq. 18) over the step lengths and move b (Algorithm 4, Steps 3 and 4).

    Members are the points that rise, then those that fall. Direction l pairs members l and pairs + l, so
    (D'GD)_lm = k(low_l, low_m) - k(low_l, high_m) - k(high_l, low_m) + k(high_l, high_m): the labels cancel.
    """
    K = _block(columns, members)
    H = np.empty((pairs, pairs))
    c, shortest, longest, t = np.empty(pairs), np.empty(pairs), np.empty(pairs), np.zeros(pairs)
    for l in range(pairs):  # noqa: E741
        rise, fall = members[l], members[pairs + l]
        c[l] = state.F[rise] - state.F[fall]
        shortest[l], longest[l] = step_bounds(state, rise, fall)
        for m in range(l + 1):
            H[l, m] = K[l, m] - K[l, pairs + m] - K[pairs + l, m] + K[pairs + l, pairs + m]
            H[m, l] = H[l, m]
    minimise_in_box(H, c, shortest, longest, accuracy, t)
    for l in range(pairs):  # noqa: E741
        move_pair(state.b, state.low, state.high, members[l], members[pairs + l], t[l])


@njit(cache=True, nogil=True)
def step_bounds(state, rise, fall):  # type: ignore[no-untyped-def]
    """Return how far t may go back (not positive) and forth (positive) along one direction (Section 3.3)."""
    back = max(state.low[rise] - state.b[rise], state.b[fall] - state.high[fall])
    forth = min(state.high[rise] - state.b[rise], state.b[fall] - state.low[fall])
    return back, forth


@njit(cache=True, nogil=True)
def _move_working_set(state, columns, members, accuracy):  # type: ignore[no-untyped-def]
    """Solve SVMLight's subproblem over the members themselves and move b."""
    b = state.b[members]
    minimise_with_equality(
        _block(columns, members), state.F[members], state.low[members], state.high[members], accuracy, b
    )
    state.b[members] = b


@njit(cache=True, nogil=True)
def _update(F, columns, members, change):  # type: ignore[no-untyped-def]
    """Add to F what the members' changes do to it: sum over members of change times column, four columns at a time."""
    m = len(members)
    for first in range(0, m - m % 4, 4):
        one, two, three, four = change[first], change[first + 1], change[first + 2], change[first + 3]
        column_1 = columns.values[columns.slot[members[first]]]
        column_2 = columns.values[columns.slot[members[first + 1]]]
        column_3 = columns.values[columns.slot[members[first + 2]]]
        column_4 = columns.values[columns.slot[members[first + 3]]]
        for j in range(len(F)):
            F[j] += one * column_1[j] + two * column_2[j] + three * column_3[j] + four * column_4[j]
    for k in range(m - m % 4, m):
        column = columns.values[columns.slot[members[k]]]
        for j in range(len(F)):
            F[j] += change[k] * column[j]

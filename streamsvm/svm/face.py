r"""Newton's method inside a block: where steps along pairs have become slow, all free points move together.

With large boxes most of a block's time goes to pairs that make tiny steps along nearly flat directions, long after the
points at their bounds have settled. Over the free points alone (low < b < high), with all other variables fixed, the
problem of `streamsvm.svm.working_set` is a small dense one:

    min g'x + 1/2 x'(K + r)x   over x,   sum x = 0,   low - b <= x <= high - b,   g = F.

The ridge r exceeds the rounding errors in K's smallest eigenvalues, so that the inverse M of K + r exists. It also
turns every step into a proximal step, which is shorter than the full one; repeating the step with the same M makes up
for that. If no bound is in the way, the optimum is x = -M (g + mu 1), where mu follows from the sum. On the way to it:

1. The step goes to the first bound. While many bounds are in the way, it goes past an eighth of them. Points that meet
   their bound are fixed there, which adds one equality condition for each.
2. The next direction follows from M and one multiplier per condition. The matrix of the conditions (the products by M
   of the vector 1 and of the unit vectors of the fixed points) grows by one row of its Cholesky factor per condition.
3. When no bound is in the way any more, F is updated. If F still differs among the free points, the descent is
   repeated.

No point leaves its bound here: steps along pairs do that, between two descents. Counts of points and steps, never a
clock, decide which of the two methods continues.

Where thousands of points are free, more than a block holds, successive blocks undo each other's work. Then all free
points move at once (`move_all`), together with the points at a bound that would leave it; variables that hit a bound
are fixed again.

Invariant: boxes hold exactly; the sum of b changes by rounding only; the objective of K falls, or nothing changes. A
descent that ends with a higher objective, which can happen after many bounds were met at once, is undone.

Source: Goldfarb and Idnani 1983 extend a Cholesky factor by the active bounds in this way, for the dual problem; here
it is done for the primal one, as in Scheinberg 2006, "An efficient implementation of an active set method for SVMs".
Her method moves one point at a time; here steps along pairs settle most points before.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from streamsvm.compiling import njit
from streamsvm.linalg import REORDERED, Index
from streamsvm.model.kernels import Float
from streamsvm.svm.rbf import CsrRbfBlocks, RbfBlocks, Values
from streamsvm.svm.working_set import descend, extremes
from streamsvm.vector_math import widest_vectors

PAIR_NS: Final = 0.65
"""Estimated nanoseconds of a step along a pair, per point of its block; only its ratio to `newton_ns` matters."""
PATIENCE: Final = 2.0
"""A descent starts when pairs have cost this many times as much as it would; a problem that pairs solve soon needs
none."""
FEWEST_PAIRS: Final = 10
"""Least number of steps along pairs between two descents."""
AIM: Final = 0.5
"""The free points are solved to this share of the block's target, so that little is left for the pairs among them."""
RIDGE: Final = 4.0
"""The ridge is this times the machine precision of kernel values times sqrt(m), which exceeds the errors in K's
eigenvalues."""
LEAST_RIDGE: Final = 1e-9
"""Smallest ridge; it keeps the inverse accurate to many digits."""
REPEATS: Final = 8
"""Largest number of proximal steps with one inverse."""
MOST_FIXED, FIXED_SHARE = 512, 0.25
"""Most points that one descent fixes at bounds: the larger of this number and this share of the free points."""
AT_ONCE: Final = 8
"""In one step, one in this many of the points whose bound is in the way meets it."""
MOST_FREE: Final = 6144
"""Most points that move at once: their kernel matrix and its inverse take 600 MB."""


class Face(NamedTuple):
    """One descent over f free points; arrays only, so that compiled code can take it.

    Attributes
    ----------
    free : ndarray of shape (f,), int64
        Places of the free points in the block.
    inverse : ndarray of shape (f, f)
        M.
    gradient, answer, ones : ndarray of shape (f,)
        g, M g and M 1.
    x, ahead, down, up : ndarray of shape (f,)
        The change of b so far; the point the step leads to; lower and upper bounds of x.
    meets : ndarray of shape (f,)
        Share of the step after which a point meets its bound; infinite if it does not meet one.
    fixed : ndarray of shape (f,), bool
        Which points are fixed at a bound.
    fixed_order : ndarray of int64
        The fixed points, in the order in which they met their bounds.
    factor : ndarray of shape (len(fixed_order) + 1, len(fixed_order) + 1)
        Cholesky factor of the conditions' products by M: first the sum, then the fixed points.
    solved, multiplier : ndarray of shape (len(fixed_order) + 1,)
        The conditions' right-hand sides after forward substitution; their multipliers.
    """

    free: Index
    inverse: Float
    gradient: Float
    answer: Float
    ones: Float
    x: Float
    ahead: Float
    down: Float
    up: Float
    meets: Float
    fixed: NDArray[np.bool_]
    fixed_order: Index
    factor: Float
    solved: Float
    multiplier: Float


def newton_ns(free: int) -> float:
    """Return the estimated time of a descent over this many free points, in nanoseconds on a core of 2023."""
    return 6e4 + 60.0 * free + 0.03 * float(free) ** 3


def solve_block(
    K: Values,
    members: Index,
    F: Float,
    b: Float,
    low: Float,
    high: Float,
    share: float,
    floor: float,
    limit: int,
    change: Float,
) -> int:
    """Solve a block's problem along pairs, with a Newton descent each time the pairs cost `PATIENCE` times as much.

    Parameters and result are those of `streamsvm.svm.working_set.solve_block`. Kernel values are at most 1
    on the diagonal. A descent counts as one step for each stop at bounds, and one for each optimum that it reached.
    """
    own, least, most, gradient = b[members], low[members], high[members], F[members]
    top, bottom = extremes(gradient, own, least, most)
    # A block that is solved further than the rest of the problem is soon undone by the next block.
    stop = max(floor, share * (top - bottom))
    # A descent that changed nothing will not help the same block later either: then pairs finish it alone.
    steps, helps = 0, True
    while steps < limit:
        # Pairs are cheap while points still meet bounds; a descent pays once few do. Each gets its estimated share of
        # the time.
        leg = limit - steps
        if helps:
            free = int(np.count_nonzero((own > least) & (own < most)))
            leg = min(leg, FEWEST_PAIRS + int(PATIENCE * newton_ns(free) / (PAIR_NS * len(own))))
        made = descend(K, gradient, own, least, most, 0.0, stop, leg)
        steps += made
        if made < leg:  # the pairs have reached the block's target
            break
        if steps < limit:
            made = descend_face(K, gradient, own, least, most, AIM * stop, limit - steps)
            steps += made
            helps = made > 0
    # Differences of the whole block, not sums of its steps: the caller's F gets one rounding error for each point.
    np.subtract(own, b[members], out=change)
    b[members] = own
    return steps


def leaving(F: Float, b: Float, low: Float, high: Float, tolerance: float) -> NDArray[np.bool_]:
    """Return the points at a bound that would leave it: their F differs from the free points' by half the tolerance.

    Parameters
    ----------
    F, b, low, high : ndarray of shape (n,), float64
        Some point is free.
    tolerance : float

    Returns
    -------
    ndarray of shape (n,), bool
    """
    # Half: the gap lies between two points, and the mean of the free ones stands between them.
    rises, falls = b < high, b > low
    above = F - F[rises & falls].mean()
    return np.asarray((rises & ~falls & (above < -0.5 * tolerance)) | (falls & ~rises & (above > 0.5 * tolerance)))


def move_all(
    source: RbfBlocks | CsrRbfBlocks,
    soft: Float,
    F: Float,
    b: Float,
    low: Float,
    high: Float,
    tolerance: float,
    limit: int,
) -> int:
    """Move the free points of a whole problem towards their optimum, and those that leave their bounds with them.

    Parameters
    ----------
    source : RbfBlocks or CsrRbfBlocks
        Of float64 values.
    soft : ndarray of shape (n,), float64
        Added to k_ii.
    F, b : ndarray of shape (n,), float64
        In and out; at least one point is free, and F was recomputed from scratch.
    low, high : ndarray of shape (n,), float64
    tolerance : float
    limit : int
        Most steps.

    Returns
    -------
    int
        Steps made; 0 if nothing changed.
    """
    # Points about to leave a bound go along: without them the free points would reach an optimum that is not the whole
    # problem's.
    members = np.flatnonzero(((b > low) & (b < high)) | leaving(F, b, low, high, tolerance))
    own = b[members]
    every = np.arange(len(members))
    K = source.gram(members)
    K[np.diag_indices(len(members))] += soft[members]
    within = K, F[members], own, low[members], high[members]
    steps = descend_face(*within, AIM * tolerance, limit, every)
    if steps:
        change = own - b[members]
        moved = np.flatnonzero(change)
        source.add(members[moved], change[moved], F)
        F[members] += soft[members] * change
        b[members] = own
    return steps


def descend_face(
    K: Values,
    F: Float,
    b: Float,
    low: Float,
    high: Float,
    stop: float,
    limit: int,
    movable: Index | None = None,
) -> int:
    """Move the free points of a block towards their optimum, until F differs by at most `stop` among them.

    Parameters
    ----------
    K : ndarray of shape (m, m), float32 or float64
    F, b : ndarray of shape (m,), float64
        In and out.
    low, high : ndarray of shape (m,), float64
    stop : float
    limit : int
        Most steps, each from one bound to the next; at least 1.
    movable : ndarray of int64, optional
        Places of the points that move, instead of the free ones.

    Returns
    -------
    int
        Steps made; 0 if nothing changed, because fewer than two points are free or there was nothing to gain.
    """
    free = np.flatnonzero((b > low) & (b < high)) if movable is None else movable
    if len(free) < 2:
        return 0
    # One inverse serves the whole descent: points that meet bounds become conditions on it, and nothing is factorised
    # anew.
    inverse = _inverse(K, free)
    if inverse is None:
        return 0
    before, gradient = b.copy(), F.copy()
    steps = _descend(K, F, b, low, high, stop, limit, _face(free, inverse))
    # For a quadratic objective the change of f is 1/2 (b' - b)(F' + F), so no further product with K is needed.
    # Written with `not`, so that NaN, from an ill-conditioned inverse, takes everything back, too.
    if not (b - before) @ (F + gradient) < 0.0:
        b[:], F[:] = before, gradient
        return 0
    return int(steps)


def warm_up(precision: type[np.float32 | np.float64]) -> None:
    """Compile, or load from numba's file cache, the compiled functions for kernel values of a precision."""
    K: Values = np.eye(3).astype(precision)
    b = np.zeros(3)
    descend_face(K, np.array([-1.0, 0.0, 1.0]), b, np.full(3, -0.4), np.full(3, 9.0), 0.0, 9)


def _face(free: Index, inverse: Float) -> Face:
    """Return the arrays of a descent. At least one point is never fixed, so that the sum can still be met."""
    f = len(free)
    # A bound on the factor of the conditions, which has a row and a column for each point that is fixed.
    most = min(f - 1, max(MOST_FIXED, int(FIXED_SHARE * f)))
    gradient, answer, ones, x, ahead, down, up, meets = np.empty((8, f))
    solved, multiplier = np.empty((2, most + 1))
    fixed, fixed_order = np.zeros(f, np.bool_), np.empty(most, np.int64)
    factor = np.empty((most + 1, most + 1))
    along = gradient, answer, ones, x, ahead, down, up, meets
    return Face(free, inverse, *along, fixed, fixed_order, factor, solved, multiplier)


def _inverse(K: Values, free: Index) -> Float | None:
    """Return the inverse of the free points' kernel matrix plus ridge; None if rounding made it indefinite."""
    # Kernel values of near duplicates are 1 up to rounding: without a ridge of that size the matrix is not positive
    # definite.
    ridge = max(LEAST_RIDGE, RIDGE * float(np.finfo(K.dtype).eps) * float(np.sqrt(len(K))))
    matrix = np.empty((len(free), len(free)))
    _gather(K, free, ridge, matrix)
    # LAPACK stores columns: the transposed view of the symmetric matrix lets it work in place, without a copy.
    factor, failed = lapack.dpotrf(matrix.T, lower=1, overwrite_a=1, clean=0)
    if failed:
        return None
    inverse, failed = lapack.dpotri(factor, lower=1, overwrite_c=1)
    if failed:
        return None
    inverse = inverse.T
    _mirror(inverse)
    return np.asarray(inverse, dtype=np.float64)


@njit(cache=True, nogil=True)
def _gather(K, free, ridge, matrix):  # type: ignore[no-untyped-def]
    """Write the free points' part of K, with the ridge on its diagonal."""
    for r in range(len(free)):
        line, own = K[free[r]], matrix[r]
        for j in range(len(free)):
            own[j] = line[free[j]]
        own[r] += ridge


@njit(cache=True, nogil=True)
def _mirror(matrix):  # type: ignore[no-untyped-def]
    """Copy the upper triangle to the lower one, in squares that fit into the CPU cache."""
    n, side = len(matrix), 32
    for first in range(0, n, side):
        for start in range(0, first + side, side):
            for i in range(first, min(n, first + side)):
                for j in range(start, min(i, start + side)):
                    matrix[i, j] = matrix[j, i]


@njit(cache=True, nogil=True, error_model="numpy")
def _descend(K, F, b, low, high, stop, limit, face):  # type: ignore[no-untyped-def]
    """Repeat proximal steps until F differs by at most `stop`, or a step fails; return the number of steps."""
    for j in range(len(face.free)):
        face.ones[j] = _sum(face.inverse[j])
    face.factor[0, 0] = np.sqrt(_sum(face.ones))
    steps = fixed_count = 0
    for _ in range(REPEATS):
        if not _begin(face, F, b, low, high) > stop:
            break
        _answer(face, fixed_count)
        arrived = False
        while steps < limit and not arrived:
            steps += 1
            _look_ahead(face, fixed_count)
            length = _step(face)
            arrived = not length < np.inf
            if not arrived:
                fixed_count, possible = _fix_all(face, fixed_count, length)
                if not possible:
                    break
        _finish(face, K, F, b, low, high)
        if not arrived:
            break
    return steps


@njit(cache=True, nogil=True)
def _begin(face, F, b, low, high):  # type: ignore[no-untyped-def]
    """Start from x = 0; return the range of F over the points that are not fixed."""
    top, bottom = -np.inf, np.inf
    for j in range(len(face.free)):
        i = face.free[j]
        face.gradient[j], face.x[j] = F[i], 0.0
        face.down[j], face.up[j] = low[i] - b[i], high[i] - b[i]
        if not face.fixed[j]:
            top, bottom = max(top, F[i]), min(bottom, F[i])
    return top - bottom


@njit(cache=True, nogil=True, error_model="numpy")
def _answer(face, fixed_count):  # type: ignore[no-untyped-def]
    """Compute M g, and the right-hand sides of the conditions so far by forward substitution."""
    for j in range(len(face.free)):
        face.answer[j] = _dot(face.inverse[j], face.gradient)
    for k in range(fixed_count + 1):
        right = -_sum(face.answer) if k == 0 else -face.answer[face.fixed_order[k - 1]]
        face.solved[k] = (right - _dot(face.factor[k, :k], face.solved)) / face.factor[k, k]


@njit(cache=True, nogil=True, error_model="numpy")
def _look_ahead(face, fixed_count):  # type: ignore[no-untyped-def]
    """Compute the optimum under the current conditions, without bounds: -(M g + mu M 1 + sum of multipliers * M e)."""
    multiplier, ahead = face.multiplier, face.ahead
    multiplier[: fixed_count + 1] = face.solved[: fixed_count + 1]
    for k in range(fixed_count, -1, -1):
        multiplier[k] /= face.factor[k, k]
        _add(-multiplier[k], face.factor[k], multiplier[:k])
    for j in range(len(ahead)):
        ahead[j] = -face.answer[j]
    _add(-multiplier[0], face.ones, ahead)
    for k in range(fixed_count):
        _add(-multiplier[k + 1], face.inverse[face.fixed_order[k]], ahead)


@njit(cache=True, nogil=True, error_model="numpy")
def _step(face):  # type: ignore[no-untyped-def]
    """Go towards the optimum up to a bound; return the share of the way covered, infinite if no bound was met."""
    x, ahead, down, up, meets = face.x, face.ahead, face.down, face.up, face.meets
    count = 0
    for j in range(len(x)):
        meets[j] = np.inf
        if not face.fixed[j] and (ahead[j] > up[j] or ahead[j] < down[j]):
            bound = up[j] if ahead[j] > up[j] else down[j]
            meets[j] = min(max(0.0, (bound - x[j]) / (ahead[j] - x[j])), 1.0)
            count += 1
    length = np.partition(meets, count // AT_ONCE)[count // AT_ONCE] if count > 0 else np.inf
    share = min(length, 1.0)
    for j in range(len(x)):
        if not face.fixed[j]:
            x[j] = min(max(x[j] + share * (ahead[j] - x[j]), down[j]), up[j])
            if meets[j] <= share:
                x[j] = up[j] if ahead[j] > up[j] else down[j]
    return length


@njit(cache=True, nogil=True)
def _fix_all(face, fixed_count, length):  # type: ignore[no-untyped-def]
    """Fix all points that have met a bound; return the number of fixed points, and whether that was possible."""
    for j in range(len(face.x)):
        if not face.fixed[j] and face.meets[j] <= length:
            if fixed_count == len(face.fixed_order) or not _fix(face, fixed_count, j):
                return fixed_count, False
            fixed_count += 1
    return fixed_count, True


@njit(cache=True, nogil=True, error_model="numpy")
def _fix(face, fixed_count, i):  # type: ignore[no-untyped-def]
    """Add the condition that point i is fixed where it is: a row of the Cholesky factor, and of its right-hand side.

    Returns false, and fixes nothing, if rounding makes the condition depend on the others.
    """
    factor, k = face.factor, fixed_count + 1
    line = factor[k]
    for j in range(k):
        value = face.ones[i] if j == 0 else face.inverse[i, face.fixed_order[j - 1]]
        line[j] = (value - _dot(factor[j, :j], line)) / factor[j, j]
    rest = face.inverse[i, i] - _dot(line[:k], line)
    if not rest > 0.0:
        return False
    line[k] = np.sqrt(rest)
    face.solved[k] = (-face.answer[i] - face.x[i] - _dot(line[:k], face.solved)) / line[k]
    face.fixed[i], face.fixed_order[fixed_count] = True, i
    return True


@njit(cache=True, nogil=True)
def _finish(face, K, F, b, low, high):  # type: ignore[no-untyped-def]
    """Add x to b and update F; the point furthest from its bounds absorbs the rounding error in the sum of x.

    A descent that ends just after several points met their bounds at once, because it may make no more steps or fix no
    more points, leaves more than rounding: then the points absorb it one after another, each up to its bound.
    """
    x, down, up = face.x, face.down, face.up
    roomy, room = 0, 0.0
    for j in range(len(x)):
        own = min(x[j] - down[j], up[j] - x[j])
        if own > room:
            roomy, room = j, own
    excess = _sum(x)
    if abs(excess) < room:
        x[roomy] -= excess
    else:
        for j in range(len(x)):
            taken = min(max(excess, x[j] - up[j]), x[j] - down[j])
            x[j] -= taken
            excess -= taken
    for j in range(len(x)):
        i = face.free[j]
        b[i] = high[i] if x[j] >= up[j] else low[i] if x[j] <= down[j] else min(max(b[i] + x[j], low[i]), high[i])
        _add(x[j], K[i], F)


@njit(cache=True, nogil=True, fastmath=REORDERED)
def _sum(values):  # type: ignore[no-untyped-def]
    widest_vectors()
    total = 0.0
    for j in range(len(values)):
        total += values[j]
    return total


@njit(cache=True, nogil=True, fastmath=REORDERED)
def _dot(x, y):  # type: ignore[no-untyped-def]
    """Return the dot product over the length of x; y may be longer."""
    widest_vectors()
    total = 0.0
    for j in range(len(x)):
        total += x[j] * y[j]
    return total


@njit(cache=True, nogil=True, fastmath={"contract"})
def _add(factor, values, sums):  # type: ignore[no-untyped-def]
    """Add a multiple of `values` to `sums`, over the length of `sums`."""
    widest_vectors()
    for j in range(len(sums)):
        sums[j] += factor * np.float64(values[j])

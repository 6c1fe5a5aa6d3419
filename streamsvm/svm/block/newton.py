r"""Newton's method inside a block: where pairs have become slow, the free points move together.

With large boxes most of a block's time goes to pairs that crawl along nearly flat directions, long after the points at
their bounds have settled. Over the free points alone, low < b < high, all else fixed, the problem of
`streamsvm.svm.block.working_set` is a small dense one:

    min g'x + 1/2 x'(K + r)x   over x,   sum x = 0,   low - b <= x <= high - b,   g = F.

The ridge r covers what rounding has made of K's least eigenvalues, so that the inverse M of K + r exists; it also makes
every step a proximal one, and some repetitions with the same M undo what it takes off their length. Without bounds in
the way the optimum is x = -M (g + mu 1), mu by the sum. Along the way to it:

1. the step goes as far as the first bound, or while many bounds are in the way past an eighth of them; the points that
   meet theirs are held there, as further conditions;
2. the way ahead follows from M and as many multipliers as there are conditions, whose matrix, 1 and the held unit
   vectors in M's product, grows by a row of its Cholesky factor;
3. with no bound in the way any more, F is brought up to date, and if the free points still disagree, it begins again.

No point leaves its bound here: pairs do that, between two such descents. Which of both goes on follows from counts of
points and steps, never from a clock.

Where thousands of points are free, more than a block holds, blocks disturb each other; then all free points move at
once (`move_all`), together with those at bounds that would leave them, and bounds that are met again hold them again.

Invariant: boxes hold exactly, the sum of b changes by rounding only, and the objective of K falls, or nothing changes:
a descent that ends higher, as it may after many bounds were met at once, is taken back.

Source: Goldfarb and Idnani 1983 grow a Cholesky factor with the active bounds in this way, for the dual; here it is the
primal one, as in Scheinberg 2006, "An efficient implementation of an active set method for SVMs", who moves one point
at a time where pairs here settle most of them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.linalg import lapack

from streamsvm.linalg import REORDERED, Index
from streamsvm.model.kernels import Float
from streamsvm.svm.block.rbf_tiles import RbfBlocks, Values
from streamsvm.svm.block.vector_math import widest_vectors
from streamsvm.svm.block.working_set import descend, extremes

PAIR_NS: Final = 0.65
"""About what a step along a pair costs for each point of its block; only its ratio to `newton_ns` matters."""
PATIENCE: Final = 2.0
"""How many times what a descent costs pairs may cost before it takes its turn: where pairs end soon it only delays."""
FEWEST_PAIRS: Final = 10
"""Steps that pairs make at least."""
AIM: Final = 0.5
"""Share of the block's target to which the free points are brought: pairs should find little left among them."""
RIDGE: Final = 4.0
"""Times the precision of kernel values and the root of the number of points: above the noise of K's eigenvalues."""
LEAST_RIDGE: Final = 1e-9
"""Least ridge, so that the inverse is good to many digits."""
REPEATS: Final = 8
"""Most proximal steps with one inverse."""
MOST_HELD, HELD_SHARE = 512, 0.25
"""Most points that one descent holds at bounds they have met: so many, or this share if it is more."""
AT_ONCE: Final = 8
"""One in so many of the points that are to meet a bound does so in one step."""
MOST_FREE: Final = 6144
"""Most points that move at once: their kernel matrix and its inverse are 600 MB."""


class Face(NamedTuple):
    """One descent over f free points; arrays only, so that compiled code can take it.

    Attributes
    ----------
    free : ndarray of shape (f,), int64
        Their places in the block.
    inverse : ndarray of shape (f, f)
        M.
    gradient, answer, ones : ndarray of shape (f,)
        g, M g and M 1.
    x, ahead, down, up : ndarray of shape (f,)
        What is added to b so far; where the step leads; bounds of both.
    meets : ndarray of shape (f,)
        Share of the step after which a point meets its bound; infinite if it does not.
    fixed : ndarray of shape (f,), bool
        Who is held at a bound.
    held : ndarray of int64
        The same in the order in which they met it.
    factor : ndarray of shape (len(held) + 1, len(held) + 1)
        Cholesky factor of the conditions' products by M: the sum first, then who is held.
    solved, multiplier : ndarray of shape (len(held) + 1,)
        Their right-hand sides, solved forwards; their multipliers.
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
    held: Index
    factor: Float
    solved: Float
    multiplier: Float


def newton_ns(free: int) -> float:
    """Return about what a descent over so many free points takes, in nanoseconds of a core of 2023."""
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
    """Solve a block's problem by pairs, and by Newton's method as often as pairs have cost `PATIENCE` times as much.

    Parameters and result are those of `streamsvm.svm.block.working_set.solve_block`; kernel values are 1 on the
    diagonal, and what a descent over the free points did counts as a step for every bound that it met, and for every
    end it reached.
    """
    own, least, most, gradient = b[members], low[members], high[members], F[members]
    top, bottom = extremes(gradient, own, least, most)
    stop = max(floor, share * (top - bottom))
    steps, helps = 0, True
    while steps < limit:
        leg = min(limit - steps, _pairs_worth(own, least, most)) if helps else limit - steps
        made = descend(K, gradient, own, least, most, 0.0, stop, leg)
        steps += made
        if made < leg:
            break
        if steps < limit:
            made = descend_face(K, gradient, own, least, most, AIM * stop, limit - steps)
            steps += made
            helps = made > 0
    np.subtract(own, b[members], out=change)
    b[members] = own
    return steps


def leaving(F: Float, b: Float, low: Float, high: Float, tolerance: float) -> NDArray[np.bool_]:
    """Tell which points at a bound would leave it, by more than half the tolerance, to where the free points are.

    Parameters
    ----------
    F, b, low, high : ndarray of shape (n,), float64
        Some point is free.
    tolerance : float

    Returns
    -------
    ndarray of shape (n,), bool
    """
    rises, falls = b < high, b > low
    above = F - F[rises & falls].mean()
    return np.asarray((rises & ~falls & (above < -0.5 * tolerance)) | (falls & ~rises & (above > 0.5 * tolerance)))


def move_all(source: RbfBlocks, F: Float, b: Float, low: Float, high: Float, tolerance: float, limit: int) -> int:
    """Move the free points of a whole problem towards their optimum, and those that leave their bounds with them.

    Parameters
    ----------
    source : RbfBlocks
        Of float64 values.
    F, b : ndarray of shape (n,), float64
        In and out; some point is free, and F is as good as from scratch.
    low, high : ndarray of shape (n,), float64
    tolerance : float
    limit : int
        Most steps.

    Returns
    -------
    int
        Steps made; 0 if nothing changed.
    """
    members = np.flatnonzero(((b > low) & (b < high)) | leaving(F, b, low, high, tolerance))
    own = b[members]
    every = np.arange(len(members))
    within = source.gram(members), F[members], own, low[members], high[members]
    steps = descend_face(*within, AIM * tolerance, limit, every)
    if steps:
        change = own - b[members]
        moved = np.flatnonzero(change)
        source.add(members[moved], change[moved], F)
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
        Most steps, each from bound to bound; at least 1.
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
    inverse = _inverse(K, free)
    if inverse is None:
        return 0
    before, gradient = b.copy(), F.copy()
    steps = _descend(K, F, b, low, high, stop, limit, _face(free, inverse))
    if not (b - before) @ (F + gradient) < 0.0:
        b[:], F[:] = before, gradient
        return 0
    return int(steps)


def warm_up(precision: type[np.float32 | np.float64]) -> None:
    """Compile, or load from numba's file cache, all of it for kernel values of a precision."""
    K: Values = np.eye(3).astype(precision)
    b = np.zeros(3)
    descend_face(K, np.array([-1.0, 0.0, 1.0]), b, np.full(3, -0.4), np.full(3, 9.0), 0.0, 9)


def _pairs_worth(b: Float, low: Float, high: Float) -> int:
    """Return how many steps pairs may make before a descent over the free points takes its turn."""
    free = int(np.count_nonzero((b > low) & (b < high)))
    return FEWEST_PAIRS + int(PATIENCE * newton_ns(free) / (PAIR_NS * len(b)))


def _face(free: Index, inverse: Float) -> Face:
    """Return room for a descent; the sum must stay free, so that one point is never held."""
    f = len(free)
    most = min(f - 1, max(MOST_HELD, int(HELD_SHARE * f)))
    gradient, answer, ones, x, ahead, down, up, meets = np.empty((8, f))
    solved, multiplier = np.empty((2, most + 1))
    fixed, held = np.zeros(f, np.bool_), np.empty(most, np.int64)
    factor = np.empty((most + 1, most + 1))
    along = gradient, answer, ones, x, ahead, down, up, meets
    return Face(free, inverse, *along, fixed, held, factor, solved, multiplier)


def _inverse(K: Values, free: Index) -> Float | None:
    """Return the inverse of the free points' kernel matrix with its ridge; None if rounding has it indefinite."""
    ridge = max(LEAST_RIDGE, RIDGE * float(np.finfo(K.dtype).eps) * float(np.sqrt(len(K))))
    matrix = np.empty((len(free), len(free)))
    _gather(K, free, ridge, matrix)
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
    """Copy the upper triangle to the lower, in squares that stay in the cache."""
    n, side = len(matrix), 32
    for first in range(0, n, side):
        for start in range(0, first + side, side):
            for i in range(first, min(n, first + side)):
                for j in range(start, min(i, start + side)):
                    matrix[i, j] = matrix[j, i]


@njit(cache=True, nogil=True, error_model="numpy")
def _descend(K, F, b, low, high, stop, limit, face):  # type: ignore[no-untyped-def]
    """Repeat proximal steps until F differs by at most `stop`, or one does not arrive; return the steps made."""
    for j in range(len(face.free)):
        face.ones[j] = _sum(face.inverse[j])
    face.factor[0, 0] = np.sqrt(_sum(face.ones))
    steps = held = 0
    for _ in range(REPEATS):
        if not _begin(face, F, b, low, high) > stop:
            break
        _answer(face, held)
        arrived = False
        while steps < limit and not arrived:
            steps += 1
            _look_ahead(face, held)
            length = _step(face)
            arrived = not length < np.inf
            if not arrived:
                held, holds = _hold_all(face, held, length)
                if not holds:
                    break
        _finish(face, K, F, b, low, high)
        if not arrived:
            break
    return steps


@njit(cache=True, nogil=True)
def _begin(face, F, b, low, high):  # type: ignore[no-untyped-def]
    """Start from x = 0; return by how much F differs among the points that are not held."""
    top, bottom = -np.inf, np.inf
    for j in range(len(face.free)):
        i = face.free[j]
        face.gradient[j], face.x[j] = F[i], 0.0
        face.down[j], face.up[j] = low[i] - b[i], high[i] - b[i]
        if not face.fixed[j]:
            top, bottom = max(top, F[i]), min(bottom, F[i])
    return top - bottom


@njit(cache=True, nogil=True, error_model="numpy")
def _answer(face, held):  # type: ignore[no-untyped-def]
    """Fill M g, and what the conditions so far make of it: their right-hand sides, solved forwards."""
    for j in range(len(face.free)):
        face.answer[j] = _dot(face.inverse[j], face.gradient)
    for k in range(held + 1):
        right = -_sum(face.answer) if k == 0 else -face.answer[face.held[k - 1]]
        face.solved[k] = (right - _dot(face.factor[k, :k], face.solved)) / face.factor[k, k]


@njit(cache=True, nogil=True, error_model="numpy")
def _look_ahead(face, held):  # type: ignore[no-untyped-def]
    """Fill the optimum under the present conditions, bounds aside: -(M g + mu M 1 + sum of multipliers times M e)."""
    multiplier, ahead = face.multiplier, face.ahead
    multiplier[: held + 1] = face.solved[: held + 1]
    for k in range(held, -1, -1):
        multiplier[k] /= face.factor[k, k]
        _add(-multiplier[k], face.factor[k], multiplier[:k])
    for j in range(len(ahead)):
        ahead[j] = -face.answer[j]
    _add(-multiplier[0], face.ones, ahead)
    for k in range(held):
        _add(-multiplier[k + 1], face.inverse[face.held[k]], ahead)


@njit(cache=True, nogil=True, error_model="numpy")
def _step(face):  # type: ignore[no-untyped-def]
    """Go towards the optimum as far as a bound; return which share of the way that was, infinite if all of it."""
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
def _hold_all(face, held, length):  # type: ignore[no-untyped-def]
    """Hold everyone who has met a bound; return how many are held, and whether that was possible."""
    for j in range(len(face.x)):
        if not face.fixed[j] and face.meets[j] <= length:
            if held == len(face.held) or not _hold(face, held, j):
                return held, False
            held += 1
    return held, True


@njit(cache=True, nogil=True, error_model="numpy")
def _hold(face, held, i):  # type: ignore[no-untyped-def]
    """Add the condition that point i stays where it is; false if rounding has it depend on the others."""
    factor, k = face.factor, held + 1
    line = factor[k]
    for j in range(k):
        value = face.ones[i] if j == 0 else face.inverse[i, face.held[j - 1]]
        line[j] = (value - _dot(factor[j, :j], line)) / factor[j, j]
    rest = face.inverse[i, i] - _dot(line[:k], line)
    if not rest > 0.0:
        return False
    line[k] = np.sqrt(rest)
    face.solved[k] = (-face.answer[i] - face.x[i] - _dot(line[:k], face.solved)) / line[k]
    face.fixed[i], face.held[held] = True, i
    return True


@njit(cache=True, nogil=True)
def _finish(face, K, F, b, low, high):  # type: ignore[no-untyped-def]
    """Move b by x, whose sum the point with most room makes 0, and bring F up to date."""
    x, down, up = face.x, face.down, face.up
    roomy, room = 0, 0.0
    for j in range(len(x)):
        own = min(x[j] - down[j], up[j] - x[j])
        if own > room:
            roomy, room = j, own
    excess = _sum(x)
    x[roomy] -= excess if abs(excess) < room else 0.0
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
    """Return the sum of products, over as many places as x has."""
    widest_vectors()
    total = 0.0
    for j in range(len(x)):
        total += x[j] * y[j]
    return total


@njit(cache=True, nogil=True, fastmath={"contract"})
def _add(factor, values, sums):  # type: ignore[no-untyped-def]
    """Add a multiple to as many places as `sums` has."""
    widest_vectors()
    for j in range(len(sums)):
        sums[j] += factor * np.float64(values[j])

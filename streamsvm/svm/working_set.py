r"""The work inside one block: choose its points, and solve the problem over them with all other variables fixed.

Over a block W with its kernel matrix K at hand the problem is

    min 1/2 b'Kb + p'b   over b in W,   low <= b <= high,   sum b fixed,

in the variables of `streamsvm.svm.stda`: b_i = y_i a_i, F_i = grad f_i / y_i. A step moves one pair: the point
u of R with the least F rises, the point v of S with the greatest (F_v - F_u)^2 / (k_uu + k_vv - 2 k_uv) falls, by the
exact minimum along the pair or to a bound (Fan, Chen and Lin 2005, "WSS 2").

Invariant: the boxes hold exactly; the sum of b changes by rounding only; every step lowers the objective of K.

Minima and maxima are computed as values first, and their places are searched afterwards: loops of this form become
vector instructions. The fastmath flags of those functions let the compiler ignore NaN and the sign of zero; they do not
let it reorder sums.
"""

from __future__ import annotations

import numpy as np

from streamsvm.compiling import njit
from streamsvm.vector_math import least, most, widest_vectors

CLASSES = 1024
"""Number of classes into which violations are divided to select the extremes; class 0: no violation. More classes would
select more exactly, and need more passes in `_threshold`."""

LEAST_CURVATURE = 1e-12
"""Replaces a curvature along a pair that is not positive, as LIBSVM's tau does."""


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def extremes(F, b, low, high):  # type: ignore[no-untyped-def]
    """Return the greatest F of the points that may fall and the least of those that may rise (-inf, inf if none)."""
    widest_vectors()
    top, bottom = -np.inf, np.inf
    for j in range(len(F)):
        top = most(top, F[j] if b[j] > low[j] else -np.inf)
        bottom = least(bottom, F[j] if b[j] < high[j] else np.inf)
    return top, bottom


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def amount(b):  # type: ignore[no-untyped-def]
    """Return sum_i |b_i|; the compiler may choose a (fixed) order of the terms that allows vector instructions."""
    widest_vectors()
    total = 0.0
    for j in range(len(b)):
        total += abs(b[j])
    return total


@njit(cache=True, nogil=True)
def choose(F, b, low, high, top, bottom, previous, fresh, places, mark, members):  # type: ignore[no-untyped-def]
    """Choose a block: the greatest F of S and the least of R, then points of the previous block, the free ones first.

    The extremes are selected by their class of violation, which avoids sorting. The last selected class may hold more
    points than are wanted; then points are taken from it at even distances in the order of the points.

    Parameters
    ----------
    F, b, low, high : ndarray of shape (n,), float64
    top, bottom : float
        From `extremes`; top > bottom.
    previous : ndarray of int64
        The previous block; points chosen more recently come first.
    fresh : int
        Points wanted from each side; at most half of `len(members)`, so that both sides fit.
    places : ndarray of shape (2, n), int32
        Work space.
    mark : ndarray of shape (n,), bool
        Work space; must be all false, and is all false again afterwards.
    members : ndarray of int64
        Out: the block.

    Returns
    -------
    int
        Points in the block, at most `len(members)`.
    """
    # Passes over all points instead of a sort: classes, thresholds, and a selection in the order of the points.
    falls, rises = places[0], places[1]
    _classify(F, b, low, high, top, bottom, falls, rises)
    last_fall, some_falls, all_falls = _threshold(falls, fresh)
    last_rise, some_rises, all_rises = _threshold(rises, fresh)
    count = fall_share = rise_share = 0
    for j in range(len(F)):
        if falls[j] < last_fall and rises[j] < last_rise:
            continue
        taken = falls[j] > last_fall or rises[j] > last_rise
        # Of the last class only some points are wanted. The running share takes them at even distances: the first ones
        # would favour points that came early.
        if falls[j] == last_fall:
            fall_share += some_falls
            if fall_share >= all_falls:
                fall_share -= all_falls
                taken = True
        if rises[j] == last_rise:
            rise_share += some_rises
            if rise_share >= all_rises:
                rise_share -= all_rises
                taken = True
        if taken:
            members[count] = j
            mark[j] = True
            count += 1
    # Free points of the previous block first: they are the ones that are still moving.
    for free_ones in (True, False):
        for i in previous:
            free = low[i] < b[i] < high[i]
            if count < len(members) and not mark[i] and free == free_ones:
                members[count] = i
                mark[i] = True
                count += 1
    # Cleared by the members and not as a whole: the block is small, and `mark` is as long as the problem.
    for i in members[:count]:
        mark[i] = False
    return count


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _classify(F, b, low, high, top, bottom, falls, rises):  # type: ignore[no-untyped-def]
    """Write two classes for every point, by how far it could fall and rise; 0 if it cannot move in that direction."""
    widest_vectors()
    scale, most_place = (CLASSES - 1) / (top - bottom), np.float64(CLASSES - 1)
    for j in range(len(F)):
        down = most(0.0, least((F[j] - bottom) * scale + 1.0, most_place))
        up = most(0.0, least((top - F[j]) * scale + 1.0, most_place))
        falls[j] = np.int32(down if b[j] > low[j] else 0.0)
        rises[j] = np.int32(up if b[j] < high[j] else 0.0)


@njit(cache=True, nogil=True)
def _threshold(classes, wanted):  # type: ignore[no-untyped-def]
    """Return the lowest class to select, how many of its points are wanted, and how many points it has.

    All points of higher classes are selected. The class is at least 1. It is found by bisection, because counting is a
    loop without branches, which building a histogram would not be.
    """
    last, beyond = 1, CLASSES
    reached, before = _count(classes, last), 0
    if reached < wanted:
        every = reached - _count(classes, 2)
        return last, every, every
    while beyond - last > 1:
        middle = (last + beyond) // 2
        count = _count(classes, middle)
        if count >= wanted:
            last, reached = middle, count
        else:
            beyond, before = middle, count
    return last, wanted - before, reached - before


@njit(cache=True, nogil=True)
def _count(classes, place):  # type: ignore[no-untyped-def]
    """Return the number of points in a class or above it."""
    widest_vectors()
    count, least_place = np.int32(0), np.int32(place)
    for j in range(len(classes)):
        count = np.int32(count + np.int32(classes[j] >= least_place))
    return count


@njit(cache=True, nogil=True)
def solve_block(K, members, F, b, low, high, share, floor, limit, change):  # type: ignore[no-untyped-def]
    """Solve a block's problem until its violation is at most max(share times its first value, floor), and update b.

    Parameters
    ----------
    K : ndarray of shape (m, m), float32 or float64
        Kernel values among the members.
    members : ndarray of shape (m,), int64
    F : ndarray of shape (n,), float64
        Not changed.
    b : ndarray of shape (n,), float64
        In and out.
    low, high : ndarray of shape (n,), float64
    share, floor : float
    limit : int
        Most steps.
    change : ndarray of shape (m,), float64
        Out: what was added to b.

    Returns
    -------
    int
        Steps made.
    """
    own = b[members]
    steps = descend(K, F[members], own, low[members], high[members], share, floor, limit)
    for i in range(len(members)):
        change[i] = own[i] - b[members[i]]
        b[members[i]] = own[i]
    return steps


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"}, error_model="numpy")
def descend(K, F, b, low, high, share, floor, limit):  # type: ignore[no-untyped-def]
    """Step along pairs until the violation is small enough; F and b are changed."""
    widest_vectors()
    m = len(F)
    # Constants in the type of the kernel values: a float64 literal would make the inner loop float64.
    number = K.dtype.type
    zero, two, least_curvature = number(0.0), number(2.0), number(LEAST_CURVATURE)
    rise, fall = np.empty(m), np.empty(m)
    gain, diagonal = np.empty(m, K.dtype), np.empty(m, K.dtype)
    top, bottom = -np.inf, np.inf
    for j in range(m):
        diagonal[j] = K[j, j]
        # 0 or infinity, to be added to F: a point that cannot move in a direction then never is an extreme of it,
        # without a branch in the loops below.
        rise[j] = 0.0 if b[j] < high[j] else np.inf
        fall[j] = 0.0 if b[j] > low[j] else np.inf
        bottom = least(bottom, F[j] + rise[j])
        top = most(top, F[j] - fall[j])
    stop = max(floor, share * (top - bottom))
    for step in range(limit):
        if not top - bottom > stop:
            return step
        u = _place_of_sum(F, rise, bottom)
        line_u, own = K[u], diagonal[u]
        # Violations are scaled to at most 1, so that their squares neither overflow nor vanish in float32.
        scale = 1.0 / (top - bottom)
        best = zero
        for j in range(m):
            violation = most(number((F[j] - fall[j] - bottom) * scale), zero)
            curvature = most(own + diagonal[j] - two * line_u[j], least_curvature)
            gain[j] = violation * violation / curvature
            best = most(best, gain[j])
        v = _place_of(gain, best)
        # The choice of v may be made in float32; the length of the step needs float64.
        curvature_64 = np.float64(own) + np.float64(diagonal[v]) - 2.0 * np.float64(line_u[v])
        t = (F[v] - F[u]) / max(curvature_64, LEAST_CURVATURE)
        t = _move(b, low, high, rise, fall, u, v, t)
        line_v = K[v]
        top, bottom = -np.inf, np.inf
        for j in range(m):
            F[j] += t * (np.float64(line_u[j]) - np.float64(line_v[j]))
            bottom = least(bottom, F[j] + rise[j])
            top = most(top, F[j] - fall[j])
    return limit


@njit(cache=True, nogil=True)
def _place_of_sum(F, rise, value):  # type: ignore[no-untyped-def]
    """Return the first place where F + rise is `value`; no early exit, so that the loop becomes vector instructions."""
    widest_vectors()
    last = np.int32(len(F) - 1)
    place = last
    for j in range(len(F)):
        place = min(place, np.int32(j) if F[j] + rise[j] == value else last)
    return place


@njit(cache=True, nogil=True)
def _place_of(values, value):  # type: ignore[no-untyped-def]
    """Return the first place of a value; no early exit, so that the loop becomes vector instructions."""
    widest_vectors()
    last = np.int32(len(values) - 1)
    place = last
    for j in range(len(values)):
        place = min(place, np.int32(j) if values[j] == value else last)
    return place


@njit(cache=True, nogil=True)
def _move(b, low, high, rise, fall, u, v, t):  # type: ignore[no-untyped-def]
    """Move at most t from b[v] to b[u], and set a variable that reaches a bound to it exactly; return the amount."""
    up, down = high[u] - b[u], b[v] - low[v]
    t = min(t, up, down)
    b[u] = high[u] if t >= up else b[u] + t
    b[v] = low[v] if t >= down else b[v] - t
    rise[u], fall[u] = (0.0 if b[u] < high[u] else np.inf), (0.0 if b[u] > low[u] else np.inf)
    rise[v], fall[v] = (0.0 if b[v] < high[v] else np.inf), (0.0 if b[v] > low[v] else np.inf)
    return t

r"""Newton's method on a smoothed hinge, or a squared one: linear machines with a certificate, in a few passes.

The problem is that of `streamsvm.svm.problem`, rows r_i = (z_i - origin, 1), v = (w, b), slack s_i = 1 - y_i <r_i, v>.
The hinge is smoothed over 2 delta,

    h(s) = 0 if s <= -delta,   (s + delta)^2 / (4 delta) if |s| < delta,   s if s >= delta,

and a_i = upper_i h'(s_i) lies in the box whatever v is. Where the gradient w - sum a_i y_i z_i, sum a_i y_i is 0, a is
feasible, and F(v) exceeds its dual objective by the sum of upper_i ([s_i]_+ - h'(s_i) s_i) <= upper_i delta / 8 over
the rows near the kink only. So delta begins at 1, where v = 0 has every row near, and is lowered until the gap is
small enough. Before that a is made feasible by scaling one label down: F(v) - D(a) is recomputed in every step, from
sums that the gradient needs anyway, and nothing but this gap ends the method well.

Unlike the interior-point method (`streamsvm.svm.interior_point`), whose steps weigh all rows, a step's matrix is a sum
over the rows near the kink. It is meant for gaps down to a tenth of a per cent, and for many rows a feature: problems
for which delta would have to be tiny, as nearly separable ones and those of rare columns, are better solved by the
other, to which callers turn where this one gives up (one-hot tables of 304 columns: 57 to 86 steps against 13).

A squared hinge needs no smoothing: a_i = 2 upper_i [s_i]_+, every row with s_i > 0 is near, and the method ends at the
optimum of all problems after some ten steps (Mangasarian 2002, a finite Newton method).

Sources: Chapelle 2007, "Training a support vector machine in the primal"; Lee and Mangasarian 2001 (smoothing). No
BLAS: see `streamsvm.linalg`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsvm.choices import Loss
from streamsvm.compiling import njit
from streamsvm.linalg import REORDERED, Float, factorise, substitute
from streamsvm.points import Signs
from streamsvm.svm.rows import Rows, add_weighted, pull, score

MOST_STEPS: Final = 40
"""Steps after which it gives up; usual are four to eleven for a gap of 0.1 %, from the machine of a part."""
MANY: Final = 4_000
"""Rows from which on a part of them is solved first, if the part has as many as there are columns."""
ONE_OF: Final = 8
"""The part is one row of this many. Its machine is near that of all rows: a few steps are left."""
ROUGHER: Final = 5.0
"""Times the wanted gap at which a part of fewer than `MANY` rows is solved well enough. More rows have nearly the
machine of all, which then takes a step less: a fourth of the time."""
WIDER: Final = 6.0
"""Times the part's delta with which all rows begin, since the kink of theirs is not quite where the part had it."""
AFTER: Final = 0.06
"""The delta with which it begins from a machine of nearly the same rows: one to two steps to a gap of 0.1 %."""
LOWERED: Final = 0.4
"""By what delta is multiplied."""
SMOOTHED: Final = 0.5
"""Share of the wanted gap that smoothing may take; while it takes more, every step lowers delta."""
HALVINGS: Final = 30
"""Most steps of a search along a direction."""
FLAT: Final = 1e-4
"""Share of all rows that count as near in the curvature of the bias, which has no other where no row is."""
LEAST_FLAT: Final = 1e-10
"""The same of a squared hinge, which has curvature wherever a row counts."""


def rough_machine(
    rows: Rows, y: Signs, upper: Float, gap: float, near: Float | None = None, loss: Loss = "hinge"
) -> tuple[Float, float, int, bool]:
    """Solve a linear problem to a relative duality gap.

    Parameters
    ----------
    rows : Rows
    y : ndarray of shape (n,), -1 or +1, both present
    upper : ndarray of shape (n,), float64, positive
    gap : float
        (F - D) / F at which to stop, positive.
    near : ndarray of shape (d + 1,), optional
        Coefficients and intercept from which to begin.
    loss : Loss

    Returns
    -------
    v : ndarray of shape (d + 1,), float64
        Coefficients and intercept of points as they came.
    bound : float
        A dual objective: no machine has a smaller objective, up to rounding.
    steps : int
    met : bool
        Whether the objective of v is within the wanted gap of the bound.
    """
    d, few, is_squared = len(rows.origin), slice(None, None, ONE_OF), loss == "squared_hinge"
    v, width = np.zeros(d + 1), 1.0
    if near is not None:
        v, width = near.copy(), AFTER
        v[d] += (rows.origin * v[:d]).sum()
    elif len(y) >= max(MANY, ONE_OF * d) and -1 in y[few] and 1 in y[few]:
        part = rows.every(ONE_OF), y[few].copy(), ONE_OF * upper[few]
        enough = ROUGHER * gap if len(part[1]) < MANY else gap
        _, _, _, width = _descend(*part, enough, width, v, is_squared)
        width = min(1.0, WIDER * width)
    bound, steps, met, _ = _descend(rows, y, upper, gap, width, v, is_squared)
    v[d] -= (rows.origin * v[:d]).sum()
    return v, float(bound), int(steps), bool(met)


@njit(cache=True, nogil=True, error_model="numpy")
def _descend(rows, y, upper, gap, delta, best, is_squared):  # type: ignore[no-untyped-def]
    """Take steps from `best`, which becomes the v of least F; return D, steps, whether the gap was met, and delta."""
    n, order = len(y), len(best)
    d = order - 1
    v, dv, gradient = best.copy(), np.empty(order), np.empty(order)
    slack, along = np.empty(n), np.empty(n)
    score(rows, v, slack)
    for i in range(n):
        slack[i] = 1.0 - y[i] * slack[i]
    sums, matrix = np.empty((2, order)), np.zeros((order, order))
    factor, curved = np.empty((order, order)), np.zeros(n, np.bool_)  # which rows the matrix of a squared hinge holds
    alive, weight = np.empty(n, np.int64), np.empty(n)
    near, bend = np.empty(n, np.int64), np.empty(n)
    total = upper.sum()
    primal, dual, settled = np.inf, 0.0, True
    for step in range(MOST_STEPS + 1):
        if is_squared:
            loss, count = _collect_squared(upper, slack, alive, weight)
            smoothing, near_count = 0.0, 0
        else:
            loss, smoothing, count, near_count = _collect(upper, slack, delta, alive, weight, near, bend)
        pull(rows, alive[:count], weight, y, sums)
        square = 0.0
        for j in range(d):
            square += v[j] * v[j]
        value = 0.5 * square + loss
        if not value < np.inf:
            return dual, step, False, delta
        if value < primal:
            primal = value
            for j in range(order):
                best[j] = v[j]
        dual = max(dual, _dual(sums, y, upper, alive[:count], weight, is_squared))
        if primal - dual <= gap * primal:
            return dual, step, True, delta
        if step == MOST_STEPS:
            break
        for j in range(d):
            gradient[j] = sums[0, j] + sums[1, j] - v[j]
        gradient[d] = sums[1, d] - sums[0, d]
        if is_squared:  # the curvature of a row is the same in each step, or 0
            near_count = _changed(upper, slack, curved, near, bend)
        else:
            matrix[:] = 0.0
        add_weighted(rows, near[:near_count], bend, matrix)
        factor[:] = matrix
        for j in range(d):
            factor[j, j] += 1.0
        factor[d, d] += total * (LEAST_FLAT if is_squared else FLAT / (2.0 * delta))
        if not factorise(factor):
            return dual, step, False, delta
        substitute(factor, gradient, dv)
        if settled and smoothing > SMOOTHED * gap * value:
            delta *= LOWERED
        score(rows, dv, along)
        for i in range(n):
            along[i] *= y[i]
        length = _search(upper, slack, along, delta, v, dv, is_squared)
        settled = length == 1.0
        for j in range(order):
            v[j] += length * dv[j]
        for i in range(n):
            slack[i] -= length * along[i]
    return dual, MOST_STEPS, False, delta


@njit(cache=True, nogil=True, fastmath=REORDERED)
def _collect(upper, slack, delta, alive, weight, near, bend):  # type: ignore[no-untyped-def]
    """Collect the rows with a loss and their dual variables, and the rows near the kink and their curvature.

    `alive` are the rows with s > -delta, `weight` their a_i = upper_i h'(s_i); `near` those with |s| <= delta, `bend`
    their upper_i h''(s_i). Returns the hinge loss, the part of the gap that is the smoothing's, and the numbers of both
    kinds of rows. No jump depends on what a row is: a processor guesses every third of these wrongly.
    """
    loss, smoothing, near_count, count = 0.0, 0.0, 0, 0
    for i in range(len(slack)):
        alive[count] = i
        count += 0 if slack[i] <= -delta else 1
    for at in range(count):
        i = alive[at]
        s, own, is_near = slack[i], upper[i], slack[i] <= delta
        hinge = s if s > 0.0 else 0.0  # noqa: FURB136 - 0 of what is not a number, too
        share = (s + delta) / (2.0 * delta) if is_near else 1.0
        loss += own * hinge
        smoothing += own * (hinge - share * s) if is_near else 0.0
        near[near_count], bend[near_count] = i, own / (2.0 * delta)
        near_count += 1 if is_near else 0
        weight[at] = own * share
    return loss, smoothing, count, near_count


@njit(cache=True, nogil=True, fastmath=REORDERED)
def _collect_squared(upper, slack, alive, weight):  # type: ignore[no-untyped-def]
    """Collect the rows with a loss of a squared hinge and their dual variables; return the loss and their number."""
    loss, count = 0.0, 0
    for i in range(len(slack)):
        alive[count] = i
        s = slack[i] if slack[i] > 0.0 else 0.0  # noqa: FURB136 - 0 of what is not a number, too
        loss += upper[i] * s * s
        weight[count] = 2.0 * upper[i] * s
        count += 1 if slack[i] > 0.0 else 0
    return loss, count


@njit(cache=True, nogil=True)
def _changed(upper, slack, curved, near, bend):  # type: ignore[no-untyped-def]
    """Collect the rows that came to have a loss, with their curvature, or no longer have one, with its negative."""
    count = 0
    for i in range(len(slack)):
        has = slack[i] > 0.0
        if has != curved[i]:
            near[count], bend[count] = i, 2.0 * upper[i] if has else -2.0 * upper[i]
            curved[i] = has
            count += 1
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def _dual(sums, y, upper, alive, weight, is_squared):  # type: ignore[no-untyped-def]
    """Return D of a made feasible: the label with the greater sum scaled down, then all to the best D."""
    d = sums.shape[1] - 1
    least = min(sums[0, d], sums[1, d])
    if not least > 0.0:
        return 0.0
    of_negative, of_positive = least / sums[0, d], least / sums[1, d]
    square = 0.0
    for j in range(d):
        w = of_negative * sums[0, j] + of_positive * sums[1, j]
        square += w * w
    total = 2.0 * least
    if is_squared:
        for at in range(len(alive)):
            own = weight[at] * (of_positive if y[alive[at]] > 0 else of_negative)
            square += own * own / (2.0 * upper[alive[at]])
        return 0.5 * total * total / square  # no upper bound limits the scale
    scale = 1.0 if square <= total else total / square
    return scale * total - 0.5 * scale * scale * square


@njit(cache=True, nogil=True, error_model="numpy")
def _search(upper, slack, along, delta, v, dv, is_squared):  # type: ignore[no-untyped-def]
    """Return a step length in (0, 1] at which the smoothed objective no longer falls steeply: 1, where it can be."""
    d = len(v) - 1
    linear = quadratic = 0.0
    for j in range(d):
        linear += v[j] * dv[j]
        quadratic += dv[j] * dv[j]
    begun = linear - _slope(upper, slack, along, delta, 0.0, is_squared)
    low, high, length = 0.0, 1.0, 1.0
    for _ in range(HALVINGS):
        rise = linear + length * quadratic - _slope(upper, slack, along, delta, length, is_squared)
        if rise <= -0.3 * begun or not begun < 0.0:
            break
        high = length
        length = 0.5 * (low + high)
    return length


@njit(cache=True, nogil=True, fastmath=REORDERED)
def _slope(upper, slack, along, delta, length, is_squared):  # type: ignore[no-untyped-def]
    """Return sum upper h'(s) <r, dv> after a step of some length."""
    total = 0.0
    if is_squared:
        for i in range(len(slack)):
            s = slack[i] - length * along[i]
            total += 2.0 * upper[i] * along[i] * (s if s > 0.0 else 0.0)  # noqa: FURB136
        return total
    inverse = 1.0 / (2.0 * delta)
    for i in range(len(slack)):
        share = (slack[i] - length * along[i] + delta) * inverse
        share = 0.0 if share < 0.0 else min(share, 1.0)
        total += upper[i] * along[i] * share
    return total

r"""An interior-point method for the linear kernel: rough pilots with a certificate, and starts near the optimum.

Conditions of the optimum of `streamsvm.svm.problem`, rows r_i = y_i (z_i - origin, 1), v = (w, b),
s_i = 1 - <r_i, v>:

    w = sum_i a_i y_i z_i,   sum_i y_i a_i = 0,   xi_i - zeta_i = s_i,   a_i zeta_i = c_i xi_i = 0,   c = upper - a,

where xi, zeta >= 0 are the multipliers of a <= upper and a >= 0. Newton's method follows the central path, on which
both products equal mu, while mu falls to 0. With D_i = xi_i / c_i + zeta_i / a_i a step needs only a system of d + 1
unknowns, diag(1, ..., 1, 0) + sum_i r_i r_i' / D_i. Some twenty steps are enough for any boxes, where steps along pairs
can take millions (large boxes, and few features that make the problem ill-conditioned). With fewer points than
features, the points are written in the coordinates of their own span, so that n takes the place of d.

The path begins at v = 0, with a in the middle of its box and all multipliers 1. It ends

- for a pilot, when F(v) and the dual objective D of a, made feasible, are close enough to each other;
- for a start, when the point whose variables near a bound were moved onto it has the wanted KKT gap. This gap is
  computed, not estimated. The caller does not rely on it: the blocks of `streamsvm.svm.stda` continue from there.

Sources: Ferris and Munson 2002, "Interior-point methods for massive support vector machines"; Mehrotra 1992 (predictor
and corrector). No BLAS: see `streamsvm.linalg`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsvm.compiling import njit
from streamsvm.linalg import REORDERED, Float, add_gram, dot, factorise, product, substitute
from streamsvm.points import Signs
from streamsvm.svm.rows import Rows, add_weighted, dense_rows, score
from streamsvm.vector_math import least, most

MOST_FEATURES: Final = 1_000
"""Largest number of features (or points, if fewer) for which steps are affordable: a step costs its cube."""
MOST_STEPS: Final = 200
"""Most steps. Usual are ten for a gap of 2 %, and thirty to fifty for a KKT gap of 1e-3 with boxes of 10^4."""
TO_THE_BORDER: Final = 0.98
"""A step goes this share of the way to the nearest bound."""
SNAP: Final = 0.4
"""A variable is moved onto its bound if the bound's multiplier exceeds this share of the tolerance."""
NEAR: Final = 1e-6
"""Relative duality gap below which the KKT gap of the snapped point is computed."""
CAUTION: Final = 4
"""mu shrinks by the predictor's ratio to this power; Mehrotra uses 3."""
CONFIDENT: Final = 0.95
"""A snapped point must meet this share of the tolerance, so that another order of sums still finds it met."""
TILE: Final = 512
"""Points whose features are multiplied with each other before the next ones are read."""
SPAN_RIDGE: Final = 1e-11
"""Share of the greatest square that is added to every square before points are written in their span."""
ROUNDED_GAP: Final = 1.005
"""How much of the wanted gap may be left in other coordinates than those of the steps."""
ROUNDING: Final = 1e-14
"""An imbalance below this share of the sum of a counts as 0."""
EXHAUSTED: Final = 1e-7
"""Once mu is below this share of the tolerance, rounding dominates the products, and further steps would be wrong."""


def follow_path(
    rows: Rows, y: Signs, upper: Float, *, gap: float = 0.0, tolerance: float = 0.0, limit: int = MOST_STEPS
) -> tuple[Float, Float, int, bool]:
    """Solve to a relative duality gap, or to a KKT gap of a start.

    Parameters
    ----------
    rows : Rows
    y : ndarray of shape (n,), -1 or +1, both present
    upper : ndarray of shape (n,), float64, positive
    gap : float
        (F - D) / F at which to stop; 0 to stop by the tolerance.
    tolerance : float
        KKT gap that the caller wants to reach in the end; 0 to stop by the gap.
    limit : int
        Most steps.

    Returns
    -------
    v : ndarray of shape (d + 1,)
        Coefficients and intercept of points as they came.
    a : ndarray of shape (n,)
        Dual variables within their bounds, with sum y a = 0 up to rounding.
    steps : int
    met : bool
        Whether the end was met; of a tolerance with fewer points than features it is not said.
    """
    d, sign, a = len(rows.origin), y.astype(np.float64), np.empty(len(y))
    is_short = len(y) < d
    used = _spanned(rows) if is_short else rows
    # The last entry of v is the bias: a coefficient like the others, but without a penalty.
    v = np.zeros(len(used.origin) + 1)
    upper = np.require(upper, np.float64, ["C", "W"])
    # Every loop over dense points runs along them, feature by feature.
    columns = np.empty((0, 0)) if used.sparse else np.ascontiguousarray(used.dense.T)
    if not used.sparse:
        columns *= sign
    steps, met = _follow(used, columns, sign, upper, gap, tolerance, min(limit, MOST_STEPS), v, a)
    if is_short:
        # Of a Cholesky factor L of the products, L v = L L' share: w is a sum of points, each with its share.
        share, scores, bias = np.empty(len(y)), np.empty(len(y)), v[-1]
        score(used, np.append(v[:-1], 0.0), scores)
        substitute(np.ascontiguousarray(used.dense[:, :-1]), scores, share)
        points = _densely(rows)
        v = np.append(product(share[None], points)[0], bias)
        # The span keeps products of points to a ridge, which large features and boxes magnify: F and D once more.
        score(rows, v, scores)
        dual = product((sign * a)[None], points)[0]
        F = (upper * np.maximum(0.0, 1.0 - sign * scores)).sum() + 0.5 * dot(v[:-1], v[:-1])
        met = met and ROUNDED_GAP * gap * F >= F - a.sum() + 0.5 * dot(dual, dual)
    v[d] -= (rows.origin * v[:d]).sum()
    return v, a, int(steps), bool(met)


def _spanned(rows: Rows) -> Rows:
    """Return points of few, in the coordinates of their own span: the rows of a Cholesky factor of their products.

    Every product among points is kept, to `SPAN_RIDGE`; with fewer points than features a row is shorter so.
    """
    points = _densely(rows)
    n, d = points.shape
    products = np.zeros((n, n))
    add_gram(np.ascontiguousarray(points.T), np.arange(d), np.ones(d), products)
    products[np.diag_indices(n)] += SPAN_RIDGE * (float(products.diagonal().max()) or 1.0)
    possible = factorise(products)
    assert possible
    return dense_rows(np.append(np.tril(products), np.ones((n, 1)), axis=1))


def _densely(rows: Rows) -> Float:
    """Return the points less the origin, shape (n, d)."""
    if not rows.sparse:
        return np.ascontiguousarray(rows.dense[:, :-1])
    points = np.zeros((len(rows.start) - 1, len(rows.origin)))
    points[np.repeat(np.arange(len(points)), np.diff(rows.start)), rows.feature] = rows.value
    return points


def warm_up() -> None:
    """Compile, or load from numba's file cache."""
    y = np.array([1, -1] * 5, np.int8)
    follow_path(dense_rows(np.stack([y, np.abs(y)], axis=1, dtype=np.float64)), y, np.ones(len(y)), tolerance=1.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _follow(rows, columns, y, upper, gap, tolerance, limit, best, point):  # type: ignore[no-untyped-def]
    """Follow the path until the end is met; return the number of steps, and whether it was met.

    `best`, shape (d + 1,), becomes the v of least F, `point`, shape (n,), a feasible dual point: the snapped one, if
    there is a tolerance. `columns`, shape (d + 1, n), are dense rows r_i; of sparse ones there are none.
    """
    # `state`: a, c, zeta and xi. `work`: 1 / a, 1 / c, 1 / D, the right-hand side, <r_i, dv>, and the residuals of the
    # products over a and over c.
    n, order = len(upper), len(best)
    state, work, slack = np.ones((4, n)), np.empty((7, n)), np.ones(n)
    a, c, zeta, xi = state
    inverse, target, along = work[2], work[3], work[4]
    every = np.arange(n)
    for i in range(n):
        # The middle of the box is the farthest from all bounds: an interior-point method that starts near one takes
        # short steps.
        a[i] = c[i] = 0.5 * upper[i]
    v, dv, kept, right = np.zeros(order), np.empty(order), np.empty(order), np.empty(order)
    # The Newton system is reduced to d + 1 unknowns, whatever n is; that is why the method is for linear kernels.
    matrix = np.empty((order, order))
    primal, near, enough, steps = np.inf, max(gap, NEAR * (tolerance > 0.0)), False, limit
    for step in range(limit + 1):
        _combine(rows, columns, y, a, kept)
        loss, total, products = _sums(upper, a, c, zeta, xi, slack)
        value, square = loss + 0.5 * dot(v[:-1], v[:-1]), dot(kept[:-1], kept[:-1])
        # The primal value may rise in a step, the dual gap counts from the best one, and that is the machine that is
        # returned.
        if value < primal:
            primal = value
            for j in range(order):  # a loop: the compiler takes seconds over the error of a copy that does not fit
                best[j] = v[j]
        # A cheap estimate first: a is not balanced yet, and balancing and checking it costs more passes over all
        # points.
        if primal - total + 0.5 * square <= near * primal:
            if tolerance > 0.0:
                violation = _snap(rows, columns, y, upper, state, SNAP * tolerance, right, along, point)
                enough = violation <= CONFIDENT * tolerance
            else:
                enough = primal - _dual(rows, columns, y, a, right, point) <= gap * primal
        # mu: the mean of the 2 n products a zeta and c xi, which is 0 at the optimum.
        mean = products / (2 * n)
        if enough or step == limit or not EXHAUSTED * tolerance < mean < np.inf:
            steps = step
            break
        _weigh(state, slack, work)
        matrix[:] = 0.0
        if rows.sparse:
            add_weighted(rows, every, inverse, matrix)
        else:
            _add_columns(columns, inverse, matrix)
        for j in range(order - 1):
            # The penalty |w|^2 / 2; the bias, the last row, has none.
            matrix[j, j] += 1.0
            kept[j] -= v[j]
        # Rounding can make the matrix indefinite near the optimum. What was reached by then is returned, unconverged.
        if not factorise(matrix):
            steps = step
            break
        _combine(rows, columns, y, target, right)
        for j in range(order - 1):
            right[j] -= v[j]
        substitute(matrix, right, dv)
        _multiply(rows, columns, y, dv, along)
        # Mehrotra's rule: where the step towards mu = 0 got far, aim low; where it met a bound early, go back to the
        # centre.
        centring = mean * min(1.0, (_predict(state, slack, work) / products) ** CAUTION)
        _aim(state, slack, work, centring, point)
        _combine(rows, columns, y, point, right)
        right += kept
        substitute(matrix, right, dv)
        _multiply(rows, columns, y, dv, along)
        v += _move(state, slack, work) * dv
    if not enough:
        if tolerance > 0.0:
            _snap(rows, columns, y, upper, state, SNAP * tolerance, right, along, point)
        else:
            _dual(rows, columns, y, a, right, point)
    return steps, enough


@njit(cache=True, nogil=True, fastmath={"contract"})
def _combine(rows, columns, y, weight, out):  # type: ignore[no-untyped-def]
    """Fill `out`, shape (d + 1,), with sum_i weight_i r_i."""
    for k in range(len(columns)):
        out[k] = dot(weight, columns[k])
    if rows.sparse:
        start, feature, value, last = rows.start, rows.feature, rows.value, len(out) - 1
        for k in range(len(out)):
            out[k] = 0.0
        for i in range(len(y)):
            own = weight[i] * y[i]
            for t in range(start[i], start[i + 1]):
                out[feature[t]] += own * value[t]
            out[last] += own


@njit(cache=True, nogil=True, fastmath={"contract"})
def _multiply(rows, columns, y, v, out):  # type: ignore[no-untyped-def]
    """Fill `out`, shape (n,), with <r_i, v>."""
    order = len(columns)
    if rows.sparse:
        score(rows, v, out)
        for i in range(len(y)):
            out[i] *= y[i]
        return
    for i in range(len(y)):
        out[i] = 0.0
    whole = order - order % 4
    for k in range(0, whole, 4):
        v0, v1, v2, v3 = v[k], v[k + 1], v[k + 2], v[k + 3]
        x0, x1, x2, x3 = columns[k], columns[k + 1], columns[k + 2], columns[k + 3]
        for i in range(len(y)):
            out[i] += (v0 * x0[i] + v1 * x1[i]) + (v2 * x2[i] + v3 * x3[i])
    for k in range(whole, order):
        v0, x0 = v[k], columns[k]
        for i in range(len(y)):
            out[i] += v0 * x0[i]


@njit(cache=True, nogil=True, fastmath=REORDERED)
def _add_columns(columns, weight, matrix):  # type: ignore[no-untyped-def]
    """Add sum_i weight_i r_i r_i' to the lower triangle: products of one scaled feature with four others at a time."""
    order, n = columns.shape
    scaled = np.empty(TILE)
    for first in range(0, n, TILE):
        last = min(n, first + TILE)
        own_weight, width = weight[first:last], last - first
        for j in range(order):
            own, line = columns[j, first:last], matrix[j]
            for i in range(width):
                scaled[i] = own_weight[i] * own[i]
            whole = (j + 1) - (j + 1) % 4
            for k in range(0, whole, 4):
                x0, x1 = columns[k, first:last], columns[k + 1, first:last]
                x2, x3 = columns[k + 2, first:last], columns[k + 3, first:last]
                s0 = s1 = s2 = s3 = 0.0
                for i in range(width):
                    s0 += scaled[i] * x0[i]
                    s1 += scaled[i] * x1[i]
                    s2 += scaled[i] * x2[i]
                    s3 += scaled[i] * x3[i]
                line[k] += s0
                line[k + 1] += s1
                line[k + 2] += s2
                line[k + 3] += s3
            for k in range(whole, j + 1):
                line[k] += dot(scaled[:width], columns[k, first:last])


@njit(cache=True, nogil=True, fastmath=REORDERED)
def _sums(upper, a, c, zeta, xi, slack):  # type: ignore[no-untyped-def]
    """Return the loss, the sum of a, and the sum of all products."""
    loss = total = products = 0.0
    for i in range(len(a)):
        loss += upper[i] * most(slack[i], 0.0)
        total += a[i]
        products += a[i] * zeta[i] + c[i] * xi[i]
    return loss, total, products


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _weigh(state, slack, work):  # type: ignore[no-untyped-def]
    """Fill `work` with 1 / a, 1 / c, 1 / D, and a + s / D: the predictor's right-hand side is its sum over rows."""
    a, c, zeta, xi = state
    up, down, inverse, target, _, _, _ = work
    for i in range(len(a)):
        up[i], down[i] = 1.0 / a[i], 1.0 / c[i]
        inverse[i] = 1.0 / (zeta[i] * up[i] + xi[i] * down[i])
        target[i] = a[i] + inverse[i] * slack[i]


@njit(cache=True, nogil=True, fastmath=REORDERED)
def _predict(state, slack, work):  # type: ignore[no-untyped-def]
    """Return the sum of products after the longest feasible step towards mu = 0; `along` holds <r_i, dv>."""
    a, c, zeta, xi = state
    up, down, inverse, _, along, _, _ = work
    worst = 1.0
    for i in range(len(a)):
        change = inverse[i] * (slack[i] - along[i])
        p, q = change * up[i], change * down[i]
        worst = most(worst, most(most(-p, q), most(1.0 + p, 1.0 - q)))
    length, after = 1.0 / worst, 0.0
    for i in range(len(a)):
        change = inverse[i] * (slack[i] - along[i])
        p, q = change * up[i], change * down[i]
        after += a[i] * zeta[i] * (1.0 + length * p) * (1.0 - length * (1.0 + p))
        after += c[i] * xi[i] * (1.0 - length * q) * (1.0 - length * (1.0 - q))
    return after


@njit(cache=True, nogil=True, fastmath={"contract"})
def _aim(state, slack, work, centring, share):  # type: ignore[no-untyped-def]
    """Compute the right-hand sides of the corrector: products of `centring`, minus the second-order terms.

    `low` and `high` become the residuals of the products over a and over c, `share` the part of <r_i, dv> = 0.
    """
    _, _, zeta, xi = state
    up, down, inverse, target, along, low, high = work
    for i in range(len(slack)):
        change = inverse[i] * (slack[i] - along[i])
        p, q = change * up[i], change * down[i]
        low[i] = zeta[i] * (1.0 - p * (1.0 + p)) - centring * up[i]
        high[i] = xi[i] * (1.0 + q * (1.0 - q)) - centring * down[i]
        target[i] = slack[i] - xi[i] + zeta[i] + high[i] - low[i]
        share[i] = inverse[i] * target[i]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nnan", "nsz"})
def _move(state, slack, work):  # type: ignore[no-untyped-def]
    """Go along the corrected direction, almost to the nearest bound; return the step's length."""
    a, c, zeta, xi = state
    up, down, inverse, target, along, low, high = work
    # Not below it, so that a step is never longer than 1.
    worst = TO_THE_BORDER
    for i in range(len(a)):
        change = inverse[i] * (target[i] - along[i])
        p, q = change * up[i], change * down[i]
        target[i] = change
        low[i] = -low[i] - zeta[i] * p
        high[i] = xi[i] * q - high[i]
        worst = most(worst, most(most(-p, q), most(-low[i] / zeta[i], -high[i] / xi[i])))
    length = TO_THE_BORDER / worst
    for i in range(len(a)):
        a[i] += length * target[i]
        c[i] -= length * target[i]
        zeta[i] += length * low[i]
        xi[i] += length * high[i]
        slack[i] -= length * along[i]
    return length


@njit(cache=True, nogil=True, error_model="numpy")
def _dual(rows, columns, y, a, w, feasible):  # type: ignore[no-untyped-def]
    """Make a dual point feasible: scale one label down to balance the other, then both to the best D; return D."""
    positive = negative = 0.0
    for i in range(len(a)):
        positive += a[i] * (y[i] > 0.0)
        negative += a[i] * (y[i] < 0.0)
    # Scaling down keeps every variable in its box; scaling the lighter label up might not.
    total = min(positive, negative)
    for i in range(len(a)):
        feasible[i] = a[i] * (total / (positive if y[i] > 0.0 else negative))
    _combine(rows, columns, y, feasible, w)
    norm = dot(w[:-1], w[:-1])
    # D is a parabola in the scale: its top, if that is inside of the boxes.
    scale = min(1.0, 2.0 * total / norm) if norm > 0.0 else 1.0
    for i in range(len(a)):
        feasible[i] *= scale
    return scale * 2.0 * total - 0.5 * scale * scale * norm


@njit(cache=True, nogil=True, error_model="numpy")
def _snap(rows, columns, y, upper, state, least_multiplier, w, scores, point):  # type: ignore[no-untyped-def]
    """Move variables with a large multiplier onto their bound, balance the others; return the KKT gap of that point."""
    a, _, zeta, xi = state
    for i in range(len(a)):
        multiplier = zeta[i] - xi[i]
        # The method stays inside of the boxes, but most variables of an optimum are on a bound: their multipliers say
        # which.
        point[i] = 0.0 if multiplier > least_multiplier else (upper[i] if multiplier < -least_multiplier else a[i])
    _balance(y, upper, point)
    _combine(rows, columns, y, point, w)
    w[-1] = 0.0
    _multiply(rows, columns, y, w, scores)
    top, bottom = -np.inf, np.inf
    for i in range(len(a)):
        F = y[i] * (scores[i] - 1.0)
        grows, shrinks = point[i] < upper[i], point[i] > 0.0
        top = most(top, F if (shrinks if y[i] > 0.0 else grows) else -np.inf)
        bottom = least(bottom, F if (grows if y[i] > 0.0 else shrinks) else np.inf)
    return top - bottom


@njit(cache=True, nogil=True, error_model="numpy")
def _balance(y, upper, point):  # type: ignore[no-untyped-def]
    """Make sum y a = 0: free points move in proportion to their room; if that is not enough, all points do."""
    # The second pass removes what rounding left of the first; the third is for free points with too little room.
    for free_only in (True, True, False):
        excess, room = dot(y, point), 0.0
        if abs(excess) <= ROUNDING * point.sum():
            return
        for i in range(len(point)):
            if not free_only or 0.0 < point[i] < upper[i]:
                room += point[i] if y[i] * excess > 0.0 else upper[i] - point[i]
        share = min(1.0, abs(excess) / room) if room > 0.0 else 0.0
        for i in range(len(point)):
            if not free_only or 0.0 < point[i] < upper[i]:
                if y[i] * excess > 0.0:
                    point[i] -= share * point[i]
                else:
                    point[i] = min(point[i] + share * (upper[i] - point[i]), upper[i])

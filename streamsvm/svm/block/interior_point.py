r"""An interior-point method for the linear kernel: rough pilots with a certificate, and starts near the optimum.

Conditions of the optimum of `streamsvm.svm.objective`, rows r_i = y_i (z_i, 1), v = (w, b), s_i = 1 - <r_i, v>:

    w = sum_i a_i y_i z_i,   sum_i y_i a_i = 0,   xi_i - zeta_i = s_i,   a_i zeta_i = c_i xi_i = 0,   c = upper - a,

where xi, zeta >= 0 are the multipliers of a <= upper and a >= 0. Newton's method follows the central path, on which
both products equal mu, while mu falls to 0. With D_i = xi_i / c_i + zeta_i / a_i a step needs only a system of d + 1
unknowns, diag(1, ..., 1, 0) + sum_i r_i r_i' / D_i. Some twenty steps are enough for any boxes, where steps along pairs
can take millions (large boxes, and few features that make the problem ill-conditioned). With fewer points than
features, the points are written in the coordinates of their own span, so that n takes the place of d.

The path begins at v = 0, with a in the middle of its box and all multipliers 1. It ends

- for a pilot, when F(v) and the dual objective D of a, made feasible, are close enough to each other;
- for a start, when the point whose variables near a bound were moved onto it has the wanted KKT gap. This gap is
  computed, not estimated. The caller does not rely on it: the blocks of `streamsvm.svm.block.descent` continue from
  there.

Sources: Ferris and Munson 2002, "Interior-point methods for massive support vector machines"; Mehrotra 1992 (predictor
and corrector). No BLAS: see `streamsvm.linalg`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from streamsvm.compiling import njit
from streamsvm.linalg import REORDERED, dot, factorise, substitute
from streamsvm.model.kernels import Float, LinearKernel
from streamsvm.svm.block.signed_rows import (
    FEW,
    SignedRows,
    coefficients_of,
    combine,
    multiply,
    signed_rows,
    spanned,
    weighted_gram,
)
from streamsvm.svm.problem import CheckedSolver, Problem, Solution
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
ROUNDED_GAP: Final = 1.005
"""How much of the wanted gap may be left in other coordinates than those of the steps."""
ROUNDING: Final = 1e-14
"""An imbalance below this share of the sum of a counts as 0."""
EXHAUSTED: Final = 1e-7
"""Once mu is below this share of the tolerance, rounding dominates the products, and further steps would be wrong."""


@dataclass(frozen=True, slots=True)
class InteriorPointSolver(CheckedSolver):
    """Solves a linear problem to a relative duality gap, with the GIL released.

    The problem's `tolerance`, a KKT gap, is ignored. `max_iterations` and `MOST_STEPS` both bound the steps.

    Attributes
    ----------
    gap : float
        (F - D) / F at which to stop.
    """

    gap: float = 0.02

    def solve_checked(self, problem: Problem) -> Solution:
        """Solve; see `CheckedSolver`."""
        assert isinstance(problem.kernel, LinearKernel)
        rows = signed_rows(problem.Z, problem.y.astype(np.float64))
        return self.solve_rows(rows, problem.upper, problem.max_iterations)

    def solve_rows(self, rows: SignedRows, upper: Float, limit: int) -> Solution:
        """Solve in at most so many steps for rows of both labels, whose upper bounds, shape (n,), are positive."""
        used = _shortest(rows)
        # The last entry of v is the bias: the vectors r_i end in y_i, so it is a coefficient like the others, but
        # without a penalty.
        v, a = np.zeros(len(used.common) + 1), np.empty(len(upper))
        upper = np.require(upper, np.float64, ["C", "W"])
        steps, converged = _follow(used, upper, self.gap, 0.0, min(limit, MOST_STEPS), v, a)
        w = v[:-1]
        if used is not rows:
            # The span keeps products of points to a ridge, which large features and boxes magnify: F and D once more.
            w, scores, dual = coefficients_of(rows, used, v[:-1]), np.empty(len(a)), np.empty(len(rows.common) + 1)
            multiply(rows, np.append(w, v[-1]), scores)
            combine(rows, a, dual)
            F = float(np.einsum("i,i->", upper, np.maximum(0.0, 1.0 - scores))) + 0.5 * dot(w, w)
            D = float(a.sum()) - 0.5 * dot(dual[:-1], dual[:-1])
            converged = converged and ROUNDED_GAP * self.gap * F >= F - D
        intercept = float(v[-1] - np.einsum("j,j->", w, rows.common))
        return Solution(alpha=a, intercept=intercept, iterations=int(steps), converged=bool(converged), coefficients=w)


def near_optimum(rows: SignedRows, upper: Float, tolerance: float, limit: int = MOST_STEPS) -> tuple[Float, int]:
    """Return b = y a near the optimum, within its bounds and with a sum of 0 up to rounding, and the number of steps.

    Parameters
    ----------
    rows : SignedRows
        Both labels present.
    upper : ndarray of shape (n,), float64, positive
    tolerance : float
        KKT gap that the caller wants to reach in the end.
    limit : int
        Most steps.
    """
    used = _shortest(rows)
    v, a = np.zeros(len(used.common) + 1), np.empty(len(upper))
    steps, _ = _follow(used, upper, 0.0, tolerance, min(limit, MOST_STEPS), v, a)
    # Rounded steps leave a in the boxes but not exactly balanced; the snapped point is, so block descent may go on from
    # it.
    return rows.sign * a, int(steps)


def cost_ns(n: int, d: int, entries: float) -> float:
    """Return the estimated time of `near_optimum`, in nanoseconds on a core of 2023; infinite beyond `MOST_FEATURES`.

    `entries` is the mean number of features in which a point differs from the common ones; d where points are dense.
    """
    if min(n, d) >= MOST_FEATURES:
        # Each step factorises a matrix of this order: its cube soon outweighs whatever pairs cost.
        return float("inf")
    width = min(entries, n)
    return 25.0 * (n * (20.0 + 2.0 * width + 0.1 * width * width) + 0.05 * min(n, d) ** 3)


def warm_up() -> None:
    """Compile, or load from numba's file cache, every path: dense, sparse and few points, and both stopping rules."""
    y = np.array([1.0, -1.0] * 10)
    for d in (1, FEW + 1, 2 * FEW):
        Z = np.zeros((len(y), d))
        Z[:, 0] = y
        near_optimum(signed_rows(Z, y), np.ones(len(y)), 1.0, 1)
        InteriorPointSolver().solve(
            Problem(
                Z=Z, y=y.astype(np.int8), upper=np.ones(len(y)), kernel=LinearKernel(), tolerance=1.0, max_iterations=1
            )
        )


def _shortest(rows: SignedRows) -> SignedRows:
    """Return the same points with as few coordinates as they need."""
    return spanned(rows) if len(rows.sign) < len(rows.common) else rows


@njit(cache=True, nogil=True, error_model="numpy")
def _follow(rows, upper, gap, tolerance, limit, best, point):  # type: ignore[no-untyped-def]
    """Follow the path until a stopping rule is met; return the number of steps, and whether the rule was met.

    Parameters
    ----------
    rows : SignedRows
    upper : ndarray of shape (n,), float64, positive
    gap : float
        Relative duality gap at which to stop; 0 to stop by the tolerance.
    tolerance : float
        KKT gap of the snapped point at which to stop; 0 to stop by the duality gap.
    limit : int
    best : ndarray of shape (d + 1,), float64
        Out: the v of least F.
    point : ndarray of shape (n,), float64
        Out: a feasible dual point, the snapped one if there is a tolerance.
    """
    n, order = len(upper), len(best)
    state, work, slack = np.ones((4, n)), np.empty((7, n)), np.ones(n)
    a, c, zeta, xi = state
    inverse, target, along = work[2], work[3], work[4]
    for i in range(n):
        # The middle of the box is the farthest from all bounds: an interior-point method that starts near one takes
        # short steps.
        a[i] = c[i] = 0.5 * upper[i]
    v, dv, kept, right = np.zeros(order), np.empty(order), np.empty(order), np.empty(order)
    # The Newton system is reduced to d + 1 unknowns, whatever n is; that is why the method is for linear kernels.
    matrix = np.empty((order, order))
    primal, near, enough, steps = np.inf, max(gap, NEAR * (tolerance > 0.0)), False, limit
    for step in range(limit + 1):
        combine(rows, a, kept)
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
                enough = _snap(rows, upper, state, SNAP * tolerance, right, along, point) <= CONFIDENT * tolerance
            else:
                enough = primal - _dual(rows, a, right, point) <= gap * primal
        # mu: the mean of the 2 n products a zeta and c xi, which is 0 at the optimum.
        mean = products / (2 * n)
        if enough or step == limit or not EXHAUSTED * tolerance < mean < np.inf:
            steps = step
            break
        _weigh(state, slack, work)
        weighted_gram(rows, inverse, matrix)
        for j in range(order - 1):
            # The penalty |w|^2 / 2; the bias, the last row, has none.
            matrix[j, j] += 1.0
            kept[j] -= v[j]
        # Rounding can make the matrix indefinite near the optimum. What was reached by then is returned, unconverged.
        if not factorise(matrix):
            steps = step
            break
        combine(rows, target, right)
        for j in range(order - 1):
            right[j] -= v[j]
        substitute(matrix, right, dv)
        multiply(rows, dv, along)
        # Mehrotra's rule: where the step towards mu = 0 got far, aim low; where it met a bound early, go back to the
        # centre.
        centring = mean * min(1.0, (_predict(state, slack, work) / products) ** CAUTION)
        _aim(state, slack, work, centring, point)
        combine(rows, point, right)
        right += kept
        substitute(matrix, right, dv)
        multiply(rows, dv, along)
        v += _move(state, slack, work) * dv
    if not enough:
        if tolerance > 0.0:
            _snap(rows, upper, state, SNAP * tolerance, right, along, point)
        else:
            _dual(rows, a, right, point)
    return steps, enough


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
    """Compute 1 / a, 1 / c, 1 / D, and the terms of the predictor's right-hand side."""
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
def _dual(rows, a, w, feasible):  # type: ignore[no-untyped-def]
    """Make a dual point feasible: scale one label down to balance the other, then both to the best D; return D."""
    positive = negative = 0.0
    for i in range(len(a)):
        positive += a[i] * (rows.sign[i] > 0.0)
        negative += a[i] * (rows.sign[i] < 0.0)
    # Scaling down keeps every variable in its box; scaling the lighter label up might not.
    total = min(positive, negative)
    for i in range(len(a)):
        feasible[i] = a[i] * (total / (positive if rows.sign[i] > 0.0 else negative))
    combine(rows, feasible, w)
    norm = dot(w[:-1], w[:-1])
    # D is a parabola in the scale: its top, if that is inside of the boxes.
    scale = min(1.0, 2.0 * total / norm) if norm > 0.0 else 1.0
    feasible *= scale
    return scale * 2.0 * total - 0.5 * scale * scale * norm


@njit(cache=True, nogil=True, error_model="numpy")
def _snap(rows, upper, state, least_multiplier, w, scores, point):  # type: ignore[no-untyped-def]
    """Move variables with a large multiplier onto their bound, balance the others; return the KKT gap of that point."""
    a, _, zeta, xi = state
    for i in range(len(a)):
        multiplier = zeta[i] - xi[i]
        # The method stays inside of the boxes, but most variables of an optimum are on a bound: their multipliers say
        # which.
        point[i] = 0.0 if multiplier > least_multiplier else (upper[i] if multiplier < -least_multiplier else a[i])
    _balance(rows.sign, upper, point)
    combine(rows, point, w)
    w[-1] = 0.0
    multiply(rows, w, scores)
    return _violation(rows.sign, upper, point, scores)


@njit(cache=True, nogil=True, error_model="numpy")
def _balance(sign, upper, point):  # type: ignore[no-untyped-def]
    """Make sum y a = 0: free points move in proportion to their room; if that is not enough, all points do."""
    # The second pass removes what rounding left of the first; the third is for free points with too little room.
    for free_only in (True, True, False):
        excess, room = dot(sign, point), 0.0
        if abs(excess) <= ROUNDING * point.sum():
            return
        for i in range(len(point)):
            if not free_only or 0.0 < point[i] < upper[i]:
                room += point[i] if sign[i] * excess > 0.0 else upper[i] - point[i]
        share = min(1.0, abs(excess) / room) if room > 0.0 else 0.0
        for i in range(len(point)):
            if not free_only or 0.0 < point[i] < upper[i]:
                if sign[i] * excess > 0.0:
                    point[i] -= share * point[i]
                else:
                    point[i] = min(point[i] + share * (upper[i] - point[i]), upper[i])


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _violation(sign, upper, point, scores):  # type: ignore[no-untyped-def]
    """Return max F over the points that may fall less min F over those that may rise, F_i = y_i (scores_i - 1)."""
    top, bottom = -np.inf, np.inf
    for i in range(len(point)):
        F = sign[i] * (scores[i] - 1.0)
        grows, shrinks = point[i] < upper[i], point[i] > 0.0
        top = most(top, F if (shrinks if sign[i] > 0.0 else grows) else -np.inf)
        bottom = least(bottom, F if (grows if sign[i] > 0.0 else shrinks) else np.inf)
    return top - bottom

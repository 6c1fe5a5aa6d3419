r"""A rough linear model, fast: a primal-dual interior-point method, with a small duality gap to show for it.

Conditions of the optimum of `streamsvm.svm.objective`, rows r_i = y_i (z_i, 1), v = (w, b), s_i = 1 - <r_i, v>:

    w = sum_i a_i y_i z_i,   sum_i y_i a_i = 0,   xi_i - zeta_i = s_i,   a_i zeta_i = 0,   (upper_i - a_i) xi_i = 0,

xi, zeta >= 0 the multipliers of a <= upper and a >= 0. Newton's method follows the path on which both products are mu,
mu falling to 0. With D_i = xi_i / (upper_i - a_i) + zeta_i / a_i a step needs only a system of d + 1 unknowns,
diag(1, ..., 1, 0) + sum_i r_i r_i' / D_i: an iteration costs n d^2 / 2 + d^3 / 6, and some twenty are enough whatever C
is. Made for pilots, which are many, small, of few features, and good enough at a few per cent.

Sources: Ferris and Munson 2002, "Interior-point methods for massive support vector machines"; Mehrotra 1992 (predictor
and corrector). No BLAS: see `streamsvm.linear`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from streamsvm.linear import add_gram, factorise, substitute
from streamsvm.svm.kernels import Float, LinearKernel
from streamsvm.svm.problem import CheckedSolver, Problem, Solution

MOST_STEPS = 200
"""Ten to thirty are usual at a gap of 2 %, at most a hundred at 1e-5."""
TO_THE_BORDER = 0.95
"""Share of the way to the nearest bound that a step goes."""


@dataclass(frozen=True, slots=True)
class InteriorPointSolver(CheckedSolver):
    """Solves a linear problem to a relative duality gap; releases the GIL while it does.

    `tolerance` of the problem, a KKT gap, has no meaning here; `max_iterations` bounds the steps, as `MOST_STEPS` does.

    Attributes
    ----------
    gap : float
        (F - D) / F at which to stop.
    """

    gap: float = 0.02

    def _solve(self, problem: Problem) -> Solution:
        assert isinstance(problem.kernel, LinearKernel)
        centre = np.einsum("ij->j", problem.Z) / len(problem.Z)
        rows = np.empty((len(problem.Z), problem.Z.shape[1] + 1))
        np.subtract(problem.Z, centre, out=rows[:, :-1])
        rows[:, -1] = 1.0
        rows *= problem.y[:, None]
        best, alpha = np.zeros(rows.shape[1]), np.empty(len(rows))
        steps, converged = _descend(rows, problem.upper, best, alpha, self.gap, min(problem.max_iterations, MOST_STEPS))
        w = best[:-1]
        return Solution(alpha, float(best[-1] - np.einsum("j,j->", w, centre)), steps, converged, w)


@njit(cache=True, nogil=True)
def _descend(rows: Float, upper: Float, best: Float, best_alpha: Float, gap: float, most: int) -> tuple[int, bool]:
    """Follow the path; leave the best (w, b) and the best feasible a; return the steps and whether they were enough.

    Parameters
    ----------
    rows : ndarray of shape (n, d), the last column y
    upper : ndarray of shape (n,), positive
    best : ndarray of shape (d,)
    best_alpha : ndarray of shape (n,)
    """
    n, d = rows.shape
    v, dv = np.zeros(d), np.empty(d)
    a, xi, zeta, slack = 0.5 * upper, np.full(n, 2.0), np.ones(n), np.ones(n)
    da, dxi, dzeta, along = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    inverse, target = np.empty(n), np.empty(n)
    residual, right = np.empty(d), np.empty(d)
    matrix = np.empty((d, d))
    feasible, w = np.empty(n), np.empty(d)
    primal, dual = np.inf, -np.inf
    for step in range(most + 1):
        value = _primal(upper, v, slack)
        if value < primal:
            primal, best[:] = value, v
        bound = _dual(rows, a, feasible, w)
        if bound > dual:
            dual, best_alpha[:] = bound, feasible
        if primal - dual <= gap * primal:
            return step, True
        if step == most:
            break
        _system(rows, upper, v, a, xi, zeta, inverse, residual, matrix)
        if not factorise(matrix):
            break
        mu = 0.0
        for i in range(n):
            mu += a[i] * zeta[i] + (upper[i] - a[i]) * xi[i]
        mu /= 2 * n
        for predicting in (True, False):
            centring = 0.0
            if not predicting:
                length = _longest(upper, a, xi, zeta, da, dxi, dzeta, 1.0)
                after = 0.0
                for i in range(n):
                    moved = a[i] + length * da[i]
                    after += moved * (zeta[i] + length * dzeta[i]) + (upper[i] - moved) * (xi[i] + length * dxi[i])
                centring = mu * min(1.0, (after / (2 * n * mu)) ** 3)
            for j in range(d):
                right[j] = -residual[j]
            for i in range(n):
                low = a[i] * zeta[i] - centring
                high = (upper[i] - a[i]) * xi[i] - centring
                if not predicting:
                    low += da[i] * dzeta[i]
                    high -= da[i] * dxi[i]
                dzeta[i], dxi[i] = low, high
                target[i] = slack[i] - xi[i] + zeta[i] + high / (upper[i] - a[i]) - low / a[i]
                scaled = inverse[i] * target[i]
                for j in range(d):
                    right[j] += scaled * rows[i, j]
            substitute(matrix, right, dv)
            for i in range(n):
                total = 0.0
                for j in range(d):
                    total += rows[i, j] * dv[j]
                along[i] = total
                da[i] = inverse[i] * (target[i] - total)
                dzeta[i] = -(dzeta[i] + zeta[i] * da[i]) / a[i]
                dxi[i] = (xi[i] * da[i] - dxi[i]) / (upper[i] - a[i])
        length = _longest(upper, a, xi, zeta, da, dxi, dzeta, TO_THE_BORDER)
        for j in range(d):
            v[j] += length * dv[j]
        for i in range(n):
            slack[i] -= length * along[i]
            a[i] += length * da[i]
            xi[i] += length * dxi[i]
            zeta[i] += length * dzeta[i]
    return most, False


@njit(cache=True, nogil=True)
def _primal(upper: Float, v: Float, slack: Float) -> float:
    """Return F."""
    value = 0.0
    for j in range(len(v) - 1):
        value += 0.5 * v[j] * v[j]
    for i in range(len(slack)):
        value += upper[i] * max(slack[i], 0.0)
    return value


@njit(cache=True, nogil=True)
def _dual(rows: Float, a: Float, feasible: Float, w: Float) -> float:
    """Make a dual point feasible: scale one label down to the other, then both to the best D; return that D."""
    n, d = rows.shape
    sums = np.zeros(2)
    for i in range(n):
        sums[int(rows[i, d - 1] > 0.0)] += a[i]
    least = min(sums[0], sums[1])
    w[:] = 0.0
    for i in range(n):
        feasible[i] = a[i] * (least / sums[int(rows[i, d - 1] > 0.0)])
        for j in range(d):
            w[j] += feasible[i] * rows[i, j]
    norm = 0.0
    for j in range(d - 1):
        norm += w[j] * w[j]
    scale = 1.0
    if norm > 2.0 * least:
        scale = 2.0 * least / norm
        for i in range(n):
            feasible[i] *= scale
    return float(scale * 2.0 * least - 0.5 * scale * scale * norm)


@njit(cache=True, nogil=True)
def _system(
    rows: Float,
    upper: Float,
    v: Float,
    a: Float,
    xi: Float,
    zeta: Float,
    inverse: Float,
    residual: Float,
    matrix: Float,
) -> None:
    """Fill 1 / D, shape (n,), the residual (w, 0) - sum a r, shape (d,), and the lower triangle of the matrix."""
    n, d = rows.shape
    for j in range(d):
        residual[j] = v[j]
        for k in range(j):
            matrix[j, k] = 0.0
        matrix[j, j] = 1.0
    residual[d - 1] = 0.0
    matrix[d - 1, d - 1] = 0.0
    for i in range(n):
        inverse[i] = 1.0 / (xi[i] / (upper[i] - a[i]) + zeta[i] / a[i])
        for j in range(d):
            residual[j] -= a[i] * rows[i, j]
    add_gram(rows, inverse, matrix)


@njit(cache=True, nogil=True)
def _longest(
    upper: Float, a: Float, xi: Float, zeta: Float, da: Float, dxi: Float, dzeta: Float, share: float
) -> float:
    """Return the step length, at most 1, that goes `share` of the way to the nearest bound."""
    most = 1.0 / share
    for i in range(len(a)):
        if da[i] < -a[i] / most:
            most = -a[i] / da[i]
        elif da[i] > (upper[i] - a[i]) / most:
            most = (upper[i] - a[i]) / da[i]
        if dxi[i] < -xi[i] / most:
            most = -xi[i] / dxi[i]
        if dzeta[i] < -zeta[i] / most:
            most = -zeta[i] / dzeta[i]
    return float(share * most)

r"""Calibration: moving the weights of a sample as little as possible so that chosen totals equal the whole's exactly.

Given weights v, and rows a_i of a linear constraints matrix with known totals T = sum over the whole set of u a, find
factors g_i near 1 with sum v_i g_i a_i = T that minimise the chi-square distance sum v_i (g_i - 1)^2 within
`LEAST` <= g_i <= `MOST`. Without the bounds g_i = 1 + <a_i, l>, l from one linear system; with them, Newton's method
on l where g is clipped.

Source: Deville and Sarndal 1992, "Calibration estimators in survey sampling" (case 7 of their distances: truncated
linear). Where we differ: a ridge keeps the system solvable where constraints depend on one another; what it, or the
bounds, leave unmet is told, not hidden.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from streamsvm.compiling import njit
from streamsvm.linalg import Float, add_gram, dot, factorise, substitute

LEAST: Final = 0.1
MOST: Final = 6.0
STEPS: Final = 8
RIDGE: Final = 1e-10
"""Share of the mean diagonal that is added to the diagonal."""
CANCELLED: Final = 1e-3
"""Share of a constraint's sum of squares below which it is added up again, instead of taken off row by row."""
MET: Final = 1e-9
"""Greatest error of a total, relative to the total of the absolute values, that counts as none."""


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Calibrated weights.

    Attributes
    ----------
    weight : ndarray of shape (m,)
        Positive.
    eta : float
        Greatest |g - 1|: by so much, at most, a bound for the uncalibrated sample loosens.
    unmet : float
        Greatest relative error that is left in a total.
    """

    weight: Float
    eta: float
    unmet: float


def calibrate(weight: Float, constraints: Float, totals: Float) -> Calibrated:
    """Move weights until the totals are met.

    Parameters
    ----------
    weight : ndarray of shape (m,), positive
    constraints : ndarray of shape (m, k)
        k >= 1. A column that is 0 everywhere constrains nothing.
    totals : ndarray of shape (k,)
    """
    moved = np.empty(len(weight))
    rows = np.array(constraints, np.float64, order="C")
    eta, unmet = move_weights(weight, rows, len(rows), 0, totals, moved)
    return Calibrated(moved, eta, unmet)


@njit(cache=True, nogil=True, error_model="numpy")
def move_weights(weight, rows, wide, narrow, totals, best):  # type: ignore[no-untyped-def]
    """Fill the best weights, shape (m,), and return eta and what is unmet.

    Parameters
    ----------
    rows : ndarray of shape (m, k)
        Divided by their sizes. From row `wide` on there is nothing but 0 from column `narrow` on.
    """
    m, k = rows.shape
    size, wanted, missing = np.abs(totals), np.empty(k), np.empty(k)
    absolute = np.zeros(k)
    for i in range(m):
        for j in range(k if i < wide else narrow):
            absolute[j] += weight[i] * abs(rows[i, j])
    # Constraints are divided by their own size, so that a feature's unit decides neither the ridge nor what counts as
    # met.
    for j in range(k):
        size[j] = max(size[j], absolute[j])
        if size[j] == 0.0:
            size[j] = 1.0
        wanted[j] = totals[j] / size[j]
    for i in range(m):
        for j in range(k if i < wide else narrow):
            rows[i, j] /= size[j]
    multipliers, step = np.zeros(k), np.empty(k)
    factors, free, gram = np.ones(m), weight.copy(), np.empty((k, k))
    _sum_products(rows, wide, narrow, free, gram)
    whole = np.diag(gram).copy()
    eta, unmet = 0.0, _miss(rows, wide, narrow, weight, factors, wanted, missing)
    best[:] = weight
    for _ in range(STEPS):
        if unmet <= MET:
            break
        # A clipped weight no longer moves with the multipliers, so it has no part in the derivative. Few are clipped.
        for i in range(m):
            own = weight[i] if LEAST < factors[i] < MOST else 0.0
            if own != free[i]:
                _add_product(rows[i, : k if i < wide else narrow], own - free[i], gram)
                free[i] = own
        # Where nearly all of a constraint is clipped, what is left of its sum is rounding.
        for j in range(k):
            if gram[j, j] < CANCELLED * whole[j]:
                _sum_products(rows, wide, narrow, free, gram)
                break
        matrix, mean = gram.copy(), 0.0
        for j in range(k):
            mean += matrix[j, j] / k
        # A constraint without a free point has a zero diagonal; a 1 there leaves its multiplier at rest.
        for j in range(k):
            matrix[j, j] += RIDGE * mean + (0.0 if matrix[j, j] > 0.0 else 1.0)
        if not factorise(matrix):
            break
        substitute(matrix, missing, step)
        multipliers += step
        reached = 0.0
        for i in range(m):
            end = k if i < wide else narrow
            factors[i] = min(max(1.0 + dot(rows[i, :end], multipliers[:end]), LEAST), MOST)
            reached = max(reached, abs(factors[i] - 1.0))
        left = _miss(rows, wide, narrow, weight, factors, wanted, missing)
        # With clipping Newton's method may step past the solution, so the best weights so far are kept.
        if left < unmet:
            eta, unmet = reached, left
            for i in range(m):
                best[i] = weight[i] * factors[i]
    return eta, unmet


@njit(nogil=True)
def _miss(rows, wide, narrow, weight, factors, wanted, missing):  # type: ignore[no-untyped-def]
    """Fill what the totals miss, shape (k,), and return the greatest of it."""
    missing[:] = wanted
    for i in range(len(weight)):
        own = weight[i] * factors[i]
        for j in range(len(missing) if i < wide else narrow):
            missing[j] -= own * rows[i, j]
    return np.abs(missing).max()


@njit(nogil=True)
def _sum_products(rows, wide, narrow, weight, matrix):  # type: ignore[no-untyped-def]
    """Fill the lower triangle with sum_i weight_i r_i r_i'."""
    matrix[:] = 0.0
    add_gram(rows[:wide], weight[:wide], matrix)
    for i in range(wide, len(weight)):
        _add_product(rows[i, :narrow], weight[i], matrix)


@njit(nogil=True, fastmath={"contract"})
def _add_product(row, weight, matrix):  # type: ignore[no-untyped-def]
    """Add weight r r' to the lower triangle of a matrix."""
    for j in range(len(row)):
        scaled, line = weight * row[j], matrix[j]
        for k in range(j + 1):
            line[k] += scaled * row[k]

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

from streamsvm.linalg import Float, add_gram, factorise, substitute

LEAST: Final = 0.1
MOST: Final = 6.0
STEPS: Final = 8
RIDGE: Final = 1e-10
"""Share of the mean diagonal that is added to the diagonal."""
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
    # Constraints are divided by their own size, so that a feature's unit decides neither the ridge nor what counts as
    # met.
    size = np.maximum(np.einsum("i,ij->j", weight, np.abs(constraints)), np.abs(totals))
    size[size == 0.0] = 1.0
    rows, wanted = np.ascontiguousarray(constraints / size), totals / size
    multipliers, step = np.zeros(len(totals)), np.empty(len(totals))
    factors, missing = np.ones(len(weight)), wanted - np.einsum("i,ij->j", weight, rows)
    best = Calibrated(weight, 0.0, float(np.abs(missing).max()))
    for _ in range(STEPS):
        if best.unmet <= MET:
            break
        # A clipped weight no longer moves with the multipliers, so it has no part in the derivative.
        free = (factors > LEAST) & (factors < MOST)
        matrix = np.zeros((len(totals), len(totals)))
        add_gram(rows, np.where(free, weight, 0.0), matrix)
        diagonal = matrix.diagonal()
        # A constraint without a free point has a zero diagonal; a 1 there leaves its multiplier at rest.
        matrix[np.diag_indices(len(totals))] += RIDGE * diagonal.mean() + np.where(diagonal > 0, 0.0, 1.0)
        if not factorise(matrix):
            break
        substitute(matrix, missing, step)
        multipliers += step
        factors = np.clip(1.0 + np.einsum("ij,j->i", rows, multipliers), LEAST, MOST)
        missing = wanted - np.einsum("i,ij->j", weight * factors, rows)
        unmet = float(np.abs(missing).max())
        # With clipping Newton's method may step past the solution, so the best weights so far are kept.
        if unmet < best.unmet:
            best = Calibrated(weight * factors, float(np.abs(factors - 1.0).max()), unmet)
    return best

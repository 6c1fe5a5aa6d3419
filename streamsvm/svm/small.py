"""Small problems whose kernel matrix is at hand: one block, solved without any set-up.

A problem of some hundred points takes a fraction of a millisecond; choosing a layout of the points, filling tiles and
recomputing kernel values in another precision then take most of the time. Where several classes are learned in pairs,
all pairs of a class also share the values within it. So the caller brings the matrix in float64, and all points are one
block: steps along pairs first, which most such problems need few of, then the method that also has Newton's
(`streamsvm.svm.block.newton.solve_block`). The gap that decides is that of F from scratch, by one product with the
matrix.

Invariant: the same matrix, labels and bounds give the same bits.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import njit

from streamsvm.model.kernels import Float
from streamsvm.svm.block import newton
from streamsvm.svm.block.descent import FLOOR, PROGRESS
from streamsvm.svm.block.vector_math import widest_vectors
from streamsvm.svm.block.working_set import descend, extremes
from streamsvm.svm.problem import Solution

SMALL: Final = 512
"""Most points of a small problem. A larger one is solved sooner without most of its kernel values."""
PAIRS: Final = 2
"""Steps along pairs for each point before Newton's method may be tried, besides those that cost what its least descent
does."""


def solve_small(K: Float, y: Float, upper: Float, tolerance: float, limit: int) -> Solution:
    """Solve `streamsvm.svm.problem.Problem` for a given kernel matrix.

    Parameters
    ----------
    K : ndarray of shape (m, m), float64, C-contiguous
        At most 1 on the diagonal.
    y : ndarray of shape (m,), -1.0 or +1.0, both present
    upper : ndarray of shape (m,), float64, positive
    tolerance : float
        KKT gap, from scratch.
    limit : int
        Most steps.

    Returns
    -------
    Solution
        Not converged if rounding, or the limit, was in the way.
    """
    b, F, low, high = np.empty((4, len(y)))
    floor = FLOOR * tolerance
    first = PAIRS * len(y) + int(newton.PATIENCE * newton.newton_ns(0) / (newton.PAIR_NS * len(y)))
    steps = int(_along_pairs(K, y, upper, floor, min(limit, first), b, F, low, high))
    top, bottom = extremes(F, b, low, high)
    last = np.inf
    while steps < limit and tolerance <= top - bottom < PROGRESS * last:
        last = top - bottom
        members, change = np.arange(len(y)), np.empty(len(y))
        steps += newton.solve_block(K, members, F, b, low, high, 0.0, floor, limit - steps, change)
        _refresh(K, y, b, F)
        top, bottom = extremes(F, b, low, high)
    intercept = float(_intercept(F, b, low, high, top, bottom))
    return Solution(alpha=y * b, intercept=intercept, iterations=steps, converged=bool(top - bottom < tolerance))


@njit(cache=True, nogil=True)
def _along_pairs(K, y, upper, floor, limit, b, F, low, high):  # type: ignore[no-untyped-def]
    """Start from 0, step along pairs, compute F from scratch, and return the number of steps."""
    for j in range(len(y)):
        b[j], F[j] = 0.0, -y[j]
        low[j], high[j] = min(y[j] * upper[j], 0.0), max(y[j] * upper[j], 0.0)
    steps = descend(K, F, b, low, high, 0.0, floor, limit)
    _refresh(K, y, b, F)
    return steps


@njit(cache=True, nogil=True)
def _refresh(K, y, b, F):  # type: ignore[no-untyped-def]
    """Compute F from scratch."""
    widest_vectors()
    for j in range(len(y)):
        F[j] = 0.0
    for i in range(len(y)):
        if b[i] != 0.0:
            line, own = K[i], b[i]
            for j in range(len(y)):
                F[j] += own * line[j]
    # The label last: a kernel value far below rounding must not decide the sign of what is 0.
    for j in range(len(y)):
        F[j] -= y[j]


@njit(cache=True, nogil=True)
def _intercept(F, b, low, high, top, bottom):  # type: ignore[no-untyped-def]
    """Return the bias as `BlockDescent.centred_intercept` does."""
    total, free = 0.0, 0
    for j in range(len(F)):
        if low[j] < b[j] < high[j]:
            total += F[j]
            free += 1
    return -total / free if free > 0 else -0.5 * (top + bottom)

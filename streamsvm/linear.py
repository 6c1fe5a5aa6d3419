"""Small dense linear algebra that gives the same bits whatever the number of threads: compiled loops, no BLAS.

Pilots and reductions run beside a training that sets the number of BLAS's threads for the whole process; what they
compute must not depend on it. Sizes are those of features, so that plain loops are no loss: the weighted Gram matrix
takes four rows at a time and is bound by arithmetic.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Float = NDArray[np.float64]


@njit(cache=True, nogil=True)
def add_gram(rows: Float, weight: Float, matrix: Float) -> None:
    """Add sum_i weight_i r_i r_i' to the lower triangle of a matrix.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
    weight : ndarray of shape (n,)
    matrix : ndarray of shape (d, d)
        Only its lower triangle, the diagonal included, is touched.
    """
    n, d = rows.shape
    whole = n - n % 4
    for i in range(0, whole, 4):
        r0, r1, r2, r3 = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
        for j in range(d):
            c0, c1 = weight[i] * r0[j], weight[i + 1] * r1[j]
            c2, c3 = weight[i + 2] * r2[j], weight[i + 3] * r3[j]
            for k in range(j + 1):
                matrix[j, k] += (c0 * r0[k] + c1 * r1[k]) + (c2 * r2[k] + c3 * r3[k])
    for i in range(whole, n):
        for j in range(d):
            scaled = weight[i] * rows[i, j]
            for k in range(j + 1):
                matrix[j, k] += scaled * rows[i, k]


@njit(cache=True, nogil=True)
def factorise(matrix: Float) -> bool:
    """Replace the lower triangle, shape (d, d), by its Cholesky factor; False if the matrix is not positive."""
    d = len(matrix)
    for j in range(d):
        row = matrix[j]
        for k in range(j + 1):
            other = matrix[k]
            total = row[k]
            for m in range(k):
                total -= row[m] * other[m]
            if k < j:
                row[k] = total / other[k]
            elif total > 0.0:
                row[j] = np.sqrt(total)
            else:
                return False
    return True


@njit(cache=True, nogil=True)
def substitute(factor: Float, right: Float, solution: Float) -> None:
    """Solve factor factor' solution = right; all of d entries."""
    d = len(right)
    for j in range(d):
        total = right[j]
        for m in range(j):
            total -= factor[j, m] * solution[m]
        solution[j] = total / factor[j, j]
    for j in range(d - 1, -1, -1):
        solution[j] /= factor[j, j]
        for m in range(j):
            solution[m] -= factor[j, m] * solution[j]


@njit(cache=True, nogil=True)
def norms(factor: Float, rows: Float, out: Float) -> None:
    """Fill |r_i| in the norm of the inverse of factor factor', that is |factor^-1 r_i|, shape (n,)."""
    n, d = rows.shape
    solved = np.empty(d)
    for i in range(n):
        squared = 0.0
        for j in range(d):
            total = rows[i, j]
            for m in range(j):
                total -= factor[j, m] * solved[m]
            solved[j] = total / factor[j, j]
            squared += solved[j] * solved[j]
        out[i] = np.sqrt(squared)

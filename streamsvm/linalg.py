"""Dense linear algebra that gives the same bits whatever the number of threads: compiled loops, no BLAS.

What pilots and reductions compute must depend neither on the BLAS library nor on its number of threads. Sizes are
those of features. Every inner loop runs along contiguous memory, so that the compiler makes vectors of it; four rows or
columns go together, so that what is loaded once serves four times.

Sums of products are reordered (`REORDERED`) in one fixed way, which depends on lengths and on the build only, never on
values or addresses.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit

Float = NDArray[np.float64]
Index = NDArray[np.int64]

REORDERED = {"reassoc", "contract", "nsz"}
"""What the compiler may do to a sum of products; NaN and infinity keep their meaning."""


@njit(cache=True, nogil=True, fastmath=REORDERED)
def dot(x, y):  # type: ignore[no-untyped-def]
    """Return the product of two vectors."""
    total = 0.0
    for i in range(len(x)):
        total += x[i] * y[i]
    return total


@njit(cache=True, nogil=True)
def product(A, B):  # type: ignore[no-untyped-def]
    """Return A B, of shapes (n, m) and (m, k), each sum in the order of m: the same bits on every machine."""
    n, m, k = A.shape[0], A.shape[1], B.shape[1]
    found, whole = np.zeros((n, k)), m - m % 4
    for i in range(n):
        line = found[i]
        for j in range(0, whole, 4):
            p, q, r, s = A[i, j], A[i, j + 1], A[i, j + 2], A[i, j + 3]
            for c in range(k):
                line[c] = (((line[c] + p * B[j, c]) + q * B[j + 1, c]) + r * B[j + 2, c]) + s * B[j + 3, c]
        for j in range(whole, m):
            p = A[i, j]
            for c in range(k):
                line[c] += p * B[j, c]
    return found


@njit(cache=True, nogil=True)
def along(A, x):  # type: ignore[no-untyped-def]
    """Return A x, of shapes (n, d) and (d,), as `product` does; four rows go together."""
    n, d = A.shape
    found, whole = np.zeros(n), n - n % 4
    for i in range(0, whole, 4):
        p, q, r, s = 0.0, 0.0, 0.0, 0.0
        for j in range(d):
            p += A[i, j] * x[j]
            q += A[i + 1, j] * x[j]
            r += A[i + 2, j] * x[j]
            s += A[i + 3, j] * x[j]
        found[i], found[i + 1], found[i + 2], found[i + 3] = p, q, r, s
    for i in range(whole, n):
        for j in range(d):
            found[i] += A[i, j] * x[j]
    return found


@njit(cache=True, nogil=True, fastmath={"contract"})
def add_gram(rows: Float, which: Index, weight: Float, matrix: Float) -> None:
    """Add sum_i weight_i r_i r_i', r_i being row which_i, to the lower triangle of a matrix.

    Parameters
    ----------
    rows : ndarray of shape (m, d)
    which : ndarray of shape (n,)
    weight : ndarray of shape (n,), or longer
    matrix : ndarray of shape (d, d)
        Only its lower triangle, the diagonal included, is touched.
    """
    n, d = len(which), rows.shape[1]
    whole = n - n % 4
    for i in range(0, whole, 4):
        r0, r1, r2, r3 = rows[which[i]], rows[which[i + 1]], rows[which[i + 2]], rows[which[i + 3]]
        for j in range(d):
            c0, c1 = weight[i] * r0[j], weight[i + 1] * r1[j]
            c2, c3 = weight[i + 2] * r2[j], weight[i + 3] * r3[j]
            line = matrix[j]
            for k in range(j + 1):
                line[k] += (c0 * r0[k] + c1 * r1[k]) + (c2 * r2[k] + c3 * r3[k])
    for i in range(whole, n):
        row = rows[which[i]]
        for j in range(d):
            scaled = weight[i] * row[j]
            for k in range(j + 1):
                matrix[j, k] += scaled * row[k]


@njit(cache=True, nogil=True, fastmath={"contract"})
def factorise(matrix: Float) -> bool:
    """Replace the lower triangle, shape (d, d), by its Cholesky factor; False if the matrix is not positive.

    Four columns are made, then taken off all rows below at once.
    """
    d = len(matrix)
    columns = np.empty((4, d))
    for first in range(0, d, 4):
        last = min(first + 4, d)
        for i in range(first, d):
            for k in range(first, last):
                columns[k - first, i] = matrix[i, k]
        for k in range(first, last):
            column = columns[k - first]
            for earlier in range(k - first):
                other = columns[earlier]
                scaled = other[k]
                for i in range(k, d):
                    column[i] -= scaled * other[i]
            if not 0.0 < column[k] < np.inf:
                return False
            inverse = 1.0 / np.sqrt(column[k])
            for i in range(k, d):
                column[i] *= inverse
        for i in range(first, d):
            for k in range(first, min(last, i + 1)):
                matrix[i, k] = columns[k - first, i]
        if last == d:
            break
        p, q, r, s = columns
        for i in range(last, d - 1, 2):
            _take_off(matrix[i], matrix[i + 1], p, q, r, s, last, i)
        if (d - last) % 2:
            line, i = matrix[d - 1], d - 1
            for j in range(last, d):
                line[j] -= p[i] * p[j] + q[i] * q[j] + r[i] * r[j] + s[i] * s[j]
    return True


@njit(cache=True, nogil=True, fastmath={"contract"})
def _take_off(line, following, p, q, r, s, first, i):  # type: ignore[no-untyped-def]
    """Take the products of four columns off rows i and i + 1, from `first` to the diagonal."""
    a0, a1, a2, a3 = p[i], q[i], r[i], s[i]
    b0, b1, b2, b3 = p[i + 1], q[i + 1], r[i + 1], s[i + 1]
    for j in range(first, i + 1):
        x0, x1, x2, x3 = p[j], q[j], r[j], s[j]
        line[j] = line[j] - a0 * x0 - a1 * x1 - a2 * x2 - a3 * x3
        following[j] = following[j] - b0 * x0 - b1 * x1 - b2 * x2 - b3 * x3
    following[i + 1] -= b0 * b0 + b1 * b1 + b2 * b2 + b3 * b3


@njit(cache=True, nogil=True, fastmath=REORDERED)
def substitute(factor: Float, right: Float, solution: Float) -> None:
    """Solve factor factor' solution = right; all of d entries."""
    d = len(right)
    for j in range(d):
        line = factor[j]
        total = 0.0
        for m in range(j):
            total += line[m] * solution[m]
        solution[j] = (right[j] - total) / line[j]
    for j in range(d - 1, -1, -1):
        line = factor[j]
        solution[j] /= line[j]
        for m in range(j):
            solution[m] -= line[m] * solution[j]


@njit(cache=True, nogil=True)
def back_substituted(factor: Float, right: Float) -> Float:
    """Solve factor' solution = right, column by column; shapes (d, d), lower triangle, and (d, k)."""
    d, solution = len(right), right.copy()
    for j in range(d - 1, -1, -1):
        for c in range(right.shape[1]):
            solution[j, c] /= factor[j, j]
        for m in range(j):
            for c in range(right.shape[1]):
                solution[m, c] -= factor[j, m] * solution[j, c]
    return solution

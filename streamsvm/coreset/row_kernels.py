"""Passes over the rows of a node, compiled: scaled features with margins, the mean of each label, distances to it.

Sums run row after row in a fixed order, without BLAS: their bits depend on no thread count.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.common_values import add_sparse_gram, fill_sparse_lengths
from streamsvm.compiling import njit
from streamsvm.linalg import add_gram, back_substituted, dot, factorise, norms
from streamsvm.points import Features, Signs

Float = NDArray[np.float64]

DELTA: Final = 0.3
"""Half the width over which the kink of the hinge is smoothed, the delta of `streamsvm.coreset.reducers.calibrated`. A
row whose margin is 1 + DELTA or more has no influence."""


@njit(cache=True, nogil=True, error_model="numpy")
def scale(
    X: Features,
    y: Signs,
    mean: Float,
    deviation: Float,
    coefficients: Float,
    intercept: float,
    rows: Float,
    margin: Float,
) -> None:
    """Fill (z, 1), shape (n, d + 1), z = (x - mean) / deviation, and y (<w, z> + b), shape (n,).

    Parameters
    ----------
    X : ndarray of shape (n, d), float32 or float64
    y : ndarray of shape (n,), int8
    mean, deviation, coefficients : ndarray of shape (d,)
    """
    n, d = X.shape
    for i in range(n):
        line = rows[i]
        for j in range(d):
            line[j] = (np.float64(X[i, j]) - mean[j]) / deviation[j]
        line[d] = 1.0
        margin[i] = y[i] * (dot(line[:d], coefficients) + intercept)


@njit(cache=True, nogil=True, error_model="numpy")
def label_means(rows: Float, y: Signs, weight: Float, total: Float, mean: Float) -> None:
    """Fill the weight, shape (2,), and the weighted mean, shape (2, d), of the labels -1 and +1, both present."""
    total[:] = 0.0
    mean[:] = 0.0
    for i in range(len(y)):
        label = 1 if y[i] > 0 else 0
        total[label] += weight[i]
        share = weight[i] / total[label]
        for j in range(mean.shape[1]):
            mean[label, j] += share * (rows[i, j] - mean[label, j])


@njit(cache=True, nogil=True)
def distances(rows: Float, y: Signs, mean: Float, distance: Float) -> None:
    """Fill the Euclidean distance of each row to the mean, shape (2, d), of its label; shape (n,)."""
    for i in range(len(y)):
        label = 1 if y[i] > 0 else 0
        squared = 0.0
        for j in range(mean.shape[1]):
            apart = rows[i, j] - mean[label, j]
            squared += apart * apart
        distance[i] = np.sqrt(squared)


@njit(cache=True, nogil=True, error_model="numpy")
def fill_scaled(X: Features, mean: Float, scale: Float, Z: Float) -> None:
    """Fill z = (x - mean) / scale, shape (n, d)."""
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            Z[i, j] = (np.float64(X[i, j]) - mean[j]) / scale[j]


@njit(cache=True, nogil=True)
def scaled_rows(X: Features, centre: Float, inverse: Float, rows: Float) -> None:
    """Fill (z, 1), shape (n, d + 1), z = (x - centre) * inverse."""
    n, d = X.shape
    for i in range(n):
        for j in range(d):
            rows[i, j] = (np.float64(X[i, j]) - centre[j]) * inverse[j]
        rows[i, d] = 1.0


@njit(cache=True, nogil=True, error_model="numpy")
def curve(  # type: ignore[no-untyped-def]
    rows, weight, margin, penalty, total, delta, others, factor, length
):
    """Fill the Cholesky factor of the smoothed Hessian, and lengths in the norm of its inverse; False without a factor.

    H = diag(1, ..., 1, 0) / penalty + sum of u r r' / (2 delta) over the rows with |1 - margin| < delta. Shapes are
    (n, d + 1) of rows, (n,) of weights and margins, (d + 1, d + 1) of the factor, a lower triangle, (n,) of lengths,
    or (0,), where none are wanted; `total` is that of the weights; `others` are those of the rows
    (`streamsvm.common_values.Apart`).
    """
    n, width = rows.shape
    factor[:] = 0.0
    for j in range(width):
        factor[j, j] = 1.0 / penalty
    # The intercept has no regulariser: without this its entry would be 0, and H singular, if no point is near a margin.
    factor[width - 1, width - 1] = 1e-9 * total
    sparse, own, kept = len(others.common) > 0, np.zeros(n), 0
    near = np.empty((0 if sparse else n, width))
    for i in range(n):
        if abs(1.0 - margin[i]) < delta:
            curvature = weight[i] / (2.0 * delta)
            if sparse:
                own[i] = curvature
                continue
            for j in range(width):
                near[kept, j] = rows[i, j]
            own[kept] = curvature
            kept += 1
    if sparse:
        add_sparse_gram(rows, others, own, factor)
    else:
        add_gram(near[:kept], own[:kept], factor)
    if not factorise(factor):
        return False
    if sparse and len(length):
        fill_sparse_lengths(rows, others, back_substituted(factor, np.eye(width)), length)
    else:
        norms(factor, rows[: len(length)], length)
    return True


@njit(cache=True, nogil=True)
def add_active(rows: Float, y: Signs, weight: Float, margin: Float, totals: Float, gradient: Float) -> None:
    """Add weights by label (-1, +1) x {inactive, active}, shape (2, 2), and the sum of u y z over the active, (d,)."""
    for i in range(len(y)):
        label, own = 1 if y[i] > 0 else 0, weight[i]
        if margin[i] < 1.0:
            totals[label, 1] += own
            signed = own if label else -own
            for j in range(len(gradient)):
                gradient[j] += signed * rows[i, j]
        else:
            totals[label, 0] += own

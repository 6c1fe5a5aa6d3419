"""Passes over the rows of a node, compiled: scaled features with margins, the mean of each label, distances to it.

Sums run row after row in a fixed order, without BLAS: their bits depend on no thread count.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.points import Features, Signs

Float = NDArray[np.float64]


@njit(cache=True, nogil=True)
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
        decision = intercept
        for j in range(d):
            z = (np.float64(X[i, j]) - mean[j]) / deviation[j]
            rows[i, j] = z
            decision += z * coefficients[j]
        rows[i, d] = 1.0
        margin[i] = y[i] * decision


@njit(cache=True, nogil=True)
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

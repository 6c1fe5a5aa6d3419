"""The linear kernel of a set of points by its explicit coefficients: no column of the kernel matrix is ever made."""

from __future__ import annotations

import numpy as np

from streamsvm.svm.columns import Index
from streamsvm.svm.kernels import Float


class LinearBlocks:
    """The linear kernel of a set of points, all in float64.

    Parameters
    ----------
    Z : ndarray of shape (n, d), float64, centred

    Attributes
    ----------
    computed : int
        0: there are no columns.
    largest : float
        Largest kernel value.
    """

    computed = 0

    def __init__(self, Z: Float) -> None:
        self._Z = Z
        self.largest = float(np.einsum("ij,ij->i", Z, Z).max())

    def gram(self, members: Index) -> Float:
        """Return the products among some points, shape (m, m)."""
        rows = self._Z[members]
        return np.asarray(rows @ rows.T, dtype=np.float64)

    def add(self, members: Index, change: Float, F: Float) -> None:
        """Add to every F_j the sum over members i of change_i <z_i, z_j>: one product with the change of w."""
        F += self._Z @ (change @ self._Z[members])

    def coefficients(self, weights: Float) -> Float:
        """Return w = sum_i weights_i z_i, shape (d,)."""
        return np.asarray(weights @ self._Z, dtype=np.float64)

    def scores(self, members: Index, weights: Float, targets: Index) -> Float:
        """Return sum_i weights_i <z_i, z_j> for some points j, from scratch, shape (len(targets),)."""
        points = self._Z if len(targets) == len(self._Z) else self._Z[targets]
        return np.asarray(points @ (weights @ self._Z[members]), dtype=np.float64)

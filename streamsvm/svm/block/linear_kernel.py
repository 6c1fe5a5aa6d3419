"""The linear kernel of a set of points by its explicit coefficients: no column of the kernel matrix is ever made."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from streamsvm.compiling import njit
from streamsvm.linalg import Index
from streamsvm.model.kernels import Float
from streamsvm.svm.block.signed_rows import (
    FEW,
    SignedRows,
    rows_of_csr,
    signed_rows,
    sparse_add,
    sparse_gram,
    sparse_rows,
    sparse_sum,
)

WIDE: Final = 4096
"""Features of a CSR array from which the products among a block's points are made without dense columns."""


class LinearBlocks:
    """The linear kernel of a set of points, all in float64.

    Since dual variables keep their sum, the origin is free: sparse points lose their common values, dense ones their
    mean; see `streamsvm.svm.block.signed_rows`.

    Parameters
    ----------
    Z : ndarray of shape (n, d), float64, C-contiguous, or CSR array
        The common value of a CSR array's features is 0.
    y : ndarray of shape (n,), -1.0 or +1.0

    Attributes
    ----------
    centre : ndarray of shape (d,)
        The origin.
    computed : int
        0: there are no columns.
    largest : float
        Largest kernel value.
    entries : float
        Mean number of features in which a point is not at the origin; d of dense points.
    """

    computed = 0

    def __init__(self, Z: Any, y: Float) -> None:
        self._y = y
        self._all = np.arange(len(y))
        self._sparse = sparse_rows(Z, y, Z.shape[1]) if isinstance(Z, np.ndarray) else rows_of_csr(Z, y)
        self._wide = None if isinstance(Z, np.ndarray) or Z.shape[1] < WIDE else Z
        self.entries = float(Z.shape[1])
        if self._sparse is None:
            self.centre, self._Z = np.empty(Z.shape[1]), np.empty(Z.shape)
            self.largest = float(_centre(Z, self.centre, self._Z))
        else:
            self.centre = self._sparse.common
            squares = np.append(0.0, np.cumsum(self._sparse.value**2))[self._sparse.start]
            self.largest = float(np.diff(squares).max())
            self.entries = len(self._sparse.value) / len(y)

    @property
    def rows(self) -> SignedRows:
        """The points for a second-order method."""
        return self._sparse or signed_rows(self._Z, self._y)

    def gram(self, members: Index) -> Float:
        """Return the products among some points, shape (m, m)."""
        if self._sparse is None:
            rows = self._Z[members]
            return np.asarray(rows @ rows.T, dtype=np.float64)
        if self._wide is not None:
            chosen = self._wide[members]
            return np.ascontiguousarray((chosen @ chosen.T).toarray(), dtype=np.float64)
        products = np.empty((len(members), len(members)))
        sparse_gram(self._sparse, members, len(self.centre), products)
        return products

    def add(self, members: Index, change: Float, F: Float) -> None:
        """Add to every F_j the sum over members i of change_i <z_i, z_j>: one product with the change of w."""
        if self._sparse is None:
            F += self._Z @ (change @ self._Z[members])
        else:
            sparse_add(self._sparse, self._sum(self._sparse, members, change), self._all, F)

    def coefficients(self, weights: Float) -> Float:
        """Return w = sum_i weights_i z_i, shape (d,)."""
        if self._sparse is None:
            return np.asarray(weights @ self._Z, dtype=np.float64)
        return self._sum(self._sparse, self._all, weights)

    def scores(self, members: Index, weights: Float, targets: Index) -> Float:
        """Return sum_i weights_i <z_i, z_j> for some points j, from scratch, shape (len(targets),)."""
        if self._sparse is None:
            points = self._Z if len(targets) == len(self._Z) else self._Z[targets]
            return np.asarray(points @ (weights @ self._Z[members]), dtype=np.float64)
        scores = np.zeros(len(targets))
        sparse_add(self._sparse, self._sum(self._sparse, members, weights), targets, scores)
        return scores

    def _sum(self, rows: SignedRows, members: Index, weights: Float) -> Float:
        w = np.empty(len(self.centre))
        sparse_sum(rows, members, weights, w)
        return w


@njit(cache=True, nogil=True)
def _centre(Z, centre, centred):  # type: ignore[no-untyped-def]
    """Fill the mean of the points, and the points less it; return the largest square among these."""
    n, d = Z.shape
    centre[:] = 0.0
    for i in range(n):
        for k in range(d):
            centre[k] += Z[i, k]
    for k in range(d):
        centre[k] /= n
    largest = 0.0
    for i in range(n):
        square = 0.0
        for k in range(d):
            centred[i, k] = Z[i, k] - centre[k]
            square += centred[i, k] * centred[i, k]
        largest = max(largest, square)
    return largest


def warm_up() -> None:
    """Compile, or load from numba's file cache, what sparse points need."""
    y = np.array([1.0, -1.0] * 8)
    Z = np.zeros((len(y), 2 * FEW))
    Z[:, 0] = y
    source, some = LinearBlocks(Z, y), np.arange(2)
    source.gram(some)
    source.add(some, y[:2], np.zeros(len(y)))


def is_compiled() -> bool:
    """Whether this process has the code of sparse points, the last of this kernel that is made ready."""
    return bool(sparse_gram.signatures)

"""The RBF kernel over sparse rows, by products of matrices in float64; dense rows have `rbf_tiles`."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from streamsvm.linalg import Index
from streamsvm.model.kernels import Float
from streamsvm.svm.block.rbf_tiles import powers

VALUES: Final = 1 << 20
"""Kernel values that are made at a time: 8 MB."""
DENSE_VALUES: Final = 1 << 22
"""Values of sparse points that are made dense at a time: 32 MB."""
LOG2_E: Final = float(np.log2(np.e))


class SparseRbfBlocks:
    """The RBF kernel of a set of sparse points.

    Parameters
    ----------
    Z : CSR array of shape (n, d), float64
    gamma : float

    Attributes
    ----------
    computed : int
        Columns of the whole kernel matrix that were computed so far.
    largest : float
        Largest kernel value: 1.
    """

    largest = 1.0

    def __init__(self, Z: Any, gamma: float) -> None:
        self._Z, self._factor = Z, gamma * LOG2_E
        self._half = self._factor * np.asarray(Z.multiply(Z).sum(axis=1)).ravel()
        self.computed = 0

    def gram(self, members: Index) -> Float:
        """Return the kernel values among some points, shape (m, m)."""
        K = np.empty((len(members), len(members)))
        for part in self._parts(len(members), len(members)):
            K[part] = self._values(members[part], members)
        return K

    def add(self, members: Index, change: Float, F: Float) -> None:
        """Add to every F_j the sum over members i of change_i k_ij."""
        self.computed += len(members)
        for part in self._parts(len(members), len(F)):
            F += change[part] @ self._values(members[part], None)

    def scores(self, members: Index, weights: Float, targets: Index) -> Float:
        """Return sum_i weights_i k_ij for some points j, from scratch, shape (len(targets),)."""
        scores = np.zeros(len(targets))
        others = None if len(targets) == self._Z.shape[0] else targets
        for part in self._parts(len(members), len(targets)):
            scores += weights[part] @ self._values(members[part], others)
        return scores

    def _values(self, rows: Index, columns: Index | None) -> Float:
        """Return the kernel values of some points with others, or with all, shape (len(rows), len(columns))."""
        others, half = (self._Z, self._half) if columns is None else (self._Z[columns], self._half[columns])
        # Sparse times dense is a loop along the lines of the dense matrix; sparse times sparse is not.
        found = others @ np.ascontiguousarray(self._Z[rows].toarray().T)
        found *= 2.0 * self._factor
        powers(found, half, self._half[rows])
        return np.asarray(found.T, dtype=np.float64)

    def _parts(self, rows: int, columns: int) -> list[slice]:
        """Divide rows so that neither their kernel values nor the rows themselves, made dense, take much memory."""
        size = max(1, min(VALUES // max(1, columns), DENSE_VALUES // self._Z.shape[1]))
        return [slice(start, min(rows, start + size)) for start in range(0, rows, size)]

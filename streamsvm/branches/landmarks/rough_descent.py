"""Rough runs of the trunk's solver: for a pilot, or to judge a cell of a grid, a gap of hundredths is enough.

`BlockDescent` recomputes its sums in float64 before it ends, which takes a fifth of so short a run. Here it ends at the
running gap, as long as the errors of float32 are far below it; else as `BlockDescent` does.

Invariant: a pure function of the arguments.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsvm.linalg import Index
from streamsvm.model.kernels import Float, RbfKernel
from streamsvm.points import Signs
from streamsvm.svm.block.descent import BLOCK, BlockDescent, Source
from streamsvm.svm.block.rbf_tiles import RbfBlocks, Values, add_rows

DEVIATIONS: Final = 8.0
"""By which the errors of float32 may be larger than expected."""


class KernelRows(RbfBlocks):
    """The RBF kernel of a few points, and of them with others, computed once for any number of runs; float32.

    Parameters
    ----------
    both : ndarray of shape (n, d), float64, C-contiguous
    few : int
        How many of them, from the first one on, a run has.
    gamma : float
    before : KernelRows, optional
        The same points with a smaller gamma, for which there is no further use. Where gamma is twice or four times as
        large, its values are squared: a tenth of the work.

    Attributes
    ----------
    Z : ndarray of shape (few, d)
    gamma : float
    """

    def __init__(self, both: Float, few: int, gamma: float, before: KernelRows | None = None) -> None:
        super().__init__(both, gamma, np.float32)
        self.gamma = gamma
        doublings = {2.0: 1, 4.0: 2}.get(gamma / before.gamma) if before is not None else None
        if before is None or doublings is None:
            self._K = super().gram(np.arange(few))
            self._aside = self.cross(np.arange(few), np.arange(few, len(both)))
        else:
            self._K, self._aside = before._K, before._aside
            for values in (self._K, self._aside) * doublings:
                np.multiply(values, values, out=values)
        # What a run asks for is about its own points, which come first.
        self.Z = self._Z = both[:few]

    def gram(self, members: Index) -> Values:
        """Return the kernel values among some points, shape (m, m)."""
        return self._K.take(members, 0).take(members, 1)

    def add(self, members: Index, change: Float, F: Float) -> None:
        """Add to every F_j the sum over members i of change_i k_ij."""
        add_rows(self._K.take(members, 0), change, F)

    def aside(self, b: Float) -> Float:
        """Return sum_i b_i k_ij for every point that no run has."""
        support = np.flatnonzero(b)
        sums = np.zeros(self._aside.shape[1])
        add_rows(self._aside.take(support, 0), b[support], sums)
        return sums


class RoughDescent(BlockDescent):
    """A run that ends at its running gap, where that is beyond the errors of float32.

    Parameters other than `source`, kernel values that are at hand, are those of `BlockDescent`.
    """

    def __init__(
        self, Z: Float, y: Signs, upper: Float, kernel: RbfKernel, tolerance: float, source: Source | None = None
    ) -> None:
        self._given = source
        super().__init__(Z, y, upper, kernel, tolerance)

    def begin(self) -> tuple[Source, int]:
        """Take the kernel values that are given."""
        source, size = super().begin() if self._given is None else (self._given, BLOCK)
        return source, size

    def _confirm(self) -> bool:
        # Rounding errors of different columns are independent: their sum grows as the root of a sum of squares.
        error = DEVIATIONS * float(np.finfo(np.float32).eps) * float(np.sqrt(self.moved @ self.moved))
        if not error < self.tolerance:
            return super()._confirm()
        self.converged = self.gap < self.tolerance
        return False

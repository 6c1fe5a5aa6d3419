"""Rough runs of the trunk's solver: for a pilot, or to judge a cell of a grid, a gap of hundredths is enough.

`BlockDescent` recomputes its sums in float64 before it ends, which takes a fifth of so short a run. Here it ends at the
running gap, as long as the errors of float32 are far below it; else as `BlockDescent` does.

Invariant: a pure function of the arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from streamsvm.compiling import njit
from streamsvm.linalg import Index
from streamsvm.model.kernels import Float, RbfKernel
from streamsvm.points import Signs
from streamsvm.svm.block.descent import BLOCK, BlockDescent, Source
from streamsvm.svm.block.rbf_tiles import RbfBlocks, Values, add_rows

DEVIATIONS: Final = 8.0
"""By which the errors of float32 may be larger than expected."""
TILE: Final = 512
"""Points whose kernel values are in use at once: with 1,000 others they take 2 MB."""


class KernelRows(RbfBlocks):
    """The RBF kernel among a few points, computed once for any number of runs; float32.

    It has `gram` and `add` only: the tiles of its parent would cost more than a run, and none needs them before float32
    is not enough (`RoughDescent`).

    Parameters
    ----------
    Z : ndarray of shape (n, d), float64, C-contiguous
    gamma : float
    before : KernelRows, optional
        The same points with a smaller gamma, for which there is no further use. Where gamma is twice or four times as
        large, its values are squared: a tenth of the work.

    Attributes
    ----------
    Z : ndarray of shape (n, d)
    gamma : float
    """

    def __init__(self, Z: Float, gamma: float, before: KernelRows | None = None) -> None:
        self.Z, self.gamma, self.computed = Z, gamma, 0
        times = doublings(before.gamma, gamma) if before is not None else 0
        if before is None or not times:
            self._K = RbfBlocks(Z, gamma, np.float32).gram(np.arange(len(Z)))
        else:
            self._K = before._K
            square(self._K, times)

    def gram(self, members: Index) -> Values:
        """Return the kernel values among some points, shape (m, m)."""
        K: Values = np.empty((len(members), len(members)), np.float32)
        _pick(self._K, members, K)
        return K

    def add(self, members: Index, change: Float, F: Float) -> None:
        """Add to every F_j the sum over members i of change_i k_ij."""
        add_rows(self._K.take(members, 0), change, F)


def doublings(before: float, gamma: float) -> int:
    """Return how often kernel values of one gamma are to be squared for another; 0 if they are computed anew."""
    return {2.0: 1, 4.0: 2}.get(gamma / before, 0)


def square(values: Values, times: int) -> None:
    """Square kernel values so many times."""
    for _ in range(times):
        np.multiply(values, values, out=values)


def rough_decisions(Z: Float, others: Float, gammas: Sequence[float], b: Float) -> Float:
    """Return sum_i b_i k_ij of some machines for points that none of them has; float32.

    A tile of the kernel is computed once, used for all machines while it is in a cache, and squared for the next gamma.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
    others : ndarray of shape (m, d)
    gammas : sequence of float
        Rising.
    b : ndarray of shape (gammas, k, n), float64
        Of k machines for each gamma.

    Returns
    -------
    ndarray of shape (gammas, k, m)
    """
    support = np.flatnonzero(b.any(axis=(0, 1)))
    found = np.zeros((*b.shape[:2], len(others)), np.float32)
    if not len(support):
        return found
    both = np.ascontiguousarray(np.concatenate([Z[support], others]))
    weights = np.ascontiguousarray(b[:, :, support], dtype=np.float32)
    times = [0] + [doublings(*pair) for pair in pairwise(gammas)]
    anew = {row: RbfBlocks(both, gammas[row], np.float32) for row, squared in enumerate(times) if not squared}
    members = np.arange(len(support))
    K: Values = np.empty((0, 0), np.float32)
    for first in range(0, len(others), TILE):
        tile = np.arange(first, min(first + TILE, len(others)))
        for row, squared in enumerate(times):
            if squared:
                square(K, squared)
            else:
                K = anew[row].cross(members, len(support) + tile)
            # One machine after another: a product of few rows would have K packed first, which takes as long again.
            for machine, own in enumerate(weights[row]):
                found[row, machine, tile] = own @ K
    return found


@njit(cache=True, nogil=True)
def _pick(K, members, values):  # type: ignore[no-untyped-def]
    """Write the values among some points."""
    for i in range(len(members)):
        line = K[members[i]]
        for j in range(len(members)):
            values[i, j] = line[members[j]]


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
            if isinstance(self.source, KernelRows):
                self.source = RbfBlocks(self.Z, self.source.gamma, np.float32)
            return super()._confirm()
        self.converged = self.gap < self.tolerance
        return False

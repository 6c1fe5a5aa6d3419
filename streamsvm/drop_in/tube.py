r"""Epsilon-insensitive regression by block descent: a tube of half-width epsilon around the targets costs nothing.

Problem, where each point has its own upper bound C_i and its target is t_i:

    min 1/2 |w|^2 + sum_i C_i max(0, |t_i - w'z_i - intercept| - epsilon).

Its dual has one variable a point, b_i, with a kink at 0:

    min f(b) = 1/2 sum_ij b_i b_j k_ij - sum_i t_i b_i + epsilon sum_i |b_i|,   -C_i <= b_i <= C_i,   sum_i b_i = 0.

LIBSVM writes b_i as a difference of two variables, and solves a problem of twice as many. Here every point has a side
at any moment: above its target's tube, 0 <= b_i <= C_i, or below it, -C_i <= b_i <= 0. On its side f has no kink, and
the problem is that of `streamsvm.svm.block.descent`, with the target moved by epsilon. Between two blocks, points with
b_i = 0 take the side on which they could move: that towards the middle of the extremes. A point that violates the
optimality conditions with respect to that middle does so on one side only, so the extremes over the sides are those of
the whole problem.

Where the pairs have cost what an interior-point method would, that method runs once, over the points or a factor of
the kernel matrix, and the blocks continue from its result: an unscaled feature, or large values of a polynomial, can
take millions of steps along pairs.

Source of the problem: Drucker, Burges, Kaufman, Smola and Vapnik 1997, "Support vector regression machines".
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from streamsvm.compiling import njit
from streamsvm.drop_in.few_points import FewPointsDescent
from streamsvm.linalg import Index
from streamsvm.model.kernels import Float, Kernel
from streamsvm.svm.block import interior_point as interior
from streamsvm.svm.block.descent import EPSILON, PATIENCE
from streamsvm.svm.block.linear_kernel import LinearBlocks
from streamsvm.svm.block.product_kernels import PolynomialKernel
from streamsvm.svm.block.rbf_tiles import RbfBlocks
from streamsvm.svm.block.signed_rows import SignedRows, factor_rows, rows_of_csr, signed_rows
from streamsvm.svm.block.workers import ALONE, WorkerPool
from streamsvm.svm.block.working_set import extremes
from streamsvm.vector_math import least, most, widest_vectors

PATIENCE_OF_MATRIX: Final = 1.0
"""The interior-point method over a kernel matrix starts when the pairs have cost this many times what it would."""
MOST_OF_MATRIX: Final = 800
"""Most points of which it runs over a kernel matrix: it takes seconds there."""


class TubeDescent(FewPointsDescent):
    """One run of the method for regression; attributes are those of `BlockDescent`.

    Parameters
    ----------
    Z : ndarray or CSR array of shape (n, d), float64
        Finite.
    target : ndarray of shape (n,), float64
        Finite.
    upper : ndarray of shape (n,), float64, positive
    epsilon : float
        Half the width of the tube, at least 0.
    kernel : Kernel or PolynomialKernel
    tolerance : float
        KKT gap below which the point counts as optimal, in units of the targets.
    workers : WorkerPool, optional
    """

    def __init__(
        self,
        Z: Any,
        target: Float,
        upper: Float,
        epsilon: float,
        kernel: Kernel | PolynomialKernel,
        tolerance: float,
        *,
        workers: WorkerPool = ALONE,
    ) -> None:
        side = np.where(target > 0.5 * (target.max() + target.min()), 1.0, -1.0)
        super().__init__(Z, side.astype(np.int8), upper, kernel, tolerance, workers=workers)
        self._plain, self._epsilon = target, epsilon
        self.patience_ns = self._patience(len(target))
        self._magnitude = float(np.abs(target).max()) + epsilon
        if epsilon > 0.0:
            self.target = target - epsilon * side
        else:
            # Without a kink, both sides are one box.
            self.target = target.copy()
            self.high = np.maximum(self.high, -self.low)
            self.low = -self.high
        self.F = -self.target

    def _patience(self, n: int) -> float:
        """Return what the blocks may cost before the interior-point method starts; infinite where it cannot."""
        if isinstance(self.source, LinearBlocks):
            return PATIENCE * interior.cost_ns(2 * n, self.Z.shape[1], self.source.entries)
        # Its unknowns are a factor of the kernel matrix, of whatever rank that has.
        return PATIENCE_OF_MATRIX * interior.cost_ns(2 * n, n, n) if n <= MOST_OF_MATRIX else np.inf

    def jump(self, limit: int) -> None:
        """Run the interior-point method once; discard its result if that has a larger f."""
        self.patience_ns = np.inf
        before = self.b, self.F.copy(), self.target, self.low, self.high, self.f
        box = np.maximum(self.high, -self.low)
        self.b, steps = interior.near_tube(self._rows(), self._plain, self._epsilon, box, self.tolerance, limit)
        self.iterations += steps
        if self._epsilon > 0.0:
            above = np.where(self.b == 0.0, self.high > 0.0, self.b > 0.0)
            self.low, self.high = np.where(above, 0.0, -box), np.where(above, box, 0.0)
            self.target = self._plain - np.where(above, self._epsilon, -self._epsilon)
        self.forget_progress()
        self.refresh()
        if not self.f <= before[-1]:
            self.b, self.F, self.target, self.low, self.high, _ = before
            self.exact = False

    def _rows(self) -> SignedRows:
        """Return the points, or points with the kernel's products, as the interior-point method needs them."""
        ones = np.ones(len(self.b))
        if isinstance(self.source, LinearBlocks):
            return signed_rows(self.Z, ones) if isinstance(self.Z, np.ndarray) else rows_of_csr(self.Z, ones)
        return factor_rows(self.source.gram(np.arange(len(self.b))).astype(np.float64))

    @property
    def rounding(self) -> float:
        """Size of the rounding errors in F, which the targets' size adds to."""
        return super().rounding + EPSILON * self._magnitude

    def find_extremes(self) -> tuple[float, float]:
        """Return the extremes of F, of points at 0 on both sides, and let these points take their sides."""
        if self._epsilon > 0.0:
            # The extremes of both sides: of a target without noise all points are within the tube, and on one side.
            bounds = self.low, self.high
            top, bottom = _take_sides(self.F, self.b, *bounds, self._plain, self._epsilon, self.target)
            return float(top), float(bottom)
        return super().find_extremes()

    def decisive(self, source: RbfBlocks) -> Index:
        """Return the points that may be extremes on either side, and the support vectors."""
        changed = np.flatnonzero(self.moved)
        wrong = source.uncertainty(changed, self.moved[changed])
        top, _ = extremes(self.F - wrong, self.b, self.low, self.high)
        _, bottom = extremes(self.F + wrong, self.b, self.low, self.high)
        plain = self.F + self.target - self._plain
        room = self._epsilon - wrong + np.minimum(plain - bottom, top - plain)
        return np.flatnonzero((self.b != 0) | ~(room > 2.0 * self.tolerance))


@njit(cache=True, nogil=True, fastmath={"nnan"})
def _take_sides(F, b, low, high, plain, epsilon, target):  # type: ignore[no-untyped-def]
    """Move every point with b = 0 to the side of the middle of the extremes, and return these.

    F, low, high and target are changed.
    """
    widest_vectors()
    top, bottom = -np.inf, np.inf
    for j in range(len(F)):
        # At 0 both directions are open; a box of no height does not exist, so `high` or `low` tells the side.
        other = F[j] + (target[j] - plain[j])
        zero = b[j] == 0.0
        falling = other - epsilon if zero else F[j]
        rising = other + epsilon if zero else F[j]
        top = most(top, falling if zero or b[j] > low[j] else -np.inf)
        bottom = least(bottom, rising if zero or b[j] < high[j] else np.inf)
    middle = 0.5 * (top + bottom)
    for j in range(len(F)):
        if b[j] == 0.0:
            value = F[j] + (target[j] - plain[j])
            above = value < middle
            if above != (high[j] > 0.0):
                low[j], high[j] = -high[j], -low[j]
                own = plain[j] - epsilon if above else plain[j] + epsilon
                F[j] += target[j] - own
                target[j] = own
    return top, bottom

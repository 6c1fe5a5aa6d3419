r"""The one-class machine by block descent: the plane of the feature space furthest from the origin.

Problem, where each point has its own upper bound c_i and `total` is given (nu sum_i c_i for a share nu of outliers):

    min f(b) = 1/2 sum_ij b_i b_j k_ij,   0 <= b_i <= c_i,   sum_i b_i = total.

It is that of `streamsvm.svm.block.descent` without targets, and with another sum: 0 is not feasible, so a start is
needed. Outliers end at their upper bound, so the start puts the points with the least mean kernel value, over an even
sample, there.

Since the sum is not 0, the origin of the linear kernel is not free. With points z_i - c in place of z_i, f is the same
up to a constant if the target -total <c, z_i - c> takes the place of 0.

Source of the problem: Schoelkopf, Platt, Shawe-Taylor, Smola and Williamson 2001, "Estimating the support of a
high-dimensional distribution".
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from streamsvm.drop_in.few_points import FewPointsDescent
from streamsvm.model.kernels import Float, Kernel
from streamsvm.svm.block.product_kernels import PolynomialKernel
from streamsvm.svm.block.workers import ALONE, WorkerPool

SAMPLE: Final = 256
"""Points by which the start tells outliers."""


class OneClassDescent(FewPointsDescent):
    """One run of the method for one class; attributes are those of `BlockDescent`.

    Parameters
    ----------
    Z : ndarray or CSR array of shape (n, d), float64
        Finite.
    upper : ndarray of shape (n,), float64, positive
    total : float
        Positive, at most the sum of the bounds.
    kernel : Kernel or PolynomialKernel
    tolerance : float
        KKT gap below which the point counts as optimal.
    workers : WorkerPool, optional
    """

    def __init__(
        self,
        Z: Any,
        upper: Float,
        total: float,
        kernel: Kernel | PolynomialKernel,
        tolerance: float,
        workers: WorkerPool = ALONE,
    ) -> None:
        super().__init__(Z, np.ones(len(upper), np.int8), upper, kernel, tolerance, workers=workers)
        # The interior-point method is written for labels.
        self.patience_ns = np.inf
        n, every = len(upper), np.arange(len(upper))
        along = Z @ self.centre - float(self.centre @ self.centre)
        self.target = -total * np.asarray(along, dtype=np.float64)
        sample = every[:: max(1, n // SAMPLE)]
        likeness = self.source.scores(sample, np.full(len(sample), 1.0 / len(sample)), every) + along
        self.b = _filled(self.high, np.argsort(likeness, kind="stable"), total * self.scale)
        start = np.flatnonzero(self.b)
        self.F = -self.target
        self.source.add(start, self.b[start], self.F)
        self.moved[start], self.exact = self.b[start], False
        # The start is one step: it alone can be the optimum.
        self.iterations = 1


def _filled(high: Float, order: Any, total: float) -> Float:
    """Return variables with this sum: at their bound in this order, and 0 from where the sum is reached."""
    before = np.cumsum(high[order]) - high[order]
    b = np.empty(len(high))
    b[order] = np.clip(total - before, 0.0, high[order])
    return b

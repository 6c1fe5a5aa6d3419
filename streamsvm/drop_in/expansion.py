"""Machines of one function and no labels: regression in a tube, and one class. Both are exact, as STDA-SVM is.

Invariant: the same points, targets, bounds and tolerance give the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamsvm.drop_in.one_class import OneClassDescent
from streamsvm.drop_in.tube import TubeDescent
from streamsvm.model.kernels import Float, Kernel
from streamsvm.svm.block.descent import BlockDescent
from streamsvm.svm.block.product_kernels import PolynomialKernel
from streamsvm.svm.block.workers import ALONE, WorkerPool


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """The function f(x) = sum_i coefficients_i k(z_i, x) + intercept.

    Attributes
    ----------
    coefficients : ndarray of shape (n,), float64
    intercept : float
    iterations : int
        Steps of the solver.
    converged : bool
        Whether the KKT gap, from scratch, is below the tolerance.
    gap : float
        That gap.
    centre : ndarray of shape (d,)
        What linear points lost while they were solved.
    centred_intercept : float
        The intercept of the same function of points less the centre: no digit is lost far from the origin.
    """

    coefficients: Float
    intercept: float
    iterations: int
    converged: bool
    gap: float
    centre: Float
    centred_intercept: float


def solve_tube(
    Z: Any,
    target: Float,
    upper: Float,
    epsilon: float,
    kernel: Kernel | PolynomialKernel,
    tolerance: float,
    max_iterations: int,
    workers: WorkerPool = ALONE,
) -> Expansion:
    """Solve the problem of `streamsvm.drop_in.tube`.

    Parameters
    ----------
    Z : ndarray or CSR array of shape (n, d), float64
        Finite, and at most `streamsvm.svm.problem.LARGEST_FEATURE`; CSR arrays have sorted indices and no duplicates.
    target, upper : ndarray of shape (n,), float64
        Finite; bounds are positive.
    epsilon, tolerance : float
        In units of the targets.
    kernel : Kernel or PolynomialKernel
    max_iterations : int
    workers : WorkerPool, optional
    """
    return _advanced(TubeDescent(Z, target, upper, epsilon, kernel, tolerance, workers=workers), max_iterations, 0.0)


def solve_one_class(
    Z: Any,
    upper: Float,
    total: float,
    kernel: Kernel | PolynomialKernel,
    tolerance: float,
    max_iterations: int,
    workers: WorkerPool = ALONE,
) -> Expansion:
    """Solve the problem of `streamsvm.drop_in.one_class`; parameters as in `solve_tube`, coefficients sum to `total`.

    The intercept is minus the plane's offset, so that f is positive inside.
    """
    return _advanced(OneClassDescent(Z, upper, total, kernel, tolerance, workers), max_iterations, total)


def _advanced(run: BlockDescent, max_iterations: int, total: float) -> Expansion:
    run.advance(max_iterations)
    run.refresh()
    gap, intercept, w = run.gap, run.centred_intercept, run.coefficients
    if w is not None:
        # `w` is over centred points; the centre's share is the coefficients' sum.
        intercept -= float((w + total * run.centre) @ run.centre)
    return Expansion(
        coefficients=run.signed,
        intercept=intercept,
        iterations=run.iterations,
        converged=run.converged,
        gap=gap,
        centre=run.centre,
        centred_intercept=run.centred_intercept,
    )

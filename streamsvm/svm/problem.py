"""The interface of the solvers: a `Problem` in, a `Solution` out, and the answers that need no solver.

A solver that did not converge reports it in a field of its solution; it does not raise, because a daemon publishes the
version all the same, and shows the gap. Invalid input (NaN, infinity, labels other than -1 and +1) is a caller's
mistake and raises `ValueError`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamsvm.model.kernels import Float, Kernel, LinearKernel
from streamsvm.points import Signs
from streamsvm.svm.objective import Optimality

LARGEST_FEATURE = 1e100
"""Squares and their sums must stay finite in float64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """min 1/2 |w|^2 + sum_i upper_i hinge_i, as in `streamsvm.svm.objective`.

    Attributes
    ----------
    Z : ndarray of shape (n, d), float64, or CSR array
        Scaled features, finite, at most `LARGEST_FEATURE`. `stda` alone solves over CSR arrays, with sorted indices and
        no duplicates.
    y : ndarray of shape (n,), int8
        -1 or +1; one label alone has an answer too, see `CheckedSolver`.
    upper : ndarray of shape (n,), float64
        Upper bound of each dual variable, C u_i, not negative; a point whose bound is 0 is as good as absent.
    kernel : Kernel
    tolerance : float
        KKT gap at which to stop.
    max_iterations : int
        Bound on the solver's own iterations; never a bound on time.
    """

    Z: Any
    y: Signs
    upper: Float
    kernel: Kernel
    tolerance: float
    max_iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """What a solver found.

    Attributes
    ----------
    alpha : ndarray of shape (n,), float64
        Dual variables, 0 <= alpha <= upper.
    intercept : float
    iterations : int
        The solver's own count.
    converged : bool
        Whether it met the tolerance before the bound on iterations.
    coefficients : ndarray of shape (d,), float64, or None
        w, from every solver of the linear kernel; None for other kernels.
    optimality : Optimality or None
        Objectives and KKT gap of this very solution in float64 from scratch, from a solver that had to make them.
    columns : int or None
        Columns of the kernel matrix that were computed, where the solver counts them.
    seconds : dict of str to float, or None
        Time of each phase, from a solver that was given a clock; never part of a hashed value.
    """

    alpha: Float
    intercept: float
    iterations: int
    converged: bool
    coefficients: Float | None = None
    optimality: Optimality | None = None
    columns: int | None = None
    seconds: dict[str, float] | None = None


class CheckedSolver(ABC):
    """Checks a problem once, answers it where no solver is needed, and hands on the rest with both labels present.

    Points whose upper bound is 0 take no part. If the others carry one label only, w = 0 with the intercept at that
    label is optimal: every hinge loss is 0. If there are none, w = 0 and the intercept is 0.
    """

    def solve(self, problem: Problem) -> Solution:
        """Solve from a cold start; the same problem gives the same bits.

        Raises
        ------
        ValueError
            If the problem is not valid: see `Problem`.
        """
        _check(problem)
        counts = problem.upper > 0
        positive, negative = bool((counts & (problem.y > 0)).any()), bool((counts & (problem.y < 0)).any())
        if not (positive and negative):
            return _constant(problem, float(positive) - float(negative))
        if counts.all():
            return self.solve_checked(problem)
        part = replace(problem, Z=problem.Z[counts], y=problem.y[counts], upper=problem.upper[counts])
        solution = self.solve_checked(part)
        alpha = np.zeros(len(problem.y))
        alpha[counts] = solution.alpha
        return replace(solution, alpha=alpha)

    @abstractmethod
    def solve_checked(self, problem: Problem) -> Solution:
        """Solve a checked problem with both labels and positive bounds only."""


def _check(problem: Problem) -> None:
    Z, y, upper = problem.Z, problem.y, problem.upper
    if len(Z.shape) != 2 or y.shape != Z.shape[:1] or upper.shape != Z.shape[:1] or 0 in Z.shape:
        raise ValueError(
            f"Z has shape {Z.shape}, y {y.shape}, upper {upper.shape}; they must be (n, d), (n,) and (n,), with n "
            "and d positive"
        )
    # Minimum and maximum instead of `isfinite`: no array of booleans as large as Z. The comparison below is written so
    # that NaN fails it.
    values = Z if isinstance(Z, np.ndarray) else np.append(Z.data, 0.0)
    if not (values.max() <= LARGEST_FEATURE and values.min() >= -LARGEST_FEATURE):
        raise ValueError(f"a feature is NaN, infinite, or beyond {LARGEST_FEATURE:g} in magnitude")
    if not ((upper >= 0) & (upper < np.inf)).all():
        raise ValueError("an upper bound is negative, infinite or NaN")
    if not ((y == 1) | (y == -1)).all():
        raise ValueError("a label is neither -1 nor +1")


def _constant(problem: Problem, intercept: float) -> Solution:
    w = np.zeros(problem.Z.shape[1]) if isinstance(problem.kernel, LinearKernel) else None
    return Solution(alpha=np.zeros(len(problem.y)), intercept=intercept, iterations=0, converged=True, coefficients=w)

"""One small interface for every solver, and the adapter of scikit-learn's LIBSVM.

A solver gets a `Problem` and returns a `Solution`; that it did not converge is a field, not an exception.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from streamsvm.points import Signs
from streamsvm.svm.kernels import Float, Kernel, RbfKernel

LIBSVM_CACHE_MIB = 200


@dataclass(frozen=True, slots=True)
class Problem:
    """min 1/2 |w|^2 + sum_i upper_i hinge_i, as in `streamsvm.svm.objective`.

    Attributes
    ----------
    Z : ndarray of shape (n, d), float64
        Scaled features.
    y : ndarray of shape (n,), int8
        -1 or +1, both present.
    upper : ndarray of shape (n,), float64
        Upper bound of each dual variable, C u_i, positive.
    kernel : Kernel
    tolerance : float
        KKT gap at which to stop.
    max_iterations : int
        Bound on the solver's own iterations; never a bound on time.
    """

    Z: Float
    y: Signs
    upper: Float
    kernel: Kernel
    tolerance: float
    max_iterations: int


@dataclass(frozen=True, slots=True)
class Solution:
    """What a solver found.

    Attributes
    ----------
    alpha : ndarray of shape (n,), float64
        Dual variables.
    intercept : float
    iterations : int
        The solver's own count.
    converged : bool
        Whether it met the tolerance before the bound on iterations.
    """

    alpha: Float
    intercept: float
    iterations: int
    converged: bool


class Solver(Protocol):
    """Anything that solves a `Problem`, deterministically."""

    def solve(self, problem: Problem) -> Solution:
        """Solve from a cold start; the same problem gives the same bits."""
        ...


class LibsvmSolver:
    """scikit-learn's SVC (LIBSVM, Chang and Lin 2011) on dense input; releases the GIL while it solves."""

    def solve(self, problem: Problem) -> Solution:
        """Solve; see `Solver`."""
        kernel = problem.kernel
        machine = SVC(
            C=1.0,
            kernel="rbf" if isinstance(kernel, RbfKernel) else "linear",
            gamma=kernel.gamma if isinstance(kernel, RbfKernel) else "auto",
            tol=problem.tolerance,
            max_iter=problem.max_iterations,
            cache_size=LIBSVM_CACHE_MIB,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # told by `converged`
            machine.fit(problem.Z, problem.y, sample_weight=problem.upper)
        alpha = np.zeros(len(problem.y))
        alpha[machine.support_] = np.abs(machine.dual_coef_[0])
        return Solution(
            np.minimum(alpha, problem.upper),
            float(machine.intercept_[0]),
            int(machine.n_iter_[0]),
            machine.fit_status_ == 0,
        )


SOLVERS: dict[str, type[Solver]] = {"libsvm": LibsvmSolver}
"""Every solver by the name it has in the configuration."""

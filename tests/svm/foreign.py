"""Adapters of scikit-learn's solvers, as oracles.

=========== =====================================  =======  ====================================================
name        method                                 kernels  what it gives
=========== =====================================  =======  ====================================================
`libsvm`    SVC: SMO, second-order selection       RBF too  the optimum, but for float32 kernel values
`liblinear` LinearSVC: dual coordinate descent     linear   near it: its bias is regularised, then refitted
=========== =====================================  =======  ====================================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, LinearSVC

from streamsvm.model import Float, LinearKernel, RbfKernel
from streamsvm.papers import CACHE_BYTES
from streamsvm.process_wide import silenced
from streamsvm.svm.bias import best_intercept
from streamsvm.svm.problem import CheckedSolver, Problem, Solution


@dataclass(frozen=True, slots=True)
class LibsvmSolver(CheckedSolver):
    """scikit-learn's SVC (LIBSVM, Chang and Lin 2011) on dense input; releases the GIL while it solves.

    Attributes
    ----------
    cache_bytes : int
        Bound on the memory of cached columns, which are float32.
    """

    cache_bytes: int = CACHE_BYTES

    def solve_checked(self, problem: Problem) -> Solution:
        """Solve; see `CheckedSolver`."""
        kernel = problem.kernel
        centre = problem.Z.mean(axis=0)
        Z = problem.Z - centre
        machine = SVC(
            C=1.0,
            kernel="rbf" if isinstance(kernel, RbfKernel) else "linear",
            gamma=kernel.gamma if isinstance(kernel, RbfKernel) else "auto",
            tol=problem.tolerance,
            max_iter=problem.max_iterations,
            cache_size=self.cache_bytes / (1 << 20),
        )
        with silenced(ConvergenceWarning):
            machine.fit(Z, problem.y, sample_weight=problem.upper)
        alpha = np.zeros(len(problem.y))
        alpha[machine.support_] = np.abs(machine.dual_coef_[0])
        alpha = np.minimum(alpha, problem.upper)
        intercept, iterations, converged = (
            float(machine.intercept_[0]),
            int(machine.n_iter_[0]),
            machine.fit_status_ == 0,
        )
        if isinstance(kernel, RbfKernel):
            return Solution(alpha=alpha, intercept=intercept, iterations=iterations, converged=converged)
        w = np.asarray(Z.T @ (problem.y * alpha), dtype=np.float64)
        return Solution(
            alpha=alpha,
            intercept=intercept - float(w @ centre),
            iterations=iterations,
            converged=converged,
            coefficients=w,
        )


@dataclass(frozen=True, slots=True)
class LiblinearSolver(CheckedSolver):
    """scikit-learn's LinearSVC (LIBLINEAR, Fan et al. 2008) with the plain hinge loss; linear kernel only.

    It is not quite our problem: LIBLINEAR treats the bias as one more coefficient, of a feature that is constant, and
    regularises it, by b^2 / (2 scaling^2). A large scaling makes the term small but the coordinates ill-conditioned, so
    we take a moderate one and then refit the bias exactly for the w that was found. The tolerance is LIBLINEAR's own: a
    range of projected gradients, comparable to a KKT gap. scikit-learn keeps the dual variables to itself.

    Attributes
    ----------
    intercept_scaling : float
        The constant feature.
    seed : int
        Order of the coordinates.

    Notes
    -----
    One of its iterations is a pass over all points, so `max_iterations` points visited are that many passes as fit.
    """

    intercept_scaling: float = 10.0
    seed: int = 0

    def solve_checked(self, problem: Problem) -> Solution:
        """Solve; see `CheckedSolver`."""
        assert isinstance(problem.kernel, LinearKernel)
        centre = problem.Z.mean(axis=0)
        passes = _passes(problem)
        machine = LinearSVC(
            loss="hinge",
            dual=True,
            C=1.0,
            intercept_scaling=self.intercept_scaling,
            tol=problem.tolerance,
            max_iter=passes,
            random_state=self.seed,
        )
        with silenced(ConvergenceWarning):
            machine.fit(problem.Z - centre, problem.y, sample_weight=problem.upper)
        iterations = int(machine.n_iter_)
        return _from_coefficients(problem, machine.coef_[0], centre, iterations, iterations < passes)


def _passes(problem: Problem) -> int:
    return max(1, problem.max_iterations // len(problem.y))


def _from_coefficients(problem: Problem, w: Float, centre: Float, iterations: int, converged: bool) -> Solution:
    """Return the solution of given w with the best bias; NaN stands for the dual variables that nobody knows."""
    w = np.asarray(w, dtype=np.float64)
    centred = best_intercept((problem.Z - centre) @ w, problem.y, problem.upper)
    return Solution(
        alpha=np.full(len(problem.y), np.nan),
        intercept=centred - float(w @ centre),
        iterations=iterations,
        converged=converged,
        coefficients=w,
    )

"""Adapters of scikit-learn's solvers, as oracles.

=========== =====================================  =======  ====================================================
name        method                                 kernels  what it gives
=========== =====================================  =======  ====================================================
`libsvm`    SVC: SMO, second-order selection       RBF too  the optimum, but for float32 kernel values
`liblinear` LinearSVC: dual coordinate descent     linear   near it: its bias is regularised, then refitted
=========== =====================================  =======  ====================================================
"""

from __future__ import annotations

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, LinearSVC

from streamsvm.model import LinearKernel, RbfKernel
from streamsvm.svm.probability import silenced
from streamsvm.svm.problem import Problem, Solution, answered


def libsvm(problem: Problem) -> Solution:
    """Solve by scikit-learn's SVC (LIBSVM, Chang and Lin 2011) on dense input; releases the GIL while it solves."""

    def solve(problem: Problem) -> Solution:
        rbf = isinstance(problem.kernel, RbfKernel)
        centre = problem.Z.mean(axis=0)
        Z = problem.Z - centre
        machine = SVC(
            C=1.0,
            kernel="rbf" if rbf else "linear",
            gamma=problem.kernel.gamma if isinstance(problem.kernel, RbfKernel) else "auto",
            tol=problem.tolerance,
            max_iter=problem.max_iterations,
        )
        with silenced(ConvergenceWarning):
            machine.fit(Z, problem.y, sample_weight=problem.upper)
        alpha = np.zeros(len(problem.y))
        alpha[machine.support_] = np.abs(machine.dual_coef_[0])
        alpha = np.minimum(alpha, problem.upper)
        w = np.asarray(Z.T @ (problem.y * alpha), dtype=np.float64)
        return Solution(
            alpha=alpha,
            intercept=float(machine.intercept_[0]) - (0.0 if rbf else float(w @ centre)),
            iterations=int(machine.n_iter_[0]),
            converged=machine.fit_status_ == 0,
            coefficients=None if rbf else w,
        )

    return answered(problem, solve)


def liblinear(problem: Problem, intercept_scaling: float = 10.0) -> Solution:
    """Solve by scikit-learn's LinearSVC (LIBLINEAR, Fan et al. 2008) with the plain hinge loss; linear kernel only.

    It is not quite our problem: LIBLINEAR treats the bias as one more coefficient, of a feature that is constant, and
    regularises it, by b^2 / (2 scaling^2). A large scaling makes the term small but the coordinates ill-conditioned, so
    we take a moderate one and then refit the bias exactly for the w that was found. The tolerance is LIBLINEAR's own: a
    range of projected gradients, comparable to a KKT gap. scikit-learn keeps the dual variables to itself: NaN stands
    for them.

    One of its iterations is a pass over all points, so `max_iterations` points visited are that many passes as fit.
    """

    def solve(problem: Problem) -> Solution:
        assert isinstance(problem.kernel, LinearKernel)
        centre = problem.Z.mean(axis=0)
        passes = max(1, problem.max_iterations // len(problem.y))
        machine = LinearSVC(
            loss="hinge",
            dual=True,
            C=1.0,
            intercept_scaling=intercept_scaling,
            tol=problem.tolerance,
            max_iter=passes,
            random_state=0,
        )
        with silenced(ConvergenceWarning):
            machine.fit(problem.Z - centre, problem.y, sample_weight=problem.upper)
        w = np.asarray(machine.coef_[0], dtype=np.float64)
        # The loss is least at a breakpoint.
        scores = (problem.Z - centre) @ w
        order = np.argsort(problem.y - scores)
        slope = np.cumsum(problem.upper[order]) - problem.upper[problem.y > 0].sum()
        centred = float((problem.y - scores)[order][np.argmax(slope >= 0.0)])
        return Solution(
            alpha=np.full(len(problem.y), np.nan),
            intercept=centred - float(w @ centre),
            iterations=int(machine.n_iter_),
            converged=int(machine.n_iter_) < passes,
            coefficients=w,
        )

    return answered(problem, solve)

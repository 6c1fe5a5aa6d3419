"""STDA-SVM to the letter behind the interface of solvers: `svm.solver = stda-paper`.

It takes the linear and the RBF kernel, and gives the same optimum as `stda`, slower; with a linear kernel and large
boxes it may not end.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamsvm.model.kernels import LinearKernel
from streamsvm.papers.stda import CACHE_BYTES, DIRECTIONS, ETA, Descent, Method
from streamsvm.papers.supported import linear_or_rbf
from streamsvm.svm.problem import CheckedSolver, Problem, Solution


@dataclass(frozen=True, slots=True)
class PaperStdaSolver(CheckedSolver):
    """STDA-SVM to the letter, or SVMLight's rule on the same machinery; see `streamsvm.papers.stda`.

    Releases the GIL while it solves.

    Attributes
    ----------
    method : str
        `stda` or `svmlight`.
    directions : int
        q: most directions of an iteration.
    eta : float
        In (0, 1]; the larger, the rarer are iterations with cached columns only.
    cache_bytes : int
        Bound on the memory of cached columns.
    """

    method: Method = "stda"
    directions: int = DIRECTIONS
    eta: float = ETA
    cache_bytes: int = CACHE_BYTES

    def solve_checked(self, problem: Problem) -> Solution:
        """Solve; see `CheckedSolver`."""
        run = Descent(
            problem.Z,
            problem.y,
            problem.upper,
            linear_or_rbf(problem, "stda-paper"),
            tolerance=problem.tolerance,
            method=self.method,
            directions=self.directions,
            eta=self.eta,
            cache_bytes=self.cache_bytes,
        )
        run.advance(problem.max_iterations)
        if isinstance(problem.kernel, LinearKernel):
            w = run.coefficients
            intercept = run.centred_intercept - float(w @ problem.Z.mean(axis=0))
            return Solution(
                alpha=run.alpha, intercept=intercept, iterations=run.iterations, converged=run.converged, coefficients=w
            )
        return Solution(
            alpha=run.alpha, intercept=run.centred_intercept, iterations=run.iterations, converged=run.converged
        )

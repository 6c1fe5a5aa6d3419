"""The solver: STDA-SVM by blocks, behind the interface of `streamsvm.svm.problem`.

The decomposition of Liuzzi, Lucidi, Manno and Rinaldi 2015 steps along many violating pairs at once, by blocks of
variables: a block's kernel values are computed once, and the block is solved inside before the next one is chosen.
`streamsvm.svm.block.descent` lists where it differs from the paper. It gives the optimum, within the tolerance in
float64. It solves over centred points and moves the bias back: no kernel machine needs the offset, and it costs digits.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamsvm.svm.block.descent import BlockDescent, Clock, Progress
from streamsvm.svm.objective import optimality_of
from streamsvm.svm.problem import CheckedSolver, Problem, Solution

__all__ = ["Problem", "Solution", "StdaSolver"]


@dataclass(frozen=True, slots=True)
class StdaSolver(CheckedSolver):
    """STDA-SVM by blocks; see `streamsvm.svm.block.descent`. Releases the GIL in all that takes time.

    Attributes
    ----------
    progress : callable or None
        Called between blocks; false ends the run. See `streamsvm.svm.block.descent.Progress`.
    clock : callable or None
        Returns seconds; with it the solution tells how long each phase took, without it no clock is read.
    max_seconds : float or None
        Bound on time, by `clock`. The result then depends on the machine: nothing that must be reproducible sets it.
    """

    progress: Progress | None = None
    clock: Clock | None = None
    max_seconds: float | None = None

    def solve_checked(self, problem: Problem) -> Solution:
        """Solve; see `CheckedSolver`."""
        run = BlockDescent(
            problem.Z,
            problem.y,
            problem.upper,
            problem.kernel,
            tolerance=problem.tolerance,
            progress=self.progress,
            clock=self.clock,
            max_seconds=self.max_seconds,
        )
        run.advance(problem.max_iterations)
        run.refresh()
        intercept, w = run.centred_intercept, run.coefficients
        optimality = optimality_of(run.F, problem.y, problem.upper, run.alpha, intercept)
        if w is not None:
            intercept -= float(w @ run.centre)
        return Solution(
            alpha=run.alpha,
            intercept=intercept,
            iterations=run.iterations,
            converged=run.converged,
            coefficients=w,
            optimality=optimality,
            columns=run.columns,
            seconds=run.seconds,
        )

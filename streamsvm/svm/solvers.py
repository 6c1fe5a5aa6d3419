"""Solvers by the name they have in the configuration: the trunk's own, and those that rooms add.

The trunk's own is `stda`: the decomposition of STDA-SVM (Liuzzi, Lucidi, Manno and Rinaldi 2015), which steps along
many violating pairs at once, by blocks of variables. A block's kernel values are computed once, and the block is solved
inside before the next one is chosen. `streamsvm.svm.block.descent` lists where it differs from the paper. It takes all
kernels and gives the optimum, within the tolerance in float64.

Every solver is deterministic: one that draws random numbers draws them from a fixed seed. All solve over centred points
and move the bias back: no kernel machine needs the offset, and it costs digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from streamsvm.sockets import Choices
from streamsvm.svm.block.descent import BlockDescent, Clock, Progress
from streamsvm.svm.objective import optimality_of
from streamsvm.svm.problem import CheckedSolver, Problem, Solution, Solver

__all__ = ["SOLVERS", "Problem", "Solution", "Solver", "StdaSolver"]


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


SOLVERS: Final[Choices[Callable[[], Solver]]] = Choices("svm.solver", {"stda": StdaSolver})
"""What makes each solver, by its name in the configuration."""

"""Support vector machines: kernels, objective and optimality, models, and solvers behind one interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from streamsvm.svm.block.descent import warm_up as warm_up
    from streamsvm.svm.block.interior_point import MOST_STEPS as MOST_STEPS, InteriorPointSolver as InteriorPointSolver
    from streamsvm.svm.block.rough_descent import (
        KernelRows as KernelRows,
        RoughDescent as RoughDescent,
        rough_decisions as rough_decisions,
    )
    from streamsvm.svm.feasible import balanced as balanced
    from streamsvm.svm.fit_landmarks import (
        decisions as decisions,
        fewer_terms as fewer_terms,
        fitted_over as fitted_over,
    )
    from streamsvm.svm.objective import (
        optimality as optimality,
        primal_objective as primal_objective,
        scores_without_bias as scores_without_bias,
    )
    from streamsvm.svm.problem import CheckedSolver as CheckedSolver, Problem as Problem, Solution as Solution
    from streamsvm.svm.solvers import StdaSolver as StdaSolver

__getattr__ = on_first_use(__name__, __file__)

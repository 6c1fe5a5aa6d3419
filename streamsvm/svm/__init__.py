"""Support vector machines: the problem and how good an answer is, solvers, and what a machine gets afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from streamsvm.svm.interior_point import MOST_STEPS as MOST_STEPS, follow_path as follow_path
    from streamsvm.svm.landmarks import (
        compiled as compiled,
        decisions as decisions,
        fewer_terms as fewer_terms,
        fitted_over as fitted_over,
    )
    from streamsvm.svm.newton import rough_machine as rough_machine
    from streamsvm.svm.problem import (
        Problem as Problem,
        Solution as Solution,
        answered as answered,
        optimality as optimality,
        primal_objective as primal_objective,
    )
    from streamsvm.svm.rbf import KernelRows as KernelRows, rough_decisions as rough_decisions
    from streamsvm.svm.rows import rows_of as rows_of
    from streamsvm.svm.stda import Descent as Descent, solve as solve, warm_up as warm_up

__getattr__ = on_first_use(__name__, __file__)

"""Checks of the kernels that a solver of this room supports."""

from __future__ import annotations

from streamsvm.model.kernels import Kernel, LinearKernel, RbfKernel
from streamsvm.svm.problem import Problem


def linear_or_rbf(problem: Problem, name: str) -> Kernel:
    """Return the problem's kernel.

    Raises
    ------
    ValueError
        If it is neither linear nor RBF.
    """
    if not isinstance(problem.kernel, LinearKernel | RbfKernel):
        raise ValueError(f"the solver {name} supports the linear and the RBF kernel only")
    return problem.kernel


def require_linear(problem: Problem, name: str) -> None:
    """Refuse a problem of another kernel.

    Raises
    ------
    ValueError
    """
    if not isinstance(problem.kernel, LinearKernel):
        raise ValueError(f"the solver {name} supports the linear kernel only")

"""From a training set to a model: standardise, set C, solve, measure. A pure function; may run in any thread."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from threadpoolctl import ThreadpoolController

from streamsvm.config import SvmConfig
from streamsvm.coreset.moments import Moments
from streamsvm.points import Points
from streamsvm.svm.kernels import Float, Kernel, LinearKernel, RbfKernel
from streamsvm.svm.model import KernelMachine, LinearMachine, Machine, Model, Scaler
from streamsvm.svm.objective import optimality
from streamsvm.svm.solvers import SOLVERS, Problem, Solution


@dataclass(frozen=True, slots=True)
class Fit:
    """How a model was fitted, and how well.

    Attributes
    ----------
    C : float
        Penalty used, whichever way it was configured.
    gamma : float or None
        RBF width used; None for the linear kernel.
    points : int
        Points of the training set.
    weight : float
        Their total weight.
    support_vectors : int
        Points with a positive dual variable.
    objective, dual_objective : float
        Primal and dual objective on the training set (see `streamsvm.svm.objective`), in float64 from scratch.
    kkt_gap : float
        Violation of optimality, from scratch; not the solver's own claim.
    iterations : int
    converged : bool
    """

    C: float
    gamma: float | None
    points: int
    weight: float
    support_vectors: int
    objective: float
    dual_objective: float
    kkt_gap: float
    iterations: int
    converged: bool


@dataclass(frozen=True, slots=True)
class Trained:
    """A model and how it came to be."""

    model: Model
    fit: Fit


def train(points: Points, moments: Moments, config: SvmConfig) -> Trained:
    """Train on weighted raw points.

    Parameters
    ----------
    points : Points
        At least one.
    moments : Moments
        Of the whole stream up to the cut, for the scaler and for the weight U in C = 1 / (alpha U).
    config : SvmConfig

    Notes
    -----
    With one label only, the optimum is w = 0 with the intercept at that label: every hinge loss is 0.
    """
    with _controller().limit(limits=config.threads):
        scaler = _scaler(moments, config)
        Z = scaler.transform(points.X)
        kernel = _kernel(Z, config)
        penalty = config.penalty(moments.weight)
        upper = penalty * points.weight
        solution = _solve(Problem(Z, points.y, upper, kernel, config.tolerance, config.max_iterations), config.solver)
        measured = optimality(Z, points.y, upper, solution.alpha, solution.intercept, kernel)
    support = np.flatnonzero(solution.alpha)
    return Trained(
        Model(scaler, _machine(kernel, Z[support], points.y[support] * solution.alpha[support], solution.intercept)),
        Fit(
            C=penalty,
            gamma=kernel.gamma if isinstance(kernel, RbfKernel) else None,
            points=len(points),
            weight=float(points.weight.sum()),
            support_vectors=len(support),
            objective=measured.primal,
            dual_objective=measured.dual,
            kkt_gap=measured.kkt_gap,
            iterations=solution.iterations,
            converged=solution.converged,
        ),
    )


def _scaler(moments: Moments, config: SvmConfig) -> Scaler:
    if not config.standardize:
        return Scaler.identity(len(moments.mean))
    return Scaler.standard(moments.mean, moments.square / moments.weight)


def _kernel(Z: Float, config: SvmConfig) -> Kernel:
    if config.kernel == "linear":
        return LinearKernel()
    if isinstance(config.gamma, float):
        return RbfKernel(config.gamma)
    variance = float(Z.var()) if config.gamma == "scale" else 1.0
    return RbfKernel(1.0 / (Z.shape[1] * (variance or 1.0)))


def _solve(problem: Problem, solver: str) -> Solution:
    labels = np.unique(problem.y)
    if len(labels) == 1:
        return Solution(np.zeros(len(problem.y)), float(labels[0]), 0, converged=True)
    return SOLVERS[solver]().solve(problem)


def _machine(kernel: Kernel, support: Float, dual: Float, intercept: float) -> Machine:
    if isinstance(kernel, RbfKernel):
        return KernelMachine(kernel, support, dual, intercept)
    return LinearMachine(np.asarray(support.T @ dual, dtype=np.float64), intercept)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()

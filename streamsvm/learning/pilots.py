"""Pilots: the rough solutions of a node's own problem, by which a reducer finds the points that matter.

A structure, a training set and a screen each need one, and get it by way of `streamsvm.learning.tasks.Task.pilot`. A
pilot is rough on purpose: the reducer needs to know which points are near the margin, and a certified lower bound of
the optimum, and no more.

A linear pilot does not show which points are hard for a kernel machine: its margins order the points differently. So
where a kernel is trained, the node's own problem is solved with that kernel, and the reducer gets decision values
instead of coefficients. Gamma is resolved from the node's points as training resolves it from its own.

Invariant: a pure function of its arguments; bounded by iterations, never by time.

A node reduced under the full regulariser would let the union of K nodes err by K times as much of it. So it gets the
share U_node / U of |w|^2 / 2, which is the problem of penalty C U / U_node up to a factor, and sensitivities are
ratios. C is the penalty that a training of everything seen would use. With a fixed C and several partitions a partition
has its own weight only, which costs accuracy of the bounds, never determinism.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import ModelConfig, SvmConfig
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.reducers.base import Pilot
from streamsvm.coreset.row_kernels import fill_scaled
from streamsvm.coreset.sensitivity import dual_bound, mean_bound
from streamsvm.learning import training
from streamsvm.model.kernels import LinearKernel, RbfKernel
from streamsvm.model.machine import Scaler
from streamsvm.points import Points
from streamsvm.sockets import plugged
from streamsvm.svm.block import descent as fast, interior_point as interior, smoothed_newton as newton
from streamsvm.svm.block.descent import BlockDescent
from streamsvm.svm.block.interior_point import MOST_FEATURES, InteriorPointSolver
from streamsvm.svm.block.signed_rows import sparse_rows
from streamsvm.svm.block.smoothed_newton import rough_machine
from streamsvm.svm.objective import optimality_of
from streamsvm.svm.problem import CheckedSolver, Problem
from streamsvm.svm.solvers import StdaSolver

FEW_FEATURES: Final = 64
"""Up to so many features Newton's method is tried first: it takes a third to a twentieth of the interior-point method's
time for 10,000 points of 3 to 23 features. For more features that are one-hot, the interior-point method is faster."""
POINTS_A_FEATURE: Final = 16
"""With so many points a feature, Newton's method is tried first for any number of dense features: it takes an eighth to
a half of the interior-point method's time, but a fourth more where labels hardly overlap. With fewer it takes twice."""
GAP: Final = 0.001
"""Relative duality gap at which Newton's method ends a linear pilot. What it leaves is smoothing, which blurs who is
active: at 0.02 Cod-RNA came half as near to the optimum, and sums of small samples were off. It costs a step or two."""
ROUNDING: Final = 1e-9
"""Share of a certified bound that is taken off for rounding."""
TOLERANCE: Final = 0.1
"""KKT gap at which a pilot by pairs is good enough: its dual objective is within a few per cent of the optimum, and a
kernel's margins are right to a third of the ramp of their activity."""
MOST_ITERATIONS: Final = 20_000
"""Bound on its iterations; a solver that meets it leaves a lower bound that is lower, and still certified. Where boxes
are so large that a kernel pilot meets it, margins are rougher, and importance with them; totals are exact all the
same."""


SOCKET: Final = "pilots"
Solve = Callable[[Points, float, Moments, ModelConfig], Pilot]
"""Parameters are those of `pilot_for`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePilots:
    """Other pilots of two labels, as a branch plugs them in.

    Attributes
    ----------
    wanted : callable
        Returns whether a configuration has them.
    solve : callable
        Solves one.
    """

    wanted: Callable[[ModelConfig], bool]
    solve: Solve


_plugged = cache(plugged)


def pilots_of(config: ModelConfig) -> Solve:
    """Return what solves the pilots of two labels."""
    return next((one.solve for one in _plugged(SOCKET, NodePilots) if one.wanted(config)), pilot_for)


def pilot_for(points: Points, weight: float, seen: Moments, config: ModelConfig) -> Pilot:
    """Solve the pilot that the configured reducer can use.

    That is the one of the trained kernel for `calibrated`. The bounds of `sensitivity` are the linear problem's.
    Parameters are those of `linear_pilot`.
    """
    if takes_kernel(config):
        return kernel_pilot(points, weight, seen, config.svm)
    return linear_pilot(points, weight, seen, config.svm)


def takes_kernel(config: ModelConfig) -> bool:
    """Return whether pilots are of the trained kernel, not linear."""
    return config.svm.kernel != "linear" and config.coreset.reducer == "calibrated"


def linear_pilot(points: Points, weight: float, seen: Moments, config: SvmConfig) -> Pilot:
    """Solve a node's own linear problem roughly (Alg. 1, lines 1 and 2), whatever kernel is trained.

    Parameters
    ----------
    points : Points
        The node's points, at least one.
    weight : float
        U_node, the exact weight that they stand for.
    seen : Moments
        Of everything that the node is a part of: its partition up to that count, or a whole cut.
    config : SvmConfig

    Returns
    -------
    Pilot
        With one label only, the constant of that label and the bound 0.
    """
    node = NodeProblem.of(points, weight, seen, config)
    if node.one_label:
        return node.constant()
    Z, weighted = node.scaled(), node.weighted()
    upper = node.penalty * weighted
    n, d = Z.shape
    sparse = None
    if d > FEW_FEATURES:
        sparse = sparse_rows(Z, points.y.astype(np.float64))
    many_dense = sparse is None and n >= POINTS_A_FEATURE * d
    if d <= FEW_FEATURES or many_dense:
        rough = rough_machine(Z, points.y, upper, GAP)
        # Newton's method can give up before it meets the gap. The solver below then takes over, from a cold start.
        if rough.met:
            return node.pilot(rough.coefficients, rough.intercept, rough.bound * (1.0 - ROUNDING))
    problem = Problem(
        Z=Z, y=points.y, upper=upper, kernel=LinearKernel(), tolerance=TOLERANCE, max_iterations=MOST_ITERATIONS
    )
    solver = linear_solver(len(points), points.dimension)
    if sparse is not None and isinstance(solver, InteriorPointSolver):
        solution = solver.solve_rows(sparse, upper, MOST_ITERATIONS)
    else:
        solution = solver.solve(problem)
    assert solution.coefficients is not None
    bound = dual_bound(Z, points.y, upper, solution.alpha)
    if not solution.converged:
        bound = max(bound, mean_bound(Z, points.y, weighted, node.penalty))
    return node.pilot(solution.coefficients, solution.intercept, bound)


def kernel_pilot(points: Points, weight: float, seen: Moments, config: SvmConfig) -> Pilot:
    """Solve a node's own problem roughly, with the configured kernel.

    Parameters and scaler are those of `linear_pilot`.

    Returns
    -------
    Pilot
        With `decisions`; its coefficients are 0. With one label only, the constant of that label and the bound 0.
    """
    node = NodeProblem.of(points, weight, seen, config)
    if node.one_label:
        return node.constant()
    Z, upper = np.ascontiguousarray(node.scaled()), node.penalty * node.weighted()
    run = BlockDescent(Z, points.y, upper, training.kernel_of(node.scaler, seen, config), TOLERANCE)
    run.advance(MOST_ITERATIONS)
    # From scratch: the bound is certified only by an exact F.
    run.refresh()
    intercept = run.centred_intercept
    bound = max(0.0, optimality_of(run.F, points.y, upper, run.alpha, intercept).dual)
    return node.pilot(np.zeros(points.dimension), intercept, bound, decisions=run.F + points.y + intercept)


@dataclass(frozen=True, slots=True)
class NodeProblem:
    """A node's own problem: its points scaled as all that was seen, its share of the regulariser."""

    points: Points
    scaler: Scaler
    penalty: float
    class_weight: tuple[float, float]

    @classmethod
    def of(cls, points: Points, weight: float, seen: Moments, config: SvmConfig) -> NodeProblem:
        """Return the problem of a node; parameters are those of `linear_pilot`."""
        penalty = config.penalty(seen.weight) * seen.weight / weight
        return cls(points, training.scaler_of(seen, config), penalty, config.class_weights(seen.class_weight))

    @property
    def one_label(self) -> bool:
        """Whether all points have the same label."""
        return abs(int(self.points.y.sum(dtype=np.int64))) == len(self.points)

    def scaled(self) -> NDArray[np.float64]:
        """Return the scaled features, shape (n, d)."""
        scaled = np.empty(self.points.X.shape)
        fill_scaled(self.points.X, self.scaler.mean, self.scaler.scale, scaled)
        return scaled

    def weighted(self) -> NDArray[np.float64]:
        """Return the weights, class weights included, shape (n,)."""
        return self.points.class_weighted(self.class_weight).weight

    def constant(self) -> Pilot:
        """Return the pilot of one label."""
        nothing = np.zeros(self.points.dimension)
        return Pilot(
            penalty=self.penalty,
            mean=self.scaler.mean,
            scale=self.scaler.scale,
            coefficients=nothing,
            intercept=float(self.points.y[0]),
            lower_bound=0.0,
        )

    def pilot(
        self,
        coefficients: NDArray[np.float64],
        intercept: float,
        bound: float,
        decisions: NDArray[np.float64] | None = None,
    ) -> Pilot:
        """Return a pilot of this problem."""
        mean, scale = self.scaler.mean, self.scaler.scale
        return Pilot(
            penalty=self.penalty,
            mean=mean,
            scale=scale,
            coefficients=coefficients,
            intercept=intercept,
            lower_bound=bound,
            class_weight=self.class_weight,
            decisions=decisions,
        )


def linear_solver(points: int, dimension: int) -> CheckedSolver:
    """Return what solves linear pilots of so many points and features: rough, deterministic, with dual variables."""
    return InteriorPointSolver() if min(points, dimension) < MOST_FEATURES else StdaSolver()


def warm_up(config: ModelConfig, say: Callable[[str], None]) -> None:
    """Compile, or load from numba's file cache, what the pilots of a configuration run."""
    newton.warm_up()
    interior.warm_up()
    mean_bound(np.zeros((2, 1)), np.array([-1, 1], np.int8), np.ones(2), 1.0)
    if takes_kernel(config):
        fast.warm_up(RbfKernel(1.0), say)

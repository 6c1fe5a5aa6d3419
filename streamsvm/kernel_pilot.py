"""The pilot of a kernel machine: decision values of a rough solution, at the very points that are to be reduced.

A linear pilot knows nothing of what a kernel machine will find hard: its margins order the points by another question.
So where a kernel is trained, the node's own problem is solved with that kernel, gamma resolved from the node's points
as training resolves it from its own, and the reducer gets decision values instead of coefficients.

Invariant: a pure function of its arguments; bounded by iterations, never by time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from streamsvm import training
from streamsvm.config import SvmConfig
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.reduce import Pilot
from streamsvm.points import Points
from streamsvm.svm import fast
from streamsvm.svm.fast import BlockDescent
from streamsvm.svm.kernels import RbfKernel
from streamsvm.svm.objective import optimality_of

TOLERANCE: Final = 0.1
"""KKT gap at which it is good enough: margins are then right to a third of the ramp of their activity."""
MOST_ITERATIONS: Final = 20_000
"""Bound on its iterations. Where boxes are so large that it meets them, margins are rougher, and importance with them;
totals are exact all the same."""


def make_kernel_pilot(points: Points, weight: float, seen: Moments, config: SvmConfig) -> Pilot:
    """Solve a node's own problem roughly, with the configured kernel.

    Parameters
    ----------
    points : Points
        The node's points, at least one.
    weight : float
        U_node, the exact weight that they stand for.
    seen : Moments
        Of everything that the node is a part of.
    config : SvmConfig

    Returns
    -------
    Pilot
        With `decisions`; its coefficients are 0. With one label only, as `streamsvm.learner.make_pilot` has it.

    Notes
    -----
    Penalty and scaler are those of the linear pilot.
    """
    scaler = training.scaler_of(seen, config)
    penalty = config.penalty(seen.weight) * seen.weight / weight
    no_coefficients = np.zeros(points.dimension)
    if abs(int(points.y.sum(dtype=np.int64))) == len(points):
        return Pilot(penalty, scaler.mean, scaler.scale, no_coefficients, float(points.y[0]), 0.0)
    class_weight = config.class_weights(seen.class_weight)
    Z = np.ascontiguousarray(scaler.transform(points.X))
    upper = penalty * points.class_weighted(class_weight).weight
    run = BlockDescent(Z, points.y, upper, training.kernel_of(scaler, seen, config), TOLERANCE)
    run.advance(MOST_ITERATIONS)
    run.refresh()
    intercept = run.centred_intercept
    bound = max(0.0, optimality_of(run.F, points.y, upper, run.alpha, intercept).dual)
    decisions = run.F + points.y + intercept
    return Pilot(
        penalty, scaler.mean, scaler.scale, no_coefficients, intercept, bound, class_weight, decisions=decisions
    )


def warm_up(say: Callable[[str], None]) -> None:
    """Compile, or load from numba's file cache, what a kernel pilot runs."""
    fast.warm_up(RbfKernel(1.0), say)

"""What a solution is worth by its definition, with numpy alone; the optimum of small problems by trying everything."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np

from streamsvm.model import Float
from streamsvm.svm import Problem, Solution, answered, follow_path, rows_of


def interior(problem: Problem, gap: float = 0.02) -> Solution:
    """Solve a linear problem by the interior-point method alone, to a relative duality gap."""
    return answered(problem, partial(_interior, gap))


def _interior(gap: float, problem: Problem) -> Solution:
    v, a, steps, met = follow_path(rows_of(problem.Z), problem.y, problem.upper, gap=gap, limit=problem.max_iterations)
    return Solution(alpha=a, intercept=float(v[-1]), iterations=steps, converged=met, coefficients=v[:-1])


def decide(problem: Problem, found: Solution, points: Float) -> Float:
    """Return the decision values of a solution."""
    if found.coefficients is not None:
        return points @ found.coefficients + found.intercept
    return problem.kernel.gram(points, problem.Z) @ (problem.y * found.alpha) + found.intercept


def primal(problem: Problem, found: Solution) -> float:
    """Return F of the machine that a solution is."""
    if found.coefficients is not None:
        norm = float(found.coefficients @ found.coefficients)
    else:
        signed = problem.y * found.alpha
        norm = float(signed @ problem.kernel.gram(problem.Z, problem.Z) @ signed)
    hinge = np.maximum(0.0, 1.0 - problem.y * decide(problem, found, problem.Z))
    return 0.5 * norm + float(problem.upper @ hinge)


def certified(problem: Problem, found: Solution) -> tuple[float, float, float]:
    """Return primal, dual and gap of the dual variables."""
    centred = problem.Z - problem.Z.mean(axis=0)
    scores = problem.kernel.gram(centred, centred) @ (problem.y * found.alpha)
    norm = float((problem.y * found.alpha) @ scores)
    shift = float(found.coefficients @ problem.Z.mean(axis=0)) if found.coefficients is not None else 0.0
    hinge = np.maximum(0.0, 1.0 - problem.y * (scores + found.intercept + shift))
    F = scores - problem.y
    may_fall = np.where(problem.y > 0, found.alpha > 0, found.alpha < problem.upper)
    may_rise = np.where(problem.y > 0, found.alpha < problem.upper, found.alpha > 0)
    gap = F[may_fall].max() - F[may_rise].min()
    return 0.5 * norm + float(problem.upper @ hinge), float(found.alpha.sum()) - 0.5 * norm, max(0.0, float(gap))


def brute_force(problem: Problem) -> float:
    """Return the greatest dual objective over every way to put each variable on a bound or leave it free."""
    y = problem.y.astype(np.float64)
    K = problem.kernel.gram(problem.Z, problem.Z)
    G = K * np.outer(y, y)
    best = -np.inf
    for places in itertools.product((0, 1, 2), repeat=len(y)):
        place = np.array(places)
        a = np.where(place == 1, problem.upper, 0.0)
        free = np.flatnonzero(place == 2)
        if len(free):
            k = len(free)
            system = np.zeros((k + 1, k + 1))
            system[:k, :k] = G[np.ix_(free, free)]
            system[:k, k] = system[k, :k] = y[free]
            right = np.append(1.0 - G[free] @ a, -(y @ a))
            a[free] = np.linalg.lstsq(system, right, rcond=None)[0][:k]
        feasible = (a >= -1e-12).all() and (a <= problem.upper + 1e-12).all() and abs(y @ a) < 1e-10
        if feasible:
            best = max(best, float(a.sum() - 0.5 * a @ G @ a))
    return best

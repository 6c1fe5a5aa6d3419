r"""Dual variables behind a lower bound: from a machine that is nearly the best, by Newton's method, roughly at first.

With rows r_i = y_i (z_i, 1), slacks s_i = 1 - <r_i, v>, v = (w, b), and a width h > 0, the smoothed objective is

    F_h(v) = 1/2 |w|^2 + sum_i c_i p_h(s_i),   p_h' (s) = min(max((s + h) / 2h, 0), 1).

At its minimum a_i = c_i p_h'(s_i) is dual feasible, and the duality gap of (v, a) is at most h / 8 times the c of the
rows with |s_i| < h. These *free* rows are few, so a step of Newton's method takes two passes over all rows and a system
of d + 1 unknowns of the free ones. The trained machine, which is where this begins, is nearly the best one over all
rows: a few steps at a rough width, then a finer width from where they ended, and so on.

A finer width pays only as far as the bound can still be raised. The caller knows an upper bound U, and one that takes
its place if it was only estimated, and D, the greatest dual value so far, refutes it. With F the objective itself, no
multipliers can raise D by more than F - D. This ends where F - D is less than `ENOUGH` of U - D, or of F / 10 where U
is farther away, or than `LEAST_GAP` of F; and where `IDLE` widths in turn did not lower U - D by a tenth.

Where a width does not settle in `STEPS` steps (wide, degenerate tables of few distinct rows), or where there are too
many features for it, an interior-point method takes over, which is ten times as dear and knows no such case.

Whatever is returned is a bound, once it is made exactly feasible: nothing here has to be exact.

Sources: Mangasarian 2002, *A finite Newton method for classification*; Chapelle 2007, *Training a support vector
machine in the primal*. Where this differs: the bias has no penalty, boxes differ, the dual value decides when to stop.
No BLAS.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.linalg import Float, dot, factorise, substitute
from streamsvm.model.kernels import LinearKernel
from streamsvm.model.machine import LinearMachine
from streamsvm.svm.block import interior_point
from streamsvm.svm.block.interior_point import InteriorPointSolver
from streamsvm.svm.block.signed_rows import SignedRows, combine, multiply, signed_rows, weighted_gram
from streamsvm.svm.problem import Problem
from streamsvm.svm.solvers import StdaSolver

MOST_FEATURES: Final = 300
"""Features up to which a step is affordable: it costs their cube."""
LEAST_GAP: Final = 1e-9
"""Relative duality gap at which every method ends at the latest: a finer one costs more than the training, and tells
nobody more."""
TOLERANCE: Final = 1e-3
"""KKT gap of the solution for more features than that method takes: by pairs, as a version is trained."""
MAX_ITERATIONS: Final = 1_000_000
WIDTH: Final = 0.05
"""The first width, in slacks."""
SHRINK: Final = 5.0
"""A width is so much finer than the one before it."""
WIDTHS: Final = 30
"""Most widths; rounding ends the progress of most problems after fifteen."""
STEPS: Final = 12
"""Most steps at a width. Usual are one to three."""
SETTLED: Final = 0.02
"""A full step that leaves less than this share of the slope along it ends a width."""
SEARCHES: Final = 10
FLAT: Final = 0.1
"""The line search ends at this share of the slope."""
ENOUGH: Final = 0.01
"""Share of the gap that may be left to gain."""
FARTHEST: Final = 1.1
"""An upper bound farther above the objective than this is taken for no farther: the lower bound is good for itself."""
TENTH: Final = 0.9
IDLE: Final = 2
REACH: Final = 8.0
"""Widths from its kink at which a row is set aside until it is seen, in the end, whether it stayed where it was."""
ROUNDING: Final = 1e-13
"""Of an objective."""
WIDEST: Final = 1e6
"""The first width is so great that a few rows are free, but not greater than this."""


def near_optimum(
    Z: Float, y: NDArray[np.int8], upper: Float, machine: LinearMachine, goal: float, proven: float
) -> Float:
    """Return dual variables near the optimum, 0 <= alpha <= upper; sum alpha y is 0 up to rounding, as a rule.

    Parameters
    ----------
    Z : ndarray of shape (n, d), float64
        Finite.
    y : ndarray of shape (n,), int8
        Both labels.
    upper : ndarray of shape (n,), float64, positive
    machine : LinearMachine
        Where to begin.
    goal : float
        An upper bound of the optimum; infinite if none is known.
    proven : float
        One that holds even if the goal is only estimated, and found to be below the optimum.
    """
    alpha = np.zeros(len(y))
    started = math.inf
    if Z.shape[1] <= MOST_FEATURES:
        rows = signed_rows(Z, y.astype(np.float64))
        w = machine.coefficients
        v = np.append(w, machine.intercept + float(np.einsum("j,j->", w, rows.common)))
        for reach in (REACH, math.inf):
            began, settled, stayed = _narrow(rows, upper, v, goal, proven, reach, alpha)
            started = min(started, began)
            if settled and stayed:
                return alpha
            if not settled:
                break
    aim = min(goal if goal > started else proven, FARTHEST * started)
    share = ENOUGH * (aim / started - 1.0) if started < math.inf else 0.0
    return _from_inside(Z, y, upper, max(LEAST_GAP, share))


def _from_inside(Z: Float, y: NDArray[np.int8], upper: Float, gap: float) -> Float:
    problem = Problem(Z=Z, y=y, upper=upper, kernel=LinearKernel(), tolerance=TOLERANCE, max_iterations=MAX_ITERATIONS)
    solver = InteriorPointSolver(gap) if min(Z.shape) < interior_point.MOST_FEATURES else StdaSolver()
    solution = solver.solve(problem)
    assert solution.alpha is not None
    return solution.alpha


@njit(cache=True, nogil=True)
def _taken(rows, chosen):  # type: ignore[no-untyped-def]
    """Return some of the rows."""
    m, d = len(chosen), len(rows.dense)
    sign, dense = np.empty(m), np.empty((d, m))
    for i in range(m):
        sign[i] = rows.sign[chosen[i]]
    for k in range(d):
        for i in range(m):
            dense[k, i] = rows.dense[k, chosen[i]]
    start, feature, value = rows.start, rows.feature, rows.value
    if rows.sparse:
        start = np.empty(m + 1, np.uint32)
        start[0] = 0
        for i in range(m):
            start[i + 1] = start[i] + rows.start[chosen[i] + 1] - rows.start[chosen[i]]
        feature, value = np.empty(start[m], np.uint32), np.empty(start[m])
        for i in range(m):
            begin = rows.start[chosen[i]]
            for t in range(start[i + 1] - start[i]):
                feature[start[i] + t] = rows.feature[begin + t]
                value[start[i] + t] = rows.value[begin + t]
    return SignedRows(sign, rows.common, rows.sparse, dense, start, feature, value)


@njit(cache=True, nogil=True)
def _multipliers(upper, slack, width, a):  # type: ignore[no-untyped-def]
    """Fill a_i = c_i p_h'(s_i)."""
    scale = 0.5 / width
    for i in range(len(a)):
        a[i] = upper[i] * min(max((slack[i] + width) * scale, 0.0), 1.0)


@njit(cache=True, nogil=True)
def _free(slack, width):  # type: ignore[no-untyped-def]
    """Return which rows are free, ascending."""
    count = 0
    for i in range(len(slack)):
        count += abs(slack[i]) < width
    chosen, at = np.empty(count, np.int64), 0
    for i in range(len(slack)):
        if abs(slack[i]) < width:
            chosen[at] = i
            at += 1
    return chosen


@njit(cache=True, nogil=True)
def _step(rows, upper, fixed, slack, v, width, matrix, right, change, along, a):  # type: ignore[no-untyped-def]
    """Take one step of Newton's method; return the share of the slope that is left, or infinity if none was taken.

    `a` is that of `slack` before, and after; `fixed` the sum of c r of rows that are far on the active side.
    """
    last = len(v) - 1
    free = _free(slack, width)
    if len(free) == 0:
        return np.inf
    weight = np.empty(len(free))
    for i in range(len(free)):
        weight[i] = upper[free[i]] * (0.5 / width)
    weighted_gram(_taken(rows, free), weight, matrix)
    combine(rows, a, right)
    for j in range(last):
        matrix[j, j] += 1.0
        right[j] = v[j] - right[j] - fixed[j]
    right[last] = -right[last] - fixed[last]
    matrix[last, last] *= 1.0 + 1e-12
    if not factorise(matrix):
        return np.inf
    substitute(matrix, right, change)
    multiply(rows, change, along)
    slope = dot(right, change)
    if not 0.0 < slope < np.inf:
        return 0.0
    before, length, left, straight, along_change = slack.copy(), 1.0, 0.0, -dot(fixed, change), 0.0
    for j in range(last):
        straight += v[j] * change[j]
        along_change += change[j] * change[j]
    # The derivative along the step rises from -slope: where it is too far above 0, the line search goes back to where
    # it is nearly 0, between two lengths of which it is below 0 and above.
    low, at_low, high, at_high = 0.0, -slope, np.inf, 0.0
    for _ in range(SEARCHES):
        for i in range(len(slack)):
            slack[i] = before[i] + length * along[i]
        _multipliers(upper, slack, width, a)
        left = dot(a, along) - straight + length * along_change
        if abs(left) <= FLAT * slope or (left < 0.0 and high == np.inf):
            break
        if left > 0.0:
            high, at_high = length, left
            at_low *= 0.5
        else:
            low, at_low = length, left
            at_high *= 0.5
        length = low + (high - low) * at_low / (at_low - at_high)
    for j in range(last + 1):
        v[j] -= length * change[j]
    return abs(left) / slope if length == 1.0 else 1.0


@njit(cache=True, nogil=True)
def _objective(upper, slack, fixed, of_fixed, v):  # type: ignore[no-untyped-def]
    """Return F."""
    total = 0.5 * dot(v[:-1], v[:-1]) + of_fixed - dot(fixed, v)
    for i in range(len(slack)):
        total += upper[i] * max(slack[i], 0.0)
    return total


@njit(cache=True, nogil=True)
def _whole_objective(rows, upper, v):  # type: ignore[no-untyped-def]
    """Return F of all rows."""
    score, total = np.empty(len(upper)), 0.5 * dot(v[:-1], v[:-1])
    multiply(rows, v, score)
    for i in range(len(upper)):
        total += upper[i] * max(1.0 - score[i], 0.0)
    return total


@njit(cache=True, nogil=True)
def _narrow(rows, upper, v, goal, proven, reach, best):  # type: ignore[no-untyped-def]
    """Fill the dual variables of the greatest dual value, shape (n,); v is changed.

    Rows farther from their kink than `reach` widths are set aside as long as the width is finer: they count by their
    sums. Return the objective at the beginning, whether every width settled, and whether such rows stayed where they
    were.
    """
    n, order, all_rows, all_upper = len(upper), len(v), rows, upper
    slack, along, a, at = np.empty(n), np.empty(n), np.empty(n), np.arange(n)
    matrix, right, change = np.empty((order, order)), np.empty(order), np.empty(order)
    fixed, of_fixed = np.zeros(order), 0.0
    multiply(rows, v, along)
    for i in range(n):
        slack[i] = 1.0 - along[i]
    width, idle = WIDTH, 0
    while width < WIDEST and len(_free(slack, width)) < min(n, 2 * order):
        width *= SHRINK
    started = _objective(upper, slack, fixed, of_fixed, v)
    greatest, least, here, now, gap = 0.0, started, started, np.inf, np.inf
    settled, stayed = True, True
    for _ in range(WIDTHS):
        near = _free(slack, reach * width)
        if 2 * len(near) < len(slack):
            kept = np.zeros(len(slack), np.bool_)
            kept[near] = True
            for i in range(len(slack)):
                far = slack[i] > 0.0 and not kept[i]
                a[i] = upper[i] if far else 0.0
                of_fixed += a[i]
                if not kept[i]:
                    best[at[i]] = a[i]
            combine(rows, a, right)
            fixed += right
            rows, upper, slack, at = _taken(rows, near), upper[near], slack[near], at[near]
            along, a = np.empty(len(near)), np.empty(len(near))
            greatest = 0.0  # that of variables which these rows no longer have
        _multipliers(upper, slack, width, a)
        left = 0.0
        for _ in range(STEPS):
            left = _step(rows, upper, fixed, slack, v, width, matrix, right, change, along, a)
            if left <= SETTLED or not left < np.inf:
                break
        combine(rows, a, right)
        right += fixed
        total = of_fixed
        for i in range(len(a)):
            total += a[i]
        # What is out of balance is taken off in the end.
        value = total - 0.5 * dot(right[:-1], right[:-1]) - abs(right[-1])
        here = _objective(upper, slack, fixed, of_fixed, v)
        least = min(least, here)
        if value > greatest:
            greatest = value
            for i in range(len(a)):
                best[at[i]] = a[i]
        if greatest > goal:
            goal, gap, idle = proven, np.inf, 0
        aim = min(goal, FARTHEST * least)
        now = aim - greatest if greatest < aim else least - greatest
        if least - greatest <= max(ENOUGH * now, LEAST_GAP * least):
            break
        if not left <= SETTLED:
            settled = False
            break
        idle = idle + 1 if now > TENTH * gap else 0
        if idle == IDLE:
            break
        gap = min(gap, now)
        width /= SHRINK
    if len(upper) < n:
        # Rows that were set aside count as if they had stayed where they were: where they did, this is the same.
        away = _whole_objective(all_rows, all_upper, v) - here
        stayed = abs(away) <= max(ENOUGH * now, LEAST_GAP * here) + ROUNDING * here
    return started, settled, stayed

r"""Dual variables behind a lower bound: from a machine that is nearly the best, by Newton's method, roughly at first.

With rows r_i = y_i (z_i, 1), slacks s_i = 1 - <r_i, v>, v = (w, b), and a width h > 0, the smoothed objective is

    F_h(v) = 1/2 |w|^2 + sum_i c_i p_h(s_i),   p_h' (s) = min(max((s + h) / 2h, 0), 1).

At its minimum a_i = c_i p_h'(s_i) is dual feasible, and the duality gap of (v, a) is at most h / 8 times the c of the rows
with |s_i| < h. These *free* rows are few, so a step of Newton's method takes two passes over all rows and a system of
d + 1 unknowns of the free ones. The trained machine, which is where this begins, is nearly the best one over all rows:
a few steps at a rough width, then a finer width from where they ended, and so on.

A finer width pays only as far as the bound can still be raised. The caller knows an upper bound U; with D the greatest
dual value so far, and F the objective itself, no multipliers can raise D by more than F - D. This ends where F - D is
less than `ENOUGH` of U - D, or where `IDLE` widths in turn did not lower U - D by a tenth.

Whatever is returned is a bound, once it is made exactly feasible: nothing here has to be exact.

Sources: Mangasarian 2002, *A finite Newton method for classification*; Chapelle 2007, *Training a support vector machine
in the primal*. Where this differs: the bias has no penalty, boxes differ, the dual value decides when to stop. No BLAS.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.linalg import Float, factorise, substitute
from streamsvm.model.machine import LinearMachine
from streamsvm.svm.block.signed_rows import SignedRows, combine, dot, multiply, signed_rows, weighted_gram

MOST_FEATURES: Final = 400
"""Features up to which a step is affordable: it costs their cube."""
WIDTH: Final = 0.05
"""The first width, in slacks."""
SHRINK: Final = 5.0
"""A width is so much finer than the one before it."""
WIDTHS: Final = 30
"""Most widths; rounding ends the progress of most problems after fifteen."""
STEPS: Final = 4
"""Most steps at a width: the next one begins near enough."""
SETTLED: Final = 0.02
"""A full step that leaves less than this share of the slope along it ends a width."""
ENOUGH: Final = 0.01
"""Share of the gap that may be left to gain."""
TENTH: Final = 0.9
IDLE: Final = 2


def near_optimum(Z: Float, y: NDArray[np.int8], upper: Float, machine: LinearMachine, goal: float) -> Float:
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
    """
    rows = signed_rows(Z, y.astype(np.float64))
    w = machine.coefficients
    v = np.append(w, machine.intercept + float(np.einsum("j,j->", w, rows.common)))
    alpha = np.zeros(len(y))
    _narrow(rows, upper, v, goal, alpha)
    return alpha


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
        start = np.empty(m + 1, np.int64)
        start[0] = 0
        for i in range(m):
            start[i + 1] = start[i] + rows.start[chosen[i] + 1] - rows.start[chosen[i]]
        feature, value = np.empty(start[m], np.int64), np.empty(start[m])
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
def _step(rows, upper, slack, v, width, matrix, right, change, along, a):  # type: ignore[no-untyped-def]
    """Take one step of Newton's method; return the share of the slope that is left, or infinity if none was taken.

    `a` is that of `slack` before, and after.
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
        right[j] = v[j] - right[j]
    right[last] = -right[last]
    matrix[last, last] *= 1.0 + 1e-12
    if not factorise(matrix):
        return np.inf
    substitute(matrix, right, change)
    multiply(rows, change, along)
    slope = dot(right, change)
    if not 0.0 < slope < np.inf:
        return 0.0
    before, length, left = slack.copy(), 1.0, 0.0
    for _ in range(20):
        for i in range(len(slack)):
            slack[i] = before[i] + length * along[i]
        _multipliers(upper, slack, width, a)
        left = dot(a, along)
        for j in range(last):
            left -= (v[j] - length * change[j]) * change[j]
        if left <= 0.1 * slope:
            break
        length *= 0.5
    for j in range(last + 1):
        v[j] -= length * change[j]
    return abs(left) / slope if length == 1.0 else 1.0


@njit(cache=True, nogil=True)
def _narrow(rows, upper, v, goal, best):  # type: ignore[no-untyped-def]
    """Fill the dual variables of the greatest dual value, shape (n,); v is changed. Return the number of steps."""
    n, order = len(upper), len(v)
    slack, along, a = np.empty(n), np.empty(n), np.empty(n)
    matrix, right, change = np.empty((order, order)), np.empty(order), np.empty(order)
    multiply(rows, v, along)
    for i in range(n):
        slack[i] = 1.0 - along[i]
    width, steps, idle = WIDTH, 0, 0
    while width < 1e6 and len(_free(slack, width)) < min(n, 2 * order):
        width *= SHRINK
    greatest, least, gap = 0.0, np.inf, np.inf
    for _ in range(WIDTHS):
        _multipliers(upper, slack, width, a)
        for _ in range(STEPS):
            left = _step(rows, upper, slack, v, width, matrix, right, change, along, a)
            steps += 1
            if not left > SETTLED:
                break
            if left == np.inf:
                return steps
        combine(rows, a, right)
        square, total, loss = dot(right[:-1], right[:-1]), 0.0, 0.5 * dot(v[:-1], v[:-1])
        for i in range(n):
            total += a[i]
            loss += upper[i] * max(slack[i], 0.0)
        # What is out of balance is taken off in the end.
        value = total - 0.5 * square - abs(right[-1])
        least = min(least, loss)
        if value > greatest:
            greatest = value
            for i in range(n):
                best[i] = a[i]
        now = min(goal, least) - greatest if goal < greatest else goal - greatest
        if not now < np.inf:
            now = least - greatest
        if least - greatest <= ENOUGH * now:
            break
        idle = idle + 1 if now > TENTH * gap else 0
        if idle == IDLE:
            break
        gap = min(gap, now)
        width /= SHRINK
    return steps

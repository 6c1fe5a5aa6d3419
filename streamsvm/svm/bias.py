"""The best bias for a decision function that is fixed up to it: an exact one-dimensional problem."""

from __future__ import annotations

import numpy as np

from streamsvm.model.kernels import Float
from streamsvm.points import Signs

FLAT = 1e-12
"""Share of the total weight below which a slope counts as 0."""


def best_intercept(scores: Float, y: Signs, upper: Float) -> float:
    """Minimise sum_i upper_i max(0, 1 - y_i (scores_i + b)) over b.

    The loss is convex and piecewise linear with a breakpoint at b_i = y_i - scores_i. Its slope is minus the weight of
    the label +1 far to the left, and grows by upper_i at each breakpoint: the minimum stands where the running weight,
    in ascending order of the breakpoints, reaches that of the label +1.

    Parameters
    ----------
    scores : ndarray of shape (n,), float64
        Decision values without a bias.
    y : ndarray of shape (n,), -1 or +1
        Both present, with positive weight.
    upper : ndarray of shape (n,), float64
        Weight of each loss.

    Returns
    -------
    float
        The minimiser; the middle, where a whole interval is.
    """
    breakpoints = y - scores
    order = np.argsort(breakpoints, kind="stable")
    slope = np.cumsum(upper[order]) - upper[y > 0].sum()
    rounding = FLAT * float(upper.sum())
    left = int(np.searchsorted(slope, -rounding))
    right = int(np.searchsorted(slope, rounding, side="right"))
    last = len(y) - 1
    return 0.5 * float(breakpoints[order[min(left, last)]] + breakpoints[order[min(right, last)]])

"""Dual variables that meet their equation exactly, in integers: what a lower bound begins with."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]

MOST_MULTIPLES: Final = 2**50
"""Of the unit of alpha in the greatest alpha: sums of some thousand of them are exact in Python's integers anyway, and
each stays exact in float64."""


def balanced(y: NDArray[np.int8], alpha: Float) -> Float:
    """Return multipliers none of which is greater than before, and whose sums over both labels are exactly equal.

    Parameters
    ----------
    y : ndarray of shape (n,), int8
    alpha : ndarray of shape (n,), float64
        Not negative.
    """
    greatest = float(alpha.max(initial=0.0))
    if greatest == 0.0:
        return alpha
    unit = _unit(greatest)
    multiples = np.floor(alpha / unit).astype(np.int64)
    positive = y > 0
    sums = [sum(multiples[side].tolist()) for side in (positive, ~positive)]
    excess = abs(sums[0] - sums[1])
    heavier = np.flatnonzero(positive if sums[0] > sums[1] else ~positive)
    for at in heavier[np.argsort(-multiples[heavier], kind="stable")]:
        taken = min(excess, int(multiples[at]))
        multiples[at] -= taken
        excess -= taken
        if not excess:
            break
    return np.asarray(multiples * unit, dtype=np.float64)


def _unit(greatest: float) -> float:
    return 2.0 ** (math.frexp(greatest)[1] - 1) / MOST_MULTIPLES

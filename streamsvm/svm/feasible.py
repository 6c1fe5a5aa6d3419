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


HALF: Final = 26
"""Bits of the lower half of a multiple."""


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
    unit = 2.0 ** (math.frexp(greatest)[1] - 1) / MOST_MULTIPLES
    multiples = np.floor(alpha / unit).astype(np.int64)
    positive = y > 0
    sums = [_exact_sum(multiples[side]) for side in (positive, ~positive)]
    excess = abs(sums[0] - sums[1])
    heavier = np.flatnonzero(positive if sums[0] > sums[1] else ~positive)
    greatest_first = heavier[:0]
    if excess:
        first = int(np.argmax(multiples[heavier]))
        greatest_first = heavier[first : first + 1]
        # Most often the greatest one has room for everything: then the others need no order.
        if int(multiples[heavier[first]]) < excess:
            greatest_first = heavier[np.argsort(-multiples[heavier], kind="stable")]
    for at in greatest_first:
        taken = min(excess, int(multiples[at]))
        multiples[at] -= taken
        excess -= taken
        if not excess:
            break
    return np.asarray(multiples * unit, dtype=np.float64)


def _exact_sum(multiples: NDArray[np.int64]) -> int:
    """Return the sum of numbers below 2^52, which may be beyond 2^63, in two halves that are not."""
    high = multiples >> HALF
    return (int(high.sum()) << HALF) + int((multiples - (high << HALF)).sum())

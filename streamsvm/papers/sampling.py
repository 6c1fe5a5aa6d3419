"""Drawing indices in proportion to given shares, with replacement; the caller brings the random numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]


def draws(share: Float, numbers: Float) -> NDArray[np.intp]:
    """Return one index for each number, index i with probability share_i / sum share.

    Parameters
    ----------
    share : ndarray of shape (n,), not negative, not all 0
    numbers : ndarray of shape (m,), each uniform in [0, 1)

    Notes
    -----
    An index whose share is 0 never comes, whatever the rounding of the cumulated shares.
    """
    borders = np.cumsum(share)
    last = int(np.flatnonzero(share)[-1])
    return np.asarray(np.minimum(np.searchsorted(borders, numbers * borders[-1], side="right"), last), dtype=np.intp)


def occurrences(share: Float, m: int, random: np.random.Generator) -> NDArray[np.intp]:
    """Draw m indices independently of one another; return how often each came, shape (n,), with sum m."""
    return np.bincount(draws(share, random.random(m)), minlength=len(share))

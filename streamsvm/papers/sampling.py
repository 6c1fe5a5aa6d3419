"""Independent draws in proportion to given shares: Alg. 1, line 12, of Tukan et al. 2020."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamsvm.points import Points

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


def importance_sample(points: Points, gamma: NDArray[np.float64], m: int, random: np.random.Generator) -> Points:
    """Draw m times independently with q = gamma / t; weight u / (m q) a draw (Alg. 1, line 12).

    Parameters
    ----------
    points : Points
        n points.
    gamma : ndarray of shape (n,), positive
    m : int
        m >= 1.
    random : numpy Generator
        Only `random()` is called.
    """
    times = occurrences(gamma, m, random)
    # Ascending, so that points stay in the order of the log.
    chosen = np.flatnonzero(times)
    drawn = times[chosen] * points.weight[chosen] * (gamma.sum() / (m * gamma[chosen]))
    return points.take(chosen).reweighted(drawn)

r"""The band: the rows nearest the kink of the hinge, which are kept as they are.

The hinge is linear on either side of its kink. Of rows that stay on one side of the margin for every machine near the
optimum, weights and gradients say everything, and calibrated samples meet these totals exactly
(`streamsvm.coreset.calibration`). What a reduction can get wrong is which side a row is on. So the rows whose side is
in doubt are kept, with their own weights, as long as there are few enough of them; of the others a sample is drawn.

How much is in doubt: the optimum of the rows to come differs from the pilot's by about its standard error. With the
smoothed Hessian H of `streamsvm.coreset.reducers.calibrated`, a~ = (z, 1), and the active rows' gradients as the only
noise, the covariance of (w~, b~) is H^-1 (sum over the active of u a~ a~') H^-1. We take it for c^2 H^-1, c^2 being the
mean eigenvalue of H^-1 (sum of u a~ a~'), that is sum over the active of u |a~|^2 / (d + 1) in the norm of H^-1. The
standard error of a row's margin is then c |a~|_{H^-1}, and a row is in doubt within `REACH` of them from the kink.

If the rows in doubt would take more than the band's share of what may be kept, there is no band at all: half a band
leaves a smaller sample, and rows beyond it that cross the kink all the same. Nor is there one where the newest leaf is
unlike what came before it: of a stream that is sorted, or drifts, the standard error says nothing.

Sources: sufficient statistics away from the kink, as in screening rules (Ogawa, Suzuki, Takeuchi 2013); the asymptotic
covariance of the linear support vector machine (Koo, Lee, Kim, Park 2008).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.linalg import Float

DELTA: Final = 0.3
"""Half the width over which the kink is smoothed, the delta of `streamsvm.coreset.reducers.calibrated`. A row whose
margin is 1 + DELTA or more has no influence. It stands here because reducers and screens both need it."""
REACH: Final = 3.0
"""Standard errors of the margin within which the side of a row is in doubt. At 2, eight partitions of ijcnn1 had bands
too narrow for the optimum of all of them, and lost by it; at 4, they had none, nor had others who gain by it."""
ALIKE: Final = 1e-5
"""Relative difference of distances up to which rows count as equally far: screens compute in float32."""


@njit(cache=True, nogil=True)
def border_within(values: Float, size: Float, most: float) -> tuple[float, float]:
    """Return the greatest of the least values whose sizes sum up to `most`, and the least of the others.

    Of equal values all are within or none; infinite ones, and what is not a number, are not. 0 and infinity stand for
    none. Selected, not sorted: the time is that of some passes.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Not negative.
    size : ndarray of shape (n,)
        Not negative.
    most : float
    """
    # First by octaves and their quarters, which are counted without a jump that is guessed wrongly.
    places, sums, finite = values.view(np.int64), np.zeros(1 << 13), np.int64(0x7FF << 52)
    for i in range(len(values)):
        sums[places[i] >> 50 & 0x1FFF] += size[i] if values[i] < np.inf else 0.0
    border, total = 0, 0.0
    while border < len(sums) and total + sums[border] <= most:
        total += sums[border]
        border += 1
    left, own, end = np.empty(len(values)), np.empty(len(values)), 0
    begin, reached, beyond = 0, 0.0, np.inf
    for i in range(len(values)):
        place = places[i] >> 50
        left[end], own[end] = values[i], size[i]
        end += 1 if place == border and places[i] < finite else 0
        reached = max(reached, values[i]) if place < border and places[i] < finite else reached
        beyond = min(beyond, values[i]) if place > border and places[i] < finite else beyond
    while begin < end:
        pivot = left[(begin + end) // 2]
        below, at, above = begin, begin, end  # [begin, below) < pivot, [below, at) equal, [above, end) > pivot
        lighter = equal = least = 0.0
        while at < above:
            if left[at] < pivot:
                lighter += own[at]
                least = max(least, left[at])
                left[at], left[below] = left[below], left[at]
                own[at], own[below] = own[below], own[at]
                below, at = below + 1, at + 1
            elif left[at] > pivot:
                above -= 1
                left[at], left[above] = left[above], left[at]
                own[at], own[above] = own[above], own[at]
            else:
                equal += own[at]
                at += 1
        if total + lighter > most:
            end, beyond = below, pivot
        elif total + lighter + equal > most:
            return (least if below > begin else reached), pivot
        else:
            begin, total, reached = above, total + lighter + equal, pivot
    return reached, beyond


@njit(cache=True, nogil=True)
def reach_of(length: Float, margin: Float, weight: Float, width: int) -> float:
    """Return by which multiple of its length a row's margin is in doubt.

    Parameters
    ----------
    length : ndarray of shape (n,)
        |a~|_{H^-1} of each row.
    margin, weight : ndarray of shape (n,)
    width : int
        d + 1.
    """
    total = 0.0
    for i in range(len(margin)):
        active = weight[i] * (1.0 if margin[i] < 1.0 else 0.0)
        total += active * length[i] * length[i]
    return REACH * math.sqrt(total / width)


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_distances(length, margin, away):  # type: ignore[no-untyped-def]
    for i in range(len(away)):
        away[i] = abs(1.0 - margin[i]) / length[i] if length[i] > 0.0 else np.inf


def nearest(length: Float, margin: Float, weight: Float, width: int, most: int) -> NDArray[np.intp]:
    """Return the `most` rows nearest the kink, ascending, the first of equals; none, if more of them are in doubt.

    Parameters are those of `reach_of`; 1 <= most < n.
    """
    away = np.empty(len(margin))
    if _in_doubt(length, margin, weight, width, away) > most:
        return np.empty(0, np.intp)
    return least_of(away, most)


@njit(cache=True, nogil=True)
def _in_doubt(length, margin, weight, width, away):  # type: ignore[no-untyped-def]
    """Fill distances, shape (n,), and return how many rows are in doubt."""
    _fill_distances(length, margin, away)
    reach, count = reach_of(length, margin, weight, width), 0
    for i in range(len(away)):
        count += away[i] <= reach
    return count


@njit(cache=True, nogil=True)
def farthest(length: Float, margin: Float, weight: Float, width: int, expected: Float, most: float) -> float:
    """Return the multiple of its length within which a row to come is kept; 0.0, if there is to be no band.

    Of rows that are equally far, as copies of one row are, either all are within it or none. Of no influence, and not
    kept, is a row with a margin of 1 + DELTA or more.

    Parameters
    ----------
    length, margin, weight, width
        As of `reach_of`, of points that the rows to come are like. Where a length is 0, such a row is not kept.
    expected : ndarray of shape (n,)
        How many of these each point stands for.
    most : float
        How many may be kept.
    """
    away = np.empty(len(margin))
    _fill_distances(length, margin, away)
    for i in range(len(away)):
        if not margin[i] < 1.0 + DELTA:
            away[i] = np.inf
    reached, beyond = border_within(away, expected, most)
    if beyond < np.inf:
        reached = 0.0
        for i in range(len(away)):
            if away[i] < (1.0 - ALIKE) * beyond:
                reached = max(reached, away[i])
    return reached if reached >= reach_of(length, margin, weight, width) else 0.0


def distance(length: Float, margin: Float) -> Float:
    """Return how far from the kink each row is, in multiples of its length, shape (n,); infinite where that is 0."""
    away = np.empty(len(margin))
    _fill_distances(length, margin, away)
    return away


def least_of(values: Float, most: int) -> NDArray[np.intp]:
    """Return where the `most` least values stand, ascending, the first of equals; all, if there are no more."""
    if most >= len(values):
        return np.arange(len(values))
    if most <= 0:
        return np.empty(0, np.intp)
    border = np.partition(values, most - 1)[most - 1]
    if np.isnan(border):  # what is not a number comes last, and equals nothing
        return np.sort(np.argsort(values, kind="stable")[:most])
    chosen = values < border
    chosen[(values == border).nonzero()[0][: most - np.count_nonzero(chosen)]] = True
    return np.asarray(chosen.nonzero()[0])

"""Compiled passes over the rows of a screened leaf: what a row is worth, what adds up, what is kept.

Rows are taken `BLOCK` at a time, feature by feature: arithmetic runs across rows, so that no sum is reordered and no
`fastmath` is needed. Totals add row after row. So nothing depends on where a batch begins.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsvm.compiling import njit
from streamsvm.coreset.row_kernels import DELTA

BLOCK: Final = 64
BINS: Final = 32
"""Bins of margin a label, `BIN_WIDTH` wide, the border between active and inactive in their middle."""
BIN_WIDTH: Final = 0.2
LARGEST_SHARE: Final = 1e12
"""Of s, whose mean is 1: features that overflow give no larger one, so that thinning comes to an end."""


@njit(cache=True, nogil=True)
def evaluate(  # type: ignore[no-untyped-def]
    X,
    y,
    u,
    accepted,
    scaling,
    coefficients,
    intercept,
    label_mean,
    terms,
    projection,
    margin,
    share,
    totals,
):
    """Fill margin and s, shape (n,), and add to the totals; see `streamsvm.coreset.screening` for both.

    Parameters
    ----------
    X, y, u, accepted : arrays of n rows
        Where `accepted` is False, margin and s are those of z = 0 and nothing is added.
    scaling : ndarray of shape (2, d)
    coefficients : ndarray of shape (d,)
    intercept : float
    label_mean : ndarray of shape (2, d)
    terms : ndarray of shape (2, 6)
    projection : ndarray of shape (d + 1 and 0 to 3 rows of zeros up to a multiple of four, k), float32
        Upper triangular if k = d + 1.
    totals : ndarray of shape (3, d) or (0, d)
        Sums of u z, of u z^2, of u y z over the active with class weights; or nothing is added up.
    """
    n, d = X.shape
    Z = np.empty((d, BLOCK))
    positive, decision, squared = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    valid, plain, signed = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    near, packed = np.empty(BLOCK, np.int64), np.zeros((len(projection), BLOCK), np.float32)
    side, length = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    for start in range(0, n, BLOCK):
        m = min(BLOCK, n - start)
        for i in range(m):
            positive[i] = 1.0 if y[start + i] > 0 else 0.0
            valid[i] = 1.0 if accepted[start + i] else 0.0
            decision[i] = intercept
            squared[i] = 0.0
        _scale(X[start : start + m], scaling, Z)
        if not accepted[start : start + m].all():
            _blank(valid, m, Z)
        _decide(Z, coefficients, m, decision)
        _distance(Z, label_mean, m, positive, squared)
        nearby = 0
        for i in range(m):
            q = squared[i]
            if positive[i] > 0.0:
                decided, base, border, curved, slope, offset = (
                    decision[i],
                    terms[1, 0],
                    terms[1, 1],
                    terms[1, 2],
                    terms[1, 3],
                    terms[1, 4],
                )
            else:
                decided, base, border, curved, slope, offset = (
                    -decision[i],
                    terms[0, 0],
                    terms[0, 1],
                    terms[0, 2],
                    terms[0, 3],
                    terms[0, 4],
                )
            margin[start + i] = decided
            share[start + i] = base + (curved * q if q <= border else slope * np.sqrt(q) - offset)
            plain[i] = u[start + i] * valid[i]
            signed[i] = plain[i] * (terms[1, 5] if positive[i] > 0.0 else -terms[0, 5]) if decided < 1.0 else 0.0
            near[nearby] = i
            nearby += decided < 1.0 + DELTA
        _influence(Z, near, nearby, margin, start, projection, packed, side, length, share)
        for i in range(start, start + m):
            own = share[i] * (terms[1, 5] if y[i] > 0 else terms[0, 5])
            share[i] = LARGEST_SHARE
            if own < LARGEST_SHARE:  # not for what is not a number
                share[i] = own
        if len(totals):
            _add(X[start : start + m], scaling, plain, signed, totals)


@njit(nogil=True)
def _scale(X, scaling, Z):  # type: ignore[no-untyped-def]
    """Fill the scaled features of a block, feature by feature; few arrays a loop, or it is not vectorised."""
    for j in range(X.shape[1]):
        c, s, row = scaling[0, j], scaling[1, j], Z[j]
        for i in range(len(X)):
            row[i] = (np.float64(X[i, j]) - c) * s


@njit(nogil=True)
def _blank(valid, m, Z):  # type: ignore[no-untyped-def]
    for i in range(m):
        if valid[i] == 0.0:
            Z[:, i] = 0.0


@njit(nogil=True)
def _decide(Z, coefficients, m, decision):  # type: ignore[no-untyped-def]
    """Add <w, z>."""
    d = len(Z)
    for j in range(0, d - d % 4, 4):
        w0, w1, w2, w3 = coefficients[j], coefficients[j + 1], coefficients[j + 2], coefficients[j + 3]
        for i in range(m):
            decision[i] += (Z[j, i] * w0 + Z[j + 1, i] * w1) + (Z[j + 2, i] * w2 + Z[j + 3, i] * w3)
    for j in range(d - d % 4, d):
        w0 = coefficients[j]
        for i in range(m):
            decision[i] += Z[j, i] * w0


@njit(nogil=True)
def _distance(Z, label_mean, m, positive, squared):  # type: ignore[no-untyped-def]
    """Add the squared distance to the label's mean."""
    d = len(Z)
    for j in range(0, d - d % 2, 2):
        l0, l1 = label_mean[0, j], label_mean[0, j + 1]
        h0, h1 = label_mean[1, j] - l0, label_mean[1, j + 1] - l1
        for i in range(m):
            a0 = Z[j, i] - (l0 + positive[i] * h0)
            a1 = Z[j + 1, i] - (l1 + positive[i] * h1)
            squared[i] += a0 * a0 + a1 * a1
    for j in range(d - d % 2, d):
        l0 = label_mean[0, j]
        h0 = label_mean[1, j] - l0
        for i in range(m):
            a0 = Z[j, i] - (l0 + positive[i] * h0)
            squared[i] += a0 * a0


@njit(nogil=True)
def _influence(Z, near, nearby, margin, start, projection, packed, side, length, share):  # type: ignore[no-untyped-def]
    """Add the influence of the rows that are near the margin; four features at a time, for fewer passes over `side`."""
    d, k = len(Z), projection.shape[1]
    triangular = k == d + 1
    for j in range(d):
        for i in range(nearby):
            packed[j, i] = Z[j, near[i]]
    for i in range(nearby):
        packed[d, i] = 1.0
        length[i] = 0.0
    for c in range(k):
        for i in range(nearby):
            side[i] = 0.0
        for j in range(0, c + 1 if triangular else d + 1, 4):
            f0, f1, f2, f3 = projection[j, c], projection[j + 1, c], projection[j + 2, c], projection[j + 3, c]
            for i in range(nearby):
                side[i] += (f0 * packed[j, i] + f1 * packed[j + 1, i]) + (f2 * packed[j + 2, i] + f3 * packed[j + 3, i])
        for i in range(nearby):
            length[i] += side[i] * side[i]
    for i in range(nearby):
        row = start + near[i]
        share[row] += np.sqrt(length[i] * min(1.0, (1.0 + DELTA - margin[row]) / (2.0 * DELTA)))


@njit(nogil=True)
def _add(X, scaling, plain, signed, totals):  # type: ignore[no-untyped-def]
    """Add rows one after another: across features, so that the order of a sum is that of the rows."""
    for i in range(len(X)):
        u, g = plain[i], signed[i]
        if u == 0.0:
            continue
        for j in range(X.shape[1]):
            z = (np.float64(X[i, j]) - scaling[0, j]) * scaling[1, j]
            totals[0, j] += u * z
            totals[1, j] += u * z * z
            totals[2, j] += g * z


@njit(nogil=True)
def _bin(margin):  # type: ignore[no-untyped-def]
    """Return the stratum of a margin; one that is not a number has one, too."""
    place = (margin - 1.0) * (1.0 / BIN_WIDTH) + BINS // 2
    if not place > 0.0:
        return 0
    return BINS - 1 if place >= BINS - 1 else int(place)


@njit(cache=True, nogil=True)
def keep(  # type: ignore[no-untyped-def]
    X,
    y,
    u,
    accepted,
    margin,
    share,
    rate,
    begin,
    sums,
    weight,
    kept_X,
    kept_y,
    kept_weight,
    kept,
):
    """Take rows from `begin` on until they end or the buffer is full.

    Parameters
    ----------
    X, y, u, accepted, margin, share : arrays of n rows
    rate : float
    sums : ndarray of shape (2, BINS)
        Running sum of pi of each stratum.
    weight : ndarray of shape (2, 2)
        Weight of label x {inactive, active}, added to.
    kept_X, kept_y, kept_weight : arrays
        The buffer, of which `kept` rows are in use.

    Returns
    -------
    tuple of int
        The next row to take, valid rows taken, and points in the buffer.
    """
    n, d = X.shape
    counted = 0
    for i in range(begin, n):
        if not accepted[i]:
            continue
        counted += 1
        label = 1 if y[i] > 0 else 0
        own = u[i]
        inclusion = rate * own * share[i]
        if weight[label, 0] + weight[label, 1] == 0.0:
            inclusion = 1.0
        weight[label, 1 if margin[i] < 1.0 else 0] += own
        if inclusion < 1.0:
            place = _bin(margin[i])
            risen = sums[label, place] + inclusion
            if risen < 1.0:
                sums[label, place] = risen
                continue
            sums[label, place] = risen - 1.0
            own /= inclusion
        for j in range(d):
            kept_X[kept, j] = X[i, j]
        kept_y[kept] = y[i]
        kept_weight[kept] = own
        kept += 1
        if kept == len(kept_y):
            return i + 1, counted, kept
    return n, counted, kept


@njit(cache=True, nogil=True)
def thin(X, y, weight, margin, share, rate, sums):  # type: ignore[no-untyped-def]
    """Keep a point with probability min(1, rate s weight), which is that of its row at this rate over that before.

    Kept points move to the front of X, y and weight, each weight divided by its probability; returns how many there
    are. The first point of each label is kept for certain.
    """
    met = np.zeros(2, np.bool_)
    stay = 0
    for i in range(len(y)):
        label = 1 if y[i] > 0 else 0
        own = weight[i]
        retained = rate * own * share[i]
        if retained < 1.0 and met[label]:
            place = _bin(margin[i])
            risen = sums[label, place] + retained
            if risen < 1.0:
                sums[label, place] = risen
                continue
            sums[label, place] = risen - 1.0
            own /= retained
        met[label] = True
        for j in range(X.shape[1]):
            X[stay, j] = X[i, j]
        y[stay] = y[i]
        weight[stay] = own
        stay += 1
    return stay


@njit(cache=True, nogil=True, error_model="numpy")
def unscaled_moments(  # type: ignore[no-untyped-def]
    weight, totals, scaling, own, mean, square
):
    """Fill the weight of each label, means and sums of squares of rows, of which `Screened` has weights and totals."""
    for label in range(2):
        own[label] = weight[label, 0] + weight[label, 1]
    total = own[0] + own[1]
    for j in range(len(mean)):
        centre = totals[0, j] / total
        # The difference of two rounded sums can fall below 0 where a feature is constant.
        apart = totals[1, j] - totals[0, j] * centre
        mean[j] = scaling[0, j] + centre / scaling[1, j]
        square[j] = max(apart, 0.0) / (scaling[1, j] * scaling[1, j])

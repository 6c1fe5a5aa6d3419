"""Compiled passes over the rows of a leaf that is screened for several labels: see `class_screening`.

A block of rows is scaled once, and every problem looks at it in turn, so that the arithmetic is one product of the
block and all pilots. Sums run row after row in a fixed order, as in `streamsvm.coreset.screening_kernels`, whose parts
these are: nothing depends on where a batch begins.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsvm.compiling import njit
from streamsvm.coreset.row_kernels import DELTA
from streamsvm.coreset.screening_kernels import (
    BLOCK,
    LARGEST_SHARE,
    _bin,
    _blank,
    _decide,
    _distance,
    _influence,
    _scale,
)

QUOTA_PARTS: Final = 8
"""Part of a leaf, over the number of labels, up to which rows of a label are kept that the screen knows nothing of."""


@njit(cache=True, nogil=True)
def evaluate(  # type: ignore[no-untyped-def]
    X,
    y,
    u,
    accepted,
    scaling,
    labels,
    coefficients,
    intercepts,
    label_mean,
    terms,
    projection,
    class_weight,
    margin,
    share,
    margins,
    moments,
    active,
    gradient,
):
    """Fill margin and s, shape (n,), and add to the totals.

    Parameters
    ----------
    X, y, u, accepted : arrays of n rows
        y holds indices of labels. Where `accepted` is False, nothing is added, and margin and s mean nothing.
    scaling : ndarray of shape (2, d)
    labels : ndarray of shape (p,), int64
        The label that each of p problems tells from the rest.
    coefficients, intercepts : ndarray of shape (p, d) and (p,)
    label_mean : ndarray of shape (p, 2, d)
    terms : ndarray of shape (p, 2, 6)
    projection : ndarray of shape (p, d + 1 and 0 to 3 rows of zeros, k), float32
    class_weight : ndarray of shape (K,)
    margin : ndarray of shape (n,)
        Of the problem of the row's own label; 1 where there is none.
    share : ndarray of shape (n,)
        The greatest s of all problems, times the label's class weight.
    margins : ndarray of shape (p, n) or (p, 0)
        Margins of all problems, if there is room.
    moments : ndarray of shape (2, d) or (0, d)
        Sums of u z and of u z^2; or nothing is added up, here and below.
    active : ndarray of shape (p, 2)
        Weights of the active rows on either side of each problem, class weights included.
    gradient : ndarray of shape (p, d)
        Sums of u y z over them.
    """
    n, d = X.shape
    problems = len(labels)
    Z, row = np.empty((d, BLOCK)), np.empty(d)
    positive, decision, squared = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    valid, plain = np.empty(BLOCK), np.empty(BLOCK)
    own_margin, own_share = np.empty(BLOCK), np.empty(BLOCK)
    pulls = np.zeros((problems, BLOCK))
    near, packed = np.empty(BLOCK, np.int64), np.zeros((projection.shape[1], BLOCK), np.float32)
    side, length = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    for start in range(0, n, BLOCK):
        m = min(BLOCK, n - start)
        for i in range(m):
            valid[i] = 1.0 if accepted[start + i] else 0.0
            plain[i] = u[start + i] * class_weight[y[start + i]] if accepted[start + i] else 0.0
            margin[start + i] = 1.0
            share[start + i] = 0.0
        _scale(X[start : start + m], scaling, Z)
        if not accepted[start : start + m].all():
            _blank(valid, m, Z)
        for p in range(problems):
            for i in range(m):
                positive[i] = 1.0 if y[start + i] == labels[p] else 0.0
                decision[i] = intercepts[p]
                squared[i] = 0.0
            _decide(Z, coefficients[p], m, decision)
            _distance(Z, label_mean[p], m, positive, squared)
            nearby = _sensitivity(terms[p], positive, decision, squared, m, own_margin, own_share, near)
            _influence(Z, near, nearby, own_margin, 0, projection[p], packed, side, length, own_share)
            for i in range(m):
                if positive[i] > 0.0:
                    margin[start + i] = own_margin[i]
                # What is not a number is worth most: it is kept, and looked at by whoever reduces it.
                if not own_share[i] <= share[start + i]:
                    share[start + i] = min(LARGEST_SHARE, own_share[i])
                pulls[p, i] = 0.0
                if own_margin[i] < 1.0:
                    pulls[p, i] = plain[i] if positive[i] > 0.0 else -plain[i]
            if margins.shape[1]:
                for i in range(m):
                    margins[p, start + i] = own_margin[i]
        for i in range(start, start + m):
            own = share[i] * class_weight[y[i]]
            share[i] = min(LARGEST_SHARE, own)
        if len(moments):
            _add(X[start : start + m], u[start : start + m], valid, scaling, pulls, row, moments, active, gradient)


@njit(nogil=True)
def _sensitivity(terms, positive, decision, squared, m, margin, share, near):  # type: ignore[no-untyped-def]
    """Fill a problem's margins and its s without influence; return how many rows are near the kink, and which."""
    nearby = 0
    for i in range(m):
        at = 1 if positive[i] > 0.0 else 0
        q = squared[i]
        decided = decision[i] if at else -decision[i]
        margin[i] = decided
        if q <= terms[at, 1]:
            share[i] = terms[at, 0] + terms[at, 2] * q
        else:
            share[i] = terms[at, 0] + terms[at, 3] * np.sqrt(q) - terms[at, 4]
        near[nearby] = i
        nearby += decided < 1.0 + DELTA
    return nearby


@njit(nogil=True)
def _add(X, u, valid, scaling, pulls, row, moments, active, gradient):  # type: ignore[no-untyped-def]
    """Add rows one after another: across features, so that the order of a sum is that of the rows."""
    d = X.shape[1]
    for i in range(len(X)):
        if valid[i] == 0.0:
            continue
        for j in range(d):
            row[j] = (np.float64(X[i, j]) - scaling[0, j]) * scaling[1, j]
        for j in range(d):
            moments[0, j] += u[i] * row[j]
            moments[1, j] += u[i] * row[j] * row[j]
        for p in range(len(pulls)):
            g = pulls[p, i]
            if g == 0.0:
                continue
            active[p, 1 if g > 0.0 else 0] += abs(g)
            for j in range(d):
                gradient[p, j] += g * row[j]


@njit(cache=True, nogil=True)
def keep(  # type: ignore[no-untyped-def]
    X,
    y,
    u,
    accepted,
    known,
    margin,
    share,
    rate,
    begin,
    sums,
    counts,
    weight,
    kept_X,
    kept_y,
    kept_weight,
    kept,
):
    """Take rows from `begin` on until the buffer is full.

    Parameters
    ----------
    X, y, u, accepted, margin, share : arrays of n rows
    known : ndarray of shape (K,), bool
        Labels that have a problem of their own.
    rate : float
    sums : ndarray of shape (K, BINS)
        Running sum of pi of each stratum.
    counts : ndarray of shape (K,), int64
        Valid rows of each label, added to.
    weight : ndarray of shape (K,)
        Their weight, added to.
    kept_X, kept_y, kept_weight : arrays
        The buffer, of which `kept` rows are in use.

    Returns
    -------
    tuple of int
        The next row to take, and points in the buffer.
    """
    n, d = X.shape
    quota = max(1, len(kept_y) // (QUOTA_PARTS * len(counts)))
    for i in range(begin, n):
        if not accepted[i]:
            continue
        label, own = y[i], u[i]
        inclusion = rate * own * share[i]
        if counts[label] < (1 if known[label] else quota):
            inclusion = 1.0
        counts[label] += 1
        weight[label] += own
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
            return i + 1, kept
    return n, kept


@njit(cache=True, nogil=True)
def thin(X, y, weight, margin, share, rate, sums):  # type: ignore[no-untyped-def]
    """Keep a point with probability min(1, rate s weight), which is that of its row at this rate over that before.

    Kept points move to the front of X, y and weight, each weight divided by its probability; returns how many there
    are. The first point of each label is kept for certain.
    """
    met = np.zeros(len(sums), np.bool_)
    stay = 0
    for i in range(len(y)):
        label = y[i]
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

"""The compiled pass that adds rows to the strata of `streamsvm.branches.bounds.totals`.

Rows are added one after another, in their order, so that no sum depends on where a batch begins.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from streamsvm.compiling import njit

BLOCK: Final = 64
HALF_OCTAVES: Final = 24
LEAST_EXPONENT: Final = -13
"""Distances are told apart by half octaves, from 2^-7 to 2^5 times the slack of a row of mean length; beyond, by
nothing."""
STRATA: Final = 4 * HALF_OCTAVES
"""Two labels, two sides of the kink."""
EPS: Final = 2.0**-53
EPS32: Final = 2.0**-24
TINY: Final = 1e-30
"""More than products of float32 can lose by underflow, beside lengths of which the mean is 1."""


@njit(cache=True, nogil=True)
def bins_of(distance, square, exponents, place):  # type: ignore[no-untyped-def]
    """Fill the bins of distances, 0 for what is not positive or no number; all of shape (n,).

    Parameters
    ----------
    distance, square : ndarray of float64
        The latter is written.
    exponents : ndarray of int64
        The bits of `square`.
    place : ndarray of int64
    """
    for i in range(len(distance)):
        square[i] = distance[i] * distance[i] if distance[i] > 0.0 else 0.0
    for i in range(len(distance)):
        place[i] = min(max((exponents[i] >> 52) - 1022 - LEAST_EXPONENT, 0), HALF_OCTAVES - 1)


@njit(cache=True, nogil=True, error_model="numpy")
def fill_metric(root, mean, factor):  # type: ignore[no-untyped-def]
    """Fill the upper triangle of a root over a number, in float32, and 0 below; return whether that has an inverse."""
    for j in range(len(root)):
        for c in range(len(root)):
            factor[j, c] = root[j, c] / mean if c >= j else 0.0
            if not np.isfinite(factor[j, c]):
                return False
        if not factor[j, j] > 0.0:
            return False
    return True


@njit(cache=True, nogil=True)
def places(X, y, own, kept_X, kept_y, kept_own, left):  # type: ignore[no-untyped-def]
    """Find each of the kept points among the points, both in one order.

    Parameters
    ----------
    X, y, own : arrays of n points
    kept_X, kept_y : arrays of m points
    kept_own : ndarray of shape (m,)
        Filled with their own weights; 0 where a point is not found.
    left : ndarray of shape (n,), bool
        Filled with whether a point with a weight of its own is not kept.
    """
    for i in range(len(y)):
        left[i] = own[i] > 0.0
    at = 0
    for i in range(len(kept_y)):
        kept_own[i] = 0.0
        found, begin = False, at
        while at < len(y) and not found:
            found = y[at] == kept_y[i]
            for j in range(X.shape[1]):
                if not found:
                    break
                found = X[at, j] == kept_X[i, j]
            at += 1
        if found:
            kept_own[i], left[at - 1] = own[at - 1], False
        else:
            at = begin


@njit(cache=True, nogil=True)
def condense(  # type: ignore[no-untyped-def]
    X,
    y,
    u,
    margin,
    which,
    scaling,
    size,
    factor,
    spread_of_factor,
    border,
    room,
    aside,
    weight,
    length,
    nearest,
    sums,
    spread,
):
    """Add the rows with `which` set to the strata, but the first `room` that are near; return how many were added.

    Parameters
    ----------
    X : ndarray of shape (n, d), float32 or float64
    y : ndarray of shape (n,), int8
    u, margin : ndarray of shape (n,)
        Weights, and margins under the frame's machine, which may be wrong by 10 + d roundings of its terms.
    which : ndarray of shape (n,), bool
    scaling : ndarray of shape (2, d)
        z = (x - centre) * inverse scale.
    size : tuple of (float, float)
        |w| and |b| of the machine.
    factor : ndarray of shape (d + 1, d + 1), upper triangular, or (1, 1), float32
        The length of a row is |(z, 1) factor|; of one number, that multiple of |(z, 1)|.
    spread_of_factor : float
        Its Frobenius norm.
    border : float
        Rows are near if they are less than so many lengths from the kink.
    room : int
    aside : ndarray of shape (n,), bool
        Set for rows that are near and not added.
    weight, length, nearest : ndarray of shape (STRATA,)
        Sums of u, of u times upper bounds of lengths, and the least lower bound of |1 - margin| over the length.
    sums : ndarray of shape (STRATA, d)
        Of u z.
    spread : ndarray of shape (d,)
        Of u |z|.
    """
    n, d = X.shape
    k = factor.shape[1]
    plain = k == 1 and d > 0
    at, place = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    Z, packed = np.empty((BLOCK, d)), np.empty((d + 1, BLOCK), np.float32)
    whole, long, distance, square = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    exponents = square.view(np.int64)
    side, found = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    rounding = (d + 8.0) * EPS32
    largest = rounding * spread_of_factor
    done, count = 0, 0
    while done < n:
        m = 0
        while done < n and m < BLOCK:
            if which[done]:
                at[m] = done
                m += 1
            done += 1
        for i in range(m):
            total, row = 1.0, at[i]
            for j in range(d):
                z = (np.float64(X[row, j]) - scaling[0, j]) * scaling[1, j]
                Z[i, j] = z
                total += z * z
            whole[i] = total
            found[i] = 0.0
            packed[d, i] = 1.0
        if not plain:
            for i in range(m):
                for j in range(d):
                    packed[j, i] = Z[i, j]
            for c in range(k):
                for i in range(m):
                    side[i] = 0.0
                for j in range(c + 1):
                    f = factor[j, c]
                    for i in range(m):
                        side[i] += f * packed[j, i]
                for i in range(m):
                    found[i] += side[i] * side[i]
        for i in range(m):
            whole[i] = math.sqrt(whole[i]) * (1.0 + (d + 4.0) * EPS)
            if plain:
                long[i] = np.float64(factor[0, 0]) * whole[i]
            else:
                long[i] = math.sqrt(np.float64(found[i])) * (1.0 + rounding) + largest * whole[i] + TINY
        for i in range(m):
            away = abs(1.0 - margin[at[i]]) - (d + 12.0) * EPS * (1.0 + size[1] + size[0] * whole[i])
            distance[i] = away / long[i]
            distance[i] -= 4.0 * EPS * abs(distance[i])
        bins_of(distance[:m], square[:m], exponents[:m], place[:m])
        for i in range(m):
            row, near = at[i], distance[i]
            if near < border and room > 0:
                room -= 1
                aside[row] = True
                continue
            own = u[row]
            g = place[i] + (2 * (1 if y[row] > 0 else 0) + (1 if 1.0 - margin[row] > 0.0 else 0)) * HALF_OCTAVES
            weight[g] += own
            length[g] += own * long[i]
            if not near >= nearest[g]:  # of what is not a number nothing is known
                nearest[g] = near if near == near else -np.inf
            for j in range(d):
                term = own * Z[i, j]
                sums[g, j] += term
                spread[j] += abs(term)
            count += 1
    return count

"""Passes over rows, compiled: margins and hinge losses, and the sums of strata, each sum compensated.

A compensated sum (Neumaier 1974) is a pair: the running sum and what rounding took from it. Of n terms it is wrong by
at most 2 eps |sum| + 2 n^2 eps^2 sum |terms| (Higham 2002, section 4.3), which bounds in `.bounds` pay for.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.points import Features, Signs, Weights

Float = NDArray[np.float64]

OCTAVES = 24
LEAST_EXPONENT = -15
"""Slacks |1 - y f(x)| are told apart by halves of an octave, from 2^-16 on up to 2^8; beyond, by nothing."""
BINS = 2 * OCTAVES
STRATA = 4 * BINS
"""Two labels, two sides of the margin; as many again for each further machine, by its side."""


@njit(cache=True, nogil=True)
def add(pair: Float, term: float) -> None:
    """Add a term to a compensated sum, shape (2,)."""
    total = pair[0] + term
    pair[1] += (pair[0] - total) + term if abs(pair[0]) >= abs(term) else (term - total) + pair[0]
    pair[0] = total


@njit(cache=True, nogil=True)
def add_pairs(sums: Float, others: Float) -> None:
    """Add compensated sums, shape (k, 2), to others."""
    for k in range(len(sums)):
        add(sums[k], others[k, 0])
        sums[k, 1] += others[k, 1]


@njit(cache=True, nogil=True)
def stratum_of(sign: int, slack: float) -> int:
    """Return the number of the stratum of a row."""
    label, inside = 1 if sign > 0 else 0, 1 if slack > 0.0 else 0
    mantissa, exponent = math.frexp(abs(slack))
    octave = min(max(exponent - LEAST_EXPONENT, 0), OCTAVES - 1)
    return ((2 * label + inside) * OCTAVES + octave) * 2 + (1 if mantissa >= 0.75 else 0)


@njit(cache=True, nogil=True)
def look(
    X: Features,
    y: Signs,
    weight: Weights,
    mean: Float,
    deviation: Float,
    coefficients: Float,
    intercept: float,
    others: Float,
    total: Float,
    hinge: Float,
    reach: Float,
    slack: Float,
    nearness: Float,
    stratum: NDArray[np.int64],
) -> None:
    """Add rows to the totals of their labels, and fill slacks, nearness and strata, shape (n,).

    Parameters
    ----------
    X : ndarray of shape (n, d), float32 or float64
    y : ndarray of shape (n,), int8
    weight : ndarray of shape (n,)
    mean, deviation, coefficients : ndarray of shape (d,)
    others : ndarray of shape (m, d + 1)
        Coefficients and intercepts of further machines, by whose sides strata are told apart.
    total, hinge : ndarray of shape (2, 2)
        Of each label the compensated sum of weights, and of weighted hinge losses.
    reach : ndarray of shape (2, d)
        Of each label the plain sum of u |z_j|.
    slack : ndarray of shape (n,)
        1 - y f(x).
    nearness : ndarray of shape (n,)
        |slack| over the length of (z, 1).
    stratum : ndarray of shape (n,), int64
    """
    d, m = X.shape[1], len(others)
    decided = np.empty(m)
    for i in range(X.shape[0]):
        label = 1 if y[i] > 0 else 0
        decision, square, u = intercept, 1.0, weight[i]
        decided[:] = others[:, d]
        for j in range(d):
            z = (np.float64(X[i, j]) - mean[j]) / deviation[j]
            decision += z * coefficients[j]
            for k in range(m):
                decided[k] += z * others[k, j]
            square += z * z
            reach[label, j] += u * abs(z)
        slack[i] = 1.0 - y[i] * decision
        nearness[i] = abs(slack[i]) / math.sqrt(square)
        add(total[label], u)
        if slack[i] > 0.0 or not math.isfinite(slack[i]):  # an overflow makes the sum infinite or NaN: nothing is told
            add(hinge[label], u * slack[i])
        number = stratum_of(y[i], slack[i])
        for k in range(m):
            number = 2 * number + (1 if y[i] * decided[k] < 1.0 else 0)
        stratum[i] = number


@njit(cache=True, nogil=True)
def put_away(
    X: Features,
    weight: Weights,
    stratum: NDArray[np.int64],
    rows: NDArray[np.intp],
    mean: Float,
    deviation: Float,
    mass: Float,
    sums: Float,
) -> None:
    """Add some rows, in this order, to their strata: weights, shape (strata, 2), and u z, shape (strata, d, 2)."""
    d = X.shape[1]
    for i in rows:
        u = weight[i]
        add(mass[stratum[i]], u)
        for j in range(d):
            add(sums[stratum[i], j], u * ((np.float64(X[i, j]) - mean[j]) / deviation[j]))

"""The compiled passes over held rows and strata that the bounds of a version are made of (`.proving`).

Sums over rows that cancel are compensated: a sum and what rounding took from it, wrong by at most an eps of itself and
2 n^2 eps^2 of the terms' magnitudes (Ogita, Rump and Oishi 2005, Sum2). All others are of terms of one sign, and wrong
by n eps of themselves.
"""

from __future__ import annotations

import math

import numpy as np

from streamsvm.branches.bounds.totals_kernels import EPS
from streamsvm.compiling import njit
from streamsvm.linalg import REORDERED


@njit(cache=True, nogil=True, error_model="numpy")
def scaled_losses(X, y, cost, mean, deviation, w, intercept, Z):  # type: ignore[no-untyped-def]
    """Fill z, shape (n, d), and return the sum of cost max(0, 1 - y f(z)), each hinge not rounded down.

    Parameters
    ----------
    X : ndarray of shape (n, d), float32 or float64
    y : ndarray of shape (n,), int8
    cost : ndarray of shape (n,)
        C k u of each.
    mean, deviation, w : ndarray of shape (d,)
    intercept : float
    Z : ndarray of shape (n, d)
    """
    n, d = X.shape
    rounding, beside, total = (d + 12.0) * EPS, abs(intercept) + 1.0, 0.0
    for i in range(n):
        row = Z[i]
        for j in range(d):
            row[j] = (np.float64(X[i, j]) - mean[j]) / deviation[j]
        decision, size = _summed(row, w)
        slack = 1.0 - y[i] * (decision + intercept) + rounding * (size + beside)
        if not slack <= 0.0:  # what is not a number makes the sum none
            total += cost[i] * slack
    return total


@njit(nogil=True, fastmath=REORDERED)
def _summed(row, w):  # type: ignore[no-untyped-def]
    """Return the sum of the products, and of their magnitudes; the bound of their rounding holds in any order."""
    decision = size = 0.0
    for j in range(len(w)):
        term = row[j] * w[j]
        decision += term
        size += abs(term)
    return decision, size


@njit(cache=True, nogil=True)
def signed_sums(Z, y, alpha, held, sums, size, total):  # type: ignore[no-untyped-def]
    """Fill the sums of alpha y z and of alpha, compensated.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
    y : ndarray of shape (n,), int8
    alpha : ndarray of shape (n,)
    held : int
        How many of the first are rows.
    sums : ndarray of shape (2, d)
        Sums, and what rounding took from them.
    size : ndarray of shape (2, d)
        Of held rows, and of all others, the sums of alpha |z|.
    total : ndarray of shape (2,)
    """
    sums[:], size[:], total[:] = 0.0, 0.0, 0.0
    d = Z.shape[1]
    for i in range(len(alpha)):
        if alpha[i] == 0.0:
            continue
        signed, kind = alpha[i] * y[i], 0 if i < held else 1
        for j in range(d):
            term = signed * Z[i, j]
            before = sums[0, j]
            after = before + term
            own = after - before
            sums[1, j] += (before - (after - own)) + (term - own)
            sums[0, j] = after
            size[kind, j] += abs(term)
        after = total[0] + alpha[i]
        own = after - total[0]
        total[1] += (total[0] - (after - own)) + (alpha[i] - own)
        total[0] = after


@njit(cache=True, nogil=True)
def dual_lengths(P, changes, lost, found, bound):  # type: ignore[no-untyped-def]
    """Fill upper bounds of |P^-1 v| for every v that differs from a change by no more than `lost`.

    Parameters
    ----------
    P : ndarray of shape (k, k), upper triangular
    changes, lost : ndarray of shape (k, m)
    found : ndarray of shape (k, m)
        Out: P^-1 of the changes, roughly.
    bound : ndarray of shape (m,)
        Out: infinite where P has no inverse in float64.
    """
    k, m = changes.shape
    fudge, rounding = 1.0 + 1e-9, 2.0 * len(P) * EPS
    bound[:] = np.inf
    found[:] = changes
    for j in range(k):
        if not P[j, j] > 0.0:
            return
    inverse = np.zeros((k, k))
    for c in range(k):
        inverse[c, c] = 1.0 / P[c, c]
        for i in range(c - 1, -1, -1):
            value = 0.0
            for j in range(i + 1, c + 1):
                value -= P[i, j] * inverse[j, c]
            inverse[i, c] = value / P[i, i]
    # |P^-1|: the computed inverse Q has P Q = 1 + R, so that the true one is Q (1 + R)^-1.
    wrong = whole = 0.0
    for i in range(k):
        for c in range(i, k):
            product, size = -1.0 if i == c else 0.0, 0.0
            for j in range(i, c + 1):
                term = P[i, j] * inverse[j, c]
                product += term
                size += abs(term)
            wrong += (abs(product) + 2.0 * rounding * size) ** 2
            whole += inverse[i, c] ** 2
    wrong = math.sqrt(wrong) * fudge
    if not wrong < 0.5:
        return
    norm = math.sqrt(whole) * fudge / (1.0 - wrong)
    for c in range(m):
        length = rest = beside = 0.0
        for i in range(k - 1, -1, -1):
            value = changes[i, c]
            for j in range(i + 1, k):
                value -= P[i, j] * found[j, c]
            found[i, c] = value / P[i, i]
            length += found[i, c] ** 2
            beside += lost[i, c] ** 2
        # What the solution does not explain is small, but the inverse may be large: it is paid for.
        for i in range(k):
            product, size = changes[i, c], abs(changes[i, c])
            for j in range(i, k):
                term = P[i, j] * found[j, c]
                product -= term
                size += abs(term)
            rest += (abs(product) + rounding * size) ** 2
        unexplained = (math.sqrt(rest) + math.sqrt(beside)) * fudge
        value = (math.sqrt(length) * fudge + norm * unexplained) * fudge
        bound[c] = min(np.inf, value)


@njit(cache=True, nogil=True)
def dual_lengths_of(factors, changes, lost, bound):  # type: ignore[no-untyped-def]
    """Fill the bounds of `dual_lengths` of several P, shape (m, k, k), for a change of each, shape (m, k)."""
    m, k = changes.shape
    found = np.empty((k, 1))
    for at in range(m):
        dual_lengths(factors[at], changes[at].reshape(k, 1), lost[at].reshape(k, 1), found, bound[at : at + 1])

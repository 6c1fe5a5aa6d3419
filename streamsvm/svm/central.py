r"""A start near the optimum for the linear kernel, by an interior-point method on the few coefficients.

Problem, with Z1 = [Z 1] of shape (n, d + 1) and b_i = y_i a_i as in `streamsvm.svm.fast`:

    min 1/2 |Z'b|^2 - y'b,   low <= b <= high,   sum b = 0.

With s, t > 0 the multipliers of the two bounds, a = b - low and c = high - b, the conditions of the central path are

    Z Z'b - y + nu 1 - s + t = 0,   a_i s_i = mu,   c_i t_i = mu,   sum b = 0.

Newton's step needs one Cholesky factor of order d + 1, that of diag(1, ..., 1, 0) + Z1' D^-1 Z1, D = s / a + t / c
(Ferris and Munson 2002, "Interior-point methods for massive support vector machines"); Mehrotra's predictor and
corrector (1992). A step costs two passes over the points, and twenty to forty steps suffice whatever the boxes: pairs
take millions of steps where boxes are large and few features make the problem ill-conditioned.

The result is a start, not a claim: its variables near a bound are put on it, and the blocks go on from there.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from streamsvm.svm.exponential import most
from streamsvm.svm.kernels import Float

STEPS = 80
"""Most steps; forty are rarely passed."""
SHORT = 0.995
"""Share of the way to the nearest bound that a step may go."""
SNAP = 0.25
"""Share of the tolerance: a variable whose multiplier is larger is put on its bound."""
EXHAUSTED = 1e-6
"""Share of that at which products of variables and multipliers are lost in rounding: further steps would go astray."""


def near_optimum(
    Z: Float, y: Float, low: Float, high: Float, tolerance: float, limit: int = STEPS
) -> tuple[Float, int]:
    """Return b near the optimum, within its bounds and of sum 0 to rounding, and the steps made.

    Parameters
    ----------
    Z : ndarray of shape (n, d), float64, centred
    y : ndarray of shape (n,), -1.0 or +1.0, both present
    low, high : ndarray of shape (n,), float64
        low <= 0 <= high, low < high.
    tolerance : float
        KKT gap that is wanted in the end.
    limit : int
        Most steps.
    """
    n, d = Z.shape
    Z1 = np.empty((n, d + 1))
    Z1[:, :d], Z1[:, d] = Z, 1.0
    b, s, t = np.empty(n), np.empty(n), np.empty(n)
    steps = _follow(Z1, y, low, high, SNAP * tolerance, min(limit, STEPS), b, s, t)
    _snap(b, s, t, low, high, SNAP * tolerance)
    return b, steps


def cost_ns(n: int, d: int) -> float:
    """Return about what `near_optimum` takes, in nanoseconds of a core of 2023."""
    return 50.0 * n * (25.0 + 8.0 * (d + 1) + 0.1 * (d + 1) ** 2)


def is_compiled() -> bool:
    """Whether this process has the code."""
    return bool(_follow.signatures)


@njit(cache=True, nogil=True, error_model="numpy")
def _follow(Z1, y, low, high, accuracy, limit, b, s, t):  # type: ignore[no-untyped-def]
    """Follow the central path until `_snap` would move no score by more than `accuracy`; return the steps made.

    Parameters
    ----------
    Z1 : ndarray of shape (n, d + 1), float64
    y, low, high : ndarray of shape (n,), float64
    accuracy : float
    limit : int
    b, s, t : ndarray of shape (n,), float64
        Out: variables and multipliers.
    """
    n, order = Z1.shape
    a, c = 0.5 * (high - low), 0.5 * (high - low)
    b[:] = low + a
    nu = 0.0
    g = np.dot(Z1, _weights(b, Z1)) - y
    scale = 1.0 + np.abs(g).sum() / n
    reach = 0.0
    for i in range(n):
        s[i], t[i] = max(g[i], 0.0) + scale, max(-g[i], 0.0) + scale
        reach = max(reach, (Z1[i] * Z1[i]).sum())
    da, ds, dt = np.zeros(n), np.zeros(n), np.zeros(n)
    rhs, D, move, scaled = np.empty(n), np.empty(n), np.empty(n), np.empty_like(Z1)
    for step in range(limit):
        mu = residual = 0.0
        for i in range(n):
            mu += a[i] * s[i] + c[i] * t[i]
            residual = max(residual, abs(g[i] + nu - s[i] + t[i]))
            D[i] = 1.0 / (s[i] / a[i] + t[i] / c[i])
            multiplier = s[i] - t[i]
            move[i] = -a[i] if multiplier > accuracy else (c[i] if multiplier < -accuracy else 0.0)
        mu /= 2.0 * n
        moved = np.dot(move, Z1)
        enough = np.sqrt((moved * moved).sum() * reach) + reach * abs(b.sum() + moved[-1]) <= accuracy
        if (enough and residual <= accuracy) or not mu > EXHAUSTED * accuracy:
            return step
        for i in range(n):
            for k in range(order):
                scaled[i, k] = Z1[i, k] * D[i]
        M = np.dot(Z1.T, scaled)
        for k in range(order - 1):
            M[k, k] += 1.0
        if not _factor(M):
            return step
        total = b.sum()
        _direction(Z1, M, g, nu, a, c, s, t, D, 0.0, 0.0, total, rhs, da, ds, dt)
        primal, dual = _lengths(a, c, s, t, da, ds, dt)
        after = 0.0
        for i in range(n):
            after += (a[i] + primal * da[i]) * (s[i] + dual * ds[i])
            after += (c[i] - primal * da[i]) * (t[i] + dual * dt[i])
        sigma = (after / (2.0 * n * mu)) ** 3
        change = _direction(Z1, M, g, nu, a, c, s, t, D, sigma * mu, 1.0, total, rhs, da, ds, dt)
        primal, dual = _lengths(a, c, s, t, da, ds, dt)
        length = min(1.0, SHORT * min(primal, dual))
        for i in range(n):
            b[i] += length * da[i]
            a[i] += length * da[i]
            c[i] -= length * da[i]
            s[i] += length * ds[i]
            t[i] += length * dt[i]
        nu += length * change
        g = np.dot(Z1, _weights(b, Z1)) - y
    return limit


@njit(cache=True, nogil=True)
def _weights(b, Z1):  # type: ignore[no-untyped-def]
    """Return Z'b with a 0 for the bias."""
    w = np.dot(b, Z1)
    w[-1] = 0.0
    return w


@njit(cache=True, nogil=True, error_model="numpy")
def _direction(Z1, L, g, nu, a, c, s, t, D, mu, corrected, total, rhs, da, ds, dt):  # type: ignore[no-untyped-def]
    """Write Newton's direction towards products of mu; return the change of nu.

    `corrected` is 1 to subtract the second-order terms of the direction that da, ds and dt hold, 0 not to.
    """
    n = len(g)
    for i in range(n):
        ds[i] = mu - corrected * da[i] * ds[i]
        dt[i] = mu + corrected * da[i] * dt[i]
        rhs[i] = ds[i] / a[i] - dt[i] / c[i] - g[i] - nu
        da[i] = D[i] * rhs[i]
    p = np.dot(da, Z1)
    p[-1] += total
    _solve(L, p)
    product = np.dot(Z1, p)
    for i in range(n):
        da[i] = D[i] * (rhs[i] - product[i])
        ds[i] = (ds[i] - s[i] * da[i]) / a[i] - s[i]
        dt[i] = (dt[i] + t[i] * da[i]) / c[i] - t[i]
    return p[-1]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"nnan", "nsz"})
def _lengths(a, c, s, t, da, ds, dt):  # type: ignore[no-untyped-def]
    """Return how far b, and how far s and t, may go along their directions before one becomes 0, at most 1 / SHORT."""
    primal = dual = SHORT
    for i in range(len(a)):
        primal = most(primal, most(-da[i] / a[i], da[i] / c[i]))
        dual = most(dual, most(-ds[i] / s[i], -dt[i] / t[i]))
    return 1.0 / primal, 1.0 / dual


@njit(cache=True, nogil=True)
def _factor(M):  # type: ignore[no-untyped-def]
    """Replace the lower triangle by its Cholesky factor; return whether that was possible."""
    for r in range(len(M)):
        for q in range(r + 1):
            value = M[r, q]
            for k in range(q):
                value -= M[r, k] * M[q, k]
            if q < r:
                M[r, q] = value / M[q, q]
            elif value > 0.0:
                M[r, r] = np.sqrt(value)
            else:
                return False
    return True


@njit(cache=True, nogil=True)
def _solve(L, p):  # type: ignore[no-untyped-def]
    """Replace p by the solution of L L' x = p."""
    m = len(p)
    for r in range(m):
        for k in range(r):
            p[r] -= L[r, k] * p[k]
        p[r] /= L[r, r]
    for r in range(m - 1, -1, -1):
        for k in range(r + 1, m):
            p[r] -= L[k, r] * p[k]
        p[r] /= L[r, r]


@njit(cache=True, nogil=True)
def _snap(b, s, t, low, high, least_multiplier):  # type: ignore[no-untyped-def]
    """Put variables whose multiplier is large on their bound, then repair the sum by those that have most room."""
    total = 0.0
    for i in range(len(b)):
        if s[i] - t[i] > least_multiplier:
            b[i] = low[i]
        elif t[i] - s[i] > least_multiplier:
            b[i] = high[i]
        b[i] = min(max(b[i], low[i]), high[i])
        total += b[i]
    for _ in range(len(b)):
        if total == 0.0:
            break
        best, room = 0, 0.0
        for i in range(len(b)):
            there = min(b[i] - low[i], high[i] - b[i])
            if there > room:
                best, room = i, there
        if room == 0.0:
            for i in range(len(b)):
                there = b[i] - low[i] if total > 0.0 else high[i] - b[i]
                if there > room:
                    best, room = i, there
        before = b[best]
        b[best] = min(max(before - total, low[best]), high[best])
        if b[best] == before:
            break
        total += b[best] - before

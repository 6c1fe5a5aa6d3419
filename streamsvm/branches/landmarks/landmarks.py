r"""A rough RBF machine of a few landmarks, and what a row is worth to a kernel machine under it.

A kernel machine of thousands of support vectors is too dear to ask about every row of a stream. A machine of a hundred
landmarks, fitted to the same points, orders rows by their margins nearly as well:

    f(z) = sum_k c_k 2^(<s, l_k> - |s|^2 / 2 - |l_k|^2 / 2) + b,    s = (x - centre) * inverse,

where `inverse` holds the scale of the features and sqrt(2 gamma log2 e), so that the powers are exp(-gamma |z - l|^2).

Invariant: a row's value depends on that row only, never on the rows beside it: arithmetic runs across the rows of a
block, each in its own lane, and no sum is reordered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.coreset.row_kernels import DELTA
from streamsvm.linalg import Float
from streamsvm.points import Features, Points
from streamsvm.vector_math import fused, least, power_of_two, widest_vectors

BLOCK: Final = 128
"""Rows whose arithmetic runs side by side: a tile that the first cache holds for dozens of features."""
FARTHEST: Final = np.float32(1e15)
"""Scaled features beyond this are brought back to it: their squares and the sums of those stay finite in float32, and a
kernel value there is 0 either way."""


@dataclass(frozen=True, slots=True)
class Landmarks:
    """The machine.

    Attributes
    ----------
    scaling : ndarray of shape (2, d)
        Centre and inverse.
    places : ndarray of shape (d, k), float32
        The landmarks, as s.
    coefficients : ndarray of shape (k,)
    intercept : float
    """

    scaling: Float
    places: NDArray[np.float32]
    coefficients: Float
    intercept: float

    def decisions(self, X: Features, known: Decided | None = None) -> Float:
        """Return f at raw points, shape (n,); of rows whose value is known already, in the same order, that value."""
        if known is None or known.landmarks.places is not self.places or known.X.dtype != X.dtype:
            return self._decisions(X)
        place = np.empty(len(X), np.int64)
        places_among(known.X, X, place)
        new = place < 0
        values: Float = known.decision[place]
        if new.any():
            values[new] = self._decisions(X[new])
        return values

    def _decisions(self, X: Features) -> Float:
        n, d = X.shape
        points = Points(X, np.ones(n, np.int8), np.ones(n))
        margin, share = np.empty(n), np.empty(n)
        terms, nothing = np.zeros((2, 6)), np.zeros((0, d))
        every = np.ones(n, np.bool_)
        columns = points.X, points.y, points.weight, every
        evaluate_landmarks(
            *columns, self.scaling, self.places, self.coefficients, self.intercept, terms, margin, share, nothing
        )
        return margin


@dataclass(frozen=True, slots=True)
class Decided:
    """Rows whose values under landmarks are known: since a row's value depends on nothing else, they are as computed.

    Attributes
    ----------
    landmarks : Landmarks
    X : ndarray of shape (n, d)
    decision : ndarray of shape (n,)
    """

    landmarks: Landmarks
    X: Features
    decision: Float


@njit(cache=True, nogil=True)
def evaluate_landmarks(  # type: ignore[no-untyped-def]
    X, y, u, accepted, scaling, places, coefficients, intercept, terms, margin, share, totals
):
    """Fill margin y f(z) and s, shape (n,), and add to the totals, as `streamsvm.coreset.screening_kernels.evaluate`.

    Parameters
    ----------
    X, y, u, accepted : arrays of n rows
        Where `accepted` is False, margin and s have no meaning and nothing is added.
    scaling, places, coefficients, intercept
        As of `Landmarks`.
    terms : ndarray of shape (2, 6)
        Per label; s = (first + second * activity) * sixth, with activity sqrt(clip((1 + DELTA - m) / (2 DELTA), 0, 1)).
    totals : ndarray of shape (3, d) or (0, d)
        Sums of u s and of u s^2 (features), or nothing is added up. The third row stays as it is.
    """
    widest_vectors()
    n, d = X.shape
    count = places.shape[1]
    own = np.empty(count, np.float32)
    for k in range(count):
        square = np.float32(0.0)
        for j in range(d):
            square += places[j, k] * places[j, k]
        own[k] = np.float32(0.5) * square
    S, half, lines = np.zeros((d, BLOCK), np.float32), np.empty(BLOCK, np.float32), np.empty((2, BLOCK), np.float32)
    decision = np.empty(BLOCK)
    for start in range(0, n, BLOCK):
        m = min(BLOCK, n - start)
        _scale_rows(X[start : start + m], scaling, S, half)
        for i in range(BLOCK):
            decision[i] = intercept
        for k in range(0, count, 2):
            other = min(k + 1, count - 1)
            second = coefficients[other] if other > k else 0.0
            _products(S, places[:, k], places[:, other], lines[0], lines[1])
            _add_powers(lines, half, own[k], own[other], coefficients[k], second, decision)
        for i in range(m):
            label = 1 if y[start + i] > 0 else 0
            value = decision[i] if label == 1 else -decision[i]
            activity = np.sqrt(min(1.0, max(0.0, (1.0 + DELTA - value) / (2.0 * DELTA))))
            margin[start + i] = value
            share[start + i] = (terms[label, 0] + terms[label, 1] * activity) * terms[label, 5]
        if len(totals):
            _add_totals(X[start : start + m], u[start : start + m], accepted[start : start + m], scaling, totals)


@njit(nogil=True)
def _scale_rows(X, scaling, S, half):  # type: ignore[no-untyped-def]
    """Fill the scaled features of a block, feature by feature, and half their squares."""
    for i in range(len(half)):
        half[i] = np.float32(0.0)
    for j in range(X.shape[1]):
        c, s, row = scaling[0, j], scaling[1, j], S[j]
        for i in range(len(X)):
            row[i] = min(FARTHEST, max(-FARTHEST, np.float32((np.float64(X[i, j]) - c) * s)))
        for i in range(len(half)):
            half[i] = fused(np.float32(0.5) * row[i], row[i], half[i])


@njit(nogil=True)
def _products(S, one, other, line, second):  # type: ignore[no-untyped-def]
    """Write <s, l> of every row of a block with two landmarks, four features at a time."""
    widest_vectors()
    d = len(S)
    for i in range(len(line)):
        line[i] = second[i] = np.float32(0.0)
    for j in range(0, d - d % 4, 4):
        p0, p1, p2, p3 = one[j], one[j + 1], one[j + 2], one[j + 3]
        q0, q1, q2, q3 = other[j], other[j + 1], other[j + 2], other[j + 3]
        s0, s1, s2, s3 = S[j], S[j + 1], S[j + 2], S[j + 3]
        for i in range(len(line)):
            line[i] = fused(p0, s0[i], fused(p1, s1[i], fused(p2, s2[i], fused(p3, s3[i], line[i]))))
            second[i] = fused(q0, s0[i], fused(q1, s1[i], fused(q2, s2[i], fused(q3, s3[i], second[i]))))
    for j in range(d - d % 4, d):
        p0, q0, s0 = one[j], other[j], S[j]
        for i in range(len(line)):
            line[i] = fused(p0, s0[i], line[i])
            second[i] = fused(q0, s0[i], second[i])


@njit(nogil=True)
def _add_powers(lines, half, own, other, coefficient, second, decision):  # type: ignore[no-untyped-def]
    widest_vectors()
    zero = np.float32(0.0)
    a, b = lines[0], lines[1]
    for i in range(len(a)):
        a[i] = power_of_two(least(a[i] - (half[i] + own), zero))
        b[i] = power_of_two(least(b[i] - (half[i] + other), zero))
    for i in range(len(a)):
        decision[i] = decision[i] + coefficient * np.float64(a[i]) + second * np.float64(b[i])


@njit(cache=True, nogil=True)
def places_among(rows, X, place):  # type: ignore[no-untyped-def]
    """Write where each row of X is found among others, which stand in the same order; -1 from the first that is not."""
    place[:] = -1
    at = 0
    for i in range(len(X)):
        while at < len(rows) and not _equal(rows[at], X[i]):
            at += 1
        if at == len(rows):
            return
        place[i] = at
        at += 1


@njit(nogil=True)
def _equal(one, other):  # type: ignore[no-untyped-def]
    same = True
    for j in range(len(one)):
        same = same and one[j] == other[j]
    return same


@njit(nogil=True)
def _add_totals(X, u, accepted, scaling, totals):  # type: ignore[no-untyped-def]
    """Add rows one after another, so that the order of a sum is that of the rows."""
    for i in range(len(X)):
        if not accepted[i]:
            continue
        weight = u[i]
        for j in range(X.shape[1]):
            z = (np.float64(X[i, j]) - scaling[0, j]) * scaling[1, j]
            totals[0, j] += weight * z
            totals[1, j] += weight * z * z

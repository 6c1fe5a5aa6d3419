"""Compiled passes over the points of sealed buckets, by which the screen of the next leaf is made."""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsvm.common_values import fill_sparse_lengths
from streamsvm.compiling import njit
from streamsvm.coreset.row_kernels import DELTA, label_means
from streamsvm.coreset.screening_kernels import LARGEST_SHARE
from streamsvm.linalg import LANES, Float
from streamsvm.points import Features, Signs, Weights

RATE_STEPS: Final = 6
"""Number of fixed-point steps that find the rate. Each finds points with pi = 1, which raises the rate for the
others."""


@njit(cache=True, nogil=True)
def lengths(rows, others, root, length):  # type: ignore[no-untyped-def]
    """Fill |(z, 1) root| as `fill_lengths` does, by `streamsvm.common_values.Apart` where rows are not dense."""
    if len(others.common):
        fill_sparse_lengths(rows, others, root, length)
    else:
        fill_lengths(rows, root, length)


@njit(cache=True, nogil=True, fastmath={"contract"})
def fill_lengths(rows: Float, root: Float, length: Float) -> None:
    """Fill |(z, 1) root|, shape (n,).

    Parameters
    ----------
    rows : ndarray of shape (n, d + 1)
    root : ndarray of shape (at least d + 1, k)
        Upper triangular if k = d + 1.
    """
    width, k = rows.shape[1], root.shape[1]
    columns = np.ascontiguousarray(root.T)
    packed, side, total = np.zeros((width, LANES)), np.empty(LANES), np.empty(LANES)
    for first in range(0, len(length), LANES):
        count = min(LANES, len(length) - first)
        for lane in range(count):
            for j in range(width):
                packed[j, lane] = rows[first + lane, j]
        total[:] = 0.0
        for c in range(k):
            side[:] = 0.0
            line, end = columns[c], c + 1 if k == width else width
            whole = end - end % 4
            for j in range(0, whole, 4):  # what is loaded and stored once serves four times
                c0, c1, c2, c3 = line[j], line[j + 1], line[j + 2], line[j + 3]
                z0, z1, z2, z3 = packed[j], packed[j + 1], packed[j + 2], packed[j + 3]
                for lane in range(LANES):
                    side[lane] += (c0 * z0[lane] + c1 * z1[lane]) + (c2 * z2[lane] + c3 * z3[lane])
            for j in range(whole, end):
                own, z0 = line[j], packed[j]
                for lane in range(LANES):
                    side[lane] += own * z0[lane]
            for lane in range(LANES):
                total[lane] += side[lane] * side[lane]
        for lane in range(count):
            length[first + lane] = np.sqrt(total[lane])


@njit(cache=True, nogil=True, error_model="numpy")
def fill_terms(own, class_weight, penalty, bound, terms):  # type: ignore[no-untyped-def]
    """Fill `Screen.terms`, not divided by anything: Alg. 1's bound for a point of weight 1 and one cluster per label.

    Parameters
    ----------
    own : ndarray of shape (2,)
        Weight of each label, in the problem.
    class_weight : ndarray of shape (2,)
    penalty, bound : float
        Of the pilot.
    terms : ndarray of shape (2, 6)
    """
    total = own[0] + own[1]
    for label in range(2):
        alpha, term = own[1 - label] / (2.0 * penalty * total * own[label]), terms[label]
        term[0] = 1.0 / own[label]
        term[1] = 8.0 * alpha * alpha * bound
        term[2] = penalty / (4.0 * alpha * bound)
        term[3] = penalty * np.sqrt(2.0 / bound)
        term[4] = penalty * 2.0 * alpha
        term[5] = class_weight[label]


@njit(cache=True, nogil=True, error_model="numpy")
def rule(  # type: ignore[no-untyped-def]
    rows, y, weight, margin, length, expected, terms, shares, mean_weight, target, mean
):
    """Fill what a `Screen` has of the points of sealed buckets.

    Parameters
    ----------
    rows : ndarray of shape (n, d + 1)
    y, weight, margin, length : ndarray of shape (n,)
        Weights with class weights.
    expected : ndarray of shape (n,)
        How many rows to come each point stands for.
    terms : ndarray of shape (2, 6)
        Those of `fill_terms`; changed to those of the screen.
    shares : ndarray of shape (3,)
        Of sensitivity, weight and influence.
    mean_weight : float
        Of a row.
    target : float
        How many rows shall be kept.
    mean : ndarray of shape (2, d)
        Filled with the mean of each label.

    Returns
    -------
    tuple of (float, float)
        Rate, and by what the inverse root is multiplied.
    """
    size = np.empty(len(y))
    sensitive, influential = _fill_worth(rows, y, weight, margin, length, terms, shares, mean, size)
    for i in range(len(size)):
        size[i] *= mean_weight
    for label in range(2):
        for column in (0, 2, 3, 4):
            terms[label, column] *= shares[0] / sensitive
        terms[label, 0] += shares[1]
    scaled = shares[2] / influential if influential > 0.0 else 0.0
    rate = rate_of(size, expected, target)
    return rate, scaled


@njit(nogil=True, error_model="numpy")
def _fill_worth(rows, y, weight, margin, length, terms, shares, mean, size):  # type: ignore[no-untyped-def]
    """Fill the mean of each label, and s as `Screen` has it; return mean sensitivity and influence, by weight."""
    n, d = len(y), mean.shape[1]
    own, influence = np.empty(2), np.empty(n)
    label_means(rows, y, weight, own, mean)
    sensitive = influential = total = 0.0
    # Loop by loop, and no jump within: the compiler makes vectors of most, and nothing is guessed wrongly.
    for i in range(n):
        centre, q = mean[1 if y[i] > 0 else 0], 0.0
        for j in range(d):
            apart = rows[i, j] - centre[j]
            q += apart * apart
        size[i] = q
    (b0, k0, c0, s0, o0, w0), (b1, k1, c1, s1, o1, w1) = terms[0], terms[1]
    for i in range(n):
        q, positive = size[i], y[i] > 0
        near = (c1 if positive else c0) * q
        far = (s1 if positive else s0) * np.sqrt(q) - (o1 if positive else o0)
        size[i] = (b1 if positive else b0) + (near if q <= (k1 if positive else k0) else far)
    for i in range(n):
        part = (1.0 + DELTA - margin[i]) / (2.0 * DELTA)
        influence[i] = length[i] * np.sqrt(min(1.0, part)) if margin[i] < 1.0 + DELTA else 0.0
    for i in range(n):
        sensitive += size[i] * weight[i]
        influential += influence[i] * weight[i]
        total += weight[i]
    sensitive, influential = sensitive / total, influential / total
    a, c = shares[0] / sensitive, shares[2] / influential if influential > 0.0 else 0.0
    for i in range(n):
        found = (a * size[i] + shares[1] + c * influence[i]) * (w1 if y[i] > 0 else w0)
        size[i] = min(LARGEST_SHARE, found)
    return sensitive, influential


@njit(cache=True, nogil=True)
def rate_of(size: Float, expected: Float, target: float) -> float:
    """Return the rate at which the sum of expected * min(1, rate * size) is about the target."""
    rate = 0.0
    for step in range(RATE_STEPS):
        certain, total, before = 0.0, 0.0, rate
        for i in range(len(size)):
            is_certain = step > 0 and rate * size[i] >= 1.0
            certain += expected[i] if is_certain else 0.0
            total += 0.0 if is_certain else expected[i] * size[i]
        free = target - certain
        if free <= 0.0 or total <= 0.0:
            break
        rate = free / total
        if rate == before:
            break
    return rate


@njit(cache=True, nogil=True)
def add_pulls(
    X: Features,
    y: Signs,
    weight: Weights,
    scaling: Float,
    coefficients: Float,
    intercept: float,
    class_weight: Float,
    gradient: Float,
    square: Float,
) -> None:
    """Add the sum of u y z over the active points, with class weights, and of u z^2 over all; both of shape (d,)."""
    d = X.shape[1]
    z = np.empty(d)
    for i in range(len(y)):
        decision = intercept
        for j in range(d):
            z[j] = (np.float64(X[i, j]) - scaling[0, j]) * scaling[1, j]
            decision += z[j] * coefficients[j]
        own = weight[i]
        for j in range(d):
            square[j] += own * z[j] * z[j]
        if y[i] * decision < 1.0:
            signed = own * (class_weight[1] if y[i] > 0 else -class_weight[0])
            for j in range(d):
                gradient[j] += signed * z[j]

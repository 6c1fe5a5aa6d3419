"""Rows that mostly have one and the same value in each column, as those of one-hot features, standardised or not.

What a row has other than the common values is little, so a sum over products of its entries costs the square of that
and not of the width. Dense rows are told from a sample, and take the other way.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.linalg import REORDERED, Float

FEW: Final = 16
"""Columns up to which rows count as dense without a look."""
SAMPLE: Final = 128
"""Rows from which each column's common value is taken."""
DENSE: Final = 0.25
"""Share of values other than the common ones above which rows count as dense."""


def common_values(rows: Float) -> Float:
    """Return each column's most common value by a sample; nothing if too few values are common ones."""
    if rows.shape[1] <= FEW:
        return np.empty(0)
    sample = rows[:: max(1, len(rows) // SAMPLE)]
    # Neighbours that both have a common value are equal: where many are not, nothing need be sorted.
    if np.count_nonzero(sample[1:] != sample[:-1]) > 2.0 * DENSE * sample.size:
        return np.empty(0)
    # Sorting, of a contiguous line a column: numpy's partition finds the same value in twenty times the time.
    common = np.sort(np.ascontiguousarray(sample.T), axis=1)[:, len(sample) // 2].copy()
    return common if np.count_nonzero(sample != common) <= DENSE * sample.size else np.empty(0)


class Apart(NamedTuple):
    """Where rows have other than the common values; arrays only, so that compiled code can take it.

    Attributes
    ----------
    common : ndarray of shape (d,), float64
        Nothing where the rows are dense, as in the others.
    start : ndarray of shape (n + 1,), uint32
    column : ndarray, uint32
        Row i has other values in the columns `column[start[i]:start[i + 1]]`, ascending.
    """

    common: Float
    start: NDArray[np.uint32]
    column: NDArray[np.uint32]


NOTHING: Final = Apart(np.empty(0), np.empty(0, np.uint32), np.empty(0, np.uint32))


def apart(rows: Float) -> Apart:
    """Return where rows, C-contiguous, have other than their common values."""
    if rows.shape[1] <= FEW:
        return NOTHING
    common = common_values(rows)
    if not len(common):
        return NOTHING
    start, column = np.zeros(len(rows) + 1, np.uint32), np.empty(rows.size, np.uint32)
    return Apart(common, start, column[: _find(rows, common, start, column)].copy())


@njit(cache=True, nogil=True)
def _find(rows, common, start, column):  # type: ignore[no-untyped-def]
    """Fill `start` and `column`; return how many there are."""
    at = np.uint64(0)
    for i in range(len(rows)):
        row = rows[i]
        for j in range(len(common)):
            if row[j] != common[j]:
                column[at] = j
                at += np.uint64(1)
        start[i + 1] = at
    return at


@njit(cache=True, nogil=True, fastmath={"contract"})
def add_sparse_gram(rows, others, weight, matrix):  # type: ignore[no-untyped-def]
    """Add sum_i weight_i r_i r_i' to the lower triangle of a matrix; rows of weight 0 are passed over.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
    others : Apart
    weight : ndarray of shape (n,)
    matrix : ndarray of shape (d, d)
    """
    common, start, column = others
    d, total = len(common), 0.0
    value, pull = np.empty(d), np.zeros(d)
    for i in range(len(weight)):
        if weight[i] == 0.0:
            continue
        total += weight[i]
        row, own = rows[i], column[start[i] : start[i + 1]]
        for t in range(len(own)):
            value[t] = row[own[t]] - common[own[t]]
            scaled, line = weight[i] * value[t], matrix[own[t]]
            pull[own[t]] += scaled
            for s in range(t + 1):
                line[own[s]] += scaled * value[s]
    for j in range(d):
        for k in range(j + 1):
            matrix[j, k] += total * common[j] * common[k] + common[j] * pull[k] + pull[j] * common[k]


@njit(cache=True, nogil=True, fastmath=REORDERED)
def fill_sparse_lengths(rows, others, root, length):  # type: ignore[no-untyped-def]
    """Fill |r_i root|, shape (n,).

    Parameters
    ----------
    rows : ndarray of shape (n, d)
    others : Apart
    root : ndarray of shape (at least d, k)
    length : ndarray of shape (n,)
    """
    common, start, column = others
    d, k = len(common), root.shape[1]
    value, metric, pull, of_common = np.empty(d), np.empty((d, d)), np.zeros(d), 0.0
    for j in range(d):
        for m in range(j + 1):
            product = 0.0
            for c in range(k):
                product += root[j, c] * root[m, c]
            metric[j, m] = metric[m, j] = product
    for j in range(d):
        for m in range(d):
            pull[m] += common[j] * metric[j, m]
    for j in range(d):
        of_common += common[j] * pull[j]
    for i in range(len(length)):
        row, own, total = rows[i], column[start[i] : start[i + 1]], of_common
        for t in range(len(own)):
            value[t] = row[own[t]] - common[own[t]]
            line, product = metric[own[t]], pull[own[t]] + 0.5 * value[t] * metric[own[t], own[t]]
            for s in range(t):
                product += value[s] * line[own[s]]
            total += 2.0 * value[t] * product
        length[i] = np.sqrt(max(0.0, total))

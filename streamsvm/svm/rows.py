r"""Points as the solvers of linear machines read them: about an origin, dense or sparse.

Since the bias has no penalty, any point may stand for the origin. If most values of a feature are one and the same, as
in one-hot tables, standardised or not, that value is subtracted: what is left is sparse, and a weighted Gram matrix
costs the square of a row's entries, not of the features.

Invariant: same points, same bits, whatever their place in memory and the number of threads. No BLAS.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.linalg import REORDERED, Float, Index, add_gram

Places = NDArray[np.uint32]
"""Indexes of entries and of features. Compiled code need not check unsigned ones for a negative value, and they take
half the memory of 64 bits: together that halves the time of a sum over sparse rows."""
FEW: Final = 16
"""Features up to which points count as dense without a look."""
SAMPLE: Final = 128
"""Points from which each feature's common value is taken."""
WIDE: Final = 4096
"""Features up to which the points of a block are made dense for the products among them."""
DENSE: Final = 0.25
"""Share of values other than the common ones above which points count as dense."""


class Rows(NamedTuple):
    """Points (z - origin, 1); arrays only, so that compiled code can take it.

    Attributes
    ----------
    origin : ndarray of shape (d,), float64
    sparse : bool
    dense : ndarray of shape (n, d + 1), float64
        Empty if sparse.
    start, feature, value : ndarray
        Point i has `value[start[i]:start[i + 1]]` in those features, ascending, without its 1; empty if dense.
    """

    origin: Float
    sparse: bool
    dense: Float
    start: Places
    feature: Places
    value: Float

    @property
    def entries(self) -> float:
        """Mean number of features in which a point is not at the origin; d of dense points."""
        return len(self.value) / (len(self.start) - 1) if self.sparse else float(len(self.origin))

    def every(self, step: int) -> Rows:
        """Return each step-th point, from the first one on."""
        if not self.sparse:
            return self._replace(dense=np.ascontiguousarray(self.dense[::step]))
        counts = np.diff(self.start)
        kept = np.repeat(np.arange(len(counts)) % step == 0, counts)
        start = places(np.append(0, np.cumsum(counts[::step], dtype=np.int64)))
        return self._replace(start=start, feature=self.feature[kept], value=self.value[kept])


def rows_of(Z: Any) -> Rows:
    """Choose the origin and store points.

    Parameters
    ----------
    Z : ndarray of shape (n, d), float64, or CSR array
        The origin of a CSR array is 0.
    """
    if not isinstance(Z, np.ndarray):
        return Rows(np.zeros(Z.shape[1]), True, np.empty((0, 0)), places(Z.indptr), places(Z.indices), Z.data)
    Z = np.require(Z, np.float64, ["C", "W"])
    rows = sparse_rows(Z, Z.shape[1])
    if rows is not None:
        return rows
    origin, dense = np.zeros(Z.shape[1]), np.empty((len(Z), Z.shape[1] + 1))
    _centre(Z, origin, dense)
    return Rows(origin, False, dense, *_no_entries())


def dense_rows(rows: Float) -> Rows:
    """Return rows (z, 1), shape (n, d + 1), float64, C-contiguous, as they are: no copy is made."""
    return Rows(np.zeros(rows.shape[1] - 1), False, rows, *_no_entries())


def sparse_rows(Z: Float, d: int) -> Rows | None:
    """Store the first d features of points, C-contiguous, about their common values; None if they are dense."""
    if d <= FEW:
        return None
    sample = Z[:: max(1, len(Z) // SAMPLE), :d]
    # Neighbours that both have a common value are equal: where many are not, nothing need be sorted.
    if np.count_nonzero(sample[1:] != sample[:-1]) > 2.0 * DENSE * sample.size:
        return None
    # Sorting, of a contiguous line a feature: numpy's partition finds the same value in twenty times the time.
    common = np.sort(np.ascontiguousarray(sample.T), axis=1)[:, len(sample) // 2].copy()
    if np.count_nonzero(sample != common) > DENSE * sample.size:
        return None
    counts = np.zeros(len(Z) + 1, np.int64)
    _count_entries(Z, common, counts[1:])
    start = np.cumsum(counts)
    if start[-1] > DENSE * len(Z) * d:
        return None
    feature, value = np.empty(start[-1], np.uint32), np.empty(start[-1])
    _pick(Z, common, feature, value)
    return Rows(common, True, np.empty((0, 0)), places(start), feature, value)


class LinearBlocks:
    """The linear kernel of a set of points by explicit coefficients: no column of the kernel matrix is ever made.

    Parameters
    ----------
    Z : ndarray of shape (n, d), float64, C-contiguous, or CSR array

    Attributes
    ----------
    rows : Rows
    computed : int
        0: there are no columns.
    largest : float
        Largest kernel value.
    """

    computed = 0

    def __init__(self, Z: Any) -> None:
        self.rows = rows_of(Z)
        if self.rows.sparse:
            squares = np.append(0.0, np.cumsum(self.rows.value**2))[self.rows.start]
            self.largest = float(np.diff(squares).max())
        else:
            self._Z = self.rows.dense[:, :-1]
            self.largest = float(np.einsum("ij,ij->i", self._Z, self._Z).max())

    def gram(self, members: Index) -> Float:
        """Return the products among some points, shape (m, m)."""
        if not self.rows.sparse:
            own = self._Z[members]
            return np.asarray(own @ own.T, dtype=np.float64)
        found = np.empty((len(members), len(members)))
        products(self.rows, members, found)
        return found

    def add(self, members: Index, change: Float, F: Float) -> None:
        """Add to every F_j the sum over members i of change_i <z_i, z_j>: one product with the change of w."""
        if self.rows.sparse:
            F += self._along(self.coefficients(members, change))
        else:
            F += self._Z @ (change @ self._Z[members])

    def scores(self, members: Index, weights: Float, targets: Index) -> Float:
        """Return sum_i weights_i <z_i, z_j> for some points j, from scratch, shape (len(targets),)."""
        return self._along(self.coefficients(members, weights))[targets]

    def coefficients(self, members: Index, weights: Float) -> Float:
        """Return w = sum_i weights_i (z_i - origin), shape (d,)."""
        if not self.rows.sparse:
            every = len(members) == len(self._Z)
            return np.asarray(weights @ (self._Z if every else self._Z[members]), dtype=np.float64)
        w = np.empty(len(self.rows.origin))
        combine(self.rows, members, weights, w)
        return w

    def _along(self, w: Float) -> Float:
        """Return <z_i - origin, w> for every point, shape (n,)."""
        if not self.rows.sparse:
            return np.asarray(self._Z @ w, dtype=np.float64)
        found = np.empty(len(self.rows.start) - 1)
        score(self.rows, np.append(w, 0.0), found)
        return found


def places(indexes: NDArray[np.integer]) -> Places:
    """Return indexes as 32 bits; raise ValueError if one needs more."""
    if indexes.max(initial=0) > np.iinfo(np.uint32).max:
        raise ValueError(
            f"The rows have {indexes.max():,} values other than 0; the limit is 4,294,967,295. Use fewer rows."
        )
    return indexes.astype(np.uint32)


def _no_entries() -> tuple[Places, Places, Float]:
    """Return `start`, `feature` and `value` of dense points."""
    return np.zeros(1, np.uint32), np.empty(0, np.uint32), np.empty(0)


@njit(cache=True, nogil=True)
def _centre(Z, centre, dense):  # type: ignore[no-untyped-def]
    """Fill `centre` with the mean of the points, and `dense` with (z - centre, 1)."""
    n, d = Z.shape
    for i in range(n):
        for k in range(d):
            centre[k] += Z[i, k]
    for k in range(d):
        centre[k] /= n
    for i in range(n):
        for k in range(d):
            dense[i, k] = Z[i, k] - centre[k]
        dense[i, d] = 1.0


@njit(cache=True, nogil=True)
def _count_entries(Z, common, counts):  # type: ignore[no-untyped-def]
    """Fill `counts`, shape (n,), with the number of features in which each point differs from the common values."""
    for i in range(len(Z)):
        line, count = Z[i], 0
        for k in range(len(common)):
            count += line[k] != common[k]
        counts[i] = count


@njit(cache=True, nogil=True)
def _pick(Z, common, feature, value):  # type: ignore[no-untyped-def]
    """Fill `feature` and `value`, point after point, with where it differs from the common values, and by how much."""
    place = np.uint64(0)
    for i in range(len(Z)):
        for k in range(len(common)):
            if Z[i, k] != common[k]:
                feature[place] = k
                value[place] = Z[i, k] - common[k]
                place += np.uint64(1)


@njit(cache=True, nogil=True, fastmath=REORDERED)
def score(rows, v, out):  # type: ignore[no-untyped-def]
    """Fill `out`, shape (n,), with <(z - origin, 1), v>."""
    d = len(v) - 1
    if rows.sparse:
        start, feature, value = rows.start, rows.feature, rows.value
        for i in range(len(out)):
            found = v[d]
            for t in range(start[i], start[i + 1]):
                found += value[t] * v[feature[t]]
            out[i] = found
    else:
        dense = rows.dense
        for i in range(len(out)):
            found = v[d]
            for j in range(d):
                found += dense[i, j] * v[j]
            out[i] = found


@njit(cache=True, nogil=True, fastmath={"contract"})
def combine(rows, which, weight, w):  # type: ignore[no-untyped-def]
    """Fill w, shape (d,), with sum weight (z - origin) over some points; sparse ones only."""
    start, feature, value = rows.start, rows.feature, rows.value
    for j in range(len(w)):
        w[j] = 0.0
    for at in range(len(which)):
        i, own = which[at], weight[at]
        for t in range(start[i], start[i + 1]):
            w[feature[t]] += own * value[t]


@njit(cache=True, nogil=True, fastmath=REORDERED)
def pull(rows, which, weight, y, sums):  # type: ignore[no-untyped-def]
    """Fill `sums`, shape (2, d + 1), with sum weight (y z, 1) over some points, z from the origin: of -1, and of +1."""
    d = sums.shape[1] - 1
    for j in range(d + 1):
        sums[0, j] = sums[1, j] = 0.0
    start, feature, value, dense = rows.start, rows.feature, rows.value, rows.dense
    for at in range(len(which)):
        i, own = which[at], weight[at]
        signed, line = own * y[i], sums[(y[i] + 1) >> 1]
        if rows.sparse:
            for t in range(start[i], start[i + 1]):
                line[feature[t]] += signed * value[t]
        else:
            row = dense[i]
            for j in range(d):
                line[j] += signed * row[j]
        line[d] += own


@njit(cache=True, nogil=True, fastmath={"contract"})
def add_weighted(rows, which, weight, matrix):  # type: ignore[no-untyped-def]
    """Add sum_i weight_i r_i r_i' over some points to the lower triangle of `matrix`, shape (d + 1, d + 1)."""
    if not rows.sparse:
        add_gram(rows.dense, which, weight, matrix)
        return
    start, feature, value, last = rows.start, rows.feature, rows.value, matrix[len(matrix) - 1]
    for at in range(len(which)):
        i, own = which[at], weight[at]
        for t in range(start[i], start[i + 1]):
            scaled = own * value[t]
            line = matrix[feature[t]]
            for s in range(start[i], t + 1):
                line[feature[s]] += scaled * value[s]
            last[feature[t]] += scaled
        last[len(last) - 1] += own


@njit(cache=True, nogil=True, fastmath={"contract"})
def products(rows, which, found):  # type: ignore[no-untyped-def]
    """Fill `found`, shape (m, m), with <z_i - origin, z_j - origin> among some points; sparse ones only."""
    start, feature, value = rows.start, rows.feature, rows.value
    m, d = len(which), len(rows.origin)
    # Of few features all lines of a feature at once, which are vectors; of many, point after point.
    lanes = m if d <= WIDE else 1
    spread = np.zeros((d, lanes))
    for first in range(0, m, lanes):
        for lane in range(lanes):
            for t in range(start[which[first + lane]], start[which[first + lane] + 1]):
                spread[feature[t], lane] = value[t]
        for at in range(m):
            line = found[at, first : first + lanes]
            for lane in range(lanes):
                line[lane] = 0.0
            for t in range(start[which[at]], start[which[at] + 1]):
                own, column = value[t], spread[feature[t]]
                for lane in range(lanes):
                    line[lane] += own * column[lane]
        if lanes == 1:
            for t in range(start[which[first]], start[which[first] + 1]):
                spread[feature[t], 0] = 0.0


def gram_as_came(rows: Rows, weight: Float) -> Float:
    """Return sum_i weight_i (z_i, 1) (z_i, 1)' of points as they came, not from the origin; only its lower triangle.

    Shape (d + 1, d + 1). What is above the diagonal has no meaning.
    """
    matrix = np.zeros((len(rows.origin) + 1, len(rows.origin) + 1))
    which = np.flatnonzero(weight)
    add_weighted(rows, which, weight[which], matrix)
    line, total, origin = matrix[-1, :-1].copy(), matrix[-1, -1], rows.origin
    matrix[:-1, :-1] += np.outer(origin, line) + np.outer(line + total * origin, origin)
    matrix[-1, :-1] += total * origin
    return matrix

r"""Points as a second-order method needs them: signed rows r_i = y_i (z_i - common, 1), by feature or sparse.

Since the bias is not regularised, any point may stand for the origin. If most values of a feature are one and the same,
as in one-hot tables, standardised or not, that value is subtracted: what is left is sparse, and a weighted Gram matrix
costs the square of a row's entries, not of the features. Otherwise points are centred and stored feature by feature:
every loop then runs along the points, `TILE` of them at a time.

Invariant: same points, same bits, whatever their place in memory and the number of threads. No BLAS.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.linalg import REORDERED, add_gram, dot, factorise, substitute
from streamsvm.model.kernels import Float

Places = NDArray[np.uint32]
"""Indexes of entries and of features. Compiled code need not check unsigned ones for a negative value, and they take
half the memory of 64 bits: together that halves the time of a sum over sparse rows."""
TILE: Final = 512
"""Points whose features are multiplied with each other before the next ones are read."""
FEW: Final = 16
"""Columns up to which rows count as dense without a look."""
SAMPLE: Final = 128
"""Rows from which each column's common value is taken."""
DENSE: Final = 0.25
"""Share of values other than the common ones above which rows count as dense."""
RIDGE: Final = 1e-11
"""Share of the greatest square that is added to every square before points are written in their span."""


class SignedRows(NamedTuple):
    """Rows r_i = y_i (z_i - common, 1); arrays only, so that compiled code can take it.

    Attributes
    ----------
    sign : ndarray of shape (n,), float64
        The last column: y.
    common : ndarray of shape (d,), float64
        What was subtracted.
    sparse : bool
    dense : ndarray of shape (d, n), float64
        The other columns; empty if sparse.
    start, feature, value : ndarray
        Row i has `value[start[i]:start[i + 1]]` in those columns, ascending; empty if dense.
    """

    sign: Float
    common: Float
    sparse: bool
    dense: Float
    start: Places
    feature: Places
    value: Float


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


def signed_rows(Z: Float, y: Float) -> SignedRows:
    """Choose the way of storing and store.

    Parameters
    ----------
    Z : ndarray of shape (n, d), float64
    y : ndarray of shape (n,), -1.0 or +1.0
    """
    Z = np.require(Z, np.float64, ["C", "W"])
    rows = sparse_rows(Z, y, Z.shape[1])
    if rows is not None:
        return rows
    n, d = Z.shape
    centre = np.einsum("ij->j", Z) / n
    dense = np.empty((d, n))
    _transpose(Z, y, centre, dense)
    return SignedRows(y, centre, False, dense, *_no_entries())


def sparse_rows(Z: Float, y: Float, d: int) -> SignedRows | None:
    """Store the first d features of sparse points, C-contiguous; None if they are dense."""
    common = common_values(Z[:, :d])
    return _entries(Z, y, common, DENSE) if len(common) else None


def rows_of_csr(Z: Any, y: Float) -> SignedRows:
    """Store the rows of a CSR array as they are, with 0 as the common value of every feature."""
    start, feature = places(Z.indptr), places(Z.indices)
    value = Z.data * np.repeat(y, np.diff(start))
    return SignedRows(y, np.zeros(Z.shape[1]), True, np.empty((0, 0)), start, feature, value)


def places(found: NDArray[np.integer]) -> Places:
    """Return indexes as 32 bits; raise ValueError if one needs more."""
    if found.max(initial=0) > np.iinfo(np.uint32).max:
        raise ValueError(
            f"The rows have {found.max():,} values other than 0; the limit is 4,294,967,295. Use fewer rows."
        )
    return found.astype(np.uint32)


def spanned(rows: SignedRows) -> SignedRows:
    """Return points of few, in the coordinates of their own span: the rows of a Cholesky factor of their products.

    Every product among points is kept, to `RIDGE`; with fewer points than features a row is shorter so.
    """
    points = _densely(rows)
    products = np.zeros((points.shape[1], points.shape[1]))
    add_gram(points, np.arange(len(points)), np.ones(len(points)), products)
    diagonal = products.diagonal()
    products[np.diag_indices(len(products))] += RIDGE * (float(diagonal.max()) or 1.0)
    assert factorise(products)
    dense = np.ascontiguousarray(np.tril(products).T)
    return SignedRows(rows.sign, np.zeros(len(dense)), False, dense, *_no_entries())


def coefficients_of(rows: SignedRows, span: SignedRows, v: Float) -> Float:
    """Return w, shape (d,), of the coefficients v in `spanned` coordinates."""
    share, scores = np.empty(len(v)), np.empty(len(v))
    multiply(span, np.append(v, 0.0), scores)
    substitute(np.ascontiguousarray(span.dense.T), scores, share)
    w = np.empty(len(rows.common) + 1)
    combine(rows, share, w)
    return w[:-1]


def _densely(rows: SignedRows) -> Float:
    """Return the rows but for their last column, shape (d, n)."""
    if not rows.sparse:
        return rows.dense
    points = np.zeros((len(rows.common), len(rows.sign)))
    points[rows.feature, np.repeat(np.arange(len(rows.sign)), np.diff(rows.start))] = rows.value
    return points


def _no_entries() -> tuple[Places, Places, Float]:
    """Return `start`, `feature` and `value` of dense rows: empty."""
    return np.empty(0, np.uint32), np.empty(0, np.uint32), np.empty(0)


def _entries(Z: Float, y: Float, common: Float, most: float) -> SignedRows | None:
    """Return the rows with the values that differ from the common ones; None if these are more than a share of all."""
    start = np.zeros(len(Z) + 1, np.int64)
    _count(Z, common, start[1:])
    start = np.cumsum(start)
    if start[-1] > most * len(Z) * len(common):
        return None
    feature, value = np.empty(start[-1], np.uint32), np.empty(start[-1])
    _pick(Z, y, common, feature, value)
    return SignedRows(y, common, True, np.empty((0, 0)), places(start), feature, value)


@njit(cache=True, nogil=True)
def _count(Z, common, entries):  # type: ignore[no-untyped-def]
    """Count the entries of each row, shape (n,)."""
    for i in range(len(Z)):
        line, count = Z[i], 0
        for k in range(len(common)):
            count += line[k] != common[k]
        entries[i] = count


@njit(cache=True, nogil=True)
def _pick(Z, y, common, feature, value):  # type: ignore[no-untyped-def]
    """Write the entries of every row."""
    place = np.uint64(0)
    for i in range(len(Z)):
        for k in range(len(common)):
            if Z[i, k] != common[k]:
                feature[place] = k
                value[place] = y[i] * (Z[i, k] - common[k])
                place += np.uint64(1)


@njit(cache=True, nogil=True)
def _transpose(Z, y, centre, dense):  # type: ignore[no-untyped-def]
    """Write signed, centred features, a few points at a time."""
    n, d = Z.shape
    for start in range(0, n, 16):
        for k in range(d):
            for i in range(start, min(n, start + 16)):
                dense[k, i] = y[i] * (Z[i, k] - centre[k])


@njit(cache=True, nogil=True, fastmath={"contract"})
def combine(rows, weight, out):  # type: ignore[no-untyped-def]
    """Fill `out`, shape (d + 1,), with sum_i weight_i r_i."""
    d = len(out) - 1
    out[d] = dot(weight, rows.sign)
    if rows.sparse:
        out[:d] = 0.0
        for i in range(len(weight)):
            for t in range(rows.start[i], rows.start[i + 1]):
                out[rows.feature[t]] += weight[i] * rows.value[t]
    else:
        for k in range(d):
            out[k] = dot(weight, rows.dense[k])


@njit(cache=True, nogil=True, fastmath={"contract"})
def multiply(rows, v, out):  # type: ignore[no-untyped-def]
    """Fill `out`, shape (n,), with <r_i, v>."""
    d, n = len(v) - 1, len(out)
    for i in range(n):
        out[i] = v[d] * rows.sign[i]
    if rows.sparse:
        for i in range(n):
            total = 0.0
            for t in range(rows.start[i], rows.start[i + 1]):
                total += rows.value[t] * v[rows.feature[t]]
            out[i] += total
        return
    whole = d - d % 4
    for k in range(0, whole, 4):
        v0, v1, v2, v3 = v[k], v[k + 1], v[k + 2], v[k + 3]
        x0, x1, x2, x3 = rows.dense[k], rows.dense[k + 1], rows.dense[k + 2], rows.dense[k + 3]
        for i in range(n):
            out[i] += (v0 * x0[i] + v1 * x1[i]) + (v2 * x2[i] + v3 * x3[i])
    for k in range(whole, d):
        v0, x0 = v[k], rows.dense[k]
        for i in range(n):
            out[i] += v0 * x0[i]


@njit(cache=True, nogil=True, fastmath={"contract"})
def sparse_gram(rows, members, d, products):  # type: ignore[no-untyped-def]
    """Fill `products`, shape (m, m), with those among some points without their signs; sparse rows only."""
    m = len(members)
    features = np.zeros((d, m))
    for i in range(m):
        for t in range(rows.start[members[i]], rows.start[members[i] + 1]):
            features[rows.feature[t], i] = rows.sign[members[i]] * rows.value[t]
    for i in range(m):
        line = products[i]
        line[:] = 0.0
        for t in range(rows.start[members[i]], rows.start[members[i] + 1]):
            value, feature = rows.sign[members[i]] * rows.value[t], features[rows.feature[t]]
            for j in range(m):
                line[j] += value * feature[j]


@njit(cache=True, nogil=True, fastmath={"contract"})
def sparse_sum(rows, members, weight, w):  # type: ignore[no-untyped-def]
    """Fill w, shape (d,), with the sum over members i of weight_i (z_i - common); sparse rows only."""
    w[:] = 0.0
    for i in range(len(members)):
        scaled = weight[i] * rows.sign[members[i]]
        for t in range(rows.start[members[i]], rows.start[members[i] + 1]):
            w[rows.feature[t]] += scaled * rows.value[t]


@njit(cache=True, nogil=True, fastmath={"contract"})
def sparse_add(rows, w, targets, scores):  # type: ignore[no-untyped-def]
    """Add <w, z_i - common> to the scores of some points; sparse rows only."""
    for place in range(len(targets)):
        i = targets[place]
        total = 0.0
        for t in range(rows.start[i], rows.start[i + 1]):
            total += rows.value[t] * w[rows.feature[t]]
        scores[place] += rows.sign[i] * total


@njit(cache=True, nogil=True)
def weighted_gram(rows, weight, matrix):  # type: ignore[no-untyped-def]
    """Fill the lower triangle of `matrix`, shape (d + 1, d + 1), with sum_i weight_i r_i r_i'."""
    d = len(matrix) - 1
    for j in range(d + 1):
        matrix[j, : j + 1] = 0.0
    if rows.sparse:
        _add_sparse(rows.start, rows.feature, rows.value, rows.sign, weight, matrix)
    else:
        scaled = np.empty(TILE)
        for first in range(0, len(weight), TILE):
            last = min(len(weight), first + TILE)
            _add_dense(rows.dense, rows.sign, weight, first, last, scaled[: last - first], matrix)


def gram_as_came(rows: SignedRows, weight: Float) -> Float:
    """Return sum_i weight_i (z_i, 1) (z_i, 1)', shape (d + 1, d + 1), of which the lower triangle holds."""
    matrix = np.zeros((len(rows.common) + 1, len(rows.common) + 1))
    weighted_gram(rows, weight, matrix)
    line, total, common = matrix[-1, :-1].copy(), matrix[-1, -1], rows.common
    matrix[:-1, :-1] += np.outer(common, line) + np.outer(line + total * common, common)
    matrix[-1, :-1] += total * common
    return matrix


@njit(cache=True, nogil=True, fastmath={"contract"})
def _add_sparse(start, feature, value, sign, weight, matrix):  # type: ignore[no-untyped-def]
    """Add entry by entry."""
    last = matrix[-1]
    for i in range(len(weight)):
        if weight[i] == 0.0:
            continue
        for t in range(start[i], start[i + 1]):
            scaled = weight[i] * value[t]
            line = matrix[feature[t]]
            for s in range(start[i], t + 1):
                line[feature[s]] += scaled * value[s]
            last[feature[t]] += scaled * sign[i]
        last[-1] += weight[i] * (sign[i] * sign[i])


@njit(cache=True, nogil=True, fastmath=REORDERED)
def _add_dense(dense, sign, weight, first, last, scaled, matrix):  # type: ignore[no-untyped-def]
    """Add a tile of points: products of one scaled feature with four others at a time."""
    d, width = len(dense), last - first
    own_weight = weight[first:last]
    for j in range(d + 1):
        own = dense[j, first:last] if j < d else sign[first:last]
        for i in range(width):
            scaled[i] = own_weight[i] * own[i]
        count = min(j + 1, d)
        whole = count - count % 4
        line = matrix[j]
        for k in range(0, whole, 4):
            x0, x1 = dense[k, first:last], dense[k + 1, first:last]
            x2, x3 = dense[k + 2, first:last], dense[k + 3, first:last]
            s0 = s1 = s2 = s3 = 0.0
            for i in range(width):
                s0 += scaled[i] * x0[i]
                s1 += scaled[i] * x1[i]
                s2 += scaled[i] * x2[i]
                s3 += scaled[i] * x3[i]
            line[k] += s0
            line[k + 1] += s1
            line[k + 2] += s2
            line[k + 3] += s3
        for k in range(whole, count):
            line[k] += dot(scaled, dense[k, first:last])
        if j == d:
            line[d] += dot(scaled, own)

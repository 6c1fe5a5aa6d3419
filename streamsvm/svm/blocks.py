r"""Kernel values of a few points against many, made where they are used and thrown away.

A block is a few points ("rows") times a run of others; the exponent of the RBF kernel is

    -gamma |z_i - z_j|^2 = <s_i, s_j> - h_i - h_j,    s = sqrt(2 gamma) (z - centre),   h = |s|^2 / 2,

so a row is a sum of features times numbers, then exp. Points are stored feature by feature: every loop runs along the
points, `TILE` of them at a time, so that a tile stays in the first-level cache and the compiler makes vectors of it.
Three ways to the products, by what a point costs:

- *few features*: four rows at a time, so that a feature once loaded serves four;
- *sparse*: only the features in which a row differs from the centre, which is then each feature's most common value (a
  standardised one-hot table is sparse around it, though it has no zeros);
- *many features*: a matrix product (BLAS).

Invariant: values depend on the points and the precision, not on tiles or on where an array lies in memory; sums over
rows are float64, in the order of the rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamsvm.svm.columns import Index
from streamsvm.svm.exponential import exponentials, fused
from streamsvm.svm.kernels import Float

Values = NDArray[np.float32 | np.float64]

TILE = 512
"""Points of a tile: of four rows and four features 16 KiB in float32."""
CHUNK = 4096
"""Points whose float64 features are held at once when sums are made from scratch; a multiple of `TILE`."""
SAMPLE = 256
"""Points by which sparsity is judged."""
DENSE = 0.3
"""Share of features different from the centre above which points count as dense."""
FEW = 48
"""Features up to which products are made here rather than by BLAS, whose packing costs more than it saves there."""


class Layout(NamedTuple):
    """How points are stored.

    Attributes
    ----------
    centre : ndarray of shape (d,), float64
    scale : float
        sqrt(2 gamma).
    sparse : bool
    """

    centre: Float
    scale: float
    sparse: bool


class Rows(NamedTuple):
    """Some points, ready to be multiplied with others; arrays only, so that compiled code can take it.

    Attributes
    ----------
    dense : ndarray of shape (m, d)
    half : ndarray of shape (m,)
        |s|^2 / 2.
    start, feature : ndarray of int64
        Row i differs from the centre in the features `feature[start[i]:start[i + 1]]`; empty unless sparse.
    value : ndarray
        By how much, for each entry of `feature`.
    """

    dense: Values
    half: Values
    start: Index
    feature: Index
    value: Values


def layout_of(Z: Float, gamma: float) -> Layout:
    """Choose the centre and whether points are sparse around it, from an even sample of them."""
    sample = Z[:: max(1, len(Z) // SAMPLE)]
    scale = float(np.sqrt(2.0 * gamma))
    if Z.shape[1] > 8:
        common = np.sort(sample, axis=0)[len(sample) // 2]
        if np.count_nonzero(sample != common) < DENSE * sample.size:
            return Layout(common, scale, sparse=True)
    return Layout(Z.mean(axis=0), scale, sparse=False)


class RbfBlocks:
    """The RBF kernel of a set of points.

    Parameters
    ----------
    Z : ndarray of shape (n, d), float64, C-contiguous
    gamma : float
    precision : type
        float32 or float64, of the kernel values.

    Attributes
    ----------
    computed : int
        Columns of the whole kernel matrix that were computed so far.
    largest : float
        Largest kernel value: 1.
    value_error : float
        Bound on the error of one kernel value: that of a sum of d + 2 terms, none above 2 h, and of its exponential.
    """

    largest = 1.0

    def __init__(self, Z: Float, gamma: float, precision: type[np.float32 | np.float64]) -> None:
        self._Z, self._precision = Z, precision
        self.layout = layout_of(Z, gamma)
        self._features, self._half = _spread(Z, 0, len(Z), self.layout, precision)
        self.value_error = float(np.finfo(precision).eps) * (4.0 + 4.0 * (Z.shape[1] + 4) * float(self._half.max()))
        self._by_product = not self.layout.sparse and Z.shape[1] > FEW
        self.computed = 0

    def gram(self, members: Index) -> Values:
        """Return the kernel values among some points, shape (m, m); exactly 1 on the diagonal."""
        rows = _rows_of(self._Z, members, self.layout, self._precision)
        K: Values = np.empty((len(members), len(members)), self._precision)
        features = np.ascontiguousarray(rows.dense.T)
        if self._by_product:
            np.dot(rows.dense, features, out=K)
            _finish(K, rows.half)
        else:
            _values(features, rows, self.layout.sparse, K)
        return K

    def add(self, members: Index, change: Float, F: Float) -> None:
        """Add to every F_j the sum over members i of change_i k_ij.

        Parameters
        ----------
        members : ndarray of shape (m,), int64
        change : ndarray of shape (m,), float64
        F : ndarray of shape (n,), float64
            In and out.
        """
        self.computed += len(members)
        rows = _rows_of(self._Z, members, self.layout, self._precision)
        if self._by_product:
            _add_by_product(self._features, self._half, rows, change, F)
        else:
            _add(self._features, self._half, rows, self.layout.sparse, change, F)

    def scores(self, members: Index, weights: Float, targets: Index) -> Float:
        """Return sum_i weights_i k_ij for some points j, from scratch and in float64, shape (len(targets),)."""
        points = self._Z if len(targets) == len(self._Z) else self._Z[targets]
        return rbf_sums(self._Z, members, weights, points, self.layout)


def rbf_sums(Z: Float, members: Index, weights: Float, targets: Float, layout: Layout) -> Float:
    """Return sum_i weights_i k(z_i, t) over the members i of Z, for every target t; float64.

    Parameters
    ----------
    Z : ndarray of shape (n, d), float64, C-contiguous
    members : ndarray of shape (m,), int64
    weights : ndarray of shape (m,), float64
    targets : ndarray of shape (k, d), float64, C-contiguous
    layout : Layout
        Of the same kernel.

    Returns
    -------
    ndarray of shape (k,), float64
    """
    rows = _rows_of(Z, members, layout, np.float64)
    sums = np.zeros(len(targets))
    by_product = not layout.sparse and Z.shape[1] > FEW
    for start in range(0, len(targets), CHUNK):
        stop = min(len(targets), start + CHUNK)
        features, half = _spread(targets, start, stop, layout, np.float64)
        if by_product:
            _add_by_product(features, half, rows, weights, sums[start:stop])
        else:
            _add(features, half, rows, layout.sparse, weights, sums[start:stop])
    return sums


def is_compiled(precision: type, by_product: bool) -> bool:
    """Whether this process has code for a precision and way of multiplying."""
    part: Any = _finish if by_product else _values
    return any(signature[0].dtype.name == precision.__name__ for signature in part.signatures)


def _spread(Z: Float, start: int, stop: int, layout: Layout, precision: type) -> tuple[Values, Values]:
    """Return scaled features of a run of points, shape (d, stop - start), and half their squares."""
    features: Values = np.empty((Z.shape[1], stop - start), precision)
    half: Values = np.empty(stop - start, precision)
    _fill(Z[start:stop], layout.centre, layout.scale, features, half)
    return features, half


def _rows_of(Z: Float, members: Index, layout: Layout, precision: type) -> Rows:
    m, d = len(members), Z.shape[1]
    dense: Values = np.empty((m, d), precision)
    half: Values = np.empty(m, precision)
    room = m * d if layout.sparse else 0
    start, feature, value = np.zeros(m + 1, np.int64), np.empty(room, np.int64), np.empty(room, precision)
    _gather(Z, members, layout.centre, layout.scale, layout.sparse, dense, half, start, feature, value)
    return Rows(dense, half, start, feature, value)


@njit(cache=True, nogil=True)
def _fill(Z, centre, scale, features, half):  # type: ignore[no-untyped-def]
    """Write scaled features, transposed a few points at a time, and half the squares, summed in float64."""
    n, d = Z.shape
    squares = np.empty(16)
    for start in range(0, n, 16):
        stop = min(n, start + 16)
        squares[:] = 0.0
        for k in range(d):
            for j in range(start, stop):
                s = (Z[j, k] - centre[k]) * scale
                squares[j - start] += s * s
                features[k, j] = s
        for j in range(start, stop):
            half[j] = 0.5 * squares[j - start]


@njit(cache=True, nogil=True)
def _gather(Z, members, centre, scale, sparse, dense, half, start, feature, value):  # type: ignore[no-untyped-def]
    """Write the parts of `Rows`; the same arithmetic as `_fill`."""
    filled = 0
    for r in range(len(members)):
        square = 0.0
        for k in range(Z.shape[1]):
            s = (Z[members[r], k] - centre[k]) * scale
            square += s * s
            dense[r, k] = s
            if sparse and s != 0.0:
                feature[filled] = k
                value[filled] = s
                filled += 1
        half[r] = 0.5 * square
        start[r + 1] = filled


@njit(cache=True, nogil=True)
def _values(features, rows, sparse, K):  # type: ignore[no-untyped-def]
    """Write the kernel values of every row with every row, the diagonal exactly 1."""
    m = len(rows.half)
    spare = np.empty((4, m), K.dtype)
    for r in range(0, m - m % 4, 4):
        _four(features, rows.half, 0, m, rows, sparse, r, K[r : r + 4])
    if m % 4:
        _four(features, rows.half, 0, m, rows, sparse, m - m % 4, spare)
        K[m - m % 4 :] = spare[: m % 4]
    for i in range(m):
        K[i, i] = 1.0


@njit(cache=True, nogil=True)
def _add(features, half, rows, sparse, change, F):  # type: ignore[no-untyped-def]
    """Add change' K to F, tile by tile, four rows at a time."""
    n, m = len(half), len(rows.half)
    out = np.empty((4, min(n, TILE)), features.dtype)
    for first in range(0, n, TILE):
        last = min(n, first + TILE)
        for r in range(0, m, 4):
            _four(features, half, first, last, rows, sparse, r, out)
            _add_four(out, change, r, F[first:last])


@njit(cache=True, nogil=True)
def _four(features, half, first, last, rows, sparse, r, out):  # type: ignore[no-untyped-def]
    """Write the kernel values of four rows from r with a run of points; beyond the last row, those of the last.

    Every line is a slice of one row of a contiguous array: of any other, the compiler could make no vectors.
    """
    width = last - first
    final = len(rows.half) - 1
    for k in range(4):
        i = min(r + k, final)
        own = rows.half[i]
        values, halves = out[k, :width], half[first:last]
        for j in range(width):
            values[j] = -(halves[j] + own)
        if sparse:
            _add_features(features, first, rows.feature, rows.value, rows.start[i], rows.start[i + 1], values)
    if not sparse:
        dense = rows.dense
        a, b, c, d = dense[r], dense[min(r + 1, final)], dense[min(r + 2, final)], dense[min(r + 3, final)]
        _multiply_four(features, first, a, b, c, d, out[0, :width], out[1, :width], out[2, :width], out[3, :width])
    for k in range(4):
        exponentials(out[k, :width])


@njit(cache=True, nogil=True)
def _add_features(features, first, feature, value, start, stop, out):  # type: ignore[no-untyped-def]
    """Add to `out` the sum over t of value_t times feature_t's line, four lines at a time."""
    last = first + len(out)
    t = start
    while t + 4 <= stop:
        v0, v1, v2, v3 = value[t], value[t + 1], value[t + 2], value[t + 3]
        x0, x1 = features[feature[t], first:last], features[feature[t + 1], first:last]
        x2, x3 = features[feature[t + 2], first:last], features[feature[t + 3], first:last]
        for j in range(len(out)):
            out[j] = fused(v0, x0[j], fused(v1, x1[j], fused(v2, x2[j], fused(v3, x3[j], out[j]))))
        t += 4
    while t < stop:
        v0, x0 = value[t], features[feature[t], first:last]
        for j in range(len(out)):
            out[j] = fused(v0, x0[j], out[j])
        t += 1


@njit(cache=True, nogil=True)
def _multiply_four(features, first, a, b, c, d, o, p, q, s):  # type: ignore[no-untyped-def]
    """Add to four lines the products of four points a, b, c, d with a run of others, four features at a time."""
    many, last = len(features), first + len(o)
    k = 0
    while k + 4 <= many:
        x0, x1 = features[k, first:last], features[k + 1, first:last]
        x2, x3 = features[k + 2, first:last], features[k + 3, first:last]
        a0, a1, a2, a3 = a[k], a[k + 1], a[k + 2], a[k + 3]
        b0, b1, b2, b3 = b[k], b[k + 1], b[k + 2], b[k + 3]
        c0, c1, c2, c3 = c[k], c[k + 1], c[k + 2], c[k + 3]
        d0, d1, d2, d3 = d[k], d[k + 1], d[k + 2], d[k + 3]
        for j in range(len(o)):
            y0, y1, y2, y3 = x0[j], x1[j], x2[j], x3[j]
            o[j] = fused(a0, y0, fused(a1, y1, fused(a2, y2, fused(a3, y3, o[j]))))
            p[j] = fused(b0, y0, fused(b1, y1, fused(b2, y2, fused(b3, y3, p[j]))))
            q[j] = fused(c0, y0, fused(c1, y1, fused(c2, y2, fused(c3, y3, q[j]))))
            s[j] = fused(d0, y0, fused(d1, y1, fused(d2, y2, fused(d3, y3, s[j]))))
        k += 4
    while k < many:
        x0 = features[k, first:last]
        a0, b0, c0, d0 = a[k], b[k], c[k], d[k]
        for j in range(len(o)):
            o[j] = fused(a0, x0[j], o[j])
            p[j] = fused(b0, x0[j], p[j])
            q[j] = fused(c0, x0[j], q[j])
            s[j] = fused(d0, x0[j], s[j])
        k += 1


@njit(cache=True, nogil=True)
def _add_four(values, change, r, F):  # type: ignore[no-untyped-def]
    """Add four rows times their changes to F; rows beyond the last change count 0."""
    m, width = len(change), len(F)
    c0 = change[r]
    c1 = change[r + 1] if r + 1 < m else 0.0
    c2 = change[r + 2] if r + 2 < m else 0.0
    c3 = change[r + 3] if r + 3 < m else 0.0
    a, b, c, d = values[0, :width], values[1, :width], values[2, :width], values[3, :width]
    for j in range(width):
        F[j] += c0 * np.float64(a[j]) + c1 * np.float64(b[j]) + c2 * np.float64(c[j]) + c3 * np.float64(d[j])


@njit(cache=True, nogil=True)
def _add_by_product(features, half, rows, change, F):  # type: ignore[no-untyped-def]
    """Add change' K to F, with a matrix product for each tile."""
    n, m = len(half), len(rows.half)
    for first in range(0, n, TILE):
        last = min(n, first + TILE)
        products = np.dot(rows.dense, np.ascontiguousarray(features[:, first:last]))
        for i in range(m):
            line = products[i]
            for j in range(last - first):
                line[j] -= half[first + j] + rows.half[i]
            exponentials(line)
        for r in range(0, m - m % 4, 4):
            _add_four(products[r : r + 4], change, r, F[first:last])
        for i in range(m - m % 4, m):
            for j in range(last - first):
                F[first + j] += change[i] * np.float64(products[i, j])


@njit(cache=True, nogil=True)
def _finish(K, half):  # type: ignore[no-untyped-def]
    """Turn products into kernel values, the diagonal exactly 1."""
    for i in range(len(half)):
        line = K[i]
        for j in range(len(half)):
            line[j] -= half[j] + half[i]
        exponentials(line)
        line[i] = 1.0

r"""RBF kernel values: for training, landmarks and scoring, computed where they are used, and not stored.

A block of the kernel matrix is a few points ("rows") times a tile of other points. The RBF kernel is a power of two,

    k_ij = 2^(<s_i, s_j> - h_i - h_j),    s = sqrt(2 gamma log2 e) (z - centre),   h = |s|^2 / 2,

so a row of kernel values is a sum of products with features, followed by a power. Points are stored tile by tile and,
within a tile, feature by feature, each feature's line aligned to a cache line. So every loop runs along the points of
one tile, which stays in a fast cache, and the compiler can use vector instructions. The products are computed in one of
two ways:

- *dense*: by a matrix product (BLAS). The number of rows per product is chosen so that OpenBLAS uses its path for small
  matrices, which skips the packing of its arguments.
- *sparse*: over those features only in which a row differs from the centre, which is then each feature's most common
  value. (A standardised one-hot table is sparse around that centre, although it has no zeros.)

Invariant: values depend on the points and the precision, not on the address of an array; sums over rows are float64, in
an order that depends on the numbers of rows and points only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.linalg import Index
from streamsvm.model.kernels import Float
from streamsvm.vector_math import fused, least, power_of_two, widest_vectors

Values = NDArray[np.float32 | np.float64]

CACHE_LINE = 64
SPARSE_LINE, DENSE_LINE = 2048, 1024
"""Bytes of a feature's line in a tile; longer in the sparse way, which reads few features of a row."""
SPARSE_ROWS = 4
SMALL_PRODUCT = 1_000_000
"""Number of multiply-adds up to which OpenBLAS treats a matrix product as small."""
FEWEST_ROWS, MOST_ROWS = 32, 256
"""Fewest rows for which a small product pays off; rows of a product where it cannot be small."""
STRIP = 16
"""Number of points that are transposed together."""
SAMPLE = 128
"""Number of sampled points by which sparsity is judged."""
DENSE = 0.3
"""Points count as dense if more than this share of their features differs from the centre."""
CSR_VALUES, CSR_ENTRIES = 1 << 20, 1 << 22
"""Of CSR points, kernel values that are made at a time (8 MB), and values of points that are made dense (32 MB)."""
TILE = 512
"""Points whose kernel values with those of machines are in use at once: with 1,000 others they take 2 MB."""


class Layout(NamedTuple):
    """How points are stored.

    Attributes
    ----------
    centre : ndarray of shape (d,), float64
    scale : float
        sqrt(2 gamma log2 e).
    sparse : bool
        Whether products are summed over those features only in which a row differs from the centre.
    """

    centre: Float
    scale: float
    sparse: bool


class Tiles(NamedTuple):
    """Many points in the layout of the kernel loops; arrays only, so that compiled code can take it.

    Attributes
    ----------
    features : ndarray of shape (tiles, d, width)
        0 beyond the last point.
    half : ndarray of shape (tiles, width)
        |s|^2 / 2.
    room : ndarray of shape (rows, width)
        Work space for the kernel values of this many rows with one tile; so many rows are taken at a time.
    """

    features: Values
    half: Values
    room: Values


class TileRows(NamedTuple):
    """Some points, scaled, to be multiplied with the points of tiles.

    Attributes
    ----------
    dense : ndarray of shape (m, d)
    half : ndarray of shape (m,)
        |s|^2 / 2.
    start, feature : ndarray of int64
        Row i differs from the centre in the features `feature[start[i]:start[i + 1]]`; empty unless sparse.
    value : ndarray
        The difference, for each entry of `feature`.
    """

    dense: Values
    half: Values
    start: Index
    feature: Index
    value: Values


def layout_of(Z: Float, gamma: float) -> Layout:
    """Choose the centre, and decide whether points are sparse around it, from an even sample of them."""
    sample = Z[:: max(1, len(Z) // SAMPLE)]
    scale = float(np.sqrt(2.0 * gamma * np.log2(np.e)))
    if Z.shape[1] > 8:
        common = np.sort(np.ascontiguousarray(sample.T), axis=1)[:, len(sample) // 2].copy()
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
    """

    largest = 1.0

    def __init__(self, Z: Float, gamma: float, precision: type[np.float32 | np.float64]) -> None:
        self._Z, self._precision = Z, precision
        self.layout = layout_of(Z, gamma)
        self._tiles = _tiles_of(Z, np.arange(len(Z)), self.layout, precision)
        self.computed = 0

    def gram(self, members: Index) -> Values:
        """Return the kernel values among some points, shape (m, m); exactly 1 on the diagonal."""
        K = self.cross(members, members)
        np.fill_diagonal(K, 1.0)
        return K

    def cross(self, members: Index, others: Index) -> Values:
        """Return the kernel values of some points with others, shape (m, k)."""
        rows = _rows_of(self._Z, members, self.layout, self._precision)
        K: Values = np.empty((len(members), len(others)), self._precision)
        every = np.array_equal(others, np.arange(len(self._Z)))
        tiles = self._tiles if every else _tiles_of(self._Z, others, self.layout, self._precision)
        _gram(tiles, rows, self.layout.sparse, K)
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
        _add(self._tiles, rows, self.layout.sparse, change, F)

    def uncertainty(self, members: Index, amounts: Float) -> Float:
        """Return a bound on the error of every F_j after `add` of changes with these absolute sums, shape (n,).

        A kernel value is 2 to an exponent of at most 0, so its error is at most the exponent's error plus the rounding
        of the power. The exponent is <s_i, s_j>, a sum with one term for each feature in which row i differs from the
        centre, minus h_i + h_j; the scaled features are rounded, too.

        Parameters
        ----------
        members : ndarray of shape (m,), int64
        amounts : ndarray of shape (m,), float64
            Sum of the absolute changes of each member.
        """
        rows = _rows_of(self._Z, members, self.layout, np.float64)
        terms = np.diff(rows.start) if self.layout.sparse else np.full(len(members), self._Z.shape[1])
        half = self._tiles.half.reshape(-1)[: len(self._Z)].astype(np.float64)
        products = float(amounts @ ((terms + 3.0) * np.sqrt(2.0 * rows.half))) * np.sqrt(2.0 * half)
        halves = 4.0 * float(amounts @ rows.half) + 4.0 * float(amounts.sum()) * (half + 1.0)
        return np.asarray(0.5 * float(np.finfo(self._precision).eps) * (products + halves), dtype=np.float64)

    def scores(self, members: Index, weights: Float, targets: Index) -> Float:
        """Return sum_i weights_i k_ij for some points j, from scratch and in float64, shape (len(targets),)."""
        return rbf_sums(self._Z, members, weights, targets, self.layout)


def rbf_sums(Z: Float, members: Index, weights: Float, targets: Index, layout: Layout) -> Float:
    """Return sum_i weights_i k_ij over the members i, for every target j; float64.

    Parameters
    ----------
    Z : ndarray of shape (n, d), float64, C-contiguous
    members : ndarray of shape (m,), int64
        Distinct.
    weights : ndarray of shape (m,), float64
    targets : ndarray of shape (k,), int64
        Distinct.
    layout : Layout

    Returns
    -------
    ndarray of shape (k,), float64
    """
    if not len(members):
        return np.zeros(len(targets))
    sums = np.zeros(len(Z))
    rows = _rows_of(Z, members, layout, np.float64)
    wanted = np.zeros(len(Z), np.bool_)
    wanted[targets] = True
    if wanted[members].all():
        within = np.zeros(len(members))
        _add_within(_tiles_of(Z, members, layout, np.float64), rows, layout.sparse, weights, within)
        sums[members] = within
        wanted[members] = False
    others = np.flatnonzero(wanted)
    if len(others):
        outside = np.zeros(len(others))
        _add(_tiles_of(Z, others, layout, np.float64), rows, layout.sparse, weights, outside)
        sums[others] = outside
    return np.asarray(sums[targets], dtype=np.float64)


def tile_rows(Z: Float, layout: Layout) -> TileRows:
    """Return points as `add_kernel_rows` takes them."""
    return _rows_of(Z, np.arange(len(Z)), layout, np.float64)


def add_kernel_rows(Z: Float, rows: TileRows, layout: Layout, weights: Float, sums: Float) -> None:
    """Add to every sum_j the sum over rows i of weights_i k(row_i, z_j); float64."""
    if len(Z):
        _add(_tiles_of(Z, np.arange(len(Z)), layout, np.float64), rows, layout.sparse, weights, sums)


class CsrRbfBlocks:
    """The RBF kernel of the points of a CSR array, float64, by matrix products; methods mean what `RbfBlocks`'s do."""

    largest = 1.0

    def __init__(self, Z: Any, gamma: float) -> None:
        self._Z, self._factor = Z, gamma * float(np.log2(np.e))
        self._half = self._factor * np.asarray(Z.multiply(Z).sum(axis=1)).ravel()
        self.computed = 0

    def gram(self, members: Index) -> Float:
        """Return the kernel values among some points, shape (m, m)."""
        K = np.empty((len(members), len(members)))
        for part in self._parts(len(members), len(members)):
            K[part] = self._values(members[part], members)
        return K

    def add(self, members: Index, change: Float, F: Float) -> None:
        """Add to every F_j the sum over members i of change_i k_ij."""
        self.computed += len(members)
        F += self.scores(members, change, np.arange(len(F)))

    def scores(self, members: Index, weights: Float, targets: Index) -> Float:
        """Return sum_i weights_i k_ij for some points j, shape (len(targets),)."""
        scores = np.zeros(len(targets))
        for part in self._parts(len(members), len(targets)):
            scores += weights[part] @ self._values(members[part], targets)
        return scores

    def _values(self, rows: Index, columns: Index) -> Float:
        """Return the kernel values of some points with others, shape (len(rows), len(columns))."""
        every = len(columns) == len(self._half)
        others, half = (self._Z, self._half) if every else (self._Z[columns], self._half[columns])
        # Sparse times dense is a loop along the lines of the dense matrix; sparse times sparse is not.
        found = others @ np.ascontiguousarray(self._Z[rows].toarray().T)
        found *= 2.0 * self._factor
        _all_powers(found, half, self._half[rows])
        return np.asarray(found.T, dtype=np.float64)

    def _parts(self, rows: int, columns: int) -> list[slice]:
        """Divide rows so that neither their kernel values nor the rows themselves, made dense, take much memory."""
        size = max(1, min(CSR_VALUES // max(1, columns), CSR_ENTRIES // self._Z.shape[1]))
        return [slice(start, min(rows, start + size)) for start in range(0, rows, size)]


class KernelRows:
    """The RBF kernel among a few points, computed once for any number of runs; float32.

    Parameters
    ----------
    Z : ndarray of shape (n, d), float64, C-contiguous
    gamma : float
    before : KernelRows, optional
        The same points with a smaller gamma; its kernel values may be overwritten. Where gamma is twice or four times
        as large, they are squared: a tenth of the work.
    """

    largest = 1.0
    computed = 0

    def __init__(self, Z: Float, gamma: float, before: KernelRows | None = None) -> None:
        self.gamma = gamma
        squarings = squarings_between(before.gamma, gamma) if before is not None else 0
        if before is None or not squarings:
            self._K: Values = RbfBlocks(Z, gamma, np.float32).gram(np.arange(len(Z)))
        else:
            self._K = before._K
            square(self._K, squarings)

    def gram(self, members: Index) -> Values:
        """Return the kernel values among some points, shape (m, m)."""
        return np.ascontiguousarray(self._K[np.ix_(members, members)])

    def add(self, members: Index, change: Float, F: Float) -> None:
        """Add to every F_j the sum over members i of change_i k_ij."""
        add_rows(self._K.take(members, 0), change, F)


def squarings_between(before: float, gamma: float) -> int:
    """Return how often kernel values of one gamma are squared to get those of another; 0 if they are computed anew."""
    return {2.0: 1, 4.0: 2}.get(gamma / before, 0)


def square(values: Values, times: int) -> None:
    """Square kernel values so many times."""
    for _ in range(times):
        np.multiply(values, values, out=values)


def rough_decisions(Z: Float, others: Float, gammas: Sequence[float], b: Float) -> Float:
    """Return sum_i b_i k_ij, without the bias, of k machines for each gamma, over the points `others`; float32.

    A tile of the kernel is computed once, used for all machines while it is in a cache, and squared for the next gamma.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
        Scaled points that the machines were trained on.
    others : ndarray of shape (m, d)
        Scaled points to decide.
    gammas : sequence of float
        Ascending.
    b : ndarray of shape (gammas, k, n), float64
        y_i a_i of each machine.

    Returns
    -------
    ndarray of shape (gammas, k, m), float32
    """
    support = np.flatnonzero(b.any(axis=(0, 1)))
    found = np.zeros((*b.shape[:2], len(others)), np.float32)
    if not len(support):
        return found
    both = np.ascontiguousarray(np.concatenate([Z[support], others]))
    weights = np.ascontiguousarray(b[:, :, support], dtype=np.float32)
    squarings = [0] + [squarings_between(*pair) for pair in pairwise(gammas)]
    sources = {row: RbfBlocks(both, gammas[row], np.float32) for row, count in enumerate(squarings) if not count}
    members = np.arange(len(support))
    K: Values = np.empty((0, 0), np.float32)
    for first in range(0, len(others), TILE):
        tile = np.arange(first, min(first + TILE, len(others)))
        for row, count in enumerate(squarings):
            if count:
                square(K, count)
            else:
                K = sources[row].cross(members, len(support) + tile)
            # One machine after another: a product of few rows would have K packed first, which takes as long again.
            for machine, own in enumerate(weights[row]):
                found[row, machine, tile] = own @ K
    return found


def _aligned(shape: tuple[int, ...], precision: type) -> Values:
    """Return an uninitialised array whose first byte is aligned to a cache line."""
    count = math.prod(shape)
    raw = np.empty(count * np.dtype(precision).itemsize + CACHE_LINE, np.uint8)
    first = -raw.ctypes.data % CACHE_LINE
    made: Values = raw[first : first + count * np.dtype(precision).itemsize].view(precision).reshape(shape)
    return made


def _tiles_of(Z: Float, chosen: Index, layout: Layout, precision: type) -> Tiles:
    """Return scaled points as tiles, with work space of a suitable size."""
    d = Z.shape[1]
    width = (SPARSE_LINE if layout.sparse else DENSE_LINE) // np.dtype(precision).itemsize
    width = min(width, -(-len(chosen) // STRIP) * STRIP)
    small = SMALL_PRODUCT // (width * d) // 8 * 8
    rows = SPARSE_ROWS if layout.sparse else min(small, MOST_ROWS) if small >= FEWEST_ROWS else MOST_ROWS
    count = -(-len(chosen) // width)
    features, half = _aligned((count, d, width), precision), _aligned((count, width), precision)
    _fill(Z, chosen, layout.centre, layout.scale, features, half)
    return Tiles(features, half, _aligned((rows, width), precision))


def _rows_of(Z: Float, members: Index, layout: Layout, precision: type) -> TileRows:
    m, d = len(members), Z.shape[1]
    dense: Values = np.empty((m, d), precision)
    half: Values = np.empty(m, precision)
    room = m * d + 1 if layout.sparse else 0
    start, feature, value = np.zeros(m + 1, np.int64), np.empty(room, np.int64), np.empty(room, precision)
    _gather(Z, members, layout.centre, layout.scale, layout.sparse, dense, half, start, feature, value)
    return TileRows(dense, half, start, feature, value)


@njit(cache=True, nogil=True)
def _fill(Z, chosen, centre, scale, features, half):  # type: ignore[no-untyped-def]
    """Fill the `features` and `half` of `Tiles` with the chosen points, which are transposed a few at a time."""
    n, (tiles, d, width) = len(chosen), features.shape
    strip = np.zeros((STRIP, d), features.dtype)
    for start in range(0, tiles * width, STRIP):
        tile, first = features[start // width], start % width
        count = max(0, min(n - start, STRIP))
        for j in range(count):
            _scale(Z[chosen[start + j]], centre, scale, strip[j])
            half[start // width, first + j] = _half_square(strip[j])
        if count < STRIP:
            strip[count:] = 0.0
            half[start // width, first + count : first + STRIP] = 0.0
        for k in range(d):
            line = tile[k, first : first + STRIP]
            for j in range(STRIP):
                line[j] = strip[j, k]


@njit(cache=True, nogil=True)
def _gather(Z, members, centre, scale, sparse, dense, half, start, feature, value):  # type: ignore[no-untyped-def]
    """Fill the arrays of `TileRows` with the members; without `sparse`, the entries stay empty."""
    filled = 0
    for r in range(len(members)):
        _scale(Z[members[r]], centre, scale, dense[r])
        half[r] = _half_square(dense[r])
        if sparse:
            for k in range(dense.shape[1]):
                feature[filled] = k
                value[filled] = dense[r, k]
                filled += dense[r, k] != 0.0
        start[r + 1] = filled


@njit(cache=True, nogil=True)
def _scale(point, centre, scale, out):  # type: ignore[no-untyped-def]
    widest_vectors()
    for k in range(len(out)):
        out[k] = (point[k] - centre[k]) * scale


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _half_square(point):  # type: ignore[no-untyped-def]
    """Return |s|^2 / 2 of the rounded point; the compiler may choose a (fixed) order of the terms."""
    widest_vectors()
    square = 0.0
    for k in range(len(point)):
        square += np.float64(point[k]) * np.float64(point[k])
    return 0.5 * square


@njit(cache=True, nogil=True)
def _gram(tiles, rows, sparse, K):  # type: ignore[no-untyped-def]
    """Write the kernel values of every row with all points of the tiles."""
    m, n = K.shape
    chunk, width = tiles.room.shape
    for t in range(len(tiles.half)):
        first, last = t * width, min(n, (t + 1) * width)
        for r in range(0, m, chunk):
            end = min(m, r + chunk)
            _kernel_values(tiles, t, last - first, rows, sparse, r, end)
            K[r:end, first:last] = tiles.room[: end - r, : last - first]


@njit(cache=True, nogil=True)
def _add(tiles, rows, sparse, change, F):  # type: ignore[no-untyped-def]
    """Add change' K to F, tile by tile."""
    n, m = len(F), len(rows.half)
    chunk, width = tiles.room.shape
    for t in range(len(tiles.half)):
        part = F[t * width : min(n, (t + 1) * width)]
        for first in range(0, m, chunk):
            last = min(m, first + chunk)
            _kernel_values(tiles, t, len(part), rows, sparse, first, last)
            add_rows(tiles.room, change[first:last], part)


@njit(cache=True, nogil=True)
def _add_within(tiles, rows, sparse, weights, sums):  # type: ignore[no-untyped-def]
    """Add weights' K of the rows themselves to their sums; kernel values of two different tiles are computed once."""
    m = len(sums)
    chunk, width = tiles.room.shape
    for t in range(len(tiles.half)):
        begin, end = t * width, min(m, (t + 1) * width)
        part, own = sums[begin:end], weights[begin:end]
        for first in range(begin, end, chunk):
            last = min(end, first + chunk)
            _kernel_values(tiles, t, end - begin, rows, sparse, first, last)
            add_rows(tiles.room, weights[first:last], part)
        for first in range(end, m, chunk):
            last = min(m, first + chunk)
            _kernel_values(tiles, t, end - begin, rows, sparse, first, last)
            add_rows(tiles.room, weights[first:last], part)
            _add_columns(tiles.room, own, sums[first:last])


@njit(cache=True, nogil=True)
def _kernel_values(tiles, t, width, rows, sparse, first, last):  # type: ignore[no-untyped-def]
    """Fill the work space with the kernel values of rows first to last - 1 with the first `width` points of tile t."""
    room, half = tiles.room, tiles.half[t, :width]
    if sparse:
        features = tiles.features[t]
        for r in range(first, last):
            _sparse_products(features, rows.feature, rows.value, rows.start[r], rows.start[r + 1], room[r - first])
    else:
        np.dot(rows.dense[first:last], tiles.features[t], room[: last - first])
    for r in range(first, last):
        _powers(room[r - first, :width], half, rows.half[r])


@njit(cache=True, nogil=True)
def _all_powers(values, own, half):  # type: ignore[no-untyped-def]
    """Turn the products of rows s_i with others s_j into kernel values; `own` and `half` are h_i and h_j."""
    for r in range(len(values)):
        _powers(values[r], half, own[r])


@njit(cache=True, nogil=True)
def _powers(line, half, own):  # type: ignore[no-untyped-def]
    """Turn the products of one row with others into kernel values."""
    widest_vectors()
    zero = line.dtype.type(0.0)
    for j in range(len(line)):
        line[j] = power_of_two(least(line[j] - (half[j] + own), zero))


@njit(cache=True, nogil=True)
def _sparse_products(features, feature, value, start, stop, out):  # type: ignore[no-untyped-def]
    """Write to `out` the sum over t of value_t times feature_t's line, four lines at a time."""
    widest_vectors()
    out[:] = 0.0
    t = start
    while t + 4 <= stop:
        v0, v1, v2, v3 = value[t], value[t + 1], value[t + 2], value[t + 3]
        x0, x1 = features[feature[t]], features[feature[t + 1]]
        x2, x3 = features[feature[t + 2]], features[feature[t + 3]]
        for j in range(len(out)):
            out[j] = fused(v0, x0[j], fused(v1, x1[j], fused(v2, x2[j], fused(v3, x3[j], out[j]))))
        t += 4
    while t < stop:
        v0, x0 = value[t], features[feature[t]]
        for j in range(len(out)):
            out[j] = fused(v0, x0[j], out[j])
        t += 1


@njit(cache=True, nogil=True)
def add_rows(values, weights, sums):  # type: ignore[no-untyped-def]
    """Add weights' values to `sums`, four rows at a time; slices of single rows let the compiler use vectors."""
    widest_vectors()
    m, width = len(weights), len(sums)
    for r in range(0, m - m % 4, 4):
        c0, c1, c2, c3 = weights[r], weights[r + 1], weights[r + 2], weights[r + 3]
        a, b, c, d = values[r, :width], values[r + 1, :width], values[r + 2, :width], values[r + 3, :width]
        for j in range(width):
            sums[j] += c0 * np.float64(a[j]) + c1 * np.float64(b[j]) + c2 * np.float64(c[j]) + c3 * np.float64(d[j])
    for r in range(m - m % 4, m):
        c0, a = weights[r], values[r, :width]
        for j in range(width):
            sums[j] += c0 * np.float64(a[j])


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _add_columns(values, weights, sums):  # type: ignore[no-untyped-def]
    """Add values weights to `sums`; the compiler may choose a (fixed) order of terms that allows vectors."""
    widest_vectors()
    width = len(weights)
    for r in range(len(sums)):
        line = values[r, :width]
        total = 0.0
        for j in range(width):
            total += np.float64(line[j]) * weights[j]
        sums[r] += total

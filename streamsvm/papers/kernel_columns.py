r"""Columns of the kernel matrix, computed in blocks and kept in a cache of bounded size.

Column i is the vector k(z_i, z_j), j = 1..n, in float64. A batch of missing columns is one matrix product with all
points, block by block so that the block stays in the processor's cache; for the RBF kernel it is turned into
exp(-gamma (|z_i|^2 + |z_j|^2 - 2 <z_i, z_j>)). The caller centres the points first: the expansion of the square
cancels badly for points far from the origin.

Invariants: `slot[owner[s]] == s` for every used slot; used slots form one list from the most to the least recently
used; the values never take more bytes than the caller allowed.

Source: Liuzzi, Lucidi, Manno and Rinaldi 2015, Section 3.4 ("a part of the available memory to store the most recently
used columns"). They keep columns of G = (y_i y_j k_ij); we keep k itself and put the signs into the variables.

numba's file cache of a compiled caller does not see a change of what it calls in another module: after an edit here,
delete `__pycache__` of this package.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamsvm.compiling import njit
from streamsvm.linalg import Index
from streamsvm.model.kernels import Float, Kernel, RbfKernel

BLOCK = 1024
"""Points of a block: 8 KiB a column, so that a batch of columns stays in the second-level cache."""

USED, HITS, COMPUTED = 0, 1, 2
"""Places in `Columns.counts`."""

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_ROUNDER = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to an integer that then stands in the lowest bits
_LEAST_EXPONENT = -708.0  # exp of it is the least power we represent: 3e-308 stands for everything below


class KernelColumns(NamedTuple):
    """A kernel matrix by columns, and the cache of some of them; arrays only, so that compiled code can take it.

    Attributes
    ----------
    Z : ndarray of shape (n, d), float64, contiguous, centred
    squared : ndarray of shape (n,), float64
        |z_i|^2.
    gamma : float
        RBF width; 0 for the linear kernel.
    values : ndarray of shape (capacity, n), float64
        The cached columns, one a row.
    slot : ndarray of shape (n,), int64
        Row of `values` that holds column i; -1 if none does.
    owner : ndarray of shape (capacity,), int64
        Which column a slot holds; meaningful below `counts[USED]`.
    newer, older : ndarray of shape (capacity + 1,), int64
        Neighbours in the order of use. The last entry is the list's two ends: `older[-1]` is the most recently used
        slot, `newer[-1]` the least.
    counts : ndarray of shape (3,), int64
        Slots used, columns asked for that were there, columns computed.
    """

    Z: Float
    squared: Float
    gamma: float
    values: Float
    slot: Index
    owner: Index
    newer: Index
    older: Index
    counts: Index


def make_columns(Z: Float, kernel: Kernel, cache_bytes: int) -> KernelColumns:
    """Return an empty cache over centred points.

    Parameters
    ----------
    Z : ndarray of shape (n, d), float64
    kernel : Kernel
    cache_bytes : int
        Bound on the bytes of the cached values.

    Raises
    ------
    ValueError
        If not even the two columns of one direction fit.
    """
    n = len(Z)
    capacity = min(n, cache_bytes // (8 * n))
    if capacity < 2:
        raise ValueError(f"cache_bytes = {cache_bytes} has no room for 2 columns of {n} points; give at least {16 * n}")
    Z = np.ascontiguousarray(Z, dtype=np.float64)
    return KernelColumns(
        Z,
        np.einsum("ij,ij->i", Z, Z),
        kernel.gamma if isinstance(kernel, RbfKernel) else 0.0,
        np.empty((capacity, n)),
        np.full(n, -1, np.int64),
        np.empty(capacity, np.int64),
        np.full(capacity + 1, capacity, np.int64),
        np.full(capacity + 1, capacity, np.int64),
        np.zeros(3, np.int64),
    )


@njit(cache=True, nogil=True)
def fetch(columns, wanted):  # type: ignore[no-untyped-def]
    """Make sure that every wanted column is cached.

    Parameters
    ----------
    columns : KernelColumns
    wanted : ndarray of shape (m,), int64
        Distinct; at most `capacity`. Those that are there become the most recently used before anything is evicted, so
        that no wanted column evicts another.
    """
    missing = 0
    for i in wanted:
        if columns.slot[i] >= 0:
            columns.counts[HITS] += 1
            _unlink(columns, columns.slot[i])
            _put_first(columns, columns.slot[i])
        else:
            missing += 1
    if missing == 0:
        return
    rows = np.empty(missing, np.int64)
    k = 0
    for i in wanted:
        if columns.slot[i] < 0:
            rows[k] = i
            k += 1
    for i in rows:
        _claim(columns, i)
    _compute(columns, rows)


@njit(cache=True, nogil=True)
def _unlink(columns, slot):  # type: ignore[no-untyped-def]
    columns.older[columns.newer[slot]] = columns.older[slot]
    columns.newer[columns.older[slot]] = columns.newer[slot]


@njit(cache=True, nogil=True)
def _put_first(columns, slot):  # type: ignore[no-untyped-def]
    ends = len(columns.owner)
    first = columns.older[ends]
    columns.newer[slot], columns.older[slot] = ends, first
    columns.older[ends] = slot
    columns.newer[first] = slot


@njit(cache=True, nogil=True)
def _claim(columns, i):  # type: ignore[no-untyped-def]
    """Give column i a slot: an unused one, else that of the least recently used column."""
    capacity = len(columns.owner)
    if columns.counts[USED] < capacity:
        slot = columns.counts[USED]
        columns.counts[USED] += 1
    else:
        slot = columns.newer[capacity]
        _unlink(columns, slot)
        columns.slot[columns.owner[slot]] = -1
    columns.owner[slot] = i
    columns.slot[i] = slot
    _put_first(columns, slot)


@njit(cache=True, nogil=True)
def _compute(columns, rows):  # type: ignore[no-untyped-def]
    """Fill the slots of the given columns, block of points by block of points."""
    n, m = len(columns.Z), len(rows)
    chosen = columns.Z[rows]
    columns.counts[COMPUTED] += m
    bits = np.empty(BLOCK, np.int64)
    for start in range(0, n, BLOCK):
        stop = min(n, start + BLOCK)
        products = np.dot(chosen, columns.Z[start:stop].T)
        for r in range(m):
            out = columns.values[columns.slot[rows[r]], start:stop]
            if columns.gamma > 0:
                _exponents(products[r], columns.squared[rows[r]], columns.squared[start:stop], columns.gamma, out)
                exponentials(out, bits)
            else:
                out[:] = products[r]
    if columns.gamma > 0:
        for i in rows:
            columns.values[columns.slot[i], i] = 1.0


@njit(cache=True, nogil=True)
def _exponents(product, own, others, gamma, out):  # type: ignore[no-untyped-def]
    """Write -gamma |z_i - z_j|^2, never positive."""
    for j in range(len(out)):
        out[j] = -gamma * max(own + others[j] - 2.0 * product[j], 0.0)


@njit(cache=True, nogil=True)
def exponentials(x, bits):  # type: ignore[no-untyped-def]
    """Replace every x by exp(x), in loops that the compiler turns into vector instructions.

    x = k ln 2 + r with |r| <= ln(2)/2; exp(r) by its Taylor polynomial of degree 13, whose remainder is below 5e-18;
    2^k by writing k into the exponent of a float64.

    Parameters
    ----------
    x : ndarray of shape (m,), float64
        None positive; below -708 the result is that of -708, about 3e-308.
    bits : ndarray of at least m entries, int64
        Room for the powers of two.
    """
    m = len(x)
    power = bits.view(np.float64)
    for j in range(m):
        exponent = max(_LEAST_EXPONENT, x[j])
        rounded = exponent * _LOG2_E + _ROUNDER
        power[j] = rounded
        k = rounded - _ROUNDER
        r = (exponent - k * _LN2_HIGH) - k * _LN2_LOW
        p = 1.0 / 6227020800.0
        p = p * r + 1.0 / 479001600.0
        p = p * r + 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        p = p * r + 1.0
        x[j] = p * r + 1.0
    for j in range(m):
        bits[j] = (bits[j] + 1023) << 52
    for j in range(m):
        x[j] *= power[j]

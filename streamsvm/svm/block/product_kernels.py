"""Kernels that are functions of products <a, b>: polynomial, over dense and sparse points, and RBF over sparse ones.

The dense RBF kernel has compiled code of its own (`rbf_tiles`). These are made by products of matrices, in float64,
some columns at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from streamsvm.linalg import Index
from streamsvm.model.kernels import Float, RbfKernel
from streamsvm.svm.block.rbf_tiles import powers
from streamsvm.svm.block.workers import ALONE, FEWEST_VALUES, WorkerPool, divided

VALUES: Final = 1 << 20
"""Kernel values that are made at a time: 8 MB."""
IN_PLACE: Final = 1 << 14
"""Values that become a power at a time: 128 kB, which stay in a fast cache."""
LOG2_E: Final = float(np.log2(np.e))
DENSE_VALUES: Final = 1 << 22
"""Values of sparse points that are made dense at a time: 32 MB."""


@dataclass(frozen=True, slots=True)
class PolynomialKernel:
    """k(a, b) = (gamma <a, b> + coef0)^degree.

    Attributes
    ----------
    degree : int
        At least 0.
    gamma : float
        At least 0.
    coef0 : float
        At least 0: otherwise the kernel is not positive semidefinite.
    """

    degree: int
    gamma: float
    coef0: float

    def gram(self, A: Any, B: Any) -> Float:
        """Return the (len(A), len(B)) block of kernel values, of dense or sparse rows."""
        return self.of_products(products(A, B))

    def of_products(self, values: Float) -> Float:
        """Return the kernel values of products, which are overwritten."""
        lines = values.reshape(-1) if values.flags.c_contiguous else values
        step = IN_PLACE if lines.ndim == 1 else max(1, IN_PLACE // max(1, lines.shape[1]))
        for start in range(0, len(lines), step):
            part = lines[start : start + step]
            if self.gamma != 1.0:
                part *= self.gamma
            if self.coef0 != 0.0:
                part += self.coef0
            if self.degree != 1:
                part[:] = _power(part, self.degree)
        return values


def products(A: Any, B: Any) -> Float:
    """Return <a, b> of all rows, dense or sparse, as a dense array of shape (len(A), len(B))."""
    found = A @ B.T
    return np.asarray(found if isinstance(found, np.ndarray) else found.toarray(), dtype=np.float64)


def squares(Z: Any) -> Float:
    """Return <z, z> of all rows, dense or sparse, shape (n,)."""
    return np.einsum("ij,ij->i", Z, Z) if isinstance(Z, np.ndarray) else np.asarray(Z.multiply(Z).sum(axis=1)).ravel()


def scale_of(kernel: PolynomialKernel, of: Float) -> tuple[float, float]:
    """Return the power of two that brings values on the diagonal to at most 1, and the largest value after that.

    Parameters
    ----------
    kernel : PolynomialKernel
    of : ndarray of shape (n,)
        Squares of the points.
    """
    highest = float(kernel.of_products(of.copy()).max())
    scale = float(2.0 ** np.ceil(np.log2(highest))) if 0.0 < highest < np.inf else 1.0
    return scale, highest / scale


class ProductBlocks:
    """A kernel of a set of points, all in float64, in units of `scale`.

    Parameters
    ----------
    Z : ndarray or CSR array of shape (n, d), float64
    kernel : RbfKernel or PolynomialKernel
    workers : WorkerPool, optional
        They divide the points that values are asked for.

    Attributes
    ----------
    scale : float
        A power of two: values are divided by it, so that those of `gram` have a diagonal of at most 1, and products
        with it lose no bit.
    computed : int
        Columns of the whole kernel matrix that were computed so far.
    largest : float
        Largest value on the diagonal after the division.
    """

    def __init__(self, Z: Any, kernel: RbfKernel | PolynomialKernel, workers: WorkerPool = ALONE) -> None:
        self._Z, self._kernel, self._squares, self._workers = Z, kernel, squares(Z), workers
        self._sparse = not isinstance(Z, np.ndarray)
        self.computed = 0
        self.scale, self.largest = 1.0, 1.0
        if isinstance(kernel, PolynomialKernel):
            self.scale, self.largest = scale_of(kernel, self._squares)

    def gram(self, members: Index) -> Float:
        """Return the kernel values among some points, shape (m, m)."""
        m = len(members)
        K = np.empty((m, m))

        def fill(own: slice) -> None:
            for part in self._parts(own.stop - own.start, m):
                rows = slice(own.start + part.start, own.start + part.stop)
                K[rows] = self.values(members[rows], members)

        self._divide(m, m, fill)
        return K

    def add(self, members: Index, change: Float, F: Float) -> None:
        """Add to every F_j the sum over members i of change_i k_ij."""
        self.computed += len(members)

        def add(own: slice) -> None:
            columns = None if own.stop - own.start == len(F) else own
            for part in self._parts(len(members), own.stop - own.start):
                F[own] += change[part] @ self.values(members[part], columns)

        self._divide(len(F), len(members), add)

    def scores(self, members: Index, weights: Float, targets: Index) -> Float:
        """Return sum_i weights_i k_ij for some points j, from scratch, shape (len(targets),)."""
        scores = np.zeros(len(targets))

        def add(own: slice) -> None:
            others = None if own.stop - own.start == self._Z.shape[0] else targets[own]
            for part in self._parts(len(members), own.stop - own.start):
                scores[own] += weights[part] @ self.values(members[part], others)

        self._divide(len(targets), len(members), add)
        return scores

    def _divide(self, size: int, others: int, work: Callable[[slice], None]) -> None:
        """Let workers share places 0 to size - 1, each of which needs values with so many points."""
        parts = divided(size, self._workers, max(1, FEWEST_VALUES // max(1, others)))
        self._workers.run([partial(work, part) for part in parts])

    def values(self, rows: Index | slice, columns: Index | slice | None) -> Float:
        """Return the kernel values of some points with others, or with all, shape (len(rows), len(columns))."""
        others, other_squares = self._Z, self._squares
        if columns is not None:
            others, other_squares = others[columns], other_squares[columns]
        if self._sparse:
            # Sparse times dense is a loop along the lines of the dense matrix; sparse times sparse is not.
            found = (others @ np.ascontiguousarray(self._Z[rows].toarray().T)).T
        else:
            found = self._Z[rows] @ others.T
        if isinstance(self._kernel, PolynomialKernel):
            found = self._kernel.of_products(found)
            return found if self.scale == 1.0 else np.divide(found, self.scale, out=found)
        # Compiled code is for rows in C order; the kernel is symmetric.
        factor = self._kernel.gamma * LOG2_E
        found *= 2.0 * factor
        own, half = factor * self._squares[rows], factor * other_squares
        if found.flags.c_contiguous:
            powers(found, own, half)
        else:
            powers(found.T, half, own)
        return np.asarray(found, dtype=np.float64)

    def _parts(self, rows: int, columns: int) -> list[slice]:
        """Divide rows so that neither their kernel values nor the rows themselves, made dense, take much memory."""
        size = max(1, VALUES // max(1, columns))
        if self._sparse:
            size = max(1, min(size, DENSE_VALUES // self._Z.shape[1]))
        return [slice(start, min(rows, start + size)) for start in range(0, rows, size)]


class MatrixBlocks:
    """The kernel of so few points that all values are kept, in float64 and in units of `scale`; not the linear one.

    Parameters
    ----------
    Z : ndarray of shape (n, d), float64
    kernel : RbfKernel or PolynomialKernel

    Attributes
    ----------
    scale, computed, largest
        As those of `ProductBlocks`; every column is computed once.
    """

    def __init__(self, Z: Float, kernel: RbfKernel | PolynomialKernel) -> None:
        rbf = isinstance(kernel, RbfKernel)
        # The origin of the RBF kernel is free; products of values far from it would lose digits.
        source = ProductBlocks(Z - Z.mean(axis=0) if rbf else Z, kernel)
        self._K = np.ascontiguousarray(source.values(slice(None), None))
        if rbf:
            np.fill_diagonal(self._K, 1.0)
        self.scale, self.largest, self.computed = source.scale, source.largest, len(Z)

    def gram(self, members: Index) -> Float:
        """Return the kernel values among some points, shape (m, m)."""
        return self._K if len(members) == len(self._K) else self._K.take(members, 0).take(members, 1)

    def add(self, members: Index, change: Float, F: Float) -> None:
        """Add to every F_j the sum over members i of change_i k_ij."""
        F += change @ self._K[members]

    def scores(self, members: Index, weights: Float, targets: Index) -> Float:
        """Return sum_i weights_i k_ij for some points j, from scratch, shape (len(targets),)."""
        return np.asarray((weights @ self._K[members])[targets], dtype=np.float64)


def _power(values: Float, exponent: int) -> Float:
    """Return a whole power, by squares; `numpy.power` takes ten times as long. The values are overwritten."""
    result = np.ones_like(values) if exponent % 2 == 0 else values.copy()
    for bit in range(1, exponent.bit_length()):
        values *= values
        if exponent >> bit & 1:
            result *= values
    return result

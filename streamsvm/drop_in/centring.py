"""Planes far from the origin: rows are moved before they are trained on, and decided on.

A linear or an RBF machine with a free intercept is the same wherever the origin lies, but its products are not: of rows
at 1e8, give or take 1, they keep no digit of what tells the rows apart. So rows whose mean is far away, beside their
spread, lose that mean, in training (`offset_of`, `moved`) and in every decision: w'(x - c) + b_c (`Planes`).

Invariant: rows near the origin are not touched, and neither is a bit of what is made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from streamsvm.compiling import njit
from streamsvm.model.kernels import Float
from streamsvm.model.machine import block_rows

FAR: Final = 64.0
"""Square of the mean, in units of the rows' variance, from which on they count as far: float32 kernel values, LIBSVM's,
keep five digits below it."""
FAR_PAIR: Final = 1e6
"""The same of two classes among several, whose common mean is near: float64 products keep ten digits below it."""
FEW: Final = 1_500
"""Rows of a small table, in which calls of numpy take longer than their sums."""
FILLED: Final = 0.5
"""Share of entries from which on a column of a CSR array has an offset at all."""


def offset_of(X: Any) -> Float | None:
    """Return the mean of rows that are far from the origin, shape (d,); None if they are near.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n, d), float64
        Of a CSR array, columns that are mostly 0 have an offset of 0.
    """
    if isinstance(X, np.ndarray) and len(X) <= FEW and _is_clearly_near(X):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(X, np.ndarray):
            mean = X.mean(axis=0)
            # The mean of squares, not of squared differences: a copy of the rows is needed only where they are far.
            square = float(np.vdot(X, X)) / len(X)
            if not _is_far(mean, square - float(mean @ mean)):
                return None
            variance = float(np.square(X - mean).sum()) / len(X)
        else:
            n, d = X.shape
            entries = np.bincount(X.indices, minlength=d)
            mean = np.where(entries >= FILLED * n, np.bincount(X.indices, X.data, d), 0.0) / np.maximum(entries, 1)
            square = float(X.data @ X.data) / n
            if not _is_far(mean, square - float(mean @ mean)):
                return None
            near = X.data - mean[X.indices]
            variance = float(near @ near + np.square(mean) @ (n - entries)) / n
        return mean if _is_far(mean, variance) else None


@njit(cache=True, nogil=True)
def _is_clearly_near(X):  # type: ignore[no-untyped-def]
    """Whether the squared mean of few rows is far below what counts as far; one loop in place of several arrays."""
    n, d = X.shape
    total, square = np.zeros(d), 0.0
    for r in range(n):
        for j in range(d):
            total[j] += X[r, j]
            square += X[r, j] * X[r, j]
    of_mean = 0.0
    for j in range(d):
        of_mean += (total[j] / n) ** 2
    return 2.0 * of_mean < FAR * (square / n - of_mean) < np.inf


def _is_far(mean: Float, variance: float) -> bool:
    square = float(mean @ mean)
    # Written with `not`: what overflows counts as near, and is judged by who solves.
    return bool(square > FAR * variance) and square < np.inf


def pair_offsets(X: Any, label: NDArray[np.intp], classes: int) -> Float | None:
    """Return the mean of each pair of classes that is far from the origin, and 0 of others; None if all are near.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n, d), float64
    label : ndarray of shape (n,), int
    classes : int

    Returns
    -------
    ndarray of shape (k (k - 1) / 2, d), or None
    """
    if classes < 3 or not isinstance(X, np.ndarray):
        return None
    sizes = np.bincount(label, minlength=classes)
    members = np.zeros((classes, len(label)))
    members[label, np.arange(len(label))] = 1.0 / np.maximum(sizes, 1)[label]
    with np.errstate(over="ignore", invalid="ignore"):
        means = members @ X
        norms = np.einsum("ij,ij->i", means, means)
        # An upper bound of what is near: the squared distances from the first class's mean do not matter here.
        spread = np.array([_spread(X[label == one], means[one]) for one in range(classes)]) if norms.any() else norms
        offsets, far = np.zeros((classes * (classes - 1) // 2, X.shape[1])), False
        for at, (i, j) in enumerate(combinations(range(classes), 2)):
            p, q = sizes[i] / (sizes[i] + sizes[j]), sizes[j] / (sizes[i] + sizes[j])
            mean, between = p * means[i] + q * means[j], means[i] - means[j]
            variance = p * spread[i] + q * spread[j] + p * q * float(between @ between)
            if FAR_PAIR * variance < float(mean @ mean) < np.inf:
                offsets[at], far = mean, True
    return offsets if far else None


def _spread(X: Float, mean: Float) -> float:
    near = X - mean
    return float(np.vdot(near, near)) / max(1, len(X))


def moved(X: Any, centre: Float) -> Any:
    """Return rows less a centre, of the same kind; an entry that a CSR array lacks is 0 less the centre's."""
    if isinstance(X, np.ndarray):
        return X - centre
    columns = np.flatnonzero(centre)
    n = X.shape[0]
    starts = np.arange(n + 1) * len(columns)
    offset = (np.tile(-centre[columns], n), np.tile(columns, n), starts)
    found = sparse.csr_array(X) + sparse.csr_array(offset, shape=X.shape)
    found.indices, found.indptr = found.indices.astype(np.int32), found.indptr.astype(np.int32)
    found.sort_indices()
    return found if isinstance(X, sparse.sparray) else sparse.csr_matrix(found)


def blocks_of(rows: int, columns: int) -> Iterator[slice]:
    """Yield places of rows whose arrays of so many columns are of bounded size; see `block_rows`."""
    size = block_rows(columns)
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


@dataclass(frozen=True, slots=True)
class Planes:
    """Planes f_p(x) = w_p'(x - c_p) + b_p.

    Attributes
    ----------
    of_support : callable
        Returns all w, shape (p, d), from support vectors that lost a centre.
    support_vectors : ndarray or CSR array of shape (s, d)
    centres : ndarray of shape (p, d), or None
        None: all are 0.
    intercepts : ndarray of shape (p,), float64
        The b.
    """

    of_support: Callable[[Any, Float | None], Float]
    support_vectors: Any
    centres: Float | None
    intercepts: Float

    def groups(self) -> Iterator[tuple[Any, Float | None, Float]]:
        """Yield the planes with the same centre: their places, the centre, and their w."""
        if self.centres is None:
            yield slice(None), None, self.of_support(self.support_vectors, None)
            return
        distinct, place = np.unique(self.centres, axis=0, return_inverse=True)
        for at, centre in enumerate(distinct):
            own = np.flatnonzero(place.ravel() == at)
            yield own, centre, self.of_support(moved(self.support_vectors, centre), centre)[own]

    def coefficients(self) -> Float:
        """Return all w, shape (p, d)."""
        w = np.empty((len(self.intercepts), self.support_vectors.shape[1]))
        for own, _, found in self.groups():
            w[own] = found
        return w

    def raw_intercepts(self) -> Float:
        """Return the intercepts of the planes over rows as they are: b - w'c."""
        if self.centres is None:
            return self.intercepts
        return np.asarray(self.intercepts - np.einsum("ij,ij->i", self.coefficients(), self.centres))

    def values(self, X: Any) -> Float:
        """Return the values of all planes, shape (m, p)."""
        return self._products(X, lambda rows, w: np.asarray(rows @ w.T)) + self.intercepts

    def sizes(self, X: Any) -> Float:
        """Return the sums of the magnitudes of what is summed in w'(x - c), shape (m, p)."""
        return self._products(X, lambda rows, w: np.asarray(abs(rows) @ np.abs(w).T))

    def _products(self, X: Any, product: Callable[[Any, Float], Float]) -> Float:
        found = np.empty((X.shape[0], len(self.intercepts)))
        for own, centre, w in self.groups():
            if centre is None:
                return np.asarray(product(X, w), dtype=np.float64)
            for rows in blocks_of(X.shape[0], X.shape[1]):
                found[rows, own] = product(moved(X[rows], centre), w)
        return found

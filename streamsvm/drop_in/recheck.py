"""How far a machine is from its optimum, recomputed from what is published, by whatever solver it was made.

LIBSVM keeps kernel values in float32, and "converged" is said of a gradient made of those; our own gap is in float64,
but a sum of large terms has errors of its own. So the values of the machine over its training rows are computed from
scratch, and the KKT gap (Keerthi et al. 2001) from these; the intercept takes part: it has to lie between the extremes.
Where rounding could decide, values are computed once more in extended precision: their gap counts, and their difference
is what rounding does to a decision.

Invariant: `Recheck.within(tol)` means that the gap of the exact machine is at most `SLACK` times tol, and that rounding
moves no decision value by more than tol.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.drop_in import pairs
from streamsvm.drop_in.centring import Planes, blocks_of, moved
from streamsvm.model.kernels import Float, Kernel, LinearKernel, RbfKernel
from streamsvm.svm.block.product_kernels import LOG2_E, PolynomialKernel, squares
from streamsvm.svm.block.rbf_tiles import powers

EPSILON: Final = float(np.finfo(np.float64).eps)
SLACK: Final = 1.01
"""Rounding may add this share of the tolerance before it is looked at."""
AT_BOUND: Final = 1.0 - 4.0 * EPSILON
"""A variable from this share of its bound on is at its bound: bounds are products, which round in their own order."""
MOST_PRODUCTS: Final = 200_000_000
"""Most products in extended precision, which take a second or two."""


@dataclass(frozen=True, slots=True)
class Recheck:
    """What was recomputed.

    Attributes
    ----------
    gap : float
        KKT gap; not finite where a value is not.
    rounding : float
        Bound, or estimate, of the errors of decision values in float64.
    exact : bool
        Whether the gap is that of extended precision, without these errors.
    """

    gap: float
    rounding: float
    exact: bool

    def within(self, tolerance: float) -> bool:
        """Whether the machine is optimal within the tolerance."""
        if self.exact:
            return bool(self.gap <= SLACK * tolerance and self.rounding <= tolerance)
        return bool(self.gap <= tolerance and self.gap + self.rounding <= SLACK * tolerance)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expanded:
    """A machine as it decides.

    Attributes
    ----------
    kernel : object
        With a method `gram`.
    support_vectors : ndarray or CSR array of shape (s, d)
    counts : ndarray of shape (k,), or None
        Support vectors of each class; None for one function without classes.
    dual : ndarray of shape (k - 1, s), or (1, s)
    intercepts : ndarray of shape (machines,)
    centres : ndarray of shape (machines, d), or None
        Of linear machines; see `streamsvm.drop_in.centring.Planes`.
    """

    kernel: Any
    support_vectors: Any
    counts: NDArray[np.int32] | None
    dual: Float
    intercepts: Float
    centres: Float | None = None

    @property
    def planes(self) -> Planes:
        """The planes of linear machines."""
        return Planes(self._combined, self.support_vectors, self.centres, self.intercepts)

    def _combined(self, support_vectors: Any, centre: Float | None) -> Float:
        if self.counts is not None:
            return pairs.planes(support_vectors, self.counts, self.dual)
        w = np.asarray(self.dual @ support_vectors)
        # The dual variables of one class do not sum to 0.
        return w if centre is None else w + self.dual.sum() * centre

    def values(self, X: Any, near: bool = False) -> Float:
        """Return decision values, shape (m, machines); of few rows near the origin, if `near`, in less time."""
        if isinstance(self.kernel, LinearKernel):
            return self.planes.values(X)
        values = np.empty((X.shape[0], len(self.intercepts)))
        if not self.support_vectors.shape[0]:
            values[:] = self.intercepts
            return values
        if isinstance(self.kernel, RbfKernel) and near and isinstance(X, np.ndarray):
            return self.of_kernel_values(near_rbf(X, self.support_vectors, self.kernel.gamma))
        for rows, K in pairs.kernel_values(X, self.support_vectors, self.kernel):
            values[rows] = self.of_kernel_values(K)
        return values

    def of_kernel_values(self, K: Float) -> Float:
        """Return decision values of points whose kernel values with the support vectors are known."""
        if self.counts is None:
            return np.asarray(K @ self.dual.T + self.intercepts)
        return pairs.decide(K, self.counts, self.dual, self.intercepts)

    @property
    def amount(self) -> float:
        """Largest sum of dual variables' magnitudes of a machine, or a number above."""
        sums = np.abs(self.dual)
        if self.counts is None:
            return float(sums.sum())
        if len(self.counts) == 2:
            return float(sums.sum())
        ends = np.cumsum(self.counts)
        shares = [sums[:, end - count : end].sum(axis=1) for count, end in zip(self.counts, ends, strict=True)]
        of_pairs = [shares[i][j - 1] + shares[j][i] for i, j in combinations(range(len(shares)), 2)]
        return float(np.max(of_pairs, initial=0.0))

    def rounding(self, X: Any) -> float:
        """Return a bound of rounding in values over rows near the origin, up to a small factor."""
        if self.centres is not None:
            # One function: its dual variables need not sum to 0, and what they sum to weighs the centre.
            centre = self.centres[0]
            square = float(squares(moved(X, centre)).max(initial=0.0))
            far = abs(float(self.dual.sum())) * float(np.sqrt((centre @ centre) * square))
            return EPSILON * (self.amount * square + far)
        square = _largest_square(X) if isinstance(X, np.ndarray) else float(squares(X).max(initial=0.0))
        if isinstance(self.kernel, RbfKernel):
            return EPSILON * self.amount * (1.0 + 2.0 * self.kernel.gamma * square)
        if isinstance(self.kernel, LinearKernel):
            return EPSILON * self.amount * square
        if isinstance(self.kernel, PolynomialKernel):
            of = self.kernel.of_products(np.array([square]))
            return EPSILON * self.amount * (1.0 + self.kernel.degree) * float(np.abs(of)[0])
        return EPSILON * self.amount

    def precise_values(self, X: Any) -> Float | None:
        """Return decision values in extended precision; None where there is none, or it takes too long."""
        n, (s, d) = X.shape[0], self.support_vectors.shape
        linear = isinstance(self.kernel, LinearKernel)
        if not np.finfo(np.longdouble).eps < EPSILON or (n + s) * d > MOST_PRODUCTS // 16:
            return None
        if not linear and n * s * d > MOST_PRODUCTS:
            return None
        Z, S = (_dense(rows).astype(np.longdouble) for rows in (X, self.support_vectors))
        wide: Any = Expanded(
            kernel=self.kernel,
            support_vectors=S,
            counts=self.counts,
            dual=self.dual.astype(np.longdouble),
            intercepts=self.intercepts.astype(np.longdouble),
        )
        if linear:
            centre = None if self.centres is None else self.centres[0].astype(np.longdouble)
            Z, S = (Z, S) if centre is None else (Z - centre, S - centre)
            return np.asarray(Z @ wide._combined(S, centre).T + wide.intercepts)
        values = np.empty((n, len(self.intercepts)), np.longdouble)
        for rows in blocks_of(n, 4 * s * (d if isinstance(self.kernel, RbfKernel) else 1)):
            values[rows] = wide.of_kernel_values(_precise_kernel(Z[rows], S, self.kernel))
        return values


def _dense(rows: Any) -> Float:
    return rows if isinstance(rows, np.ndarray) else rows.toarray()


def near_rbf(A: Float, B: Float, gamma: float) -> Float:
    """Return RBF kernel values by compiled code, of rows near the origin; see `streamsvm.svm.block.rbf_tiles`."""
    factor = gamma * LOG2_E
    K: Float = A @ (2.0 * factor * B).T
    _powers_of_products(K, A, B, factor)
    return K


@njit(cache=True, nogil=True)
def _powers_of_products(K, A, B, factor):  # type: ignore[no-untyped-def]
    """Turn 2 factor <a, b> into 2^(-factor |a - b|^2): calls of numpy take longer than the sums of few rows."""
    powers(K, _halves(A, factor), _halves(B, factor))


@njit(cache=True, nogil=True)
def _halves(X, factor):  # type: ignore[no-untyped-def]
    found = np.zeros(len(X))
    for r in range(len(X)):
        for j in range(X.shape[1]):
            found[r] += X[r, j] * X[r, j]
        found[r] *= factor
    return found


@njit(cache=True, nogil=True)
def _largest_square(X):  # type: ignore[no-untyped-def]
    """Return the largest squared length of a row."""
    largest = 0.0
    for r in range(len(X)):
        square = 0.0
        for j in range(X.shape[1]):
            square += X[r, j] * X[r, j]
        # Written so that NaN stays.
        largest = max(largest, square)
    return largest


def _precise_kernel(A: Any, B: Any, kernel: Kernel | PolynomialKernel) -> Any:
    if isinstance(kernel, RbfKernel):
        return np.exp(-kernel.gamma * np.square(A[:, None, :] - B[None, :, :]).sum(axis=2))
    assert isinstance(kernel, PolynomialKernel)
    return (kernel.gamma * (A @ B.T) + kernel.coef0) ** kernel.degree


def pair_gap(
    values: Float, label: NDArray[np.intp], support: NDArray[np.intp], dual: Float, upper: Float, classes: int
) -> float:
    """Return the largest KKT gap of the machines of all pairs of classes.

    Parameters
    ----------
    values : ndarray of shape (n, k (k - 1) / 2)
        Decision values of the training rows, positive for the first class of a pair.
    label : ndarray of shape (n,), int
    support : ndarray of shape (s,), int
        Places of the support vectors.
    dual : ndarray of shape (k - 1, s)
    upper : ndarray of shape (n,)
        Largest dual variables.
    classes : int
    """
    b = np.zeros((classes - 1, len(label)))
    b[:, support] = dual
    top, bottom = np.full((2, values.shape[1]), np.nan)
    return float(_pair_gap(np.ascontiguousarray(values, dtype=np.float64), label, b, upper, top, bottom))


@njit(cache=True, nogil=True)
def _pair_gap(values, label, b, upper, top, bottom):  # type: ignore[no-untyped-def]
    """Return the largest gap, infinite where a value is not finite or a variable outside of its box."""
    classes = len(b) + 1
    top[:], bottom[:] = -np.inf, np.inf
    for r in range(len(label)):
        own, bound = label[r], upper[r]
        for other in range(classes):
            if other == own:
                continue
            first, second = min(own, other), max(own, other)
            at = first * classes - first * (first + 1) // 2 + second - first - 1
            sign = 1.0 if own == first else -1.0
            a = sign * b[other - (other > own), r]
            F = values[r, at] - sign
            if not (abs(F) < np.inf and a >= 0.0 and a * AT_BOUND <= bound):
                return np.inf
            grows, shrinks = a < AT_BOUND * bound, a > 0.0
            if shrinks if sign > 0.0 else grows:
                top[at] = max(top[at], F)
            if grows if sign > 0.0 else shrinks:
                bottom[at] = min(bottom[at], F)
    largest = 0.0
    for at in range(len(top)):
        # An extreme that does not exist has no pair.
        high, low = max(top[at], -1e300), min(bottom[at], 1e300)
        if high > -1e300:
            largest = max(largest, high)
        if low < 1e300:
            largest = max(largest, -low)
        if high > -1e300 and low < 1e300:
            largest = max(largest, high - low)
    return largest


def tube_gap(values: Float, target: Float, b: Float, upper: Float, epsilon: float) -> float:
    """Return the KKT gap of a regression; all of shape (n,), `b` the dual variables of all rows."""
    if not _within(np.abs(b), upper):
        return np.inf
    F = values - target
    top = _most(F + np.where(b > 0.0, epsilon, -epsilon), b > -AT_BOUND * upper)
    bottom = _least(F + np.where(b >= 0.0, epsilon, -epsilon), b < AT_BOUND * upper)
    return _larger(0.0, top, bottom)


def one_class_gap(values: Float, b: Float, upper: Float) -> float:
    """Return the KKT gap of a one-class machine; parameters as in `tube_gap`."""
    return float(_one_class_gap(np.ascontiguousarray(values, dtype=np.float64), b, upper))


@njit(cache=True, nogil=True)
def _one_class_gap(values, b, upper):  # type: ignore[no-untyped-def]
    """Return the gap, infinite where a value is not finite or a variable outside of its box."""
    top, bottom = -np.inf, np.inf
    for r in range(len(b)):
        if not (abs(values[r]) < np.inf and b[r] >= 0.0 and b[r] * AT_BOUND <= upper[r]):
            return np.inf
        if b[r] > 0.0:
            top = max(top, values[r])
        if b[r] < AT_BOUND * upper[r]:
            bottom = min(bottom, values[r])
    # The intercept is one of the two; an extreme that does not exist has no pair.
    high, low = max(top, 0.0), min(bottom, 0.0)
    return max(high, -low, top - bottom) if top > -np.inf and bottom < np.inf else max(high, -low)


def _within(a: Float, upper: Float) -> bool:
    return bool(((a >= 0.0) & (a * AT_BOUND <= upper)).all())


def _most(F: Float, chosen: NDArray[np.bool_]) -> Any:
    return np.max(F, where=chosen, initial=-np.inf)


def _least(F: Float, chosen: NDArray[np.bool_]) -> Any:
    return np.min(F, where=chosen, initial=np.inf)


def _larger(gap: float, top: Any, bottom: Any) -> float:
    """Return the larger of a gap and that of these extremes of F, the intercept counted; NaN stays."""
    # An extreme that does not exist is infinite and has no pair; one that is reached is finite, or NaN.
    top = 0.0 if top == -np.inf else top
    bottom = 0.0 if bottom == np.inf else bottom
    own = np.max([top - bottom, top, -bottom])
    return float(own) if not own <= gap else gap

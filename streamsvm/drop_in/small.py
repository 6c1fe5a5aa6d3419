"""Small problems whose kernel matrix is at hand: one block, solved without any set-up.

A problem of some hundred points takes a fraction of a millisecond; choosing a layout of the points, filling tiles and
recomputing kernel values in another precision then take most of the time. Where several classes are learned in pairs,
all pairs of a class also share the values within it. So the caller brings the matrix in float64, and all points are one
block: steps along pairs first, which most such problems need few of, then the method that also has Newton's
(`streamsvm.svm.block.newton.solve_block`). The gap that decides is that of F from scratch, by one product with the
matrix.

Many pairs of small classes are solved in one compiled call (`solve_pairs`): most need few steps, and then calls and
copies of kernel values would take longer than the steps. Rows of kernel values are put together as steps ask for them.

Invariant: the same kernel values, labels and bounds give the same bits, alone or among other pairs.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.linalg import Index
from streamsvm.model.kernels import Float, Kernel, LinearKernel, RbfKernel
from streamsvm.svm.block import newton
from streamsvm.svm.block.descent import FLOOR, PROGRESS
from streamsvm.svm.block.product_kernels import LOG2_E, PolynomialKernel, scale_of, squares
from streamsvm.svm.block.rbf_tiles import powers
from streamsvm.svm.block.working_set import TwoGroups, descend, extremes, prepare_row, values_of
from streamsvm.svm.problem import Solution
from streamsvm.vector_math import widest_vectors

SMALL: Final = 512
"""Most points of a small problem. A larger one is solved sooner without most of its kernel values."""
PAIRS: Final = 2
"""Steps along pairs for each point before Newton's method may be tried, besides those that cost what its least descent
does."""
FIRST_STEPS: Final = int(newton.PATIENCE * newton.newton_ns(0) / newton.PAIR_NS)
"""These: so many steps in a problem of one point."""


class Classes(NamedTuple):
    """Points class by class; arrays and numbers only, so that compiled code can take it.

    Attributes
    ----------
    Z : ndarray of shape (n, d), float64, C-contiguous
        Around an origin that suits the kernel.
    begin : ndarray of shape (k + 1,), int64
        Class c has the points `begin[c]:begin[c + 1]`.
    upper : ndarray of shape (n,), float64, positive
    half : ndarray of shape (n,)
        What is taken off the exponent of an RBF kernel for each point.
    along : ndarray of shape (n,)
        What a point of dual variable 1 adds to the intercept, by the origin; 0 but for the linear kernel.
    rbf : bool
        Values are 2^(factor <a, b> - half_a - half_b), at most 1; else (factor <a, b> + added)^degree / scale.
    factor, added, scale : float
        `scale` is a power of two.
    degree : int
    """

    Z: Float
    begin: Index
    upper: Float
    half: Float
    along: Float
    rbf: bool
    factor: float
    added: float
    scale: float
    degree: int


def classes_of(Z: Float, begin: Index, upper: Float, kernel: Kernel | PolynomialKernel) -> Classes:
    """Prepare points for `solve_pairs`.

    Parameters
    ----------
    Z : ndarray of shape (n, d), float64
        Class by class; overwritten.
    begin, upper
        As in `Classes`.
    kernel : Kernel or PolynomialKernel
    """
    along = np.zeros(len(Z))
    # The origin is free but for products that are not linear; values far from it would lose digits.
    if not isinstance(kernel, PolynomialKernel):
        centre = Z.mean(axis=0)
        Z -= centre
        along = Z @ centre if isinstance(kernel, LinearKernel) else along
    if isinstance(kernel, RbfKernel):
        factor = kernel.gamma * LOG2_E
        return Classes(Z, begin, upper, factor * squares(Z), along, True, 2.0 * factor, 0.0, 1.0, 1)
    shape = PolynomialKernel(1, 1.0, 0.0) if isinstance(kernel, LinearKernel) else kernel
    scale, _ = scale_of(shape, squares(Z))
    return Classes(Z, begin, upper, along, along, False, float(shape.gamma), float(shape.coef0), scale, shape.degree)


def solve_pairs(
    classes: Classes, tolerance: float, limits: NDArray[np.int64]
) -> tuple[Float, Float, NDArray[np.int64]]:
    """Solve the problem of every pair of classes as `solve_small` would, but for what needs Newton's method.

    Parameters
    ----------
    classes : Classes
    tolerance : float
    limits : ndarray of shape (k, k), int64
        Most steps of each pair, first class first; 0 for a pair that is left out.

    Returns
    -------
    ndarray of shape (k - 1, n), float64
        Dual variables where SVC has them: of a point of class c, row r is for the pair of c and r (r < c), or of c and
        r + 1; + for the pair's first class. 0 where a pair was not solved.
    ndarray of shape (k, k), float64
        Intercepts of machines that are positive on the side of the first class; NaN where a pair was not solved.
    ndarray of shape (k, k), int64
        Steps.
    """
    sizes = np.diff(classes.begin)
    wanted = limits > 0
    # The values within a class serve all of its pairs.
    kept = np.where(wanted.any(axis=0) | wanted.any(axis=1), sizes, 0)
    place = np.append(0, np.cumsum(np.square(kept)))
    sums = np.where(wanted, np.add.outer(sizes, sizes), 0)
    products = np.where(wanted, np.multiply.outer(sizes, sizes), 0)
    first = np.minimum(limits, PAIRS * sums + FIRST_STEPS // np.maximum(sums, 1))
    dual, intercepts = np.zeros((len(sizes) - 1, len(classes.Z))), np.full(limits.shape, np.nan)
    steps = np.zeros(limits.shape, np.int64)
    within, across, rows = np.empty(place[-1]), np.empty(products.max()), np.empty(sums.max() ** 2)
    _solve_pairs(classes, tolerance, first, place, within, across, rows, dual, intercepts, steps)
    return dual, intercepts, steps


def solve_small(K: Float, y: Float, upper: Float, tolerance: float, limit: int) -> Solution:
    """Solve `streamsvm.svm.problem.Problem` for a given kernel matrix.

    Parameters
    ----------
    K : ndarray of shape (m, m), float64, C-contiguous
        At most 1 on the diagonal.
    y : ndarray of shape (m,), -1.0 or +1.0, both present
    upper : ndarray of shape (m,), float64, positive
    tolerance : float
        KKT gap, from scratch.
    limit : int
        Most steps.

    Returns
    -------
    Solution
        Not converged if rounding, or the limit, was in the way.
    """
    b, F, low, high = np.empty((4, len(y)))
    floor = FLOOR * tolerance
    first = PAIRS * len(y) + FIRST_STEPS // len(y)
    steps = int(_along_pairs(K, y, upper, floor, min(limit, first), b, F, low, high))
    top, bottom = extremes(F, b, low, high)
    last = np.inf
    while steps < limit and tolerance <= top - bottom < PROGRESS * last:
        last = top - bottom
        members, change = np.arange(len(y)), np.empty(len(y))
        steps += newton.solve_block(K, members, F, b, low, high, 0.0, floor, limit - steps, change)
        _refresh(K, y, b, F)
        top, bottom = extremes(F, b, low, high)
    intercept = float(_intercept(F, b, low, high, top, bottom))
    return Solution(alpha=y * b, intercept=intercept, iterations=steps, converged=bool(top - bottom < tolerance))


@njit(cache=True, nogil=True)
def _solve_pairs(  # type: ignore[no-untyped-def]
    classes, tolerance, limits, place, within, across, rows, dual, intercepts, steps
):
    """Fill `dual`, `intercepts` and `steps`; see `solve_pairs`. The arrays before them are work space."""
    begin, k = classes.begin, len(classes.begin) - 1
    for c in range(k):
        if place[c + 1] > place[c]:
            own = slice(begin[c], begin[c + 1])
            size = begin[c + 1] - begin[c]
            values = within[place[c] : place[c + 1]].reshape((size, size))
            _kernel_values(classes, own, own, values)
            if classes.rbf:
                # Rounding in the exponent grows with gamma; the diagonal is 1, whatever it says.
                for j in range(size):
                    values[j, j] = 1.0
    for one in range(k):
        p = begin[one + 1] - begin[one]
        for two in range(one + 1, k):
            if limits[one, two] == 0:
                continue
            q = begin[two + 1] - begin[two]
            values = across[: p * q].reshape((p, q))
            _kernel_values(classes, slice(begin[one], begin[one + 1]), slice(begin[two], begin[two + 1]), values)
            K = TwoGroups(
                within[place[one] : place[one + 1]].reshape((p, p)),
                within[place[two] : place[two + 1]].reshape((q, q)),
                values,
                rows[: (p + q) * (p + q)].reshape((p + q, p + q)),
                np.zeros(p + q, np.bool_),
            )
            _solve_pair(classes, K, tolerance, limits, one, two, dual, intercepts, steps)


@njit(cache=True, nogil=True)
def _solve_pair(classes, K, tolerance, limits, one, two, dual, intercepts, steps):  # type: ignore[no-untyped-def]
    """Solve one pair, and write what was found."""
    p, q = len(K.first), len(K.second)
    before, after = classes.begin[one], classes.begin[two] - p
    work = np.empty((6, p + q))
    y, upper, b, F, low, high = work
    for j in range(p + q):
        y[j] = -1.0 if j < p else 1.0
        upper[j] = classes.scale * classes.upper[j + (before if j < p else after)]
    steps[one, two] = _along_pairs(K, y, upper, FLOOR * tolerance, limits[one, two], b, F, low, high)
    top, bottom = extremes(F, b, low, high)
    if not top - bottom < tolerance:
        return
    intercept = _intercept(F, b, low, high, top, bottom)
    for j in range(p + q):
        point = j + (before if j < p else after)
        alpha = -b[j] / classes.scale
        dual[two - 1 if j < p else one, point] = alpha
        intercept += alpha * classes.along[point]
    intercepts[one, two] = -intercept


@njit(cache=True, nogil=True)
def _kernel_values(classes, some, others, values):  # type: ignore[no-untyped-def]
    """Fill `values` with those of some points with others."""
    np.dot(classes.Z[some], classes.Z[others].T, values)
    if classes.rbf:
        values *= classes.factor
        powers(values, classes.half[some], classes.half[others])
    elif classes.degree != 1 or classes.factor != 1.0 or classes.added != 0.0 or classes.scale != 1.0:
        for i in range(len(values)):
            _powers_of(values[i], classes.factor, classes.added, classes.degree, 1.0 / classes.scale)


@njit(cache=True, nogil=True)
def _powers_of(line, factor, added, degree, share):  # type: ignore[no-untyped-def]
    """Replace every value by share times (factor value + added)^degree, by squares."""
    widest_vectors()
    for j in range(len(line)):
        base, power, left = factor * line[j] + added, share, degree
        while left > 0:
            if left & 1:
                power *= base
            base *= base
            left >>= 1
        line[j] = power


@njit(cache=True, nogil=True)
def _along_pairs(K, y, upper, floor, limit, b, F, low, high):  # type: ignore[no-untyped-def]
    """Start from 0, step along pairs, compute F from scratch, and return the number of steps."""
    for j in range(len(y)):
        b[j], F[j] = 0.0, -y[j]
        low[j], high[j] = min(y[j] * upper[j], 0.0), max(y[j] * upper[j], 0.0)
    steps = descend(K, F, b, low, high, 0.0, floor, limit)
    _refresh(K, y, b, F)
    return steps


@njit(cache=True, nogil=True)
def _refresh(K, y, b, F):  # type: ignore[no-untyped-def]
    """Compute F from scratch."""
    widest_vectors()
    for j in range(len(y)):
        F[j] = 0.0
    for i in range(len(y)):
        if b[i] != 0.0:
            prepare_row(K, i)
            line, own = values_of(K)[i], b[i]
            for j in range(len(y)):
                F[j] += own * line[j]
    # The label last: a kernel value far below rounding must not decide the sign of what is 0.
    for j in range(len(y)):
        F[j] -= y[j]


@njit(cache=True, nogil=True)
def _intercept(F, b, low, high, top, bottom):  # type: ignore[no-untyped-def]
    """Return the bias as `BlockDescent.centred_intercept` does."""
    total, free = 0.0, 0
    for j in range(len(F)):
        if low[j] < b[j] < high[j]:
            total += F[j]
            free += 1
    return -total / free if free > 0 else -0.5 * (top + bottom)

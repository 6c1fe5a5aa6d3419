"""One machine for each pair of classes, as SVC has them, and Platt's probabilities of each pair.

The pairs of a class share the kernel values within it: small pairs are solved over their kernel matrices, which are
put together of blocks by class (`PairKernels`).

Invariants: of a pair (i, j), i < j, a decision value is positive on the side of class i, as in LIBSVM; machines stand
in the order (0, 1), (0, 2), ..., (1, 2), ....
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import rbf_kernel

from streamsvm.drop_in.centring import blocks_of, moved, offset_of, pair_offsets
from streamsvm.drop_in.small import SMALL, classes_of, solve_pairs, solve_small
from streamsvm.model.kernels import Float, Kernel, LinearKernel, RbfKernel
from streamsvm.model.probability import Sigmoid
from streamsvm.svm.block.product_kernels import PolynomialKernel, ProductBlocks, products
from streamsvm.svm.block.workers import ALONE, WorkerPool
from streamsvm.svm.fit_probability import fit_probability
from streamsvm.svm.problem import Problem, Solution
from streamsvm.svm.solvers import StdaSolver

FOLDS: Final = 5
"""Parts of the cross-validation behind SVC's probabilities."""
LINEAR_STEPS: Final = 20
"""Most steps for each point of a small linear pair, before the solver for linear kernels takes over: it has a better
method for large boxes."""
CANCELLED: Final = 1e-9
"""Relative error of RBF kernel values from which on distances are summed and not expanded."""
EPSILON: Final = float(np.finfo(np.float64).eps)
SMALL_STEPS: Final = 200_000
"""Most steps of another small pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairwiseProblem:
    """What the machines are trained on.

    Attributes
    ----------
    Z : ndarray of shape (n, d), float64, or CSR array
    label : ndarray of shape (n,), int
        From 0.
    upper : ndarray of shape (n,), float64
        C times weights, at least 0; a point of 0 takes no part.
    kernel : Kernel or PolynomialKernel
    tolerance : float
    max_iterations : int
    workers : WorkerPool
    """

    Z: Any
    label: NDArray[np.intp]
    upper: Float
    kernel: Kernel | PolynomialKernel
    tolerance: float
    max_iterations: int
    workers: WorkerPool = ALONE

    def solve(self, rows: NDArray[np.intp], positive: int, matrix: Matrix | None = None) -> Solution:
        """Train on some points, with +1 for the class `positive` and -1 for the rest.

        Parameters
        ----------
        rows : ndarray of shape (m,), int
            Distinct.
        positive : int
        matrix : Matrix, optional
            Of these points, in this order, if they are few and all their bounds are positive.
        """
        y, upper = np.where(self.label[rows] == positive, 1.0, -1.0), self.upper[rows]
        solution = None if matrix is None else self._solve_small(y, upper, matrix)
        if solution is not None:
            return solution
        every = matrix is None and len(rows) == len(self.label)
        return StdaSolver(workers=self.workers).solve(
            Problem(
                Z=self.Z if every else self.Z[rows],
                y=y.astype(np.int8),
                upper=upper,
                kernel=self.kernel,
                tolerance=self.tolerance,
                max_iterations=self.max_iterations,
            )
        )

    def moved(self, centre: Float) -> PairwiseProblem:
        """Return the task of rows less a centre."""
        return replace(self, Z=moved(self.Z, centre))

    def _solve_small(self, y: Float, upper: Float, matrix: Matrix) -> Solution | None:
        """Solve over the kernel matrix; None where the method for any number of points has to."""
        if abs(y.sum()) == len(y):
            return None
        most = int(_most_steps(self.kernel, len(y)))
        solution = solve_small(matrix.K, y, upper * matrix.scale, self.tolerance, min(most, self.max_iterations))
        if not solution.converged and self.max_iterations > most:
            return None
        assert solution.alpha is not None
        alpha = np.minimum(solution.alpha / matrix.scale, upper)
        return Solution(
            alpha=alpha,
            intercept=solution.intercept - float((y * alpha) @ matrix.along),
            iterations=solution.iterations,
            converged=solution.converged,
        )


@dataclass(frozen=True, slots=True)
class Matrix:
    """Kernel values among some points.

    Attributes
    ----------
    K : ndarray of shape (m, m), float64
        In units of `scale`.
    scale : float
    along : ndarray of shape (m,)
        What a point adds to w'z at the origin that K was made around; 0 but for the linear kernel.
    """

    K: Float
    scale: float
    along: Float

    def part(self, places: NDArray[np.intp]) -> Matrix:
        """Return that of some of the points."""
        return Matrix(self.K.take(places, 0).take(places, 1), self.scale, self.along[places])


class PairKernels:
    """Kernel matrices of pairs of classes; the values within a class are computed once.

    Parameters
    ----------
    task : PairwiseProblem
    classes : int

    Attributes
    ----------
    places : list of ndarray
        Points of each class with a positive bound, ascending.
    """

    def __init__(self, task: PairwiseProblem, classes: int) -> None:
        order, counts = _by_class(task, classes)
        self._ends = np.cumsum(counts)
        self.places = np.split(order, self._ends[:-1])
        sizes = np.sort([len(own) for own in self.places])
        self._source: ProductBlocks | None = None
        if not isinstance(task.Z, np.ndarray) or sizes[:2].sum() > SMALL:
            return
        Z = task.Z[order]
        self._along = np.zeros(len(Z))
        # The origin is free but for products that are not linear; values far from it would lose digits.
        if not isinstance(task.kernel, PolynomialKernel):
            centre = Z.mean(axis=0)
            Z -= centre
            self._along = Z @ centre if isinstance(task.kernel, LinearKernel) else self._along
        kernel = PolynomialKernel(1, 1.0, 0.0) if isinstance(task.kernel, LinearKernel) else task.kernel
        self._source = ProductBlocks(Z, kernel)
        self._within = [self._source.values(self._slice(one), self._slice(one)) for one in range(classes)]
        if isinstance(kernel, RbfKernel):
            # Rounding in the exponent grows with gamma; the diagonal is 1, whatever it says.
            for values in self._within:
                np.fill_diagonal(values, 1.0)
        self._room = np.empty(min(SMALL, int(sizes[-2:].sum())) ** 2)
        self._panel: tuple[int, Float] = (-1, np.empty((0, 0)))

    def among(self, i: int, j: int) -> Matrix | None:
        """Return the matrix of the points of two classes, one after the other; None if they are too many.

        It holds until the next call.
        """
        first, second = self._slice(i), self._slice(j)
        middle, m = len(self.places[i]), len(self.places[i]) + len(self.places[j])
        if self._source is None or m > SMALL:
            return None
        K = self._room[: m * m].reshape(m, m)
        K[:middle, :middle], K[middle:, middle:] = self._within[i], self._within[j]
        K[:middle, middle:] = self._later(i)[:, second.start - first.stop : second.stop - first.stop]
        K[middle:, :middle] = K[:middle, middle:].T
        along = np.concatenate((self._along[first], self._along[second]))
        return Matrix(K, self._source.scale, along)

    def of_pair(self, i: int, j: int) -> NDArray[np.intp]:
        """Return the points of two classes, in the order of `among`."""
        return np.concatenate((self.places[i], self.places[j]))

    def _later(self, one: int) -> Float:
        """Return the values of a class with all later ones; pairs come class by class, so the last is kept."""
        if self._panel[0] != one:
            assert self._source is not None
            self._panel = one, self._source.values(self._slice(one), slice(int(self._ends[one]), None))
        return self._panel[1]

    def _slice(self, one: int) -> slice:
        return slice(int(self._ends[one]) - len(self.places[one]), int(self._ends[one]))


@dataclass(frozen=True, slots=True, kw_only=True)
class PairMachines:
    """What was trained, in SVC's order of things.

    Attributes
    ----------
    support : ndarray of shape (s,), int32
        Points that support any machine, by class and then by place.
    counts : ndarray of shape (k,), int32
        How many of each class.
    dual : ndarray of shape (k - 1, s)
        Of a point of class c, row r is for the machine of c and r (r < c), or of c and r + 1; + for the pair's first
        class.
    intercepts : ndarray of shape (k (k - 1) / 2,)
    iterations : ndarray of shape (k (k - 1) / 2,), int32
    converged : bool
    gap : float
        Largest KKT gap of a machine; 0 of small ones that met the tolerance.
    centres : ndarray of shape (k (k - 1) / 2, d), or None
        What rows lose before a linear machine, whose intercept is that of such rows; None: nothing.
    """

    support: NDArray[np.int32]
    counts: NDArray[np.int32]
    dual: Float
    intercepts: Float
    iterations: NDArray[np.int32]
    converged: bool
    gap: float
    centres: Float | None = None


def train(task: PairwiseProblem, classes: int) -> PairMachines:
    """Train every pair; every class has a point."""
    offsets = far_pairs(task, classes)
    dual, intercepts, iterations = _small_pairs(task, classes, offsets)
    kernels, converged, gap = None, True, 0.0
    for at, (i, j) in enumerate(combinations(range(classes), 2)):
        if np.isfinite(intercepts[i, j]):
            continue
        if offsets is not None and offsets[at].any():
            rows = _of_pair(task.label, i, j)
            solution = task.moved(offsets[at]).solve(rows, j)
        else:
            kernels = kernels or PairKernels(task, classes)
            matrix = kernels.among(i, j)
            rows = _of_pair(task.label, i, j) if matrix is None else kernels.of_pair(i, j)
            solution = task.solve(rows, j, matrix)
        assert solution.alpha is not None
        first = task.label[rows] == i
        dual[j - 1, rows[first]] = solution.alpha[first]
        dual[i, rows[~first]] = -solution.alpha[~first]
        intercepts[i, j], iterations[i, j] = -solution.intercept, solution.iterations
        converged = converged and solution.converged
        gap = max(gap, solution.optimality.kkt_gap if solution.optimality is not None else 0.0)
    pairs = np.triu_indices(classes, 1)
    supporting = np.flatnonzero(dual.any(axis=0))
    support = supporting[np.argsort(task.label[supporting], kind="stable")]
    return PairMachines(
        support=support.astype(np.int32),
        counts=np.bincount(task.label[support], minlength=classes).astype(np.int32),
        dual=np.ascontiguousarray(dual[:, support]),
        intercepts=intercepts[pairs],
        iterations=iterations[pairs].astype(np.int32),
        converged=converged,
        gap=gap,
        centres=offsets if isinstance(task.kernel, LinearKernel) else None,
    )


def far_pairs(task: PairwiseProblem, classes: int) -> Float | None:
    """Return what the rows of each pair lose before they are solved; see `pair_offsets`."""
    if isinstance(task.kernel, PolynomialKernel):
        return None
    return pair_offsets(task.Z, task.label, classes)


def _small_pairs(task: PairwiseProblem, classes: int, offsets: Float | None) -> tuple[Float, Float, NDArray[np.int64]]:
    """Solve the small pairs that steps alone solve; see `streamsvm.drop_in.small.solve_pairs`.

    Returns
    -------
    dual : ndarray of shape (k - 1, n)
    intercepts : ndarray of shape (k, k)
        NaN of pairs that are left.
    iterations : ndarray of shape (k, k)
    """
    order, sizes = _by_class(task, classes)
    pairs = np.triu(np.add.outer(sizes, sizes), 1)
    most = np.minimum(_most_steps(task.kernel, pairs), task.max_iterations)
    limits = np.where((pairs > 0) & (pairs <= SMALL), most, 0)
    if offsets is not None:
        limits[np.triu_indices(classes, 1)] *= ~offsets.any(axis=1)
    dual = np.zeros((classes - 1, len(task.label)))
    if not isinstance(task.Z, np.ndarray) or not limits.any():
        return dual, np.full(pairs.shape, np.nan), np.zeros(pairs.shape, np.int64)
    points = classes_of(task.Z[order], np.append(0, np.cumsum(sizes)), task.upper[order], task.kernel)
    dual[:, order], intercepts, steps = solve_pairs(points, task.tolerance, limits)
    return dual, intercepts, steps


def _by_class(task: PairwiseProblem, classes: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the points with a positive bound, class by class, and how many each class has."""
    order = np.argsort(task.label, kind="stable")
    order = order[task.upper[order] > 0.0]
    return order, np.bincount(task.label[order], minlength=classes)


def decide(K: Float, counts: NDArray[np.int32], dual: Float, intercepts: Float) -> Float:
    """Return the decision values of every pair, shape (m, k (k - 1) / 2).

    Parameters
    ----------
    K : ndarray of shape (m, s)
        Kernel values of points with the support vectors.
    counts, dual, intercepts
        As in `PairMachines`.
    """
    ends = np.cumsum(counts)
    # A class's share in all its machines is one product, which no other class needs.
    shares = [K[:, end - count : end] @ dual[:, end - count : end].T for count, end in zip(counts, ends, strict=True)]
    pairs = enumerate(combinations(range(len(counts)), 2))
    columns = [shares[i][:, j - 1] + shares[j][:, i] + intercepts[at] for at, (i, j) in pairs]
    return np.column_stack(columns)


def planes(support_vectors: Any, counts: NDArray[np.int32], dual: Float) -> Float:
    """Return the coefficients of every pair's linear machine, shape (k (k - 1) / 2, d)."""
    ends = np.cumsum(counts)
    slices = [slice(end - count, end) for count, end in zip(counts, ends, strict=True)]
    shares = [np.asarray(dual[:, part] @ support_vectors[part]) for part in slices]
    return np.array([shares[i][j - 1] + shares[j][i] for i, j in combinations(range(len(counts)), 2)])


def votes(decision: Float, classes: int) -> NDArray[np.intp]:
    """Return the class with most won pairs, the first of several, shape (m,); a value of 0 is the second class's."""
    won = np.zeros((len(decision), classes), np.intp)
    for at, (i, j) in enumerate(combinations(range(classes), 2)):
        first = decision[:, at] > 0.0
        won[:, i] += first
        won[:, j] += ~first
    return np.asarray(won.argmax(axis=1))


def kernel_values(X: Any, support_vectors: Any, kernel: Any) -> Iterator[tuple[slice, Float]]:
    """Yield some rows at a time, and their kernel values with support vectors; both dense, or both CSR.

    Rows are so many that a block of values has a bounded size. RBF values do not depend on where the origin is.
    """
    gram, centre = _gram_with(support_vectors, kernel)
    for rows in blocks_of(X.shape[0], support_vectors.shape[0]):
        yield rows, gram(X[rows] if centre is None else moved(X[rows], centre))


def _gram_with(support_vectors: Any, kernel: Any) -> tuple[Callable[[Any], Float], Float | None]:
    """Return what computes kernel values of rows with support vectors, and what these rows have to lose before."""
    if isinstance(kernel, LinearKernel):
        return lambda rows: products(rows, support_vectors), None
    if not isinstance(kernel, RbfKernel):
        return lambda rows: kernel.gram(rows, support_vectors), None
    if not isinstance(support_vectors, np.ndarray):
        centre = offset_of(support_vectors)
        near = support_vectors if centre is None else moved(support_vectors, centre)
        return lambda rows: rbf_kernel(rows, near, gamma=kernel.gamma), centre
    around = kernel.around(support_vectors)
    # Expanded squares cancel where support vectors are far from one another, beside the kernel's width.
    if kernel.gamma * EPSILON * float(around.squares.max(initial=0.0)) > CANCELLED:
        return lambda rows: np.exp(-kernel.gamma * cdist(rows, support_vectors, "sqeuclidean")), None
    return around.gram, None


def platt(task: PairwiseProblem, classes: int, seed: int) -> tuple[Float, Float, bool]:
    """Return a and b of P(first class) = 1 / (1 + exp(a f + b)) of every pair, by cross-validation inside the pair.

    The last value says whether every machine met the tolerance.

    Folds are those of LIBSVM with this seed, so the probabilities are SVC's up to the machines' tolerance. LIBSVM sets
    its generator to the seed before each machine that it trains, so every pair begins with the same numbers.
    """
    kernels, offsets = PairKernels(task, classes), far_pairs(task, classes)
    found = []
    for at, (i, j) in enumerate(combinations(range(classes), 2)):
        far = offsets is not None and bool(offsets[at].any())
        own = task.moved(offsets[at]) if offsets is not None and far else task
        matrix = None if far else kernels.among(i, j)
        found.append(_platt_of_pair(own, i, kernels.of_pair(i, j), matrix, seed))
    a, b, converged = zip(*found, strict=True)
    return np.array(a), np.array(b), all(converged)


def _platt_of_pair(
    task: PairwiseProblem, i: int, members: NDArray[np.intp], matrix: Matrix | None, seed: int
) -> tuple[float, float, bool]:
    order = shuffled(len(members), seed)
    decision, converged = np.empty(len(order)), True
    for fold in range(FOLDS):
        begin, end = fold * len(order) // FOLDS, (fold + 1) * len(order) // FOLDS
        rest = np.concatenate((order[:begin], order[end:]))
        rest = rest[np.argsort(members[rest])]
        solution = task.solve(members[rest], i, None if matrix is None else matrix.part(rest))
        decision[begin:end] = _decide(task, members[rest], i, solution, members[order[begin:end]])
        converged = converged and solution.converged
    y = np.where(task.label[members[order]] == i, 1, -1).astype(np.int8)
    sigmoid = fit_probability("sigmoid", decision, y, np.ones(len(y)))
    assert isinstance(sigmoid, Sigmoid)
    return sigmoid.a, sigmoid.b, converged


def _decide(
    task: PairwiseProblem, rows: NDArray[np.intp], first: int, solution: Solution, targets: NDArray[np.intp]
) -> Float:
    """Return decision values of a machine of some rows, positive on the side of the class `first`."""
    assert solution.alpha is not None
    support = np.flatnonzero(solution.alpha)
    signed = np.where(task.label[rows[support]] == first, 1.0, -1.0) * solution.alpha[support]
    values = np.full(len(targets), solution.intercept)
    if len(support):
        for part, K in kernel_values(task.Z[targets], task.Z[rows[support]], task.kernel):
            values[part] += K @ signed
    return values


def shuffled(count: int, seed: int) -> NDArray[np.intp]:
    """Return the places 0 to count - 1 in LIBSVM's random order: Fisher-Yates by a Mersenne twister of that seed.

    A number below a limit is the high half of its product with 32 random bits; those of the few products that would
    make some numbers likelier are drawn again (Lemire 2019).
    """
    twister = np.random.RandomState(seed)
    order = np.arange(count)
    for i in range(count):
        limit = count - i
        product = int(twister.randint(0, 1 << 32, dtype=np.uint32)) * limit
        while product % (1 << 32) < (1 << 32) % limit:
            product = int(twister.randint(0, 1 << 32, dtype=np.uint32)) * limit
        j = i + (product >> 32)
        order[i], order[j] = order[j], order[i]
    return order


def _most_steps(kernel: Kernel | PolynomialKernel, size: Any) -> Any:
    """Return the most steps of small pairs of so many points."""
    return LINEAR_STEPS * size if isinstance(kernel, LinearKernel) else np.full_like(size, SMALL_STEPS)


def _of_pair(label: NDArray[np.intp], i: int, j: int) -> NDArray[np.intp]:
    return np.flatnonzero((label == i) | (label == j))

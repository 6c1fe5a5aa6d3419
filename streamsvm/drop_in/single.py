"""`STDASVR` and `STDAOneClassSVM`: scikit-learn's SVR and OneClassSVM with our solver.

See `streamsvm.drop_in.base`. Invariant: every problem is exactly SVR's or OneClassSVM's, so attributes mean the
same, and their values differ only within the tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVR, OneClassSVM

from streamsvm.compiling import njit
from streamsvm.drop_in import pairs
from streamsvm.drop_in.base import FEW, FEW_IN_PLAY, LARGEST_BOX, MOST_IN_PLAY, TRIES, DropIn, with_parameters_of
from streamsvm.drop_in.expansion import Expansion, solve_one_class, solve_tube
from streamsvm.drop_in.recheck import near_rbf, one_class_gap, tube_gap
from streamsvm.drop_in.threads import Threads, number_of
from streamsvm.model.kernels import Float
from streamsvm.process_wide import algebra_threads

LARGEST_TARGET: Final = 1e100
"""As of features: squares must stay finite."""

ROUNDING: Final = 32.0 * float(np.finfo(np.float64).eps)
"""Share of its terms within which a value of a one-class machine counts as 0."""
MOST_COMPARED: Final = 64
"""Points, or a few more, whose kernel values say how far apart a one-class machine's values are."""
STEPS_OF_GUESS, CAUTION = 32, 0.8
"""Steps to guess a one-class machine's intercept by these points; share of the guess that is mostly below."""
MOST_TIGHTENED: Final = 6
"""Solutions of a one-class machine, each with a smaller tolerance, until it fits the values that were found."""


class _SingleFunction(DropIn):
    """What both have in common: one function, and no labels."""

    def _solve(self, X: Any, y: Float, upper: Float, threads: Threads) -> Expansion:
        """Return the machine of points with positive bounds; see the class."""
        raise NotImplementedError

    def _upper(self, weight: Float) -> Float:
        """Return the largest dual variable of each point, 0 or less of one that takes no part."""
        raise NotImplementedError

    def _train(self, X: Any, y: Float, weight: Float, random_seed: int) -> None:  # noqa: ARG002
        taking_part = np.flatnonzero(weight > 0.0)
        if not np.abs(y).max() <= LARGEST_TARGET:
            raise ValueError(
                f"The dual coefficients or intercepts are not finite. The largest target is {np.abs(y).max():g} in "
                f"magnitude; at most {LARGEST_TARGET:g} is supported: scale the targets"
            )
        every = len(taking_part) == len(y)
        upper = np.minimum(self._upper(weight[taking_part]), LARGEST_BOX)
        with Threads(self.threads) as threads:
            found = self._solve(X if every else X[taking_part], y[taking_part], upper, threads)
        support = np.flatnonzero(found.coefficients)
        self.support_ = taking_part[support].astype(np.int32)
        self._n_support = np.array([len(support), 0], np.int32)
        self.dual_coef_ = found.coefficients[support].reshape(1, -1)
        self.intercept_, self._gap = np.array([found.intercept]), found.gap
        self._num_iter, self.fit_status_ = np.array([found.iterations]), int(not found.converged)
        if (self._upper(weight[taking_part]) > LARGEST_BOX).any():
            self._boxes_full = int(np.count_nonzero(np.abs(found.coefficients) >= LARGEST_BOX))
        if self._offset is not None and not self._may_move:
            self._own_centres, self.intercept_ = found.centre[None, :], np.array([found.centred_intercept])

    def _values(self, X: Any) -> Float:
        return self._decide(X).reshape(-1, 1)

    def _answer(self, X: Any) -> Float:
        return self._decide(X)

    def _decide(self, X: Any) -> Float:
        """Return the function's values, shape (m,)."""
        with algebra_threads(number_of(self.threads)):
            return self._expanded.values(X)[:, 0]

    def _every(self, size: int, support: NDArray[Any], dual: Float) -> Float:
        """Return the dual variables of all rows, shape (n,)."""
        b = np.zeros(size)
        b[support] = dual[0]
        return b


class STDASVR(_SingleFunction, SVR):  # type: ignore[misc]
    """Epsilon-insensitive regression, trained by STDA-SVM: `sklearn.svm.SVR` with another solver.

    Every parameter, attribute, check and message is SVR's. `threads` is added; what is said of kernels, `tol`,
    `max_iter`, `threads`, `support_` and `fit_status_` of `STDASVC` holds here. `tol` and `epsilon` are in units of y.

    Notes
    -----
    Source of the method: Liuzzi, Lucidi, Manno and Rinaldi 2015, for the dual of regression; see
    `streamsvm.drop_in.tube`. Points of weight 0 take no part, as in SVR; negative weights are refused.

    Examples
    --------
    >>> import numpy as np
    >>> from streamsvm import STDASVR
    >>> X = np.arange(10.0).reshape(-1, 1)
    >>> STDASVR(kernel="linear", C=10.0, epsilon=0.0).fit(X, 3.0 * X[:, 0] + 1.0).predict([[20.0]]).round(3)
    array([61.])
    """

    C: float
    epsilon: float

    __init__ = with_parameters_of(SVR, threads=1)

    def _steps_of_libsvm(self, X: Any, y: Float) -> int:  # noqa: ARG002
        n = X.shape[0]
        return TRIES * n if n <= FEW and self.kernel == "linear" else 0

    def _upper(self, weight: Float) -> Float:
        return float(self.C) * weight

    def _solve(self, X: Any, y: Float, upper: Float, threads: Threads) -> Expansion:
        kernel, epsilon = self._own_kernel, float(self.epsilon)
        return solve_tube(X, y, upper, epsilon, kernel, self.tol, self._most_steps(len(y)), threads)

    def _gap_of(self, values: Float, y: Float, weight: Float, support: NDArray[Any], dual: Float) -> float:
        if not np.isfinite(values).all():
            return np.inf
        b = self._every(len(y), support, dual)
        return tube_gap(values[:, 0], y, b, self._upper(weight), float(self.epsilon))


class STDAOneClassSVM(_SingleFunction, OneClassSVM):  # type: ignore[misc]
    """One-class machine, trained by STDA-SVM: `sklearn.svm.OneClassSVM` with another solver.

    Every parameter, attribute, check and message is OneClassSVM's. `threads` is added; what is said of kernels, `tol`,
    `max_iter`, `threads`, `support_` and `fit_status_` of `STDASVC` holds here. The dual variables are between 0 and a
    point's weight, with a sum of `nu` times the sum of the weights.

    Notes
    -----
    Source of the method: Liuzzi, Lucidi, Manno and Rinaldi 2015, for the dual of one class; see
    `streamsvm.drop_in.one_class`. Points of weight 0 take no part; negative weights are refused. A decision
    value that the final gap does not tell from 0 is 0: the point is on the border, and inside. OneClassSVM leaves the
    side of such points to chance. The gap is at most `tol`, in units of the values where these are below 1: they are
    as small as the sum of the dual variables, and `tol` alone would not tell a far point from the border.

    Examples
    --------
    >>> from streamsvm import STDAOneClassSVM
    >>> STDAOneClassSVM(gamma="auto").fit([[0], [0.44], [0.45], [0.46], [1]]).predict([[0], [0.45]])
    array([-1,  1])
    """

    nu: float

    __init__ = with_parameters_of(OneClassSVM, threads=1)

    def _steps_of_libsvm(self, X: Any, y: Float) -> int:  # noqa: ARG002
        # LIBSVM begins with the kernel values of nu n points, ours with all.
        n = X.shape[0]
        in_play = self.nu * n <= MOST_IN_PLAY or self.kernel == "poly"
        return TRIES * n if n <= FEW or (n <= FEW_IN_PLAY and in_play) else 0

    def _upper(self, weight: Float) -> Float:
        return weight

    def _validate_targets(self, y: Float) -> Float:
        # OneClassSVM's own ones.
        return y

    def _left_to_libsvm(
        self, X: Any, y: Float, sample_weight: Float, train: Callable[[Any, Float, Float], None]
    ) -> None:
        tolerance, total = self.tol, self._total(sample_weight if len(sample_weight) else np.ones(len(y)))
        try:
            self.tol = tolerance * min(1.0, total or 1.0)
            super()._left_to_libsvm(X, y, sample_weight, train)
        finally:
            self.tol = tolerance

    def _tolerances(self, X: Any, weight: Float) -> tuple[float, Callable[[], float]]:
        total, means = self._total(weight), self._kernel_means(X)
        before = self._size_of_values(means, total, CAUTION * total * means.least)
        return self.tol * before, lambda: self.tol * self._size_of_values(means, total, float(self.intercept_[0]))

    def _solve(self, X: Any, y: Float, upper: Float, threads: Threads) -> Expansion:  # noqa: ARG002 - no targets
        kernel, total, means = self._own_kernel, self._total(upper), self._kernel_means(X)
        tolerance = self.tol * self._size_of_values(means, total, CAUTION * total * means.least)
        for _ in range(MOST_TIGHTENED):
            found = solve_one_class(X, upper, total, kernel, tolerance, self._most_steps(len(upper)), threads)
            wanted = self.tol * self._size_of_values(means, total, found.intercept)
            if not found.converged or tolerance <= wanted:
                break
            tolerance = 0.5 * wanted
        return found

    def _total(self, weight: Float) -> float:
        """Return the sum of the dual variables."""
        return float(self.nu * weight.sum())

    @property
    def _may_move(self) -> bool:
        return bool(self.kernel != "linear")

    def _gap_of(self, values: Float, y: Float, weight: Float, support: NDArray[Any], dual: Float) -> float:
        return one_class_gap(values[:, 0], self._every(len(y), support, dual), self._upper(weight))

    def _kernel_means(self, X: Any) -> _KernelMeans:
        few = X[:: max(1, X.shape[0] // MOST_COMPARED)]
        if self.kernel == "rbf" and isinstance(few, np.ndarray):
            K = near_rbf(few, few, float(self._gamma))
        else:
            K = np.ascontiguousarray(next(pairs.kernel_values(few, few, self._own_kernel))[1])
        return _KernelMeans(*_means_of(K, X.shape[0]))

    def _size_of_values(self, means: _KernelMeans, total: float, intercept: float) -> float:
        """Return what the machine's values are in units of, at most 1, and at least rounding.

        A far point's value is the intercept, with the RBF kernel. The mean squared distance of the images of the points
        from their mean, times the dual variables' sum, is how much values differ among points that are as far.

        Parameters
        ----------
        means : _KernelMeans
        total : float
            Sum of the dual variables.
        intercept : float
            Of the machine, or a guess.
        """
        spread = means.own - means.all
        # Points that are all the same lie on the border, and no value is another than theirs.
        size = total * (spread if spread > ROUNDING * means.own else means.own)
        if self.kernel == "rbf":
            size = min(size, max(abs(intercept), ROUNDING * total))
        return min(1.0, size) or 1.0

    def _decide(self, X: Any) -> Float:
        values = super()._decide(X)
        # Support vectors below their bound lie on the border, and the gap says how well that is known. Neither what is
        # left of it, nor rounding, which depends on the rows that are asked for at the same time, may decide a side.
        machine = self._expanded
        size = np.abs(values - machine.intercepts) * self._rounding(X) + np.abs(machine.intercepts)
        if self.kernel == "linear":
            size += machine.planes.sizes(X)[:, 0]
        values[np.abs(values) <= np.maximum(self._gap, ROUNDING * size)] = 0.0
        return np.asarray(values, dtype=np.float64)

    def _rounding(self, X: Any) -> Float | float:
        """Return how many times `ROUNDING` a row's kernel values are off; it grows in the exponent, with gamma."""
        if self.kernel != "rbf" or not len(self.support_):
            return 1.0
        support = self.support_vectors_
        # Squares are of rows less the support vectors' mean, where the rows are dense: see `RbfKernel.around`.
        centre = support.mean(axis=0) if isinstance(X, np.ndarray) else 0.0
        return 1.0 + float(self._gamma) * (_squares(X, centre) + float(_squares(support, centre).max()))

    def _answer(self, X: Any) -> Float:
        return np.where(self._decide(X) >= 0.0, 1.0, -1.0)


class _KernelMeans(NamedTuple):
    """Mean kernel values of a few points.

    Attributes
    ----------
    own : float
        Of each point with itself.
    all : float
        Of all pairs, those with itself too.
    least : float
        Least mean of all pairs, whatever the points weigh, about: times the dual variables' sum it is the plane's
        offset, where no bound is reached.
    """

    own: float
    all: float
    least: float


@njit(cache=True, nogil=True)
def _means_of(K, n):  # type: ignore[no-untyped-def]
    """Return the means of K, shape (m, m), whose points stand for n; the least one by some steps of Frank and Wolfe."""
    m = len(K)
    F, own = np.empty(m), 0.0
    for i in range(m):
        F[i] = K[i].sum()
        own += K[i, i]
    every = F.sum()
    # Each point stands for n / m, which are not the same point.
    part = m / n
    for i in range(m):
        F[i] = (F[i] + (part - 1.0) * K[i, i]) / m
    square = F.mean()
    for _ in range(STEPS_OF_GUESS):
        i = int(F.argmin())
        falls, diagonal = square - F[i], part * K[i, i]
        length = square - 2.0 * F[i] + diagonal
        if not (falls > 0.0 and length > 0.0):
            break
        t = min(1.0, falls / length)
        square = (1.0 - t) ** 2 * square + 2.0 * t * (1.0 - t) * F[i] + t * t * diagonal
        for j in range(m):
            F[j] = (1.0 - t) * F[j] + t * K[i, j]
        F[i] += t * (diagonal - K[i, i])
    return own / m, every / (m * m), square


def _squares(X: Any, centre: Any) -> Float:
    """Return the squared length of each row, shape (n,), less a centre if the rows are dense."""
    if isinstance(X, np.ndarray):
        moved = X - centre
        return np.asarray(np.einsum("ij,ij->i", moved, moved), dtype=np.float64)
    return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()

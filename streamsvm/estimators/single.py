"""`STDASVR` and `STDAOneClassSVM`: scikit-learn's SVR and OneClassSVM with our solver.

Invariant: every problem is exactly SVR's or OneClassSVM's, so attributes mean the same, and their values differ only
within the tolerance.

Each is the class of scikit-learn, by inheritance, and what is replaced is what `STDASVC` replaces; LIBSVM is called for
the same kernels, for the same reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.svm import SVR, OneClassSVM

from streamsvm.estimators import pairs
from streamsvm.estimators.stdasvc import (
    DENSE_BYTES,
    LARGEST_BOX,
    UNBOUNDED,
    KernelName,
    as_libsvm_keeps,
    check_magnitude,
    check_own_parameters,
    own_kernel,
    solved_here,
    warn_of_gap,
)
from streamsvm.learning.training import limited_to
from streamsvm.model.kernels import Float
from streamsvm.svm.single import Expansion, solve_one_class, solve_tube

LARGEST_TARGET: Final = 1e100
"""As of features: squares must stay finite."""


ROUNDING: Final = 32.0 * float(np.finfo(np.float64).eps)
"""Share of its terms within which a value of a one-class machine counts as 0."""


class _SingleFunction:
    """What both have in common: the places where scikit-learn's class calls LIBSVM."""

    kernel: Any
    tol: float
    max_iter: int
    threads: int
    support_: NDArray[np.int32]
    support_vectors_: Any
    dual_coef_: Any
    intercept_: Float
    fit_status_: int
    _dual_coef_: Any
    _intercept_: Float
    _gap: float

    def _solve(self, X: Any, y: Float, upper: Float) -> Expansion:
        """Return the machine of points with positive bounds; see the class."""
        raise NotImplementedError

    def _upper(self, weight: Float) -> Float:
        """Return the largest dual variable of each point, 0 or less of one that takes no part."""
        raise NotImplementedError

    def _dense_fit(
        self, X: Any, y: Float, sample_weight: Float, solver_type: int, kernel: str, random_seed: int
    ) -> None:
        if not solved_here(self):
            super()._dense_fit(X, y, sample_weight, solver_type, kernel, random_seed)  # type: ignore[misc]
            return
        self._train(X, y, sample_weight)
        self.support_vectors_ = X[self.support_]

    def _sparse_fit(
        self, X: Any, y: Float, sample_weight: Float, solver_type: int, kernel: str, random_seed: int
    ) -> None:
        if not solved_here(self):
            super()._sparse_fit(X, y, sample_weight, solver_type, kernel, random_seed)  # type: ignore[misc]
            return
        X.sum_duplicates()
        dense = X.shape[0] * X.shape[1] * X.dtype.itemsize <= DENSE_BYTES[kernel]
        self._train(X.toarray() if dense else X, y, sample_weight)
        self.support_vectors_, self.dual_coef_ = as_libsvm_keeps(X[self.support_], self.dual_coef_)

    def _train(self, X: Any, y: Float, sample_weight: Float) -> None:
        weight = sample_weight if len(sample_weight) else np.ones(len(y))
        if weight.ndim != 1:
            raise ValueError(f"sample_weight has shape {weight.shape}: give one number a sample, shape {y.shape}")
        taking_part = np.flatnonzero(weight > 0.0)
        if not len(taking_part):
            raise ValueError("Invalid input - all samples have zero or negative weights.")
        check_magnitude(X)
        if not np.abs(y).max() <= LARGEST_TARGET:
            raise ValueError(
                f"The dual coefficients or intercepts are not finite. The largest target is {np.abs(y).max():g} in "
                f"magnitude; at most {LARGEST_TARGET:g} is supported: scale the targets"
            )
        every = len(taking_part) == len(y)
        upper = np.minimum(self._upper(weight[taking_part]), LARGEST_BOX)
        with limited_to(self.threads):
            found = self._solve(X if every else X[taking_part], y[taking_part], upper)
        support = np.flatnonzero(found.coefficients)
        self.support_ = taking_part[support].astype(np.int32)
        self._n_support = np.array([len(support), 0], np.int32)
        self.dual_coef_ = found.coefficients[support].reshape(1, -1)
        self.intercept_ = np.array([found.intercept])
        self._probA, self._probB, self._gap = np.empty(0), np.empty(0), found.gap
        self._num_iter, self.fit_status_ = np.array([found.iterations]), int(not found.converged)
        self._warn_from_fit_status()

    @property
    def _most_steps(self) -> int:
        return UNBOUNDED if self.max_iter == -1 else self.max_iter

    def _warn_from_fit_status(self) -> None:
        if self.fit_status_ and self.max_iter == -1:
            warn_of_gap(self.tol)
        else:
            super()._warn_from_fit_status()  # type: ignore[misc]

    def _dense_predict(self, X: Any) -> Any:
        return self._answer(X) if solved_here(self) else super()._dense_predict(X)  # type: ignore[misc]

    def _sparse_predict(self, X: Any) -> Any:
        return self._answer(X) if solved_here(self) else super()._sparse_predict(X)  # type: ignore[misc]

    def _dense_decision_function(self, X: Any) -> Any:
        if solved_here(self):
            return self._decide(X).reshape(-1, 1)
        return super()._dense_decision_function(X)  # type: ignore[misc]

    def _sparse_decision_function(self, X: Any) -> Any:
        if solved_here(self):
            return self._decide(X).reshape(-1, 1)
        return super()._sparse_decision_function(X)  # type: ignore[misc]

    def _answer(self, X: Any) -> Float:
        return self._decide(X)

    @property
    def _dual(self) -> Float:
        """The dual variables of the support vectors, shape (n_SV,)."""
        kept = self._dual_coef_
        return np.asarray((kept.toarray() if sparse.issparse(kept) else kept)[0], dtype=np.float64)

    @property
    def _plane(self) -> Float:
        """The coefficients of a linear machine, shape (d,)."""
        return np.asarray(self._dual @ self.support_vectors_, dtype=np.float64)

    def _decide(self, X: Any) -> Float:
        """Return the function's values, shape (m,)."""
        dual = self._dual
        values = np.full(X.shape[0], float(self._intercept_[0]))
        with limited_to(self.threads):
            if self.kernel == "linear":
                values += X @ self._plane
            elif len(dual):
                for rows, K in pairs.kernel_values(X, self.support_vectors_, own_kernel(self)):
                    values[rows] += K @ dual
        return values


class STDASVR(_SingleFunction, SVR):  # type: ignore[misc]
    """Epsilon-insensitive regression, trained by STDA-SVM: `sklearn.svm.SVR` with another solver.

    Every parameter, attribute, check and message is SVR's; `threads` is added. `shrinking`, `cache_size` and `verbose`
    are for LIBSVM, where it solves.

    Parameters
    ----------
    kernel : "linear", "poly", "rbf", "sigmoid", "precomputed" or callable, default "rbf"
        Sigmoid, polynomial with a negative `coef0`, "precomputed" and callables are solved by LIBSVM, as in SVR.
    degree : int, default 3
    gamma : "scale", "auto" or float, default "scale"
        As in SVR: 1 / (d times the variance of X), 1 / d, or a number.
    coef0 : float, default 0.0
    tol : float, default 1e-3
        KKT gap, in units of y, at which the solver stops; the final gap is recomputed from scratch in float64.
    C : float, default 1.0
        Penalty: the largest dual variable of a point of weight 1. Bounds beyond 1e10 (`C=inf`) count as 1e10.
    epsilon : float, default 0.1
        Deviations up to this cost nothing, in units of y.
    max_iter : int, default -1
        Most iterations of the solver; -1: no bound.
    threads : int, default 1
        Threads of linear algebra; the same number gives the same bits.

    Attributes
    ----------
    support_ : ndarray of shape (n_SV,), int32
        Places of the support vectors, ascending. Where points have weight 0 or less these are still places in X, while
        SVR counts the other points only.
    support_vectors_ : ndarray or CSR array of shape (n_SV, n_features)
        Empty with `kernel="precomputed"` or a callable.
    n_support_ : ndarray of shape (1,), int32
    dual_coef_ : ndarray or CSR array of shape (1, n_SV)
    intercept_ : ndarray of shape (1,)
    coef_ : ndarray or CSR array of shape (1, n_features)
        With the linear kernel only.
    n_iter_ : int
    fit_status_ : int
        0 if the solver met the tolerance, else 1.
    shape_fit_ : tuple of int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        If X had names.

    Notes
    -----
    Source of the method: Liuzzi, Lucidi, Manno and Rinaldi 2015, for the dual of regression; see
    `streamsvm.svm.block.tube`. Points of weight 0 or less take no part, as in SVR.

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

    def __init__(
        self,
        *,
        kernel: KernelName | Callable[..., Any] = "rbf",
        degree: int = 3,
        gamma: Literal["scale", "auto"] | float = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        C: float = 1.0,
        epsilon: float = 0.1,
        shrinking: bool = True,
        cache_size: float = 200,
        verbose: bool = False,
        max_iter: int = -1,
        threads: int = 1,
    ) -> None:
        super().__init__(
            kernel=kernel,
            degree=degree,
            gamma=gamma,
            coef0=coef0,
            tol=tol,
            C=C,
            epsilon=epsilon,
            shrinking=shrinking,
            cache_size=cache_size,
            verbose=verbose,
            max_iter=max_iter,
        )
        self.threads = threads

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on all points.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d), or (n, n) with `kernel="precomputed"`
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            Multiplies the penalty of each point; a point of weight 0 or less is as good as absent.

        Returns
        -------
        STDASVR
            Itself.

        Raises
        ------
        ValueError
            If a parameter or the data has no meaning; the message says which.
        TypeError
            If a precomputed matrix is sparse.
        """
        check_own_parameters(None, self.threads)
        super().fit(X, y, sample_weight)
        return self

    def _upper(self, weight: Float) -> Float:
        return float(self.C) * weight

    def _solve(self, X: Any, y: Float, upper: Float) -> Expansion:
        return solve_tube(X, y, upper, float(self.epsilon), own_kernel(self), self.tol, self._most_steps)


class STDAOneClassSVM(_SingleFunction, OneClassSVM):  # type: ignore[misc]
    """One-class machine, trained by STDA-SVM: `sklearn.svm.OneClassSVM` with another solver.

    Every parameter, attribute, check and message is OneClassSVM's; `threads` is added. `shrinking`, `cache_size` and
    `verbose` are for LIBSVM, where it solves.

    Parameters
    ----------
    kernel : "linear", "poly", "rbf", "sigmoid", "precomputed" or callable, default "rbf"
        Sigmoid, polynomial with a negative `coef0`, "precomputed" and callables are solved by LIBSVM.
    degree : int, default 3
    gamma : "scale", "auto" or float, default "scale"
        1 / (d times the variance of X), 1 / d, or a number.
    coef0 : float, default 0.0
    tol : float, default 1e-3
        KKT gap at which the solver stops; the final gap is recomputed from scratch in float64.
    nu : float, default 0.5
        In (0, 1]: at most this share of the points, by weight, is outside, and at least this share supports.
    max_iter : int, default -1
        Most iterations of the solver; -1: no bound.
    threads : int, default 1
        Threads of linear algebra; the same number gives the same bits.

    Attributes
    ----------
    support_ : ndarray of shape (n_SV,), int32
        Places of the support vectors, ascending. Where points have weight 0 or less these are still places in X, while
        OneClassSVM counts the other points only.
    support_vectors_ : ndarray or CSR array of shape (n_SV, n_features)
        Empty with `kernel="precomputed"` or a callable.
    n_support_ : ndarray of shape (1,), int32
    dual_coef_ : ndarray or CSR array of shape (1, n_SV)
        Between 0 and the point's weight, with a sum of nu times the sum of the weights.
    intercept_, offset_ : ndarray of shape (1,)
        `offset_` is minus `intercept_`.
    coef_ : ndarray or CSR array of shape (1, n_features)
        With the linear kernel only.
    n_iter_ : int
    fit_status_ : int
        0 if the solver met the tolerance, else 1.
    shape_fit_ : tuple of int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        If X had names.

    Notes
    -----
    Source of the method: Liuzzi, Lucidi, Manno and Rinaldi 2015, for the dual of one class; see
    `streamsvm.svm.block.one_class`. Points of weight 0 or less take no part. A decision value that
    the final gap (at most `tol`) does not tell from 0 is 0: the point is on the border, and inside. OneClassSVM leaves
    the side of such points to chance.

    Examples
    --------
    >>> from streamsvm import STDAOneClassSVM
    >>> STDAOneClassSVM(gamma="auto").fit([[0], [0.44], [0.45], [0.46], [1]]).predict([[0], [0.45]])
    array([-1,  1])
    """

    nu: float

    def __init__(
        self,
        *,
        kernel: KernelName | Callable[..., Any] = "rbf",
        degree: int = 3,
        gamma: Literal["scale", "auto"] | float = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        nu: float = 0.5,
        shrinking: bool = True,
        cache_size: float = 200,
        verbose: bool = False,
        max_iter: int = -1,
        threads: int = 1,
    ) -> None:
        super().__init__(
            kernel=kernel,
            degree=degree,
            gamma=gamma,
            coef0=coef0,
            tol=tol,
            nu=nu,
            shrinking=shrinking,
            cache_size=cache_size,
            verbose=verbose,
            max_iter=max_iter,
        )
        self.threads = threads

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Train on all points.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d), or (n, n) with `kernel="precomputed"`
        y : ignored
        sample_weight : array-like of shape (n,), optional
            The largest dual variable of each point; a point of weight 0 or less is as good as absent.

        Returns
        -------
        STDAOneClassSVM
            Itself.

        Raises
        ------
        ValueError
            If a parameter or the data has no meaning; the message says which.
        TypeError
            If a precomputed matrix is sparse.
        """
        check_own_parameters(None, self.threads)
        super().fit(X, y, sample_weight)
        return self

    def _upper(self, weight: Float) -> Float:
        return weight

    def _solve(self, X: Any, y: Float, upper: Float) -> Expansion:  # noqa: ARG002 - one class has no targets
        return solve_one_class(X, upper, float(self.nu * upper.sum()), own_kernel(self), self.tol, self._most_steps)

    def _decide(self, X: Any) -> Float:
        values = super()._decide(X)
        # Support vectors below their bound lie on the border, and the gap says how well that is known. Neither what is
        # left of it, nor rounding, which depends on the rows that are asked for at the same time, may decide a side.
        size = np.abs(values - self._intercept_) + np.abs(self._intercept_)
        if self.kernel == "linear":
            size += abs(X) @ np.abs(self._plane)
        values[np.abs(values) <= np.maximum(self._gap, ROUNDING * size)] = 0.0
        return np.asarray(values, dtype=np.float64)

    def _answer(self, X: Any) -> Float:
        return np.where(self._decide(X) >= 0.0, 1.0, -1.0)

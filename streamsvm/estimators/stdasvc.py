"""`STDASVC`: scikit-learn's SVC with our solver.

Invariant: every problem is exactly SVC's, so attributes mean the same, and their values differ only within the
tolerance.

It is SVC, by inheritance: parameters, checks of the input, messages and the order of attributes are scikit-learn's own.
What is replaced is training (`_dense_fit`, `_sparse_fit`) and deciding (`_dense_decision_function`, `_dense_predict`,
and the same for sparse rows): the places where SVC calls LIBSVM. They are not public; the tests run scikit-learn's own
tests of SVC, and say if another version of scikit-learn calls them otherwise.

LIBSVM is called as before where the kernel need not be positive semidefinite: sigmoid, polynomial with a negative
`coef0`, a given matrix, a callable. Then the dual problem has many points without a violating pair, and only the same
steps lead to the same one.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn import get_config
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC
from sklearn.utils.validation import check_is_fitted

from streamsvm.estimators import pairs
from streamsvm.learning.training import limited_to
from streamsvm.model.kernels import Float, Kernel, LinearKernel, RbfKernel
from streamsvm.svm.block.product_kernels import PolynomialKernel
from streamsvm.svm.problem import LARGEST_FEATURE

UNBOUNDED: Final = 1 << 53
"""Number of iterations used for "no bound"."""
LARGEST_BOX: Final = 1e10
"""Largest bound of a dual variable. With `C=inf` the machine is that of the largest margin wherever its dual variables
stay below this bound; they grow without end where no machine separates the classes."""
DENSE_BYTES: Final = {"linear": 1 << 26, "poly": 1 << 26, "rbf": 1 << 28}
"""Sparse rows that take at most so many bytes as dense ones are solved as dense ones: to the same bits, and by faster
code with the RBF kernel."""
PROBABILITY: Final = inspect.signature(SVC).parameters["probability"].default
"""What the installed scikit-learn has for a program that says nothing."""

ClassWeight = dict[Any, float] | Literal["balanced"] | None
KernelName = Literal["linear", "poly", "rbf", "sigmoid", "precomputed"]


class STDASVC(SVC):  # type: ignore[misc]
    """Support vector classifier, trained by STDA-SVM: `sklearn.svm.SVC` with another solver.

    Every parameter, attribute, check and message is SVC's; several classes are learned one against one, as SVC does.
    `alpha` and `threads` are added. The parameters not listed here (`degree`, `coef0`, `probability`, `class_weight`,
    `decision_function_shape`, `break_ties`, `random_state`) are as in SVC; `shrinking`, `cache_size` and `verbose` are
    for LIBSVM, where it solves.

    Parameters
    ----------
    C : float, default 1.0
        Penalty: the largest dual variable of a point of weight 1. Bounds beyond 1e10 (`C=inf`) count as 1e10.
    kernel : "linear", "poly", "rbf", "sigmoid", "precomputed" or callable, default "rbf"
        Sigmoid, polynomial with a negative `coef0`, "precomputed" and callables are solved by LIBSVM, as in SVC.
    gamma : "scale", "auto" or float, default "scale"
        As in SVC: 1 / (d times the variance of X), 1 / d, or a number. Sample weights do not count.
    tol : float, default 1e-3
        KKT gap at which the solver stops; the final gap is recomputed from scratch in float64.
    max_iter : int, default -1
        Most iterations of the solver for each machine; -1: no bound.
    alpha : float, optional
        If given, sets the penalty instead of `C`: C = 1 / (alpha U), U the sum of the positive sample weights.
    threads : int, default 1
        Threads of linear algebra; the same number gives the same bits.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_weight_ : ndarray of shape (n_classes,)
    support_ : ndarray of shape (n_SV,), int32
        Places of the points that support any machine, by class and then by place. Where points have weight 0 or less
        these are still places in X, while SVC counts the other points only.
    support_vectors_ : ndarray or CSR array of shape (n_SV, n_features)
        Empty with `kernel="precomputed"` or a callable.
    n_support_ : ndarray of shape (n_classes,), int32
    dual_coef_ : ndarray or CSR array of shape (n_classes - 1, n_SV)
    intercept_, n_iter_ : ndarray of shape (n_classes * (n_classes - 1) / 2,)
    coef_ : ndarray or CSR array of shape (n_classes * (n_classes - 1) / 2, n_features)
        With the linear kernel only.
    probA_, probB_ : ndarray of shape (n_classes * (n_classes - 1) / 2,)
        With `probability=True`, else empty.
    fit_status_ : int
        0 if every machine met the tolerance, else 1.
    shape_fit_ : tuple of int
    gamma_ : float
        The width used; with the RBF kernel only.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        If X had names.

    Notes
    -----
    Source of the method: Liuzzi, Lucidi, Manno and Rinaldi 2015; see `streamsvm.svm.block.descent`.
    Probabilities are SVC's, by cross-validation over the same folds. `sklearn.calibration.CalibratedClassifierCV` is
    what scikit-learn recommends instead.
    Points of weight 0 or less take no part, as in SVC.
    X is float64 inside, as in SVC; float32 is converted.

    Examples
    --------
    >>> import numpy as np
    >>> from streamsvm import STDASVC
    >>> X = np.array([[-1.0, -1.0], [-2.0, -1.0], [1.0, 1.0], [2.0, 1.0]])
    >>> y = np.array(["noise", "noise", "pulsar", "pulsar"])
    >>> STDASVC(kernel="linear").fit(X, y).predict([[-0.8, -1.0]])
    array(['noise'], dtype='<U6')
    """

    classes_: NDArray[Any]
    class_weight_: Float
    support_: NDArray[np.int32]
    support_vectors_: Any
    dual_coef_: Any
    intercept_: Float
    n_iter_: NDArray[np.int32]
    fit_status_: int

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: KernelName | Callable[..., Any] = "rbf",
        degree: int = 3,
        gamma: Literal["scale", "auto"] | float = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        probability: bool | Literal["deprecated"] = PROBABILITY,
        tol: float = 1e-3,
        cache_size: float = 200,
        class_weight: ClassWeight = None,
        verbose: bool = False,
        max_iter: int = -1,
        decision_function_shape: Literal["ovr", "ovo"] = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
        alpha: float | None = None,
        threads: int = 1,
    ) -> None:
        super().__init__(
            C=C,
            kernel=kernel,
            degree=degree,
            gamma=gamma,
            coef0=coef0,
            shrinking=shrinking,
            probability=probability,
            tol=tol,
            cache_size=cache_size,
            class_weight=class_weight,
            verbose=verbose,
            max_iter=max_iter,
            decision_function_shape=decision_function_shape,
            break_ties=break_ties,
            random_state=random_state,
        )
        self.alpha = alpha
        self.threads = threads

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on all points.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d), or (n, n) with `kernel="precomputed"`
        y : array-like of shape (n,)
            Any labels of two classes or more.
        sample_weight : array-like of shape (n,), optional
            Multiplies the penalty of each point; a point of weight 0 or less is as good as absent.

        Returns
        -------
        STDASVC
            Itself.

        Raises
        ------
        ValueError
            If a parameter or the data has no meaning; the message says which.
        TypeError
            If a precomputed matrix is sparse.
        """
        check_own_parameters(self.alpha, self.threads)
        super().fit(X, y, sample_weight)
        return self

    @property
    def gamma_(self) -> float:
        """The width used; see the class."""
        if self.kernel != "rbf":
            raise AttributeError("gamma_ exists with the RBF kernel only")
        check_is_fitted(self)
        return float(self._gamma)

    @property
    def _solved_here(self) -> bool:
        return solved_here(self)

    def _dense_fit(
        self, X: Any, y: Float, sample_weight: Float, solver_type: int, kernel: str, random_seed: int
    ) -> None:
        if self._solved_here:
            self._train(X, y, sample_weight, random_seed)
            self.support_vectors_ = X[self.support_]
        else:
            super()._dense_fit(X, y, self._penalised(sample_weight, y), solver_type, kernel, random_seed)

    def _sparse_fit(
        self, X: Any, y: Float, sample_weight: Float, solver_type: int, kernel: str, random_seed: int
    ) -> None:
        if not self._solved_here:
            super()._sparse_fit(X, y, self._penalised(sample_weight, y), solver_type, kernel, random_seed)
            return
        X.sum_duplicates()
        dense = X.shape[0] * X.shape[1] * X.dtype.itemsize <= DENSE_BYTES[kernel]
        self._train(X.toarray() if dense else X, y, sample_weight, random_seed)
        self.support_vectors_, self.dual_coef_ = as_libsvm_keeps(X[self.support_], self.dual_coef_)

    def _penalised(self, sample_weight: Float, y: Float) -> Float:
        """Return weights that make of SVC's own penalty, C, that of `alpha`."""
        if self.alpha is None:
            return sample_weight
        weight = sample_weight if len(sample_weight) else np.ones(len(y))
        return np.asarray(weight * (self._penalty(weight) / self.C), dtype=np.float64)

    def _penalty(self, weight: Float) -> float:
        return float(self.C) if self.alpha is None else 1.0 / (self.alpha * float(np.maximum(weight, 0.0).sum()))

    def _train(self, X: Any, y: Float, sample_weight: Float, random_seed: int) -> None:
        label = y.astype(np.intp)
        weight = sample_weight if len(sample_weight) else np.ones(len(label))
        if weight.ndim != 1:
            raise ValueError(f"sample_weight has shape {weight.shape}: give one number a sample, shape {label.shape}")
        _check_weights(weight, label, self.classes_)
        check_magnitude(X)
        task = pairs.Task(
            Z=X,
            label=label,
            upper=self._upper(weight, label),
            kernel=own_kernel(self),
            tolerance=self.tol,
            max_iterations=UNBOUNDED if self.max_iter == -1 else self.max_iter,
        )
        self._probA, self._probB = np.empty(0), np.empty(0)
        with limited_to(self.threads):
            # scikit-learn before 1.9 has no word for "not asked for" besides False.
            if getattr(self, "_effective_probability", self.probability):
                self._probA, self._probB = pairs.platt(task, len(self.classes_), random_seed)
            machines = pairs.train(task, len(self.classes_))
        self.support_, self._n_support = machines.support, machines.counts
        self.dual_coef_, self.intercept_ = machines.dual, machines.intercepts
        self._num_iter, self.fit_status_ = machines.iterations, int(not machines.converged)
        self._warn_from_fit_status()

    def _upper(self, weight: Float, label: NDArray[np.intp]) -> Float:
        share = np.maximum(weight, 0.0) * self.class_weight_[label]
        bound = np.zeros(len(weight))
        # Infinity times a weight of 0 is not a number.
        np.multiply(self._penalty(weight), share, out=bound, where=share > 0.0)
        return np.minimum(bound, LARGEST_BOX)

    def _warn_from_fit_status(self) -> None:
        if self.fit_status_ and self.max_iter == -1:
            warn_of_gap(self.tol)
        else:
            super()._warn_from_fit_status()

    def _dense_decision_function(self, X: Any) -> Float:
        if self._solved_here:
            return self._decide(X)
        return np.asarray(super()._dense_decision_function(X))

    def _sparse_decision_function(self, X: Any) -> Float:
        if self._solved_here:
            return self._decide(X)
        return np.asarray(super()._sparse_decision_function(X))

    def _dense_predict(self, X: Any) -> NDArray[Any]:
        if self._solved_here:
            return pairs.votes(self._decide(X), len(self.classes_))
        return np.asarray(super()._dense_predict(X))

    def _sparse_predict(self, X: Any) -> NDArray[Any]:
        if self._solved_here:
            return pairs.votes(self._decide(X), len(self.classes_))
        return np.asarray(super()._sparse_predict(X))

    def _decide(self, X: Any) -> Float:
        """Return the decision values of every pair, positive on the side of its first class."""
        dual = self._dual_coef_.toarray() if sparse.issparse(self._dual_coef_) else np.asarray(self._dual_coef_)
        with limited_to(self.threads):
            if self.kernel == "linear":
                planes = pairs.planes(self.support_vectors_, self._n_support, dual)
                return np.asarray(X @ planes.T + self._intercept_, dtype=np.float64)
            decision = np.empty((X.shape[0], len(self._intercept_)))
            for rows, K in pairs.kernel_values(X, self.support_vectors_, own_kernel(self)):
                decision[rows] = pairs.decide(K, self._n_support, dual, self._intercept_)
        return decision


def solved_here(machine: Any) -> bool:
    """Whether a machine's kernel is positive semidefinite for certain; LIBSVM has the others."""
    kernel = machine.kernel
    return isinstance(kernel, str) and (kernel in ("linear", "rbf") or (kernel == "poly" and machine.coef0 >= 0))


def own_kernel(machine: Any) -> Kernel | PolynomialKernel:
    """Return the kernel of a machine of which `solved_here` is true, once its width is known."""
    if machine.kernel == "linear":
        return LinearKernel()
    if machine.kernel == "rbf":
        return RbfKernel(float(machine._gamma))
    return PolynomialKernel(machine.degree, float(machine._gamma), float(machine.coef0))


def as_libsvm_keeps(support_vectors: Any, dual: Float) -> tuple[Any, Any]:
    """Return sparse support vectors and their dual variables as SVC does after sparse rows."""
    # Which of scipy's two interfaces is scikit-learn's setting.
    kind = sparse.csr_array if get_config().get("sparse_interface") == "sparray" else sparse.csr_matrix
    # Zeros are kept, as LIBSVM's sparse code reads the values without their places.
    rows, columns = dual.shape
    places = np.tile(np.arange(columns, dtype=np.int32), rows)
    starts = np.arange(rows + 1, dtype=np.int32) * np.int32(columns)
    return kind(support_vectors), kind((dual.ravel(), places, starts), shape=(rows, columns))


def warn_of_gap(tolerance: float) -> None:
    """Warn that a solver ended of itself, by rounding, before the tolerance."""
    warnings.warn(
        f"the solver ended before the KKT gap met tol = {tolerance:g}: raise tol, or scale the features",
        ConvergenceWarning,
        stacklevel=4,
    )


def check_own_parameters(alpha: Any, threads: Any) -> None:
    """Check what SVC does not have."""
    if alpha is not None and (not isinstance(alpha, (int, float, np.number)) or not 0 < alpha < np.inf):
        raise ValueError(f"alpha = {alpha!r}: give a positive number, or None for C")
    if not isinstance(threads, (int, np.integer)) or threads < 1:
        raise ValueError(f"threads = {threads!r}: give a positive whole number")


def _check_weights(weight: Float, label: NDArray[np.intp], classes: NDArray[Any]) -> None:
    """Refuse weights that leave a class without points, in SVC's words where SVC refuses them."""
    held = np.bincount(label[weight > 0.0], minlength=len(classes))
    if not held.any():
        raise ValueError("Invalid input - all samples have zero or negative weights.")
    if np.count_nonzero(held) == 1:
        raise ValueError("Invalid input - all samples with positive weights belong to the same class.")
    if not held.all():
        absent = classes.tolist()[int(held.argmin())]
        raise ValueError(
            f"Invalid input - no sample of the class {absent!r} has a positive weight: leave the class out, or give a "
            "weight to one of its samples"
        )


def check_magnitude(X: Any) -> None:
    """Refuse features whose squares would not be finite."""
    values = X if isinstance(X, np.ndarray) else X.data
    largest = float(np.abs(values).max(initial=0.0))
    if largest > LARGEST_FEATURE:
        raise ValueError(
            f"The dual coefficients or intercepts are not finite. The largest feature is {largest:g} in magnitude; at "
            f"most {LARGEST_FEATURE:g} is supported: scale the features"
        )

"""What our classes in the places of SVC, SVR and OneClassSVM have in common.

Each is the class of scikit-learn, by inheritance: parameters, checks of the input, messages and the order of attributes
are scikit-learn's own. What is replaced is training (`_dense_fit`, `_sparse_fit`) and deciding
(`_dense_decision_function`, `_dense_predict`, and the same for sparse rows): the places where scikit-learn calls
LIBSVM. They are not public; the tests run scikit-learn's own tests of its classes, and say if another version of
scikit-learn calls them otherwise.

LIBSVM is called as before where the kernel need not be positive semidefinite: sigmoid, polynomial with a negative
`coef0`, a given matrix, a callable. Then the dual problem has many points without a violating pair, and only the same
steps lead to the same one.
"""

from __future__ import annotations

import inspect
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Self

import numpy as np
from numba import config
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn import get_config
from sklearn.exceptions import ConvergenceWarning

from streamsvm.estimators.inputs import (
    canonical_rows,
    check_finite_weights,
    check_no_negative_weight,
    check_some_weight,
    given_weight,
)
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

FEW: Final = 600
"""Most points of a problem that LIBSVM tries first, where it computes few of the kernel values and ours all."""
TRIES: Final = 50
"""Steps for each point that it may make then; that takes milliseconds."""
FEW_IN_PLAY, MOST_IN_PLAY = 1_500, 64
"""It also tries first with so many points, where at most so many of them are of a class, or may be outside."""
PROCESSORS: Final = -1
"""Value of `threads` that means one for each processor that this process may use."""


def with_parameters_of(theirs: Any, **added: Any) -> Callable[..., None]:
    """Return a constructor with the parameters of scikit-learn's class, and some of our own with their defaults."""
    signature = inspect.signature(theirs.__init__)
    own = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value) for name, value in added.items()]

    def construct(self: Any, *arguments: Any, **options: Any) -> None:
        for name, value in added.items():
            setattr(self, name, options.pop(name, value))
        theirs.__init__(self, *arguments, **options)

    # scikit-learn reads the names of parameters here.
    construct.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *own])  # type: ignore[attr-defined]
    construct.__name__ = "__init__"
    return construct


def number_of(threads: int) -> int:
    """Return how many threads a value of the parameter means."""
    numba: Any = config
    return int(numba.NUMBA_DEFAULT_NUM_THREADS) if threads == PROCESSORS else int(threads)


class Threads:
    """`streamsvm.svm.block.workers.Workers` of so many threads, the caller's one of them; a context.

    Inside, linear algebra has one thread: where it had several, too, they would wait for one another, and many products
    are too small for that. So no bit of an RBF machine of dense rows depends on the number; other kernels' products are
    divided, which may round otherwise, and always alike for the same number.

    Parameters
    ----------
    count : int
        Or `PROCESSORS`.
    """

    def __init__(self, count: int) -> None:
        self.count, self._limit = number_of(count), limited_to(1)
        self._others: ThreadPoolExecutor | None = None

    def __enter__(self) -> Threads:
        self._limit.__enter__()
        return self

    def __exit__(self, *said: object) -> None:
        self._limit.__exit__(None, None, None)
        if self._others is not None:
            self._others.shutdown()

    def run(self, parts: Sequence[Callable[[], object]]) -> None:
        """Run every part; see `Workers`."""
        left, begun = deque(parts), []
        if len(parts) > 1:
            self._others = self._others or ThreadPoolExecutor(self.count - 1)
            begun = [self._others.submit(_take, left) for _ in range(min(self.count, len(parts)) - 1)]
        _take(left)
        for one in begun:
            one.result()


def _take(left: deque[Callable[[], object]]) -> None:
    """Run parts until none is left."""
    while True:
        try:
            part = left.popleft()
        except IndexError:
            return
        part()


class DropIn:
    """A class of scikit-learn follows among the bases; see the module."""

    kernel: Any
    degree: int
    coef0: float
    tol: float
    max_iter: int
    threads: int
    support_: NDArray[np.int32]
    support_vectors_: Any
    dual_coef_: Any
    intercept_: Float
    fit_status_: int
    _gap: float
    _trial: bool
    _gamma: float
    _dual_coef_: Any
    _intercept_: Float

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Train on all points.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d), or (n, n) with `kernel="precomputed"`
        y : array-like of shape (n,)
            Labels of two classes or more, or targets; one class ignores it.
        sample_weight : array-like of shape (n,), optional
            Multiplies the largest dual variable of each point; a point of weight 0 is as good as absent.

        Returns
        -------
        Self
            Itself.

        Raises
        ------
        ValueError
            If a parameter or the data has no meaning; the message says which.
        TypeError
            If a precomputed matrix is sparse.
        """
        self._check_own_parameters()
        self._check_labels(y)
        super().fit(self._canonical(X), y, given_weight(sample_weight))  # type: ignore[misc]
        self._warn_of_result()
        return self

    def _canonical(self, X: Any) -> Any:
        """Return rows as all solvers read them; a callable kernel gets what the caller gave."""
        return X if callable(self.kernel) else canonical_rows(X)

    def _validate_for_predict(self, X: Any) -> Any:
        return super()._validate_for_predict(self._canonical(X))  # type: ignore[misc]

    def _check_labels(self, y: Any) -> None:
        """Refuse labels that scikit-learn's checks take for others; targets are left to these."""

    def _warn_of_result(self) -> None:
        """Warn of what was trained, if it has no meaning."""

    def _check_own_parameters(self) -> None:
        """Refuse values of parameters that scikit-learn does not know."""
        check_threads(self.threads)

    def _train(self, X: Any, y: Float, weight: Float, random_seed: int) -> None:
        """Train, and set what LIBSVM's training sets, but for support vectors.

        Parameters
        ----------
        X : ndarray or CSR array of shape (n, d), float64
        y : ndarray of shape (n,), float64
        weight : ndarray of shape (n,), float64
        random_seed : int
        """
        raise NotImplementedError

    def _answer(self, X: Any) -> Any:
        """Return what `predict` is made of."""
        raise NotImplementedError

    def _values(self, X: Any) -> Float:
        """Return decision values, shape (m, machines)."""
        raise NotImplementedError

    def _steps_of_libsvm(self, X: Any, y: Float) -> int:
        """Return how many steps LIBSVM may make before our solver begins.

        Small problems that need few steps are LIBSVM's: it computes the kernel values that these steps ask for, ours
        all. Nobody knows before how many steps a problem needs, so LIBSVM tries.
        """
        raise NotImplementedError

    def _given_to_libsvm(self, sample_weight: Float, y: Float) -> Float:  # noqa: ARG002
        """Return the weights with which LIBSVM solves our problem."""
        return sample_weight

    @property
    def _solved_here(self) -> bool:
        """Whether the kernel is positive semidefinite for certain; LIBSVM has the others."""
        kernel = self.kernel
        return isinstance(kernel, str) and (kernel in ("linear", "rbf") or (kernel == "poly" and self.coef0 >= 0))

    @property
    def _own_kernel(self) -> Kernel | PolynomialKernel:
        """The kernel where `_solved_here` is true, once its width is known."""
        if self.kernel == "linear":
            return LinearKernel()
        if self.kernel == "rbf":
            return RbfKernel(float(self._gamma))
        return PolynomialKernel(self.degree, float(self._gamma), float(self.coef0))

    @property
    def _most_steps(self) -> int:
        return UNBOUNDED if self.max_iter == -1 else self.max_iter

    def _ended_by_libsvm(
        self, X: Any, y: Float, sample_weight: Float, train: Callable[[Any, Float, Float], None]
    ) -> bool:
        """Let LIBSVM train, if it is its problem, or may be; return whether it did.

        Parameters
        ----------
        X, y, sample_weight
            As `_dense_fit` has them.
        train : callable
            Calls scikit-learn's own training with such rows, targets and weights.
        """
        # Its final gap is below this, if it ends.
        self._gap, bound = self.tol, self.max_iter
        weight = self._checked_weight(y, sample_weight)
        rows = np.flatnonzero(weight > 0.0)
        if not self._solved_here:
            train(X, y, self._given_to_libsvm(sample_weight, y))
            # LIBSVM counts places among the points that take part, and reads a given matrix by them when it decides.
            self.support_ = rows[self.support_].astype(np.int32)
            return True
        _check_magnitude(X)
        # Where all points count, none is copied; of others LIBSVM would count places.
        every = len(rows) == len(y)
        most = self._steps_of_libsvm(X if every else X[rows], y[rows])
        if not 0 < most < self._most_steps:
            return False
        self.max_iter, self._trial = most, True
        try:
            if every:
                train(X, y, self._given_to_libsvm(sample_weight, y))
            else:
                train(X[rows], y[rows], self._given_to_libsvm(weight[rows], y[rows]))
        finally:
            self.max_iter = bound
            del self._trial
        self.support_ = rows[self.support_].astype(np.int32)
        return self.fit_status_ == 0

    def _dense_fit(
        self, X: Any, y: Float, sample_weight: Float, solver_type: int, kernel: str, random_seed: int
    ) -> None:
        def train(X: Any, y: Float, weight: Float) -> None:
            super(DropIn, self)._dense_fit(X, y, weight, solver_type, kernel, random_seed)  # type: ignore[misc]

        if not self._ended_by_libsvm(X, y, sample_weight, train):
            self._train_here(X, y, sample_weight, random_seed)
            self.support_vectors_ = X[self.support_]

    def _sparse_fit(
        self, X: Any, y: Float, sample_weight: Float, solver_type: int, kernel: str, random_seed: int
    ) -> None:
        def train(X: Any, y: Float, weight: Float) -> None:
            super(DropIn, self)._sparse_fit(X, y, weight, solver_type, kernel, random_seed)  # type: ignore[misc]

        if self._ended_by_libsvm(X, y, sample_weight, train):
            return
        dense = X.shape[0] * X.shape[1] * X.dtype.itemsize <= DENSE_BYTES[kernel]
        self._train_here(X.toarray() if dense else X, y, sample_weight, random_seed)
        self.support_vectors_, self.dual_coef_ = _as_libsvm_keeps(X[self.support_], self.dual_coef_)

    def _checked_weight(self, y: Float, sample_weight: Float) -> Float:
        """Return weights of which some are positive, and of every class that there is."""
        weight = sample_weight if len(sample_weight) else np.ones(len(y))
        check_finite_weights(weight)
        self._check_counting(y, weight)
        check_no_negative_weight(weight)
        return weight

    def _check_counting(self, y: Float, weight: Float) -> None:  # noqa: ARG002 - targets have no classes
        """Refuse weights that leave nothing to train on."""
        check_some_weight(weight)

    def _train_here(self, X: Any, y: Float, sample_weight: Float, random_seed: int) -> None:
        self._probA, self._probB = np.empty(0), np.empty(0)
        self._train(X, y, sample_weight if len(sample_weight) else np.ones(len(y)), random_seed)
        self._warn_from_fit_status()

    def _warn_from_fit_status(self) -> None:
        if hasattr(self, "_trial"):
            return
        if self.fit_status_ and self.max_iter == -1:
            warnings.warn(
                f"the solver ended before the KKT gap met tol = {self.tol:g}: raise tol, or scale the features",
                ConvergenceWarning,
                stacklevel=4,
            )
        else:
            super()._warn_from_fit_status()  # type: ignore[misc]

    def _dense_predict(self, X: Any) -> Any:
        return self._answer(X) if self._solved_here else super()._dense_predict(X)  # type: ignore[misc]

    def _sparse_predict(self, X: Any) -> Any:
        return self._answer(X) if self._solved_here else super()._sparse_predict(X)  # type: ignore[misc]

    def _dense_decision_function(self, X: Any) -> Any:
        return self._values(X) if self._solved_here else super()._dense_decision_function(X)  # type: ignore[misc]

    def _sparse_decision_function(self, X: Any) -> Any:
        return self._values(X) if self._solved_here else super()._sparse_decision_function(X)  # type: ignore[misc]

    @property
    def _dual(self) -> Float:
        """The dual variables of the support vectors, shape (k - 1, n_SV)."""
        kept = self._dual_coef_
        return np.asarray(kept.toarray() if sparse.issparse(kept) else kept, dtype=np.float64)


def check_threads(threads: Any) -> None:
    """Refuse what is not a number of threads."""
    if (
        not isinstance(threads, (int, np.integer))
        or isinstance(threads, bool)
        or (threads < 1 and threads != PROCESSORS)
    ):
        raise ValueError(f"threads = {threads!r}: give a positive whole number, or -1 for all processors")


def _check_magnitude(X: Any) -> None:
    """Refuse features whose squares would not be finite."""
    values = X if isinstance(X, np.ndarray) else X.data
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    if largest > LARGEST_FEATURE:
        raise ValueError(
            f"The dual coefficients or intercepts are not finite. The largest feature is {largest:g} in magnitude; at "
            f"most {LARGEST_FEATURE:g} is supported: scale the features"
        )


def _as_libsvm_keeps(support_vectors: Any, dual: Float) -> tuple[Any, Any]:
    """Return sparse support vectors and their dual variables as scikit-learn does after sparse rows."""
    # Which of scipy's two interfaces is scikit-learn's setting.
    kind = sparse.csr_array if get_config().get("sparse_interface") == "sparray" else sparse.csr_matrix
    # Zeros are kept, as LIBSVM's sparse code reads the values without their places.
    rows, columns = dual.shape
    places = np.tile(np.arange(columns, dtype=np.int32), rows)
    starts = np.arange(rows + 1, dtype=np.int32) * np.int32(columns)
    return kind(support_vectors), kind((dual.ravel(), places, starts), shape=(rows, columns))

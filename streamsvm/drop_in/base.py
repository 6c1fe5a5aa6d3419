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
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn import get_config
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from streamsvm.drop_in.centring import moved, offset_of
from streamsvm.drop_in.fitted import check_machine, unfitted_by_errors
from streamsvm.drop_in.recheck import SLACK, Expanded, Recheck
from streamsvm.drop_in.threads import check_threads
from streamsvm.estimators.inputs import (
    canonical_rows,
    check_finite_weights,
    check_no_negative_weight,
    check_some_weight,
    given_weight,
)
from streamsvm.model.kernels import Float, Kernel, LinearKernel, RbfKernel
from streamsvm.process_wide import algebra_threads
from streamsvm.svm.block.product_kernels import PolynomialKernel, products
from streamsvm.svm.problem import LARGEST_FEATURE

LEAST_BOUND, STEPS_OF_POINT = 10_000_000, 10_000
"""Without `max_iter`, the solver makes at most so many steps, or so many for each point if that is more: seconds for
hundreds of points. What is left then needs scaled features, not more steps."""
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
MOST_TRIALS: Final = 2
"""Where the tolerance depends on the machine, LIBSVM tries once more with a smaller one."""
FEW_IN_PLAY, MOST_IN_PLAY = 1_500, 64
"""It also tries first with so many points, where at most so many of them are of a class, or may be outside."""


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


@dataclass(frozen=True, slots=True)
class SigmoidKernel:
    """k(a, b) = tanh(gamma <a, b> + coef0): not positive semidefinite, and LIBSVM's."""

    gamma: float
    coef0: float

    def gram(self, A: Any, B: Any) -> Float:
        """Return the (len(A), len(B)) block of kernel values."""
        return np.tanh(self.gamma * products(A, B) + self.coef0)


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
    n_features_in_: int
    shape_fit_: tuple[int, ...]
    _gap: float
    _trial: bool
    _boxes_full: int
    _wrong: float
    _gamma: float
    _n_support: NDArray[np.int32]
    _num_iter: NDArray[np.int32]
    _dual_coef_: Any
    _intercept_: Float
    _matrix: Float | None
    _centred: tuple[Float, Float, Float, Float] | None
    _offset: Float | None
    _own_centres: Float | None
    counts_classes = False
    """Whether machines are of pairs of classes, and not one function."""

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
        with unfitted_by_errors(self):
            self._check_own_parameters()
            self._check_labels(y)
            super().fit(self._canonical(X), y, given_weight(sample_weight))  # type: ignore[misc]
            self._warn_of_result()
        return self

    def _canonical(self, X: Any) -> Any:
        """Return rows as all solvers read them; a callable kernel gets what the caller gave."""
        return X if callable(self.kernel) else canonical_rows(X)

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

    def _most_steps(self, points: int) -> int:
        """Return how many steps a machine of so many points may make."""
        return max(LEAST_BOUND, STEPS_OF_POINT * points) if self.max_iter == -1 else self.max_iter

    @property
    def _checked_kernel(self) -> Any:
        """The kernel, or one of LIBSVM's alone; None where its values are given."""
        if self.kernel == "sigmoid":
            return SigmoidKernel(float(self._gamma), float(self.coef0))
        return self._own_kernel if self.kernel in ("linear", "rbf", "poly") else None

    def _gap_of(self, values: Float, y: Float, weight: Float, support: NDArray[Any], dual: Float) -> float:
        """Return the KKT gap of decision values over training rows of positive weight; see `recheck`."""
        raise NotImplementedError

    def _rechecked(self, X: Any, y: Float, weight: Float, tolerance: float | None = None) -> Recheck:
        """Return how far what was just trained is from its optimum, from scratch.

        Parameters
        ----------
        X : ndarray or CSR array
            Training rows of positive weight as they were solved: moved. A square matrix of given kernel values.
        y, weight : ndarray of shape (n,)
        tolerance : float, optional
            That which the machine has to meet; by default `tol`.
        """
        dual, kernel = _dense(self.dual_coef_), self._checked_kernel
        support = self.support_
        with np.errstate(all="ignore"):
            machine = self._expansion(
                X if kernel is None else X[support], dual, self.intercept_, self._own_centres, kernel
            )
            values = (
                machine.of_kernel_values(X[:, support])
                if kernel is None
                else machine.values(X, near=len(y) <= FEW_IN_PLAY)
            )
            exact = kernel is not None and self._solved_here
            tolerance = self.tol if tolerance is None else tolerance
            gap_of = partial(self._gap_of, y=y, weight=weight, support=support, dual=dual)
            return self._judged(machine, X, values, gap_of, tolerance, exact)

    def _judged(
        self,
        machine: Expanded,
        X: Any,
        values: Float,
        gap_of: Callable[[Float], float],
        tolerance: float,
        exact: bool = True,
    ) -> Recheck:
        """Return what values over the training rows say; in extended precision, if `exact`, where rounding decides."""
        rounding = machine.rounding(X) if machine.kernel is not None else 0.0
        found = Recheck(gap_of(values), rounding, exact=False)
        if exact and rounding > (SLACK - 1.0) * tolerance and found.gap < np.inf:
            precise = machine.precise_values(X)
            if precise is not None:
                return Recheck(gap_of(precise), float(np.abs(values - precise).max()), exact=True)
        return found

    def _publish(self, centres: Float | None) -> None:
        """Set the intercepts of rows as they are, and keep what decides with all digits.

        Parameters
        ----------
        centres : ndarray of shape (machines, d), or None
            What rows lose before linear machines with the intercepts that training set; None: nothing.
        """
        self._centred = None
        if centres is None:
            return
        dual, own = _dense(self.dual_coef_).copy(), self.intercept_
        machine = self._expansion(self.support_vectors_, dual, own, centres)
        self.intercept_ = machine.planes.raw_intercepts()
        self._centred = centres, own, dual, self.intercept_.copy()

    @property
    def _expanded(self) -> Expanded:
        """The machine as it decides; a changed dual variable or intercept counts, around the origin."""
        dual, intercepts, centres = self._dual, self._intercept_, None
        kept = self._centred
        if kept is not None and np.array_equal(dual, kept[2]) and np.array_equal(intercepts, kept[3]):
            centres, intercepts = kept[0], kept[1]
        return self._expansion(self.support_vectors_, dual, intercepts, centres)

    def _expansion(
        self,
        support_vectors: Any,
        dual: Float,
        intercepts: Float,
        centres: Float | None = None,
        kernel: Any = None,
    ) -> Expanded:
        return Expanded(
            kernel=self._checked_kernel if kernel is None else kernel,
            support_vectors=support_vectors,
            counts=self._n_support if self.counts_classes else None,
            dual=dual,
            intercepts=intercepts,
            centres=centres,
        )

    def _get_coef(self) -> Any:
        machine = self._expanded
        if machine.centres is None:
            return super()._get_coef()  # type: ignore[misc]
        w = machine.planes.coefficients() * (-1.0 if len(machine.intercepts) == 1 and self.counts_classes else 1.0)
        return _sparse_kind()(w) if sparse.issparse(self.support_vectors_) else w

    def _validate_for_predict(self, X: Any) -> Any:
        check_is_fitted(self)
        check_machine(self)
        return super()._validate_for_predict(self._canonical(X))  # type: ignore[misc]

    def _compute_kernel(self, X: Any) -> Any:
        found = super()._compute_kernel(X)  # type: ignore[misc]
        if hasattr(self, "_trial"):
            self._matrix = found
        return found

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
        weight = self._checked_weight(y, sample_weight)
        if not self._solved_here:
            self._left_to_libsvm(X, y, sample_weight, train)
            return True
        rows = np.flatnonzero(weight > 0.0)
        # Where all points count, none is copied; of others LIBSVM would count places.
        every = len(rows) == len(y)
        X, y, weight = (X, y, weight) if every else (X[rows], y[rows], weight[rows])
        most = self._steps_of_libsvm(X, y)
        if not 0 < most < self._most_steps(len(y)) or (self._offset is not None and not self._may_move):
            return False
        tolerance, wanted_now = self._tolerances(X, weight)
        for _ in range(MOST_TRIALS):
            self._try(X, y, sample_weight if every else weight, train, max_iter=most, tol=tolerance)
            if self.fit_status_:
                return False
            wanted = wanted_now()
            if tolerance <= wanted:
                break
            tolerance = 0.5 * wanted
        found = self._rechecked(X, y, weight, wanted)
        self._gap = found.gap
        if not every:
            self.support_ = rows[self.support_].astype(np.int32)
        return found.within(wanted)

    def _tolerances(self, X: Any, weight: Float) -> tuple[float, Callable[[], float]]:  # noqa: ARG002 - see one class
        """Return LIBSVM's tolerance where it tries our problem, and what returns that which its machine has to meet.

        Parameters
        ----------
        X, weight
            Rows of positive weight as they are solved, and their weights.
        """
        return self.tol, lambda: self.tol

    def _try(
        self, X: Any, y: Float, sample_weight: Float, train: Callable[[Any, Float, Float], None], **settings: float
    ) -> None:
        """Let LIBSVM train with other settings, and without a warning."""
        own = {name: getattr(self, name) for name in settings}
        vars(self).update(settings)
        self._trial = True
        try:
            train(X, y, self._given_to_libsvm(sample_weight, y))
            if not self.counts_classes:
                # Of sparse rows LIBSVM leaves these numbers as they were in memory.
                self._n_support = np.array([len(self.support_), 0], np.int32)
        finally:
            vars(self).update(own)
            del self._trial

    def _left_to_libsvm(
        self, X: Any, y: Float, sample_weight: Float, train: Callable[[Any, Float, Float], None]
    ) -> None:
        """Let LIBSVM train where the kernel is its own; its word is checked here, too.

        Its float32 kernel values may leave a gap just above the tolerance: then it tries half the tolerance, once.
        """
        weight = sample_weight if len(sample_weight) else np.ones(len(y))
        rows = np.flatnonzero(weight > 0.0)
        for share in (1.0, 0.5):
            self._matrix = None
            self._try(X, y, sample_weight, train, tol=self.tol * share)
            given = X if self._matrix is None else self._matrix
            if self._checked_kernel is None:
                part = given if len(rows) == len(y) else given[np.ix_(rows, rows)]
            else:
                part = X if len(rows) == len(y) else X[rows]
            found = self._rechecked(part, y[rows], weight[rows])
            if self.fit_status_ or not self.tol < found.gap < 2.0 * self.tol:
                break
        self._gap, self._matrix = found.gap, None
        self.support_ = rows[self.support_].astype(np.int32)
        self.fit_status_ = int(self.fit_status_ or not found.gap <= self.tol)

    def _fit_machine(self, X: Any, y: Float, sample_weight: Float, seed: int, train: Callable[..., None]) -> None:
        """Train in the place of scikit-learn's call of LIBSVM; see `_ended_by_libsvm` and `_train`."""
        # For every solver linear algebra has one thread, as inside `Threads`; a callable kernel keeps its number.
        with algebra_threads(1) if self._solved_here else nullcontext():
            self._fit_moved(X, y, sample_weight, seed, train)
        # What is not finite is an error of scikit-learn's in a moment.
        if self.fit_status_ and np.isfinite(_dense(self.dual_coef_)).all() and np.isfinite(self.intercept_).all():
            self._warn_from_fit_status()

    def _fit_moved(self, X: Any, y: Float, sample_weight: Float, seed: int, train: Callable[..., None]) -> None:
        if self._solved_here:
            check_magnitude(X, "dual coefficients")
        self._offset, self._own_centres, self._boxes_full, self._centred = None, None, 0, None
        self._wrong = 0.0
        if self._solved_here and self.kernel in ("linear", "rbf"):
            weighed = sample_weight.ndim == 1 and len(sample_weight) and (sample_weight <= 0.0).any()
            self._offset = offset_of(X[sample_weight > 0.0] if weighed and (sample_weight > 0.0).any() else X)
        near = X if self._offset is None or not self._may_move else moved(X, self._offset)
        if not self._ended_by_libsvm(near, y, sample_weight, train):
            self._train_here(near, y, sample_weight, seed)
        if self._solved_here:
            rows = X[self.support_]
            self.support_vectors_ = _sparse_kind()(rows) if sparse.issparse(X) else rows
        if self.kernel == "linear":
            self._publish(self._all_centres(near.shape[1]))

    @property
    def _may_move(self) -> bool:
        """Whether the machine does not depend on the origin: dual variables sum to 0, or the kernel has no origin."""
        return True

    def _all_centres(self, dimension: int) -> Float | None:
        """Return what rows lose before each machine, shape (machines, d); None: nothing."""
        own, offset = self._own_centres, self._offset if self._may_move else None
        if own is None and offset is None:
            return None
        return (
            np.zeros((len(self.intercept_), dimension))
            + (0.0 if own is None else own)
            + (0.0 if offset is None else offset)
        )

    def _dense_fit(
        self, X: Any, y: Float, sample_weight: Float, solver_type: int, kernel: str, random_seed: int
    ) -> None:
        def train(X: Any, y: Float, weight: Float) -> None:
            super(DropIn, self)._dense_fit(X, y, weight, solver_type, kernel, random_seed)  # type: ignore[misc]

        self._fit_machine(X, y, sample_weight, random_seed, train)

    def _sparse_fit(
        self, X: Any, y: Float, sample_weight: Float, solver_type: int, kernel: str, random_seed: int
    ) -> None:
        def train(X: Any, y: Float, weight: Float) -> None:
            super(DropIn, self)._sparse_fit(X, y, weight, solver_type, kernel, random_seed)  # type: ignore[misc]

        self._fit_machine(X, y, sample_weight, random_seed, train)

    def _checked_weight(self, y: Float, sample_weight: Float) -> Float:
        """Return weights of which some are positive, and of every class that there is."""
        if not len(sample_weight):
            return np.ones(len(y))
        check_finite_weights(sample_weight)
        self._check_counting(y, sample_weight)
        check_no_negative_weight(sample_weight)
        return sample_weight

    def _check_counting(self, y: Float, weight: Float) -> None:  # noqa: ARG002 - targets have no classes
        """Refuse weights that leave nothing to train on."""
        check_some_weight(weight)

    def _train_here(self, X: Any, y: Float, sample_weight: Float, random_seed: int) -> None:
        """Train by our own solver, and look again where rounding could decide what it says."""
        self._probA, self._probB = np.empty(0), np.empty(0)
        weight = sample_weight if len(sample_weight) else np.ones(len(y))
        dense = isinstance(X, np.ndarray) or X.shape[0] * X.shape[1] * X.dtype.itemsize > DENSE_BYTES[self.kernel]
        solved = X if dense else X.toarray()
        self._train(solved, y, weight, random_seed)
        self._doubt(solved, y, weight)
        if sparse.issparse(X):
            self.dual_coef_ = _as_libsvm_keeps(self.dual_coef_)
        self.fit_status_ = int(self.fit_status_ or self._boxes_full > 0)

    def _doubt(self, X: Any, y: Float, weight: Float) -> None:
        """Set `fit_status_` to 1 where rounding hides that the machine is not optimal, and a gap that is not known."""
        machine = self._expansion(X[self.support_], self.dual_coef_, self.intercept_, self._own_centres)
        with np.errstate(all="ignore"):
            # Steps that ran out say nothing of how far they came.
            known = not self.fit_status_ or self._gap > self.tol
            if known and machine.rounding(X) <= (SLACK - 1.0) * self.tol:
                return
        support, rows = self.support_, np.flatnonzero(weight > 0.0)
        self.support_ = np.searchsorted(rows, support).astype(np.int32)
        found = self._rechecked(X[rows], y[rows], weight[rows])
        self.support_, self._gap, self._wrong = support, found.gap, found.rounding
        self.fit_status_ = int(self.fit_status_ or not found.within(self.tol))

    def _warn_from_fit_status(self) -> None:
        if hasattr(self, "_trial") or not self.fit_status_:
            return
        reached = f"the KKT gap is {self._gap:.3g}, tol = {self.tol:g}"
        if self._wrong > self.tol:
            reached += f", and rounding moves decision values by {self._wrong:.3g}"
        if self._boxes_full:
            message = (
                f"C is beyond {LARGEST_BOX:g}, and {self._boxes_full} dual variables grew to that: no machine of this "
                f"kernel fits without errors ({reached}); give a smaller C"
            )
        elif self.max_iter != -1 and int(np.max(self._num_iter, initial=0)) >= self.max_iter:
            message = (
                f"Solver terminated early (max_iter={self.max_iter}).  Consider pre-processing your data with "
                f"StandardScaler or MinMaxScaler: {reached}"
            )
        else:
            message = (
                f"the solver ended before the KKT gap met tol = {self.tol:g}: {reached}; raise tol, or scale the "
                "features"
            )
        warnings.warn(message, ConvergenceWarning, stacklevel=5)

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
        return _dense(self._dual_coef_)


def check_magnitude(X: Any, what: str) -> None:
    """Refuse features whose squares would not be finite; `what` would not be, either."""
    values = X if isinstance(X, np.ndarray) else X.data
    flat = values.ravel("K")
    # A sum of squares takes a fraction of the time of a look at each entry.
    if float(np.vdot(flat, flat)) <= LARGEST_FEATURE:
        return
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    if largest > LARGEST_FEATURE:
        raise ValueError(
            f"The {what} or intercepts are not finite. The largest feature is {largest:g} in magnitude; at "
            f"most {LARGEST_FEATURE:g} is supported: scale the features"
        )


def _dense(values: Any) -> Float:
    return np.asarray(values.toarray() if sparse.issparse(values) else values, dtype=np.float64)


def _sparse_kind() -> Any:
    """Which of scipy's two interfaces is scikit-learn's setting."""
    return sparse.csr_array if get_config().get("sparse_interface") == "sparray" else sparse.csr_matrix


def _as_libsvm_keeps(dual: Float) -> Any:
    """Return dual variables as scikit-learn does after sparse rows: zeros are kept, as LIBSVM reads no places."""
    rows, columns = dual.shape
    places = np.tile(np.arange(columns, dtype=np.int32), rows)
    starts = np.arange(rows + 1, dtype=np.int32) * np.int32(columns)
    return _sparse_kind()((dual.ravel(), places, starts), shape=(rows, columns))

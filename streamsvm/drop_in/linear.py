"""`STDALinearSVC` and `STDALinearSVR`: scikit-learn's LinearSVC and LinearSVR, ended by our solver.

LIBLINEAR visits point after point, and stops at its tolerance or, often, at `max_iter` passes with a warning. Nobody
knows before how many passes a problem needs. So LIBLINEAR begins; where it has not ended after the passes that cost
some times as much as an interior-point method would (an estimate, no clock), that method solves the problem: the same
one, the penalised intercept included. With narrow boxes LIBLINEAR's passes soon skip most points and it has the problem
alone (`WIDE`).

Invariant: an answer is LIBLINEAR's own, bit for bit, if every class ended in time; else its objective is proven to be
within `GAP` of the optimum (or tighter, with `tol`). Squared losses are LIBLINEAR's, too, but where it says that it
ended the relative gap is computed from scratch, and what is beyond `tol` is ended by Newton's method
(`streamsvm.drop_in.squared_loss`), or warned of with that gap. `multi_class="crammer_singer"` is LIBLINEAR's alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC, LinearSVR
from sklearn.svm._base import _fit_liblinear
from sklearn.svm._classes import _validate_dual_parameter
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from streamsvm.drop_in.base import check_magnitude
from streamsvm.drop_in.fitted import check_planes, unfitted_by_errors
from streamsvm.drop_in.squared_loss import SquaredLoss, beside, both_ways
from streamsvm.estimators.inputs import (
    canonical_rows,
    check_every_class,
    check_labels,
    check_some_weight,
    checked_weight,
    class_weights,
)
from streamsvm.model.kernels import Float
from streamsvm.process_wide import silenced
from streamsvm.svm.block.interior_point import cost_ns, penalised_optimum
from streamsvm.svm.block.signed_rows import SignedRows, mirrored, plain_rows

PATIENCE_OF_CLASSES, PATIENCE_OF_TARGETS = 1.0, 4.0
"""LIBLINEAR's passes may cost this many times what the interior-point method would."""
WIDE: Final = 100.0
"""Product of C and the mean square of a row from which on LIBLINEAR hardly ever ends within a thousand passes."""
FEWEST: Final = 1_000
"""Fewer points of two classes are LIBLINEAR's: a thousand passes over them take a millisecond or two."""
POINT_NS, ENTRY_NS = 20.0, 1.6
"""Estimated nanoseconds of a pass, for each point and for each of its entries; only their ratio to
`streamsvm.svm.block.interior_point.cost_ns` matters."""
FEWEST_PASSES: Final = 20
GAP, GAP_OF_TOLERANCE = 1e-6, 1e-2
"""Relative duality gap at which the method ends: the smaller of this and this share of `tol`."""
TIGHTER: Final = 1e-2
"""Share of `tol` that LIBLINEAR is given once more, where it ended beyond the gap and Newton's method is too dear."""
EPSILON: Final = float(np.finfo(np.float64).eps)
LARGEST_TARGET: Final = 1e100
"""In magnitude: squares must stay finite."""
LARGEST_PRODUCT: Final = 1e300
"""Of sums in LIBLINEAR's method for the primal problem of squared losses, see `_check_products`: it does not end where
they are not finite."""


class _FirstLiblinear:
    """LinearSVC or LinearSVR follows among the bases; see the module."""

    loss: str
    dual: Any
    tol: float
    C: float
    fit_intercept: bool
    intercept_scaling: float
    max_iter: int
    coef_: Any
    intercept_: Any
    n_iter_: int
    verbose: int
    random_state: Any

    def predict(self, X: Any) -> Any:
        """Return scikit-learn's answer for each row.

        Raises
        ------
        ValueError
            If the rows have no meaning, or the arrays of the machine are not those that were fitted.
        """
        check_is_fitted(self)
        check_planes(self)
        return super().predict(X)  # type: ignore[misc]

    @property
    def _scaling(self) -> float:
        """What stands beside the features."""
        return float(self.intercept_scaling) if self.fit_intercept else 0.0

    def _passes(self, X: Any, copies: int, patience: float) -> int:
        """Return how many passes LIBLINEAR may make before the interior-point method begins, over rows so often."""
        n, d = X.shape
        entries = float(X.nnz if not isinstance(X, np.ndarray) else np.count_nonzero(X)) / n
        ours = copies * cost_ns(n, d, entries)
        passes = patience * ours / (n * (POINT_NS + ENTRY_NS * entries))
        return int(max(FEWEST_PASSES, min(passes, 1e9)))

    def _liblinear(self, X: Any, y: Any, passes: int, weight: Any, **options: Any) -> tuple[Any, Any, NDArray[Any]]:
        """Return coefficients, intercepts and passes of every class, without a warning where passes are few."""
        with silenced(ConvergenceWarning) if passes < self.max_iter else nullcontext():
            found: tuple[Any, Any, NDArray[Any]] = _fit_liblinear(
                X,
                y,
                self.C,
                self.fit_intercept,
                self.intercept_scaling,
                penalty="l2",
                dual=True,
                verbose=self.verbose,
                max_iter=min(passes, self.max_iter),
                tol=self.tol,
                random_state=self.random_state,
                loss=self.loss,
                sample_weight=weight,
                **options,
            )
        return found

    def _optimum(self, rows: SignedRows, height: Float, upper: Float) -> tuple[Float, int, float]:
        """Return the coefficients with that of the intercept as the last, steps, and the gap reached."""
        return penalised_optimum(rows, height, upper, self._gap_wanted)

    @property
    def _gap_wanted(self) -> float:
        return min(GAP, GAP_OF_TOLERANCE * self.tol)

    def _loses_digits(self, X: Any, weight: Any) -> bool:
        """Whether LIBLINEAR's word cannot be taken: of rows and boxes so large, rounding may exceed its tolerance.

        It has a running w, and "ended" is said of that.
        """
        values = X.ravel() if isinstance(X, np.ndarray) else X.data
        largest = 1.0 if weight is None else float(np.max(np.asarray(weight, dtype=np.float64), initial=1.0))
        square = float(np.vdot(values, values)) + X.shape[0] * self._scaling**2
        return bool(EPSILON * self.C * largest * square > self.tol)

    def _check_products(self, X: Any, largest: float, losses: float) -> None:
        """Refuse rows over which LIBLINEAR's method for the primal problem of a squared loss would not end.

        It multiplies the squared gradient by the curvature along it. With S = sum_i c_i |x_i|^2, and L the loss of
        coefficients of 0, that is at most 4 S L times 2 S at every step.

        Parameters
        ----------
        X : ndarray or CSR array
        largest : float
            Of the penalties c_i.
        losses : float
            L, at most.
        """
        values = X.ravel() if isinstance(X, np.ndarray) else X.data
        S = largest * (float(np.vdot(values, values)) + X.shape[0] * self._scaling**2)
        with np.errstate(over="ignore"):
            product = 8.0 * np.float64(S) * np.float64(S) * np.float64(losses)
        if not product <= LARGEST_PRODUCT:
            feature = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
            raise ValueError(
                f"The largest feature is {feature:g} in magnitude, too large for LIBLINEAR's method for the primal "
                f"problem with C = {self.C:g}, which would not end: scale the features, or give dual=True"
            )

    def _end_squared(self, problems: Sequence[SquaredLoss], again: Callable[[], None]) -> None:
        """Look at what LIBLINEAR ended, one problem a row of coefficients, and end what is not within `tol`.

        Parameters
        ----------
        problems : sequence of SquaredLoss
        again : callable
            Lets LIBLINEAR train once more.
        """
        if self.n_iter_ >= self.max_iter:
            worst = max(one.gap(v) for one, v in zip(problems, self._rows_of_coefficients(), strict=True))
            _warn_of_passes(self.tol, worst)
            return
        worst = self._finish_squared(problems)
        if worst > self.tol and not problems[0].is_newtons:
            own, passes = self.tol, self.n_iter_
            try:
                self.tol = own * TIGHTER
                again()
            finally:
                self.tol = own
            self.n_iter_, worst = self.n_iter_ + passes, self._finish_squared(problems)
        # What is not finite is an error in a moment.
        if worst > self.tol and np.isfinite(self.coef_).all():
            _warn_of_gap(self.tol, worst)

    def _finish_squared(self, problems: Sequence[SquaredLoss]) -> float:
        """Solve what is not within `tol`, where Newton's method can, and return the largest relative gap."""
        worst, steps = 0.0, 0
        rows = self._rows_of_coefficients()
        for at, problem in enumerate(problems):
            gap = problem.gap(rows[at])
            if gap > self.tol and problem.is_newtons:
                rows[at], taken, gap = problem.newton(rows[at], self._gap_wanted)
                steps = max(steps, taken)
            worst = max(worst, gap)
        if steps:
            self.coef_ = rows[:, :-1].reshape(self.coef_.shape)
            if self.fit_intercept:
                self.intercept_ = self._scaling * rows[:, -1]
            self.n_iter_ += steps
        return worst

    def _rows_of_coefficients(self) -> Float:
        """Return the coefficients of each problem with that of the intercept as the last."""
        intercept = np.atleast_1d(self.intercept_) / self._scaling if self.fit_intercept else 0.0
        w = np.atleast_2d(self.coef_)
        return np.column_stack((w, np.broadcast_to(intercept, len(w))))

    def _check_finite(self) -> None:
        if not (np.isfinite(self.coef_).all() and np.isfinite(self.intercept_).all()):
            raise ValueError(
                "The coefficients or intercepts are not finite. The input data may contain large values and need to be "
                "preprocessed"
            )


class STDALinearSVC(_FirstLiblinear, LinearSVC):  # type: ignore[misc]
    """`sklearn.svm.LinearSVC` whose hinge loss needs few passes, or ours ends.

    Every parameter, attribute, check and message is LinearSVC's. `n_iter_` counts LIBLINEAR's passes and our steps.

    Examples
    --------
    >>> from streamsvm import STDALinearSVC
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["low", "low", "high", "high"]
    >>> STDALinearSVC(loss="hinge", C=100.0).fit(X, y).predict([[0.9], [2.1]])
    array(['low', 'high'], dtype='<U4')
    """

    class_weight: Any
    multi_class: str
    penalty: str

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on all points; parameters are LinearSVC's."""
        with unfitted_by_errors(self):
            return self._fit(X, y, sample_weight)

    def decision_function(self, X: Any) -> Float:
        """Return scikit-learn's decision values; raises as `predict`."""
        check_is_fitted(self)
        check_planes(self)
        values: Float = super().decision_function(X)
        return values

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        check_labels(y)
        given = canonical_rows(X)
        X, y = validate_data(
            self, given, y, accept_sparse="csr", dtype=np.float64, order="C", accept_large_sparse=False
        )
        check_classification_targets(y)
        self.classes_, label = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                "This solver needs samples of at least 2 classes in the data, but the data contains only one class: "
                f"{self.classes_[0]!r}"
            )
        check_magnitude(X, "coefficients")
        weight = checked_weight(sample_weight, len(label))
        check_every_class(weight, label, self.classes_)
        scale = class_weights(self.class_weight, self.classes_, label, weight)
        if self.loss == "hinge" and self.penalty == "l2" and self.multi_class == "ovr" and self.dual is not False:
            self._fit_hinge(X, label, weight, scale)
        else:
            self._fit_as_liblinear(given, X, label, weight, scale)
        return self

    def _fit_hinge(self, X: Any, label: NDArray[np.intp], weight: Float, scale: Float) -> None:
        doubtful = self._loses_digits(X, weight)
        passes = self._passes(X, 1, PATIENCE_OF_CLASSES) if self._is_wide(X) else self.max_iter
        passes = FEWEST_PASSES if doubtful else passes
        found = self._liblinear(X, label, passes, weight, class_weight=dict(enumerate(scale)))
        self.coef_, self.intercept_, iterations = found
        open_ones = (iterations >= passes) & (passes < self.max_iter) | doubtful | ~np.isfinite(self.coef_).all(axis=1)
        if open_ones.any():
            iterations = self._finish(X, label, weight, scale, iterations, open_ones)
        self._check_finite()
        self.n_iter_ = int(iterations.max())

    def _fit_as_liblinear(self, given: Any, X: Any, label: NDArray[np.intp], weight: Float, scale: Float) -> None:
        """Let LinearSVC train, on the places of the classes: it takes labels like "01" for numbers.

        Of Crammer and Singer's machine LIBLINEAR returns no dual variables, so there is no gap to look at.
        """
        if self.penalty == "l2" and self.multi_class == "ovr" and not self._is_dual(X):
            largest = self.C * float(weight.max()) * max(1.0, float(scale.max()))
            self._check_products(X, largest, largest * len(label))
        with silenced(ConvergenceWarning) if self.multi_class == "ovr" else nullcontext():
            self._fit_by_liblinear(given, label, weight, scale)
        if self.multi_class == "ovr":

            def again() -> None:
                with silenced(ConvergenceWarning):
                    self._fit_by_liblinear(given, label, weight, scale)

            self._end_squared(list(self._squared(X, label, weight, scale)), again)
        self._check_finite()

    def _fit_by_liblinear(self, X: Any, label: NDArray[np.intp], weight: Float, scale: Float) -> None:
        classes, class_weight = self.classes_, self.class_weight
        self.class_weight = dict(enumerate(scale))
        try:
            super().fit(X, label, weight)
        finally:
            self.class_weight, self.classes_ = class_weight, classes

    def _squared(self, X: Any, label: NDArray[np.intp], weight: Float, scale: Float) -> Iterator[SquaredLoss]:
        """Yield the problem of each machine."""
        rows = np.flatnonzero(weight > 0.0)
        if len(rows) < len(label):
            X, label, weight = X[rows], label[rows], weight[rows]
        two = len(self.classes_) == 2
        for at in [1] if two else range(len(self.classes_)):
            positive = label == at
            yield SquaredLoss(
                S=beside(X, np.where(positive, 1.0, -1.0), self._scaling),
                height=np.ones(len(label)),
                penalty=self.C * weight * np.where(positive, scale[at], scale[0] if two else 1.0),
                absolute=self.penalty == "l1",
            )

    def _is_dual(self, X: Any) -> bool:
        """Whether LIBLINEAR solves the dual problem."""
        return bool(_validate_dual_parameter(self.dual, self.loss, self.penalty, self.multi_class, X))

    def _is_wide(self, X: Any) -> bool:
        """Whether the problem is one that LIBLINEAR hardly ever ends; see `WIDE`."""
        n, values = X.shape[0], X.ravel() if isinstance(X, np.ndarray) else X.data
        square = float(np.vdot(values, values)) / n + self._scaling**2
        return bool(n >= FEWEST and self.C * square >= WIDE)

    def _finish(
        self,
        X: Any,
        label: NDArray[np.intp],
        weight: Float,
        scale: Float,
        iterations: NDArray[Any],
        open_ones: NDArray[np.bool_],
    ) -> NDArray[Any]:
        """Solve the machines that LIBLINEAR did not end, and return the passes and steps of all."""
        taking_part = np.flatnonzero(weight > 0.0)
        if len(taking_part) < len(label):
            X, label, weight = X[taking_part], label[taking_part], weight[taking_part]
        iterations, two = iterations.copy(), len(self.classes_) == 2
        worst = 0.0
        for at in np.flatnonzero(open_ones):
            positive = label == (1 if two else at)
            # LIBLINEAR weighs the one class of several by its weight, and the rest by 1.
            other = scale[0] if two else 1.0
            upper = self.C * weight * np.where(positive, scale[1 if two else at], other)
            rows = plain_rows(X, np.where(positive, 1.0, -1.0), self._scaling)
            v, steps, gap = self._optimum(rows, np.ones(len(upper)), upper)
            self.coef_[at] = v[:-1]
            if self.fit_intercept:
                self.intercept_[at] = self._scaling * v[-1]
            iterations[at] += steps
            worst = max(worst, gap)
        if worst > self._gap_wanted:
            _warn_of_gap(self.tol, worst)
        return iterations


class STDALinearSVR(_FirstLiblinear, LinearSVR):  # type: ignore[misc]
    """`sklearn.svm.LinearSVR` whose epsilon-insensitive loss needs few passes, or ours ends.

    Every parameter, attribute, check and message is LinearSVR's. `n_iter_` counts LIBLINEAR's passes and our steps.

    Examples
    --------
    >>> from streamsvm import STDALinearSVR
    >>> machine = STDALinearSVR(C=100.0, intercept_scaling=10.0, tol=1e-6)
    >>> machine.fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0]).predict([[3.0]]).round(1)
    array([7.])
    """

    epsilon: float

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on all points; parameters are LinearSVR's."""
        with unfitted_by_errors(self):
            return self._fit(X, y, sample_weight)

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        X = canonical_rows(X)
        if self.loss != "epsilon_insensitive" or self.dual is False:
            self._fit_as_liblinear(X, y, sample_weight)
            return self
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, order="C", accept_large_sparse=False)
        check_magnitude(X, "coefficients")
        weight = checked_weight(sample_weight, _num_samples(X))
        check_some_weight(weight)
        doubtful = self._loses_digits(X, weight)
        passes = FEWEST_PASSES if doubtful else self._passes(X, 2, PATIENCE_OF_TARGETS)
        found = self._liblinear(X, y, passes, weight, class_weight=None, epsilon=self.epsilon)
        self.coef_, self.intercept_, iterations = found[0].ravel(), *found[1:]
        self.n_iter_ = int(iterations.max())
        y = np.asarray(y, dtype=np.float64).ravel()
        open_one = (passes < self.max_iter and self.n_iter_ >= passes) or doubtful
        if (open_one or not np.isfinite(self.coef_).all()) and _is_moderate(y):
            self._finish(X, y, weight)
        self._check_finite()
        return self

    def _fit_as_liblinear(self, given: Any, y: Any, sample_weight: Any) -> None:
        if sample_weight is not None:
            check_some_weight(checked_weight(sample_weight, _num_samples(given)))

        def train() -> None:
            with silenced(ConvergenceWarning):
                super(STDALinearSVR, self).fit(given, y, sample_weight)

        X, y = validate_data(
            self, given, y, accept_sparse="csr", dtype=np.float64, order="C", accept_large_sparse=False
        )
        check_magnitude(X, "coefficients")
        y = np.asarray(y, dtype=np.float64).ravel()
        if not _validate_dual_parameter(self.dual, self.loss, "l2", "ovr", X):
            largest = self.C * float(np.max(checked_weight(sample_weight, len(y))))
            loss = float(np.abs(y).max()) + self.epsilon
            self._check_products(X, largest, largest * len(y) * loss * loss)
        train()
        if _is_moderate(y):
            weight = checked_weight(sample_weight, len(y))
            taking_part = np.flatnonzero(weight > 0.0)
            S, y = beside(X[taking_part], None, self._scaling), y[taking_part]
            height = np.concatenate((y, -y)) - self.epsilon
            penalty = np.tile(self.C * weight[taking_part], 2)
            self._end_squared([SquaredLoss(S=both_ways(S), height=height, penalty=penalty)], train)
        self._check_finite()

    def _finish(self, X: Any, y: Float, weight: Float) -> None:
        """Solve what LIBLINEAR did not end."""
        taking_part = np.flatnonzero(weight > 0.0)
        if len(taking_part) < len(y):
            X, y, weight = X[taking_part], y[taking_part], weight[taking_part]
        # In units of the targets' size losses are near 1, where the method starts.
        unit = float(np.abs(y).max()) or 1.0
        height = np.concatenate((y - self.epsilon, -y - self.epsilon)) / unit
        upper = np.tile(self.C * weight / unit, 2)
        v, steps, gap = self._optimum(mirrored(plain_rows(X, np.ones(len(y)), self._scaling)), height, upper)
        self.coef_, self.n_iter_ = unit * v[:-1], self.n_iter_ + steps
        if self.fit_intercept:
            self.intercept_ = np.array([unit * self._scaling * v[-1]])
        if gap > self._gap_wanted:
            _warn_of_gap(self.tol, gap)


def _is_moderate(targets: Float) -> bool:
    """Whether squares are finite."""
    return bool(np.abs(targets).max() <= LARGEST_TARGET)


def _warn_of_passes(tolerance: float, gap: float) -> None:
    warnings.warn(
        f"Liblinear failed to converge, increase the number of iterations: the relative gap is {gap:.3g}, tol = "
        f"{tolerance:g}",
        ConvergenceWarning,
        stacklevel=5,
    )


def _warn_of_gap(tolerance: float, gap: float) -> None:
    warnings.warn(
        f"the solver ended before the duality gap met tol = {tolerance:g}: the relative gap is {gap:.3g}; raise tol, "
        "or scale the features",
        ConvergenceWarning,
        stacklevel=3,
    )

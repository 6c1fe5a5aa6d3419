"""`STDASVC`: scikit-learn's SVC with our solver, for a set that fits into memory.

It is `sklearn.svm.SVC` by inheritance: parameters, checks of the input, decisions and the order of attributes are
SVC's. Only training is replaced, where SVC calls LIBSVM (`_dense_fit`, `_sparse_fit`). These two methods are not
public; scikit-learn's checks of estimators, which the tests run, fail if another release calls them otherwise.

Invariant: the problem of every pair of classes is exactly SVC's, so attributes mean the same, and their values differ
only within the tolerance.
"""

from __future__ import annotations

import warnings
from itertools import combinations
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn import get_config
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from streamsvm.choices import Loss
from streamsvm.estimators.blas_threads import one_blas_thread
from streamsvm.estimators.inputs import (
    canonical_rows,
    check_every_class,
    check_labels,
    checked_weight,
    class_weights,
    given_weight,
)
from streamsvm.model.kernels import Float, LinearKernel, RbfKernel
from streamsvm.svm.problem import Problem
from streamsvm.svm.stda import solve

LEAST_BOUND, STEPS_OF_POINT = 10_000_000, 10_000
"""Without `max_iter`, the solver makes at most so many steps, or so many for each point if that is more: seconds for
hundreds of points. What is left then needs scaled features, not more steps."""
LARGEST_BOX: Final = 1e10
"""Largest bound of a dual variable: the solver needs a finite one, and `C=inf` is allowed."""
PROBABILITY: Final = SVC().probability
"""What SVC has where nobody sets it, which says in newer releases that it is deprecated."""
DENSE_BYTES: Final = {"linear": 1 << 26, "rbf": 1 << 28}
"""Sparse rows that take at most so many bytes as dense ones are solved as dense ones, by faster code."""


class STDASVC(SVC):  # type: ignore[misc]
    """Support vector classifier, trained by STDA-SVM: `sklearn.svm.SVC` with another solver.

    Every parameter and attribute that is not listed here is SVC's; several classes are learned one against one, as SVC
    does. `degree`, `coef0`, `shrinking`, `cache_size`, `verbose` and `random_state` have no effect.

    Parameters
    ----------
    C : float, default 1.0
        Penalty: the largest dual variable of a point of weight 1. Bounds beyond 1e10 (`C=inf`) count as 1e10.
    kernel : "linear" or "rbf", default "rbf"
    loss : "hinge" or "squared_hinge", default "hinge"
        The squared one is that of LinearSVC: dual variables have no upper bound then.
    tol : float, default 1e-3
        KKT gap at which the solver stops; the final gap is recomputed from scratch in float64.
    max_iter : int, default -1
        Most iterations of the solver for each machine; -1: ten million, or 10,000 for each point if that is more.
    class_weight : dict, "balanced" or None
        "balanced" counts weights, not points.
    probability : not supported
        Use `sklearn.calibration.CalibratedClassifierCV`.

    Attributes
    ----------
    support_ : ndarray of shape (n_SV,), int32
        Places of the points that support any machine, by class and then by place. Where points have weight 0
        these are still places in X, while SVC counts the other points only.
    fit_status_ : int
        0 if every machine met the tolerance, else 1.

    Notes
    -----
    Source of the method: Liuzzi, Lucidi, Manno and Rinaldi 2015; see `streamsvm.svm.stda`.
    Points of weight 0 take no part, as in SVC; negative weights are refused.

    Examples
    --------
    >>> import numpy as np
    >>> from streamsvm import STDASVC
    >>> X = np.array([[-1.0, -1.0], [-2.0, -1.0], [1.0, 1.0], [2.0, 1.0]])
    >>> y = np.array(["noise", "noise", "pulsar", "pulsar"])
    >>> STDASVC(kernel="linear").fit(X, y).predict([[-0.8, -1.0]])
    array(['noise'], dtype='<U6')
    """

    support_vectors_: Any
    dual_coef_: Any
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SVC._parameter_constraints,
        "loss": [StrOptions({"hinge", "squared_hinge"})],
    }

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: Any = "rbf",
        loss: Loss = "hinge",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        probability: Any = PROBABILITY,
        tol: float = 1e-3,
        cache_size: float = 200,
        class_weight: Any = None,
        verbose: bool = False,
        max_iter: int = -1,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
    ) -> None:
        own = {name: value for name, value in locals().items() if name not in ("self", "loss", "__class__")}
        super().__init__(**own)
        self.loss = loss

    def fit(self, X: ArrayLike, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Train on all points.

        Parameters
        ----------
        X : array-like or sparse array of shape (n, d)
        y : array-like of shape (n,)
            Labels of two classes or more.
        sample_weight : array-like of shape (n,), optional
            Multiplies the largest dual variable of each point; a point of weight 0 is as good as absent.

        Returns
        -------
        Self
            Itself.

        Raises
        ------
        ValueError
            If a parameter or the data has no meaning, or the kernel is another one; the message says which.
        """
        if callable(self.kernel) or self.kernel in ("poly", "sigmoid", "precomputed"):
            raise ValueError(f"kernel = {self.kernel!r}: STDASVC supports 'linear' and 'rbf'. Use sklearn.svm.SVC")
        if self.probability is True:
            raise ValueError("probability = True is not supported. Use sklearn.calibration.CalibratedClassifierCV")
        check_labels(y)
        super().fit(canonical_rows(X), y, given_weight(sample_weight))
        return self

    def _validate_for_predict(self, X: Any) -> Any:
        return super()._validate_for_predict(canonical_rows(X))

    def _validate_targets(self, y: Any) -> Float:
        labels = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_, label = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"The number of classes has to be greater than one; got {len(self.classes_)} class")
        return np.asarray(label, dtype=np.float64, order="C")

    def _dense_fit(self, X: Any, y: Float, sample_weight: Float, *_: Any, **unused: Any) -> None:  # noqa: ARG002
        self._train(X, X, y.astype(np.intp), sample_weight)

    def _sparse_fit(self, X: Any, y: Float, sample_weight: Float, *_: Any, **unused: Any) -> None:  # noqa: ARG002
        small = X.shape[0] * X.shape[1] * X.dtype.itemsize <= DENSE_BYTES[self.kernel]
        self._train(X, X.toarray() if small else X, y.astype(np.intp), sample_weight)
        # Which of scipy's two interfaces is scikit-learn's setting.
        kind = sparse.csr_array if get_config().get("sparse_interface") == "sparray" else sparse.csr_matrix
        self.support_vectors_ = kind(self.support_vectors_)
        # Zeros are stored, too: LIBSVM's code for decisions ignores the column indices of `dual_coef_`.
        lines, count = self.dual_coef_.shape
        columns = np.tile(np.arange(count, dtype=np.int32), lines)
        starts = np.arange(lines + 1, dtype=np.int32) * np.int32(count)
        self.dual_coef_ = kind((self.dual_coef_.ravel(), columns, starts), shape=(lines, count))

    def _train(self, X: Any, Z: Any, label: NDArray[np.intp], sample_weight: Float) -> None:
        """Train a machine for each pair of classes, and set what LIBSVM's training sets; Z holds the rows of X."""
        weight = checked_weight(sample_weight if len(sample_weight) else None, len(label))
        check_every_class(weight, label, self.classes_)
        self.class_weight_ = class_weights(self.class_weight, self.classes_, label, weight)
        share = weight * self.class_weight_[label]
        upper = np.zeros(len(label))
        np.multiply(self.C, share, out=upper, where=share > 0.0)  # an infinite C times a weight of 0 is not a number
        np.minimum(upper, LARGEST_BOX, out=upper)
        kernel = LinearKernel() if self.kernel == "linear" else RbfKernel(float(self._gamma))
        classes, unbounded = len(self.classes_), self.max_iter == -1
        # In LIBSVM's order: of a point of class c, row r is for the pair of c and r (r < c), or of c and r + 1, and
        # a decision value is positive on the side of the pair's first class.
        dual = np.zeros((classes - 1, len(label)))
        intercepts, steps, gap, converged = [], [], 0.0, True
        with one_blas_thread():
            for i, j in combinations(range(classes), 2):
                rows = np.flatnonzero((label == i) | (label == j))
                solution = solve(
                    Problem(
                        Z=Z if classes == 2 else Z[rows],
                        y=np.where(label[rows] == j, 1, -1).astype(np.int8),
                        upper=upper[rows],
                        kernel=kernel,
                        tolerance=self.tol,
                        max_iterations=max(LEAST_BOUND, STEPS_OF_POINT * len(rows)) if unbounded else self.max_iter,
                        loss=self.loss,
                    )
                )
                first = label[rows] == i
                dual[j - 1, rows[first]] = solution.alpha[first]
                dual[i, rows[~first]] = -solution.alpha[~first]
                intercepts.append(-solution.intercept)
                steps.append(solution.iterations)
                if not solution.converged:
                    converged = False
                    gap = max(gap, solution.kkt_gap)
        support = np.flatnonzero(dual.any(axis=0))
        support = support[np.argsort(label[support], kind="stable")]
        self.support_, self.support_vectors_ = support.astype(np.int32), X[support]
        self._n_support = np.bincount(label[support], minlength=classes).astype(np.int32)
        self.dual_coef_, self.intercept_ = np.ascontiguousarray(dual[:, support]), np.array(intercepts)
        self._probA = self._probB = np.empty(0)
        self._num_iter, self.fit_status_ = np.array(steps, np.int32), int(not converged)
        if self.loss == "hinge" and (np.abs(dual).max(axis=0, initial=0.0) >= LARGEST_BOX).any():
            warnings.warn(
                f"a dual variable stands at the largest bound, {LARGEST_BOX:g}: the machine does not separate the "
                "classes, so that with a larger C it would be another one. Set a smaller C",
                ConvergenceWarning,
                stacklevel=5,
            )
        if not converged:
            warnings.warn(
                f"the solver ended before the KKT gap met tol = {self.tol:g}: it is {gap:.3g}. Raise tol or max_iter, "
                "or scale the features",
                ConvergenceWarning,
                stacklevel=5,
            )

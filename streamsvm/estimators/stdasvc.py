"""`STDASVC`: scikit-learn's SVC with our solver.

Invariant: the binary problem is exactly SVC's, so attributes that both have mean the same, and their values differ only
within the tolerance. More than two classes are learned one against the rest, while SVC learns them in pairs.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from streamsvm.learning.training import limited_to
from streamsvm.model.kernels import Float, Kernel, LinearKernel, RbfKernel
from streamsvm.model.machine import KernelMachine
from streamsvm.svm.problem import Problem, Solution
from streamsvm.svm.solvers import StdaSolver

UNBOUNDED = 1 << 53
"""Number of iterations used for "no bound"."""

ClassWeight = dict[Any, float] | Literal["balanced"] | None


class STDASVC(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Support vector classifier, linear or RBF, trained by STDA-SVM.

    A replacement for `sklearn.svm.SVC` with the same objective (hinge loss, bias not regularised) and the same
    attributes. It differs on purpose in three points. More than two classes are learned one against the rest. The
    variance in `gamma="scale"` and the counts in `class_weight="balanced"` are weighted, so that a point of weight 2
    counts like the point given twice. Input must be dense.

    Parameters
    ----------
    C : float, default 1.0
        Penalty: the largest dual variable of a point of weight 1.
    alpha : float, optional
        If given, sets the penalty instead of `C`: C = 1 / (alpha U), U the total weight.
    kernel : "rbf" or "linear", default "rbf"
    gamma : "scale", "auto" or float, default "scale"
        RBF width: 1 / (d times the variance of X), 1 / d, or a number.
    tol : float, default 1e-3
        KKT gap at which the solver stops; the final gap is recomputed from scratch in float64.
    class_weight : dict, "balanced" or None, default None
        Multiplies the weights of each class.
    max_iter : int, default -1
        Most iterations of the solver for each machine; -1: no bound.
    threads : int, default 1
        Threads of linear algebra; the same number gives the same bits.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_weight_ : ndarray of shape (n_classes,)
    support_ : ndarray of shape (n_SV,), int32
        Indices of the points that support any machine, by class and then by place.
    support_vectors_ : ndarray of shape (n_SV, n_features)
    n_support_ : ndarray of shape (n_classes,), int32
        Support vectors of each class.
    dual_coef_ : ndarray of shape (1, n_SV), or (n_classes, n_SV)
        y_i a_i of each machine; 0 where a point does not support it.
    intercept_ : ndarray of shape (1,), or (n_classes,)
    coef_ : ndarray of shape (1, n_features), or (n_classes, n_features)
        With the linear kernel only.
    n_iter_ : ndarray of shape (1,), or (n_classes,)
    fit_status_ : int
        0 if every machine met the tolerance, else 1.
    gamma_ : float
        The width used; with the RBF kernel only.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        If X had names.

    Notes
    -----
    Source of the method: Liuzzi, Lucidi, Manno and Rinaldi 2015; see `streamsvm.svm.block.descent`.
    For probabilities put this classifier into `sklearn.calibration.CalibratedClassifierCV`, which scikit-learn also
    recommends instead of SVC's own `probability`: all points are available, so each can be judged by a machine that was
    not trained on it.

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
    support_vectors_: Float
    n_support_: NDArray[np.int32]
    dual_coef_: Float
    intercept_: Float
    n_iter_: NDArray[np.int64]
    fit_status_: int
    gamma_: float

    def __init__(
        self,
        *,
        C: float = 1.0,
        alpha: float | None = None,
        kernel: Literal["rbf", "linear"] = "rbf",
        gamma: Literal["scale", "auto"] | float = "scale",
        tol: float = 1e-3,
        class_weight: ClassWeight = None,
        max_iter: int = -1,
        threads: int = 1,
    ) -> None:
        self.C = C
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.tol = tol
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.threads = threads

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on all points.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
            Any labels of two classes or more.
        sample_weight : array-like of shape (n,), optional
            Not negative; a point of weight 0 is as good as absent.

        Returns
        -------
        STDASVC
            Itself.

        Raises
        ------
        ValueError
            If a parameter or the data has no meaning; the message says which.
        """
        check_parameters(self)
        features, y = validate_data(self, X, y, dtype=np.float64, order="C", ensure_min_samples=2)
        labels = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        weight = _check_sample_weight(sample_weight, features, dtype=np.float64, ensure_non_negative=True)
        self.classes_, label = np.unique(labels, return_inverse=True)
        _check_classes(self.classes_, label, weight)
        present = weight > 0
        self.class_weight_ = compute_class_weight(
            self.class_weight, classes=self.classes_, y=labels[present], sample_weight=weight[present]
        )
        penalty = self.C if self.alpha is None else 1.0 / (self.alpha * float(weight.sum()))
        upper = penalty * weight * self.class_weight_[label]
        kernel = self._resolved_kernel(features, weight)
        with limited_to(self.threads):
            machines = [self._solve(features, signs, upper, kernel) for signs in one_against_the_rest(label)]
        self._keep(features, label, machines)
        return self

    def decision_function(self, X: ArrayLike) -> Float:
        """Return how far on which side points lie.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,), or (n, n_classes) for more than two classes
            Of two classes: positive for `classes_[1]`.
        """
        check_is_fitted(self)
        features = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        with limited_to(self.threads):
            columns = [self._decide(features, machine) for machine in range(len(self.intercept_))]
        return columns[0] if len(columns) == 1 else np.column_stack(columns)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of each point, shape (n,)."""
        decision = self.decision_function(X)
        return chosen_class(self.classes_, decision)

    @property
    def coef_(self) -> Float:
        """Coefficients of each machine; see the class."""
        if self.kernel != "linear":
            raise AttributeError("coef_ exists with the linear kernel only")
        check_is_fitted(self)
        return self._coef

    def _resolved_kernel(self, X: Float, weight: Float) -> Kernel:
        if self.kernel == "linear":
            return LinearKernel()
        if self.gamma == "scale":
            variance = weighted_variance(X, weight)
            self.gamma_ = 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
        else:
            self.gamma_ = 1.0 / X.shape[1] if self.gamma == "auto" else float(self.gamma)
        return RbfKernel(self.gamma_)

    def _solve(self, X: Float, signs: NDArray[np.int8], upper: Float, kernel: Kernel) -> Solution:
        most = UNBOUNDED if self.max_iter == -1 else self.max_iter
        return StdaSolver().solve(
            Problem(Z=X, y=signs, upper=upper, kernel=kernel, tolerance=self.tol, max_iterations=most)
        )

    def _keep(self, X: Float, label: NDArray[np.intp], machines: list[Solution]) -> None:
        signs = one_against_the_rest(label)
        alpha = np.array([machine.alpha for machine in machines], dtype=np.float64)
        dual = alpha * np.array(signs)
        supporting = np.flatnonzero(dual.any(axis=0))
        self.support_ = supporting[np.argsort(label[supporting], kind="stable")].astype(np.int32)
        self.support_vectors_ = X[self.support_]
        self.n_support_ = np.bincount(label[self.support_], minlength=len(self.classes_)).astype(np.int32)
        self.dual_coef_ = dual[:, self.support_]
        self.intercept_ = np.array([machine.intercept for machine in machines])
        self.n_iter_ = np.array([machine.iterations for machine in machines])
        if self.kernel == "linear":
            self._coef: Float = np.array([machine.coefficients for machine in machines], dtype=np.float64)
        self.fit_status_ = int(not all(machine.converged for machine in machines))
        if self.fit_status_:
            warnings.warn(
                f"the solver ended before the KKT gap met tol = {self.tol:g}: raise max_iter or tol, or scale the "
                "features",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _decide(self, X: Float, machine: int) -> Float:
        intercept = float(self.intercept_[machine])
        if self.kernel == "linear":
            return np.asarray(X @ self._coef[machine] + intercept, dtype=np.float64)
        support = np.flatnonzero(self.dual_coef_[machine])
        return KernelMachine(
            RbfKernel(self.gamma_), self.support_vectors_[support], self.dual_coef_[machine, support], intercept
        ).decide(X)


def check_parameters(estimator: Any) -> None:
    """Check what scikit-learn leaves unchecked until `fit`.

    Raises
    ------
    ValueError
        Naming the parameter, what it was and what it may be.
    """
    positive = {"C": estimator.C, "tol": estimator.tol}
    if estimator.alpha is not None:
        positive["alpha"] = estimator.alpha
    if estimator.gamma not in ("scale", "auto"):
        positive["gamma"] = estimator.gamma
    for name, value in positive.items():
        if not isinstance(value, (int, float, np.number)) or not 0 < value < np.inf:
            choices = " (or 'scale' or 'auto')" if name == "gamma" else ""
            raise ValueError(f"{name} = {value!r}: give a positive number{choices}")
    if estimator.kernel not in ("rbf", "linear"):
        raise ValueError(f"kernel = {estimator.kernel!r}: give 'rbf' or 'linear'")
    if estimator.max_iter != -1 and not estimator.max_iter >= 1:
        raise ValueError(f"max_iter = {estimator.max_iter!r}: give a positive number, or -1 for no bound")


def one_against_the_rest(label: NDArray[np.intp]) -> list[NDArray[np.int8]]:
    """Return the signs of each machine: one machine for two classes, else one a class."""
    count = int(label.max()) + 1
    return [np.where(label == one, 1, -1).astype(np.int8) for one in ([1] if count == 2 else range(count))]


def chosen_class(classes: NDArray[Any], decision: Float, border: float = 0.0) -> NDArray[Any]:
    """Return the class that decision values choose: by the side of the border of one column, else the greatest."""
    return np.asarray(classes[(decision > border).astype(np.intp) if decision.ndim == 1 else decision.argmax(axis=1)])


def weighted_variance(X: Float, weight: Float) -> float:
    """Return the variance of all entries of X, each row with its weight; `X.var()` if the weights are equal."""
    mean = float(np.average(X.mean(axis=1), weights=weight))
    return float(np.average(((X - mean) ** 2).mean(axis=1), weights=weight))


def _check_classes(classes: NDArray[Any], label: NDArray[np.intp], weight: Float) -> None:
    weighed = np.bincount(label, weights=weight, minlength=len(classes))
    if np.count_nonzero(weighed) < 2:
        raise ValueError(
            f"the points of positive weight have {np.count_nonzero(weighed)} class; give two classes or more"
        )

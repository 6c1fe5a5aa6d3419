"""`STDASVC`: scikit-learn's SVC with our solver; see `streamsvm.drop_in.base`.

Invariant: every problem is exactly SVC's, so attributes mean the same, and their values differ only within the
tolerance.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from streamsvm.drop_in import pairs
from streamsvm.drop_in.base import FEW, FEW_IN_PLAY, LARGEST_BOX, MOST_IN_PLAY, TRIES, DropIn, with_parameters_of
from streamsvm.drop_in.centring import moved
from streamsvm.drop_in.recheck import Expanded, pair_gap
from streamsvm.drop_in.small import SMALL
from streamsvm.drop_in.threads import Threads, number_of
from streamsvm.estimators.inputs import check_every_class, check_labels, class_weights
from streamsvm.model.kernels import Float
from streamsvm.process_wide import algebra_threads

FEW_CLASSES: Final = 4
"""Most classes of a problem of few points that LIBSVM tries first; the pairs of more share kernel values here."""
STEPS_OF_PAIRS: Final = 4
"""Steps for each point of the largest pair that LIBSVM may make, where several classes have small pairs and the kernel
is linear: pairs that need few steps are LIBSVM's. Of other kernels the check of its word would take what it saves."""


class STDASVC(DropIn, SVC):  # type: ignore[misc]
    """Support vector classifier, trained by STDA-SVM: `sklearn.svm.SVC` with another solver.

    Every parameter, attribute, check and message is SVC's; several classes are learned one against one, as SVC does.
    `alpha` and `threads` are added. Parameters and attributes that are not listed here are as in SVC; `shrinking`,
    `cache_size` and `verbose` are for LIBSVM, where it solves.

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
        Threads of the solver and of linear algebra; -1: one for each processor. The same number gives the same bits.

    Attributes
    ----------
    support_ : ndarray of shape (n_SV,), int32
        Places of the points that support any machine, by class and then by place. Where points have weight 0
        these are still places in X, while SVC counts the other points only.
    fit_status_ : int
        0 if every machine met the tolerance, else 1.
    gamma_ : float
        The width used; with the RBF kernel only.

    Notes
    -----
    Source of the method: Liuzzi, Lucidi, Manno and Rinaldi 2015; see `streamsvm.svm.block.descent`.
    Probabilities are SVC's, by cross-validation over the same folds. `sklearn.calibration.CalibratedClassifierCV` is
    what scikit-learn recommends instead.
    Points of weight 0 take no part, as in SVC; negative weights are refused. `class_weight="balanced"` counts weights,
    not points.
    X is float64 inside, as in SVC; float32 is converted.
    Small problems are tried by LIBSVM first, with a bound on its steps: see `streamsvm.drop_in.base.FEW`.

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
    counts_classes = True
    n_iter_: NDArray[np.int32]
    C: float
    alpha: float | None

    __init__ = with_parameters_of(SVC, alpha=None, threads=1)

    def _check_own_parameters(self) -> None:
        super()._check_own_parameters()
        alpha = self.alpha
        if alpha is not None and (not isinstance(alpha, (int, float, np.number)) or not 0 < alpha < np.inf):
            raise ValueError(f"alpha = {alpha!r}: give a positive number, or None for C")

    @property
    def gamma_(self) -> float:
        """The width used; see the class."""
        if self.kernel != "rbf":
            raise AttributeError("gamma_ exists with the RBF kernel only")
        check_is_fitted(self)
        return float(self._gamma)

    def _steps_of_libsvm(self, X: Any, y: Float) -> int:  # noqa: ARG002
        # Folds behind probabilities would meet the bound on steps, too; and no weight makes C of an infinite one.
        if self._with_probability or (self.alpha is not None and np.isinf(self.C)):
            return 0
        sizes = np.sort(np.bincount(y.astype(np.intp)))
        rare = len(sizes) == 2 and sizes[0] <= MOST_IN_PLAY and len(y) <= FEW_IN_PLAY
        if rare or (len(sizes) <= FEW_CLASSES and len(y) <= FEW):
            return TRIES * len(y)
        pair = int(sizes[-2:].sum())
        return STEPS_OF_PAIRS * pair if len(sizes) > 2 and self.kernel == "linear" and pair <= SMALL else 0

    def _given_to_libsvm(self, sample_weight: Float, y: Float) -> Float:
        # Weights that make of SVC's own penalty, C, that of `alpha`.
        if self.alpha is None:
            return sample_weight
        weight = sample_weight if len(sample_weight) else np.ones(len(y))
        return np.asarray(weight * (self._penalty(weight) / self.C), dtype=np.float64)

    def _penalty(self, weight: Float) -> float:
        return float(self.C) if self.alpha is None else 1.0 / (self.alpha * float(np.maximum(weight, 0.0).sum()))

    @property
    def _with_probability(self) -> bool:
        # scikit-learn before 1.9 has no word for "not asked for" besides False.
        return bool(getattr(self, "_effective_probability", self.probability))

    def _check_labels(self, y: Any) -> None:
        check_labels(y)

    def _validate_targets(self, y: Any) -> Float:
        labels = column_or_1d(y, warn=True)
        # Whole numbers and text are classes, and to look whether they are takes longer than a small training.
        are_classes = labels.dtype.kind in "biuU"
        if not are_classes:
            check_classification_targets(y)
        self.classes_, label = np.unique(labels, return_inverse=True)
        if are_classes and 2 * len(self.classes_) >= len(labels):
            check_classification_targets(y)  # it may warn of so many
        if len(self.classes_) < 2:
            raise ValueError(f"The number of classes has to be greater than one; got {len(self.classes_)} class")
        self.class_weight_ = class_weights(self.class_weight, self.classes_, label)
        return np.asarray(label, dtype=np.float64, order="C")

    def _check_counting(self, y: Float, weight: Float) -> None:
        check_every_class(weight, y.astype(np.intp), self.classes_)

    def _checked_weight(self, y: Float, sample_weight: Float) -> Float:
        weight = super()._checked_weight(y, sample_weight)
        # `_validate_targets` did not know the weights, which "balanced" counts.
        self.class_weight_ = class_weights(self.class_weight, self.classes_, y.astype(np.intp), weight)
        return weight

    def _warn_of_result(self) -> None:
        if not self._with_probability or not (self._probA > 0.0).any():
            return
        i, j = list(combinations(self.classes_.tolist(), 2))[int((self._probA > 0.0).argmax())]
        warnings.warn(
            f"the probabilities of the classes {i!r} and {j!r} are in the reverse order of the decision values: the "
            "machines of the cross-validation rank the rows that they did not learn the wrong way round; give more "
            "rows, or use CalibratedClassifierCV",
            UserWarning,
            stacklevel=3,
        )

    def _train(self, X: Any, y: Float, weight: Float, random_seed: int) -> None:
        label = y.astype(np.intp)
        task = pairs.PairwiseProblem(
            Z=X,
            label=label,
            upper=self._upper(weight, label),
            kernel=self._own_kernel,
            tolerance=self.tol,
            max_iterations=self._most_steps(len(label)),
        )
        ended = True
        with Threads(self.threads) as threads:
            task = replace(task, workers=threads)
            if self._with_probability:
                self._probA, self._probB, ended = pairs.platt(task, len(self.classes_), random_seed)
            machines = pairs.train(task, len(self.classes_))
        self.support_, self._n_support = machines.support, machines.counts
        self.dual_coef_, self.intercept_ = machines.dual, machines.intercepts
        self._num_iter, self.fit_status_ = machines.iterations, int(not (machines.converged and ended))
        self._gap, self._own_centres = machines.gap, machines.centres
        if (self._bounds(weight, label) > LARGEST_BOX).any():
            self._boxes_full = int(np.count_nonzero((np.abs(machines.dual) >= LARGEST_BOX).any(axis=0)))

    def _upper(self, weight: Float, label: NDArray[np.intp]) -> Float:
        return np.minimum(self._bounds(weight, label), LARGEST_BOX)

    def _bounds(self, weight: Float, label: NDArray[np.intp]) -> Float:
        share = np.maximum(weight, 0.0) * self.class_weight_[label]
        bound = np.zeros(len(weight))
        # Infinity times a weight of 0 is not a number.
        np.multiply(self._penalty(weight), share, out=bound, where=share > 0.0)
        return bound

    def _doubt(self, X: Any, y: Float, weight: Float) -> None:
        if self._own_centres is None:
            super()._doubt(X, y, weight)
            return
        # Classes far from one another were centred pair by pair, and are looked at so, too.
        label, upper = y.astype(np.intp), self._bounds(weight, y.astype(np.intp))
        own = label[self.support_]
        self._gap = 0.0
        for at, (i, j) in enumerate(combinations(range(len(self.classes_)), 2)):
            rows = np.flatnonzero((upper > 0.0) & ((label == i) | (label == j)))
            first, second = np.flatnonzero(own == i), np.flatnonzero(own == j)
            dual = np.concatenate((self.dual_coef_[j - 1, first], self.dual_coef_[i, second]))[None, :]
            support = self.support_[np.concatenate((first, second))]
            Z, places = moved(X[rows], self._own_centres[at]), np.searchsorted(rows, support)
            machine = Expanded(
                kernel=self._own_kernel,
                support_vectors=Z[places],
                counts=np.array([len(first), len(second)], np.int32),
                dual=dual,
                intercepts=self.intercept_[at : at + 1],
            )
            gap_of = partial(
                pair_gap,
                label=(label[rows] == j).astype(np.intp),
                support=places,
                dual=dual,
                upper=upper[rows],
                classes=2,
            )
            with np.errstate(all="ignore"):
                found = self._judged(machine, Z, machine.values(Z), gap_of, self.tol)
            self._gap, self._wrong = max(self._gap, found.gap), max(self._wrong, found.rounding)
            self.fit_status_ = int(self.fit_status_ or not found.within(self.tol))

    def _gap_of(self, values: Float, y: Float, weight: Float, support: NDArray[Any], dual: Float) -> float:
        label = y.astype(np.intp)
        return pair_gap(values, label, support, dual, self._bounds(weight, label), len(self.classes_))

    def _answer(self, X: Any) -> NDArray[Any]:
        return pairs.votes(self._values(X), len(self.classes_))

    def _values(self, X: Any) -> Float:
        """Return the decision values of every pair, positive on the side of its first class."""
        with algebra_threads(number_of(self.threads)):
            return self._expanded.values(X)

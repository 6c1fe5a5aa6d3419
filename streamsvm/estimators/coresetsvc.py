"""`CoresetSVC`: the daemon's learner and training behind `fit` and `partial_fit`, in bounded memory.

Invariant: rows that are given in any portions are one stream, the one partition that a trainer of the same
configuration (`model_config`) would read; the model after n rows is, to the last bit, the one that it would publish of
a cut there.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ValidationError
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.estimators.persistence import Made, Plain, from_plain, to_plain
from streamsvm.learner import Learner
from streamsvm.points import Points, Position, Rows
from streamsvm.svm.kernels import Float
from streamsvm.svm.model import LinearMachine, Model
from streamsvm.training import Fit, train, with_probability
from streamsvm.tuning import Score, tune

AUDIT_POINTS = 1_000
"""Most points to fit probabilities to, as by the option's default."""
NO_CUT = 1 << 30
"""Leaves after which a cut falls due by itself: never, predictions ask for theirs."""


class _Stream:
    """What was learned, and the model of it, made when it is first asked for."""

    def __init__(self, config: ModelConfig) -> None:
        self.config = config
        self.learner = Learner(config, {0: Position(0, 0)}, NO_CUT)
        self._made: Made | None = None

    @property
    def rows(self) -> int:
        return self.learner.positions[0].offset

    def learn(self, points: Points) -> None:
        n = len(points)
        rows = Rows(
            partition=0,
            offset=np.arange(self.rows, self.rows + n),
            row=np.zeros(n, np.int64),
            last=np.ones(n, np.bool_),
            time_ms=np.full(n, -1, np.int64),
            accepted=np.ones(n, np.bool_),
            points=points,
            leader_epoch=np.full(n, -1, np.int64),
        )
        done = 0
        while done < n:
            done += self.learner.learn(rows.slice(done, n))
            if self.learner.cut_due:
                self.learner.decline_cut()
        self._made = None

    def made(self) -> Made:
        if self._made is None:
            cut, svm = self.learner.cut(), self.config.svm
            tuned = None if svm.tune is None else tune(cut, self.config)
            chosen = svm if tuned is None else tuned.tuning.applied(svm)
            scores = () if tuned is None else tuned.scores
            trained = with_probability(train(cut.points, cut.moments, chosen), cut.audit, chosen)
            if trained.no_probability:
                warnings.warn(f"no probabilities: {trained.no_probability}", UserWarning, stacklevel=4)
            self._made = Made(cut.points.sha256(), trained, cut.moments.weight, scores)
        return self._made

    def state(self) -> Plain:
        return to_plain(self.config, self.learner.state(), self._made)

    @classmethod
    def of(cls, state: Plain) -> Self:
        config, learned, made = from_plain(state)
        stream = cls(config)
        stream.learner.restore(learned)
        stream._made = made
        return stream


class CoresetSVC(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Support vector classifier of two classes over a weighted coreset of everything that it was shown.

    `partial_fit` takes a stream in portions of any size, which change nothing; memory is bounded by `memory_points`,
    and until that many points came nothing is reduced. The model is trained when it is first needed after new points.

    Parameters
    ----------
    memory_points : int, default 10,000
        Most points held at once.
    alpha : float, optional
        Trade-off of margin against average loss, C = 1 / (alpha U), U the total weight; 1e-4 unless `C` is given.
    C : float, optional
        SVC's penalty instead: the boxes then grow with the stream.
    kernel : "linear" or "rbf", default "linear"
    gamma : "scale", "auto" or float, default "scale"
        RBF width, over the standardised features: 1 / (d times their variance), 1 / d, or a number.
    tol : float, default 1e-3
        KKT gap at which the solver stops.
    class_weight : dict, "balanced" or None, default None
        Multiplies the weights of each class. Balanced: by the weights seen so far.
    standardize : bool, default True
        Scale features to zero mean and unit variance of everything seen, weights counted.
    probability : "sigmoid", "isotonic" or None, default None
        What `predict_proba` is fitted by. It takes a tenth of the memory, at most 1,000 points, for an audit sample;
        ten of each class must be in it. Of a stream no longer than the memory the sample's points are trained on, too,
        and a machine that overfits them is then too sure of itself: what fits into memory is better served by
        `sklearn.calibration.CalibratedClassifierCV` around this classifier.
    structure : "tree" or "chain", default "chain"
        How buckets merge; see the option of that name.
    reducer : "calibrated", "sensitivity" or "uniform", default "calibrated"
        How many points become few; see the option of that name.
    train_points : int, default 20,000
        Most points a model is trained on.
    tune : "auto" or None, default None
        Choose `alpha` (or `C`), and `gamma`, by five-fold cross-validation on the points held, whenever a model is
        made; see `streamsvm.tuning`.
    alphas, gammas : sequence of float, optional
        Values to choose among; by default multiples of the given ones, from a hundredth to 100 times `alpha` (or `C`)
        and from a sixteenth to 16 times `gamma`.
    seed : int, default 0

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    model_config : ModelConfig
        The configuration under which a trainer learns the same from the same rows.
    training_set_sha256_ : str
        Of the points that the model is trained on.
    fit_ : Fit
        Objectives, KKT gap, penalty and size of the training.
    C_, alpha_ : float
        The penalty used, and 1 / (C U).
    gamma_ : float or None
        The width used; None with the linear kernel.
    tuning_ : tuple of Score
        What `tune` chose by; empty without it, and where a class has fewer points than there are folds.
    model_ : Model
        Scaler and machine, as a trainer would publish them.
    coef_ : ndarray of shape (1, n_features)
        Over raw features, with the linear kernel only.
    intercept_ : ndarray of shape (1,)
        Over raw features, with the linear kernel only.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        If X had names.

    Notes
    -----
    Source: Tukan, Baykal, Feldman and Rus 2020 (merge and reduce); `streamsvm.coreset.calibrated` says what is kept.
    Points of weight 0 are passed over. float32 input is stored as it is, all other as float64.

    Examples
    --------
    >>> import numpy as np
    >>> from streamsvm import CoresetSVC
    >>> random = np.random.default_rng(0)
    >>> machine = CoresetSVC(memory_points=500)
    >>> for _ in range(20):
    ...     X = random.normal(size=(1_000, 2))
    ...     machine = machine.partial_fit(X, X[:, 0] > 0.5, classes=[False, True])
    >>> machine.predict([[2.0, 0.0], [-2.0, 0.0]])
    array([ True, False])
    """

    classes_: NDArray[Any]

    def __init__(
        self,
        *,
        memory_points: int = 10_000,
        alpha: float | None = None,
        C: float | None = None,
        kernel: Literal["linear", "rbf"] = "linear",
        gamma: Literal["scale", "auto"] | float = "scale",
        tol: float = 1e-3,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        standardize: bool = True,
        probability: Literal["sigmoid", "isotonic"] | None = None,
        structure: Literal["tree", "chain"] = "chain",
        reducer: Literal["calibrated", "sensitivity", "uniform"] = "calibrated",
        train_points: int = 20_000,
        tune: Literal["auto"] | None = None,
        alphas: Sequence[float] | None = None,
        gammas: Sequence[float] | None = None,
        seed: int = 0,
    ) -> None:
        self.memory_points = memory_points
        self.alpha = alpha
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.tol = tol
        self.class_weight = class_weight
        self.standardize = standardize
        self.probability = probability
        self.structure = structure
        self.reducer = reducer
        self.train_points = train_points
        self.tune = tune
        self.alphas = alphas
        self.gammas = gammas
        self.seed = seed

    def __sklearn_tags__(self) -> Tags:
        """Two classes only, so far."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Forget everything, and learn these points in their order.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
            Labels of two classes.
        sample_weight : array-like of shape (n,), optional
            Not negative.

        Raises
        ------
        ValueError
            If a parameter or the data has no meaning; the message says which.
        """
        self.__dict__.pop("_stream", None)
        self._learn(X, y, None, sample_weight, first=True)
        self._stream.made()
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn more points of the same stream.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
        classes : array-like of shape (2,), optional
            Both labels; needed with the first call unless both are among its points.
        sample_weight : array-like of shape (n,), optional
        """
        self._learn(X, y, classes, sample_weight, first=not hasattr(self, "_stream"))
        return self

    def decision_function(self, X: ArrayLike) -> Float:
        """Return decision values, shape (n,); positive for `classes_[1]`."""
        check_is_fitted(self)
        features = validate_data(self, X, dtype=[np.float64, np.float32], order="C", reset=False)
        return self._stream.made().trained.model.decision_function(features)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of each point, shape (n,)."""
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(np.intp)])

    @available_if(lambda self: self.probability is not None)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> Float:
        """Return the probability of each class of `classes_`, shape (n, 2); only with `probability`.

        Of points as they came, sample weights counted and class weights not. The more probable class is not always that
        of `predict`, which goes by the sign of the decision value.

        Raises
        ------
        ValueError
            If too few points came to fit them to; training has warned of it.
        """
        check_is_fitted(self)
        features = validate_data(self, X, dtype=[np.float64, np.float32], order="C", reset=False)
        trained = self._stream.made().trained
        if trained.no_probability:
            raise ValueError(f"there are no probabilities: {trained.no_probability}")
        return trained.model.predict_proba(features)

    @property
    def model_config(self) -> ModelConfig:
        """See the class."""
        check_is_fitted(self)
        return self._stream.config

    @property
    def training_set_sha256_(self) -> str:
        """See the class."""
        check_is_fitted(self)
        return self._stream.made().training_set_sha256

    @property
    def fit_(self) -> Fit:
        """See the class."""
        check_is_fitted(self)
        return self._stream.made().trained.fit

    @property
    def C_(self) -> float:  # noqa: N802 - the name that SVC's parameter has
        """See the class."""
        return self.fit_.C

    @property
    def alpha_(self) -> float:
        """See the class."""
        check_is_fitted(self)
        return 1.0 / (self.fit_.C * self._stream.made().weight)

    @property
    def gamma_(self) -> float | None:
        """See the class."""
        return self.fit_.gamma

    @property
    def tuning_(self) -> tuple[Score, ...]:
        """See the class."""
        check_is_fitted(self)
        return self._stream.made().scores

    @property
    def model_(self) -> Model:
        """See the class."""
        check_is_fitted(self)
        return self._stream.made().trained.model

    @property
    def coef_(self) -> Float:
        """See the class."""
        return self._raw_plane()[0][None, :]

    @property
    def intercept_(self) -> Float:
        """See the class."""
        return np.array([self._raw_plane()[1]])

    def __sklearn_is_fitted__(self) -> bool:
        """Whether anything was learned."""
        return hasattr(self, "_stream")

    def __getstate__(self) -> Plain:
        """Return parameters and what was learned as plain values: skops asks for trust in this class only."""
        state = dict(super().__getstate__())
        if "_stream" in state:
            state["_stream"] = self._stream.state()
        return state

    def __setstate__(self, state: Plain) -> None:
        stream = state.get("_stream")
        super().__setstate__({name: value for name, value in state.items() if name != "_stream"})
        if stream is not None:
            self._stream = _Stream.of(stream)

    def _learn(self, X: Any, y: Any, classes: Any, sample_weight: Any, *, first: bool) -> None:
        features, y = validate_data(self, X, y, dtype=[np.float64, np.float32], order="C", reset=first)
        labels = column_or_1d(y, warn=True)
        weight = _check_sample_weight(sample_weight, features, dtype=np.float64, ensure_non_negative=True)
        present = weight > 0
        features, labels, weight = features[present], labels[present], weight[present]
        if first:
            self._begin(features, labels, classes)
        elif classes is not None and list(np.unique(classes)) != list(self.classes_):
            raise ValueError(f"classes = {list(classes)} is not the same as on the first call, {list(self.classes_)}")
        unknown = ~np.isin(labels, self.classes_)
        if unknown.any():
            raise ValueError(f"y holds {labels[unknown][0]!r}, which is none of the classes {list(self.classes_)}")
        signs = np.where(labels == self.classes_[1], 1, -1).astype(np.int8)
        self._stream.learn(Points(features.astype(self._stream.config.points.numpy_dtype), signs, weight))

    def _begin(self, features: NDArray[Any], labels: NDArray[Any], classes: Any) -> None:
        if classes is None:
            check_classification_targets(labels)
        found = np.unique(labels if classes is None else classes)
        if len(found) != 2:
            raise ValueError(
                f"Only binary classification is supported: give two classes; {len(found)} class was given. For more, "
                "put this classifier into sklearn.multiclass.OneVsRestClassifier"
            )
        self.classes_ = found
        self._stream = _Stream(self._configuration(features))

    def _configuration(self, features: NDArray[Any]) -> ModelConfig:
        weights: Any = "none" if self.class_weight is None else self.class_weight
        if isinstance(weights, dict):
            weights = tuple(float(weights.get(label, 1.0)) for label in self.classes_)
        dtype: Literal["float32", "float64"] = "float32" if features.dtype == np.float32 else "float64"
        try:
            return ModelConfig(
                points=PointsConfig(dimension=features.shape[1], dtype=dtype),
                coreset=CoresetConfig(
                    reducer=self.reducer,
                    structure=self.structure,
                    memory_points=self.memory_points,
                    max_partitions=1,
                    train_points=self.train_points,
                    audit_points=0 if self.probability is None else min(AUDIT_POINTS, self.memory_points // 10),
                ),
                svm=SvmConfig(
                    kernel=self.kernel,
                    gamma=self.gamma,
                    alpha=self.alpha,
                    C=self.C,
                    class_weight=weights,
                    standardize=self.standardize,
                    probability=self.probability,
                    tolerance=self.tol,
                    tune=self.tune,
                    tune_alphas=() if self.alphas is None else tuple(float(alpha) for alpha in self.alphas),
                    tune_gammas=() if self.gammas is None else tuple(float(gamma) for gamma in self.gammas),
                ),
                seed=self.seed,
            )
        except ValidationError as error:
            raise ValueError("; ".join(_said(one) for one in error.errors())) from None

    def _raw_plane(self) -> tuple[Float, float]:
        check_is_fitted(self)
        model = self._stream.made().trained.model
        if not isinstance(model.machine, LinearMachine):
            raise AttributeError("coef_ and intercept_ exist with the linear kernel only")
        w = model.machine.coefficients / model.scaler.scale
        return w, model.machine.intercept - float(w @ model.scaler.mean)


def _said(error: Any) -> str:
    """Return what the configuration refused, under the name that the estimator has for it."""
    name = ".".join(str(part) for part in error["loc"])
    said = error["msg"].removeprefix("Value error, ")
    return f"{'tol' if name == 'tolerance' else name}: {said}" if name else said

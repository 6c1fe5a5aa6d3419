"""`CoresetSVC`: the daemon's learner and training behind `fit` and `partial_fit`, in bounded memory.

Invariant: rows form one stream, whatever the portions in which they are given: the same as the only partition that a
trainer with the same configuration (`model_config`) would read. The model after n rows is, to the last bit, the one
that this trainer would publish for a cut at that row. More than two classes are learned as a trainer learns them, by
several machines over one shared structure.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, Final, Literal, Self

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from streamsvm.certificate import KEEP, Certificate, Certifier
from streamsvm.choices import KernelName, Loss, ReducerName, StructureName
from streamsvm.config import ModelConfig
from streamsvm.errors import ConfigurationError
from streamsvm.estimators.blas_threads import one_blas_thread
from streamsvm.estimators.configuration import SPELLED, configuration_of, continued
from streamsvm.estimators.inputs import NO_WEIGHT, check_labels, check_sizes, checked_weight
from streamsvm.estimators.stream import Plain, Stream
from streamsvm.ingest.decoding import decoding_of
from streamsvm.learning.learner import Horizon
from streamsvm.learning.training import MOST_CLASSES
from streamsvm.learning.tuning import Score
from streamsvm.model.classes import AnyModel
from streamsvm.model.fit import Fit
from streamsvm.model.kernels import Float
from streamsvm.model.machine import LinearMachine
from streamsvm.model.shapes import plot, shapes_of
from streamsvm.model.threshold import Threshold
from streamsvm.points import Points
from streamsvm.supports import CERTIFICATE, LABELS, require


class CoresetSVC(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Support vector classifier trained on a weighted coreset of all points given so far.

    `partial_fit` takes a stream in portions; their sizes do not affect the model. `points` bounds the memory;
    nothing is reduced before that many points came. The model is trained when it is first needed after new points. More
    than two classes are told apart by several machines that share the points held, as a trainer's are.

    Parameters
    ----------
    points : int, default 11,000
        Most points held at once; one of eleven, at most 1,000, is of the audit sample.
    alpha : float, optional
        Trade-off between margin and average loss: C = 1 / (alpha U), U the total weight; 1e-4 unless `C` is given, of
        additive machines 1e-3 or 1e-2 where points that are left out lose less.
    C : float, optional
        Penalty of scikit-learn's SVC, instead of `alpha`: the total penalty then grows with the stream.
    kernel : "linear", "rbf" or "additive", default "linear"
    loss : "hinge", "squared_hinge" or None, default None
        Of a margin m: max(0, 1 - m), or its square. None: "hinge" with the linear kernel, "squared_hinge" with the
        others, as of a trainer.
    gamma : "scale", "auto" or float, default "scale"
        RBF width, over the standardised features: 1 / (d times their variance), 1 / d, or a number.
    tol : float, default 1e-3
        KKT gap at which the solver stops.
    class_weight : dict, "balanced" or None, default None
        Multiplies the weights of each class, in every machine. Balanced: by the weights seen so far.
    standardize : bool, default True
        Scale features to zero mean and unit variance of everything seen, weights counted. False: they lose their
        mean only, which changes no machine and keeps the digits of features far from 0.
    probability : "sigmoid" or None, default None
        Method by which `predict_proba` is fitted, to the audit sample. With fewer than ten points of a class in it a
        trainer publishes no probabilities; here a rough sigmoid is fitted, with a warning. If the whole stream fits
        into the memory, the points of the sample are also trained on, and the probabilities of a machine that overfits
        them are too extreme; then rather put this classifier into `sklearn.calibration.CalibratedClassifierCV`.
    cost : tuple of two float, optional
        Of two classes: what a missed point of `classes_[1]` costs, and what a false alarm does. `predict` answers
        `classes_[1]` above the decision value that makes the mean cost least. This value is chosen and judged on the
        audit sample, for which what `probability` says of it holds; see `streamsvm.svm.threshold`.
    target : dict of one entry, optional
        Instead of `cost`: {"precision": p}, {"recall": r} or {"alarm_rate": a}, which `predict` is to reach.
    memory : "all", "window", "decay" or "adaptive", default "all"
        Which points count: all alike; the newest `window`; each half as much after every `half_life`; or
        as much of the past as did best on points that were not learned yet, for a stream that changes.
    window, half_life : int, optional
        Rows. With the `memory` of that kind, which needs it.
    structure : "tree", "chain" or "counter", default "chain"
        How buckets merge; see the option of that name. Only with `memory="all"`.
    reducer : "calibrated" or "uniform", default "calibrated"
        How many points are reduced to few; see the option of that name.
    multiclass : "one_vs_one", "one_vs_rest" or None, default None
        Of more than two classes: a machine for each pair, or for each class against all others. None: pairs up to 32
        classes.
    train_points : int, default 20,000
        Most points a model is trained on.
    tune : "auto" or None, default None
        Choose `alpha` (or `C`), and `gamma`, by five-fold cross-validation on the points held, each time a model is
        trained; see `streamsvm.learning.tuning`.
    seed : int, default 0
    features : mapping, str, Path or Recipe, optional
        Learn raw events by these features: the table `[features]`, the path of a configuration file, whose `[events]`
        is read, too, or the recipe of a version. `X` is then a list of mappings or a data frame everywhere. Without `y`
        the labels come from the field that `events.label` names, and `classes_` are its negative and positive one;
        without `sample_weight` weights come from `events.weight`. An event that a trainer would reject is an error.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    model_config : ModelConfig
        The configuration with which a trainer learns the same from the same rows; `model_config.toml()` is its
        configuration file. Labels other than text, whole numbers and booleans are -1 and 1 for a trainer, or the
        numbers from 0 on of more than two.
    coreset_ : tuple of ndarray
        X, y and sample_weight of the points that stand for everything learned so far: raw features of shape
        (n, n_features), labels and positive weights of shape (n,), for any `fit(X, y, sample_weight)`.
    training_set_sha256_ : str
        SHA-256 of the points that the model was trained on.
    fit_ : Fit, or tuple of n_machines
        Objectives, KKT gap, penalty and size of the training. There is a machine for each class, or for each pair in
        the order (0, 1), (0, 2), ..., (1, 2), ...
    C_, alpha_ : float
        The penalty used, and 1 / (C U).
    gamma_ : float or None
        The width used; None with the linear kernel.
    threshold_ : Threshold or None
        Above which decision value `predict` answers `classes_[1]`, and what is expected there; None without `cost` and
        `target`.
    tuning_ : tuple of Score
        Scores by which `tune` chose; empty without `tune`, and if a class has fewer points than there are folds.
    model_ : Model, or ClassModel
        Scaler and machine, or machines, as a trainer would publish them.
    coef_ : ndarray of shape (1, n_features), or (n_machines, n_features)
        Over raw features, with the linear kernel only. The machine of a pair is positive for the later class.
    shapes_ : tuple of Shape
        With the additive kernel only: what each curve and each surface adds to a score, over raw features, those that
        move scores most first; of more than two classes those of all machines.
    horizons_ : tuple of Horizon
        How many of the newest rows each horizon holds, and its share of the model's weight; empty with `memory="all"`.
    intercept_ : ndarray of shape (1,), or (n_machines,)
        Over raw features, with the linear kernel only.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        If X had names.

    Notes
    -----
    Source: Tukan, Baykal, Feldman and Rus 2020 (merge and reduce); `streamsvm.coreset.reduce` says which
    points are kept. With more than two classes, one without points so far is never answered by pairs; against the rest
    its decision value is -1 everywhere.
    Points of weight 0 are ignored, and so is a label that only such points have. float32 input is stored as float32,
    all other input as float64.

    Examples
    --------
    >>> import numpy as np
    >>> from streamsvm import CoresetSVC
    >>> random = np.random.default_rng(0)
    >>> machine = CoresetSVC(points=500)
    >>> for _ in range(20):
    ...     X = random.normal(size=(1_000, 2))
    ...     machine = machine.partial_fit(X, X[:, 0] > 0.5, classes=[False, True])
    >>> machine.predict([[2.0, 0.0], [-2.0, 0.0]])
    array([ True, False])
    """

    classes_: NDArray[Any]
    # Read-only, computed by `_attribute`.
    model_config: ModelConfig
    coreset_: tuple[NDArray[Any], NDArray[Any], Float]
    training_set_sha256_: str
    fit_: Fit | tuple[Fit, ...]
    C_: float
    alpha_: float
    gamma_: float | None
    threshold_: Threshold | None
    horizons_: tuple[Horizon, ...]
    tuning_: tuple[Score, ...]
    model_: AnyModel
    coef_: Float
    intercept_: Float
    shapes_: tuple[Any, ...]

    def __init__(
        self,
        *,
        points: int = 11_000,
        alpha: float | None = None,
        C: float | None = None,
        kernel: KernelName = "linear",
        loss: Loss | None = None,
        gamma: Literal["scale", "auto"] | float = "scale",
        tol: float = 1e-3,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        standardize: bool = True,
        probability: Literal["sigmoid"] | None = None,
        cost: tuple[float, float] | None = None,
        target: dict[Literal["precision", "recall", "alarm_rate"], float] | None = None,
        memory: Literal["all", "window", "decay", "adaptive"] = "all",
        window: int | None = None,
        half_life: int | None = None,
        structure: StructureName = "chain",
        reducer: ReducerName = "calibrated",
        multiclass: Literal["one_vs_one", "one_vs_rest"] | None = None,
        train_points: int = 20_000,
        tune: Literal["auto"] | None = None,
        seed: int = 0,
        features: msgspec.Struct | Mapping[str, Any] | str | Path | None = None,
    ) -> None:
        self.points = points
        self.alpha = alpha
        self.C = C
        self.kernel = kernel
        self.loss = loss
        self.gamma = gamma
        self.tol = tol
        self.class_weight = class_weight
        self.standardize = standardize
        self.probability = probability
        self.cost = cost
        self.target = target
        self.memory = memory
        self.window = window
        self.half_life = half_life
        self.structure = structure
        self.reducer = reducer
        self.multiclass = multiclass
        self.train_points = train_points
        self.tune = tune
        self.seed = seed
        self.features = features

    def fit(self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Forget everything, and learn these points in their order.

        Parameters
        ----------
        X : array-like of shape (n, d); with `features` n raw events
        y : array-like of shape (n,)
            Labels of two classes or more, at most 128. Only with `features` they may be left out.
        sample_weight : array-like of shape (n,), optional
            0, or from 1e-15 to 1e15.

        Raises
        ------
        ValueError
            If a parameter or the data has no meaning, or a number is too large; the message says which.
        """
        self.__dict__.pop("_stream", None)
        self._learn(X, y, None, sample_weight, first=True)
        if not hasattr(self, "_stream"):
            raise ValueError(NO_WEIGHT)
        self._stream.made()
        return self

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn more points of the same stream.

        Parameters
        ----------
        X : array-like of shape (n, d); with `features` n raw events
        y : array-like of shape (n,)
        classes : array-like of shape (n_classes,), optional
            All labels that will come; needed with the first call unless all are among its points.
        sample_weight : array-like of shape (n,), optional
            0, or from 1e-15 to 1e15. Rows of weight 0 are ignored, also where no row of a portion has another: without
            `classes` the first portion with a row that counts is then the first call.
        """
        self._learn(X, y, classes, sample_weight, first=not hasattr(self, "_stream"))
        return self

    def retrain(self) -> Self:
        """Train again on what was learned, with the parameters as they are now; no row has to come.

        After `set_params` of what decides training: `alpha`, `C`, `kernel`, `loss`, `gamma`, `tol`, `class_weight`,
        `standardize`, `multiclass`, `probability`, `cost`, `target` and `tune`. What was learned stays as it is: kept
        points were chosen, and later ones are, for the machine that the parameters described at first.

        Raises
        ------
        ValueError
            If another parameter was changed: rows are learned by it, so that only `fit` can begin anew.
        """
        self._check_fitted()
        recipe = None if self.features is None else decoding_of(None).given(self.features)
        self._stream.train_with(continued(self, self._stream.config, recipe))
        self._stream.made()
        return self

    def decision_function(self, X: Any) -> Float:
        """Return how far on which side points lie.

        Parameters
        ----------
        X : array-like of shape (n, d); with `features` n raw events

        Returns
        -------
        ndarray of shape (n,), or (n, n_classes) for more than two classes
            Of two classes: positive for `classes_[1]`, or above `threshold_` if there is one. Of pairs: the votes of
            each class, with less than a third of one added by the sum of its values, as in scikit-learn's SVC.
        """
        features = self._features(X)
        with one_blas_thread():
            return self._stream.made().model.decision_function(features)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each point, shape (n,)."""
        decision = self.decision_function(X)
        if decision.ndim == 1:
            return np.asarray(self.classes_[(decision > self._stream.made().model.border).astype(np.intp)])
        return np.asarray(self.classes_[decision.argmax(axis=1)])

    @available_if(lambda self: getattr(self, "probability", "") is not None)
    def predict_proba(self, X: Any) -> Float:
        """Return the probability of each class of `classes_`, shape (n, n_classes); only with `probability`.

        Of points as they came, sample weights counted and class weights not. The more probable class is not always that
        of `predict`, which goes by decision values. More than two classes: those against the rest over their sum, or
        those of the pairs coupled; see `streamsvm.model.classes`.

        Raises
        ------
        ValueError
            If the sample holds no point of a class; training has warned of it. If `probability` was set after learning.
        """
        self._check_fitted()
        if self._stream.config.svm.probability is None:
            raise ValueError(
                "this classifier has no probabilities: probability was set after it had learned; call retrain()"
            )
        features, made = self._features(X), self._stream.made()
        for machine in made.machines:
            if machine.model.probability is None:
                raise ValueError(f"this classifier has no probabilities: {machine.no_probability}")
        with one_blas_thread():
            return made.model.predict_proba(features)

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags; with features, rows are mappings and not arrays."""
        tags = super().__sklearn_tags__()
        if self.features is not None:
            tags.input_tags.two_d_array = False
            tags.input_tags.dict = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Whether anything was learned: rows of weight 0 are not."""
        return hasattr(self, "_stream") and self._stream.rows > 0

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
            self._stream = Stream.of(stream)

    def plot_shapes(self, most: int = 12) -> Any:
        """Draw `shapes_` with matplotlib (extra `plot`): what each feature and each pair of them adds to a score.

        Parameters
        ----------
        most : int
            How many are drawn, those that move scores most.

        Returns
        -------
        ndarray of matplotlib.axes.Axes, one for each shape

        Raises
        ------
        AttributeError
            If the kernel is not additive.
        ConfigurationError
            If matplotlib is not installed.
        """
        return plot(self.shapes_[:most], shown=True)[1]

    def certify(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        keep: int = KEEP,
        reads: int = 1,
    ) -> Certificate:
        """Prove how far the model can be from the best one over rows, usually those that it was fitted to.

        Takes a pass over the rows (`streamsvm.certificate`). Rows count as they are given, in the type in which
        the first rows were learned (float32 or float64): an outlier that learning drew in, too.

        Parameters
        ----------
        X, y, sample_weight
            As `fit` takes them.
        keep : int
            Rows that are kept whole; all others enter in sums. More prove more.
        reads : int
            How often the rows are gone through at most; more prove more where one is not enough.

        Returns
        -------
        Certificate
            `objective`, `bound`, `gap`, `rows` and `kept`; `str` of it is a sentence.

        Raises
        ------
        ValueError
            If there are more than two classes, or the kernel is not linear, or as `partial_fit`.
        """
        self._check_fitted()
        require({CERTIFICATE: True, LABELS: len(self.classes_)}, SPELLED)
        (machine,), dtype = self._stream.made().machines, self._stream.config.points.numpy_dtype
        try:
            certifier = Certifier(machine.model, machine.fit, (0,), dtype, keep, self._stream.config.svm.margin_loss)
        except ConfigurationError as error:
            raise ValueError(str(error)) from None
        features, labels, weight, *_ = self._given(X, y, None, sample_weight, first=False)
        points = Points(features.astype(dtype), self._signed(labels), weight)
        while True:
            certifier.look(0, points)
            certificate = certifier.certificate()
            if certifier.done or certificate.reads >= reads:
                return certificate

    def _check_fitted(self) -> None:
        self._check_parts()
        check_is_fitted(self)

    def _check_parts(self) -> None:
        """Refuse an estimator that lacks a part, as one that a pickle was read into by half."""
        parts = list(_PARAMETERS)
        if hasattr(self, "_stream"):
            parts += ["classes_"] if self._stream.columns is not None else ["classes_", "n_features_in_"]
        for name in parts:
            if not hasattr(self, name):
                kind = type(self).__name__
                raise ValueError(f"The internal representation of {kind} was altered: {name} is missing; fit it again")

    def _given(
        self, X: Any, y: Any, classes: Any, sample_weight: Any, *, first: bool
    ) -> tuple[NDArray[Any], NDArray[Any], Float, Any, msgspec.Struct | None]:
        """Return features, labels and weights of the rows that count; then all classes and the recipe, where given."""
        check_labels(y)
        recipe: msgspec.Struct | None = None
        if self.features is None:
            features, y = validate_data(self, X, y, dtype=[np.float64, np.float32], order="C", reset=first)
        else:
            recipe = decoding_of(None).given(self.features)
            given = decoding_of(recipe).points_given(X, y, recipe)
            features, y = given.X, given.y
            classes = given.classes if classes is None else classes
            sample_weight = given.weight if sample_weight is None else sample_weight
        labels = column_or_1d(y, warn=True)
        weight = checked_weight(sample_weight, len(features))
        stored = features.dtype if first else np.dtype(self._stream.config.points.numpy_dtype)
        check_sizes(features, weight, stored.name)
        counts = weight > 0.0
        return features[counts], labels[counts], weight[counts], classes, recipe

    def _learn(self, X: Any, y: Any, classes: Any, sample_weight: Any, *, first: bool) -> None:
        """Check rows and learn them; the first ones that count begin the stream."""
        self._check_parts()
        features, labels, weight, classes, recipe = self._given(X, y, classes, sample_weight, first=first)
        if first and classes is None and not len(labels):
            return  # rows of weight 0 are ignored: the first row that counts will begin the stream
        if first:
            if classes is None:
                check_classification_targets(labels)
            check_labels(classes, "classes")
            found = np.unique(labels if classes is None else classes)
            if not 2 <= len(found) <= MOST_CLASSES:
                raise ValueError(f"y must hold 2 to {MOST_CLASSES} classes; {len(found)} class was given")
            require({"svm.multiclass": self.multiclass, LABELS: len(found)}, SPELLED)
            own = None if recipe is None else decoding_of(recipe).labels_of(recipe)
            # A recipe names its positive label second, which may be the first in ascending order.
            turned = own is not None and len(own) == 2 and found[::-1].tolist() == [*own]
            self.classes_ = found[::-1] if turned else found
            dtype: Literal["float32", "float64"] = "float32" if features.dtype == np.float32 else "float64"
            self._stream = Stream(configuration_of(self, features.shape[1], dtype, recipe))
        else:
            self._stream.train_with(continued(self, self._stream.config, recipe))
            if classes is not None and list(np.unique(classes)) != list(np.unique(self.classes_)):
                given = np.asarray(classes).tolist()
                raise ValueError(f"classes = {given} differs from the first call's classes, {self.classes_.tolist()}")
        if len(labels):
            points = Points(features.astype(self._stream.config.points.numpy_dtype), self._signed(labels), weight)
            self._stream.learn(points, getattr(self, "feature_names_in_", np.empty(0, object)).tolist())

    def _signed(self, labels: NDArray[Any]) -> NDArray[np.int8]:
        """Return the index of each label's class, or its sign where there are two."""
        unknown = ~np.isin(labels, self.classes_)
        if unknown.any():
            first_of_them = labels[unknown].tolist()[0]
            raise ValueError(f"y holds {first_of_them!r}, which is not one of the classes {self.classes_.tolist()}")
        ascending = np.argsort(self.classes_)
        y: NDArray[np.int8] = ascending[np.searchsorted(self.classes_, labels, sorter=ascending)].astype(np.int8)
        return 2 * y - 1 if len(self.classes_) == 2 else y

    def _features(self, X: Any) -> NDArray[Any]:
        self._check_fitted()
        if self._stream.columns is not None:
            return self._stream.columns.features(X)
        return np.asarray(validate_data(self, X, dtype=[np.float64, np.float32], order="C", reset=False))

    def _attribute(self, name: str) -> Any:
        """Return a read-only attribute; a model is trained first, if rows came since and the attribute is a model's."""
        self._check_fitted()
        if name == "model_config":
            return self._stream.config
        if name == "horizons_":
            return self._stream.learner.horizons()[0]
        if name == "coreset_":
            with one_blas_thread():
                points = self._stream.learner.cut().points
            place = points.y > 0 if len(self.classes_) == 2 else points.y
            return points.X, self.classes_[place.astype(np.intp)], points.weight
        made = self._stream.made()
        if name in ("coef_", "intercept_"):
            planes = []
            for model in (trained.model for trained in made.machines):
                if not isinstance(model.machine, LinearMachine):
                    raise AttributeError("coef_ and intercept_ exist with the linear kernel only")
                w = model.machine.coefficients / model.scaler.scale
                planes.append(w if name == "coef_" else model.machine.intercept - float(w @ model.scaler.mean))
            return np.array(planes)
        if name == "shapes_":
            names = self._stream.config.points.feature_names or getattr(self, "feature_names_in_", ())
            found = shapes_of(self.model_, tuple(map(str, names)), self.classes_.tolist())
            if isinstance(found, tuple):
                return found
            raise AttributeError('shapes_ exists with kernel="additive" only')
        first = made.machines[0]
        values = {
            "training_set_sha256_": made.training_set_sha256,
            "fit_": first.fit if len(made.machines) == 1 else tuple(machine.fit for machine in made.machines),
            "C_": first.fit.C,
            "alpha_": 1.0 / (first.fit.C * made.weight),
            "gamma_": first.fit.gamma,
            "threshold_": first.model.threshold,
            "tuning_": made.scores,
            "model_": made.model,
        }
        return values[name]


_PARAMETERS: Final = tuple(signature(CoresetSVC).parameters)
# A property each, as hand-written ones would be: the class lists them, and they cannot be set.
for _name in CoresetSVC.__annotations__.keys() - {"classes_"}:
    setattr(CoresetSVC, _name, property(partial(CoresetSVC._attribute, name=_name), doc="See the class."))

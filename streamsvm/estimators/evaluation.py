"""How near the full data's optimum a machine comes: its objective over all points, the optimum itself, a reservoir.

Invariant: whatever is compared is measured by one F (`streamsvm.svm.problem`): the same points, standardised by their
own moments, the same C, the same kernel. A machine over other units is rewritten in these; one that has no norm in that
kernel's space, a forest say, has no F, and so no gap. Of more than two classes F is the sum over the problems of the
task's machines: of each pair, or of each class against the rest.

Source: Vitter 1985, Alg. R (the reservoir). The optimum is the trunk's own solver's over all points; its dual variables
certify how near it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import average_precision_score, brier_score_loss, log_loss, roc_auc_score

from streamsvm.config import SvmConfig
from streamsvm.coreset.buckets import Moments
from streamsvm.estimators.blas_threads import one_blas_thread
from streamsvm.learning.tasks import Task
from streamsvm.learning.training import kernel_of, scaler_of, train, untrained
from streamsvm.model.correctness import accuracy, answers, balanced_accuracy
from streamsvm.model.kernels import Float, Kernel, RbfKernel
from streamsvm.model.machine import LinearMachine, Model, Scaler
from streamsvm.model.skill import Skill
from streamsvm.points import Features, Points, Signs
from streamsvm.quality.skill import Answered, skill_of
from streamsvm.svm.problem import primal_objective

FEW_HELD_OUT: Final = 10
"""Expected rows of a label among those that are set aside, below which they are drawn by label."""
OPTIMUM_TOLERANCE: Final = 1e-5
"""KKT gap of the optimum: far below what a summary can reach."""
STEPS_OF_POINT: Final = 10_000
"""Most steps of the solver for each point, if that is more than the configuration's."""
SGD_SETTINGS: Final[tuple[dict[str, Any], ...]] = (
    {"learning_rate": "optimal", "average": True},
    {"learning_rate": "invscaling", "eta0": 0.1, "power_t": 0.25},
    {"learning_rate": "invscaling", "eta0": 0.1, "power_t": 0.5},
    {"learning_rate": "invscaling", "eta0": 1.0, "power_t": 0.5},
    {"learning_rate": "constant", "eta0": 0.001},
)
"""SGDClassifier's, from a grid of twenty: each the best of at least one public set at C = 1. Whoever shows the one of
the lowest F favours it twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmpiricalObjective:
    """F over one set of points; see `over`.

    Attributes
    ----------
    points : Points
        Raw.
    svm : SvmConfig
    moments : Moments
        Of these points.
    scaler : Scaler
        By these moments.
    kernel : Kernel
        Over scaled features; its width, too, is these points'.
    penalty : float
        C.
    """

    points: Points
    svm: SvmConfig
    moments: Moments
    scaler: Scaler
    kernel: Kernel
    penalty: float

    @staticmethod
    def over(points: Points, svm: SvmConfig, moments: Moments | None = None) -> EmpiricalObjective:
        """Return the objective that `streamsvm.learning.training.train` minimises over all of these points.

        Its scaler and penalty are those of the moments, by default of the points.
        """
        moments = Moments.zero(points.dimension).add(points) if moments is None else moments
        scaler = scaler_of(moments, svm)
        return EmpiricalObjective(
            points=points,
            svm=svm,
            moments=moments,
            scaler=scaler,
            kernel=kernel_of(scaler, moments, svm),
            penalty=svm.penalty(moments.weight),
        )

    @property
    def weight(self) -> Float:
        """Weights of the points, those of their classes included, shape (n,)."""
        return self.points.class_weighted(self.svm.class_weights(self.moments.class_weight)).weight

    def value(self, model: Model) -> float:
        """Return F of a model.

        Parameters
        ----------
        model : Model
            A linear one may have any scaler: its w is rewritten in this one's units. The norm of a kernel machine is
            that of its own kernel and units, which must be these but for rounding.
        """
        decision = model.decision_function(self.points.X)
        return primal_objective(decision, self.points.y, self.penalty * self.weight, self._squared_norm(model))

    @one_blas_thread()
    def of_few(self, few: Points) -> Model:
        """Return the model of points that stand for all of them: under these moments, this C and this kernel."""
        return (train(few, self.moments, self.svm) if len(few) else untrained(self.moments, self.svm)).model

    def _squared_norm(self, model: Model) -> float:
        machine = model.machine
        if isinstance(machine, LinearMachine):
            w = machine.coefficients / model.scaler.scale * self.scaler.scale
            return float(w @ w)
        return float(machine.dual @ (machine.decide(machine.support) - machine.intercept))


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best machine of an objective, as far as it was found.

    Attributes
    ----------
    model : Model
    objective : float
        Its F.
    lower_bound : float
        The dual objective: no machine has a lower F.
    """

    model: Model
    objective: float
    lower_bound: float

    @property
    def uncertainty(self) -> float:
        """How far above the true optimum this one may lie, relative; smaller gaps are not distinguished."""
        return max(0.0, 1.0 - self.lower_bound / self.objective)

    def gap(self, objective: float) -> float:
        """Return (F - F*) / F*, 0 if F is lower than this optimum's."""
        return max(0.0, objective / self.objective - 1.0)


@one_blas_thread()
def optimum(objective: EmpiricalObjective) -> Optimum:
    """Train on all points of an objective, in double precision and to `OPTIMUM_TOLERANCE`.

    The linear kernel takes time in proportion to the points, RBF up to the cube of the support vectors.
    """
    if len(np.unique(objective.points.y)) < 2:  # a pair of which one class, or neither, has a point
        model = objective.of_few(objective.points)
        return Optimum(model, objective.value(model), 0.0)
    exact = objective.svm.model_copy(update={"landmarks": None, "tolerance": OPTIMUM_TOLERANCE})
    found = train(objective.points, objective.moments, exact.settled(2))
    assert found.fit.dual_objective is not None
    return Optimum(found.model, objective.value(found.model), found.fit.dual_objective)


@dataclass(frozen=True, slots=True)
class Optima:
    """The best machines of objectives; a gap is that of the sum.

    Attributes
    ----------
    each : tuple of Optimum
    """

    each: tuple[Optimum, ...]

    @property
    def models(self) -> tuple[Model, ...]:
        """The machines."""
        return tuple(best.model for best in self.each)

    @property
    def objective(self) -> float:
        """Sum of F."""
        return sum(best.objective for best in self.each)

    @property
    def uncertainty(self) -> float:
        """How far above the true optimum the sum may lie, relative."""
        return max(0.0, 1.0 - sum(best.lower_bound for best in self.each) / self.objective)

    def gap(self, objective: float) -> float:
        """Return (F - F*) / F* of the sums, 0 if F is lower than this optimum's."""
        return max(0.0, objective / self.objective - 1.0)


@dataclass(frozen=True, slots=True)
class Objectives:
    """F over one set of points, of each machine that a task has; see `over`.

    Attributes
    ----------
    points : Points
        Raw, labeled as the task has them.
    moments : Moments
        Of these points.
    task : Task
    each : tuple of EmpiricalObjective
        One a machine; scaler, kernel and C are the same.
    """

    points: Points
    moments: Moments
    task: Task
    each: tuple[EmpiricalObjective, ...]

    @staticmethod
    def over(points: Points, svm: SvmConfig, task: Task) -> Objectives:
        """Return the objectives that are minimised over all of these points."""
        moments = Moments.zero(points.dimension, task.classes).add(points)
        own = task.machine_config(svm)
        each = tuple(EmpiricalObjective.over(problem, own, seen) for problem, seen in task.problems(points, moments))
        return Objectives(points, moments, task, each)

    @property
    def svm(self) -> SvmConfig:
        """Of each machine."""
        return self.each[0].svm

    @property
    def scaler(self) -> Scaler:
        """By the moments."""
        return self.each[0].scaler

    @property
    def kernel(self) -> Kernel:
        """Over scaled features."""
        return self.each[0].kernel

    @property
    def penalty(self) -> float:
        """C."""
        return self.each[0].penalty

    def value(self, models: Sequence[Model]) -> float:
        """Return the sum of F over the machines."""
        return sum(objective.value(model) for objective, model in zip(self.each, models, strict=True))

    def of_few(self, few: Points) -> tuple[Model, ...]:
        """Return the models of points that stand for all of them; see `EmpiricalObjective.of_few`."""
        problems = self.task.problems(few, self.moments)
        return tuple(own.of_few(problem) for own, (problem, _) in zip(self.each, problems, strict=True))


def decisions(task: Task, models: Sequence[Model], X: Features) -> Float:
    """Return decision values of a task's machines, shape (n,) of two classes, (n, n_classes) of more."""
    return np.asarray(task.model(models).decision_function(X))


class ReservoirBaseline:
    """A uniform sample of fixed size of a stream of unknown length, without replacement.

    Parameters
    ----------
    size : int
        Points held once so many came.
    seed : int

    Notes
    -----
    The sample is one of rows, whatever their weights; `points` gives the sample the weight of the whole stream.
    """

    def __init__(self, size: int, seed: int) -> None:
        self._size = size
        self._random = np.random.Generator(np.random.PCG64((seed, 1)))  # not the numbers that `split` draws
        self._kept: Points | None = None
        self._seen = 0
        self._weight = 0.0

    def learn(self, points: Points) -> None:
        """Take the next points of the stream."""
        room = max(0, self._size - self._seen)
        first, rest = points.take(slice(room)), points.take(slice(room, None))
        self._kept = _copied(first) if self._kept is None else Points.union([self._kept, first])
        places = self._random.integers(0, self._seen + len(first) + np.arange(1, len(rest) + 1))
        taken = places < self._size
        # numpy assigns in order: of several that take one place the last stays, as one by one
        self._kept.X[places[taken]] = rest.X[taken]
        self._kept.y[places[taken]] = rest.y[taken]
        self._kept.weight[places[taken]] = rest.weight[taken]
        self._seen += len(points)
        self._weight += float(points.weight.sum())

    @property
    def points(self) -> Points:
        """The sample, weighted to stand for all that came; something must have."""
        assert self._kept is not None
        return self._kept.reweighted(self._kept.weight * (self._weight / self._kept.weight.sum()))


def _copied(points: Points) -> Points:
    return Points(points.X.copy(), points.y.copy(), points.weight.copy())


@dataclass(frozen=True, slots=True)
class Scores:
    """How well points that were set aside are classified, their weights counted.

    Attributes
    ----------
    accuracy : float
    balanced_accuracy : float or None
        None of points of one label only.
    auc : float or None
        Area under the ROC curve, of more than two classes the mean over each against the rest; None of points of one
        label only.
    average_precision : float or None
        None of points of one label only, and of more than two classes.
    skill : bool or None
        Whether the answers are better than chance and not all the same; None where that is not clear, and of more than
        two classes.
    only_answer : int or None
        The label that every point is answered with, as `Points.y` has it; None where the answers differ.
    """

    accuracy: float
    balanced_accuracy: float | None
    auc: float | None
    average_precision: float | None = None
    skill: bool | None = None
    only_answer: int | None = None


def scores(test: Points, decision: Float) -> Scores:
    """Score decision values.

    Parameters
    ----------
    test : Points
    decision : ndarray of shape (n,), or (n, n_classes)
        Positive for +1; of several classes, the greatest for the one that is chosen.
    """
    several, predicted = decision.ndim == 2, answers(decision)
    both, two = np.unique(test.y).size >= 2, not several
    weighted: dict[str, Any] = {"sample_weight": test.weight}
    return Scores(
        accuracy(predicted, test.y, test.weight),
        balanced_accuracy(predicted, test.y, test.weight) if both else None,
        float((_mean_auc if several else roc_auc_score)(test.y, decision, **weighted)) if both else None,
        float(average_precision_score(test.y, decision, pos_label=1, **weighted)) if both and two else None,
        _skill(test, predicted, decision) if two else None,
        int(predicted[0]) if (predicted == predicted[0]).all() else None,
    )


def _skill(test: Points, said: Signs, decision: Float) -> bool | None:
    """Judge answers as those of a first version are."""
    found = skill_of(Answered(y=test.y, said=said, weight=test.weight, values=decision), None, 1)
    assert isinstance(found, Skill)
    if found.figures is None:
        return None
    if found.answers != "both":
        return False
    return {"some": True, "none": False, "unknown": None}[found.state]


def _mean_auc(y: NDArray[np.int8], decision: Float, sample_weight: Float) -> float:
    """Return the mean over the classes that are present of the area under the curve of each against the rest."""
    areas = [roc_auc_score(y == label, decision[:, label], sample_weight=sample_weight) for label in np.unique(y)]
    return float(np.mean(areas))


@dataclass(frozen=True, slots=True)
class ProbabilityScores:
    """How true probabilities are of points that were set aside, their weights counted; the less the better.

    Attributes
    ----------
    brier : float
        Mean squared distance of the probability of +1 from what was so.
    log_loss : float
    """

    brier: float
    log_loss: float


def probability_scores(test: Points, positive: Float) -> ProbabilityScores:
    """Score probabilities of +1, shape (n,)."""
    return ProbabilityScores(
        float(brier_score_loss(test.y, positive, sample_weight=test.weight, pos_label=1)),
        float(log_loss(test.y, positive, sample_weight=test.weight, labels=[-1, 1])),
    )


class _OnAllPoints(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The machine of all rows that it is given, for `CalibratedClassifierCV`.

    Parameters
    ----------
    svm : SvmConfig
    """

    def __init__(self, svm: SvmConfig) -> None:
        self.svm = svm

    def fit(self, X: Features, y: Signs, sample_weight: Float) -> _OnAllPoints:
        """Train on rows of shape (n, d) with labels and weights of shape (n,)."""
        points = Points(X, y, sample_weight)
        self.classes_ = np.unique(y)
        self.model_ = train(points, Moments.zero(points.dimension).add(points), self.svm).model
        return self

    def decision_function(self, X: Features) -> Float:
        """Return the decision values, shape (n,)."""
        return self.model_.decision_function(X)


@one_blas_thread()
def cross_validated_probabilities(objective: EmpiricalObjective, X: Features) -> Float:
    """Return the probability of +1 of raw points, shape (n,), by scikit-learn's way where all points are at hand.

    The mean of five machines, each calibrated on the fifth of the points that it has not seen.

    Raises
    ------
    ValueError
        If a label has less than five points.
    """
    gamma: float | Literal["scale"] = objective.kernel.gamma if isinstance(objective.kernel, RbfKernel) else "scale"
    svm = SvmConfig(C=objective.penalty, kernel=objective.svm.kernel, gamma=gamma, standardize=False)
    judged = CalibratedClassifierCV(_OnAllPoints(svm), method="sigmoid", cv=5)
    judged.fit(objective.scaler.transform(objective.points.X), objective.points.y, sample_weight=objective.weight)
    return np.asarray(judged.predict_proba(objective.scaler.transform(X))[:, 1])


def split(
    points: Points, test_share: float, seed: int, groups: NDArray[np.int64] | None = None
) -> tuple[Points, Points]:
    """Shuffle; return a training part and what is set aside.

    Where chance would decide whether any row of a label is set aside, rows are drawn by label.

    Parameters
    ----------
    points : Points
    test_share : float
        In (0, 1).
    seed : int
    groups : ndarray of shape (n,), optional
        Rows of one number, from 0 on, stay on one side.
    """
    order: NDArray[np.intp] = np.random.Generator(np.random.PCG64(seed)).permutation(len(points))
    codes, counts = np.unique(points.y, return_counts=True)
    aside = order[: round(test_share * len(points))]
    if len(aside) and len(codes) > 1 and min(counts) * test_share < FEW_HELD_OUT:
        # Of each label a share: at least one row, and not all, where there are two.
        shares = [min(max(round(test_share * count), 1), count - 1) for count in counts]
        own = zip(codes, shares, strict=True)
        aside = np.concatenate([order[points.y[order] == code][:share] for code, share in own])
    is_aside = np.zeros(len(points), np.bool_)
    is_aside[aside] = True
    if groups is not None:
        _, first = np.unique(groups, return_index=True)
        is_aside = is_aside[first][groups]
    chosen = is_aside[order]
    return points.take(order[~chosen]), points.take(order[chosen])

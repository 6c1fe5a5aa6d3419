"""How near the full data's optimum a machine comes: its objective over all points, the optimum itself, a reservoir.

Invariant: whatever is compared is measured by one F (`streamsvm.svm.problem`): the same points, standardised by their
own moments, the same C, the same kernel. A machine over other units is rewritten in these; one that has no norm in that
kernel's space, a forest say, has no F, and so no gap. Of more than two classes F is the sum over the problems of the
task's machines: of each pair, or of each class against the rest.

Source: Vitter 1985, Alg. R (the reservoir). The optimum is the trunk's own solver's over all points; its dual variables
certify how near it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import average_precision_score, brier_score_loss, log_loss, roc_auc_score

from streamsvm.config import SvmConfig
from streamsvm.coreset.buckets import Moments
from streamsvm.estimators.blas_threads import one_blas_thread
from streamsvm.estimators.stdasvc import STDASVC
from streamsvm.learning.training import Task, kernel_of, scaler_of, train, untrained
from streamsvm.model.additive import AdditiveMachine
from streamsvm.model.classes import AnyModel
from streamsvm.model.correctness import accuracy, answers, balanced_accuracy
from streamsvm.model.kernels import Float, Kernel, RbfKernel
from streamsvm.model.machine import LinearMachine, Model, Scaler
from streamsvm.model.skill import Skill
from streamsvm.points import Features, Points
from streamsvm.quality.skill import Answered, skill_of
from streamsvm.svm.problem import primal_objective

FEW_HELD_OUT: Final = 10
"""Expected rows of a label among those that are set aside, below which they are drawn by label."""
OPTIMUM_TOLERANCE: Final = 1e-5
"""KKT gap of the optimum: far below what a summary can reach."""
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
    """F over one set of points, of more than two labels summed over the machines; see `over`.

    Attributes
    ----------
    points : Points
        Raw, labeled as the task has them.
    svm : SvmConfig
    moments : Moments
        Of these points.
    task : Task
    problems : tuple of (Points, Moments)
        One of two labels for each machine.
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
    task: Task
    problems: tuple[tuple[Points, Moments], ...]
    scaler: Scaler
    kernel: Kernel
    penalty: float

    @staticmethod
    def over(points: Points, svm: SvmConfig, moments: Moments | None = None, *, classes: int = 2) -> EmpiricalObjective:
        """Return the objective that `streamsvm.learning.training.train` minimises over all of these points.

        Its scaler and penalty are those of the moments, by default of the points.
        """
        if moments is None:
            moments = Moments.zero(points.dimension, classes).add(points)
        svm = svm.settled(classes, packed=svm.packed)
        if svm.kernel == "additive" and svm.C is None:  # one objective: training chooses no smaller C then
            svm = svm.model_copy(update={"alpha": svm.alpha or svm.DEFAULT_ALPHA})
        task = Task(classes, svm)
        problems = task.problems(points, moments)
        seen = problems[0][1]
        scaler = scaler_of(seen, svm)
        return EmpiricalObjective(
            points=points,
            svm=svm,
            moments=moments,
            task=task,
            problems=problems,
            scaler=scaler,
            kernel=kernel_of(scaler, seen, svm),
            penalty=svm.penalty(seen.weight),
        )

    @property
    def weight(self) -> Float:
        """Weights of the points, those of their classes included, shape (n,)."""
        return self.points.class_weighted(self.svm.class_weights(self.moments.class_weight)).weight

    def value(self, model: AnyModel) -> float:
        """Return F of a model.

        Parameters
        ----------
        model : Model or ClassModel
            A linear one may have any scaler: its w is rewritten in this one's units. The norm of a kernel machine is
            that of its own kernel and units, which must be these but for rounding.
        """
        models = [model] if isinstance(model, Model) else [model.model(index) for index in range(model.machines)]
        svm, total = self.task.machine_config(self.svm), 0.0
        for one, (points, seen) in zip(models, self.problems, strict=True):
            machine = one.machine
            if isinstance(machine, LinearMachine):
                w = machine.coefficients / one.scaler.scale * self.scaler.scale
                squared_norm = float(w @ w)
            elif isinstance(machine, AdditiveMachine):
                squared_norm = machine.squared_norm
            else:
                squared_norm = float(machine.dual @ (machine.decide(machine.support) - machine.intercept))
            upper = self.penalty * points.class_weighted(svm.class_weights(seen.class_weight)).weight
            total += primal_objective(one.decision_function(points.X), points.y, upper, squared_norm, svm.margin_loss)
        return total

    @one_blas_thread()
    def of_few(self, few: Points) -> AnyModel:
        """Return the model of points that stand for all of them: under these moments, this C and this kernel."""
        svm = self.task.machine_config(self.svm)
        problems = self.task.problems(few, self.moments)
        made = [train(part, seen, svm) if len(part) else untrained(seen, svm) for part, seen in problems]
        return self.task.model([one.model for one in made])


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best model of an objective, as far as it was found."""

    model: AnyModel
    objective: float  # its F
    lower_bound: float  # the dual objective: no model has a lower F

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
    svm = objective.task.machine_config(objective.svm)
    exact = svm.model_copy(update={"landmarks": None, "tolerance": OPTIMUM_TOLERANCE}).settled(2)
    models, lower_bound = [], 0.0
    for points, seen in objective.problems:
        found = train(points, seen, exact) if len(points) else untrained(seen, exact)
        models.append(found.model)
        if len(np.unique(points.y)) == 2:  # else the points are of one class of a pair, or of neither
            assert found.fit.dual_objective is not None
            lower_bound += found.fit.dual_objective
    model = objective.task.model(models)
    return Optimum(model, objective.value(model), lower_bound)


class ReservoirBaseline:
    """A uniform sample of fixed size of a stream of unknown length, without replacement.

    `size` points are held once so many came. The sample is one of rows, whatever their weights; `points` gives the
    sample the weight of the whole stream.
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
        own = first.take(np.arange(len(first)))  # a copy: the caller's points stay as they are
        self._kept = own if self._kept is None else Points.union([self._kept, own])
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
    predicted, labels = answers(decision), np.unique(test.y)
    weighted: dict[str, Any] = {"sample_weight": test.weight}
    balanced = auc = precision = skill = None
    if len(labels) > 1:
        ranked = [(1, decision)] if decision.ndim == 1 else [(label, decision[:, label]) for label in labels]
        auc = float(np.mean([roc_auc_score(test.y == label, values, **weighted) for label, values in ranked]))
        balanced = balanced_accuracy(predicted, test.y, test.weight)
    if decision.ndim == 1:
        if len(labels) > 1:
            precision = float(average_precision_score(test.y, decision, pos_label=1, **weighted))
        # As the answers of a first version are judged.
        found = skill_of(Answered(y=test.y, said=predicted, weight=test.weight, values=decision), None, 1)
        assert isinstance(found, Skill)
        if found.figures is not None:
            states: dict[str, bool | None] = {"some": True, "none": False, "unknown": None}
            skill = states[found.state] if found.answers == "both" else False
    return Scores(
        accuracy(predicted, test.y, test.weight),
        balanced,
        auc,
        precision,
        skill,
        int(predicted[0]) if (predicted == predicted[0]).all() else None,
    )


@dataclass(frozen=True, slots=True)
class ProbabilityScores:
    """How true probabilities are of points that were set aside, their weights counted; the less the better."""

    brier: float  # mean squared distance of the probability of +1 from what was so
    log_loss: float


def probability_scores(test: Points, positive: Float) -> ProbabilityScores:
    """Score probabilities of +1, shape (n,)."""
    return ProbabilityScores(
        float(brier_score_loss(test.y, positive, sample_weight=test.weight, pos_label=1)),
        float(log_loss(test.y, positive, sample_weight=test.weight, labels=[-1, 1])),
    )


@one_blas_thread()
def cross_validated_probabilities(objective: EmpiricalObjective, X: Features) -> Float:
    """Return the probability of +1 of raw points, shape (n,), by scikit-learn's way where all points are at hand.

    The mean of five machines, each calibrated on the fifth of the points that it has not seen.

    Raises
    ------
    ValueError
        If a label has less than five points.
    """
    gamma: Any = objective.kernel.gamma if isinstance(objective.kernel, RbfKernel) else "scale"
    svm = objective.svm
    machine = STDASVC(C=objective.penalty, kernel=svm.kernel, loss=svm.margin_loss, gamma=gamma, tol=svm.tolerance)
    judged = CalibratedClassifierCV(machine, method="sigmoid", cv=5)
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

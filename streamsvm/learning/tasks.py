"""The task of the labels: to separate two, or each of several from the rest, over one structure.

`TwoClasses` has one problem and one machine. `OneVsRest` and `OneVsOne` have several machines, and one structure, whose
points serve all of their problems. `streamsvm.learning.recipe` trains one machine for each of `Task.problems`.

Partitions, leaves, cuts and checkpoints are the same for all. The task of a configuration is `task_of`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from streamsvm.choices import Multiclass
from streamsvm.config import ModelConfig, SvmConfig
from streamsvm.coreset.audit import Sampled
from streamsvm.coreset.buckets import Moments
from streamsvm.model.classes import AnyModel, joined, label_values, pairs_of
from streamsvm.model.described import MOST_LABELS
from streamsvm.model.machine import Model
from streamsvm.points import Points

MOST_CLASSES = MOST_LABELS


class Task(Protocol):
    """What the labels of a learner's points are for.

    Attributes
    ----------
    classes : int
        Whose totals moments have: 2 for signs, else the number of indices that `Points.y` holds.
    """

    @property
    def classes(self) -> int:
        """See the class."""
        ...

    def problems(self, points: Points, seen: Moments) -> tuple[tuple[Points, Moments], ...]:
        """Return the problems of signs that these are, one a machine."""
        ...

    def samples(self, audit: Sequence[Sampled]) -> tuple[Sequence[Sampled], ...]:
        """Return the audit sample of each problem."""
        ...

    def machine_config(self, svm: SvmConfig) -> SvmConfig:
        """Return the configuration of each machine: its class weights are those of two classes."""
        ...

    def class_weights_of(self, svm: SvmConfig, seen: NDArray[np.float64]) -> tuple[float, ...]:
        """Return the factor of each label's weights, computed from the exact weight of each label that was seen."""
        ...

    def answers(self, values: NDArray[np.float64]) -> NDArray[np.int8]:
        """Return what is answered, as in `Points.y`, by the decision value of each machine: shape (n, n_machines)."""
        ...

    def whole(self, audit: Sequence[Sampled]) -> Sequence[Sampled]:
        """Return all points of the audit sample as a sample of two strata, whatever they are labeled."""
        ...

    def model(self, models: Sequence[Model]) -> AnyModel:
        """Return what a version holds, of the model of each problem."""
        ...


class TwoClasses:
    """Separate +1 from -1."""

    classes: ClassVar[int] = 2

    def problems(self, points: Points, seen: Moments) -> tuple[tuple[Points, Moments], ...]:
        """Return the one problem that these are."""
        return ((points, seen),)

    def samples(self, audit: Sequence[Sampled]) -> tuple[Sequence[Sampled], ...]:
        """Return the one audit sample."""
        return (audit,)

    def machine_config(self, svm: SvmConfig) -> SvmConfig:
        """Return the configuration as it is."""
        return svm

    def class_weights_of(self, svm: SvmConfig, seen: NDArray[np.float64]) -> tuple[float, ...]:
        """Return those of the configuration."""
        return svm.class_weights(seen)

    def answers(self, values: NDArray[np.float64]) -> NDArray[np.int8]:
        """Return the signs of the one machine's values; -1 of 0."""
        return np.where(values[:, 0] > 0.0, 1, -1).astype(np.int8)

    def whole(self, audit: Sequence[Sampled]) -> Sequence[Sampled]:
        """Return the sample."""
        return audit

    def model(self, models: Sequence[Model]) -> AnyModel:
        """Return the one model."""
        (model,) = models
        return model


@dataclass(frozen=True, slots=True)
class OneVsRest:
    """Separate each of several classes, more than two, from all others.

    Attributes
    ----------
    classes : int
        3 to `MOST_CLASSES`.
    class_weight : "balanced", tuple of float, or None
        The factor of each class's weights, in every problem, as in scikit-learn's SVC; "balanced": each class gets an
        equal part of the total weight, as counted up to the node or the cut.
    """

    classes: int
    class_weight: Literal["balanced"] | tuple[float, ...] | None = None
    scheme: ClassVar[Multiclass] = "one_vs_rest"

    def problems(self, points: Points, seen: Moments) -> tuple[tuple[Points, Moments], ...]:
        """Return each class's problem, in the order of the classes, points weighed as the classes are."""
        weighed = points.class_weighted(self.class_weights(seen.class_weight))
        return tuple((weighed.against_the_rest(label), seen.against_the_rest(label)) for label in range(self.classes))

    def samples(self, audit: Sequence[Sampled]) -> tuple[Sequence[Sampled], ...]:
        """Return each class's view of the audit sample, points as they came."""
        return tuple([part.against_the_rest(label) for part in audit] for label in range(self.classes))

    def machine_config(self, svm: SvmConfig) -> SvmConfig:
        """Return the configuration without class weights: the points of a problem are weighed already."""
        return svm if svm.class_weight == "none" else svm.model_copy(update={"class_weight": "none"})

    def class_weights_of(self, svm: SvmConfig, seen: NDArray[np.float64]) -> tuple[float, ...]:  # noqa: ARG002
        """Return those of the task."""
        return self.class_weights(seen)

    def answers(self, values: NDArray[np.float64]) -> NDArray[np.int8]:
        """Return the label with the greatest decision value; of equal ones the first."""
        return np.asarray(label_values(values, self.classes, self.scheme).argmax(axis=1), np.int8)

    def whole(self, audit: Sequence[Sampled]) -> Sequence[Sampled]:
        """Return the sample as the first class against the rest sees it."""
        return [part.against_the_rest(0) for part in audit]

    def model(self, models: Sequence[Model]) -> AnyModel:
        """Return a model of all machines."""
        return joined(models, self.classes, self.scheme)

    def class_weights(self, seen: NDArray[np.float64]) -> tuple[float, ...]:
        """Return the factor of each class's weights.

        Parameters
        ----------
        seen : ndarray of shape (n_classes,)
            Exact total weight of each class. Balanced weights keep their sum; a class of which nothing came has 1.
        """
        if self.class_weight is None:
            return (1.0,) * self.classes
        if self.class_weight != "balanced":
            return self.class_weight
        part = float(seen.sum()) / int(np.count_nonzero(seen)) if seen.any() else 0.0
        return tuple(part / float(own) if own > 0.0 else 1.0 for own in seen)


@dataclass(frozen=True, slots=True)
class OneVsOne(OneVsRest):
    """Separate each pair of several classes, over the same structure: reductions go by each class against the rest.

    Machines are in the order (0, 1), (0, 2), ..., (1, 2), ...; +1 is the later class. All have the penalty, the scaler
    and the class weights of the whole, as in scikit-learn's SVC.
    """

    scheme: ClassVar[Multiclass] = "one_vs_one"

    def problems(self, points: Points, seen: Moments) -> tuple[tuple[Points, Moments], ...]:
        """Return each pair's problem, points weighed as the classes are; one may be without points."""
        weighed, whole = points.class_weighted(self.class_weights(seen.class_weight)), seen.against_the_rest(0)
        of_class = [np.flatnonzero(points.y == label) for label in range(self.classes)]
        return tuple(
            (weighed.take(np.sort(np.concatenate((of_class[i], of_class[j])))).against_the_rest(j), whole)
            for i, j in pairs_of(self.classes)
        )

    def samples(self, audit: Sequence[Sampled]) -> tuple[Sequence[Sampled], ...]:
        """Return each pair's part of the audit sample, points as they came."""
        return tuple([part.of_pair(i, j) for part in audit] for i, j in pairs_of(self.classes))


def task_of(config: ModelConfig) -> Task:
    """Return what a stream's points are labeled for, by its configuration."""
    classes, class_weight = config.points.classes, config.svm.class_weight
    if classes == 2:
        return TwoClasses()
    task = OneVsOne if config.svm.multiclass == "one_vs_one" else OneVsRest
    return task(classes, None if class_weight == "none" else class_weight)

"""What the labels of a stream are for: to separate two, or each of several from the rest, or each pair.

All machines are trained on the points of one structure: `streamsvm.learning.recipe` trains one for each of
`Task.problems`. Partitions, leaves, cuts and checkpoints are the same for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import ModelConfig, SvmConfig
from streamsvm.coreset.audit import Sampled
from streamsvm.coreset.buckets import Moments
from streamsvm.model.classes import AnyModel, joined, label_values, pairs_of
from streamsvm.model.described import MOST_LABELS
from streamsvm.model.machine import Model
from streamsvm.points import Points

MOST_CLASSES = MOST_LABELS


@dataclass(frozen=True, slots=True)
class Task:
    """Separate the labels of points.

    Attributes
    ----------
    classes : int
        2, whose `Points.y` are signs, or more, whose are indices; at most `MOST_CLASSES`.
    svm : SvmConfig
        Its class weights, and for more than two labels its `multiclass`: a machine for each label, or for each pair,
        in the order (0, 1), (0, 2), ..., (1, 2), ..., where +1 is the later one. All have the penalty, the scaler and
        the class weights of the whole, as in scikit-learn's SVC.
    """

    classes: int
    svm: SvmConfig

    @property
    def in_pairs(self) -> bool:
        """Whether there is a machine for each pair of labels."""
        return self.classes > 2 and self.svm.multiclass == "one_vs_one"

    def problems(self, points: Points, seen: Moments) -> tuple[tuple[Points, Moments], ...]:
        """Return the problems of signs that these are, one a machine; a pair's may be without points.

        Of more than two labels the points are weighed as the labels are.
        """
        if self.classes == 2:
            return ((points, seen),)
        weighed = points.class_weighted(self.svm.class_weights(seen.class_weight))
        if not self.in_pairs:
            return tuple((weighed.against_the_rest(one), seen.against_the_rest(one)) for one in range(self.classes))
        whole = seen.against_the_rest(0)
        of_class = [np.flatnonzero(points.y == label) for label in range(self.classes)]
        return tuple(
            (weighed.take(np.sort(np.concatenate((of_class[i], of_class[j])))).against_the_rest(j), whole)
            for i, j in pairs_of(self.classes)
        )

    def samples(self, audit: Sequence[Sampled]) -> tuple[Sequence[Sampled], ...]:
        """Return the audit sample of each problem, points as they came."""
        if self.classes == 2:
            return (audit,)
        if self.in_pairs:
            return tuple([part.of_pair(i, j) for part in audit] for i, j in pairs_of(self.classes))
        return tuple([part.against_the_rest(label) for part in audit] for label in range(self.classes))

    def machine_config(self, svm: SvmConfig) -> SvmConfig:
        """Return the configuration of each machine: without class weights where the points are weighed already."""
        return svm if self.classes == 2 else svm.model_copy(update={"class_weight": "none"})

    def answers(self, values: NDArray[np.float64]) -> NDArray[np.int8]:
        """Return what is answered, as in `Points.y`, by decision values of shape (n, n_machines); -1, or the first."""
        if self.classes == 2:
            return np.where(values[:, 0] > 0.0, 1, -1).astype(np.int8)
        return np.asarray(
            label_values(values, self.classes, self.svm.multiclass or "one_vs_rest").argmax(axis=1), np.int8
        )

    def whole(self, audit: Sequence[Sampled]) -> Sequence[Sampled]:
        """Return all points of the audit sample as a sample of two strata, whatever they are labeled."""
        return audit if self.classes == 2 else [part.against_the_rest(0) for part in audit]

    def model(self, models: Sequence[Model]) -> AnyModel:
        """Return what a version holds, of the model of each problem."""
        return models[0] if self.classes == 2 else joined(models, self.classes, self.svm.multiclass or "one_vs_rest")


def task_of(config: ModelConfig) -> Task:
    """Return what a stream's points are labeled for, by its configuration."""
    return Task(config.points.classes, config.svm)

"""Skill of a version of more than two labels: whether its answers are better than chance.

Judged is balanced accuracy, the mean over the labels of the share that is answered right: of K labels a constant
answer, or one drawn at random, has 1 / K, whatever the labels' shares are. A version knows *something* if it is above
1 / K beyond doubt; *nothing* if it is below 1 / K + `MARGIN` (1 - 1 / K) beyond doubt; else it is *unknown*. With two
labels that would be the rule of `streamsvm.quality.skill`, from which doubt and intervals are taken, and what points
count for that were trained on.

The labels that have `LEAST_OF_A_LABEL` points take part, at least two, and K is their number: a label of which nothing
came can be neither right nor wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from streamsvm.model.class_skill import ClassFigures, ClassSkill, Recall
from streamsvm.model.skill import State
from streamsvm.quality.skill import LEAST_OF_A_LABEL, LEAST_SKILL, LEAST_UNTRAINED, deviate_of, mean_of, of_all, wilson

Float = NDArray[np.float64]

MARGIN: Final = 2.0 * LEAST_SKILL - 1.0
"""Share of the way from chance to perfect below which a version is said to know nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassesAnswered:
    """Points with a version's answers to them.

    Attributes
    ----------
    y, said : ndarray of shape (n,), int8
        Indices of labels: true, and answered.
    weight : ndarray of shape (n,), float64
        What each point stands for.
    trained : ndarray of shape (n,), bool, or None
        Which points the version was trained on; None: none.
    """

    y: NDArray[np.int8]
    said: NDArray[np.int8]
    weight: Float
    trained: NDArray[np.bool_] | None = None


def class_skill_of(
    newest: ClassesAnswered | None, audit: ClassesAnswered | None, number: int, classes: int
) -> ClassSkill:
    """Judge a version by what is newer than its cut, and where that is too little, by its audit sample.

    Parameters
    ----------
    newest, audit : ClassesAnswered or None
    number : int
        Of the version, from 1: what its test may spend of the error.
    classes : int
    """
    deviate = deviate_of(number)
    judged = [None if sample is None else _judged(sample, deviate, classes) for sample in (newest, audit)]
    states = [_state(each) for each in judged if each is not None]
    state: State = next((each for each in states if each != "unknown"), "unknown")
    return ClassSkill(state=state, newest=judged[0], audit=judged[1])


def _state(figures: ClassFigures) -> State:
    chance, balanced = 1.0 / figures.judged, figures.balanced_accuracy
    if balanced.low > chance:
        return "some"
    return "none" if balanced.high < chance + MARGIN * (1.0 - chance) else "unknown"


def _judged(sample: ClassesAnswered, deviate: float, classes: int) -> ClassFigures | None:
    """Return the figures of the points that were not trained on; of all points only if even these speak against it."""
    whole = _figures(sample, deviate, classes)
    if whole is None or sample.trained is None or not sample.trained.any():
        return whole
    y, said, weight, new = sample.y, sample.said, sample.weight, ~sample.trained
    share = min(
        float(weight[new & own].sum() / weight[own].sum())
        for own in (y == label for label, one in enumerate(whole.labels) if one.right is not None)
    )
    if share >= LEAST_UNTRAINED:
        found = _figures(ClassesAnswered(y=y[new], said=said[new], weight=weight[new]), deviate, classes)
        if found is not None and found.judged == whole.judged:
            balanced = of_all(found.balanced_accuracy, whole.balanced_accuracy, share)
            return structs.replace(found, balanced_accuracy=balanced)
    balanced = of_all(whole.balanced_accuracy, whole.balanced_accuracy, 0.0)
    against = structs.replace(whole, balanced_accuracy=balanced)
    return against if _state(against) == "none" or against.silent else None


def _figures(sample: ClassesAnswered, deviate: float, classes: int) -> ClassFigures | None:
    """Return what the answers come to; None where fewer than two labels have enough points."""
    y, said = sample.y, sample.said
    counts = np.bincount(y, minlength=classes)
    judged = np.flatnonzero(counts >= LEAST_OF_A_LABEL)
    if len(judged) < 2:
        return None
    weight, right = sample.weight / sample.weight.sum(), said == y
    recalls = {int(label): wilson(weight[y == label], right[y == label], deviate) for label in judged}
    true = np.bincount(y, weights=weight, minlength=classes)
    answered = np.bincount(said, weights=weight, minlength=classes)
    recalled = {label: recall.value for label, recall in recalls.items() if recall is not None}
    return ClassFigures(
        points=len(y),
        judged=len(judged),
        accuracy=float(weight[right].sum()),
        balanced_accuracy=mean_of(list(recalls.values())),
        labels=tuple(
            Recall(
                points=int(counts[label]),
                true=float(true[label]),
                said=float(answered[label]),
                right=recalled.get(label),
            )
            for label in range(classes)
        ),
    )

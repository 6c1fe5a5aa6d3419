r"""Skill: whether a version's answers are better than chance, by one test that is right over all versions of a model.

A model of rare positives can answer "no" to every point, be right in 999 of 1,000 cases, and know nothing. So two
figures are judged that a constant answer, or one drawn at random, cannot raise above chance, whatever the shares of the
labels:

- *balanced accuracy*, the mean over the labels of the share that is answered right: what the decisions know. Of K
  labels, those with `LEAST_OF_A_LABEL` points, at least two, chance is 1 / K: a label of which nothing came can be
  neither right nor wrong;
- of two labels *ROC AUC*, the chance that a positive point scores higher than a negative one: what the ranking knows.
  Chance is 1 / 2.

A version knows *something* if one of them is above chance beyond doubt, *nothing* if both are below chance and `MARGIN`
of the way from there to perfect beyond doubt, and else it is *unknown*: there are too few points of a label to tell.
Whether it gives one answer to every point is another question: such a version may rank well, and lack only a threshold
or class weights.

Beyond doubt means over all versions of a model together. The k-th version spends 6 / (pi k)^2 of `ERROR`, so that the
sum over every k is `ERROR`; both samples and both figures share it. The price is small: normal deviates of 3.5 at the
first version, 5.6 at the 200th and 7.4 at the 100,000th.

Mask that a machine was trained on say nothing of its skill: a kernel machine, or a linear one of many features, knows
random labels by heart. Figures are of an audit sample's other rows. These are not drawn at random: a coreset keeps
rather what a pilot answers wrongly, so that the others look easy. Hence they are asked only while they are
`LEAST_UNTRAINED` of the sample, and the lower end of an interval counts all rows that were trained on as answered
wrongly. Its upper end is that of all rows, for those that were trained on are answered at least as well as others.

Intervals: of each label's share right that of Wilson (1927), of their mean by recovering the variances from these
(Newcombe 1998, method 10; Zou and Donner 2008); of the AUC by placements (DeLong, DeLong and Clarke-Pearson 1988), its
variance at least what it is without any skill (Mann and Whitney 1947), so that a small sample does not look certain.
Weights count by their effective number (sum u)^2 / (sum u^2) (Kish 1965).

Figures here depend on how much had been read; they are never part of a version's value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from msgspec import structs
from numpy.typing import NDArray
from scipy.special import ndtri

from streamsvm.model.class_skill import ClassFigures, ClassSkill, Recall
from streamsvm.model.correctness import accuracy
from streamsvm.model.probability import Sigmoid
from streamsvm.model.skill import Answers, Estimate, SampleFigures, Skill, State
from streamsvm.model.skill_header import AnySkill
from streamsvm.points import Signs, label_codes

Float = NDArray[np.float64]
Mask = NDArray[np.bool_]

LEAST_SKILL: Final = 0.55
"""Balanced accuracy and AUC of two labels below which a version is said to know nothing."""
MARGIN: Final = 2.0 * LEAST_SKILL - 1.0
"""The same of any number of labels, as a share of the way from chance to perfect."""
ERROR: Final = 0.005
"""Chance that any version of a model is ever said to know something, or nothing, and that is wrong."""
LEAST_OF_A_LABEL: Final = 20
"""Points of each label without which nothing is said."""
LEAST_UNTRAINED: Final = 0.8
"""Share of each label's weight in an audit sample that must not have been trained on. Of a quarter left, a linear
machine answered 0.55 of random labels right, and 1.00 of real ones where 0.85 is true."""
SAMPLES: Final = 2
FIGURES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """Points with a version's answers to them.

    Attributes
    ----------
    y, said : ndarray of shape (n,), int8
        Labels as `Points.y` has them: true, and answered.
    weight : ndarray of shape (n,), float64
        What each point stands for.
    values : ndarray of shape (n,), float64, or None
        Decision values of two labels; of more they are not looked at.
    trained : ndarray of shape (n,), bool, or None
        Which points the version was trained on; None: none.
    """

    y: Signs
    said: Signs
    weight: Float
    values: Float | None = None
    trained: Mask | None = None


def skill_of(
    newest: Answered | None,
    audit: Answered | None,
    number: int,
    probability: Sigmoid | None = None,
    *,
    classes: int = 2,
) -> AnySkill:
    """Judge a version by what is newer than its cut, and where that is too little, by its audit sample.

    Parameters
    ----------
    newest, audit : Answered or None
    number : int
        Of the version, from 1: what its test may spend of `ERROR`.
    probability : Sigmoid or None
        The version's own, of two labels.
    classes : int
        Number of labels.

    Returns
    -------
    Skill of two labels, ClassSkill of more
    """
    deviate = deviate_of(number)
    judged = [
        None if sample is None else _judged(sample, deviate, probability, label_codes(classes))
        for sample in (newest, audit)
    ]
    states = [_state(each) for each in judged if each is not None]
    state: State = next((each for each in states if each != "unknown"), "unknown")
    found: dict[str, Any] = {"state": state, "newest": judged[0], "audit": judged[1]}
    if classes > 2:
        return ClassSkill(**found)
    answers: Answers = next((each.answers for each in reversed(judged) if isinstance(each, SampleFigures)), "both")
    return Skill(answers=answers, **found)


def no_better_than_chance(skill: AnySkill) -> bool:
    """Return whether nothing speaks for a version: it knows nothing, or it gives one answer and ranks as chance does.

    A version that gives one answer by its threshold, if it has one, else at 0, passes if its AUC is `LEAST_SKILL` or
    more: it ranks. Its probabilities never fall as its scores rise, so they can say no more than the ranking. Where
    too few points of a label came to say anything, nothing speaks against it.
    """
    if skill.state != "unknown":
        return skill.state == "none"
    if isinstance(skill, ClassSkill) or skill.figures is None:
        return False
    return skill.answers != "both" and skill.figures.auc.value < LEAST_SKILL


def deviate_of(number: int) -> float:
    """Return the normal deviate at which a version of this number is judged."""
    spent = ERROR * 6.0 / (math.pi * number) ** 2
    return float(-ndtri(spent / (SAMPLES * FIGURES)))


def _state(figures: SampleFigures | ClassFigures) -> State:
    """Return whether figures show skill beyond doubt ("some"), show that there is none ("none"), or neither."""
    if isinstance(figures, SampleFigures):
        judged, chance = [figures.balanced_accuracy, figures.auc], 0.5
    else:
        judged, chance = [figures.balanced_accuracy], 1.0 / figures.judged
    if any(each.low > chance for each in judged):
        return "some"
    return "none" if all(each.high < chance + MARGIN * (1.0 - chance) for each in judged) else "unknown"


def _judged(
    sample: Answered, deviate: float, probability: Sigmoid | None, codes: tuple[int, ...]
) -> SampleFigures | ClassFigures | None:
    """Return the figures of the points that were not trained on; of all points only if even these speak against it."""
    y, weight, trained = sample.y, sample.weight, sample.trained
    whole = _figures(sample, np.ones(len(y), np.bool_), deviate, probability, codes)
    if whole is None or trained is None or not trained.any():
        return whole
    own = [rows for rows in (y == code for code in codes) if np.count_nonzero(rows) >= LEAST_OF_A_LABEL]
    shares = [float(weight[rows & ~trained].sum() / weight[rows].sum()) for rows in own]
    fewest = min(np.count_nonzero(rows & ~trained) for rows in own)
    enough = bool(fewest >= LEAST_OF_A_LABEL and min(shares) >= LEAST_UNTRAINED)
    found = _figures(sample, ~trained, deviate, probability, codes) if enough else whole
    assert found is not None
    # What the answers to all would come to if none had been trained on; the AUC is of pairs.
    parts = {"balanced_accuracy": min(shares)} | ({"auc": math.prod(shares)} if len(codes) == 2 else {})
    bounded: dict[str, Any] = {}
    for name, share in parts.items():
        new, high = getattr(found, name), getattr(whole, name).high
        bounded[name] = Estimate(value=new.value, low=enough * share * new.low, high=max(new.value, high))
    found = structs.replace(found, **bounded)
    if isinstance(found, SampleFigures):
        speaks_against = found.answers != "both" and found.auc.value < LEAST_SKILL
    else:
        speaks_against = bool(found.silent)
    return found if enough or speaks_against or _state(found) == "none" else None


def _figures(
    sample: Answered, rows: Mask, deviate: float, probability: Sigmoid | None, codes: tuple[int, ...]
) -> SampleFigures | ClassFigures | None:
    """Return what the answers to some rows come to; None where fewer than two labels have enough points."""
    y, said, weight = sample.y[rows], sample.said[rows], sample.weight[rows]
    counts = {code: int(np.count_nonzero(y == code)) for code in codes}
    judged = [code for code, count in counts.items() if count >= LEAST_OF_A_LABEL]
    if len(judged) < 2:
        return None
    weight = weight / weight.sum()
    balanced = balanced_estimate(said, y, weight, judged, deviate)
    if len(codes) > 2:
        labels = []
        for code, points in counts.items():
            own = y == code
            right = accuracy(said[own], y[own], weight[own]) if code in judged else None
            share = float(weight[said == code].sum())
            labels.append(Recall(points=points, true=float(weight[own].sum()), said=share, right=right))
        return ClassFigures(
            points=len(y),
            judged=len(judged),
            accuracy=accuracy(said, y, weight),
            balanced_accuracy=balanced,
            labels=tuple(labels),
        )
    assert sample.values is not None
    values, positive, loss, brier = sample.values[rows], y > 0, None, None
    table = [float(weight[(y == truth) & (said == answer)].sum()) for truth in codes for answer in codes]
    if probability is not None:
        from sklearn.metrics import brier_score_loss, log_loss  # a second's import, only where there is a probability

        probabilities = probability.of(values)
        loss = float(log_loss(positive, probabilities, sample_weight=weight, labels=[False, True]))
        brier = float(brier_score_loss(positive, probabilities, sample_weight=weight))
    ranked = Ranked.of(positive, weight, values)
    return SampleFigures(
        points=len(y),
        positives=counts[1],
        said=table[1] + table[3],
        true=table[2] + table[3],
        table=(table[0], table[1], table[2], table[3]),
        balanced_accuracy=balanced,
        auc=ranked.auc(deviate),
        average_precision=ranked.average_precision(),
        log_loss=loss,
        brier=brier,
    )


def balanced_estimate(said: Signs, y: Signs, weight: Float, labels: Sequence[int], deviate: float) -> Estimate:
    """Return balanced accuracy with its interval, which is recovered from Wilson's of each label's share.

    Parameters
    ----------
    said, y : ndarray of shape (n,), int8
    weight : ndarray of shape (n,)
    labels : sequence of int
        Those that count; each has a point.
    deviate : float
        Normal deviate of the interval's ends.
    """
    values, below, above = [], [], []
    for label in labels:
        own = y == label
        share, n, square = accuracy(said[own], y[own], weight[own]), _effective(weight[own]), deviate**2
        centre = (share + square / (2.0 * n)) / (1.0 + square / n)
        half = deviate / (1.0 + square / n) * math.sqrt(share * (1.0 - share) / n + square / (4.0 * n * n))
        values.append(share)
        below.append(share - centre + half)
        above.append(centre + half - share)
    value, count = sum(values) / len(values), len(values)
    return Estimate(value=value, low=value - math.hypot(*below) / count, high=value + math.hypot(*above) / count)


@dataclass(frozen=True, slots=True)
class Ranked:
    """Points in the order of their scores: one sort for all figures of the ranking, as versions may come by the dozen.

    Attributes
    ----------
    y : ndarray of shape (n,), bool
        Lowest score first.
    positive, negative : ndarray of shape (n,)
        Shares of the weight of each label; 0 for points of the other one.
    n : tuple of two float
        Effective numbers of positive and negative points.
    weights : tuple of two float
        Of the positive and of the negative points.
    first, last : ndarray of shape (n,), int
        For each point, where the points of the same score begin, and where they have ended.
    """

    y: NDArray[np.bool_]
    positive: Float
    negative: Float
    n: tuple[float, float]
    weights: tuple[float, float]
    first: NDArray[np.intp]
    last: NDArray[np.intp]

    @classmethod
    def of(cls, y: NDArray[np.bool_], weight: Float, values: Float) -> Ranked:
        """Sort points by their decision values; both labels are among them, and True is the positive one."""
        order = np.argsort(values, kind="stable")
        y, weight, values = y[order], weight[order], values[order]
        ends = np.append(np.flatnonzero(values[1:] != values[:-1]) + 1, len(values))
        counts = np.diff(ends, prepend=0)
        sums = float(weight[y].sum()), float(weight[~y].sum())
        return cls(
            y=y,
            positive=np.where(y, weight / sums[0], 0.0),
            negative=np.where(y, 0.0, weight / sums[1]),
            n=(_effective(weight[y]), _effective(weight[~y])),
            weights=sums,
            first=np.repeat(ends - counts, counts),
            last=np.repeat(ends, counts),
        )

    def auc(self, deviate: float) -> Estimate:
        """Return the area under the ROC curve."""
        if self.last[0] == len(self.y):  # one score for all: by definition, not by chance
            return Estimate(value=0.5, low=0.5, high=0.5)
        over = self._share_below(self.negative)[self.y]
        under = 1.0 - self._share_below(self.positive)[~self.y]
        shares = self.positive[self.y], self.negative[~self.y]
        value = float(shares[0] @ over)
        spread = sum(
            float(share @ (placed - value) ** 2) / max(n - 1.0, 1.0)
            for share, placed, n in zip(shares, (over, under), self.n, strict=True)
        )
        chance = (1.0 / self.n[0] + 1.0 / self.n[1]) / 12.0
        half = deviate * math.sqrt(max(spread, chance))
        return Estimate(value=value, low=max(0.0, value - half), high=min(1.0, value + half))

    def average_precision(self) -> float:
        """Return the mean, over the positive weight, of the precision at each point's own score."""
        recalled = 1.0 - np.concatenate(([0.0], np.cumsum(self.positive)))[self.first]
        alarms = 1.0 - np.concatenate(([0.0], np.cumsum(self.negative)))[self.first]
        hits = recalled * self.weights[0]
        precision = hits[self.y] / (hits + alarms * self.weights[1])[self.y]
        return min(1.0, float(self.positive[self.y] @ precision))

    def _share_below(self, share: Float) -> Float:
        """Return the share of a label's weight that scores below each point; equal scores count one half."""
        summed = np.concatenate(([0.0], np.cumsum(share)))
        return np.asarray((summed[self.first] + summed[self.last]) / 2.0)


def _effective(weight: Float) -> float:
    """Return the effective number of weighted points (Kish 1965)."""
    return float(weight.sum() ** 2 / (weight @ weight))

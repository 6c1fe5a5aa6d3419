r"""Skill: whether a version's answers are better than chance, by one test that is right over all versions of a model.

A model of rare positives can answer "no" to every point, be right in 999 of 1,000 cases, and know nothing. So two
figures are judged that a constant answer cannot raise above one half, whatever the shares of the labels:

- *balanced accuracy*, the mean over the labels of the share that is answered right: what the decisions know;
- *ROC AUC*, the chance that a positive point scores higher than a negative one: what the ranking knows.

A version knows *something* if one of them is above 0.5 beyond doubt, *nothing* if both are below `LEAST_SKILL` beyond
doubt, and else it is *unknown*: there are too few points of a label to tell. Whether it gives one answer to every point
is another question: such a version may rank well, and lack only a threshold or class weights.

Beyond doubt means over all versions of a model together. The k-th version spends 6 / (pi k)^2 of `ERROR`, so that the
sum over every k is `ERROR`; both samples and both figures share it. The price is small: normal deviates of 3.5 at the
first version, 5.6 at the 200th and 7.4 at the 100,000th.

Rows that a machine was trained on say nothing of its skill: a kernel machine, or a linear one of many features, knows
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
from typing import Final

import numpy as np
from msgspec import structs
from numpy.typing import NDArray
from scipy.special import ndtri

from streamsvm.model.class_skill import ClassSkill
from streamsvm.model.probability import Sigmoid
from streamsvm.model.skill import Answers, Estimate, SampleFigures, Skill, State
from streamsvm.model.skill_header import AnySkill

Float = NDArray[np.float64]

LEAST_SKILL: Final = 0.55
"""Balanced accuracy and AUC below which a version is said to know nothing."""
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
    y : ndarray of shape (n,)
        Labels, -1 and +1.
    weight : ndarray of shape (n,), float64
        What each point stands for.
    values : ndarray of shape (n,), float64
        Decision values; those above `border` say +1.
    border : float, or ndarray of shape (n,)
        Threshold of the version that answered; 0 without one.
    trained : ndarray of shape (n,), bool, or None
        Which points the version was trained on; None: none.
    """

    y: NDArray[np.int8] | Float
    weight: Float
    values: Float
    border: Float | float = 0.0
    trained: NDArray[np.bool_] | None = None

    @property
    def said(self) -> NDArray[np.bool_]:
        """Which points are answered +1."""
        return np.asarray(self.values > self.border, np.bool_)

    @property
    def enough(self) -> bool:
        """Whether there are enough points of each label to say anything."""
        positive = int(np.count_nonzero(self.y > 0))
        return min(positive, len(self.y) - positive) >= LEAST_OF_A_LABEL

    @property
    def untrained(self) -> Answered:
        """The points that the version was not trained on."""
        if self.trained is None:
            return self
        new = ~self.trained
        border = self.border if isinstance(self.border, float) else self.border[new]
        return Answered(y=self.y[new], weight=self.weight[new], values=self.values[new], border=border)


def skill_of(newest: Answered | None, audit: Answered | None, number: int, probability: Sigmoid | None = None) -> Skill:
    """Judge a version by what is newer than its cut, and where that is too little, by its audit sample.

    Parameters
    ----------
    newest, audit : Answered or None
    number : int
        Of the version, from 1: what its test may spend of `ERROR`.
    probability : Sigmoid or None
        The version's own.
    """
    deviate = deviate_of(number)
    judged = [
        _judged(sample, deviate, probability) if sample is not None and sample.enough else None
        for sample in (newest, audit)
    ]
    states = [_state(each.balanced_accuracy, each.auc) for each in judged if each is not None]
    answers: Answers = next((each.answers for each in reversed(judged) if each is not None), "both")
    state: State = next((each for each in states if each != "unknown"), "unknown")
    return Skill(state=state, answers=answers, newest=judged[0], audit=judged[1])


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


def _state(*judged: Estimate) -> State:
    if any(each.low > 0.5 for each in judged):
        return "some"
    return "none" if all(each.high < LEAST_SKILL for each in judged) else "unknown"


def _judged(sample: Answered, deviate: float, probability: Sigmoid | None) -> SampleFigures | None:
    """Return the figures of the points that were not trained on; of all points only if even these speak against it."""
    whole, new = _figures(sample, deviate, probability), sample.untrained
    if len(new.y) == len(sample.y):
        return whole
    negative, positive = (
        float(new.weight[(new.y > 0) == label].sum() / sample.weight[(sample.y > 0) == label].sum())
        for label in (False, True)
    )
    if new.enough and min(negative, positive) >= LEAST_UNTRAINED:
        found = _figures(new, deviate, probability)
        balanced = of_all(found.balanced_accuracy, whole.balanced_accuracy, min(negative, positive))
        return structs.replace(found, balanced_accuracy=balanced, auc=of_all(found.auc, whole.auc, negative * positive))
    balanced, auc = (of_all(one, one, 0.0) for one in (whole.balanced_accuracy, whole.auc))
    speaks_against = _state(balanced, auc) == "none" or (whole.answers != "both" and auc.value < LEAST_SKILL)
    return structs.replace(whole, balanced_accuracy=balanced, auc=auc) if speaks_against else None


def of_all(new: Estimate, whole: Estimate, share: float) -> Estimate:
    """Return what the answers to a sample would come to if none of it had been trained on.

    Parameters
    ----------
    new, whole : Estimate
        Of the points that were not trained on, and of all.
    share : float
        What part `new` has in a figure of all points.
    """
    return Estimate(value=new.value, low=share * new.low, high=max(new.value, whole.high))


def _figures(sample: Answered, deviate: float, probability: Sigmoid | None) -> SampleFigures:
    y, values = np.asarray(sample.y > 0, np.bool_), sample.values
    weight = sample.weight / sample.weight.sum()
    said = sample.said
    table = [
        float(weight[(y == truth) & (said == answer)].sum()) for truth in (False, True) for answer in (False, True)
    ]
    log_loss_, brier = _probabilities(y, weight, values, probability)
    ranked = Ranked.of(y, weight, values)
    return SampleFigures(
        points=len(y),
        positives=int(np.count_nonzero(y)),
        said=table[1] + table[3],
        true=table[2] + table[3],
        table=(table[0], table[1], table[2], table[3]),
        balanced_accuracy=balanced_accuracy(y, weight, said, deviate),
        auc=ranked.auc(deviate),
        average_precision=ranked.average_precision(),
        log_loss=log_loss_,
        brier=brier,
    )


def _probabilities(
    y: NDArray[np.bool_], weight: Float, values: Float, probability: Sigmoid | None
) -> tuple[float | None, float | None]:
    if probability is None:
        return None, None
    from sklearn.metrics import brier_score_loss, log_loss  # a second's import, for versions with a probability only

    probabilities = probability.of(values)
    return (
        float(log_loss(y, probabilities, sample_weight=weight, labels=[False, True])),
        float(brier_score_loss(y, probabilities, sample_weight=weight)),
    )


def balanced_accuracy(y: NDArray[np.bool_], weight: Float, said: NDArray[np.bool_], deviate: float) -> Estimate:
    """Return the mean over the labels of the share answered right, with its interval.

    Parameters
    ----------
    y, said : ndarray of shape (n,), bool
        Truth and answer; some of either truth.
    weight : ndarray of shape (n,)
    deviate : float
        Normal deviate of the interval's ends.
    """
    return mean_of([wilson(weight[y == label], said[y == label] == label, deviate) for label in (False, True)])


def mean_of(shares: Sequence[Estimate]) -> Estimate:
    """Return the mean of independent shares, with its interval recovered from theirs."""
    below = math.hypot(*(each.value - each.low for each in shares)) / len(shares)
    above = math.hypot(*(each.high - each.value for each in shares)) / len(shares)
    value = sum(each.value for each in shares) / len(shares)
    return Estimate(value=value, low=value - below, high=value + above)


def wilson(weight: Float, right: NDArray[np.bool_], deviate: float) -> Estimate:
    """Return the share of the weight that is right, with Wilson's interval.

    Parameters
    ----------
    weight : ndarray of shape (n,)
    right : ndarray of shape (n,), bool
    deviate : float
        Normal deviate of the interval's ends.
    """
    share = float(weight[right].sum() / weight.sum())
    n, square = _effective(weight), deviate**2
    centre = (share + square / (2.0 * n)) / (1.0 + square / n)
    half = deviate / (1.0 + square / n) * math.sqrt(share * (1.0 - share) / n + square / (4.0 * n * n))
    return Estimate(value=share, low=centre - half, high=centre + half)


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
        """Sort points; parameters as of `auc`."""
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
    return float(weight.sum() ** 2 / (weight @ weight))

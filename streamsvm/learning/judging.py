"""What a tuning goes by: figures of decision values on points that were left out; the greater, the better."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from streamsvm.choices import TuneScoring
from streamsvm.model import correctness
from streamsvm.model.kernels import Float
from streamsvm.points import Signs
from streamsvm.svm.probability import fit_probability, objection

Judge = Callable[[Float, Signs, Float], float]
"""Takes decision values, labels (-1 or +1) and weights, each of shape (n,)."""
LEAST_PROBABILITY: Final = 1e-12


def accuracy(decision: Float, y: Signs, weight: Float) -> float:
    """Return the share of the weight that is classified right."""
    return correctness.accuracy(correctness.answers(decision), y, weight)


def balanced_accuracy(decision: Float, y: Signs, weight: Float) -> float:
    """Return the mean of the shares of each label's weight that are classified right."""
    return correctness.balanced_accuracy(correctness.answers(decision), y, weight)


def auc(decision: Float, y: Signs, weight: Float) -> float:
    """Return the share of the pairs of a positive and a negative point that are ranked right; of equals, half."""
    values, place = np.unique(decision, return_inverse=True)
    positive = np.bincount(place, np.where(y > 0, weight, 0.0), len(values))
    negative = np.bincount(place, np.where(y > 0, 0.0, weight), len(values))
    below = np.cumsum(negative) - 0.5 * negative
    pairs = float(positive.sum() * negative.sum())
    return float(positive @ below) / pairs if pairs > 0.0 else 0.5


def log_loss(decision: Float, y: Signs, weight: Float) -> float:
    """Return minus the mean log loss of the sigmoid that fits these points best."""
    if objection(decision, y):
        return -float(np.log(2.0))
    positive = fit_probability(decision, y, weight).of(decision)
    right = np.where(y > 0, positive, 1.0 - positive)
    return float(weight @ np.log(np.maximum(right, LEAST_PROBABILITY)) / weight.sum())


def cost_of(missed: float, alarm: float) -> Judge:
    """Return a judge whose score is the mean cost at the best threshold, negated.

    Parameters
    ----------
    missed, alarm : float
        Of a positive point that is answered -1, and of a negative one that is answered +1.
    """

    def cost(decision: Float, y: Signs, weight: Float) -> float:
        values, place = np.unique(decision, return_inverse=True)
        missing = missed * np.bincount(place, np.where(y > 0, weight, 0.0), len(values))
        alarming = alarm * np.bincount(place, np.where(y > 0, 0.0, weight), len(values))
        # Answered +1 from the k-th value on: what is below is missed, what is not raises an alarm.
        least = np.append(0.0, np.cumsum(missing)) + alarming.sum() - np.append(0.0, np.cumsum(alarming))
        return -float(least.min() / weight.sum())

    return cost


JUDGES: Final[Mapping[TuneScoring, Judge]] = {
    "accuracy": accuracy,
    "balanced_accuracy": balanced_accuracy,
    "auc": auc,
    "log_loss": log_loss,
}


LabelJudge = Callable[[Signs, Signs, Float], float]
"""Takes answers, labels and weights, each of shape (n,): indices of labels."""


LABEL_JUDGES: Final[Mapping[TuneScoring, LabelJudge]] = {
    "accuracy": correctness.accuracy,
    "balanced_accuracy": correctness.balanced_accuracy,
}
"""Of more than two labels; other figures are of one decision value."""


def judge_of(scoring: TuneScoring, cost: tuple[float, float] | None) -> Judge:
    """Return the judge of a name; `cost` is given where the name is that."""
    if scoring == "cost":
        assert cost is not None
        return cost_of(*cost)
    return JUDGES[scoring]

"""Whether a challenger is better than the champion, on labels of scores that both gave to the same rows.

**The rule.** Each labeled row, or block of rows, gives a difference in [-1, 1], above 0 where the challenger did
better:

- *accuracy*: whose answer was right, so -1, 0 or 1;
- *cost*: what the challenger's answer saved, divided by the greater of the two costs;
- *log_loss*: what it saved of the log loss, divided by `MOST_LOSS`. No probability is taken nearer to 0 or 1 than
  `LEAST_PROBABILITY`: without a bound one row could outweigh all others, and no number of labels would be enough;
- *auc*: by how much it orders the pairs of a block better (`betting.block_differences`). A block has all rows since the
  one before it, at least eight, and both labels. A pair by itself would be a valid difference, too, but takes twice the
  labels where both labels are frequent, and wastes nearly all negative rows where positives are rare. Pairs with rows
  of other blocks would need a bound for dependent differences.

The challenger is *better* once the evidence that it is (`betting`: a mean of wealths, E) reaches 1 / alpha, *worse*
once the evidence for the mirrored differences does, and *undecided*, which is not enough, when all labels are there. So
a challenger that on average is not better is taken for better with chance alpha at most, whenever and however often one
looks, however few labels there are, and whatever rare and dear mistakes it makes.

Each row counts once. The weight of a point is not in its score, and is not used: a weighted loss would need a bound of
the weights, which is declared nowhere, and divides all differences by it.

Invariant: what is found is a function of the rows given, the same bits in whatever order they come.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from streamsvm.branches.challenges import betting
from streamsvm.branches.challenges.served import Served
from streamsvm.quality.skill import Ranked

Figure = Literal["auc", "accuracy", "log_loss", "cost"]
Outcome = Literal["open", "better", "worse", "undecided"]
Float = NDArray[np.float64]

LEAST_PROBABILITY: Final = 0.001
"""Bound of a probability in the log loss of a challenge. A smaller one makes each difference a smaller share of
`MOST_LOSS`, and more labels necessary, in proportion to its logarithm."""
MOST_LOSS: Final = -math.log(LEAST_PROBABILITY)
"""Log loss of a row, in nats, at most; 6.9."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a challenger must reach.

    Attributes
    ----------
    figure : "auc", "accuracy", "log_loss" or "cost"
    labels : int
        After how many labels it is over.
    costs : tuple of two float or None
        Of a missed positive and of a false alarm; needed for "cost".
    alpha : float
        Chance that a challenger that is not better is taken for better, and that one that is not worse is for worse.
    """

    figure: Figure
    labels: int
    costs: tuple[float, float] | None = None
    alpha: float = betting.ERROR

    @property
    def most(self) -> float:
        """What a difference of 1 is in the figure's own unit."""
        if self.figure == "cost":
            return max(self.costs or (1.0, 1.0))
        return MOST_LOSS if self.figure == "log_loss" else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What a look found.

    Attributes
    ----------
    outcome : "open", "better", "worse" or "undecided"
    labels : int
    terms : int
        Differences: rows, or blocks of them.
    champion, challenger : float or None
        The figure of both, of all rows; None while it cannot be computed.
    difference : float or None
        By how much the challenger is better (of a loss: how much less): the mean of the differences.
    low, high : float or None
        Interval of the difference that holds at all looks together, each end but with chance alpha.
    evidence, against : float
        Natural logarithm of the evidence that the challenger is better, and that it is worse; 0 where there is nothing.
    """

    outcome: Outcome
    labels: int
    terms: int = 0
    champion: float | None = None
    challenger: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    evidence: float = 0.0
    against: float = 0.0


def compare(found: Served, rule: Rule) -> Compared:
    """Look at rows that champion and challenger scored; the champion's numbers are those that were served.

    Parameters
    ----------
    found : Served
        Rows that have both scores and a label, in any order.
    rule : Rule
    """
    rows = found.ordered()
    differences = differences_of(rows, rule)
    n, terms = len(rows), len(differences)
    last: Outcome = "undecided" if n >= rule.labels else "open"
    if not terms:
        return Compared(outcome=last, labels=n)
    better, worse = betting.log_wealths(differences), betting.log_wealths(-differences)
    evidence, against = betting.log_evidence(better), betting.log_evidence(worse)
    low, high = betting.interval(better, worse, terms, rule.alpha)
    champion, challenger = _figures(rows, rule)
    return Compared(
        outcome="better" if reaches(evidence, rule.alpha) else "worse" if reaches(against, rule.alpha) else last,
        labels=n,
        terms=terms,
        champion=champion,
        challenger=challenger,
        difference=rule.most * math.fsum(differences) / terms,
        low=rule.most * low,
        high=rule.most * high,
        evidence=evidence,
        against=against,
    )


def reaches(evidence: float, alpha: float) -> bool:
    """Return whether evidence, as a logarithm, is enough."""
    return evidence >= -math.log(alpha)


def differences_of(rows: Served, rule: Rule) -> Float:
    """Return the differences of rows in the order of `Served.ordered`, in [-1, 1].

    None where a row has no probability, and the figure needs it.
    """
    if rule.figure == "auc":
        found = np.empty(len(rows))
        old, new = (np.ascontiguousarray(rows.column(name)) for name in ("score", "shadow_score"))
        partition, positive = rows.column("partition").astype(np.int64), np.asarray(rows.y > 0)
        return found[: betting.block_differences(partition, positive, old, new, betting.BLOCK, found)]
    old, new = (_losses(rows, rule, before) for before in ("", "shadow_"))
    differences = np.clip((old - new) / rule.most, -1.0, 1.0)
    return differences[:0] if np.isnan(differences).any() else differences


def _figures(rows: Served, rule: Rule) -> tuple[float, float]:
    if rule.figure == "auc":
        positive, ones = np.asarray(rows.y > 0, np.bool_), np.ones(len(rows))
        old, new = (Ranked.of(positive, ones, rows.column(name)).auc(0.0).value for name in ("score", "shadow_score"))
        return old, new
    old, new = (math.fsum(_losses(rows, rule, before)) / len(rows) for before in ("", "shadow_"))
    return (1.0 - old, 1.0 - new) if rule.figure == "accuracy" else (old, new)


def _losses(rows: Served, rule: Rule, before: str) -> Float:
    positive = np.asarray(rows.y > 0, np.bool_)
    if rule.figure == "log_loss":
        probability = rows.column(f"{before}probability")
        of_truth = np.where(positive, probability, 1.0 - probability)
        return np.asarray(-np.log(np.clip(of_truth, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)))
    said = rows.column(f"{before}answer") > 0
    if rule.figure == "accuracy":
        return np.asarray((said != positive).astype(np.float64))
    missed, alarm = rule.costs or (1.0, 1.0)
    return np.asarray(missed * (positive & ~said) + alarm * (said & ~positive))

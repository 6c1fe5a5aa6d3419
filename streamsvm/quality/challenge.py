"""Whether a challenger is better than the champion, on labels of scores that both gave to the same rows.

**The rule.** Champion and challenger are compared at any number of labels from a sixteenth of them on, as often as one
likes. The difference of the chosen figure, paired by rows, is divided by its standard error. Above `BOUNDARY` the
challenger is *better*; below its negative it is *worse*; and one that is not better when all labels are there is
*undecided*, which is not enough. The boundary holds for a look at every single label from the first look to the last,
so a challenger that is no better is taken for better in about one case of a hundred at most, whenever one looks.

Standard errors: of the AUC's difference by paired placements (DeLong, DeLong and Clarke-Pearson 1988); of a mean's
difference by the sample deviation of the rows' differences. Both are of large samples, hence `LEAST_OF_A_LABEL`.

Invariant: the verdict is a function of the rows given; their order changes nothing but rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from streamsvm.joining.served import Served
from streamsvm.quality.served import log_losses

Figure = Literal["auc", "accuracy", "log_loss", "cost"]
Outcome = Literal["open", "better", "worse", "undecided"]
Float = NDArray[np.float64]

LOOKS: Final = 5
ERROR: Final = 0.01
"""Chance that a challenger that is no better is taken for better, over all looks."""
BOUNDARY: Final = 3.25
"""Standard errors that the difference has to exceed.

That of a Brownian motion over the root of its time, which exceeds it between times 1 and 16 with chance `ERROR`.
"""
LEAST_OF_A_LABEL: Final = 20
"""Rows of each label without which nothing is decided before the last look, and no challenger is better at it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What is asked of a challenger.

    Attributes
    ----------
    figure : "auc", "accuracy", "log_loss" or "cost"
    labels : int
        After how many labels it is over; at least 2 ** (LOOKS - 1).
    costs : tuple of two float or None
        Of a missed positive and of a false alarm; needed for "cost".
    """

    figure: Figure
    labels: int
    costs: tuple[float, float] | None = None

    @property
    def looks(self) -> tuple[int, ...]:
        """Numbers of labels from the first at which one may decide to the last, each twice the one before."""
        return tuple(-(-self.labels // (1 << back)) for back in reversed(range(LOOKS)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What a look found.

    Attributes
    ----------
    outcome : "open", "better", "worse" or "undecided"
    labels : int
    champion, challenger : float or None
        The figure of both; None while it cannot be computed.
    difference, error : float or None
        By how much the challenger is better (of a loss: how much less), and the standard error of that.
    """

    outcome: Outcome
    labels: int
    champion: float | None
    challenger: float | None
    difference: float | None
    error: float | None


def compare(found: Served, rule: Rule) -> Compared:
    """Look at rows that champion and challenger scored; the champion's numbers are those that were served.

    Parameters
    ----------
    found : Served
        Rows that have both scores and a label.
    rule : Rule
    """
    n, positive = len(found), np.asarray(found.y > 0, np.bool_)
    last = n >= rule.labels
    rare = min(int(positive.sum()), n - int(positive.sum()))
    if rare < LEAST_OF_A_LABEL:
        return _nothing("undecided" if last else "open", n)
    champion, challenger, difference, error = (
        _by_placements(found, positive) if rule.figure == "auc" else _by_rows(found, positive, rule)
    )
    if math.isnan(difference):  # one of them has no probabilities
        return _nothing("undecided" if last else "open", n)
    outcome: Outcome = "undecided" if last else "open"
    if n >= rule.looks[0] and difference > BOUNDARY * error:
        outcome = "better"
    elif n >= rule.looks[0] and -difference > BOUNDARY * error:
        outcome = "worse"
    return Compared(
        outcome=outcome, labels=n, champion=champion, challenger=challenger, difference=difference, error=error
    )


def _nothing(outcome: Outcome, n: int) -> Compared:
    return Compared(outcome=outcome, labels=n, champion=None, challenger=None, difference=None, error=None)


def _by_placements(found: Served, positive: NDArray[np.bool_]) -> tuple[float, float, float, float]:
    over, under = zip(*(_placements(found.column(name), positive) for name in ("score", "shadow_score")), strict=True)
    areas = [float(one.mean()) for one in over]
    variance = sum(float((new - old).var(ddof=1)) / len(new) for old, new in (over, under))
    return areas[0], areas[1], areas[1] - areas[0], math.sqrt(variance)


def _placements(values: Float, positive: NDArray[np.bool_]) -> tuple[Float, Float]:
    """Return, for each positive row, the share of the negative ones below it, and for each negative one of those above.

    Equal values count one half.
    """
    of_positive, of_negative = values[positive], values[~positive]
    over, under = _shares_below(of_negative, of_positive), 1.0 - _shares_below(of_positive, of_negative)
    return over, under


def _shares_below(of: Float, asked: Float) -> Float:
    ordered = np.sort(of)
    below = np.searchsorted(ordered, asked, "left") + np.searchsorted(ordered, asked, "right")
    return np.asarray(below / (2.0 * len(of)))


def _by_rows(found: Served, positive: NDArray[np.bool_], rule: Rule) -> tuple[float, float, float, float]:
    """Compare means over the rows; of a loss less is better."""
    old, new = (_losses(found, positive, rule, before) for before in ("", "shadow_"))
    saved = old - new
    means = float(old.mean()), float(new.mean())
    champion, challenger = (1.0 - mean for mean in means) if rule.figure == "accuracy" else means
    return champion, challenger, float(saved.mean()), float(saved.std(ddof=1)) / math.sqrt(len(saved))


def _losses(found: Served, positive: NDArray[np.bool_], rule: Rule, before: str) -> Float:
    if rule.figure == "log_loss":
        return log_losses(positive, found.column(f"{before}probability"))
    said = found.column(f"{before}answer") > 0
    if rule.figure == "accuracy":
        return np.asarray((said != positive).astype(np.float64))
    missed, alarm = rule.costs or (1.0, 1.0)
    return np.asarray(missed * (positive & ~said) + alarm * (said & ~positive))

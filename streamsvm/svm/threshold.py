r"""The threshold of a decision value: chosen on one half of a sample, judged on the other.

A point is answered with the positive label, an *alarm*, where its decision value is above the threshold t. Chosen is

- for `cost` (c_fn, c_fp): the t of the least c_fn (missed weight) + c_fp (weight of false alarms);
- for `recall` r: the highest t that finds a share r of the positive weight, so that alarms are fewest;
- for `precision` p: the lowest t at which a share p of the alarms is right, so that recall is highest; where none
  reaches p, the t at which the share is largest;
- for `alarm_rate` a: the lowest t at which at most a share a of all weight raises an alarm.

Candidates lie midway between neighbouring decision values, and beyond both ends. Each share counts one mean point more
that goes the wrong way, as of n + 1 exchangeable points the next one may be any: otherwise 0.9 of 20 positive points
would be 0.86 of those to come, on average. A precision has `LEAST_ALARMS` points, lest the luckiest point decide.

Judged is on the other half, in which the choice has no hand. So the intervals are those of a fixed threshold: Wilson
(1927) for shares of one label, by the effective number (sum u)^2 / (sum u^2) of its points (Kish 1965). Alarms and
costs of all points are sums over the two labels, whose shares of the stream are known exactly and which may be sampled
apart; their intervals are joined by the variances that they imply (Zou and Donner 2008), those of a precision, which is
a ratio, likewise (Donner and Zou 2012).

*Turned down:* choosing on each part, judging on the others and choosing the final threshold on all. Its intervals are
0.7 times as wide, and held the truth in 73 to 86 of 100 samples where few alarms or few errors decide (2 to 10 parts;
precision 0.9 and costs of 100 to 1 at 1,000 points), the halves in 94 to 99.

Invariant: a pure function of decision values, labels, weights and halves, in their order.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.model.kernels import Float
from streamsvm.model.threshold import Figure, Judged, Threshold

Z: Final = 1.959963984540054
"""The 97.5 % quantile of the standard normal distribution."""
LEAST_POINTS: Final = 10
"""Points of each label without which nothing is chosen: five in each half. An alarm rate needs as many points only."""
LEAST_ALARMS: Final = 5
"""Points that raise an alarm, of those that a precision is chosen by."""

Target = float | tuple[float, float]


def halves(y: NDArray[np.int8], random: np.random.Generator) -> NDArray[np.bool_]:
    """Return which points a threshold is chosen by, half of each label; by lot, as a stream may have a rhythm."""
    chosen = np.zeros(len(y), np.bool_)
    for own in (np.flatnonzero(y < 0), np.flatnonzero(y > 0)):
        chosen[random.permutation(own)[: (len(own) + 1) // 2]] = True
    return chosen


def fit_threshold(
    figure: Figure, target: Target, decision: Float, y: NDArray[np.int8], weight: Float, chosen_by: NDArray[np.bool_]
) -> Threshold:
    """Choose a threshold on one half of a sample, and estimate every figure on the other; 0 if the sample is too small.

    Parameters
    ----------
    figure : "cost", "recall", "precision" or "alarm_rate"
    target : float, or tuple of two float
        A share above 0 and below 1; of the cost, that of missed weight and that of weight that raises a false alarm.
    decision : ndarray of shape (n,)
    y : ndarray of shape (n,)
        Labels, -1 or +1.
    weight : ndarray of shape (n,), positive
        How much each point stands for, in any unit.
    chosen_by : ndarray of shape (n,), bool
        The points to choose by, of `halves`; the others judge. A threshold that is not chosen is judged by all.
    """
    positives = int(np.count_nonzero(y > 0))
    fewest = len(y) if figure == "alarm_rate" else min(positives, len(y) - positives)
    chosen = fewest >= LEAST_POINTS and bool(np.isfinite(decision).all())
    value, reached = 0.0, False
    judges = np.ones(len(y), np.bool_)
    if chosen:
        value, reached = choose(figure, target, decision[chosen_by], y[chosen_by], weight[chosen_by])
        judges = ~chosen_by
    judged = judge(value, target if isinstance(target, tuple) else None, decision[judges], y[judges], weight[judges])
    met = chosen and reached
    if met and not isinstance(target, tuple):
        # The target is met unless the whole interval lies on its wrong side; without an alarm there is no precision.
        asked = judged[figure]
        met = asked is not None and not (asked.low > target if figure == "alarm_rate" else asked.high < target)
    return Threshold(
        value=value,
        figure=figure,
        asked=target,
        chosen=chosen,
        met=met,
        points=len(y),
        positives=positives,
        precision=judged["precision"],
        recall=judged["recall"],
        alarm_rate=judged["alarm_rate"],
        cost=judged["cost"],
    )


def choose(figure: Figure, target: Target, decision: Float, y: NDArray[np.int8], weight: Float) -> tuple[float, bool]:
    """Return the threshold of a sample, and whether it reaches the target; parameters as `fit_threshold`.

    Every recall and every alarm rate is reached, by alarms for all points or for none; a precision need not be.
    """
    order = np.argsort(decision, kind="stable")
    values = decision[order]
    first = np.append(0, np.flatnonzero(values[1:] != values[:-1]) + 1)
    distinct, begin = values[first], np.append(first, len(values))
    below, above = distinct[:-1], distinct[1:]
    middle = 0.5 * below + 0.5 * above
    middle = np.where((middle < above) & (middle >= below), middle, below)
    # Candidates, the lowest first: below all points, between neighbours, and the largest decision value. Of each the
    # weight that raises an alarm, the positive weight that does, and the number of points that do.
    candidates = np.concatenate(([np.nextafter(distinct[0], -np.inf)], middle, distinct[-1:]))
    alarms = _from_the_end(weight[order])[begin]
    hits = _from_the_end(np.where(y[order] > 0, weight[order], 0.0))[begin]
    count = len(values) - begin
    one = float(weight.mean())
    total, positive = float(alarms[0]), float(hits[0])
    if isinstance(target, tuple):
        cost = target[0] * (positive - hits) + target[1] * (alarms - hits)
        least = np.flatnonzero(cost <= cost.min() * (1.0 + 1e-12))
        return float(candidates[least[(len(least) - 1) // 2]]), True
    if figure == "recall":
        one = float(weight[y > 0].mean())
        found = np.flatnonzero(hits >= target * (positive + one))
        return float(candidates[found[-1] if len(found) else 0]), True
    if figure == "alarm_rate":
        few = np.flatnonzero(alarms + one <= target * (total + one))
        return float(candidates[few[0] if len(few) else -1]), True
    wrong = float(weight[y < 0].mean()) if (y < 0).any() else one
    precision = np.where(count >= LEAST_ALARMS, hits / (alarms + wrong), -1.0)
    right = np.flatnonzero(precision >= target)
    return (float(candidates[right[0]]), True) if len(right) else (float(candidates[np.argmax(precision)]), False)


def judge(
    value: float, costs: tuple[float, float] | None, decision: Float, y: NDArray[np.int8], weight: Float
) -> dict[Figure, Judged | None]:
    """Return every figure of a threshold, with its interval, on points that did not choose it.

    Parameters
    ----------
    value : float
        The threshold.
    costs : tuple of two float, or None
        Of missed weight, and of weight that raises a false alarm.
    decision, y, weight
        As `fit_threshold`.
    """
    alarm, positive = decision > value, y > 0
    missed, false = share(weight[positive], ~alarm[positive]), share(weight[~positive], alarm[~positive])
    found = share(weight[positive], alarm[positive])
    rare = float(weight[positive].sum() / weight.sum()) if len(weight) else 0.0
    return {
        "precision": _precision((rare, found), (1.0 - rare, false)),
        "recall": found,
        "alarm_rate": _weighted_sum((rare, found), (1.0 - rare, false)),
        "cost": None if costs is None else _weighted_sum((costs[0] * rare, missed), (costs[1] * (1.0 - rare), false)),
    }


def share(weight: Float, counted: NDArray[np.bool_]) -> Judged | None:
    """Return the share of the weight that is counted, with Wilson's interval; None if there are no points."""
    if not len(weight):
        return None
    # Sums of parts of the whole may be above it by rounding.
    value = min(1.0, float(weight[counted].sum() / weight.sum()))
    n, square = float(weight.sum() ** 2 / (weight @ weight)), Z**2
    centre = (value + square / (2.0 * n)) / (1.0 + square / n)
    half = Z / (1.0 + square / n) * math.sqrt(value * (1.0 - value) / n + square / (4.0 * n * n))
    return Judged(value, max(0.0, min(value, centre - half)), min(1.0, max(value, centre + half)))


def _weighted_sum(*parts: tuple[float, Judged | None]) -> Judged | None:
    """Return the sum of (factor times share) of independent samples, with the interval of Zou and Donner 2008.

    A share of no points, None, is left out; without any share there is no sum.
    """
    known = [(factor, one) for factor, one in parts if one is not None]
    if not known:
        return None
    value = sum(factor * one.value for factor, one in known)
    below = math.hypot(*(factor * (one.value - one.low) for factor, one in known))
    above = math.hypot(*(factor * (one.high - one.value) for factor, one in known))
    return Judged(value, max(0.0, value - below), value + above)


def _precision(right: tuple[float, Judged | None], wrong: tuple[float, Judged | None]) -> Judged | None:
    """Return the share of the alarms that is right, of right and wrong alarms by weight; None without any alarm.

    The interval is that of their ratio by the variances that both intervals imply (Donner and Zou 2012): the points of
    one label may be sampled more densely than those of the other, so that alarms are no sample of a share.
    """
    (a, found), (b, false) = right, wrong
    hits = Judged(0.0, 0.0, 0.0) if found is None else Judged(a * found.value, a * found.low, a * found.high)
    misses = Judged(0.0, 0.0, 0.0) if false is None else Judged(b * false.value, b * false.low, b * false.high)
    if not hits.value + misses.value > 0.0:
        return None
    value = hits.value / (hits.value + misses.value)
    return Judged(value, 1.0 - min(1.0, _share_above(misses, hits)), min(1.0, _share_above(hits, misses)))


def _share_above(one: Judged, other: Judged) -> float:
    """Return the upper end of the interval of one / (one + other)."""
    least = other.low * (2.0 * other.value - other.low)
    product = one.value * other.value
    if not least > 0.0:
        return 1.0
    ratio = (product + math.sqrt(max(0.0, product**2 - least * one.high * (2.0 * one.value - one.high)))) / least
    return max(one.value / (one.value + other.value), ratio / (1.0 + ratio))


def _from_the_end(weight: Float) -> Float:
    """Return the sums from each entry to the end, and 0 after the last one."""
    return np.append(np.cumsum(weight[::-1])[::-1], 0.0)

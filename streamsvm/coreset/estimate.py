r"""Estimates the loss of the whole stream from an audit sample, with an interval that covers it in 95 of 100 samples.

Total loss of a model: L = sum over all points of u h, where u is a point's weight and h >= 0 the model's loss at it.
Points of weight t or more, t being the threshold of their partition, are all in the sample and count as they are
("certain"). All other points of one partition and label form a *stratum* of exactly known weight W. The n sampled
points of a stratum are a self-weighting sample, so that

    L = sum over the certain of u h + sum over strata of W mean(h).

If a label has fewer than two sampled points, both labels of its partition form one stratum.

The interval is the difficult part: few points have a loss, and some of them a large one, so the estimate is skewed, and
a sample may have missed the largest losses. Let V be the variance of the sum over strata, with the finite-population
correction 1 - u / t:

- Lower end: the lower quantile of the gamma distribution with the estimate's mean and variance, plus the certain part.
- Upper end: the larger of two. *Fay and Feuer's*: the upper quantile after one imaginary further sampled point, whose
  loss is the largest one seen, or that of a point on the decision boundary if this is larger; the fewer points had a
  loss, the more this point counts. *Hall's* transformation: the t-interval with its skewness removed by a cubic.

Each of the two upper ends alone covered less than 93 % on some streams: the first on heavy tails, the second with fewer
than ten points of positive loss (thousands of samples). No interval can account for points that carry most of the loss
and are not in the sample: of ten rows with a thousand times the loss of all others, the sample knows only if one of
them is drawn.

Sources: Sarndal, Swensson and Wretman 1992 (post-stratification); Fay and Feuer 1997 (gamma interval); Wilson and
Hilferty 1931 (gamma quantiles); Hall 1992 (skewness).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsvm.coreset.audit_sample import Sampled

Float = NDArray[np.float64]

Z: Final = 1.959963984540054
"""The 97.5 % quantile of the standard normal distribution."""
ROUNDING: Final = 1e-9
"""If less than this share of a label's weight is left besides the certain points, that rest is rounding error."""

TINY: Final = 1e-150
"""Means and variances below this count as 0, with total weight and largest loss scaled to 1: their powers underflow."""


class TotalEstimate(NamedTuple):
    """A total with its 95 % interval; low <= total <= high."""

    total: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class _Stratum:
    """The points of a partition and label that a self-weighting sample represents.

    Attributes
    ----------
    weight : float
        W, positive.
    loss : ndarray of shape (n,)
        Losses of the sampled points; n may be 0.
    unseen : float
        Mean of 1 - u / t over the sampled points: 0 if the sample holds every point.
    """

    weight: float
    loss: Float
    unseen: float

    @property
    def worth(self) -> float:
        """The weight that one sampled point represents."""
        return self.weight / max(len(self.loss), 1)

    def moments(self) -> Float:
        """Return estimate, variance and third central moment of the stratum's total."""
        n = len(self.loss)
        if not n:
            return np.zeros(3)
        mean = float(self.loss.mean())
        apart = self.loss - mean
        variance = float(apart @ apart) / max(n - 1, 1)
        third = float((apart * apart) @ apart) / n
        return np.array(
            [
                self.weight * mean,
                self.weight**2 * self.unseen * variance / n,
                self.weight**3 * self.unseen * third / n**2,
            ]
        )


def estimate(sample: Sequence[Sampled], loss: Float, boundary: float = 1.0) -> TotalEstimate:
    """Estimate the total of u h over all points that were offered to the reservoirs.

    Parameters
    ----------
    sample : sequence of Sampled
        One per partition; together they hold at least one point.
    loss : ndarray of shape (n,), not negative
        h at the sample's points, partition after partition.
    boundary : float
        h of a point on the decision boundary: the smallest loss assumed for a point that the sample missed.
    """
    borders = np.cumsum([len(part.points) for part in sample])[:-1]
    certain, strata = 0.0, list[_Stratum]()
    for part, own in zip(sample, np.split(loss, borders), strict=True):
        certain += float((part.points.weight * own)[_certain(part)].sum())
        strata += [_stratum(part, weight, sampled, own) for weight, sampled in _strata(part)]
    if not strata:
        return TotalEstimate(certain, certain, certain)
    low, total, high = _interval(strata, boundary)
    return TotalEstimate(certain + total, certain + low, certain + high)


def represented(sample: Sequence[Sampled]) -> Float:
    """Return the weight of the whole stream that each sampled point represents, shape (n,), partition by partition.

    The total of `estimate` is the sum of these weights times the losses. The weights of each label of a partition sum
    to the label's exact weight, unless too few of its points were sampled.
    """
    return np.concatenate([_represented(part) for part in sample])


def _represented(part: Sampled) -> Float:
    weight = part.points.weight.astype(np.float64)
    for stratum, sampled in _strata(part):
        weight[sampled] = stratum / (int(np.count_nonzero(sampled)) or 1)
    return weight


def _certain(part: Sampled) -> NDArray[np.bool_]:
    return part.points.weight >= part.threshold


def _strata(part: Sampled) -> Iterator[tuple[float, NDArray[np.bool_]]]:
    """Yield weight and sampled points of each label whose points are not all certain.

    If one of them has fewer than two sampled points, both are yielded as one stratum.
    """
    if not part.threshold:
        return
    certain, labels = _certain(part), (part.points.y < 0, part.points.y > 0)
    left = [
        float(whole - part.points.weight[certain & own].sum())
        for whole, own in zip(part.class_weight, labels, strict=True)
    ]
    present = [
        (weight, ~certain & own)
        for weight, whole, own in zip(left, part.class_weight, labels, strict=True)
        if weight > ROUNDING * whole
    ]
    if any(np.count_nonzero(sampled) < 2 for _, sampled in present):
        present = [(sum(weight for weight, _ in present), ~certain)]
    yield from present


def _stratum(part: Sampled, weight: float, sampled: NDArray[np.bool_], loss: Float) -> _Stratum:
    unseen = 1.0 - part.points.weight[sampled] / part.threshold
    return _Stratum(weight, loss[sampled], float(unseen.mean()) if len(unseen) else 1.0)


def _interval(strata: Sequence[_Stratum], boundary: float) -> tuple[float, float, float]:
    """Return low, estimate and high of the strata's total, computed with total weight and largest loss scaled to 1."""
    weight = sum(s.weight for s in strata)
    worst = max(boundary, *(float(s.loss.max(initial=0.0)) for s in strata))
    strata = [_Stratum(s.weight / weight, s.loss / worst, s.unseen) for s in strata]
    mean, variance, third = (float(sum(column)) for column in zip(*(s.moments() for s in strata), strict=True))
    positive = sum(int(np.count_nonzero(s.loss)) for s in strata)
    missed = max(s.worth * math.sqrt(s.unseen) for s in strata) * (1.0 + 1.0 / (1.0 + positive))
    low = min(_gamma_quantile(-Z, mean, variance), mean)
    high = max(_gamma_quantile(Z, mean + missed, variance + missed**2), _without_skew(mean, variance, third), mean)
    scale = weight * worst
    return scale * low, scale * mean, scale * high


def _gamma_quantile(z: float, mean: float, variance: float) -> float:
    """Return the gamma quantile at the probability of the standard normal quantile z (Wilson and Hilferty)."""
    if min(mean, variance) < TINY:
        return mean
    ninth = variance / mean**2 / 9.0
    return mean * max(0.0, 1.0 - ninth + z * math.sqrt(ninth)) ** 3


def _without_skew(mean: float, variance: float, third: float) -> float:
    """Return the upper end of Hall's interval, where his cubic in the studentised error equals -z."""
    if variance < TINY:
        return mean
    skew = third / variance**1.5
    if abs(skew) < 1e-6:
        return mean + Z * math.sqrt(variance)
    error = (np.cbrt(1.0 + skew * (-Z - skew / 6.0)) - 1.0) * 3.0 / skew
    return mean - float(error) * math.sqrt(variance)

r"""The audit sample: rows of the whole stream, drawn independently of every coreset, and what they estimate.

A model is trained on a coreset, so the coreset cannot show what it missed. This sample can. A row of weight u has the
priority u / r, where r in (0, 1) is a hash of (seed, partition, offset, row). The k rows of highest priority are held;
the highest priority of the others is the threshold t. Given t, a row is held with probability min(1, u / t),
independently of the others: one of weight t or more for certain, and each of the others stands for the weight t. Two
labels have a sample each, half of the points, however rare one of them is.

Total loss of a model: L = sum over all rows of u h, with h >= 0 its loss at a row. Rows of weight t or more count as
they are. The n other sampled rows of a label form a *stratum* of exactly known weight W:

    L = sum over the certain of u h + sum over strata of W mean(h)

The interval covers L in 95 of 100 samples. Its lower end is the lower quantile of the gamma distribution with the
estimate's mean and variance, corrected by 1 - u / t for a finite population. Its upper end is the larger of two: Fay
and Feuer's, the upper quantile after one imaginary further row, whose loss is the largest seen or that of a point on
the boundary; and Hall's, a cubic that removes the skewness. Alone the first covered less than 93 % on heavy tails, the
second with fewer than ten rows of positive loss. Neither knows of rows that carry most of the loss and were not drawn.

Invariant: a sample is a pure function of the partition's rows and the seed, with its rows in the order of the log. A
`Sampled` never changes, and holds rows of nobody else.

Sources: Duffield, Lund and Thorup 2007 (priority sampling); Cohen and Kaplan 2007 (what holds given the threshold);
Steele, Lea and Flood 2014 (the hash: SplitMix64's finaliser); Sarndal, Swensson and Wretman 1992 (strata); Fay and
Feuer 1997; Wilson and Hilferty 1931 (gamma quantiles); Hall 1992.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.config import ModelConfig
from streamsvm.coreset.buckets import Float, label_index
from streamsvm.coreset.reduce import Purpose, generator
from streamsvm.points import NO_CODE, Points, Rows, label_codes

LEAST: Final = 2
"""Fewest points of a label's own sample, or stratum: one point shows no variance."""
Z: Final = 1.959963984540054
"""The 97.5 % quantile of the standard normal distribution."""
ROUNDING: Final = 1e-9
"""Share of a label's weight below which what certain rows leave of it is rounding."""
TINY: Final = 1e-150
"""Means and variances below this count as 0, with total weight and largest loss scaled to 1: their powers underflow."""
GOLDEN, FIRST, SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@dataclass(frozen=True, slots=True)
class Sampled:
    """A sample of all rows of a range of the log, or of those of one label, under their own weights.

    `class_weight` is the exact weight of each label over the rows that were drawn from.
    """

    points: Points
    threshold: float  # 0 where every row is held
    class_weight: Float  # (n_labels,)
    priority: Float  # (n,), each above the threshold

    def scaled(self, factor: float) -> Sampled:
        """Return the sample of the same rows, each of so many times its weight."""
        points = self.points.scaled(factor)
        return Sampled(points, self.threshold * factor, self.class_weight * factor, self.priority * factor)

    def relearned(self, points: Points, class_weight: Float) -> Sampled:
        """Return the sample of the same rows after some lost weight; `points` are those held, with their new weights.

        A priority falls with its weight, and a row whose priority no longer lies above the threshold leaves the sample.
        """
        priority = self.priority * (points.weight / self.points.weight)
        kept = priority > self.threshold
        own = np.where(self.class_weight > 0.0, class_weight, 0.0)
        return Sampled(points.take(kept), self.threshold, own, priority[kept])

    def against_the_rest(self, label: int) -> Sampled:
        """Return the same sample for the problem of one of several labels, +1, against all others."""
        rest = np.delete(self.class_weight, label).sum()
        own = np.array([rest, self.class_weight[label]])
        return replace(self, points=self.points.against_the_rest(label), class_weight=own)

    def of_pair(self, first: int, second: int) -> Sampled:
        """Return the sample of the rows of two of several labels, for the problem in which the second is +1."""
        own = (self.points.y == first) | (self.points.y == second)
        points = self.points.take(own).against_the_rest(second)
        return Sampled(points, self.threshold, self.class_weight[[first, second]], self.priority[own])

    def strata(self) -> list[tuple[float, NDArray[np.bool_]]]:
        """Return the weight of each stratum, and which points were sampled of it; none where every row is held.

        A label of which hardly a row was sampled shares the stratum of the label with the most.
        """
        if not self.threshold:
            return []
        labels, weight = len(self.class_weight), self.points.weight
        label, certain = label_index(self.points.y, labels), weight >= self.threshold
        left = self.class_weight - np.bincount(label[certain], weight[certain], labels)
        present = np.flatnonzero(left > ROUNDING * self.class_weight)
        sampled = np.bincount(label[~certain], minlength=labels)[present]
        shared = sampled < LEAST
        if shared.any():
            shared[sampled.argmax()] = True
        groups = [present[shared], *present[~shared, None]]
        return [(float(left[own].sum()), ~certain & np.isin(label, own)) for own in groups if len(own)]


def merged(parts: Sequence[Sampled], capacity: int) -> Sampled:
    """Return the sample of all rows that samples of different rows, the oldest first, were drawn from.

    A row that a part could not hold has at most the priority of that part's threshold. So above the greatest threshold
    everything is known; fewer than `capacity` points may lie there.
    """
    priority = np.concatenate([part.priority for part in parts])
    threshold = _threshold(priority, max(part.threshold for part in parts), capacity)
    kept = priority > threshold
    points = Points.union([part.points for part in parts]).take(kept)
    return Sampled(points, threshold, np.sum([part.class_weight for part in parts], axis=0), priority[kept])


class Reservoir:
    """Draws a sample of at most `capacity` rows, of one label or (`NO_CODE`) of all, while rows come.

    Rows above the threshold collect in a buffer. When it is full the threshold rises, and what lies below it goes:
    the sample is the same wherever that happens, as a row that goes has `capacity` rows above it for ever.
    """

    def __init__(self, capacity: int, partition: int, config: ModelConfig, label: int = NO_CODE) -> None:
        self._capacity, self._label, points = capacity, label, config.points
        # A key of its own purpose: no number that a coreset draws has a part in what is audited.
        random = generator(config.seed, Purpose.AUDIT, (partition, 0, 0))
        self._key = np.uint64(random.integers(1 << 64, dtype=np.uint64))
        room = 2 * capacity
        self._buffer = Points.empty(points.dimension, points.numpy_dtype, room)
        self._priority = np.empty(room)
        self._count, self._threshold, self._class_weight = 0, 0.0, np.zeros(points.classes)

    def __len__(self) -> int:
        return min(self._count, self._capacity)

    @property
    def sample(self) -> Sampled:
        """The sample of all rows so far, in memory of its own."""
        priority = self._priority[: self._count]
        threshold = _threshold(priority, self._threshold, self._capacity)
        kept = np.flatnonzero(priority > threshold)
        return Sampled(self._buffer.take(kept), threshold, self._class_weight.copy(), priority[kept])

    @sample.setter
    def sample(self, sample: Sampled) -> None:
        points, buffer = sample.points, self._buffer
        self._count, self._threshold, self._class_weight = len(points), sample.threshold, sample.class_weight.copy()
        buffer.write(0, points)
        self._priority[: self._count] = sample.priority

    def add(self, rows: Rows) -> None:
        """Offer every accepted row; only rows above the threshold are copied."""
        points, buffer, done = rows.points, self._buffer, 0
        while done < len(rows):
            before, (done, self._count) = self._count, _offer(
                points.X, points.y, points.weight, rows.accepted, rows.offset, rows.row, self._label,
                self._key, self._threshold, done, self._class_weight, buffer.X, buffer.y, buffer.weight, buffer.places,
                self._priority, self._count,
            )  # fmt: skip
            fresh = buffer.places[before : self._count, 2]
            fresh[:] = 0 if rows.id_hash is None else rows.id_hash.take(fresh).known()
            if self._count == len(buffer):
                self.sample = self.sample


def shares(capacity: int, labels: int) -> dict[int, int]:
    """Return how many points the sample of each label has: of two labels half each, of more one sample has all."""
    if labels != 2 or capacity < 2 * LEAST:
        return {NO_CODE: capacity} if capacity else {}
    return dict(zip(label_codes(labels), (capacity - capacity // 2, capacity // 2), strict=True))


def reservoirs(partition: int, config: ModelConfig) -> tuple[Reservoir, ...]:
    """Return the empty samples of a partition, or of a span where rows are forgotten."""
    most = config.coreset.bucket_audit_points if config.coreset.forgets else config.coreset.audit_points
    each = shares(most, config.points.classes).items()
    return tuple(Reservoir(share, partition, config, label) for label, share in each)


def estimate(sample: Sequence[Sampled], loss: Float, boundary: float = 1.0) -> tuple[float, float, float]:
    """Estimate the total of u h over all rows that samples were drawn from: low <= total <= high, total first.

    `loss` is h at the points of all samples, shape (n,), n > 0; `boundary` that of a point on the decision boundary.
    """
    borders = np.cumsum([len(part.points) for part in sample])[:-1]
    certain, strata = 0.0, list[tuple[float, Float, float]]()
    for part, own in zip(sample, np.split(loss, borders), strict=True):
        u, t = part.points.weight, part.threshold
        certain += float((u * own)[u >= t].sum())
        for weight, which in part.strata():
            strata.append((weight, own[which], float((1.0 - u[which] / t).mean()) if which.any() else 1.0))
    if not strata:
        return certain, certain, certain
    whole: float = sum(weight for weight, _, _ in strata)
    worst = max([boundary, *(float(own.max(initial=0.0)) for _, own, _ in strata)])
    total, moments, missed, positive = 0.0, np.zeros(2), 0.0, 0
    for weight, own, unseen in strata:
        # What one row stands for. Total weight and largest loss are scaled to 1.
        n, each = len(own), weight / whole / max(len(own), 1)
        missed, positive = max(missed, each * math.sqrt(unseen)), positive + int(np.count_nonzero(own))
        if n:
            mean = float(own.mean()) / worst
            apart = own / worst - mean
            total += weight / whole * mean
            moments += unseen * np.array(
                [each**2 * np.square(apart).sum() * n / max(n - 1, 1), each**3 * (apart**3).sum()]
            )
    variance, third = moments.tolist()
    missed *= 1.0 + 1.0 / (1.0 + positive)
    low = min(_gamma_quantile(-Z, total, variance), total)
    high = max(_gamma_quantile(Z, total + missed, variance + missed**2), _without_skew(total, variance, third), total)
    scale = whole * worst
    return certain + scale * total, certain + scale * low, certain + scale * high


def represented(sample: Sequence[Sampled]) -> Float:
    """Return the weight that each sampled point stands for, shape (n,): the total of `estimate` is by these weights."""
    weights = [part.points.weight.copy() for part in sample]
    for part, weight in zip(sample, weights, strict=True):
        for total, sampled in part.strata():
            weight[sampled] = total / max(int(np.count_nonzero(sampled)), 1)
    return np.concatenate(weights)


def _gamma_quantile(z: float, mean: float, variance: float) -> float:
    """Return the gamma quantile at the probability of the standard normal quantile z (Wilson and Hilferty)."""
    if min(mean, variance) < TINY:
        return mean
    ninth = variance / mean**2 / 9.0
    return float(mean * max(0.0, 1.0 - ninth + z * math.sqrt(ninth)) ** 3)


def _without_skew(mean: float, variance: float, third: float) -> float:
    """Return the upper end of Hall's interval, where his cubic in the studentised error equals -z."""
    if variance < TINY:
        return mean
    skew: float = third / variance**1.5
    if abs(skew) < 1e-6:
        return mean + Z * math.sqrt(variance)
    error = float(np.cbrt(1.0 + skew * (-Z - skew / 6.0))) - 1.0
    return mean - error * 3.0 / skew * math.sqrt(variance)


def _threshold(priority: Float, threshold: float, capacity: int) -> float:
    """Return the least threshold, of the given one and the priorities, above which at most `capacity` of these lie."""
    if np.count_nonzero(priority > threshold) <= capacity:
        return threshold
    return float(np.partition(priority, -capacity - 1)[-capacity - 1])


@njit(cache=True, nogil=True)
def _offer(  # type: ignore[no-untyped-def]
    X, y, weight, accepted, offset, row, label, key, threshold, begin, class_weight, kept_X, kept_y,
    kept_weight, place, priority, count,
):  # fmt: skip
    """Write rows whose priority is above the threshold behind the first `count` kept ones, and add class weights.

    In the place of the hash of an id stands the row's index.

    Takes rows from `begin` on until they end or the buffer is full; returns the next row, and how many are kept.
    """
    # Collected first: a processor guesses every second jump wrongly that depends on a label.
    mine, found = np.empty(len(y) - begin, np.int64), 0
    for i in range(begin, len(y)):
        mine[found] = i
        found += accepted[i] & ((label == NO_CODE) | (y[i] == label))
    for i in mine[:found]:
        class_weight[np.int64(y[i] > 0) if len(class_weight) == 2 else np.int64(y[i])] += weight[i]
        # Mixed twice: offset and row added in one step would let (offset + 1, row) meet (offset, row + 1).
        mixed = _mix(_mix(key + np.uint64(offset[i]) * GOLDEN) + np.uint64(row[i]) * GOLDEN)
        # 53 bits, as many as a float64 holds, and a half: r is never 0.
        drawn = weight[i] / ((np.float64(mixed >> np.uint64(11)) + 0.5) * 2.0**-53)
        if drawn > threshold:
            for j in range(X.shape[1]):
                kept_X[count, j] = X[i, j]
            kept_y[count], kept_weight[count], priority[count] = y[i], weight[i], drawn
            place[count, 0], place[count, 1], place[count, 2] = offset[i], row[i], i
            count += 1
            if count == len(priority):
                return i + 1, count
    return len(y), count


@njit(cache=True, nogil=True)
def _mix(z):  # type: ignore[no-untyped-def]
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    return z ^ (z >> np.uint64(31))

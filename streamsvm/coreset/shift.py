"""Notices a leaf that is clearly not a random part of what its partition saw before: the stream is sorted, or drifts.

The result is a warning only: it changes no model, and it is not part of any checkpoint. After a restart the moments of
each label start from zero, and later leaves are compared with what came since.

Why it matters: a bucket keeps the points that mattered to its own part of the stream, which need not be those that
matter to the whole. So a tree over a sorted stream can be worse than a plain sample, and this warning says so.

Three things are compared: the exact moments of all features, the share of labels, and the moments of each label alone.
The last change if the rule behind the labels changes while the features stay the same. A screened leaf keeps too few
points for them; there exact gradients are compared instead (`streamsvm.coreset.screening.turned`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from streamsvm.coreset.moments import Moments, add_by_label
from streamsvm.coreset.structure import Bucket
from streamsvm.points import Points, Weights

APART: Final = 0.05
"""Squared distance of moments (`Moments.distance`) above which a large leaf counts as shifted; see `BY_CHANCE`."""
BY_CHANCE: Final = 20.0
"""A leaf counts as shifted if its squared distance exceeds APART + BY_CHANCE / n, n its effective number of points.

The second term allows for the distance that chance alone makes in a small leaf. On shuffled data (leaves of 50 to 3,000
points, up to 123 features, with and without outliers) n times the excess never passed 10.3; on data sorted by the first
principal component its median is above 100. A smaller value would warn about shuffled streams.
"""

STEADY: Final = 0.01
"""Squared distance of moments up to which a leaf is like what came before it, with the same allowance for chance."""
LEAST: Final = 20
"""Leaves of fewer points are not judged: their variance may be small by chance."""


class ShiftWatch:
    """Compares each leaf of a partition with those before it.

    Parameters
    ----------
    dimension : int
    classes : int
    """

    def __init__(self, dimension: int, classes: int = 2) -> None:
        self._labels = [Moments.zero(dimension, classes)] * classes

    def shifted(self, before: Moments, leaf: Moments, points: Points) -> bool:
        """Return whether a leaf is shifted against what came before it, and add it to what came before.

        Parameters
        ----------
        before, leaf : Moments
            Exact, of all sealed leaves and of this one.
        points : Points
            The points that the leaf holds.
        """
        found = is_shifted(before, leaf, _rows(leaf, points))
        for place, (moments, n) in enumerate(_of_labels(points, len(leaf.class_weight))):
            found |= is_shifted(self._labels[place], moments, n)
            self._labels[place] = self._labels[place].merge(moments)
        return found


class KeptPointsWatch:
    """Compares each leaf of a partition that forgets with what it still holds.

    What was dropped is no reason for a warning, so nothing is carried along: the moments of each label are those of the
    buckets' points, computed once for each bucket. So the answer is a pure function of what is held, whoever asked
    before.
    """

    def __init__(self) -> None:
        self._known: Mapping[tuple[int, int], tuple[Points, tuple[Moments, ...]]] = {}

    def shifted(self, buckets: Sequence[Bucket], before: Moments, leaf: Moments, points: Points) -> bool:
        """Return whether a leaf is shifted against the buckets.

        Parameters
        ----------
        buckets : sequence of Bucket
        before, leaf : Moments
            Exact, of the buckets and of the leaf.
        points : Points
            The points that the leaf holds.
        """
        classes = len(leaf.class_weight)
        self._known = {(bucket.level, bucket.index): self._of(bucket, classes) for bucket in buckets}
        found = is_shifted(before, leaf, _rows(leaf, points))
        for place, (moments, n) in enumerate(_of_labels(points, classes)):
            seen = Moments.zero(points.dimension, classes)
            for _, each in self._known.values():
                seen = seen.merge(each[place])
            found |= is_shifted(seen, moments, n)
        return found

    def _of(self, bucket: Bucket, classes: int) -> tuple[Points, tuple[Moments, ...]]:
        """Return a bucket's points and the moments of each label."""
        known = self._known.get((bucket.level, bucket.index))
        if known is not None and known[0] is bucket.points:
            return known
        return bucket.points, tuple(moments for moments, _ in _of_labels(bucket.points, classes))


def _of_labels(points: Points, classes: int) -> Iterator[tuple[Moments, float]]:
    """Yield the moments of the points of each label, and the number of equal weights with the same precision."""
    d = points.dimension
    count, own, squared = np.zeros(classes, np.int64), np.zeros(classes), np.zeros(classes)
    mean, square = np.zeros((classes, d)), np.zeros((classes, d))
    add_by_label(points.X, points.y, points.weight, count, own, mean, square, squared)
    for place in range(classes):
        weight = np.zeros(classes)
        weight[place] = own[place]
        n = float(own[place]) ** 2 / float(squared[place]) if squared[place] > 0.0 else 0.0
        yield Moments(int(count[place]), weight, mean[place], square[place]), n


def is_shifted(before: Moments, leaf: Moments, n: float) -> bool:
    """Return whether the moments of about n independent points differ from a random part of `before`."""
    return n >= LEAST and before.distance(leaf) > APART + BY_CHANCE / n


def is_steady(before: Moments, leaf: Moments) -> bool:
    """Return whether a leaf is like what came before it: a stricter question than whether it is clearly not.

    Parameters
    ----------
    before, leaf : Moments
        Exact.
    """
    if not (before.count and leaf.count):
        return False
    return before.distance(leaf) <= STEADY + BY_CHANCE * (1.0 / before.count + 1.0 / leaf.count)


def _rows(leaf: Moments, points: Points) -> float:
    """Return of how many independent rows the moments of a leaf are: all, where it holds only some of them."""
    return float(leaf.count) if len(points) < leaf.count else effective(points.weight)


def effective(weight: Weights) -> float:
    """Return the effective sample size: points of equal weight that say as much (Kish 1965); 0 for no points."""
    square = float(np.square(weight).sum())
    return float(weight.sum()) ** 2 / square if square > 0.0 else 0.0

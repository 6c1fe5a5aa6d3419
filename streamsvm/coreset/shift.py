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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.coreset.moments import Moments, add_by_label, features_apart, merge_features
from streamsvm.coreset.structure import Bucket
from streamsvm.linalg import Float
from streamsvm.points import Points, Weights

APART: Final = 0.05
"""Squared distance of moments (`Moments.distance`) above which a large leaf counts as shifted; see `BY_CHANCE`."""
BY_CHANCE: Final = 20.0
"""A leaf counts as shifted if its squared distance exceeds APART + BY_CHANCE / n, n its effective number of points.

The second term allows for the distance that chance alone makes in a small leaf. On shuffled data (leaves of 50 to 3,000
points, up to 123 features, with and without outliers) n times the excess never passed 10.3; on data sorted by the first
principal component its median is above 100. A smaller value would warn about shuffled streams.
"""
LEAST: Final = 20
"""Leaves of fewer points are not judged: their variance may be small by chance."""


@dataclass(frozen=True, slots=True)
class LabelMoments:
    """Moments of the points of each label; no array is changed once it is here.

    Attributes
    ----------
    count : ndarray of shape (n_classes,), int64
    weight, squared : ndarray of shape (n_classes,)
        Sums of weights, and of their squares.
    mean, square : ndarray of shape (n_classes, d)
    """

    count: NDArray[np.int64]
    weight: Float
    squared: Float
    mean: Float
    square: Float

    @staticmethod
    def zero(dimension: int, classes: int) -> LabelMoments:
        """Return those of no points."""
        sums, features = np.zeros((2, classes)), np.zeros((2, classes, dimension))
        return LabelMoments(np.zeros(classes, np.int64), *sums, *features)

    @staticmethod
    def of(points: Points, classes: int) -> LabelMoments:
        """Return those of points."""
        found = LabelMoments.zero(points.dimension, classes)
        add_by_label(
            points.X, points.y, points.weight, found.count, found.weight, found.mean, found.square, found.squared
        )
        return found

    @staticmethod
    def union(parts: Iterable[LabelMoments], dimension: int, classes: int) -> LabelMoments:
        """Return those of several sets, merged one after the other in this order."""
        whole = LabelMoments.zero(dimension, classes)
        for part in parts:
            _merge_labels(
                whole.count, whole.weight, whole.mean, whole.square, part.count, part.weight, part.mean, part.square
            )
        return whole

    def shifted(self, leaf: LabelMoments) -> bool:
        """Return whether the points of a label in a leaf are shifted against these."""
        return bool(
            _labels_shifted(
                self.count, self.weight, self.mean, self.square,
                leaf.count, leaf.weight, leaf.mean, leaf.square, leaf.squared,
            )
        )  # fmt: skip


class FullLeaf:
    """A full leaf, as it is compared with what came before it.

    Parameters
    ----------
    moments : Moments
        Exact.
    points : Points
        The points that it holds.
    """

    def __init__(self, moments: Moments, points: Points) -> None:
        self.moments, self.points = moments, points

    @cached_property
    def labels(self) -> LabelMoments:
        """Of the points."""
        return LabelMoments.of(self.points, len(self.moments.class_weight))

    @cached_property
    def rows(self) -> float:
        """Of how many independent rows the moments are: all, where it holds only some of them."""
        is_part = len(self.points) < self.moments.count
        return float(self.moments.count) if is_part else effective(self.points.weight)


class ShiftWatch:
    """Compares each leaf of a partition with those before it.

    Parameters
    ----------
    dimension : int
    classes : int
    """

    def __init__(self, dimension: int, classes: int = 2) -> None:
        self._dimension, self._classes = dimension, classes
        self._labels = LabelMoments.zero(dimension, classes)

    def shifted(self, before: Moments, leaf: FullLeaf) -> bool:
        """Return whether a leaf is shifted against what came before it, and add it to what came before.

        Parameters
        ----------
        before : Moments
            Exact, of all sealed leaves.
        leaf : FullLeaf
        """
        found = is_shifted(before, leaf.moments, leaf.rows) or self._labels.shifted(leaf.labels)
        self._labels = LabelMoments.union([self._labels, leaf.labels], self._dimension, self._classes)
        return found


class KeptPointsWatch:
    """Compares each leaf of a partition that forgets with what it still holds.

    What was dropped is no reason for a warning, so nothing is carried along: the moments of each label are those of the
    buckets' points, computed once for each bucket. So the answer is a pure function of what is held, whoever asked
    before.
    """

    def __init__(self) -> None:
        self._known: Mapping[tuple[int, int], tuple[Points, LabelMoments]] = {}

    def shifted(self, buckets: Sequence[Bucket], before: Moments, leaf: FullLeaf) -> bool:
        """Return whether a leaf is shifted against the buckets.

        Parameters
        ----------
        buckets : sequence of Bucket
        before : Moments
            Exact, of the buckets.
        leaf : FullLeaf
        """
        classes = len(leaf.moments.class_weight)
        self._known = {(bucket.level, bucket.index): self._of(bucket, classes) for bucket in buckets}
        if is_shifted(before, leaf.moments, leaf.rows):
            return True
        held = LabelMoments.union([labels for _, labels in self._known.values()], leaf.points.dimension, classes)
        return held.shifted(leaf.labels)

    def _of(self, bucket: Bucket, classes: int) -> tuple[Points, LabelMoments]:
        """Return a bucket's points and the moments of each label."""
        known = self._known.get((bucket.level, bucket.index))
        if known is not None and known[0] is bucket.points:
            return known
        return bucket.points, LabelMoments.of(bucket.points, classes)


@njit(cache=True, nogil=True)
def _merge_labels(  # type: ignore[no-untyped-def]
    count, weight, mean, square, later_count, later_weight, later_mean, later_square
):
    """Add later moments to those of each label."""
    for label in range(len(count)):
        if not later_count[label]:
            continue
        if count[label]:
            merge_features(
                weight[label], mean[label], square[label], later_weight[label], later_mean[label], later_square[label]
            )
        else:
            mean[label], square[label] = later_mean[label], later_square[label]
        count[label] += later_count[label]
        weight[label] += later_weight[label]


@njit(cache=True, nogil=True)
def _labels_shifted(  # type: ignore[no-untyped-def]
    count, weight, mean, square, leaf_count, leaf_weight, leaf_mean, leaf_square, squared
):
    """Return whether `is_shifted` of any label, by the number of equal weights with the same precision."""
    for label in range(len(count)):
        n = leaf_weight[label] * leaf_weight[label] / squared[label] if squared[label] > 0.0 else 0.0
        if n >= LEAST and count[label] and leaf_count[label]:
            apart = features_apart(
                weight[label], mean[label], square[label], leaf_weight[label], leaf_mean[label], leaf_square[label]
            )
            if apart > APART + BY_CHANCE / n:
                return True
    return False


def is_shifted(before: Moments, leaf: Moments, n: float) -> bool:
    """Return whether the moments of about n independent points differ from a random part of `before`."""
    return n >= LEAST and before.distance(leaf) > APART + BY_CHANCE / n


def effective(weight: Weights) -> float:
    """Return the effective sample size: points of equal weight that say as much (Kish 1965); 0 for no points."""
    square = float(np.square(weight).sum())
    return float(weight.sum()) ** 2 / square if square > 0.0 else 0.0

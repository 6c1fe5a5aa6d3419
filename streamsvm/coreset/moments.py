"""Exact, mergeable moments of a weighted stream, for the scaler of a version.

Every leaf and bucket has the moments of *all* its rows, also of those that were not kept. Features are standardised by
them, and C is set by their total weight. They are small (two numbers per feature) and exact, so nothing about scale or
weight ever has an error of sampling.

Invariant: moments depend on the points and their order only, never on how the stream was cut into batches: a leaf adds
its points one after another, and finished moments merge in a fixed order.

Sources: West 1979 (weighted incremental mean and sum of squares); Chan, Golub and LeVeque 1979 (merging).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.points import Points

ROUNDING: Final = 1e-18
"""Share of a squared mean that is added to a variance, so that rounding alone sets no constant feature apart."""


@dataclass(frozen=True, slots=True)
class Moments:
    """Totals, mean and sum of squares of weighted points, all float64.

    Attributes
    ----------
    count : int
        Points counted.
    class_weight : ndarray of shape (2,), or (n_classes,)
        Total weight of the label -1 and of the label +1; of more than two classes, that of each.
    mean : ndarray of shape (d,)
        Weighted mean.
    square : ndarray of shape (d,)
        Weighted sum of squared deviations from the mean.
    """

    count: int
    class_weight: NDArray[np.float64]
    mean: NDArray[np.float64]
    square: NDArray[np.float64]

    @property
    def weight(self) -> float:
        """Total weight U."""
        total = 0.0
        # Not `sum`: from Python 3.12 on it rounds differently, and C would have other bits.
        for own in self.class_weight.tolist():
            total += own
        return total

    @staticmethod
    def zero(dimension: int, classes: int = 2) -> Moments:
        """Return the moments of no points."""
        return Moments(0, np.zeros(classes), np.zeros(dimension), np.zeros(dimension))

    def against_the_rest(self, label: int) -> Moments:
        """Return the moments of the problem of one class, +1, against all others."""
        own = self.class_weight[label]
        rest = np.delete(self.class_weight, label)
        return Moments(self.count, np.array([float(_total(rest)), own]), self.mean, self.square)

    def add(self, points: Points) -> Moments:
        """Return these moments with `points` added one after another."""
        class_weight, mean, square = self.class_weight.copy(), self.mean.copy(), self.square.copy()
        add_in_order(points.X, points.y, points.weight, class_weight, mean, square)
        return Moments(self.count + len(points), class_weight, mean, square)

    def merge(self, later: Moments) -> Moments:
        """Return the moments of both sets; the order of merging is part of the result's bits."""
        # An empty set has no mean, and two of them would divide 0 by 0.
        if not later.count:
            return self
        return Moments.union([self, later]) if self.count else later

    @staticmethod
    def union(parts: Sequence[Moments]) -> Moments:
        """Return the moments of several sets, at least one, merged one after the other in this order."""
        counted = [part for part in parts if part.count]
        if len(counted) < 2:
            return counted[0] if counted else parts[0]
        first, count = counted[0], counted[0].count
        class_weight, mean, square = first.class_weight.copy(), first.mean.copy(), first.square.copy()
        for later in counted[1:]:
            _merge(class_weight, mean, square, later.class_weight, later.mean, later.square)
            count += later.count
        return Moments(count, class_weight, mean, square)

    def scaled(self, factor: float) -> Moments:
        """Return the moments of the same points, each of so many times its weight."""
        if factor == 1.0:
            return self
        return Moments(self.count, self.class_weight * factor, self.mean, self.square * factor)

    def distance(self, other: Moments) -> float:
        """Return how far two sets lie apart: the greatest squared difference of means, over variances.

        Over every feature, and the label, or each class, as one more: (mean - mean')^2 / (variance + variance'). In two
        random parts of one set it is about 1 / n + 1 / n' over 2 in each feature; an outlier, which raises its part's
        variance as it moves the mean, adds no more than 1 / n. 0 if either set is empty.
        """
        if not (self.count and other.count):
            return 0.0
        return float(_distance(self.class_weight, self.mean, self.square, other.class_weight, other.mean, other.square))


@njit(cache=True, nogil=True)
def _total(class_weight):  # type: ignore[no-untyped-def]
    total = class_weight[0]
    for label in range(1, len(class_weight)):
        total += class_weight[label]
    return total


@njit(cache=True, nogil=True)
def _merge(class_weight, mean, square, later_weight, later_mean, later_square):  # type: ignore[no-untyped-def]
    """Add later moments, by Chan's update: sums of squares would lose their digits where the mean is large."""
    own, added = _total(class_weight), _total(later_weight)
    for label in range(len(class_weight)):
        class_weight[label] += later_weight[label]
    merge_features(own, mean, square, added, later_mean, later_square)


@njit(cache=True, nogil=True)
def merge_features(own, mean, square, added, later_mean, later_square):  # type: ignore[no-untyped-def]
    """Add later means and sums of squares, of some weight, to those of the weight `own`."""
    share = added / (own + added)
    for j in range(len(mean)):
        shift = later_mean[j] - mean[j]
        mean[j] += shift * share
        square[j] = square[j] + later_square[j] + shift * shift * (own * share)


@njit(cache=True, nogil=True)
def add_in_order(X, y, weight, class_weight, mean, square):  # type: ignore[no-untyped-def]
    """Add rows one by one: mean += (u/U)(x - mean); square += u (x - old mean)(x - new mean)."""
    two = len(class_weight) == 2
    for i in range(X.shape[0]):
        u = weight[i]
        class_weight[(1 if y[i] > 0 else 0) if two else y[i]] += u
        # Not a running total: it would begin at 0 in each call, and the bits would depend on where a batch ends.
        share = u / _total(class_weight)
        for j in range(X.shape[1]):
            shift = np.float64(X[i, j]) - mean[j]
            mean[j] += share * shift
            square[j] += u * shift * (np.float64(X[i, j]) - mean[j])


@njit(cache=True, nogil=True)
def add_by_label(X, y, weight, count, class_weight, mean, square, weight_square):  # type: ignore[no-untyped-def]
    """Add rows one by one to the moments of their own label, as `add_in_order` does.

    Parameters
    ----------
    X, y, weight : arrays of n rows
    count : ndarray of shape (n_classes,), int64
    class_weight : ndarray of shape (n_classes,)
    mean, square : ndarray of shape (n_classes, d)
    weight_square : ndarray of shape (n_classes,)
        Sums of squared weights.
    """
    two = len(class_weight) == 2
    for i in range(X.shape[0]):
        label, u = (1 if y[i] > 0 else 0) if two else y[i], weight[i]
        count[label] += 1
        class_weight[label] += u
        weight_square[label] += u * u
        share = u / class_weight[label]
        for j in range(X.shape[1]):
            shift = np.float64(X[i, j]) - mean[label, j]
            mean[label, j] += share * shift
            square[label, j] += u * shift * (np.float64(X[i, j]) - mean[label, j])


@njit(cache=True, nogil=True)
def features_apart(weight, mean, square, other_weight, other_mean, other_square):  # type: ignore[no-untyped-def]
    """Return the greatest squared difference of means, over variances, of two sets of some weight."""
    greatest = 0.0
    for j in range(len(mean)):
        apart = (mean[j] - other_mean[j]) ** 2
        # A constant feature has no variance but rounding errors in its mean, which would count as infinitely far apart.
        spread = square[j] / weight + other_square[j] / other_weight
        spread += ROUNDING * (mean[j] * mean[j] + other_mean[j] * other_mean[j])
        if spread > 0.0:
            greatest = max(greatest, apart / spread)
    return greatest


@njit(cache=True, nogil=True)
def _distance(own, mean, square, of_other, other_mean, other_square):  # type: ignore[no-untyped-def]
    """Return `Moments.distance` of two sets that are not empty."""
    weight, other_weight = _total(own), _total(of_other)
    greatest = features_apart(weight, mean, square, other_weight, other_mean, other_square)
    for label in range(1, len(own)):
        share, other_share = own[label] / weight, of_other[label] / other_weight
        within = share * (1.0 - share) + other_share * (1.0 - other_share)
        if within > 0.0:
            greatest = max(greatest, (share - other_share) ** 2 / within)
        elif share != other_share:
            greatest = max(greatest, 1.0)
    return greatest

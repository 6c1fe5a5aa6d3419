"""What buckets hold: points, and exact totals of the rows that these stand for.

Moments of a leaf add row after row, and finished ones merge in a fixed order: they depend on the rows and their order
only, never on where a batch ends. Sources: West 1979; Chan, Golub and LeVeque 1979 (merging).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce as folded
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.points import Points, Position

if TYPE_CHECKING:
    from streamsvm.coreset.audit import Sampled

Float = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Moments:
    """Totals, mean and sum of squares of weighted points.

    Attributes
    ----------
    count : int
        Points counted.
    class_weight : ndarray of shape (n_labels,), float64
        Total weight of each label.
    mean : ndarray of shape (d,), float64
    square : ndarray of shape (d,), float64
        Weighted sum of squared deviations from the mean.
    """

    count: int
    class_weight: Float
    mean: Float
    square: Float

    @property
    def weight(self) -> float:
        """Total weight, added label after label: `sum` rounds differently from Python 3.12 on."""
        return float(np.add.accumulate(self.class_weight)[-1])

    @staticmethod
    def zero(dimension: int, labels: int = 2) -> Moments:
        """Return the moments of no points."""
        return Moments(0, np.zeros(labels), np.zeros(dimension), np.zeros(dimension))

    def add(self, points: Points) -> Moments:
        """Return these moments with points added one after another."""
        class_weight, mean, square = self.class_weight.copy(), self.mean.copy(), self.square.copy()
        label = label_index(points.y, len(class_weight))
        add_in_order(points.X, label, points.weight, class_weight, mean, square)
        return Moments(self.count + len(points), class_weight, mean, square)

    def merge(self, later: Moments) -> Moments:
        """Return the moments of both sets, by Chan's update; the order of merging is part of the bits."""
        if not later.count or not self.count:
            return self if self.count else later
        own, added = self.weight, later.weight
        share, shift = added / (own + added), later.mean - self.mean
        return Moments(
            self.count + later.count,
            self.class_weight + later.class_weight,
            self.mean + shift * share,
            self.square + later.square + shift * shift * (own * share),
        )

    def scaled(self, factor: float) -> Moments:
        """Return the moments of the same points, each of so many times its weight."""
        return Moments(self.count, self.class_weight * factor, self.mean, self.square * factor)

    def against_the_rest(self, label: int) -> Moments:
        """Return the moments of the problem of one of several labels, +1, against all others."""
        rest = np.add.accumulate(np.delete(self.class_weight, label))[-1]
        return replace(self, class_weight=np.array([rest, self.class_weight[label]]))

    @property
    def scale(self) -> Float:
        """Standard deviation of each feature; 1 of one that does not vary beyond rounding."""
        variance = self.square / max(self.weight, np.finfo(float).tiny)
        varies = variance > 1e-18 * np.square(self.mean)
        return np.sqrt(np.where(varies, variance, 1.0))


@njit(cache=True, nogil=True)
def add_in_order(X, label, weight, class_weight, mean, square):  # type: ignore[no-untyped-def]
    """Add rows one after another to moments, in place; `label` are indices of labels."""
    for i in range(len(label)):
        u, total = weight[i], 0.0
        class_weight[label[i]] += u
        # Not a running total: it would begin at 0 in each call, and bits would depend on where a batch ends.
        for own in class_weight:
            total += own
        share = u / total
        for j in range(len(mean)):
            shift = np.float64(X[i, j]) - mean[j]
            mean[j] += share * shift
            square[j] += u * shift * (np.float64(X[i, j]) - mean[j])


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """An unbroken range of one partition's log.

    Attributes
    ----------
    start, end : Position
        `end` is exclusive.
    rows : int
        Rows seen, rejected ones included.
    first_time_ms, last_time_ms : int
        Of the first and of the last row that has a time; of several leaves the least and the greatest. -1 without any.
    moments : Moments
        Exact, of all accepted rows.
    """

    start: Position
    end: Position
    rows: int
    first_time_ms: int
    last_time_ms: int
    moments: Moments

    def join(self, later: Extent) -> Extent:
        """Return the extent of this one and the one that follows it."""
        assert self.end == later.start
        times = [time for time in (self.first_time_ms, later.first_time_ms) if time >= 0]
        return Extent(
            start=self.start,
            end=later.end,
            rows=self.rows + later.rows,
            first_time_ms=min(times, default=-1),
            last_time_ms=max(self.last_time_ms, later.last_time_ms),
            moments=self.moments.merge(later.moments),
        )

    @property
    def learned(self) -> Learned:
        """The totals alone."""
        moments = self.moments
        return Learned(self.rows, moments.count, moments.class_weight, self.first_time_ms, self.last_time_ms)


@dataclass(frozen=True, slots=True)
class Learned:
    """Totals of rows that were learned, whether or not a point of theirs is still kept; fields as of `Extent`."""

    rows: int
    count: int
    class_weight: Float
    first_time_ms: int
    last_time_ms: int

    def join(self, later: Learned) -> Learned:
        """Return the totals of these rows and later ones; the order of joining is part of the weights' bits."""
        times = [time for time in (self.first_time_ms, later.first_time_ms) if time >= 0]
        return Learned(
            self.rows + later.rows,
            self.count + later.count,
            self.class_weight + later.class_weight,
            min(times, default=-1),
            max(self.last_time_ms, later.last_time_ms),
        )


NO_TIMES: Final = (-1, -1)


@dataclass(frozen=True, slots=True)
class Bucket:
    """Weighted points that stand for an unbroken range of rows; nothing in it ever changes.

    Attributes
    ----------
    points : Points
    extent : Extent
        Where weights decay its moments are decayed, too, as of its end.
    times : two ints
        Least and greatest time of its spans in milliseconds, where these have one; see `memories`.
    before : Learned or None
        What was learned before it, dropped or not; None where nothing is forgotten.
    audit : tuple of Sampled
        Samples of its rows, one or one a label, of full spans; none where nothing is forgotten.
    """

    points: Points
    extent: Extent
    times: tuple[int, int] = NO_TIMES
    before: Learned | None = None
    audit: tuple[Sampled, ...] = ()


def joined(buckets: Sequence[Bucket]) -> Extent:
    """Return the extent of consecutive buckets, the oldest first."""
    return folded(Extent.join, [bucket.extent for bucket in buckets])


def label_index(y: NDArray[np.int8], labels: int) -> Labels:
    """Return the index of each label: of two labels, which are -1 and +1, that is 0 and 1."""
    return (y > 0).astype(np.int64) if labels == 2 else y.astype(np.int64)


def label_weights(points: Points, labels: int) -> Float:
    """Return the total weight of each label's points, shape (n_labels,)."""
    return np.bincount(label_index(points.y, labels), points.weight, labels).astype(np.float64)

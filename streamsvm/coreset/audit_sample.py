"""The audit sample: points of a partition's whole stream, drawn independently of every coreset.

A model is trained on a coreset, so the coreset cannot show what it missed. This sample can, because a hash of a row's
coordinates alone decides what is drawn, independently of pilots, reductions and the coreset's random numbers.

*Priority sampling*: a row of weight u gets the priority u / r, where r in (0, 1) is a hash of (seed, partition, offset,
row). The k rows of highest priority are held; the highest priority among the others is the threshold t. Given t, a row
is held with probability min(1, u / t), independently of the others. So a row of weight t or more is certainly held, and
the others are held in proportion to their weight, so that each of them represents the weight t. With equal weights this
is a simple random sample of k rows.

*By label*: a partition may keep a sample of each of two labels instead of one of all its rows. Of 1,000 rows with one
positive in a thousand a common sample holds one positive, too few for whatever asks about positives: thresholds,
probabilities, recall. Each label's sample is one as above, of that label's rows.

*Merged*: samples of several ranges of a log make the sample of all of them (`merged`), whatever factor the weights of
each are multiplied by.

Invariant: the sample is a pure function of the partition's rows and the seed. Which rows are held does not depend on
their order. The places in which they are held do depend on it, and so do the bytes of a checkpoint.

Sources: Duffield, Lund and Thorup 2007 (priority sampling); Cohen and Kaplan 2007 (bottom-k sketches: what holds given
the threshold); Steele, Lea and Flood 2014 (the hash: SplitMix64's finaliser).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.coreset.reducers.base import Purpose, generator
from streamsvm.points import Points, Rows, Times, Weights

Float = NDArray[np.float64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_UNIT = 2.0**-53

EVERY_LABEL: Final = -128
"""No label: of two labels the codes are -1 and +1, of more 0 to 127."""
LABELS: Final = (-1, 1)


@dataclass(frozen=True, slots=True)
class Held:
    """The complete state of a reservoir, for a checkpoint.

    Attributes
    ----------
    points : Points
        Raw points with their own weights, in the order of their places in the reservoir.
    priority : ndarray of shape (n,), float64
    threshold : float
        Highest priority among the rows that are not held; 0 while every row is held.
    """

    points: Points
    priority: Float
    threshold: float

    def sampled(self, class_weight: Weights) -> Sampled:
        """Return the sample, for a cut.

        Parameters
        ----------
        class_weight : ndarray of shape (2,)
            Exact weight of each label over all rows of the sample's label, or labels.
        """
        return Sampled(self.points, self.threshold, class_weight.copy())

    def scaled(self, factor: float) -> Held:
        """Return the sample of the same rows, each of so many times its weight, positive: the same rows are drawn."""
        if factor == 1.0:
            return self
        return Held(self.points.scaled(factor), self.priority * factor, self.threshold * factor)


def merged(parts: Sequence[Held], capacity: int) -> Held:
    """Return the sample of all rows that several samples of other rows were drawn from, as if drawn at once.

    A row that one part could not hold has a priority of at most that part's threshold. So the greatest threshold is
    that of the whole, and what lies above it is known completely. Fewer than `capacity` points may be left.

    Parameters
    ----------
    parts : sequence of Held
        At least one; of rows that follow one another, the oldest first.
    capacity : int
    """
    points, priority = Points.union([part.points for part in parts]), np.concatenate([part.priority for part in parts])
    threshold = max(part.threshold for part in parts)
    if np.count_nonzero(priority > threshold) > capacity:
        threshold = max(threshold, float(np.partition(priority, -capacity - 1)[-capacity - 1]))
    kept = priority > threshold
    return Held(points.take(kept), priority[kept], threshold)


@dataclass(frozen=True, slots=True)
class Sampled:
    """One partition's part of an audit sample at a cut, of all its rows or of those of one label.

    Attributes
    ----------
    points : Points
        Raw, with their own weights.
    threshold : float
        A point of less weight represents this weight; 0 if the sample holds all points that it is drawn from.
    class_weight : ndarray of shape (2,), or (n_classes,)
        Exact weight of the label -1 and of the label +1 in the partition; of more than two classes, that of each. 0 for
        a label that the sample is not drawn from.
    """

    points: Points
    threshold: float
    class_weight: Float

    def against_the_rest(self, label: int) -> Sampled:
        """Return the same sample for the two-class problem of one class, +1, against all others."""
        rest = np.delete(self.class_weight, label).sum()
        return replace(
            self,
            points=self.points.against_the_rest(label),
            class_weight=np.array([rest, self.class_weight[label]]),
        )

    def of_pair(self, first: int, second: int) -> Sampled:
        """Return the part of the sample that is of two classes, for the problem in which the second is +1.

        What is drawn of some rows, by priorities of their own, is a sample of these rows under the same threshold.
        """
        own = (self.points.y == first) | (self.points.y == second)
        return replace(
            self,
            points=self.points.take(own).against_the_rest(second),
            class_weight=self.class_weight[[first, second]],
        )


class Reservoir:
    """The audit sample of one partition, or of one label of it.

    Parameters
    ----------
    capacity : int
        Most points held, at least 1; the memory for them is allocated at once.
    partition, seed : int
    dimension : int
    dtype : numpy dtype of the features
    label : int
        The label whose rows are drawn from; `EVERY_LABEL`: all rows.
    """

    def __init__(
        self,
        capacity: int,
        partition: int,
        seed: int,
        dimension: int,
        dtype: np.dtype[np.floating],
        label: int = EVERY_LABEL,
    ) -> None:
        self._label = label
        # A key of its own purpose: no number that a coreset draws has a part in what is audited.
        self._key = np.uint64(generator(seed, Purpose.AUDIT, (partition, 0, 0)).integers(1 << 64, dtype=np.uint64))
        self._buffer = Points(
            np.empty((capacity, dimension), dtype), np.empty(capacity, np.int8), np.empty(capacity, np.float64)
        )
        self._shared = False
        self._priority = np.empty(capacity)
        self._heap = np.empty(capacity, np.int64)
        self._count = 0
        self._threshold = 0.0

    def __len__(self) -> int:
        return self._count

    @property
    def points(self) -> Points:
        """The points of the sample, as views that the next `add` changes: copy them to keep them."""
        return self._buffer.take(slice(0, self._count))

    def add(self, rows: Rows) -> None:
        """Offer every accepted row. Most cost a hash and a comparison only; a row that passes replaces another."""
        self._own()
        points, buffer = rows.points, self._buffer
        self._count, self._threshold = _offer(
            points.X,
            points.y,
            points.weight,
            rows.accepted,
            rows.offset,
            rows.row,
            self._label,
            self._key,
            buffer.X,
            buffer.y,
            buffer.weight,
            self._priority,
            self._heap,
            self._count,
            self._threshold,
        )

    def put(self, points: Points) -> None:
        """Put points in the places of all: the same rows, as they are learned by now."""
        self._own()
        self._buffer.X[: self._count], self._buffer.weight[: self._count] = points.X, points.weight

    def state(self) -> Held:
        """Return everything a checkpoint needs, and a cut; rows that are offered later do not change it.

        The arrays are views. The next call of `add` takes new memory before it changes them.
        """
        self._shared = True
        return Held(self.points, self._priority[: self._count], self._threshold)

    def sampled(self, class_weight: Weights) -> Sampled:
        """Return the sample as it is now; the parameter is that of `Held.sampled`."""
        return self.state().sampled(class_weight)

    def _own(self) -> None:
        """Take new memory, with the same content, where others hold views of the old."""
        if self._shared:
            buffer = self._buffer
            self._buffer = Points(buffer.X.copy(), buffer.y.copy(), buffer.weight.copy())
            self._priority = self._priority.copy()
            self._shared = False

    def restore(self, saved: Held) -> None:
        """Put a checkpoint's content in place."""
        self._own()
        self._count, self._threshold = len(saved.points), saved.threshold
        place = slice(0, self._count)
        self._buffer.X[place], self._buffer.y[place] = saved.points.X, saved.points.y
        self._buffer.weight[place], self._priority[place] = saved.points.weight, saved.priority
        for slot in range(self._count):
            # The heap is not in the checkpoint: any heap of the same priorities gives the same sample.
            self._heap[slot] = slot
            _rise(self._heap, self._priority, slot)


def warm_up(dtype: np.dtype[np.floating]) -> None:
    """Compile, or load from numba's file cache, what `Reservoir.add` runs."""
    none = np.empty(0, np.int64)
    nothing = Rows(
        partition=0,
        offset=none,
        row=none,
        last=np.empty(0, np.bool_),
        times=Times.of(none),
        accepted=np.empty(0, np.bool_),
        points=Points.empty(1, dtype),
        leader_epoch=none,
    )
    Reservoir(1, 0, 0, 1, dtype).add(nothing)


def shares(capacity: int, by_label: bool) -> dict[int, int]:
    """Return how many points of each label the sample has, or of `EVERY_LABEL`; none of a sample without capacity.

    Half each, however rare a label is: what is asked about a label is answered from its points alone. A sample of which
    a half would be one point is not divided: one point shows no variance, and an interval would be far too sure.
    """
    if by_label and capacity >= 2 * len(LABELS):
        half = capacity // 2
        return dict(zip(LABELS, (capacity - half, half), strict=True))
    return {EVERY_LABEL: capacity} if capacity else {}


@njit(cache=True, nogil=True)
def _mix(z):  # type: ignore[no-untyped-def]
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


@njit(cache=True, nogil=True)
def _offer(  # type: ignore[no-untyped-def]
    X, y, weight, accepted, offset, row, label, key, kept_X, kept_y, kept_weight, priority, heap, count, threshold
):
    """Offer rows one by one; return how many are kept now, and the threshold.

    `heap` holds places of the reservoir; the place of lowest priority is its root.
    """
    capacity = len(heap)
    for i in range(len(y)):
        if not accepted[i] or (label != EVERY_LABEL and y[i] != label):
            continue
        # Mixed twice: offset and row added in one step would let (offset + 1, row) meet (offset, row + 1).
        mixed = _mix(_mix(key + np.uint64(offset[i]) * _GOLDEN) + np.uint64(row[i]) * _GOLDEN)
        # 53 bits, as many as a float64 holds; a half is added so that r is never 0, which is divided by.
        r = (np.float64(mixed >> np.uint64(11)) + 0.5) * _UNIT
        # A row that cannot pass is rejected by this product; only the few others pay for the division.
        if weight[i] <= r * threshold:
            continue
        drawn = weight[i] / r
        if count < capacity:
            place = count
            heap[place] = place
            count += 1
        elif drawn <= priority[heap[0]]:
            threshold = max(threshold, drawn)
            continue
        else:
            place = heap[0]
            threshold = max(threshold, priority[place])
        for j in range(X.shape[1]):  # a loop: the compiler takes seconds over the error of a copy that does not fit
            kept_X[place, j] = X[i, j]
        kept_y[place] = y[i]
        kept_weight[place] = weight[i]
        priority[place] = drawn
        if heap[0] == place:
            _sink(heap, priority, count)
        else:
            _rise(heap, priority, place)
    return count, threshold


@njit(cache=True, nogil=True)
def _before(priority, a, b):  # type: ignore[no-untyped-def]
    """Order places by priority, equal ones by place, so that the order does not depend on how the heap was built."""
    return priority[a] < priority[b] or (priority[a] == priority[b] and a < b)


@njit(cache=True, nogil=True)
def _rise(heap, priority, at):  # type: ignore[no-untyped-def]
    while at and _before(priority, heap[at], heap[(at - 1) // 2]):
        above = (at - 1) // 2
        heap[at], heap[above] = heap[above], heap[at]
        at = above


@njit(cache=True, nogil=True)
def _sink(heap, priority, count):  # type: ignore[no-untyped-def]
    at = 0
    while 2 * at + 1 < count:
        below = 2 * at + 1
        if below + 1 < count and _before(priority, heap[below + 1], heap[below]):
            below += 1
        if not _before(priority, heap[below], heap[at]):
            return
        heap[at], heap[below] = heap[below], heap[at]
        at = below

"""The merge-and-reduce structure of one partition: leaves become buckets, and buckets are merged.

A stream has no end, so its points cannot all be kept. A *leaf* collects the newest rows. When it is full it becomes a
*bucket*: at most `bucket_points` weighted points that stand for all its rows. When there are too many buckets, two
become one, and their points are reduced again. At any moment the union of all buckets and the open leaf stands for the
whole partition, and a training set is made of that (`streamsvm.learning.cutting`).

`streamsvm.learning.partition` owns one structure per partition, and calls `insert` for each full leaf. How points are
chosen is the business of a reducer (`streamsvm.coreset.reducers`), and of the pilot that the caller passes; which
buckets are merged, and when, is decided here.

Invariant: the structure is a pure function of the partition's rows in log order, the configuration and the seed. A leaf
is full after a count of rows *seen*, accepted or not, never of points kept. So neither batches nor the clock can move a
border, and two readers of one log build the same bytes.

Two structures remember everything. A *tree* has a bounded number of buckets: when there is one too many, the two
neighbours that stand for the least weight become one. Its memory is in use all the time. (The *counter* of the paper,
whose buckets merge like the digits of a number, keeps room for a bucket on every level of a stream that may never come,
and half of that room is empty.) A *chain* has one bucket, which is reduced again together with every leaf. There an old
point passes as many reductions as leaves came after it. In return each reduction sees all that is kept of the
partition, and bucket and leaf can each take a large share of the memory.

For buckets that depend on their own range of the log only there is `streamsvm.coreset.spans`; other structures are
plugged in (`streamsvm.sockets`).

To read: `Extent` and `Bucket` (what is kept), `Structure.node` (how a set of points becomes a bucket),
`Tree.with_leaf`.

Source: merge and reduce is that of Tukan, Baykal, Feldman and Rus 2020, Alg. 2. Where we differ: the stream has no end,
so there is no root. Tree and chain are our own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.coreset.audit_sample import Held
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.reducers.base import Purpose, Reducer, generator, reduce_for
from streamsvm.points import Points, Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The rows that a set of points represents.

    Attributes
    ----------
    start, end : Position
        The rows from `start` up to but not including `end`.
    rows : int
        Rows seen, rejected ones included.
    first_time_ms, last_time_ms : int
        Least and greatest of the times that the leaves begin and end with: of each leaf, the times of its first and
        its last row that have one. -1 if no row has a time. Rows between them are not asked, since that takes long.
    moments : Moments
        Exact moments and totals of every accepted row, kept or not.
    """

    start: Position
    end: Position
    rows: int
    first_time_ms: int
    last_time_ms: int
    moments: Moments

    def join(self, later: Extent) -> Extent:
        """Return the extent of this one and the one that follows it."""
        # No check that `later` begins where this one ends: screened leaves and spans are consecutive by construction,
        # and this runs once per batch.
        return Extent(
            start=self.start,
            end=later.end,
            rows=self.rows + later.rows,
            first_time_ms=_earliest(self.first_time_ms, later.first_time_ms),
            last_time_ms=max(self.last_time_ms, later.last_time_ms),
            moments=self.moments.merge(later.moments),
        )

    @property
    def learned(self) -> Learned:
        """The totals alone."""
        return Learned(
            rows=self.rows,
            count=self.moments.count,
            class_weight=self.moments.class_weight,
            first_time_ms=self.first_time_ms,
            last_time_ms=self.last_time_ms,
        )


def _earliest(one: int, other: int) -> int:
    """Return the lesser of two times; -1 stands for none, and would win every minimum."""
    return max(one, other) if min(one, other) < 0 else min(one, other)


def joined(extents: Sequence[Extent]) -> Extent:
    """Return the extent of one or more consecutive extents, the oldest first."""
    # Moments merge one after the other, in this order: the bits of a version depend on it.
    if len(extents) == 1:
        return extents[0]
    rows, first_time_ms, last_time_ms = 0, -1, -1
    for each in extents:
        rows += each.rows
        first_time_ms, last_time_ms = _earliest(first_time_ms, each.first_time_ms), max(last_time_ms, each.last_time_ms)
    return Extent(
        start=extents[0].start,
        end=extents[-1].end,
        rows=rows,
        first_time_ms=first_time_ms,
        last_time_ms=last_time_ms,
        moments=Moments.union([each.moments for each in extents]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """Totals of rows that were learned, whether or not a point of theirs is still kept.

    Attributes
    ----------
    rows : int
        Rows seen, rejected ones included.
    count : int
        Valid points among them.
    class_weight : ndarray of shape (2,), or (n_classes,)
        Their exact weight, each label's.
    first_time_ms, last_time_ms : int
        As of `Extent`.
    """

    rows: int
    count: int
    class_weight: NDArray[np.float64]
    first_time_ms: int
    last_time_ms: int

    @staticmethod
    def nothing(classes: int) -> Learned:
        """Return the totals of no rows."""
        return Learned(rows=0, count=0, class_weight=np.zeros(classes), first_time_ms=-1, last_time_ms=-1)

    def join(self, later: Learned) -> Learned:
        """Return the totals of these rows and later ones; the order of joining is part of the weights' bits."""
        return Learned(
            rows=self.rows + later.rows,
            count=self.count + later.count,
            class_weight=self.class_weight + later.class_weight,
            first_time_ms=_earliest(self.first_time_ms, later.first_time_ms),
            last_time_ms=max(self.last_time_ms, later.last_time_ms),
        )


NO_TIMES: Final = (-1, -1)


@dataclass(frozen=True, slots=True)
class Bucket:
    """A reduced weighted set: self-contained, immutable, droppable.

    Attributes
    ----------
    level : int
        0 for a sealed leaf. Of a counter, the number of merges above it; of a tree, 1 for what was merged.
    index : int
        Of a counter, the number of nodes of this level that were made before it; else the number of leaves that were
        sealed before it was made. Partition, level and index name the node.
    points : Points
    extent : Extent
    audit : tuple of Held
        The audit sample of its rows, or that of each label, under the weights of `points`; empty where the partition
        keeps one sample of its whole stream.
    times : tuple of (int, int)
        Least and greatest of the times of its leaves, in milliseconds; -1 where none has one, or the structure needs
        none.
    before : Learned or None
        What the partition had learned where the bucket begins; None where nothing is ever forgotten.
    """

    # Level and index are not for reading only: the random numbers of a reduction are made from them (`Structure.node`),
    # so that two nodes of a partition must never have the same pair.
    level: int
    index: int
    points: Points
    extent: Extent
    audit: tuple[Held, ...] = ()
    times: tuple[int, int] = NO_TIMES
    before: Learned | None = None


PilotOf = Callable[[Points, Extent], Any]
"""Returns the pilot of a node, of the reducer's kind, from the node's points and extent (Alg. 1, line 1)."""


class Structure(ABC):
    """The buckets of one partition.

    Parameters
    ----------
    partition : int
    seed : int
    bucket_points : int
        Most points a bucket holds (the paper's l).
    reducer : Reducer

    Attributes
    ----------
    points_held : int
        Points of all buckets.
    count : int
        Valid points that the buckets stand for.
    """

    def __init__(self, partition: int, seed: int, bucket_points: int, reducer: Reducer[Any]) -> None:
        self._partition = partition
        self._seed = seed
        self._bucket_points = bucket_points
        self._reducer = reducer
        self._sealed = 0
        self._buckets: tuple[Bucket, ...] = ()
        self._whole: Extent | None = None
        self._with_leaf: tuple[Extent, Extent] | None = None
        self.points_held = self.count = 0

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        """All buckets, the oldest first."""
        return self._buckets

    def extent_of(self, buckets: tuple[Bucket, ...]) -> Extent:
        """Return the extent of some of the buckets, at least one; that of all is joined once after each change."""
        if buckets is not self._buckets:
            return joined([bucket.extent for bucket in buckets])
        if self._whole is None:
            self._whole = joined([bucket.extent for bucket in buckets])
        return self._whole

    def extent_with(self, leaf: Extent) -> Extent:
        """Return the extent of all buckets and the leaf after them; joined once for a leaf."""
        if not self._buckets:
            return leaf
        if self._with_leaf is None or self._with_leaf[0] is not leaf:
            self._with_leaf = leaf, self.extent_of(self._buckets).join(leaf)
        return self._with_leaf[1]

    @property
    def sealed(self) -> int:
        """Leaves sealed so far."""
        return self._sealed

    @property
    def reducer(self) -> Reducer[Any]:
        """The reducer that makes the nodes."""
        return self._reducer

    def restore(self, sealed: int, buckets: Sequence[Bucket]) -> None:
        """Restore the content from a checkpoint."""
        self._sealed = sealed
        self._replace(buckets)

    def _replace(self, buckets: Sequence[Bucket]) -> None:
        """Replace the buckets, and cache the two totals that are read for every batch of rows."""
        self._buckets, self._whole, self._with_leaf = tuple(buckets), None, None
        self.points_held = sum([len(bucket.points) for bucket in buckets])
        self.count = sum([bucket.extent.moments.count for bucket in buckets])

    @property
    def known(self) -> tuple[Bucket, ...]:
        """The buckets by which the next leaf is bounded and screened, the oldest first."""
        # All of them here. A structure that forgets returns those of the current span, or the bucket of a span would
        # depend on rows before it.
        return self._buckets

    def insert(
        self,
        points: Points,
        extent: Extent,
        pilot_of: PilotOf | None = None,
        *,
        audit: tuple[Held, ...] = (),
        times: tuple[int, int] = NO_TIMES,
    ) -> None:
        """Add a sealed leaf, and merge buckets.

        Parameters
        ----------
        points : Points
            Copied if they are kept.
        extent : Extent
        pilot_of : callable, optional
            Called for every node that must be reduced, if the reducer needs a pilot.
        audit, times
            As of `Bucket`, of the leaf; only for a structure that forgets.
        """
        leaf = Bucket(0, self._sealed, points, extent, audit, times)
        # `with_leaf` may solve a pilot and fail. Only afterwards does anything here change.
        self._replace(self.with_leaf(leaf, pilot_of))
        self._sealed += 1

    @abstractmethod
    def with_leaf(self, leaf: Bucket, pilot_of: PilotOf | None) -> list[Bucket]:
        """Return the buckets after leaf number `sealed` is added."""

    def node(
        self,
        level: int,
        index: int,
        points: Points,
        extent: Extent,
        pilot_of: PilotOf | None,
        most: int | None = None,
    ) -> Bucket:
        """Return a node of at most so many points, `bucket_points` by default."""
        most = most or self._bucket_points
        # A set that fits is kept as it is: a reduction would cost a pilot and add an error, and would save nothing.
        if len(points) <= most:
            # `union` copies: the points are views into a leaf's buffer, which the next leaf overwrites.
            return Bucket(level, index, Points.union([points]), extent)
        pilot = pilot_of(points, extent) if pilot_of is not None and self._reducer.needs_pilot else None
        # The generator is made from the node's name and is not carried along from node to node. After a restart the
        # same numbers are drawn, without any state of a generator in the checkpoint, and a node that somebody else
        # computes (a worker, `verify`) gets the same points.
        random = generator(self._seed, Purpose.NODE, (self._partition, level, index))
        return Bucket(level, index, reduce_for(self._reducer, points, most, random, pilot), extent)


class Tree(Structure):
    """At most so many buckets: when there is one too many, the two neighbours with the least weight become one.

    Only neighbours are merged, so that every bucket stands for one unbroken range of the log. The lightest two are
    merged, because a point of a light bucket stands for few rows: merging heavier ones would give up more. Where leaves
    grow with the stream, as screened ones do, the oldest buckets are the light ones, and the old rows are thinned out
    as their share falls. Where all leaves are alike, buckets about double from the newest to the oldest.

    One pilot, of everything that is kept, serves both reductions that a leaf may need (its own, and that of a merge).
    Each reduction then preserves the gradient at the optimum of all rows, which is what the training set is for, and
    not at the optimum of its own rows.

    Parameters
    ----------
    partition, seed, bucket_points, reducer
        As in `Structure`.
    most : int
        Buckets, at least 2.
    """

    def __init__(self, partition: int, seed: int, most: int, bucket_points: int, reducer: Reducer[Any]) -> None:
        super().__init__(partition, seed, bucket_points, reducer)
        self._most = most

    def with_leaf(self, leaf: Bucket, pilot_of: PilotOf | None) -> list[Bucket]:
        """Return the buckets after a leaf; see `Structure`."""
        buckets = [*self._buckets, leaf]
        # One group for each bucket that there will be. At most one group has two members: a leaf adds one bucket, so
        # one merge is enough.
        groups = [slice(at, at + 1) for at in range(len(buckets))]
        if len(buckets) > self._most:
            at = lightest_neighbours([bucket.extent.moments.weight for bucket in buckets])
            groups[at : at + 2] = [slice(at, at + 2)]
        whole = _Whole(buckets, self.extent_with(leaf.extent), pilot_of if self._reducer.needs_pilot else None)
        return [self._grouped(buckets[group], group, whole) for group in groups]

    def _grouped(self, group: list[Bucket], at: slice, whole: _Whole) -> Bucket:
        """Return the bucket that a leaf, or two neighbours, become; an old bucket by itself stays as it is."""
        last = group[-1]
        # A smaller index than the current leaf's: an older bucket, which was reduced when it was made. The leaf itself
        # may be the second member of a merge; it is then reduced once, together with its neighbour.
        if len(group) == 1 and last.index < self._sealed:
            return last
        points = last.points
        if len(group) > 1:
            is_reduced = sum(len(bucket.points) for bucket in group) > self._bucket_points
            points = whole.part(at) if is_reduced else Points.union([bucket.points for bucket in group])
        extent = joined([bucket.extent for bucket in group])
        return self.node(len(group) - 1, self._sealed, points, extent, lambda *_: whole.pilot(at))


class _Whole:
    """Everything that a tree keeps before it reduces, and the pilot of that, which is solved when it is first used."""

    def __init__(self, buckets: Sequence[Bucket], extent: Extent, pilot_of: PilotOf | None) -> None:
        self._buckets, self._extent, self._pilot_of = buckets, extent, pilot_of
        self._points: Points | None = None
        self._solved: Any = None
        self._ends = [0, *accumulate(len(bucket.points) for bucket in buckets)]

    def part(self, group: slice) -> Points:
        """Return the points of some buckets, which are an unbroken part of the union of all."""
        if self._pilot_of is None:
            return Points.union([bucket.points for bucket in self._buckets[group]])
        return self._union.take(self._of(group))

    @property
    def _union(self) -> Points:
        if self._points is None:
            self._points = Points.union([bucket.points for bucket in self._buckets])
        return self._points

    def _of(self, group: slice) -> slice:
        return slice(self._ends[group.start], self._ends[group.stop])

    def pilot(self, group: slice) -> Any:
        """Return the pilot as that of the points of some buckets."""
        if self._pilot_of is None:
            return None
        # A leaf needs no reduction, one, or two. Where none is needed no pilot is solved.
        if self._solved is None:
            self._solved = self._pilot_of(self._union, self._extent)
        # The pilot has a value for each point of the union.
        return self._solved.of(self._of(group))


def lightest_neighbours(weights: Sequence[float]) -> int:
    """Return the index of the first of the two neighbours with the least weight together.

    If several pairs are equal, the oldest is chosen: the choice must not depend on anything but the weights.
    """
    together = [older + newer for older, newer in pairwise(weights)]
    return together.index(min(together))


class Chain(Structure):
    """One bucket of level 0, reduced again together with every leaf; its index is that of its newest leaf."""

    def with_leaf(self, leaf: Bucket, pilot_of: PilotOf | None) -> list[Bucket]:
        """Return the buckets after a leaf; see `Structure`."""
        # There is one bucket at most; the loop only spares the first leaf a special case.
        points, extent = leaf.points, leaf.extent
        for bucket in self._buckets:
            points, extent = Points.union([bucket.points, points]), bucket.extent.join(extent)
        return [self.node(0, self._sealed, points, extent, pilot_of)]

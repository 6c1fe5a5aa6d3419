"""The merge-and-reduce structure of one partition: leaves seal into buckets, buckets merge into higher ones.

Invariant: the structure is a pure function of the partition's rows in log order, the configuration and the seed. A leaf
seals after a count of rows *seen*, accepted or not, never of points kept; so neither batches nor the clock can move a
border, and two readers of one log build the same bytes.

There are two. A *tree* is the paper's: a point passes one reduction a level, and memory grows with the logarithm of the
stream. A *chain* has one bucket, which is reduced together with every leaf: an old point passes as many reductions as
leaves came after it, but a reduction sees all that is known of the partition, and memory never grows: one bucket and
one leaf, each a large share of it.

Source: Alg. 2 of Tukan, Baykal, Feldman and Rus 2020 (fan-in 2). Where we differ: the stream has no end, so there is no
root: what stands for the stream is the union of all buckets and the open leaf, at any moment; and a leaf's bucket holds
at most `bucket_points` points whatever the leaf's size, where the paper ties both to one parameter l. A chain is ours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamsvm.coreset.moments import Moments
from streamsvm.coreset.reducers.base import Purpose, Reducer, generator, reduce_for
from streamsvm.points import Points, Position


@dataclass(frozen=True, slots=True)
class Extent:
    """What a set of points stands for.

    Attributes
    ----------
    start, end : Position
        Its rows are those from `start` up to but not including `end`.
    rows : int
        Rows seen, rejected ones included.
    first_time_ms, last_time_ms : int
        Least and greatest timestamp of the rows seen; -1 if none has one.
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
        """Return the extent of this and the one that follows it."""
        times = [time for time in (self.first_time_ms, later.first_time_ms) if time >= 0]
        return Extent(
            self.start,
            later.end,
            self.rows + later.rows,
            min(times, default=-1),
            max(self.last_time_ms, later.last_time_ms),
            self.moments.merge(later.moments),
        )


def joined(extents: Sequence[Extent]) -> Extent:
    """Return the extent of consecutive ones, at least one, the oldest first."""
    whole = extents[0]
    for later in extents[1:]:
        whole = whole.join(later)
    return whole


@dataclass(frozen=True, slots=True)
class Bucket:
    """A reduced weighted set: self-contained, immutable, droppable.

    Attributes
    ----------
    level : int
        0 for a sealed leaf.
    index : int
        How many nodes of this level were made before it: with partition and level the name of the node.
    points : Points
    extent : Extent
    """

    level: int
    index: int
    points: Points
    extent: Extent


@njit(cache=True, nogil=True)
def time_range(time_ms: NDArray[np.int64]) -> tuple[int, int]:
    """Return least and greatest of the times that are not negative; -1 if there is none."""
    first, last = -1, -1
    for time in time_ms:
        if time >= 0:
            first = time if first < 0 else min(first, time)
            last = max(last, time)
    return first, last


PilotOf = Callable[[Points, Extent], Any]
"""Solves the pilot, of the reducer's kind, of a node from its own points and what they stand for (Alg. 1, line 1)."""


class Structure(ABC):
    """The buckets of one partition.

    Parameters
    ----------
    partition : int
    seed : int
    bucket_points : int
        Most points a bucket holds (the paper's l).
    reducer : Reducer
    """

    def __init__(self, partition: int, seed: int, bucket_points: int, reducer: Reducer[Any]) -> None:
        self._partition = partition
        self._seed = seed
        self._bucket_points = bucket_points
        self._reducer = reducer
        self._sealed = 0
        self._buckets: tuple[Bucket, ...] = ()

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        """All buckets, the oldest first; levels never rise from one to the next."""
        return self._buckets

    @property
    def sealed(self) -> int:
        """Leaves sealed so far."""
        return self._sealed

    @property
    def reducer(self) -> Reducer[Any]:
        """What makes its nodes."""
        return self._reducer

    def restore(self, sealed: int, buckets: Sequence[Bucket]) -> None:
        """Put a checkpoint's content in place."""
        self._sealed = sealed
        self._buckets = tuple(buckets)

    def insert(self, points: Points, extent: Extent, pilot_of: PilotOf | None = None) -> None:
        """Add a sealed leaf, and merge.

        Parameters
        ----------
        points : Points
            Copied, where they are kept.
        extent : Extent
        pilot_of : callable, optional
            Called for every node that must be reduced, if the reducer needs a pilot.
        """
        self._buckets = tuple(self._with(points, extent, pilot_of))
        self._sealed += 1

    @abstractmethod
    def _with(self, points: Points, extent: Extent, pilot_of: PilotOf | None) -> list[Bucket]:
        """Return the buckets once a leaf, number `sealed`, is among them."""

    def _node(self, level: int, index: int, points: Points, extent: Extent, pilot_of: PilotOf | None) -> Bucket:
        if len(points) <= self._bucket_points:
            return Bucket(level, index, Points.union([points]), extent)
        pilot = pilot_of(points, extent) if pilot_of is not None and self._reducer.needs_pilot else None
        random = generator(self._seed, Purpose.NODE, (self._partition, level, index))
        return Bucket(level, index, reduce_for(self._reducer, points, self._bucket_points, random, pilot), extent)


class Tree(Structure):
    """Buckets in a counter of base `fan_in`: a level that holds `fan_in` buckets is reduced to one of the next level.

    Parameters
    ----------
    partition, seed, bucket_points, reducer
        As of every structure.
    fan_in : int
        Buckets of one level that make one of the next; 2 is the paper's Alg. 2.
    """

    def __init__(self, partition: int, seed: int, fan_in: int, bucket_points: int, reducer: Reducer[Any]) -> None:
        super().__init__(partition, seed, bucket_points, reducer)
        self._fan_in = fan_in

    def _with(self, points: Points, extent: Extent, pilot_of: PilotOf | None) -> list[Bucket]:
        level, index = 0, self._sealed
        buckets = [*self._buckets, self._node(level, index, points, extent, pilot_of)]
        while [node.level for node in buckets[-self._fan_in :]] == [level] * self._fan_in:
            siblings = buckets[-self._fan_in :]
            level, index = level + 1, index // self._fan_in
            union = Points.union([node.points for node in siblings])
            whole = joined([node.extent for node in siblings])
            buckets[-self._fan_in :] = [self._node(level, index, union, whole, pilot_of)]
        return buckets


class Chain(Structure):
    """One bucket, of level 0, reduced anew together with every leaf; its index is that of its last leaf."""

    def _with(self, points: Points, extent: Extent, pilot_of: PilotOf | None) -> list[Bucket]:
        for bucket in self._buckets:
            points, extent = Points.union([bucket.points, points]), bucket.extent.join(extent)
        return [self._node(0, self._sealed, points, extent, pilot_of)]

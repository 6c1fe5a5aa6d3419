"""The bounds within which the rows of a partition are learned, and what was drawn into them.

Rows are bounded by what is sealed before them: by `coreset.max_leverage` at outliers, by `coreset.clip_sd` at standard
deviations. The rows of a first leaf, before which nothing is sealed, get bounds of their own when the leaf is sealed.

A row that lies beyond the first bound is kept as it came, and *waits* outside of leaf and buckets, while few do. At the
end of each leaf, and at each cut, the rows that the stream has repeated by then are learned as they came. The others
take part in moments and totals only, drawn in; where their weight alone is strange, in training sets, too. What does
not wait, because too many do, is learned as drawn in.

Invariant: bounds are a pure function of the sealed buckets, and what waits is one of the rows in their order. Tallies
are for people: no checkpoint holds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import CoresetConfig
from streamsvm.coreset.audit_sample import Reservoir
from streamsvm.coreset.clipping import FeatureRanges, freed_of_outliers
from streamsvm.coreset.leaf import Leaf
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.outliers import (
    Found,
    Outlier,
    OutlierBounds,
    SortedOut,
    Tally,
    Waiting,
    differing_rows,
)
from streamsvm.coreset.own_tail import REPEATED
from streamsvm.coreset.reducers.base import Observed
from streamsvm.coreset.structure import Bucket, Extent
from streamsvm.points import Points, Position, Rows

Places = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Offsets and rows of accepted points, in their order."""

WAITING_ONE_OF: Final = 50
"""Rows of a leaf for each that may wait: they are kept beside leaf and buckets."""
LEAST_ROOM: Final = 2 * REPEATED
"""Of small leaves, too, so that ten strangers and the first of a tail find room."""
MOST_ROOM: Final = 1_000


@dataclass(slots=True, kw_only=True)
class SealedLeaf:
    """A full leaf with what is learned with it.

    Attributes
    ----------
    points : Points
        What is learned; those that waited and came in are the last.
    extent : Extent
    rows, drawn_in : Points
        All rows of the leaf, as they came and drawn in; of a first leaf some of them may wait.
    first_bounds : OutlierBounds or None
        Of a first leaf with outliers.
    """

    points: Points
    extent: Extent
    rows: Points
    drawn_in: Points
    first_bounds: OutlierBounds | None


@dataclass(frozen=True, slots=True)
class Judged:
    """What becomes of the rows that wait, at a cut or at the end of a leaf.

    Attributes
    ----------
    own : Points
        Those that the stream has repeated, as they came.
    others : Waiting
    """

    own: Points
    others: Waiting

    @staticmethod
    def of(waiting: Waiting, bounds: OutlierBounds, more: Sequence[Points]) -> Judged:
        """Judge rows by bounds, and by points that are known besides."""
        own = bounds.own_tail(waiting, more)
        return Judged(waiting.came.take(own), waiting.take(~own))


class Bounding:
    """Bounds the rows of one partition.

    Parameters
    ----------
    partition : int
    coreset : CoresetConfig
    dimension, classes : int

    Attributes
    ----------
    bounds : FeatureRanges or None
        By which the next row is clipped.
    outlier_bounds : OutlierBounds or None
        None before anything was sealed.
    clipped : int
        Accepted rows of which clipping changed a feature, since this object was made.
    waiting : Waiting or None
        Rows that wait; None if none does.
    """

    def __init__(self, partition: int, coreset: CoresetConfig, dimension: int, classes: int) -> None:
        self._partition, self._coreset = partition, coreset
        self._dimension, self._classes = dimension, classes
        self.bounds: FeatureRanges | None = None
        self.outlier_bounds: OutlierBounds | None = None
        self.clipped = 0
        self.waiting: Waiting | None = None
        self._places: list[Places] | None = []
        self._tally, self._of_open_leaf = Tally(), Tally()

    @property
    def of_first_leaf(self) -> bool:
        """Whether the points of the open leaf get their bounds from itself, when it is sealed."""
        return (self._coreset.max_leverage is not None and self.outlier_bounds is None) or (
            self._coreset.clip_sd is not None and self.bounds is None
        )

    @property
    def places(self) -> tuple[Places, ...]:
        """Where the points of a first leaf stand in the log; empty where that is not known."""
        return tuple(self._places or ())

    @property
    def tally(self) -> Tally:
        """What lay beyond `coreset.max_leverage` since this was made, with the last cut of an open first leaf."""
        whole = Tally()
        whole.add(self._tally)
        whole.add(self._of_open_leaf)
        return whole

    def note_first_leaf(self, tally: Tally) -> None:
        """Take in what was drawn in of an open first leaf at a cut, unless that leaf is sealed by now.

        Replaced, not added to: every cut looks at the same open leaf again, and must not count its outliers twice.
        """
        if self.outlier_bounds is None:
            self._of_open_leaf = tally

    def reopen(self, held: int, waiting: Waiting | None) -> None:
        """Go on from a checkpoint, in which an open leaf holds so many points; `renew` comes next."""
        self._of_open_leaf, self._places, self.waiting = Tally(), None if held else [], waiting

    def renew(self, known: Sequence[Bucket], moments: Moments | None) -> None:
        """Compute the bounds from the sealed buckets and their moments, so that a checkpoint need not hold them."""
        coreset = self._coreset
        if moments is not None and not moments.count:
            moments = None
        if coreset.clip_sd is not None:
            self.bounds = None if moments is None else FeatureRanges.of(moments, coreset.clip_sd)
        if coreset.max_leverage is not None:
            held = [bucket.points for bucket in known]
            share = coreset.max_leverage
            self.outlier_bounds = None if moments is None else OutlierBounds.of(moments, held, share)

    def drawn_in(self, rows: Rows) -> tuple[Rows, NDArray[np.bool_]]:
        """Draw in values beyond the bounds of the sealed leaves, and return which rows are accepted and do not wait.

        Of a first leaf, only record where its points are.
        """
        if self.outlier_bounds is None:
            if self._places is not None and self._coreset.max_leverage is not None:
                self._places.append((rows.offset[rows.accepted], rows.row[rows.accepted]))
            return rows, rows.accepted
        if self.outlier_bounds.beyond(rows.points, rows.accepted) is None:
            return rows, rows.accepted
        waiting = None if self.waiting is None else self.waiting.came
        judged = self.outlier_bounds.sort_out(rows.points, rows.accepted, waiting, room_of(self._coreset))
        if judged.found is None:
            return rows, rows.accepted
        at = judged.found.worst.row
        note(self._tally, judged.found, self._partition, Position(int(rows.offset[at]), int(rows.row[at])), None)
        if judged.waits is not None:
            self._let_wait(Waiting(rows.points.take(judged.waits), judged.points.take(judged.waits)))
        return replace(rows, points=judged.points), rows.accepted & judged.stay()

    def _let_wait(self, more: Waiting) -> None:
        self.waiting = more if self.waiting is None else self.waiting.followed_by(more)

    def clip(self, rows: Rows) -> Rows:
        """Clip values too many standard deviations away."""
        if self.bounds is None:
            return rows
        points, clipped = self.bounds.clip(rows.points)
        self.clipped += int(np.count_nonzero(clipped & rows.accepted))
        return replace(rows, points=points)

    def seal(self, leaf: Leaf, observed: Observed, *, ends_a_span: bool) -> SealedLeaf:
        """Return what a full leaf holds, which begins anew, with what waited and is the stream's own.

        A first leaf is bounded by itself. At the end of a span nothing goes on waiting.
        """
        rows, is_plain = leaf.points, leaf.screened is None
        bounds = first_bounds(self._coreset, self.outlier_bounds, rows)
        points, extent = leaf.seal(observed)
        points = rows if is_plain else points
        drawn_in, used = points, None
        if bounds is not None:
            judged = first_judged(bounds, points, self._coreset)
            if judged.found is not None:
                note_in_leaf(self._tally, judged.found, self._partition, extent, self.places)
                drawn_in, stay, used = judged.points, judged.stay(), bounds
                points = drawn_in.take(stay)
                if judged.waits is not None:
                    self._let_wait(Waiting(rows.take(judged.waits), drawn_in.take(judged.waits)))
                extent = replace(extent, moments=self._moments(points))
        self._places, self._of_open_leaf = [], Tally()
        clip_sd = self._coreset.clip_sd
        if clip_sd is not None and self.bounds is None:
            points, clipped = freed_of_outliers(points, extent.moments, clip_sd)
            drawn_in = points
            self.clipped += int(np.count_nonzero(clipped))
            extent = replace(extent, moments=self._moments(points))
        came_in, extent = self._let_in(bounds or self.outlier_bounds, points, extent, ends_a_span=ends_a_span)
        if came_in is not None:
            points = Points.union([points, came_in])
        return SealedLeaf(
            points=points,
            extent=extent,
            rows=rows,
            drawn_in=drawn_in,
            first_bounds=used,
        )

    def draw_in_audit(self, bounds: OutlierBounds, audit: Sequence[Reservoir]) -> None:
        """Let audit samples have a first leaf, just sealed under bounds, as it is learned; what waits as it came."""
        for reservoir in audit:
            came = reservoir.points
            points, found = bounds.draw_in(came)
            if found is not None:
                strange = np.flatnonzero(differing_rows(came, points))
                if self.waiting is not None:
                    strange = strange[self.waiting.places(came.take(strange)) < 0]
                reservoir.put(strange, points.take(strange))

    def _let_in(
        self, bounds: OutlierBounds | None, points: Points, extent: Extent, *, ends_a_span: bool
    ) -> tuple[Points | None, Extent]:
        """Return the rows that need not wait any more, and the extent with them."""
        if self.waiting is None or bounds is None:
            return None, extent
        judged = Judged.of(self.waiting, bounds, [points])
        came_in, moments = [judged.own], extent.moments.add(judged.own)
        self.waiting = judged.others if len(judged.others) else None
        if ends_a_span and self.waiting is not None:
            came_in.append(judged.others.learned.take(judged.others.only_heavy()))
            moments = moments.add(judged.others.learned)
            self.waiting = None
        rows = Points.union(came_in)
        return rows if len(rows) else None, replace(extent, moments=moments)

    def _moments(self, points: Points) -> Moments:
        return Moments.zero(self._dimension, self._classes).add(points)


def first_bounds(coreset: CoresetConfig, sealed: OutlierBounds | None, leaf: Points) -> OutlierBounds | None:
    """Return the bounds of an open first leaf, before which nothing was sealed; None if it is no such leaf."""
    if coreset.max_leverage is None or sealed is not None or not len(leaf):
        return None
    return OutlierBounds.of_first_leaf(leaf, coreset.max_leverage)


def room_of(coreset: CoresetConfig) -> int:
    """Return how many rows of a partition may wait; none where all are clipped."""
    if coreset.clip_sd is not None:
        return 0
    return min(MOST_ROOM, max(LEAST_ROOM, coreset.leaf_rows // WAITING_ONE_OF))


def first_judged(bounds: OutlierBounds, points: Points, coreset: CoresetConfig) -> SortedOut:
    """Sort out a first leaf by its own bounds; as many strangers wait as there is room for, the earliest."""
    judged = bounds.sort_out(points)
    if judged.found is None:
        return judged
    waits = np.flatnonzero(differing_rows(points, judged.points))[: room_of(coreset)]
    return replace(judged, waits=waits if len(waits) else None)


def note_in_leaf(tally: Tally, found: Found, partition: int, leaf: Extent, places: tuple[Places, ...]) -> None:
    """Add the outliers found in a first leaf to a tally; without places, they stand somewhere in the leaf."""
    if not places:
        note(tally, found, partition, leaf.start, leaf.end)
        return
    offset, row = (np.concatenate(parts) for parts in zip(*places, strict=True))
    note(tally, found, partition, Position(int(offset[found.worst.row]), int(row[found.worst.row])), None)


def note(tally: Tally, found: Found, partition: int, begin: Position, end: Position | None) -> None:
    """Add outliers to a tally, the farthest of which begins at a position; without an end, it is that one row."""
    worst, after = found.worst, end or Position(begin.offset, begin.row + 1)
    outlier = Outlier(
        partition=partition,
        begin=begin,
        end=after,
        feature=worst.feature,
        value=worst.value,
        bound=worst.bound,
        excess=worst.size,
    )
    tally.note(found.rows, found.weights, outlier)

"""The bounds within which the rows of a partition are learned, and what was drawn into them.

Rows are bounded by what is sealed before them: by `coreset.max_leverage` at outliers, by `coreset.clip_sd` at standard
deviations. The rows of a first leaf, before which nothing is sealed, get bounds of their own when the leaf is sealed.

Invariant: bounds are a pure function of the sealed buckets. Tallies are for people: no checkpoint holds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import CoresetConfig
from streamsvm.coreset.clipping import FeatureRanges, freed_of_outliers
from streamsvm.coreset.leaf import Leaf
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.outliers import Found, Outlier, OutlierBounds, Tally
from streamsvm.coreset.reducers.base import Observed
from streamsvm.coreset.structure import Bucket, Extent
from streamsvm.points import Points, Position, Rows

Places = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Offsets and rows of accepted points, in their order."""


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
    """

    def __init__(self, partition: int, coreset: CoresetConfig, dimension: int, classes: int) -> None:
        self._partition, self._coreset = partition, coreset
        self._dimension, self._classes = dimension, classes
        self.bounds: FeatureRanges | None = None
        self.outlier_bounds: OutlierBounds | None = None
        self.clipped = 0
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
        """What `coreset.max_leverage` clipped since this object was made, with the last cut of an open first leaf."""
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

    def reopen(self, held: int) -> None:
        """Go on from a checkpoint, in which an open leaf holds so many points; `renew` comes next."""
        self._of_open_leaf, self._places = Tally(), None if held else []

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

    def drawn_in(self, rows: Rows) -> Rows:
        """Clip values beyond the bounds of the sealed leaves; of a first leaf, only record where its points are."""
        if self.outlier_bounds is None:
            if self._places is not None and self._coreset.max_leverage is not None:
                self._places.append((rows.offset[rows.accepted], rows.row[rows.accepted]))
            return rows
        points, found = self.outlier_bounds.draw_in(rows.points, rows.accepted)
        if found is None:
            return rows
        at = found.worst.row
        note(self._tally, found, self._partition, Position(int(rows.offset[at]), int(rows.row[at])), None)
        return replace(rows, points=points)

    def clip(self, rows: Rows) -> Rows:
        """Clip values too many standard deviations away."""
        if self.bounds is None:
            return rows
        points, clipped = self.bounds.clip(rows.points)
        self.clipped += int(np.count_nonzero(clipped & rows.accepted))
        return replace(rows, points=points)

    def seal(self, leaf: Leaf, observed: Observed) -> tuple[Points, Extent]:
        """Return what a full leaf holds, which begins anew; a first leaf is clipped by its own bounds."""
        bounds = first_bounds(self._coreset, self.outlier_bounds, leaf.points)
        points, extent = leaf.seal(observed)
        if bounds is not None:
            points, found = bounds.draw_in(points)
            if found is not None:
                note_in_leaf(self._tally, found, self._partition, extent, self.places)
                extent = replace(extent, moments=self._moments(points))
        self._places, self._of_open_leaf = [], Tally()
        clip_sd = self._coreset.clip_sd
        if clip_sd is None or self.bounds is not None:
            return points, extent
        points, clipped = freed_of_outliers(points, extent.moments, clip_sd)
        self.clipped += int(np.count_nonzero(clipped))
        return points, replace(extent, moments=self._moments(points))

    def _moments(self, points: Points) -> Moments:
        return Moments.zero(self._dimension, self._classes).add(points)


def first_bounds(coreset: CoresetConfig, sealed: OutlierBounds | None, leaf: Points) -> OutlierBounds | None:
    """Return the bounds of an open first leaf, before which nothing was sealed; None if it is no such leaf."""
    if coreset.max_leverage is None or sealed is not None or not len(leaf):
        return None
    return OutlierBounds.of_first_leaf(leaf, coreset.max_leverage)


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

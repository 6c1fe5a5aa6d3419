"""The bound within which the rows of a partition are learned, and what was drawn into it.

Rows are drawn in by what is sealed before them (`streamsvm.coreset.outliers`). The rows of a first leaf, before which
nothing is sealed, are kept as they came, and drawn in by a bound of their own when the leaf is sealed, and in each cut
that is taken before.

Invariant: the bound is a pure function of the sealed buckets, so that a checkpoint need not hold it. Tallies are for
people: no checkpoint holds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from streamsvm.coreset.audit_sample import Reservoir
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.outliers import Found, RowBound, Tally
from streamsvm.coreset.structure import Extent
from streamsvm.points import Points, Position, Rows

Places = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Offsets and rows of accepted points, in their order."""


class Bounding:
    """Bounds the rows of one partition.

    Parameters
    ----------
    partition : int

    Attributes
    ----------
    bound : RowBound or None
        That of the next row; None before anything was sealed.
    """

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self.bound: RowBound | None = None
        self._places: list[Places] | None = []
        self._tally, self._of_open_leaf = Tally(), Tally()

    @property
    def places(self) -> tuple[Places, ...]:
        """Where the points of a first leaf stand in the log; empty where that is not known."""
        return tuple(self._places or ())

    @property
    def tally(self) -> Tally:
        """What was drawn in since this was made, with the last cut of an open first leaf."""
        whole = Tally()
        whole.add(self._tally)
        whole.add(self._of_open_leaf)
        return whole

    def note_first_leaf(self, tally: Tally) -> None:
        """Take in what was drawn in of an open first leaf at a cut, unless that leaf is sealed by now.

        Replaced, not added to: every cut looks at the same open leaf again, and must not count its outliers twice.
        """
        if self.bound is None:
            self._of_open_leaf = tally

    def reopen(self, held: int) -> None:
        """Go on from a checkpoint, in which an open leaf holds so many points; `renew` comes next."""
        self._of_open_leaf, self._places = Tally(), None if held else []

    def renew(self, sealed: Moments | None) -> None:
        """Compute the bound from the moments of what is sealed."""
        self.bound = RowBound.of_moments(sealed) if sealed is not None and sealed.count else None

    def draw_in(self, rows: Rows) -> Rows:
        """Draw rows in; of a first leaf, only record where its points are."""
        if self.bound is None:
            if self._places is not None:
                self._places.append((rows.offset[rows.accepted], rows.row[rows.accepted]))
            return rows
        points, found = self.bound.draw_in(rows.points, rows.accepted)
        if found is None:
            return rows
        begin = Position(int(rows.offset[found.row]), int(rows.row[found.row]))
        self._tally.note(found, self._partition, begin, Position(begin.offset, begin.row + 1))
        return replace(rows, points=points)

    def seal(self, points: Points, extent: Extent, audit: Sequence[Reservoir]) -> tuple[Points, Extent]:
        """Return a sealed leaf as it is learned: a first one is drawn in, and so are its rows in the audit samples."""
        drawn_in, moments, found = first_drawn_in(self.bound, points, extent.moments)
        if found is not None:
            note_in_leaf(self._tally, found, self._partition, extent, self.places)
            bound = RowBound.of_first_leaf(points)
            for reservoir in audit:
                reservoir.put(bound.draw_in(reservoir.points)[0])
        self._places, self._of_open_leaf = [], Tally()
        return drawn_in, replace(extent, moments=moments)


def first_drawn_in(sealed: RowBound | None, points: Points, moments: Moments) -> tuple[Points, Moments, Found | None]:
    """Return the points of a first leaf within its own bound, their moments and what was drawn in.

    A leaf that something was sealed before is returned as it is.
    """
    if sealed is not None or not len(points):
        return points, moments, None
    drawn_in, found = RowBound.of_first_leaf(points).draw_in(points)
    if found is None:
        return points, moments, None
    return drawn_in, Moments.zero(points.dimension, len(moments.class_weight)).add(drawn_in), found


def note_in_leaf(tally: Tally, found: Found, partition: int, leaf: Extent, places: tuple[Places, ...]) -> None:
    """Add the outliers found in a first leaf to a tally; without places, they stand somewhere in the leaf."""
    if not places:
        tally.note(found, partition, leaf.start, leaf.end)
        return
    offset, row = (np.concatenate(parts) for parts in zip(*places, strict=True))
    begin = Position(int(offset[found.row]), int(row[found.row]))
    tally.note(found, partition, begin, Position(begin.offset, begin.row + 1))

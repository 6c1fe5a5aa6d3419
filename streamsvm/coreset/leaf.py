"""The open leaf of a partition: rows that are not reduced yet.

Each `streamsvm.learning.partition.Partition` has one. It adds rows until the leaf is full, takes its content by `seal`,
and the same object begins the next leaf. There are two kinds of leaves. A plain one keeps every accepted row, and is
full after `rows` rows. A screened one spans many more rows than it has room for: a screen, made from the buckets before
it (`streamsvm.coreset.screening`), decides for each row whether it is kept, and under which weight.

Invariant: a leaf is full after a count of rows *seen*, accepted or not, never of points kept; where it is screened, the
screen alone determines that count. So neither batches nor the clock can move the border between two leaves.

Memory is allocated once, for the most points that can be kept. `state` returns views of it, for a cut or a checkpoint,
and copies nothing: from then on the leaf appends behind what was handed out, and takes new memory before it would
change it (`_own`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from streamsvm.coreset.moments import Moments
from streamsvm.coreset.reducers.base import Observed
from streamsvm.coreset.screens import LeafScreened, LeafScreener
from streamsvm.coreset.structure import Extent
from streamsvm.points import Points, Position, Rows


class Leaf:
    """The rows of one partition that are not reduced yet: all of at most `rows` seen, or what screening kept of more.

    Parameters
    ----------
    start : Position
    rows : int
        Most points that it holds, whose memory is allocated at once; unless it is screened, it is full after as many
        rows.
    dimension : int
    dtype : numpy dtype of the features
    classes : int
        Whose totals its moments have.
    """

    def __init__(
        self,
        start: Position,
        rows: int,
        dimension: int,
        dtype: np.dtype[np.floating],
        classes: int = 2,
    ) -> None:
        self._buffer = Points(np.empty((rows, dimension), dtype), np.empty(rows, np.int8), np.empty(rows, np.float64))
        self._shared = False
        self._capacity = rows
        # One object for every leaf: moments are never changed in place.
        self._nothing = Moments.zero(dimension, classes)
        self._reset(start)

    def __len__(self) -> int:
        return self._kept

    @property
    def count(self) -> int:
        """Valid points seen."""
        return self._extent.moments.count if self._screener is None else self._screener.state.accepted

    def state(self) -> tuple[Points, Extent, LeafScreened | None]:
        """Return points, extent and screen as they are now; what is added later does not change them.

        The points are views. From here on the leaf does not change their memory: it appends behind them, and takes new
        memory before it would have to change them.
        """
        self._shared = True
        state = None if self._screener is None else self._screener.state
        return self.points, self.extent, None if state is None else state.copy()

    def _own(self, kept: int) -> None:
        """Take new memory, and copy the first points of the old, if `state` returned views of the old."""
        if self._shared:
            old, self._buffer = self._buffer, _like(self._buffer)
            _write(self._buffer, old.take(slice(0, kept)))
            self._shared = False

    def _reset(self, start: Position) -> None:
        self._own(0)
        self._kept = 0
        self._extent = Extent(start=start, end=start, rows=0, first_time_ms=-1, last_time_ms=-1, moments=self._nothing)
        self._screener: LeafScreener | None = None

    def screen(self, screener: LeafScreener) -> None:
        """Screen an empty leaf: from now on the screen determines its span."""
        # A screen decides for every row of its leaf, so that what is kept depends on the leaf alone.
        assert not self._extent.rows
        self._screener = screener

    @property
    def extent(self) -> Extent:
        """What the leaf has seen."""
        if self._screener is None:
            return self._extent
        # A screened leaf does not hold every row: its screener keeps the exact moments instead.
        return replace(self._extent, moments=self._screener.state.moments)

    @property
    def rows(self) -> int:
        """Rows seen."""
        return self._extent.rows

    @property
    def end(self) -> Position:
        """The next row to learn."""
        return self._extent.end

    @property
    def points(self) -> Points:
        """The points kept, as views into the leaf's buffer: copy what must outlive the next `add`.

        Without a screen these are the accepted points; with one, a sample whose weights are right in expectation.
        """
        return self._buffer.take(slice(0, self._kept))

    @property
    def screened(self) -> LeafScreened | None:
        """The state of the screen, if there is one; its arrays change with the next `add`."""
        return None if self._screener is None else self._screener.state

    def calibrated(self, observed: Observed) -> Points:
        """Return the points kept, under weights that meet the exact totals of all rows seen; note how it went."""
        return self.points if self._screener is None else self._screener.state.calibrated(self.points, observed)

    @property
    def missing(self) -> int:
        """Rows still to be seen before it is full."""
        span = self._capacity if self._screener is None else self._screener.state.screen.rows
        return span - self._extent.rows

    @property
    def full(self) -> bool:
        """Whether it must be sealed before it can take another row."""
        return not self.missing

    def add(self, rows: Rows) -> None:
        """Add at most `missing` consecutive rows."""
        seen = len(rows)
        assert seen <= self.missing
        so_far, (first, last) = self._extent, rows.times.ends()
        self._extent = Extent(
            start=so_far.start,
            end=rows.position_after(seen - 1),
            rows=so_far.rows + seen,
            first_time_ms=first if so_far.first_time_ms < 0 else so_far.first_time_ms,
            last_time_ms=so_far.last_time_ms if last < 0 else last,
            moments=so_far.moments,
        )
        if self._screener is None:
            self._keep(rows.points if rows.accepted.all() else rows.points.take(rows.accepted))
        else:
            # Before the rows are screened: when there is no room left, a screen halves what it keeps, in place.
            self._own(self._kept)
            self._kept = self._screener.screen(rows.points, rows.accepted, self._buffer, self._kept)

    def _keep(self, accepted: Points) -> None:
        stop = self._kept + len(accepted)
        self._buffer.X[self._kept : stop] = accepted.X
        self._buffer.y[self._kept : stop] = accepted.y
        self._buffer.weight[self._kept : stop] = accepted.weight
        self._kept = stop
        self._extent = replace(self._extent, moments=self._extent.moments.add(accepted))

    def restore(self, points: Points, extent: Extent, screener: LeafScreener | None = None) -> None:
        """Put a checkpoint's content in place."""
        self._screener = screener
        assert len(points) <= min(extent.rows, self._capacity)
        self._own(0)
        self._kept = len(points)
        _write(self._buffer, points)
        self._extent = extent if screener is None else replace(extent, moments=self._nothing)
        assert self.missing >= 0

    def seal(self, observed: Observed | None = None) -> tuple[Points, Extent]:
        """Begin the next leaf, without a screen; return the points of the full one, and the extent they stand for.

        The points are calibrated if they were screened, and views: use or copy them before the next `add`.
        """
        assert self.full
        sealed = self.calibrated(Observed() if observed is None else observed), self.extent
        self._reset(self._extent.end)
        return sealed


def _like(buffer: Points) -> Points:
    return Points(np.empty_like(buffer.X), np.empty_like(buffer.y), np.empty_like(buffer.weight))


def _write(buffer: Points, points: Points) -> None:
    kept = slice(0, len(points))
    buffer.X[kept], buffer.y[kept], buffer.weight[kept] = points.X, points.y, points.weight

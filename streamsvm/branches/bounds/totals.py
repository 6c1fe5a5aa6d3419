r"""Totals of the rows that a coreset does not hold any more: what bounds of the whole stream's optimum are made of.

A row is either *held*, with the weight that it came with (`Totals.own`; the coreset may use it under another one), or
*condensed*: added to a stratum of rows of one label, on one side of the hinge's kink under one machine, and about
equally far from it. Each row is counted once, and as it came: where another row was learned in its place
(`coreset.outliers`, `coreset.clipping`), what the coreset holds of that counts for nothing, and the row that came is
held beside it or condensed. So no bound is charged for the difference. How far rows were moved is added up for what an
audit of the others estimates (`Changed`). Rows that are condensed at one time make an *epoch*, with the machine v0 =
(w0, b0) of then and a length |a| of rows a = y (z, 1) in a metric of then, |a| = |(z, 1) P|.

What follows for every machine v, C and class weights being positive factors:

- *From below.* The hinge of a stratum's mean, times its weight, is at most the sum of its rows' hinges (Jensen).
- *From above.* With the slack s0 = 1 - <a, v0> of a row, hinge(v) is its slack under v if s0 > 0, and 0 otherwise, and
  no more than max(0, |v - v0|* |a| - |s0|) besides, |v|* = |P^-1 v| being the dual norm. So a stratum of total length
  `length`, of which no row is nearer the kink than `nearest` times its length, adds at most
  max(0, |v - v0|* - nearest) length to what its sums say.

Epochs are bounded in number: of one too many, the two neighbours of least weight become one, in the later one's
machine and metric. With r = |v0 - v0'|* and kappa >= |P^-1 P'|, lengths become kappa times as long and distances
(nearest - r) / kappa: both bounds stay valid, and the upper one loses what is between.

Sums are plain float64. `error` bounds what rounding may have moved the sums of all strata of an epoch by, together.

Invariant: whatever a reducer or a bound on outliers did, every row is counted exactly once, as it came; a pure function
of the rows' order, never of how they were cut into batches.

Sources: Ogawa, Suzuki, Takeuchi 2013 (rows on one side of the kink are sums); Ndiaye, Fercoq, Gramfort, Salmon 2017
(balls around a machine of which the best is known to be in).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.branches.bounds.epochs import Epoch, Mask, merged
from streamsvm.branches.bounds.frames import FUDGE, Frame, frame_of, measured
from streamsvm.branches.bounds.totals_kernels import EPS, STRATA, condense, places
from streamsvm.coreset.accounting import Account, differing
from streamsvm.coreset.band import least_of
from streamsvm.coreset.reducers.base import Pilot
from streamsvm.linalg import Float
from streamsvm.points import Points

MOST_EPOCHS: Final = 24
"""Epochs of a bucket; of a stream whose leaves grow by a quarter, those of the latest 90 per cent, about, stay as they
were."""
POINTS_AN_EPOCH: Final = 100
"""A bucket of fewer points has fewer epochs: at least one."""
BESIDE: Final = 0.2
"""Rows that are held beside a bucket, or a screened leaf, for the bounds alone, as a share of its points."""
EXPECTED: Final = 0.7
"""Share of a screened leaf's rows beside that is expected to be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """Rows that were learned with other values than they came with, and how far that moved them.

    A hinge is homogeneous and moves no faster than its slack. So the losses u max(0, 1 - y f(x)) of a row, as it came
    and as it was learned (u', x'), differ by no more than |u - u'| (1 + |f(0)|) + sum_j |w_j| |u x_j - u' x'_j|.

    Attributes
    ----------
    rows : int
    weight : ndarray of shape (2,)
        Of each label, the sum of |u - u'|.
    moved : ndarray of shape (2, d)
        Of each label, the sums of |u x - u' x'|.
    """

    rows: int
    weight: Float
    moved: Float

    @staticmethod
    def none(dimension: int) -> Changed:
        """Return what is known of no rows."""
        return Changed(rows=0, weight=np.zeros(2), moved=np.zeros((2, dimension)))

    def add(self, learned: Points, came: Points) -> Changed:
        """Return what is known with more rows, all of them changed; a pure function of their order."""
        label, weight, moved = (came.y > 0).astype(np.intp), self.weight.copy(), self.moved.copy()
        np.add.at(weight, label, np.abs(came.weight - learned.weight))
        with np.errstate(all="ignore"):
            apart = came.weight[:, None] * came.X.astype(np.float64) - learned.weight[:, None] * learned.X
            np.add.at(moved, label, np.abs(apart))
        return Changed(rows=self.rows + len(came), weight=weight, moved=moved)

    def join(self, other: Changed) -> Changed:
        """Return what is known of these rows and others."""
        return Changed(rows=self.rows + other.rows, weight=self.weight + other.weight, moved=self.moved + other.moved)


@dataclass(slots=True, kw_only=True)
class Condensed:
    """An epoch in the making: its arrays are added to.

    Attributes
    ----------
    frame : Frame
    rows : int
    weight, length, nearest : ndarray of shape (STRATA,)
    sums : ndarray of shape (STRATA, d)
    spread : ndarray of shape (d,)
        Sum of u |z|.
    own : ndarray of shape (m,)
        Of a screened leaf, the weights that the held points came with; more than are in use.
    held_beside : tuple of Points
        Rows that were not added, because they are near, under their own weights.
    border : float
        How near, in lengths.
    most : int
        Of rows beside.
    changed : Changed or None
        None where every row was learned as it came.
    """

    frame: Frame
    rows: int
    weight: Float
    length: Float
    nearest: Float
    sums: Float
    spread: Float
    own: Float
    held_beside: tuple[Points, ...]
    border: float = 0.0
    most: int = 0
    changed: Changed | None = None
    _room: int = field(init=False)
    _how: tuple[Float, tuple[float, float], NDArray[np.float32], float, float] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        frame = self.frame
        self._how = frame.scaling, frame.size, frame.factor, frame.spread, self.border
        self._room = self.most - sum(map(len, self.held_beside))

    @property
    def beside(self) -> Points:
        """Rows that were not added."""
        return Points.union(self.held_beside)

    @classmethod
    def begin(
        cls, frame: Frame, dtype: np.dtype[np.floating], held: int = 0, border: float = 0.0, most: int = 0
    ) -> Condensed:
        """Begin an epoch without rows, of a leaf that may hold so many points."""
        d = frame.scaling.shape[1]
        return cls(
            frame=frame,
            rows=0,
            weight=np.zeros(STRATA),
            length=np.zeros(STRATA),
            nearest=np.full(STRATA, np.inf),
            sums=np.zeros((STRATA, d)),
            spread=np.zeros(d),
            own=np.zeros(held),
            held_beside=(Points.empty(d, dtype),),
            border=border,
            most=most,
        )

    def add(self, points: Points, weight: Float, margin: Float, which: Mask) -> None:
        """Condense some of the points, in their order, with these weights and margins under the frame's machine."""
        aside = np.zeros(len(points), np.bool_)
        self.rows += condense(
            points.X,
            points.y,
            weight,
            margin,
            which,
            *self._how,
            self._room,
            aside,
            self.weight,
            self.length,
            self.nearest,
            self.sums,
            self.spread,
        )
        if np.count_nonzero(aside):
            found = points.take(aside).reweighted(weight[aside])
            self.held_beside = (*self.held_beside, found)
            self._room -= len(found)

    def note_changed(self, points: Points, came: Points, accepted: Mask) -> Mask | None:
        """Add up how far accepted rows were moved; return which were, shape (n,), or None if none was."""
        differ = accepted & differing(points, came)
        if not differ.any():
            return None
        before = self.changed or Changed.none(points.dimension)
        self.changed = before.add(points.take(differ), came.take(differ))
        return differ

    def account(self, points: Points) -> Totals:
        """Return the totals of the leaf, which holds these points."""
        epoch = self.epoch()
        own = self.own[: len(points)].copy()
        return Totals(own, self.beside, () if epoch is None else (epoch,), self.changed)

    def copy(self, held: int | None = None) -> Condensed:
        """Return a copy with its own arrays, with the weights of so many points."""
        own = self.own if held is None else self.own[:held]
        return Condensed(
            frame=self.frame,
            rows=self.rows,
            weight=self.weight.copy(),
            length=self.length.copy(),
            nearest=self.nearest.copy(),
            sums=self.sums.copy(),
            spread=self.spread.copy(),
            own=own.copy(),
            held_beside=self.held_beside,
            border=self.border,
            most=self.most,
            changed=self.changed,
        )

    def epoch(self) -> Epoch | None:
        """Return what there is so far; None without rows."""
        if not self.rows:
            return None
        used = (self.weight > 0.0).nonzero()[0]
        return Epoch(
            frame=self.frame,
            rows=self.rows,
            stratum=used,
            weight=self.weight[used],
            length=self.length[used],
            nearest=self.nearest[used],
            sums=self.sums[used],
            error=(self.rows + 8.0) * EPS * self.spread * FUDGE,
        )


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Rows of an open leaf, not screened, that did not come as they are.

    Attributes
    ----------
    changed : Changed
    rows : tuple of (ndarray of shape (k,), Points)
        Which of the leaf's points, and the rows as they came.
    """

    changed: Changed
    rows: tuple[tuple[NDArray[np.intp], Points], ...]

    @staticmethod
    def none(dimension: int) -> ChangedRows:
        """Return no rows."""
        return ChangedRows(Changed.none(dimension), ())

    def add(self, learned: Points, came: Points, at: NDArray[np.intp]) -> ChangedRows:
        """Return these with more rows, all of them changed, and where they stand among the leaf's points."""
        return ChangedRows(self.changed.add(learned, came), (*self.rows, (at, came)))

    def account(self, points: Points) -> Totals:
        """Return the totals of the leaf, which holds these points."""
        own, beside = points.weight.copy(), Points.union([points for _, points in self.rows])
        for at, _ in self.rows:
            own[at] = 0.0
        return Totals(own, beside, changed=self.changed)


@dataclass(frozen=True, slots=True)
class Totals:
    """What is known of all rows that a set of points stands for.

    Attributes
    ----------
    own : ndarray of shape (n,)
        The weight that each point came with; 0 of a point that is not counted: it is a condensed row's, too, or did not
        come as it is.
    beside : Points
        Rows that the coreset does not hold, near the kink or just come, under their own weights.
    epochs : tuple of Epoch
        The oldest first, at most `MOST_EPOCHS` of a bucket.
    changed : Changed or None
        None where every row was learned as it came.
    """

    own: Float
    beside: Points
    epochs: tuple[Epoch, ...] = ()
    changed: Changed | None = None

    @staticmethod
    def of_rows(learned: Points, came: Points) -> Totals:
        """Return the totals of rows that were all kept, each of which was learned as it came or with other values."""
        differ = differing(learned, came)
        beside = came.take(differ)
        changed = Changed.none(came.dimension).add(learned.take(differ), beside) if len(beside) else None
        return Totals(np.where(differ, 0.0, learned.weight), beside, changed=changed)

    def followed_by(self, later: Sequence[Account]) -> Totals:
        """Return the totals of these rows and of later ones."""
        return Totals.union([self, *(one for one in later if isinstance(one, Totals))])

    def reopened(self) -> ChangedRows:
        """Return these as those of an open leaf that is not screened."""
        assert self.changed is not None
        return ChangedRows(self.changed, ((np.flatnonzero(self.own == 0.0), self.beside),))

    @staticmethod
    def union(parts: Sequence[Totals]) -> Totals:
        """Return the totals of several sets, the oldest first."""
        return Totals(
            np.concatenate([part.own for part in parts]),
            Points.union([part.beside for part in parts]),
            tuple(epoch for part in parts for epoch in part.epochs),
            all_changed(part.changed for part in parts),
        )

    def after(self, points: Points, kept: Points, pilot: Pilot | None) -> Totals:
        """Return the totals of what a reduction kept; what it did not keep is condensed under its pilot.

        Parameters
        ----------
        points : Points
            What these totals are of.
        kept : Points
            Some of them, in their order, under any weights.
        pilot : Pilot or None
        """
        # Whichever of equal points was kept, one of them is held: they are exchangeable.
        own, is_left = np.empty(len(kept)), np.empty(len(points), np.bool_)
        places(points.X, points.y, self.own, kept.X, kept.y, own, is_left)
        left = is_left.nonzero()[0]
        with np.errstate(all="ignore"):  # rows as they came: up to the largest numbers that are accepted
            frame, *of_points = frame_of(points, pilot)
            pairs = zip(measured(self.beside, frame), of_points, strict=True)
            margin, distance = (np.concatenate([beside, here.take(left)]) for beside, here in pairs)
        rows = Points.union([self.beside, Points(points.X.take(left, axis=0), points.y[left], self.own[left])])
        nearest, goes = least_of(distance, int(BESIDE * len(kept))), np.ones(len(rows), np.bool_)
        goes[nearest] = False
        condensed = Condensed.begin(frame, points.X.dtype)
        condensed.add(rows, rows.weight, margin, goes)
        epoch = condensed.epoch()
        epochs = self.epochs if epoch is None else (*self.epochs, epoch)
        return Totals(own, rows.take(nearest), epochs, self.changed).bounded(len(kept))

    def bounded(self, points: int) -> Totals:
        """Return the same with no more epochs than a bucket of so many points has."""
        epochs, most = list(self.epochs), max(1, min(MOST_EPOCHS, points // POINTS_AN_EPOCH))
        while len(epochs) > most:
            heavy = [float(older.weight.sum() + newer.weight.sum()) for older, newer in pairwise(epochs)]
            at = heavy.index(min(heavy))
            epochs[at : at + 2] = [merged(epochs[at], epochs[at + 1])]
        return replace(self, epochs=tuple(epochs))


def all_changed(parts: Iterable[Changed | None]) -> Changed | None:
    """Return what is known of the changed rows of all parts."""
    known = [part for part in parts if part is not None]
    return reduce(Changed.join, known) if known else None


@dataclass(frozen=True, slots=True)
class Ledger:
    """All rows up to a cut, each counted once: some as they are, the others in epochs.

    Attributes
    ----------
    points : Points
        Held points, under any weights; those of the training set itself where these are the same.
    totals : Totals
    """

    points: Points
    totals: Totals

    @staticmethod
    def of(parts: Sequence[tuple[Points, Totals]], training_set: Points) -> Ledger:
        """Return the ledger of all partitions' buckets and open leaves, in their order."""
        held = [(points, totals) for points, totals in parts if len(points) or len(totals.beside) or totals.epochs]
        points = Points.union([points for points, _ in held]) if held else training_set
        same = len(points) == len(training_set) and all(
            one.tobytes() == other.tobytes()
            for one, other in zip(_columns(points), _columns(training_set), strict=True)
        )
        whole = (
            Totals.union([totals for _, totals in held])
            if held
            else Totals(np.zeros(len(points)), points.take(slice(0, 0)))
        )
        return Ledger(training_set if same else points, whole)

    def shares(self, points: Points) -> bool:
        """Return whether its points are these."""
        return self.points is points

    @property
    def rows(self) -> Points:
        """The rows that were kept as they came, under their own weights."""
        counted = self.totals.own > 0.0
        held = self.points.take(counted).reweighted(self.totals.own[counted])
        return Points.union([held, self.totals.beside])


def _columns(points: Points) -> tuple[NDArray[Any], ...]:
    return points.X, points.y, points.weight

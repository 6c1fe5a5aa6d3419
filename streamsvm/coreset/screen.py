"""Screening: which rows of a long leaf are kept, row by row, in one compiled pass, and what all of them add up to.

A row of weight u is kept with probability pi = min(1, rate u worth), its worth being that of the pilot of everything
that was sealed before (where rows are forgotten, of its span only). The rate is such that about `TARGET` of the leaf's
room is used. Rows are sampled systematically in strata of label and margin: the row that lifts a stratum's sum of pi to
1 or past it is kept, with weight u / pi. The first row of each label is kept for certain; of a label that nothing is
known of, some more. If the room is used up, because the stream has changed, the rate is halved, and kept points stay
with the probability of their rows at the new rate over that at the old.

Every row adds to exact totals, row after row, to which kept points are calibrated when the leaf is sealed or cut. Rows
are taken `BLOCK` at a time, feature by feature, so that arithmetic runs across rows and no sum is reordered: nothing
depends on where a batch ends, and no library's linear algebra is used.

Source: Madow 1949 (systematic sampling).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from streamsvm.compiling import njit
from streamsvm.coreset.buckets import Extent, Float, Labels, Moments, label_index
from streamsvm.coreset.pilot import (
    DELTA,
    EVEN,
    LARGEST_WORTH,
    Measured,
    Pilot,
    again,
    placed,
    pull,
    slope,
    square_lengths,
)
from streamsvm.coreset.reduce import Observed, Purpose, Totals, by_margin, calibrated, generator
from streamsvm.points import Points, Rows

BLOCK: Final = 128
BINS: Final = 32
"""Strata of margin for each label, `BIN_WIDTH` wide, the border between active and inactive in their middle."""
BIN_WIDTH: Final = 0.2
ROWS_AT_ONCE: Final = 4_096
TARGET: Final = 0.85
"""Share of a leaf's room that is expected to be used; the rest is a reserve for a stream that changes."""
LEAST_ROOM: Final = 8
"""A leaf of less room, or of less than four points a label, is not screened."""
UNKNOWN: Final = 8
"""One part in so many of the room is for the first rows of labels that nothing is known of."""

Name = tuple[int, int, int]
"""Seed, partition and number of a leaf: the key of its random numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """The state of a screened leaf but for its points; arrays change in place while rows come.

    Attributes
    ----------
    pilot : Pilot
        Also where solving of the next one begins.
    rate : float
        Before any thinning.
    span : int
        Rows after which the leaf is full.
    certain : ndarray of shape (n_labels,), int64
        Rows of each label that are kept for certain.
    thinned : int
        Times the rate was halved.
    sums : ndarray of shape (n_labels, BINS)
        Running sum of pi of each stratum, in [0, 1).
    count : ndarray of shape (n_labels,), int64
        Accepted rows of each label.
    label, active, gradient
        As of `Totals`.
    square : ndarray of shape (2, d)
        Sums of u z and of u z^2.
    """

    pilot: Pilot
    rate: float
    span: int
    certain: Labels
    thinned: int
    sums: Float
    count: Labels
    label: Float
    active: Float
    gradient: Float
    square: Float

    @classmethod
    def begin(cls, found: Measured, whole: Extent, span: int, room: int, name: Name) -> Screen:
        """Return the screen of a leaf of so many rows; `found` stands for the rows of `whole`, all that were sealed."""
        pilot, (p, labels) = found.pilot, found.pilot.side.shape
        d, u, seen = found.rows.shape[1] - 1, found.points.weight, whole.moments
        known = np.bincount(found.label, minlength=labels) > 0
        expected = u * (span * seen.count / whole.rows / float(u.sum()))
        return cls(
            pilot=pilot,
            rate=_rate(found.worth * (seen.weight / seen.count), expected, TARGET * room),
            span=span,
            certain=np.where(known, 1, max(1, room // (UNKNOWN * labels))).astype(np.int64),
            thinned=0,
            sums=_starts(name, labels),
            count=np.zeros(labels, np.int64),
            label=np.zeros(labels),
            active=np.zeros((p, 2)),
            gradient=np.zeros((p, 0 if pilot.landmarks else d)),
            square=np.zeros((2, d)),
        )

    def copy(self) -> Screen:
        """Return the same state in arrays of its own."""
        own = ("sums", "count", "label", "active", "gradient", "square")
        return replace(self, **{name: getattr(self, name).copy() for name in own})

    @property
    def moments(self) -> Moments:
        """Exact moments of all accepted rows, kept or not."""
        total = float(np.add.accumulate(self.label)[-1])
        (mean, inverse), labels = self.pilot.scaling, len(self.label)
        if not total > 0.0:
            return Moments.zero(len(mean), labels)
        centre = self.square[0] / total
        # The difference of two rounded sums can fall below 0 where a feature is constant.
        square = np.maximum(self.square[1] - self.square[0] * centre, 0.0)
        return Moments(int(self.count.sum()), self.label.copy(), mean + centre / inverse, square / np.square(inverse))

    def calibrated(self, points: Points, observed: Observed) -> Points:
        """Return kept points under weights that meet the exact totals of all rows."""
        if not len(points):
            return points
        observed.reductions += 1
        _, rows, margin = placed(points, self.pilot)
        totals = Totals(self.label, self.active, self.gradient, self.square[0])
        return calibrated(points, rows, margin, totals, self.pilot, observed)


def screen(state: Screen, rows: Rows, buffer: Points, kept: int, name: Name) -> tuple[Screen, int]:
    """Write the rows that are kept, with their places, behind the first `kept` points of the buffer.

    Returns the state, whose arrays are those of before, and how many points the buffer holds; it is never full then.
    """
    pilot, labels = state.pilot, len(state.label)
    n = min(len(rows), ROWS_AT_ONCE)
    margin, worth, which = np.empty(n), np.empty(n), np.empty(n, np.int64)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        own = slice(start, start + ROWS_AT_ONCE)
        part = rows.points.take(own)
        decided = np.empty((0, len(part))) if pilot.rough is None else pilot.rough.decide(part)
        label = label_index(part.y, labels)
        label[~rows.accepted[own]] = -1
        _evaluate(
            part.X, label, part.weight, pilot.loss, pilot.scaling, pilot.class_weight, pilot.side, decided, pilot.w,
            pilot.centre, pilot.terms, pilot.root, margin, worth, state.active, state.gradient, state.square,
        )  # fmt: skip
        done = 0
        while done < len(part):
            rate = state.rate * 0.5**state.thinned
            done, fresh = _keep(
                label, part.weight, margin, worth, rate, done, state.certain, state.sums, state.count, state.label,
                which, buffer.weight[kept:], rows.offset[own], rows.row[own], buffer.places[kept:],
            )  # fmt: skip
            # Not by brackets, which copy a row value by value; with this mode nothing is copied twice.
            for values, room in ((part.X, buffer.X), (part.y, buffer.y)):
                values.take(which[:fresh], axis=0, out=room[kept : kept + fresh], mode="clip")
            if fresh and rows.id_hash is not None:
                buffer.places[kept : kept + fresh, 2] = rows.id_hash.take(start + which[:fresh]).known()
            kept += fresh
            while kept == len(buffer):
                # Counted and not multiplied: a power of two of the rate is the same bits after any restart.
                state = replace(state, thinned=state.thinned + 1)
                kept = _thin(state, buffer, name)
    return state, kept


def _thin(state: Screen, full: Points, name: Name) -> int:
    """Halve what is kept, in place; the first point of each label stays. Return how many points there are."""
    found = again(full, state.pilot)
    pi = np.minimum(1.0, state.rate * 0.5**state.thinned * full.weight * found.worth)
    pi[np.unique(found.label, return_index=True)[1]] = 1.0
    order = by_margin(found.pilot.own_margin(found.margin, found.label), found.label)
    random = generator(name[0], Purpose.SCREEN, (name[1], name[2], state.thinned)).random()
    stay = pi >= 1.0
    # Certain ones take no part in the sums of the others.
    ends = np.floor(np.cumsum(np.where(stay, 0.0, pi)[order]) + random)
    stay[order] |= np.diff(ends, prepend=0.0) > 0.0
    rows = np.flatnonzero(stay)
    full.X[: len(rows)], full.y[: len(rows)] = full.X[rows], full.y[rows]
    full.weight[: len(rows)], full.places[: len(rows)] = full.weight[rows] / pi[rows], full.places[rows]
    return len(rows)


def _starts(name: Name, labels: int) -> Float:
    return generator(name[0], Purpose.SCREEN, (name[1], name[2], 0)).random((labels, BINS))


def _rate(worth: Float, expected: Float, target: float) -> float:
    """Return the rate at which the sum of expected * min(1, rate * worth) is about the target."""
    rate, certain, size = 0.0, np.zeros(len(worth), np.bool_), expected * worth
    for _ in range(8):
        free = target - expected[certain].sum()
        total = size[~certain].sum()
        if free <= 0.0 or total <= 0.0:
            break
        rate = float(free / total)
        before, certain = certain, rate * worth >= 1.0
        if (before == certain).all():
            break
    return rate


@njit(cache=True, nogil=True)
def _evaluate(  # type: ignore[no-untyped-def]
    X, label, u, loss, scaling, factor, side, decided, w, centre, terms, root, margin, worth, active, gradient, square
):
    """Fill own margin and worth, shape (n,), of rows; add to active, gradient and square. Label -1: not accepted."""
    n, d = X.shape
    labels = len(factor)
    # A row of Z is longer than a block: at a power of two, rows that are written side by side share lines of the cache.
    R, Z = np.empty((BLOCK, d)), np.empty((d, BLOCK + 8))
    decision, apart, near, one = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    packed = np.zeros((d + 1, BLOCK), np.float32)
    along, length = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    for start in range(0, n, BLOCK):
        m = min(BLOCK, n - start)
        for i in range(m):
            if label[start + i] < 0:
                R[i] = 0.0
                continue
            for j in range(d):
                R[i, j] = (np.float64(X[start + i, j]) - scaling[0, j]) * scaling[1, j]
            v = u[start + i]
            for j in range(d):
                square[0, j] += v * R[i, j]
                square[1, j] += v * R[i, j] * R[i, j]
        for i in range(m):
            margin[start + i], worth[start + i] = 0.0, 0.0 if len(w) else 1.0
        for j in range(d):
            for i in range(m):
                Z[j, i] = R[i, j]
        for p in range(len(w)):
            for i in range(m):
                decision[i], apart[i] = w[p, d], 0.0
                one[i] = side[p, label[start + i]] if label[start + i] >= 0 else 0
            for j in range(d):
                c, low, high, z = w[p, j], centre[p, 0, j], centre[p, 1, j] - centre[p, 0, j], Z[j]
                for i in range(m):
                    decision[i] += c * z[i]
                    far = z[i] - (low + high * one[i])
                    apart[i] += far * far
            for i in range(m if len(decided) else 0):
                decision[i] = decided[p, start + i]
            nearby = 0
            for i in range(m):
                decision[i] = decision[i] if one[i] else -decision[i]
                own = decision[i]
                apart[i] = terms[p, one[i], 0] + min(
                    terms[p, one[i], 1] * apart[i], terms[p, one[i], 2] * np.sqrt(apart[i])
                )
                if one[i] or labels == 2:
                    margin[start + i] = own
                near[nearby] = i
                nearby += own < 1.0 + DELTA
            packed[d, :nearby] = 1.0
            for j in range(d):
                for i in range(nearby):
                    packed[j, i] = Z[j, near[i]]
            square_lengths(root[p], packed, nearby, along, length)
            for i in range(nearby):
                at = near[i]
                apart[at] += np.sqrt(length[i] * pull(loss, decision[at]))
                if decision[at] < 1.0 and label[start + at] >= 0:
                    v = u[start + at] * factor[label[start + at]] * slope(loss, decision[at])
                    active[p, one[at]] += v
                    v = v if one[at] else -v
                    for j in range(gradient.shape[1]):
                        gradient[p, j] += v * R[at, j]
            for i in range(m):
                worth[start + i] = max(worth[start + i], EVEN + apart[i]) if apart[i] < LARGEST_WORTH else LARGEST_WORTH
        for i in range(m):
            worth[start + i] = min(LARGEST_WORTH, worth[start + i] * factor[max(label[start + i], 0)])


@njit(cache=True, nogil=True)
def _keep(  # type: ignore[no-untyped-def]
    label, u, margin, worth, rate, begin, certain, sums, count, total, which, weight, offset, row, place
):
    """Take rows from `begin` on until they end or there is no room in `weight`; return the next row, and rows kept.

    Fills `which` row is kept, under which weight, and its place, but for the hash of its id.
    """
    kept = 0
    for i in range(begin, len(label)):
        own = label[i]
        if own < 0:
            continue
        v = u[i]
        pi = rate * v * worth[i]
        count[own] += 1
        total[own] += v
        if pi < 1.0 and count[own] > certain[own]:
            at = (margin[i] - 1.0) / BIN_WIDTH + BINS // 2
            bin_ = 0 if not at > 0.0 else int(min(at, BINS - 1.0))
            risen = sums[own, bin_] + pi
            sums[own, bin_] = risen if risen < 1.0 else risen - 1.0
            if risen < 1.0:
                continue
            v /= pi
        which[kept], weight[kept] = i, v
        place[kept, 0], place[kept, 1], place[kept, 2] = offset[i], row[i], 0
        kept += 1
        if kept == len(weight):
            return i + 1, kept
    return len(label), kept

"""Bounds on what one point can do: how far it lies in a feature, and how much of the weight it is.

One row whose features are 1e30 stays in mean and variance for ever, and with it no later model tells anything apart.
But where a stream has spikes of its own, they are data. Here a row that would add much more than a share s,
`coreset.max_leverage`, to the sum of squares of a feature that its partition sealed before is left out of training
sets until the stream repeats such values (`streamsvm.coreset.own_tail`). In moments and totals it counts as drawn in:
a value is then the mean plus or minus

    sd * max(10, sqrt(s U / u)),

u its own weight, U and sd of what was sealed, and never nearer than the farthest point that the buckets hold. By
Samuelson's inequality a value that 1 / s points of equal weight have, or a hundredth of few ones, never lies farther:
with the default, whatever ten points of the past had is never changed; and of a rare indicator one point in a bucket is
enough, or one in the past where the buckets have lost it: where they hold nothing beyond one sd, s is 1. The bound
grows with the stream and with the spread. A feature that has not varied yet says nothing of its scale, and the farthest
bound of the others holds for it. A weight beyond a tenth of s U, or ten times the mean, counts as ten mean weights: a
single wrong label of a tenth of all weight turns a model.

Such rows wait, as they came, while they are few (`Waiting`), and are judged again at the end of each leaf and at each
cut (`streamsvm.learning.bounding`): what the stream has repeated by then is learned as it came. What does not wait,
because too many do, is learned as drawn in, and so is a row whose weight alone is strange.

A first leaf has no past: its own moments bound it, after up to ten of its points (a twentieth of few ones) were set
aside in each feature: those farthest from the median come to lie where the next one lies.

Invariant: the bounds of a leaf are a function of what its partition sealed before it, or of a first leaf's own points;
who waits is one of the rows before, too. Points within their bounds keep their bytes. Nothing is bounded at scoring:
the model is one of the points as learned.

Sources: leverage (Hoaglin and Welsch 1978), of one feature at a time; Samuelson 1968; winsorising (Dixon 1960).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.own_tail import REPEATED, Extremes
from streamsvm.coreset.row_kernels import farthest_from
from streamsvm.points import Points, Position, Weights

Float = NDArray[np.float64]
Mask = NDArray[np.bool_]

LEAST_SD: Final = 10.0
"""Standard deviations within which nothing is changed, however few or heavy the points are. Smaller, the tails of clean
sets are cut; larger, one point of a short stream moves its model more."""
LEAST_WEIGHT: Final = 10.0
"""Times the mean weight up to which no weight is changed, however few the points are."""
MOST_ASIDE: Final = 10
"""Points of a first leaf that are set aside in each feature: as many equal outliers are withstood there."""
WEIGHT_PART: Final = 0.1
"""Of the share s, for a weight. On HTRU2 one flipped label at s = 0.1 itself took 0.05 off the balanced accuracy."""
ASIDE_ONE_OF: Final = 20
"""Points of a small first leaf for each that is set aside."""
TELLING: Final = 10.0
"""Times too far from which on people are told of a value; on clean sets 47 was the farthest, and the rule below 11."""
ROUNDING: Final = 1e-6
"""Of a distance: values that stand on the farthest held one are not drawn in for their last bit."""
CONSTANT: Final = 1e-9
"""Times the mean: a standard deviation below it is rounding of a feature that does not vary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlier:
    """A value beyond its bound.

    Attributes
    ----------
    partition : int
    begin, end : Position
        Where it stands; of a first leaf that was restored from a checkpoint, from where to where it may stand.
    feature : int or None
        None: it is a weight.
    value, bound : float
        As it came, and as moments and totals take it.
    excess : float
        Its distance over the permitted one, above 1.
    """

    partition: int
    begin: Position
    end: Position
    feature: int | None
    value: float
    bound: float
    excess: float


@dataclass(frozen=True, slots=True)
class Excess:
    """The farthest value of a call: index of its row, feature or None of a weight, value, bound and excess."""

    row: int
    feature: int | None
    value: float
    bound: float
    size: float


@dataclass(frozen=True, slots=True)
class Found:
    """What lay beyond the bounds.

    Attributes
    ----------
    rows, weights : int
        Rows beyond in a feature, or by their weight.
    worst : Excess
    """

    rows: int
    weights: int
    worst: Excess


@dataclass(slots=True)
class OutlierBounds:
    """How far the points of a leaf may lie.

    Attributes
    ----------
    mean, unit : ndarray of shape (d,)
        Centre of each feature, and its standard deviation or what stands for it; infinite where nothing has varied.
    budget : float
        s U: the permitted distance of a point of weight u is unit * max(10, sqrt(budget / u)), at least `held`.
    held : ndarray of shape (d,)
        The farthest that is known to be no outlier.
    heaviest : float
        The greatest weight that is no stranger's.
    moderate : float
        As what a stranger's weight counts.
    body : ndarray of shape (d,)
        Ten standard deviations.
    rows : int
        Rows that the moments are of.
    known, single : tuple of Points
        Points that stand for these rows, and rows themselves.
    """

    mean: Float
    unit: Float
    budget: float
    held: Float
    heaviest: float
    moderate: float
    body: Float
    rows: int
    known: tuple[Points, ...] = ()
    single: tuple[Points, ...] = ()
    _made: list[Extremes] = field(default_factory=list, repr=False)

    @staticmethod
    def of(moments: Moments, held: Sequence[Points], share: float) -> OutlierBounds:
        """Return the bounds that moments of at least one point give, and the points that stand for them."""
        farthest = np.zeros(len(moments.mean))
        for points in held:
            farthest_from(points.X, moments.mean, farthest)
        return _bounds(moments.mean, moments.square, moments.weight, moments.count, farthest, share, known=tuple(held))

    @staticmethod
    def of_first_leaf(points: Points, share: float) -> OutlierBounds:
        """Return the bounds of a leaf of at least one point that nothing was sealed before."""
        n, d = len(points), points.dimension
        aside = min(MOST_ASIDE, n // ASIDE_ONE_OF)
        weight = np.minimum(points.weight, _ranked(points.weight, n - 1 - aside))
        mean, square, held = np.empty(d), np.empty(d), np.empty(d)
        for j in range(d):  # one feature at a time: a copy of all of them is beyond the budget of memory
            column = points.X[:, j].astype(np.float64)
            centre = _ranked(column, (n - 1) // 2)
            reach = _ranked(np.abs(column - centre), n - 1 - aside)
            mean[j], square[j] = _clipped_moments(column, weight, centre - reach, centre + reach)
            held[j] = reach + abs(centre - mean[j])
        return _bounds(mean, square, float(np.einsum("i->", weight)), n, held, share, single=(points,))

    def draw_in(
        self, points: Points, accepted: Mask | None = None, waiting: Points | None = None
    ) -> tuple[Points, Found | None]:
        """Return the points within their bounds, but for the stream's own tail, and what was changed.

        The given points and None, if nothing was.

        Parameters
        ----------
        points : Points
            Known rows, or copies of them.
        accepted : ndarray of shape (n,), bool, optional
            Which points count; the others keep their meaningless values.
        waiting : Points, optional
            Rows that are known besides those of buckets.
        """
        sorted_out = self.sort_out(points, accepted, waiting)
        return sorted_out.points, sorted_out.found

    def beyond(self, points: Points, accepted: Mask | None = None) -> Mask | None:
        """Return which of the points that count lie beyond a bound, shape (n,); None if none does."""
        valid = np.ones(len(points), np.bool_) if accepted is None else accepted
        beyond = np.empty(len(points), np.bool_)
        found = _beyond(
            points.X,
            points.weight,
            valid,
            self.mean,
            self.unit,
            self.budget,
            self.held,
            self.heaviest,
            LEAST_SD,
            beyond,
        )
        return beyond if found else None

    def sort_out(
        self, points: Points, accepted: Mask | None = None, waiting: Points | None = None, room: int | None = None
    ) -> SortedOut:
        """Draw in what the stream does not repeat, and say what it was.

        Parameters
        ----------
        points, accepted, waiting
            As of `draw_in`.
        room : int, optional
            Given: the points are new rows, each of which is judged by those before it; a stranger among them waits, and
            is known from there on, until so many wait.
        """
        beyond = self.beyond(points, accepted)
        if beyond is None:
            return SortedOut(points, None, None)
        rows = np.flatnonzero(beyond)
        came = points.take(rows)
        heavy = came.weight > self.heaviest
        weight = np.where(heavy, self.moderate, came.weight)
        reach = np.maximum(self.unit * np.maximum(LEAST_SD, np.sqrt(self.budget / weight))[:, None], self.held)
        extremes = self._extremes()
        away = extremes.distances(came)
        asked = np.column_stack([away[:, :-1] > reach, heavy])
        known = extremes.distances(came.take(slice(0, 0)) if waiting is None else waiting)
        waits = np.zeros(len(rows), np.bool_)
        if room is None:
            strange = asked & ~extremes.repeat(away, asked, known, REPEATED + 1)
        else:
            strange = _judged_in_order(extremes, away, asked, known, room, waits)
        if not strange.any():
            return SortedOut(points, None, None)
        X, all_weights = points.X.copy(), points.weight.copy()
        X[rows] = np.where(strange[:, :-1], np.clip(came.X, self.mean - reach, self.mean + reach), came.X)
        all_weights[rows] = np.where(strange[:, -1], weight, came.weight)
        drawn_in = Points(X, points.y, all_weights)
        return SortedOut(
            drawn_in,
            self._found(came, drawn_in.take(rows), rows, strange, away[:, :-1], reach),
            rows[waits] if waits.any() else None,
        )

    def own_tail(self, waiting: Waiting, more: Sequence[Points]) -> Mask:
        """Return which rows that wait are within their bounds by now, or the stream's own, given more known points.

        A first leaf's rows are known to its bounds, those that wait among them.
        """
        if self.single:
            judged = self.sort_out(waiting.came)
        else:
            beside = Extremes(self.mean, self.body, self.rows, self.moderate / LEAST_WEIGHT, [*self.known, *more])
            judged = replace(self, _made=[beside]).sort_out(waiting.came, None, waiting.came)
        return ~differing_rows(waiting.came, judged.points)

    def _extremes(self) -> Extremes:
        if not self._made:
            self._made.append(
                Extremes(self.mean, self.body, self.rows, self.moderate / LEAST_WEIGHT, self.known, self.single)
            )
        return self._made[0]

    def _found(
        self, before: Points, after: Points, rows: NDArray[np.intp], strange: Mask, away: Float, reach: Float
    ) -> Found:
        excess = np.divide(away, reach, out=np.zeros_like(away), where=np.isfinite(reach) & strange[:, :-1])
        row, feature = (int(at) for at in np.unravel_index(int(excess.argmax()), excess.shape))
        value, bound = float(before.X[row, feature]), float(after.X[row, feature])
        worst = Excess(int(rows[row]), feature, value, bound, float(excess[row, feature]))
        heavy = np.where(strange[:, -1], before.weight, 0.0)
        heaviest = int(heavy.argmax())
        weight = float(heavy[heaviest])
        if weight / self.heaviest > max(1.0, worst.size):
            worst = Excess(int(rows[heaviest]), None, weight, self.moderate, weight / self.heaviest)
        moved = int(np.count_nonzero(strange[:, :-1].any(axis=1)))
        return Found(moved, int(np.count_nonzero(strange[:, -1])), worst)


def _judged_in_order(extremes: Extremes, away: Float, asked: Mask, known: Float, room: int, waits: Mask) -> Mask:
    """Return which values are strange, each row by those known before it, and mark those rows that wait."""
    strange, start, ahead = np.zeros(asked.shape, np.bool_), 0, 1
    while start < len(away):
        # Few ahead after a stranger, by which the others are judged anew, and more and more where none comes.
        part = slice(start, None if len(known) >= room else start + ahead)
        found = asked[part] & ~extremes.repeat(away[part], asked[part], known)
        any_of = found.any(axis=1)
        if len(known) >= room or not any_of.any():
            strange[part] = found
            start, ahead = start + len(found), 2 * ahead
            continue
        first = int(any_of.argmax())
        strange[start + first] = found[first]
        waits[start + first] = True
        known = np.concatenate([known, away[start + first : start + first + 1]])
        start, ahead = start + first + 1, 1
    return strange


def differing_rows(one: Points, other: Points) -> Mask:
    """Return which rows of two sets differ in a feature or in their weight, shape (n,)."""
    return np.asarray((one.X != other.X).any(axis=1) | (one.weight != other.weight))


@dataclass(frozen=True, slots=True)
class SortedOut:
    """Points with what is strange of them drawn in.

    Attributes
    ----------
    points : Points
        All of them; the given ones, if nothing was.
    found : Found or None
        None if nothing was.
    waits : ndarray of shape (k,), or None
        Which of them wait; the other strangers are learned as they were drawn in.
    """

    points: Points
    found: Found | None
    waits: NDArray[np.intp] | None

    def stay(self) -> Mask:
        """Return which points do not wait, shape (n,)."""
        stay = np.ones(len(self.points), np.bool_)
        if self.waits is not None:
            stay[self.waits] = False
        return stay


@dataclass(frozen=True, slots=True)
class Waiting:
    """Rows of which it is not known yet whether they are a stream's own, in the order of the log.

    Attributes
    ----------
    came : Points
        As they came.
    learned : Points
        Drawn in: what moments and totals take for them, and what is learned of those whose weight alone is strange.
    """

    came: Points
    learned: Points

    def __len__(self) -> int:
        return len(self.came)

    def take(self, rows: NDArray[np.intp] | Mask) -> Waiting:
        """Select rows."""
        return Waiting(self.came.take(rows), self.learned.take(rows))

    def followed_by(self, later: Waiting) -> Waiting:
        """Return these rows and later ones."""
        return Waiting(Points.union([self.came, later.came]), Points.union([self.learned, later.learned]))

    def places(self, points: Points) -> NDArray[np.intp]:
        """Return where points stand here as they came, -1 for one that does not wait, shape (n,)."""
        known = {name: at for at, name in enumerate(_names(self.came))}
        return np.array([known.get(name, -1) for name in _names(points)], np.intp)

    def only_heavy(self) -> Mask:
        """Return which rows are strange by their weight alone, shape (n,): these count, as they were drawn in."""
        return ~np.asarray((self.came.X != self.learned.X).any(axis=1))


def _names(points: Points) -> list[tuple[bytes, int, float]]:
    rows = zip(points.X, points.y.tolist(), points.weight.tolist(), strict=True)
    return [(x.tobytes(), y, weight) for x, y, weight in rows]


@dataclass(slots=True)
class Tally:
    """What lay beyond the bounds since this was made: it decides nothing, and no state holds it.

    Attributes
    ----------
    rows, weights : int
        As of `Found`.
    worst : Outlier or None
        The farthest of all.
    """

    rows: int = 0
    weights: int = 0
    worst: Outlier | None = None

    def note(self, rows: int, weights: int, worst: Outlier | None) -> None:
        """Count more."""
        self.rows += rows
        self.weights += weights
        if worst is not None and (self.worst is None or worst.excess > self.worst.excess):
            self.worst = worst

    def add(self, other: Tally) -> None:
        """Count another tally's, too."""
        self.note(other.rows, other.weights, other.worst)


def bounded_weights(weight: Weights) -> Weights:
    """Return weights, at least one, of which none is above a hundredth of all, or ten times the mean."""
    n = len(weight)
    usual = np.minimum(weight, _ranked(weight, n - 1 - min(MOST_ASIDE, n // ASIDE_ONE_OF)))
    most = float(np.einsum("i->", usual)) * max(WEIGHT_PART * WEIGHT_PART, LEAST_WEIGHT / n)
    return np.minimum(weight, most)


def _bounds(
    mean: Float,
    square: Float,
    total: float,
    count: int,
    held: Float,
    share: float,
    known: tuple[Points, ...] = (),
    single: tuple[Points, ...] = (),
) -> OutlierBounds:
    unit, reach, body = np.empty(len(mean)), np.empty(len(mean)), np.empty(len(mean))
    _fill_bounds(mean, square, total, count, held, share, unit, reach, body)
    return OutlierBounds(
        mean=mean,
        unit=unit,
        budget=share * total,
        held=reach,
        heaviest=total * max(WEIGHT_PART * share, LEAST_WEIGHT / count),
        moderate=total * LEAST_WEIGHT / count,
        body=body,
        rows=count,
        known=known,
        single=single,
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_bounds(mean, square, total, count, held, share, unit, reach, body):  # type: ignore[no-untyped-def]
    """Fill `unit`, `held` and `body` of `OutlierBounds`, all of shape (d,)."""
    usual, farthest = max(LEAST_SD, math.sqrt(share * count)), 0.0
    for j in range(len(mean)):
        sd = np.sqrt(max(square[j], 0.0) / total)
        unit[j] = 0.0 if sd <= CONSTANT * abs(mean[j]) else sd
        if unit[j] > 0.0:
            farthest = max(farthest, abs(mean[j]) + usual * unit[j])
    for j in range(len(mean)):
        sd = unit[j]
        body[j] = LEAST_SD * sd
        if not sd > 0.0:
            unit[j] = (farthest + abs(mean[j])) / usual if farthest > 0.0 else np.inf
        elif held[j] <= sd:
            unit[j] = sd / math.sqrt(share)
        reach[j] = held[j] * (1.0 + ROUNDING)  # a value stored as float32 lies beside the bound it was drawn in to


def _ranked(values: NDArray[np.floating], rank: int) -> float:
    """Return the value of a rank, 0 the least."""
    return float(np.partition(values, rank)[rank])


@njit(cache=True, nogil=True)
def _clipped_moments(column, weight, least, greatest):  # type: ignore[no-untyped-def]
    """Return weighted mean and sum of squared deviations of a column that is clipped, in two passes."""
    total, mean = 0.0, 0.0
    for i in range(len(column)):
        total += weight[i]
        mean += weight[i] / total * (min(max(column[i], least), greatest) - mean)
    square = 0.0
    for i in range(len(column)):
        square += weight[i] * (min(max(column[i], least), greatest) - mean) ** 2
    return mean, square


@njit(cache=True, nogil=True)
def _beyond(X, weight, accepted, mean, unit, budget, held, heaviest, least_sd, beyond):  # type: ignore[no-untyped-def]
    """Mark the accepted rows with a value beyond its bound; return how many there are."""
    count, d = 0, X.shape[1]
    of_weight, reach = -1.0, np.empty(d)
    for i in range(X.shape[0]):
        beyond[i] = False
        if not accepted[i]:
            continue
        if weight[i] != of_weight:  # equal weights, the usual case, share their bounds
            of_weight = weight[i]
            factor = max(least_sd, math.sqrt(budget / min(of_weight, heaviest)))
            for j in range(d):
                reach[j] = max(unit[j] * factor, held[j])
        outside = 0
        for j in range(d):
            outside += abs(np.float64(X[i, j]) - mean[j]) > reach[j]
        if outside or of_weight > heaviest:
            beyond[i] = True
            count += 1
    return count

"""The bound on what one row can do: how far it lies in a feature, and how much of the weight it is.

One row whose features are 1e30 would stay in mean and variance for ever, and no later model would tell anything apart.
A value of a row of weight u is therefore drawn in, that is clipped, to the mean plus or minus

    sd * max(10, sqrt(U / (10 u)))

with mean, sd and U, the total weight, of what the row's partition has sealed before. By that a row adds at most a tenth
to the sum of squares of a feature, or what lies within ten standard deviations. By Samuelson's inequality a value that
ten rows of the past had never lies farther, so that of a stream's own tail only the newest extremes are drawn in; and
where a stream changes its scale, each row lets the bound grow by a tenth. A weight is drawn in to a hundredth of all,
or to ten times the mean of few: a single wrong label of a tenth of the weight turns a model.

A feature that is seldom set, such as the column of a rare category, has a standard deviation far below the values that
it takes. Where c rows of n have the value v and all others 0, sd^2 / |mean| is v, and n (mean / sd)^2 is c: where that
is 1 or more, values up to sd^2 / |mean| away are left as they are. Of any other feature this is at most sd sqrt(n). One
that has not varied yet says nothing of its scale: the farthest bound of the others holds for it. A first leaf
has no past: it is bounded when it is sealed, by its own moments, for which the ten values (a twentieth of few rows)
that lie farthest from the median of their feature count as the next one. Moments are those of rows as they were drawn
in.

Invariant: the bound of a leaf is a function of what its partition sealed before, or of a first leaf's own rows; where a
batch ends changes nothing. Rows within keep their bytes. Nothing is bounded at scoring.

*Turned down:* no bound (one row at 1e30 ends learning), and rows that wait until ten others are like them, to be
learned as they came: nearer to the optimum of all rows, and less accurate on new ones
(tests/benchmarks/results/tails.txt).

Sources: leverage (Hoaglin and Welsch 1978), of one feature at a time; Samuelson 1968; winsorising (Dixon 1960).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.coreset.moments import Moments
from streamsvm.points import Points, Position, Weights

Float = NDArray[np.float64]
Mask = NDArray[np.bool_]

LEAST_SD: Final = 10.0
"""Standard deviations within which nothing is changed, however few or heavy the rows are. Smaller, the tails of clean
sets are cut; larger, one row of a short stream moves its model more."""
SHARE: Final = 0.1
"""Of a feature's sum of squares that one row may add."""
WEIGHT_SHARE: Final = 0.01
"""Of all weight that one row may be. On HTRU2 one flipped label of a tenth took 0.05 off the balanced accuracy."""
LEAST_WEIGHT: Final = 10.0
"""Times the mean weight up to which no weight is changed, however few the rows are."""
MOST_ASIDE: Final = 10
"""Rows of a first leaf that are set aside in each feature: as many equal outliers are withstood there."""
ASIDE_ONE_OF: Final = 20
"""Rows of a small first leaf for each that is set aside."""
TELLING: Final = 10.0
"""Times too far from which on people are told of a value: a stream's own extremes are seldom so far."""
ROUNDING: Final = 1e-6
"""Of a value that is computed from moments, by which a feature that is seldom set takes it."""
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
        As it came, and as it is learned.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was drawn in.

    Attributes
    ----------
    rows, weights : int
        Rows beyond the bound in a feature, or by their weight.
    row : int
        Index of the row with the farthest value.
    feature, value, bound, excess
        As of `Outlier`.
    """

    rows: int
    weights: int
    row: int
    feature: int | None
    value: float
    bound: float
    excess: float


@dataclass(frozen=True, slots=True)
class RowBound:
    """How far the rows of a leaf may lie.

    Attributes
    ----------
    mean, sd : ndarray of shape (d,)
        Of what was sealed; where a feature has not varied, what stands for its sd, infinite where none has.
    seldom : ndarray of shape (d,)
        The value of a feature that is seldom set; 0 of others.
    weight : float
        Total weight of that.
    heaviest : float
        The greatest weight of a row.
    """

    mean: Float
    sd: Float
    seldom: Float
    weight: float
    heaviest: float

    @staticmethod
    def of(mean: Float, square: Float, weight: float, count: int) -> RowBound:
        """Return the bound by moments of at least one row: `square` are sums of squared deviations."""
        sd = np.sqrt(np.maximum(square, 0.0) / weight)
        varies, near = sd > CONSTANT * np.abs(mean), sd + np.abs(mean) / LEAST_SD
        farthest = near[varies].max() if varies.any() else np.inf
        seldom = np.zeros(len(mean))
        rare = varies & (count * mean**2 >= sd**2) & (mean != 0.0)
        seldom[rare] = sd[rare] ** 2 / np.abs(mean[rare]) * (1.0 + ROUNDING)
        sd = np.where(varies, sd, farthest + np.abs(mean) / LEAST_SD)
        return RowBound(mean, sd, seldom, weight, weight * max(WEIGHT_SHARE, LEAST_WEIGHT / count))

    @staticmethod
    def of_moments(moments: Moments) -> RowBound:
        """Return the bound of rows that come after others."""
        return RowBound.of(moments.mean, moments.square, moments.weight, moments.count)

    @staticmethod
    def of_first_leaf(points: Points) -> RowBound:
        """Return the bound of a leaf of at least one row that nothing was sealed before."""
        n, d = len(points), points.dimension
        last = n - 1 - min(MOST_ASIDE, n // ASIDE_ONE_OF)
        weight = np.minimum(points.weight, np.partition(points.weight, last)[last])
        mean, square = np.empty(d), np.empty(d)
        for j in range(d):  # one feature at a time: a copy of all of them is beyond the budget of memory
            column = points.X[:, j].astype(np.float64)
            median = np.partition(column, (n - 1) // 2)[(n - 1) // 2]
            reach = np.partition(np.abs(column - median), last)[last]
            mean[j], square[j] = _clipped_moments(column, weight, median - reach, median + reach)
        return RowBound.of(mean, square, float(np.einsum("i->", weight)), n)

    def draw_in(self, points: Points, accepted: Mask | None = None) -> tuple[Points, Found | None]:
        """Return the rows within the bound, and what was changed; the given rows and None, if nothing was.

        Rows that are not accepted keep their meaningless values.
        """
        valid = np.ones(len(points), np.bool_) if accepted is None else accepted
        beyond = np.empty(len(points), np.bool_)
        factor = SHARE * self.weight
        if not _beyond(points.X, points.weight, valid, self.mean, self.sd, self.seldom, factor, self.heaviest, beyond):
            return points, None
        rows = np.flatnonzero(beyond)
        came, weight = points.X[rows].astype(np.float64), np.minimum(points.weight[rows], self.heaviest)
        reach = np.maximum(self.sd * np.maximum(LEAST_SD, np.sqrt(factor / weight))[:, None], self.seldom)
        # Not a number is no distance: the mean stands for it. Points from outside are finite, or were rejected.
        away = np.nan_to_num(came - self.mean, nan=0.0, posinf=np.inf, neginf=-np.inf)
        X, weights = points.X.copy(), points.weight.copy()
        X[rows] = np.where(np.abs(came - self.mean) <= reach, points.X[rows], self.mean + np.clip(away, -reach, reach))
        weights[rows] = weight
        drawn_in = Points(X, points.y, weights)
        return drawn_in, self._found(points, drawn_in, rows, np.abs(away) / reach)

    def _found(self, before: Points, after: Points, rows: NDArray[np.intp], excess: Float) -> Found:
        at, feature = (int(place) for place in np.unravel_index(int(excess.argmax()), excess.shape))
        row, heaviest = int(rows[at]), int(rows[before.weight[rows].argmax()])
        too_heavy = float(before.weight[heaviest]) / self.heaviest
        counts = {
            "rows": int(np.count_nonzero((excess > 1.0).any(axis=1))),
            "weights": int(np.count_nonzero(before.weight[rows] > self.heaviest)),
        }
        if too_heavy > max(1.0, excess[at, feature]):
            value = float(before.weight[heaviest])
            return Found(**counts, row=heaviest, feature=None, value=value, bound=self.heaviest, excess=too_heavy)
        value, bound = float(before.X[row, feature]), float(after.X[row, feature])
        return Found(**counts, row=row, feature=feature, value=value, bound=bound, excess=float(excess[at, feature]))


@dataclass(slots=True)
class Tally:
    """What was drawn in since this was made: it decides nothing, and no state holds it.

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

    def note(self, found: Found, partition: int, begin: Position, end: Position) -> None:
        """Count more, of which the farthest stands between two positions."""
        outlier = Outlier(
            partition=partition,
            begin=begin,
            end=end,
            feature=found.feature,
            value=found.value,
            bound=found.bound,
            excess=found.excess,
        )
        self.add(Tally(found.rows, found.weights, outlier))

    def add(self, other: Tally) -> None:
        """Count another tally's, too."""
        self.rows += other.rows
        self.weights += other.weights
        if other.worst is not None and (self.worst is None or other.worst.excess > self.worst.excess):
            self.worst = other.worst


def bounded_weights(weight: Weights) -> Weights:
    """Return weights, at least one, of which none is above a hundredth of all, or ten times the mean."""
    n = len(weight)
    last = n - 1 - min(MOST_ASIDE, n // ASIDE_ONE_OF)
    usual = np.minimum(weight, np.partition(weight, last)[last])
    return np.minimum(weight, float(np.einsum("i->", usual)) * max(WEIGHT_SHARE, LEAST_WEIGHT / n))


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


@njit(cache=True, nogil=True, error_model="numpy")
def _beyond(X, weight, accepted, mean, sd, seldom, budget, heaviest, beyond):  # type: ignore[no-untyped-def]
    """Mark the accepted rows with a value beyond its bound; return how many there are."""
    count, of_weight, factor = 0, -1.0, 0.0
    for i in range(X.shape[0]):
        beyond[i] = False
        if not accepted[i]:
            continue
        if weight[i] != of_weight:  # equal weights, the usual case, share their factor
            of_weight = weight[i]
            factor = max(LEAST_SD, math.sqrt(budget / min(of_weight, heaviest)))
        inside = of_weight <= heaviest
        for j in range(X.shape[1]):
            inside &= abs(np.float64(X[i, j]) - mean[j]) <= max(sd[j] * factor, seldom[j])
        if not inside:
            beyond[i] = True
            count += 1
    return count

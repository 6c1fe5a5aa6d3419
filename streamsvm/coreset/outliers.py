r"""The bound on what one row can do: how far it lies in a feature, and how much of the weight it is.

One row whose features are 1e30 would stay in mean and variance for ever, and no later model would tell anything apart.
A value of a row of weight u is therefore drawn in, that is clipped, to

    mean +- sd max(10, sqrt(U / (10 u)))

with mean, sd and U, the total weight, of what the row's partition has sealed before. So a row adds at most a tenth to
the sum of squares of a feature, or what lies within ten standard deviations. By Samuelson's inequality a value that ten
rows of the past had never lies farther; and where a stream changes its scale, each row lets the bound grow by a tenth.
A weight is drawn in to a hundredth of all, or to ten times the mean: one wrong label of a tenth of all turns a model.

A feature that is seldom set, such as the column of a rare category, has a standard deviation far below its values.
Where c rows of n have the value v and all others 0, sd^2 / |mean| is v, and n (mean / sd)^2 is c: where that is 1 or
more, values up to sd^2 / |mean| away stay. A feature that has not varied has the farthest bound of the others.

A first leaf is drawn in as a whole when it is sealed or cut, by its own moments, for which the ten values (a twentieth
of few rows) that lie farthest from the median of their feature count as the next one.

Invariant: the bound is a function of what was sealed, or of a first leaf. Rows within keep their bytes.

Turned down: rows that wait until ten others are like them, to be learned as they came: nearer to the optimum of all
rows, and less accurate on new ones (tests/benchmarks/results/tails.txt).

Sources: Hoaglin and Welsch 1978 (leverage, here of one feature at a time); Samuelson 1968; Dixon 1960 (winsorising).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.coreset.buckets import Float, Moments
from streamsvm.points import Points, Position

LEAST_SD: Final = 10.0
"""Standard deviations within which nothing is changed. Smaller, the tails of clean sets are cut."""
SHARE: Final = 0.1
"""Of a feature's sum of squares that one row may add."""
WEIGHT_SHARE: Final = 0.01
"""Of all weight that one row may be. On HTRU2 one flipped label of a tenth took 0.05 off the balanced accuracy."""
LEAST_WEIGHT: Final = 10.0
"""Times the mean weight up to which no weight is changed, however few the rows are."""
MOST_ASIDE, ASIDE_ONE_OF = 10, 20
"""Rows of a first leaf that are set aside in each feature, and of how many rows it is one where there are few."""
TELLING: Final = 10.0
"""Times too far from which on people are told of a value: a stream's own extremes are seldom so far."""
ROUNDING, CONSTANT = 1e-6, 1e-9
"""Relative error of a value computed from moments; share of the mean below which a standard deviation is rounding."""


@dataclass(frozen=True, slots=True)
class RowBound:
    """How far rows may lie, by moments of at least one row.

    `seldom` is how far a feature that is seldom set may lie, `heaviest` the greatest weight of a row.
    """

    mean: Float  # (d,)
    sd: Float  # (d,), infinite where no feature has varied
    seldom: Float  # (d,), 0 of others
    weight: float
    heaviest: float

    @classmethod
    def of(cls, moments: Moments) -> RowBound:
        """Return the bound of rows that come after others."""
        mean, weight, count = moments.mean, moments.weight, moments.count
        sd = np.sqrt(moments.square / weight)
        varies, near = sd > CONSTANT * np.abs(mean), sd + np.abs(mean) / LEAST_SD
        farthest, seldom = near[varies].max(initial=0.0) or np.inf, np.zeros(len(mean))
        rare = varies & (count * mean**2 >= sd**2) & (mean != 0.0)
        seldom[rare] = sd[rare] ** 2 / np.abs(mean[rare]) * (1.0 + ROUNDING)
        sd = np.where(varies, sd, farthest + np.abs(mean) / LEAST_SD)
        return cls(mean, sd, seldom, weight, weight * max(WEIGHT_SHARE, LEAST_WEIGHT / count))

    @classmethod
    def of_first_leaf(cls, points: Points) -> RowBound:
        """Return the bound of a leaf of at least one row that nothing was sealed before."""
        n, last = len(points), _last_usual(len(points))
        X = points.X.astype(np.float64)
        columns = np.ascontiguousarray(X.T)
        # Sorted as a whole: a partial sort is ten times slower where a column has few values.
        median = np.sort(columns)[:, (n - 1) // 2].copy()
        reach = np.sort(np.abs(columns - median[:, None]))[:, last]
        X = np.fmin(np.fmax(X, median - reach), median + reach)
        weight = np.minimum(points.weight, np.partition(points.weight, last)[last])
        return cls.of(Moments.zero(points.dimension).add(Points(X, np.ones(n, np.int8), weight)))

    def draw_in(self, points: Points, accepted: NDArray[np.bool_] | None = None) -> Points:
        """Return rows within the bound: the same object if all are. Rows that are not accepted stay as they are."""
        valid = np.ones(len(points), np.bool_) if accepted is None else accepted
        budget, beyond = SHARE * self.weight, np.empty(len(points), np.bool_)
        if not _beyond(points.X, points.weight, valid, self.mean, self.sd, self.seldom, budget, self.heaviest, beyond):
            return points
        X, weight = points.X.copy(), np.where(beyond, np.minimum(points.weight, self.heaviest), points.weight)
        factor = np.maximum(LEAST_SD, np.sqrt(budget / weight[beyond]))
        reach = np.maximum(self.sd * factor[:, None], self.seldom)
        away = X[beyond].astype(np.float64) - self.mean
        # Accepted rows are finite. Of others the mean stands for what is no number, and the bound for infinity.
        inside = self.mean + np.clip(np.nan_to_num(away, nan=0.0, posinf=np.inf, neginf=-np.inf), -reach, reach)
        X[beyond] = np.where(np.abs(away) <= reach, X[beyond], inside)
        return replace(points, X=X, weight=weight)


@dataclass(frozen=True, slots=True)
class Outlier:
    """A value of a feature, or a weight (`feature` is None), as it came and as it is learned.

    `excess` is its distance over the permitted one.
    """

    partition: int
    place: Position
    feature: int | None
    value: float
    bound: float
    excess: float


@dataclass(slots=True)
class Tally:
    """How many rows were drawn in in a feature, and how many by their weight, and the farthest; no state holds it."""

    rows: int = 0
    weights: int = 0
    worst: Outlier | None = None

    def note(self, came: Points, learned: Points, mean: Float, partition: int) -> None:
        """Count what differs of points with places; `mean` is that of the bound."""
        moved, lighter = learned.X != came.X, learned.weight < came.weight
        if not len(at := np.flatnonzero(moved.any(axis=1) | lighter)):
            return
        # A weight is one more column, whose mean is 0.
        value, bound = (np.column_stack([p.X[at].astype(np.float64), p.weight[at]]) for p in (came, learned))
        away, changed = np.abs(value - [*mean, 0.0]), np.column_stack([moved[at], lighter[at]])
        excess = np.divide(away, np.abs(bound - [*mean, 0.0]), out=np.zeros(value.shape), where=changed)
        i, j = (int(one) for one in np.unravel_index(np.nan_to_num(excess).argmax(), excess.shape))
        place, feature = Position(*came.places[at[i], :2].tolist()), j if j < len(mean) else None
        worst = Outlier(partition, place, feature, float(value[i, j]), float(bound[i, j]), float(excess[i, j]))
        self.add(Tally(int(np.count_nonzero(moved.any(axis=1))), int(np.count_nonzero(lighter)), worst))

    def add(self, other: Tally) -> None:
        """Count another tally's, too."""
        self.rows, self.weights = self.rows + other.rows, self.weights + other.weights
        if other.worst is not None and (self.worst is None or other.worst.excess > self.worst.excess):
            self.worst = other.worst


def bounded_weights(weight: Float) -> Float:
    """Return weights, at least one, of which none is above a hundredth of all, or ten times the mean."""
    n, last = len(weight), _last_usual(len(weight))
    usual = np.minimum(weight, np.partition(weight, last)[last])
    return np.minimum(weight, float(usual.sum()) * max(WEIGHT_SHARE, LEAST_WEIGHT / n))


def _last_usual(n: int) -> int:
    """Return the index, in ascending order, of the greatest of n values that is not set aside."""
    return n - 1 - min(MOST_ASIDE, n // ASIDE_ONE_OF)


@njit(cache=True, nogil=True, error_model="numpy")
def _beyond(X, weight, accepted, mean, sd, seldom, budget, heaviest, beyond):  # type: ignore[no-untyped-def]
    """Mark the accepted rows that are too heavy, or have a value beyond its bound; return how many there are."""
    count, own, factor = 0, -1.0, 0.0
    for i in range(len(X)):
        beyond[i] = False
        if not accepted[i]:
            continue
        if weight[i] != own:  # equal weights have the same factor
            own = weight[i]
            factor = max(LEAST_SD, math.sqrt(budget / min(own, heaviest)))
        inside = own <= heaviest
        for j in range(len(mean)):
            inside &= abs(np.float64(X[i, j]) - mean[j]) <= max(sd[j] * factor, seldom[j])
        beyond[i] = not inside
        count += not inside
    return count

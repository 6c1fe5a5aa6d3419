r"""One coreset for several classes: K problems, each telling one class from the rest, share every point that is kept.

The K problems have the same points, weights and scaler; only the signs differ. So a point is stored once, with the
index of its class, and K machines are trained on one set. With a pilot of each problem:

1. Importance: the greatest of a point's K importances, each the mix of `streamsvm.coreset.reducers.calibrated` with sum
   1. So a point is included with no less than the probability that it has in K sets of m / K points, one a problem; of
   rare classes, too. As points that matter to one problem matter to others, there is room for more.
2. Systematic sampling along the order (class, margin of the point's own class).
3. Calibration: the weight of each class exactly; the weight of the active points (z < 1) of each problem on either
   side; and the K hinge gradients, where there are `POINTS_A_CONSTRAINT` points for each such total. With fewer, the
   mean of all points takes the gradients' place; with fewer again, the weight of each class is all.

Invariant: with two classes nothing here is used; `streamsvm.coreset.reducers.calibrated` has one pilot and one sign.

Sources: those of `streamsvm.coreset.reducers.calibrated`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.coreset.calibration import MOST, calibrate
from streamsvm.coreset.reducers.base import (
    Observed,
    Pilot,
    UniformReducer,
    inclusion_probabilities,
    order_by_margin,
    systematic,
)
from streamsvm.coreset.reducers.calibrated import POINTS_A_CONSTRAINT, STRAINED, Under, importance, kernel_importance
from streamsvm.linalg import Float
from streamsvm.points import Points, Signs

MOST_CONSTRAINTS: Final = 1_024
"""Totals beyond which gradients are not calibrated: the time of a calibration grows with their square."""


@dataclass(frozen=True, slots=True)
class SharedPilot:
    """A pilot for each class against the rest.

    Attributes
    ----------
    pilots : tuple of Pilot
        In the order of the classes, of one scaler; their weights are those of the classes' already. A class of which no
        point is there has the bound 0, and its problem takes no part.
    class_weight : tuple of float
        By what the problems multiply the weights of each class: see `streamsvm.coreset.reducers.base.reduce_for`.
    """

    pilots: tuple[Pilot, ...]
    class_weight: tuple[float, ...]

    def of(self, part: slice) -> SharedPilot:
        """Return the pilots as those of some of their points, in their order."""
        return replace(self, pilots=tuple(pilot.of(part) for pilot in self.pilots))

    @property
    def lower_bound(self) -> float:
        """The greatest of the problems'; 0 with one class only."""
        return max(pilot.lower_bound for pilot in self.pilots)

    @property
    def bounded(self) -> dict[int, Pilot]:
        """The pilots whose optimum has a bound, by class."""
        return {label: pilot for label, pilot in enumerate(self.pilots) if pilot.lower_bound > 0.0}

    def bounded_for(self, points: Points) -> dict[int, Pilot]:
        """Return the bounded pilots of classes that some of the points are of, and some are not."""
        of_class = np.bincount(points.y, minlength=len(self.pilots))
        return {label: pilot for label, pilot in self.bounded.items() if 0 < of_class[label] < len(points)}


class SharedReducer:
    """Reduces by the importances of K problems, ordered sampling and calibration; see the module.

    Where m is at least the number of classes, every class that is present comes back.

    Attributes
    ----------
    observed : Observed
        Since this reducer was made.
    """

    needs_pilot: ClassVar[bool] = True
    observes: ClassVar[bool] = True

    def __init__(self) -> None:
        self.observed = Observed()

    def reduce(self, points: Points, m: int, random: np.random.Generator, pilot: SharedPilot | None) -> Points:
        """Return at most `m` points; see the class."""
        if len(points) <= m:
            return points
        assert pilot is not None
        self.observed.reductions += 1
        pilots = pilot.bounded_for(points)
        if not pilots or m < 2:
            self.observed.by_weight += 1
            return UniformReducer().reduce(points, m, random, None)
        problems = _Problems.of(points, pilots)
        share = every_class(problems.importance(), points.y, m)
        inclusion = inclusion_probabilities(share, m)
        chosen = systematic(inclusion, order_by_margin(points.y, problems.own_margin), m, float(random.random()))
        weight = points.weight[chosen] / inclusion[chosen]
        return points.take(chosen).reweighted(problems.calibrated(chosen, weight, self.observed))


def every_class(share: Float, y: Signs, m: int) -> Float:
    """Mix importance with an equal share for each class, so that each gets at least one point of m where m is enough.

    Parameters
    ----------
    share : ndarray of shape (n,), positive
    y : ndarray of shape (n,)
        Indices of classes.
    m : int

    Returns
    -------
    ndarray of shape (n,)
        With sum 1; the given proportions if every class has its point by them.
    """
    share = share / share.sum()
    of_class = np.bincount(y, weights=share)
    present = np.count_nonzero(of_class)
    if of_class[of_class > 0].min() * m >= 1.0 + 1e-9:
        return share
    even = min(1.0, present / m * (1.0 + 1e-9))
    return np.asarray(share * ((1.0 - even) + even / (present * of_class[y])), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class _Problems:
    """The K problems of a node.

    Attributes
    ----------
    points : Points
    pilots : dict of class to Pilot
        Those with a bound.
    rows : ndarray of shape (n, d + 1), or (n, 1)
        Scaled features, then 1; with kernels the 1 alone.
    signs : dict of class to ndarray of shape (n,), int8
    margins : dict of class to ndarray of shape (n,)
    """

    points: Points
    pilots: dict[int, Pilot]
    rows: Float
    signs: dict[int, Signs]
    margins: dict[int, Float]

    @staticmethod
    def of(points: Points, pilots: dict[int, Pilot]) -> _Problems:
        any_pilot = next(iter(pilots.values()))
        ones = np.ones((len(points), 1))
        kernel = any_pilot.decisions is not None
        rows = ones if kernel else np.hstack([any_pilot.transform(points.X), ones])
        signs = {label: points.against_the_rest(label).y for label in pilots}
        margins = {label: signs[label] * _decisions(own, rows) for label, own in pilots.items()}
        return _Problems(points, pilots, rows, signs, margins)

    @property
    def own_margin(self) -> Float:
        """Margin of each point in the problem of its own class, shape (n,); 0 where that has no pilot."""
        margin = np.zeros(len(self.points))
        for label, of_label in self.margins.items():
            own = self.points.y == label
            margin[own] = of_label[own]
        return margin

    def importance(self) -> Float:
        """Return q of the module's step 1, shape (n,), positive."""
        return np.asarray(np.maximum.reduce([self._importance_for(label) for label in self.pilots]), dtype=np.float64)

    def _importance_for(self, label: int) -> Float:
        weight, margin, pilot = self.points.weight, self.margins[label], self.pilots[label]
        if pilot.decisions is not None:
            return kernel_importance(weight, margin)
        under = Under.of(self.rows, weight, margin, pilot.penalty)
        return importance(under, self.signs[label], weight, pilot)

    def calibrated(self, chosen: NDArray[np.intp], weight: Float, observed: Observed) -> Float:
        """Return the weights of the chosen points after calibration by the totals of all; note how it went."""
        y, whole = self.points.y, self.points.weight
        classes = [y == label for label in np.unique(y)]
        cells = [*classes, *self._active_cells(chosen)]
        factors = self._factors(len(cells), len(chosen))
        if len(chosen) >= POINTS_A_CONSTRAINT * len(cells):
            features = self.rows[:, :-1]
            kept = np.hstack([np.column_stack(cells)[chosen], *(features[chosen] * f[chosen, None] for f in factors)])
            by_cell = [float(np.einsum("i,i->", whole, cell)) for cell in cells]
            totals = np.concatenate([by_cell, *(np.einsum("i,ij->j", whole * f, features) for f in factors)])
            found = calibrate(weight, kept, totals)
            weight = found.weight
            observed.strained += found.eta >= MOST - 1.0 or found.unmet > STRAINED
            observed.eta = max(observed.eta, found.eta)
        else:
            observed.uncalibrated += 1
        for one in classes:
            of_label = one[chosen]
            weight[of_label] *= whole[one].sum() / weight[of_label].sum() if of_label.any() else 1.0
        return weight

    def _active_cells(self, chosen: NDArray[np.intp]) -> Iterator[NDArray[np.bool_]]:
        """Yield the active points of each side of each problem, where some of the chosen are and some are not."""
        for label, signs in self.signs.items():
            active = self.margins[label] < 1.0
            for side in (signs < 0, signs > 0):
                cell = side & active
                if 0 < np.count_nonzero(cell[chosen]) < np.count_nonzero(side[chosen]):
                    yield cell

    def _factors(self, cells: int, m: int) -> list[Float]:
        """Return by what the features are multiplied in totals, each of shape (n,): those of the gradients, or 1."""
        dimension = self.rows.shape[1] - 1

        def affordable(vectors: int) -> bool:
            constraints = cells + vectors * dimension
            return bool(constraints <= min(m // POINTS_A_CONSTRAINT, MOST_CONSTRAINTS))

        if dimension and affordable(len(self.signs)):
            return [np.where(self.margins[label] < 1.0, signs, 0.0) for label, signs in self.signs.items()]
        return [np.ones(len(self.points))] if dimension and affordable(1) else []


def _decisions(pilot: Pilot, rows: Float) -> Float:
    """Return a pilot's decision values; no BLAS, whose bits depend on the number of threads."""
    if pilot.decisions is not None:
        return pilot.decisions
    return np.asarray(np.einsum("ij,j->i", rows[:, :-1], pilot.coefficients) + pilot.intercept, dtype=np.float64)

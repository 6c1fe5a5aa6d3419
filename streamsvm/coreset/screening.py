r"""Screening: which rows of a long leaf are kept, decided row by row, in one compiled pass.

A leaf that holds every row it has seen cannot be long. Once a partition has sealed both labels, a *screen* is made from
its own sealed buckets, and the next leaf may span a share of all rows before it, at the same memory. Per row, with the
scaled features z, margin m = y (<w~, z> + b~) under the screen's pilot, and u its weight:

1. pi = min(1, rate u s), s = a mixture of sensitivity, 1 and influence as in `streamsvm.coreset.reducers.calibrated`,
   each divided by its average over the sealed buckets, so that the leaf's pi sum to about `TARGET` of its capacity.
2. Systematic sampling within strata, label x `BINS` bins of margin: a running sum of pi a stratum, from a random start;
   the row that lifts it past 1 is kept, with weight u / pi, and 1 is taken off. So the number kept is bounded, rows of
   like margin are seldom kept together, and any weighted sum is estimated without bias. The first row of each label is
   kept for certain: no label is ever lost.
3. Kept or not, every row adds to exact totals: weight of label x {active (m < 1), inactive}, hinge gradient (the sum
   over the active of u y z), first and second moments of z. Kept points are calibrated by them.

If the kept points fill the capacity, because the stream has changed, the rate is halved and they are thinned by the
same rule: a leaf never holds more, whatever comes.

Invariant: what a screened leaf holds is a pure function of its rows, its screen and the generator of (seed, partition,
leaf); no batch's border can matter (`streamsvm.coreset.screening_kernels`).

Where influence costs too much, above `EXACT_NORM` features, |H^-1/2 (z, 1)| is estimated from `SKETCH` random
projections (Johnson and Lindenstrauss 1984): it decides how well points are chosen, never their expectation.

Sources: Madow 1949 (systematic sampling); Deville and Sarndal 1992; `streamsvm.coreset.reducers.calibrated` for the
importance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.coreset.moments import Moments
from streamsvm.coreset.reducers.base import Observed, Pilot, Purpose, generator
from streamsvm.coreset.reducers.calibrated import SHARES, meet, smoothed_hessian
from streamsvm.coreset.row_kernels import label_means
from streamsvm.coreset.screening_kernels import BINS, back_substituted, evaluate, keep, thin
from streamsvm.linalg import Float, factorise
from streamsvm.points import Features, Points, Signs, Weights

Mask = NDArray[np.bool_]

ROWS_AT_ONCE: Final = 4_096
"""Rows whose margins and shares are held at once."""
LEAST_CAPACITY: Final = 8
"""Below, a leaf is too small to be thinned: two points of it are certain to stay."""
TARGET: Final = 0.85
"""Share of its capacity that a leaf is expected to fill; what is left absorbs a stream that changes."""
EXACT_NORM: Final = 32
"""Most features for which the norm of influence is computed exactly."""
SKETCH: Final = 24
"""Projections above: the estimated norm has a relative standard deviation of about 1 / sqrt(2 SKETCH)."""
RATE_STEPS: Final = 6
"""Fixed-point steps that find the rate; each certain point makes the others likelier."""
TURNED: Final = 0.005
"""Squared difference of mean hinge gradients, over second moments of z, from which on a rule may count as turned."""
BY_CHANCE: Final = 10.0
"""What it must exceed beyond that, times 1 / rows + 0.5 / points of the buckets, which tell more than as many random
rows. On shuffled sets 2.6 was the most up to 23 features, 7.6 where features outnumber a third of the points."""


@dataclass(frozen=True, slots=True)
class Screen:
    """What the rows of one leaf are screened by: fixed for the leaf.

    Attributes
    ----------
    rows : int
        Rows that the leaf spans.
    rate : float
        pi = min(1, rate u s), before any thinning.
    scaling : ndarray of shape (2, d)
        Centre and inverse scale: z = (x - centre) * inverse scale.
    coefficients : ndarray of shape (d,)
    intercept : float
        The pilot, over z.
    label_mean : ndarray of shape (2, d)
        Mean of z of the label -1 and of the label +1.
    terms : ndarray of shape (2, 6)
        A label's share of s but for influence, as a function of q, the squared distance to its mean: base, border,
        curved, slope, offset; base + curved q up to the border, base + slope sqrt(q) - offset beyond. Last the label's
        class weight, by which the whole of s is multiplied.
    projection : ndarray of shape (d + 1 and 0 to 3 rows of zeros, k), float32
        Influence is |(z, 1) projection| sqrt(clip((1 + delta - m) / (2 delta), 0, 1)).
    """

    rows: int
    rate: float
    scaling: Float
    coefficients: Float
    intercept: float
    label_mean: Float
    terms: Float
    projection: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Screened:
    """A screened leaf's state besides its points and extent.

    Attributes
    ----------
    screen : Screen
    thinnings : int
        How often the rate was halved.
    accepted : int
        Valid rows seen.
    sums : ndarray of shape (2, BINS)
        Running sum of pi of each stratum, in [0, 1).
    weight : ndarray of shape (2, 2)
        Exact weight of label (-1, +1) x {inactive, active}.
    totals : ndarray of shape (3, d)
        Exact sums of u z, of u z^2, and of u y z over the active, the last with class weights.
    """

    screen: Screen
    thinnings: int
    accepted: int
    sums: Float
    weight: Float
    totals: Float

    @property
    def rate(self) -> float:
        """The rate now."""
        return self.screen.rate * 0.5**self.thinnings

    @property
    def moments(self) -> Moments:
        """Exact moments of all accepted rows, kept or not."""
        own, (first, second, _) = self.weight.sum(axis=1), self.totals
        if not self.accepted:
            return Moments.zero(len(first))
        mean = first / own.sum()
        square = np.maximum(second - first * mean, 0.0)
        centre, inverse_scale = self.screen.scaling
        return Moments(self.accepted, own, centre + mean / inverse_scale, square / inverse_scale**2)

    def copy(self) -> Screened:
        """Return the same with arrays of its own."""
        return replace(self, sums=self.sums.copy(), weight=self.weight.copy(), totals=self.totals.copy())


class Screener:
    """Screens the rows of one leaf into a buffer of the caller.

    Parameters
    ----------
    state : Screened
        Taken over: its arrays are changed.
    seed, partition, leaf : int
        What names the leaf's random numbers.
    """

    def __init__(self, state: Screened, seed: int, partition: int, leaf: int) -> None:
        self._state = state
        self._name = (seed, partition, leaf)

    @classmethod
    def begin(cls, screen: Screen, seed: int, partition: int, leaf: int) -> Screener:
        """Begin a leaf."""
        sums = _starts(seed, partition, leaf, 0)
        return cls(
            Screened(screen, 0, 0, sums, np.zeros((2, 2)), np.zeros((3, screen.scaling.shape[1]))),
            seed,
            partition,
            leaf,
        )

    @property
    def state(self) -> Screened:
        """The state, of which the arrays change with the next `screen`."""
        return self._state

    def screen(self, points: Points, accepted: Mask, buffer: Points, kept: int) -> int:
        """Screen rows; kept ones go into the buffer from `kept` on, and never fill it.

        Parameters
        ----------
        points : Points
            One a row.
        accepted : ndarray of shape (n,), bool
            Which rows are valid.
        buffer : Points
            At least `LEAST_CAPACITY`.
        kept : int
            Points that it holds.

        Returns
        -------
        int
            How many points the buffer holds now.
        """
        for start in range(0, len(points), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            kept = self._screen(points.take(part), accepted[part], buffer, kept)
        return kept

    def _screen(self, points: Points, accepted: Mask, buffer: Points, kept: int) -> int:
        state, n = self._state, len(points)
        margin, share = np.empty(n), np.empty(n)
        rows = points.X, points.y, points.weight, accepted
        evaluate(*rows, *_arrays(state.screen), margin, share, state.totals)
        done = valid = 0
        while done < n:
            done, counted, kept = keep(
                *rows, margin, share, self._state.rate, done, state.sums, state.weight, *_columns(buffer), kept
            )
            valid += counted
            while kept == len(buffer):
                kept = self._thin(buffer)
        self._state = replace(self._state, accepted=state.accepted + valid)
        return kept

    def _thin(self, full: Points) -> int:
        """Halve the rate; return how many of the kept points stay."""
        self._state = replace(self._state, thinnings=self._state.thinnings + 1)
        sums = _starts(*self._name, self._state.thinnings)
        margin, share = _shares(full, self._state.screen)
        return int(thin(*_columns(full), margin, share, self._state.rate, sums))


def warm_up(dtype: np.dtype[np.floating]) -> None:
    """Compile, or load from numba's file cache, what screening runs."""
    n = 2 * LEAST_CAPACITY
    points = Points(np.ones((n, 1), dtype), np.tile(np.array([-1, 1], np.int8), n // 2), np.ones(n))
    pilot = Pilot(1.0, np.zeros(1), np.ones(1), np.array([2.0]), -1.0, 0.5)
    seen, random = Moments.zero(1).add(points), generator(0, Purpose.SKETCH, (0, 0, 0))
    screen = make_screen(points, pilot, seen, n, n, 2 * n, random)
    buffer = points.take(np.arange(LEAST_CAPACITY))
    Screener.begin(screen, 0, 0, 0).screen(points, np.ones(n, np.bool_), buffer, 0)


def calibrated(points: Points, state: Screened, observed: Observed) -> Points:
    """Return kept points under weights that meet the exact totals; note how it went."""
    if not len(points):
        return points
    observed.reductions += 1
    rows, margin, _ = _evaluated(points, state.screen)
    class_weight = state.screen.terms[:, 5]
    factor = class_weight[(points.y > 0).astype(np.intp)]
    totals = state.weight * class_weight[:, None]
    weight = meet(points.weight * factor, rows, points.y, margin < 1.0, totals, state.totals[2], observed)
    return points.reweighted(weight / factor)


def turned(state: Screened, buckets: Points) -> bool:
    """Tell whether the rule behind the labels is plainly another in a screened leaf than in the buckets before it.

    Compared are the mean hinge gradients of one pilot, exact in the leaf: where the rule turns, other rows are active,
    or on another side, whatever the features and the share of labels do.

    Parameters
    ----------
    state : Screened
    buckets : Points
        The same points as `make_screen` was given.
    """
    if not state.accepted:
        return False
    class_weight = state.screen.terms[:, 5] / state.screen.terms[:, 5].max()
    rows, margin, _ = _evaluated(buckets, state.screen)
    Z, total, of_leaf = rows[:, :-1], float(buckets.weight.sum()), float(state.weight.sum())
    active = buckets.weight * class_weight[(buckets.y > 0).astype(np.intp)] * buckets.y * (margin < 1.0)
    apart = np.einsum("i,ij->j", active, Z) / total - state.totals[2] / (state.screen.terms[:, 5].max() * of_leaf)
    spread = np.einsum("i,ij,ij->j", buckets.weight, Z, Z) / total + state.totals[1] / of_leaf
    distance = np.divide(np.square(apart), spread, out=np.zeros_like(apart), where=spread > 0.0).max(initial=0.0)
    return bool(distance > TURNED + BY_CHANCE * (1.0 / state.accepted + 0.5 / len(buckets)))


def make_screen(
    points: Points, pilot: Pilot, seen: Moments, rows: int, accepted: float, capacity: int, random: np.random.Generator
) -> Screen:
    """Make the screen of a leaf.

    Parameters
    ----------
    points : Points
        Of the partition's sealed buckets, both labels among them.
    pilot : Pilot
        Of those points, with a positive bound.
    seen : Moments
        Exact moments of what they stand for.
    rows : int
        Rows that the leaf spans.
    accepted : float
        How many of them are expected to be valid.
    capacity : int
        Most points that the leaf may hold.
    random : numpy Generator
        Only `random()` is called, and only above `EXACT_NORM` features.
    """
    d = points.dimension
    scaling = np.stack([seen.mean, 1.0 / pilot.scale])
    shift = float(np.einsum("j,j->", pilot.coefficients, (scaling[0] - pilot.mean) * scaling[1]))
    blank = Screen(
        rows,
        0.0,
        scaling,
        pilot.coefficients,
        pilot.intercept + shift,
        np.zeros((2, d)),
        np.repeat([[0.0, 0.0, 0.0, 0.0, 0.0, 1.0]], 2, axis=0),
        np.zeros((d + 1, 0), np.float32),
    )
    raw, points = points, points.class_weighted(pilot.class_weight)
    Z, margin, _ = _evaluated(points, blank)
    own, mean = np.empty(2), np.empty((2, d))
    label_means(Z, points.y, points.weight, own, mean)
    terms = _sensitivity_terms(seen.class_weight * pilot.class_weight, pilot)
    projection = _projection(smoothed_hessian(Z, points.weight, margin, pilot.penalty), random)
    distant = replace(blank, label_mean=mean, terms=terms)
    sensitive, influential = (
        _mean_share(distant, points),
        _mean_share(replace(blank, projection=projection.astype(np.float32)), points),
    )
    terms[:, [0, 2, 3, 4]] *= SHARES[0] / sensitive
    terms[:, 0] += SHARES[1]
    projection *= SHARES[2] / influential if influential > 0.0 else 0.0
    mixed = replace(distant, projection=projection.astype(np.float32))
    terms[:, 5] = pilot.class_weight
    size = _shares(raw, mixed)[1] * (seen.weight / seen.count)
    return replace(mixed, rate=_rate(size, raw.weight * (accepted / raw.weight.sum()), TARGET * capacity))


def _sensitivity_terms(own: Float, pilot: Pilot) -> Float:
    """Return `Screen.terms` of Alg. 1's bound, of a point of weight 1, one cluster a label: `direct_bound` unfolded."""
    terms = np.ones((2, 6))
    alpha = own[::-1] / (2.0 * pilot.penalty * own.sum() * own)
    terms[:, 0] = 1.0 / own
    terms[:, 1] = 8.0 * alpha * alpha * pilot.lower_bound
    terms[:, 2] = pilot.penalty / (4.0 * alpha * pilot.lower_bound)
    terms[:, 3] = pilot.penalty * np.sqrt(2.0 / pilot.lower_bound)
    terms[:, 4] = pilot.penalty * 2.0 * alpha
    return terms


def _projection(hessian: Float, random: np.random.Generator) -> Float:
    """Return H^-1/2, or random projections of it, as columns; no columns if H is not positive."""
    d = len(hessian)
    if not factorise(hessian):
        return np.zeros((d + -d % 4, 0))
    mixture = np.eye(d)
    if d - 1 > EXACT_NORM:
        mixture = np.where(random.random((d, SKETCH)) < 0.5, -1.0, 1.0) / np.sqrt(SKETCH)
    return np.pad(back_substituted(hessian, mixture), ((0, -d % 4), (0, 0)))


def _mean_share(screen: Screen, points: Points) -> float:
    return float(np.einsum("i,i->", _shares(points, screen)[1], points.weight) / points.weight.sum())


def _rate(size: Float, expected: Float, target: float) -> float:
    """Return the rate at which sum expected min(1, rate size) is the target, about."""
    rate, certain = 0.0, np.zeros(len(size), np.bool_)
    for _ in range(RATE_STEPS):
        free = target - float(expected[certain].sum())
        total = float(np.einsum("i,i->", expected[~certain], size[~certain]))
        if free <= 0.0 or total <= 0.0:
            break
        rate = free / total
        certain = rate * size >= 1.0
    return rate


def _starts(seed: int, partition: int, leaf: int, thinnings: int) -> Float:
    return generator(seed, Purpose.SCREEN, (partition, leaf, thinnings)).random((2, BINS))


def _arrays(screen: Screen) -> tuple[Float, Float, float, Float, Float, NDArray[np.float32]]:
    return (
        screen.scaling,
        screen.coefficients,
        screen.intercept,
        screen.label_mean,
        screen.terms,
        screen.projection,
    )


def _columns(points: Points) -> tuple[Features, Signs, Weights]:
    return points.X, points.y, points.weight


def _evaluated(points: Points, screen: Screen) -> tuple[Float, Float, Float]:
    """Return (z, 1), shape (n, d + 1), margins and s."""
    rows = np.ones((len(points), points.dimension + 1))
    np.subtract(points.X, screen.scaling[0], out=rows[:, :-1])
    rows[:, :-1] *= screen.scaling[1]
    return rows, *_shares(points, screen)


def _shares(points: Points, screen: Screen) -> tuple[Float, Float]:
    """Return margins and s."""
    n = len(points)
    margin, share = np.empty(n), np.empty(n)
    nothing = np.zeros((0, points.dimension))
    evaluate(*_columns(points), np.ones(n, np.bool_), *_arrays(screen), margin, share, nothing)
    return margin, share

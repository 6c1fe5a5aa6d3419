r"""Screening decides row by row which rows of a long leaf are kept, in one compiled pass.

A leaf that holds every row it has seen cannot be long. Once a partition has sealed points of both labels, a *screen* is
made from its sealed buckets, and the next leaf may span a share of all rows before it, with the same memory. For each
row with scaled features z, margin m = y (<w~, z> + b~) under the screen's pilot, and weight u:

1. The inclusion probability is pi = min(1, rate u s). s is a mixture of sensitivity, 1 and influence, as in
   `streamsvm.coreset.reducers.calibrated`, each divided by its average over the sealed buckets. The rate is chosen so
   that the pi of the leaf sum to about `TARGET` of its capacity.
2. Rows are sampled systematically within strata, one per label and bin of margin (`BINS` bins). Each stratum has a
   running sum of pi, which begins at a random start. The row that lifts the sum past 1 is kept with weight u / pi, and
   1 is subtracted. So the number of kept rows is bounded, rows of similar margin are seldom kept together, and every
   weighted sum is estimated without bias. The first row of each label is always kept, so that no label is lost.
3. Every row, kept or not, adds to exact totals: the weight of label x {active (m < 1), inactive}, the hinge gradient
   (the sum of u y z over the active rows), and the first and second moments of z. Kept points are calibrated to them.

If the kept points fill the capacity, because the stream has changed, the rate is halved and the kept points are thinned
by the same rule. So a leaf never holds more points than its capacity.

Invariant: the content of a screened leaf is a pure function of its rows, its screen and the generator of (seed,
partition, leaf); borders of batches do not matter (`streamsvm.coreset.screening_kernels`).

Above `EXACT_NORM` features the exact influence costs too much, and |H^-1/2 (z, 1)| is estimated from `SKETCH` random
projections (Johnson and Lindenstrauss 1984). The estimate affects how well points are chosen, but not the expectation
of any weighted sum.

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
"""Number of rows whose margins and shares are in memory at once."""
LEAST_CAPACITY: Final = 8
"""A leaf of smaller capacity cannot be thinned, because two of its points always stay."""
TARGET: Final = 0.85
"""Share of its capacity that a leaf is expected to fill; the rest is a reserve for a stream that changes."""
EXACT_NORM: Final = 32
"""Largest number of features for which the norm in the influence is computed exactly."""
SKETCH: Final = 24
"""Number of random projections above that; the estimated norm has a relative standard deviation of 1 / sqrt(2
SKETCH)."""
RATE_STEPS: Final = 6
"""Number of fixed-point steps that find the rate. Each finds points with pi = 1, which raises the rate for the
others."""
TURNED: Final = 0.005
"""Squared difference of mean hinge gradients, relative to second moments of z, above which a rule may count as
turned."""
BY_CHANCE: Final = 10.0
"""Allowance for chance: the difference must exceed TURNED + BY_CHANCE * (1 / rows + 0.5 / points of the buckets).

The factor 0.5 is there because bucket points tell more than the same number of random rows. On shuffled data the factor
never exceeded 2.6 for up to 23 features, and 7.6 where there are more features than a third of the points.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """The rule by which the rows of one leaf are screened; it does not change within the leaf.

    Attributes
    ----------
    rows : int
        Rows that the leaf spans.
    rate : float
        The rate in pi = min(1, rate u s), before any thinning.
    scaling : ndarray of shape (2, d)
        Centre and inverse scale: z = (x - centre) * inverse scale.
    coefficients : ndarray of shape (d,)
    intercept : float
        The pilot, over z.
    label_mean : ndarray of shape (2, d)
        Mean of z of the label -1 and of the label +1.
    terms : ndarray of shape (2, 6)
        Per label, s without influence as a function of q, the squared distance to the label's mean, given by base,
        border, curved, slope and offset: base + curved q up to the border, base + slope sqrt(q) - offset beyond it. The
        sixth number is the label's class weight, which multiplies all of s.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """The state of a screened leaf, except its points and extent.

    Attributes
    ----------
    screen : Screen
    thinnings : int
        Number of times the rate was halved.
    accepted : int
        Valid rows seen.
    sums : ndarray of shape (2, BINS)
        Running sum of pi in each stratum, in [0, 1).
    weight : ndarray of shape (2, 2)
        Exact weight of label (-1, +1) x {inactive, active}.
    totals : ndarray of shape (3, d)
        Exact sums of u z, of u z^2, and of u y z over the active rows; the last with class weights.
    """

    screen: Screen
    thinnings: int
    accepted: int
    sums: Float
    weight: Float
    totals: Float

    @property
    def rate(self) -> float:
        """The current rate, after all thinnings."""
        return self.screen.rate * 0.5**self.thinnings

    @property
    def moments(self) -> Moments:
        """Exact moments of all accepted rows, kept or not."""
        own, (first, second, _) = self.weight.sum(axis=1), self.totals
        if not self.accepted:
            return Moments.zero(len(first))
        mean = first / own.sum()
        # The difference of two rounded sums can fall below 0 where a feature is constant.
        square = np.maximum(second - first * mean, 0.0)
        centre, inverse_scale = self.screen.scaling
        return Moments(self.accepted, own, centre + mean / inverse_scale, square / inverse_scale**2)

    def copy(self) -> Screened:
        """Return a copy with its own arrays."""
        return replace(self, sums=self.sums.copy(), weight=self.weight.copy(), totals=self.totals.copy())


class Screener:
    """Screens the rows of one leaf, and writes kept points into a buffer of the caller.

    Parameters
    ----------
    state : Screened
        The screener takes ownership and changes the arrays.
    seed, partition, leaf : int
        The key of the leaf's random numbers.
    """

    def __init__(self, state: Screened, seed: int, partition: int, leaf: int) -> None:
        self._state = state
        self._name = (seed, partition, leaf)

    @classmethod
    def begin(cls, screen: Screen, seed: int, partition: int, leaf: int) -> Screener:
        """Begin a leaf."""
        sums = _starts(seed, partition, leaf, 0)
        return cls(
            Screened(
                screen=screen,
                thinnings=0,
                accepted=0,
                sums=sums,
                weight=np.zeros((2, 2)),
                totals=np.zeros((3, screen.scaling.shape[1])),
            ),
            seed,
            partition,
            leaf,
        )

    @property
    def state(self) -> Screened:
        """The state; its arrays change with the next call of `screen`."""
        return self._state

    def screen(self, points: Points, accepted: Mask, buffer: Points, kept: int) -> int:
        """Screen rows. Kept points are written into the buffer from `kept` on; the buffer is never full afterwards.

        Parameters
        ----------
        points : Points
            One point per row.
        accepted : ndarray of shape (n,), bool
            Which rows are valid.
        buffer : Points
            Has room for at least `LEAST_CAPACITY` points.
        kept : int
            Number of points in the buffer.

        Returns
        -------
        int
            Number of points in the buffer afterwards.
        """
        # In pieces, whose border does not matter: sums and strata go on in the state.
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
            # One thinning may leave the buffer full, when few of the points can go.
            while kept == len(buffer):
                kept = self._thin(buffer)
        self._state = replace(self._state, accepted=state.accepted + valid)
        return kept

    def _thin(self, full: Points) -> int:
        """Halve the rate; return how many of the kept points stay."""
        # Counted and not multiplied into the rate: a power of two of the screen's rate is the same bits after any
        # restart.
        self._state = replace(self._state, thinnings=self._state.thinnings + 1)
        # Fresh starts: the strata's running sums belong to the rows, and thinning is another sampling.
        sums = _starts(*self._name, self._state.thinnings)
        margin, share = _shares(full, self._state.screen)
        return int(thin(*_columns(full), margin, share, self._state.rate, sums))


def warm_up(dtype: np.dtype[np.floating]) -> None:
    """Compile, or load from numba's file cache, the functions that screening runs."""
    n = 2 * LEAST_CAPACITY
    points = Points(np.ones((n, 1), dtype), np.tile(np.array([-1, 1], np.int8), n // 2), np.ones(n))
    pilot = Pilot(
        penalty=1.0, mean=np.zeros(1), scale=np.ones(1), coefficients=np.array([2.0]), intercept=-1.0, lower_bound=0.5
    )
    seen, random = Moments.zero(1).add(points), generator(0, Purpose.SKETCH, (0, 0, 0))
    screen = make_screen(points, pilot, seen, n, n, 2 * n, random)
    buffer = points.take(np.arange(LEAST_CAPACITY))
    Screener.begin(screen, 0, 0, 0).screen(points, np.ones(n, np.bool_), buffer, 0)


def calibrated(points: Points, state: Screened, observed: Observed) -> Points:
    """Return kept points with weights that meet the exact totals; count the outcome."""
    # A leaf whose rows were all rejected.
    if not len(points):
        return points
    observed.reductions += 1
    rows, margin, _ = _evaluated(points, state.screen)
    class_weight = state.screen.terms[:, 5]
    factor = class_weight[(points.y > 0).astype(np.intp)]
    totals = state.weight * class_weight[:, None]
    weight = meet(points.weight * factor, rows, points.y, margin < 1.0, totals, state.totals[2], observed)
    # Calibrated as the problem weighs them, kept in the points' own weights: class weights may change while the bucket
    # lives.
    return points.reweighted(weight / factor)


def turned(state: Screened, buckets: Points) -> bool:
    """Tell whether the rule behind the labels clearly differs between a screened leaf and the buckets before it.

    Compared are the mean hinge gradients under one pilot; the leaf's is exact. If the rule changes, other rows become
    active or change sides, even if the features and the share of labels stay the same.

    Parameters
    ----------
    state : Screened
    buckets : Points
        The points that `make_screen` was called with.
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
        The points of the partition's sealed buckets; both labels must be present.
    pilot : Pilot
        The pilot of those points, with a positive bound.
    seen : Moments
        Exact moments of the rows that they represent.
    rows : int
        Rows that the leaf spans.
    accepted : float
        Expected number of valid rows among them.
    capacity : int
        Most points that the leaf may hold.
    random : numpy Generator
        Only `random()` is called, and only above `EXACT_NORM` features.
    """
    d = points.dimension
    scaling = np.stack([seen.mean, 1.0 / pilot.scale])
    shift = float(np.einsum("j,j->", pilot.coefficients, (scaling[0] - pilot.mean) * scaling[1]))
    blank = Screen(
        rows=rows,
        rate=0.0,
        scaling=scaling,
        coefficients=pilot.coefficients,
        intercept=pilot.intercept + shift,
        label_mean=np.zeros((2, d)),
        terms=np.repeat([[0.0, 0.0, 0.0, 0.0, 0.0, 1.0]], 2, axis=0),
        projection=np.zeros((d + 1, 0), np.float32),
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
    """Return `Screen.terms`: Alg. 1's bound for a point of weight 1 and one cluster per label (`direct_bound`)."""
    terms = np.ones((2, 6))
    alpha = own[::-1] / (2.0 * pilot.penalty * own.sum() * own)
    terms[:, 0] = 1.0 / own
    terms[:, 1] = 8.0 * alpha * alpha * pilot.lower_bound
    terms[:, 2] = pilot.penalty / (4.0 * alpha * pilot.lower_bound)
    terms[:, 3] = pilot.penalty * np.sqrt(2.0 / pilot.lower_bound)
    terms[:, 4] = pilot.penalty * 2.0 * alpha
    return terms


def _projection(hessian: Float, random: np.random.Generator) -> Float:
    """Return H^-1/2, or random projections of it, as columns; no columns if H is not positive definite."""
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
    """Return the rate at which the sum of expected * min(1, rate * size) is about the target."""
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

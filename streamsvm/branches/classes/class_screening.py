r"""Screening for several labels: one decision a row, by the greatest of its importances in K problems.

What `streamsvm.coreset.screening` is for two labels, this is for more, where each label is told from all others over
one set of points (`streamsvm.coreset.reducers.multiclass`):

1. Each problem has the screen that two labels would have: a pilot, and s with average 1 over the sealed buckets. The
   inclusion probability of a row is min(1, rate u s), s being the greatest of its problems; so that no problem has less
   of what matters to it than it would in a sample of its own at this rate.
2. Rows are sampled systematically within strata, one per label and bin of the margin in the label's own problem. The
   first row of each label is always kept; of a label that the buckets hold nothing of, which therefore has no problem
   yet, the first `capacity / (8 K)` rows.
3. Every row, kept or not, adds to exact totals: the weight of each label; for each problem the weight of the active
   rows on either side and the hinge gradient; and the moments of z. Kept points are calibrated to them: to all
   gradients where there are `POINTS_A_CONSTRAINT` points for each total, else to the mean; to the weights alone where
   that strains them.

The margins against the rest are screened, also where versions hold a machine for each pair: the reductions of the
buckets go by them too, and K(K - 1) / 2 pilots would take longer to solve than their margins could save.

There is no band. Thinning is that of two labels. A leaf whose points are few for so many totals spans less
(`span_share`).

Invariant: the content of a screened leaf is a pure function of its rows, its screen and the generator of (seed,
partition, leaf); borders of batches do not matter.

Sources: those of `streamsvm.coreset.screening`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.branches.classes.class_screening_kernels import evaluate, keep, thin
from streamsvm.coreset.calibration import MOST, Calibrated, calibrate
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.reducers.base import Observed, Pilot, Purpose, generator
from streamsvm.coreset.reducers.calibrated import POINTS_A_CONSTRAINT, STRAINED
from streamsvm.coreset.reducers.multiclass import MOST_CONSTRAINTS, SharedPilot
from streamsvm.coreset.screen_making import make_screen
from streamsvm.coreset.screen_making_kernels import rate_of
from streamsvm.coreset.screening import BY_CHANCE, LEAST_CAPACITY, ROWS_AT_ONCE, TARGET, TURNED, Mask
from streamsvm.coreset.screening_kernels import BINS
from streamsvm.linalg import Float
from streamsvm.points import Points

CAPACITY_A_LABEL: Final = 4
"""A leaf of fewer points a label is not screened: one of each always stays, and the others are to be a choice."""
POINTS_A_TOTAL: Final = 10
"""Points of a leaf for each of its K (d + 3) totals, with which it may span as much as a leaf of two labels may.

With half of them it spans half as much. Otherwise the gap grows: of seven labels in a chain of 1,000 points from 0.008
to 0.017, where half the span keeps it (measured; from seven points a total on, nothing was lost)."""
LEAST_SHARE: Final = 0.25
"""Of that span, which is left to a leaf of the fewest points: below it little time would be saved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassScreen:
    """The rule by which the rows of one leaf are screened for K labels; it does not change within the leaf.

    Attributes
    ----------
    rows : int
        Rows that the leaf spans.
    rate : float
        The rate in pi = min(1, rate u s), before any thinning.
    scaling : ndarray of shape (2, d)
        Centre and inverse scale: z = (x - centre) * inverse scale.
    class_weight : ndarray of shape (K,)
        By what all problems multiply the weights of each label, and therefore s.
    labels : ndarray of shape (p,), int64
        The labels that have a problem, ascending.
    coefficients : ndarray of shape (p, d)
    intercepts : ndarray of shape (p,)
        Their pilots, over z.
    label_mean : ndarray of shape (p, 2, d)
    terms : ndarray of shape (p, 2, 6)
    projection : ndarray of shape (p, d + 1 and 0 to 3 rows of zeros, k), float32
        Of each problem as in `streamsvm.coreset.screening.Screen`; the first index of the second axis is the rest.
    """

    rows: int
    rate: float
    scaling: Float
    class_weight: Float
    labels: NDArray[np.int64]
    coefficients: Float
    intercepts: Float
    label_mean: Float
    terms: Float
    projection: NDArray[np.float32]

    @property
    def classes(self) -> int:
        """K."""
        return len(self.class_weight)

    @property
    def known(self) -> Mask:
        """Whether each label has a problem, shape (K,)."""
        return np.isin(np.arange(self.classes), self.labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassScreened:
    """The state of a leaf that is screened for K labels, except its points and extent.

    Attributes
    ----------
    screen : ClassScreen
    thinnings : int
        Number of times the rate was halved.
    counts : ndarray of shape (K,), int64
        Valid rows seen of each label.
    sums : ndarray of shape (K, BINS)
        Running sum of pi in each stratum, in [0, 1).
    weight : ndarray of shape (K,)
        Exact weight of each label.
    active : ndarray of shape (p, 2)
        Exact weight of the active rows of each problem: of the rest, and of its label; with class weights.
    moments_sums : ndarray of shape (2, d)
        Exact sums of u z and of u z^2.
    gradient : ndarray of shape (p, d)
        Exact sums of u y z over the active rows of each problem, with class weights.
    """

    screen: ClassScreen
    thinnings: int
    counts: NDArray[np.int64]
    sums: Float
    weight: Float
    active: Float
    moments_sums: Float
    gradient: Float

    @property
    def accepted(self) -> int:
        """Valid rows seen."""
        return int(self.counts.sum())

    @property
    def rate(self) -> float:
        """The current rate, after all thinnings."""
        return self.screen.rate * 0.5**self.thinnings

    @property
    def moments(self) -> Moments:
        """Exact moments of all accepted rows, kept or not."""
        first, second = self.moments_sums
        if not self.accepted:
            return Moments.zero(len(first), self.screen.classes)
        mean = first / self.weight.sum()
        # The difference of two rounded sums can fall below 0 where a feature is constant.
        square = np.maximum(second - first * mean, 0.0)
        centre, inverse_scale = self.screen.scaling
        return Moments(self.accepted, self.weight.copy(), centre + mean / inverse_scale, square / inverse_scale**2)

    def copy(self) -> ClassScreened:
        """Return a copy with its own arrays."""
        own = ("counts", "sums", "weight", "active", "moments_sums", "gradient")
        return replace(self, **{name: getattr(self, name).copy() for name in own})

    def resumed(self, leaf: tuple[int, int, int]) -> ClassScreener:
        """Return the screener that goes on from a copy."""
        return ClassScreener(self.copy(), *leaf)

    def calibrated(self, points: Points, observed: Observed) -> Points:
        """See `calibrated`."""
        return calibrated(points, self, observed)

    def turned(self, buckets: Sequence[Points]) -> bool:
        """See `turned`."""
        return turned(self, Points.union(buckets))


class ClassScreener:
    """Screens the rows of one leaf, and writes kept points into a buffer of the caller.

    Parameters
    ----------
    state : ClassScreened
        The screener takes ownership and changes the arrays.
    seed, partition, leaf : int
        The key of the leaf's random numbers.
    """

    def __init__(self, state: ClassScreened, seed: int, partition: int, leaf: int) -> None:
        self._state = state
        self._name = (seed, partition, leaf)

    @classmethod
    def begin(cls, screen: ClassScreen, seed: int, partition: int, leaf: int) -> ClassScreener:
        """Begin a leaf."""
        problems, d = screen.coefficients.shape
        return cls(
            ClassScreened(
                screen=screen,
                thinnings=0,
                counts=np.zeros(screen.classes, np.int64),
                sums=_starts(screen.classes, seed, partition, leaf, 0),
                weight=np.zeros(screen.classes),
                active=np.zeros((problems, 2)),
                moments_sums=np.zeros((2, d)),
                gradient=np.zeros((problems, d)),
            ),
            seed,
            partition,
            leaf,
        )

    @property
    def state(self) -> ClassScreened:
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
            Has room for at least `least_capacity` points.
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
        # A rejected row has no label that could be looked up.
        rows = points.X, np.where(accepted, points.y, 0).astype(np.int8), points.weight, accepted
        margin, share = np.empty(n), np.empty(n)
        evaluate(*rows, *_arrays(state.screen), margin, share, _none(state.screen), *_totals(state))
        known, done = state.screen.known, 0
        while done < n:
            done, kept = keep(
                *rows,
                known,
                margin,
                share,
                self._state.rate,
                done,
                state.sums,
                state.counts,
                state.weight,
                buffer.X,
                buffer.y,
                buffer.weight,
                kept,
            )
            # One thinning may leave the buffer full, when few of the points can go.
            while kept == len(buffer):
                kept = self._thin(buffer)
        return kept

    def _thin(self, full: Points) -> int:
        """Halve the rate; return how many of the kept points stay."""
        # Counted and not multiplied into the rate: a power of two of the screen's rate is the same bits after any
        # restart.
        self._state = replace(self._state, thinnings=self._state.thinnings + 1)
        # Fresh starts: the strata's running sums belong to the rows, and thinning is another sampling.
        sums = _starts(self._state.screen.classes, *self._name, self._state.thinnings)
        margin, share, _ = shares(full, self._state.screen)
        return int(thin(full.X, full.y, full.weight, margin, share, self._state.rate, sums))


def span_share(classes: int, dimension: int, capacity: int) -> float:
    """Return the share that a leaf of so many points may span of what one of two labels may."""
    totals = classes * (dimension + 3)
    return min(1.0, max(LEAST_SHARE, capacity / (POINTS_A_TOTAL * totals)))


def least_capacity(classes: int) -> int:
    """Return the fewest points of a leaf that can be screened for so many labels."""
    return LEAST_CAPACITY if classes == 2 else max(LEAST_CAPACITY, CAPACITY_A_LABEL * classes)


def warm_up(dtype: np.dtype[np.floating]) -> None:
    """Compile, or load from numba's file cache, the functions that screening for several labels runs."""
    classes = 3
    n = 2 * least_capacity(classes)
    points = Points(np.arange(n, dtype=dtype)[:, None], np.arange(n).astype(np.int8) % np.int8(3), np.ones(n))
    one = Pilot(
        penalty=1.0, mean=np.zeros(1), scale=np.ones(1), coefficients=np.array([2.0]), intercept=-1.0, lower_bound=0.5
    )
    seen, random = Moments.zero(1, classes).add(points), generator(0, Purpose.SKETCH, (0, 0, 0))
    screen = make_class_screen(points, SharedPilot((one,) * classes, (1.0,) * classes), seen, n, n, 2 * n, random)
    assert screen is not None
    buffer = points.take(np.arange(least_capacity(classes)))
    ClassScreener.begin(screen, 0, 0, 0).screen(points, np.ones(n, np.bool_), buffer, 0)


def make_class_screen(
    points: Points,
    pilot: SharedPilot,
    seen: Moments,
    rows: int,
    accepted: float,
    capacity: int,
    random: np.random.Generator,
) -> ClassScreen | None:
    """Make the screen of a leaf; None if no label can be separated from the others yet.

    Parameters
    ----------
    points : Points
        The points of the partition's sealed buckets.
    pilot : SharedPilot
        The pilots of those points.
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
    pilots = pilot.bounded_for(points)
    if not pilots:
        return None
    class_weight = np.array(pilot.class_weight)
    weighed = points.class_weighted(pilot.class_weight)
    heavy = replace(seen, class_weight=seen.class_weight * class_weight)
    each = [
        make_screen(
            weighed.against_the_rest(label), own, heavy.against_the_rest(label), rows, accepted, capacity, random
        )
        for label, own in pilots.items()
    ]
    # Without a direction that matters there is no projection; then the influence is 0.
    most = max(one.projection.shape[1] for one in each)
    mixed = ClassScreen(
        rows=rows,
        rate=0.0,
        scaling=each[0].scaling,
        class_weight=class_weight,
        labels=np.array(list(pilots), np.int64),
        coefficients=np.stack([one.coefficients for one in each]),
        intercepts=np.array([one.intercept for one in each]),
        label_mean=np.stack([one.label_mean for one in each]),
        terms=np.stack([one.terms for one in each]),
        projection=np.stack([np.pad(one.projection, ((0, 0), (0, most - one.projection.shape[1]))) for one in each]),
    )
    expected = points.weight * (accepted / points.weight.sum())
    size = shares(points, mixed)[1] * (seen.weight / seen.count)
    return replace(mixed, rate=rate_of(size, expected, TARGET * capacity))


def calibrated(points: Points, state: ClassScreened, observed: Observed) -> Points:
    """Return kept points with weights that meet the exact totals; count the outcome."""
    # A leaf whose rows were all rejected.
    if not len(points):
        return points
    observed.reductions += 1
    screen, weight = state.screen, points.weight
    present = np.flatnonzero(np.bincount(points.y, minlength=screen.classes))
    factor = screen.class_weight[points.y]
    active = shares(points, screen, wanted=True)[2] < 1.0
    columns: list[Float] = [(points.y == label) * 1.0 for label in present]
    wanted = list(state.weight[present])
    for cell, total in _cells(points, state, active):
        columns.append(factor * cell)
        wanted.append(total)
    if len(points) >= POINTS_A_CONSTRAINT * len(columns):
        constraints, totals = [np.column_stack(columns)], [np.array(wanted)]
        for column, vector in _vectors(points, state, active, len(columns)):
            constraints.append(column)
            totals.append(vector)
        found = calibrate(weight, np.hstack(constraints), np.concatenate(totals))
        if _is_strained(found) and len(constraints) > 1:  # vectors that the few points cannot meet move all weights
            found = calibrate(weight, constraints[0], totals[0])
        weight = found.weight
        observed.strained += _is_strained(found)
        observed.eta = max(observed.eta, found.eta)
    else:
        observed.uncalibrated += 1
    # Calibration may leave a total unmet; the weight of a label is kept whatever happens.
    held = np.bincount(points.y, weights=weight, minlength=screen.classes)
    return points.reweighted(weight * (state.weight[points.y] / held[points.y]))


def _is_strained(found: Calibrated) -> bool:
    return found.eta >= MOST - 1.0 or found.unmet > STRAINED


def _cells(points: Points, state: ClassScreened, active: Mask) -> Iterator[tuple[Mask, float]]:
    """Yield the active points of each side of each problem with their exact weight.

    Only where some of the points are, and some are not.
    """
    for problem, label in enumerate(state.screen.labels):
        own = points.y == label
        for at, side in enumerate((~own, own)):
            cell = side & active[problem]
            if 0 < np.count_nonzero(cell) < np.count_nonzero(side):
                yield cell, float(state.active[problem, at])


def _vectors(points: Points, state: ClassScreened, active: Mask, cells: int) -> Iterator[tuple[Float, Float]]:
    """Yield what the points' features are multiplied to in totals, shape (n, d), with the totals, shape (d,).

    The gradients of all problems where there are points enough, else the mean, else nothing.
    """
    screen, d = state.screen, points.dimension
    most = min(len(points) // POINTS_A_CONSTRAINT, MOST_CONSTRAINTS) - cells
    if most < d:
        return
    Z = (points.X - screen.scaling[0]) * screen.scaling[1]
    if most < d * len(screen.labels):
        yield Z, state.moments_sums[0]
        return
    factor = screen.class_weight[points.y]
    for problem, label in enumerate(screen.labels):
        signs = np.where(points.y == label, factor, -factor)
        yield Z * np.where(active[problem], signs, 0.0)[:, None], state.gradient[problem]


def turned(state: ClassScreened, buckets: Points) -> bool:
    """Return whether the rule behind the labels clearly differs between a screened leaf and the buckets before it.

    Parameters
    ----------
    state : ClassScreened
    buckets : Points
        The points that `make_class_screen` was called with.
    """
    if not state.accepted:
        return False
    screen = state.screen
    most = float(screen.class_weight.max())
    factor = screen.class_weight[buckets.y] / most
    Z = (buckets.X - screen.scaling[0]) * screen.scaling[1]
    active = shares(buckets, screen, wanted=True)[2] < 1.0
    total, of_leaf = float(buckets.weight.sum()), float(state.weight.sum())
    spread = np.einsum("i,ij,ij->j", buckets.weight, Z, Z) / total + state.moments_sums[1] / of_leaf
    bound = TURNED + BY_CHANCE * (1.0 / state.accepted + 0.5 / len(buckets))
    for problem, label in enumerate(screen.labels):
        pulls = buckets.weight * factor * np.where(buckets.y == label, 1.0, -1.0) * active[problem]
        apart = np.einsum("i,ij->j", pulls, Z) / total - state.gradient[problem] / (most * of_leaf)
        distance = np.divide(np.square(apart), spread, out=np.zeros_like(apart), where=spread > 0.0)
        if distance.max(initial=0.0) > bound:
            return True
    return False


def shares(points: Points, screen: ClassScreen, *, wanted: bool = False) -> tuple[Float, Float, Float]:
    """Return margins in the label's own problem, s, and, if wanted, the margins of all problems, shape (p, n)."""
    n, problems = len(points), len(screen.labels)
    margin, share = np.empty(n), np.empty(n)
    margins = np.empty((problems, n)) if wanted else _none(screen)
    nothing = np.zeros((0, points.dimension)), np.zeros((0, 2)), np.zeros((0, points.dimension))
    valid = np.ones(n, np.bool_)
    evaluate(points.X, points.y, points.weight, valid, *_arrays(screen), margin, share, margins, *nothing)
    return margin, share, margins


def _none(screen: ClassScreen) -> Float:
    return np.empty((len(screen.labels), 0))


def _arrays(
    screen: ClassScreen,
) -> tuple[Float, NDArray[np.int64], Float, Float, Float, Float, NDArray[np.float32], Float]:
    return (
        screen.scaling,
        screen.labels,
        screen.coefficients,
        screen.intercepts,
        screen.label_mean,
        screen.terms,
        screen.projection,
        screen.class_weight,
    )


def _totals(state: ClassScreened) -> tuple[Float, Float, Float]:
    return state.moments_sums, state.active, state.gradient


def _starts(classes: int, seed: int, partition: int, leaf: int, thinnings: int) -> Float:
    return generator(seed, Purpose.SCREEN, (partition, leaf, thinnings)).random((classes, BINS))

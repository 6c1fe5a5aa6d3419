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

A screen may be that of a kernel machine, too: what its arrays mean, and so margin and s, is a branch's (`SOCKET`);
which rows are kept by them, and what is counted, is not.

Sources: Madow 1949 (systematic sampling); Deville and Sarndal 1992; `streamsvm.coreset.reducers.calibrated` for the
importance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.coreset.moments import Moments
from streamsvm.coreset.reducers.base import Observed, Purpose, generator
from streamsvm.coreset.reducers.calibrated import meet
from streamsvm.coreset.row_kernels import scaled_rows
from streamsvm.coreset.screen_making_kernels import add_pulls
from streamsvm.coreset.screening_kernels import BINS, evaluate, keep, thin, unscaled_moments
from streamsvm.linalg import Float
from streamsvm.points import Features, Points, Signs, Weights
from streamsvm.sockets import plugged

Mask = NDArray[np.bool_]
Rows = tuple[Features, Signs, Weights, Mask]
"""Features, signs, weights, and which rows are valid."""
SOCKET: Final = "kernel_margins"

ROWS_AT_ONCE: Final = 4_096
"""Number of rows whose margins and shares are in memory at once."""
LEAST_CAPACITY: Final = 8
"""A leaf of smaller capacity cannot be thinned, because two of its points always stay."""
TARGET: Final = 0.85
"""Share of its capacity that a leaf is expected to fill; the rest is a reserve for a stream that changes."""
TURNED: Final = 0.005
"""Squared difference of mean hinge gradients, relative to second moments of z, above which a rule may count as
turned."""
BY_CHANCE: Final = 15.0
"""Allowance for chance: the difference must exceed TURNED + BY_CHANCE * (1 / rows + 0.5 / points of the buckets).

The factor 0.5 is there because bucket points tell more than the same number of random rows. On shuffled data the factor
never exceeded 2.6 for up to 23 features, and 7.6 where there are more features than a third of the points; with heavy
tails and weights over three orders it passed 10 in 6 of 4,000 parts of 300 points, and 12 in none.
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

    Of a kernel machine's screen, `label_mean` has no rows; the sixth of `terms` is as here, and what the others mean is
    known to `KernelMargins`.
    """

    rows: int
    rate: float
    scaling: Float
    coefficients: Float
    intercept: float
    label_mean: Float
    terms: Float
    projection: NDArray[np.float32]

    @property
    def of_kernel(self) -> bool:
        """Whether it is that of a kernel machine."""
        return not len(self.label_mean)

    def evaluated(self, points: Points) -> tuple[Float, Float, Float]:
        """Return (z, 1), shape (n, d + 1), margins and s."""
        rows = np.empty((len(points), points.dimension + 1))
        scaled_rows(points.X, *self.scaling, rows)
        return rows, *_shares(points, self)


class KernelMargins(ABC):
    """Evaluates screens of kernel machines."""

    @abstractmethod
    def evaluate(self, rows: Rows, screen: Screen, margin: Float, share: Float, totals: Float) -> None:
        """Fill margins and s, shape (n,); add to the totals of `Screened` but the gradient, or to none, of no rows."""


@cache
def _kernel_margins() -> KernelMargins:
    found = plugged(SOCKET, KernelMargins)  # type: ignore[type-abstract]
    if len(found) != 1:
        raise ValueError(f"{len(found)} branches evaluate the screens of kernel machines, where one must")
    return found[0]


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
        d = self.totals.shape[1]
        if not self.accepted:
            return Moments.zero(d)
        own, mean, square = np.empty(2), np.empty(d), np.empty(d)
        unscaled_moments(self.weight, self.totals, self.screen.scaling, own, mean, square)
        return Moments(self.accepted, own, mean, square)

    def copy(self) -> Screened:
        """Return a copy with its own arrays."""
        return replace(self, sums=self.sums.copy(), weight=self.weight.copy(), totals=self.totals.copy())

    def resumed(self, leaf: tuple[int, int, int]) -> Screener:
        """Return the screener that goes on from a copy."""
        return Screener(self.copy(), *leaf)

    def calibrated(self, points: Points, observed: Observed) -> Points:
        """See `calibrated`."""
        return calibrated(points, self, observed)

    def turned(self, buckets: Sequence[Points]) -> bool:
        """See `turned`."""
        return turned(self, buckets)


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
        _evaluate(rows, state.screen, margin, share, state.totals)
        done = valid = 0
        while done < n:
            done, taken, kept = keep(
                *rows,
                margin,
                share,
                self._state.rate,
                done,
                state.sums,
                state.weight,
                *_columns(buffer),
                kept,
            )
            valid += taken
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


def calibrated(points: Points, state: Screened, observed: Observed) -> Points:
    """Return kept points with weights that meet the exact totals; count the outcome."""
    # A leaf whose rows were all rejected.
    if not len(points):
        return points
    observed.reductions += 1
    rows, margin, _ = state.screen.evaluated(points)
    gradient, active = state.totals[2], margin < 1.0
    if state.screen.of_kernel:
        rows, gradient = np.ones((len(rows), 1)), gradient[:0]
    class_weight = state.screen.terms[:, 5]
    factor = class_weight[(points.y > 0).astype(np.intp)]
    totals, weight = state.weight * class_weight[:, None], points.weight * factor
    weight = meet(weight, rows, points.y, active, np.arange(len(points)), totals, gradient, observed=observed)
    # Calibrated as the problem weighs them, kept in the points' own weights: class weights may change while the bucket
    # lives.
    return points.reweighted(weight / factor)


def turned(state: Screened, buckets: Sequence[Points]) -> bool:
    """Return whether the rule behind the labels clearly differs between a screened leaf and the buckets before it.

    Compared are the mean hinge gradients under one pilot; the leaf's is exact. If the rule changes, other rows become
    active or change sides, even if the features and the share of labels stay the same.

    Parameters
    ----------
    state : Screened
    buckets : sequence of Points
        Together the points that `make_screen` was called with.
    """
    if not state.accepted or state.screen.of_kernel:  # a kernel's hinge gradient is no vector of features
        return False
    screen, most = state.screen, state.screen.terms[:, 5].max()
    total = float(np.concatenate([points.weight for points in buckets]).sum())
    gradient, square = np.zeros((2, len(screen.coefficients)))
    for points in buckets:
        add_pulls(
            points.X, points.y, points.weight, screen.scaling, screen.coefficients, screen.intercept,
            screen.terms[:, 5] / most, gradient, square,
        )  # fmt: skip
    of_leaf = float(state.weight.sum())
    apart = gradient / total - state.totals[2] / (most * of_leaf)
    spread = square / total + state.totals[1] / of_leaf
    distance = np.divide(np.square(apart), spread, out=np.zeros_like(apart), where=spread > 0.0).max(initial=0.0)
    return bool(distance > TURNED + BY_CHANCE * (1.0 / state.accepted + 0.5 / sum(map(len, buckets))))


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


def _shares(points: Points, screen: Screen) -> tuple[Float, Float]:
    """Return margins and s of valid rows."""
    n = len(points)
    margin, share = np.empty(n), np.empty(n)
    nothing = np.zeros((0, points.dimension))
    _evaluate((*_columns(points), np.ones(n, np.bool_)), screen, margin, share, nothing)
    return margin, share


def _evaluate(rows: Rows, screen: Screen, margin: Float, share: Float, totals: Float) -> None:
    """Fill margins and s, and add to the totals, by the screen's kind of machine."""
    if screen.of_kernel:
        _kernel_margins().evaluate(rows, screen, margin, share, totals)
    else:
        evaluate(*rows, *_arrays(screen), margin, share, totals)

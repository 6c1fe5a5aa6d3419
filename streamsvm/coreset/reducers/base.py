"""Reducers: from many weighted points to at most m, and the random numbers they may use.

A reducer is called by `streamsvm.coreset.structure.Structure.node` for a bucket, and by
`streamsvm.learning.cutting.training_set` for a training set. `UniformReducer` samples by weight alone. The production
reducer (`streamsvm.coreset.reducers.calibrated`) needs a `Pilot`: a rough solution of the node's own problem, which the
caller solves and passes, so that no coreset depends on a solver.

Invariant: a reducer is a pure function of its arguments. Its generator is keyed by (seed, purpose, partition, level,
index) through Philox, a counter-based generator, so that no node's numbers depend on when, where or after what it runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, ClassVar, Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.points import Features, Points, Signs

DIGIT: Final = 11
"""Bits of a digit by which margins are ordered: more, and counts leave the fastest cache; fewer take more passes."""
DIGITS: Final = 6
LEAST_INTEGER: Final = np.int64(-(1 << 63))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pilot:
    """What a reducer may need beyond the points: the problem they belong to, and a rough solution of it.

    The problem is min 1/2 |w|^2 + penalty sum u max(0, 1 - y (<w, z> + b)) over the node's points, z = (x - mean) /
    scale.

    Attributes
    ----------
    penalty : float
        lambda of the node's problem, positive.
    mean, scale : ndarray of shape (d,), float64
        The scaler of the features; `scale` is positive.
    coefficients : ndarray of shape (d,), float64
        w~, over scaled features.
    intercept : float
        b~.
    lower_bound : float
        A certified lower bound of the optimum; 0 where none but 0 is known, as with one label.
    class_weight : tuple of two floats
        The factors of the weights u of negative and positive points in the problem: see `reduce_for`.
    decisions : ndarray of shape (n,), float64, or None
        Decision values of a kernel machine at the node's n points, in their order; coefficients are 0 then.
    crowded : bool
        Whether so much of the weight is active that no point is more important than another. Points are then sampled in
        proportion to weight.
    """

    penalty: float
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    intercept: float
    lower_bound: float
    class_weight: tuple[float, float] = (1.0, 1.0)
    decisions: NDArray[np.float64] | None = None
    crowded: bool = False

    def of(self, part: slice) -> Pilot:
        """Return the pilot as that of some of its points, in their order."""
        return self if self.decisions is None else replace(self, decisions=self.decisions[part])

    def transform(self, X: Features) -> NDArray[np.float64]:
        """Return the scaled features, float64."""
        return np.asarray((np.asarray(X, dtype=np.float64) - self.mean) / self.scale, dtype=np.float64)


class Purpose(IntEnum):
    """What a generator is for; part of its key, so that two purposes never share numbers."""

    NODE = 1
    CUT = 2
    AUDIT = 3
    SCREEN = 4
    SKETCH = 5
    TUNE = 6
    THRESHOLD = 7
    EXPERT = 8


def generator(seed: int, purpose: Purpose, counter: tuple[int, int, int]) -> np.random.Generator:
    """Return the generator of one node.

    Parameters
    ----------
    seed : int
        0 <= seed < 2^64.
    purpose : Purpose
    counter : three integers below 2^64
        (partition, level, index) of a node, or 192 bits that name a cut.

    Notes
    -----
    The lowest word of Philox's 256-bit counter is left free: 2^64 blocks a node.
    """
    key = np.array([seed, purpose], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=np.array([0, *counter], dtype=np.uint64)))


@dataclass(slots=True, kw_only=True)
class Observed:
    """Counts of reductions under conditions that weaken their guarantees; for observers only, and in no checkpoint.

    Attributes
    ----------
    reductions : int
    by_weight : int
        Without a pilot, as where one label was present only: sampled in proportion to weight.
    crowded : int
        With so much active weight that no point is worth more than another: sampled in proportion to weight.
    uncalibrated : int
        Too few points for each constraint: only the weight of each label is exact.
    strained : int
        A weight met its upper bound, or a total was not met.
    shifted : int
        Leaves that differ from the buckets before them: the stream is sorted, or drifts. See
        `streamsvm.coreset.shift`.
    eta : float
        Greatest relative move of a weight.
    """

    reductions: int = 0
    by_weight: int = 0
    crowded: int = 0
    uncalibrated: int = 0
    strained: int = 0
    shifted: int = 0
    eta: float = 0.0

    def counts(self) -> dict[str, int]:
        """Return how many reductions met each condition, those that met none, and beside them the shifted leaves."""
        met = {
            "by_weight": self.by_weight,
            "crowded": self.crowded,
            "uncalibrated": self.uncalibrated,
            "strained": self.strained,
        }
        return {"calibrated": self.reductions - sum(met.values()), **met, "shifted": self.shifted}

    def add(self, other: Observed) -> None:
        """Count another reducer's, too."""
        self.reductions += other.reductions
        self.by_weight += other.by_weight
        self.crowded += other.crowded
        self.uncalibrated += other.uncalibrated
        self.strained += other.strained
        self.shifted += other.shifted
        self.eta = max(self.eta, other.eta)


class Weighed(Protocol):
    """What every kind of pilot has: the weights of its problem, and a bound of the optimum."""

    @property
    def class_weight(self) -> tuple[float, ...]:
        """The factor of the weights of each class in the problem."""
        ...

    @property
    def lower_bound(self) -> float:
        """Certified lower bound of the optimum; if only 0 is known, points are sampled by weight."""
        ...


P_contra = TypeVar("P_contra", bound=Weighed, contravariant=True)


class Reducer(Protocol[P_contra]):
    """Reduces a weighted set; `m` or fewer points come back, in log order, and never a weight that is not positive.

    Attributes
    ----------
    needs_pilot : bool
        Whether `reduce` must be given a pilot where there are more than `m` points; if not, none is solved.
    observes : bool
        Whether it counts what it meets in `observed`; if not, that stays at zeros.
    observed : Observed
    """

    needs_pilot: ClassVar[bool]
    observes: ClassVar[bool]
    observed: Observed

    def reduce(self, points: Points, m: int, random: np.random.Generator, pilot: P_contra | None) -> Points:
        """Return at most `m` weighted points that represent `points`; all of them if there are at most `m`."""
        ...


P = TypeVar("P", bound=Weighed)


def reduce_for(reducer: Reducer[P], points: Points, m: int, random: np.random.Generator, pilot: P | None) -> Points:
    """Reduce for the problem of a pilot, in which the weights of each class are multiplied by a factor.

    The reducer is given the points with the weights that they have in the problem. Its result is divided by the factors
    again, so that a bucket always has the points' own weights: balanced class weights change while a bucket exists. If
    the reducer would sample by weight alone (no bound, or room for one point only), the factors are left out, which
    keeps the total of the points' own weights.
    """
    # Where class weights change nothing, multiplying and dividing by them would only round.
    if pilot is None or set(pilot.class_weight) == {1.0} or pilot.lower_bound <= 0.0 or m < 2:
        return reducer.reduce(points, m, random, pilot)
    if len(points) <= m:
        return points
    reduced = reducer.reduce(points.class_weighted(pilot.class_weight), m, random, pilot)
    return reduced.class_weighted(tuple(1.0 / factor for factor in pilot.class_weight))


class UniformReducer:
    """Sampling in proportion to weight, without replacement, of fixed size.

    A point's inclusion probability is pi = min(1, c u) with sum pi = m, and its new weight u / pi, so any weighted sum
    is estimated without bias and the total weight is kept exactly (up to rounding). The points of one label are drawn
    systematically in log order, the labels one after the other, which keeps each label's share to within one point.

    Sources: Madow 1949 (systematic sampling with unequal probabilities); Tillé 2006, section 2.10 (c by removing the
    points that are certain).
    """

    needs_pilot: ClassVar[bool] = False
    observes: ClassVar[bool] = False

    def __init__(self) -> None:
        self.observed = Observed()

    def reduce(self, points: Points, m: int, random: np.random.Generator, pilot: Any) -> Points:  # noqa: ARG002
        """Return at most `m` points; see the class."""
        if len(points) <= m:
            return points
        inclusion = inclusion_probabilities(points.weight, m)
        # Stable: otherwise the order of points with the same label, and with it the sample, would depend on the
        # library's version.
        order = np.argsort(points.y, kind="stable")
        chosen = systematic(inclusion, order, m, float(random.random()))
        return points.take(chosen).reweighted(points.weight[chosen] / inclusion[chosen])


def inclusion_probabilities(size: NDArray[np.float64], m: int) -> NDArray[np.float64]:
    """Return pi = min(1, c size) with sum pi = m.

    Parameters
    ----------
    size : ndarray of shape (n,), positive, n > m
    m : int
        m >= 1.
    """
    inclusion = np.empty(len(size))
    _include(size, m, inclusion)
    return inclusion


@njit(cache=True, nogil=True)
def _include(size, m, inclusion):  # type: ignore[no-untyped-def]
    inclusion[:] = 0.0
    # Taking the certain ones out raises the scale for the rest, and more may become certain: at most n times.
    fresh = True
    while fresh:
        fresh, free, total = False, m, 0.0
        for i in range(len(size)):
            if inclusion[i] == 1.0:
                free -= 1
            else:
                total += size[i]
        scale = free / total
        for i in range(len(size)):
            if inclusion[i] < 1.0 and size[i] * scale >= 1.0:
                inclusion[i], fresh = 1.0, True
    for i in range(len(size)):
        if inclusion[i] < 1.0:
            inclusion[i] = size[i] * scale


def systematic(inclusion: NDArray[np.float64], order: NDArray[np.intp], m: int, start: float) -> NDArray[np.intp]:
    """Choose the m indices whose interval of the inclusion, cumulated in an order, holds one of start, start + 1, ...

    Parameters
    ----------
    inclusion : ndarray of shape (n,), each in (0, 1], with sum m
    order : ndarray of shape (n,)
    start : float in [0, 1)

    Returns
    -------
    ndarray of shape (m,)
        Ascending: in the order of the log, which later reductions and the training set's hash rely on.

    Notes
    -----
    The sum is m only up to rounding; borders are scaled to end at exactly m, which moves a probability by less than
    n machine epsilons and keeps the size fixed.
    """
    chosen = np.empty(m, np.intp)
    _draw(inclusion, order, start, chosen)
    return chosen


@njit(cache=True, nogil=True)
def _draw(inclusion, order, start, chosen):  # type: ignore[no-untyped-def]
    n, m = len(order), len(chosen)
    borders, total = np.empty(n), 0.0
    for i in range(n):
        total += inclusion[order[i]]
        borders[i] = total
    scale, at, times = m / total, 0, np.zeros(n, np.int64)
    for k in range(m):
        while at < n - 1 and borders[at] * scale <= start + k:
            at += 1
        times[order[at]] += 1
    k = 0
    for i in range(n):
        for _ in range(times[i]):
            chosen[k] = i
            k += 1


@njit(cache=True, nogil=True)
def order_by_margin(y: Signs, margin: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the order by label, then margin, then place; what is not a number comes last.

    Counted, digit by digit, not compared: a third of the time of `numpy.lexsort`.
    """
    n = len(y)
    keys, moved, own = np.empty((2, n), np.int64), np.empty((2, n), np.int64), margin + 0.0  # -0.0 equals 0.0
    bits, counts = own.view(np.int64), np.zeros((DIGITS, 1 << DIGIT), np.int64)
    for i in range(n):
        # Integers in the order of the numbers, if they are read without a sign.
        key = ~bits[i] if bits[i] < 0 else bits[i] ^ LEAST_INTEGER
        keys[0, i], keys[1, i] = -1 if own[i] != own[i] else key, i
        for place in range(DIGITS):
            counts[place, (keys[0, i] >> (place * DIGIT)) & ((1 << DIGIT) - 1)] += 1
    for place in range(DIGITS):
        keys, moved = _moved(keys, counts[place], place * DIGIT, moved), keys
    found, ends = np.empty(n, np.int64), np.zeros(256, np.int64)
    for i in range(n):
        ends[y[i] + 128] += 1
    _starts(ends)
    for i in range(n):
        at = keys[1, i]
        found[ends[y[at] + 128]] = at
        ends[y[at] + 128] += 1
    return found


@njit(nogil=True)
def _moved(keys, counts, shift, moved):  # type: ignore[no-untyped-def]
    """Fill keys, and what goes with them, in the order of one digit, equal ones as they were; return them."""
    _starts(counts)
    for i in range(keys.shape[1]):
        digit = (keys[0, i] >> shift) & (len(counts) - 1)
        moved[0, counts[digit]], moved[1, counts[digit]] = keys[0, i], keys[1, i]
        counts[digit] += 1
    return moved


@njit(nogil=True)
def _starts(counts):  # type: ignore[no-untyped-def]
    total = 0
    for digit in range(len(counts)):
        counts[digit], total = total, total + counts[digit]

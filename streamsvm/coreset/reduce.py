r"""Reduction: from many weighted points to at most m, under a pilot.

1. Inclusion probabilities are pi_i = min(1, c u_i worth_i) with sum m; every label that is there gets a point, where m
   is enough.
2. m points are drawn systematically along the order (label, margin in the label's own problem, of 16 bits), each with
   weight u_i / pi_i. Every weighted sum is estimated without bias, and neighbours along the margin are seldom drawn
   together.
3. Calibration moves weights as little as possible (chi-square distance, each by a factor of 0.1 to 6) so that totals
   are exact: the weight of each label; of each problem, on either side, the sum of weight times slope of the loss,
   which of a hinge is the weight of the active points (m < 1); and the gradients of the problems, which are sums of
   v slope y z. Two labels need two points for each total of the gradient and two more: with fewer the weights of the
   labels are all. More labels need two points for each total; with fewer the mean of all points takes the gradients'
   place, and with fewer again the weights of the labels are all. Totals beyond `MOST_TOTALS` count as too few points.

Without a pilot points are drawn in proportion to their weight; the weight of each label is exact here, too.

What is proven: independent draws by a quarter of the worth would have the guarantee of Alg. 1 of Tukan et al. 2020 at
four times its size. For a sample of fixed size along an order, and for calibration, we know none: these are measured
(`tests/benchmarks/coreset.py`). Before calibration the sample is unbiased.

Sources: Madow 1949 (systematic sampling); Deville and Sarndal 1992 (calibration, case 7).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.config.sizes import MOST_TOTALS
from streamsvm.coreset.buckets import Float, Labels, label_index
from streamsvm.coreset.pilot import HINGE, Measured, Pilot, slope, slopes
from streamsvm.linalg import add_gram, along, factorise, product, substitute
from streamsvm.points import Points

LEAST: Final = 0.1
MOST: Final = 6.0
STEPS: Final = 8
RIDGE: Final = 1e-10
MET: Final = 1e-9
"""Greatest relative error of a total that counts as none."""
STRAINED: Final = 1e-3
"""Greatest relative error of a total that people are not told of."""
STUCK: Final = 0.9
"""A step that leaves more than this share of the miss is the last: what is left is beyond the factors' bounds."""
POINTS_A_TOTAL: Final = 2
"""Fewest points for each total that is counted: fewer leave the weights no room."""


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
    """Return the generator of a name: its numbers depend on no other, nor on when or where it runs (Philox)."""
    key = np.array([seed, purpose], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=np.array([0, *counter], dtype=np.uint64)))


@dataclass(slots=True)
class Observed:
    """Counts of reductions, for people: nothing depends on them, and no state contains them.

    Attributes
    ----------
    reductions : int
    by_weight : int
        Without a pilot.
    crowded : int
        With so much active weight that no point is worth more than another.
    uncalibrated : int
        With too few points for the gradients, and for the mean.
    strained : int
        Where a total was not met.
    """

    reductions: int = 0
    by_weight: int = 0
    crowded: int = 0
    uncalibrated: int = 0
    strained: int = 0

    def counts(self) -> dict[str, int]:
        """Return how many reductions met each condition, and those that met none."""
        met = {name: getattr(self, name) for name in self.__slots__[1:]}
        return {"calibrated": self.reductions - sum(met.values()), **met}

    def add(self, other: Observed) -> None:
        """Count what another one counted, too."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


def reduce(
    points: Points, m: int, found: Measured | None, random: np.random.Generator, labels: int, observed: Observed
) -> Points:
    """Return at most m points, in the order of the log; `found` is of the same points."""
    if len(points) <= m:
        return points
    observed.reductions += 1
    label = label_index(points.y, labels)
    if found is None or m < 2:
        observed.by_weight += 1
        pi = inclusion(_every_label(points.weight, label, m), m)
        chosen = systematic(pi, np.argsort(label, kind="stable"), m, random.random())
        drawn, whole = points.weight[chosen] / pi[chosen], np.bincount(label, points.weight, labels)
        own = np.bincount(label[chosen], drawn, labels)
        return points.take(chosen).reweighted(drawn * (whole / np.where(own > 0.0, own, 1.0))[label[chosen]])
    observed.crowded += not len(found.pilot.side)
    pi = inclusion(_every_label(points.weight * found.worth, label, m), m)
    order = by_margin(found.pilot.own_margin(found.margin, label), label)
    chosen = systematic(pi, order, m, random.random())
    kept = points.take(chosen).reweighted(points.weight[chosen] / pi[chosen])
    totals = Totals.of(found)
    rows, margin = found.rows.take(chosen, axis=0), found.margin.take(chosen, axis=1)
    return calibrated(kept, rows, margin, totals, found.pilot, observed)


def by_margin(margin: Float, label: Labels) -> NDArray[np.intp]:
    """Return the order of labels, and of margins within one; what has nearly the same margin stays in its order."""
    # Of 16 bits, which are sorted without comparing, and finest about 0: 1e-4 at a margin of 1.
    near = (margin / (1.0 + np.abs(margin)) * 32_767.0).astype(np.int16)
    order = np.argsort(near, kind="stable")
    return order[np.argsort(label[order].astype(np.int8), kind="stable")]


def inclusion(size: Float, m: int) -> Float:
    """Return pi = min(1, c size) with sum m < n, shape (n,); sizes are positive."""
    certain = np.zeros(len(size), np.bool_)
    while True:
        free = m - np.count_nonzero(certain)
        pi = np.where(certain, 1.0, size * (free / size[~certain].sum()))
        fresh = pi >= 1.0
        if (fresh == certain).all():
            return pi
        certain = fresh


@njit(cache=True, nogil=True)
def systematic(pi, order, m, start):  # type: ignore[no-untyped-def]
    """Return the m indices, ascending, whose interval of pi, cumulated in an order, holds start, start + 1, ..."""
    ends, chosen, before = np.cumsum(pi[order]), np.empty(len(pi), np.bool_), -1.0
    # The sum is m up to rounding; scaled, so that the size is fixed.
    scale = m / ends[-1]
    for i in range(len(pi)):
        end = min(np.floor(ends[i] * scale - start), m - 1.0)
        chosen[order[i]], before = end > before, end
    return np.flatnonzero(chosen)


def _every_label(size: Float, label: Labels, m: int) -> Float:
    """Return sizes by which each label gets at least one of m points; the same where it does already."""
    share: Float = size / size.sum()
    of_label = np.bincount(label, share)
    present = np.count_nonzero(of_label)
    if of_label[of_label > 0.0].min() * m >= 1.0 + 1e-9:
        return share
    even = min(1.0, present / m * (1.0 + 1e-9))
    return np.asarray(share * ((1.0 - even) + even / (present * of_label[label])), np.float64)


@dataclass(frozen=True, slots=True)
class Totals:
    """Exact totals of rows: by these a sample of them is calibrated.

    Attributes
    ----------
    label : ndarray of shape (n_labels,)
        Weight of each label, without class weights.
    active : ndarray of shape (p, 2)
        Weight times slope of the rows of each problem, -1 and +1, with class weights.
    gradient : ndarray of shape (p, d), or (p, 0) of landmarks
        Sum of v slope y z over the rows of each problem.
    mean : ndarray of shape (d,)
        Sum of u z over all rows.
    """

    label: Float
    active: Float
    gradient: Float
    mean: Float

    @classmethod
    def of(cls, found: Measured) -> Totals:
        """Return those of points."""
        u, pilot, (p, n), d = found.points.weight, found.pilot, found.margin.shape, found.rows.shape[1] - 1
        made = cls(np.zeros(pilot.side.shape[1]), np.zeros((p, 2, n)), np.zeros((p, d)), np.zeros(d))
        own = made.label, made.active, made.gradient, made.mean
        _add(u, found.label, found.margin, found.rows, pilot.loss, pilot.class_weight, pilot.side, *own)
        return replace(made, active=made.active.sum(axis=2), gradient=made.gradient[:, : d * (pilot.landmarks is None)])


@njit(cache=True, nogil=True)
def _add(u, of, margin, rows, loss, factor, side, label, active, gradient, mean):  # type: ignore[no-untyped-def]
    """Add points to totals; `active` has a place for each."""
    for i in range(len(u)):
        label[of[i]] += u[i]
        for j in range(len(mean)):
            mean[j] += u[i] * rows[i, j]
        for p in range(len(side)):
            if margin[p, i] < 1.0:
                one, v = side[p, of[i]], u[i] * factor[of[i]] * slope(loss, margin[p, i])
                active[p, one, i] = v
                v = v if one else -v
                for j in range(len(mean)):
                    gradient[p, j] += v * rows[i, j]


def calibrated(kept: Points, rows: Float, margin: Float, totals: Totals, pilot: Pilot, observed: Observed) -> Points:
    """Return sampled points under weights that meet the totals; those of the labels whatever happens.

    `rows` and `margin` are those of the kept points, of shapes (m, d + 1) and (p, m).
    """
    m, labels = len(kept), len(totals.label)
    label = label_index(kept.y, labels)
    present = np.flatnonzero(np.bincount(label, minlength=labels))
    factor, side = pilot.class_weight[label], pilot.side[:, label]
    active, steep = margin < 1.0, slopes(pilot.loss, margin)
    columns, wanted = [label == one for one in present], [totals.label[one] for one in present]
    for problem, one in np.ndindex(totals.active.shape):
        cell = (side[problem] == one) & active[problem]
        # A cell of none of a side's points would contradict what the labels say; one of all repeats it, of a hinge.
        most = np.count_nonzero(side[problem] == one) + (pilot.loss != HINGE)
        if 0 < np.count_nonzero(cell) < most:
            columns.append(cell * factor * steep[problem])
            wanted.append(totals.active[problem, one])
    # Of two labels all other totals count as one: 46 points of 22 features do better with the gradient.
    others = 1 if labels == 2 else len(columns)
    room, d = min(m // POINTS_A_TOTAL, MOST_TOTALS) - others, totals.gradient.shape[1]
    vectors = (2.0 * side - 1.0) * steep * factor
    weight = kept.weight
    if room >= len(vectors) * d or (labels > 2 and room >= d):
        more = totals.gradient
        if room < len(vectors) * d:
            vectors, more = np.ones((1, m)), totals.mean[None]
        A = np.empty((len(columns) + len(vectors) * d, m))
        A[: len(columns)] = columns
        for at, vector in enumerate(vectors):
            np.multiply(rows[:, :d].T, vector, out=A[len(columns) + at * d :][:d])
        weight, unmet = _moved(weight, A, np.append(wanted, more))
        observed.strained += unmet > STRAINED
    else:
        observed.uncalibrated += 1
    own = np.bincount(label, weight, labels)
    return kept.reweighted(weight * np.divide(totals.label, own, out=np.ones(labels), where=own > 0.0)[label])


@njit(cache=True, nogil=True)
def _moved(weight, A, totals):  # type: ignore[no-untyped-def]
    """Move weights as little as possible so that A weight meets totals; return also the greatest relative miss.

    Newton's method on the multipliers, where factors are clipped to `LEAST` and `MOST`.
    """
    size, (k, m) = np.maximum(np.abs(totals), along(np.abs(A), weight)), A.shape
    size[size == 0.0] = 1.0
    A, totals = A / size.reshape(k, 1), totals / size
    rows, factor, step, least = np.ascontiguousarray(A.T), np.ones(m), np.zeros((1, k)), np.inf
    best = factor
    for _ in range(STEPS + 1):
        missing = totals - along(A, weight * factor)
        miss = np.abs(missing).max()
        stuck = not miss < STUCK * least
        if miss < least:
            least, best = miss, factor
        if miss <= MET or stuck:
            break
        free, H, further = np.flatnonzero((factor > LEAST) & (factor < MOST)), np.zeros((k, k)), np.empty(k)
        add_gram(rows, free, weight[free], H)
        for i in range(k):
            H[i, i] += RIDGE * H[i, i] + (H[i, i] == 0.0)
        if not factorise(H):
            break
        substitute(H, missing, further)
        step = step + further
        factor = np.minimum(np.maximum(1.0 + product(step, A)[0], LEAST), MOST)
    return weight * best, least

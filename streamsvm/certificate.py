r"""How far a machine can be from the best one over all rows: bounds that are proven, not estimated.

With z the columns of a row (below), c_i = C u_i k(y_i), k the class weights, and v = (w, b), the objective is

    F(v) = 1/2 |w|^2 + sum_i c_i max(0, s_i),   s_i = 1 - y_i (<w, z_i> + b),

or, of a squared hinge, with max(0, s_i)^2. Both bounds come from one read of the rows and hold in real arithmetic: rows
(float64 or float32), scaler, C, class weights and v are taken as exact, and every rounding is bounded and paid for.

**Upper bound** of the machine's objective (`upper_bound`): the sum F(v), and what rounding may have taken from it.

**Lower bound** of every objective (`lower_bound`): the rows nearest the margin are kept, all others are added up in
strata (label, side of the margin, distance from it). The hinge loss of a stratum's mean, times its weight, is at most
the sum of its rows' losses, for every machine (Jensen). So for kept rows and strata g with weights W_g and sums S_g,
any alpha with 0 <= alpha_g <= C k W_g and sum alpha y = 0 gives D(alpha) = sum alpha - 1/2 |sum_g alpha_g y_g S_g /
W_g|^2 <= F(v) for every v: it is dual feasible for all rows (each row of a stratum has the share alpha_g u_i / W_g).
The equation must hold exactly, and does: alpha is rounded to multiples of one power of two, and the heavier side is
shortened by whole ones (`balanced`).

Of a squared hinge alpha has no upper bound, and D(alpha) is less by sum_i alpha_i^2 / (4 c_i). Each row of a stratum
has the share alpha_g r_i / R_g, R_g the sum of r; any positive r proves a bound (Cauchy and Schwarz, not Jensen). By
r_i = u_i t_i, t_i the slack under the machine of the read, the strata have F's value and gradient at that machine; by
r_i = u_i the variance of slacks would be lost. So R_g and the sums of r z stand for W_g and S_g, and the strata's term
is alpha_g^2 E_g / (4 C k R_g^2), E_g the sum of r^2 / u. The t of a stratum are over a power of two, and at least 1/2,
which costs C k u 2^-32 at most; where there is no loss, and of a hinge, they are all the same: R_g ~ E_g ~ W_g.

**More reads.** The first read is under the model itself. If its lower bound is far below, because too many rows lie
between the model and the best one, another read helps: under machines on the way to the one that the bound was solved
for, and with strata that hold rows of one side of each of the latest such machines. The bound is then exact at all of
them, as in a bundle method (Lemarechal, Nemirovskii and Nesterov 1995), and at rows' resolution near the machine of the
read. Of a squared hinge it is exact at the machine of the read alone.

**Columns** (`Design`). Of a linear machine z = (x - mean) / scale. An additive machine is linear over its hat functions
and their products, and is compared with all machines of these, that is of the same knots and pairs.

**Rounding**: eps = 2^-53. (x - mean) / scale has a relative error below 3 eps. A compensated sum (Neumaier 1974) is a
pair: the running sum and what rounding took from it; of n terms it is wrong by at most 2 eps of itself and 2 n^2 eps^2
of the terms' magnitudes. A dot product of d terms is wrong by d eps of theirs (Higham 2002, sections 3.1 and 4.3), so a
slack s by g a, g = (d + 6) eps, a = sum_j |w_j z_j| + |b| + 1, and max(0, s)^2 by g a (2 max(0, s) + g a). All for at
most 2^40 rows of 2^20 columns. What underflows, 2^-1075 each time, is far below what is paid besides: an eps of C k u
for each row, and one of sum alpha. What overflows becomes infinite or NaN, and then proves nothing.

A hat function is wrong by up to e_j = 6 eps + 5 eps k / h, k the greatest of the magnitudes of its knot and the two
beside it, h the lesser step to these: its slope is 1 / h at most, and it is flat beyond the outer knots, so that only
arguments up to k move it. A product is wrong by the sum of both errors, and 2 eps. That moves a slack by sum_j |w_j|
e_j more, and a component of the vector whose square is in D by e_j sum alpha. Knots that are a few roundings apart
prove little.

Invariant: a certificate is a pure function of each partition's rows in their order, never of how they were cut into
batches.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.choices import Loss
from streamsvm.compiling import njit
from streamsvm.errors import ConfigurationError
from streamsvm.linalg import Index
from streamsvm.model.additive import AdditiveMachine
from streamsvm.model.fit import Fit
from streamsvm.model.kernels import Float, LinearKernel
from streamsvm.model.machine import LinearMachine, Model
from streamsvm.model.version import LEAST_KEPT
from streamsvm.points import Features, Points, Signs, Weights
from streamsvm.supports import CERTIFICATE, require
from streamsvm.svm.additive import AdditiveMap, omitted
from streamsvm.svm.problem import LARGEST_FEATURE, Problem
from streamsvm.svm.stda import solve

Strata = NDArray[np.int64]

KEEP: Final = 10_000
"""Rows that are kept by default, in all partitions together at the end; while rows are read, up to twice as many in
each, and from the second read on three times that."""
STEPS: Final = (1.0, 0.25, 0.0625)
"""How far from the best machine so far towards the newest bound's the machines of a later read stand; a survey each."""
SUMS_BYTES: Final = 256 << 20
"""Bound on the memory of strata, unless those of the least number need more."""
ENOUGH: Final = 1e-9
"""A relative gap that no further read is worth."""
OCTAVES: Final = 24
LEAST_EXPONENT: Final = -15
"""Slacks |1 - y f(x)| are told apart by halves of an octave, from 2^-16 on up to 2^8; beyond, by nothing."""
MOST_COLUMNS: Final = 4_096
"""Of an additive machine: a solver's matrix has 128 MiB then, and the strata of each partition and machine 12 MiB."""
STRATA: Final = 2 * 2 * 2 * OCTAVES
"""Two labels, two sides of the margin, halves of octaves; twice as many for each further machine, by its side."""
MOST_OTHERS: Final = 5
"""Most further machines by whose sides strata are told apart."""
EPS: Final = 2.0**-53
LEAST: Final = 2.0**-1072
"""More than underflow takes from a scaled feature."""
TOLERANCE: Final = 1e-9
"""KKT gap of the solution behind a lower bound; a rougher one bounds, too, but less."""
MAX_ITERATIONS: Final = 10_000_000
LARGEST_SHARE: Final = 1e30
"""Of t, so that sums stay finite; any t proves a bound."""
LARGEST_PENALTY: Final = 1e150
"""C k W up to which, with features up to `LARGEST_FEATURE`, no sum of products overflows."""
MOST_MULTIPLES: Final = 2**50
"""Of the unit of alpha in the greatest alpha, at least: each multiple is exact in float64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """How far a model can be from the best one, proven.

    Attributes
    ----------
    objective : float
        The model's objective over all rows is at most this: 1/2 |w|^2 + C sum u k(y) max(0, 1 - y f(x)), or its square.
    bound : float
        That of no model is below this, with the same scaler, C and class weights, and knots and pairs if it has any.
    gap : float or None
        (objective - bound) / bound, not rounded down; None where the bound is 0 or the objective infinite: that says
        nothing.
    reached : float
        The least objective that was met: at most `objective`, and less where a better machine was found on the way.
    rows : int
        Accepted rows, all of them looked at.
    kept : int
        Rows that were kept whole; all others are in sums.
    reads : int
        How often the rows were gone through.
    bounded : int
        Rows that were learned with other values than they came with; see `Certifier.look`.
    columns : int or None
        Of an additive machine, over which it is linear; None of a linear one.
    """

    objective: float
    bound: float
    gap: float | None
    reached: float
    rows: int
    kept: int
    reads: int
    bounded: int = 0
    columns: int | None = None

    def __str__(self) -> str:
        rows = "the one row" if self.rows == 1 else f"all {self.rows:,} rows"
        if self.bounded:
            were = "was" if self.bounded == 1 else "were"
            rows += f" as they came (of these {self.bounded:,} {were} bounded when learned)"
        if not math.isfinite(self.objective):
            return f"nothing is proven: over {rows} the objective is beyond what float64 holds"
        objective = f"its objective is at most {_rounded(Fraction(self.objective), 9, ROUND_CEILING):.9g}"
        if self.gap is None:
            return f"nothing is proven over {rows}: {objective}, and the bound is 0"
        of = "" if self.columns is None else "of its knots and pairs "
        return (
            f"proven within {percent(self.gap)} of the best possible model {of}over {rows}: {objective}, and that of "
            f"no model {of}is below {_rounded(Fraction(self.bound), 9, ROUND_FLOOR):.9g}"
        )


def percent(gap: float) -> str:
    """Return a gap for people: two digits, never rounded down."""
    shown = _rounded(100 * Fraction(gap), 2, ROUND_CEILING)
    return f"{shown:.1e} %" if gap < 1e-5 else f"{shown:.2g} %"


def _rounded(value: Fraction, digits: int, rounding: str) -> float:
    """Return what, shown with so many significant digits, is a number rounded in one direction."""
    return float(Context(prec=digits, rounding=rounding).divide(Decimal(value.numerator), Decimal(value.denominator)))


def _gap(objective: float, bound: float) -> float | None:
    """Return (objective - bound) / bound, rounded up if at all; None if it is not finite."""
    if not (bound > 0.0 and math.isfinite(objective)):
        return None
    exact = (Fraction(objective) - Fraction(bound)) / Fraction(bound)
    try:
        nearest = float(exact)
    except OverflowError:
        return None
    return nearest if nearest >= exact else math.nextafter(nearest, math.inf)


class Design:
    """The columns over which a model's machine is linear: scaled features, or hat functions of them and products.

    Attributes
    ----------
    machine : LinearMachine
        The model's, over the columns.
    moved : ndarray of shape (p,), float64
        How much rounding may have moved each column by, besides 3 eps of itself.
    dimension : int
        Number of features.
    """

    def __init__(self, model: Model) -> None:
        own = model.machine
        self._scaler = model.scaler
        self._shapes = AdditiveMap.like(own) if isinstance(own, AdditiveMachine) else None
        machine = over_columns(own) if isinstance(own, AdditiveMachine) else own
        assert isinstance(machine, LinearMachine)
        self.machine, self.moved, self.dimension = machine, np.zeros(len(machine.coefficients)), model.dimension
        if self._shapes is not None:
            parts = [_hats_moved(knots, without=omitted(knots)) for knots in self._shapes.knots if len(knots)]
            coarse = [_hats_moved(knots) for knots in self._shapes.coarse]
            parts += [np.add.outer(coarse[i], coarse[j]).ravel() + 2.0 * EPS for i, j in self._shapes.pairs]
            found = np.concatenate([*parts, np.empty(0)])
            self.moved[: len(found)] = found

    def columns(self, X: Features) -> Any:
        """Return those of rows, shape (n, p), float64: an array, or of an additive machine a CSR array."""
        Z = self._scaler.transform(X)
        return Z if self._shapes is None else self._shapes.columns(Z)


def over_columns(machine: AdditiveMachine) -> LinearMachine | None:
    """Return an additive machine as a linear one over the columns of its map; None if no map has such a machine."""
    shapes = AdditiveMap.like(machine)
    pairs = zip(machine.knots, machine.values, strict=True)
    curves = [np.delete(values, omitted(knots)) for knots, values in pairs if len(values)]
    w = np.concatenate([*curves, *(surface.values.ravel() for surface in machine.surfaces), np.empty(0)])
    w = w if len(w) else np.zeros(1)  # a map has one column at least
    again = shapes.machine(w, machine.intercept)
    same = all(map(np.array_equal, machine.values, again.values)) and all(
        all(map(np.array_equal, one[2:], other[2:]))
        for one, other in zip(machine.surfaces, again.surfaces, strict=True)
    )
    return LinearMachine(w, machine.intercept) if same else None


def _hats_moved(knots: Float, without: int | None = None) -> Float:
    """Return how much rounding may move the hat function of each knot by; of all but one, if that is given."""
    if not len(knots):
        return knots
    steps = np.diff(knots, prepend=-np.inf, append=np.inf)  # beyond the outer knots nothing moves
    narrow, far = np.minimum(steps[:-1], steps[1:]), np.pad(np.abs(knots), 1)
    moved = EPS * (5.0 * np.maximum(np.maximum(far[:-2], far[2:]), far[1:-1]) / narrow + 6.0) + LEAST / narrow
    moved[~np.isfinite(narrow)] = np.inf
    return moved if without is None else np.delete(moved, without)


class Certifier:
    """Looks at the rows of a model's stream, partition by partition, and returns what they prove.

    Parameters
    ----------
    model : Model
    fit : Fit
        Of which C and class weights are used.
    partitions : iterable of int
    dtype : numpy dtype
        Of the rows' features.
    keep : int
        Rows that are kept at the end.
    loss : Loss
        By which the model was trained.

    Raises
    ------
    ConfigurationError
        If the model has another kernel or too many columns, or `keep` is too small.
    """

    def __init__(
        self,
        model: Model,
        fit: Fit,
        partitions: Iterable[int],
        dtype: np.dtype[np.floating],
        keep: int = KEEP,
        loss: Loss = "hinge",
    ) -> None:
        self._is_additive = isinstance(model.machine, AdditiveMachine)
        kernel = "additive" if self._is_additive else "linear" if isinstance(model.machine, LinearMachine) else "rbf"
        require({CERTIFICATE: True, "svm.kernel": kernel})
        design = self._design = Design(model)
        if self._is_additive and len(design.moved) > MOST_COLUMNS:
            raise ConfigurationError(
                f"the machine has {len(design.moved):,} columns (knots of curves and of surfaces); a certificate is "
                f"of at most {MOST_COLUMNS:,}"
            )
        if keep < LEAST_KEPT:
            raise ConfigurationError(f"a certificate keeps at least {LEAST_KEPT} rows, not {keep}")
        self._keep, self._dtype, self._partitions, self._loss = keep, dtype, sorted(partitions), loss
        self._penalty = (fit.C, *fit.class_weight)
        self._best, self._others = design.machine, list[LinearMachine]()
        self._found: Certificate | None = None
        self._begin([design.machine])

    def _begin(self, machines: Iterable[LinearMachine]) -> None:
        """Begin a read: a survey of each partition under each machine."""
        floats = 2 * STRATA * len(self._design.moved) * len(self._partitions) * len(STEPS)
        doublings = max(1, SUMS_BYTES // (8 * floats)).bit_length() - 1  # each further machine doubles the strata
        others = self._others[len(self._others) - min(len(self._others), MOST_OTHERS, doublings) :]
        self._bounded = 0
        self._surveys = [
            {at: Survey(self._design, machine, self._dtype, self._keep, others, self._loss) for at in self._partitions}
            for machine in machines
        ]

    def look(self, partition: int, came: Points, learned: Points | None = None) -> None:
        """Look at valid points of a partition, in the order of its log: each of them once before `certificate`.

        Parameters
        ----------
        partition : int
        came : Points
            As they came.
        learned : Points, optional
            As they were learned, where that may differ.
        """
        if learned is not None:
            differs = (learned.X != came.X).any(axis=1) | (learned.weight != came.weight)
            self._bounded += int(np.count_nonzero(differs))
        for surveys in self._surveys:
            surveys[partition].add(came)

    def certificate(self) -> Certificate:
        """Return what all reads so far prove; the next one may begin."""
        bound, target, reached, better = -1.0, self._best, math.inf, self._best
        for surveys in self._surveys:
            whole, *others = surveys.values()
            whole.join(others)
            lower, machine = lower_bound(whole, *self._penalty)
            upper = upper_bound(whole, *self._penalty)
            if lower > bound:
                bound, target = lower, machine
            if upper < reached:
                reached, better = upper, whole.machine
        objective, reads = reached, 1  # the first read has one machine: the model's own
        if self._found is not None:
            objective, reads = self._found.objective, self._found.reads + 1
            bound = max(bound, self._found.bound)
            if reached >= self._found.reached:
                reached, better = self._found.reached, self._best
        self._found = Certificate(
            objective=objective,
            bound=bound,
            gap=_gap(objective, bound),
            reached=reached,
            rows=whole.rows,
            kept=len(whole.near),
            reads=reads,
            bounded=self._bounded,
            columns=len(self._design.moved) if self._is_additive else None,
        )
        self._best = better
        self._others.append(target)
        w, b = better.coefficients, better.intercept
        self._begin(
            LinearMachine(w + step * (target.coefficients - w), b + step * (target.intercept - b)) for step in STEPS
        )
        return self._found

    @property
    def done(self) -> bool:
        """Whether another read could not prove much more: the bound has met the best machine that was found."""
        found = self._found
        return found is not None and found.reached - found.bound <= ENOUGH * found.bound


class Survey:
    """One read of a partition's rows, in their order: totals under one machine, the rows nearest its margin, and sums.

    `keep` rows stay, at least `LEAST_KEPT`. Strata hold rows of one side of each of the `others`, at most `MOST_OTHERS`
    machines, so that the lower bound knows the loss of each exactly.
    """

    def __init__(
        self,
        design: Design,
        machine: LinearMachine,
        dtype: np.dtype[np.floating],
        keep: int,
        others: Sequence[LinearMachine] = (),
        loss: Loss = "hinge",
    ) -> None:
        d, strata = len(machine.coefficients), STRATA << len(others)
        self.design, self.machine, self.loss, self._keep = design, machine, loss, keep
        # The a of a slack (see the module) without the |w_j z_j|, and with what the columns may be wrong by.
        wrong = _total(np.abs(machine.coefficients) * design.moved) * (1.0 + 4.0 * EPS)
        self.beside = abs(machine.intercept) + 1.0 + wrong / ((d + 6.0) * EPS)
        self._machines = np.array([[*one.coefficients, one.intercept] for one in (machine, *others)])
        self.rows = 0
        # Of each label the compensated sums of u and of u times the loss, the plain one of r |z_j|, and that of what
        # squares of slacks may lack, u a (2 max(0, s) + g a).
        self.total, self.losses, self.reach, self.lack = (
            np.zeros((2, 2)),
            np.zeros((2, 2)),
            np.zeros((2, d)),
            np.zeros(2),
        )
        # Of each stratum, without the rows that are kept, the compensated sums of r, of r^2 / u and of r z.
        self.mass, self.energy, self.sums = np.zeros((strata, 2)), np.zeros((strata, 2)), np.zeros((strata, d, 2))
        self.near = Points.empty(design.dimension, dtype)  # after `join` all kept rows
        # Rows in waiting, at most 2 `keep`, with nearness |1 - y f(x)| / |(z, 1)|, r and stratum.
        self._near: list[tuple[Points, Float, Float, Strata]] = [
            (self.near, np.empty(0), np.empty(0), np.empty(0, np.int64))
        ]
        self._waiting, self._border = 0, math.inf

    def add(self, points: Points) -> None:
        """Add the next rows to the totals, and to the rows in waiting or to strata, whatever the batches."""
        begin = 0
        while begin < len(points):
            some = points.take(slice(begin, begin + self._keep))
            nearness, share, stratum = np.empty(len(some)), np.empty(len(some)), np.empty(len(some), np.int64)
            entries, room = _entries(self.design.columns(some.X)), 2 * self._keep - self._waiting
            sums, made = (self.total, self.losses, self.reach, self.lack), (nearness, share, stratum)
            known = self._machines, self.beside, self.loss == "squared_hinge", self._border, room
            end: int = _look(*entries, some.y, some.weight, *known, *sums, *made)
            near, gone = np.flatnonzero(nearness[:end] < self._border), np.flatnonzero(nearness[:end] >= self._border)
            _add_rows(*entries, some.weight, share, stratum, gone, self.mass, self.energy, self.sums)
            self._near.append((some.take(near), nearness[near], share[near], stratum[near]))
            self._waiting += len(near)
            if self._waiting == 2 * self._keep:
                self._sort_out()
            begin += end
        self.rows += len(points)

    def join(self, others: Sequence[Survey]) -> None:
        """Add what surveys of other partitions, in their order, found under the same machine; no rows may follow."""
        for part in (self, *others):
            part._sort_out()
        for other in others:
            self.rows += other.rows
            self.reach += other.reach
            self.lack += other.lack
            for name in ("total", "losses", "mass", "energy", "sums"):
                _add_pairs(getattr(self, name).reshape(-1, 2), getattr(other, name).reshape(-1, 2))
            self._near += other._near
        self._sort_out()

    def _sort_out(self) -> None:
        """Keep the nearest of the rows in waiting; add the others to their strata."""
        parts, *columns = zip(*self._near, strict=True)
        near, (nearness, share, stratum) = Points.union(parts), map(np.concatenate, columns)
        if len(near) > self._keep:
            order = np.argsort(nearness, kind="stable")
            kept, gone = np.sort(order[: self._keep]), np.sort(order[self._keep :])
            entries, every = _entries(self.design.columns(near.X[gone])), np.arange(len(gone))
            known = near.weight[gone], share[gone], stratum[gone], every
            _add_rows(*entries, *known, self.mass, self.energy, self.sums)
            self._border = float(nearness[order[self._keep - 1]])
            near, nearness, share, stratum = near.take(kept), nearness[kept], share[kept], stratum[kept]
        self.near, self._waiting, self._near = near, len(near), [(near, nearness, share, stratum)]


def upper_bound(survey: Survey, C: float, negative: float, positive: float) -> float:
    """Return F of a survey's machine over all rows, and what rounding may have taken from it.

    C is the penalty; `negative` and `positive` are the class weights of the labels -1 and +1.
    """
    w, rows = np.abs(survey.machine.coefficients), survey.rows
    relative, wrong = _sum_error(rows), (len(w) + 6.0) * EPS
    whole = 0.5 * (_total(w * w) * (1.0 + 2.0 * EPS))
    for label, factor in enumerate((negative, positive)):
        mass = float(survey.total[label].sum()) * (1.0 + relative)
        reach = _total(survey.reach[label] * w) * (1.0 + (rows + 4.0) * EPS)
        of_margins, roundings = wrong * (reach + mass * survey.beside), 1.0
        if survey.loss == "squared_hinge":
            of_margins, roundings = wrong * (float(survey.lack[label]) * (1.0 + (rows + len(w) + 16.0) * EPS)), 2.0
        losses = float(survey.losses[label].sum()) * (1.0 + relative + roundings * EPS) + of_margins
        whole += C * factor * losses
    whole *= 1.0 + 8.0 * EPS
    return whole if whole >= 0.0 else math.inf  # NaN: an overflow


def lower_bound(survey: Survey, C: float, negative: float, positive: float) -> tuple[float, LinearMachine]:
    """Return a number that F of no machine is below, and the machine whose optimality over means of strata proves it.

    The number is 0, which proves nothing, where no solver can take the rows. The machine is nearer the optimum than the
    survey's, as a rule. Parameters are those of `upper_bound`.
    """
    near, relative = survey.near, _sum_error(survey.rows)
    used = np.flatnonzero(survey.mass[:, 0] > 0.0)
    mass, label = survey.mass[used].sum(axis=1), used // (len(survey.mass) // 2)
    kept, means = survey.design.columns(near.X), survey.sums[used].sum(axis=2) / mass[:, None]
    if isinstance(kept, np.ndarray):
        Z = np.concatenate([kept, means])
    else:
        from scipy.sparse import csr_array, vstack

        Z = vstack([kept, csr_array(means)], format="csr")
    y = np.concatenate([near.y, np.where(label > 0, 1, -1).astype(np.int8)])
    shrunk = mass * (mass / survey.energy[used].sum(axis=1))
    upper = C * np.where(y > 0, positive, negative) * np.concatenate([near.weight, shrunk])
    if not (len(y) and (upper <= LARGEST_PENALTY).all() and (np.abs(_entries(Z)[2]) <= LARGEST_FEATURE).all()):
        return 0.0, survey.machine
    kernel, loss, most = LinearKernel(), survey.loss, MAX_ITERATIONS
    solution = solve(Problem(Z=Z, y=y, upper=upper, kernel=kernel, loss=loss, tolerance=TOLERANCE, max_iterations=most))
    assert solution.coefficients is not None
    # Three roundings stand between the real C k W and its float; the sums that W comes from are paid for besides.
    box = upper * (1.0 - 8.0 * EPS - relative) if loss == "hinge" else LARGEST_PENALTY
    alpha = balanced(y, np.fmax(np.fmin(solution.alpha, box), 0.0))
    # What rounding may have moved each z by: a part of itself, for products and means, too; of a mean also one of all
    # rows of the label, since `reach` knows no strata; and what columns may be wrong by.
    of_mean, total, square = 8.0 * EPS + 2.0 * relative, math.fsum(alpha.tolist()), 0.0
    part = np.where(np.arange(len(y)) < len(near), 5.0 * EPS, of_mean + EPS)
    shares = alpha[len(near) :] / mass
    off = survey.design.moved * total
    for one in range(2):
        of_label = of_mean * (1.0 + survey.rows * EPS) * _total(shares[label == one])
        off += of_label * survey.reach[one] if of_label else 0.0
    support = np.flatnonzero(alpha)
    signed, wrong = (y * alpha)[support], (part * alpha)[support]
    start, place, value = _entries(Z[support].T)
    for column, beside in enumerate(off.tolist()):
        own = slice(start[column], start[column + 1])
        rows, z = slice(None) if place is None else place[own], value[own]
        away = math.fsum([beside, *(wrong[rows] * np.abs(z)).tolist()])
        length = abs(math.fsum((signed[rows] * z).tolist())) * (1.0 + 2.0 * EPS) + away * (1.0 + 16.0 * EPS)
        square += length * length
    soft = 0.0
    if loss == "squared_hinge":  # nine roundings and three sums stand between a real alpha^2 E / (4 C k R^2) and this
        halved = alpha[support] / (4.0 * upper[support])
        soft = _total(alpha[support] * halved) * (1.0 + 16.0 * EPS + 4.0 * relative)
    # Some d + 4 roundings are left, each of a part of one of the three terms.
    value = total - 0.5 * square - soft - (Z.shape[1] + 4.0) * EPS * (total + square + soft)
    # No objective is below 0. In this order `max` returns 0 for NaN, which an overflow leaves.
    return max(0.0, value), LinearMachine(solution.coefficients, solution.intercept)


def _entries(Z: Any) -> tuple[Index, Index | None, Float]:
    """Return where the entries of each row begin, their columns, None where a row has all, and their values."""
    if isinstance(Z, np.ndarray):
        n, p = Z.shape
        return np.arange(n + 1) * p, None, np.ascontiguousarray(Z).ravel()
    rows = Z.tocsr()
    return np.asarray(rows.indptr, np.int64), np.asarray(rows.indices, np.int64), rows.data


def balanced(y: Signs, alpha: Float) -> Float:
    """Return multipliers none of which is greater than before, and whose sums over both labels are exactly equal.

    Parameters
    ----------
    y : ndarray of shape (n,), int8
    alpha : ndarray of shape (n,), float64
        Not negative.
    """
    greatest = float(alpha.max(initial=0.0))
    if greatest == 0.0:
        return alpha
    unit = 2.0 ** (math.frexp(greatest)[1] - 1) / MOST_MULTIPLES
    multiples = np.floor(alpha / unit).astype(np.int64)
    # Python's integers: sums of multiples up to 2^51 may be beyond 2^63.
    excess = sum(multiples[y > 0].tolist()) - sum(multiples[y < 0].tolist())
    heavier = np.flatnonzero(y > 0 if excess > 0 else y < 0)
    excess = abs(excess)
    for at in heavier[np.argsort(-multiples[heavier], kind="stable")]:  # the greatest first
        if not excess:
            break
        taken = min(excess, int(multiples[at]))
        multiples[at] -= taken
        excess -= taken
    return np.asarray(multiples * unit, dtype=np.float64)


def _sum_error(rows: int) -> float:
    """Return the relative error of a compensated sum of terms of one sign."""
    return 2.0 * EPS + 2.0 * (rows * EPS) ** 2


def _total(terms: Float) -> float:
    """Return the correctly rounded sum of terms that are not negative; infinite where it overflows."""
    try:
        return math.fsum(terms.tolist())
    except OverflowError:
        return math.inf


@njit(cache=True, nogil=True)
def _add(pair: Float, term: float) -> None:
    """Add a term to a compensated sum, shape (2,)."""
    total = pair[0] + term
    pair[1] += (pair[0] - total) + term if abs(pair[0]) >= abs(term) else (term - total) + pair[0]
    pair[0] = total


@njit(cache=True, nogil=True)
def _add_pairs(sums: Float, others: Float) -> None:
    """Add compensated sums, shape (k, 2), to others."""
    for k in range(len(sums)):
        _add(sums[k], others[k, 0])
        sums[k, 1] += others[k, 1]


@njit(cache=True, nogil=True)
def _look(
    start: Index,  # (n + 1,): of each row's entries
    place: Index | None,  # columns of the entries; None: each row has all of them
    value: Float,
    y: Signs,
    weight: Weights,
    machines: Float,  # (1 + m, p + 1): coefficients and intercept of the machine, then of those that tell strata apart
    beside: float,
    is_squared: bool,
    border: float,
    room: int,
    total: Float,
    losses: Float,
    reach: Float,
    lack: Float,
    nearness: Float,  # (n,), filled: |slack| over the length of (z, 1), where the slack is 1 - y f(x)
    share: Float,  # (n,), filled: r = u t
    stratum: Strata,  # (n,), filled
) -> int:
    """Add rows to the totals, up to the one that fills the room for rows nearer than the border; return how many."""
    p = machines.shape[1] - 1
    decided = np.empty(len(machines))
    for i in range(len(y)):
        label, square, u = 1 if y[i] > 0 else 0, 1.0, weight[i]
        decided[:] = machines[:, p]
        own = value[start[i] : start[i + 1]]
        for e in range(len(own)):
            j, z = e if place is None else place[start[i] + e], own[e]
            for k in range(len(machines)):
                decided[k] += z * machines[k, j]
            square += z * z
        slack = 1.0 - y[i] * decided[0]
        nearness[i] = abs(slack) / math.sqrt(square)
        _add(total[label], u)
        if slack > 0.0 or not math.isfinite(slack):  # an overflow makes the sum infinite or NaN: nothing is proven
            _add(losses[label], u * slack * slack if is_squared else u * slack)
        mantissa, exponent = math.frexp(abs(slack))
        octave = min(max(exponent - LEAST_EXPONENT, 0), OCTAVES - 1)
        share[i] = u
        if is_squared:
            share[i] = u * min(max(0.5, math.ldexp(slack, -octave - LEAST_EXPONENT)), LARGEST_SHARE)
            a = beside
            for e in range(len(own)):
                a += abs(own[e]) * abs(machines[0, e if place is None else place[start[i] + e]])
            lack[label] += u * a * (2.0 * max(0.0, slack) + (p + 6.0) * EPS * a)
        for e in range(len(own)):
            reach[label, e if place is None else place[start[i] + e]] += share[i] * abs(own[e])
        number = ((2 * label + (1 if slack > 0.0 else 0)) * OCTAVES + octave) * 2 + (1 if mantissa >= 0.75 else 0)
        for k in range(1, len(machines)):
            number = 2 * number + (1 if y[i] * decided[k] < 1.0 else 0)
        stratum[i] = number
        if nearness[i] < border:
            room -= 1
            if room == 0:
                return i + 1
    return len(y)


@njit(cache=True, nogil=True)
def _add_rows(
    start: Index,  # (n + 1,): of each row's entries
    place: Index | None,  # columns of the entries; None: each row has all of them
    value: Float,
    weight: Weights,
    share: Float,  # (n,): r
    stratum: Strata,  # (n,)
    rows: NDArray[np.intp],  # places of the rows to add
    mass: Float,  # (strata, 2): compensated sums of r, added to
    energy: Float,  # (strata, 2): of r^2 / u, added to
    sums: Float,  # (strata, p, 2): of r z, added to
) -> None:
    """Add some rows, in this order, to the compensated sums of their strata."""
    for i in rows:
        r = share[i]
        _add(mass[stratum[i]], r)
        _add(energy[stratum[i]], r * (r / weight[i]))
        own = value[start[i] : start[i + 1]]
        for e in range(len(own)):
            _add(sums[stratum[i], e if place is None else place[start[i] + e]], r * own[e])

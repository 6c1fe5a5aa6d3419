r"""Bounds of a version, of its own totals: how far it can be from the best model over all rows, without the log.

With z = (x - mean) / scale, c_i = C u_i k(y_i), k the class weights, and v = (w, b):

    F(v) = 1/2 |w|^2 + sum_i c_i max(0, 1 - y_i (<w, z_i> + b)).

Rows are those that came, in the numbers that their features are stored in. Where an outlier was learned within its
bounds, F is still of the row as it came: the totals count that one, so that no proven bound is charged for how far it
was moved, and the lower one knows what outliers cost the best model, too. (The optimum has |w| <= sqrt(2 U), by which
the charge would be sqrt(2 U) times the length of all moves: more than L, where alpha is small.) Held rows and strata
are those of `streamsvm.branches.bounds.totals`, which says why both bounds hold. **From below**: the machine of held
rows and strata's means is solved; its dual value, of multipliers that meet their equation exactly, is a lower bound of
F(v) for every v. **From above**: the hinge of held rows, the sums of strata, and what rows that may have changed sides
can add. Where that is more than the end of the audit's interval, that end is taken, and the kind is `estimated`. The
audit is of rows within their bounds, so that the most by which the losses of changed rows can differ is added to it
(`totals.Changed`).

Both hold in real arithmetic: every rounding is bounded and paid for, as in `.certificate.bounds`. With eps =
2^-53, sums of n terms of one sign are wrong by n eps of themselves, z by 4 eps, a decision by d + 12 of the sum of its
terms' magnitudes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.branches.bounds.certified import Certified
from streamsvm.branches.bounds.dual_solving import near_optimum
from streamsvm.branches.bounds.epochs import Epoch, active_of, labels_of
from streamsvm.branches.bounds.frames import FUDGE, Frame, dual_norms_of, seen_from
from streamsvm.branches.bounds.proving_kernels import scaled_losses, signed_sums
from streamsvm.branches.bounds.totals import Changed, Condensed, Ledger, Totals
from streamsvm.branches.bounds.totals_kernels import EPS
from streamsvm.config import ModelConfig
from streamsvm.linalg import Float
from streamsvm.model.fit import Audit, Fit
from streamsvm.model.machine import LinearMachine, Scaler
from streamsvm.points import Points
from streamsvm.svm.feasible import balanced
from streamsvm.svm.problem import LARGEST_FEATURE

LARGEST_PENALTY: Final = 1e150
LABELS: Final = np.array([-1, 1], np.int8)


@dataclass(frozen=True, slots=True)
class Strata:
    """The strata of all epochs over a version's features.

    Attributes
    ----------
    Z : ndarray of shape (g, d)
        Means.
    y : ndarray of shape (g,), int8
    mass : ndarray of shape (g,)
    active : ndarray of shape (g,), bool
    error : ndarray of shape (d,)
        At most this is the sum over the strata of what is wrong with mass times Z.
    relative : ndarray of shape (g,)
        Of each mass.
    excess : ndarray of shape (g,)
        What rows of each stratum that may have changed sides can add to the sum of hinges.
    """

    Z: Float
    y: NDArray[np.int8]
    mass: Float
    active: NDArray[np.bool_]
    error: Float
    relative: Float
    excess: Float

    @classmethod
    def of(cls, epochs: Sequence[Epoch], scaler: Scaler, machine: LinearMachine) -> Strata:
        """Return those of epochs, and what may have changed sides under a machine."""
        epochs = [epoch for epoch in epochs if len(epoch.weight)]
        if not epochs:
            nothing = np.zeros(0)
            return cls(
                Z=np.zeros((0, len(scaler.mean))),
                y=np.zeros(0, np.int8),
                mass=nothing,
                active=np.zeros(0, np.bool_),
                error=np.zeros(len(scaler.mean)),
                relative=nothing,
                excess=nothing,
            )
        sizes = [len(epoch.weight) for epoch in epochs]
        of = np.repeat(np.arange(len(epochs)), sizes)
        begins = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        mass = np.concatenate([epoch.weight for epoch in epochs])
        length = np.concatenate([epoch.length for epoch in epochs])
        nearest = np.concatenate([epoch.nearest for epoch in epochs])
        sums = np.concatenate([epoch.sums for epoch in epochs])
        stratum = np.concatenate([epoch.stratum for epoch in epochs])
        centre, inverse = np.stack([epoch.frame.scaling for epoch in epochs], axis=1)
        there = inverse * scaler.scale
        shift = (centre - scaler.mean) / scaler.scale
        moved = sums / there[of]
        relative = np.array([(epoch.rows + 8.0) * EPS for epoch in epochs])
        # The rounding of each epoch's sums, and of what moves them to the version's features.
        rounding = np.abs(shift) + (np.abs(centre) + np.abs(scaler.mean)) / scaler.scale
        error = np.stack([epoch.error for epoch in epochs]) / there
        error += 8.0 * EPS * np.add.reduceat(mass, begins)[:, None] * rounding
        error += (8.0 * EPS + 2.0 * relative)[:, None] * np.add.reduceat(np.abs(moved), begins)
        frames = [epoch.frame for epoch in epochs]
        over = np.stack([scaler.mean, 1.0 / scaler.scale])
        changes, lost = seen_from(frames, np.append(machine.coefficients, machine.intercept), over)
        norm = dual_norms_of(frames, changes, lost)
        excess = np.maximum(0.0, norm[of] - nearest) * length * (1.0 + 2.0 * relative[of])
        return cls(
            Z=shift[of] + moved / mass[:, None],
            y=labels_of(stratum),
            mass=mass,
            active=active_of(stratum),
            error=np.einsum("ej->j", error) * FUDGE,
            relative=relative[of],
            excess=np.where(length > 0.0, excess, 0.0),
        )


def certified(
    ledger: Ledger, scaler: Scaler, machine: LinearMachine, fit: Fit, rows: int, audit: Audit | None
) -> Certified:
    """Return what is proven of a machine.

    Parameters
    ----------
    ledger : Ledger
        Of all rows.
    scaler : Scaler
    machine : LinearMachine
    fit : Fit
        C and class weights are looked at.
    rows : int
        Valid rows.
    audit : Audit or None
        What is estimated of its objective.
    """
    changed = ledger.totals.changed
    with np.errstate(all="ignore"):
        proof = proof_of(ledger, scaler, machine, fit, audit)
        lower = proof.rows.value(proof.multipliers)
    upper, most = proof.upper, proof.most
    kind: str = "proven"
    # Where a bound is met exactly, one may exceed the other by a rounding of F that both of them paid for.
    if lower <= most < upper:
        upper, kind = most, "estimated"
    if not math.isfinite(upper) or upper < lower:
        lower, upper = 0.0, upper if math.isfinite(upper) else float(np.finfo(np.float64).max)
    return Certified(
        lower=lower,
        upper=upper,
        kind="proven" if kind == "proven" else "estimated",
        rows=rows,
        held=proof.rows.held,
        strata=len(proof.strata.y),
        bounded=0 if changed is None else changed.rows,
    )


@dataclass(frozen=True, slots=True)
class Proof:
    """What the bounds of a machine follow from.

    Attributes
    ----------
    strata : Strata
    rows : AllRows
    multipliers : ndarray of shape (n,)
    upper, most : float
        The machine's objective by totals, and by the audit, at most; infinite where that says nothing.
    """

    strata: Strata
    rows: AllRows
    multipliers: Float
    upper: float
    most: float


def proof_of(ledger: Ledger, scaler: Scaler, machine: LinearMachine, fit: Fit, audit: Audit | None) -> Proof:
    """Return it; parameters are those of `certified`."""
    strata = Strata.of(ledger.totals.epochs, scaler, machine)
    rows, upper = AllRows.of(ledger.rows, strata, scaler, machine, fit)
    most = math.inf if audit is None else audit.high + _moved(ledger.totals.changed, scaler, machine, fit)
    return Proof(strata, rows, rows.multipliers(machine, min(upper, most), upper), upper, most)


def _moved(changed: Changed | None, scaler: Scaler, machine: LinearMachine, fit: Fit) -> float:
    """Return by how much a machine's losses of the rows that came can exceed those of the rows that were learned."""
    if changed is None:
        return 0.0
    w = machine.coefficients / scaler.scale
    at_zero = abs(machine.intercept - float(np.einsum("j,j->", w, scaler.mean)))
    of_label = changed.weight * (1.0 + at_zero) + np.einsum("kj,j->k", changed.moved, np.abs(w))
    return float(np.einsum("k,k->", _factors(LABELS, fit), of_label)) * FUDGE


def _factors(y: NDArray[np.int8], fit: Fit) -> Float:
    """Return C k of each label, shape (n,)."""
    negative, positive = fit.class_weight
    return fit.C * np.where(y > 0, positive, negative)


def _upper(hinges: float, n: int, strata: Strata, machine: LinearMachine, fit: Fit) -> float:
    """Return an upper bound of the machine's objective; infinite where there is none.

    Parameters
    ----------
    hinges : float
        Sum of the weighted hinges of n held rows, rounded as sums are.
    """
    w, b = machine.coefficients, machine.intercept
    d = len(w)
    whole = 0.5 * float(np.einsum("j,j->", w, w)) * (1.0 + (d + 4.0) * EPS)
    total = hinges * (1.0 + (n + 16.0) * EPS)
    factor = _factors(strata.y, fit)
    slack = 1.0 - strata.y * (np.einsum("ij,j->i", strata.Z, w) + b)
    size = np.einsum("ij,j->i", np.abs(strata.Z), np.abs(w)) + abs(b) + 1.0
    lost = ((d + 16.0) * EPS + 2.0 * strata.relative) * size
    linear = np.where(strata.active, slack + lost * FUDGE, 0.0) * factor * strata.mass
    beside = float(factor.max(initial=0.0)) * float(np.einsum("j,j->", strata.error, np.abs(w)))
    terms = float(linear.sum()) + 16.0 * len(linear) * EPS * float(np.abs(linear).sum())
    total += terms + (beside + float((factor * strata.excess).sum())) * FUDGE
    # A few roundings of each of these sums are left.
    bound = whole + total + 32.0 * EPS * (whole + abs(total) * 4.0)
    return max(bound, whole) if math.isfinite(bound) else math.inf


@dataclass(frozen=True, slots=True)
class AllRows:
    """The rows that were kept, then the strata's means, as the points of a problem.

    Attributes
    ----------
    Z : ndarray of shape (n, d)
    y : ndarray of shape (n,), int8
    upper : ndarray of shape (n,)
        C u k of each.
    relative : ndarray of shape (n,)
        Of each upper bound: what is wrong with it at most.
    held : int
        How many are rows.
    error : ndarray of shape (d,)
        At most this is the sum over the strata of what is wrong with upper times Z.
    """

    Z: Float
    y: NDArray[np.int8]
    upper: Float
    relative: Float
    held: int
    error: Float

    @classmethod
    def of(
        cls, held: Points, strata: Strata, scaler: Scaler, machine: LinearMachine, fit: Fit
    ) -> tuple[AllRows, float]:
        """Return those of the rows that were kept, and of the strata, and an upper bound of a machine's objective."""
        n, d = held.X.shape
        y, Z = np.concatenate([held.y, strata.y]), np.empty((n + len(strata.y), d))
        upper = _factors(y, fit) * np.concatenate([held.weight, strata.mass])
        w = np.ascontiguousarray(machine.coefficients)
        hinges = scaled_losses(held.X, held.y, upper[:n], scaler.mean, scaler.scale, w, machine.intercept, Z[:n])
        Z[n:] = strata.Z
        # Of a stratum, alpha over mass is at most C k.
        factor = float(_factors(strata.y, fit).max(initial=0.0))
        own = cls(
            Z=Z,
            y=y,
            upper=upper,
            relative=np.concatenate([np.zeros(n), strata.relative]),
            held=n,
            error=factor * strata.error * (1.0 + 4.0 * float(strata.relative.max(initial=0.0))),
        )
        return own, _upper(float(hinges), n, strata, machine, fit)

    def multipliers(self, machine: LinearMachine, goal: float, proven: float) -> Float:
        """Return dual variables that meet their equation exactly; zeros where the problem can't be solved.

        Parameters
        ----------
        machine : LinearMachine
            Where to begin.
        goal : float
            The upper bound that they are for: the nearer it is, the better they are.
        proven : float
            The one that they are for if they refute the goal, at least as great.
        """
        if abs(int(self.y.sum(dtype=np.int64))) == len(self.y):
            return np.zeros(len(self.y))
        # Written so that NaN does not fit.
        small = self.Z.min() >= -LARGEST_FEATURE and self.Z.max() <= LARGEST_FEATURE
        if not (small and self.upper.min() > 0.0 and self.upper.max() <= LARGEST_PENALTY):
            return np.zeros(len(self.y))
        alpha = near_optimum(self.Z, self.y, self.upper, machine, goal, proven)
        alpha = np.maximum(np.minimum(alpha, self.upper * (1.0 - 8.0 * EPS - 2.0 * self.relative)), 0.0)
        return balanced(self.y, alpha)

    def value(self, alpha: Float) -> float:
        """Return a lower bound of every machine's objective, by multipliers."""
        n, d = self.Z.shape
        sums, size, total = np.empty((2, d)), np.empty((2, d)), np.empty(2)
        signed_sums(self.Z, self.y, alpha, self.held, sums, size, total)
        of_rows, of_all = size[0] * (1.0 + n * EPS), (size[0] + size[1]) * (1.0 + n * EPS)
        compensated = 2.0 * (n * EPS) ** 2
        own = 5.0 * EPS * of_rows + (EPS + compensated) * of_all
        lengths = (np.abs(sums[0] + sums[1]) * (1.0 + 2.0 * EPS) + (self.error + own) * FUDGE) * (1.0 + 4.0 * EPS)
        square = float(np.einsum("j,j->", lengths, lengths))
        whole = float(total[0] + total[1]) * (1.0 - 2.0 * EPS - compensated)
        value = float(whole - 0.5 * square - (d + 12.0) * EPS * (whole + square))
        return max(0.0, value)  # no objective is below 0; NaN: an overflow


def warm_up(config: ModelConfig) -> None:
    """Compile, or load from numba's file cache, what proves the bounds of a configuration's versions."""
    frame = Frame(scaling=np.array([[0.0, 0.0], [1.0, 1.0]]), machine=np.zeros(3), factor=np.eye(3, dtype=np.float32))
    X = np.arange(8.0).reshape(4, 2).astype(config.points.numpy_dtype)
    points = Points(X, np.array([-1, 1, -1, 1], np.int8), np.ones(4))
    condensed = Condensed.begin(frame, X.dtype)
    condensed.add(points, points.weight, np.zeros(4), np.ones(4, np.bool_))
    ledger = Ledger.of([(points, Totals.of_rows(points, points)), (points.take(slice(0, 0)), _only(condensed))], points)
    fit = Fit(
        C=1.0,
        gamma=None,
        points=4,
        weight=4.0,
        support_vectors=0,
        objective=0.0,
        dual_objective=None,
        kkt_gap=None,
        iterations=0,
        converged=True,
    )
    certified(ledger, Scaler.identity(2), LinearMachine(np.zeros(2), 0.0), fit, 8, None)


def _only(condensed: Condensed) -> Totals:
    """Return the totals of rows none of which is held."""
    epoch = condensed.epoch()
    assert epoch is not None
    return Totals(np.zeros(0), condensed.beside, (epoch,))

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

Both hold in real arithmetic: every rounding is bounded and paid for, as in `streamsvm.certificate.bounds`. With eps =
2^-53, sums of n terms of one sign are wrong by n eps of themselves, z by 4 eps, a decision by d + 12 of the sum of its
terms' magnitudes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.branches.bounds.totals import FUDGE, Changed, Epoch, Ledger, seen_from
from streamsvm.branches.bounds.totals_kernels import EPS
from streamsvm.linalg import Float
from streamsvm.model.certified import Certified
from streamsvm.model.fit import Audit, Fit
from streamsvm.model.kernels import LinearKernel
from streamsvm.model.machine import LinearMachine, Scaler
from streamsvm.points import Points
from streamsvm.svm.feasible import balanced
from streamsvm.svm.problem import LARGEST_FEATURE, Problem
from streamsvm.svm.solvers import StdaSolver

TOLERANCE: Final = 1e-9
"""KKT gap of the solution behind a lower bound; a rougher one bounds, too, but less."""
MAX_ITERATIONS: Final = 1_000_000
LARGEST_PENALTY: Final = 1e150
LABELS: Final = np.array([-1, 1], np.int8)


@dataclass(frozen=True, slots=True)
class _Strata:
    """The strata of one epoch over a version's features.

    Attributes
    ----------
    Z : ndarray of shape (g, d)
        Means.
    y : ndarray of shape (g,), int8
    mass : ndarray of shape (g,)
    active : ndarray of shape (g,), bool
    error : ndarray of shape (d,)
        At most this is the sum over the strata of what is wrong with mass times Z.
    relative : float
        Of each mass.
    excess : float or ndarray of shape (g,)
        What rows that may have changed sides can add to the sum of hinges; of each stratum.
    """

    Z: Float
    y: NDArray[np.int8]
    mass: Float
    active: NDArray[np.bool_]
    error: Float
    relative: float
    excess: Float


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
    held = ledger.rows
    with np.errstate(all="ignore"):
        strata = [_over(epoch, scaler, machine) for epoch in ledger.totals.epochs]
        upper = _upper(held, strata, scaler, machine, fit)
        all_rows = _All.of(held, strata, scaler, fit)
        lower = all_rows.value(all_rows.multipliers())
        changed = ledger.totals.changed
        most = math.inf if audit is None else audit.high + _moved(changed, scaler, machine, fit)
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
        held=len(held),
        strata=sum(len(one.y) for one in strata),
        bounded=0 if changed is None else changed.rows,
    )


def _moved(changed: Changed | None, scaler: Scaler, machine: LinearMachine, fit: Fit) -> float:
    """Return by how much a machine's losses of the rows that came can exceed those of the rows that were learned."""
    if changed is None:
        return 0.0
    w = machine.coefficients / scaler.scale
    at_zero = abs(machine.intercept - float(np.einsum("j,j->", w, scaler.mean)))
    of_label = changed.weight * (1.0 + at_zero) + np.einsum("kj,j->k", changed.moved, np.abs(w))
    return float(np.einsum("k,k->", _factors(LABELS, fit), of_label)) * FUDGE


def _over(epoch: Epoch, scaler: Scaler, machine: LinearMachine) -> _Strata:
    """Return the strata of an epoch over a version's features, and what may have changed sides under its machine."""
    frame, mass = epoch.frame, epoch.weight
    centre, inverse = frame.scaling
    there = inverse * scaler.scale
    shift = (centre - scaler.mean) / scaler.scale
    Z = shift + epoch.sums / mass[:, None] / there
    relative = (epoch.rows + 8.0) * EPS
    rounding = 8.0 * EPS * float(mass.sum()) * (np.abs(shift) + (np.abs(centre) + np.abs(scaler.mean)) / scaler.scale)
    moved = (8.0 * EPS + 2.0 * relative) * np.abs(epoch.sums / there).sum(axis=0)
    over = np.stack([scaler.mean, 1.0 / scaler.scale])
    change = seen_from(frame, np.append(machine.coefficients, machine.intercept), over)
    excess = np.maximum(0.0, frame.dual_norm(*change) - epoch.nearest) * epoch.length * (1.0 + 2.0 * relative)
    return _Strata(
        Z=Z,
        y=epoch.label,
        mass=mass,
        active=epoch.active,
        error=(epoch.error / there + rounding + moved) * FUDGE,
        relative=relative,
        excess=np.where(epoch.length > 0.0, excess, 0.0),
    )


def _factors(y: NDArray[np.int8], fit: Fit) -> Float:
    """Return C k of each label, shape (n,)."""
    negative, positive = fit.class_weight
    return fit.C * np.where(y > 0, positive, negative)


def _upper(held: Points, strata: list[_Strata], scaler: Scaler, machine: LinearMachine, fit: Fit) -> float:
    """Return an upper bound of the machine's objective; infinite where there is none."""
    w, b = machine.coefficients, machine.intercept
    d = len(w)
    whole = 0.5 * float(np.einsum("j,j->", w, w)) * (1.0 + (d + 4.0) * EPS)
    Z = scaler.transform(held.X)
    slack = 1.0 - held.y * (np.einsum("ij,j->i", Z, w) + b)
    lost = (d + 12.0) * EPS * (np.einsum("ij,j->i", np.abs(Z), np.abs(w)) + abs(b) + 1.0)
    hinge = np.maximum(0.0, slack + lost) * _factors(held.y, fit) * held.weight
    total = float(hinge.sum()) * (1.0 + (len(hinge) + 16.0) * EPS)
    for one in strata:
        factor = _factors(one.y, fit)
        slack = 1.0 - one.y * (np.einsum("ij,j->i", one.Z, w) + b)
        size = np.einsum("ij,j->i", np.abs(one.Z), np.abs(w)) + abs(b) + 1.0
        lost = ((d + 16.0) * EPS + 2.0 * one.relative) * size
        linear = np.where(one.active, slack + lost * FUDGE, 0.0) * factor * one.mass
        beside = float(factor.max()) * float(np.einsum("j,j->", one.error, np.abs(w)))
        terms = float(linear.sum()) + 16.0 * len(linear) * EPS * float(np.abs(linear).sum())
        total += terms + (beside + float((factor * one.excess).sum())) * FUDGE
    # A few roundings of each of these sums are left.
    bound = whole + total + (len(strata) + 16.0) * EPS * (whole + abs(total) * 4.0)
    return max(bound, whole) if math.isfinite(bound) else math.inf


@dataclass(frozen=True, slots=True)
class _All:
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
    def of(cls, held: Points, strata: list[_Strata], scaler: Scaler, fit: Fit) -> _All:
        """Return those of the rows that were kept, and of the strata."""
        y = np.concatenate([held.y, *(one.y for one in strata)])
        mass = np.concatenate([held.weight, *(one.mass for one in strata)])
        # Of a stratum, alpha over mass is at most C k.
        error = np.zeros(len(scaler.mean))
        for one in strata:
            error += float(_factors(one.y, fit).max()) * one.error * (1.0 + 4.0 * one.relative)
        return cls(
            Z=np.concatenate([scaler.transform(held.X), *(one.Z for one in strata)]),
            y=y,
            upper=_factors(y, fit) * mass,
            relative=np.concatenate([np.zeros(len(held)), *(np.full(len(one.y), one.relative) for one in strata)]),
            held=len(held),
            error=error,
        )

    def multipliers(self) -> Float:
        """Return dual variables that meet their equation exactly; zeros where the problem can't be solved."""
        fits = (self.upper <= LARGEST_PENALTY).all() and (np.abs(self.Z) <= LARGEST_FEATURE).all()
        if not (fits and (self.upper > 0.0).all()) or abs(int(self.y.sum(dtype=np.int64))) == len(self.y):
            return np.zeros(len(self.y))
        problem = Problem(
            Z=self.Z,
            y=self.y,
            upper=self.upper,
            kernel=LinearKernel(),
            tolerance=TOLERANCE,
            max_iterations=MAX_ITERATIONS,
        )
        solution = StdaSolver().solve(problem)
        assert solution.alpha is not None
        alpha = np.maximum(np.minimum(solution.alpha, self.upper * (1.0 - 8.0 * EPS - 2.0 * self.relative)), 0.0)
        return balanced(self.y, alpha)

    def value(self, alpha: Float) -> float:
        """Return a lower bound of every machine's objective, by multipliers."""
        d = self.Z.shape[1]
        support = np.flatnonzero(alpha)
        terms = (self.y[support] * alpha[support])[:, None] * self.Z[support]
        kept = self.Z[: self.held]
        own = 5.0 * EPS * np.einsum("i,ij->j", alpha[: self.held], np.abs(kept)) * (1.0 + self.held * EPS)
        products = EPS * np.abs(terms).sum(axis=0)
        error = (self.error + own + products) * FUDGE
        square = 0.0
        for j in range(d):
            square += ((abs(math.fsum(terms[:, j].tolist())) + float(error[j])) * (1.0 + 4.0 * EPS)) ** 2
        total = math.fsum(alpha.tolist())
        value = float(total - 0.5 * square - (d + 8.0) * EPS * (total + square))
        return max(0.0, value)  # no objective is below 0; NaN: an overflow

r"""A machine's objective over all rows, and a lower bound of the best there is; both hold in real arithmetic.

With z = (x - mean) / scale, c_i = C u_i k(y_i), k the class weights, and v = (w, b):

    F(v) = 1/2 |w|^2 + sum_i c_i max(0, 1 - y_i (<w, z_i> + b)).

Rows are what is stored: numbers of float64 (or float32), taken as exact, as are scaler, C, class weights and v.
**Upper bound**: F(v) is a sum that one look makes; what rounding may have taken from it is added.
**Lower bound**: for kept rows and strata g with weights W_g and sums S_g, any alpha with 0 <= alpha_g <= C k W_g and
sum alpha y = 0 gives D(alpha) = sum alpha - 1/2 |sum_g alpha_g y_g S_g / W_g|^2 <= F(v) for every v: it is dual
feasible for all rows (each row of a stratum has the share alpha_g u_i / W_g). The equation must hold exactly, and does:
alpha is rounded to multiples of one power of two, and the heavier side is shortened by whole ones.

Rounding: eps = 2^-53. A z has a relative error below 3 eps, a compensated sum of n terms one of 2 eps of itself and
2 n^2 eps^2 of the terms' magnitudes, a dot product of d terms one of d eps of theirs (Higham 2002, chapters 3 and 4),
all for at most 2^40 rows of 2^20 features. What underflows, 2^-1075 each time, is far below what is paid besides: an
eps of C k u for each row, and one of sum alpha. What overflows becomes infinite or NaN, and then proves nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.certificate.survey import Surveyed
from streamsvm.model.kernels import LinearKernel
from streamsvm.model.machine import LinearMachine, Scaler
from streamsvm.svm.feasible import balanced
from streamsvm.svm.problem import LARGEST_FEATURE, Problem
from streamsvm.svm.stda import solve

Float = NDArray[np.float64]

EPS: Final = 2.0**-53
TOLERANCE: Final = 1e-9
"""KKT gap of the solution behind a lower bound; a rougher one bounds, too, but less."""
MAX_ITERATIONS: Final = 10_000_000
LARGEST_PENALTY: Final = 1e150
"""C k W up to which, with features up to `LARGEST_FEATURE`, no sum of products overflows."""


@dataclass(frozen=True, slots=True)
class Objective:
    """What is minimised.

    Attributes
    ----------
    scaler : Scaler
    C : float
    class_weight : tuple of two floats
        Factors of the labels -1 and +1.
    """

    scaler: Scaler
    C: float
    class_weight: tuple[float, float] = (1.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The optimum over all rows lies between `lower` and `upper`, and the machine's objective at most at `upper`.

    Attributes
    ----------
    lower, upper : float
    rows : int
    kept, strata : int
        What the lower bound was solved over.
    best : LinearMachine
        The machine of that solution: nearer the optimum than the one under which rows were looked at, as a rule.
    """

    lower: float
    upper: float
    rows: int
    kept: int
    strata: int
    best: LinearMachine

    @property
    def gap(self) -> float | None:
        """(upper - lower) / lower; None where the lower bound is 0, and says nothing."""
        return (self.upper - self.lower) / self.lower if self.lower > 0.0 else None


def bounds_of(surveyed: Surveyed, objective: Objective, machine: LinearMachine) -> Bounds:
    """Return the bounds that a survey proves.

    Parameters
    ----------
    surveyed : Surveyed
        Of at least one row.
    objective : Objective
    machine : LinearMachine
        Under which rows were looked at, over the objective's scaler.
    """
    Z, y, mass, spread = _representatives(surveyed, objective.scaler)
    factor = np.where(y > 0, objective.class_weight[1], objective.class_weight[0])
    upper = objective.C * factor * mass
    if not (len(y) and (upper <= LARGEST_PENALTY).all() and (np.abs(Z) <= LARGEST_FEATURE).all()):
        return _nothing(surveyed, objective, machine)
    problem = Problem(
        Z=Z,
        y=y,
        upper=upper,
        kernel=LinearKernel(),
        tolerance=TOLERANCE,
        max_iterations=MAX_ITERATIONS,
    )
    solution = solve(problem)
    assert solution.coefficients is not None
    # Three roundings stand between the real C k W and its float; the sums that W comes from are paid for besides.
    ceiling = upper * (1.0 - 8.0 * EPS - _of_sums(surveyed.rows))
    return Bounds(
        lower=_dual(Z, y, np.minimum(solution.alpha, ceiling), spread),
        upper=_primal(surveyed, objective, machine),
        rows=surveyed.rows,
        kept=len(surveyed.near),
        strata=len(y) - len(surveyed.near),
        best=LinearMachine(solution.coefficients, solution.intercept),
    )


def _nothing(surveyed: Surveyed, objective: Objective, machine: LinearMachine) -> Bounds:
    """Return the bounds of rows that no solver takes: every objective is at least 0."""
    return Bounds(
        lower=0.0,
        upper=_primal(surveyed, objective, machine),
        rows=surveyed.rows,
        kept=len(surveyed.near),
        strata=0,
        best=machine,
    )


def _of_sums(rows: int) -> float:
    """Return the relative error of a compensated sum of terms of one sign."""
    return 2.0 * EPS + 2.0 * (rows * EPS) ** 2


def _representatives(surveyed: Surveyed, scaler: Scaler) -> tuple[Float, NDArray[np.int8], Float, Float]:
    """Return kept rows and means of strata: z, sign and weight of each; and what rounding may have moved each z by.

    Of the mean of a stratum that error is taken over all rows of its label: `reach` knows no strata.
    """
    near = surveyed.near
    used = np.flatnonzero(surveyed.mass[:, 0] > 0.0)
    mass = surveyed.mass[used].sum(axis=1)
    sums = surveyed.sums[used].sum(axis=2)
    label = used // (len(surveyed.mass) // 2)
    kept = scaler.transform(near.X)
    Z = np.concatenate([kept, sums / mass[:, None]])
    y = np.concatenate([near.y, np.where(label > 0, 1, -1).astype(np.int8)])
    relative = 8.0 * EPS + 2.0 * _of_sums(surveyed.rows)
    of_strata = relative * (surveyed.reach[label] * (1.0 + surveyed.rows * EPS)) / mass[:, None] + relative * np.abs(
        Z[len(near) :]
    )
    return Z, y, np.concatenate([near.weight, mass]), np.concatenate([4.0 * EPS * np.abs(kept), of_strata])


def _dual(Z: Float, y: NDArray[np.int8], alpha: Float, spread: Float) -> float:
    """Return D of multipliers that are made feasible first, less what rounding may have added."""
    alpha = balanced(y, np.maximum(alpha, 0.0))
    support = np.flatnonzero(alpha)
    terms = (y[support] * alpha[support])[:, None] * Z[support]
    products_and_means = alpha[support][:, None] * (spread[support] + EPS * np.abs(Z[support]))
    square = 0.0
    for j in range(Z.shape[1]):
        length = abs(math.fsum(terms[:, j])) * (1.0 + 2.0 * EPS)
        length += math.fsum(products_and_means[:, j]) * (1.0 + 4.0 * EPS)
        square += length * length
    total = math.fsum(alpha)
    # Some d + 4 roundings are left, each of a part of one of the two terms.
    value = total - 0.5 * square - (Z.shape[1] + 4.0) * EPS * (total + square)
    return float(value) if value >= 0.0 else 0.0  # no objective is below 0; NaN: an overflow


def _primal(surveyed: Surveyed, objective: Objective, machine: LinearMachine) -> float:
    """Return F of the machine over all rows, and what rounding may have taken from it."""
    w, b = np.abs(machine.coefficients), abs(machine.intercept)
    d = len(w)
    norm = _total(w * w) * (1.0 + 2.0 * EPS)
    whole = 0.5 * norm
    relative = _of_sums(surveyed.rows)
    for label, factor in enumerate(objective.class_weight):
        mass = float(surveyed.total[label].sum()) * (1.0 + relative)
        reach = _total(surveyed.reach[label] * w) * (1.0 + (surveyed.rows + 4.0) * EPS)
        of_margins = (d + 6.0) * EPS * (reach + mass * (b + 1.0))
        hinge = float(surveyed.hinge[label].sum()) * (1.0 + relative + EPS) + of_margins
        whole += objective.C * factor * hinge
    whole *= 1.0 + 8.0 * EPS
    return whole if whole >= 0.0 else math.inf  # NaN: an overflow


def _total(terms: Float) -> float:
    """Return the correctly rounded sum of terms that are not negative; infinite where it overflows."""
    try:
        return math.fsum(terms.tolist())
    except OverflowError:
        return math.inf

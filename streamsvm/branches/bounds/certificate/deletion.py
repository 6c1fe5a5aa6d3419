r"""How far a machine can be from the one that never saw some of its points, before anything is trained again.

The problem without them, over the scaler that it would have, is of the rows i that are left:

    F(v) = 1/2 |w|^2 + sum_i c_i max(0, 1 - y_i (<w, z_i> + b)),    D(beta) = sum beta - 1/2 |w_beta|^2,

with w_beta = sum_i beta_i y_i z_i, 0 <= beta_i <= c_i and sum_i beta_i y_i = 0. F is strongly convex in w, and so is -D
in w_beta. With the optimum (w*, b*) of F and any machine (w, b), any feasible beta, and the gap G = F(w, b) - D(beta):

    1/2 |w - w*|^2 + 1/2 |w_beta - w*|^2 <= G,

so w* lies in the ball around (w + w_beta) / 2 of radius sqrt(G - |w - w_beta|^2 / 4). Nothing needs to be optimal: the
present machine and its own multipliers, without those of the points that are gone, are good enough.

Source: the ball of Okumura, Suzuki and Takeuchi 2015, *Quick Sensitivity Analysis for Incremental Data Modification and
Its Application to Leave-one-out CV in Linear Classification Problems*, Theorem 1. Where this differs: they take the
present machine as the exact optimum, with a regularised bias; then F(v) - D(beta) = |w - w_beta|^2 / 2, and the radius
is their |w - w_beta| / 2. Solvers stop early, and the bias here has no penalty, so the gap takes the place of both
(as in the safe screening of Ndiaye et al. 2017). Nothing is said of b* alone, which many values may share.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamsvm.branches.bounds.certificate.bounds import EPS
from streamsvm.model.machine import LinearMachine, Scaler
from streamsvm.svm.feasible import balanced

Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Where the machine without the points is.

    Attributes
    ----------
    centre : ndarray of shape (d,)
        Over the scaler of the problem that is left.
    radius : float
        Its coefficients are at most so far from the centre.
    distance : float
        And at most so far from those of the present machine, over that scaler.
    gap : float
        The present machine's objective without the points is at most so much above the least one.
    objective : float
        That objective.
    """

    centre: Float
    radius: float
    distance: float
    gap: float
    objective: float

    def difference(self, one: Float, other: Float) -> tuple[float, float]:
        """Return between what the difference of the decision values of two inputs lies, whatever the bias is.

        Where 0 is not between them, the order of the two is the same as the centre's.

        Parameters
        ----------
        one, other : ndarray of shape (d,)
            Over the scaler of the problem that is left.
        """
        apart = one - other
        middle, width = float(self.centre @ apart), self.radius * float(np.linalg.norm(apart))
        return middle - width, middle + width


def reach(Z: Float, y: NDArray[np.int8], upper: Float, machine: LinearMachine, alpha: Float) -> Reach:
    """Return where the optimum of the rows that are left lies.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
        Of the rows that are left, scaled as their own problem scales them.
    y : ndarray of shape (n,), int8
        Signs.
    upper : ndarray of shape (n,)
        C u k of each: the boxes of their own problem.
    machine : LinearMachine
        The present one over that scaler; see `rescaled`.
    alpha : ndarray of shape (n,)
        Multipliers of the present machine, or any others, such as zeros; cut to the boxes and balanced here. The nearer
        they are to the optimum's, the smaller is the radius.

    Raises
    ------
    ValueError
        If the shapes do not fit together, or a number is not finite.
    """
    n, d = Z.shape
    if not (y.shape == upper.shape == alpha.shape == (n,) and machine.coefficients.shape == (d,)):
        raise ValueError(f"{n} rows of {d} features do not fit {y.shape}, {upper.shape} and {alpha.shape}")
    if not all(np.isfinite(array).all() for array in (Z, upper, alpha, machine.coefficients)):
        raise ValueError("a row, a box, a multiplier or a coefficient is not finite")
    w = machine.coefficients
    beta = balanced(y, np.clip(alpha, 0.0, upper))
    dual = (beta * y) @ Z
    loss = upper * np.maximum(0.0, 1.0 - y * (Z @ w + machine.intercept))
    primal = 0.5 * math.fsum(w * w) + math.fsum(loss)
    total, square = math.fsum(beta), 0.5 * math.fsum(dual * dual)
    # What rounding may have taken from the gap: sums of d and of n products, and margins of d + 2 of them.
    of_margins = math.fsum(upper * (np.abs(Z) @ np.abs(w) + abs(machine.intercept) + 1.0))
    of_dual = math.fsum(np.abs(dual) * (beta @ np.abs(Z)))
    slack = EPS * ((d + 8) * (primal + of_margins) + (n + 8) * of_dual + (d + 8) * (total + square))
    gap = max(0.0, primal - (total - square)) + slack
    apart = float(np.linalg.norm(w - dual))
    radius = math.sqrt(max(0.0, gap - 0.25 * (apart * (1.0 - (n + d) * EPS)) ** 2))
    centre = 0.5 * (w + dual)
    distance = min(math.sqrt(2.0 * gap), 0.5 * apart + radius)
    return Reach(centre=centre, radius=radius, distance=distance, gap=gap, objective=primal)


def rescaled(machine: LinearMachine, before: Scaler, after: Scaler) -> LinearMachine:
    """Return the machine that answers the same, over another scaler.

    Parameters
    ----------
    machine : LinearMachine
        Over the first scaler.
    before, after : Scaler
    """
    raw = machine.coefficients / before.scale
    intercept = machine.intercept + float(raw @ (after.mean - before.mean))
    return LinearMachine(raw * after.scale, intercept)

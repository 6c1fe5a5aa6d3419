r"""The optimisation problem, and how far a candidate is from solving it; always float64, always from scratch.

Primal:  F(w, b) = 1/2 \|w\|^2 + sum_i upper_i max(0, 1 - y_i (<w, z_i> + b)),   upper_i = C u_i, bias unregularised.
Dual:    D(a) = sum_i a_i - 1/2 sum_ij a_i a_j y_i y_j k(z_i, z_j),   0 <= a_i <= upper_i,  sum_i y_i a_i = 0.

For every feasible a and every (w, b): D(a) <= F(w, b), so D certifies a lower bound of the optimum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamsvm.model.kernels import Float, Kernel, LinearKernel
from streamsvm.points import Signs
from streamsvm.svm.block.rbf_tiles import layout_of, rbf_sums


@dataclass(frozen=True, slots=True)
class Optimality:
    """How good a solution is.

    Attributes
    ----------
    primal : float
        F at the solution's (w, b).
    dual : float
        D at its dual variables.
    kkt_gap : float
        Violation of the optimality conditions by the most violating pair: max over the points that may go up of
        -y_i grad_i, less the min over those that may go down (Keerthi et al. 2001); LIBSVM stops at its `tol`.
    """

    primal: float
    dual: float
    kkt_gap: float


def scores_without_bias(Z: Float, y: Signs | Float, alpha: Float, kernel: Kernel) -> Float:
    """Return sum_j y_j a_j k(z_j, z_i) for every i, shape (n,); give centred points if they lie far from the origin."""
    signed = y * alpha
    if isinstance(kernel, LinearKernel):
        return np.asarray(Z @ (Z.T @ signed), dtype=np.float64)
    Z = np.ascontiguousarray(Z, dtype=np.float64)
    support = np.flatnonzero(signed)
    return rbf_sums(Z, support, signed[support], np.arange(len(Z)), layout_of(Z, kernel.gamma))


def optimality(Z: Float, y: Signs, upper: Float, alpha: Float, intercept: float, kernel: Kernel) -> Optimality:
    """Measure a dual solution with its intercept.

    Parameters
    ----------
    Z : ndarray of shape (n, d), float64
    y : ndarray of shape (n,), -1 or +1
    upper : ndarray of shape (n,)
        C u_i.
    alpha : ndarray of shape (n,)
        0 <= alpha <= upper.
    intercept : float
    kernel : Kernel

    Notes
    -----
    Computed over centred points, whatever the offset of Z: since sum_i y_i a_i = 0, only the intercept of the linear
    kernel must move with them.
    """
    centre = Z.mean(axis=0)
    Z = Z - centre
    if isinstance(kernel, LinearKernel):
        intercept += float(centre @ (Z.T @ (y * alpha)))
    scores = scores_without_bias(Z, y, alpha, kernel)
    return optimality_of(scores - y, y, upper, alpha, intercept)


def optimality_of(F: Float, y: Signs, upper: Float, alpha: Float, intercept: float) -> Optimality:
    """Measure a dual solution whose F_i = sum_j y_j a_j k(z_j, z_i) - y_i is known, from scratch.

    Parameters
    ----------
    F : ndarray of shape (n,), float64
    y : ndarray of shape (n,), -1 or +1
    upper, alpha : ndarray of shape (n,)
        0 <= alpha <= upper.
    intercept : float
        Of the machine whose scores are F + y.
    """
    norm = float((y * alpha) @ (F + y))
    hinge = np.maximum(0.0, -y * (F + intercept))
    primal = 0.5 * norm + float(upper @ hinge)
    dual = float(alpha.sum()) - 0.5 * norm
    may_rise = np.where(y > 0, alpha < upper, alpha > 0)
    may_fall = np.where(y > 0, alpha > 0, alpha < upper)
    highest = float(np.max(F[may_fall], initial=-np.inf))
    lowest = float(np.min(F[may_rise], initial=np.inf))
    return Optimality(primal, dual, max(0.0, highest - lowest) if np.isfinite([highest, lowest]).all() else 0.0)


def primal_objective(decision: Float, y: Signs, upper: Float, squared_norm: float) -> float:
    """Return F of any decision function: 1/2 |w|^2 + sum_i upper_i max(0, 1 - y_i f_i)."""
    return 0.5 * squared_norm + float(upper @ np.maximum(0.0, 1.0 - y * decision))

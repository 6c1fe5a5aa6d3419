r"""The optimisation problem, its answers, and how far an answer is from the optimum: always float64, from scratch.

Hinge, with upper_i = C u_i and a bias that has no penalty:

Primal:  F(w, b) = 1/2 \|w\|^2 + sum_i upper_i max(0, 1 - y_i (<w, z_i> + b)),
Dual:    D(a) = sum_i a_i - 1/2 sum_ij a_i a_j y_i y_j k(z_i, z_j),   0 <= a_i <= upper_i,  sum_i y_i a_i = 0.

Squared hinge: the loss of a point is upper_i max(0, ...)^2, and the dual problem has s_i = 1 / (2 upper_i) on the
diagonal of the kernel matrix in place of the upper bounds (LIBLINEAR, Fan et al. 2008, as `L2-loss`).

For every feasible a and every (w, b): D(a) <= F(w, b), so D certifies a lower bound of the optimum. The KKT gap is the
violation of the optimality conditions by the most violating pair: with F_i = sum_j y_j a_j k(z_j, z_i) - y_i, plus
s_i y_i a_i of a squared hinge, it is the greatest F of the points whose y a may fall, less the least F of those whose
y a may rise (Keerthi et al. 2001); LIBSVM stops at its `tol`.

A solver that did not converge reports it in a field of its solution; it does not raise, because a daemon publishes the
version all the same, and shows the gap. Invalid input (NaN, infinity, labels other than -1 and +1) is a caller's
mistake and raises `ValueError`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamsvm.choices import Loss
from streamsvm.model.kernels import Float, Kernel, LinearKernel
from streamsvm.points import Signs
from streamsvm.svm.rbf import layout_of, rbf_sums

LARGEST_FEATURE = 1e100
"""Squares and their sums must stay finite in float64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """min 1/2 |w|^2 + sum_i upper_i loss_i.

    Attributes
    ----------
    Z : ndarray of shape (n, d), float64, or CSR array
        Scaled features, finite, at most `LARGEST_FEATURE`. `stda` alone solves over CSR arrays, with sorted indices and
        no duplicates.
    y : ndarray of shape (n,), int8
        -1 or +1; one label alone has an answer too, see `answered`.
    upper : ndarray of shape (n,), float64
        C u_i, of a hinge the upper bound of each dual variable; not negative. A point with 0 is as good as absent.
    kernel : Kernel
    tolerance : float
        KKT gap at which to stop.
    max_iterations : int
        Bound on the solver's own iterations; never a bound on time.
    loss : "hinge" or "squared_hinge"
        Of the second kind `stda` and Newton's method solve problems.
    """

    Z: Any
    y: Signs
    upper: Float
    kernel: Kernel
    tolerance: float
    max_iterations: int
    loss: Loss = "hinge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """What a solver found.

    Attributes
    ----------
    alpha : ndarray of shape (n,), float64
        Dual variables, 0 <= alpha <= upper.
    intercept : float
    iterations : int
        The solver's own count.
    converged : bool
        Whether it met the tolerance before the bound on iterations.
    coefficients : ndarray of shape (d,), float64, or None
        w, from every solver of the linear kernel; None for other kernels.
    primal, dual, kkt_gap : float
        F, D and the gap of this very solution, from scratch; NaN from a solver that does not measure itself.
    squared_norm : float
        |w|^2, in the space of the kernel; NaN likewise.
    columns : int or None
        Columns of the kernel matrix that were computed, where the solver counts them.
    """

    alpha: Float
    intercept: float
    iterations: int
    converged: bool
    coefficients: Float | None = None
    primal: float = np.nan
    dual: float = np.nan
    kkt_gap: float = np.nan
    squared_norm: float = np.nan
    columns: int | None = None


def answered(problem: Problem, solver: Callable[[Problem], Solution]) -> Solution:
    """Check a problem, and call the solver only if both labels have points of positive bound; else the answer is known.

    Points whose upper bound is 0 take no part. If the others carry one label only, w = 0 with the intercept at that
    label is optimal: every hinge loss is 0. If there are none, w = 0 and the intercept is 0.

    Parameters
    ----------
    problem : Problem
    solver : callable
        Takes a checked problem of both labels and positive bounds, and solves it from a cold start.

    Raises
    ------
    ValueError
        If the problem is not valid: see `Problem`.
    """
    _check(problem)
    counts = problem.upper > 0
    positive, negative = bool((counts & (problem.y > 0)).any()), bool((counts & (problem.y < 0)).any())
    alpha = np.zeros(len(problem.y))
    if not (positive and negative):
        return Solution(
            alpha=alpha,
            intercept=float(positive) - float(negative),
            iterations=0,
            converged=True,
            coefficients=np.zeros(problem.Z.shape[1]) if isinstance(problem.kernel, LinearKernel) else None,
            primal=0.0,
            dual=0.0,
            kkt_gap=0.0,
            squared_norm=0.0,
        )
    if counts.all():
        return solver(problem)
    solution = solver(replace(problem, Z=problem.Z[counts], y=problem.y[counts], upper=problem.upper[counts]))
    alpha[counts] = solution.alpha
    return replace(solution, alpha=alpha)


def _check(problem: Problem) -> None:
    Z, y, upper = problem.Z, problem.y, problem.upper
    if len(Z.shape) != 2 or y.shape != Z.shape[:1] or upper.shape != Z.shape[:1] or 0 in Z.shape:
        raise ValueError(
            f"Z has shape {Z.shape}, y {y.shape}, upper {upper.shape}; they must be (n, d), (n,) and (n,), with n "
            "and d positive"
        )
    # Minimum and maximum instead of `isfinite`: no array of booleans as large as Z. The comparison below is written so
    # that NaN fails it.
    values = Z if isinstance(Z, np.ndarray) else np.append(Z.data, 0.0)
    if not (values.max() <= LARGEST_FEATURE and values.min() >= -LARGEST_FEATURE):
        raise ValueError(f"a feature is NaN, infinite, or beyond {LARGEST_FEATURE:g} in magnitude")
    if not ((upper >= 0) & (upper < np.inf)).all():
        raise ValueError("an upper bound is negative, infinite or NaN")
    if not ((y == 1) | (y == -1)).all():
        raise ValueError("a label is neither -1 nor +1")


def scores_without_bias(Z: Float, y: Signs | Float, alpha: Float, kernel: Kernel) -> Float:
    """Return sum_j y_j a_j k(z_j, z_i) for every i, shape (n,); give centred points if they lie far from the origin."""
    signed = y * alpha
    if isinstance(kernel, LinearKernel):
        return np.asarray(Z @ (Z.T @ signed), dtype=np.float64)
    Z = np.ascontiguousarray(Z, dtype=np.float64)
    support = np.flatnonzero(signed)
    return rbf_sums(Z, support, signed[support], np.arange(len(Z)), layout_of(Z, kernel.gamma))


def optimality(
    Z: Float, y: Signs, upper: Float, alpha: Float, intercept: float, kernel: Kernel, loss: Loss = "hinge"
) -> tuple[float, float, float]:
    """Return the primal objective, the dual objective and the KKT gap of a dual solution with its intercept.

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
    loss : Loss

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
    return optimality_of(scores - y, y, upper, alpha, intercept, loss)


def optimality_of(
    F: Float, y: Signs, upper: Float, alpha: Float, intercept: float, loss: Loss
) -> tuple[float, float, float]:
    """Return the primal objective, the dual objective and the KKT gap of a dual solution whose sums are known.

    Parameters
    ----------
    F : ndarray of shape (n,), float64
        sum_j y_j a_j k(z_j, z_i) - y_i of this alpha, computed from scratch.
    y : ndarray of shape (n,), -1 or +1
    upper, alpha : ndarray of shape (n,)
        0 <= alpha <= upper.
    intercept : float
        Of the machine whose scores are F + y.
    loss : Loss
    """
    norm, slack = float((y * alpha) @ (F + y)), np.maximum(0.0, -y * (F + intercept))
    primal = 0.5 * norm + float(upper @ (slack if loss == "hinge" else np.square(slack)))
    dual, bound = float(alpha.sum()) - 0.5 * norm, upper
    if loss == "squared_hinge":
        F, bound = F + y * alpha / (2.0 * upper), np.full(len(y), np.inf)
        dual -= float((alpha * alpha / (4.0 * upper)).sum())
    may_rise = np.where(y > 0, alpha < bound, alpha > 0)
    may_fall = np.where(y > 0, alpha > 0, alpha < bound)
    highest = float(np.max(F[may_fall], initial=-np.inf))
    lowest = float(np.min(F[may_rise], initial=np.inf))
    return primal, dual, max(0.0, highest - lowest) if np.isfinite([highest, lowest]).all() else 0.0


def primal_objective(decision: Float, y: Signs, upper: Float, squared_norm: float, loss: Loss = "hinge") -> float:
    """Return F of any decision function."""
    return 0.5 * squared_norm + float(upper @ losses(decision, y, loss))


def losses(decision: Float, y: Signs, loss: Loss) -> Float:
    """Return the loss of each decision value, shape (n,)."""
    slack = np.maximum(0.0, 1.0 - y * decision)
    return slack if loss == "hinge" else np.square(slack)

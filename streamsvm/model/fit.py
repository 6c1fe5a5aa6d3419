"""How a model was fitted, and its objective over the whole stream, as parts of a version."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How a model was fitted, and how well.

    Attributes
    ----------
    C : float
        Penalty used, whether configured as C, as alpha, or tuned.
    gamma : float or None
        RBF width used; None for the linear kernel.
    points : int
        Points of the training set.
    weight : float
        Their total weight.
    support_vectors : int
        Points with a positive dual variable; from a solver without dual variables, points with y f(x) < 1.
    objective : float
        Primal objective on the training set (see `streamsvm.svm.problem`), in float64 from scratch.
    dual_objective : float or None
        Dual objective, a lower bound of the optimum; None from a solver without dual variables.
    kkt_gap : float or None
        Violation of optimality, recomputed independently of the solver. None from a solver without dual variables.
    iterations : int
    converged : bool
    class_weight : tuple of floats
        Factors for the weights of the points of each label, of two negative and positive; the objectives include them.

    Notes
    -----
    Of more than two labels this is of all machines together: sums, the greatest KKT gap, and whether all converged. A
    point counts once for each machine that it supports. `MachineFit` has each machine's own.
    """

    C: float
    gamma: float | None
    points: int
    weight: float
    support_vectors: int
    objective: float
    dual_objective: float | None
    kkt_gap: float | None
    iterations: int
    converged: bool
    class_weight: tuple[float, ...] = (1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Audit:
    """A model's objective over the whole stream, estimated from points that are independent of the coreset.

    The whole stream is every accepted row up to the cut, clipped as the next row would be; the objective uses the fit's
    C and class weights and the model's scaler. `Fit.objective` is the value of the same objective on the training set.
    If it lies outside the interval, the coreset misjudges this model; by chance alone this happens once in twenty
    times.

    Attributes
    ----------
    objective : float
        The estimate.
    low, high : float
        95 % interval; of no width while the sample holds every point.
    points : int
        Points of the sample.
    """

    objective: float
    low: float
    high: float
    points: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFit:
    """How one of several machines was fitted: those figures of `Fit` that differ between them.

    Attributes
    ----------
    support_vectors, objective, dual_objective, kkt_gap, iterations, converged
        As in `Fit`, of the problem of this machine; 0 where no point of it came.
    audit : Audit or None
        The estimate of this machine's objective over the whole stream.
    """

    support_vectors: int
    objective: float
    dual_objective: float | None
    kkt_gap: float | None
    iterations: int
    converged: bool
    audit: Audit | None = None


def fit_of_machines(fits: Sequence[Fit], class_weight: tuple[float, ...]) -> Fit:
    """Return the fit of several machines over one training set.

    Parameters
    ----------
    fits : sequence of Fit
        In the order of the machines.
    class_weight : tuple of floats
        Factors for the weights of the points of each label.
    """
    duals = [fit.dual_objective for fit in fits if fit.dual_objective is not None]
    gaps = [fit.kkt_gap for fit in fits if fit.kkt_gap is not None]
    return replace(
        fits[0],
        support_vectors=sum(fit.support_vectors for fit in fits),
        objective=math.fsum(fit.objective for fit in fits),
        dual_objective=math.fsum(duals) if len(duals) == len(fits) else None,
        kkt_gap=max(gaps) if len(gaps) == len(fits) else None,
        iterations=sum(fit.iterations for fit in fits),
        converged=all(fit.converged for fit in fits),
        class_weight=class_weight,
    )


def audit_of_machines(audits: Sequence[Audit | None]) -> Audit | None:
    """Return the audit of the sum of several objectives; None where one is missing.

    The ends of the interval are the sums of the machines' ends. The machines are audited by the same points, so their
    errors lean the same way: the interval holds the sum at least as often as each one holds its own.
    """
    known = [audit for audit in audits if audit is not None]
    if not known or len(known) != len(audits):
        return None
    return Audit(
        objective=math.fsum(audit.objective for audit in known),
        low=math.fsum(audit.low for audit in known),
        high=math.fsum(audit.high for audit in known),
        points=max(audit.points for audit in known),
    )

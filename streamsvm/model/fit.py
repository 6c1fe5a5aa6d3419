"""How a model was fitted, and its objective over the whole stream, as parts of a version."""

from __future__ import annotations

from dataclasses import dataclass


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
        Primal objective on the training set (see `streamsvm.svm.objective`), in float64 from scratch.
    dual_objective : float or None
        Dual objective, a lower bound of the optimum; None from a solver without dual variables.
    kkt_gap : float or None
        Violation of optimality, recomputed independently of the solver. None from a solver without dual variables.
    iterations : int
    converged : bool
    class_weight : tuple of two floats
        Factors for the weights of negative and positive points; the objectives include them.
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
    class_weight: tuple[float, float] = (1.0, 1.0)


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

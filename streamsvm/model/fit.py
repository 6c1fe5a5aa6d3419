"""How a model was fitted, and what its objective over the whole stream is, as a version says it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How a model was fitted, and how well.

    Attributes
    ----------
    C : float
        Penalty used, whichever way it was configured.
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
        Violation of optimality, from scratch; not the solver's own claim. None from a solver without dual variables.
    iterations : int
    converged : bool
    class_weight : tuple of two floats
        By what the weight of a negative and of a positive point was multiplied; the objectives are of points so
        weighted.
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
    """What a model's objective over the whole stream is, by points that the coreset had no hand in.

    The whole stream is every accepted row up to the cut as it came, never clipped, as at scoring; under the fit's own C
    and class weights and the model's own scaler. The coreset's word on the same is `Fit.objective`; where that lies
    outside the interval, the coreset is wrong about this model: so it is once in twenty times by chance, too.

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

"""The optimum of all rows, certified, and how near to it a machine comes.

The gap of a machine (w, b) is (F(w, b) - F*) / F*: F over all rows, standardised by their own scaler. F* comes from
`streamsvm.svm.interior_point` at a certified relative gap.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from streamsvm.choices import Loss
from streamsvm.config import SvmConfig
from streamsvm.coreset import dual_bound
from streamsvm.linalg import Float
from streamsvm.points import Points, Signs
from streamsvm.svm import follow_path, rough_machine, rows_of


@dataclass(frozen=True, slots=True)
class Model:
    """A linear rule over scaled features."""

    w: Float
    b: float


@dataclass(frozen=True, slots=True)
class Fitted:
    """A model over scaled features, and how good it is certified to be.

    `w`: ndarray of shape (d,). `objective, lower_bound`: F of (w, b), and a dual objective.
    """

    w: Float
    b: float
    objective: float
    lower_bound: float
    seconds: float

    @property
    def gap(self) -> float:
        """Certified relative distance from the optimum."""
        return self.objective / self.lower_bound - 1 if self.lower_bound > 0 else math.inf


def objective(Z: Float, y: Signs, upper: Float, w: Float, b: float, loss: Loss = "hinge") -> float:
    """Return F of a model on weighted points."""
    slack = np.maximum(0.0, 1.0 - y * (Z @ w + b))
    return float(0.5 * (w @ w) + upper @ (slack if loss == "hinge" else slack * slack))


def fit(Z: Float, y: Signs, upper: Float, gap: float = 1e-5, loss: Loss = "hinge") -> Fitted:
    """Solve min 1/2 |w|^2 + sum upper loss; the dual solution certifies how near the optimum it is."""
    begun = time.perf_counter()
    if loss == "hinge":
        v, a, _, _ = follow_path(rows_of(Z), y, upper, gap=gap)
    else:
        v = rough_machine(rows_of(Z), y, upper, gap, loss=loss)[0]
        a = 2.0 * upper * np.maximum(0.0, 1.0 - y * (Z @ v[:-1] + v[-1]))
    seconds = time.perf_counter() - begun
    value = objective(Z, y, upper, v[:-1], float(v[-1]), loss)
    return Fitted(v[:-1], float(v[-1]), value, dual_bound(Z, y, upper, a, loss), seconds)


@dataclass(frozen=True, slots=True)
class Whole:
    """The problem of all rows of a stream, solved.

    `mean, scale`: ndarray of shape (d,). `Z` (ndarray of shape (n, d)): The rows, standardised. `full`: The optimum.
    `certified`: Relative duality gap to which machines are solved.
    """

    points: Points
    svm: SvmConfig
    mean: Float
    scale: Float
    Z: Float
    full: Fitted
    certified: float

    @staticmethod
    def of(points: Points, svm: SvmConfig, certified: float) -> Whole:
        """Solve."""
        exact = points.X.astype(np.float64)
        mean, deviation = exact.mean(axis=0), exact.std(axis=0)
        scale = np.where(deviation > 1e-9 * (1.0 + np.abs(mean)), deviation, 1.0)
        Z = (exact - mean) / scale
        found = fit(Z, points.y, svm.penalty(float(points.weight.sum())) * points.weight, certified, svm.margin_loss)
        assert found.gap <= 2 * certified, f"the optimum is certified to {found.gap:.1e} only"
        return Whole(points, svm, mean, scale, Z, found, certified)

    @property
    def optimum(self) -> float:
        """Least objective."""
        return self.full.objective

    @property
    def penalty(self) -> float:
        """C of the problem."""
        return self.svm.penalty(float(self.points.weight.sum()))

    def machine(self, kept: Points | Model) -> Fitted | Model:
        """Return the machine of what a method kept."""
        if isinstance(kept, Model):
            return kept
        scaled = (kept.X.astype(np.float64) - self.mean) / self.scale
        return fit(scaled, kept.y, self.penalty * kept.weight, self.certified)

    def reached(self, made: Fitted | Model) -> float:
        """Return F of a machine over all rows."""
        return objective(self.Z, self.points.y, self.penalty * self.points.weight, made.w, made.b)

    def gap(self, made: Fitted | Model) -> float:
        """Return how far a machine is from the optimum; at least what is known of it."""
        return max(self.reached(made) / self.optimum - 1.0, self.certified)

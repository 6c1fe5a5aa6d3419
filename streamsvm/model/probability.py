"""From a decision value to a probability of the positive label; how it is fitted: `streamsvm.svm.probability`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamsvm.model.kernels import Float


@dataclass(frozen=True, slots=True)
class Sigmoid:
    """P = 1 / (1 + exp(a f + b)).

    Attributes
    ----------
    a : float
        Negative where higher decision values mean more positive points.
    b : float
    """

    a: float
    b: float

    def of(self, decision: Float) -> Float:
        """Return the probability of the positive label at each decision value, shape (n,)."""
        with np.errstate(over="ignore"):  # beyond float64 it is 0 or 1
            return np.asarray(np.exp(-np.logaddexp(0.0, self.a * decision + self.b)))

"""From a decision value to a probability of the positive label: the two functions that a version may hold.

Invariant: an isotonic function is never decreasing. How they are fitted: `streamsvm.svm.fit_probability`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from streamsvm.model.kernels import Float

MOST_KNOTS: Final = 256
"""Of an isotonic function, so that a message stays small; by 1,000 points it has about 50."""


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


@dataclass(frozen=True, slots=True)
class Isotonic:
    """Linear between knots, constant beyond the outer ones.

    Attributes
    ----------
    x : ndarray of shape (k,), float64
        Decision values of the knots, ascending; 1 to `MOST_KNOTS` of them.
    y : ndarray of shape (k,), float64
        Probabilities there, never descending; above 0 and below 1 where they were fitted here.
    """

    x: Float
    y: Float

    def of(self, decision: Float) -> Float:
        """Return the probability of the positive label at each decision value, shape (n,)."""
        return np.asarray(np.interp(decision, self.x, self.y), dtype=np.float64)


Probability = Sigmoid | Isotonic

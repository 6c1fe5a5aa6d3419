"""Kernels: a small value that names one, and its Gram blocks in float64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LinearKernel:
    """k(a, b) = <a, b>."""

    def gram(self, A: Float, B: Float) -> Float:
        """Return the (len(A), len(B)) block of kernel values."""
        return np.asarray(A @ B.T, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class RbfKernel:
    """k(a, b) = exp(-gamma |a - b|^2).

    Attributes
    ----------
    gamma : float
        Positive, in units of 1 / (squared scaled feature).
    """

    gamma: float

    def gram(self, A: Float, B: Float) -> Float:
        """Return the (len(A), len(B)) block of kernel values.

        Both sets are moved by the mean of B first: the square is expanded, and far from the origin that cancels.
        """
        centre = B.mean(axis=0) if len(B) else 0.0
        A, B = A - centre, B - centre
        squared = np.einsum("ij,ij->i", A, A)[:, None] + np.einsum("ij,ij->i", B, B)[None, :] - 2.0 * (A @ B.T)
        with np.errstate(over="ignore"):  # exp(-inf) is 0, as it should be
            return np.asarray(np.exp(-self.gamma * np.maximum(squared, 0.0)), dtype=np.float64)


Kernel = LinearKernel | RbfKernel

"""Kernels: a small value that names one, and its Gram blocks in float64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
ROWS_IN_PLACE = 64
"""Rows of a block of kernel values on which arithmetic is done at once."""


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
        """Return the (len(A), len(B)) block of kernel values."""
        return self.around(B).gram(A)

    def around(self, B: Float) -> CentredRbf:
        """Return the kernel's values with B, of which what A has no part in is computed once."""
        centre = B.mean(axis=0) if len(B) else np.zeros(B.shape[1])
        moved = B - centre
        return CentredRbf(self.gamma, centre, moved.T, np.einsum("ij,ij->i", moved, moved)[None, :])


@dataclass(frozen=True, slots=True)
class CentredRbf:
    """Values of the RBF kernel with fixed points, moved by their mean: expanded squares cancel far from the origin.

    Attributes
    ----------
    gamma : float
    centre : ndarray of shape (d,)
    moved : ndarray of shape (d, m)
        The fixed points, less the centre.
    squares : ndarray of shape (1, m)
        Their squared lengths.
    """

    gamma: float
    centre: Float
    moved: Float
    squares: Float

    def gram(self, A: Float) -> Float:
        """Return the (len(A), m) block of kernel values.

        One matrix product, then arithmetic in place, few rows at a time, so that they stay in a fast cache.
        """
        A = A - self.centre
        K: Float = np.asarray(A @ self.moved, dtype=np.float64)
        own = np.einsum("ij,ij->i", A, A)[:, None]
        for start in range(0, len(A), ROWS_IN_PLACE):
            part = K[start : start + ROWS_IN_PLACE]
            part *= 2.0
            np.subtract(own[start : start + ROWS_IN_PLACE] + self.squares, part, out=part)
            np.maximum(part, 0.0, out=part)
            with np.errstate(over="ignore"):  # so far apart that the kernel is 0
                part *= -self.gamma
            with np.errstate(over="ignore"):  # exp(-inf) is 0, as it should be
                np.exp(part, out=part)
        return K


Kernel = LinearKernel | RbfKernel

"""Additive machines: a curve for each feature, a surface for some pairs of them, and a score that is their sum.

Nothing else is in a score, so that what it reads of each is its exact explanation. A curve is linear between its knots
and flat beyond them, a surface bilinear between its own. Generalised additive models: Hastie and Tibshirani 1986;
with pairs: Lou, Caruana, Gehrke and Hooker 2013.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsvm.model.kernels import Float


class Hats(NamedTuple):
    """Where values lie among knots: knot `at` has the part 1 - `share` of each, the next one has `share`."""

    at: NDArray[np.int64]
    share: Float

    @classmethod
    def of(cls, values: Float, knots: Float) -> Hats:
        """Return it of values, shape (n,), and at least two knots, ascending."""
        inside = np.clip(values, knots[0], knots[-1])
        at = np.clip(np.searchsorted(knots, inside, side="right") - 1, 0, len(knots) - 2)
        return cls(at, (inside - knots[at]) / (knots[at + 1] - knots[at]))


class Surface(NamedTuple):
    """A bilinear function of two features, flat beyond its knots."""

    first: int
    second: int
    rows: Float  # (a,), knots of the first, ascending
    columns: Float  # (b,), of the second
    values: Float  # (a, b)

    def read(self, Z: Float) -> Float:
        """Return its value at each row, shape (n,)."""
        (i, t), (j, s) = Hats.of(Z[:, self.first], self.rows), Hats.of(Z[:, self.second], self.columns)
        low = self.values[i, j] * (1.0 - s) + self.values[i, j + 1] * s
        high = self.values[i + 1, j] * (1.0 - s) + self.values[i + 1, j + 1] * s
        return low * (1.0 - t) + high * t


@dataclass(frozen=True, slots=True)
class AdditiveMachine:
    """f(z) = sum_j curve_j(z_j) + sum of surfaces + intercept, over scaled features.

    Attributes
    ----------
    knots : tuple of ndarray
        Of each feature, ascending; empty where nothing is read of it.
    values : tuple of ndarray
        Of each curve at its knots.
    surfaces : tuple of Surface
    intercept : float
    """

    knots: tuple[Float, ...]
    values: tuple[Float, ...]
    surfaces: tuple[Surface, ...]
    intercept: float

    @property
    def squared_norm(self) -> float:
        """|w|^2 of the columns that it was trained over."""
        parts = (*self.values, *(surface.values.ravel() for surface in self.surfaces))
        return float(sum(np.square(part).sum() for part in parts))

    def terms(self, Z: Float) -> Float:
        """Return what each curve and each surface adds, shape (n, d + n_surfaces)."""
        found = np.zeros((len(Z), len(self.knots) + len(self.surfaces)))
        for column, one in enumerate(self._read(Z)):
            found[:, column] = one
        return found

    def decide(self, Z: Float) -> Float:
        """Return the decision values of scaled features, shape (n,)."""
        found = np.full(len(Z), self.intercept)
        for one in self._read(Z):
            found += one
        return found

    def _read(self, Z: Float) -> Iterator[Float | float]:
        """Yield what each curve and each surface adds, in their order."""
        for feature, (knots, values) in enumerate(zip(self.knots, self.values, strict=True)):
            yield np.interp(Z[:, feature], knots, values) if len(knots) else 0.0
        for surface in self.surfaces:
            yield surface.read(Z)

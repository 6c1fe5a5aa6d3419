"""Clipping: no feature of a row lies farther from what was seen before it than a number of standard deviations.

Ten rows in ten thousand whose features are a thousand times too large move a scaler, and a model with it. Bounds are
moments of points that were clipped themselves, so that one outlier does not make room for the next.

Invariant: the bounds of a leaf are a function of what its partition sealed before it. Nothing is clipped at scoring:
the model is one of the points as they were learned.

Source: winsorising (Dixon 1960), repeated: untreated moments mask the outliers that are in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.coreset.moments import Moments
from streamsvm.points import Points

MOST_PASSES: Final = 100
"""Passes over a first leaf. Each leaves clip_sd sqrt(p) of outliers that are a share p of the weight; from p = 1 /
clip_sd^2 on they pass for the feature's own spread, whatever the passes."""


@dataclass(frozen=True, slots=True)
class FeatureRanges:
    """Least and greatest value of each feature, shape (d,), float64; infinite where a feature has not varied yet."""

    least: NDArray[np.float64]
    greatest: NDArray[np.float64]

    @staticmethod
    def of(moments: Moments, clip_sd: float) -> FeatureRanges:
        """Return mean plus or minus `clip_sd` standard deviations; `moments` must not be of no points."""
        reach = clip_sd * np.sqrt(np.maximum(moments.square, 0.0) / moments.weight)
        reach[reach <= 1e-9 * np.abs(moments.mean)] = np.inf
        return FeatureRanges(moments.mean - reach, moments.mean + reach)

    def clip(self, points: Points) -> tuple[Points, NDArray[np.bool_]]:
        """Return the clipped points, and which of them, shape (n,), were changed; the given ones, if none was."""
        beyond = (self.least > points.X) | (self.greatest < points.X)
        changed = np.asarray(beyond.any(axis=1))
        if not changed.any():
            return points, changed
        X = points.X.copy()
        X[changed] = np.clip(points.X[changed], self.least, self.greatest).astype(X.dtype)
        return Points(X, points.y, points.weight), changed


def freed_of_outliers(points: Points, moments: Moments, clip_sd: float) -> tuple[Points, NDArray[np.bool_]]:
    """Clip a first leaf by its own moments, again and again until nothing moves; `moments` are the points' own.

    Returns
    -------
    Points
    ndarray of shape (n,), bool
        Which of them were changed.
    """
    clipped, changed = points, np.zeros(len(points), np.bool_)
    for _ in range(MOST_PASSES):
        if not moments.count:
            break
        clipped, fresh = FeatureRanges.of(moments, clip_sd).clip(clipped)
        if not fresh.any():
            break
        changed |= fresh
        moments = Moments.zero(points.dimension, len(moments.class_weight)).add(clipped)
    return clipped, changed

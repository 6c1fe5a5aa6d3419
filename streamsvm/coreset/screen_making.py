"""Making the screen of the next leaf from the points of a partition's sealed buckets, and their pilot.

What a screen is, and which rows it keeps, stands in `streamsvm.coreset.screening`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsvm.common_values import apart
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.reducers.base import Pilot, Purpose, generator
from streamsvm.coreset.reducers.calibrated import SHARES
from streamsvm.coreset.row_kernels import DELTA, curve, scale
from streamsvm.coreset.screen_making_kernels import fill_terms, lengths, rule
from streamsvm.coreset.screening import LEAST_CAPACITY, TARGET, Screen, Screener
from streamsvm.linalg import Float, back_substituted
from streamsvm.points import Points

EXACT_NORM: Final = 32
"""Largest number of features for which the norm in the influence is computed exactly."""
SKETCH: Final = 24
"""Number of random projections above that; the estimated norm has a relative standard deviation of 1 / sqrt(2
SKETCH)."""


def make_screen(
    points: Points,
    pilot: Pilot,
    seen: Moments,
    rows: int,
    accepted: float,
    capacity: int,
    random: np.random.Generator,
) -> Screen:
    """Make the screen of a leaf.

    Parameters
    ----------
    points : Points
        The points of the partition's sealed buckets; both labels must be present.
    pilot : Pilot
        The pilot of those points, with a positive bound.
    seen : Moments
        Exact moments of the rows that they represent.
    rows : int
        Rows that the leaf spans.
    accepted : float
        Expected number of valid rows among them.
    capacity : int
        Most points that the leaf may hold.
    random : numpy Generator
        Only `random()` is called, and only above `EXACT_NORM` features.
    """
    n, d, class_weight = len(points), points.dimension, np.array(pilot.class_weight)
    scaling = np.array([seen.mean, 1.0 / pilot.scale])
    intercept = pilot.intercept + float(np.einsum("j,j->", pilot.coefficients, (scaling[0] - pilot.mean) * scaling[1]))
    weight = points.class_weighted(pilot.class_weight).weight
    scaled, margin, length = np.empty((n, d + 1)), np.empty(n), np.zeros(n)
    scale(points.X, points.y, seen.mean, pilot.scale, pilot.coefficients, intercept, scaled, margin)
    factor, root = np.empty((d + 1, d + 1)), np.zeros((d + 1 + -(d + 1) % 4, 0))
    others = apart(scaled)
    # Without columns, if the Hessian is not positive definite.
    if curve(scaled, weight, margin, pilot.penalty, float(weight.sum()), DELTA, others, factor, length[:0]):
        root = _inverse_root(factor, random)
        lengths(scaled, others, root, length)
    terms = np.empty((2, 6))
    fill_terms(seen.class_weight * class_weight, class_weight, pilot.penalty, pilot.lower_bound, terms)
    mean, expected = np.empty((2, d)), points.weight * (accepted / points.weight.sum())
    rate, factor_of_root = rule(
        scaled, points.y, weight, margin, length, expected, terms,
        np.array(SHARES), seen.weight / seen.count, TARGET * capacity, mean,
    )  # fmt: skip
    return Screen(
        rows=rows,
        rate=rate,
        scaling=scaling,
        coefficients=pilot.coefficients,
        intercept=intercept,
        label_mean=mean,
        terms=terms,
        projection=(root * factor_of_root).astype(np.float32),
    )


def _inverse_root(factor: Float, random: np.random.Generator) -> Float:
    """Return H^-1/2 of a Cholesky factor, or random projections of it, as columns, with rows of zeros."""
    d = len(factor)
    mixture = np.eye(d)
    if d - 1 > EXACT_NORM:
        mixture = np.where(random.random((d, SKETCH)) < 0.5, -1.0, 1.0) / np.sqrt(SKETCH)
    root = np.zeros((d + -d % 4, mixture.shape[1]))
    root[:d] = back_substituted(factor, mixture)
    return root


def warm_up(dtype: np.dtype[np.floating]) -> None:
    """Compile, or load from numba's file cache, the functions that screening runs."""
    n = 2 * LEAST_CAPACITY
    points = Points(np.ones((n, 1), dtype), np.tile(np.array([-1, 1], np.int8), n // 2), np.ones(n))
    pilot = Pilot(
        penalty=1.0, mean=np.zeros(1), scale=np.ones(1), coefficients=np.array([2.0]), intercept=-1.0, lower_bound=0.5
    )
    seen, random = Moments.zero(1).add(points), generator(0, Purpose.SKETCH, (0, 0, 0))
    screen = make_screen(points, pilot, seen, n, n, 2 * n, random)
    buffer = points.take(np.arange(LEAST_CAPACITY))
    Screener.begin(screen, 0, 0, 0).screen(points, np.ones(n, np.bool_), buffer, 0)

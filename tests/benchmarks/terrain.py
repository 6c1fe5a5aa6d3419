"""A hard table of 54 features: places on a map, of which a row has ten numbers and 44 one-hot columns.

The label is on which side of two rough fields over the map a place lies, moved by its kind of soil and its region. Of
the map a row has only what follows from it: height, slope and aspect, light at three hours, distances to the nearest of
some places, one of 4 regions and one of 40 kinds of soil. So columns interact; labels of near rows are mostly equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from streamsvm.points import Points

Float = NDArray[np.float64]

ROWS: Final = 581_012
ROUGHNESS: Final = 65.0
"""Waves of the labels' field over the map, in radians."""
FLIPPED: Final = 0.02
AT_ONCE: Final = 20_000
SOILS: Final = 40
REGIONS: Final = 4


def terrain(seed: int = 0) -> Points:
    """Return the rows, in no order."""
    random = np.random.default_rng(seed)
    places = random.random((ROWS, 2))
    height, slopes = _field(random, 24, 6.0)
    rough, _ = _field(random, 48, ROUGHNESS)
    rougher, _ = _field(random, 48, 2.0 * ROUGHNESS)
    high, gradient, score = np.empty(ROWS), np.empty((ROWS, 2)), np.empty(ROWS)
    for start in range(0, ROWS, AT_ONCE):
        part = slice(start, start + AT_ONCE)
        high[part], gradient[part] = height(places[part]), slopes(places[part])
        score[part] = rough(places[part]) + 0.6 * rougher(places[part])
    slope, aspect = np.hypot(*gradient.T), np.arctan2(gradient[:, 1], gradient[:, 0])
    water, road, fire = (cKDTree(random.random((count, 2))).query(places)[0] for count in (60, 6, 10))
    light = [np.clip(0.72 + 0.07 * slope * np.cos(aspect - hour), 0.0, 2.0) for hour in (0.8, 2.4, 4.0)]
    above = 3.0 * water + 0.3 * random.normal(size=ROWS)
    numbers = np.stack([high, aspect, slope, water, above, road, *light, fire], axis=1)
    numbers += 0.01 * numbers.std(axis=0) * random.normal(size=numbers.shape)
    units = np.array([2_000, 360, 66, 1_400, 770, 7_100, 254, 254, 254, 7_100])
    numbers = np.round((numbers - numbers.min(axis=0)) / np.ptp(numbers, axis=0) * units)
    soil = random.integers(0, SOILS, 240)[cKDTree(random.random((240, 2))).query(places)[1]]
    region = np.digitize(places[:, 0] + 0.2 * np.sin(6.0 * places[:, 1]), [0.35, 0.6, 0.8])
    tilt = 0.5 * random.normal(size=(REGIONS, 2))
    score += 0.5 * random.normal(size=SOILS)[soil] + tilt[region, 0] * high + tilt[region, 1] * slope / 4.0
    y = np.where((score > np.median(score)) != (random.random(ROWS) < FLIPPED), 1, -1).astype(np.int8)
    kinds = np.hstack([np.eye(REGIONS)[region], np.eye(SOILS)[soil]])
    return Points(np.hstack([numbers, kinds]).astype(np.float32), y, np.ones(ROWS))


def _field(
    random: np.random.Generator, waves: int, frequency: float
) -> tuple[Callable[[Float], Float], Callable[[Float], Float]]:
    """Return a random function of places, of mean square 1, and its gradient."""
    along, phase = frequency * random.normal(size=(waves, 2)), 2.0 * np.pi * random.random(waves)
    size = random.normal(size=waves) / np.sqrt(waves / 2.0)
    return (
        lambda at: np.asarray(np.cos(at @ along.T + phase) @ size),
        lambda at: np.asarray(-(np.sin(at @ along.T + phase) * size) @ along),
    )

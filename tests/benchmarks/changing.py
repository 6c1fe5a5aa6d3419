"""Streams that change: two made by their published definitions, and public sets whose features turn at once.

Sources: Street and Kim 2001 (SEA); Hulten, Spencer and Domingos 2001 (the turning hyperplane). Features that turn: at
each change a random half of the features of a shuffled public set is mirrored at its mean: what is easy stays as easy.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Stream = tuple[Float, NDArray[np.int8], list[int]]
"""Features, signs, and the rows at which the world changes at once; none of a stream that changes slowly."""

SEA_BORDERS: Final = (8.0, 9.0, 7.0, 9.5)
SEA_NOISE: Final = 0.1
HYPERPLANE_NOISE: Final = 0.05


def sea(n: int = 60_000, seed: int = 0, borders: tuple[float, ...] = SEA_BORDERS) -> Stream:
    """Three features in [0, 10]; positive where the first two sum to at most 8, then 9, 7, 9.5; a tenth is noise."""
    random = np.random.default_rng(seed)
    X = random.uniform(0.0, 10.0, (n, 3))
    concept = np.minimum(np.arange(n) * len(borders) // n, len(borders) - 1)
    positive = X[:, 0] + X[:, 1] <= np.array(borders)[concept]
    changes = [int(np.searchsorted(concept, k)) for k in range(1, len(borders))]
    return X, _signs(positive ^ (random.random(n) < SEA_NOISE)), changes


def hyperplane(n: int = 60_000, seed: int = 0, d: int = 10, turning: int = 2, magnitude: float = 0.001) -> Stream:
    """Features in [0, 1]; positive above a plane of which some weights move with each row, one way, then the other."""
    random = np.random.default_rng(seed)
    X, weight, way = random.random((n, d)), random.random(d), np.ones(turning)
    positive = np.empty(n, np.bool_)
    turns = random.random((n, turning)) < 0.1
    for i in range(n):
        positive[i] = X[i] @ weight >= 0.5 * weight.sum()
        weight[:turning] += way * magnitude
        way[turns[i]] *= -1.0
    return X, _signs(positive ^ (random.random(n) < HYPERPLANE_NOISE)), []


def turned(X: Float, y: NDArray[np.int8], n: int = 60_000, changes: int = 4, seed: int = 0) -> Stream:
    """Return rows of a set, shuffled, of which a random half of the features is mirrored anew at each change."""
    random = np.random.default_rng(seed)
    chosen = random.permutation(len(y))[:n]
    X, y = X[chosen].astype(np.float64), y[chosen]
    length = len(y) // (changes + 1)
    at = [k * length + int(random.integers(-length // 4, length // 4)) for k in range(1, changes + 1)]
    mean = X.mean(axis=0)
    for begin, end in zip([0, *at], [*at, len(y)], strict=True):
        mirrored = random.permutation(X.shape[1])[: X.shape[1] // 2] if begin else np.empty(0, np.intp)
        X[begin:end, mirrored] = 2.0 * mean[mirrored] - X[begin:end, mirrored]
    return X, _signs(y > 0), at


def _signs(positive: NDArray[np.bool_]) -> NDArray[np.int8]:
    return np.where(positive, 1, -1).astype(np.int8)

"""Which values beyond a bound are a stream's own tail: those that it repeats.

A value of a feature lies a away from the centre. It is the stream's own if at least `REPEATED` other rows lie near it:

- between a / `NEAR` and `NEAR` a away, and outside of the body, ten standard deviations; or
- between a / F and F a away, F being how far the feature's tail is expected to reach. Where the distances at the ranks
  10, 32 and 100 fall by q at each step, the tail is a power law, and one stream in a hundred has a row beyond q^6 times
  the distance at rank 10. The lesser q of both steps counts, so that neither ten strangers nor a feature that is nearly
  always constant make a tail. F is at most 1,000, that of Cauchy's distribution; a normal one has 2.

A lone row at 1e30 is no tail, nor are ten equal ones. The known rows are those that buckets hold, and those that wait
for judgement. A point of a bucket counts as many rows as it weighs in mean weights, one at least. What each of these
weighed is not known, so that weights are compared with those of waiting rows only.

Invariant: a pure function of the known rows and their centre; products and quotients only, so that all machines agree.

Sources: to extrapolate a tail from its largest values is due to Hill 1975 and Weissman 1978; here by three ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.points import Points

Float = NDArray[np.float64]
Mask = NDArray[np.bool_]

REPEATED: Final = 10
"""Other rows that a value must have near it. Fewer, and a handful of equal outliers passes; more, and a stream's first
extremes wait longer."""
RANKS: Final = (10, 32, 100)
"""Of the distances by which a tail is measured: half a power of ten of rows from one to the next."""
STEPS: Final = 6
"""Such steps from the first rank to one row in a hundred streams."""
MOST_FACTOR: Final = 1_000.0
LEAST_ROWS: Final = 1_000
"""Of fewer rows the last rank is no tail, and F is not used."""
NEAR: Final = 10.0
"""Smaller, and a handful of spikes of different heights are strangers to each other."""


class Extremes:
    """The greatest distances of known rows, of each feature, and their greatest weights.

    Parameters
    ----------
    centre, body : ndarray of shape (d,)
        From where distances are, and how far the bulk of the rows reaches.
    rows : int
        Rows that are known of, held or not.
    mean_weight : float
        Of these.
    held : sequence of Points
    single : sequence of Points
        Each of which is one row.
    """

    def __init__(
        self,
        centre: Float,
        body: Float,
        rows: int,
        mean_weight: float,
        held: Sequence[Points],
        single: Sequence[Points] = (),
    ) -> None:
        self._centre, self._body = centre, np.append(body, 0.0)
        self._rows, self._mean_weight = rows, mean_weight
        self._held, self._single = tuple(held), tuple(single)
        self._columns: dict[int, _Ranked] = {}

    def distances(self, points: Points) -> Float:
        """Return how far points lie from the centre in each feature, and their weights; shape (n, d + 1)."""
        away = np.abs(points.X.astype(np.float64) - self._centre)
        return np.column_stack([away, points.weight])

    def repeat(self, away: Float, asked: Mask, waiting: Float, others: int = REPEATED) -> Mask:
        """Return which of the values that are asked about are the stream's own, shape (n, d + 1).

        Parameters
        ----------
        away : ndarray of shape (n, d + 1)
            Of `distances`.
        asked : ndarray of shape (n, d + 1), bool
        waiting : ndarray of shape (k, d + 1)
            Those of rows that are known besides.
        others : int
            Known rows that must be near a value: one more where the row itself is known.
        """
        own = np.zeros(asked.shape, np.bool_)
        for j in np.flatnonzero(asked.any(axis=0)).tolist():
            others_known = _Ranked.of_rows(waiting[:, j])
            at = np.flatnonzero(asked[:, j])
            value = away[at, j]
            own[at, j] = self._has(j, others_known, np.maximum(value / NEAR, self._body[j]), value * NEAR, others)
            if j < len(self._centre) and self._rows >= LEAST_ROWS:
                factor = _factor(self._farthest(j).greatest(RANKS[-1]), others_known.greatest(RANKS[-1]))
                own[at, j] |= self._has(j, others_known, value / factor, value * factor, others)
        return own

    def _has(self, j: int, others_known: _Ranked, least: Float, greatest: Float, rows: int) -> Mask:
        """Return whether so many rows lie between two distances, both included; arrays of one shape."""
        beside, known = others_known.between(least, greatest), self._farthest(j)
        near = known.between(least, greatest)
        if not known.has_all_from(least) and (near + beside < rows).any():
            near = self._column(j).between(least, greatest)
        return np.asarray(near + beside >= rows)

    def _farthest(self, j: int) -> _Ranked:
        """Return the distances of known rows in feature j, or their weights, but most of those within the body.

        Only these are kept: whole columns would take six times the memory of float32 features.
        """
        if j not in self._columns:
            self._columns[j] = self._column(j).beyond(self._body[j])
        return self._columns[j]

    def _column(self, j: int) -> _Ranked:
        """Return the distances of all known rows in feature j, or their weights."""
        single = [self.distances_in(points, j) for points in self._single]
        held = [] if j == len(self._centre) else [self.distances_in(points, j) for points in self._held]
        distance = np.concatenate([np.empty(0), *single, *held])
        count = np.ones(len(distance))
        if held:
            weight = np.concatenate([points.weight for points in self._held])
            count[len(count) - len(weight) :] = np.maximum(1.0, weight / self._mean_weight)
        order = np.argsort(distance, kind="stable")
        return _Ranked(distance[order], count[order])

    def distances_in(self, points: Points, j: int) -> Float:
        """Return how far points lie from the centre in one feature, or their weights."""
        if j == len(self._centre):
            return points.weight
        away: Float = np.abs(points.X[:, j].astype(np.float64) - self._centre[j])
        return away


class _Ranked:
    """Distances in ascending order, all or the greatest, and how many rows lie below each."""

    def __init__(self, distance: Float, count: Float, below: Float | None = None) -> None:
        self._distance, self._count = distance, count
        self._below = np.concatenate([np.zeros(1), np.cumsum(count)]) if below is None else below

    @staticmethod
    def of_rows(distance: Float) -> _Ranked:
        """Return distances, in any order, that are one row each."""
        return _Ranked(np.sort(distance), np.ones(len(distance)))

    def beyond(self, least: float) -> _Ranked:
        """Return the distances above one, in arrays of their own, and at least those of the ranks."""
        first = min(int(np.searchsorted(self._distance, least, "right")), max(0, len(self._distance) - RANKS[-1]))
        return _Ranked(self._distance[first:].copy(), self._count[first:].copy(), self._below[first:].copy())

    def has_all_from(self, least: Float) -> bool:
        """Return whether it has all rows from the least of some distances on."""
        return self._below[0] == 0.0 or bool((least > self._distance[0]).all())

    def between(self, least: Float, greatest: Float) -> Float:
        """Return how many of its rows lie between two distances, both included; arrays of one shape."""
        end = self._below[np.searchsorted(self._distance, greatest, "right")]
        between: Float = end - self._below[np.searchsorted(self._distance, least, "left")]
        return between

    def greatest(self, most: int) -> tuple[Float, Float]:
        """Return so many of the greatest distances, and of how many rows each is."""
        return self._distance[-most:], self._count[-most:]


def _factor(*known: tuple[Float, Float]) -> float:
    """Return how far a power law reaches by the three ranks, of the greatest distances; 1 of too few rows."""
    distance, count = (np.concatenate(parts) for parts in zip(*known, strict=True))
    order = np.argsort(-distance, kind="stable")
    rows = np.cumsum(count[order])
    if not len(rows) or rows[-1] < RANKS[-1]:
        return 1.0
    first, middle, last = (float(distance[order[np.searchsorted(rows, rank, "left")]]) for rank in RANKS)
    step, factor = min(_ratio(first, middle), _ratio(middle, last)), 1.0
    for _ in range(STEPS):
        factor = min(MOST_FACTOR, factor * step)
    return factor


def _ratio(greater: float, lesser: float) -> float:
    if greater <= 0.0:
        return 1.0
    return greater / lesser if lesser > 0.0 else MOST_FACTOR

"""Which values beyond a bound are a stream's own tail: those that it repeats.

A value of a feature lies a away from the centre. It is the stream's own if at least `REPEATED` other rows lie between
a / F and F a away, F being the feature's *factor*: how far beyond its tenth farthest row a feature is expected to reach.
A feature whose distances at the ranks 10, 32 and 100 fall by q at each step has a power-law tail there, on which a row
in a hundred streams lies beyond q^6 times the distance at rank 10. The lesser q of both steps counts, so that neither
ten strangers nor a feature that is nearly always constant make a tail; F is between 2 (a normal distribution) and 1,000
(Cauchy). A lone row at 1e30 is nobody's tail, nor are ten equal ones.

The known rows are those that buckets hold, of which each stands for one at least, and those that wait for judgement.
How much a row weighs is not known of those in buckets; the factor of weights is `WEIGHT_FACTOR`.

Invariant: a pure function of the known rows and their centre; products and quotients only, so that all machines agree.

Sources: extrapolation of a tail by its largest values is that of Hill 1975 and Weissman 1978, with three ranks.
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
LEAST_FACTOR, MOST_FACTOR: Final = 2.0, 1_000.0
LEAST_ROWS: Final = 1_000
"""Of fewer rows the last rank is no tail, and the factor is the least."""
WEIGHT_FACTOR: Final = 10.0


class Extremes:
    """The greatest distances of known rows, of each feature, and of the row's weights behind them.

    Parameters
    ----------
    centre : ndarray of shape (d,)
    rows : int
        Rows that are known of, held or not.
    held : sequence of Points
        Of which weights say nothing.
    single : sequence of Points
        Each of which is one row.
    """

    def __init__(self, centre: Float, rows: int, held: Sequence[Points], single: Sequence[Points] = ()) -> None:
        self._centre, self._rows, self._held, self._single = centre, rows, tuple(held), tuple(single)
        self._columns: dict[int, Float] = {}

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
            known = np.sort(np.concatenate([self._column(j), waiting[:, j]]))
            factor = WEIGHT_FACTOR if j == len(self._centre) else self._factor(known)
            at = np.flatnonzero(asked[:, j])
            value = away[at, j]
            near = np.searchsorted(known, value * factor, "right") - np.searchsorted(known, value / factor, "left")
            own[at, j] = near >= others
        return own

    def _column(self, j: int) -> Float:
        """Return the greatest distances in feature j, or weights, in any order."""
        if j not in self._columns:
            parts = [np.empty(0)]
            if j == len(self._centre):
                parts += [points.weight for points in self._single]
            else:
                known = (*self._held, *self._single)
                parts += [np.abs(points.X[:, j].astype(np.float64) - self._centre[j]) for points in known]
            every, most = np.concatenate(parts), 2 * RANKS[-1]
            self._columns[j] = every if len(every) <= most else np.partition(every, len(every) - most)[-most:]
        return self._columns[j]

    def _factor(self, known: Float) -> float:
        """Return how far beyond the tenth of the ascending distances a feature is expected to reach."""
        if self._rows < LEAST_ROWS or len(known) < RANKS[-1]:
            return LEAST_FACTOR
        first, middle, last = (float(known[len(known) - rank]) for rank in RANKS)
        step = min(_ratio(first, middle), _ratio(middle, last))
        factor = 1.0
        for _ in range(STEPS):
            factor = min(MOST_FACTOR, factor * step)
        return max(LEAST_FACTOR, factor)


def _ratio(greater: float, lesser: float) -> float:
    if greater <= 0.0:
        return 1.0
    return greater / lesser if lesser > 0.0 else MOST_FACTOR

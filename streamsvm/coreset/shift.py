"""Notices a leaf that is plainly no random part of what its partition saw before: the stream is sorted, or drifts.

It decides nothing and no state holds it: a restart forgets the moments of each label, and compares with what came
since. A bucket keeps what mattered to its own part of the stream, which need not be what matters to the whole; so a
tree over such a stream can be worse than a plain sample, and says so by this.

Compared are the exact moments of all features and the share of labels, and the moments of each label alone, which move
where the rule behind the labels does while the features stay as they were. What a screened leaf keeps is too little for
the last; there the rule is compared by exact gradients (`streamsvm.coreset.screening.turned`).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsvm.coreset.moments import Moments
from streamsvm.points import Points, Weights

APART: Final = 0.05
"""Squared distance (`Moments.distance`) from which on a leaf may count as unlike what came before it."""
BY_CHANCE: Final = 20.0
"""What n points must exceed beyond that, times n. On shuffled sets, leaves of 50 to 3,000 points, up to 123 features,
with outliers and without, 10.3 was the most; sorted by their first component, the median is over 100."""

LEAST: Final = 20
"""Points, fewer of which say nothing: their own variance may be small by chance."""


class ShiftWatch:
    """Compares each leaf of a partition with those before it.

    Parameters
    ----------
    dimension : int
    classes : int
    """

    def __init__(self, dimension: int, classes: int = 2) -> None:
        labels = (-1, 1) if classes == 2 else range(classes)
        self._labels = {label: Moments.zero(dimension, classes) for label in labels}

    def shifted(self, before: Moments, leaf: Moments, points: Points) -> bool:
        """Tell whether a leaf is unlike what came before it, and count it to that.

        Parameters
        ----------
        before, leaf : Moments
            Exact, of all sealed leaves and of this one.
        points : Points
            What the leaf holds.
        """
        found = is_shifted(before, leaf, effective(points.weight))
        for label, seen in self._labels.items():
            own = points.take(points.y == label)
            moments = Moments.zero(points.dimension, len(seen.class_weight)).add(own)
            found |= is_shifted(seen, moments, effective(own.weight))
            self._labels[label] = seen.merge(moments)
        return found


def is_shifted(before: Moments, leaf: Moments, n: float) -> bool:
    """Tell whether moments of about n independent points are not those of a random part of `before`."""
    return n >= LEAST and before.distance(leaf) > APART + BY_CHANCE / n


def effective(weight: Weights) -> float:
    """Return how many points of equal weight tell as much (Kish 1965); 0 for none."""
    square = float(np.square(weight).sum())
    return float(weight.sum()) ** 2 / square if square > 0.0 else 0.0

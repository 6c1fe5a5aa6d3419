"""How well one field orders the labels of events that it was not learned from.

The events are drawn into two halves, the same ones each time, and each half is judged by what the other one says: of
many values some come with one label by chance, which a judgement of the same events would take for knowledge.

Labels are arrays of shape (n,): 1 is positive, 0 negative, and events with -1 have none and do not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]

LEAST_COUNTED: Final = 20
"""Events, of a label, below which nothing is said about it."""
SURE: Final = 3.0
"""Standard errors by which an area must be larger to count as larger."""
LEAST_GAIN: Final = 0.01
"""Area by which it must be larger besides."""
SHRINKAGE: Final = 5.0
"""Events with the share of all that are added to those of each value: a value that came once says little."""
_SEED: Final = 7_919_103
"""Not one that people choose: labels drawn by the same generator would be those of the halves."""
LOGARITHM_GAIN: Final = 4.0
"""Times 1/n by which a logarithm must explain more of the labels: two units of the logarithm of a likelihood."""


def enough(labels: NDArray[Any]) -> bool:
    """Return whether both labels, 0 and 1, come often enough for an area."""
    return min(int(np.sum(labels == 1)), int(np.sum(labels == 0))) >= LEAST_COUNTED


def area(scores: Float, labels: NDArray[Any]) -> float:
    """Return the share of pairs of a positive and a negative that are in order, ties counted half."""
    _, index, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[index]
    positive = labels == 1
    n, m = int(positive.sum()), int((~positive).sum())
    return float((ranks[positive].sum() - n * (n + 1) / 2.0) / (n * m))


def area_in_order(values: Float, labels: NDArray[Any]) -> float:
    """Return the area of numbers by their order, ascending or descending."""
    known = labels >= 0
    found = area(values[known], labels[known])
    return max(found, 1.0 - found)


def area_by_values(
    codes: NDArray[np.intp], labels: NDArray[Any], signs: Float | None = None, shrinkage: float = SHRINKAGE
) -> float:
    """Return the area of a field by the positive share of each value among other events.

    Parameters
    ----------
    codes : ndarray of shape (n,)
        The column of each event's value.
    labels : ndarray of shape (n,)
    signs : ndarray of shape (n,), optional
        What stands in the column, 1 or -1, as a hash has it.
    shrinkage : float
    """
    known = labels >= 0
    signs = np.ones(int(known.sum())) if signs is None else signs[known]
    codes, labels = codes[known], labels[known]
    share = float(np.mean(labels))
    scores = np.zeros(len(codes))
    for taught, judged in _halves(len(codes)):
        counts = np.bincount(codes[taught], minlength=int(codes.max()) + 1)
        sums = np.bincount(codes[taught], signs[taught] * (labels[taught] - share), minlength=len(counts))
        scores[judged] = signs[judged] * (sums / np.maximum(counts + shrinkage, 1.0))[codes[judged]]
    return area(scores, labels)


def is_larger(one: float, other: float, labels: NDArray[Any]) -> bool:
    """Return whether an area is larger than another one by more than chance makes it."""
    positives, negatives = float(np.sum(labels == 1)), float(np.sum(labels == 0))
    error = np.sqrt((positives + negatives) / (12.0 * positives * negatives))
    return one - other > max(LEAST_GAIN, SURE * float(error))


def logarithm_gain(values: Float, labels: NDArray[Any]) -> float:
    """Return how much more of the labels the logarithm of a number explains than the number, in `LOGARITHM_GAIN`."""
    known = labels >= 0
    values, labels = values[known], labels[known]
    more = _explained(signed_logarithm(values), labels) - _explained(values, labels)
    share = float(np.mean(labels))
    return more * 4.0 * share * (1.0 - share) * len(labels) / LOGARITHM_GAIN


def signed_logarithm(values: Float) -> Float:
    """Return sign(v) log(1 + |v|)."""
    return np.copysign(np.log1p(np.abs(values)), values)


def _explained(values: Float, labels: NDArray[Any]) -> float:
    """Return the share of the labels' variance that a straight line, drawn through the other half, explains.

    Both labels weigh the same: the share of a rare one grows with the odds themselves, and not with their logarithm.
    """
    left, share = 0.0, float(np.mean(labels))
    weight = np.where(labels == 1, 0.5 / share, 0.5 / (1.0 - share))
    for taught, judged in _halves(len(values)):
        x, w = values[taught], weight[taught] / weight[taught].sum()
        x_mean, y_mean = float(w @ x), float(w @ labels[taught])
        spread = float(w @ (x - x_mean) ** 2)
        slope = float(w @ ((x - x_mean) * (labels[taught] - y_mean))) / spread if spread > 0 else 0.0
        errors = labels[judged] - y_mean - slope * (values[judged] - x_mean)
        left += float(weight[judged] @ errors**2)
    return 1.0 - 4.0 * left / len(labels)


def _halves(n: int) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Yield the halves, to learn from and to judge, both ways; drawn, because labels may alternate."""
    first = np.random.default_rng(_SEED).random(n) < 0.5
    yield first, ~first
    yield ~first, first


def coded(values: Sequence[Any]) -> tuple[list[Any], NDArray[np.intp]]:
    """Return the distinct values, and which of them each one is."""
    places = {value: place for place, value in enumerate(dict.fromkeys(values))}
    return list(places), np.fromiter(map(places.__getitem__, values), np.intp, len(values))

"""How well one field orders the labels of events that it was not learned from.

The events are drawn into two halves, the same ones each time, and each half is judged by what the other one says: of
many values some come with one label by chance, which a judgement of the same events would take for knowledge.

Labels are arrays of shape (n,): the index of each event's label, -1 of one that has none and does not count. Of two
labels 1 is the positive one; of more, figures are means over the labels, each against all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
    """Return whether two labels, or one and the others together, come often enough for an area."""
    return bool(_questions(labels))


def _questions(labels: NDArray[Any]) -> list[NDArray[Any]]:
    """Return labels of 0 and 1, -1 where there is none, for each question that is asked often enough."""
    several = labels.max(initial=0) > 1
    asked = [np.where(labels < 0, -1, labels == one) for one in range(labels.max() + 1)] if several else [labels]
    return [one for one in asked if min(int(np.sum(one == 1)), int(np.sum(one == 0))) >= LEAST_COUNTED]


def _mean(judged: Callable[[NDArray[Any]], float], labels: NDArray[Any]) -> float:
    return float(np.mean([judged(one) for one in _questions(labels)]))


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
    found = [area(values[known], one[known]) for one in _questions(labels)]
    return float(np.mean([max(one, 1.0 - one) for one in found]))


def area_by_shares(codes: NDArray[np.intp], labels: NDArray[Any]) -> float:
    """Return the area of a field by the share of a label among the same events that have the value."""

    def judged(one: NDArray[Any]) -> float:
        return area((np.bincount(codes, one) / np.bincount(codes))[codes], one)

    return _mean(judged, labels)


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
    return _mean(lambda one: _area_by_values(codes[known], one[known], signs, shrinkage), labels)


def _area_by_values(codes: NDArray[np.intp], labels: NDArray[Any], signs: Float, shrinkage: float) -> float:
    share = float(np.mean(labels))
    scores = np.zeros(len(codes))
    for taught, judged in _halves(len(codes)):
        counts = np.bincount(codes[taught], minlength=int(codes.max()) + 1)
        sums = np.bincount(codes[taught], signs[taught] * (labels[taught] - share), minlength=len(counts))
        scores[judged] = signs[judged] * (sums / np.maximum(counts + shrinkage, 1.0))[codes[judged]]
    return area(scores, labels)


def is_larger(one: float, other: float, labels: NDArray[Any]) -> bool:
    """Return whether an area is larger than another one by more than chance makes it."""
    return one - other > max(LEAST_GAIN, SURE * _mean(_error, labels))


def orders(values: Float, labels: NDArray[Any]) -> bool:
    """Return whether numbers order the labels better than chance."""
    return enough(labels) and is_larger(area_in_order(values, labels), 0.5, labels)


def _error(labels: NDArray[Any]) -> float:
    """Return the standard error of an area where nothing is known."""
    positives, negatives = float(np.sum(labels == 1)), float(np.sum(labels == 0))
    return float(np.sqrt((positives + negatives) / (12.0 * positives * negatives)))


def logarithm_gain(values: Float, labels: NDArray[Any]) -> float:
    """Return how much more of the labels the logarithm of a number explains than the number, in `LOGARITHM_GAIN`."""
    known = labels >= 0
    return _mean(lambda one: _logarithm_gain(values[known], one[known]), labels)


def _logarithm_gain(values: Float, labels: NDArray[Any]) -> float:
    more = _explained(signed_logarithm(values), labels) - _explained(values, labels)
    return _events(more, labels) / LOGARITHM_GAIN


def explains(values: Float, labels: NDArray[Any]) -> bool:
    """Return whether a number explains more of the labels than chance does, also where few events have another one."""
    if not enough(labels):
        return False
    known = labels >= 0
    return _mean(lambda one: _events(_explained(values[known], one[known]), one[known]), labels) > SURE**2


def _events(explained: float, labels: NDArray[Any]) -> float:
    """Return a share of the labels' variance times their number, as if both labels were equally frequent."""
    share = float(np.mean(labels))
    return explained * 4.0 * share * (1.0 - share) * len(labels)


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

"""Reducers: from many weighted points to at most m, and the random numbers they may use.

Invariant: a reducer is a pure function of its arguments. Its generator is keyed by (seed, purpose, partition, level,
index) through Philox, a counter-based generator, so that no node's numbers depend on when, where or after what it runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from streamsvm.points import Points


@dataclass(frozen=True, slots=True)
class Pilot:
    """A rough model that a reducer may be guided by, solved on the raw points' own scale.

    Attributes
    ----------
    coefficients : ndarray of shape (d,), float64
    intercept : float
    lower_bound : float
        A certified lower bound of the optimum (a dual objective).
    """

    coefficients: NDArray[np.float64]
    intercept: float
    lower_bound: float


class Purpose(IntEnum):
    """What a generator is for; part of its key, so that two purposes never share numbers."""

    NODE = 1
    CUT = 2


def generator(seed: int, purpose: Purpose, counter: tuple[int, int, int]) -> np.random.Generator:
    """Return the generator of one node.

    Parameters
    ----------
    seed : int
        0 <= seed < 2^64.
    purpose : Purpose
    counter : three integers below 2^64
        (partition, level, index) of a node, or 192 bits that name a cut.

    Notes
    -----
    The lowest word of Philox's 256-bit counter is left free: 2^64 blocks a node.
    """
    key = np.array([seed, purpose], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=np.array([0, *counter], dtype=np.uint64)))


class Reducer(Protocol):
    """Reduces a weighted set; `m` or fewer points come back, in log order, and never a weight that is not positive."""

    def reduce(self, points: Points, m: int, random: np.random.Generator, pilot: Pilot | None) -> Points:
        """Return at most `m` weighted points that stand for `points`; all of them if they are no more than `m`."""
        ...


class UniformReducer:
    """Sampling in proportion to weight, without replacement, of fixed size.

    A point's inclusion probability is pi = min(1, c u) with sum pi = m, and its new weight u / pi, so any weighted sum
    is estimated without bias and the total weight is kept exactly (up to rounding). The points of one label are drawn
    systematically in log order, the labels one after the other, which keeps each label's share to within one point.

    Sources: Madow 1949 (systematic sampling with unequal probabilities); Tillé 2006, section 2.10 (c by removing the
    points that are certain).
    """

    def reduce(self, points: Points, m: int, random: np.random.Generator, pilot: Pilot | None) -> Points:  # noqa: ARG002
        """Return at most `m` points; see the class."""
        if len(points) <= m:
            return points
        inclusion = inclusion_probabilities(points.weight, m)
        order = np.argsort(points.y, kind="stable")
        chosen = np.sort(order[systematic(inclusion[order], m, float(random.random()))])
        return points.take(chosen).reweighted(points.weight[chosen] / inclusion[chosen])


def inclusion_probabilities(size: NDArray[np.float64], m: int) -> NDArray[np.float64]:
    """Return pi = min(1, c size) with sum pi = m.

    Parameters
    ----------
    size : ndarray of shape (n,), positive, n > m
    m : int
        m >= 1.
    """
    certain = np.zeros(len(size), dtype=np.bool_)
    while True:
        free = m - int(certain.sum())
        scale = free / float(size[~certain].sum())
        fresh = ~certain & (size * scale >= 1.0)
        if not fresh.any():
            return np.where(certain, 1.0, size * scale)
        certain |= fresh


def systematic(inclusion: NDArray[np.float64], m: int, start: float) -> NDArray[np.intp]:
    """Choose the m indices whose interval of the cumulated inclusion holds one of start, start + 1, ...

    Parameters
    ----------
    inclusion : ndarray of shape (n,), each in (0, 1], with sum m
    start : float in [0, 1)

    Notes
    -----
    The sum is m only up to rounding; borders are scaled to end at exactly m, which moves a probability by less than
    n machine epsilons and keeps the size fixed.
    """
    borders = np.cumsum(inclusion)
    borders *= m / borders[-1]
    return np.searchsorted(borders, start + np.arange(m), side="right")

"""A screen of either kind, of two labels or of more, as a leaf and a partition use it."""

from __future__ import annotations

from streamsvm.coreset import class_screening, screening
from streamsvm.coreset.class_screening import ClassScreen, ClassScreened, ClassScreener
from streamsvm.coreset.reducers.base import Observed
from streamsvm.coreset.screening import Screen, Screened, Screener
from streamsvm.points import Points

AnyScreen = Screen | ClassScreen
AnyScreened = Screened | ClassScreened
AnyScreener = Screener | ClassScreener


def begun(screen: AnyScreen, seed: int, partition: int, leaf: int) -> AnyScreener:
    """Return the screener of a new leaf."""
    if isinstance(screen, ClassScreen):
        return ClassScreener.begin(screen, seed, partition, leaf)
    return Screener.begin(screen, seed, partition, leaf)


def resumed(state: AnyScreened, seed: int, partition: int, leaf: int) -> AnyScreener:
    """Return the screener of a leaf that goes on from a state."""
    if isinstance(state, ClassScreened):
        return ClassScreener(state.copy(), seed, partition, leaf)
    return Screener(state.copy(), seed, partition, leaf)


def calibrated(points: Points, state: AnyScreened, observed: Observed) -> Points:
    """Return the points of a screened leaf with weights that meet its exact totals; count the outcome."""
    if isinstance(state, ClassScreened):
        return class_screening.calibrated(points, state, observed)
    return screening.calibrated(points, state, observed)


def turned(state: AnyScreened, buckets: Points) -> bool:
    """Tell whether the rule behind the labels clearly differs between a screened leaf and the buckets before it."""
    if isinstance(state, ClassScreened):
        return class_screening.turned(state, buckets)
    return screening.turned(state, buckets)

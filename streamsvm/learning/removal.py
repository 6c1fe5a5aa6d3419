"""Rows taken out of what was learned, exactly, where that is possible: a branch does it, at the socket ``removal``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from streamsvm.learning.partition_state import PartitionState
from streamsvm.points import Points
from streamsvm.sockets import plugged


class CannotForget(ValueError):
    """Rows cannot be taken out exactly; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Removal:
    """What stands at the socket: parameters as of `without`."""

    without: Callable[[PartitionState, Points, int], PartitionState]


def without(state: PartitionState, points: Points, classes: int) -> PartitionState:
    """Return a partition's state without rows: for each one given, the first with its features and its label.

    Parameters
    ----------
    state : PartitionState
    points : Points
        Of the dtype that is learned; weights are not looked at.
    classes : int
        Of the partition's task.

    Raises
    ------
    CannotForget
        If rows were reduced by now, one of these is not held, or no branch takes rows out.
    """
    for removal in plugged("removal", Removal):
        return removal.without(state, points, classes)
    raise CannotForget("this installation has no branch that takes rows out: fit again without the rows")

"""What a leaf asks its screen, whatever that screens by.

`streamsvm.coreset.screening` has the screen of two labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from streamsvm.coreset.moments import Moments
from streamsvm.coreset.reducers.base import Observed
from streamsvm.points import Points


class LeafRule(Protocol):
    """The rule by which the rows of one leaf are screened; it does not change within the leaf."""

    @property
    def rows(self) -> int:
        """Rows that the leaf spans."""
        ...


class LeafScreened(Protocol):
    """The state of a screened leaf, except its points and extent."""

    @property
    def screen(self) -> LeafRule:
        """The rule."""
        ...

    @property
    def accepted(self) -> int:
        """Valid rows seen."""
        ...

    @property
    def moments(self) -> Moments:
        """Exact moments of all accepted rows, kept or not."""
        ...

    def copy(self) -> LeafScreened:
        """Return a copy with its own arrays."""
        ...

    def resumed(self, leaf: tuple[int, int, int]) -> LeafScreener:
        """Return the screener that goes on from a copy; (seed, partition, number) keys its random numbers."""
        ...

    def calibrated(self, points: Points, observed: Observed) -> Points:
        """Return the leaf's points with weights that meet its exact totals; count the outcome."""
        ...

    def turned(self, buckets: Sequence[Points]) -> bool:
        """Return whether the rule behind the labels clearly differs between the leaf and the buckets before it."""
        ...


class LeafScreener(Protocol):
    """Screens the rows of one leaf, and writes kept points into a buffer of the caller."""

    @property
    def state(self) -> LeafScreened:
        """The state; its arrays change with the next call of `screen`."""
        ...

    def screen(self, points: Points, accepted: NDArray[np.bool_], buffer: Points, kept: int) -> int:
        """Screen rows; return the number of points in the buffer afterwards, which is never full then.

        Parameters
        ----------
        points : Points
            One point per row.
        accepted : ndarray of shape (n,), bool
            Which rows are valid.
        buffer : Points
        kept : int
            Number of points in the buffer.
        """
        ...

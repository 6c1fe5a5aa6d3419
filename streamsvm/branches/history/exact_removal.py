"""Rows taken out of a partition that still holds each of its rows as it came.

Before anything was reduced, screened or drawn, a row that is taken out leaves what there would be had it been rejected
when it came: its place in the count of rows, and nothing else. Afterwards that is not so: kept points stand for others,
pilots followed from them, and totals hold them for good. Then nothing is taken out, and the answer says why.

Invariant: a state without rows is byte for byte that of a stream in which they were rejected.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.coreset.audit_sample import Held
from streamsvm.coreset.moments import Moments
from streamsvm.learning.partition_state import PartitionState
from streamsvm.learning.removal import CannotForget, Removal
from streamsvm.points import Points


def without(state: PartitionState, points: Points, classes: int) -> PartitionState:
    """Return a partition's state without rows, as `streamsvm.learning.removal.without` says."""
    if state.buckets or state.screened is not None or state.learned.rows != state.leaf_extent.rows:
        raise CannotForget(
            f"{state.learned.rows:,} rows were learned, and most are held in reduced form, which no single row can be "
            "taken out of: fit again without the rows"
        )
    if any(reservoir.threshold > 0.0 for reservoir in state.audit):
        raise CannotForget(
            "the audit sample is a draw by now, on which rows that it does not hold have an influence: fit again "
            "without the rows"
        )
    wanted = Counter(_names(points))
    kept = _unnamed(state.leaf_points, Counter(wanted))
    if len(kept) - np.count_nonzero(kept) != len(points):
        there = Counter(_names(state.leaf_points))
        missing = sum((wanted - there).values())
        raise CannotForget(
            f"{missing:,} of the {len(points):,} rows are not held with these labels: none was taken out"
        )
    left = state.leaf_points.take(kept)
    audit = tuple(_reservoir_without(reservoir, Counter(wanted)) for reservoir in state.audit)
    moments = Moments.zero(left.dimension, classes).add(left)
    # A copy: the present leaf goes on writing into the memory that these are views of.
    return replace(
        state,
        leaf_points=Points.union([left]),
        leaf_extent=replace(state.leaf_extent, moments=moments),
        audit=audit,
    )


def _names(points: Points) -> list[tuple[bytes, int]]:
    return [(x.tobytes(), int(y)) for x, y in zip(points.X, points.y, strict=True)]


def _unnamed(points: Points, wanted: Counter[tuple[bytes, int]]) -> NDArray[np.bool_]:
    """Return which points stay when the first of each wanted one goes."""
    kept = np.ones(len(points), np.bool_)
    for at, name in enumerate(_names(points)):
        if wanted[name] > 0:
            wanted[name] -= 1
            kept[at] = False
    return kept


def _reservoir_without(reservoir: Held, wanted: Counter[tuple[bytes, int]]) -> Held:
    kept = _unnamed(reservoir.points, wanted)
    return Held(Points.union([reservoir.points.take(kept)]), reservoir.priority[kept], reservoir.threshold)


REMOVAL: Final = Removal(without)

"""Buckets as the digits of a binary counter: Alg. 2 of Tukan et al. 2020.

A point passes one reduction per level, and memory grows with the logarithm of the stream. Where we differ: the stream
has no end, so there is no root, and the union of all buckets and the open leaf represents the stream at any moment. A
leaf's bucket holds at most `bucket_points` points for any size of leaf, while the paper ties both to one parameter l.
"""

from __future__ import annotations

from typing import Any

from streamsvm.config import CoresetConfig
from streamsvm.coreset.buckets import Bucket, joined
from streamsvm.coreset.reducers.base import Reducer
from streamsvm.coreset.structure import PilotOf, Structure
from streamsvm.points import Points


class Counter(Structure):
    """Buckets as the digits of a binary counter: two of a level are reduced to one of the next."""

    def with_leaf(self, leaf: Bucket, pilot_of: PilotOf | None) -> list[Bucket]:
        """Return the buckets after a leaf; see `Structure`."""
        level, index = leaf.level, leaf.index
        first = self.node(level, index, leaf.points, leaf.extent, pilot_of)
        buckets = [*self.buckets, first]
        # Levels never increase, so the last two buckets are both of this level or there are too few of it.
        while [node.level for node in buckets[-2:]] == [level, level]:
            siblings = buckets[-2:]
            level, index = level + 1, index // 2
            union = Points.union([node.points for node in siblings])
            whole = joined([node.extent for node in siblings])
            node = self.node(level, index, union, whole, pilot_of)
            buckets[-2:] = [node]
        return buckets


def counter(partition: int, seed: int, config: CoresetConfig, reducer: Reducer[Any]) -> Counter:
    """Return the empty counter of a partition."""
    return Counter(partition, seed, config.bucket_points, reducer)

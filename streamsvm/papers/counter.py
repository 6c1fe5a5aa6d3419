"""Buckets as the digits of a counter: Alg. 2 of Tukan et al. 2020, which has a fan-in of 2.

A point passes one reduction per level, and memory grows with the logarithm of the stream. Where we differ: the stream
has no end, so there is no root, and the union of all buckets and the open leaf represents the stream at any moment. A
leaf's bucket holds at most `bucket_points` points for any size of leaf, while the paper ties both to one parameter l.
"""

from __future__ import annotations

from typing import Any

from streamsvm.config import CoresetConfig
from streamsvm.coreset.reducers.base import Reducer
from streamsvm.coreset.structure import Bucket, PilotOf, Structure, joined
from streamsvm.points import Points


class Counter(Structure):
    """Buckets as the digits of a counter in base `fan_in`: `fan_in` buckets of a level are reduced to one of the next.

    Parameters
    ----------
    partition, seed, bucket_points, reducer
        As in `Structure`.
    fan_in : int
        Number of buckets of one level that make one of the next; 2 is Alg. 2 of the paper.
    """

    def __init__(self, partition: int, seed: int, fan_in: int, bucket_points: int, reducer: Reducer[Any]) -> None:
        super().__init__(partition, seed, bucket_points, reducer)
        self._fan_in = fan_in

    def with_leaf(self, leaf: Bucket, pilot_of: PilotOf | None) -> list[Bucket]:
        """Return the buckets after a leaf; see `Structure`."""
        level, index = leaf.level, leaf.index
        first = self.node(level, index, leaf.points, leaf.extent, pilot_of)
        buckets = [*self.buckets, first]
        # Levels never increase, so the last `fan_in` buckets are all of this level or there are too few of it.
        while [node.level for node in buckets[-self._fan_in :]] == [level] * self._fan_in:
            siblings = buckets[-self._fan_in :]
            level, index = level + 1, index // self._fan_in
            union = Points.union([node.points for node in siblings])
            whole = joined([node.extent for node in siblings])
            node = self.node(level, index, union, whole, pilot_of)
            buckets[-self._fan_in :] = [node]
        return buckets


def counter(partition: int, seed: int, config: CoresetConfig, reducer: Reducer[Any]) -> Counter:
    """Return the empty counter of a partition."""
    return Counter(partition, seed, config.fan_in, config.bucket_points, reducer)

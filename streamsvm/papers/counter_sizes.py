"""How many points a counter holds, and how it divides a budget; integers only, for the options.

A counter of fan-in f keeps at most f - 1 buckets a level, and a level more each time the stream grows f-fold. Beside
them stands one open leaf.
"""

from __future__ import annotations

from typing import Final

LONGEST_STREAM: Final = 1 << 40
"""Rows of a partition for which levels are counted."""


class CounterSizes:
    """Sizes of a counter; see `streamsvm.memory.Sizes`."""

    def points(self, fan_in: int, leaf: int, bucket: int) -> int:
        """Return the most points that a counter holds over the longest stream, its open leaf included."""
        levels = 1
        while leaf * fan_in**levels < LONGEST_STREAM:
            levels += 1
        return levels * (fan_in - 1) * bucket + leaf

    def reduced(self, fan_in: int, leaf: int, bucket: int) -> int:
        """Return the most points of one reduction: of a leaf, or of so many buckets."""
        return max(leaf, fan_in * bucket)

    def of_budget(self, memory: int, fan_in: int, leaf: int | None, bucket: int | None) -> tuple[int, int]:
        """Return leaf and bucket of a counter that holds `memory` points at the end of the longest stream.

        Parameters
        ----------
        memory : int
            Points of one partition, without its audit sample.
        fan_in : int
        leaf, bucket : int or None
            Sizes that are given; None is to be found. A leaf is twice a bucket unless it is given.

        Returns
        -------
        tuple of int
            A bucket of 0 where nothing fits. What is given is returned, fitting or not.
        """

        def leaf_of(bucket: int) -> int:
            return 2 * bucket if leaf is None else leaf

        if bucket is not None:
            return leaf_of(bucket), bucket
        found = memory // 2
        while found and self.points(fan_in, leaf_of(found), found) > memory:
            found -= max(1, found // 100)
        return leaf_of(found), found


SIZES: Final = CounterSizes()

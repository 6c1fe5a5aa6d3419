"""How a budget of points is divided into a leaf and buckets: what holds most at the end of the longest stream.

Integers only; no option is read here. A tree keeps so many buckets, a chain one. Beside them stands one open leaf. A
structure that a room adds brings its own sizes (`Sizes`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

GRAIN: Final = 8
"""Parts of a window, or of a half-life, that may not be told apart. More parts take more buckets; with fewer, more of
the window lies in the bucket that is half inside."""
MOST_HALF_LIVES: Final = 40
"""Age, in half-lives, at which rows are dropped: they count for 1e-12 of what they did."""
SMALLEST_BUDGET: Final = 16
LARGEST_BUDGET: Final = 1 << 30
"""Points; no budget in bytes is given more."""


class Sizes(Protocol):
    """How many points a structure that a room adds holds at most, and how it divides a budget."""

    def points(self, fan_in: int, leaf: int, bucket: int) -> int:
        """Return the most points that are kept over the longest stream, the open leaf included."""
        ...

    def reduced(self, fan_in: int, leaf: int, bucket: int) -> int:
        """Return the most points of one reduction."""
        ...

    def of_budget(self, memory: int, fan_in: int, leaf: int | None, bucket: int | None) -> tuple[int, int]:
        """Return leaf and bucket that hold `memory` points; parameters and result are those of `tree_sizes`."""
        ...


def tree_points(buckets: int, leaf: int, bucket: int) -> int:
    """Return the most points that a tree of so many buckets holds, its open leaf included."""
    return leaf + buckets * bucket


def chain_points(leaf: int, bucket: int) -> int:
    """Return the most points that a chain holds, its open leaf included."""
    return leaf + bucket


def tree_sizes(memory: int, buckets: int, leaf: int | None, bucket: int | None) -> tuple[int, int]:
    """Return leaf and bucket of a tree that holds `memory` points. A leaf is as large as a bucket if neither is given.

    Parameters
    ----------
    memory : int
        Points of one partition, without its audit sample.
    buckets : int
    leaf, bucket : int or None
        Sizes that are given; None is to be found.

    Returns
    -------
    tuple of int
        A bucket of 0 where nothing fits. What is given is returned, fitting or not.
    """
    if bucket is None:
        bucket = memory // (buckets + 1) if leaf is None else (memory - leaf) // buckets
    return min(bucket, memory - buckets * bucket) if leaf is None else leaf, bucket


def chain_sizes(memory: int, bucket_share: float, leaf: int | None, bucket: int | None) -> tuple[int, int]:
    """Return leaf and bucket of a chain that holds `memory` points; parameters as those of `tree_sizes`.

    `bucket_share` is the bucket's share of the memory where neither is given.
    """
    if leaf is None:
        leaf = memory - (int(memory * bucket_share) if bucket is None else bucket)
    return leaf, memory - leaf if bucket is None else bucket


def dyadic_points(buckets: int, leaf: int, bucket: int, audit: int) -> int:
    """Return the most points that a dyadic structure of so many buckets, each with so large an audit sample, holds.

    Its open span has a leaf, what was sealed of the span, and an audit sample.
    """
    return leaf + max(leaf, bucket) + audit + buckets * (bucket + audit)


def dyadic_sizes(
    memory: int,
    buckets_of: Callable[[int], int],
    leaf_beside: Callable[[int], int],
    leaf: int | None,
    bucket: int | None,
    audit: int,
) -> tuple[int, int]:
    """Return leaf and bucket of a dyadic structure that holds `memory` points; parameters as of `tree_sizes`.

    Parameters
    ----------
    memory : int
    buckets_of : callable
        Returns the most buckets of a structure with leaves of so many rows.
    leaf_beside : callable
        Returns the rows of a leaf, where they are not given, beside buckets of so many points.
    leaf, bucket : int or None
    audit : int
        As of `dyadic_points`; `memory` includes it.
    """
    found = memory // 4 if bucket is None else bucket
    while bucket is None and found:
        own = leaf_beside(found) if leaf is None else leaf
        if dyadic_points(buckets_of(own), own, found, audit) <= memory:
            break
        found -= max(1, found // 100)
    return leaf_beside(found) if leaf is None else leaf, found


def windowed_buckets(window: int, span: int) -> int:
    """Return the most buckets of a window of so many rows, none of which is longer than a grain of it."""
    levels, longest = 0, span
    while 2 * longest * GRAIN <= window:
        levels, longest = levels + 1, 2 * longest
    return 2 * levels + -(-window // longest) + 2


def doubling_buckets(rows: int, span: int) -> int:
    """Return the most buckets, two a level, of so many rows."""
    levels = 1
    while span << levels <= rows:
        levels += 1
    return 2 * levels + 2


def largest_budget(fits: Callable[[int], bool]) -> int | None:
    """Return the largest budget in points that fits, by bisection; None if not even the smallest does.

    Parameters
    ----------
    fits : callable
        Monotone: true up to some budget, false beyond.
    """
    if not fits(SMALLEST_BUDGET):
        return None
    low, high = SMALLEST_BUDGET, LARGEST_BUDGET
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def smallest_budget(is_possible: Callable[[int], bool]) -> int:
    """Return the smallest budget in points with which sizes are possible at all, by bisection."""
    low, high = SMALLEST_BUDGET - 1, LARGEST_BUDGET
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_possible(middle) else (middle, high)
    return high

"""Counters, whose digits are buckets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from streamsvm.coreset import Leaf, Structure, UniformReducer
from streamsvm.papers.counter import Counter
from streamsvm.points import Position
from tests.coreset.test_structure import grow
from tests.streams import DIMENSION, gaussian, rows_of


def grown(leaves: int) -> Structure:
    return grow(Counter(0, 3, 4, UniformReducer()), leaves)


@settings(max_examples=40, deadline=None)
@given(leaves=st.integers(0, 70))
def test_levels_are_the_digits_of_the_leaf_count(leaves: int) -> None:
    """Sealed leaves in binary: digit i is how many buckets level i has."""
    tree = grown(leaves)
    levels = [bucket.level for bucket in tree.buckets]
    digits, rest, level = {}, leaves, 0
    while rest:
        rest, digits[level] = divmod(rest, 2)
        level += 1
    assert {level: count for level, count in digits.items() if count} == {
        level: levels.count(level) for level in set(levels)
    }
    assert levels == sorted(levels, reverse=True)


@settings(max_examples=40, deadline=None)
@given(leaves=st.integers(1, 40))
def test_buckets_tile_the_log_and_keep_its_weight(leaves: int) -> None:
    """Ranges follow one another without a gap; weight and count of what was seen are kept; none holds too many."""
    tree = grown(leaves)
    at = Position(0)
    for bucket in tree.buckets:
        assert bucket.extent.start == at
        at = bucket.extent.end
        assert len(bucket.points) <= 4
        assert bucket.points.weight.sum() == pytest.approx(bucket.extent.moments.weight)
        assert bucket.extent.rows == bucket.extent.moments.count == 6 * 2**bucket.level
    assert at == Position(leaves * 6)


def test_every_node_has_a_name_of_its_own() -> None:
    """(level, index) never repeats within a partition: no two nodes share random numbers."""
    seen = set()
    for leaves in range(1, 40):
        for bucket in grown(leaves).buckets:
            seen.add((bucket.level, bucket.index, bucket.extent.start, bucket.extent.end))
    assert len({(level, index) for level, index, _, _ in seen}) == len(seen)


def test_a_bucket_of_a_counter_outlives_the_leaf_it_came_from() -> None:
    """A leaf that fits into a bucket whole is copied: the leaf's memory is used again."""
    counter, points = Counter(0, 3, 10, UniformReducer()), gaussian(12)
    leaf, rows = Leaf(Position(0), 6, DIMENSION, np.dtype(np.float32)), rows_of(points)
    leaf.add(rows.slice(0, 6))
    counter.insert(*leaf.seal())
    leaf.add(rows.slice(6, 12))
    np.testing.assert_array_equal(counter.buckets[0].points.X, points.X[:6])

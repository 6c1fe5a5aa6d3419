"""The tree: a counter whose digits are buckets. The chain: one bucket that stands for everything before its leaf."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsvm.coreset.leaf import Leaf
from streamsvm.coreset.reducers.base import UniformReducer
from streamsvm.coreset.structure import Chain, Structure, Tree
from streamsvm.points import Position
from tests.streams import DIMENSION, gaussian, rows_of


def grow(structure: Structure, leaves: int) -> Structure:
    points = gaussian(max(1, leaves) * 6)
    leaf = Leaf(Position(0), 6, DIMENSION, np.dtype(np.float32))
    rows = rows_of(points)
    for index in range(leaves):
        leaf.add(rows.slice(index * 6, index * 6 + 6))
        structure.insert(*leaf.seal())
    return structure


def grown(leaves: int, fan_in: int) -> Structure:
    return grow(Tree(0, 3, fan_in, 4, UniformReducer()), leaves)


@settings(max_examples=40, deadline=None)
@given(leaves=st.integers(0, 70), fan_in=st.integers(2, 5))
def test_levels_are_the_digits_of_the_leaf_count(leaves: int, fan_in: int) -> None:
    """Sealed leaves in base fan_in: digit i is how many buckets level i has."""
    tree = grown(leaves, fan_in)
    levels = [bucket.level for bucket in tree.buckets]
    digits, rest, level = {}, leaves, 0
    while rest:
        rest, digits[level] = divmod(rest, fan_in)
        level += 1
    assert {level: count for level, count in digits.items() if count} == {
        level: levels.count(level) for level in set(levels)
    }
    assert levels == sorted(levels, reverse=True)


@settings(max_examples=40, deadline=None)
@given(leaves=st.integers(1, 40), fan_in=st.integers(2, 4))
def test_buckets_tile_the_log_and_keep_its_weight(leaves: int, fan_in: int) -> None:
    """Ranges follow one another without a gap; weight and count of what was seen are kept; none holds too many."""
    tree = grown(leaves, fan_in)
    at = Position(0)
    for bucket in tree.buckets:
        assert bucket.extent.start == at
        at = bucket.extent.end
        assert len(bucket.points) <= 4
        assert bucket.points.weight.sum() == pytest.approx(bucket.extent.moments.weight)
        assert bucket.extent.rows == bucket.extent.moments.count == 6 * fan_in**bucket.level
    assert at == Position(leaves * 6)


def test_every_node_has_a_name_of_its_own() -> None:
    """(level, index) never repeats within a partition: no two nodes share random numbers."""
    seen = set()
    for leaves in range(1, 40):
        for bucket in grown(leaves, 2).buckets:
            seen.add((bucket.level, bucket.index, bucket.extent.start, bucket.extent.end))
    assert len({(level, index) for level, index, _, _ in seen}) == len(seen)


@settings(max_examples=40, deadline=None)
@given(leaves=st.integers(1, 40), bucket_points=st.integers(1, 20))
def test_a_chain_is_one_bucket_of_all_leaves(leaves: int, bucket_points: int) -> None:
    """It reaches from the first row to the last sealed one, of exact weight and count, and never holds too many."""
    (bucket,) = grow(Chain(0, 3, bucket_points, UniformReducer()), leaves).buckets
    assert (bucket.extent.start, bucket.extent.end) == (Position(0), Position(leaves * 6))
    assert bucket.extent.rows == bucket.extent.moments.count == leaves * 6
    assert len(bucket.points) == min(bucket_points, leaves * 6)
    assert bucket.points.weight.sum() == pytest.approx(gaussian(leaves * 6).weight.sum())


def test_every_link_of_a_chain_has_a_name_of_its_own() -> None:
    """The index is that of the newest leaf: no two reductions share random numbers."""
    names = [
        (bucket.level, bucket.index)
        for leaves in range(1, 20)
        for bucket in grow(Chain(0, 3, 4, UniformReducer()), leaves).buckets
    ]
    assert names == [(0, index) for index in range(19)]


@pytest.mark.parametrize("structure", [Tree(0, 3, 2, 10, UniformReducer()), Chain(0, 3, 10, UniformReducer())])
def test_a_bucket_outlives_the_leaf_it_came_from(structure: Structure) -> None:
    """A leaf that fits into a bucket whole is copied: the leaf's memory is used again."""
    leaf = Leaf(Position(0), 6, DIMENSION, np.dtype(np.float32))
    points = gaussian(12)
    rows = rows_of(points)
    leaf.add(rows.slice(0, 6))
    structure.insert(*leaf.seal())
    leaf.add(rows.slice(6, 12))
    np.testing.assert_array_equal(structure.buckets[0].points.X, points.X[:6])

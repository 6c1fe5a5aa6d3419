"""Counters, whose digits are buckets."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st
from streamsvm.papers.counter import Counter

from streamsvm.coreset import UniformReducer
from tests.coreset.test_structure import check_copies, check_names, check_tiling, grow


@settings(max_examples=40, deadline=None)
@given(leaves=st.integers(0, 70))
def test_levels_are_the_digits_of_the_leaf_count(leaves: int) -> None:
    """Sealed leaves in binary: digit i is how many buckets level i has; a bucket of level i has 2^i leaves."""
    counter = grow(Counter(0, 3, 4, UniformReducer()), leaves)
    levels = [bucket.level for bucket in counter.buckets]
    assert levels == [level for level in range(7, -1, -1) if leaves >> level & 1]
    assert [bucket.extent.rows for bucket in counter.buckets] == [6 * 2**level for level in levels]
    check_tiling(counter, leaves)


def test_every_node_has_a_name_of_its_own() -> None:
    """No two nodes share random numbers."""
    check_names(Counter(0, 3, 4, UniformReducer()))


def test_a_bucket_of_a_counter_outlives_the_leaf_it_came_from() -> None:
    """The leaf's memory is used again."""
    check_copies(Counter(0, 3, 10, UniformReducer()))

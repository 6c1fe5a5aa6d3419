"""Trees, of so many buckets; chains, of one bucket that stands for everything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from streamsvm.coreset.leaf import Leaf
from streamsvm.coreset.reducers.base import Pilot, UniformReducer
from streamsvm.coreset.structure import Chain, Extent, Structure, Tree, lightest_neighbours
from streamsvm.points import Points, Position
from tests.streams import DIMENSION, gaussian, rows_of


def grow(structure: Structure, leaves: int) -> Structure:
    points = gaussian(max(1, leaves) * 6)
    leaf = Leaf(Position(0), 6, DIMENSION, np.dtype(np.float32))
    rows = rows_of(points)
    for index in range(leaves):
        leaf.add(rows.slice(index * 6, index * 6 + 6))
        structure.insert(*leaf.seal())
    return structure


def check_tiling(structure: Structure, leaves: int) -> None:
    """Assert that buckets of at most 4 points tile the log of so many leaves, of exact weight and count."""
    at = Position(0)
    for bucket in structure.buckets:
        assert bucket.extent.start == at
        at = bucket.extent.end
        assert len(bucket.points) <= 4
        assert bucket.points.weight.sum() == pytest.approx(bucket.extent.moments.weight)
        assert bucket.extent.rows == bucket.extent.moments.count
    assert at == Position(leaves * 6)


def check_names(structure: Structure) -> None:
    """Assert that (level, index) never repeats: no two nodes share random numbers."""
    seen: dict[tuple[int, int], tuple[Position, Position]] = {}
    leaf, rows = Leaf(Position(0), 6, DIMENSION, np.dtype(np.float32)), rows_of(gaussian(240))
    for index in range(40):
        leaf.add(rows.slice(index * 6, index * 6 + 6))
        structure.insert(*leaf.seal())
        for bucket in structure.buckets:
            name, extent = (bucket.level, bucket.index), (bucket.extent.start, bucket.extent.end)
            assert seen.setdefault(name, extent) == extent


def check_copies(structure: Structure) -> None:
    """Assert that a leaf that fits into a bucket whole is copied: the leaf's memory is used again."""
    leaf = Leaf(Position(0), 6, DIMENSION, np.dtype(np.float32))
    points = gaussian(12)
    rows = rows_of(points)
    leaf.add(rows.slice(0, 6))
    structure.insert(*leaf.seal())
    leaf.add(rows.slice(6, 12))
    np.testing.assert_array_equal(structure.buckets[0].points.X, points.X[:6])


@settings(max_examples=40, deadline=None)
@given(leaves=st.integers(0, 90), most=st.integers(2, 8))
def test_a_tree_keeps_so_many_buckets_that_tile_the_log(leaves: int, most: int) -> None:
    """Of exact weight and count."""
    tree = grow(Tree(0, 3, most, 4, UniformReducer()), leaves)
    assert len(tree.buckets) == min(leaves, most)
    check_tiling(tree, leaves)


@pytest.mark.parametrize("structure", [Tree(0, 3, 3, 4, UniformReducer()), Chain(0, 3, 4, UniformReducer())])
def test_every_node_has_a_name_of_its_own(structure: Structure) -> None:
    """In a tree a leaf is (0, its number), and what it made merge is (1, its number)."""
    check_names(structure)


@pytest.mark.parametrize(
    ("weights", "place"),
    [([1.0, 1.0, 1.0], 0), ([5.0, 1.0, 1.0], 1), ([0.1, 0.2, 3.0, 9.0], 0), ([4.0, 2.0, 1.0, 2.0], 1)],
)
def test_the_lightest_neighbours_merge(weights: list[float], place: int) -> None:
    """The oldest of several."""
    assert lightest_neighbours(weights) == place


class Watching(UniformReducer):
    """Wants a pilot, and keeps whose it got."""

    needs_pilot = True

    def __init__(self) -> None:
        super().__init__()
        self.got: list[tuple[int, Pilot]] = []

    def reduce(self, points: Points, m: int, random: np.random.Generator, pilot: Pilot | None) -> Points:
        assert pilot is not None
        self.got.append((len(points), pilot))
        return super().reduce(points, m, random, None)


def test_one_pilot_of_everything_serves_both_reductions_of_a_leaf() -> None:
    """It is solved once, and each reduction gets the decision values of its own points."""
    reducer, solved = Watching(), []

    def pilot_of(points: Points, extent: Extent) -> Pilot:
        solved.append((len(points), extent.start))
        nothing = np.zeros(DIMENSION)
        first = points.X[:, 0].astype(np.float64)
        return Pilot(
            penalty=1.0,
            mean=nothing,
            scale=nothing + 1.0,
            coefficients=nothing,
            intercept=0.0,
            lower_bound=1.0,
            decisions=first,
        )

    tree, leaf = Tree(0, 3, 2, 4, reducer), Leaf(Position(0), 6, DIMENSION, np.dtype(np.float32))
    rows = rows_of(gaussian(18).reweighted(np.ones(18)))
    for index in range(3):
        leaf.add(rows.slice(index * 6, index * 6 + 6))
        tree.insert(*leaf.seal(), pilot_of)
    assert solved == [(6, Position(0)), (10, Position(0)), (14, Position(0))]
    assert [(n, len(pilot.decisions)) for n, pilot in reducer.got if pilot.decisions is not None] == [
        (6, 6), (6, 6), (8, 8), (6, 6)
    ]  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(leaves=st.integers(1, 40), bucket_points=st.integers(1, 20))
def test_a_chain_is_one_bucket_of_all_leaves(leaves: int, bucket_points: int) -> None:
    """It reaches from the first row to the last sealed one, of exact weight and count, and never holds too many."""
    (bucket,) = grow(Chain(0, 3, bucket_points, UniformReducer()), leaves).buckets
    assert (bucket.extent.start, bucket.extent.end) == (Position(0), Position(leaves * 6))
    assert bucket.extent.rows == bucket.extent.moments.count == leaves * 6
    assert len(bucket.points) == min(bucket_points, leaves * 6)
    assert bucket.points.weight.sum() == pytest.approx(gaussian(leaves * 6).weight.sum())


@pytest.mark.parametrize("structure", [Tree(0, 3, 2, 10, UniformReducer()), Chain(0, 3, 10, UniformReducer())])
def test_a_bucket_outlives_the_leaf_it_came_from(structure: Structure) -> None:
    """Whatever the structure."""
    check_copies(structure)


def test_the_extent_with_a_leaf_is_that_of_this_leaf() -> None:
    """It is kept for the leaf that it was asked of last: not for another one, and not once the leaf is a bucket."""
    tree, rows = grow(Tree(0, 3, 2, 10, UniformReducer()), 3), rows_of(gaussian(40))
    leaf = Leaf(Position(18), 6, DIMENSION, np.dtype(np.float32))
    for seen in (2, 5):
        leaf.add(rows.slice(16 + seen, 18 + seen))
        extent = leaf.extent
        assert [tree.extent_with(extent).rows for _ in range(2)] == 2 * [18 + extent.rows]

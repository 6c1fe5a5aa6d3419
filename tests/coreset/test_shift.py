"""Leaves unlike their past: never among random parts of one stream, always where something moved by much."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from streamsvm.coreset.moments import Moments
from streamsvm.coreset.shift import FullLeaf, ShiftWatch
from streamsvm.points import Points


def parts(n: int, seed: int, dimension: int, *, weighted: bool) -> tuple[Points, Points]:
    """Return ten leaves of n points, heavy-tailed features among them, and one more of the same kind."""
    random = np.random.default_rng(seed)
    X = np.exp(random.normal(size=(11 * n, dimension)) * np.linspace(0.3, 1.5, dimension)).astype(np.float32)
    y = np.where(random.random(11 * n) < 0.1, 1, -1).astype(np.int8)
    weight = 10.0 ** random.uniform(0, 3, 11 * n) if weighted else np.ones(11 * n)
    whole = Points(X, y, weight)
    return whole.take(slice(0, 10 * n)), whole.take(slice(10 * n, None))


def moments(points: Points) -> Moments:
    return Moments.zero(points.dimension).add(points)


def is_shifted(before: Points, leaf: Points) -> bool:
    watch = ShiftWatch(leaf.dimension)
    assert not watch.shifted(Moments.zero(leaf.dimension), FullLeaf(moments(before), before)), "nothing came before"
    return watch.shifted(moments(before), FullLeaf(moments(leaf), leaf))


@settings(max_examples=100, deadline=None)
@given(n=st.integers(50, 600), seed=st.integers(0, 2**32), dimension=st.integers(1, 60), weighted=st.booleans())
def test_random_parts_are_not_shifted(n: int, seed: int, dimension: int, weighted: bool) -> None:
    """Nor with heavy tails, weights over three orders, or one outlier in the leaf."""
    before, leaf = parts(n, seed, dimension, weighted=weighted)
    assert not is_shifted(before, leaf)
    leaf.X[0] *= 1_000
    assert not is_shifted(before, leaf)


@pytest.mark.parametrize("moved", ["feature", "label", "constant", "rule"])
def test_a_leaf_that_moved_is_shifted(moved: str) -> None:
    """By a standard deviation of one feature, another share of labels, a constant, or what the labels stand for."""
    before, leaf = parts(300, 5, 4, weighted=False)
    if moved == "feature":
        leaf.X[:, 0] += before.X[:, 0].std()
    elif moved == "label":
        leaf.y[: len(leaf) // 2] = 1
    elif moved == "rule":
        for part, feature in ((before, 0), (leaf, 1)):
            part.y[:] = np.where(part.X[:, feature] > 1.0, 1, -1)
    else:
        before.X[:, 1], leaf.X[:, 1] = 2.0, 2.5
    assert is_shifted(before, leaf)
    assert moments(before).distance(moments(leaf)) == pytest.approx(moments(leaf).distance(moments(before)))


def test_nothing_lies_apart_from_nothing() -> None:
    """Empty sets, and equal ones of constant features, have no distance."""
    before, _ = parts(50, 1, 3, weighted=False)
    assert moments(before).distance(Moments.zero(3)) == Moments.zero(3).distance(moments(before)) == 0.0
    before.X[:] = 0.1
    assert moments(before).distance(moments(before)) == 0.0

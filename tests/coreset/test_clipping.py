"""Clipping: outliers move neither scaler nor model, and what was learned depends on the log alone."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset.clipping import FeatureRanges, freed_of_outliers
from streamsvm.coreset.moments import Moments
from streamsvm.datasets import load_htru2
from streamsvm.learning.cutting import Cut
from streamsvm.learning.learner import Learner
from streamsvm.learning.training import train
from streamsvm.points import Points, Position
from tests.sizes import sized
from tests.streams import DIMENSION, gaussian, rows_of


def moments_of(points: Points) -> Moments:
    return Moments.zero(points.dimension).add(points)


def learner_of(points: Points, leaf_rows: int, clip_sd: float | None) -> Learner:
    config = ModelConfig(
        points=PointsConfig(dimension=points.dimension),
        coreset=sized(
            leaf_rows=leaf_rows,
            bucket_points=leaf_rows // 2,
            train_points=1_000_000,
            clip_sd=clip_sd,
            max_leverage=None,
        ),
        svm=SvmConfig(C=1.0),
    )
    return Learner(config, {0: Position(0)}, every_leaves=1 << 40)


def learned(points: Points, leaf_rows: int, clip_sd: float | None) -> Cut:
    learner = learner_of(points, leaf_rows, clip_sd)
    learner.learn(rows_of(points))
    return learner.cut()


def test_points_beyond_the_bounds_come_to_lie_on_them() -> None:
    """Others keep their bytes; who was changed is told; a feature that never varied has no bounds."""
    before = Points(np.array([[0.0, 7.0], [2.0, 7.0]]), np.array([1, -1], np.int8), np.ones(2))
    bounds = FeatureRanges.of(moments_of(before), 3.0)
    points = Points(np.array([[50.0, 8.0], [1.5, 9.0], [-50.0, 7.0]]), np.array([1, 1, -1], np.int8), np.ones(3))
    clipped, changed = bounds.clip(points)
    np.testing.assert_allclose(clipped.X, [[4.0, 8.0], [1.5, 9.0], [-2.0, 7.0]])
    assert changed.tolist() == [True, False, True]


@settings(max_examples=30, deadline=None)
@given(size=st.floats(1e2, 1e12), share=st.integers(1, 3), seed=st.integers(0, 1_000))
def test_outliers_of_a_first_leaf_do_not_hide_each_other(size: float, share: int, seed: int) -> None:
    """Whatever their size, what is left of them is no farther than a few times the bound that clean points set."""
    points = gaussian(2_000, seed=seed)
    clean = moments_of(points)
    deviation = np.sqrt(clean.square / clean.weight)
    X = points.X.astype(np.float64)
    X[:share] *= size
    spoiled = Points(X, points.y, points.weight)
    clipped, changed = freed_of_outliers(spoiled, moments_of(spoiled), 10.0)
    assert (np.abs(clipped.X - clean.mean) < 15.0 * deviation).all()
    assert changed.sum() <= share


def test_a_first_leaf_without_a_point_is_left_alone() -> None:
    """There are no moments to clip by."""
    nothing = Points.empty(2, np.dtype(np.float32))
    clipped, changed = freed_of_outliers(nothing, Moments.zero(2), 5.0)
    assert len(clipped) == len(changed) == 0


@settings(max_examples=25, deadline=None)
@given(borders=st.lists(st.integers(1, 119), max_size=6), restart=st.integers(0, 119))
def test_neither_batches_nor_a_restart_change_what_is_clipped(borders: list[int], restart: int) -> None:
    """Bounds follow from the buckets alone: the same cut, whatever the batches, and from a checkpoint anywhere."""
    points = gaussian(120, dimension=DIMENSION)
    points.X[::9] *= 100.0
    rejected = np.arange(120) % 11 != 3
    rows = rows_of(points, accepted=rejected)
    whole = learner_of(points, 16, 3.0)
    whole.learn(rows)
    learner = learner_of(points, 16, 3.0)
    edges = sorted({0, 120, restart, *borders})
    for start, stop in itertools.pairwise(edges):
        if start == restart:
            state = learner.state()
            learner = learner_of(points, 16, 3.0)
            learner.restore(state)
        learner.learn(rows.slice(start, stop))
    one, other = whole.cut(), learner.cut()
    assert one.points.sha256() == other.points.sha256()
    assert one.moments.mean.tobytes() == other.moments.mean.tobytes()
    assert whole.rows_clipped > 0


def test_moments_are_those_of_the_clipped_points() -> None:
    """With leaves that are kept whole, the scaler is that of the training set itself."""
    points = gaussian(90)
    points.X[40] *= 1e4
    learner = learner_of(points, 30, 5.0)
    learner.learn(rows_of(points))
    assert learner.rows_clipped == 1
    cut = learner.cut()
    spread = np.sqrt(cut.moments.square / cut.moments.weight)
    assert (spread < 3.0).all()
    assert np.abs(cut.points.X).max() < 20.0


def test_the_audit_sample_is_clipped_as_rows_are() -> None:
    """An outlier of the first leaf, which is held as it came, counts in no model's audit as more than a bound."""
    points = gaussian(90)
    points.X[4] *= 1e4
    learner = learner_of(points, 30, 5.0)
    learner.learn(rows_of(points))
    audit = learner.cut().audit
    assert sum(len(part.points) for part in audit) == 90
    assert max(np.abs(part.points.X).max() for part in audit) < 20.0


def test_ten_outliers_a_thousand_times_too_large() -> None:
    """On the pulsar survey they cost more than one per cent of accuracy; clipped, less than 0.3."""
    X, y, _ = load_htru2()
    order = np.random.default_rng(5).permutation(len(y))
    X, y = X[order], y[order]
    known = len(y) * 4 // 5
    spoiled = X.copy()
    spoiled[np.random.default_rng(6).choice(known, 10, replace=False)] *= 1_000.0

    def accuracy(features: NDArray[np.float64], clip_sd: float | None) -> float:
        cut = learned(Points(features[:known].astype(np.float32), y[:known], np.ones(known)), 2_000, clip_sd)
        model = train(cut.points, cut.moments, SvmConfig(C=1.0)).model
        return float(np.mean(model.predict_sign(X[known:]) == y[known:]))

    clean = accuracy(X, None)
    assert accuracy(spoiled, None) < clean - 0.01
    assert accuracy(spoiled, 5.0) > clean - 0.003

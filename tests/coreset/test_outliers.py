"""Outliers: one point moves no model for ever, clean points keep their bytes."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score

from streamsvm import CoresetSVC
from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.outliers import OutlierBounds
from streamsvm.datasets import load_htru2
from streamsvm.learning.cutting import Cut
from streamsvm.learning.learner import Learner
from streamsvm.learning.training import train
from streamsvm.points import Points, Position
from tests.sizes import sized
from tests.streams import DIMENSION, gaussian, rows_of

SHARE = 0.1
WITHOUT = None


def learner_of(dimension: int, leaf_rows: int, max_leverage: float | None = SHARE, partitions: int = 1) -> Learner:
    coreset = sized(
        leaf_rows=leaf_rows, bucket_points=leaf_rows // 2, train_points=1_000_000, max_leverage=max_leverage
    )
    config = ModelConfig(points=PointsConfig(dimension=dimension), coreset=coreset, svm=SvmConfig(alpha=1e-4))
    return Learner(config, dict.fromkeys(range(partitions), Position(0)), every_leaves=1 << 40)


def learned(points: Points, leaf_rows: int, max_leverage: float | None = SHARE) -> Cut:
    learner = learner_of(points.dimension, leaf_rows, max_leverage)
    learner.learn(rows_of(points))
    return learner.cut()


def pulsars(n: int) -> tuple[Points, Points]:
    X, y, _ = load_htru2()
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order].astype(np.float32), y[order]
    return Points(X[:n], y[:n], np.ones(n)), Points(X[14_000:], y[14_000:], np.ones(len(y) - 14_000))


def balanced(cut: Cut, test: Points) -> float:
    model = train(cut.points, cut.moments, SvmConfig(alpha=1e-4)).model
    return float(balanced_accuracy_score(test.y, model.predict_sign(test.X)))


@pytest.mark.parametrize("at", [50, 1_999, 2_000, 5_000])
def test_one_point_does_not_end_learning(at: int) -> None:
    """At 1e30 in every feature, in the first leaf or later: without a bound the model answers one class."""
    points, test = pulsars(8_000)
    points.X[at] = 1e30
    assert balanced(learned(points, 2_000, WITHOUT), test) < 0.51
    assert balanced(learned(points, 2_000), test) > 0.87


@pytest.mark.parametrize("at", [50, 5_000])
def test_one_weight_does_not_end_learning(at: int) -> None:
    """A wrong label of the weight 1e15 counts as a hundredth of what came before it."""
    points, test = pulsars(8_000)
    points.weight[at], points.y[at] = 1e15, -points.y[at]
    assert learned(points, 2_000, WITHOUT).moments.weight > 1e14
    cut = learned(points, 2_000)
    assert balanced(cut, test) > 0.87
    assert cut.moments.weight < 8_000 * 1.02


def test_clean_points_keep_their_bytes() -> None:
    """The same training set and moments, to the last bit, with the bound and without."""
    points, _ = pulsars(8_000)
    one, other = learned(points, 2_000), learned(points, 2_000, WITHOUT)
    assert one.points.sha256() == other.points.sha256()
    assert one.moments.mean.tobytes() == other.moments.mean.tobytes()
    assert one.moments.square.tobytes() == other.moments.square.tobytes()


@pytest.mark.parametrize("every", [40, 700, 1_999])
def test_a_rare_indicator_is_no_outlier(every: int) -> None:
    """However seldom it is 1, and although its first 1 may come late."""
    points = gaussian(8_000, dimension=4)
    X = np.zeros((8_000, 4), np.float32)
    X[:, :3] = points.X[:, :3] > 0
    X[every - 1 :: every, 3] = 1.0
    learner = learner_of(4, 1_000)
    learner.learn(rows_of(Points(X, points.y, np.ones(8_000))))
    assert learner.outliers().rows == 0


def test_a_feature_that_changes_its_scale_is_followed() -> None:
    """A thousand times as large from the middle on: the first few rows wait, and with those after them they are the
    feature's own."""
    points = gaussian(24_000)
    points.weight[:] = 1.0
    points.X[8_000:, 1] *= 1_000.0
    learner = learner_of(DIMENSION, 1_000)
    rows = rows_of(points)
    learner.learn(rows, until=Position(9_000))
    seen = learner.outliers().rows
    assert 10 <= seen <= 30
    assert learner.cut().left_out == 0
    learner.learn(rows)
    assert learner.outliers().rows == seen
    cut = learner.cut()
    spread = np.sqrt(cut.moments.square / cut.moments.weight)
    assert spread[1] == pytest.approx(points.X[:, 1].astype(np.float64).std(), rel=1e-9)


def test_a_first_leaf_that_is_still_open_is_bounded_in_a_cut() -> None:
    """One partition has sealed a leaf, the other has not and holds the bad point: the cut is of bounded points, the
    leaf itself is sealed later from the points as they came."""
    points = gaussian(300)
    spoiled = gaussian(60, seed=1)
    spoiled.X[7] = 1e30
    learner = learner_of(DIMENSION, 200, partitions=2)
    learner.learn(rows_of(points, 0))
    learner.learn(rows_of(spoiled, 1))
    cut = learner.cut()
    assert np.abs(cut.points.X).max() < 50.0
    assert np.sqrt(cut.moments.square / cut.moments.weight).max() < 5.0
    assert np.abs(learner.cut().audit[1].points.X).max() < 50.0
    worst = learner.outliers().worst
    assert worst is not None
    assert (worst.partition, worst.begin) == (1, Position(7))
    assert learner.outliers().rows == 1


def test_ten_equal_outliers_of_a_first_leaf_do_not_hide_each_other() -> None:
    """As many are set aside; eleven pass for the feature's own spread."""
    points = gaussian(1_000)
    points.weight[:] = 1.0
    points.X[::100] = 1e20
    bounds = OutlierBounds.of_first_leaf(points, SHARE)
    drawn_in, found = bounds.draw_in(points)
    assert found is not None
    assert found.rows == 10
    assert np.abs(drawn_in.X).max() < 30.0
    points.X[50] = 1e20
    assert OutlierBounds.of_first_leaf(points, SHARE).draw_in(points)[1] is None


def test_a_feature_that_never_varied_is_bounded_by_the_others() -> None:
    """Its scale is not known, so that the largest of the others stands for it; and a set of constants has no bound."""
    points = gaussian(500)
    points.X[:, 2] = 7.0
    bounds = OutlierBounds.of(Moments.zero(DIMENSION).add(points), [points], SHARE)
    far = points.take(slice(0, 1))
    far.X[0, 2] = 1e30
    drawn_in, found = bounds.draw_in(far)
    assert found is not None
    assert found.worst.feature == 2
    assert 7.0 < drawn_in.X[0, 2] < 100.0
    points.X[:] = 7.0
    assert OutlierBounds.of(Moments.zero(DIMENSION).add(points), [points], SHARE).draw_in(far)[1] is None


@settings(max_examples=25, deadline=None)
@given(borders=st.lists(st.integers(1, 239), max_size=6), restart=st.integers(0, 239))
def test_neither_batches_nor_a_restart_change_what_is_drawn_in(borders: list[int], restart: int) -> None:
    """Bounds follow from the buckets alone: the same cut, whatever the batches, and from a checkpoint anywhere."""
    points = gaussian(240, dimension=DIMENSION)
    points.X[[3, 100, 200]] *= 1e6
    points.weight[[90, 180]] = 1e9
    accepted = np.arange(240) % 11 != 3
    rows = rows_of(points, accepted=accepted)
    whole = learner_of(DIMENSION, 40)
    whole.learn(rows)
    learner = learner_of(DIMENSION, 40)
    edges = sorted({0, 240, restart, *borders})
    for start, stop in itertools.pairwise(edges):
        if start == restart:
            state = learner.state()
            learner = learner_of(DIMENSION, 40)
            learner.restore(state)
        learner.learn(rows.slice(start, stop))
    one, other = whole.cut(), learner.cut()
    assert one.points.sha256() == other.points.sha256()
    assert one.moments.square.tobytes() == other.moments.square.tobytes()
    assert one.audit[0].points.sha256() == other.audit[0].points.sha256()
    assert whole.outliers().rows > 0
    assert whole.outliers().weights > 0


@pytest.mark.parametrize("at", [10, 99, 150, 152])
def test_the_place_is_named(at: int) -> None:
    """Offset and row, whatever was rejected before it, in a first leaf as later."""
    points = gaussian(200)
    points.X[at, 1] = 1e12
    counts = np.array([1, 3, 1, 3, 4] * 16 + [8])
    learner = learner_of(DIMENSION, 100)
    accepted = np.arange(200) % 7 != 4
    rows = rows_of(points, accepted=accepted, record_rows=counts)
    at_row = Position(int(rows.offset[at]), int(rows.row[at]))
    learner.learn(rows)
    found = learner.outliers()
    assert found.worst is not None
    assert found.worst.begin == at_row
    assert (found.rows, found.worst.feature, found.worst.value) == (1, 1, np.float32(1e12))
    assert abs(found.worst.bound) < 100.0


def test_a_place_before_a_restart_is_said_as_a_range() -> None:
    """The state holds no places of a first leaf's points: the leaf's own range is named."""
    points = gaussian(100)
    points.X[3] = 1e9
    learner = learner_of(DIMENSION, 100)
    rows = rows_of(points)
    learner.learn(rows.slice(0, 50))
    again = learner_of(DIMENSION, 100)
    again.restore(learner.state())
    again.learn(rows)
    worst = again.outliers().worst
    assert worst is not None
    assert (worst.begin, worst.end) == (Position(0), Position(100))


def spoiled_set(n: int = 6_000) -> tuple[Points, Points]:
    points, test = pulsars(n)
    points.X[3_000] = 1e30
    return points, test


@pytest.mark.parametrize("points_kept", [2_000, 100_000])
def test_the_estimator_withstands_one_point_and_names_it(points_kept: int) -> None:
    """Whether points are reduced or all held."""
    points, test = spoiled_set()
    with pytest.warns(UserWarning, match=r"row 3000 of all rows learned: feature \d is 1e\+30, and counts as"):
        machine = CoresetSVC(points=points_kept).fit(points.X, points.y)
    assert balanced_accuracy_score(test.y, machine.predict(test.X)) > 0.87
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spoiled = CoresetSVC(points=points_kept, max_leverage=None).fit(points.X, points.y)
    assert balanced_accuracy_score(test.y, spoiled.predict(test.X)) < 0.51


def test_the_estimator_clips_by_standard_deviations_if_it_is_told() -> None:
    """By those of what was sealed, or of a first leaf once it is."""
    points, test = spoiled_set()
    machine = CoresetSVC(points=2_000, clip_sd=8, max_leverage=None).fit(points.X, points.y)
    assert balanced_accuracy_score(test.y, machine.predict(test.X)) > 0.87


def test_the_estimator_bounds_three_classes() -> None:
    """The totals of every class survive a first leaf that is bounded."""
    random = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 400)
    X = random.normal(size=(1_200, 2)) + np.array([[0, 0], [5, 0], [0, 5]])[y]
    order = random.permutation(1_200)
    X, y = X[order], y[order]
    clean = CoresetSVC(points=300).fit(X, y).score(X, y)
    spoiled = X.copy()
    spoiled[20] = 1e50
    with pytest.warns(UserWarning, match="row 20 of all"):
        assert CoresetSVC(points=300).fit(spoiled, y).score(X, y) > clean - 0.02


@pytest.mark.parametrize("weight", [1e300, 1e16, 1e-20])
def test_a_weight_beyond_what_can_be_summed_is_refused(weight: float) -> None:
    """By its row, in words."""
    points = gaussian(50)
    weights = np.ones(50)
    weights[7] = weight
    weights[3] = 0.0
    with pytest.raises(ValueError, match=r"sample_weight\[7\] is .* a weight must be 0 or from 1e-15 to 1e\+15"):
        CoresetSVC().fit(points.X, points.y, sample_weight=weights)


def test_a_feature_beyond_what_can_be_squared_is_refused() -> None:
    """By its row and column."""
    points = gaussian(50)
    X = points.X.astype(np.float64)
    X[7, 2] = 1e200
    with pytest.raises(ValueError, match=r"X\[7, 2\] is 1e\+200; a feature must be at most 1e\+100"):
        CoresetSVC().fit(X, points.y)

"""Outliers: one point moves no model for ever, clean points keep their bytes."""

from __future__ import annotations

import itertools
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.metrics import balanced_accuracy_score

from streamsvm import CoresetSVC
from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.outliers import RowBound
from streamsvm.datasets import load_htru2
from streamsvm.learning import Cut, Learner, train
from streamsvm.points import Points, Position
from tests.config.sizes import sized
from tests.streams import DIMENSION, gaussian, rows_of


def learner_of(dimension: int, leaf_rows: int, partitions: int = 1, **coreset: object) -> Learner:
    sizes = {"leaf_rows": leaf_rows, "bucket_points": leaf_rows // 2, "train_points": 1_000_000, **coreset}
    config = ModelConfig(
        points=PointsConfig(dimension=dimension),
        coreset=sized(**sizes),
        svm=SvmConfig(alpha=1e-4),
    )
    return Learner(config, dict.fromkeys(range(partitions), Position(0)), every_leaves=1 << 40)


def learned(points: Points, leaf_rows: int) -> Cut:
    learner = learner_of(points.dimension, leaf_rows)
    learner.learn(rows_of(points))
    return learner.cut()


def as_they_came(_: RowBound, points: Points, accepted: object = None) -> tuple[Points, None]:
    """Draw nothing in."""
    return points, None


def unbounded(points: Points, leaf_rows: int) -> Cut:
    with mock.patch.object(RowBound, "draw_in", as_they_came):
        return learned(points, leaf_rows)


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
    assert balanced(unbounded(points, 2_000), test) < 0.51
    assert balanced(learned(points, 2_000), test) > 0.87


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [50, 5_000])
def test_what_is_no_finite_number_does_not_end_learning(at: int, value: float) -> None:
    """Wherever rows come from, such a row is not accepted; nor does its value count anywhere."""
    points, test = pulsars(8_000)
    points.X[at] = value
    accepted = np.arange(8_000) != at
    learner = learner_of(points.dimension, 2_000)
    learner.learn(rows_of(points, accepted=accepted))
    cut = learner.cut()
    assert np.isfinite(cut.points.X).all()
    assert np.isfinite(cut.moments.square).all()
    assert balanced(cut, test) > 0.87


@pytest.mark.parametrize(("value", "drawn_to"), [(np.nan, 0.0), (np.inf, 1.0), (-np.inf, -1.0)])
def test_a_row_that_slipped_through_is_drawn_in(value: float, drawn_to: float) -> None:
    """Not a number comes to lie on the mean, infinity on the bound."""
    points = gaussian(500)
    bound = RowBound.of_moments(Moments.zero(DIMENSION).add(points))
    row = points.take(slice(0, 1))
    row.X[0, 1] = value
    drawn_in, found = bound.draw_in(row)
    reach = bound.sd[1] * max(10.0, np.sqrt(bound.weight / (10.0 * row.weight[0])))
    assert found is not None
    assert drawn_in.X[0, 1] == pytest.approx(bound.mean[1] + drawn_to * reach)
    assert np.array_equal(drawn_in.X[0, [0, 2]], row.X[0, [0, 2]])


@pytest.mark.parametrize("at", [50, 5_000])
def test_one_weight_does_not_end_learning(at: int) -> None:
    """A wrong label of the weight 1e15 counts as a hundredth of what came before it."""
    points, test = pulsars(8_000)
    points.weight[at], points.y[at] = 1e15, -points.y[at]
    assert unbounded(points, 2_000).moments.weight > 1e14
    cut = learned(points, 2_000)
    assert balanced(cut, test) > 0.86
    assert cut.moments.weight < 8_000 * 1.02


def test_points_within_keep_their_bytes() -> None:
    """The same training set and moments, to the last bit, with the bound and without."""
    points = gaussian(8_000)
    one, other = learned(points, 1_000), unbounded(points, 1_000)
    assert one.points.sha256() == other.points.sha256()
    assert one.moments.mean.tobytes() == other.moments.mean.tobytes()
    assert one.moments.square.tobytes() == other.moments.square.tobytes()


@settings(max_examples=50, deadline=None)
@given(
    values=st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=30),
    weight=st.floats(1e-15, 1e15),
)
def test_a_row_adds_at_most_a_tenth(values: list[float], weight: float) -> None:
    """To the sum of squares of a feature, or what lies within ten standard deviations; to the weight a hundredth, or
    ten mean weights. What lies within is not touched."""
    points = gaussian(2_000, dimension=1)
    moments = Moments.zero(1).add(points)
    bound = RowBound.of_moments(moments)
    rows = Points(np.array(values, np.float32)[:, None], np.ones(len(values), np.int8), np.full(len(values), weight))
    drawn_in, _ = bound.draw_in(rows)
    assert (drawn_in.weight <= moments.weight / 100.0 + 1e-9).all()
    added = drawn_in.weight * np.square(drawn_in.X[:, 0] - moments.mean[0])
    least = drawn_in.weight * 100.0 * moments.square[0] / moments.weight
    assert (added <= np.maximum(0.1 * moments.square[0], least) * (1.0 + 1e-5)).all()
    within = np.abs(rows.X[:, 0] - moments.mean[0]) <= 10.0 * np.sqrt(moments.square[0] / moments.weight)
    assert np.array_equal(drawn_in.X[within], rows.X[within])


def test_a_value_that_ten_rows_of_the_past_have_is_no_outlier() -> None:
    """Samuelson's inequality: their own squares have made room for it."""
    points = gaussian(2_000)
    points.weight[:] = 1.0
    points.X[::200, 1] = 1e6
    bound = RowBound.of_moments(Moments.zero(DIMENSION).add(points))
    assert bound.draw_in(points)[1] is None


@pytest.mark.parametrize("every", [100, 700, 1_500, 3_000])
@pytest.mark.parametrize("value", [1.0, 250.0, -3.0])
def test_a_feature_that_is_seldom_set_keeps_its_values(every: int, value: float) -> None:
    """However seldom, and although its first value may come late; another value far beyond is drawn in."""
    points = gaussian(8_000, dimension=4)
    X = np.zeros((8_000, 4), np.float32)
    X[:, :3] = (points.X[:, :3] > 0) * 250.0
    X[every - 1 :: every, 3] = value
    learner = learner_of(4, 1_000)
    learner.learn(rows_of(Points(X, points.y, np.ones(8_000))), until=Position(7_000))
    assert learner.outliers().rows == 0
    X[7_500, 3] = 1e6 * value
    learner.learn(rows_of(Points(X, points.y, np.ones(8_000))).slice(7_000, 8_000))
    assert learner.outliers().rows == 1


def test_a_feature_that_changes_its_scale_is_followed() -> None:
    """A thousand times as large from the middle on: each row lets the bound grow by a tenth, leaf by leaf."""
    points = gaussian(24_000)
    points.weight[:] = 1.0
    points.X[8_000:, 1] *= 1_000.0
    learner = learner_of(DIMENSION, 1_000)
    rows = rows_of(points)
    learner.learn(rows, until=Position(14_000))
    seen = learner.outliers().rows
    assert seen >= 10
    learner.learn(rows)
    assert learner.outliers().rows - seen < 30
    cut = learner.cut()
    spread = np.sqrt(cut.moments.square / cut.moments.weight)
    assert spread[1] == pytest.approx(points.X[:, 1].astype(np.float64).std(), rel=0.3)


@pytest.mark.parametrize("memory", [{}, {"memory": "window", "window": 1_600, "span_rows": 200}])
@pytest.mark.parametrize("first", [20, 500])
def test_all_rows_are_accounted_for_once(first: int, memory: dict[str, object]) -> None:
    """Moments count every accepted row as it is learned, and the points stand for their weight."""
    points = gaussian(900)
    points.X[first + 7 * np.arange(5), 0] = 1e9
    learner = learner_of(DIMENSION, 200, **memory)
    learner.learn(rows_of(points))
    cut = learner.cut()
    assert learner.points_accepted == cut.moments.count == 900
    assert cut.moments.weight == pytest.approx(points.weight.sum())
    assert cut.points.weight.sum() == pytest.approx(points.weight.sum())
    assert np.abs(cut.points.X).max() < 100.0
    assert np.abs(Points.union([part.points for part in cut.audit]).X).max() < 100.0
    assert learner.outliers().rows == 5


def test_a_first_leaf_that_is_still_open_is_bounded_in_a_cut() -> None:
    """One partition has sealed a leaf, the other has not and holds the bad point: the cut is of bounded points, the
    leaf itself is sealed later from the points as they came."""
    points = gaussian(300)
    spoiled = gaussian(60, seed=1)
    spoiled.X[7] = 1e30
    learner = learner_of(DIMENSION, 200, 2)
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
    drawn_in, found = RowBound.of_first_leaf(points).draw_in(points)
    assert found is not None
    assert found.rows == 10
    assert np.abs(drawn_in.X).max() < 30.0
    points.X[50] = 1e20
    assert RowBound.of_first_leaf(points).draw_in(points)[1] is None


def test_a_feature_that_never_varied_is_bounded_by_the_others() -> None:
    """Its scale is not known, so that the largest of the others stands for it; and a set of constants has no bound."""
    points = gaussian(500)
    points.X[:, 2] = 7.0
    bound = RowBound.of_moments(Moments.zero(DIMENSION).add(points))
    far = points.take(slice(0, 1))
    far.X[0, 2] = 1e30
    drawn_in, found = bound.draw_in(far)
    assert found is not None
    assert found.feature == 2
    assert 7.0 < drawn_in.X[0, 2] < 100.0
    points.X[:] = 7.0
    assert RowBound.of_moments(Moments.zero(DIMENSION).add(points)).draw_in(far)[1] is None


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


@pytest.mark.parametrize("points_kept", [2_000, 100_000])
def test_the_estimator_withstands_one_point_and_names_it(points_kept: int) -> None:
    """Whether points are reduced or all held."""
    points, test = pulsars(6_000)
    points.X[3_000] = 1e30
    with pytest.warns(UserWarning, match=r"row 3000 of all rows learned: feature \d is 1e\+30, and counts as"):
        machine = CoresetSVC(points=points_kept).fit(points.X, points.y)
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


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        (None, 1e300, r"sample_weight\[7\] is .* a weight must be 0 or from 1e-15 to 1e\+15"),
        (None, 1e16, r"sample_weight\[7\] is .* a weight must be 0 or from 1e-15 to 1e\+15"),
        (None, 1e-20, r"sample_weight\[7\] is .* a weight must be 0 or from 1e-15 to 1e\+15"),
        (2, 1e200, r"X\[7, 2\] is 1e\+200; a feature must be at most 1e\+100"),
    ],
)
def test_a_number_that_cannot_be_summed_or_squared_is_refused(column: int | None, value: float, said: str) -> None:
    """By its row, and a feature by its column, in words."""
    X, weight = gaussian(50).X.astype(np.float64), np.ones(50)
    weight[3] = 0.0
    if column is None:
        weight[7] = value
    else:
        X[7, column] = value
    with pytest.raises(ValueError, match=said):
        CoresetSVC().fit(X, gaussian(50).y, sample_weight=weight)

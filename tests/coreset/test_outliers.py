"""What one row can do to a stream, by the moments and by the points of a partition."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset.buckets import Moments
from streamsvm.coreset.outliers import RowBound, bounded_weights
from streamsvm.coreset.partition import Partition, PartitionState
from streamsvm.coreset.state import Names, check_partition, decode_state, encode_state
from streamsvm.points import Points, Position, Rows
from tests.config.sizes import sized
from tests.streams import DIMENSION, gaussian, rows_of

NAMES = Names(1, "id", "learned")
MEMORIES: list[dict[str, Any]] = [{}, {"memory": "window", "window": 320, "span_rows": 80}]


def config_of(dimension: int = DIMENSION, leaf_rows: int = 40, **coreset: Any) -> ModelConfig:
    sizes = {"leaf_rows": leaf_rows, "bucket_points": leaf_rows // 2, "audit_points": 40, **coreset}
    return ModelConfig(points=PointsConfig(dimension=dimension), coreset=sized(**sizes), svm=SvmConfig(), seed=5)


def learn(partition: Partition, rows: Rows, borders: tuple[int, ...] = ()) -> Partition:
    for begin, end in pairwise([0, *borders, len(rows)]):
        while begin < end:
            stop = min(end, begin + partition.missing)
            partition.add(rows.slice(begin, stop))
            begin = stop
    return partition


def learned(points: Points, config: ModelConfig, **of_rows: Any) -> Partition:
    return learn(Partition(0, Position(0), config), rows_of(points, **of_rows))


def even(n: int, dimension: int = DIMENSION, seed: int = 0) -> Points:
    return gaussian(n, seed, dimension).reweighted(np.ones(n))


def bound_of(points: Points) -> RowBound:
    return RowBound.of(Moments.zero(points.dimension).add(points))


def content(state: PartitionState) -> bytes:
    return encode_state(state, NAMES)


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("at", [0, 25, 39, 40, 250])
def test_a_row_at_1e30_moves_the_moments_by_no_more_than_its_share(at: int, memory: dict[str, Any]) -> None:
    """In the first leaf or later, at each cut: they are as if it lay about ten deviations away."""
    points, config = even(400), config_of(**memory)
    clean = points.X.astype(np.float64)
    points.X[at] = 1e30
    partition = Partition(0, Position(0), config)
    for end in range(20, 401, 20):
        learn(partition, rows_of(points).slice(end - 20, end))
        state = partition.state()
        moments, begin = state.whole.moments, state.whole.start.offset
        rows = clean[begin:end].copy()
        if begin <= at < end:
            rows[at - begin] += len(rows) * (moments.mean - rows.mean(axis=0))
            # By half more than ten: the deviations of few rows are not those of all.
            assert (np.abs(rows[at - begin] - clean.mean(axis=0)) < 15.0 * clean.std(axis=0)).all()
        np.testing.assert_allclose(moments.mean, rows.mean(axis=0), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(moments.square, len(rows) * rows.var(axis=0), rtol=1e-5)
        parts = [*state.parts(), *(sample.points for sample in state.samples(config.coreset))]
        assert np.abs(Points.union(parts).X).max() < 100.0
    assert partition.outliers.rows == 1


@settings(max_examples=100, deadline=None)
@given(values=st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=30), weight=st.floats(1e-15, 1e15))
def test_a_row_adds_at_most_a_tenth(values: list[float], weight: float) -> None:
    """To a feature's sum of squares, or what lies within ten deviations; to the weight a hundredth, or ten means."""
    points = gaussian(2_000, dimension=1)
    x, u = points.X[:, 0].astype(np.float64), points.weight
    mean = np.average(x, weights=u)
    square = u @ (x - mean) ** 2
    rows = Points(np.array(values, np.float32)[:, None], np.ones(len(values), np.int8), np.full(len(values), weight))
    drawn = bound_of(points).draw_in(rows)
    assert (drawn.weight <= u.sum() / 100.0 + 1e-9).all()
    added = drawn.weight * (drawn.X[:, 0] - mean) ** 2
    assert (added <= np.maximum(0.1 * square, drawn.weight * 100.0 * square / u.sum()) * (1.0 + 1e-5)).all()
    within = np.abs(rows.X[:, 0] - mean) <= 10.0 * np.sqrt(square / u.sum())
    assert np.array_equal(drawn.X[within], rows.X[within])


@settings(max_examples=200, deadline=None)
@given(
    past=st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=40),
    value=st.floats(-(2.0**100), 2.0**100, width=32),
    weight=st.floats(0.01, 100.0),
)
def test_a_value_that_ten_rows_of_the_past_had_stays(past: list[float], value: float, weight: float) -> None:
    """Samuelson's inequality: no value lies farther from the mean than sqrt(U / u - 1) deviations, u its own weight."""
    X = np.array([*past, *[value] * 10], np.float32)[:, None]
    points = Points(X, np.ones(len(X), np.int8), np.array([1.0] * len(past) + [weight] * 10))
    row = points.take(slice(-1, None))
    drawn = bound_of(points).draw_in(row)
    # The moments are rounded, and so is a bound that the value lies exactly at.
    np.testing.assert_allclose(drawn.X, row.X, rtol=1e-6, atol=1e-6 * float(np.abs(X).max()))


@settings(max_examples=150, deadline=None)
@given(
    n=st.integers(100, 2_000),
    columns=st.lists(st.tuples(st.integers(1, 40), st.floats(1e-3, 1e3), st.booleans()), min_size=1, max_size=8),
    seed=st.integers(0, 99),
)
def test_rare_one_hot_columns_stay(n: int, columns: list[tuple[int, float, bool]], seed: int) -> None:
    """However few rows of the past have a value, and whatever it is: a new row with it keeps its bytes."""
    random, points = np.random.default_rng(seed), even(n, dimension=2)
    X = np.zeros((n, len(columns)), np.float32)
    for j, (count, value, is_negative) in enumerate(columns):
        X[random.choice(n, count, replace=False), j] = -value if is_negative else value
    points = Points(np.hstack([points.X, X]), points.y, points.weight)
    bound = bound_of(points)
    rows = points.take(X.any(axis=1))
    assert bound.draw_in(rows) is rows
    rows.X[:, 2] = 1e6 * columns[0][1]
    assert (np.abs(bound.draw_in(rows).X[:, 2]) < 1e5 * columns[0][1]).all()


def test_a_rare_column_stays_in_a_partition() -> None:
    """From the first leaf to the last, nothing is drawn in of a column that is set once in 70 rows."""
    points = even(2_000, dimension=4)
    points.X[:, 3] = np.arange(2_000) % 70 == 69
    partition = learned(points, config_of(4))
    assert (partition.outliers.rows, partition.outliers.worst) == (0, None)
    assert partition.state().whole.moments.mean[3] == pytest.approx(points.X[:, 3].mean(), rel=1e-6)


@settings(max_examples=100, deadline=None)
@given(
    values=st.lists(st.sampled_from([np.nan, np.inf, -np.inf, 3e38, -3e38, 0.0, 1e-40]), min_size=1, max_size=3),
    at=st.integers(0, 59),
    weight=st.sampled_from([1e-15, 1.0, 1e15]),
)
def test_what_is_no_number_never_comes_out(values: list[float], at: int, weight: float) -> None:
    """Of a row that slipped through: not a number comes to lie on the mean, infinity on the bound; all is finite."""
    points = even(60)
    points.X[at, : len(values)], points.weight[at] = values, weight
    drawn = RowBound.of_first_leaf(points).draw_in(points)
    later = bound_of(even(500)).draw_in(points)
    for one in (drawn, later):
        assert np.isfinite(one.X).all()
        assert np.isfinite(one.weight).all()
        assert (one.weight > 0.0).all()
    state = learned(points, config_of(leaf_rows=100)).state()
    assert np.isfinite(state.whole.moments.square).all()
    assert np.isfinite(state.parts()[0].X).all()


def test_rejected_rows_stay_as_they_are() -> None:
    """Whatever meaningless values they have, which count nowhere either."""
    points, accepted = even(400), np.arange(400) % 9 != 4
    points.X[~accepted], points.weight[~accepted] = np.nan, 0.0
    partition = learned(points, config_of(), accepted=accepted)
    assert (partition.outliers.rows, partition.outliers.weights) == (0, 0)
    assert partition.state().whole.moments.weight == accepted.sum()


@settings(max_examples=25, deadline=None)
@given(borders=st.lists(st.integers(1, 399), max_size=6), restart=st.integers(0, 399), memory=st.sampled_from(MEMORIES))
def test_batches_and_restarts_change_no_bit(borders: list[int], restart: int, memory: dict[str, Any]) -> None:
    """Of state, samples and points of a cut: the bound follows from the buckets, and a first leaf stays as it came."""
    points, config = gaussian(400), config_of(**memory)
    points.X[[3, 100, 200]] *= 1e6
    points.weight[[30, 90, 180]] = 1e9
    rows = rows_of(points, accepted=np.arange(400) % 11 != 9)
    whole, partition = learn(Partition(0, Position(0), config), rows), Partition(0, Position(0), config)
    for begin, end in pairwise(sorted({0, 400, restart, *borders})):
        if begin == restart:
            state = decode_state(content(partition.state()))[1]
            check_partition(state, config)
            partition = Partition(0, Position(0), config)
            partition.restore(state)
        learn(partition, rows.slice(begin, end))
    one, other = whole.state(), partition.state()
    assert content(one) == content(other)
    assert content(one.drawn_in()) == content(other.drawn_in())
    assert min(whole.outliers.rows, whole.outliers.weights) >= 2


def test_a_cut_of_an_open_first_leaf_changes_nothing_that_is_learned() -> None:
    """The cut is of rows drawn in, the samples too; the state itself has them as they came, and goes on so."""
    points, config = even(30), config_of()
    points.X[7], points.weight[9] = 1e30, 1e9
    partition = learned(points, config)
    state = partition.state()
    assert state.raw
    assert state.leaf.X.max() == np.float32(1e30)
    cut = state.drawn_in()
    assert content(cut.drawn_in()) == content(cut)
    assert np.abs(cut.leaf.X).max() < 50.0
    assert max(np.abs(sample.points.X).max() for sample in cut.audit) < 50.0
    held = sum(sample.class_weight for sample in state.samples(config.coreset))
    np.testing.assert_allclose(held, state.whole.moments.class_weight)
    assert content(partition.state()) == content(state)
    with pytest.raises(AssertionError):
        partition.restore(replace(learned(even(60), config).state(), raw=True))


@pytest.mark.parametrize("at", [10, 38, 150, 152])
def test_the_farthest_value_is_named(at: int) -> None:
    """By offset and row, in a first leaf as later, restored or not."""
    points, config = even(200), config_of()
    points.X[at, 1] = 1e12
    rows = rows_of(points, accepted=np.arange(200) % 7 != 4, record_rows=np.array([1, 3, 1, 3, 4] * 16 + [8]))
    partition = learn(Partition(0, Position(0), config), rows)
    place, again = Position(int(rows.offset[at]), int(rows.row[at])), Partition(0, Position(0), config)
    again.restore(learn(Partition(0, Position(0), config), rows.slice(0, 20)).state())
    learn(again, rows.slice(20, 200))
    for one in (partition, again):
        found = one.outliers
        assert found.worst is not None
        assert (found.rows, found.weights, found.worst.feature) == (1, 0, 1)
        assert (found.worst.value, abs(found.worst.bound) < 100.0) == (np.float32(1e12), True)
        assert found.worst.place == place


def test_ten_equal_outliers_of_a_first_leaf_do_not_hide_each_other() -> None:
    """As many are set aside in each feature; eleven pass for the feature's own spread."""
    points = even(1_000)
    points.X[::100] = 1e20
    assert np.abs(RowBound.of_first_leaf(points).draw_in(points).X).max() < 30.0
    points.X[50] = 1e20
    assert RowBound.of_first_leaf(points).draw_in(points) is points


def test_no_weight_is_above_a_hundredth_or_ten_means() -> None:
    """Of many a hundredth of what is usual, of few ten times their mean; the others stay."""
    many, few = np.ones(2_000), np.ones(20)
    many[3], few[3] = 1e9, 1e9
    assert bounded_weights(many)[3] == pytest.approx(20.0)
    assert bounded_weights(few)[3] == pytest.approx(10.0)
    assert np.array_equal(np.delete(bounded_weights(many), 3), np.delete(many, 3))

"""Screening: what a row is kept for, what adds up exactly, and what never depends on batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from streamsvm.config import CoresetConfig, SvmConfig
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.reducers.base import Observed, Pilot, Purpose, generator
from streamsvm.coreset.reducers.calibrated import Under, importance
from streamsvm.coreset.screen_making import make_screen
from streamsvm.coreset.screening import Screen, Screened, Screener, calibrated, turned
from streamsvm.coreset.screening_kernels import BINS
from streamsvm.learning import Learner, linear_pilot
from streamsvm.points import Points, Position
from tests.learning.test_learner import check_batches, check_restart, feed
from tests.streams import DIMENSION, gaussian, rows_of, small_config

CAPACITY = 300
SPAN = 6_000


def pilot_of(points: Points) -> tuple[Pilot, Moments]:
    seen = Moments.zero(points.dimension).add(points)
    return linear_pilot(points, seen.weight, seen, SvmConfig(C=1.0)), seen


def screen_of(points: Points, rows: int = SPAN, capacity: int = CAPACITY) -> Screen:
    return make_screen(points, *pilot_of(points), rows, rows, capacity, generator(0, Purpose.SKETCH, (0, 0, 0)))


def screened(screen: Screen, points: Points, seed: int = 0, capacity: int = CAPACITY) -> tuple[Screener, Points]:
    buffer = Points(np.empty((capacity, points.dimension), np.float32), np.empty(capacity, np.int8), np.empty(capacity))
    screener = Screener.begin(screen, seed, 0, 0)
    kept = screener.screen(points, np.ones(len(points), np.bool_), buffer, 0)
    return screener, buffer.take(slice(0, kept))


def scaled(points: Points, screen: Screen) -> np.ndarray:
    return np.asarray((points.X - screen.scaling[0]) * screen.scaling[1])


def test_what_a_row_is_worth_is_its_importance() -> None:
    """Per weight, s is proportional to the reducer's mixed importance, sensitivity, weight and influence alike."""
    points = gaussian(500)
    pilot, seen = pilot_of(points)
    screen = screen_of(points)
    buffer = points.take(np.arange(500))
    rows = np.hstack([pilot.transform(points.X), np.ones((500, 1))])
    margin = points.y * (rows[:, :-1] @ pilot.coefficients + pilot.intercept)
    weight = (
        importance(Under.of(rows, points.weight, margin, pilot.penalty), points.y, points.weight, pilot) * seen.weight
    )
    screener = Screener.begin(replace(screen, rate=1e-9), 0, 0, 0)
    sums = screener.state.sums.sum()
    screener.screen(points, np.ones(500, np.bool_), Points(buffer.X.copy(), buffer.y.copy(), buffer.weight.copy()), 0)
    first = [int(np.flatnonzero(points.y == sign)[0]) for sign in (-1, 1)]
    expected = 1e-9 * (weight.sum() - weight[first].sum())
    assert screener.state.sums.sum() - sums == pytest.approx(expected, rel=1e-3)


def test_a_weighted_sum_is_estimated_without_bias() -> None:
    """Over many seeds, the kept points' sum of any function comes out as that of all rows, calibration aside."""
    points = gaussian(SPAN, seed=1)
    screen = screen_of(gaussian(1_000))
    wanted = np.array([points.weight.sum(), points.weight @ points.X[:, 0] ** 2, points.weight @ (points.y > 0)])
    found = []
    for seed in range(200):
        _, kept = screened(screen, points, seed)
        found.append([kept.weight.sum(), kept.weight @ kept.X[:, 0] ** 2, kept.weight @ (kept.y > 0)])
    error = np.abs(np.mean(found, axis=0) - wanted)
    assert (error <= 4.0 * np.std(found, axis=0) / np.sqrt(len(found)) + 1e-6 * wanted).all()


def test_the_kept_points_are_about_as_many_as_expected() -> None:
    """On a stream that does not change: no thinning, and within a point a stratum of the target."""
    screener, kept = screened(screen_of(gaussian(1_000)), gaussian(SPAN, seed=1))
    assert screener.state.thinnings == 0
    assert abs(len(kept) - 0.85 * CAPACITY) < 2 * BINS


def test_totals_are_exact_whatever_was_kept() -> None:
    """Weights by label and the gradient of the pilot's hinge are those of all rows once calibrated; so are moments."""
    points = gaussian(SPAN, seed=1)
    screener, kept = screened(screen_of(gaussian(1_000)), points)
    state, observed = screener.state, Observed()
    whole = calibrated(kept, state, observed)
    screen = state.screen
    active = points.y * (scaled(points, screen) @ screen.coefficients + screen.intercept) < 1.0
    held = kept.y * (scaled(kept, screen) @ screen.coefficients + screen.intercept) < 1.0
    for sign in (-1, 1):
        own = whole.y == sign
        assert whole.weight[own].sum() == pytest.approx(points.weight[points.y == sign].sum(), rel=1e-12)
        assert whole.weight[own & held].sum() == pytest.approx(points.weight[(points.y == sign) & active].sum())
    gradient = ((points.weight * points.y)[:, None] * scaled(points, screen))[active].sum(axis=0)
    met = ((whole.weight * whole.y)[:, None] * scaled(whole, screen))[held].sum(axis=0)
    np.testing.assert_allclose(met, gradient, rtol=1e-6)
    exact = Moments.zero(DIMENSION).add(points)
    assert state.moments.count == exact.count
    np.testing.assert_allclose(state.moments.class_weight, exact.class_weight, rtol=1e-12)
    np.testing.assert_allclose(state.moments.mean, exact.mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(state.moments.square, exact.square, rtol=1e-9)
    assert 0.0 < observed.eta < 1.0


@pytest.mark.parametrize("shift", [3.0, 30.0, 1e30])
def test_a_leaf_never_holds_more_than_its_capacity(shift: float) -> None:
    """Rows unlike any before, all of them far beyond the margin's wrong side: thinned, unbiased weight, both labels."""
    points = gaussian(SPAN, seed=1)
    moved = Points((points.X - np.float32(shift) * points.y[:, None]).astype(np.float32), points.y, points.weight)
    screener, kept = screened(screen_of(gaussian(1_000)), moved)
    assert screener.state.thinnings >= 1
    assert len(kept) < CAPACITY
    assert set(kept.y.tolist()) == {-1, 1}
    if shift < 1e30:
        assert kept.weight.sum() == pytest.approx(moved.weight.sum(), rel=0.2)


def test_a_rare_label_is_never_lost() -> None:
    """One row in six thousand of a label: it is kept, and stands for itself."""
    points = gaussian(SPAN, seed=1)
    y = np.full(SPAN, -1, np.int8)
    y[4_321] = 1
    screener, kept = screened(screen_of(gaussian(1_000)), Points(points.X, y, points.weight))
    whole = calibrated(kept, screener.state, Observed())
    assert whole.weight[whole.y > 0].tolist() == pytest.approx([points.weight[4_321]])


def test_many_features_are_sketched() -> None:
    """Above the bound of features influence is estimated by few projections; the kept points fill no leaf."""
    points = gaussian(3_000, dimension=60)
    screen = screen_of(points.take(slice(0, 1_000)), rows=2_000, capacity=900)
    assert screen.projection.shape[1] < 60
    screener, kept = screened(screen, points.take(slice(1_000, 3_000)), capacity=900)
    assert screener.state.thinnings == 0
    assert kept.weight.sum() == pytest.approx(points.weight[1_000:].sum(), rel=0.1)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(300, 3_000),
    seed=st.integers(0, 2**32),
    dimension=st.integers(1, 30),
    weighted=st.booleans(),
    classes=st.sampled_from(["none", "balanced"]),
)
def test_a_random_part_has_not_turned(n: int, seed: int, dimension: int, weighted: bool, classes: str) -> None:
    """Nor with heavy tails, labels that no rule tells, weights over three orders, class weights, or one outlier."""
    random = np.random.default_rng(seed)
    X = np.exp(random.normal(size=(4 * n, dimension)) * np.linspace(0.3, 1.2, dimension)).astype(np.float32)
    y = np.where(X[:, 0] + random.normal(size=4 * n) > 2.0, 1, -1).astype(np.int8)
    points = Points(X, y, 10.0 ** random.uniform(0, 3, 4 * n) if weighted else np.ones(4 * n))
    buckets, leaf = points.take(slice(0, n)), points.take(slice(n, None))
    leaf.X[0] *= 1_000
    assert not turned(leaf_state(buckets, leaf, SvmConfig(C=1.0, class_weight=classes)), [buckets])  # type: ignore[arg-type]


@pytest.mark.parametrize("weight", [(1.0, 1.0), (0.2, 30.0)])
@pytest.mark.parametrize("degrees", [60, 120, 180])
def test_a_rule_that_turned_is_noticed_whatever_was_kept(degrees: int, weight: tuple[float, float]) -> None:
    """Features and the share of labels stay as they were, and what the leaf keeps is two rows in a hundred."""
    random = np.random.default_rng(7)
    X = random.normal(size=(8_000, 5)).astype(np.float32)
    angle = np.deg2rad(degrees) * (np.arange(8_000) >= 2_000)
    y = np.where(X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle) > 0.0, 1, -1).astype(np.int8)
    points = Points(X, y, np.ones(8_000))
    buckets, leaf = points.take(slice(0, 2_000)), points.take(slice(2_000, None))
    assert turned(leaf_state(buckets, leaf, SvmConfig(C=1.0, class_weight=weight)), [buckets])


def leaf_state(buckets: Points, leaf: Points, svm: SvmConfig) -> Screened:
    """Return the state of a leaf that was screened by a model of the buckets."""
    seen = Moments.zero(buckets.dimension).add(buckets)
    pilot, random = linear_pilot(buckets, seen.weight, seen, svm), generator(0, Purpose.SKETCH, (0, 0, 0))
    return screened(make_screen(buckets, pilot, seen, len(leaf), len(leaf), CAPACITY, random), leaf)[0].state


def test_rejected_rows_alone_have_not_turned() -> None:
    """A screened leaf without a valid row says nothing."""
    buckets = gaussian(500)
    assert not turned(leaf_state(buckets, buckets.take(slice(0, 0)), SvmConfig(C=1.0)), [buckets])


@pytest.fixture(autouse=True, scope="module")
def larger_leaves() -> Iterator[None]:
    """Let leaves span half of the rows before them, so that short streams have long ones."""
    with mock.patch.object(CoresetConfig, "SCREENING", 0.5):
        yield


def screening_learner(structure: str) -> Learner:
    config = small_config(leaf_rows=20, bucket_points=30, structure=structure, train_points=1_000)
    return Learner(config, {0: Position(0)}, every_leaves=3)


@pytest.mark.long(keep=("chain",))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("structure", ["tree", "chain"])
def test_batches_do_not_matter_to_a_screened_leaf(structure: str, data: st.DataObject) -> None:
    """Rows, rejected ones among them, in any batches: the same bytes and the same cuts."""
    n = 900
    accepted = np.random.default_rng(data.draw(st.integers(50, 59))).random(n) < data.draw(
        st.sampled_from([0.3, 0.9, 1])
    )
    rows = rows_of(gaussian(n), accepted=accepted)
    borders = sorted(data.draw(st.lists(st.integers(0, n), max_size=30)))
    whole = check_batches(lambda: screening_learner(structure), rows, borders)
    assert whole.state().partitions[0].screened is not None


@pytest.mark.long(keep=("tree",))
@settings(max_examples=25, deadline=None)
@given(at=st.integers(1, 900))
@pytest.mark.parametrize("structure", ["tree", "chain"])
def test_a_restart_within_a_screened_leaf_changes_nothing(structure: str, at: int) -> None:
    """Stopped anywhere, restored from bytes, gone on: the same bytes as without a stop."""
    check_restart(lambda: screening_learner(structure), rows_of(gaussian(900)), at)


@pytest.mark.parametrize("structure", ["tree", "chain"])
def test_screening_moves_no_cut(structure: str) -> None:
    """A cut falls due after as many rows as without; in mid-leaf, too, it has the exact weight of each label."""
    points = gaussian(900)
    cuts = feed(screening_learner(structure), rows_of(points), [])
    assert [cut.positions[0].offset for cut in cuts] == list(range(60, 901, 60))
    for cut in cuts:
        until = points.take(slice(0, cut.positions[0].offset))
        for sign in (-1, 1):
            own = cut.points.weight[cut.points.y == sign].sum()
            assert own == pytest.approx(until.weight[until.y == sign].sum(), rel=1e-9)
        assert cut.moments.weight == pytest.approx(until.weight.sum())


def test_a_leaf_spans_a_share_of_what_came_before() -> None:
    """So the leaves of a stream are few: sealed leaves grow with the logarithm of its rows."""
    held = screening_learner("chain")
    feed(held, rows_of(gaussian(9_000)), [])
    state = held.state().partitions[0]
    assert state.screened is not None
    assert state.screened.screen.rows == (9_000 - state.leaf_extent.rows) // 2 // 20 * 20
    assert state.sealed < 25
    assert held.points_held <= 50


def test_one_label_is_not_screened() -> None:
    """Until a bucket has the other label there is no pilot to screen by, and leaves stay short."""
    points = gaussian(900)
    held = screening_learner("chain")
    feed(held, rows_of(Points(points.X, np.ones(900, np.int8), points.weight)), [])
    assert held.state().partitions[0].screened is None
    assert held.state().partitions[0].sealed == 45

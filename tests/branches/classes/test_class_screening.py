"""Screening for several labels: what a row is kept for, what adds up exactly, and what never depends on batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from unittest import mock

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from streamsvm.branches.classes.class_screening import (
    ClassScreen,
    ClassScreened,
    ClassScreener,
    calibrated,
    least_capacity,
    make_class_screen,
    shares,
    span_share,
    turned,
)
from streamsvm.branches.classes.class_screening_kernels import QUOTA_PARTS
from streamsvm.checkpoint import PlacedScreened, StateReader, StateWriter
from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset import Moments, Observed, Purpose, SharedPilot, Under, generator, importance
from streamsvm.errors import CorruptCheckpoint
from streamsvm.learning import Learner, OneVsRest
from streamsvm.points import Points, Position
from tests.config.sizes import sized
from tests.learning.test_learner import check_batches, check_restart, feed
from tests.streams import rows_of

CLASSES = 5
DIMENSION = 3
CAPACITY = 400
SPAN = 6_000
CONFIG = ModelConfig(points=PointsConfig(dimension=DIMENSION, labels=tuple(range(CLASSES))), svm=SvmConfig(alpha=1e-3))


def blobs(n: int, seed: int = 0, *, dimension: int = DIMENSION, shares: list[float] | None = None) -> Points:
    """Return weighted points around a centre a label, some of which overlap."""
    random = np.random.default_rng(seed)
    centres = 1.5 * np.random.default_rng(99).normal(size=(CLASSES, dimension))
    y = random.choice(CLASSES, n, p=shares)
    X = (centres[y] + random.normal(size=(n, dimension))).astype(np.float32)
    return Points(X, y.astype(np.int8), random.uniform(0.5, 2.0, n))


def pilot_of(points: Points, class_weight: tuple[float, ...] | None = None) -> tuple[SharedPilot, Moments]:
    seen = Moments.zero(points.dimension, CLASSES).add(points)
    config = CONFIG.model_copy(update={"points": CONFIG.points.model_copy(update={"dimension": points.dimension})})
    return OneVsRest(CLASSES, class_weight).pilot(points, seen.weight, seen, config), seen


def screen_of(
    points: Points, rows: int = SPAN, capacity: int = CAPACITY, class_weight: tuple[float, ...] | None = None
) -> ClassScreen:
    random = generator(0, Purpose.SKETCH, (0, 0, 0))
    made = make_class_screen(points, *pilot_of(points, class_weight), rows, rows, capacity, random)
    assert made is not None
    return made


def screened(
    screen: ClassScreen, points: Points, seed: int = 0, capacity: int = CAPACITY
) -> tuple[ClassScreened, Points]:
    buffer = Points(np.empty((capacity, points.dimension), np.float32), np.empty(capacity, np.int8), np.empty(capacity))
    screener = ClassScreener.begin(screen, seed, 0, 0)
    kept = screener.screen(points, np.ones(len(points), np.bool_), buffer, 0)
    return screener.state, buffer.take(slice(0, kept))


def margins_of(points: Points, screen: ClassScreen) -> np.ndarray:
    """Return the margins of each problem in numpy, shape (p, n)."""
    Z = (points.X - screen.scaling[0]) * screen.scaling[1]
    signs = np.where(np.equal.outer(screen.labels, points.y), 1.0, -1.0)
    return np.asarray(signs * (screen.coefficients @ Z.T + screen.intercepts[:, None]))


@pytest.mark.parametrize("class_weight", [None, (1.0, 5.0, 0.2, 1.0, 2.0)])
def test_a_row_is_worth_the_greatest_of_its_importances(class_weight: tuple[float, ...] | None) -> None:
    """Per weight, in each problem by the importance of the reducer, as numpy computes it problem by problem."""
    points = blobs(8_000)  # of fewer a reducer bounds some sensitivities by 1
    pilot, seen = pilot_of(points, class_weight)
    screen = screen_of(points, class_weight=class_weight)
    weighed = points.class_weighted(pilot.class_weight)
    wanted = np.zeros(len(points))
    for label, own in pilot.bounded_for(points).items():
        rows = np.hstack([own.transform(points.X), np.ones((len(points), 1))])
        signs = points.against_the_rest(label).y
        margin = signs * (rows[:, :-1] @ own.coefficients + own.intercept)
        q = importance(Under.of(rows, weighed.weight, margin, own.penalty), signs, weighed.weight, own)
        wanted = np.maximum(wanted, q / points.weight * weighed.weight.sum())
    assert seen.count == len(points)
    np.testing.assert_allclose(shares(points, screen)[1], wanted, rtol=2e-4)


def test_a_weighted_sum_is_estimated_without_bias() -> None:
    """Over many seeds, the kept points' sum of any function comes out as that of all rows, calibration aside."""
    points = blobs(SPAN, seed=1)
    screen = screen_of(blobs(1_000))
    of_one = points.y == 3
    wanted = np.array([points.weight.sum(), points.weight @ points.X[:, 0] ** 2, points.weight @ of_one])
    found = []
    for seed in range(200):
        _, kept = screened(screen, points, seed)
        found.append([kept.weight.sum(), kept.weight @ kept.X[:, 0] ** 2, kept.weight @ (kept.y == 3)])
    error = np.abs(np.mean(found, axis=0) - wanted)
    assert (error <= 4.0 * np.std(found, axis=0) / np.sqrt(len(found)) + 1e-6 * wanted).all()


def test_the_kept_points_are_about_as_many_as_expected() -> None:
    """On a stream that does not change: no thinning, and near the target."""
    state, kept = screened(screen_of(blobs(1_000)), blobs(SPAN, seed=1))
    assert state.thinnings == 0
    assert abs(len(kept) - 0.85 * CAPACITY) < 0.1 * CAPACITY


@pytest.mark.parametrize("class_weight", [None, (1.0, 5.0, 0.2, 1.0, 2.0)])
def test_totals_are_exact_whatever_was_kept(class_weight: tuple[float, ...] | None) -> None:
    """Weights by label, of the active rows of each side of each problem, and all gradients; so are moments."""
    points = blobs(SPAN, seed=1)
    state, kept = screened(screen_of(blobs(1_000), class_weight=class_weight), points)
    observed = Observed()
    whole = calibrated(kept, state, observed)
    screen, factor = state.screen, state.screen.class_weight
    for label in range(CLASSES):
        own = float(points.weight[points.y == label].sum())
        assert whole.weight[whole.y == label].sum() == pytest.approx(own, rel=1e-12)
    for one, exact in ((points, True), (whole, False)):
        Z = (one.X - screen.scaling[0]) * screen.scaling[1]
        heavy = one.weight * factor[one.y]
        for problem, label in enumerate(screen.labels):
            active, own = margins_of(one, screen)[problem] < 1.0, one.y == label
            gradient = ((heavy * np.where(own, 1.0, -1.0))[:, None] * Z)[active].sum(axis=0)
            np.testing.assert_allclose(gradient, state.gradient[problem], rtol=1e-6, atol=1e-6 * heavy.sum())
            sides = [heavy[active & ~own].sum(), heavy[active & own].sum()]
            # What no kept row is of cannot be met: few rows of the others are active where a label stands apart.
            of_kept = np.array([exact or bool(side) for side in sides])
            assert exact or of_kept.sum() + np.count_nonzero(state.active[problem][~of_kept] < 0.02 * heavy.sum()) == 2
            np.testing.assert_allclose(
                np.array(sides)[of_kept], state.active[problem][of_kept], rtol=1e-9 if exact else 1e-6
            )
    seen = Moments.zero(DIMENSION, CLASSES).add(points)
    assert state.moments.count == seen.count
    np.testing.assert_allclose(state.moments.class_weight, seen.class_weight, rtol=1e-12)
    np.testing.assert_allclose(state.moments.mean, seen.mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(state.moments.square, seen.square, rtol=1e-9)
    assert observed.eta > 0.0
    assert observed.strained == observed.uncalibrated == 0


@pytest.mark.parametrize("capacity", [40, 60, 90])
def test_fewer_points_meet_fewer_totals(capacity: int) -> None:
    """Without points enough for all gradients the mean is met, and always the weight of each label."""
    points = blobs(SPAN, seed=1)
    state, kept = screened(screen_of(blobs(1_000), capacity=capacity), points, capacity=capacity)
    whole = calibrated(kept, state, Observed())
    assert (whole.weight > 0.0).all()
    for label in range(CLASSES):
        assert whole.weight[whole.y == label].sum() == pytest.approx(points.weight[points.y == label].sum(), rel=1e-12)


@pytest.mark.parametrize("shift", [3.0, 30.0, 1e30])
def test_a_leaf_never_holds_more_than_its_capacity(shift: float) -> None:
    """Rows unlike any before: thinned, without bias, and every label is there."""
    points = blobs(SPAN, seed=1)
    moved = Points((points.X + np.float32(shift) * (points.y[:, None] - 2)).astype(np.float32), points.y, points.weight)
    state, kept = screened(screen_of(blobs(1_000)), moved)
    assert state.thinnings >= 1
    assert len(kept) < CAPACITY
    assert set(kept.y.tolist()) == set(range(CLASSES))
    if shift < 1e30:
        found = [screened(screen_of(blobs(1_000)), moved, seed)[1].weight.sum() for seed in range(40)]
        assert abs(np.mean(found) - moved.weight.sum()) < 4.0 * np.std(found) / np.sqrt(len(found))


def test_a_rare_label_is_never_lost() -> None:
    """One row in six thousand of a label: it is kept, and stands for itself."""
    points = blobs(SPAN, seed=1, shares=[0.25, 0.25, 0.25, 0.25, 0.0])
    y = points.y.copy()
    y[4_321] = 4
    state, kept = screened(screen_of(blobs(1_000)), Points(points.X, y, points.weight))
    whole = calibrated(kept, state, Observed())
    assert whole.weight[whole.y == 4].tolist() == pytest.approx([points.weight[4_321]])


def test_a_label_that_comes_late_is_kept_before_it_has_a_problem() -> None:
    """Of a label that the buckets hold nothing of, the first rows are kept whatever other problems think of them."""
    before = blobs(1_000, shares=[0.25, 0.25, 0.25, 0.25, 0.0])
    screen = screen_of(before)
    assert screen.labels.tolist() == [0, 1, 2, 3]
    points = blobs(SPAN, seed=1, shares=[0.24, 0.24, 0.24, 0.24, 0.04])
    quota = CAPACITY // (QUOTA_PARTS * CLASSES)
    first = np.flatnonzero(points.y == 4)[:quota]
    state, kept = screened(screen, points)
    assert state.thinnings == 0
    own = kept.X[kept.y == 4]
    np.testing.assert_array_equal(own[:quota], points.X[first])
    whole = calibrated(kept, state, Observed())
    assert whole.weight[whole.y == 4].sum() == pytest.approx(points.weight[points.y == 4].sum())


def test_many_features_are_sketched() -> None:
    """Above the bound of features influence is estimated by few projections; the kept points fill no leaf."""
    points = blobs(3_000, dimension=60)
    screen = screen_of(points.take(slice(0, 1_000)), rows=2_000, capacity=900)
    assert screen.projection.shape[2] < 60
    state, kept = screened(screen, points.take(slice(1_000, 3_000)), capacity=900)
    assert state.thinnings == 0
    assert kept.weight.sum() == pytest.approx(points.weight[1_000:].sum(), rel=0.1)


def test_one_label_alone_has_no_screen() -> None:
    """Nothing can be told from anything."""
    points = blobs(300)
    alone = Points(points.X, np.full(300, 2, np.int8), points.weight)
    random = generator(0, Purpose.SKETCH, (0, 0, 0))
    assert make_class_screen(alone, *pilot_of(alone), 100, 100, CAPACITY, random) is None


@settings(max_examples=40, deadline=None)
@given(n=st.integers(400, 2_000), seed=st.integers(0, 2**32), dimension=st.integers(1, 12), weighted=st.booleans())
def test_a_random_part_has_not_turned(n: int, seed: int, dimension: int, weighted: bool) -> None:
    """Nor with heavy tails, labels that no rule tells, weights over three orders, or one outlier."""
    random = np.random.default_rng(seed)
    X = np.exp(random.normal(size=(4 * n, dimension)) * np.linspace(0.3, 1.2, dimension)).astype(np.float32)
    y = np.digitize(X[:, 0] + random.normal(size=4 * n), [0.0, 1.0, 1.5, 3.0]).astype(np.int8)
    points = Points(X, y, 10.0 ** random.uniform(0, 3, 4 * n) if weighted else np.ones(4 * n))
    buckets, leaf = points.take(slice(0, n)), points.take(slice(n, None))
    leaf.X[0] *= 1_000
    assert not turned(screened(screen_of(buckets, rows=len(leaf)), leaf)[0], buckets)


def test_a_rule_that_turned_is_noticed_whatever_was_kept() -> None:
    """Two labels change places; features and the share of each label stay as they were."""
    points = blobs(8_000)
    y = points.y.copy()
    late = np.arange(8_000) >= 2_000
    y[late & (points.y == 0)], y[late & (points.y == 1)] = 1, 0
    buckets, leaf = points.take(slice(0, 2_000)), Points(points.X, y, points.weight).take(slice(2_000, None))
    assert turned(screened(screen_of(buckets, rows=6_000), leaf)[0], buckets)
    assert not turned(screened(screen_of(buckets, rows=6_000), leaf.take(slice(0, 0)))[0], buckets)


# ---------------------------------------------------------------- in a learner


@pytest.fixture(autouse=True, scope="module")
def larger_leaves() -> Iterator[None]:
    """Let leaves span half of the rows before them, so that short streams have long ones."""
    with mock.patch.object(CoresetConfig, "SCREENING", 0.5):
        yield


def learner_of(structure: str, **coreset: object) -> Learner:
    options = {"leaf_rows": 40, "bucket_points": 60, "audit_points": 7, "train_points": 1_000}
    config = ModelConfig(
        points=CONFIG.points,
        coreset=sized(**{**options, "structure": structure, **coreset}),
        svm=SvmConfig(alpha=1e-3),
        seed=11,
    )
    return Learner(config, {0: Position(0)}, every_leaves=3)


@settings(max_examples=15, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("structure", ["tree", "chain"])
def test_batches_do_not_matter(structure: str, data: st.DataObject) -> None:
    """Rows, rejected ones with codes of no label among them, in any batches: the same bytes and the same cuts."""
    n = 2_400
    accepted = np.random.default_rng(data.draw(st.integers(50, 59))).random(n) < data.draw(
        st.sampled_from([0.3, 0.9, 1])
    )
    points = blobs(n)
    y = np.where(accepted, points.y, np.int8(-128)).astype(np.int8)
    rows = rows_of(Points(points.X, y, points.weight), accepted=accepted)
    borders = sorted(data.draw(st.lists(st.integers(0, n), max_size=30)))
    whole = check_batches(lambda: learner_of(structure), rows, borders)
    assert isinstance(whole.state().partitions[0].screened, ClassScreened)


@settings(max_examples=15, deadline=None)
@given(at=st.integers(1, 2_400))
@pytest.mark.parametrize("structure", ["tree", "chain"])
def test_a_restart_within_a_screened_leaf_changes_nothing(structure: str, at: int) -> None:
    """Stopped anywhere, restored from bytes, gone on: the same bytes as without a stop."""
    check_restart(lambda: learner_of(structure), rows_of(blobs(2_400)), at)


def test_leaves_of_few_points_span_less() -> None:
    """Of as many points a total as are needed, as much as with two labels; of fewer less, down to a quarter."""
    assert span_share(7, 10, 10_000) == 1.0
    assert span_share(7, 10, 455) == pytest.approx(0.5)
    assert span_share(7, 10, 20) == 0.25
    held = learner_of("chain")
    feed(held, rows_of(blobs(9_000)), [])
    state = held.state().partitions[0]
    assert state.screened is not None
    known = 9_000 - state.leaf_extent.rows
    assert state.screened.screen.rows == int(known * 0.5 * 0.25) // 40 * 40


def test_small_leaves_are_not_screened() -> None:
    """A point of each label always stays, and of so few no choice would be left."""
    rows = rows_of(blobs(2_400))
    held = learner_of("chain", leaf_rows=least_capacity(CLASSES) - 1)
    feed(held, rows, [])
    assert held.state().partitions[0].screened is None
    least = learner_of("chain", leaf_rows=least_capacity(CLASSES))
    feed(least, rows, [])
    assert least.state().partitions[0].screened is not None


def test_a_state_whose_arrays_do_not_fit_is_corrupt() -> None:
    """Compiled loops look into them: each shape, and each label, is checked before."""
    state, _ = screened(screen_of(blobs(1_000)), blobs(SPAN, seed=1))
    again = _read(*_written(state))
    assert msgspec.json.encode(_written(again)[0]) == msgspec.json.encode(_written(state)[0])
    assert _written(again)[1] == _written(state)[1]
    screen = state.screen
    for wrong in (
        replace(state, counts=state.counts[:-1]),
        replace(state, sums=state.sums[:, :-1]),
        replace(state, active=state.active[:-1]),
        replace(state, gradient=state.gradient[:-1]),
        replace(state, screen=replace(screen, labels=screen.labels + 1)),
        replace(state, screen=replace(screen, labels=screen.labels - 1)),
        replace(state, screen=replace(screen, terms=screen.terms[:, :, :-1])),
        replace(state, screen=replace(screen, projection=screen.projection[:, :-1])),
        replace(state, screen=replace(screen, projection=screen.projection[:, :, 0])),
        replace(state, screen=replace(screen, class_weight=screen.class_weight[:-1])),
        replace(state, screen=replace(screen, scaling=screen.scaling[:, :-1])),
        replace(state, screen=replace(screen, scaling=screen.scaling.ravel())),
    ):
        with pytest.raises(CorruptCheckpoint, match=r"has the shape|has a problem of label"):
            _read(*_written(wrong))


def _written(state: ClassScreened) -> tuple[PlacedScreened, bytes]:
    writer = StateWriter()
    return writer.described(PlacedScreened, state), b"".join(writer.arrays)


def _read(placed: PlacedScreened, arrays: bytes) -> ClassScreened:
    placed = msgspec.json.decode(msgspec.json.encode(placed), type=PlacedScreened)
    reader = StateReader(memoryview(arrays))
    state = reader.value(placed)
    reader.end()
    assert isinstance(state, ClassScreened)
    return state

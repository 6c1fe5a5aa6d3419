"""The band: which rows are in doubt, that they are kept as they are, and when there is none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset.band import REACH, border_within, farthest, nearest, reach_of
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.reducers.base import Observed, Pilot, Purpose, generator
from streamsvm.coreset.reducers.calibrated import CalibratedReducer, Under
from streamsvm.coreset.screen_making import make_screen
from streamsvm.coreset.screening import Screener, calibrated
from streamsvm.datasets import load_htru2
from streamsvm.learning.learner import Learner
from streamsvm.learning.pilots import linear_pilot
from streamsvm.linalg import Float
from streamsvm.points import Points, Position
from tests.papers.paper_a import fit, objective
from tests.sizes import sized
from tests.streams import gaussian, rows_of
from tests.test_learner import check_batches, check_restart, feed

D = 3


def clear(n: int, seed: int = 0, apart: float = 1.4) -> Points:
    """Return a stream of which few rows are near the margin, in weights of 1."""
    random = np.random.default_rng(seed)
    y = np.where(random.random(n) < 1 / 3, 1, -1).astype(np.int8)
    X = (random.normal(size=(n, D)) + apart * y[:, None]).astype(np.float32)
    return Points(X, y, np.ones(n))


def pilot_of(points: Points, band: float) -> Pilot:
    seen = Moments.zero(points.dimension).add(points)
    return linear_pilot(points, seen.weight, seen, SvmConfig(C=1.0)).with_band(band)


def rows_and_margin(points: Points, pilot: Pilot) -> tuple[Float, Float]:
    rows = np.column_stack([pilot.transform(points.X), np.ones(len(points))])
    return rows, points.y * (rows[:, :-1] @ pilot.coefficients + pilot.intercept)


def lengths(rows: Float, points: Points, margin: Float, pilot: Pilot) -> Float:
    factor = Under.of(rows.copy(), points.weight, margin, pilot.penalty).factor
    hessian = factor @ factor.T
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, np.linalg.solve(hessian, rows.T).T)))


def learner(band: float, **coreset: object) -> Learner:
    sizes = {"leaf_rows": 200, "bucket_points": 300, "audit_points": 50, "screening": 0.5, "structure": "chain"}
    config = ModelConfig(
        points=PointsConfig(dimension=D),
        coreset=sized(**{**sizes, "train_points": 1_000, **coreset, "band": band}),
        svm=SvmConfig(C=1.0),
        seed=3,
    )
    return Learner(config, {0: Position(0)}, every_leaves=3)


def test_the_reach_is_that_of_the_standard_error_of_the_machine() -> None:
    """Mean eigenvalue of H^-1 times the gradients' covariance, from a dense solver."""
    points = clear(2_000)
    pilot = pilot_of(points, 0.5)
    rows, margin = rows_and_margin(points, pilot)
    length = lengths(rows, points, margin, pilot)
    active = rows[margin < 1.0]
    factor = Under.of(rows.copy(), points.weight, margin, pilot.penalty).factor
    hessian = factor @ factor.T
    mean = np.trace(np.linalg.solve(hessian, active.T @ active)) / (D + 1)
    assert reach_of(length, margin, points.weight, D + 1) == pytest.approx(REACH * np.sqrt(mean))


def test_machines_of_other_rows_differ_by_about_the_standard_error() -> None:
    """Of 200 machines, each of 2,000 other rows, few disagree with one on the side of a row beyond its reach."""
    points = clear(2_000)
    pilot = pilot_of(points, 0.5)
    rows, margin = rows_and_margin(points, pilot)
    length = lengths(rows, points, margin, pilot)
    beyond = np.abs(1.0 - margin) > reach_of(length, margin, points.weight, D + 1) * length
    crossed = []
    for seed in range(1, 41):
        other = pilot_of(clear(2_000, seed), 0.0)
        _, theirs = rows_and_margin(points, other)
        crossed.append(np.mean((theirs < 1.0)[beyond] != (margin < 1.0)[beyond]))
    within = np.mean(beyond)
    assert within > 0.5  # or nothing is shown
    assert np.mean(crossed) < 0.02


def test_the_nearest_rows_are_kept_with_their_own_weights() -> None:
    """Among what a reduction keeps are the nearest rows, as they came; the totals of all rows are exact."""
    points = clear(4_000)
    pilot, m = pilot_of(points, 0.5), 1_000
    kept = CalibratedReducer().reduce(points, m, generator(0, Purpose.NODE, (0, 0, 0)), pilot)
    rows, margin = rows_and_margin(points, pilot)
    length = lengths(rows, points, margin, pilot)
    order = np.argsort(np.abs(1.0 - margin) / length)[: m // 2]
    held = {row.tobytes(): weight for row, weight in zip(kept.X, kept.weight, strict=True)}
    assert len(kept) == m
    assert all(held.get(points.X[row].tobytes()) == 1.0 for row in order)
    own_rows, own_margin = rows_and_margin(kept, pilot)
    for sign in (-1, 1):
        assert kept.weight[kept.y == sign].sum() == pytest.approx(points.weight[points.y == sign].sum())
    ours = ((kept.weight * kept.y * (own_margin < 1.0))[:, None] * own_rows).sum(axis=0)
    whole = ((points.weight * points.y * (margin < 1.0))[:, None] * rows).sum(axis=0)
    np.testing.assert_allclose(ours, whole, rtol=1e-6, atol=1e-6 * len(points))


def test_there_is_no_band_if_more_rows_are_in_doubt_than_it_holds() -> None:
    """Then the reduction is what it is without, to the byte."""
    points = gaussian(3_000)
    pilot = pilot_of(points, 0.5)
    few = 40
    rows, margin = rows_and_margin(points, pilot)
    length = lengths(rows, points, margin, pilot)
    in_doubt = np.abs(1.0 - margin) <= reach_of(length, margin, points.weight, rows.shape[1]) * length
    assert in_doubt.sum() > few // 2
    assert not len(nearest(length, margin, points.weight, rows.shape[1], few // 2))
    made = [
        CalibratedReducer().reduce(points, few, generator(0, Purpose.NODE, (0, 0, 0)), pilot.with_band(band))
        for band in (0.0, 0.5)
    ]
    assert made[0].sha256() == made[1].sha256()


def test_a_screen_keeps_rows_within_reach_as_they_are() -> None:
    """With as many rows expected in reach as the band has room for; calibration does not touch their weights."""
    points, span, capacity = clear(3_000, apart=1.0), 3_000, 600
    pilot = pilot_of(points, 0.5)
    seen = Moments.zero(D).add(points)
    screen = make_screen(points, pilot, seen, span, span, capacity, generator(0, Purpose.SKETCH, (0, 0, 0)))
    assert screen.reach > 0.0
    rows = clear(span, 1, apart=1.0)
    buffer = Points(np.empty((capacity, D), np.float32), np.empty(capacity, np.int8), np.empty(capacity))
    screener = Screener.begin(screen, 0, 0, 0)
    kept = buffer.take(slice(0, screener.screen(rows, np.ones(span, np.bool_), buffer, 0)))
    assert screener.state.thinnings == 0
    scaled = np.column_stack([(rows.X - screen.scaling[0]) * screen.scaling[1], np.ones(span)])
    margin = rows.y * (scaled[:, :-1] @ screen.coefficients + screen.intercept)
    length = np.linalg.norm(scaled @ screen.projection[: D + 1], axis=1)
    near = np.flatnonzero((np.abs(1.0 - margin) <= 0.999 * screen.reach * length) & (margin < 1.3))
    assert 0.5 < len(near) / (0.5 * 0.85 * capacity) < 1.5
    after = calibrated(kept, screener.state, Observed())
    held = {row.tobytes(): weight for row, weight in zip(after.X, after.weight, strict=True)}
    assert all(held[rows.X[row].tobytes()] == 1.0 for row in near)
    active = margin < 1.0
    for sign in (-1, 1):
        assert after.weight[after.y == sign].sum() == pytest.approx((rows.y == sign).sum())
    theirs = (rows.y * active) @ scaled[:, :-1]
    own = np.column_stack([(after.X - screen.scaling[0]) * screen.scaling[1]])
    own_margin = after.y * (own @ screen.coefficients + screen.intercept)
    np.testing.assert_allclose((after.weight * after.y * (own_margin < 1.0)) @ own, theirs, atol=1e-6 * span)


def test_nothing_can_be_kept_where_even_the_nearest_point_stands_for_too_many() -> None:
    """Then the screen has no band."""
    one = np.ones(4)
    assert farthest(one, np.array([1.0, 1.1, 3.0, 4.0]), one, 2, 100.0 * one, 50.0) == 0.0


@settings(max_examples=20, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("turned", [False, True])
def test_batches_do_not_matter_to_a_screen_with_a_band(turned: bool, data: st.DataObject) -> None:
    """Rows in any batches: the same bytes; also where the stream changes and what is kept must be thinned."""
    n = 5_500
    points = clear(n, data.draw(st.integers(0, 5)))
    if turned:  # far more rows near the margin than the screen expects
        first = points.take(np.arange(5_000))
        _, margin = rows_and_margin(first, pilot_of(first, 0.0))
        near = np.resize(np.argsort(np.abs(1.0 - margin))[:100], n - 5_000)
        points = points.take(np.concatenate([np.arange(5_000), near]))
    rows = rows_of(points)
    borders = sorted(data.draw(st.lists(st.integers(0, n), max_size=30)))
    state = check_batches(lambda: learner(0.5), rows, borders).state().partitions[0].screened
    assert state is not None
    if turned:
        assert state.thinnings > 0
    assert state.screen.reach > 0.0


@settings(max_examples=10, deadline=None)
@given(at=st.integers(1, 6_000))
def test_a_restart_within_a_leaf_with_a_band_changes_nothing(at: int) -> None:
    """Stopped anywhere, restored from bytes, gone on: the same bytes as without a stop."""
    check_restart(lambda: learner(0.5), rows_of(clear(6_000)), at)


@pytest.mark.parametrize("structure", ["tree", "chain"])
def test_a_sorted_stream_has_no_band(structure: str) -> None:
    """Every leaf is unlike those before it: what is held is what it is without a band, to the byte."""
    points = clear(8_000)
    rows = rows_of(points.take(np.argsort(points.X[:, 0], kind="stable")))
    made = [learner(band, structure=structure) for band in (0.0, 0.5)]
    for each in made:
        feed(each, rows, [])
    held = [each.state().partitions[0] for each in made]
    assert len(held[0].buckets[0].points) == 300
    for one, other in zip(*(state.buckets for state in held), strict=True):
        assert one.points.sha256() == other.points.sha256()


def test_small_buckets_have_no_band() -> None:
    """Of fewer points the sample beside it is too small."""
    assert CoresetConfig().band_of(300) == 0.5
    assert CoresetConfig().band_of(299) == 0.0


def test_with_a_band_a_stream_is_nearer_the_optimum() -> None:
    """On real data in five orders, at equal memory: the mean gap is a tenth of that without, or less."""
    X, y, _ = load_htru2()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    points = Points(X.astype(np.float32), y.astype(np.int8), np.ones(len(y)))
    Z = points.X.astype(np.float64)
    optimum = fit(Z, points.y, np.ones(len(y)), 1e-8).objective
    gaps: dict[float, list[float]] = {0.0: [], 0.5: []}
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(y))
        for band, found in gaps.items():
            config = ModelConfig(
                points=PointsConfig(dimension=Z.shape[1]),
                coreset=CoresetConfig(structure="chain", points=2_000, band=band),
                svm=SvmConfig(C=1.0, standardize=False),
            )
            each = Learner(config, {0: Position(0)}, every_leaves=1 << 30)
            feed(each, rows_of(points.take(order)), [])
            kept = each.cut().points
            made = fit(kept.X.astype(np.float64), kept.y, kept.weight, 1e-8)
            found.append(objective(Z, points.y, np.ones(len(y)), made.w, made.b) / optimum - 1.0)
    assert np.mean(gaps[0.5]) < 0.1 * np.mean(gaps[0.0])


def test_copies_of_one_row_beyond_the_last_that_fits_are_outside_the_band() -> None:
    """They all have one distance: a reach as far as that would keep every one of them, and nothing else."""
    one = np.ones(6)
    margin = np.array([1.0, 0.9, 1.2, 1.2, 1.2, 3.0])
    assert farthest(one, margin, 1e-9 * one, 2, 10.0 * one, 35.0) == pytest.approx(0.1)
    assert farthest(one, margin, 1e-9 * one, 2, 10.0 * one, 55.0) == pytest.approx(0.2)
    rounded = margin + np.array([0.0, 0.0, 0.0, 1e-8, 2e-8, 0.0])
    assert farthest(one, rounded, 1e-9 * one, 2, 10.0 * one, 35.0) == pytest.approx(0.1)


def test_a_stream_with_many_copies_of_one_row_is_not_kept_worse_for_its_band() -> None:
    """As sparse data has them: the rate of a screen is not that of the copies, with which no other row is kept."""
    random, n, d = np.random.default_rng(7), 40_000, 4
    y = np.where(random.random(n) < 0.4, 1, -1).astype(np.int8)
    X = random.normal(size=(n, d)) + 0.6 * y[:, None]
    X[(y < 0) & (random.random(n) < 0.8)] = -0.6
    config = ModelConfig(
        points=PointsConfig(dimension=d),
        coreset=CoresetConfig(structure="chain", points=2_000, band=0.5),
        svm=SvmConfig(C=1.0, standardize=False),
        seed=3,
    )
    each = Learner(config, {0: Position(0)}, every_leaves=1 << 30)
    feed(each, rows_of(Points(X.astype(np.float32), y, np.ones(n))), [])
    state = each.state().partitions[0].screened
    assert state is not None
    assert state.screen.reach > 0.0
    assert state.screen.rate > 1e-3


@pytest.mark.parametrize("ties", [False, True])
def test_the_border_of_a_weighted_selection_is_that_of_a_sort(ties: bool) -> None:
    """With sizes of 0, equal values, infinite ones and NaN, as a sum over each distinct value says."""
    random = np.random.default_rng(0)
    for number in range(500):
        n = int(random.integers(0, 40))
        values = random.integers(0, 12, n).astype(float) if ties else random.random(n)
        size = random.random(n) * (random.random(n) < 0.8)
        if n and number % 5 == 0:
            values[random.integers(n)] = (np.inf, np.nan)[number % 2]
        most = 1.2 * random.random() * float(size.sum())
        distinct = np.unique(values[np.isfinite(values)])
        sums = np.array([size[values <= one].sum() for one in distinct])
        within, beyond = distinct[sums <= most + 1e-12], distinct[sums > most + 1e-12]
        expected = within.max(initial=0.0), beyond.min(initial=np.inf)
        assert border_within(values, size, most) == expected


def screened(rows: Points, capacity: int = 600, span: int = 3_000) -> tuple[Points, Screener]:
    """Return what a screen with a band of clear rows keeps of others, before calibration."""
    points = clear(3_000, apart=1.0)
    seen, random = Moments.zero(D).add(points), generator(0, Purpose.SKETCH, (0, 0, 0))
    screen = make_screen(points, pilot_of(points, 0.5), seen, span, span, capacity, random)
    assert screen.reach > 0.0
    buffer = Points(np.empty((capacity, D), np.float32), np.empty(capacity, np.int8), np.empty(capacity))
    screener = Screener.begin(screen, 0, 0, 0)
    return buffer.take(slice(0, screener.screen(rows, np.ones(len(rows), np.bool_), buffer, 0))), screener


@pytest.mark.parametrize("unit", [1e-300, 1e-13, 1e-11, 1.0, 1e12, 1e300])
def test_weights_of_another_size_than_before_stay_positive_and_keep_their_totals(unit: float) -> None:
    """A row within reach, but kept by chance, is not of the band: its weight is not its own."""
    rows = clear(3_000, 1, apart=1.0)
    rows = rows.reweighted(unit * (1.0 + np.arange(3_000) % 7))
    kept, screener = screened(rows)
    after = calibrated(kept, screener.state, Observed())
    assert (after.weight > 0.0).all()
    for sign in (-1, 1):
        assert after.weight[after.y == sign].sum() == pytest.approx(rows.weight[rows.y == sign].sum())


def test_a_leaf_that_fills_with_rows_at_the_kink_keeps_a_sample_of_the_others() -> None:
    """The band is given up at once: halving it would thin the others as often as it takes to leave the copies out."""
    near, screener = screened(clear(3_000, 1, apart=1.0))
    evaluated = screener.state.screen
    scaled = (near.X - evaluated.scaling[0]) * evaluated.scaling[1]
    margin = near.y * (scaled @ evaluated.coefficients + evaluated.intercept)
    rows = clear(3_000, 2, apart=1.0)
    X, copies = rows.X.copy(), np.arange(3_000) % 2 == 0
    nearest_row = int(np.argmin(np.abs(1.0 - margin)))
    X[copies & (rows.y == near.y[nearest_row])] = near.X[nearest_row]
    kept, screener = screened(Points(X, rows.y, rows.weight))
    assert 0 < screener.state.thinnings <= 2
    assert len(np.unique(kept.X, axis=0)) > 50


def test_a_band_leaves_enough_points_to_calibrate_the_others() -> None:
    """With 100 features and 300 points, half of these would be too few for as many totals."""
    random, d = np.random.default_rng(0), 100
    y = np.where(random.random(2_000) < 0.4, 1, -1).astype(np.int8)
    X = random.normal(size=(2_000, d)) + 0.4 * y[:, None]
    points, reducer = Points(X.astype(np.float32), y, np.ones(2_000)), CalibratedReducer()
    reducer.reduce(points, 300, generator(0, Purpose.NODE, (0, 0, 0)), pilot_of(points, 0.5))
    assert reducer.observed.reductions == 1
    assert reducer.observed.uncalibrated == 0

"""Screening: with which probability a row is kept, and what all rows add up to, kept or not."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from streamsvm.coreset import landmarks
from streamsvm.coreset.buckets import Extent, Moments, label_index, label_weights
from streamsvm.coreset.pilot import LARGEST_WORTH, again
from streamsvm.coreset.reduce import Observed, Totals
from streamsvm.coreset.screen import BIN_WIDTH, BINS, TARGET, Screen, _evaluate, _keep, _rate, _starts, _thin, screen
from streamsvm.points import Points, Position
from tests.coreset.streams import Float, measure, mixture, rows_of

ROOM = 300
SPAN = 4_000
KINDS = [(2, 3, "float32"), (2, 3, "float64"), (4, 3, "float32"), (2, 40, "float32"), (4, 60, "float64")]


def begin(points: Points, labels: int = 2, **svm: object) -> Screen:
    """Return the screen of a leaf after some points."""
    n, found, seen = len(points), measure(points, labels, **svm), Moments.zero(points.dimension, labels).add(points)
    whole = Extent(start=Position(0), end=Position(n), rows=n, first_time_ms=-1, last_time_ms=-1, moments=seen)
    return Screen.begin(found, whole, SPAN, ROOM, (0, 0, 0))


def screened(
    state: Screen, points: Points, seed: int = 0, accepted: NDArray[np.bool_] | None = None
) -> tuple[Screen, Points]:
    """Return the state after points, and what is kept; the strata start as in a partition of the seed."""
    sums = _starts((seed, 0, 0), len(state.label))
    buffer = Points.empty(points.dimension, points.X.dtype, ROOM)
    state, kept = screen(replace(state.copy(), sums=sums), rows_of(points, accepted), buffer, 0, (seed, 0, 0))
    return state, buffer.take(slice(0, kept))


def evaluated(state: Screen, points: Points) -> tuple[Float, Float, Screen]:
    """Return what the kernel says of points: their own margins, their worth, and the sums."""
    pilot, fresh = state.pilot, state.copy()
    margin, worth = np.empty(len(points)), np.empty(len(points))
    _evaluate(
        points.X, label_index(points.y, len(state.label)), points.weight, pilot.loss, pilot.scaling,
        pilot.class_weight, pilot.side, np.empty((0, len(points))), pilot.w, pilot.centre, pilot.terms, pilot.root,
        margin, worth, fresh.active, fresh.gradient, fresh.square,
    )  # fmt: skip
    return margin, worth, fresh


@pytest.mark.parametrize(("labels", "d", "dtype"), KINDS)
@pytest.mark.parametrize("class_weight", ["none", "balanced"])
def test_a_row_is_worth_the_same_as_a_kept_point(labels: int, d: int, dtype: str, class_weight: str) -> None:
    """The compiled pass over rows agrees with numpy over points; its norms are in float32."""
    state = begin(mixture(1_000, d, labels, dtype=dtype, decades=2.0), labels, class_weight=class_weight)
    rows = mixture(1_001, d, labels, seed=5, dtype=dtype)
    rows.X[::3] += 30.0
    margin, worth, _ = evaluated(state, rows)
    found = again(rows, state.pilot)
    np.testing.assert_allclose(worth, found.worth, rtol=1e-5)
    np.testing.assert_allclose(margin, state.pilot.own_margin(found.margin, found.label), rtol=1e-9, atol=1e-9)


def test_a_row_of_infinite_worth_has_the_largest_there_is() -> None:
    state = begin(mixture(1_000, dtype="float64"))
    rows = mixture(10, dtype="float64")
    rows.X[3] = 1e100
    worth = evaluated(state, rows)[1]
    assert np.isfinite(worth).all()
    assert worth[3] == LARGEST_WORTH


@pytest.mark.parametrize(("labels", "d", "dtype"), KINDS)
def test_the_sums_are_those_of_numpy_over_all_rows(labels: int, d: int, dtype: str) -> None:
    """Kept or not: totals of the problems, and moments; rejected rows take no part in them, whatever they hold."""
    state = begin(mixture(1_000, d, labels, dtype=dtype), labels, class_weight="balanced")
    rows, accepted = mixture(SPAN, d, labels, seed=6, dtype=dtype, decades=3.0), np.arange(SPAN) % 7 != 3
    good = rows.take(accepted)
    rows.X[~accepted], rows.weight[~accepted], rows.y[~accepted] = np.nan, np.nan, -128
    state, kept = screened(state, rows, accepted=accepted)
    totals = Totals.of(again(good, state.pilot))
    assert 0 < len(kept) < ROOM
    assert state.count.tolist() == np.bincount(label_index(good.y, labels), minlength=labels).tolist()
    np.testing.assert_allclose(state.label, totals.label, rtol=1e-11)
    np.testing.assert_allclose(state.active, totals.active, rtol=1e-11)
    size = good.weight.sum()
    np.testing.assert_allclose(state.gradient, totals.gradient, atol=1e-11 * size * labels)
    np.testing.assert_allclose(state.square[0], totals.mean, atol=1e-11 * size)
    moments, X = state.moments, good.X.astype(np.float64)
    mean = np.average(X, axis=0, weights=good.weight)
    assert moments.count == len(good)
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(moments.square, good.weight @ np.square(X - mean), rtol=1e-9)
    calibrated = state.calibrated(kept, Observed())
    np.testing.assert_allclose(label_weights(calibrated, labels), totals.label, rtol=1e-12)


def plain_keep(
    label: list[int], u: list[float], margin: list[float], worth: list[float], rate: float, certain: list[int],
    starts: Float, room: int,
) -> tuple[int, list[tuple[int, float]]]:  # fmt: skip
    """Return the next row, and kept rows with their weights: the sum of pi of each stratum is one fraction."""
    kept: list[tuple[int, float]] = []
    sums = {(one, at): Fraction(float(start)) for (one, at), start in np.ndenumerate(starts)}
    seen = [0] * len(certain)
    for i, one in enumerate(label):
        if one < 0:
            continue
        seen[one] += 1
        pi = rate * u[i] * worth[i]
        if pi >= 1.0 or seen[one] <= certain[one]:
            kept.append((i, u[i]))
        else:
            stratum = one, min(max(int(np.floor((margin[i] - 1.0) / BIN_WIDTH + BINS // 2)), 0), BINS - 1)
            before = sums[stratum]
            sums[stratum] = before + Fraction(pi)
            if sums[stratum] // 1 > before // 1:
                kept.append((i, u[i] / pi))
        if len(kept) == room:
            return i + 1, kept
    return len(label), kept


@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize("room", [40, 10_000])
def test_rows_are_kept_as_a_plain_loop_keeps_them(labels: int, room: int) -> None:
    """Also where the room ends; two labels, of the codes -1 and +1, are the indexes 0 and 1."""
    random = np.random.default_rng(labels)
    n = 3_000
    y = random.choice([-1, 1], n) if labels == 2 else random.integers(0, labels, n)
    label = np.where(random.random(n) < 0.1, -1, label_index(y.astype(np.int8), labels))
    u, worth = 10.0 ** random.uniform(-2, 2, n), 10.0 ** random.uniform(-2, 1, n)
    margin, rate = random.normal(1.0, 3.0, n), 0.02
    certain, starts = np.array([1, 5, 2][:labels]), random.random((labels, BINS))
    end, wanted = plain_keep(
        label.tolist(), u.tolist(), margin.tolist(), worth.tolist(), rate, certain.tolist(), starts, room
    )
    which, weight, count, total = np.empty(n, np.int64), np.empty(room), np.zeros(labels, np.int64), np.zeros(labels)
    offset, row, place = np.arange(n) // 3, np.arange(n) % 3, np.empty((room, 3), np.int64)
    next_, kept = _keep(
        label, u, margin, worth, rate, 0, certain, starts.copy(), count, total, which, weight, offset, row, place
    )
    assert (place[:kept] == np.stack([offset, row, 0 * row], axis=1)[which[:kept]]).all()
    assert (next_, which[:kept].tolist()) == (end, [row for row, _ in wanted])
    np.testing.assert_allclose(weight[:kept], [own for _, own in wanted], rtol=1e-14)
    taken = label[:end]
    assert count.tolist() == [np.count_nonzero(taken == one) for one in range(labels)]
    np.testing.assert_allclose(total, [u[:end][taken == one].sum() for one in range(labels)], rtol=1e-12)


def z_scores(found: list[Float], truth: Float) -> Float:
    """Return by how many standard errors the mean of estimates is off the truth."""
    estimates = np.array(found)
    return np.asarray((estimates.mean(axis=0) - truth) / (estimates.std(axis=0, ddof=1) / np.sqrt(len(found))))


def sums_of(points: Points) -> Float:
    """Return some weighted sums of points that have nothing to do with a pilot."""
    x = points.X.astype(np.float64)
    features = [np.ones(len(x)), x[:, 0], x[:, 1] ** 2, np.sin(x[:, 2]), x[:, 0] > 6.0, points.y > 0]
    return np.array([points.weight @ feature for feature in features])


@pytest.mark.parametrize("labels", [2, 4])
def test_kept_points_are_unbiased_before_calibration(labels: int) -> None:
    """Over the seeds 0 to 199 the means of weighted sums are those of all rows."""
    state = begin(mixture(1_000, labels=labels, decades=2.0), labels)
    rows = mixture(SPAN, labels=labels, seed=7, decades=2.0)
    found = []
    for seed in range(200):
        after, kept = screened(state, rows, seed)
        assert not after.thinned
        found.append(sums_of(kept))
    assert np.abs(z_scores(found, sums_of(rows))).max() < 3.5


def test_thinning_is_unbiased_and_halves() -> None:
    """Over 400 seeds; the first point of each label stays for certain."""
    state = begin(mixture(1_000))
    after, kept = screened(state, mixture(SPAN, seed=8))
    # Of points that were drawn the weight is u / pi: at half the rate each stays with one half.
    assert not after.thinned
    full, found, sizes = kept, [], []
    for seed in range(400):
        own = Points.union([full])
        left = own.take(slice(0, _thin(replace(after, thinned=1), own, (seed, 0, 0))))
        for label in (-1, 1):
            assert np.equal(left.X, full.X[full.y == label][0]).all(axis=1).any()
        found.append(sums_of(left))
        sizes.append(len(left))
    assert np.abs(z_scores(found, sums_of(full))).max() < 3.5
    assert abs(np.mean(sizes) - len(full) / 2) < 0.05 * len(full)
    assert max(sizes) - min(sizes) <= 1


def test_a_stream_that_changes_is_thinned_and_stays_exact() -> None:
    """Rows that are worth far more than before use up the room: fewer are kept, and every label's weight stays."""
    state = begin(mixture(1_000))
    rows = mixture(SPAN, seed=9)
    rows.X[1_000:, 0] += 60.0
    after, kept = screened(state, rows)
    assert after.thinned >= 1
    assert len(kept) < ROOM
    np.testing.assert_allclose(label_weights(after.calibrated(kept, Observed()), 2), label_weights(rows, 2), rtol=1e-12)
    totals = [screened(state, rows, seed)[1].weight.sum() for seed in range(100)]
    assert np.mean(totals) == pytest.approx(SPAN, rel=0.02)


def test_more_rows_of_a_label_that_nothing_is_known_of_are_kept() -> None:
    """An eighth of the room divided by the labels, then by chance like all others."""
    points = mixture(1_000, labels=4)
    state = begin(points.take(points.y != 2), 4)
    assert state.certain.tolist() == [1, 1, ROOM // 32, 1]
    rows = mixture(SPAN, labels=4, seed=10)
    rows = rows.take((rows.y != 2) | (np.arange(SPAN) % 10 == 0))
    after, kept = screened(state, rows)
    assert not after.thinned
    first = rows.take(np.flatnonzero(rows.y == 2)[: ROOM // 32])
    np.testing.assert_array_equal(kept.X[kept.y == 2][: len(first)], first.X)
    assert (kept.weight[kept.y == 2][: len(first)] == 1.0).all()


def test_the_rate_fills_its_share_of_the_room() -> None:
    """The expected number of kept points is the target, also where some are kept for certain."""
    random = np.random.default_rng(11)
    for spread in (0.1, 1.0, 3.0):
        worth, expected = 10.0 ** random.uniform(-spread, spread, 500), random.uniform(1.0, 50.0, 500)
        kept = expected @ np.minimum(1.0, _rate(worth, expected, 100.0) * worth)
        assert kept == pytest.approx(100.0, rel=0.05)
    state = begin(mixture(1_000, decades=2.0))
    sizes = [len(screened(state, mixture(SPAN, seed=seed, decades=2.0), seed)[1]) for seed in range(30)]
    assert np.mean(sizes) == pytest.approx(TARGET * ROOM, rel=0.1)


@pytest.mark.parametrize("function", [_evaluate, _keep, landmarks._decide])
def test_no_library_algebra_on_rows_as_they_come(function: object) -> None:
    """A library's sums run in another order for another number of rows: bits would depend on batches."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function.py_func)))  # type: ignore[attr-defined]
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert not names & {"dot", "vdot", "inner", "matmul", "einsum", "tensordot", "sum", "mean"}
    assert not any(isinstance(node, ast.MatMult) for node in ast.walk(tree))
    assert not any("fastmath" in ast.unparse(each) for each in ast.walk(tree) if isinstance(each, ast.expr))

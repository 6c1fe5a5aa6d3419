"""Pilots of additive machines: their margins, when they give way, and what a state may hold of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset.buckets import Moments, label_weights
from streamsvm.coreset.curves import Curves, are_curves, measured_by_curves
from streamsvm.coreset.partition import Partition
from streamsvm.coreset.pilot import Measured
from streamsvm.coreset.state import Names, check_partition, decode_state, encode_state
from streamsvm.errors import CorruptCheckpoint
from streamsvm.points import Points, Position
from tests.coreset.streams import batches, rows_of

NAMES = Names(0, "Zq1", "ab12", "")
CONFIG = ModelConfig(
    points=PointsConfig(dimension=3, labels=(-1, 1)),
    coreset=CoresetConfig(points=1_500),
    svm=SvmConfig(kernel="additive"),
)


def waves(n: int, seed: int = 0, *, crossed: bool = True) -> Points:
    """Return rows whose label is a wave, and a product of two features: no plane tells them apart."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3)) * [1.0, 10.0, 0.1] + [5.0, 0.0, -1.0]
    z = (X - [5.0, 0.0, -1.0]) / [1.0, 10.0, 0.1]
    above = np.sin(3.0 * z[:, 0]) + crossed * z[:, 1] * z[:, 2] > 0.0
    return Points(X.astype(np.float32), np.where(above, 1, -1).astype(np.int8), np.ones(n))


def measured(points: Points, rows: int | None = None, before: Measured | None = None) -> Measured:
    seen = Moments.zero(3).add(points)
    pilot = None if before is None else before.pilot
    found = measured_by_curves(points, seen, rows or len(points), CONFIG, np.random.default_rng(0), pilot)
    assert found is not None
    return found


def read(curves: Curves, X: np.ndarray) -> np.ndarray:
    """Return decision values, feature by feature and surface by surface."""
    z = (X.astype(np.float64) - curves.scaling[0]) * curves.scaling[1]
    total, start = np.full(len(X), curves.intercept), 0
    for j, (first, last) in enumerate(zip(curves.begin[:-1], curves.begin[1:], strict=True)):
        if last > first:
            total += np.interp(z[:, j], curves.knots[first:last], curves.values[first:last])
    for a, b in curves.pairs:
        axes = [curves.coarse[curves.borders[one] : curves.borders[one + 1]] for one in (a, b)]
        cells = curves.cells[start : start + len(axes[0]) * len(axes[1])].reshape(len(axes[0]), -1)
        start += cells.size
        along = np.array([np.interp(z[:, b], axes[1], row) for row in cells])
        total += [np.interp(z[i, a], axes[0], along[:, i]) for i in range(len(X))]
    return total


def test_margins_are_sums_of_curves_and_surfaces() -> None:
    """As numpy interpolates them, within knots and beyond; they tell rows apart that the pilot has not seen."""
    curves, new = measured(waves(1_500)).pilot.curves, waves(2_000, 1)
    assert curves is not None
    assert [1, 2] in curves.pairs.tolist()
    wild = replace(new, X=np.concatenate([new.X[:1_000], 1e6 * new.X[1_000:]]))
    np.testing.assert_allclose(curves.decide(wild)[0], read(curves, wild.X), rtol=1e-9, atol=1e-9)
    right = np.sign(curves.decide(new)[0]) == new.y
    assert right.mean() > 0.87
    for size in (1, 7, 129):
        parts = [curves.decide(new.take(slice(at, at + size))) for at in range(0, 2_000, size)]
        assert np.concatenate(parts, axis=1).tobytes() == curves.decide(new).tobytes()


def test_points_near_the_border_of_the_curves_are_worth_most() -> None:
    """A linear pilot of the same rows sees no border there."""
    found = measured(waves(1_500, crossed=False))
    border = np.abs(found.margin[0]) < 0.3
    far = found.margin[0] > 1.5
    assert min(border.sum(), far.sum()) > 100
    assert found.worth[border].mean() > 3.0 * found.worth[far].mean()


def test_curves_give_way_to_a_plane() -> None:
    """Where a plane tells the labels apart, where nothing does, and where points are few; the state says so."""
    random, n = np.random.default_rng(2), 1_500
    X = random.normal(size=(n, 3)).astype(np.float32)
    plane = X[:, 0] + X[:, 1] + 0.7 * random.normal(size=n) > 0.0
    for label in (plane, random.random(n) < 0.5):
        points = Points(X, np.where(label, 1, -1).astype(np.int8), np.ones(n))
        found = measured(points)
        assert found.pilot.curves is not None
        assert len(found.pilot.curves.knots) == 0
        assert found.pilot.rough is None
    assert measured(waves(12)).pilot.rough is None


def test_curves_serve_until_the_stream_has_doubled() -> None:
    """Those that gave way are not tried again before, either."""
    for points in (waves(1_500), waves(12)):
        first = measured(points, 1_500)
        assert measured(points, 2_999, first).pilot.curves is first.pilot.curves
        assert measured(points, 3_000, first).pilot.curves is not first.pilot.curves


def test_a_stream_is_screened_by_curves_and_its_weights_are_kept() -> None:
    """Batches change no bit, the state is a valid one, and it comes back from its bytes."""
    rows, states = rows_of(waves(20_000)), []
    for size in (1_000, 137):
        partition = Partition(0, Position(0), CONFIG)
        for batch in batches(rows, partition, size):
            partition.add(batch)
        states.append(partition.state())
    first, other = states
    check_partition(first, CONFIG)
    assert first.screen is not None
    assert isinstance(first.screen.pilot.rough, Curves)
    content = encode_state(first, NAMES)
    assert encode_state(other, NAMES) == content
    assert encode_state(decode_state(content)[1], NAMES) == content
    damaged = replace(first.screen.pilot, curves=replace(first.screen.pilot.rough, begin=np.zeros(3, np.int64)))
    with pytest.raises(CorruptCheckpoint, match="the curves of the pilot"):
        check_partition(replace(first, screen=replace(first.screen, pilot=damaged)), CONFIG)
    kept = Points.union(first.parts())
    assert label_weights(kept, 2) == pytest.approx(label_weights(rows.points, 2), rel=1e-9)


@pytest.mark.parametrize(
    "damage",
    [
        {"begin": np.array([0, -1, 5, 9])},
        {"begin": np.array([0, 3, 2, 4])},
        {"begin": np.array([0, 4])},
        {"begin": np.array([0, 2**62, -(2**62), 4])},
        {"knots": np.zeros(1)},
        {"intercept": np.nan},
        {"values": np.zeros(1)},
        {"pairs": np.array([[0, 3]])},
        {"pairs": np.array([[-1, 0]])},
        {"pairs": np.zeros((1, 3), np.int64)},
        {"borders": np.array([0, 1, 2, 3])},
        {"cells": np.zeros(7)},
        {"scaling": np.zeros((2, 2))},
    ],
    ids=lambda damage: str(next(iter(damage.items()))),
)
def test_damaged_curves_are_refused(damage: dict[str, np.ndarray]) -> None:
    """Compiled code reads them without asking."""
    curves = measured(waves(1_500)).pilot.curves
    assert curves is not None
    assert are_curves(curves, 3)
    assert not are_curves(replace(curves, **damage), 3)
    for descending in ("knots", "coarse"):
        assert not are_curves(replace(curves, **{descending: getattr(curves, descending)[::-1].copy()}), 3)

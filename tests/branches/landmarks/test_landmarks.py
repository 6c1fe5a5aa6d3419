"""Landmarks: what rows are worth under them, and leaves that they screen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streamsvm.branches.landmarks.landmark_pilots import LandmarkPilot
from streamsvm.branches.landmarks.landmarks import Decided, Landmarks
from streamsvm.branches.landmarks.screens import LandmarkScreens, make_landmark_screen
from streamsvm.coreset import Moments, Observed, Screener, calibrated
from streamsvm.model import RbfKernel
from streamsvm.points import Points
from tests.learning.test_leaf_screens import config_of, kind_of
from tests.streams import ring

GAMMA = 0.3


def machine(points: Points, count: int = 24, seed: int = 1) -> tuple[Landmarks, np.ndarray, np.ndarray, float]:
    """Return landmarks with their scaled places, coefficients and intercept."""
    random = np.random.default_rng(seed)
    mean, scale = points.X.mean(axis=0, dtype=np.float64), points.X.std(axis=0, dtype=np.float64)
    places = ((points.X[:count] - mean) / scale).astype(np.float64)
    coefficients, intercept = random.normal(size=count), 0.2
    factor = np.sqrt(2.0 * GAMMA * np.log2(np.e))
    marks = Landmarks(np.stack([mean, factor / scale]), (places * factor).T.astype(np.float32), coefficients, intercept)
    return replace(marks, places=np.ascontiguousarray(marks.places)), places, coefficients, intercept


def pilot_of(points: Points, marks: Landmarks | None, class_weight: tuple[float, float] = (1.0, 1.0)) -> LandmarkPilot:
    """Return a pilot with these landmarks, or a crowded one."""
    return LandmarkPilot(
        penalty=1.0,
        mean=points.X.mean(axis=0, dtype=np.float64),
        scale=points.X.std(axis=0, dtype=np.float64),
        coefficients=np.zeros(points.dimension),
        intercept=0.0,
        lower_bound=1e-300 if marks else 0.0,
        class_weight=class_weight,
        decisions=marks.decisions(points.X) if marks else None,
        landmarks=marks,
        crowded=marks is None,
    )


def screened(points: Points, pilot: LandmarkPilot) -> tuple[Screener, Points]:
    """Screen points by a pilot of themselves, with room for 400; return the screener and what was kept."""
    seen = Moments.zero(points.dimension).add(points)
    screen = make_landmark_screen(points, pilot, seen, len(points), len(points), 400)
    buffer, screener = points.take(np.zeros(400, np.intp)), Screener.begin(screen, 0, 0, 0)
    return screener, buffer.take(slice(0, screener.screen(points, np.ones(len(points), np.bool_), buffer, 0)))


def test_decisions_are_those_of_the_kernel_expansion() -> None:
    """The same sum in float64 is within the rounding of float32, far points included."""
    points = ring(500)
    marks, places, coefficients, intercept = machine(points)
    far = points.X.copy()
    far[0], far[1] = 1e30, -1e30
    Z = (far - points.X.mean(axis=0, dtype=np.float64)) / points.X.std(axis=0, dtype=np.float64)
    expected = RbfKernel(GAMMA).gram(np.clip(Z, -1e6, 1e6), places) @ coefficients + intercept
    np.testing.assert_allclose(marks.decisions(far), expected, atol=1e-4)


@pytest.mark.parametrize("count", [1, 7, 24])
def test_a_row_has_one_value(count: int) -> None:
    """Whatever stands beside it, and however many landmarks there are: they are asked in pairs."""
    points = ring(300)
    marks = machine(points, count)[0]
    whole = marks.decisions(points.X)
    alone = np.concatenate([marks.decisions(points.X[at : at + 1]) for at in range(len(points))])
    assert whole.tobytes() == alone.tobytes()


def test_known_rows_are_not_asked_about_again() -> None:
    """Rows that others hold in the same order have the value that is known; from the first other one on, their own."""
    points = ring(300)
    marks = machine(points)[0]
    value = marks.decisions(points.X)
    known = Decided(marks, points.X[:200], value[:200] + 100.0)
    np.testing.assert_array_equal(marks.decisions(points.X, known), np.append(value[:200] + 100.0, value[200:]))
    some = [3, 7, 7, 199]
    np.testing.assert_array_equal(marks.decisions(points.X[some], known), value[some] + [100.0, 100.0, 0.0, 0.0])
    other = Decided(machine(points, seed=2)[0], points.X, value + 100.0)
    np.testing.assert_array_equal(marks.decisions(points.X, other), value)


@pytest.mark.parametrize("crowded", [False, True])
def test_a_screened_leaf_does_not_depend_on_batches(crowded: bool) -> None:
    """Rows one by one, in tens or all at once: the same points under the same weights, to the last bit."""
    points = ring(3_000)
    marks = None if crowded else machine(points)[0]
    seen = Moments.zero(points.dimension).add(points)
    screen = make_landmark_screen(points.take(slice(0, 400)), pilot_of(points, marks), seen, 2_000, 2_000, 100)
    kept = []
    for step in (1, 10, 2_000):
        buffer, count = points.take(np.zeros(100, np.intp)), 0
        screener = Screener.begin(screen, 3, 1, 2)
        for start in range(1_000, 3_000, step):
            part = points.take(slice(start, start + step))
            count = screener.screen(part, np.ones(len(part), np.bool_), buffer, count)
        held = calibrated(buffer.take(slice(0, count)), screener.state, Observed())
        kept.append((held.X.tobytes(), held.y.tobytes(), held.weight.tobytes(), screener.state.moments.mean.tobytes()))
    assert kept[0] == kept[1] == kept[2]


@pytest.mark.parametrize("class_weight", [(1.0, 1.0), (1.0, 8.0)])
def test_a_screened_leaf_keeps_the_weight_of_each_label(class_weight: tuple[float, float]) -> None:
    """Exactly, of all rows, and exact moments of them; most of what it keeps is near the margin."""
    points = ring(4_000)
    marks = machine(points)[0]
    pilot = pilot_of(points, marks, class_weight)
    seen = Moments.zero(points.dimension).add(points)
    screener, kept = screened(points, pilot)
    held = calibrated(kept, screener.state, Observed())
    for sign in (-1, 1):
        assert held.weight[held.y == sign].sum() == pytest.approx(points.weight[points.y == sign].sum())
    found = screener.state.moments
    np.testing.assert_allclose(found.mean, seen.mean, rtol=1e-9)
    np.testing.assert_allclose(found.square, seen.square, rtol=1e-6)
    assert 250 < len(kept) < 400
    share = {"kept": np.mean(held.y * marks.decisions(held.X) < 1), "all": np.mean(points.y * pilot.decisions < 1)}
    assert share["kept"] > share["all"]


def test_a_crowded_leaf_is_a_plain_sample() -> None:
    """Each row is kept with the same probability, so that points of equal weight stay equal."""
    points = ring(4_000)
    points = points.reweighted(np.ones(len(points)))
    _, kept = screened(points, pilot_of(points, None))
    assert 320 <= len(kept) <= 360
    assert np.unique(kept.weight.round(9)).size <= 2, "the first row of each label is kept for certain"
    assert np.mean(kept.y > 0) == pytest.approx(np.mean(points.y > 0), abs=0.01)


def test_leaves_are_screened_by_landmarks_where_they_are_configured() -> None:
    """And those of a tree are not."""
    assert kind_of(config_of(kernel="rbf", landmarks=8, bucket_points=128)) is LandmarkScreens
    assert kind_of(config_of(kernel="rbf", structure="tree")) is None

"""The shared reducer: one set of points for several problems."""

from __future__ import annotations

import numpy as np
import pytest

from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset.audit_sample import Sampled
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.reducers.base import Purpose, generator, reduce_for
from streamsvm.coreset.reducers.multiclass import SharedPilot, every_class
from streamsvm.learning import SHARED_REDUCERS, OneVsRest
from streamsvm.points import Points

SHARES = (0.5, 0.3, 0.18, 0.02)


def clouds(n: int, seed: int = 0) -> Points:
    random = np.random.default_rng(seed)
    y = random.choice(len(SHARES), n, p=SHARES)
    centres = np.random.default_rng(1).normal(size=(len(SHARES), 3)) * 1.5
    return Points(centres[y] + random.normal(size=(n, 3)), y.astype(np.int8), random.uniform(0.5, 2.0, n))


def seen_of(points: Points) -> Moments:
    return Moments.zero(points.dimension, len(SHARES)).add(points)


def pilot_of(points: Points, kernel: str = "linear", class_weight: tuple[float, ...] | None = None) -> SharedPilot:
    config = ModelConfig(points=PointsConfig(dimension=points.dimension), svm=SvmConfig(kernel=kernel, alpha=1e-3))
    task = OneVsRest(len(SHARES), class_weight)
    return task.pilot(points, float(points.weight.sum()), seen_of(points), config)


def reduced(reducer: str, points: Points, m: int, pilot: SharedPilot, seed: int = 0) -> Points:
    random = generator(seed, Purpose.NODE, (0, 0, 0))
    return reduce_for(SHARED_REDUCERS[reducer](CoresetConfig()), points, m, random, pilot)


def of_classes(points: Points) -> np.ndarray:
    return np.bincount(points.y, weights=points.weight, minlength=len(SHARES))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_weight_of_each_class_is_exact(kernel: str) -> None:
    """Whatever is drawn, each class keeps its total, class weights or not."""
    points = clouds(800)
    for class_weight in (None, (1.0, 2.0, 0.5, 20.0)):
        few = reduced("calibrated", points, 120, pilot_of(points, kernel, class_weight))
        assert len(few) <= 120
        np.testing.assert_allclose(of_classes(few), of_classes(points), rtol=1e-12)


def test_the_gradient_of_every_problem_is_exact() -> None:
    """Where there are points enough, each pilot's hinge gradient on the few is that on all."""
    points = clouds(2_000)
    pilot = pilot_of(points)
    few = reduced("calibrated", points, 400, pilot)

    def gradient(of: Points, label: int) -> np.ndarray:
        own, problem = pilot.pilots[label], of.against_the_rest(label)
        Z = own.transform(of.X)
        active = problem.y * (Z @ own.coefficients + own.intercept) < 1.0
        return (of.weight * problem.y * active) @ Z

    for label in range(len(SHARES)):
        size = np.abs(gradient(points, label)).max() + 1.0
        np.testing.assert_allclose(gradient(few, label) / size, gradient(points, label) / size, atol=1e-6)


@pytest.mark.parametrize("m", [4, 5, 9, 40])
def test_a_rare_class_is_never_lost(m: int) -> None:
    """With as many points as classes or more, every class comes back, for every seed."""
    points = clouds(600)
    pilot = pilot_of(points)
    for seed in range(10):
        assert set(reduced("calibrated", points, m, pilot, seed).y) == set(range(len(SHARES)))


def test_shares_that_suffice_are_left_alone() -> None:
    """Importance is only mixed with an equal share where a class would get less than a point."""
    share, y = np.array([0.4, 0.4, 0.1, 0.1]), np.array([0, 0, 1, 1], np.int8)
    np.testing.assert_array_equal(every_class(share, y, 10), share)
    raised = every_class(share, y, 3)
    assert raised.sum() == pytest.approx(1.0)
    assert raised[2:].sum() * 3 >= 1.0


@pytest.mark.parametrize("reducer", ["uniform", "sensitivity", "calibrated"])
def test_sums_are_right_on_average(reducer: str) -> None:
    """The mean over seeds of each class's total and first moment is that of all points (within five standard errors,
    and calibration's small bias)."""
    points = clouds(500)
    pilot = pilot_of(points)
    sums = []
    for seed in range(150):
        few = reduced(reducer, points, 60, pilot, seed)
        sums.append(np.concatenate([of_classes(few), few.weight @ few.X]))
    exact = np.concatenate([of_classes(points), points.weight @ points.X])
    spread = np.std(sums, axis=0) / np.sqrt(len(sums))
    scale = np.concatenate([np.full(len(SHARES), points.weight.sum()), points.weight @ np.abs(points.X)])
    assert (np.abs(np.mean(sums, axis=0) - exact) <= 5.0 * spread + 0.01 * scale).all()


def test_an_absent_class_takes_no_part() -> None:
    """A class that has not come yet has no problem; the others are reduced as if it were not asked for."""
    points = clouds(600)
    points = points.take(points.y != 3)
    pilot = pilot_of(points)
    assert set(pilot.bounded) == {0, 1, 2}
    np.testing.assert_allclose(of_classes(reduced("calibrated", points, 80, pilot)), of_classes(points), rtol=1e-12)


def test_one_class_alone_is_sampled_by_weight() -> None:
    """Without a second class no problem has a bound, and the total stays."""
    points = clouds(300)
    points = points.take(points.y == 0)
    pilot = pilot_of(points)
    assert pilot.lower_bound == 0.0
    few = reduced("calibrated", points, 30, pilot)
    assert few.weight.sum() == pytest.approx(points.weight.sum())


def test_balanced_weights_keep_the_total() -> None:
    """Each class that came has an equal part; one that did not has the weight 1."""
    weights = OneVsRest(4, "balanced").class_weights(np.array([1.0, 3.0, 0.0, 8.0]))
    np.testing.assert_allclose(np.array(weights) * [1.0, 3.0, 0.0, 8.0], [4.0, 4.0, 0.0, 4.0])
    assert weights[2] == 1.0


def test_an_audit_sample_is_one_of_every_problem() -> None:
    """Each problem sees the same points under its own signs, and the exact weight of its class and of the others."""
    points = clouds(50)
    sample = Sampled(points, 1.5, of_classes(points))
    views = OneVsRest(len(SHARES)).samples([sample])
    assert len(views) == len(SHARES)
    for label, (view,) in enumerate(views):
        assert view.threshold == 1.5
        np.testing.assert_array_equal(view.points.y == 1, points.y == label)
        own = float(points.weight[points.y == label].sum())
        np.testing.assert_allclose(view.class_weight, [points.weight.sum() - own, own])


def test_moments_count_every_class() -> None:
    """Merged moments have each class's exact total; a problem's are that class's against the sum of the others."""
    points = clouds(400)
    half = [seen_of(points.take(slice(0, 150))), seen_of(points.take(slice(150, None)))]
    merged = half[0].merge(half[1])
    np.testing.assert_allclose(merged.class_weight, of_classes(points))
    against = merged.against_the_rest(2)
    assert against.class_weight[1] == merged.class_weight[2]
    assert against.weight == pytest.approx(merged.weight)

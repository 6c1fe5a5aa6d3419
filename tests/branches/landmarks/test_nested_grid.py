"""The nested grid: what is trained on and what judges, cells that are followed, and what is chosen between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score
from sklearn.svm import SVC

from streamsvm.branches.landmarks.nested_grid import (
    Grid,
    GridScores,
    _path,
    between,
    mixed,
    promising,
    search,
    sizes,
    smoothed,
)
from streamsvm.branches.landmarks.rough_descent import KernelRows, RoughDescent
from streamsvm.config import ModelConfig
from streamsvm.learning import judging
from streamsvm.learning.tuning import is_due
from streamsvm.model.kernels import RbfKernel
from tests.streams import ring

GAMMAS = (0.05, 0.2, 0.8, 3.2)
BOXES = (0.1, 1.0, 10.0)


def grid(n: int = 3_000) -> Grid:
    points = ring(n)
    Z = np.ascontiguousarray((points.X - points.X.mean(axis=0)) / points.X.std(axis=0), dtype=np.float64)
    flipped = np.random.default_rng(1).random(n) < 0.1
    return Grid(
        Z=Z,
        y=np.where(flipped, -points.y, points.y).astype(np.int8),
        weight=points.weight,
        gammas=GAMMAS,
        boxes=BOXES,
        tolerance=1e-3,
        judge=judging.accuracy,
    )


def test_decisions_aside_are_those_of_a_machine_of_the_few() -> None:
    """Points that judge have no part in a run, whose decision values of them are those of scikit-learn."""
    made, few = grid(600), 400
    source = KernelRows(made.Z, few, 0.2)
    runs = _path(source, made.y[:few], made.weight[:few], RbfKernel(0.2), BOXES, made)
    for box, decision in zip(BOXES, runs, strict=True):
        machine = SVC(C=box, gamma=0.2, tol=1e-4).fit(made.Z[:few], made.y[:few], made.weight[:few])
        np.testing.assert_allclose(decision, machine.decision_function(made.Z[few:]), atol=0.1)


def test_where_no_point_of_a_label_is_among_the_few_the_other_is_answered() -> None:
    """With a label of six points in 2,000, a search ends, and no score is NaN."""
    made = grid(2_000)
    rare = replace(made, y=np.where(np.arange(2_000) < 6, 1, -1).astype(np.int8))
    assert np.isfinite(search(rare, np.random.default_rng(0))[-1].mean).all()
    source = KernelRows(made.Z, 50, 0.2)
    for decision in _path(source, -np.ones(50, np.int8), np.ones(50), RbfKernel(0.2), BOXES, made):
        assert decision.shape == (1_950,)
        assert (decision < 0).all()


def test_a_run_that_float32_cannot_end_is_confirmed_in_double() -> None:
    """Where boxes are so large that its errors reach the tolerance, sums are computed from scratch."""
    made = grid(600)
    confirmed = []
    for box in (1.0, 1e6):
        run = RoughDescent(made.Z, made.y, box * made.weight, RbfKernel(0.2), 0.03)
        run.advance(20_000)
        confirmed.append(run.exact)
    assert confirmed == [False, True]


def test_any_stretch_of_the_order_has_its_share_of_each_label() -> None:
    """So what is trained on and what judges are alike, and the same points are in any larger size."""
    y = np.where(np.arange(5_000) < 500, 1, -1).astype(np.int8)
    order = mixed(y, np.random.default_rng(0))
    assert sorted(order) == list(range(5_000))
    for start in (0, 1_000, 4_500):
        assert np.mean(y[order[start : start + 500]] > 0) == pytest.approx(0.1, abs=0.005)


def test_work_is_bounded_by_the_points_given() -> None:
    """A twentieth is trained on at most, of few points half; of two sizes, the first has every second box."""
    assert [sizes(points) for points in (60, 1_000, 6_000, 10_000)] == [[30], [128], [150, 300], [250, 500]]
    found = search(grid(10_000), np.random.default_rng(0))
    assert [np.isfinite(judged.mean).sum() for judged in found] == [8, 6]
    assert np.isfinite(search(grid(2_000), np.random.default_rng(0))[-1].mean).all()


def test_the_choice_is_as_good_as_the_best_of_all_cells() -> None:
    """Trained on ten times the points, no cell is better by more than half a point, and the worst is far worse."""
    made = replace(grid(6_000), y=ring(6_000).y)

    def right(gamma: float, box: float) -> float:
        machine = SVC(C=box, gamma=gamma).fit(made.Z[:3_000], made.y[:3_000])
        return float(np.mean(machine.predict(made.Z[3_000:]) == made.y[3_000:]))

    every = [right(gamma, box) for gamma in GAMMAS for box in BOXES]
    assert min(every) < max(every) - 0.05
    for seed in range(3):
        chosen = between(search(made, np.random.default_rng(seed))[-1], made, 3_000)
        assert right(*chosen) > max(every) - 0.005


def test_neighbours_say_where_good_cells_are() -> None:
    """One lucky cell among bad ones is given up before any of a good region."""
    mean = np.zeros((6, 5))
    mean[0, 0] = 1.0
    mean[3:, 2:] = 0.9
    assert not promising(smoothed(mean), 9)[0, 0]
    assert promising(smoothed(mean), 9)[3:, 2:].all()
    assert promising(mean, 1)[0, 0]
    np.testing.assert_allclose(smoothed(np.full((3, 4), -0.7)), -0.7)


def test_gamma_grows_with_the_points_and_only_neighbours_count() -> None:
    """By their number to the power 2 / (d + 2), of 3 features; of the best three cells beside the best one."""
    made = grid(600)
    mean = np.array([[0.0, 0.0, 0.9], [0.0, 0.7, 0.0], [0.0, 0.9, 1.0], [0.6, 0.0, 0.8]])
    judged = GridScores(150, mean, mean)
    gamma, box = (0.8 * 0.8 * 3.2) ** (1 / 3), (10.0 * 1.0 * 10.0) ** (1 / 3)
    assert between(judged, made, 100) == pytest.approx((gamma, box))
    assert between(judged, made, 600) == pytest.approx((4.0 ** (2 / 5) * gamma, box))


def test_a_search_waits_until_the_stream_has_grown() -> None:
    """To twice its rows; not where the past is forgotten, which a new choice may be due to."""
    coreset = {"memory_points": 4_500, "max_partitions": 1}
    svm = {"kernel": "rbf", "tune": "auto", "tune_every_leaves": 1}
    config = ModelConfig.model_validate({"points": {"dimension": 2}, "coreset": coreset, "svm": svm})
    rows = 100 * config.coreset.leaf_rows
    assert [is_due(rows, tuned, config) for tuned in (None, rows // 3, rows // 2, rows // 2 + 9)] == [
        True,
        True,
        True,
        False,
    ]
    window = ModelConfig.model_validate(
        {"points": {"dimension": 2}, "coreset": coreset | {"memory": "window", "window_points": 10_000}, "svm": svm}
    )
    assert is_due(rows, rows - window.coreset.leaf_rows, window)


def test_judges_are_scikit_learns_figures() -> None:
    """Under weights, with equal decision values among them."""
    random = np.random.default_rng(0)
    y = np.where(random.random(400) < 0.3, 1, -1).astype(np.int8)
    decision, weight = np.round(y + random.normal(scale=1.5, size=400), 1), random.uniform(0.5, 3.0, 400)
    assert judging.auc(decision, y, weight) == pytest.approx(roc_auc_score(y, decision, sample_weight=weight))
    expected = balanced_accuracy_score(y, np.where(decision > 0, 1, -1), sample_weight=weight)
    assert judging.balanced_accuracy(decision, y, weight) == pytest.approx(expected)
    least = min(
        log_loss(y, 1.0 / (1.0 + np.exp(-(a * decision + b))), sample_weight=weight)
        for a in np.linspace(0.2, 2.0, 40)
        for b in np.linspace(-2.0, 1.0, 40)
    )
    assert -judging.log_loss(decision, y, weight) == pytest.approx(least, abs=0.003)
    costs = [
        weight @ np.where(y > 0, 5.0 * (decision < border), 1.0 * (decision >= border)) / weight.sum()
        for border in [*np.unique(decision), np.inf]
    ]
    assert -judging.cost_of(5.0, 1.0)(decision, y, weight) == pytest.approx(min(costs))

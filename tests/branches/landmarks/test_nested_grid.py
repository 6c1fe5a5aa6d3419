"""The nested grid: folds that are left out, cells that are followed, and where gamma is continued to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score
from sklearn.svm import SVC

from streamsvm.branches.landmarks.nested_grid import (
    Grid,
    GridScores,
    _judged,
    _path,
    _Size,
    continued,
    nested,
    promising,
    search,
)
from streamsvm.branches.landmarks.rough_descent import KernelMatrix, RoughDescent
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
    fold = np.random.default_rng(0).integers(5, size=n)
    flipped = np.random.default_rng(1).random(n) < 0.1
    return Grid(
        Z=Z,
        y=np.where(flipped, -points.y, points.y).astype(np.int8),
        weight=points.weight,
        fold=fold,
        gammas=GAMMAS,
        boxes=BOXES,
        tolerance=1e-3,
        judge=judging.accuracy,
        folds=tuple(range(5)),
    )


def test_what_is_left_out_has_no_part_in_a_machine() -> None:
    """Decision values of a run in which some points have no box are those of scikit-learn without these points."""
    made = grid(600)
    aside = made.fold == 2
    runs = _path(made.Z, made.y, np.where(aside, 0.0, made.weight), RbfKernel(0.2), BOXES, 1e-3)
    for box, decision in zip(BOXES, runs, strict=True):
        machine = SVC(C=box, gamma=0.2, tol=1e-4).fit(made.Z[~aside], made.y[~aside], made.weight[~aside])
        np.testing.assert_allclose(decision, machine.decision_function(made.Z), atol=0.1)


def test_a_kept_matrix_gives_the_decisions_of_computed_values() -> None:
    """Kernel values that serve all folds and boxes of a gamma are those that a run would compute."""
    made = grid(600)
    part = made.Z, made.y, np.where(made.fold == 1, 0.0, made.weight), RbfKernel(0.2), BOXES, 1e-3
    for kept, computed in zip(_path(*part, KernelMatrix(made.Z, 0.2)), _path(*part), strict=True):
        np.testing.assert_allclose(kept, computed, atol=0.05)


def test_a_run_that_float32_cannot_end_is_confirmed_in_double() -> None:
    """Where boxes are so large that its errors reach the tolerance, sums are computed from scratch."""
    made = grid(600)
    confirmed = []
    for box in (1.0, 1e6):
        run = RoughDescent(made.Z, made.y, box * made.weight, RbfKernel(0.2), 0.03)
        run.advance(20_000)
        confirmed.append(run.exact)
    assert confirmed == [False, True]


def test_sizes_are_nested_and_hold_each_fold_and_label() -> None:
    """A fold of a smaller size is a part of the same fold of a larger one; the last size is everything."""
    made = grid(12_000)
    sizes = nested(made, np.random.default_rng(0))
    assert [len(chosen) for chosen in sizes] == pytest.approx([750, 3_000, 12_000], abs=10)
    assert set(sizes[0]) < set(sizes[1])
    for chosen in sizes:
        assert np.mean(made.y[chosen] > 0) == pytest.approx(np.mean(made.y > 0), abs=0.01)
        assert (np.bincount(made.fold[chosen]) / len(chosen)).min() > 0.18


def test_each_size_has_points_of_a_label_in_five_hundred() -> None:
    """0.2 % positives, four a fold: all are in the smallest size, weigh their share, and tell its cells apart."""
    random, n = np.random.default_rng(0), 10_000
    Z = random.normal(size=(n, 2))
    far = Z.sum(axis=1)
    y = np.where(far > np.quantile(far, 0.998), 1, -1).astype(np.int8)
    made = replace(grid(n), Z=Z, y=y, fold=np.argsort(np.argsort(far)) % 5)
    smallest, *_, last = nested(made, random)
    assert np.sum(y[smallest] > 0) == np.sum(y[last] > 0) == 20
    size = _Size.of(made, smallest)
    share = size.weight[size.y > 0].sum() / size.weight.sum()
    assert share == pytest.approx(made.weight[y > 0].sum() / made.weight.sum())
    assert size.weight.mean() == pytest.approx(1.0)
    judged = _judged(made, size, np.ones((len(GAMMAS), len(BOXES)), np.bool_), made.folds)
    assert judged.mean(axis=0).max() > judged.mean(axis=0).min()


def test_the_chosen_cell_is_as_good_as_the_best_of_all() -> None:
    """Judged on all points, no cell that was given up is better by more than a fold's noise."""
    made = grid()
    found = search(made, np.random.default_rng(0))
    assert [np.isfinite(judged.mean).sum() for judged in found] == [12, 4]
    scores = np.zeros((len(GAMMAS), len(BOXES)))
    for fold in range(2):
        aside = made.fold == fold
        for row, gamma in enumerate(GAMMAS):
            runs = _path(made.Z, made.y, np.where(aside, 0.0, made.weight), RbfKernel(gamma), BOXES, 1e-3)
            scores[row] += [0.5 * made.judge(run[aside], made.y[aside], made.weight[aside]) for run in runs]
    assert scores[found[-1].best] > scores.max() - 0.005


def test_neighbours_of_a_larger_gamma_are_followed() -> None:
    """The optimum moves that way as points grow."""
    mean = np.zeros((5, 2))
    mean[1, 0], mean[3, 1] = 0.9, 0.8
    cells = promising(GridScores(100, mean, mean), 5)
    assert {(int(gamma), int(box)) for gamma, box in np.argwhere(cells)} == {(0, 0), (1, 0), (2, 0), (3, 1), (4, 1)}


def test_gamma_is_continued_by_its_growth() -> None:
    """Not beyond a square root of the points, and never downwards."""

    def judged(points: int, best: int) -> GridScores:
        mean = -np.abs(np.arange(6.0)[:, None] - best)
        return GridScores(points, mean, mean)

    gammas = tuple(2.0**power for power in range(6))
    grown = [judged(1_000, 1), judged(4_000, 2)]
    assert continued(grown, gammas, 16_000) == pytest.approx(8.0)
    assert continued([judged(1_000, 1), judged(4_000, 3)], gammas, 16_000) == pytest.approx(16.0)
    assert continued([judged(1_000, 4), judged(4_000, 2)], gammas, 64_000) == pytest.approx(4.0)
    assert continued(grown, gammas, 3_000) == pytest.approx(4.0)


def test_a_search_waits_until_the_stream_has_grown() -> None:
    """By half; not where the past is forgotten, which a new choice may be due to."""
    coreset = {"memory_points": 4_500, "max_partitions": 1}
    svm = {"kernel": "rbf", "tune": "auto", "tune_every_leaves": 1}
    config = ModelConfig.model_validate({"points": {"dimension": 2}, "coreset": coreset, "svm": svm})
    rows = 100 * config.coreset.leaf_rows
    assert [is_due(rows, tuned, config) for tuned in (None, rows // 2, rows * 2 // 3, rows * 2 // 3 + 9)] == [
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

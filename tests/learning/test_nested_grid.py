"""The nested grid: what is trained on and what judges, how scores are continued, and what is chosen between cells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from streamsvm.config import ModelConfig
from streamsvm.learning import is_due, judging, nested_grid, tune, tuning
from streamsvm.learning.nested_grid import Grid, GridScores, _path, _weight, between, continued, drawn, search, smoothed
from streamsvm.model import RbfKernel
from streamsvm.svm import Descent, KernelRows, rough_decisions
from tests.learning.test_tuning import cut_of
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
    b, intercept = _path(made.Z[:few], 0.2, None, made.y[:few], made.weight[:few], BOXES, made)
    (runs,) = rough_decisions(made.Z[:few], made.Z[few:], (0.2,), b[None])
    for box, decision in zip(BOXES, runs + intercept[:, None], strict=True):
        machine = SVC(C=box, gamma=0.2, tol=1e-4).fit(made.Z[:few], made.y[:few], made.weight[:few])
        np.testing.assert_allclose(decision, machine.decision_function(made.Z[few:]), atol=0.1)


def test_where_the_few_have_one_label_it_is_answered() -> None:
    """A machine of one label has its answer for every box."""
    made = grid(2_000)
    b, intercept = _path(
        made.Z[:50], 0.2, KernelRows(made.Z[:50], 0.2), -np.ones(50, np.int8), np.ones(50), BOXES, made
    )
    assert intercept == pytest.approx([-1.0] * 3)
    assert not rough_decisions(made.Z[:50], made.Z[50:], (0.2,), b[None]).any()


def test_a_run_that_float32_cannot_end_is_confirmed_in_double() -> None:
    """Where boxes are so large that its errors reach the tolerance, sums are computed from scratch."""
    made = grid(600)
    for source in (None, KernelRows(made.Z, 0.2, KernelRows(made.Z, 0.1))):
        confirmed = []
        for box in (1.0, 1e6):
            run = Descent(made.Z, made.y, box * made.weight, RbfKernel(0.2), 0.03, source=source, rough=True)
            run.advance(20_000)
            confirmed.append(run.exact)
        assert confirmed == [False, True]


def test_weights_make_up_for_a_label_of_which_more_are_drawn() -> None:
    """Each label keeps its share of the weight, and points of it their ratio."""
    random = np.random.default_rng(0)
    y, weight = np.where(np.arange(20_000) < 100, 1, -1).astype(np.int8), random.uniform(1.0, 3.0, 20_000)
    few = drawn(y, 500, random, 0.5)
    own = _weight(y, weight, few)
    assert own[y[few] > 0].sum() / own.sum() == pytest.approx(weight[y > 0].sum() / weight.sum())
    assert own.mean() == pytest.approx(1.0)
    assert own[0] / own[1] == pytest.approx(weight[few[0]] / weight[few[1]])


def test_with_a_label_in_two_hundred_the_choice_beats_the_other_label() -> None:
    """0.5 % positives in a corner: what is chosen finds most of them, whatever the seed."""
    random = np.random.default_rng(0)
    Z = random.normal(size=(24_000, 2))
    far = Z.sum(axis=1)
    y = np.where(far > np.quantile(far, 0.995), 1, -1).astype(np.int8)
    made = replace(grid(), Z=Z[:12_000], y=y[:12_000], weight=np.ones(12_000))
    some = drawn(made.y, nested_grid.MANY + nested_grid.JUDGES, random)
    few = replace(made, Z=made.Z[some], y=made.y[some], weight=_weight(made.y, made.weight, some))
    for seed in range(3):
        gamma, box = between(search(few, np.random.default_rng(seed), 12_000).continued, few)
        answers = SVC(C=box, gamma=gamma).fit(Z[:12_000], y[:12_000]).predict(Z[12_000:])
        assert np.mean(answers[y[12_000:] > 0] > 0) > 0.8


@pytest.mark.parametrize(
    ("points", "size"), [(10_000, 1_000), (4_000, 1_000), (2_400, 600), (1_900, 250), (300, 240), (20, 16)]
)
def test_work_is_bounded_however_many_points(points: int, size: int) -> None:
    """Of few points most learn and every cell has one machine; of more, a few cells have one of the larger size."""
    found = search(grid(points), np.random.default_rng(0), points)
    assert found.points == pytest.approx(size, abs=1)
    assert np.isfinite(found.mean).all()  # of a grid as small as what is followed


def test_the_choice_is_as_good_as_the_best_of_all_cells() -> None:
    """Trained on six times the points, no cell is better by more than half a point, and the worst is far worse."""
    made = replace(grid(6_000), y=ring(6_000).y)
    d = made.Z.shape[1]
    searched = replace(made, gammas=tuple(width / d for width in nested_grid.GAMMAS), boxes=nested_grid.BOXES)

    def right(gamma: float, box: float) -> float:
        machine = SVC(C=box, gamma=gamma).fit(made.Z[:3_000], made.y[:3_000])
        return float(np.mean(machine.predict(made.Z[3_000:]) == made.y[3_000:]))

    every = [right(gamma, box) for gamma in GAMMAS for box in BOXES]
    assert min(every) < max(every) - 0.05
    for seed in range(3):
        chosen = between(search(searched, np.random.default_rng(seed), 3_000).continued, searched)
        assert right(*chosen) > max(every) - 0.005


def test_a_mean_with_neighbours_is_theirs_at_every_border() -> None:
    """A cell beside it counts half, one at a corner a fourth, and none is outside."""
    np.testing.assert_allclose(smoothed(np.full((3, 4), -0.7)), -0.7)
    mean = np.zeros((3, 4))
    mean[0, 0] = 1.0
    assert smoothed(mean)[0, :3] == pytest.approx([1 / 2.25, 0.5 / 3, 0.0])


def test_a_choice_is_between_the_best_cells() -> None:
    """Five of a whole grid, three of the cells that were followed."""
    made = grid(600)
    mean = np.array([[0.0, 0.0, 0.9], [0.0, 0.7, 0.0], [0.0, 0.9, 1.0], [0.6, 0.0, 0.8]])
    gamma, box = (0.05 * 0.2 * 0.8 * 0.8 * 3.2) ** (1 / 5), (10.0 * 1.0 * 1.0 * 10.0 * 10.0) ** (1 / 5)
    assert between(mean, made) == pytest.approx((gamma, box))
    mean[0] = np.nan
    assert between(mean, made) == pytest.approx(((0.8 * 0.8 * 3.2) ** (1 / 3), (10.0 * 1.0 * 10.0) ** (1 / 3)))


def test_a_score_is_continued_by_a_power_of_the_points() -> None:
    """A cell whose error falls as 0.1 + 70 / n^0.75 ends there; one that does not change stays."""

    def falling(n: int) -> float:
        return float(0.9 - 70.0 / n**nested_grid.LAW)

    rough, fine = np.array([falling(400), 0.8]), np.array([falling(1_600), 0.8])
    assert continued(rough, fine, 400, 1_600, 20_000) == pytest.approx([falling(20_000), 0.8])
    assert continued(rough, fine, 400, 1_600, 1_000) == pytest.approx(fine)
    assert np.isnan(continued(rough, np.full(2, np.nan), 400, 1_600, 20_000)).all()


def test_what_is_chosen_is_what_a_score_grows_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the best mean of the larger size; it comes first, and the other cells that were followed after it."""
    points = ring(2_000)
    svm = {"kernel": "rbf", "tune": "auto", "gamma": "auto"}
    monkeypatch.setattr(nested_grid, "GAMMAS", (0.05 * points.dimension, 0.2 * points.dimension))
    monkeypatch.setattr(nested_grid, "between", lambda _, grid: (grid.gammas[1], grid.boxes[2]))
    config = ModelConfig.model_validate({"points": {"dimension": points.dimension}, "svm": svm})
    mean, grown = np.full((2, 6), np.nan), np.full((2, 6), np.nan)
    mean[:, 2], grown[:, 2] = (0.9, 0.8), (0.91, 0.95)
    monkeypatch.setattr(nested_grid, "search", lambda *_: GridScores(1_000, mean, grown))
    found = tune(cut_of(points), config)
    assert [(score.gamma, score.mean) for score in found.scores] == [(0.2, 0.8), (0.05, 0.9)]
    assert found.tuning.gamma == 0.2
    assert found.tuning.alpha == pytest.approx(1.0 / (3.0 * 2_000))


@pytest.mark.parametrize("times", [2.0, 4.0, 3.0])
def test_squares_of_kernel_values_are_those_of_a_larger_gamma(times: float) -> None:
    """To what float32 resolves; of other multiples they are computed anew."""
    Z, others = grid(600).Z[:200].copy(), grid(600).Z[200:]
    gammas = (0.2, times * 0.2)
    got, expected = KernelRows(Z, gammas[1], KernelRows(Z, gammas[0])), KernelRows(Z, gammas[1])
    np.testing.assert_allclose(got.gram(np.arange(200)), expected.gram(np.arange(200)), rtol=2e-5, atol=1e-30)
    b = np.random.default_rng(0).normal(size=(2, 3, 200))
    for gamma, own, decided in zip(gammas, b, rough_decisions(Z, others, gammas, b), strict=True):
        np.testing.assert_allclose(decided, own @ rbf_kernel(Z, others, gamma), atol=1e-4)


def test_a_search_waits_until_the_stream_has_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    """To five times its rows; not where the past is forgotten, which a new choice may be due to."""
    monkeypatch.setattr(tuning, "EVERY_LEAVES", 1)
    coreset = {"points": 4_500}
    svm = {"kernel": "rbf", "tune": "auto"}
    config = ModelConfig.model_validate({"points": {"dimension": 2}, "coreset": coreset, "svm": svm})
    rows = 100 * config.coreset.leaf_rows
    due = [is_due(rows, tuned, config) for tuned in (None, rows // 6, rows // 5, rows // 5 + 1)]
    assert due == [True, True, True, False]
    window = ModelConfig.model_validate(
        {"points": {"dimension": 2}, "coreset": coreset | {"memory": "window", "window": 10_000}, "svm": svm}
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

"""Tuning on a cut: against scikit-learn, what it does and does not depend on, and when it is due."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss
from sklearn.svm import SVC

from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset import Learned, Moments
from streamsvm.learning import tuning
from streamsvm.learning.learner import Cut
from streamsvm.learning.training import scaler_of
from streamsvm.learning.tuning import (
    FOLDS,
    GAMMAS,
    STEPS,
    WIDTHS,
    dealt,
    decisions,
    drawn,
    is_due,
    mean_of_best,
    subset,
    tune,
)
from streamsvm.model import RbfKernel
from streamsvm.points import Points, Position
from tests.config.sizes import sized
from tests.streams import gaussian, ring

BOXES = (0.1, 1.0, 10.0)


def cut_of(points: Points, labels: int = 2) -> Cut:
    moments = Moments.zero(points.dimension, labels).add(points)
    learned = Learned(len(points), len(points), moments.class_weight, -1, -1)
    return Cut(
        positions={0: Position(len(points))}, leader_epochs={0: 3}, points=points, moments=moments, learned=learned
    )


def config_of(points: Points, coreset: CoresetConfig | None = None, labels: int = 2, **svm: object) -> ModelConfig:
    """Return a configuration without landmarks, whose search is by folds."""
    told = {} if labels == 2 else {"labels": range(labels)}
    return ModelConfig(
        points=PointsConfig(dimension=points.dimension, **told),
        coreset=coreset or sized(landmarks=None, leaf_rows=100, bucket_points=50),
        svm=SvmConfig(**{"tune": "auto", "alpha": 1e-3, **svm}),
        seed=5,
    )


def landmarks_of(points: Points, **svm: object) -> ModelConfig:
    """Return a configuration with landmarks, whose search is nested."""
    return config_of(points, sized(), **{"kernel": "rbf", "gamma": "auto", "alpha": None, **svm})


def corners(n: int, labels: int = 4) -> Points:
    """Return labels around as many centres, not far apart, a third of them as often as the others; unequal weights."""
    random = np.random.default_rng(0)
    centres = np.random.default_rng(1).normal(size=(labels, 3))
    often = np.where(np.arange(labels) % 3 == 0, 1.0, 3.0)
    y = random.choice(labels, n, p=often / often.sum()).astype(np.int8)
    X = (centres[y] + random.normal(scale=0.5, size=(n, 3))).astype(np.float32)
    return Points(X, y, random.uniform(0.5, 2.0, n))


def scaled(points: Points) -> tuple[np.ndarray, np.ndarray]:
    """Return standardised features, and labels of which a tenth is flipped."""
    Z = np.ascontiguousarray((points.X - points.X.mean(axis=0)) / points.X.std(axis=0), dtype=np.float64)
    flipped = np.random.default_rng(1).random(len(points)) < 0.1
    return Z, np.where(flipped, -points.y, points.y).astype(np.int8)


@pytest.mark.parametrize(
    ("kernel", "multiclass", "class_weight", "scoring"),
    [
        ("linear", None, "none", "accuracy"),
        ("linear", None, "balanced", "accuracy"),
        ("rbf", None, "none", "balanced_accuracy"),
        ("rbf", None, "balanced", "accuracy"),
        ("linear", "one_vs_rest", "balanced", "accuracy"),
        ("linear", "one_vs_one", "balanced", "balanced_accuracy"),
        ("rbf", "one_vs_rest", "balanced", "balanced_accuracy"),
        ("rbf", "one_vs_one", "balanced", "accuracy"),
    ],
)
def test_scores_are_those_of_scikit_learn_on_the_same_folds(
    kernel: str, multiclass: str | None, class_weight: str, scoring: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What SVC's machines answer together of what was left out of them, in class-weighted weight."""
    folds = []
    monkeypatch.setattr(tuning, "dealt", lambda *given: folds.append(dealt(*given)) or folds[-1])
    monkeypatch.setattr(tuning, "WIDTHS", (0.5, 5.0))
    points, labels = (ring(400), 2) if multiclass is None else (corners(300), 4)
    svm = {"kernel": kernel, "multiclass": multiclass, "class_weight": class_weight, "tune_scoring": scoring}
    config = config_of(points, labels=labels, loss="hinge", gamma=0.4, alpha=1e-2, tolerance=1e-6, **svm)
    cut = cut_of(points, labels)
    found, (fold,) = tune(cut, config).scores, folds
    weight = points.class_weighted(config.svm.class_weights(cut.moments.class_weight)).weight
    Z = scaler_of(cut.moments, config.svm).transform(points.X)
    assert len(found) == len(STEPS) * (2 if kernel == "rbf" else 1)
    for score in found:
        options = {"C": score.C, "kernel": kernel, "gamma": score.gamma or "auto", "tol": 1e-4, "shrinking": False}
        shares, left = [], []
        for out in range(FOLDS):
            kept = fold != out
            said = answered(multiclass, options, (Z[kept], points.y[kept], weight[kept]), Z[~kept])
            measure = accuracy_score if scoring == "accuracy" else balanced_accuracy_score
            shares.append(measure(points.y[~kept], said, sample_weight=weight[~kept]))
            left.append(weight[~kept].sum())
        assert score.mean == pytest.approx(np.average(shares, weights=left), abs=4e-3), score
        assert score.deviation == pytest.approx(np.std(shares), abs=8e-3)


def answered(multiclass: str | None, options: dict[str, Any], train: tuple[np.ndarray, ...], Z: np.ndarray) -> Any:
    """Return what scikit-learn's machines answer; of pairs, ties go by the sums of decision values."""
    X, y, weight = train
    if multiclass != "one_vs_rest":
        return SVC(break_ties=multiclass is not None, **options).fit(X, y, sample_weight=weight).predict(Z)
    each = [SVC(**options).fit(X, y == label, sample_weight=weight).decision_function(Z) for label in range(4)]
    return np.argmax(each, axis=0)


def test_a_label_that_never_came_stops_no_choice() -> None:
    """Nor does one with a point or two: the others are told apart by the best of the values."""
    points = corners(400)
    rare = points.take((points.y < 2) | ((points.y == 2) & (np.cumsum(points.y == 2) <= 2)))
    found = tune(cut_of(rare, 4), config_of(rare, labels=4, gamma=50.0, kernel="rbf"))
    assert len(found.scores) == len(STEPS) * len(WIDTHS)
    assert max(score.mean for score in found.scores) > min(score.mean for score in found.scores)
    chosen = max(found.scores, key=lambda score: score.mean)
    assert (found.tuning.alpha, found.tuning.gamma) == (chosen.alpha, chosen.gamma)


@pytest.mark.parametrize("labels", [2, 4])
@pytest.mark.parametrize("is_nested", [False, True])
def test_with_too_few_points_of_a_label_the_configured_values_stay(labels: int, is_nested: bool) -> None:
    """Four points of a label cannot be in five folds: there is no score, and what is in force changes nothing."""
    points = gaussian(100) if labels == 2 else corners(400)
    other = points.y != points.y.min()
    few = points.take(~other | (np.cumsum(other) < FOLDS))
    config = landmarks_of(few) if is_nested and labels == 2 else config_of(few, labels=labels)
    found = tune(cut_of(few, labels), config)
    assert found.scores == ()
    assert found.tuning.applied(config.svm) == config.svm


@pytest.mark.parametrize("labels", [2, 7])
def test_a_large_training_set_is_reduced_first(labels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only `MOST_POINTS` are dealt, with about the weight of all of each label, and the choice is about as good."""
    points = ring(2_000, dimension=2) if labels == 2 else corners(3_000, labels)
    sizes = sized(landmarks=None, leaf_rows=3_000, bucket_points=1_500, train_points=3_000)
    config = config_of(points, sizes, labels, kernel="rbf" if labels == 2 else "linear")
    whole = {(score.alpha, score.gamma): score.mean for score in tune(cut_of(points, labels), config).scores}
    parts = []
    monkeypatch.setattr(tuning, "dealt", lambda some, random: parts.append(some) or dealt(some, random))
    monkeypatch.setattr(tuning, "MOST_POINTS", 400)
    chosen = tune(cut_of(points, labels), config).tuning
    assert len(parts[0]) <= 400
    own, code = np.unique(points.y, return_inverse=True)
    kept = np.bincount(np.searchsorted(own, parts[0].y), parts[0].weight, labels)
    assert kept == pytest.approx(np.bincount(code, points.weight), rel=0.25)
    assert whole[chosen.alpha, chosen.gamma] > max(whole.values()) - 0.03


def test_the_best_share_is_chosen() -> None:
    """What is chosen has the greatest share of all, and a better machine than the configured values give."""
    points = ring(600)
    found = tune(cut_of(points), config_of(points, kernel="rbf", gamma=100.0))
    best = max(found.scores, key=lambda score: score.mean)
    assert (found.tuning.alpha, found.tuning.C, found.tuning.gamma) == (best.alpha, None, best.gamma)
    configured = next(score for score in found.scores if (score.alpha, score.gamma) == (1e-3, 100.0))
    assert best.mean > configured.mean + 0.05


def test_a_fixed_c_stays_a_c() -> None:
    """Where C is configured C is chosen, among its multiples, and the boxes go on growing with the stream."""
    points = gaussian(300)
    found = tune(cut_of(points), config_of(points, alpha=None, C=2.0))
    assert {score.C for score in found.scores} == {step * 2.0 for step in STEPS}
    assert found.tuning.alpha is None
    assert found.tuning.C in {step * 2.0 for step in STEPS}
    assert found.tuning.applied(SvmConfig(C=2.0)).penalty(1e9) == found.tuning.C


@pytest.mark.parametrize("told", [config_of, landmarks_of])
def test_the_same_cut_gives_the_same_bits(told: Any) -> None:
    """Neither how many partitions are empty, nor a run before it changes a score."""
    points = ring(300)
    cut, config = cut_of(points), told(points, kernel="rbf")
    first = tune(cut, config)
    tune(cut_of(ring(200, seed=9)), config)
    assert tune(cut, config) == first
    other = replace(cut, positions={0: Position(7), 1: Position(0)})
    assert tune(other, config).scores == first.scores


def test_each_fold_gets_its_part_of_each_label_and_of_the_heavy_points() -> None:
    """Counts differ by one at most; of the five heaviest points of a label each fold has one."""
    points = gaussian(503)
    heavy = replace(points, weight=np.where(np.arange(503) < 20, 1e3, 1.0) * points.weight)
    fold = dealt(heavy, np.random.default_rng(0))
    for sign in (-1, 1):
        own = np.flatnonzero(heavy.y == sign)
        counts = np.bincount(fold[own], minlength=FOLDS)
        assert counts.max() - counts.min() <= 1
        heaviest = own[np.argsort(-heavy.weight[own])][:FOLDS]
        assert sorted(fold[heaviest]) == list(range(FOLDS))


@pytest.mark.parametrize(
    ("rows", "tuned_rows", "due"),
    [(100, None, True), (299, 100, False), (300, 299, True), (350, 100, True), (599, 300, False), (900, 350, True)],
)
def test_a_cut_is_tuned_at_or_past_each_multiple(
    rows: int, tuned_rows: int | None, due: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first cut is; then the first at or past each multiple of so many leaves of rows; none without the option."""
    monkeypatch.setattr(tuning, "EVERY_LEAVES", 3)
    coreset = sized(leaf_rows=100, bucket_points=50)
    assert is_due(rows, tuned_rows, config_of(gaussian(10), coreset)) is due
    assert not is_due(rows, tuned_rows, config_of(gaussian(10), coreset, tune=None))


def test_a_nested_search_waits_until_the_stream_has_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    """To five times its rows; not where the past is forgotten, which a new choice may be due to."""
    monkeypatch.setattr(tuning, "EVERY_LEAVES", 1)
    points = gaussian(10)
    config = config_of(points, CoresetConfig(points=4_500), kernel="rbf")
    rows = 100 * config.coreset.leaf_rows
    due = [is_due(rows, tuned, config) for tuned in (None, rows // 6, rows // 5, rows // 5 + 1)]
    assert due == [True, True, True, False]
    window = config_of(points, CoresetConfig(points=4_500, memory="window", window=10_000), kernel="rbf")
    assert is_due(rows, rows - window.coreset.leaf_rows, window)


def test_scorings_are_what_their_names_say() -> None:
    """Under weights, with equal decision values among them."""
    random = np.random.default_rng(0)
    y = np.where(random.random(400) < 0.3, 1, -1).astype(np.int8)
    decision, weight = np.round(y + random.normal(scale=1.5, size=400), 1), random.uniform(0.5, 3.0, 400)
    points = Points(decision[:, None], y, weight)

    def score(scoring: str, **options: object) -> float:
        return tuning.judge(decision[:, None], points, config_of(points, tune_scoring=scoring, **options))

    right, pairs = weight * (np.sign(decision - 1e-9) == y), np.outer(weight[y > 0], weight[y < 0])
    assert score("accuracy") == pytest.approx(right.sum() / weight.sum())
    balanced = np.mean([right[y == sign].sum() / weight[y == sign].sum() for sign in (-1, 1)])
    assert score("balanced_accuracy") == pytest.approx(balanced)
    ranked = 0.5 + 0.5 * np.sign(np.subtract.outer(decision[y > 0], decision[y < 0]))
    assert score("auc") == pytest.approx((pairs * ranked).sum() / pairs.sum())
    least = min(
        log_loss(y, 1.0 / (1.0 + np.exp(-(a * decision + b))), sample_weight=weight)
        for a in np.linspace(0.2, 2.0, 40)
        for b in np.linspace(-2.0, 1.0, 40)
    )
    assert -score("log_loss") == pytest.approx(least, abs=0.003)
    costs = [
        weight @ np.where(y > 0, 5.0 * (decision < border), 1.0 * (decision >= border)) / weight.sum()
        for border in [*np.unique(decision), np.inf]
    ]
    assert -score("cost", cost=(5.0, 1.0)) == pytest.approx(min(costs))


def test_rough_decisions_are_those_of_a_machine_of_the_few() -> None:
    """Points that judge have no part in a run, whose decision values of them are those of scikit-learn."""
    points = ring(600)
    Z, y = scaled(points)
    few = replace(points, y=y).take(slice(400))
    (found,) = decisions(Z[:400], few, Z[400:], [RbfKernel(0.2)], BOXES, landmarks_of(points, loss="hinge"))
    for box, decision in zip(BOXES, found, strict=True):
        machine = SVC(C=box, gamma=0.2, tol=1e-4).fit(Z[:400], few.y, few.weight)
        np.testing.assert_allclose(decision, machine.decision_function(Z[400:]), atol=0.1)


@pytest.mark.parametrize("told", [config_of, landmarks_of])
def test_where_the_few_have_one_label_it_is_answered(told: Any) -> None:
    """A machine of one label has its answer for every box."""
    points = ring(200)
    Z, _ = scaled(points)
    alone = replace(points, y=-np.ones(200, np.int8)).take(slice(50))
    found = decisions(Z[:50], alone, Z[50:], [RbfKernel(0.2)], BOXES, told(points, kernel="rbf"))
    np.testing.assert_array_equal(found, np.full((1, 3, 150), -1.0))


def test_weights_make_up_for_a_label_of_which_more_are_drawn() -> None:
    """Each label keeps its share of the weight, and points of it their ratio."""
    random = np.random.default_rng(0)
    y, weight = np.where(np.arange(20_000) < 100, 1, -1).astype(np.int8), random.uniform(1.0, 3.0, 20_000)
    few = drawn(y, 500, random, 0.5)
    own = subset(Points(np.zeros((20_000, 1)), y, weight), few).weight
    assert np.count_nonzero(y[few] > 0) == 25
    assert own[y[few] > 0].sum() / own.sum() == pytest.approx(weight[y > 0].sum() / weight.sum())
    assert own.mean() == pytest.approx(1.0)
    assert own[0] / own[1] == pytest.approx(weight[few[0]] / weight[few[1]])


def chosen_machine(points: Points, seed: int) -> SVC:
    """Return scikit-learn's machine of the values that a nested search chooses for standardised points."""
    best = tune(cut_of(points), landmarks_of(points, loss="hinge").model_copy(update={"seed": seed})).scores[0]
    return SVC(C=best.C, gamma=best.gamma).fit(points.X, points.y)


def test_with_a_label_in_two_hundred_the_choice_beats_the_other_label() -> None:
    """0.5 % positives in a corner: what is chosen finds most of them, whatever the seed."""
    X = np.random.default_rng(0).normal(size=(24_000, 2)).astype(np.float32)
    far = X.sum(axis=1)
    y = np.where(far > np.quantile(far, 0.995), 1, -1).astype(np.int8)
    for seed in range(3):
        machine = chosen_machine(Points(X[:12_000], y[:12_000], np.ones(12_000)), seed)
        assert np.mean(machine.predict(X[12_000:])[y[12_000:] > 0] > 0) > 0.8


def test_the_choice_is_as_good_as_the_best_of_all_cells() -> None:
    """No cell of a grid is better by more than half a point, and the worst is far worse."""
    Z, _ = scaled(ring(6_000))
    half = Points(Z[:3_000].astype(np.float32), ring(6_000).y[:3_000], np.ones(3_000))
    others, y = Z[3_000:], ring(6_000).y[3_000:]
    grid = [SVC(C=box, gamma=gamma).fit(half.X, half.y) for gamma in (0.05, 0.2, 0.8, 3.2) for box in BOXES]
    every = [machine.score(others, y) for machine in grid]
    assert min(every) < max(every) - 0.05
    for seed in range(3):
        assert chosen_machine(half, seed).score(others, y) > max(every) - 0.005


@pytest.mark.parametrize(
    ("points", "sizes"),
    [
        (20, [16]),
        (300, [240]),
        (1_900, [250]),
        (2_400, [150, 600]),
        (10_000, [250, 1_000]),
        (70_000, [250, 1_000, 1_000, 4_000, 2_187, 8_750]),
    ],
)
def test_work_is_bounded_however_many_points(points: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of few points most learn and every cell has one machine; of more, a few cells have one of each larger size."""
    asked = []

    def judged(learning: Points, judges: Points, kernels: Any, boxes: Any, *_: object) -> np.ndarray:
        asked.append((len(learning), len(kernels) * len(boxes)))
        assert len(judges) >= 2_000 or len(judges) + max(sizes) == pytest.approx(points, abs=2)
        return np.random.default_rng(0).random((len(kernels), len(boxes)))

    monkeypatch.setattr(tuning, "judged", judged)
    tune(cut_of(ring(points)), landmarks_of(ring(points)))
    assert [size for size, _ in asked] == pytest.approx(sizes, abs=2)
    assert [cells for _, cells in asked] == [48, 12, 9, 9, 9, 9][: len(sizes)]


def test_what_is_chosen_is_what_a_score_grows_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a gamma whose error falls as 0.15 + 10 / n^0.75, though another is better at the larger size."""
    points, ranked = ring(8_000), []
    steady, growing = GAMMAS[2] / 3, GAMMAS[3] / 3

    def judged(learning: Points, judges: Points, kernels: Any, boxes: Any, *_: object) -> np.ndarray:
        own = {steady: 0.8, growing: 0.85 - 10.0 / len(learning) ** tuning.LAW}
        return np.array([[own.get(kernel.gamma, 0.5)] * len(boxes) for kernel in kernels])

    monkeypatch.setattr(tuning, "judged", judged)
    monkeypatch.setattr(tuning, "BOXES", (1.0, 3.0, 9.0))
    monkeypatch.setattr(
        tuning, "mean_of_best", lambda scores, *grid: ranked.append(scores) or mean_of_best(scores, *grid)
    )
    found = tune(cut_of(points), landmarks_of(points))
    assert ranked[-1][2] == pytest.approx([0.8] * 3)
    assert ranked[-1][3] == pytest.approx([0.85 - 10.0 / 8_000**tuning.LAW] * 3)
    assert found.scores[0].mean < max(score.mean for score in found.scores)
    assert (found.tuning.gamma, found.tuning.alpha) == pytest.approx((growing, 1.0 / (3.0 * 8_000)))
    assert len(found.scores) == 4 * 3


def test_a_choice_is_between_the_best_cells() -> None:
    """Five of a whole grid, three of the cells that were followed; of equals those inside of a good region."""
    gammas = (0.05, 0.2, 0.8, 3.2)
    mean = np.array([[0.0, 0.0, 0.9], [0.0, 0.7, 0.0], [0.0, 0.9, 1.0], [0.6, 0.0, 0.8]])
    gamma, box = (0.05 * 0.2 * 0.8 * 0.8 * 3.2) ** (1 / 5), (10.0 * 1.0 * 1.0 * 10.0 * 10.0) ** (1 / 5)
    assert mean_of_best(mean, gammas, BOXES) == pytest.approx((gamma, box))
    mean[0] = np.nan
    expected = (0.8 * 0.8 * 3.2) ** (1 / 3), (10.0 * 1.0 * 10.0) ** (1 / 3)
    assert mean_of_best(mean, gammas, BOXES) == pytest.approx(expected)
    region = np.full((4, 3), np.nan)
    region[1:] = [[0.9, 0.9, 0.1], [0.9, 0.9, 0.1], [0.1, 0.1, 0.9]]
    assert mean_of_best(region, gammas, BOXES)[0] < 0.8

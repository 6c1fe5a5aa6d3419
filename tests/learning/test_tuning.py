"""Tuning on a cut: against scikit-learn on the same folds, and what it does and does not depend on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score
from sklearn.svm import SVC

from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset import Learned, Moments, Observed, Purpose, generator
from streamsvm.learning import tuning
from streamsvm.learning.learner import Cut, training_set
from streamsvm.learning.training import scaler_of
from streamsvm.learning.tuning import FOLDS, STEPS, WIDTHS, is_due, tune
from streamsvm.points import Points, Position
from tests.config.sizes import sized
from tests.streams import gaussian


def ring(n: int, seed: int = 0) -> Points:
    """Return two classes, a disc and the ring around it, that overlap; weights from 0.5 to 2."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 2)).astype(np.float32)
    y = np.where((X**2).sum(axis=1) + random.normal(scale=0.4, size=n) > 1.5, 1, -1).astype(np.int8)
    return Points(X, y, random.uniform(0.5, 2.0, n))


def cut_of(points: Points, rows: int | None = None, labels: int = 2) -> Cut:
    moments = Moments.zero(points.dimension, labels).add(points)
    return Cut(
        positions={0: Position(len(points))},
        leader_epochs={0: 3},
        points=points,
        moments=moments,
        learned=Learned(rows or len(points), len(points), moments.class_weight, -1, -1),
    )


def reduced(cut: Cut, config: ModelConfig) -> Points:
    observed = Observed()
    return training_set(cut.points, tuning.MOST_POINTS, cut.moments, config, Purpose.CUT, (1, 2, 3), observed)


def coreset_of(**sizes: int) -> CoresetConfig:
    """Return a section without landmarks, whose grid is another one."""
    return sized(**{"landmarks": None, **sizes})


def config_of(points: Points, coreset: CoresetConfig | None = None, labels: int = 2, **svm: object) -> ModelConfig:
    told = {} if labels == 2 else {"labels": range(labels)}
    return ModelConfig(
        points=PointsConfig(dimension=points.dimension, **told),
        coreset=coreset or coreset_of(leaf_rows=100, bucket_points=50),
        svm=SvmConfig(**{"tune": "auto", "alpha": 1e-3, **svm}),
        seed=5,
    )


@pytest.mark.parametrize("class_weight", ["none", "balanced"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_scores_are_those_of_scikit_learn_on_the_same_folds(kernel: str, class_weight: str) -> None:
    """Each share is what SVC's machines classify right of what was left out of them, in class-weighted weight."""
    points = ring(400) if kernel == "rbf" else gaussian(400)
    config = config_of(points, kernel=kernel, class_weight=class_weight, tolerance=1e-6)
    cut = cut_of(points)
    found = tune(cut, config).scores
    weighted = points.class_weighted(config.svm.class_weights(cut.moments.class_weight))
    fold = tuning._dealt(weighted, generator(config.seed, Purpose.TUNE, tuning._counter(points)))
    Z = scaler_of(cut.moments, config.svm).transform(points.X)
    assert len(found) == len(STEPS) * (len(WIDTHS) if kernel == "rbf" else 1)
    for score in found:
        decided = np.empty(len(points))
        for left_out in range(FOLDS):
            kept = fold != left_out
            machine = SVC(C=score.C, kernel=kernel, gamma=score.gamma or "auto", tol=1e-6)
            machine.fit(Z[kept], points.y[kept], sample_weight=weighted.weight[kept])
            decided[~kept] = machine.predict(Z[~kept])
        right = accuracy_score(points.y, decided, sample_weight=weighted.weight)
        assert score.mean == pytest.approx(right, abs=2e-3), score  # a point at the boundary may fall either way


def corners(n: int, labels: int = 4, seed: int = 0) -> Points:
    """Return labels around as many centres, not far apart, a third of them as often as the others; unequal weights."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(1).normal(size=(labels, 3))
    often = np.where(np.arange(labels) % 3 == 0, 1.0, 3.0)
    y = random.choice(labels, n, p=often / often.sum()).astype(np.int8)
    X = (centres[y] + random.normal(scale=0.5, size=(n, 3))).astype(np.float32)
    return Points(X, y, random.uniform(0.5, 2.0, n))


@pytest.mark.parametrize(
    ("kernel", "multiclass", "scoring"),
    [
        ("linear", "one_vs_rest", "accuracy"),
        ("linear", "one_vs_one", "balanced_accuracy"),
        ("rbf", "one_vs_rest", "balanced_accuracy"),
        ("rbf", "one_vs_one", "accuracy"),
    ],
)
def test_scores_of_several_labels_are_those_of_scikit_learn(
    kernel: str, multiclass: str, scoring: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What SVC's machines answer together, of what was left out of them; the classes weigh alike in training."""
    points = corners(300)
    monkeypatch.setattr(tuning, "WIDTHS", (0.5, 5.0))
    options = {"kernel": kernel, "multiclass": multiclass, "tune_scoring": scoring, "gamma": 0.4}
    config = config_of(points, labels=4, alpha=1e-2, class_weight="balanced", tolerance=1e-6, **options)
    cut = cut_of(points, labels=4)
    found = tune(cut, config).scores
    weighted = points.class_weighted(config.svm.class_weights(cut.moments.class_weight))
    fold = tuning._dealt(weighted, generator(config.seed, Purpose.TUNE, tuning._counter(points)))
    Z = scaler_of(cut.moments, config.svm).transform(points.X)
    assert len(found) == len(STEPS) * (2 if kernel == "rbf" else 1)
    for score in found:
        options = {"C": score.C, "kernel": kernel, "gamma": score.gamma or "auto", "tol": 1e-4, "shrinking": False}
        shares, left = [], []
        for left_out in range(FOLDS):
            kept = fold != left_out
            decided = answered(multiclass, options, (Z[kept], points.y[kept], weighted.weight[kept]), Z[~kept])
            judge = accuracy_score if scoring == "accuracy" else balanced_accuracy_score
            shares.append(judge(points.y[~kept], decided, sample_weight=weighted.weight[~kept]))
            left.append(weighted.weight[~kept].sum())
        assert score.mean == pytest.approx(np.average(shares, weights=left), abs=4e-3), score
        assert score.deviation == pytest.approx(np.std(shares), abs=8e-3)


def answered(
    multiclass: str, options: dict[str, object], train: tuple[np.ndarray, np.ndarray, np.ndarray], Z: np.ndarray
) -> np.ndarray:
    """Return what scikit-learn's machines answer; of pairs, ties go by the sums of decision values."""
    X, y, weight = train
    if multiclass == "one_vs_one":
        return SVC(break_ties=True, **options).fit(X, y, sample_weight=weight).predict(Z)
    each = [SVC(**options).fit(X, y == label, sample_weight=weight).decision_function(Z) for label in range(4)]
    return np.argmax(each, axis=0)


def test_a_label_that_never_came_stops_no_choice() -> None:
    """Nor does one with a point or two: the others are told apart by the best of the values."""
    points = corners(400)
    rare = points.take((points.y < 2) | ((points.y == 2) & (np.cumsum(points.y == 2) <= 2)))
    found = tune(cut_of(rare, labels=4), config_of(rare, labels=4, gamma=50.0, kernel="rbf"))
    assert len(found.scores) == len(STEPS) * len(WIDTHS)
    assert max(score.mean for score in found.scores) > min(score.mean for score in found.scores)
    chosen = max(found.scores, key=lambda score: score.mean)
    assert (found.tuning.alpha, found.tuning.gamma) == (chosen.alpha, chosen.gamma)
    alone = points.take((points.y == 0) | ((points.y > 0) & (np.cumsum(points.y > 0) <= 3)))
    nothing = tune(cut_of(alone, labels=4), config_of(alone, labels=4))
    assert nothing.scores == ()
    assert nothing.tuning.alpha is None


def test_a_large_training_set_of_several_labels_is_reduced_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """To `MOST_POINTS`, with the weight of all of each label, about."""
    points = corners(3_000, labels=7)
    monkeypatch.setattr(tuning, "MOST_POINTS", 400)
    config = config_of(points, labels=7)
    summary = reduced(cut_of(points, labels=7), config)
    assert len(summary) <= 400
    own = np.bincount(points.y, points.weight, 7)
    assert np.bincount(summary.y, summary.weight, 7) == pytest.approx(own, rel=0.25)


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
    tuned = tune(cut_of(points), config_of(points, alpha=None, C=2.0))
    assert {score.C for score in tuned.scores} == {step * 2.0 for step in STEPS}
    assert tuned.tuning.alpha is None
    assert tuned.tuning.C in {step * 2.0 for step in STEPS}
    assert tuned.tuning.applied(SvmConfig(C=2.0)).penalty(1e9) == tuned.tuning.C


def test_the_same_cut_gives_the_same_bits() -> None:
    """Neither how many partitions are empty, nor a run before it changes a score."""
    points = ring(300)
    cut, config = cut_of(points), config_of(points, kernel="rbf")
    first = tune(cut, config)
    tune(cut_of(ring(200, seed=9)), config)
    assert tune(cut, config) == first
    other = replace(cut, positions={0: Position(7), 1: Position(0)})
    assert tune(other, config).scores == first.scores


def test_a_large_training_set_is_reduced_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only `MOST_POINTS` points are dealt, with the weight of all of them, and the choice is about as good."""
    points = ring(2_000)
    coreset = coreset_of(leaf_rows=2_000, bucket_points=1_000, train_points=2_000)
    whole = tune(cut_of(points), config_of(points, coreset, kernel="rbf"))
    config = config_of(points, coreset, kernel="rbf")
    monkeypatch.setattr(tuning, "MOST_POINTS", 300)
    summary = reduced(cut_of(points), config)
    assert len(summary) <= 300
    assert summary.weight.sum() == pytest.approx(points.weight.sum(), rel=1e-6)
    part = tune(cut_of(points), config)
    by_value = {(score.alpha, score.gamma): score.mean for score in whole.scores}
    assert by_value[part.tuning.alpha, part.tuning.gamma] > max(by_value.values()) - 0.03


def test_each_fold_gets_its_part_of_each_label_and_of_the_heavy_points() -> None:
    """Counts differ by one at most; of the five heaviest points of a label each fold has one."""
    points = gaussian(503)
    heavy = replace(points, weight=np.where(np.arange(503) < 20, 1e3, 1.0) * points.weight)
    fold = tuning._dealt(heavy, np.random.default_rng(0))
    for sign in (-1, 1):
        own = np.flatnonzero(heavy.y == sign)
        counts = np.bincount(fold[own], minlength=FOLDS)
        assert counts.max() - counts.min() <= 1
        heaviest = own[np.argsort(-heavy.weight[own])][:FOLDS]
        assert sorted(fold[heaviest]) == list(range(FOLDS))


def test_with_too_few_points_of_a_label_the_configured_values_stay() -> None:
    """Four points of a label cannot be in five folds: there is no score, and what is in force changes nothing."""
    points = gaussian(100)
    few = points.take(np.concatenate([np.flatnonzero(points.y < 0), np.flatnonzero(points.y > 0)[: FOLDS - 1]]))
    config = config_of(few, kernel="rbf")
    tuned = tune(cut_of(few), config)
    assert tuned.scores == ()
    assert tuned.tuning.applied(config.svm) == config.svm


@pytest.mark.parametrize(
    ("rows", "tuned_rows", "due"),
    [
        (100, None, True),
        (299, 100, False),
        (300, 299, True),
        (350, 100, True),
        (599, 300, False),
        (900, 350, True),
    ],
)
def test_a_cut_is_tuned_at_or_past_each_multiple(
    rows: int, tuned_rows: int | None, due: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first cut is; then the first at or past each multiple of so many leaves of rows."""
    monkeypatch.setattr(tuning, "EVERY_LEAVES", 3)
    config = config_of(gaussian(10), sized(leaf_rows=100, bucket_points=50))
    assert is_due(rows, tuned_rows, config) is due


def test_nothing_is_due_where_nothing_is_tuned() -> None:
    """Without the option no cut is tuned."""
    assert not is_due(10_000, None, config_of(gaussian(10), tune=None))

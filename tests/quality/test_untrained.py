"""Skill is never judged by rows that were trained on, whatever the machine: random labels, and labels with a signal."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import numpy as np
import pytest
from sklearn.metrics import log_loss

from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset import Moments, Sampled
from streamsvm.learning import Learner, make
from streamsvm.learning.training import Trained, held_out, train
from streamsvm.model import Model, answers
from streamsvm.model.skill_header import AnySkill
from streamsvm.points import Points, Position
from streamsvm.quality.gate import audit_evidence
from streamsvm.quality.skill import Answered, skill_of
from tests.config.sizes import sized
from tests.streams import rows_of

DIMENSION: Final = 8
SEEDS: Final = range(4)
KINDS: Final[dict[str, tuple[int, dict[str, Any]]]] = {
    "linear": (2, {}),
    "rbf": (2, {"kernel": "rbf"}),
    "narrow rbf": (2, {"kernel": "rbf", "gamma": 2.0}),
    "rbf, balanced": (2, {"kernel": "rbf", "class_weight": "balanced"}),
    "rbf with a threshold": (2, {"kernel": "rbf", "target": {"recall": 0.9}}),
    "rbf with probabilities": (2, {"kernel": "rbf", "probability": "sigmoid"}),
    "rbf, tuned": (2, {"kernel": "rbf", "tune": "auto"}),
    "rbf of four labels": (4, {"kernel": "rbf"}),
}


def stream(n: int, seed: int, signal: float, labels: int) -> Points:
    """Return normal points around a centre for each label, at the origin without a signal."""
    random = np.random.default_rng(seed)
    codes = random.integers(0, labels, n)
    centres = np.random.default_rng(9).normal(size=(labels, DIMENSION)) * signal
    X = (random.normal(size=(n, DIMENSION)) + centres[codes]).astype(np.float32)
    return Points(X, (np.where(codes > 0, 1, -1) if labels == 2 else codes).astype(np.int8), np.ones(n))


def judged(n: int, seed: int, signal: float, kind: str) -> tuple[AnySkill, AnySkill]:
    """Return the skill of a version of n rows by its audit sample: as it is, and as if nothing had been trained on."""
    labels, svm = KINDS[kind]
    config = ModelConfig(
        points=PointsConfig(dimension=DIMENSION, **({} if labels == 2 else {"labels": tuple(range(labels))})),
        coreset=sized(leaf_rows=400, bucket_points=400, audit_points=400, train_points=1_200, landmarks=None),
        svm=SvmConfig(**{"alpha": 1e-4, **svm}),
        seed=seed,
    )
    learner = Learner(config, {0: Position(0)}, 1 << 40)
    learner.learn(rows_of(stream(n, seed, signal, labels)))
    made = make(learner.take(), config)
    evidence = audit_evidence(made.cut.audit)
    assert evidence is not None
    points, model = evidence.points, made.model
    trained = points.also_in(made.cut.points)

    def skill(which: np.ndarray[Any, Any] | None) -> AnySkill:
        values = model.decision_function(points.X)
        said, probability = answers(values, model.border), model.probability if isinstance(model, Model) else None
        answered = Answered(y=points.y, said=said, weight=points.weight, values=values, trained=which)
        return skill_of(None, answered, 1, probability, classes=labels)

    return skill(trained), skill(None)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_random_labels_are_never_skill(kind: str) -> None:
    """Where all rows are trained on, and where a part is; by the trained rows a kernel machine knew them by heart."""
    found = [judged(n, seed, 0.0, kind) for n in (600, 4_000) for seed in SEEDS]
    assert "some" not in {own.state for own, _ in found}
    if kind.startswith(("rbf", "narrow")):
        assert Counter(naive.state for _, naive in found[: len(SEEDS)])["some"] > 0


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_signal_is_skill_once_enough_was_not_trained_on(kind: str) -> None:
    """With ten times the rows of the training set; of its own rows alone nothing is said."""
    assert {judged(600, seed, 1.0, kind)[0].state for seed in SEEDS} == {"unknown"}
    assert {judged(12_000, seed, 1.0, kind)[0].state for seed in SEEDS} == {"some"}


@pytest.mark.parametrize("left", [0.79, 0.81])
def test_few_rows_left_say_nothing_however_well_they_are_answered(left: float) -> None:
    """What is left of an audit sample is what a pilot found easy."""
    y = np.where(np.arange(2_000) % 2, 1, -1).astype(np.int8)
    trained = np.arange(2_000) >= left * 2_000
    sample = Answered(y=y, said=y, weight=np.ones(2_000), values=y * 1.0, trained=trained)
    told = skill_of(None, sample, 1)
    assert told.state == ("some" if left > 0.8 else "unknown")
    if told.audit is not None:
        assert told.audit.points == 1_620
        assert told.audit.balanced_accuracy.low < left < told.audit.balanced_accuracy.value


def test_what_was_trained_on_may_speak_against_a_version() -> None:
    """It answers all of it one way, or no better than chance: others would be answered no better."""
    random, y = np.random.default_rng(0), np.where(np.arange(20_000) % 2, 1, -1).astype(np.int8)
    weight = np.ones(20_000)
    for values in (np.full(20_000, -1.0), random.normal(size=20_000)):
        sample = Answered(y=y, said=answers(values), weight=weight, values=values, trained=weight > 0.0)
        assert skill_of(None, sample, 1).state == "none"
    of_four, said = (np.arange(20_000) % 4).astype(np.int8), random.integers(0, 4, 20_000).astype(np.int8)
    sample = Answered(y=of_four, said=said, weight=weight, trained=weight > 0.0)
    assert skill_of(None, sample, 1, classes=4).state == "none"


@pytest.mark.parametrize("n", [600, 1_600])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_threshold_and_probabilities_come_true_although_the_sample_was_trained_on(kernel: str, n: int) -> None:
    """On fresh rows: recall and precision as the version says, and probabilities that beat the labels' shares."""
    said, true, losses = [], [], []
    for seed in SEEDS:
        config = ModelConfig(
            points=PointsConfig(dimension=DIMENSION),
            coreset=sized(leaf_rows=400, bucket_points=400, audit_points=400, train_points=1_200, landmarks=None),
            svm=SvmConfig(alpha=1e-4, kernel=kernel, probability="sigmoid", target={"recall": 0.9}),
            seed=seed,
        )
        learner = Learner(config, {0: Position(0)}, 1 << 40)
        learner.learn(rows_of(stream(n, seed, 0.35, 2)))
        model, fresh = make(learner.take(), config).trained.model, stream(20_000, seed + 1_000, 0.35, 2)
        assert model.threshold is not None
        assert model.threshold.recall is not None
        assert model.threshold.precision is not None
        alarm, positive = model.decision_function(fresh.X) > model.border, fresh.y > 0
        true.append((alarm[positive].mean(), positive[alarm].mean()))
        said.append((model.threshold.recall.value, model.threshold.precision.value))
        losses.append(log_loss(positive, model.predict_proba(fresh.X)[:, 1]))
    np.testing.assert_allclose(np.mean(said, axis=0), np.mean(true, axis=0), atol=0.05)
    assert np.mean(losses) < np.log(2.0)


def test_without_rows_that_were_trained_on_the_machine_answers_itself() -> None:
    """And a row that is common in the sample is not left out: no machine that never saw it answers for it."""
    points, config = stream(500, 1, 0.5, 2), SvmConfig(alpha=1e-3, kernel="rbf")
    moments = Moments.zero(DIMENSION).add(points)
    trained, rare = train(points, moments, config), stream(200, 2, 0.5, 2)
    common = points.take(np.repeat(np.arange(4), 50))
    for sample, own in ((rare, True), (common, True), (points, False)):
        decision = held_out(
            trained, points, moments, config, [Sampled(sample, 0.0, np.ones(2), np.ones(len(sample)))], seed=3
        )
        assert np.array_equal(decision, trained.model.decision_function(sample.X)) is own


@pytest.mark.parametrize("positives", [1, 3, 40])
def test_machines_that_answer_keep_most_of_a_rare_label(positives: int) -> None:
    """Of a long stream an audit sample by label holds all rows of a rare label, and so does the training set."""
    X, n = stream(2_000, 3, 0.0, 2).X, 2_000
    points = Points(X, np.where(np.arange(n) < positives, 1, -1).astype(np.int8), np.ones(n))
    moments, config = Moments.zero(DIMENSION).add(points), SvmConfig(alpha=1e-3)
    kept: list[Points] = []

    def spied(points: Points, moments: Moments, config: SvmConfig) -> Trained:
        kept.append(points)
        return train(points, moments, config)

    sample = [Sampled(points.take(slice(0, positives + 40)), 0.0, np.ones(2), np.ones(positives + 40))]
    decision = held_out(train(points, moments, config), points, moments, config, sample, seed=3, train=spied)
    assert np.isfinite(decision).all()
    assert len(kept) == 5
    for own in kept:
        assert np.count_nonzero(own.y > 0) >= positives - -(-positives // 5)
        assert np.count_nonzero(own.y < 0) >= n - positives - 40
        for label in np.unique(own.y):
            assert own.weight[own.y == label].sum() == pytest.approx(points.weight[points.y == label].sum())


@pytest.mark.parametrize("n", [9, 14, 1_201])
def test_never_more_than_five_machines_answer(n: int) -> None:
    """However the number of points divides."""
    points, config = stream(n, 1, 0.5, 2), SvmConfig(alpha=1e-3)
    moments, calls = Moments.zero(DIMENSION).add(points), Counter[str]()

    def counted(points: Points, moments: Moments, config: SvmConfig) -> Trained:
        calls["train"] += 1
        return train(points, moments, config)

    trained, sample = train(points, moments, config), [Sampled(points, 0.0, np.ones(2), np.ones(len(points)))]
    held_out(trained, points, moments, config, sample, seed=3, train=counted)
    assert calls["train"] <= 5

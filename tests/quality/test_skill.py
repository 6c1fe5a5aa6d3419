"""Skill: what is said of answers that know something, nothing, or give one answer, and how often that is wrong."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import binomtest
from sklearn.metrics import average_precision_score, balanced_accuracy_score, log_loss, roc_auc_score

from streamsvm.model import Sigmoid, Skill, answers, complaint, doubt, skill_header as header
from streamsvm.quality.skill import (
    ERROR,
    FIGURES,
    LEAST_OF_A_LABEL,
    Answered,
    Ranked,
    balanced_estimate,
    deviate_of,
    no_better_than_chance,
    skill_of,
)

SEED = 20261122
STREAMS, VERSIONS = 20, 20
LABELS = (False, True)


def made(n: int, positive: float, balanced: float, seed: int = SEED) -> Answered:
    """Return points whose scores are normal, with this balanced accuracy at the threshold 0."""
    random = np.random.default_rng(seed)
    y = np.where(random.random(n) < positive, 1, -1).astype(np.int8)
    return of(y, random.normal(size=n) + y * float(ndtri(balanced)))


def of(y: NDArray[np.int8], values: NDArray[np.float64], weight: NDArray[np.float64] | float = 1.0) -> Answered:
    """Return points with these scores, answered at the threshold 0."""
    return Answered(y=y, said=answers(values), weight=np.ones(len(y)) * weight, values=values)


def judged(newest: Answered | None, audit: Answered | None = None, number: int = 7) -> Skill:
    skill = skill_of(newest, audit, number)
    assert isinstance(skill, Skill)
    return skill


def test_an_interval_of_the_auc_is_of_shares() -> None:
    """A few points that a model ranks all but perfectly: no value above 1, and none below 0 the other way round."""
    sample = made(60, 0.2, 0.97)
    y = sample.y > 0
    right = Ranked.of(y, sample.weight, sample.values).auc(5.0)
    wrong = Ranked.of(y, sample.weight, -sample.values).auc(5.0)
    assert 0.9 < right.value <= right.high == 1.0
    assert 0.0 == wrong.low <= wrong.value < 0.1


def test_figures_are_those_of_scikit_learn() -> None:
    """Of all figures, with weights and tied scores."""
    random = np.random.default_rng(SEED)
    plain = made(2_000, 0.3, 0.7)
    sample = of(plain.y, np.round(plain.values, 1), random.exponential(size=2_000))
    y, said = sample.y > 0, sample.values > 0
    sigmoid = Sigmoid(-1.0, 0.5)
    figures = skill_of(sample, None, 3, sigmoid).newest
    assert figures is not None
    expected = {
        "balanced_accuracy": balanced_accuracy_score(y, said, sample_weight=sample.weight),
        "auc": roc_auc_score(y, sample.values, sample_weight=sample.weight),
    }
    for name, value in expected.items():
        assert getattr(figures, name).value == pytest.approx(value, rel=1e-12), name
    assert figures.average_precision == pytest.approx(
        average_precision_score(y, sample.values, sample_weight=sample.weight)
    )
    assert figures.log_loss == pytest.approx(log_loss(y, sigmoid.of(sample.values), sample_weight=sample.weight))
    assert figures.said == pytest.approx(np.average(said, weights=sample.weight))
    assert figures.true == pytest.approx(np.average(y, weights=sample.weight))
    assert sum(figures.table) == pytest.approx(1.0)


def delong(y: NDArray[np.bool_], values: NDArray[np.float64]) -> tuple[float, float]:
    """Return AUC and its variance, as DeLong, DeLong and Clarke-Pearson write them, pair by pair."""
    pairs = (values[y][:, None] > values[~y]) + 0.5 * (values[y][:, None] == values[~y])
    over, under = pairs.mean(axis=1), pairs.mean(axis=0)
    return float(pairs.mean()), float(over.var(ddof=1) / len(over) + under.var(ddof=1) / len(under))


@pytest.mark.parametrize("balanced", [0.6, 0.7])
def test_the_interval_of_an_auc_is_delongs(balanced: float) -> None:
    """Where it is wider than that of a ranking without skill, which bounds it from below."""
    sample = made(1_000, 0.3, balanced)
    y = sample.y > 0
    value, variance = delong(y, sample.values)
    found = Ranked.of(y, sample.weight, sample.values).auc(2.0)
    without_skill = (1.0 / y.sum() + 1.0 / (~y).sum()) / 12.0
    assert found.value == pytest.approx(value)
    assert found.high - found.value == pytest.approx(2.0 * np.sqrt(max(variance, without_skill)), rel=2e-3)


def test_the_interval_of_a_share_is_wilsons() -> None:
    """With one label always right, the interval's end is half of the other's."""
    y = np.arange(300) < 100
    said = np.where(y, np.arange(300) < 37, False)
    share = binomtest(37, 100).proportion_ci(0.95, method="wilson")
    other = binomtest(200, 200).proportion_ci(0.95, method="wilson")
    found = balanced_estimate(said, y, np.ones(300), (0, 1), float(-ndtri(0.025)))
    assert found.low == pytest.approx(found.value - np.hypot(0.37 - share.low, 1.0 - other.low) / 2.0)
    assert found.high == pytest.approx(found.value + (share.high - 0.37) / 2.0)


@pytest.mark.parametrize("balanced", [0.5, 0.55, 0.8])
def test_intervals_hold_as_often_as_they_say(balanced: float) -> None:
    """In 95 of 100 samples, give or take what 600 of them leave open; that of an AUC may be wider than need be."""
    within = np.zeros(2)
    for seed in range(600):
        sample = made(800, 0.2, balanced, seed)
        y = sample.y > 0
        share = balanced_estimate(sample.said, sample.y, sample.weight, (-1, 1), 1.96)
        area = Ranked.of(y, sample.weight, sample.values).auc(1.96)
        within += share.low <= balanced <= share.high, area.low <= ndtr(np.sqrt(2.0) * ndtri(balanced)) <= area.high
    assert (within > 0.95 * 600 - 3.5 * np.sqrt(0.95 * 0.05 * 600)).all(), within


def test_streams_are_told_apart_at_every_version() -> None:
    """24 % positives, 10,000 points: 0.5 is never called skill, 0.55 never none; the benchmark `skill` has more."""
    for balanced, never, mostly in ((0.5, "some", "none"), (0.55, "none", "some")):
        said = [
            judged(made(10_000, 0.24, balanced, seed=stream * VERSIONS + number), number=number).state
            for stream in range(STREAMS)
            for number in (1, 10, 200)
        ]
        assert never not in said
        assert said.count(mostly) > 0.9 * len(said)


def test_all_versions_together_are_wrong_as_seldom_as_promised() -> None:
    """Each version may be judged by two samples, and by each figure of them: what all may err adds up to `ERROR`."""
    spent = sum(float(ndtr(-deviate_of(number))) for number in range(1, 20_001))
    assert 0.999 * ERROR < 2 * FIGURES * spent <= ERROR


def test_a_ranking_is_skill_although_every_answer_is_the_same() -> None:
    """What is missing is a threshold or weights; that every point gets one answer is said beside it."""
    sample = made(5_000, 0.2, 0.7)
    told = judged(of(sample.y, sample.values - 100.0))
    assert (told.state, told.answers) == ("some", "negative")
    said = complaint(told, LABELS, weighted=False)
    assert "answers false to every point; 21 % are true" in said
    assert "ranking is better than chance" in said
    assert said.endswith("try svm.class_weight = balanced")


@pytest.mark.parametrize(
    ("value", "label", "other"), [(-1.0, "false", "24 % are true"), (1.0, "true", "76 % are false")]
)
def test_one_answer_is_named(value: float, label: str, other: str) -> None:
    """With the share of the points that it gets wrong."""
    told = judged(of(made(20_000, 0.24, 0.5).y, np.full(20_000, value)))
    assert told.state == "none"
    assert f"answers {label} to every point; {other}" in complaint(told, LABELS, weighted=False)
    assert "svm.class_weight" not in complaint(told, LABELS, weighted=True)


def test_an_answer_that_is_hardly_ever_given_counts_as_never_given() -> None:
    """Below a hundredth of the points it would be right for; said as what it is."""
    sample = made(10_000, 0.24, 0.5)
    for alarms, expected in ((20, "negative"), (40, "both")):
        values = np.full(10_000, -1.0)
        values[:alarms] = 1.0
        told = judged(of(sample.y, values))
        assert told.answers == expected
    values[20:] = -1.0
    told = judged(of(sample.y, values))
    assert "to nearly every point" in complaint(told, LABELS, weighted=False)


def test_too_few_of_a_label_are_said_to_be_too_few() -> None:
    """One fewer than `LEAST_OF_A_LABEL` positives: no figure, and nothing is claimed."""
    y = np.full(5_000, -1, np.int8)
    y[: LEAST_OF_A_LABEL - 1] = 1
    told = judged(of(y, -np.ones(5_000)))
    assert (told.state, told.answers, told.figures) == ("unknown", "both", None)
    assert "too few points" in doubt(told, LABELS)
    y[LEAST_OF_A_LABEL - 1] = 1
    assert judged(of(y, -np.ones(5_000))).answers == "negative"


def test_the_audit_sample_decides_where_the_newest_points_cannot() -> None:
    """Few new points leave the question open; a large audit sample answers it."""
    few, many = made(150, 0.24, 0.6), made(10_000, 0.24, 0.7)
    assert judged(few).state == "unknown"
    told = judged(few, many)
    assert told.state == "some"
    assert told.figures == told.newest
    assert judged(None, many).figures == told.audit


def test_heavy_points_count_as_the_few_that_they_are() -> None:
    """A thousand points, of which five hold nearly all weight, prove nothing."""
    sample = made(10_000, 0.3, 0.8)
    weight = np.ones(10_000)
    assert judged(sample).state == "some"
    weight[np.flatnonzero(sample.y > 0)[:5]] = weight[np.flatnonzero(sample.y < 0)[:5]] = 1e9
    assert judged(of(sample.y, sample.values, weight)).state == "unknown"


def test_a_header_reads_back_and_a_damaged_one_is_passed_over() -> None:
    """To six digits; whatever else stands there gives None."""
    told = judged(made(2_000, 0.24, 0.6), made(1_000, 0.24, 0.6))
    content = header.encode(told).encode()
    assert len(content) < header.LARGEST_BYTES / 2
    back = header.decode([(header.HEADER, content)])
    assert back is not None
    assert (back.state, back.answers) == (told.state, told.answers)
    assert msgspec.to_builtins(back)["newest"]["auc"]["value"] == pytest.approx(told.newest.auc.value, rel=1e-5)  # type: ignore[union-attr]
    damaged: list[Any] = [b"", b"{}", b"\xff", b"[" * 4_000, content * 9, content.replace(b'"some"', b'"much"')]
    for broken in (*damaged, content.replace(b'"points":2000', b'"points":-1')):
        assert header.decode([(header.HEADER, broken)]) is None
    assert header.decode([]) is None


@pytest.mark.parametrize(
    ("balanced", "shift", "n", "held"),
    [
        (0.5, 0.0, 4_000, True),  # chance, and both answers
        (0.5, -1_000.0, 4_000, True),  # chance, one answer
        (0.5, -1_000.0, 100, True),  # as far as few points can tell
        (0.9, -1_000.0, 4_000, False),  # ranks, but answers "no" at its threshold
        (0.9, -1_000.0, 100, False),
        (0.5, 0.0, 100, False),  # too few points to say, and both answers
        (0.9, 0.0, 4_000, False),
    ],
)
def test_what_is_not_worth_being_the_first_current(balanced: float, shift: float, n: int, held: bool) -> None:
    """A useful ranking is, whatever it answers at its threshold; chance is not."""
    sample = made(n, 0.4, balanced)
    shifted = of(sample.y, sample.values + shift)
    assert no_better_than_chance(judged(None, shifted)) is held
    assert not no_better_than_chance(judged(None, None))

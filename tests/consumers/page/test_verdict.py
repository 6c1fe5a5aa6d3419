"""The status in one line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from consumers.page.status import Figures, GateStatus
from consumers.page.verdict import MAJORITY_MARGIN, SGD_MARGIN, Facts, verdict_of
from streamsvm.model.skill import Answers, Estimate, SampleFigures, Skill, State


def skilled(state: State, answers: Answers, positives: int = 2_400) -> Skill:
    """Return a verdict on skill, of 10,000 points with this many positives."""
    true = positives / 10_000
    table = (0.7, 0.06, 0.04, 0.2) if answers == "both" else (1.0 - true, 0.0, true, 0.0)
    figures = SampleFigures(
        points=10_000,
        positives=positives,
        said=table[1] + table[3],
        true=true,
        table=table,
        balanced_accuracy=Estimate(value=0.503, low=0.48, high=0.53),
        auc=Estimate(value=0.507, low=0.48, high=0.54),
        average_precision=0.25,
        log_loss=None,
        brier=None,
    )
    return Skill(state=state, answers=answers, newest=figures, audit=None)


FINE = Facts(
    number=5,
    covered=5_000,
    learned=5_100,
    cut_rows=1_000,
    lag=3,
    gate=None,
    current_number=5,
    accuracy=Figures(0.97, 0.96, 0.90),
    balanced_accuracy=Figures(0.91, 0.90, 0.50),
    skill=skilled("some", "both"),
    labels=(False, True),
    weighted=False,
)


def test_a_model_that_keeps_up_and_beats_its_baselines_is_current_and_good() -> None:
    """Level, both answers, and the figures that say why."""
    verdict = verdict_of(FINE)
    assert (verdict.level, verdict.current, verdict.good) == ("good", True, True)
    assert verdict.headline == "Current and good"
    assert verdict.detail == (
        "Version 5 covers 5,000 of the 5,100 rows learned; balanced accuracy 0.910, 0.010 above the SGD baseline."
    )


@pytest.mark.parametrize(
    ("missing", "named"),
    [(("c",), "c"), (tuple("cdefg"), "more labels")],
)
def test_a_label_that_never_came_is_named(missing: tuple[str, ...], named: str) -> None:
    """It is no fault of the model: the line says which, and what it may come of."""
    verdict = verdict_of(replace(FINE, labels=tuple("abcdefg"), missing=missing))
    assert (verdict.level, verdict.headline) == ("good", "Current and good")
    assert verdict.detail.startswith("No point of ")
    assert named in verdict.detail.split(" has come yet")[0]
    assert "points.labels" in verdict.detail


@pytest.mark.parametrize("changed", [{"lag": 1_001}, {"learned": 7_000}])
def test_rows_that_no_version_covers_make_it_behind(changed: dict[str, int]) -> None:
    """More records wait than a cut has rows, or two cuts' worth of rows are in no version; one fewer is current."""
    verdict = verdict_of(replace(FINE, **changed))
    assert (verdict.level, verdict.current, verdict.headline) == ("bad", False, "Behind")
    fewer = {name: value - 1 for name, value in changed.items()}
    assert verdict_of(replace(FINE, **fewer)).current


@pytest.mark.parametrize(
    ("field", "beaten", "margin"),
    [
        ("balanced_accuracy", lambda margin: Figures(0.88, 0.88 + margin, 0.5), SGD_MARGIN),
        ("accuracy", lambda margin: Figures(0.88, None, 0.88 + margin), MAJORITY_MARGIN),
    ],
)
def test_a_baseline_that_is_better_makes_it_not_good(field: str, beaten: object, margin: float) -> None:
    """By more than the margin of the alerts; a little less is good."""
    verdict = verdict_of(replace(FINE, **{field: beaten(margin + 0.001)}))  # type: ignore[operator]
    assert (verdict.level, verdict.current, verdict.good) == ("bad", True, False)
    assert verdict_of(replace(FINE, **{field: beaten(margin - 0.001)})).good  # type: ignore[operator]


def test_a_refused_version_is_said_with_the_one_that_stays() -> None:
    """The quality gate's word comes first."""
    refused = GateStatus("refused", "", 0.7, 0.9)
    verdict = verdict_of(replace(FINE, gate=refused, current_number=4))
    assert verdict.good is False
    assert "refused version 5: version 4 stays current" in verdict.detail


def test_what_is_not_measured_is_not_called_good() -> None:
    """Without figures: current, not judged; without a version: neither."""
    unmeasured = verdict_of(replace(FINE, accuracy=Figures(), balanced_accuracy=Figures()))
    assert (unmeasured.level, unmeasured.current, unmeasured.good) == ("fair", True, None)
    none = verdict_of(replace(FINE, number=0, covered=None, learned=40))
    assert (none.level, none.current, none.good, none.headline) == ("fair", None, None, "No model yet")
    assert "due every 1,000" in none.detail


def test_after_a_restart_the_skill_of_before_is_said() -> None:
    """The newest version's record says that it knew something; that nothing newer was scored is said, too."""
    verdict = verdict_of(replace(FINE, accuracy=Figures(), balanced_accuracy=Figures()))
    assert "it knew something when it was published; no newer points of both labels were scored" in verdict.detail
    unknown = verdict_of(replace(FINE, accuracy=Figures(), balanced_accuracy=Figures(), skill=None))
    assert "its quality has not been measured yet" in unknown.detail


def test_behind_and_worse_says_both() -> None:
    """One trouble does not hide the other."""
    verdict = verdict_of(replace(FINE, lag=9_000, balanced_accuracy=Figures(0.7, 0.9, 0.5)))
    assert (verdict.current, verdict.good) == (False, False)
    assert "9,000 records wait" in verdict.detail
    assert "0.700" in verdict.detail


def test_one_answer_for_every_point_is_not_good() -> None:
    """However high its accuracy: the answer, what it misses, and what to do."""
    verdict = verdict_of(replace(FINE, skill=skilled("unknown", "negative")))
    assert (verdict.level, verdict.current, verdict.good) == ("bad", True, False)
    assert verdict.headline == "Current, but it gives one answer to every point"
    assert "It answers false to every point; 24 % are true: try svm.class_weight = balanced" in verdict.detail


def test_knowing_nothing_is_not_good() -> None:
    """With the figures that say so."""
    verdict = verdict_of(replace(FINE, skill=skilled("none", "both")))
    assert (verdict.good, verdict.headline) == (False, "Current, but it knows nothing")
    assert "balanced accuracy 0.503 and AUC 0.507 on 10,000 points are at the level of chance" in verdict.detail


def test_what_cannot_be_told_is_neither_good_nor_bad() -> None:
    """The label that is missing, and between what the figures lie; likewise where nothing was judged yet."""
    verdict = verdict_of(replace(FINE, skill=skilled("unknown", "both", positives=30)))
    assert (verdict.level, verdict.good, verdict.headline) == ("fair", None, "Current")
    assert "with 30 points of true, balanced accuracy 0.503 (0.480 to 0.530)" in verdict.detail
    assert verdict_of(replace(FINE, skill=None)).good is None


def test_with_class_weights_plain_accuracy_says_nothing() -> None:
    """A lower one is what was asked for; without them it is a fault."""
    beaten = replace(FINE, accuracy=Figures(0.55, 0.55, 0.73))
    assert verdict_of(beaten).good is False
    assert verdict_of(replace(beaten, weighted=True)).good is True

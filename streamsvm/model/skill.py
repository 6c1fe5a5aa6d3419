"""What was found of a version's skill when it was published, and its form in a header of the version's record.

How it is judged: `streamsvm.quality.skill`. The header ``streamsvm.skill`` holds a `Skill` as JSON
(`streamsvm.model.skill_header`). It depends on how much had been read, so it is not part of the version's hash, and
proves nothing: whoever may write to the models topic can write any. A header that is damaged, or makes no sense, is
passed over.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, Literal

import msgspec

HEADER: Final = "streamsvm.skill"
LARGEST_BYTES: Final = 4_096
"""Twice what two samples take."""
ONE_ANSWER: Final = 0.01
"""An answer counts as never given where it is given to fewer points than a hundredth of those it is right for."""
DIGITS: Final = 6
"""Significant digits of a figure: the samples know three."""

State = Literal["some", "none", "unknown"]
Answers = Literal["both", "negative", "positive"]
Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0 + 1e-6)]
Count = Annotated[int, msgspec.Meta(ge=0)]


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A figure with the interval that holds over all versions of a model; its ends may lie outside 0 and 1."""

    value: Share
    low: float
    high: float


class SampleFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a version's answers to a sample come to; everything but the counts is by weight.

    Attributes
    ----------
    points, positives : int
    said, true : float
        Shares that the version says, and that are, positive.
    table : tuple of four float
        Shares of all weight: true negatives, false positives, false negatives, true positives.
    balanced_accuracy, auc : Estimate
        AUC is the area under the ROC curve.
    average_precision : float
    log_loss, brier : float or None
        None where the version has no probabilities.
    """

    points: Count
    positives: Count
    said: Share
    true: Share
    table: tuple[Share, Share, Share, Share]
    balanced_accuracy: Estimate
    auc: Estimate
    average_precision: Share
    log_loss: float | None
    brier: float | None

    @property
    def answers(self) -> Answers:
        """Whether every point, or nearly every one, gets one answer."""
        if self.said <= ONE_ANSWER * self.true:
            return "negative"
        return "positive" if 1.0 - self.said <= ONE_ANSWER * (1.0 - self.true) else "both"


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a version's skill.

    Attributes
    ----------
    state : "some", "none" or "unknown"
        Whether its answers are better than chance; "unknown" while that is not clear.
    answers : "both", "negative" or "positive"
        Whether it gives one answer to every point, or nearly every one.
    newest : SampleFigures or None
        Of the newest points, each answered by the version that was current before any version had learned the point;
        None with too few of a label.
    audit : SampleFigures or None
        Of the audit sample, answered by this version; None with too few of a label.
    """

    state: State
    answers: Answers
    newest: SampleFigures | None
    audit: SampleFigures | None

    @property
    def figures(self) -> SampleFigures | None:
        """Those to show: of the newest points, else of the audit sample."""
        return self.newest or self.audit


def complaint(skill: Skill, labels: tuple[Any, Any], *, weighted: bool) -> str:
    """Return, as a clause, what is wrong with a version that gives one answer, or knows nothing; empty if nothing is.

    Parameters
    ----------
    skill : Skill
    labels : tuple of two labels
        The negative and the positive one.
    weighted : bool
        Whether class weights are configured already.
    """
    figures = skill.figures
    if figures is None:
        return ""
    if skill.answers != "both":
        return _one_answer(skill, figures, labels, weighted)
    if skill.state == "none":
        return (
            f"it knows nothing: balanced accuracy {figures.balanced_accuracy.value:.3f} and AUC "
            f"{figures.auc.value:.3f} on {figures.points:,} points are at the level of chance"
        )
    return ""


def doubt(skill: Skill, labels: tuple[Any, Any]) -> str:
    """Return, as a clause, why it is not clear yet whether a version knows something; empty if it is."""
    figures = skill.figures
    if skill.state != "unknown":
        return ""
    if figures is None:
        return (
            "it is not clear yet whether it knows something: beside what it was trained on, too few points of "
            "one label came"
        )
    rarer, fewer = min(((1, figures.positives), (0, figures.points - figures.positives)), key=lambda one: one[1])
    auc, balanced = figures.auc, figures.balanced_accuracy
    return (
        f"it is not clear yet whether it knows something: with {fewer:,} points of {spelt(labels[rarer])}, balanced "
        f"accuracy {balanced.value:.3f} ({balanced.low:.3f} to {balanced.high:.3f}) and AUC {auc.value:.3f} "
        f"({auc.low:.3f} to {auc.high:.3f}) may be chance"
    )


def spelt(label: Any) -> str:
    """Return a label as it stands in JSON."""
    return json.dumps(label, ensure_ascii=False)  # a foreign label may be no valid Unicode


def _one_answer(skill: Skill, figures: SampleFigures, labels: tuple[Any, Any], weighted: bool) -> str:
    answer, other = labels if skill.answers == "negative" else reversed(labels)
    share = figures.true if skill.answers == "negative" else 1.0 - figures.true
    negatives, false_alarms, missed, hits = figures.table
    never = false_alarms + hits if skill.answers == "negative" else negatives + missed
    every = "nearly every" if never else "every"
    clause = f"it answers {spelt(answer)} to {every} point; {_percent(share)} are {spelt(other)}"
    if skill.state == "some":
        clause += f", and its ranking is better than chance (AUC {figures.auc.value:.3f})"
    if not weighted:
        return f"{clause}: try svm.class_weight = balanced"
    return f"{clause}, although classes are weighted: the features may not tell the labels apart"


def _percent(share: float) -> str:
    return f"{100.0 * share:.2g} %" if share < 0.995 else f"{100.0 * share:.4g} %"

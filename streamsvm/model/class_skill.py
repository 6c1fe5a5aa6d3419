"""What was found of the skill of a version of more than two labels, in the header `streamsvm.skill` of its record.

As `streamsvm.model.skill` is for two labels: not part of the version's hash, and no proof. How it is judged:
`streamsvm.quality.skill`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from streamsvm.model.skill import ONE_ANSWER, Count, Estimate, Share, State, spelt

LARGEST_BYTES: Final = 32_768
"""Twice what two samples of 128 labels take."""
NAMED: Final = 3
"""Labels that a sentence names; of more it says how many there are."""


class Recall(msgspec.Struct, frozen=True, kw_only=True):
    """How one label was answered; shares are of all weight but `right`.

    Attributes
    ----------
    points : int
    true, said : float
        Shares that have the label, and that are answered with it.
    right : float or None
        Share of the label's own weight that is answered right (recall); None with too few points.
    """

    points: Count
    true: Share
    said: Share
    right: Share | None

    @property
    def silent(self) -> bool:
        """Whether the label is there, and never answered, or nearly so."""
        return self.right is not None and self.said <= ONE_ANSWER * self.true


class ClassFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a version's answers to a sample come to.

    Attributes
    ----------
    points : int
    judged : int
        Labels with enough points to be judged: `balanced_accuracy` is of these, and chance is 1 / `judged`.
    accuracy : float
        Share of the weight that is answered right.
    balanced_accuracy : Estimate
    labels : tuple of Recall
        One for each label, in their order.
    """

    points: Count
    judged: Count
    accuracy: Share
    balanced_accuracy: Estimate
    labels: tuple[Recall, ...]

    @property
    def silent(self) -> tuple[int, ...]:
        """The indices of labels that are there and never answered."""
        return tuple(index for index, label in enumerate(self.labels) if label.silent)


class ClassSkill(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a version's skill.

    Attributes
    ----------
    state : "some", "none" or "unknown"
        Whether its answers are better than chance; "unknown" while that is not clear.
    newest : ClassFigures or None
        Of the newest points, each answered by the version that was current before any version had learned the point.
    audit : ClassFigures or None
        Of the audit sample, answered by this version.
    """

    state: State
    newest: ClassFigures | None
    audit: ClassFigures | None

    @property
    def figures(self) -> ClassFigures | None:
        """Those to show: of the newest points, else of the audit sample."""
        return self.newest or self.audit

    @property
    def silent(self) -> tuple[int, ...]:
        """The indices of labels that are there and never answered."""
        return () if self.figures is None else self.figures.silent


def class_complaint(skill: ClassSkill, labels: Sequence[Any], *, weighted: bool) -> str:
    """Return a clause on what is wrong with a version that never answers a label or knows nothing; empty if none.

    Parameters
    ----------
    skill : ClassSkill
    labels : sequence of labels
    weighted : bool
        Whether class weights are configured already.
    """
    figures = skill.figures
    if figures is None:
        return ""
    if skill.state == "none":
        return (
            f"it knows nothing: balanced accuracy {figures.balanced_accuracy.value:.3f} on {figures.points:,} points "
            f"of {figures.judged} labels is at the level of chance, {1.0 / figures.judged:.3f}"
        )
    if not figures.silent:
        return ""
    named = ", ".join(spelt(labels[index]) for index in figures.silent[:NAMED])
    more = f" and {len(figures.silent) - NAMED} more" if len(figures.silent) > NAMED else ""
    share = sum(figures.labels[index].true for index in figures.silent)
    clause = f"it never answers {named}{more}, which {100.0 * share:.2g} % of the weight has"
    if not weighted:
        return f"{clause}: try svm.class_weight = balanced"
    return f"{clause}, although classes are weighted: the features may not tell the label from others"


def class_doubt(skill: ClassSkill) -> str:
    """Return, as a clause, why it is not clear yet whether a version knows something; empty if it is."""
    if skill.state != "unknown":
        return ""
    figures = skill.figures
    if figures is None:
        return (
            "it is not clear yet whether it knows something: beside what it was trained on, too few points of "
            "two labels came"
        )
    balanced = figures.balanced_accuracy
    return (
        f"it is not clear yet whether it knows something: balanced accuracy {balanced.value:.3f} ({balanced.low:.3f} "
        f"to {balanced.high:.3f}) on {figures.points:,} points of {figures.judged} labels may be chance, "
        f"{1.0 / figures.judged:.3f}"
    )


def class_summary(skill: ClassSkill, labels: Sequence[Any]) -> str:
    """Return, as a clause, how a version's answers are: overall, and the label that is answered worst."""
    figures = skill.figures
    if figures is None:
        return "not measured"
    judged = [(one.right, index) for index, one in enumerate(figures.labels) if one.right is not None]
    right, index = min(judged)
    return (
        f"balanced accuracy {figures.balanced_accuracy.value:.4f} of {figures.judged} labels (chance "
        f"{1.0 / figures.judged:.3f}), accuracy {figures.accuracy:.4f}; worst is {spelt(labels[index])}, "
        f"{100.0 * right:.3g} % right"
    )

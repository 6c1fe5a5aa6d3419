"""What a trainer's figures mean, in one line: whether the model is current, and whether it is good.

*Current*: fewer rows are learned and in no version than two cuts have, and no more records wait to be read than one cut
has rows. *Good*: the newest version knows something and does not give one answer to every point; over the newest rows,
each scored before it was learned, neither baseline beats the model by more than the alerts of
`deploy/prometheus/rules.yml` allow; and the quality gate did not refuse the newest version.

Plain accuracy counts only without class weights: with them, a lower one is what was asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from consumers.page.status import Figures, GateStatus, VerdictStatus
from streamsvm.config import Label
from streamsvm.model.class_skill import NAMED, ClassSkill
from streamsvm.model.skill import spelt
from streamsvm.model.skill_header import AnySkill, complaint_of, doubt_of

BEHIND_CUTS: Final = 2
SGD_MARGIN: Final = 0.02
"""Of balanced accuracy."""
MAJORITY_MARGIN: Final = 0.01
"""Of accuracy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the verdict is made from.

    Attributes
    ----------
    number : int
        Of the newest version; 0 if there is none.
    covered : int or None
        Rows that it covers; None where that is not known, as after a start.
    learned : int
        Rows learned.
    cut_rows : int
        Rows after which a cut falls due.
    lag : int or None
        Records that wait.
    gate : GateStatus or None
        Of the newest version.
    current_number : int or None
        What the alias `current` names.
    accuracy, balanced_accuracy : Figures
    skill : Skill, ClassSkill or None
        Of the newest version; None where that is not measured, or was not yet.
    labels : tuple of labels
    weighted : bool
        Whether class weights are configured.
    missing : tuple of labels
        Those of which the newest version has learned no point.
    """

    number: int
    covered: int | None
    learned: int
    cut_rows: int
    lag: int | None
    gate: GateStatus | None
    current_number: int | None
    accuracy: Figures
    balanced_accuracy: Figures
    skill: AnySkill | None
    labels: tuple[Label, ...]
    weighted: bool
    missing: tuple[Label, ...] = ()


def verdict_of(facts: Facts) -> VerdictStatus:
    """Judge; `since` is left open."""
    if not facts.number:
        return VerdictStatus(level="fair", current=None, good=None, headline="No model yet", detail=_first(facts))
    behind, faults = _behind(facts), _faults(facts)
    judged = facts.balanced_accuracy.model is not None and facts.skill is not None and facts.skill.state == "some"
    good = False if faults else True if judged else None
    if behind:
        return VerdictStatus(
            level="bad",
            current=False,
            good=good,
            headline="Behind" if not faults else "Behind, and not good",
            detail=_join(behind, *faults),
        )
    if faults:
        return VerdictStatus(
            level="bad",
            current=True,
            good=False,
            headline=_headline(facts),
            detail=_join(*faults, _unseen(facts), _covers(facts)),
        )
    if judged:
        return VerdictStatus(
            level="good",
            current=True,
            good=True,
            headline="Current and good",
            detail=_join(_unseen(facts), _covers(facts), _better(facts.balanced_accuracy)),
        )
    return VerdictStatus(
        level="fair",
        current=True,
        good=None,
        headline="Current",
        detail=_join(_unseen(facts), _covers(facts), _unjudged(facts)),
    )


def _headline(facts: Facts) -> str:
    skill = facts.skill
    if isinstance(skill, ClassSkill):
        if skill.silent and skill.state != "none":
            named = spelt(facts.labels[skill.silent[0]]) if len(skill.silent) == 1 else f"{len(skill.silent)} labels"
            return f"Current, but it never answers {named}"
    elif skill is not None and skill.answers != "both":
        return "Current, but it gives one answer to every point"
    return "Current, but it knows nothing" if skill is not None and skill.state == "none" else "Current, but not good"


def _unjudged(facts: Facts) -> str:
    """Return why it is not known whether the version is good."""
    doubt = doubt_of(facts.skill, facts.labels) if facts.skill is not None else ""
    if not doubt and facts.skill is not None and facts.skill.state == "some":
        return "it knew something when it was published; no newer points of both labels were scored since this start"
    return doubt or "its quality has not been measured yet"


def _first(facts: Facts) -> str:
    waits = f", {facts.lag:,} records wait" if facts.lag else ""
    return f"{facts.learned:,} rows are learned{waits}; a version is due every {facts.cut_rows:,}."


def _behind(facts: Facts) -> str:
    """Return how far the newest version is behind, if it is."""
    if facts.lag is not None and facts.lag > facts.cut_rows:
        return f"{facts.lag:,} records wait to be read; version {facts.number} is the newest"
    if facts.covered is not None and facts.learned - facts.covered >= BEHIND_CUTS * facts.cut_rows:
        return f"{facts.learned - facts.covered:,} rows are learned that version {facts.number} does not cover"
    return ""


def _faults(facts: Facts) -> list[str]:
    """Return what is not good."""
    accuracy, balanced, gate = facts.accuracy, facts.balanced_accuracy, facts.gate
    found = []
    if gate is not None and gate.outcome == "refused":
        kept = (
            "no version is current" if facts.current_number is None else f"version {facts.current_number} stays current"
        )
        found.append(f"the quality gate refused version {facts.number}: {kept}")
    if facts.skill is not None and (wrong := complaint_of(facts.skill, facts.labels, weighted=facts.weighted)):
        found.append(wrong)
    if _beaten(balanced.model, balanced.sgd, SGD_MARGIN):
        found.append(f"balanced accuracy {balanced.model:.3f}, below the SGD baseline's {balanced.sgd:.3f}")
    if not facts.weighted and _beaten(accuracy.model, accuracy.majority, MAJORITY_MARGIN):
        found.append(
            f"accuracy {accuracy.model:.3f}, below the {accuracy.majority:.3f} of always predicting the larger class"
        )
    return found


def _beaten(own: float | None, other: float | None, margin: float) -> bool:
    return own is not None and other is not None and own + margin < other


def _unseen(facts: Facts) -> str:
    """Name the labels that no point has come of, and of what else it may come."""
    if not facts.missing:
        return ""
    named = ", ".join(spelt(label) for label in facts.missing[:NAMED])
    more = f" and {len(facts.missing) - NAMED} more labels" if len(facts.missing) > NAMED else ""
    return f"no point of {named}{more} has come yet: wait for it, or check that points.labels fits the records"


def _covers(facts: Facts) -> str:
    if facts.covered is None:
        return f"version {facts.number} is the newest; this process has not published a version yet"
    return f"version {facts.number} covers {facts.covered:,} of the {facts.learned:,} rows learned"


def _better(balanced: Figures) -> str:
    if balanced.model is None or balanced.sgd is None:
        return f"its balanced accuracy is {balanced.model:.3f}"
    apart = balanced.model - balanced.sgd
    side = "above" if apart >= 0 else "below"
    return f"balanced accuracy {balanced.model:.3f}, {abs(apart):.3f} {side} the SGD baseline"


def _join(*clauses: str) -> str:
    sentence = "; ".join(clause for clause in clauses if clause)
    return f"{sentence[:1].upper()}{sentence[1:]}."

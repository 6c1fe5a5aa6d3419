"""Quality as served, for people and as plain JSON values, beside what was known when a version was published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.table import Table

from consumers.branches.challenges.reading import JoinedScores
from consumers.host.untrusted_text import cell
from streamsvm.branches.challenges.quality import ServedQuality, by_version
from streamsvm.model.skill import SampleFigures, Skill
from streamsvm.model.skill_header import AnySkill

Skills = Mapping[int, AnySkill | None]


def plain(reading: JoinedScores, skills: Skills, costs: tuple[float, float] | None) -> dict[str, Any]:
    """Return everything as a JSON value.

    Parameters
    ----------
    reading : JoinedScores
    skills : mapping of int to Skill or ClassSkill or None
        What the headers of versions say, by number.
    costs : tuple of two float or None
        Of a missed positive and of a false alarm.
    """
    found = reading.served
    return {
        "versions": [_row(number, one, skills) for number, one in by_version(found, costs).items()],
        "shadows": [_row(number, one, skills) for number, one in by_version(found, costs, shadow=True).items()],
        "scores": found.counts["scores"],
        "labels": found.counts["labels"],
        "outcomes": {name: count for name, count in found.counts.items() if name not in ("scores", "labels")},
        "left_out": reading.left_out,
        "ranges": {
            "scores": {str(p): list(ends) for p, ends in sorted(reading.scores.items())},
            "labels": {str(p): list(ends) for p, ends in sorted(reading.labels.items())},
        },
    }


def _row(number: int, found: ServedQuality, skills: Skills) -> dict[str, Any]:
    audit, before = _sample(skills.get(number), "audit"), _sample(skills.get(number + 1), "newest")
    return {
        "version": number,
        **asdict(found),
        "auc_audit": None if audit is None else audit.auc.value,
        "auc_before_learning": None if before is None else before.auc.value,
    }


def _sample(skill: AnySkill | None, which: str) -> SampleFigures | None:
    return getattr(skill, which) if isinstance(skill, Skill) else None


def table(name: str, said: Mapping[str, Any], *, with_cost: bool) -> Table:
    """Return what `plain` returns as a table."""
    caption = (
        "AUC with an interval of 95 %. audit: AUC on the version's own audit sample; before: of the newest points "
        "before they were learned, when the next version was published"
    )
    found = Table(title=cell(f"{name} as served"), title_style="bold", caption=caption, caption_justify="left")
    columns = ["version", "labels", "positive", "AUC", "interval", "accuracy", "balanced", "log loss"]
    for column in (*columns, *(["cost"] if with_cost else []), "audit", "before"):
        found.add_column(column, justify="right", no_wrap=True)
    for rows, mark in ((said["versions"], ""), (said["shadows"], " (shadow)")):
        for row in rows:
            low, high = row["auc_low"], row["auc_high"]
            found.add_row(
                f"{row['version']}{mark}",
                f"{row['labels']:,}",
                f"{row['positives']:,}",
                _number(row["auc"]),
                "" if low is None else f"{low:.3f} to {high:.3f}",
                _number(row["accuracy"]),
                _number(row["balanced_accuracy"]),
                _number(row["log_loss"]),
                *([_number(row["cost"])] if with_cost else []),
                _number(row["auc_audit"]),
                _number(row["auc_before_learning"]),
            )
        found.add_section()
    return found


def summary(said: Mapping[str, Any]) -> str:
    """Say in a line what became of scores and labels."""
    outcomes, scores = said["outcomes"], said["scores"]
    parts = [f"{outcomes['joined']:,} of {scores:,} scores have a label", f"{outcomes['open']:,} may still get one"]
    if scores:
        parts.append(f"{outcomes['absent']:,} got none within the horizon")
    for outcome, what in (
        ("unmatched_label", "labels found no score within the horizon"),
        ("doubled_label", "labels came twice"),
        ("changed_label", "labels changed an earlier one"),
        ("doubled_row", "scores had the key of an earlier one"),
    ):
        if outcomes[outcome]:
            parts.append(f"{outcomes[outcome]:,} {what}")
    if said["left_out"]:
        parts.append(f"{said['left_out']:,} records held no score of this model")
    return "; ".join(parts)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"

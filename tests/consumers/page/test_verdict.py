"""The status in one line."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from consumers.page.status import Figures, GateStatus
from consumers.page.verdict import MAJORITY_MARGIN, SGD_MARGIN, Facts, verdict_of
from streamsvm.model import Answers, Estimate, SampleFigures, Skill, State


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


UNMEASURED: dict[str, Any] = {"accuracy": Figures(), "balanced_accuracy": Figures()}
BEATEN: dict[str, Any] = {"accuracy": Figures(0.55, 0.55, 0.73)}
ROWS: dict[str, tuple[dict[str, Any], tuple[str, bool | None, bool | None], str, str]] = {
    "it keeps up and beats its baselines": (
        {},
        ("good", True, True),
        "Current and good",
        "Version 5 covers 5,000 of the 5,100 rows learned; balanced accuracy 0.910, 0.010 above the SGD baseline.",
    ),
    "a label never came": (
        {"labels": tuple("abcdefg"), "missing": ("c",)},
        ("good", True, True),
        "Current and good",
        "^No point of .*c.* has come yet.*points.labels",
    ),
    "most labels never came": (
        {"labels": tuple("abcdefg"), "missing": tuple("cdefg")},
        ("good", True, True),
        "Current and good",
        "^No point of .*more labels.* has come yet",
    ),
    "more records wait than a cut has": ({"lag": 1_001}, ("bad", False, True), "Behind", "1,001 records wait"),
    "as many wait": ({"lag": 1_000}, ("good", True, True), "Current and good", ""),
    "two cuts of rows are in no version": ({"learned": 7_000}, ("bad", False, True), "Behind", ""),
    "a row less": ({"learned": 6_999}, ("good", True, True), "Current and good", ""),
    "SGD is better": (
        {"balanced_accuracy": Figures(0.88, 0.881 + SGD_MARGIN, 0.5)},
        ("bad", True, False),
        "",
        "",
    ),
    "SGD is a little better": (
        {"balanced_accuracy": Figures(0.88, 0.879 + SGD_MARGIN, 0.5)},
        ("good", True, True),
        "",
        "",
    ),
    "the majority is better": (
        {"accuracy": Figures(0.88, None, 0.881 + MAJORITY_MARGIN)},
        ("bad", True, False),
        "",
        "",
    ),
    "the majority is a little better": (
        {"accuracy": Figures(0.88, None, 0.879 + MAJORITY_MARGIN)},
        ("good", True, True),
        "",
        "",
    ),
    "class weights ask for a lower plain accuracy": ({**BEATEN, "weighted": True}, ("good", True, True), "", ""),
    "without class weights that is a fault": (BEATEN, ("bad", True, False), "", ""),
    "the gate refused the newest": (
        {"gate": GateStatus("refused", "", 0.7, 0.9), "current_number": 4},
        ("bad", True, False),
        "",
        "refused version 5: version 4 stays current",
    ),
    "nothing is measured, but it knew something": (
        UNMEASURED,
        ("fair", True, None),
        "",
        "it knew something when it was published; no newer points of both labels were scored",
    ),
    "nothing is known": ({**UNMEASURED, "skill": None}, ("fair", True, None), "", "its quality has not been measured"),
    "no version yet": (
        {"number": 0, "covered": None, "learned": 40},
        ("fair", None, None),
        "No model yet",
        "due every 1,000",
    ),
    "behind and worse": (
        {"lag": 9_000, "balanced_accuracy": Figures(0.7, 0.9, 0.5)},
        ("bad", False, False),
        "",
        "9,000 records .*0.700",
    ),
    "one answer for every point": (
        {"skill": skilled("unknown", "negative")},
        ("bad", True, False),
        "Current, but it gives one answer to every point",
        "It answers false to every point; 24 % are true: try svm.class_weight = balanced",
    ),
    "it knows nothing": (
        {"skill": skilled("none", "both")},
        ("bad", True, False),
        "Current, but it knows nothing",
        "balanced accuracy 0.503 and AUC 0.507 on 10,000 points are at the level of chance",
    ),
    "it cannot be told": (
        {"skill": skilled("unknown", "both", positives=30)},
        ("fair", True, None),
        "Current",
        r"with 30 points of true, balanced accuracy 0.503 \(0.480 to 0.530\)",
    ),
}
"""Facts that differ from `FINE`; level, current, good; the headline, if it is told; what the detail says."""


@pytest.mark.parametrize("name", ROWS)
def test_the_line_says_how_it_stands(name: str) -> None:
    """Level, both answers, and the figures that say why."""
    facts, answers, headline, said = ROWS[name]
    verdict = verdict_of(replace(FINE, **facts))
    assert (verdict.level, verdict.current, verdict.good) == answers, verdict
    assert headline in ("", verdict.headline)
    assert re.search(said, verdict.detail), verdict.detail

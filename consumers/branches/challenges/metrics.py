"""Metrics of challenges, and of the version in the shadow."""

from __future__ import annotations

from typing import Final

from consumers.branches.challenges.settings import ChallengeOptions, ShadowScoring
from consumers.metrics import BranchMetrics, Definition
from streamsvm.sections import section

CHALLENGES: Final = (
    Definition(
        "streamsvm_challenges",
        "counter",
        "Challenges that ended under output.gate = shadow, by outcome: better and passed, where the challenger became "
        "current; worse, undecided, unlabeled and void, where it did not.",
        "unlabeled or passed: no scorer scores the challenger, or no labels come; see output.gate_wait. Only "
        "undecided: versions are as good as the current one.",
        ("outcome",),
        panel="Challenges: champion and challenger",
    ),
    Definition(
        "streamsvm_challenger_version",
        "gauge",
        "Number of the version that challenges the current one; 0 while there is none.",
        "The same for long, with few streamsvm_challenge_labels: see that a scorer with scoring.shadow runs.",
        panel="Challenges: champion and challenger",
    ),
    Definition(
        "streamsvm_challenge_labels",
        "gauge",
        "Labels of rows that both the current version and the challenger scored, in the open challenge.",
        "The number does not grow: no scorer scores the challenger, or no labels come.",
        panel="Challenges: champion and challenger",
    ),
    Definition(
        "streamsvm_challenge_scores_left_out",
        "gauge",
        "What was read of the topic of scores in the open challenge, and does not count: records that cannot be read "
        "(`unreadable`), and scores of records that the input does not have (`nowhere`).",
        "Above 0: another program writes to the topic of the scores; the log names the first such record.",
        ("reason",),
        panel="Challenges: champion and challenger",
    ),
    Definition(
        "streamsvm_challenge_figure",
        "gauge",
        "The figure of output.gate_figure on these labels at the newest look, of `champion` and of `challenger`.",
        "Compare the two; streamsvm_challenge_difference says what is certain.",
        ("of",),
        panel="Challenges: champion and challenger",
    ),
    Definition(
        "streamsvm_challenge_difference",
        "gauge",
        "By how much the challenger does better: the mean of all differences (`mean`), and an interval that holds at "
        "all looks together (`low`, `high`).",
        "`low` above 0: the challenger wins. `high` below 0: it loses. Else nothing is certain yet.",
        ("end",),
        panel="Challenges: champion and challenger",
    ),
)

TRAINER: Final = BranchMetrics(
    definitions=CHALLENGES,
    after="streamsvm_gate_verdicts",
    wanted=lambda settings: section(settings, ChallengeOptions).challenges,
)
SHADOW: Final = (
    Definition(
        "streamsvm_shadow_version",
        "gauge",
        "Number of the version that is scored in the shadow, as scoring.shadow names it; 0 while none can "
        "be scored on the same records.",
        "0 for long: nobody set the alias, or the log says shadow_not_scored.",
        panel="Scorer: version and its age",
    ),
)

SCORER: Final = BranchMetrics(
    definitions=SHADOW,
    after="streamsvm_serving_version",
    wanted=lambda settings: bool(section(settings, ShadowScoring).shadow),
)

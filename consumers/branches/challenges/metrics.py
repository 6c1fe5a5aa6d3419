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
        "Challenges that ended: the challenger became current (better, passed), or did not (worse, undecided, "
        "unlabeled, void).",
        "unlabeled or passed: see StreamsvmChallengeWithoutLabels. Only undecided: versions are as good as the current "
        "one.",
        ("outcome",),
    ),
    Definition(
        "streamsvm_challenger_version",
        "gauge",
        "Number of the challenger; 0: none.",
        "The same for long, with few streamsvm_challenge_labels: look whether a scorer has scoring.shadow.",
    ),
    Definition(
        "streamsvm_challenge_labels",
        "gauge",
        "Labels of rows that both versions of the open challenge scored.",
        "Flat: no scorer scores the challenger, or no labels come.",
    ),
    Definition(
        "streamsvm_challenge_scores_left_out",
        "gauge",
        "Of the scores in the open challenge, those that do not count: `unreadable`, or `nowhere` in the input.",
        "Above 0: another program writes there; the log names the first record.",
        ("reason",),
    ),
    Definition(
        "streamsvm_challenge_figure",
        "gauge",
        "The output.gate_figure of champion and challenger on these labels.",
        "streamsvm_challenge_difference says what is certain.",
        ("of",),
    ),
    Definition(
        "streamsvm_challenge_difference",
        "gauge",
        "By how much the challenger does better, with an interval that holds at all looks together.",
        "`low` above 0: it wins. `high` below 0: it loses.",
        ("end",),
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
        "Number of the version that scoring.shadow names; 0: none can be scored on these records.",
        "0 for long: no such alias, or shadow_not_scored in the log.",
    ),
)

SCORER: Final = BranchMetrics(
    definitions=SHADOW,
    after="streamsvm_serving_version",
    wanted=lambda settings: bool(section(settings, ShadowScoring).shadow),
)

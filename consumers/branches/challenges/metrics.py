"""Metrics of the version in the shadow."""

from __future__ import annotations

from typing import Final

from consumers.branches.challenges.settings import ShadowScoring
from consumers.metrics import BranchMetrics, Definition
from streamsvm.sections import section

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

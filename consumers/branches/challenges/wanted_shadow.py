"""When a scorer has a version in the shadow of the one that serves."""

from __future__ import annotations

from typing import Final

from consumers.branches.challenges.settings import ShadowScoring
from consumers.scorer.companion import ScorerPlug
from streamsvm.sections import section

SCORER: Final = ScorerPlug(
    wanted=lambda settings: bool(section(settings, ShadowScoring).shadow),
    companion="consumers.branches.challenges.shadow:companion_of",
)

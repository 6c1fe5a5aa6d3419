"""When versions of a trainer have to win a challenge."""

from __future__ import annotations

from typing import Final

from consumers.branches.challenges.settings import ChallengeOptions
from consumers.trainer.attachment import TrainerPlug
from streamsvm.sections import section

TRAINER: Final = TrainerPlug(
    wanted=lambda settings: section(settings, ChallengeOptions).challenges,
    attachment="consumers.branches.challenges.attached:ShadowOfTrainer",
)

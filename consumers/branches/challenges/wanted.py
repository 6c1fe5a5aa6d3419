"""When versions of a trainer have to win a challenge."""

from __future__ import annotations

from typing import Final

from consumers.trainer.attachment import TrainerPlug

TRAINER: Final = TrainerPlug(
    wanted=lambda settings: settings.output.gate == "shadow",
    attachment="consumers.branches.challenges.attached:ShadowOfTrainer",
)

"""When versions of a trainer have to win a challenge, and what is compiled for it."""

from __future__ import annotations

from typing import Final

from consumers.branches.challenges.settings import ChallengeOptions
from consumers.trainer.attachment import TrainerPlug
from consumers.trainer.kernels import Kernels
from streamsvm.sections import section

TRAINER: Final = TrainerPlug(
    wanted=lambda settings: section(settings, ChallengeOptions).challenges,
    attachment="consumers.branches.challenges.attached:ShadowOfTrainer",
)
KERNELS: Final = Kernels(
    wanted=lambda config: True,  # noqa: ARG005 - no model's configuration says what the gate is
    warm_up="streamsvm.branches.challenges.betting:warm_up",
)

"""When others learn for a trainer."""

from __future__ import annotations

from typing import Final

from consumers.trainer.attachment import TrainerPlug

TRAINER: Final = TrainerPlug(
    wanted=lambda settings: settings.training.workers > 1 or settings.training.from_coresets,
    attachment="consumers.branches.workers.attached:Workers",
)

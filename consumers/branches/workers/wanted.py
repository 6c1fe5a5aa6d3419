"""When others learn for a trainer."""

from __future__ import annotations

from typing import Final

from consumers.branches.workers.settings import TrainingByWorkers
from consumers.settings import Settings
from consumers.trainer.attachment import TrainerPlug
from streamsvm.sections import section


def _learn_elsewhere(settings: Settings) -> bool:
    return section(settings, TrainingByWorkers).from_coresets


TRAINER: Final = TrainerPlug(
    wanted=_learn_elsewhere,
    attachment="consumers.branches.workers.attached:Workers",
)

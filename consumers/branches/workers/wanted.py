"""When others learn for a trainer."""

from __future__ import annotations

from typing import Final

from consumers.branches.workers.settings import TrainingByWorkers
from consumers.settings import Settings
from consumers.trainer.attachment import TrainerPlug
from streamsvm.sections import section


def _learn_elsewhere(settings: Settings) -> bool:
    training = section(settings, TrainingByWorkers)
    return training.workers > 1 or training.from_coresets


TRAINER: Final = TrainerPlug(
    wanted=_learn_elsewhere,
    attachment="consumers.branches.workers.attached:Workers",
)

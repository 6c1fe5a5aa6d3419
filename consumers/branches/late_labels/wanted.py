"""When a trainer joins late labels, and what is compiled for it."""

from __future__ import annotations

from typing import Final

from consumers.branches.late_labels.settings import LabelsConfig
from consumers.trainer.attachment import TrainerPlug
from consumers.trainer.kernels import Kernels
from streamsvm.config import ModelConfig
from streamsvm.sections import section

TRAINER: Final = TrainerPlug(
    wanted=lambda settings: bool(section(settings, LabelsConfig).topic),
    attachment="consumers.branches.late_labels.attached:LateLabels",
)


def warm_up(config: ModelConfig) -> None:
    """Compile, or load from numba's file cache, what a join runs."""
    from streamsvm.joining import joiner

    joiner.warm_up(config.points.numpy_dtype)


KERNELS: Final = Kernels(
    wanted=lambda config: config.label_rule is not None,
    warm_up="consumers.branches.late_labels.wanted:warm_up",
)

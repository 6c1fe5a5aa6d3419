"""When a trainer joins late labels."""

from __future__ import annotations

from typing import Final

from consumers.branches.late_labels.settings import LabelsConfig
from consumers.trainer.attachment import TrainerPlug
from streamsvm.sections import section

TRAINER: Final = TrainerPlug(
    wanted=lambda settings: bool(section(settings, LabelsConfig).topic),
    attachment="consumers.branches.late_labels.attached:LateLabels",
)

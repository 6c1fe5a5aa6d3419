"""When a trainer joins late labels."""

from __future__ import annotations

from typing import Final

from consumers.trainer.attachment import TrainerPlug

TRAINER: Final = TrainerPlug(
    wanted=lambda settings: bool(settings.labels.topic),
    attachment="consumers.branches.late_labels.attached:LateLabels",
)

"""When a trainer has a history: always, for rows may have been erased of any model."""

from __future__ import annotations

from typing import Final

from consumers.trainer.attachment import TrainerPlug

TRAINER: Final = TrainerPlug(
    wanted=lambda settings: True,  # noqa: ARG005
    attachment="consumers.branches.history.attached:History",
)

"""When a trainer has a history: always, for rows may have been erased although nothing is archived; and deletes."""

from __future__ import annotations

from typing import Final

from consumers.branches.history.settings import DeletesConfig
from consumers.trainer.attachment import TrainerPlug
from streamsvm.sections import section

TRAINER: Final = TrainerPlug(
    wanted=lambda settings: True,  # noqa: ARG005
    attachment="consumers.branches.history.attached:History",
)
DELETES: Final = TrainerPlug(
    wanted=lambda settings: bool(section(settings, DeletesConfig).topic),
    attachment="consumers.branches.history.deletes:Deletes",
)

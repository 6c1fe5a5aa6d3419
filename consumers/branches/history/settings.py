"""Which older checkpoints are kept for rows that are erased later."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from consumers.settings_sockets import SettingsOptions
from streamsvm.branches.history.combinations import KEEP_BYTES
from streamsvm.sections import Section, section


class KeptCheckpoints(Section):
    """Of `[checkpoint]`: what is kept of older checkpoints, for rows that are erased later."""

    keep_bytes: Annotated[int | None, Field(ge=1)] = Field(
        default=None,
        description="Most bytes of older checkpoints to keep, so that an erasure learns less again. Default: none.",
    )


KEPT: Final = SettingsOptions(
    section="checkpoint",
    mixin=KeptCheckpoints,
    after="interval_s",
    axes=lambda settings: {KEEP_BYTES: section(settings, KeptCheckpoints).keep_bytes, "svm.tune": settings.svm.tune},
)

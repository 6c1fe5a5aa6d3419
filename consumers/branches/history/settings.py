"""Where sealed buckets are kept for models of the past."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

from consumers.settings_sockets import settings_section
from streamsvm.option_texts import named_directory
from streamsvm.sections import Section, section

if TYPE_CHECKING:
    from consumers.settings import Settings


class ArchiveConfig(Section):
    """Where sealed buckets are kept for models of any stretch of the past. None of it affects what a trainer learns."""

    directory: Path | None = Field(
        default=None,
        description="Directory of the archive, one for each trainer. `{name}` is the model's name. Default: no "
        "archive.",
    )
    leaf_rows: Annotated[int, Field(ge=1, le=1 << 24)] = Field(
        default=2_000,
        description="Rows that are held whole at the beginning of each span, to screen the others.",
    )
    span_rows: Annotated[int | None, Field(ge=1, le=1 << 40)] = Field(
        default=None,
        description="Rows of a span, a multiple of `leaf_rows`. Default: as of `coreset.span_rows`.",
    )
    bucket_points: Annotated[int | None, Field(ge=1, le=1 << 24)] = Field(
        default=None,
        description="Most points of a span's bucket; a longer one has more, by the square root of its length. "
        "Default: 1000, or 15 a feature.",
    )
    keep_days: Annotated[float | None, Field(gt=0)] = Field(
        default=None,
        description="Days to keep, back from the oldest row of the newest bucket.",
    )
    keep_bytes: Annotated[int | None, Field(ge=1)] = Field(
        default=None, description="Most bytes; the oldest buckets go."
    )
    trust_directory: bool = Field(
        default=False,
        description="Accept a directory that other users may write to or own, which is refused otherwise. Only for "
        "a volume that no other process can reach.",
    )


def _settle(settings: Settings) -> None:
    """Put the model's name into the directory, so that the logged configuration shows it."""
    archive = section(settings, ArchiveConfig)
    if archive.directory is not None:
        directory = named_directory(archive.directory, settings.name)
        object.__setattr__(settings, "archive", archive.model_copy(update={"directory": directory}))


ARCHIVE: Final = settings_section(
    "archive",
    ArchiveConfig,
    "Where sealed buckets are kept for models of the past.",
    after="checkpoint",
    settle=_settle,
    axes=lambda settings: {"archive.directory": section(settings, ArchiveConfig).directory},
)

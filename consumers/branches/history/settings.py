"""Where sealed buckets are kept for models of the past, and where deletes come from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

from consumers.settings_sockets import SettingsOptions, settings_section
from streamsvm.branches.history.combinations import KEEP_BYTES, RULE_OF_DELETES
from streamsvm.branches.history.deletes_part import By
from streamsvm.option_texts import named_directory
from streamsvm.sections import Section, section
from streamsvm.supports import require

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        description="Most points of a span's bucket; longer ones have more. Default: 1000, or 15 a feature.",
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
        description="As `checkpoint.trust_directory`.",
    )


class KeptCheckpoints(Section):
    """Of `[checkpoint]`: what is kept of older checkpoints, for rows that are erased later."""

    keep_bytes: Annotated[int | None, Field(ge=1)] = Field(
        default=None,
        description="Most bytes of older checkpoints to keep, so that an erasure learns less again. Default: none.",
    )


class DeletesConfig(Section):
    """Deletes that come as records. Without `topic` rows are erased by `streamsvm history forget` only."""

    topic: Annotated[str, Field(max_length=249)] = Field(
        default="",
        description="Topic of deletes, not compacted: the trainer erases every row that a delete names and that is not "
        "younger, and publishes at once. Default: none.",
    )
    by: By = Field(
        default="id",
        description='What a delete names: `id`, its value is {"op": "delete", "id": ...}; or `key`, it is a '
        "tombstone under the key of the records.",
    )
    every_s: Annotated[float, Field(ge=0)] = Field(
        default=3_600.0,
        description="Seconds of deletes that are one erasure, for which the log is read twice: to find the rows, and "
        "to learn again.",
    )
    early_s: Annotated[float, Field(ge=0)] = Field(
        default=86_400.0,
        description="How long a delete that met no row is looked for again, every `every_s`.",
    )


def _check_deletes(settings: Settings) -> None:
    """Refuse a rule without a topic, and what deletes do not go with."""
    deletes, plain = section(settings, DeletesConfig), DeletesConfig()
    given = {name for name in deletes.model_fields_set if getattr(deletes, name) != getattr(plain, name)}
    rule = f"deletes.{min(given)}" if given else ""
    require({**settings.axes, "deletes.topic": deletes.topic, RULE_OF_DELETES: rule})


def _topics_of_deletes(settings: Settings) -> Mapping[str, str]:
    topic = section(settings, DeletesConfig).topic
    return {"deletes.topic": topic} if topic else {}


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

KEPT: Final = SettingsOptions(
    section="checkpoint",
    mixin=KeptCheckpoints,
    after="interval_s",
    axes=lambda settings: {KEEP_BYTES: section(settings, KeptCheckpoints).keep_bytes, "svm.tune": settings.svm.tune},
)

DELETES: Final = settings_section(
    "deletes",
    DeletesConfig,
    "Deletes that come as records of a topic of their own.",
    after="archive",
    check=_check_deletes,
    axes=lambda settings: {"deletes.topic": section(settings, DeletesConfig).topic},
    uses=_topics_of_deletes,
)

"""Where unlabeled points come from, and where scores go."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator

from consumers.settings_sockets import ReadRecipe, open_to_branches
from streamsvm.config import PointsFormat
from streamsvm.field_paths import path_of
from streamsvm.option_texts import split_names
from streamsvm.sections import Section


@open_to_branches("scoring")
class ScoringConfig(ReadRecipe, Section):
    """Where unlabeled points come from, and where scores go."""

    topic: Annotated[str, Field(min_length=1, max_length=249)] = Field(
        default="points", description="Topic of unlabeled points."
    )
    output_topic: Annotated[str, Field(min_length=1, max_length=249)] = Field(
        default="scores", description="Topic of scores."
    )
    dead_letter_topic: str = Field(
        default="", description="Topic of rejected records. Default: the input topic's name + `.dlq`."
    )
    group: str = Field(default="", description="Default: the model's name + `-scorer`.")
    on_gap: Literal["fail", "beginning"] = Field(
        default="fail",
        description="Where the input lacks the group's position, or was recreated: `fail` stops with status 78; "
        "`beginning` scores from the first record.",
    )
    slot: Annotated[int, Field(ge=0, le=9_999)] | None = Field(
        default=None,
        description="Number of this scorer in its group. One whose slot another takes ends with status 70. Default: "
        "the lowest free one.",
    )
    batch_records: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=2_000,
        description="Most records of a transaction. Larger ones cost less a record, but fail as a whole.",
    )
    max_record_bytes: Annotated[int, Field(ge=64, le=1 << 30)] = Field(
        default=1_000_000,
        description="As `points.max_record_bytes`.",
    )
    max_rows_per_record: Annotated[int, Field(ge=1, le=1 << 24)] = Field(
        default=10_000, description="As `points.max_rows_per_record`."
    )
    max_dead_letter_share: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.5,
        description="As `input.max_dead_letter_share`.",
    )
    max_consecutive_dead_letters: Annotated[int, Field(ge=0)] = Field(
        default=1_000,
        description="As `input.max_consecutive_dead_letters`.",
    )
    proven_after_records: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=1,
        description="Records that this model must have scored, ever, before the input is proven. Before, too many "
        "rejected records stop the scorer (78), without committing the batch; afterwards /readyz answers 503.",
    )
    drift_window: Annotated[int, Field(ge=0, le=10_000_000)] = Field(
        default=10_000,
        description="Newest scores to compare with the version's audit sample, 200 at least. 0: none.",
    )

    pass_fields: Annotated[tuple[str, ...], BeforeValidator(split_names)] = Field(
        default=(),
        description="Fields of a raw event that its score repeats, as `passed`: `card.country,items[0].sku`.",
    )

    reasons: Annotated[int, Field(ge=0, le=100)] = Field(
        default=0,
        description="Name this many fields in each score: those that add most to the decision value. Linear versions "
        "of two labels only; a scorer ends on any other.",
    )

    format: PointsFormat = Field(
        default="auto",
        description="As `points.format`.",
    )

    @field_validator("pass_fields", mode="after")
    @classmethod
    def _with_paths(cls, pass_fields: tuple[str, ...]) -> tuple[str, ...]:
        for one in pass_fields:
            path_of(one)
        return pass_fields

    @property
    def dead_letters(self) -> str:
        """The dead-letter topic."""
        return self.dead_letter_topic or f"{self.topic}.dlq"

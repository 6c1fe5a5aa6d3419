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
    group: str = Field(default="", description="Consumer group of the scorers. Default: the model's name + `-scorer`.")
    on_gap: Literal["fail", "beginning"] = Field(
        default="fail",
        description="What to do when the input does not hold the group's position, or is another topic under the "
        "same name: `fail` stops with status 78; `beginning` scores from the first record.",
    )
    slot: Annotated[int, Field(ge=0, le=9_999)] | None = Field(
        default=None,
        description="Number of this scorer in its group, different for each: a scorer whose slot another one "
        "takes ends with status 70. Default: the lowest number that no running scorer has.",
    )
    batch_records: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=2_000,
        description="Most records scored at once, in one transaction. Larger transactions cost less per record, but "
        "are scored again as a whole when they fail.",
    )
    max_record_bytes: Annotated[int, Field(ge=64, le=1 << 30)] = Field(
        default=1_000_000,
        description="Largest size of a record's value, in bytes. A larger record becomes a dead letter and is not "
        "decoded.",
    )
    max_rows_per_record: Annotated[int, Field(ge=1, le=1 << 24)] = Field(
        default=10_000, description="Most rows in one record. A record with more rows becomes a dead letter as a whole."
    )
    max_decoded_bytes: Annotated[int, Field(ge=1 << 20, le=1 << 40)] | None = Field(
        default=None,
        description="Most memory, in bytes, that decoding one record may take, estimated before anything is "
        "allocated; a larger record becomes a dead letter. Default: 256 times `max_record_bytes`.",
    )
    max_dead_letter_share: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.5,
        description="Largest share of rejected records among the last 1000. Beyond it the scorer stops, or, once "
        "the input is proven (`proven_after_records`), is not ready. 0: no limit.",
    )
    max_consecutive_dead_letters: Annotated[int, Field(ge=0)] = Field(
        default=1_000,
        description="Number of rejected records in a row at which the scorer stops, or, once the input is proven "
        "(`proven_after_records`), is not ready. 0: no limit.",
    )
    proven_after_records: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=1,
        description="Number of records that this model must have scored, also before this start, before the "
        "input counts as the right one. Before, the two limits above stop the scorer with status 78, without "
        "committing the batch; afterwards /readyz answers 503 until records are scored again. 0: the limits "
        "never stop it.",
    )
    drift_window: Annotated[int, Field(ge=0, le=10_000_000)] = Field(
        default=10_000,
        description="Number of newest scores that are compared with those of the version's audit sample, 200 at "
        "least. A larger window detects smaller changes, but later. 0: no comparison.",
    )

    pass_fields: Annotated[tuple[str, ...], BeforeValidator(split_names)] = Field(
        default=(),
        description="Fields of a raw event that its score repeats, as `passed`: `card.country,items[0].sku`. "
        "Null where an event has no such field. Default: none.",
    )

    reasons: Annotated[int, Field(ge=0, le=100)] = Field(
        default=0,
        description="Say in each score, under `reasons`, which so many fields add most to the decision value, "
        "beside the mean row. Linear versions of two labels only; a scorer ends on any other version. 0: none.",
    )

    format: PointsFormat = Field(
        default="auto",
        description="Format of the records, as `points.format`. `auto` follows each record's header `content-type`.",
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

"""Where unlabeled points come from, and where scores go."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator

from consumers.settings_sockets import open_to_branches
from streamsvm.field_paths import path_of
from streamsvm.option_texts import split_names
from streamsvm.sections import Section

Name = Annotated[str, Field(min_length=1, max_length=249)]


@open_to_branches("scoring")
class ScoringConfig(Section):
    """Where unlabeled points come from, and where scores go."""

    topic: Name = Field(
        default="points", description="Topic of unlabeled points. Rejected records go to its name + `.dlq`."
    )
    output_topic: Name = Field(default="scores", description="Topic of scores.")
    group: str = Field(default="", description="Default: the model's name + `-scorer`.")
    on_gap: Literal["fail", "beginning"] = Field(
        default="fail",
        description="Where the input lacks the next record to score, or was recreated: `fail` stops with status 78; "
        "`beginning` scores from the first record.",
    )

    progress_topic: Annotated[str, Field(max_length=249)] = Field(
        default="",
        description="Topic that says how far the input was scored, written with the scores. Default: the topic of "
        "scores + `.progress`.",
    )
    on_changed: Literal["score", "fail"] = Field(
        default="score",
        description="Where scored records are no longer in the log, after an unclean leader election: `score` scores "
        "what the log holds in their place; `fail` stops with status 78.",
    )

    pass_fields: Annotated[tuple[str, ...], BeforeValidator(split_names)] = Field(
        default=(),
        description="Fields of a raw event that its score repeats, as `passed`: `card.country,items[0].sku`.",
    )

    copy_headers: Annotated[tuple[Name, ...], BeforeValidator(split_names), Field(max_length=16)] = Field(
        default=(),
        description="Headers of a record that go to its scores, such as `traceparent`; of one that repeats the last. A "
        "value beyond a kilobyte is left out.",
    )

    reasons: Annotated[int, Field(ge=0, le=100)] = Field(
        default=0,
        description="Name this many fields in each score: those that add most to the decision value. Linear versions "
        "of two labels only; a scorer ends on any other.",
    )

    @field_validator("pass_fields", mode="after")
    @classmethod
    def _with_paths(cls, pass_fields: tuple[str, ...]) -> tuple[str, ...]:
        for one in pass_fields:
            path_of(one)
        return pass_fields

    @field_validator("copy_headers", mode="after")
    @classmethod
    def _of_others(cls, copy_headers: tuple[str, ...]) -> tuple[str, ...]:
        for one in copy_headers:
            if one.lower() == "content-type" or one.lower().startswith("streamsvm."):
                raise ValueError(f"the header {one} of a score is the scorer's own")
        return copy_headers

    @property
    def dead_letters(self) -> str:
        """The dead-letter topic."""
        return f"{self.topic}.dlq"

    @property
    def progress(self) -> str:
        """The topic that says how far the input was scored."""
        return self.progress_topic or f"{self.output_topic}.progress"

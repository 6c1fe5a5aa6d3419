"""Where labeled points come from, and the schemas of those that come as Avro."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from streamsvm.sections import Section

Start = Literal["earliest", "latest"] | datetime


class InputConfig(Section):
    """Where labeled points come from."""

    topic: Annotated[str, Field(min_length=1, max_length=249)] = Field(
        default="labeled", description="Topic of labeled points. Rejected records go to its name + `.dlq`."
    )
    start: Start = Field(
        default="earliest",
        description="Where a first start begins: earliest, latest, or a time such as 2026-01-31T12:00:00Z.",
    )
    on_gap: Literal["fail", "reset"] = Field(
        default="fail",
        description="Where the log lacks records that are to be read, or was recreated: `fail` stops; `reset` begins a "
        "new incarnation at `start`.",
    )
    max_dead_letter_share: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.5,
        description="Largest share of rejected records among the last 1000. Beyond it, or after 1000 in a row, the "
        "trainer stops (78) or, after 1000 valid points, is not ready. 0: no limit.",
    )

    @field_validator("start", mode="after")
    @classmethod
    def _with_zone(cls, start: Start) -> Start:
        if isinstance(start, datetime) and start.tzinfo is None:
            raise ValueError(f"start = {start.isoformat()} has no time zone; add Z for UTC")
        return start

    @property
    def dead_letters(self) -> str:
        """The dead-letter topic."""
        return f"{self.topic}.dlq"


class RegistryConfig(Section):
    """The schema registry, for points that come as Avro, and events that come as Avro or Protobuf."""

    url: str = Field(
        default="",
        description="Base address of the registry, such as http://registry:8081; several, separated by commas, are "
        "tried in turn.",
    )
    username: str = Field(default="", description="User name for basic authentication.")
    password: str = Field(
        default="",
        repr=False,
        description="Password for basic authentication; only from a file in --secrets or the environment.",
    )
    ca_file: Path | None = Field(
        default=None,
        description="PEM file of the authority of the registry's certificate. Default: the well-known ones.",
    )

    @model_validator(mode="after")
    def _without_secrets(self) -> Self:
        if "@" in self.url:
            raise ValueError(
                "registry.url contains a user name or password; set registry.username and registry.password instead"
            )
        return self

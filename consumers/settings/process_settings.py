"""What a daemon answers over HTTP, and what it logs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from streamsvm.option_texts import split_names
from streamsvm.sections import Section


class HttpConfig(Section):
    """Metrics, health and the live page."""

    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        default=9464,
        description="Port to listen on. 0: a free one, which the log names.",
    )
    allowed_hosts: Annotated[tuple[str, ...], BeforeValidator(split_names)] = Field(
        default=(),
        description="Host names that are answered, besides `localhost`, `http.host` and IP addresses; others get 421. "
        "`*`: any.",
    )


class LogConfig(Section):
    """What is logged: JSON lines, or text for people on a terminal."""

    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Lowest level.")

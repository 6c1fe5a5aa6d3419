"""What protects the way to the broker, what a daemon answers over HTTP, and what it logs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from streamsvm.option_texts import split_names
from streamsvm.sections import Section


class SecurityConfig(Section):
    """Protection of the connection to the broker, besides the options of librdkafka."""

    allow_insecure_tls: bool = Field(
        default=False,
        description="Allow to switch off the check of the broker's certificate or host name; for tests only.",
    )


class HttpConfig(Section):
    """Metrics, health and the live page."""

    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        default=9464,
        description="Port to listen on. 0: a free one, which the log names.",
    )
    page: bool = Field(
        default=True,
        description="Serve the live page at / and /status.json, with names of topics and features, and a projection of "
        "points.",
    )
    stuck_after_s: Annotated[float, Field(gt=0)] = Field(
        default=120.0,
        description="Seconds without a turn of the main loop after which /healthz answers 503. A slow publish may take "
        "80.",
    )
    allowed_hosts: Annotated[tuple[str, ...], BeforeValidator(split_names)] = Field(
        default=(),
        description="Host names that are answered, besides `localhost`, `http.host` and IP addresses; others get 421. "
        "`*`: any.",
    )


class LogConfig(Section):
    """What is logged, and in which format."""

    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Lowest level.")
    format: Literal["auto", "json", "console"] = Field(
        default="auto",
        description="json: one object a line; console: for people; auto: json without a terminal.",
    )

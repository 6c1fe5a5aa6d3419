"""Which version is scored in the shadow of the one that serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

from consumers.settings_sockets import SettingsOptions
from streamsvm.sections import Section

if TYPE_CHECKING:
    from consumers.settings import Settings


class ShadowScoring(Section):
    """Of `[scoring]`: which version is scored in the shadow of the one that serves."""

    shadow: Annotated[str, Field(max_length=249, pattern=r"^(@?[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)?)?$")] = Field(
        default="",
        description="Add another version's answer, under `shadow`: of an alias, such as `@candidate`; or the current "
        "one of another `topic` or `topic/name`.",
    )


def topics_apart(settings: Settings) -> str:
    """Return the topics because of which no score finds its label; empty where scores find theirs."""
    if settings.labels_topic or settings.scoring.topic == settings.input.topic:
        return ""
    return f"the labels are in input.topic = {settings.input.topic}, and scoring.topic = {settings.scoring.topic}"


SHADOW: Final = SettingsOptions(section="scoring", mixin=ShadowScoring, after="reasons")

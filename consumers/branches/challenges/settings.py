"""Challenges: a version becomes current once it was better in the shadow of the current one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field

from consumers.settings_sockets import SettingsOptions
from streamsvm.branches.challenges.combinations import TOPICS_APART
from streamsvm.option_texts import Duration
from streamsvm.sections import Section, section
from streamsvm.supports import LABELS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from consumers.settings import Settings


class ChallengeOptions(Section):
    """Of `[output]`: whether and how a version has to be better in the shadow of the current one."""

    gate: Literal["margin", "shadow"] = Field(
        default="margin",
        description="`shadow`: a version that passes the margin becomes current only after it was better on rows that "
        "a scorer with scoring.shadow = @challenger scored by both. Labels come from labels.topic, or from the input, "
        "which then has to be scoring.topic.",
    )
    gate_figure: Literal["auc", "accuracy", "log_loss", "cost"] = Field(
        default="auc",
        description="By what the two are compared.",
    )
    gate_labels: Annotated[int, Field(ge=160, le=1_000_000)] = Field(
        default=20_000,
        description="Labels after which a challenger that was not better has lost. An AUC of 0.8725 for 0.85 takes "
        "some 5300 at 50 % positives, 39000 at 2 %; later challenges more.",
    )
    gate_wait: Duration = Field(
        default=7 * 86_400.0,
        description="How long a challenge lasts at most, by the learned records: seconds, or 90m, 36h, 14d.",
    )
    gate_unlabeled: Literal["keep", "pass"] = Field(
        default="keep",
        description="After `gate_wait` the current version stays (`keep`), or the challenger becomes current (`pass`).",
    )

    @property
    def challenges(self) -> bool:
        """Whether there are challenges."""
        return self.gate == "shadow"


class ShadowScoring(Section):
    """Of `[scoring]`: which version is scored in the shadow of the one that serves."""

    shadow: Annotated[str, Field(max_length=249, pattern=r"^(@?[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)?)?$")] = Field(
        default="",
        description="Add another version's answer, under `shadow`: of an alias, such as `@challenger`; or the current "
        "one of another `topic` or `topic/name`.",
    )


def topics_apart(settings: Settings) -> str:
    """Return the topics because of which no score finds its label; empty where scores find theirs."""
    if settings.labels_topic or settings.scoring.topic == settings.input.topic:
        return ""
    return f"the labels are in input.topic = {settings.input.topic}, and scoring.topic = {settings.scoring.topic}"


def _axes(settings: Settings) -> Mapping[str, object]:
    output = section(settings, ChallengeOptions)
    if not output.challenges:
        return {}
    return {
        "output.gate": output.gate,
        "output.gate_margin": settings.output.gate_margin,
        "output.gate_figure": output.gate_figure,
        "svm.cost": settings.svm.cost,
        "svm.probability": settings.svm.probability,
        LABELS: 2 if settings.points is None else settings.points.classes,
        TOPICS_APART: topics_apart(settings),
    }


GATE: Final = SettingsOptions(section="output", mixin=ChallengeOptions, after="gate_margin", axes=_axes)
SHADOW: Final = SettingsOptions(section="scoring", mixin=ShadowScoring, after="reasons")

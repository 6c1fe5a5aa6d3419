"""Labels that come later, in a topic of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

from consumers.settings_sockets import settings_section
from streamsvm.branches.late_labels.combinations import RULE_OF_LABELS
from streamsvm.branches.late_labels.options import JoinConfig, require_joinable
from streamsvm.sections import section
from streamsvm.supports import require

if TYPE_CHECKING:
    from collections.abc import Mapping

    from consumers.settings import Settings


class LabelsConfig(JoinConfig):
    """Labels that come later, in a topic of their own. Without `topic` a point has its label with it."""

    topic: Annotated[str, Field(max_length=249)] = Field(
        default="",
        description="Topic of the labels, with the input's partitions and keys. Dead letters: `topic` + `.dlq`.",
    )
    idle_s: Annotated[float | None, Field(gt=0)] = Field(
        default=None,
        description="Seconds without labels, while rows wait, after which the trainer writes watermarks to `topic`. "
        "Default: never.",
    )

    @property
    def dead_letters(self) -> str:
        """The dead-letter topic."""
        return f"{self.topic}.dlq"

    @property
    def rule(self) -> JoinConfig | None:
        """The part that decides what is learned; None without a topic."""
        if not self.topic:
            return None
        return JoinConfig(**{name: getattr(self, name) for name in JoinConfig.model_fields})


def _check(settings: Settings) -> None:
    """Refuse a rule without a topic, and what labels of a topic of their own do not go with."""
    labels, plain = section(settings, LabelsConfig), LabelsConfig()
    # A value that is the default is no mistake: a worker gets every option that its trainer has.
    given = {name for name in labels.model_fields_set if getattr(labels, name) != getattr(plain, name)}
    rule = f"labels.{min(given)}" if given else ""
    require({"labels.topic": labels.topic, RULE_OF_LABELS: rule})
    require_joinable(labels.topic, labels, settings, settings.coreset, settings.points)


def _topic(settings: Settings) -> str:
    return section(settings, LabelsConfig).topic


def _uses(settings: Settings) -> Mapping[str, str]:
    labels = section(settings, LabelsConfig)
    return {"labels.topic": labels.topic, "the labels' dead letters": labels.dead_letters} if labels.topic else {}


def _dead_letters(settings: Settings) -> tuple[str, ...]:
    labels = section(settings, LabelsConfig)
    return (labels.dead_letters,) if labels.topic else ()


LABELS: Final = settings_section(
    "labels",
    LabelsConfig,
    "Labels that come later, in a topic of their own.",
    after="input",
    check=_check,
    axes=lambda settings: {"labels.topic": _topic(settings)},
    models=lambda settings: {"labels": section(settings, LabelsConfig).rule},
    labels_topic=_topic,
    uses=_uses,
    dead_letters=_dead_letters,
)

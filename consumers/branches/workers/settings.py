"""Learning in several processes, on one machine or many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Self, cast

from pydantic import Field, model_validator

from consumers.settings_sockets import SettingsOptions, settings_section
from streamsvm.sections import Section, section
from streamsvm.supports import require

if TYPE_CHECKING:
    from collections.abc import Mapping

    from consumers.settings import Settings, TrainingConfig


class TrainingByWorkers(Section):
    """Of `[training]`: who reads, decodes and learns for the trainer."""

    from_coresets: bool = Field(
        default=False,
        description="Train on what `streamsvm scale worker` left in the coresets topic, and read no points.",
    )

    @model_validator(mode="after")
    def _cut_in_one_process(self) -> Self:
        policy = cast("TrainingConfig", self).policy
        require({"training.policy": policy, "training.from_coresets": self.from_coresets})
        return self


class WorkerConfig(Section):
    """Which partitions a worker owns."""

    ordinal: Annotated[int, Field(ge=0, le=9_999)] | None = Field(
        default=None,
        description="Number of this worker, from 0 on: it owns the partitions p with p mod `of` = `ordinal`. Default: "
        "the consumer group `streamsvm-` + the model's name + `-workers`.",
    )
    of: Annotated[int, Field(ge=1, le=10_000)] | None = Field(default=None, description="Number of workers.")

    @model_validator(mode="after")
    def _fixed_or_shared(self) -> Self:
        require({"worker.ordinal": self.ordinal, "worker.of": self.of})
        if self.ordinal is not None and self.of is not None and self.ordinal >= self.of:
            raise ValueError(f"worker.ordinal is {self.ordinal}, but it must be below worker.of = {self.of}")
        return self


def coresets_topic(settings: Settings) -> str:
    """Return the topic in which workers leave what they learned."""
    return f"{settings.name}.coresets"


def from_coresets(settings: Settings) -> Settings:
    """Return options for a trainer that trains on what workers learned.

    Raises
    ------
    ConfigurationError
        If another option is against it.
    """
    training = settings.training.model_copy(update={"from_coresets": True})
    adopting = settings.model_copy(update={"training": training})
    adopting.require_combined({"training.from_coresets": "--from-coresets"})
    return adopting


def _axes(settings: Settings) -> Mapping[str, object]:
    return {"training.from_coresets": section(settings, TrainingByWorkers).from_coresets}


def _uses(settings: Settings) -> Mapping[str, str]:
    adopts = section(settings, TrainingByWorkers).from_coresets
    return {"the coresets": coresets_topic(settings)} if adopts else {}


TRAINING: Final = SettingsOptions(
    section="training",
    mixin=TrainingByWorkers,
    after="policy",
    axes=_axes,
    uses=_uses,
)
WORKER: Final = settings_section(
    "worker",
    WorkerConfig,
    "Which partitions a worker owns.",
    after="output",
    short={"worker__ordinal": "--ordinal", "worker__of": "--of"},
)

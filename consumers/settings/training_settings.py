"""When models are trained, where state is saved, and how quality is watched."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from consumers.settings_sockets import open_to_branches
from streamsvm.option_texts import named_directory
from streamsvm.sections import Section


@open_to_branches("training")
class TrainingConfig(Section):
    """When models are trained."""

    every_leaves: Annotated[int, Field(ge=1)] = Field(
        default=1,
        description="Number of leaves of `coreset.leaf_rows` rows, over all partitions, after which a new model is "
        "due. A screened leaf counts as several.",
    )
    policy: Literal["latest", "every"] = Field(
        default="latest",
        description="What happens when a training set falls due while a model trains: `latest` keeps reading and "
        "trains the newest due set next; `every` trains each one, and pauses the input meanwhile.",
    )
    share: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.2,
        description="With `latest`: largest share of the time that is spent training while the input has more to "
        "read. 1: train without a pause.",
    )
    standby: bool = Field(
        default=False,
        description="Stand by while another copy of this trainer works, and take over within 6 s when it is "
        "gone. Give it to every copy; they share the checkpoint directory and a consumer group, `streamsvm-` + "
        "the model's name + `-trainers`.",
    )
    stuck_after_s: Annotated[float, Field(gt=0)] = Field(
        default=3_600.0, description="Seconds of training one model after which /healthz answers 503."
    )


class CheckpointConfig(Section):
    """Where and how often state is saved."""

    directory: Path = Field(
        default=Path("checkpoint/{name}"),
        description="Directory of the checkpoints; each trainer needs its own. `{name}` stands for the model's name.",
    )
    interval_s: Annotated[float, Field(gt=0)] = Field(
        default=30.0,
        description="Seconds between two checkpoints. After a crash at most this much input is read again.",
    )
    generations: Annotated[int, Field(ge=1, le=100)] = Field(
        default=3, description="Number of checkpoint files to keep."
    )
    max_age_s: Annotated[float, Field(gt=0)] = Field(
        default=600.0,
        description="Seconds without a good checkpoint, while writing fails, after which /readyz answers 503. "
        "Models are still published.",
    )
    trust_directory: bool = Field(
        default=False,
        description="Accept a directory that other users may write to or own, which is refused otherwise. Only for "
        "a volume that no other process can reach.",
    )


def default_directory(name: str) -> Path:
    """Return where the checkpoints of a model are by default."""
    return named_directory(CheckpointConfig.model_fields["directory"].default, name)


class QualityConfig(Section):
    """How the current version is evaluated on points that it has not learned."""

    enabled: bool = Field(
        default=True,
        description="Score every point with the current version before learning it, next to a baseline and the "
        "majority class, as metrics only. A large kernel machine scores only every k-th point.",
    )
    window: Annotated[int, Field(ge=100, le=1 << 22)] = Field(
        default=10_000, description="Number of newest scored points that the figures cover."
    )

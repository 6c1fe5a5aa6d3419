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
        description="Leaves, over all partitions, after which a model is due: a leaf has 2,000 rows by default, two "
        "elevenths of `coreset.points`. A screened leaf counts as several.",
    )
    policy: Literal["latest", "every"] = Field(
        default="latest",
        description="When a set falls due while a model trains: `latest` trains the newest due set next; `every` "
        "trains each, and pauses the input meanwhile.",
    )
    share: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.05,
        description="With `latest`: largest share of the time for training while the input has more.",
    )
    stuck_after_s: Annotated[float, Field(gt=0)] = Field(
        default=3_600.0, description="Seconds of one training after which /healthz answers 503."
    )


@open_to_branches("checkpoint")
class CheckpointConfig(Section):
    """Where and how often state is saved."""

    directory: Path = Field(
        default=Path("checkpoint/{name}"),
        description="Directory of the checkpoints, one for each trainer. `{name}` is the model's name.",
    )
    interval_s: Annotated[float, Field(gt=0)] = Field(
        default=30.0,
        description="Seconds between two checkpoints; as much input is read again after a crash.",
    )
    generations: Annotated[int, Field(ge=1, le=100)] = Field(default=3, description="Checkpoint files to keep.")
    max_age_s: Annotated[float, Field(gt=0)] = Field(
        default=600.0,
        description="Seconds without a good checkpoint after which /readyz answers 503.",
    )
    trust_directory: bool = Field(
        default=False,
        description="Accept a directory that others may write to or own: for a volume that no other process can reach.",
    )


def default_directory(name: str) -> Path:
    """Return where the checkpoints of a model are by default."""
    return named_directory(CheckpointConfig.model_fields["directory"].default, name)


class QualityConfig(Section):
    """How the current version is evaluated on points that it has not learned."""

    enabled: bool = Field(
        default=True,
        description="Score every point with the current version before learning it, beside a baseline, for metrics; a "
        "large kernel machine only every k-th.",
    )
    window: Annotated[int, Field(ge=100, le=1 << 22)] = Field(
        default=10_000, description="Newest scored points that the figures cover."
    )

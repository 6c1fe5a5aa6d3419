"""When models are trained, and where state is saved."""

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
    trust_directory: bool = Field(
        default=False,
        description="Accept a directory that others may write to or own: for a volume that no other process can reach.",
    )


def default_directory(name: str) -> Path:
    """Return where the checkpoints of a model are by default."""
    return named_directory(CheckpointConfig.model_fields["directory"].default, name)

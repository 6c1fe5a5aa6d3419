"""Labels of a log of their own: the rule by which they are joined."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self, cast

from pydantic import Field, model_validator

from streamsvm.choices import AbsentLabel, LabelKey
from streamsvm.option_texts import Duration
from streamsvm.sections import Section, SectionOptions
from streamsvm.supports import require

if TYPE_CHECKING:
    from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig
    from streamsvm.sections import RecipeOptions


class JoinConfig(Section):
    """How labels of another log are joined: the rule, which decides what is learned."""

    key: LabelKey = Field(
        default="id",
        description="What a row and its label have in common: the field `id`, or the record's key.",
    )
    horizon: Duration = Field(
        default=0.0,
        description="How long a row waits for its label, in memory, by the two logs: seconds, or 90m, 36h, 14d.",
    )
    absent: AbsentLabel = Field(
        default="negative",
        description="What becomes of a row without a label: it is learned under the first label, dropped, or a dead "
        "letter.",
    )


def require_joinable(
    topic: object, labels: JoinConfig, recipe: RecipeOptions, coreset: CoresetConfig, points: PointsConfig | None
) -> None:
    """Refuse what labels of a log of their own do not go with, as far as it decides what a model is.

    Parameters
    ----------
    topic : str or True
        `labels.topic`; True where only the rule of the join is known.
    labels : JoinConfig
    recipe : RecipeOptions
        The options that say what records become.
    coreset : CoresetConfig
    points : PointsConfig or None

    Raises
    ------
    ValueError
    """
    require(
        {
            "labels.topic": topic,
            "labels.horizon": labels.horizon or None,
            **recipe.recipe_axes(),
            "coreset.memory": coreset.memory,
            "points.format": None if points is None else points.format,
        }
    )


class JoinedModel(Section):
    """The part of `ModelConfig` that says how labels are joined; None where they come with the points."""

    labels: JoinConfig | None = None

    @model_validator(mode="after")
    def _joined_points(self) -> Self:
        if self.labels is not None:
            of = cast("ModelConfig", self)
            require_joinable(True, self.labels, of, of.coreset, of.points)
        return self


OPTIONS: Final = SectionOptions(section="", mixin=JoinedModel, after="")

"""What is learned goes on where a recipe changes: fields come, go or move, and categories get more values.

`ModelConfig.earlier` names each recipe of before, and how far rows became its columns. So what is learned stays a pure
function of the log and of the configuration, and `streamsvm.verification` goes the same way again.
"""

from __future__ import annotations

from dataclasses import replace

from streamsvm.config import ModelConfig
from streamsvm.config.model import Earlier, learned_part
from streamsvm.coreset.carrying import carried_over
from streamsvm.learning.learner import LearnerState
from streamsvm.model.recipes import Columns, recipes_of
from streamsvm.points import Position


def history_of(config: ModelConfig) -> list[ModelConfig]:
    """Return the configurations under which rows were learned one after another; the last is the given one."""
    if not config.earlier:
        return [config]
    recipes, found = recipes_of(config.recipe), list[ModelConfig]()
    for at, one in enumerate(config.earlier):
        recipe = recipes.of_plain(one.features)
        names = recipes.compiled(recipe).names
        points = config.points.model_copy(update={"dimension": len(names), "feature_names": names})
        found.append(
            config.having(points=points, earlier=config.earlier[:at], **dict.fromkeys(config.recipe_options(), recipe))
        )
    return [*found, config]


def cut_of(change: Earlier) -> dict[int, Position]:
    """Return how far rows became the columns of before."""
    return {partition: Position(offset, row) for partition, offset, row in change.until}


def columns_between(before: ModelConfig, config: ModelConfig) -> Columns:
    """Return how columns follow from those of before; raises ValueError, naming the option, where they do not."""
    return recipes_of(config.recipe).columns_between(before.recipe, config.recipe)


def carried(learner: LearnerState, before: ModelConfig, config: ModelConfig) -> LearnerState:
    """Return the states with which learning goes on under another recipe.

    Raises
    ------
    ValueError
        As `columns_between` does.
    """
    columns = columns_between(before, config)
    partitions = {
        partition: carried_over(state, columns, partition, before, config)
        for partition, state in learner.partitions.items()
    }
    return replace(learner, partitions=partitions)


def changed(
    learner: LearnerState, before: ModelConfig, config: ModelConfig, incarnation: int
) -> tuple[LearnerState, ModelConfig] | None:
    """Return states and configuration with which learning goes on, if nothing but the recipe differs; else None.

    Parameters
    ----------
    learner : LearnerState
    before : ModelConfig
        Under which it learned.
    config : ModelConfig
        With what was settled when learning began (`begun_with`).
    incarnation : int
        The one that learned.

    Raises
    ------
    ValueError
        As `columns_between` does.
    """
    if before.recipe is None or config.recipe is None or before.recipe == config.recipe:
        return None
    until = tuple((partition, *at) for partition, at in sorted(learner.positions.items()))
    canonical = before.canonical()
    (features,) = (canonical[name] for name in before.recipe_options())
    last = Earlier(features=features, dimension=before.points.dimension, incarnation=incarnation, until=until)
    now = config.having(earlier=(*before.earlier, last))
    if _apart_from_recipes(now) != _apart_from_recipes(before):
        return None
    return carried(learner, before, now), now


def _apart_from_recipes(config: ModelConfig) -> dict[str, object]:
    """Return what decides what is learned but for recipes and what follows from them."""
    part = learned_part(config.canonical())
    points = {name: one for name, one in part["points"].items() if name not in ("dimension", "feature_names")}
    return {name: one for name, one in part.items() if name not in ("earlier", *config.recipe_options())} | {
        "points": points
    }

"""What is learned goes on where a recipe changes: fields come, go or move, and categories get more values.

`ModelConfig.earlier` names each recipe of before, and how far rows became its columns. So what is learned stays a pure
function of the log and of the configuration, and `streamsvm.verification` goes the same way again.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from streamsvm.config import ModelConfig
from streamsvm.config.model import Earlier, learned_part
from streamsvm.coreset.buckets import Moments
from streamsvm.coreset.carrying import carried_over
from streamsvm.model.recipes import Columns, recipes_of
from streamsvm.points import Position

if TYPE_CHECKING:
    from streamsvm.learning.learner import LearnerState


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


def evened(moments: Moments, learned: float, config: ModelConfig) -> Moments:
    """Return moments by which a column that came lately has a scale as if half of all rows had it, until half have.

    In all rows that came before it is the same constant. By their scale the few others would lie far from everything:
    weights that they alone carry would cost nearly nothing.

    Parameters
    ----------
    moments : Moments
    learned : float
        Weight of everything that was learned.
    config : ModelConfig
    """
    history = history_of(config)
    d = history[0].points.dimension
    constant, before = np.full(d, np.nan), np.zeros(d)  # of columns that were there from the first row on
    for change, pair in zip(config.earlier, pairwise(history), strict=True):
        columns = columns_between(*pair)
        new = columns.factor == 0.0
        constant = np.where(new, columns.constant, constant[columns.source])
        before = np.where(new, change.weight, before[columns.source])
    share = np.minimum(1.0, (learned - before) / max(moments.weight, np.finfo(float).tiny))
    few = np.isfinite(constant) & (share > 0.0) & (share < 0.5)
    if not few.any():
        return moments
    share, constant = share[few], constant[few]
    away = (moments.mean[few] - constant) / share
    own = np.maximum(0.0, moments.square[few] / moments.weight / share - (1.0 - share) * away * away)
    square = moments.square.copy()
    square[few] = moments.weight * (0.5 * own + 0.25 * away * away)
    return replace(moments, square=square)


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
    weight = float(sum(state.learned.class_weight.sum() for state in learner.partitions.values()))
    last = Earlier(
        features=features,
        dimension=before.points.dimension,
        incarnation=incarnation,
        weight=weight,
        until=until,
    )
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

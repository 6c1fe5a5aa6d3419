"""From the columns of one recipe to those of another: what earlier rows are in columns that did not exist yet.

A column is found by its name. A feature that is new stands in earlier rows as in an event that lacks its field. A value
that a category gets was counted as another, `(other)`, and stays that in earlier rows. A cross of a new feature is what
the other one makes of it.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from streamsvm.branches.events.features.columns import FeatureColumns, columns_of
from streamsvm.branches.events.features.recipe import Category, Cross, Feature, OfField, Recipe
from streamsvm.field_paths import shown
from streamsvm.model.recipes import Columns

_Column = tuple[int, float, float]
"""Index of the earlier column, by what it is multiplied, and what is added."""
RENAME: Final = "give the feature another name: it then counts as a new one"


def columns_between(before: Recipe, recipe: Recipe) -> Columns:
    """Return how the columns of a recipe follow from those of the one before it.

    Raises
    ------
    ValueError
        Naming the option by which they do not follow, and what to do.
    """
    if before.label != recipe.label:
        raise ValueError("events.label is another one: rows with other labels are another problem")
    old, new = columns_of(before), columns_of(recipe)
    at, known = {name: index for index, name in enumerate(old.names)}, {one.name: one for one in before.features}
    made: list[_Column] = []
    for feature in recipe.features:
        names = new.names[new.places[feature.name]]
        if feature.name in known:
            _check_kept(known[feature.name], feature)
        if isinstance(feature, Cross):
            pairs = [(one, other) for one in _of(made, new, feature.of[0]) for other in _of(made, new, feature.of[1])]
            named = at if feature.name in known else {}
            made += [
                (named[name], 1.0, 0.0) if name in named else _product(feature.name, *pair)
                for name, pair in zip(names, pairs, strict=True)
            ]
        elif feature.name in known:
            made += [(at[name], 1.0, 0.0) if name in at else (0, 0.0, 0.0) for name in names]
        else:
            made += [(0, 0.0, value) for value in _missing(feature, recipe)]
    source, factor, constant = zip(*made, strict=True)
    return Columns(np.array(source, np.int64), np.array(factor), np.array(constant))


def _of(made: list[_Column], columns: FeatureColumns, name: str) -> list[_Column]:
    return made[columns.places[name]]


def _check_kept(old: Feature, new: Feature) -> None:
    """Refuse a feature that stays and reads otherwise; a category may get more values, in any order."""
    name = new.name
    if type(old) is not type(new):
        was, now = (one.__struct_config__.tag for one in (old, new))
        raise ValueError(f'features.{name} was as = "{was}", and is now as = "{now}": {RENAME}')
    if isinstance(old, Category) and isinstance(new, Category):
        if gone := [value for value in old.values if value not in new.values]:
            raise ValueError(f"features.{name} has no value {gone[0]!r} any more: leave it there, or {RENAME}")
        new = msgspec.structs.replace(new, values=old.values)
    for option in old.__struct_fields__:
        was, now = getattr(old, option), getattr(new, option)
        if was != now:
            raise ValueError(f"features.{name}.{option} was {was!r}, and is now {now!r}: {RENAME}")


def _missing(feature: OfField, recipe: Recipe) -> list[float]:
    """Return the columns of a feature in an event that lacks its field."""
    made = columns_of(Recipe(features=(feature,), zones=recipe.zones)).of_events([{}])
    if made.faults:
        raise ValueError(
            f"features.{feature.name} is new, and earlier rows lack its field {shown(feature.field)}: give it "
            'missing = "indicator", or a constant'
        )
    return [float(value) for value in made.X[0]]


def _product(name: str, one: _Column, other: _Column) -> _Column:
    """Return the product of two columns, of which one is the same in all earlier rows."""
    constant, varying = (one, other) if one[1] == 0.0 else (other, one)
    if constant[1] != 0.0:
        raise ValueError(
            f"features.{name} crosses two features that were there before, and the sums of their products are not "
            "known: cross a new feature"
        )
    source, factor, added = varying
    return source, factor * constant[2], added * constant[2]

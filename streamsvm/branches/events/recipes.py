"""Recipes of raw events at the socket of recipes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from streamsvm.branches.events.event_features import features_of_either, features_of_events
from streamsvm.branches.events.features.columns import FeatureColumns, columns_of
from streamsvm.branches.events.features.examples import examples_of
from streamsvm.branches.events.features.recipe import Cross, Recipe, recipe_of, widths_of
from streamsvm.field_paths import shown
from streamsvm.model.kernels import Float
from streamsvm.model.recipes import Columns, Compiled, NeededField, Recipes


@dataclass(frozen=True, slots=True)
class CompiledRecipe:
    """A `Compiled` recipe."""

    columns: FeatureColumns

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self.columns.names

    def features(self, rows: Any) -> Float:
        """Return the columns of raw events, shape (n, d)."""
        return features_of_events(self.columns, rows)

    def features_of_either(self, X: Any) -> Any:
        """Return the columns of raw events; what has no names, or those of the columns, is columns already."""
        return features_of_either(self.columns, X)


class EventRecipes(Recipes):
    """Evaluates each `Recipe`."""

    def evaluates(self, recipe: object) -> bool:
        """Return whether a recipe is one of raw events."""
        return isinstance(recipe, Recipe)

    def compiled(self, recipe: Recipe) -> Compiled:
        """Return a recipe, ready to be evaluated."""
        return CompiledRecipe(columns_of(recipe))

    def fields(self, recipe: Recipe) -> list[str]:
        """Return the field, or the crossed fields, of each column."""
        named, found, widths = dict[str, str](), list[str](), widths_of(recipe)
        for feature in recipe.features:
            if isinstance(feature, Cross):
                named[feature.name] = " x ".join(named[one] for one in feature.of)
            else:
                named[feature.name] = shown(feature.field)
            found += [named[feature.name]] * widths[feature.name]
        return found

    def needed(self, recipe: Recipe) -> tuple[NeededField, ...]:
        """Return the field of each feature that is no cross, and the one that an age counts from."""
        read = [(one, path) for one in recipe.of_fields for path in (one.field, getattr(one, "since", None)) if path]
        return tuple(
            NeededField(shown(path), str(one.__struct_config__.tag), one.missing == "reject") for one, path in read
        )

    def places(self, recipe: Recipe) -> Mapping[str, slice]:
        """Return the columns of each feature."""
        return columns_of(recipe).places

    def described(self, recipe: Recipe) -> str:
        """Say which fields of an event a recipe evaluates, and its hash."""
        fields = [".".join(map(str, one.field)) for one in recipe.of_fields]
        return f"{', '.join(dict.fromkeys(fields))}; recipe {recipe.sha256()}"

    def of_plain(self, plain: Mapping[str, Any]) -> Recipe:
        """Return the recipe of a canonical configuration."""
        return recipe_of(plain)

    def columns_between(self, before: Recipe, recipe: Recipe) -> Columns:
        """Return how the columns of a recipe follow from those of the one before it."""
        from streamsvm.branches.events.recipe_changes import columns_between

        return columns_between(before, recipe)

    def largest_bytes(self, recipe: Recipe) -> int:
        """Return a bound on the bytes of the part `recipe`."""
        examples = examples_of(recipe, columns_of(recipe))
        return len(recipe.canonical()) + len(msgspec.json.encode(examples))


EVENTS: Final = EventRecipes()

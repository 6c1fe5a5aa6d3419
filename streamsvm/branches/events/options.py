"""The recipe that makes points of raw events, as tables of a configuration and as a part of `ModelConfig`.

Invariant: what reads and evaluates a recipe is not loaded before there is one: these options are part of every trainer.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, cast
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, InstanceOf, PlainSerializer, model_validator

from streamsvm.branches.events.combinations import FOLLOWING
from streamsvm.branches.events.features.recipe import Recipe, recipe_of
from streamsvm.branches.events.features.zones import Transitions, transitions_of
from streamsvm.option_texts import table_in_words
from streamsvm.sections import RecipeOptions, SectionOptions
from streamsvm.supports import FEATURES, require

if TYPE_CHECKING:
    from streamsvm.config import ModelConfig


@cache
def rules_of_zone(name: str) -> Transitions:
    """Return the rules of a time zone as this machine knows them.

    Raises
    ------
    ValueError
        If it knows no such zone.
    """
    try:
        return transitions_of(ZoneInfo(name))
    except (KeyError, ValueError, OSError):
        raise ValueError(
            f"the time zone {name!r} is unknown here: give a name such as Europe/Berlin, or install the package tzdata"
        ) from None


def recipe_from(features: Mapping[str, Any], events: Mapping[str, Any]) -> Recipe:
    """Return the recipe of the tables `[features]` and `[events]`.

    Raises
    ------
    ValueError
        Naming the option, and saying what to do.
    """
    from streamsvm.branches.events.features.declaring import declared

    plain = {name: value for name, value in events.items() if value is not None}
    tables_of = {option: table_in_words(plain.get(option)) for option in ("label", "time")}
    return declared(features, {**plain, **tables_of}, rules_of_zone)


def points_of(recipe: Recipe) -> dict[str, Any]:
    """Return the options of `[points]` that follow from a recipe."""
    from streamsvm.branches.events.features.columns import columns_of

    names = columns_of(recipe).names
    label = recipe.label
    labels = {} if label is None else {"labels": label.classes}
    return {"dimension": len(names), "feature_names": names, **labels}


class DeclaredEvents(RecipeOptions):
    """What options say of events, which become points by `features`: a part of `ModelConfig`, and of the settings."""

    features: Any = None

    @property
    def recipe(self) -> Recipe | None:
        """What events become; None where records are points."""
        recipe: Recipe | None = self.features
        return recipe

    def recipe_axes(self) -> dict[str, object]:
        """Return the recipe and its label, by option."""
        return {FEATURES: self.recipe, "events.label": None if self.recipe is None else self.recipe.label}

    def recipe_options(self) -> dict[str, Any]:
        """Return the option with which other options have the same recipe."""
        return {"features": self.recipe}


def _a_recipe(given: object) -> object:
    return recipe_of(given) if isinstance(given, Mapping) else given


CanonicalRecipe = Annotated[InstanceOf[Recipe], BeforeValidator(_a_recipe), PlainSerializer(Recipe.plain)]


class EventsModel(DeclaredEvents):
    """The part of `ModelConfig` that says what events become; None where records are points."""

    features: CanonicalRecipe | None = None

    @model_validator(mode="after")
    def _points_of_the_recipe(self) -> Self:
        points = cast("ModelConfig", self).points
        for option, value in {} if self.features is None else points_of(self.features).items():
            if getattr(points, option) != value:
                require({FOLLOWING: option, FEATURES: self.features})
        return self

    def begun_with(self, canonical: Mapping[str, Any]) -> Self:
        """Return this configuration with the rules of time zones that an incarnation began with.

        They come from the machine's data, which changes. A zone that it did not name has the rules of now.
        """
        recipe, begun = self.features, canonical.get("features")
        if recipe is None or begun is None:
            return self
        known = begun.get("zones", {})
        zones = {name: known[name] for name in recipe.zones if name in known}
        if not zones:
            return self
        kept = recipe_of({**recipe.plain(), "zones": {**recipe.plain()["zones"], **zones}})
        return self if kept == recipe else self.model_copy(update={"features": kept})

    def as_declared(self, plain: dict[str, Any]) -> dict[str, Any]:
        """Return the tables of a configuration file: `[features]` and `[events]`, and of `[points]` what is left."""
        if self.features is None:
            return plain
        from streamsvm.branches.events.features.declaring import tables

        following = points_of(self.features)
        points = {option: value for option, value in plain["points"].items() if option not in following}
        return {**plain, "points": points, **tables(self.features)}


OPTIONS: Final = SectionOptions(section="", mixin=EventsModel, after="seed")

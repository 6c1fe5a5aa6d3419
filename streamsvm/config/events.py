"""What raw events are: their fields beside the features, and the recipe that makes points of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, Field, InstanceOf, PlainSerializer

from streamsvm.features.columns import columns_of
from streamsvm.features.declaring import declared
from streamsvm.features.recipe import Envelope, Recipe, recipe_of
from streamsvm.features.zones import Transitions, transitions_of
from streamsvm.option_texts import table_in_words
from streamsvm.sections import Section


class EventsConfig(Section):
    """Fields of raw events beside their features. Only with `[features]`."""

    label: Annotated[Mapping[str, Any] | None, BeforeValidator(table_in_words)] = Field(
        default=None,
        description="The field of the label and the values that mean the negative and the positive label: "
        'label = {field = "is_fraud", negative = [false], positive = [true]}. Of several values the first is the one '
        "that scores carry. An event with another value becomes a dead letter. A trainer needs it.",
    )
    weight: str | tuple[str | int, ...] | None = Field(
        default=None, description="Field of the weight. Default, and where the field is missing: weight 1."
    )
    id: str | tuple[str | int, ...] | None = Field(
        default=None, description="Field of the id that a score carries, text or an integer. Default: no id."
    )
    time: Annotated[str | Mapping[str, Any] | None, BeforeValidator(table_in_words)] = Field(
        default=None,
        description="The field that says when an event happened, for the times that a version covers: time = "
        '{field = "created_at", format = "ms", zone = "Europe/Berlin"}, with the formats iso8601 (the default), s, ms '
        "and us. Another type, or a time before 1970, makes the event a dead letter. Default, and where the field is "
        "missing: the record's timestamp.",
    )
    envelope: Envelope = Field(
        default="none",
        description="What stands around an event in its record: `none`; `connect`, Kafka Connect's schema and payload; "
        "`debezium`, of which the state after a change is learned, and deletions are passed over; `cloudevents`, "
        "structured or binary. A record without its envelope becomes a dead letter.",
    )


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


def _a_recipe(given: object) -> object:
    return recipe_of(given) if isinstance(given, Mapping) else given


CanonicalRecipe = Annotated[InstanceOf[Recipe], BeforeValidator(_a_recipe), PlainSerializer(Recipe.plain)]


def recipe_from(features: Mapping[str, Any], events: Mapping[str, Any]) -> Recipe:
    """Return the recipe of the tables `[features]` and `[events]`.

    Raises
    ------
    ValueError
        Naming the option, and saying what to do.
    """
    plain = {name: value for name, value in events.items() if value is not None}
    tables_of = {option: table_in_words(plain.get(option)) for option in ("label", "time")}
    return declared(features, {**plain, **tables_of}, rules_of_zone)


def points_of(recipe: Recipe) -> dict[str, Any]:
    """Return the options of `[points]` that follow from a recipe."""
    names = columns_of(recipe).names
    label = recipe.label
    labels = {} if label is None else {"labels": (label.negative[0], label.positive[0])}
    return {"dimension": len(names), "feature_names": names, **labels}

"""Raw events: what their fields become, and what stands around them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from pydantic import BeforeValidator, Field, InstanceOf, PlainSerializer, model_validator

from consumers.settings_sockets import SettingsOptions
from streamsvm.branches.events.combinations import EVENTS, FOLLOWING
from streamsvm.branches.events.features.recipe import Envelope, Recipe
from streamsvm.branches.events.options import DeclaredEvents, points_of, recipe_from
from streamsvm.config import PointsConfig
from streamsvm.errors import ConfigurationError
from streamsvm.option_texts import table_in_words
from streamsvm.sections import Section
from streamsvm.supports import FEATURES, require

if TYPE_CHECKING:
    from consumers.settings import Settings


def _envelope(given: object) -> Envelope:
    from streamsvm.branches.events.features.declaring import envelope_of

    return envelope_of(given)


class EventsConfig(Section):
    """Fields of raw events beside their features. Only with `[features]`."""

    label: Annotated[Mapping[str, Any] | None, BeforeValidator(table_in_words)] = Field(
        default=None,
        description='The label: label = {field = "is_fraud", negative = [false], positive = [true]}, or '
        'of 3 to 128 labels labels = ["ok", "review", "fraud"]. Of several values of a side scores carry the first; '
        "another value makes a dead letter.",
    )
    weight: str | tuple[str | int, ...] | None = Field(default=None, description="Field of the weight; without it 1.")
    id: str | tuple[str | int, ...] | None = Field(
        default=None, description="Field of the id that a score carries, text or an integer."
    )
    time: Annotated[str | Mapping[str, Any] | None, BeforeValidator(table_in_words)] = Field(
        default=None,
        description='When the event happened: time = {field = "created_at", format = "ms", zone = '
        '"Europe/Berlin"}, with the formats iso8601 (the default), s, ms and us. Without it: the '
        "record's timestamp.",
    )
    envelope: Annotated[Envelope, BeforeValidator(_envelope)] = Field(
        default="none",
        description="What stands around an event: Kafka Connect's schema and payload, or Debezium's change.",
    )


def _as_declared(recipe: Recipe) -> dict[str, Any]:
    """Return a recipe's features as a configuration file has them: without the rules of time zones."""
    from streamsvm.branches.events.features.declaring import tables

    return tables(recipe)["features"]


def _table_of(features: object) -> Mapping[str, Any]:
    """Return `[features]` as a table; the environment and the command line can only give it as JSON."""
    features = table_in_words(features)
    if not isinstance(features, Mapping):
        raise ValueError("features is not a table: write [features] and a line for each feature, or give a JSON object")
    return features


class EventsSettings(DeclaredEvents):
    """The sections `[features]` and `[events]`."""

    features: Annotated[InstanceOf[Recipe], PlainSerializer(_as_declared)] | None = Field(
        default=None, description="What the fields of raw events become."
    )
    events: EventsConfig = Field(default=EventsConfig(), description="Label, weight and id of raw events.")

    @model_validator(mode="before")
    @classmethod
    def _points_of_events(cls, given: Any) -> Any:
        """Make the recipe of `features` and `events`, and the options of `points` that follow from it."""
        if not isinstance(given, dict):
            return given
        features, events = given.get("features"), given.get("events") or {}
        events = events.model_dump() if isinstance(events, EventsConfig) else events
        if not features:
            if not _is_plain(events):
                require({EVENTS: events, FEATURES: None})
            return given
        recipe = features if isinstance(features, Recipe) else recipe_from(_table_of(features), events)
        points = given.get("points") or {}
        plain = points.model_dump(exclude_unset=True) if isinstance(points, PointsConfig) else dict(points)
        for option, value in points_of(recipe).items():
            if option in plain and plain[option] != value:
                require({FOLLOWING: option, FEATURES: features})
            plain[option] = value
        return {**given, "features": recipe, "points": plain}

    def begun_with(self, canonical: Mapping[str, Any]) -> Self:
        """Return these options with the rules of time zones that an incarnation began with."""
        settings: Any = self
        models = settings.models()
        kept = models.begun_with(canonical)
        return self if kept is models else self.model_copy(update={"features": kept.recipe})


def _is_plain(events: object) -> bool:
    """Return whether `[events]` has no value but defaults, no mistake: a worker gets its trainer's options."""
    plain = EventsConfig().model_dump()
    return isinstance(events, Mapping) and all(name in plain and plain[name] == one for name, one in events.items())


def _models(settings: Settings) -> Mapping[str, object]:
    recipe = settings.recipe
    if isinstance(recipe, Recipe) and recipe.label is None and not settings.labels_topic:
        raise ConfigurationError(
            "events.label is not given",
            'Give the field of the label and its values: label = {field = "is_fraud", negative = [false], '
            "positive = [true]} under [events] in the TOML file.",
        )
    return settings.recipe_options()


SECTIONS: Final = SettingsOptions(section="", mixin=EventsSettings, after="input", models=_models)

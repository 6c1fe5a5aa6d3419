"""The canonical configuration of events: an incarnation keeps what it began with."""

from __future__ import annotations

import json
from typing import Any, Final

from streamsvm.branches.events.features.recipe import Recipe
from streamsvm.branches.events.options import points_of, recipe_from
from streamsvm.config import ModelConfig, PointsConfig

FEATURES: Final = {"amount": "number", "paid": {"as": "time", "parts": ["hour"], "zone": "Europe/Berlin"}}
LABEL: Final = {"label": {"field": "fraud", "negative": [False], "positive": [True]}}


def of_events(features: dict[str, Any] = FEATURES) -> ModelConfig:
    """Return the configuration of a trainer that learns events."""
    recipe = recipe_from(features, LABEL)
    return ModelConfig.model_validate({"features": recipe, "points": points_of(recipe)})


def of_points() -> ModelConfig:
    """Return the configuration of a trainer that learns points."""
    return ModelConfig(points=PointsConfig(dimension=22))


def test_an_incarnation_keeps_the_rules_of_its_time_zones() -> None:
    """A machine with newer zone data goes on with the rules that the incarnation began with."""
    now = of_events()
    begun = json.loads(json.dumps(now.canonical()))
    begun["features"]["zones"]["Europe/Berlin"] = [[0, 3600]]
    older = ModelConfig.of_canonical(begun)
    assert older.sha256() != now.sha256()
    assert now.begun_with(begun).canonical() == begun
    other = of_events({**FEATURES, "amount": {"as": "flag"}})
    kept = other.begun_with(begun)
    assert isinstance(kept.recipe, Recipe)
    assert kept.recipe.plain()["zones"] == begun["features"]["zones"]
    assert kept.sha256() not in (older.sha256(), other.sha256())


def test_nothing_changes_where_zones_have_the_same_rules_or_there_are_none() -> None:
    """Nor where an incarnation began with other zones, or without features."""
    now = of_events()
    for begun in (now, of_points(), of_events({"amount": "number"})):
        assert now.begun_with(begun.canonical()) is now
    assert of_points().begun_with(now.canonical()) == of_points()

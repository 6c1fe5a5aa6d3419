"""How features are declared, written, and refused."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from streamsvm.branches.events.features.columns import columns_of
from streamsvm.branches.events.features.declaring import tables
from streamsvm.branches.events.features.recipe import Recipe, recipe_of
from streamsvm.branches.events.options import points_of, recipe_from
from streamsvm.config import ModelConfig, PointsConfig
from streamsvm.field_paths import path_of, picked, shown
from tests.branches.events.recipes import EVENTS, PAYMENTS, payments


def config(features: dict[str, Any] = PAYMENTS, **options: Any) -> ModelConfig:
    """Return the configuration of a trainer with features."""
    recipe = recipe_from(features, EVENTS)
    return ModelConfig(points=PointsConfig(**points_of(recipe)), features=recipe, **options)


def test_a_recipe_survives_its_canonical_encoding() -> None:
    """Read back it is the same, and has the same bytes."""
    recipe = payments()
    again = recipe_of(recipe.plain())
    assert again == recipe
    assert again.canonical() == recipe.canonical()
    assert again.sha256() == recipe.sha256()


def test_the_canonical_encoding_leaves_defaults_out() -> None:
    """So that an option that a later build adds changes no hash."""
    assert recipe_from({"a": "number"}, {}).canonical() == (b'{"features":[{"as":"number","name":"a","field":["a"]}]}')


def test_a_recipe_can_be_written_as_the_tables_it_was_made_of() -> None:
    """Through TOML, too: `streamsvm replay` prints the configuration that trains."""
    recipe = payments()
    made = tables(recipe)
    assert recipe_from(made["features"], made["events"]) == recipe
    written = tomllib.loads(config().toml())
    assert recipe_from(written["features"], written["events"]) == recipe
    assert not {"dimension", "labels", "feature_names"} & written["points"].keys()


def test_the_order_of_features_counts_and_every_option_does() -> None:
    """Columns stand in the order of declaration, so another order is another recipe."""
    backwards = dict(reversed([(name, one) for name, one in PAYMENTS.items() if name != "where"]))
    forwards = {name: one for name, one in PAYMENTS.items() if name != "where"}
    hashes = {config(one).sha256() for one in (backwards, forwards, {**forwards, "amount": "number"})}
    assert len(hashes) == 3


def test_a_configuration_with_features_survives_its_canonical_value() -> None:
    """As checkpoints and lineages hold it."""
    made = config()
    assert ModelConfig.of_canonical(json.loads(json.dumps(made.canonical()))) == made


def test_columns_have_the_names_that_people_read() -> None:
    """Kind by kind."""
    names = columns_of(payments()).names
    assert names[:6] == ("amount", "risk", "risk=(missing)", "age", "size<5", "size[5,50)")
    assert names[6:13] == (
        "size>=50",
        "size=(missing)",
        "country=DE",
        "country=FR",
        "country=US",
        "country=(other)",
        "country=(missing)",
    )
    assert {"merchant#15", "vip", "ts.hour.sin", "ts.age", "country=DE & channel=web"} <= set(names)


@pytest.mark.parametrize("plain", json.loads(Path(__file__).with_name("foreign.json").read_text()))
def test_a_foreign_recipe_is_checked_as_a_configured_one(plain: dict[str, Any]) -> None:
    """It comes with a message, from whoever wrote that."""
    with pytest.raises(ValueError, match=r"."):
        recipe_of(plain)


@given(st.lists(st.one_of(st.text("abc.[]é ", min_size=1, max_size=4), st.integers(0, 99)), min_size=1, max_size=5))
def test_a_path_is_followed_as_it_is_written(steps: list[str | int]) -> None:
    """Built into an event, the value is found under it; what people are shown leads back to it where it can."""
    steps = ["top", *steps]
    event: Any = 42
    for step in reversed(steps):
        event = {step: event} if isinstance(step, str) else [None] * step + [event]
    path = path_of(steps)
    assert picked([event], path) == [42]
    if all(isinstance(step, int) or not set(step) & set(".[]") for step in steps):
        assert path_of(shown(path)) == path


HOURLY = {"amount": "number", "paid": {"as": "time", "parts": ["hour"], "zone": "Europe/Berlin"}}


def of_points() -> ModelConfig:
    """Return the configuration of a trainer that learns points."""
    return ModelConfig(points=PointsConfig(dimension=22))


def test_an_incarnation_keeps_the_rules_of_its_time_zones() -> None:
    """A machine with newer zone data goes on with the rules that the incarnation began with."""
    now = config(HOURLY)
    begun = json.loads(json.dumps(now.canonical()))
    begun["features"]["zones"]["Europe/Berlin"] = [[0, 3600]]
    older = ModelConfig.of_canonical(begun)
    assert older.sha256() != now.sha256()
    assert now.begun_with(begun).canonical() == begun
    other = config({**HOURLY, "amount": {"as": "flag"}})
    kept = other.begun_with(begun)
    assert isinstance(kept.recipe, Recipe)
    assert kept.recipe.plain()["zones"] == begun["features"]["zones"]
    assert kept.sha256() not in (older.sha256(), other.sha256())


def test_nothing_changes_where_zones_have_the_same_rules_or_there_are_none() -> None:
    """Nor where an incarnation began with other zones, or without features."""
    now = config(HOURLY)
    for begun in (now, of_points(), config({"amount": "number"})):
        assert now.begun_with(begun.canonical()) is now
    assert of_points().begun_with(now.canonical()) == of_points()

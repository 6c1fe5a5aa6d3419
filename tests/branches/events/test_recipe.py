"""How features are declared, written, and refused."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given, strategies as st

from streamsvm.branches.events.features.columns import columns_of
from streamsvm.branches.events.features.declaring import tables
from streamsvm.branches.events.features.recipe import MOST_COLUMNS, Recipe, recipe_of
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


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"a": {"as": "nuber"}}, "features.a.as is 'nuber': give one of number, category, hash, time, flag, cross"),
    ({"a": 5}, 'features.a is 5: write a = {as = "number"}'),
    ({"a": {"as": "number", "clp": 1}}, "features.a.clp: there is no such option; a number has buckets, clip"),
    ({"a": {"as": "number", "field": "x..y"}}, "features.a.field: 'x..y' is not a field: write card.country"),
    ({"a": {"as": "number", "field": ["x"] * 17}}, "features.a.field: a field has 1 to 16 keys, but 17 are given"),
    ({"a": {"as": "number", "unit": 0}}, "features.a: unit is 0; give a number above 0"),
    ({"a": {"as": "number", "clip": [2, 1]}}, "features.a: clip is [2.0, 1.0]; give the least value and a larger one"),
    ({"a": {"as": "number", "unit": "x"}}, "features.a: unit: Expected `float`, got `str`"),
    ({"a": {"as": "number", "buckets": [2, 1]}}, "features.a: the borders in buckets are not in ascending order"),
    ({"a": {"as": "number", "buckets": [1], "log1p": True}}, "features.a: log1p and buckets"),
    ({"a": {"as": "number", "missing": {"constant": "x"}}}, "features.a: the constant for missing values is 'x'"),
    ({"a": {"as": "number", "missing": "drop"}}, "features.a: missing: Invalid enum value 'drop'"),
    ({"a": {"as": "category"}}, "features.a.values is not given: give a list of values"),
    ({"a": {"as": "category", "values": []}}, 'features.a: values has 0 entries; give 1 to 2000, or use as = "hash"'),
    ({"a": {"as": "category", "values": [1, "1"]}}, "features.a: values holds '1' twice"),
    ({"a": {"as": "category", "values": [1.5]}}, "features.a.values holds 1.5: give text, integers or booleans"),
    ({"a": {"as": "category", "values": ["(other)"]}}, "features.a: values holds '(other)', which is the name"),
    ({"a": {"as": "category", "values": ["x" * 201]}}, "give at most 200 printable characters"),
    ({"a": {"as": "hash", "bits": 11}}, "features.a: bits is 11; give 1 to 10"),
    ({"a": {"as": "hash"}}, "features.a: Object missing required field `bits`"),
    ({"a": {"as": "time", "zone": "Mars/Base"}}, "the time zone 'Mars/Base' is unknown here"),
    ({"a": {"as": "time", "zone": "../etc/passwd"}}, "the time zone '../etc/passwd' is unknown here"),
    ({"a": {"as": "time", "parts": ["age"]}}, "features.a: the part age and the option since"),
    ({"a": {"as": "time", "parts": []}}, "features.a: parts must name each of hour, weekday, month and age"),
    ({"x": {"as": "cross", "of": ["a", "b"]}}, "features.x crosses 'a', which no feature before it is called"),
    ({"a": "flag", "x": {"as": "cross", "of": ["a", "a"]}}, "features.x crosses 'a' with itself"),
    (
        {"a": "flag", "b": "flag", "x": {"as": "cross", "of": ["a", "b"]}, "y": {"as": "cross", "of": ["x", "a"]}},
        "features.y crosses 'x', which is a cross itself",
    ),
    ({"a": {"as": "category", "values": ["x"]}, "a=x": "flag"}, "features makes two columns of the name 'a=x'"),
    ({"a\n": "flag"}, "features has the name 'a\\n'"),
]


@pytest.mark.parametrize(("features", "what"), REFUSED)
def test_what_cannot_be_meant_is_refused_by_its_name(features: dict[str, Any], what: str) -> None:
    """Every refusal names the option and says what to give."""
    with pytest.raises(ValueError, match=r".") as refused:
        recipe_from(features, {})
    assert what in str(refused.value)


@pytest.mark.parametrize(
    ("label", "what"),
    [
        ({"field": "y"}, "write {field ="),
        ({"field": "y", "negative": [0], "positive": [True]}, "events.label mixes types: 0, True"),
        ({"field": "y", "negative": [0, 1], "positive": [1]}, "events.label has 1 twice"),
        ({"field": "y", "negative": [], "positive": [1]}, "at least one value each"),
        ({"field": "y", "negative": [0.5], "positive": [1]}, "events.label.negative holds 0.5"),
    ],
)
def test_a_label_that_cannot_be_meant_is_refused(label: dict[str, Any], what: str) -> None:
    """Two sides, each with at least one value, all of one type."""
    with pytest.raises(ValueError, match=r".") as refused:
        recipe_from({"a": "number"}, {"label": label})
    assert what in str(refused.value)


def test_too_many_columns_are_refused_with_the_reason_and_what_to_do() -> None:
    """Before anything is made of them, in a configuration as in a message."""
    wide = {name: {"as": "hash", "bits": 6} for name in ("a", "b")} | {"x": {"as": "cross", "of": ["a", "b"]}}
    with pytest.raises(
        ValueError, match=f"features makes 4,224 columns up to features.x, but at most {MOST_COLUMNS:,}"
    ):
        recipe_from(wide, {})
    bomb = {"features": [{"as": "hash", "name": "a", "field": ["a"], "bits": 62}]}
    with pytest.raises(ValueError, match="bits is 62; give 1 to 10"):
        recipe_of(bomb)


@pytest.mark.parametrize(
    "plain",
    [
        {},
        {"features": []},
        {"features": [{"as": "number", "name": "a", "field": []}]},
        {"features": [{"as": "number", "name": "a", "field": [0]}]},
        {"features": [{"as": "number", "name": "a", "field": ["a", -1]}]},
        {"features": [{"as": "number", "name": "a", "field": ["a"], "more": 1}]},
        {"features": [{"as": "number", "name": "a", "field": ["a"], "unit": 1e200}]},
        {"features": [{"as": "time", "name": "a", "field": ["a"], "parts": ["hour"], "zone": "X"}]},
        {"features": [{"as": "flag", "name": "a", "field": ["a"]}], "zones": {"X": []}},
        {"features": [{"as": "flag", "name": "a", "field": ["a"]}], "zones": {"X": [[2, 0], [1, 0]]}},
        {"features": [{"as": "flag", "name": "a", "field": ["a"]}] * 2},
    ],
)
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

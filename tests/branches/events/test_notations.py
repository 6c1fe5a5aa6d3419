"""Numbers in other notations: cells with the numbers that they mean, and what is refused."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st

from streamsvm.branches.events.features.columns import columns_of
from streamsvm.branches.events.features.examples import disagreement, examples_of
from streamsvm.branches.events.options import recipe_from
from tests.golden import HERE

CELLS: list[dict[str, Any]] = json.loads((HERE / "notations.json").read_text("utf-8"))


def recipe_of(options: dict[str, Any]) -> Any:
    """Return a recipe of one number; a missing one is 0."""
    return recipe_from({"a": {"as": "number", "missing": {"constant": 0}, **options}}, {})


def by_options() -> list[tuple[dict[str, Any], list[Any], list[Any]]]:
    """Return the cells of each notation: options, values and numbers."""
    grouped: dict[str, tuple[dict[str, Any], list[Any], list[Any]]] = {}
    for cell in CELLS:
        key = json.dumps(cell["options"], sort_keys=True)
        found = grouped.setdefault(key, (cell["options"], [], []))
        found[1].append(cell["value"])
        found[2].append(cell["number"])
    return list(grouped.values())


def same(found: float, expected: Any) -> bool:
    number = 0.0 if expected == "missing" else expected
    return found == number and math.copysign(1.0, found) == math.copysign(1.0, number)


@pytest.mark.parametrize(("options", "values", "numbers"), by_options(), ids=lambda one: json.dumps(one)[:60])
def test_cells_mean_what_they_mean(options: dict[str, Any], values: list[Any], numbers: list[Any]) -> None:
    """To the bit, one by one and as a column; `tests.branches.events.test_interop` asks the other languages."""
    recipe = recipe_of(options)
    made = columns_of(recipe).of_events([{"a": value} for value in values])
    for at, (value, number) in enumerate(zip(values, numbers, strict=True)):
        assert (at in made.faults) == (number is None), (value, number)
        if number is not None:
            assert same(float(made.X[at, 0]), number), (value, number, made.X[at, 0])
        alone = columns_of(recipe).of_events([{"a": value}])
        assert alone.faults.get(0) == made.faults.get(at)


@given(
    st.decimals(-(10**12), 10**12, places=4, allow_nan=False),
    st.sampled_from([(".", ","), (",", "."), (",", " "), (".", "'"), (".", "_"), (".", "")]),
    st.booleans(),
)
def test_any_decimal_is_its_nearest_float(number: Decimal, marks: tuple[str, str], percent: bool) -> None:
    """However it is grouped; of percents a hundredth."""
    decimal, thousands = marks
    grouped = f"{number:,f}" if thousands else f"{number:f}"
    text = grouped.translate({ord(","): thousands, ord("."): decimal}) + (" %" if percent else "")
    recipe = recipe_of({"parse": "text", "decimal": decimal, "thousands": thousands})
    made = columns_of(recipe).of_events([{"a": text}])
    assert not made.faults
    assert made.X[0, 0] == float(number.scaleb(-2) if percent else number)


def test_the_rejection_says_what_the_feature_takes() -> None:
    """With the value, and the separators that are declared."""
    for options, value, what in (
        (
            {"parse": "text"},
            "1,5",
            "a is '1,5', not a number, or a text that writes one with the decimal separator '.', no",
        ),
        ({"parse": "text", "thousands": ","}, "1.5.6", "the thousands separator ',' and no currency"),
    ):
        made = columns_of(recipe_of(options)).of_events([{"a": value}])
        assert made.faults[0].reason == "wrong_type"
        assert what in made.faults[0].what


def test_the_examples_of_a_message_are_written_in_the_notation() -> None:
    """So that a reader that does not know it refuses the version."""
    recipe = recipe_of({"parse": "text", "decimal": ",", "thousands": ".", "currency": "EUR", "clip": [0, 1e6]})
    columns = columns_of(recipe)
    made = examples_of(recipe, columns)
    assert len(made) == 4
    assert isinstance(made[0].event["a"], str)
    assert disagreement(columns, made) == ""
    without = columns_of(recipe_of({}))
    assert "rejects the event" in disagreement(without, made)

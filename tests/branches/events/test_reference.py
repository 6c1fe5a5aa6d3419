"""The recipe's columns are those of a second evaluation that was written from the message's schema."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from streamsvm.branches.events.features.columns import columns_of
from streamsvm.branches.events.features.recipe import Recipe
from tests.branches.events.recipes import payment, payments
from tests.branches.events.reference import Rejected, columns
from tests.golden import model as golden


def compare(recipe: Recipe, event: dict[str, Any]) -> None:
    """Compare what both make of an event."""
    made = columns_of(recipe)
    found = made.of_events([event])
    try:
        expected = columns(recipe.plain(), event)
    except Rejected:
        assert found.faults, "the second evaluation rejects the event"
        return
    assert not found.faults, found.faults
    assert tuple(expected) == made.names
    for name, value in zip(made.names, found.X[0].tolist(), strict=True):
        assert value == pytest.approx(expected[name], rel=1e-12, abs=1e-12), name


def test_events_have_the_columns_of_the_second_evaluation() -> None:
    """Of ten thousand raw events each would do; two hundred show every kind."""
    for index in range(200):
        compare(payments(), payment(index))


TIMES = st.one_of(
    st.datetimes().map(lambda time: time.isoformat()),
    st.datetimes(timezones=st.timezones()).map(lambda time: time.isoformat()),
    st.from_regex(r"\A[0-9]{4}-[01][0-9]-[0-3][0-9]([T ][0-2][0-9]:[0-5][0-9](:[0-5][0-9])?(Z|[+-][0-2][0-9]:00)?)?\Z"),
)


@given(index=st.integers(0, 50), time=TIMES, price=st.floats(allow_nan=False) | st.integers(-(10**9), 10**9))
def test_any_time_and_price_are_the_same_to_both(index: int, time: str, price: float) -> None:
    """Accepted with the same columns, or rejected; the fuzzers compare damaged events."""
    compare(payments(), {**payment(index), "ts": time, "items": [{"price": price}]})


@pytest.mark.parametrize("kind", ["linear-events", "rbf-events"])
def test_the_examples_of_a_message_are_those_of_the_second_evaluation(kind: str) -> None:
    """As a reader in another language would check them."""
    part = golden.parts_of(json.loads(golden.path_of(kind).read_bytes()))["recipe"]
    assert part["examples"]
    for example in part["examples"]:
        expected = {name: one for name, one in columns(part["recipe"], example["event"]).items() if one}
        assert example["columns"].keys() == expected.keys()
        for name, one in expected.items():
            assert example["columns"][name] == pytest.approx(one, rel=1e-12, abs=1e-12)

"""What is proposed for the fields of a file, and that the proposal is a configuration."""

from __future__ import annotations

import random
import tomllib
from typing import Any

import msgspec
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from consumers.cli.features import _lines
from streamsvm.config import recipe_from
from streamsvm.features.columns import columns_of
from streamsvm.features.inference import Proposal, _area, proposal
from tests.features.recipes import payment


def one(values: list[Any], labels: list[Any] | None = None) -> tuple[dict[str, Any] | None, str]:
    """Return what is proposed for one field with these values."""
    events = [{"a": value} for value in values]
    if labels is not None:
        events = [{**event, "y": label} for event, label in zip(events, labels, strict=True)]
    (found,) = proposal(events).fields
    return (None if found.options is None else dict(found.options)), found.why


def written(made: Proposal) -> dict[str, Any]:
    """Return what the command prints, as its reader has it."""
    return tomllib.loads("\n".join(_lines(made, "none")))


CASES: list[tuple[list[Any], dict[str, Any] | None, str]] = [
    ([1.5, 2.5, 3.5], {"as": "number"}, "1.5 to 3.5"),
    ([1.0] * 9 + [2.0] * 90 + [900.0], {"as": "number", "log1p": True}, "450 times the median; 3 values only"),
    ([1, 2, 4, 1, 2, 4], {"as": "number"}, 'as = "category" if they are codes'),
    ([0, 1, 1, 0], {"as": "flag"}, "0 or 1; 1 in 50.0%"),
    ([True, False, True, True], {"as": "flag"}, "true in 75.0%"),
    ([1.0, None, 4.0], {"as": "number", "missing": {"constant": 2.5}}, "missing in 33.3%"),
    (["a", None, "b"], {"as": "category", "values": ["a", "b"], "missing": "indicator"}, "2 values; missing in 33.3%"),
    (["b", "a", "b"], {"as": "category", "values": ["b", "a"]}, "2 values"),
    ([f"v{i % 200}" for i in range(400)], {"as": "hash", "bits": 7}, "200 values in the sample, too many"),
    (["2026-01-31T12:00:00Z", "2026-02-01"], {"as": "time"}, "a time without an offset: give its zone"),
    (["2026-01-31T12:00:00+01:00"] * 2 + ["2025-01-01T00:00Z"], {"as": "time"}, "a time; for local hours give a zone"),
    ([f"u{i}" for i in range(30)], None, "identifier: no two events have the same"),
    (list(range(5, 35)), None, "identifier: it counts the events"),
    (["x"] * 9, None, "constant: every event has 'x'"),
    ([1, "x"], None, "mixed types (number, str)"),
    ([None, None], None, "always missing in the sample"),
    ([[1, 2], [3]], None, "declare the element that counts"),
]


@pytest.mark.parametrize(("values", "options", "why"), CASES)
def test_each_field_is_what_it_looks_like(values: list[Any], options: dict[str, Any] | None, why: str) -> None:
    """With the reason beside it."""
    found, said = one(values)
    assert found == options
    assert why in said


def test_a_counted_time_is_told_by_its_name_and_its_range() -> None:
    """A number of that size under another name is a number."""
    events = [{"created_at": 1_768_484_096_000 + i * 997, "amount": 1_768_484_096_000 + i * 997} for i in range(9)]
    created, amount = proposal(events).fields
    assert created.options == {"as": "time", "format": "ms"}
    assert amount.options == {"as": "number"}


@pytest.mark.parametrize("values", [["no"] * 30 + ["yes"] * 30, [i / 7 + (i >= 30) for i in range(60)]])
def test_a_field_that_knows_the_label_is_suspected(values: list[Any]) -> None:
    """Left out, with the question that a person has to answer."""
    labels = [False] * 30 + [True] * 30
    found, why = one(values, labels)
    assert found is None
    assert why.startswith("leak suspected: alone it separates the labels (AUC 1.000)")
    random.Random(0).shuffle(labels)
    assert one(values, labels)[0] is not None


def test_the_area_is_scikit_learns() -> None:
    """With ties."""
    chance = random.Random(3)
    labels = [chance.random() < 0.4 for _ in range(200)]
    scores = [round(chance.gauss(label, 1.0), 1) for label in labels]
    found = _area(np.array(scores), np.array(labels, np.int64))
    assert found == pytest.approx(roc_auc_score(labels, scores), rel=1e-12)


def test_the_proposal_is_a_configuration_that_accepts_its_sample() -> None:
    """What is printed can be read, and no event of the sample is rejected."""
    events = [payment(index) for index in range(400)]
    made = proposal(events, ("is_fraud",))
    plain = written(made)
    assert plain["events"] == {
        "label": {"field": "is_fraud", "negative": [False], "positive": [True]},
        "id": "id",
    }
    recipe = recipe_from(plain["features"], plain["events"])
    assert not columns_of(recipe).of_events(events).faults
    assert {feature.name for feature in recipe.features} >= {"amount", "card_country", "customer_age", "ts", "vip"}
    assert msgspec.to_builtins(recipe.label) == {
        "field": ("is_fraud",),
        "negative": (False,),
        "positive": (True,),
    }


def test_a_label_is_recognised_by_its_name_only() -> None:
    """Otherwise the proposal says how to give it."""
    assert proposal([{"Class": "a", "b": 1}, {"Class": "b", "b": 2}]).label == (("Class",), "a", "b")
    made = proposal([{"fraud": True, "b": 1}])
    assert made.label is None
    assert "label" not in written(made)["events"]
    with pytest.raises(ValueError, match="the label y must have exactly two values of one type, but the sample has 1"):
        proposal([{"y": 1}])


def test_a_key_with_a_dot_is_written_so_that_it_is_found() -> None:
    """As a list of keys."""
    events = [{"a.b": 1.5, "c": {"d": 2.5}}, {"a.b": 2.5, "c": {"d": 3.5}}]
    recipe = recipe_from(written(proposal(events))["features"], {})
    assert columns_of(recipe).of_events(events).X.tolist() == [[1.5, 2.5], [2.5, 3.5]]

"""What is proposed for the fields of a file, and that the proposal is a configuration."""

from __future__ import annotations

import math
import random
import tomllib
from typing import Any

import msgspec
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from consumers.branches.events.features_command import _lines
from streamsvm.branches.events.features.columns import columns_of
from streamsvm.branches.events.features.held_out import area
from streamsvm.branches.events.features.inference import Proposal, proposal
from streamsvm.branches.events.features.recipe import recipe_of
from streamsvm.branches.events.options import points_of, recipe_from
from streamsvm.config import Label
from streamsvm.model import TwoLabels
from tests.branches.events.recipes import payment


def one(values: list[Any], labels: list[Any] | None = None) -> tuple[dict[str, Any] | None, str]:
    """Return what is proposed for one field with these values."""
    events = [{"a": value} for value in values]
    if labels is not None:
        events = [{**event, "y": label} for event, label in zip(events, labels, strict=True)]
    found = proposal(events).fields[0]
    return (None if found.options is None else dict(found.options)), found.why


def written(made: Proposal) -> dict[str, Any]:
    """Return what the command prints, as its reader has it."""
    return tomllib.loads("\n".join(_lines(made, "none", {})))


@pytest.mark.parametrize(
    ("values", "known"),
    [
        (["no"] * 30 + ["yes"] * 30, "it is a copy of the label"),
        ([i / 7 + (i >= 30) for i in range(60)], "alone it separates the labels (AUC 1.000)"),
    ],
)
def test_a_field_that_knows_the_label_is_suspected(values: list[Any], known: str) -> None:
    """Left out, with the question that a person has to answer."""
    labels = [False] * 30 + [True] * 30
    found, why = one(values, labels)
    assert found is None
    assert why == f"leak suspected: {known}; is it known when the event happens?"
    random.Random(0).shuffle(labels)
    assert one(values, labels)[0] is not None


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_field_that_only_one_label_has_is_suspected(share: float, *, swapped: bool) -> None:
    """Or that only one label lacks, though the values that are there do not differ."""
    labels = [index % 10 == 0 for index in range(2_000)]
    chance = random.Random(0)
    has = [(label and chance.random() < share) != swapped for label in labels]
    found, why = one([chance.choice(["a", "b"]) if there else None for there in has], labels)
    assert found is None
    side = "missing for True" if swapped else "present for True"
    assert why.startswith(f"leak suspected: it is {'present for False' if swapped and share == 1.0 else side} only; is")
    chance.shuffle(labels)
    assert one([chance.choice(["a", "b"]) if there else None for there in has], labels)[0] is not None


def test_a_field_that_nearly_only_one_label_has_is_suspected() -> None:
    """An exception of each label does not hide it."""
    labels = [index % 10 == 0 for index in range(2_000)]
    values = ["ab"[index % 2] if label != (index < 2) else None for index, label in enumerate(labels)]
    assert one(values, labels)[1].startswith("leak suspected: whether it is present separates the labels (AUC 0.997)")


@pytest.mark.parametrize("each", [2, 3, 10])
def test_many_values_that_know_the_label_by_chance_only_are_not_suspected(each: int) -> None:
    """Of values that come a few times, many come with one label: that is no leak; also where the labels alternate."""
    chance = random.Random(0)
    values = [f"v{i % (2_000 // each)}" for i in range(2_000)]
    chance.shuffle(values)
    for labels in ([chance.random() < 0.1 for _ in values], [i % 2 == 0 for i in range(2_000)]):
        found, why = one(values, labels)
        assert found is not None, why
    assert one(values, [int(value[1:]) % 2 == 0 for value in values])[1].startswith(
        "leak suspected" if each == 10 else f"{2_000 // each} values"
    )


def test_it_says_what_was_taken_as_missing() -> None:
    """By field, also of one that has no other cells; of a label in the refusal."""
    events = [{"country": "DE", "n": 1.5 * row, "y": row % 2 == 0} for row in range(20)] + [{"n": 1.0, "y": True}] * 3
    made = proposal(events, None, {"country": {"NA": 2, "na": 1}, "n": {"nan": 4}, "gone": {"null": 23}})
    why = {field.path[0]: field.why for field in made.fields}
    assert "; 2 'NA', 1 'na' taken as missing; what is a value must be among the values of a category" in why["country"]
    assert why["n"].endswith("; 4 'nan' taken as missing")
    assert why["gone"] == "always missing in the sample; 23 'null' taken as missing"
    with pytest.raises(ValueError, match=r"but the sample has 'EU' \(7 'NA' taken as missing\)"):
        proposal([{"y": "EU"}, {"y": "EU"}], None, {"y": {"NA": 7}})


def test_labels_that_are_whole_numbers_may_have_a_point() -> None:
    """As tables write a column of integers in which some are missing."""
    made = proposal([{"a": row / 7, "y": float(row % 2)} for row in range(20)])
    assert made.label == (("y",), TwoLabels(0, 1, 0.5, "by its name"))


@pytest.mark.parametrize("labels", [("ok", "review", "fraud"), (0, 1, 2, 5), tuple("abcdefghij")])
def test_more_than_two_labels_are_proposed_as_they_are(labels: tuple[Label, ...]) -> None:
    """Fields are judged by each of them against the others: a leak is told, a code is a category, a tail is a log."""
    chance = random.Random(5)
    events = []
    for row in range(3_000):
        place = chance.randrange(len(labels))
        code = place if chance.random() < 0.5 else chance.randrange(len(labels))
        amount = math.exp(chance.gauss(place, 2.0))
        known = {"refund": 1.5} if place == 0 else {}
        events.append(
            {"y": labels[place], "code": 37 * code % 101, "amount": amount, "copy": f"r{place}", "n": row, **known}
        )
    made = proposal(events)
    assert made.label == (("y",), tuple(sorted(labels)))
    assert made.rare is None
    found = {field.path[0]: field for field in made.fields}
    assert (found["code"].options or {})["as"] == "category"
    assert found["amount"].options == {"as": "number", "log1p": True}
    assert found["copy"].why.startswith("leak suspected: alone it separates the labels")
    assert found["refund"].why.startswith(f"leak suspected: it is present for {labels[0]!r} only")
    plain = written(made)
    assert plain["events"]["label"] == {"field": "y", "labels": sorted(labels)}
    recipe = recipe_from(plain["features"], plain["events"])
    assert recipe_of(recipe.plain()) == recipe
    assert points_of(recipe)["labels"] == tuple(sorted(labels))


@pytest.mark.parametrize(
    ("values", "positive", "why"),
    [
        (["a", 1, "b"], None, "must have 2 to 128 values of one type, but the sample has 1, 'a', 'b'"),
        (list(range(129)), None, r"but the sample has 0, 1, 2, 3, 4, ...: 129"),
        (["a", "b", "c"], "a", "has 3 values: only of two one is positive"),
    ],
)
def test_what_no_label_can_be_is_told(values: list[Label], positive: str | None, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        proposal([{"y": value} for value in values], None, positive=positive)


@pytest.mark.parametrize(
    ("label", "why"),
    [
        ({"field": "y", "labels": ["a", "b"]}, "labels are 3 to 128 values; of two give negative and positive"),
        ({"field": "y", "labels": ["a", "b", "a"]}, "has 'a' twice"),
        ({"field": "y", "labels": ["a", "b", 3]}, "mixes types"),
        ({"field": "y", "labels": ["a", "b", "c"], "positive": ["d"]}, 'labels = \\["ok", "review", "fraud"\\]'),
        ({"field": "y", "negative": [], "positive": ["d"]}, "at least one value each"),
    ],
)
def test_an_impossible_label_is_refused(label: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        recipe_from({"a": {"as": "number"}}, {"label": label})


def test_balanced_weights_are_proposed_where_a_label_is_rare() -> None:
    """With the share as the reason, and what it costs; not where both labels are frequent."""
    lines = list(_lines(proposal([{"a": i / 7, "y": i % 20 == 0} for i in range(400)]), "none", {}))
    assert 'class_weight = "balanced"  # 5.0% are True, which a model may never answer otherwise' in lines
    assert any(line.startswith("# Its cost: ") for line in lines)
    assert tomllib.loads("\n".join(lines))["svm"] == {"class_weight": "balanced"}
    assert "svm" not in written(proposal([{"a": i / 7, "y": i % 3 == 0} for i in range(400)]))


def test_the_area_is_scikit_learns() -> None:
    """With ties."""
    chance = random.Random(3)
    labels = [chance.random() < 0.4 for _ in range(200)]
    scores = [round(chance.gauss(label, 1.0), 1) for label in labels]
    found = area(np.array(scores), np.array(labels, np.int64))
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
    of_two = TwoLabels("a", "b", 0.5, "the one that sorts last, of equally many")
    assert proposal([{"Class": "a", "b": 1}, {"Class": "b", "b": 2}]).label == (("Class",), of_two)
    made = proposal([{"fraud": True, "b": 1}])
    assert made.label is None
    assert "label" not in written(made)["events"]
    with pytest.raises(ValueError, match="the label y must have 2 to 128 values of one type, but the sample has 1"):
        proposal([{"y": 1}])

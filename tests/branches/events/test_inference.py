"""What is proposed for the fields of a file, and that the proposal is a configuration."""

from __future__ import annotations

import random
import tomllib
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from consumers.branches.events.features_command import _lines
from streamsvm.branches.events.features.columns import columns_of
from streamsvm.branches.events.features.held_out import area
from streamsvm.branches.events.features.inference import Proposal, proposal
from streamsvm.branches.events.options import recipe_from
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


TEXT: dict[str, Any] = {"as": "number", "parse": "text"}
COMMA = {"decimal": ","}


def texts(form: str) -> list[Any]:
    """Return texts of a form, each twice: the first place counts from 1 to 60, the second from 100 to 159."""
    return [form.format(at + 1, at + 100) for at in range(60)] * 2


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
    (texts("{0},{1}.5"), {**TEXT, "thousands": ","}, "numbers as text with thousands separators; 1100.5 to 60159.5"),
    (texts("{0}.{1},5"), {**TEXT, **COMMA, "thousands": "."}, "separators and a decimal comma; 1100.5 to 60159.5"),
    (
        texts("{0}\u202f{1},25 €"),
        {**TEXT, **COMMA, "thousands": " ", "currency": "€"},
        "numbers as text with a currency and thousands separators and a decimal comma",
    ),
    (texts("{0},5"), {**TEXT, **COMMA}, "with a decimal comma"),
    (texts("{0}.5 %"), TEXT, "with a percent sign; 0.015 to 0.605"),
    (texts("{0}.5"), TEXT, "numbers as text; 1.5 to 60.5"),
    ([*texts("{0}.5")[:60], 7], TEXT, "numbers as text; 1.5 to 60.5"),
    ([*texts("{0}.5"), *[None] * 30], {**TEXT, "missing": {"constant": 31.0}}, "missing in 20.0%"),
    ([*texts("{0}.5"), *["n/a"] * 3], TEXT, "; 1 of 61 values cannot be read, and become dead letters; 1.5"),
    (texts("0.{1}"), TEXT, "numbers as text; 0.1 to 0.159"),
    (texts("1,{1}"), None, 'in 2 ways: add parse = "text", decimal = "," (1.'),
    (texts("$1,{1}"), None, "can be read in 2 ways"),
    (texts("{0}.{1}"), None, "can be read in 2 ways"),
    (
        [*texts("${0}.5")[:60], *texts("{0}.5 EUR")[:60]],
        None,
        "120 values, numbers as text in several currencies ($, EUR): convert",
    ),
    (texts("{1}"), None, 'figures as text: as = "number", parse = "text", unless they are codes'),
    ([f"0{i}" for i in range(60)] * 2, {"as": "hash", "bits": 5}, "60 values in the sample"),
    ([f"id{i}" for i in range(990)] + ["id0"] * 10, None, "nearly an identifier: 99.0% of its values differ"),
    ([f"v{i % 60}" for i in range(400)], {"as": "hash", "bits": 5}, "it costs 32 columns"),
    ([f"v{i // 2 if i < 80 else i}" for i in range(99)], {"as": "hash", "bits": 5}, "it costs 32 columns"),
    ([f"2026-01-0{1 + i % 4}T12:00:00Z" for i in range(9)], {"as": "time"}, "covers 3.0 days, less than a week"),
    ([f"2026-01-01T0{i}:00:00Z" for i in range(9)], {"as": "time"}, "covers 8.0 hours, less than a day"),
]


@pytest.mark.parametrize(("values", "options", "why"), CASES)
def test_each_field_is_what_it_looks_like(values: list[Any], options: dict[str, Any] | None, why: str) -> None:
    """With the reason beside it."""
    found, said = one(values)
    assert found == options
    assert why in said


CHANCE = np.random.default_rng(5)
N = 2_000
POSITIVE = np.arange(N) % 5 < 2
EVEN = CHANCE.integers(0, 10**6, N) * 2 + POSITIVE
"""Of numbers whose order says nothing the parity that is the label's."""


def places(count: int, known: float = 0.8) -> Any:
    """Return places from 0, most of them even where the label is positive: no order knows it."""
    followed = CHANCE.random(N) < known
    return CHANCE.integers(0, count // 2, N) * 2 + np.where(followed, POSITIVE, ~POSITIVE)


def marked(mark: float, values: Any, share: float = 0.1) -> Any:
    """Return values, a share of which stands for a missing one."""
    return np.where(CHANCE.random(N) < share, mark, values)


def moments(form: str) -> list[str]:
    """Return times of two years in a notation."""
    return [datetime.fromtimestamp(1.7e9 + 31_557 * at, UTC).strftime(form) for at in range(N)]


NORMAL = CHANCE.normal(20.0, 5.0, N).round(2)
HASHES = CHANCE.integers(10**18, 9 * 10**18, 60)
TAIL = np.exp(CHANCE.normal(4.0, 2.0, N) + 2 * POSITIVE)
MOMENTS = 1_700_000_000 + CHANCE.integers(0, 10**7, N)
KINDS: list[tuple[str, str, Any, str | None, str]] = [
    ("codes", "a", places(30), "category", "30 values; as codes they order held-out events by an AUC of 0."),
    ("codes", "a", places(30) + 1_000.0, "category", "30 values"),
    ("codes", "branch", places(30, 0.5), "category", "they name things"),
    ("codes", "merchant", 7 * places(200) + 1_000, "category", "a vocabulary orders held-out events"),
    ("codes", "merchant", places(900) + 1_000, "hash", "too many for a vocabulary"),
    ("codes", "storeId", places(40, 0.5), "category", "they name things"),
    ("codes", "zip", [f"{place:05d}" for place in places(120)], "category", "120 values; a vocabulary orders"),
    ("codes", "device", HASHES[places(60)], None, "60 integers beyond 2^53, of which a number loses digits"),
    ("quantities", "age", CHANCE.integers(17, 90, N), "number", "17 to 89"),
    ("quantities", "a", places(30, 0.5), "number", "0 to 29"),
    ("quantities", "a", CHANCE.integers(0, 50, N) + 20 * POSITIVE, "number", "0 to 69"),
    (
        "quantities",
        "height",
        CHANCE.integers(1_000, 2_000, N),
        "number",
        'have 4 digits: as = "hash" if they are codes',
    ),
    ("quantities", "amount", 10_000_000 + EVEN, "number", "1e+07"),
    ("identifiers", "CustomerId", 10_000_000 + EVEN, None, "nearly an identifier: 9"),
    ("identifiers", "ref", 10_000_000 + EVEN, None, "nearly an identifier: 9"),
    ("identifiers", "a", CHANCE.permutation(10**6)[:N] + 15_000_000, None, "integers, perhaps an identifier: no two"),
    ("identifiers", "account", CHANCE.integers(10**18, 9 * 10**18, N), None, "beyond 2^53 a number loses digits"),
    ("tails", "a", TAIL, "log", "times the median, and the logarithm says more"),
    ("tails", "a", np.where(CHANCE.random(N) < 0.7, 0.0, TAIL), "log", "the logarithm says more of held-out labels"),
    ("tails", "a", -TAIL, "log", "the logarithm says more of held-out labels"),
    ("tails", "a", CHANCE.exponential(1.0, N), "number", "0.0"),
    ("tails", "a", CHANCE.permutation(TAIL), "log", " times the median"),
    ("markers", "a", marked(-999.0, NORMAL), "marked", "and -999 in "),
    ("markers", "a", marked(-9_999, NORMAL, 0.01), "marked", "and -9999 in "),
    ("markers", "a", marked(9_999, NORMAL), "marked", "and 9999 in "),
    ("markers", "a", marked(-1, CHANCE.integers(1, 400, N), 0.8), "marked", "and -1 in "),
    ("markers", "a", marked(-999, marked(-9_999, NORMAL)), "marked", "-9999 in "),
    ("markers", "a", marked(-17.5, NORMAL), "number", "-17.5 to"),
    ("markers", "a", marked(-1, CHANCE.normal(0.0, 2.0, N)), "number", " to "),
    ("markers", "a", marked(99, CHANCE.integers(1, 101, N)), "number", "1 to 100"),
    ("wide", "northing", 580_000_000 + 4 * CHANCE.integers(0, 100, N), "wide", "float32 rounds it to fewer values"),
    ("wide", "a", 1_767_225_600 + CHANCE.integers(0, 120, N), "wide", "float32 rounds it to fewer values"),
    ("wide", "easting", 3_400_000 + 4 * CHANCE.integers(0, 100, N), "number", "3.4e+06"),
    ("wide", "a", CHANCE.normal(0.0, 1.0, N), "number", " to "),
    ("times", "ts", MOMENTS, "time", "counted in s"),
    ("times", "eventTime", 1_000 * MOMENTS, "time", "counted in ms"),
    ("times", "created_at", 1_000 * MOMENTS, "time", "counted in ms"),
    ("times", "event_ts", 10**9 * MOMENTS, None, "a time, counted in ns"),
    ("times", "update", CHANCE.integers(0, 50, N), "number", "0 to 49"),
    ("times", "amount_at_start", MOMENTS, "number", "1.7e+09"),
    ("times", "time", CHANCE.integers(0, 50, N), "number", "0 to 49"),
    *(
        ("dates", "a", moments(form), None, "look like dates or times that `time` does not read")
        for form in (
            *("%m/%d/%Y", "%d.%m.%Y", "%d.%m.%Y %H:%M", "%Y/%m/%d %H:%M:%S", "%b %d, %Y %I:%M %p", "%Y%m%d", "%H:%M"),
            *("%a, %d %b %Y %H:%M:%S +0000", "%Y-%m-%d %H:%M:%S UTC", "%Y-%m-%dT%H:%M:%S+00", "%Y-%m", "%m/%d", "%H%M"),
        )
    ),
    ("dates", "a", [int(text) for text in moments("%Y%m%d")], None, "values such as 2023"),
    ("dates", "a", [int(text) for text in moments("%H%M")], None, "look like dates or times"),
    ("dates", "a", moments("%Y-%m-%dT%H:%M:%S"), "time", "a time without an offset"),
    ("dates", "a", moments("%B"), "category", "12 values"),
    ("dates", "a", [f"{one}.{two}" for one, two in CHANCE.integers(1, 40, (N, 2))], "number", "numbers as text"),
]


@pytest.mark.parametrize(("kind", "name", "values", "proposed", "why"), KINDS)
def test_what_is_proposed_can_be_read_and_says_why(
    kind: str, name: str, values: Any, proposed: str | None, why: str
) -> None:
    """By the name of the field, its values, and what they say of held-out labels; never as the events' id by chance."""
    events = [
        {name: value, "x": at % 7 + at / N, "y": bool(label)}
        for at, (value, label) in enumerate(zip(np.asarray(values).tolist(), POSITIVE, strict=True))
    ]
    made = proposal(events)
    field = next(one for one in made.fields if one.path == (name,))
    assert why in field.why, (kind, field)
    options = field.options or {}
    found = options.get("as")
    found = "log" if "log1p" in options else "marked" if field.borders else "wide" if field.wide else found
    assert found == proposed, (kind, field)
    assert made.id in (None, ("CustomerId",))
    plain = written(made)
    assert plain.get("points", {}) == ({"dtype": "float64"} if field.wide else {})
    assert not columns_of(recipe_from(plain["features"], plain["events"])).of_events(events).faults


def test_all_proposals_together_have_as_many_columns_as_there_may_be() -> None:
    """The widest are hashed into fewer bits, and say so."""
    values = {f"f{at}": places(300).tolist() for at in range(40)}
    events = [{name: f"v{of[at]}" for name, of in values.items()} | {"y": bool(POSITIVE[at])} for at in range(N)]
    made = proposal(events)
    assert any("; hashed into 32 columns, as all fields may have 2,000" in field.why for field in made.fields)
    plain = written(made)
    assert not columns_of(recipe_from(plain["features"], plain["events"])).of_events(events).faults


def test_integers_of_any_length_are_codes_where_the_cells_are_text() -> None:
    """As those of a CSV are, which a category takes as they stand; a cell of another format is a number already."""
    events = [{"a": int(HASHES[at % 40]), "y": at % 4 == 0} for at in range(N)]
    (field,) = proposal(events, of_cells=True).fields
    assert field.options is None
    assert "leak suspected" in field.why
    (field,) = proposal([{**event, "y": at % 7 == 0} for at, event in enumerate(events)], of_cells=True).fields
    assert field.options is not None
    assert set(field.options["values"]) == set(map(str, HASHES[:40]))


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
    with pytest.raises(ValueError, match="the label y must have exactly two values of one type, but the sample has 1"):
        proposal([{"y": 1}])


def test_a_key_with_a_dot_is_written_so_that_it_is_found() -> None:
    """As a list of keys."""
    events = [{"a.b": 1.5, "c": {"d": 2.5}}, {"a.b": 2.5, "c": {"d": 3.5}}]
    recipe = recipe_from(written(proposal(events))["features"], {})
    assert columns_of(recipe).of_events(events).X.tolist() == [[1.5, 2.5], [2.5, 3.5]]

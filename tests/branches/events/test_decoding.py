"""Raw events in JSON as points: which are accepted, why the others are not, and that neighbours decide nothing."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsvm.branches.events.features.columns import columns_of
from streamsvm.branches.events.options import points_of, recipe_from
from streamsvm.config import PointsConfig
from streamsvm.ingest.avro import AvroWriter
from streamsvm.ingest.decoder import REASONS, Decoded, PointDecoder
from tests.branches.events.recipes import EVENTS, payment, payments
from tests.ingest.rows import AVRO, Raw, Shelf, few_rows, whys

RECIPE = payments()
POINTS = points_of(RECIPE)


def decoder(*, labeled: bool = True, **options: Any) -> PointDecoder:
    return PointDecoder(PointsConfig(**POINTS, **options), labeled=labeled, recipe=RECIPE)


def decoded(values: list[bytes], *, labeled: bool = True, **options: Any) -> Decoded:
    records = [Raw(value, offset=offset) for offset, value in enumerate(values)]
    return decoder(labeled=labeled, **options).decode(records)


def encoded(*events: dict[str, Any]) -> list[bytes]:
    return [json.dumps(event).encode() for event in events]


def test_a_point_is_what_the_recipe_makes_of_the_event() -> None:
    """Columns, sign, weight; in float64 the very numbers of the recipe."""
    events = [payment(index) | {"weight": index + 1} for index in range(50)]
    found = decoded(encoded(*events), dtype="float64")
    (rows,) = found.rows
    assert rows.accepted.all()
    np.testing.assert_array_equal(rows.points.X, columns_of(RECIPE).of_events(events).X)
    assert rows.points.y.tolist() == [1 if event["is_fraud"] else -1 for event in events]
    assert rows.points.weight.tolist() == [index + 1.0 for index in range(50)]
    absent = sum(event["card"]["country"] is None for event in events)
    assert found.absences.events == 50
    assert found.absences.by_field["card.country"] == absent > 0


def test_an_array_of_events_is_as_many_rows() -> None:
    """The same points as one by one; a bad row rejects only itself."""
    events = [payment(index) for index in range(9)]
    events[4] = {**events[4], "amount": "1"}
    (together,) = decoded([json.dumps(events).encode()]).rows
    apart = decoded(encoded(*events))
    assert together.accepted.tolist() == apart.rows[0].accepted.tolist() == [index != 4 for index in range(9)]
    good = together.accepted
    assert together.points.take(good).sha256() == apart.rows[0].points.take(good).sha256()
    assert together.row.tolist() == list(range(9))


@pytest.mark.parametrize(
    ("change", "reason", "what"),
    [
        ({"is_fraud": None}, "missing_field", "is_fraud is missing"),
        ({"is_fraud": 1}, "unknown_label", "is_fraud is 1; events.label means false as negative and true as positive"),
        ({"is_fraud": "true"}, "unknown_label", "is_fraud is 'true'; events.label means"),
        ({"is_fraud": []}, "unknown_label", "is_fraud is []; events.label means"),
        ({"weight": 0}, "invalid_weight", "weight is 0.0"),
        ({"weight": "1"}, "wrong_type", "weight is '1', not a number"),
        ({"amount": None}, "missing_field", "amount is missing"),
        ({"amount": "12"}, "wrong_type", "amount is '12', not a number"),
        ({"risk": 1e60}, "not_finite", "the feature risk is 1e+60, beyond the range of points.dtype"),
        ({"card": 5}, "wrong_type", "card.country cannot be read: card is a number, not an object"),
    ],
)
def test_a_rejection_names_the_field(change: dict[str, Any], reason: str, what: str) -> None:
    """With a reason that the metric knows, whether the event comes by itself or in an array."""
    bad = payment(1) | change
    good = payment(2)
    ((_, why, told),) = whys(decoded(encoded(good, bad, good)))
    assert (why, told[: len(what)]) == (reason, what)
    assert why in REASONS
    array = decoded([json.dumps([good, bad, good]).encode()])
    assert [one[1:] for one in whys(array)] == [(why, told)]
    assert array.rejected[0].rejections[0].row == 1


def test_events_to_score_need_no_label_and_keep_their_id() -> None:
    """The id by the field that the recipe names, text or an integer."""
    events = [payment(index) for index in range(4)]
    for event in events:
        del event["is_fraud"]
    events[1]["id"], events[2]["id"], events[3]["id"] = 7, None, 1.5
    found = decoded(encoded(*events), labeled=False)
    assert found.ids == ["p0", 7, None, None]
    assert whys(found) == [(3, "wrong_type", "id is 1.5, not text or an integer of at most 63 bits")]


def test_several_values_can_mean_a_label() -> None:
    """All others are rejected."""
    label = {"field": "state", "negative": ["ok", "settled"], "positive": ["chargeback", "fraud"]}
    recipe = recipe_from({"a": "number"}, {"label": label})
    config = PointsConfig(**points_of(recipe))
    assert config.labels == ("ok", "chargeback")
    states = ["ok", "settled", "chargeback", "fraud", "open"]
    records = [Raw(value, offset=at) for at, value in enumerate(encoded(*({"a": 1, "state": s} for s in states)))]
    found = PointDecoder(config, recipe=recipe).decode(records)
    assert found.rows[0].points.y[:4].tolist() == [-1, -1, 1, 1]
    assert [(at, why) for at, why, _ in whys(found)] == [(4, "unknown_label")]


def test_what_is_not_an_event_is_rejected_as_points_are() -> None:
    """By the reasons that there are for any record."""
    lone = b'{"amount": "\\ud800"}'
    values = [b"", b"nonsense", b"5", b"[]", b"[1]", lone, b'{"amount": NaN}', b"[" * 200, b"{}"]
    found = whys(decoded(values))
    assert [(at, why) for at, why, _ in found] == [
        (0, "empty_record"),
        (1, "malformed_json"),
        (2, "wrong_type"),
        (3, "empty_record"),
        (4, "wrong_type"),
        (5, "malformed_json"),
        (6, "not_finite"),
        (7, "malformed_json"),
        (8, "missing_field"),
    ]


def test_limits_hold_before_anything_is_made_of_a_record() -> None:
    """Rows, bytes, and the entries of wide columns."""
    array = json.dumps([payment(1)] * 40).encode()
    few = PointDecoder(few_rows(39)(**POINTS), recipe=RECIPE)
    assert whys(few.decode([Raw(array)]))[0][1] == "too_many_rows"
    assert whys(decoded([array], max_record_bytes=1_000))[0][1] == "oversize_record"
    wide = recipe_from({"h": {"as": "hash", "bits": 10}}, EVENTS)
    config = PointsConfig(**points_of(wide), max_record_bytes=10_000)
    record = Raw(json.dumps([{"h": "x", "is_fraud": True}] * 50).encode())
    assert whys(PointDecoder(config, recipe=wide).decode([record]))[0][1] == "too_many_rows"


NULLABLE = {name: ["null", kind] for name, kind in (("risk", "double"), ("weight", "float"))}
AVRO_FIELDS: dict[str, Any] = {
    "id": "string",
    "ts": "string",
    "amount": "double",
    **NULLABLE,
    "customer": {
        "type": "record",
        "name": "Customer",
        "fields": [{"name": "since", "type": "string"}, {"name": "age", "type": ["null", "int"]}],
    },
    "items": {
        "type": "array",
        "items": {"type": "record", "name": "Item", "fields": [{"name": "price", "type": "int"}]},
    },
    "card": {"type": "record", "name": "Card", "fields": [{"name": "country", "type": ["null", "string"]}]},
    "channel": {"type": "enum", "name": "Channel", "symbols": ["web", "app", "till"]},
    "merchant": "string",
    "vip": "boolean",
    "is_fraud": "boolean",
}
ROW = {
    "type": "record",
    "name": "Payment",
    "fields": [{"name": name, "type": kind} for name, kind in AVRO_FIELDS.items()],
}
MANY = {"type": "array", "items": ROW}
SHELF = Shelf({1: json.dumps(ROW), 2: json.dumps(MANY)})


def in_avro(schema_id: int, datum: Any) -> bytes:
    return AvroWriter(SHELF.schemas[schema_id], schema_id).encode(datum)


@pytest.mark.parametrize("labeled", [True, False])
def test_avro_records_are_the_events_that_they_would_be_in_json(labeled: bool) -> None:
    """Nested records, unions with null, enums and arrays, one event a record or many, with the same points and ids."""
    events = [{"risk": None, "weight": None, **payment(index)} for index in range(40)]
    reader = PointDecoder(PointsConfig(**POINTS), labeled=labeled, recipe=RECIPE, schemas=SHELF)
    values = [*(in_avro(1, event) for event in events[:20]), in_avro(2, events[20:])]
    found = reader.decode([Raw(value, offset, headers=AVRO) for offset, value in enumerate(values)])
    expected = decoded([*encoded(*events[:20]), json.dumps(events[20:]).encode()], labeled=labeled)
    assert not found.rejected
    assert found.rows[0].points.sha256() == expected.rows[0].points.sha256()
    assert found.ids == expected.ids
    assert found.absences == expected.absences


def test_a_bad_avro_event_rejects_itself_and_names_its_field() -> None:
    """An unknown schema and a broken datum have the reasons that they have for points."""
    odd = {"type": "record", "name": "Odd", "fields": [{"name": "amount", "type": "string"}]}
    shelf = Shelf({1: json.dumps(ROW), 3: json.dumps(odd)})
    reader = PointDecoder(PointsConfig(**POINTS), recipe=RECIPE, schemas=shelf)
    good = in_avro(1, {"risk": None, "weight": None, **payment(1)})
    values = [good, AvroWriter(json.dumps(odd), 3).encode({"amount": "x"}), good[:-1], b"\0\0\0\0\x09", good]
    found = reader.decode([Raw(value, offset, headers=AVRO) for offset, value in enumerate(values)])
    assert found.rows[0].accepted.tolist() == [True, False, False, False, True]
    assert whys(found) == [
        (1, "wrong_type", "amount is 'x', not a number"),
        (2, "malformed_avro", "the datum does not fit its schema: the datum ends too early"),
        (3, "unknown_schema", "the registry has no schema 9"),
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ["amount", "risk", "customer", "items", "card", "channel", "merchant", "vip", "ts", "is_fraud", "weight", "id"]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Return an event with fields replaced, or with bytes of it changed."""
    event = payment(draw(st.integers(0, 50)))
    for name in draw(st.lists(st.sampled_from(FIELDS), max_size=2)):
        event[name] = draw(JSON)
    value = bytearray(json.dumps(event).encode())
    for _ in range(draw(st.integers(0, 2))):
        value[draw(st.integers(0, len(value) - 1))] = draw(st.integers(0, 255))
    return bytes(value)


@pytest.mark.parametrize("labeled", [True, False])
@given(values=st.lists(damaged(), min_size=1, max_size=6))
def test_neighbours_decide_nothing(labeled: bool, values: list[bytes]) -> None:
    """A damaged event among others gets the points and the reasons that it gets alone."""
    together = decoded(values, labeled=labeled)
    (rows,) = together.rows
    for offset, value in enumerate(values):
        alone = decoder(labeled=labeled).decode([Raw(value, offset=offset)])
        own = rows.offset == offset
        assert rows.accepted[own].tolist() == alone.rows[0].accepted.tolist()
        good = alone.rows[0].accepted
        assert rows.points.take(own).take(good).sha256() == alone.rows[0].points.take(good).sha256()
        assert [one for one in whys(together) if one[0] == offset] == whys(alone)
        assert not [one for one in whys(alone) if one[1] == "undecodable"]

"""What stands around an event: which events come out of it, what is passed over, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamsvm.branches.events.options import points_of, recipe_from
from streamsvm.config import PointsConfig
from streamsvm.ingest.avro import AvroWriter
from streamsvm.ingest.decoder import REASONS, REMEDIES, Decoded, PointDecoder
from streamsvm.ingest.decoding import passed_over
from tests.ingest.rows import ARROW, AVRO, InColumns, Raw, Shelf, whys

FEATURES = {"a": "number", "card": {"as": "category", "field": "card.country", "values": ["DE"]}}
LABEL = {"label": {"field": "y", "negative": [False], "positive": [True]}}
GOOD = {"a": 1.5, "card": {"country": "DE"}, "y": True}
OTHER = {"a": -2.0, "card": {"country": "FR"}, "y": False}


def decoder(envelope: str, **options: Any) -> PointDecoder:
    recipe = recipe_from(FEATURES, {**LABEL, "envelope": envelope})
    return PointDecoder(PointsConfig(**points_of(recipe)), recipe=recipe, **options)


def decoded(envelope: str, *values: Any, **options: Any) -> Decoded:
    records = [
        Raw(value if isinstance(value, bytes | None) else json.dumps(value).encode(), at)
        for at, value in enumerate(values)
    ]
    return decoder(envelope, **options).decode(records)


def points(found: Decoded) -> list[tuple[list[float], int] | None]:
    """Return each row's columns and sign; None for a row that is not accepted."""
    (rows,) = found.rows
    return [
        (x, sign) if good else None
        for x, sign, good in zip(rows.points.X.tolist(), rows.points.y.tolist(), rows.accepted.tolist(), strict=True)
    ]


ONE, TWO = ([1.5, 1.0, 0.0], 1), ([-2.0, 0.0, 1.0], -1)
SCHEMA = {"type": "struct", "fields": []}


def change(op: str, after: Any = None, before: Any = None) -> dict[str, Any]:
    return {"before": before, "after": after, "op": op, "ts_ms": 1, "source": {"table": "t"}}


def test_of_connect_the_payload_is_the_event() -> None:
    """Its tombstones, and null as JSON, are passed over; whatever is not such an envelope is refused."""
    values = [
        {"schema": SCHEMA, "payload": GOOD},
        None,
        {"schema": None, "payload": None},
        b"null",
        GOOD,
        {"schema": SCHEMA, "payload": 5},
        {"schema": SCHEMA, "payload": OTHER, "more": 1},
        {"schema": SCHEMA, "payload": OTHER},
    ]
    found = decoded("connect", *values)
    assert points(found) == [ONE, None, None, None, None, None, None, TWO]
    assert found.passed_over == {"tombstone": 3}
    assert [(at, why) for at, why, _ in whys(found)] == [
        (4, "wrong_envelope"),
        (5, "wrong_type"),
        (6, "wrong_envelope"),
    ]
    assert "is not an object of schema and payload" in whys(found)[0][2]


@pytest.mark.parametrize("around", [False, True], ids=["alone", "within Connect's"])
def test_of_debezium_the_state_after_a_change_is_the_event(around: bool) -> None:
    """Snapshots, creations and updates are learned; deletions and what changes no row are passed over and counted."""
    changes = [
        change("r", GOOD),
        change("c", OTHER),
        change("u", GOOD, before=OTHER),
        change("d", None, before=GOOD),
        change("t"),
        change("m"),
        change("x", GOOD),
        change("u"),
        GOOD,
        change("c", [GOOD]),
    ]
    values = [{"schema": SCHEMA, "payload": one} for one in changes] if around else changes
    found = decoded("debezium", *values, None)
    assert points(found) == [ONE, TWO, ONE, *[None] * 8]
    assert found.passed_over == {"delete": 1, "truncate": 1, "message": 1, "tombstone": 1}
    assert found.passed_over.keys() == passed_over().keys()
    whats = {at: (why, what) for at, why, what in whys(found)}
    assert {at: why for at, (why, _) in whats.items()} == {
        6: "wrong_envelope",
        7: "wrong_envelope",
        8: "wrong_envelope",
        9: "wrong_type",
    }
    assert "has the unknown operation 'x'" in whats[6][1]
    assert "has the operation u and nothing in after" in whats[7][1]
    assert {why for why, _ in whats.values()} <= REASONS.keys() & REMEDIES.keys()


def test_what_is_passed_over_keeps_its_place_in_the_log() -> None:
    """As a row that is seen and not accepted: its neighbours, in one record or in columns, are as they are alone."""
    changes = [change("c", GOOD), change("d", None, GOOD), change("c", OTHER)]
    array = decoded("debezium", changes)
    assert points(array) == [ONE, None, TWO]
    assert array.rows[0].row.tolist() == [0, 1, 2]
    assert array.passed_over == {"delete": 1}
    assert not array.rejected
    records = [Raw(json.dumps(one).encode(), at) for at, one in enumerate(changes)] + [Raw(None, 3)]
    found = decoder("debezium").decode(InColumns(records))
    assert points(found) == [ONE, None, TWO, None]
    assert found.rows[0].offset.tolist() == [0, 1, 2, 3]


def test_a_tombstone_without_an_envelope_is_a_dead_letter() -> None:
    """As it was: whoever declares no envelope expects none."""
    assert [(at, why) for at, why, _ in whys(decoded("none", None, GOOD))] == [(0, "empty_record")]


ROW = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "a", "type": "double"},
        {"name": "card", "type": {"type": "record", "name": "Card", "fields": [{"name": "country", "type": "string"}]}},
        {"name": "y", "type": "boolean"},
    ],
}
CHANGE = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", ROW], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "op", "type": "string"},
    ],
}


def test_avro_has_debeziums_envelope_and_needs_none_of_connects() -> None:
    """Connect's Avro converter puts the schema into the registry."""
    shelf = Shelf({1: json.dumps(CHANGE), 2: json.dumps(ROW)})
    writer = AvroWriter(json.dumps(CHANGE), 1)
    values = [
        writer.encode({"before": None, "after": GOOD, "op": "c"}),
        writer.encode({"before": GOOD, "after": None, "op": "d"}),
        writer.encode({"before": GOOD, "after": OTHER, "op": "u"}),
        None,
    ]
    records = [Raw(value, at, headers=AVRO) for at, value in enumerate(values)]
    found = decoder("debezium", schemas=shelf).decode(records)
    assert points(found) == [ONE, None, TWO, None]
    assert found.passed_over == {"delete": 1, "tombstone": 1}
    plain = Raw(AvroWriter(json.dumps(ROW), 2).encode(GOOD), headers=AVRO)
    assert points(decoder("connect", schemas=shelf).decode([plain])) == [ONE]
    ((_, why, what),) = whys(decoder("debezium", schemas=shelf).decode([plain]))
    assert (why, "is not an object with op" in what) == ("wrong_envelope", True)


def test_arrow_has_no_envelope_of_its_own() -> None:
    """Nothing is guessed."""
    from tests.branches.events.test_arrow_events import in_arrow

    value = in_arrow([{"amount": 1.0, "id": "a", "card": {"country": "DE"}}])
    ((_, why, _),) = whys(decoder("debezium").decode([Raw(value, headers=ARROW)]))
    assert why == "wrong_envelope"


def test_cloudevents_are_refused_with_the_way_out() -> None:
    """By the table."""
    with pytest.raises(ValueError, match="send binary CloudEvents"):
        recipe_from(FEATURES, {**LABEL, "envelope": "cloudevents"})

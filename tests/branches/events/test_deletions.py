"""Events that say of themselves that they were deleted, and columns that a change did not bring along."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streamsvm.branches.events.features.columns import columns_of
from streamsvm.branches.events.options import points_of, recipe_from
from streamsvm.config import PointsConfig
from streamsvm.field_paths import UNAVAILABLE
from streamsvm.ingest.avro import AvroWriter
from streamsvm.ingest.decoder import Decoded, PointDecoder
from tests.ingest.rows import ARROW, AVRO, InColumns, Raw, Shelf, whys
from tests.ingest.test_deletions import DELETIONS, MARKED, expect

FEATURES = {"a": "number", "kind": {"as": "category", "values": ["x"]}}
LABEL = {"label": {"field": "y", "negative": [False], "positive": [True]}}


def events(envelope: str, records: list[Raw], shelf: Shelf | None = None, *, labeled: bool = True) -> Decoded:
    recipe = recipe_from(FEATURES, {**LABEL, "envelope": envelope})
    config = PointsConfig(**points_of(recipe))
    return PointDecoder(config, recipe=recipe, schemas=shelf, labeled=labeled).decode(InColumns(records))


def event(marks: dict[str, Any], at: int) -> dict[str, Any]:
    """Return an event with marks; what was deleted lacks what an event must have, and is no dead letter for it."""
    return {**marks, **({} if marks in DELETIONS else {"kind": "x", "y": True}), "a": at + 0.5}


@pytest.mark.parametrize("labeled", [True, False], ids=["trainer", "scorer"])
@pytest.mark.parametrize("times", [1, 40], ids=["some", "many"])
@pytest.mark.parametrize("envelope", ["none", "connect", "debezium"])
def test_flattened_deletions_are_passed_over_and_counted(envelope: str, times: int, labeled: bool) -> None:
    """Whatever is around an event, read together or one by one; all other values of the markers mean nothing."""
    marks = MARKED * times
    made = [event(one, at) for at, one in enumerate(marks)]
    around: dict[str, Any] = {
        "none": made,
        "connect": [{"schema": None, "payload": one} for one in made],
        "debezium": [{"before": None, "after": one, "op": "c"} for one in made],
    }
    values = [json.dumps(one).encode() for one in around[envelope]]
    expect(events(envelope, [Raw(value, at) for at, value in enumerate(values)], labeled=labeled), marks)
    array = events(envelope, [Raw(b"[" + b",".join(values) + b"]")], labeled=labeled)
    expect(array, marks)
    assert array.rows[0].row.tolist() == list(range(len(marks)))


def test_one_deletion_among_plain_events_is_found_by_the_compiled_reader() -> None:
    """A record that has no other fault is not parsed again for it."""
    marks = [{"__deleted": "false"}] * 300
    marks[7] = marks[250] = {"__deleted": "true"}
    expect(events("none", [Raw(json.dumps(event(one, at)).encode(), at) for at, one in enumerate(marks)]), marks)


def test_deletions_in_avro_and_arrow() -> None:
    """By the compiled reader of Avro, by the general one, and by columns."""
    fields: list[dict[str, Any]] = [
        {"name": "a", "type": "double"},
        {"name": "kind", "type": ["null", "string"]},
        {"name": "y", "type": ["null", "boolean"]},
        {"name": "__deleted", "type": ["null", "string", "boolean"]},
        {"name": "__op", "type": ["null", "string"]},
    ]
    schema = json.dumps({"type": "record", "name": "E", "fields": fields})
    many = json.dumps({"type": "array", "items": json.loads(schema)})
    marks = [one for one in MARKED * 20 if type(one.get("__op")) is not int]
    made = [{name["name"]: event(one, at).get(name["name"]) for name in fields} for at, one in enumerate(marks)]
    shelf, one_by_one = Shelf({1: schema, 2: many}), AvroWriter(schema, 1)
    records = [Raw(one_by_one.encode(one), at, headers=AVRO) for at, one in enumerate(made)]
    expect(events("none", records, shelf), marks)
    expect(events("none", [Raw(AvroWriter(many, 2).encode(made), headers=AVRO)], shelf), marks)
    for kinds in ((str, type(None)), (bool, type(None))):
        of_kind = [at for at, one in enumerate(marks) if isinstance(one.get("__deleted"), kinds)]
        batch = pa.RecordBatch.from_pylist([event(marks[at], at) for at in of_kind], pa.schema([
            ("a", pa.float64()), ("kind", pa.string()), ("y", pa.bool_()),
            ("__deleted", pa.string() if str in kinds else pa.bool_()), ("__op", pa.string()),
        ]))  # fmt: skip
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        found = events("none", [Raw(sink.getvalue().to_pybytes(), headers=ARROW)])
        assert whys(found) == []
        assert found.rows[0].accepted.tolist() == [marks[at] not in DELETIONS for at in of_kind]
        assert found.passed_over["delete"] == sum(marks[at] in DELETIONS for at in of_kind)


def test_a_column_that_a_change_did_not_bring_is_missing() -> None:
    """For every kind of feature, the label, weight, id and time; in columns, one by one, and to readers."""
    features: dict[str, Any] = {
        "n": {"as": "number", "missing": {"constant": 7}},
        "c": {"as": "category", "values": ["x"], "missing": "indicator"},
        "h": {"as": "hash", "bits": 1, "missing": "indicator"},
        "t": {"as": "time", "parts": ["hour"], "missing": "indicator"},
        "f": {"as": "flag", "missing": "indicator"},
        "inner": {"as": "number", "field": "o.n", "missing": {"constant": 3}},
    }
    fields = {**LABEL, "weight": "w", "id": "i", "time": "at"}
    recipe = recipe_from(features, fields)
    full = {
        "n": 1,
        "c": "x",
        "h": "x",
        "t": "2026-01-31T12:00:00Z",
        "f": True,
        "o": {"n": 1},
        "y": True,
        "w": 2,
        "i": "k",
    }
    names = ("n", "c", "h", "t", "f", "o", "w", "i", "at")
    lacking = [full | {"at": "2026-01-31"} | {name: UNAVAILABLE} for name in names]
    without = [{key: value for key, value in one.items() if value != UNAVAILABLE} for one in lacking]
    for labeled in (True, False):
        for repeated in (1, 200):
            both = [
                PointDecoder(PointsConfig(**points_of(recipe)), recipe=recipe, labeled=labeled).decode(
                    InColumns([Raw(json.dumps(one).encode(), at) for at, one in enumerate(some * repeated)])
                )
                for some in (lacking, without)
            ]
            assert [whys(one) for one in both] == [[], []]
            assert both[0].rows[0].points.sha256() == both[1].rows[0].points.sha256()
            assert both[0].rows[0].time_ms.tolist() == both[1].rows[0].time_ms.tolist()
            assert both[0].ids == both[1].ids
            assert both[0].absences == both[1].absences
    columns = columns_of(recipe)
    assert np.array_equal(columns.of_events(lacking).X, columns.of_events(without).X)
    record = Raw(json.dumps(full | {"y": UNAVAILABLE}).encode())
    found = PointDecoder(PointsConfig(**points_of(recipe)), recipe=recipe).decode([record])
    assert whys(found) == [(0, "missing_field", "y is missing")]

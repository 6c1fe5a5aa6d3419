"""Raw events as Arrow columns: the points of the same events in JSON, to the bit, and what is refused."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsvm.branches.events.options import points_of, recipe_from
from streamsvm.config import PointsConfig
from streamsvm.ingest.decoder import Decoded, PointDecoder
from tests.branches.events.recipes import payment, payments
from tests.branches.events.test_decoding import encoded
from tests.ingest.rows import ARROW, Raw, whys

RECIPE = payments()
POINTS = points_of(RECIPE)
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.string()),
        ("amount", pa.float64()),
        ("risk", pa.float64()),
        ("weight", pa.int32()),
        ("customer", pa.struct([("since", pa.string()), ("age", pa.int16())])),
        ("items", pa.list_(pa.struct([("price", pa.int64())]))),
        ("card", pa.struct([("country", pa.dictionary(pa.int8(), pa.string()))])),
        ("channel", pa.dictionary(pa.int32(), pa.large_string())),
        ("merchant", pa.string()),
        ("vip", pa.bool_()),
        ("is_fraud", pa.bool_()),
        ("more", pa.dictionary(pa.int8(), pa.binary())),
    ]
)


def stream(*batches: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def in_arrow(events: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> bytes:
    """Return events as two batches, the dictionaries of which differ."""
    half = len(events) // 2
    parts = [part for part in (events[:half], events[half:]) if part]
    return stream(*(pa.RecordBatch.from_pylist(part, schema) for part in parts))


def decoded(value: bytes, *, labeled: bool = True, recipe: Any = RECIPE, **options: Any) -> Decoded:
    reader = PointDecoder(PointsConfig(**points_of(recipe), **options), labeled=labeled, recipe=recipe)
    return reader.decode([Raw(value, headers=ARROW)])


def of_json(events: list[dict[str, Any]], *, labeled: bool = True, recipe: Any = RECIPE, **options: Any) -> Decoded:
    reader = PointDecoder(PointsConfig(**points_of(recipe), **options), labeled=labeled, recipe=recipe)
    return reader.decode([Raw(json.dumps(events).encode())])


def assert_same(one: Decoded, other: Decoded) -> None:
    (rows,), (others,) = one.rows, other.rows
    assert rows.accepted.tolist() == others.accepted.tolist()
    assert rows.points.sha256() == others.points.sha256()
    assert one.ids == other.ids
    assert one.absences == other.absences
    assert whys(one) == whys(other)


@pytest.mark.parametrize("labeled", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_columns_are_the_events_that_they_would_be_in_json(labeled: bool, dtype: str) -> None:
    """Structs by path, lists by index, dictionaries, nulls: the same points, ids and absences, to the bit."""
    events = [payment(index) | {"weight": index % 3 + 1 if index % 4 else None} for index in range(200)]
    assert_same(decoded(in_arrow(events), labeled=labeled, dtype=dtype), of_json(events, labeled=labeled, dtype=dtype))


def test_a_bad_row_rejects_itself_with_the_words_that_json_has() -> None:
    """Numbers beyond a range, unknown labels, missing fields."""
    recipe = recipe_from(
        {"a": "number", "b": {"as": "category", "values": ["x", "1"]}, "f": "flag"},
        {"label": {"field": "y", "negative": [0], "positive": [1, 2]}, "weight": "w"},
    )
    events: list[dict[str, Any]] = [
        {"a": 1.5, "b": 1, "f": 1, "y": 1, "w": 1.0},
        {"a": 1e101, "b": 2, "f": 0, "y": 0, "w": 1.0},
        {"a": None, "b": 1, "f": 0, "y": 0, "w": 1.0},
        {"a": -0.0, "b": (1 << 53) + 1, "f": 1, "y": 2, "w": 1.0},
        {"a": 5e-324, "b": 1, "f": 7, "y": 2, "w": 1.0},
        {"a": 2.5, "b": None, "f": 0, "y": 3, "w": 1.0},
        {"a": 2.5, "b": -1, "f": 0, "y": None, "w": 1.0},
        {"a": 2.5, "b": -1, "f": 0, "y": 2, "w": 1e16},
        {"a": 3.5, "b": -1, "f": 0, "y": 2, "w": None},
    ]
    kinds = {"a": pa.float64(), "b": pa.int64(), "f": pa.int8(), "y": pa.uint64(), "w": pa.float64()}
    value = in_arrow(events, pa.schema(kinds.items()))
    ours = decoded(value, recipe=recipe, dtype="float64")
    assert_same(ours, of_json(events, recipe=recipe, dtype="float64"))
    assert ours.rows[0].accepted.tolist() == [True, *[False] * 7, True]


VALUES: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "i": (pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1)),
    "d": (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    "s": (pa.string(), st.sampled_from(["", "a", "1", "true", "2026-01-31T12:00:00Z", "2026-02-30", "ü"])),
    "t": (pa.bool_(), st.booleans()),
}


ANY = recipe_from(
    {
        "a": {"as": "number", "missing": "indicator"},
        "b": {"as": "category", "values": ["a", "1", "true"], "missing": {"constant": "a"}},
        "c": {"as": "time", "missing": "indicator"},
        "d": {"as": "hash", "bits": 3, "missing": "indicator"},
        "f": {"as": "flag", "missing": {"constant": True}},
        "a2": {"as": "number", "field": "a", "missing": {"constant": 3}, "clip": [-5, 5]},
    },
    {"label": {"field": "y", "negative": [False], "positive": [True]}},
)


@given(kinds=st.lists(st.sampled_from(sorted(VALUES)), min_size=5, max_size=5), rows=st.integers(1, 6), data=st.data())
def test_any_values_mean_what_they_mean_in_json(kinds: list[str], rows: int, data: st.DataObject) -> None:
    """Whatever kind of column stands where another kind is declared."""
    columns = dict(zip("abcdf", kinds, strict=True))
    events = [
        {name: data.draw(st.none() | VALUES[kind][1]) for name, kind in columns.items()} | {"y": True}
        for _ in range(rows)
    ]
    schema = pa.schema([*((name, VALUES[kind][0]) for name, kind in columns.items()), ("y", pa.bool_())])
    ours, expected = decoded(in_arrow(events, schema), recipe=ANY), of_json(events, recipe=ANY)
    assert_same(ours, expected)


def test_types_that_json_has_not_are_the_texts_and_numbers_that_people_write_for_them() -> None:
    """Timestamps and dates in ISO 8601, decimals as numbers, float32 and float16 widened."""
    recipe = recipe_from(
        {
            "at": {"as": "time", "parts": ["hour", "age"], "since": "day", "missing": "indicator"},
            "here": {"as": "time", "zone": "Europe/Berlin", "parts": ["hour"], "missing": "indicator"},
            "price": "number",
            "half": "number",
            "single": "number",
        },
        {"label": {"field": "y", "negative": ["n"], "positive": ["p"]}},
    )
    events = [
        {"at": "2026-01-31T12:00:00.123456Z", "day": "2025-12-31", "here": "2026-07-01T12:34:56.000001"},
        {"at": "1969-12-31T23:59:59.999999Z", "day": "1931-01-02", "here": "2026-07-01T12:34:56.999999"},
        {"at": None, "day": "1931-01-02", "here": None},
    ]
    plain = [e | {"price": 12.34, "half": 0.5, "single": 0.10000000149011612, "y": "p"} for e in events]
    times = np.array([e["at"] and e["at"][:-1] for e in events], "datetime64[ns]") + np.timedelta64(789, "ns")
    value = stream(
        pa.record_batch(
            {
                "at": pa.array(times, pa.timestamp("ns", "UTC")),
                "day": pa.array(np.array([e["day"] for e in events], "datetime64[D]"), pa.date32()),
                "here": pa.array(np.array([e["here"] for e in events], "datetime64[us]"), pa.timestamp("us")),
                "price": pa.array([Decimal("12.34")] * 3, pa.decimal128(10, 2)),
                "half": pa.array([np.float16(0.5)] * 3, pa.float16()),
                "single": pa.array([0.1] * 3, pa.float32()),
                "y": pa.array(["p"] * 3).dictionary_encode(),
            }
        )
    )
    assert_same(decoded(value, recipe=recipe, dtype="float64"), of_json(plain, recipe=recipe, dtype="float64"))


@pytest.mark.parametrize(
    ("column", "what"),
    [
        (pa.array([b"1"]), "a cannot be read: it is of the type binary, not a single value"),
        (pa.array([{"b": 1}]), "a cannot be read: it is an object, not a single value"),
        (pa.array([[1]]), "a cannot be read: it is an array, not a single value"),
        (pa.array(["1"]), "a is '1', not a number"),
        (pa.array(["1"]).cast(pa.string_view()), "a cannot be read: it is of the type string_view, not a single value"),
        (pa.array([True]), "a is true, not a number"),
        (
            pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array([1.0])),
            "a cannot be read: it is of the",
        ),
    ],
)
def test_what_cannot_be_meant_is_said(column: Any, what: str) -> None:
    """With the field and its type."""
    recipe = recipe_from({"a": "number"}, {})
    ((_, why, told),) = whys(decoded(stream(pa.record_batch({"a": column})), recipe=recipe, labeled=False))
    assert why == "wrong_type"
    assert told.startswith(what)


def test_paths_that_lead_nowhere_are_rejected_or_missing_as_in_json() -> None:
    """A number where an object should be; an index beyond an array; a struct without the field; a map."""
    recipe = recipe_from(
        {name: {"as": "number", "field": field, "missing": "indicator"} for name, field in {
            "a": "a.b", "c": "c[1]", "d": "d.none", "e": "e.k", "f": "f[0].g",
        }.items()},
        {},
    )  # fmt: skip
    events = [
        {"a": None, "c": [1], "d": {"x": 1}, "e": {"k": 1.5}, "f": [{"g": 2}]},
        {"a": 5, "c": [1, 7], "d": None, "e": {"m": 2.5}, "f": []},
        {"a": None, "c": None, "d": {"x": 1}, "e": None, "f": None},
    ]
    schema = pa.schema(
        {
            "a": pa.int32(),
            "c": pa.large_list(pa.float32()),
            "d": pa.struct([("x", pa.int8())]),
            "e": pa.map_(pa.string(), pa.float64()),
            "f": pa.list_(pa.struct([("g", pa.uint8())])),
        }.items()
    )
    in_columns = [event | {"e": None if event["e"] is None else list(event["e"].items())} for event in events]
    ours = decoded(in_arrow(in_columns, schema), recipe=recipe, labeled=False)
    assert_same(ours, of_json(events, recipe=recipe, labeled=False))
    assert whys(ours) == [(0, "wrong_type", "a.b cannot be read: a is a number, not an object")]


def test_a_record_without_any_declared_column_lacks_every_field() -> None:
    """As an event without any has none; two columns of a declared name are refused."""
    recipe = recipe_from({"a": {"as": "number", "missing": "indicator"}, "b": "number"}, {})
    found = decoded(stream(pa.record_batch({"c": pa.array([1, 2])})), recipe=recipe, labeled=False)
    assert [why for _, why, _ in whys(found)] == ["missing_field"] * 2
    twice = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    ((_, why, what),) = whys(decoded(stream(twice), recipe=recipe, labeled=False))
    assert (why, what) == ("malformed_arrow", "the stream cannot be read: two columns have the name a")


def test_a_dictionary_that_grows_and_one_that_is_too_large_are_refused() -> None:
    """Before anything is decoded."""
    recipe = recipe_from({"a": {"as": "category", "values": ["x"]}}, {})
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    sink = pa.BufferOutputStream()
    words = [["x"], ["x", "y"]]
    batches = [
        pa.record_batch([pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.array(some))], names=["a"])
        for some in words
    ]
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    ((_, why, what),) = whys(decoded(bytes(sink.getvalue()), recipe=recipe, labeled=False))
    assert (why, "extends a dictionary" in what) == ("malformed_arrow", True)
    nulls = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.nulls(1 << 20))
    ((_, why, _),) = whys(decoded(stream(pa.record_batch([nulls], names=["a"])), recipe=recipe, labeled=False))
    assert why == "malformed_arrow"


def test_event_time_is_the_rows_time() -> None:
    """In milliseconds; the record's own where the field is missing."""
    recipe = recipe_from({"a": "number"}, {"time": {"field": "at", "format": "ms"}})
    value = stream(pa.record_batch({"a": pa.array([1.0, 2.0]), "at": pa.array([1_700_000_000_123, None])}))
    assert decoded(value, recipe=recipe, labeled=False).rows[0].time_ms.tolist() == [1_700_000_000_123, 1_000]
    assert of_json([{"a": 1, "at": 1.7e12}], recipe=recipe, labeled=False).rows[0].time_ms.tolist() == [
        1_700_000_000_000
    ]
    ((_, why, what),) = whys(of_json([{"a": 1, "at": -1}], recipe=recipe, labeled=False))
    assert (why, what) == ("wrong_type", "at is -1, not a time since 1970")


def test_encoded_is_used() -> None:
    """The JSON of these tests is one record for an array; that of single events has the same points."""
    events = [payment(index) for index in range(5)]
    reader = PointDecoder(PointsConfig(**POINTS), recipe=RECIPE)
    singles = reader.decode([Raw(value, at) for at, value in enumerate(encoded(*events))])
    assert singles.rows[0].points.sha256() == decoded(in_arrow(events)).rows[0].points.sha256()

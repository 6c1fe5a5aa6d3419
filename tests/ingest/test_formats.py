"""Arrow and Avro points: accepted and rejected as the same rows are in JSON."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsvm.config import PointsConfig
from streamsvm.errors import TransientError
from streamsvm.ingest import avro
from streamsvm.ingest.decoder import Decoded, PointDecoder
from tests.examples import examples
from tests.ingest.rows import ARROW, AVRO, POINT, POINTS, SHELF, Raw, Shelf, as_arrow, as_avro, as_json, few_rows

CONFIG = few_rows(5)(dimension=2, labels=(0, 1), max_record_bytes=4_000)
X = np.array([[1.0, 2.0], [3.0, 4.0]])
HUGE = 1 << 60


def decode(*records: tuple[Any, bytes | None], config: PointsConfig = CONFIG, shelf: Any = SHELF) -> Decoded:
    decoder = PointDecoder(config, schemas=shelf)
    return decoder.decode([Raw(value, offset, headers=h) for offset, (h, value) in enumerate(records)])


def table(**columns: Any) -> bytes:
    return stream(pa.record_batch(list(columns.values()), names=list(columns)))


def stream(*batches: Any, schema: Any = None, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema or batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def vectors(rows: list[Any], size: int = 2, kind: Any = None) -> Any:
    return pa.array(rows, pa.list_(kind or pa.float32(), size))


def datum(value: Any, schema: Any = POINT, schema_id: int = 1) -> bytes:
    return avro.AvroWriter(schema if isinstance(schema, str) else json.dumps(schema), schema_id).encode(value)


def point(**changed: Any) -> dict[str, Any]:
    return {"x": [1.0, 2.0], "y": 1, "w": None, "id": None} | changed


ONES = pa.array([1, 1])
GOOD_ARROW, GOOD_AVRO = as_arrow(X, [0, 1]), datum(point())

BAD_ARROW = [
    (b"", "empty_record"),
    (None, "empty_record"),
    (table(x=vectors([]), y=pa.array([], pa.int64())), "empty_record"),
    (b"nonsense", "malformed_arrow"),
    (GOOD_ARROW[:-9], "malformed_arrow"),
    (GOOD_ARROW[:40], "malformed_arrow"),
    (GOOD_ARROW + b"\0", "malformed_arrow"),
    (GOOD_ARROW + GOOD_ARROW, "malformed_arrow"),
    (struct.pack("<Iq", 0xFFFFFFFF, HUGE), "malformed_arrow"),
    (struct.pack("<Ii", 0xFFFFFFFF, 0), "malformed_arrow"),
    (stream(pa.record_batch([vectors([[1, 2]])], names=["x"]), compression="zstd"), "malformed_arrow"),
    (table(x=vectors([[1, 2]]), y=pa.array(["a"]).dictionary_encode()), "malformed_arrow"),
    (stream(pa.record_batch([ONES, ONES], names=["y", "y"])), "malformed_arrow"),
    (table(z=ONES), "malformed_arrow"),
    (as_arrow(np.ones((6, 2)), [1] * 6), "too_many_rows"),
    (as_arrow(np.ones((600, 2)), [1] * 600), "oversize_record"),
]
BAD_ARROW_ROWS = [
    (table(y=ONES), "missing_field"),
    (table(x=vectors([[1, 2], None])), "missing_field"),
    (table(x=vectors([[1, 2], [3, 4]])), "missing_field"),
    (table(x=vectors([[1, 2], [3, 4]]), y=pa.array([None, 2])), "missing_field"),
    (table(x=vectors([[1], [2]], 1), y=ONES), "wrong_dimension"),
    (table(x=vectors([[1, 2], [1, None]]), y=pa.array([2, 1])), "wrong_type"),
    (table(x=pa.array([[1.0, 2.0]] * 2), y=ONES), "wrong_type"),
    (table(x=vectors([[1, 2]] * 2, kind=pa.int32()), y=ONES), "wrong_type"),
    (table(x=vectors([[1, 2]] * 2), y=pa.array([[1], [1]])), "wrong_type"),
    (table(x=vectors([[1, 2]] * 2), y=ONES, w=pa.array(["1", "1"])), "wrong_type"),
    (table(x=vectors([[1, 2]] * 2), y=ONES, id=pa.array([1.5, 1.5])), "wrong_type"),
    (as_arrow(np.array([[1, np.nan], [np.inf, 1]]), [1, 1]), "not_finite"),
    (as_arrow(np.array([[1, 4e38], [1, -4e38]]), [1, 1]), "not_finite"),
    (as_arrow(X, [2, 3]), "unknown_label"),
    (as_arrow(X, ["0", "1"]), "unknown_label"),
    (as_arrow(X, [True, False]), "unknown_label"),
    (as_arrow(X, [0.5, 1.5]), "unknown_label"),
    (as_arrow(X, [1, 1], [0.0, -1.0]), "invalid_weight"),
    (as_arrow(X, [1, 1], [np.nan, 1e16]), "invalid_weight"),
    (table(x=vectors([[1, 2]] * 2), y=ONES, op=pa.array(["delete"] * 2)), "unsupported_operation"),
]

OTHER = {"type": "record", "name": "Other", "fields": [{"name": "a", "type": "long"}]}
LINKED = {"type": "record", "name": "P", "fields": [{"name": "next", "type": ["null", "P"]}]}
NOTHINGS = {"type": "array", "items": {"type": "record", "name": "P", "fields": [{"name": "n", "type": "null"}]}}
LOGICAL = {
    "type": "record",
    "name": "P",
    "fields": [
        {"name": "x", "type": {"type": "array", "items": "float"}},
        {"name": "y", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4}},
    ],
}
BYTES = LOGICAL | {
    "fields": [{"name": "x", "type": {"type": "array", "items": "float"}}, {"name": "y", "type": "bytes"}]
}
OPERATION = json.loads(POINT)
OPERATION["fields"].append({"name": "op", "type": "string"})
UNFIT = {
    10: json.dumps(OTHER),
    11: json.dumps(LINKED),
    12: json.dumps(NOTHINGS),
    13: '"long"',
    14: "{",
    15: json.dumps({"type": "object", "properties": {}}),
    16: "[" * 50 + "]" * 50,
    17: '{"type": "record", "name": "P", "fields": [{"name": "x", "type": "no.such.Type"}]}',
    18: json.dumps({"type": "array", "items": "float"}),
}
BOOKS = Shelf(dict(SHELF.schemas) | UNFIT | {30: json.dumps(LOGICAL), 31: json.dumps(OPERATION)})
BAD_AVRO = [
    (b"", "empty_record"),
    (None, "empty_record"),
    (datum([], POINTS, 2), "empty_record"),
    (b"\0\0\0", "unframed"),
    (b'{"x": [1, 2], "y": 1}', "unframed"),
    (GOOD_AVRO[:-1], "malformed_avro"),
    (GOOD_AVRO[:6], "malformed_avro"),
    (GOOD_AVRO + b"\0", "malformed_avro"),
    (b"\0\0\0\0\x01" + b"\xfe" + b"\xff" * 8 + b"\x01", "malformed_avro"),
    (b"\0\0\0\0\x01" + b"\xff" * 30, "malformed_avro"),
    (b"\0\0\0\0\x02" + b"\xfe" + b"\xff" * 8 + b"\x01", "too_many_rows"),
    (b"\0\0\0\0\x02" + b"\xff" * 9 + b"\x01", "too_many_rows"),
    (datum([point()] * 6, POINTS, 2), "too_many_rows"),
    (b"\0\0\0\0\x63" + GOOD_AVRO[5:], "unknown_schema"),
    *((b"\0\0\0\0" + bytes([unfit]) + GOOD_AVRO[5:], "incompatible_schema") for unfit in UNFIT),
    (datum(point(x=[1.0])), "wrong_dimension"),
    (datum(point(x=[1.0, float("nan")])), "not_finite"),
    (datum(point(x=[1.0, -4e38])), "not_finite"),
    (datum(point(y=7)), "unknown_label"),
    (datum(point(w=-1.0)), "invalid_weight"),
    (datum(point(w=float("inf"))), "invalid_weight"),
    (
        datum(
            {"x": [1.0, 2.0], "y": b"1"},
            LOGICAL | {"fields": [LOGICAL["fields"][0], {"name": "y", "type": "bytes"}]},
            30,
        ),
        "wrong_type",
    ),
    (datum(point(op="delete"), OPERATION, 31), "unsupported_operation"),
    (datum(point(id="i" * 5_000)), "oversize_record"),
]


@pytest.mark.parametrize(("value", "reason"), BAD_ARROW)
def test_bad_arrow_records_are_rejected_whole(value: bytes | None, reason: str) -> None:
    """A record that cannot be told into rows is one rejected row, and its neighbours are learned."""
    decoded = decode((ARROW, GOOD_ARROW), (ARROW, value), (ARROW, GOOD_ARROW))
    assert decoded.rows[0].accepted.tolist() == [True, True, False, True, True]
    assert [bad.reason for bad in decoded.rejected[0].rejections] == [reason]
    assert "\n" not in decoded.rejected[0].rejections[0].what


@pytest.mark.parametrize(("value", "reason"), BAD_ARROW_ROWS)
def test_bad_arrow_rows_are_rejected_with_their_reason(value: bytes, reason: str) -> None:
    """Every row that is not a valid point is named; none of these records has another kind of fault."""
    decoded = decode((ARROW, value))
    found = {bad.reason for bad in decoded.rejected[0].rejections}
    assert reason in found
    assert found <= {reason, "missing_field", "unknown_label"}


@pytest.mark.parametrize(("value", "reason"), BAD_AVRO)
def test_bad_avro_records_are_rejected_with_their_reason(value: bytes | None, reason: str) -> None:
    """Damaged data, foreign schemas and invalid points are one rejected row each."""
    decoded = decode((AVRO, GOOD_AVRO), (AVRO, value), (AVRO, GOOD_AVRO), shelf=BOOKS)
    assert decoded.rows[0].accepted.tolist() == [True, False, True]
    assert [bad.reason for bad in decoded.rejected[0].rejections] == [reason]
    assert "\n" not in decoded.rejected[0].rejections[0].what


ROWS = st.lists(
    st.tuples(
        st.lists(st.sampled_from([0.1, -2e30, 1.5, 4e38, float("nan")]), min_size=2, max_size=2),
        st.sampled_from([0, 1, 0, 1, 2]),
        st.sampled_from([1.0, 2.5, 1.0, 0.0, 1e16]),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=200, deadline=None)
@given(rows=ROWS)
def test_the_same_rows_come_out_of_every_format(rows: list[tuple[list[float], int, float]]) -> None:
    """Values, positions, acceptance and reasons are those of the JSON array, bit for bit."""
    x, y, w = np.array([row[0] for row in rows]), [row[1] for row in rows], [row[2] for row in rows]
    expected = decode(((), as_json(x, y, w)))
    for headers, value in ((ARROW, as_arrow(x, y, w)), (AVRO, as_avro(x, y, w))):
        found = decode((headers, value))
        for name in ("offset", "row", "last", "accepted", "time_ms"):
            np.testing.assert_array_equal(getattr(found.rows[0], name), getattr(expected.rows[0], name))
        kept = expected.rows[0].accepted
        assert found.rows[0].points.take(kept).sha256() == expected.rows[0].points.take(kept).sha256()
        told = [[(bad.row, bad.reason) for bad in one.rejections] for one in found.rejected]
        assert told == [[(bad.row, bad.reason) for bad in one.rejections] for one in expected.rejected]


@pytest.mark.parametrize("labels", [(0, 1), ("no", "yes"), (False, True)])
def test_labels_of_every_kind(labels: tuple[Any, Any]) -> None:
    """Integers, text and booleans, in the columns that hold them."""
    config = PointsConfig(dimension=2, labels=labels)
    schema = avro.schema_of(labels[0], many=False)
    rows = [datum(point(y=label), schema, 5) for label in labels]
    records = [(ARROW, as_arrow(X, labels)), *((AVRO, row) for row in rows)]
    assert decode(*records, config=config, shelf=Shelf({5: schema})).rows[0].points.y.tolist() == [-1, 1, -1, 1]


def test_named_columns_stand_for_the_vector() -> None:
    """With points.feature_names a column, or a field, each makes x, in the order of the names."""
    config = PointsConfig(dimension=2, labels=(0, 1), feature_names=("a", "b"))
    schema = {
        "type": "record",
        "name": "Row",
        "fields": [{"name": "b", "type": "double"}, {"name": "y", "type": "int"}, {"name": "a", "type": "int"}],
    }
    value = table(b=pa.array([2.0, 4.0]), y=pa.array([1, 0]), other=pa.array(["s", "t"]), a=pa.array([1, 3]))
    row = datum({"a": 5, "b": 6.0, "y": 1}, schema, 5)
    rows = decode((ARROW, value), (AVRO, row), config=config, shelf=Shelf({5: json.dumps(schema)})).rows[0]
    assert rows.points.X.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert rows.accepted.all()


def test_a_missing_cell_of_a_named_column_rejects_its_row() -> None:
    """Null is no number."""
    config = PointsConfig(dimension=2, labels=(0, 1), feature_names=("a", "b"))
    value = table(a=pa.array([1.0, None]), b=pa.array([1.0, 2.0]), y=pa.array([1, 1]))
    rows = decode((ARROW, value), config=config).rows[0]
    assert rows.accepted.tolist() == [True, False]


def test_weights_and_ids_may_be_missing_row_by_row() -> None:
    """Null in an optional column means what leaving the field out of a JSON object does."""
    value = table(x=vectors([[1, 2], [3, 4]]), y=ONES, w=pa.array([None, 2.0]), id=pa.array(["a", None]))
    decoded = PointDecoder(CONFIG, labeled=False).decode([Raw(value, headers=ARROW)])
    assert decoded.rows[0].points.weight.tolist() == [1.0, 2.0]
    assert decoded.ids == ["a", None]


def test_the_configuration_overrules_the_header() -> None:
    """With points.format the header says nothing; without, it does, and an unknown one is a dead letter."""
    arrow_only = CONFIG.model_copy(update={"format": "arrow"})
    assert decode(((), GOOD_ARROW), config=arrow_only).rows[0].accepted.all()
    assert not decode(((), GOOD_ARROW)).rows[0].accepted.any()
    good = as_json(X, [0, 1])
    for named in (b"application/json; charset=utf-8", b"Application/Geo+JSON"):
        assert decode(((("Content-Type", named),), good)).rows[0].accepted.all()
    (rejected,) = decode(((("content-type", b"text/csv"),), good)).rejected
    assert rejected.rejections[0].reason == "unknown_content_type"


def test_formats_mix_in_one_partition() -> None:
    """Rows keep the order of the log."""
    rows = decode(((), as_json(X, [0, 1])), (ARROW, GOOD_ARROW), (AVRO, GOOD_AVRO), ((), as_json(X[:1], [1]))).rows[0]
    assert rows.offset.tolist() == [0, 0, 1, 1, 2, 3]
    assert rows.row.tolist() == [0, 1, 0, 1, 0, 0]
    assert rows.last.tolist() == [False, True, False, True, True, True]


def test_nothing_is_decided_while_the_registry_is_away() -> None:
    """The batch as a whole waits; once there is an answer the schema is asked for no more."""
    shelf = Shelf({1: POINT}, away=True)
    decoder = PointDecoder(CONFIG, schemas=shelf)
    batch = [Raw(GOOD_AVRO, offset, headers=AVRO) for offset in range(3)]
    with pytest.raises(TransientError):
        decoder.decode(batch)
    shelf.away = False
    assert decoder.decode(batch).rows[0].accepted.all()
    shelf.away = True
    assert decoder.decode(batch).rows[0].accepted.all()
    assert shelf.asked == [1, 1]


@pytest.mark.parametrize("labeled", [True, False])
def test_infinities_of_float32_are_rejected_where_float64_is_kept(labeled: bool) -> None:
    """As every scorer reads: the bound of float64 is infinite when it is rounded to the record's own type."""
    X = np.array([[1, 2], [-np.inf, 1], [1, np.inf], [1, 3e38]], np.float32)
    decoder = PointDecoder(CONFIG.model_copy(update={"dtype": "float64"}), labeled=labeled)
    decoded = decoder.decode([Raw(as_arrow(X, [1, 1, 1, 1]), headers=ARROW)])
    assert decoded.rows[0].accepted.tolist() == [True, False, False, True]
    assert [one.reason for one in decoded.rejected[0].rejections] == ["not_finite", "not_finite"]


def test_an_unknown_schema_is_asked_for_once_a_batch() -> None:
    """Whatever stands between its records; a later batch asks again, as the schema may be registered by then."""
    shelf = Shelf({1: POINT})
    decoder = PointDecoder(CONFIG, schemas=shelf)
    unknown, json = Raw(b"\0\0\0\0\x63" + GOOD_AVRO[5:], 0, headers=AVRO), Raw(b'{"x": [1, 2], "y": 1}', 1)
    batch = [replace(record, offset=offset) for offset, record in enumerate([unknown, json, unknown, json, unknown])]
    assert decoder.decode(batch).rows[0].accepted.tolist() == [False, True, False, True, False]
    assert shelf.asked == [0x63]
    shelf.schemas = {1: POINT, 0x63: POINT}
    assert decoder.decode(batch).rows[0].accepted.all()
    assert shelf.asked == [0x63, 0x63]


def test_without_a_registry_avro_is_rejected() -> None:
    """The reason says what is missing."""
    (rejected,) = decode((AVRO, GOOD_AVRO), shelf=None).rejected
    assert rejected.rejections[0].reason == "unknown_schema"
    assert "registry.url" in rejected.rejections[0].what


def test_a_large_message_of_nothing_is_not_expanded() -> None:
    """Two hundred bytes that stand for 10^13 nulls are rejected by their type, before they are made into objects."""
    nulls = pa.FixedSizeListArray.from_arrays(pa.nulls(0), 1 << 30)
    batch = pa.record_batch([nulls], names=["x"])
    value = stream(batch, schema=batch.schema)
    assert decode((ARROW, value)).rejected[0].rejections[0].reason in ("empty_record", "malformed_arrow")


def mutated(value: bytes) -> st.SearchStrategy[bytes]:
    """Damage a value: bytes replaced, a slice cut out or doubled."""

    def damage(changes: list[tuple[int, int]], cut: tuple[int, int, int]) -> bytes:
        damaged = bytearray(value)
        for at, byte in changes:
            damaged[at % len(damaged)] = byte
        start, length, times = cut
        start %= len(damaged)
        return bytes(damaged[:start] + damaged[start : start + length] * times + damaged[start + length :])

    return st.builds(
        damage,
        st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from([0, 1, 127, 128, 254, 255])), max_size=4),
        st.tuples(st.integers(0, 10_000), st.integers(0, 40), st.sampled_from([1, 1, 0, 2])),
    )


STRINGS = table(x=vectors([[1, 2], [3, 4]]), y=pa.array(["0", "1"]), id=pa.array(["a", "b"]), w=pa.array([1.0, None]))


@settings(max_examples=examples(1000), deadline=None)
@given(
    record=st.tuples(st.just(ARROW), mutated(GOOD_ARROW) | mutated(STRINGS))
    | st.tuples(st.just(AVRO), mutated(GOOD_AVRO) | mutated(as_avro(X, [0, 1])))
    | st.tuples(st.sampled_from([ARROW, AVRO]), st.binary(max_size=80))
)
def test_no_bytes_break_a_decoder(record: tuple[Any, bytes]) -> None:
    """Whatever comes is accepted or rejected, row by row, and never raises; twice the same."""
    decoded, again = decode(record, shelf=BOOKS), decode(record, shelf=BOOKS)
    rows = decoded.rows[0]
    assert len(rows) >= 1
    assert rows.last[-1]
    assert int((~rows.accepted).sum()) == sum(len(bad.rejections) for bad in decoded.rejected)
    assert [bad.rejections for bad in decoded.rejected] == [bad.rejections for bad in again.rejected]
    assert rows.points.sha256() == again.rows[0].points.sha256()
    assert np.isfinite(rows.points.X).all()

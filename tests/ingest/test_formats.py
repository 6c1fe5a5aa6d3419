"""Arrow and Avro points: accepted and rejected as the same rows are in JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from streamsvm.config import PointsConfig
from streamsvm.errors import TransientError
from streamsvm.ingest import avro
from streamsvm.ingest.arrow import encode
from streamsvm.ingest.decoder import Decoded, PointDecoder
from tests.ingest.general import GeneralDecoder
from tests.ingest.rows import ARROW, AVRO, POINT, SHELF, Raw, Shelf, as_arrow, as_avro, as_json, few_rows
from tests.streams import id_hash

CONFIG = few_rows(5)(dimension=2, labels=(0, 1), max_record_bytes=4_000)
X = np.array([[1.0, 2.0], [3.0, 4.0]])


def decode(*records: tuple[Any, bytes | None], config: PointsConfig = CONFIG, shelf: Any = SHELF) -> Decoded:
    decoder = PointDecoder(config, schemas=shelf)
    return decoder.decode([Raw(value, offset, headers=h) for offset, (h, value) in enumerate(records)])


def stream(*batches: Any, schema: Any = None, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema or batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def datum(value: Any, schema: Any = POINT, schema_id: int = 1) -> bytes:
    return avro.AvroWriter(schema if isinstance(schema, str) else json.dumps(schema), schema_id).encode(value)


def point(**changed: Any) -> dict[str, Any]:
    return {"x": [1.0, 2.0], "y": 1, "w": None, "id": None} | changed


GOOD_ARROW, GOOD_AVRO = as_arrow(X, [0, 1]), datum(point())


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


def test_every_decoder_hashes_the_same_ids() -> None:
    """Compiled ones and general ones, one point a record and several, valid and beside a rejected row; 0 of no id."""
    ids: list[Any] = ["a b", 17, None, -3, "17", "\u00e9", 2**62, "f"]
    points = [{"x": [1.0, 2.0], "y": 1} | ({} if one is None else {"id": one}) for one in ids]
    wanted = [id_hash(one, "m") for one in ids]
    singles = [((), json.dumps(one).encode()) for one in points]
    texts = [None if one is None else str(one) for one in ids]
    arrow = encode(np.array([[1.0, 2.0]] * len(ids)), [1] * len(ids), ids=texts)
    in_avro = [(AVRO, datum(point(id=one))) for one in texts]
    bad = ((), b'{"x": [1.0, 2.0], "y": 7, "id": "bad"}')
    config = few_rows(20)(dimension=2, labels=(0, 1))
    for records in (singles, [((), json.dumps(points).encode())], [(ARROW, arrow)], in_avro, [*singles, bad]):
        for kind in (PointDecoder, GeneralDecoder):
            raw = [Raw(value, at, headers=h) for at, (h, value) in enumerate(records)]
            (rows,) = kind(config, schemas=SHELF, name="m").decode(raw).rows
            assert rows.id_hash is not None
            assert rows.id_hash.known().tolist()[: len(ids)] == wanted
    for name, one in (("m", b'{"x": [1.0, 2.0], "y": 1}'), ("", singles[0][1])):
        assert PointDecoder(config, name=name).decode([Raw(one)]).rows[0].id_hash is None


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

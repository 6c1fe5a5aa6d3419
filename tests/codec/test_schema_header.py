"""A schema named in the header `__value_schema_id`: read before any frame."""

from __future__ import annotations

import io
import json
import struct
import uuid
from typing import Any

import fastavro
import pytest

from streamsvm.config import PointsConfig
from streamsvm.ingest.decoder import PointDecoder
from streamsvm.ingest.framed import SCHEMA_HEADER
from tests.codec.rows import POINT, POINTS, Raw, Shelf, whys

NEW: dict[str, Any] = {
    "type": "record",
    "name": "N",
    "fields": [
        *({"name": name, "type": "int"} for name in ("kind", "shop", "day", "hour", "minute")),
        {"name": "amount", "type": "double"},
        {"name": "fraud", "type": "int"},
    ],
}
GUID = uuid.UUID(bytes=bytes(range(16)))
BY_GUID, BY_ID = b"\1" + GUID.bytes, struct.pack(">bI", 0, 7)


def bare(schema: Any, datum: Any) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), datum)
    return body.getvalue()


def raw(value: bytes | None, header: bytes | None, at: int = 0, *more: tuple[str, bytes]) -> Raw:
    return Raw(value, at, headers=(*more, *(() if header is None else ((SCHEMA_HEADER, header),))))


@pytest.mark.parametrize("many", [False, True], ids=["a point", "an array"])
def test_points_in_avro_are_read_by_their_header(many: bool) -> None:
    """And told apart as arrays, which the scorer asks for."""
    shelf = Shelf({1: POINT, str(GUID): POINTS if many else POINT})
    point = {"x": [1.0, 2.0], "y": 1, "w": None, "id": None}
    value = bare(json.loads(POINTS if many else POINT), [point] * 2 if many else point)
    decoder = PointDecoder(PointsConfig(dimension=2, labels=(0, 1), format="avro"), schemas=shelf)
    record = raw(value, BY_GUID)
    found = decoder.decode([record, record])
    assert whys(found) == []
    assert found.rows[0].points.X.tolist() == [[1.0, 2.0]] * (4 if many else 2)
    assert decoder.is_array(record) == many

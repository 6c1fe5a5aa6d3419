"""Decimals that a schema tells of are numbers: in Connect's JSON, and in Avro."""

from __future__ import annotations

import io
import json
import struct
import sys
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import Any

import fastavro
import numpy as np
from hypothesis import given, strategies as st

from streamsvm.branches.events.avro_fields import AvroFields
from streamsvm.branches.events.logical_decimals import decimal_of
from streamsvm.branches.events.options import points_of, recipe_from
from streamsvm.config import PointsConfig
from streamsvm.ingest import AvroReader, Decoded, PointDecoder
from tests.ingest.rows import InColumns, Raw, Shelf

DECIMAL = "org.apache.kafka.connect.data.Decimal"


def unscaled(number: int, extra: int = 0) -> bytes:
    """Return an integer as Java's `BigInteger.toByteArray` writes it, behind so many bytes that repeat its sign."""
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1 + extra, "big", signed=True)


def described(scale: Any = "2", **more: Any) -> dict[str, Any]:
    return {"type": "bytes", "name": DECIMAL, "version": 1, "parameters": {"scale": scale}, **more}


def decoded(features: dict[str, Any], envelope: str, *values: Any) -> Decoded:
    recipe = recipe_from(features, {"envelope": envelope})
    reader = PointDecoder(PointsConfig(**points_of(recipe), dtype="float64"), recipe=recipe, labeled=False)
    return reader.decode(InColumns([Raw(json.dumps(value).encode(), at) for at, value in enumerate(values)]))


def enveloped(schema: Any, payload: Any) -> dict[str, Any]:
    fields = [{**one, "field": name} for name, one in schema.items()]
    return {"schema": {"type": "struct", "fields": fields}, "payload": payload}


def test_a_hostile_schema_costs_no_more_than_its_bytes() -> None:
    """Many decimals of a row, and many rows: their product is not walked through."""
    calls: Counter[str] = Counter()
    many = [{**described(), "field": f"f{index}"} for index in range(1_000)]
    schema = {"rows": {"type": "array", "items": {"type": "struct", "fields": many}}, "amount": described()}
    value = enveloped(schema, {"amount": "BNI=", "rows": [{}] * 10_000})
    sys.setprofile(lambda _, event, __: calls.update([event]))
    try:
        found = decoded({"amount": "number"}, "connect", value)
    finally:
        sys.setprofile(None)
    assert found.rows[0].points.X.tolist() == [[12.34]]
    assert calls["call"] < 200_000


@given(st.integers(-(1 << 511), (1 << 511) - 1), st.integers(-100, 100), st.integers(0, 3))
def test_a_decimal_is_rounded_once(number: int, scale: int, extra: int) -> None:
    """The nearest float64, as of `Fraction`."""
    raw = unscaled(number, extra)
    expected = None if len(raw) > 64 else float(Fraction(number) / Fraction(10) ** scale)
    assert decimal_of(raw, scale) == expected


# -------------------------------------------------------------------------------------------------------------- Avro


def avro(schema: Any, datum: Any) -> bytes:
    body = io.BytesIO(struct.pack(">bI", 0, 1))
    body.seek(5)
    fastavro.schemaless_writer(body, fastavro.parse_schema(json.loads(json.dumps(schema))), datum)
    return body.getvalue()


def kind(base: Any = "bytes", scale: int | None = 2, precision: int = 38, **more: Any) -> dict[str, Any]:
    scales = {} if scale is None else {"scale": scale}
    return {"type": base, "logicalType": "decimal", "precision": precision, **scales, **more}


def record(of: Any) -> dict[str, Any]:
    return {"type": "record", "name": "E", "fields": [{"name": "amount", "type": of}]}


NUMBERS = [
    Decimal(one) for one in ("12.34", "-12.34", "0.00", "-0.01", "2.55", "-1.28", "90071992547409.93", "1e20", "-1e30")
]


def test_the_compiled_reader_takes_decimals_as_they_usually_are() -> None:
    """Those of at most 53 bits; the others are left to the general reader."""
    reader = AvroReader(
        Shelf({1: json.dumps(record(kind()))}), PointsConfig(dimension=1), other=AvroFields((("amount",),))
    )
    values = [avro(record(kind()), {"amount": one}) for one in NUMBERS]
    found = reader.scan_slots(values, np.array(list(map(len, values))))
    assert found is not None
    assert found[0].tolist() == [True] * 6 + [False] * 3

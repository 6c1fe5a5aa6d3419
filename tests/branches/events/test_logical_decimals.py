"""Decimals that a schema tells of are numbers: in Connect's JSON, and in Avro."""

from __future__ import annotations

import base64
import io
import json
import struct
import sys
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

import fastavro
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsvm.branches.events.avro_fields import AvroFields
from streamsvm.branches.events.event_records import EventRecords
from streamsvm.branches.events.features.inference import proposal
from streamsvm.branches.events.logical_decimals import decimal_of
from streamsvm.branches.events.options import points_of, recipe_from
from streamsvm.branches.events.sampling import EventSampler
from streamsvm.config import PointsConfig
from streamsvm.ingest.avro import AvroReader
from streamsvm.ingest.decoder import Decoded, PointDecoder
from tests.ingest.rows import AVRO, InColumns, Raw, Shelf, whys

DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE = "io.debezium.data.VariableScaleDecimal"


def unscaled(number: int, extra: int = 0) -> bytes:
    """Return an integer as Java's `BigInteger.toByteArray` writes it, behind so many bytes that repeat its sign."""
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1 + extra, "big", signed=True)


def text(number: int) -> str:
    return base64.b64encode(unscaled(number)).decode()


def described(scale: Any = "2", **more: Any) -> dict[str, Any]:
    return {"type": "bytes", "name": DECIMAL, "version": 1, "parameters": {"scale": scale}, **more}


def decoded(features: dict[str, Any], envelope: str, *values: Any) -> Decoded:
    recipe = recipe_from(features, {"envelope": envelope})
    reader = PointDecoder(PointsConfig(**points_of(recipe), dtype="float64"), recipe=recipe, labeled=False)
    return reader.decode(InColumns([Raw(json.dumps(value).encode(), at) for at, value in enumerate(values)]))


def enveloped(schema: Any, payload: Any) -> dict[str, Any]:
    fields = [{**one, "field": name} for name, one in schema.items()]
    return {"schema": {"type": "struct", "fields": fields}, "payload": payload}


@pytest.mark.parametrize(
    ("schema", "value", "number"),
    [
        (described(), "BNI=", 12.34),
        (described("0"), "BNI=", 1234.0),
        (described("-3"), "BNI=", 1_234_000.0),
        (described("5"), "BNI=", 0.01234),
        (described(), "/w==", -0.01),
        (described(), "AP8=", 2.55),
        (described(), "gA==", -1.28),
        (described(), "AA==", 0.0),
        (described("18"), text(10**37 + 1), float(Fraction(10**37 + 1, 10**18))),
        (described(), 12.34, 12.34),
        (described(optional=True), None, -1.0),
        (described(), "__debezium_unavailable_value", -1.0),
        ({"type": "struct", "name": VARIABLE, "fields": []}, {"scale": 2, "value": "BNI="}, 12.34),
        ({"type": "bytes"}, "BNI=", None),
        (described(), "BNI", None),
        (described(), "BNJ=", None),
        (described(), "", None),
        (described(), "12.34", None),
        (described(), text(1 << 600), None),
        (described(None), "BNI=", None),
        (described("x"), "BNI=", None),
        (described("999"), "BNI=", None),
        ({"type": "struct", "name": VARIABLE, "fields": []}, {"value": "BNI="}, None),
    ],
)
def test_a_decimal_of_connects_schema_is_its_number(schema: Any, value: Any, number: float | None) -> None:
    """What cannot be one is a dead letter that names the field, never a text and never another number."""
    found = decoded(
        {"amount": {"as": "number", "missing": {"constant": -1}}},
        "connect",
        enveloped({"amount": schema}, {"amount": value}),
    )
    if number is None:
        ((_, why, what),) = whys(found)
        assert why == "wrong_type"
        assert what.startswith("amount ")
    else:
        assert whys(found) == []
        assert found.rows[0].points.X.tolist() == [[number]]


def test_decimals_are_found_in_debeziums_envelope_in_arrays_and_in_maps() -> None:
    """As deep as the event is; other bytes, and events without a schema, stay as they are."""
    row = {
        "type": "struct",
        "optional": True,
        "fields": [
            {**described(), "field": "amount"},
            {"field": "prices", "type": "array", "items": described("1")},
            {"field": "rates", "type": "map", "keys": {"type": "string"}, "values": described("3")},
            {"field": "inner", "type": "struct", "fields": [{**described("4"), "field": "x"}]},
        ],
    }
    schema = {"before": {**row}, "after": {**row}, "op": {"type": "string"}}
    after = {"amount": "BNI=", "prices": ["BNI=", None], "rates": {"a": "BNI="}, "inner": {"x": "BNI="}}
    features = {
        "amount": "number",
        "price": {"as": "number", "field": "prices[0]"},
        "rate": {"as": "number", "field": "rates.a"},
        "x": {"as": "number", "field": "inner.x"},
    }
    found = decoded(features, "debezium", enveloped(schema, {"before": None, "after": after, "op": "c"}))
    assert whys(found) == []
    assert found.rows[0].points.X.tolist() == [[12.34, 123.4, 1.234, 0.1234]]
    bare = decoded(features, "debezium", {"before": None, "after": after, "op": "c"})
    assert [why for _, why, _ in whys(bare)] == ["wrong_type"]
    record = Raw(json.dumps(enveloped(schema, {"before": None, "after": after, "op": "c"})).encode())
    (event,) = EventSampler("json", "debezium", None).events([record])
    assert event["amount"] == 12.34
    assert proposal([event, {**event, "amount": 1.5}]).fields[0].options == {"as": "number"}


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


def fixed(size: int, **more: Any) -> dict[str, Any]:
    return kind("fixed", name="D", size=size, precision=18, **more)


def read(schema: Any, *values: bytes, compiled: bool = True) -> Decoded:
    recipe = recipe_from({"amount": {"as": "number", "missing": {"constant": -1}}}, {})
    config = PointsConfig(**points_of(recipe), dtype="float64", format="avro")
    decoder = PointDecoder(config, recipe=recipe, labeled=False, schemas=Shelf({1: json.dumps(schema)}))
    if not compiled:
        reader = cast(EventRecords, decoder._other)._parser._avro
        reader._known = type(reader._known)(lambda _: (without_program(reader, schema), 1))
    return decoder.decode(InColumns([Raw(value, at, headers=AVRO) for at, value in enumerate(values)]))


def without_program(reader: AvroReader, schema: Any) -> Any:
    import dataclasses

    return dataclasses.replace(reader._parsed(json.dumps(schema)), program=None)


def record(of: Any) -> dict[str, Any]:
    return {"type": "record", "name": "E", "fields": [{"name": "amount", "type": of}]}


NUMBERS = [
    Decimal(one) for one in ("12.34", "-12.34", "0.00", "-0.01", "2.55", "-1.28", "90071992547409.93", "1e20", "-1e30")
]


@pytest.mark.parametrize("of", [kind(), fixed(8), fixed(16), ["null", kind()], ["null", fixed(16)]])
def test_a_decimal_of_avro_is_its_number(of: Any) -> None:
    """By the compiled reader and by the general one, which have the same numbers to the bit."""
    large = "fixed" not in json.dumps(of)
    numbers = [one for one in NUMBERS if large or abs(one) < 10**16]
    values = [avro(record(of), {"amount": one}) for one in numbers]
    expected = [[float(one)] for one in numbers]
    for many in (1, 100):
        for compiled in (True, False):
            found = read(record(of), *values * many, compiled=compiled)
            assert whys(found) == []
            assert found.rows[0].points.X.tolist() == expected * many
    if isinstance(of, list):
        found = read(record(of), avro(record(of), {"amount": None}))
        assert found.rows[0].points.X.tolist() == [[-1.0]]


def test_the_compiled_reader_takes_decimals_as_they_usually_are() -> None:
    """Those of at most 53 bits; the others are left to the general reader."""
    reader = AvroReader(
        Shelf({1: json.dumps(record(kind()))}), PointsConfig(dimension=1), other=AvroFields((("amount",),))
    )
    values = [avro(record(kind()), {"amount": one}) for one in NUMBERS]
    found = reader.scan_slots(values, np.array(list(map(len, values))))
    assert found is not None
    assert found[0].tolist() == [True] * 6 + [False] * 3


@pytest.mark.parametrize(
    "of",
    [
        "bytes",
        {"type": "bytes", "logicalType": "decimal"},
        kind(scale=5, precision=4),
        kind(scale=-1),
        ["bytes", fixed(8)],
    ],
)
def test_bytes_that_may_be_something_else_are_refused(of: Any) -> None:
    """An invalid logical type means nothing, by the specification; a union does not tell which of two bytes are."""
    plain = json.loads(json.dumps(of).replace("decimal", "other"))
    found = read(record(of), avro(record(plain), {"amount": b"\x04\xd2"}))
    assert [(why, what[:9]) for _, why, what in whys(found)] == [("wrong_type", "amount is")]


def test_avro_decimals_are_found_by_name_in_arrays_in_maps_and_in_debeziums_record() -> None:
    """A fixed that is declared once and named again, and a decimal that has its own scale."""
    schema = {
        "type": "record",
        "name": "E",
        "fields": [
            {"name": "first", "type": fixed(8)},
            {"name": "amount", "type": ["null", "D"]},
            {"name": "list", "type": {"type": "array", "items": "D"}},
            {"name": "map", "type": {"type": "map", "values": ["null", "D"]}},
            {
                "name": "own",
                "type": {
                    "type": "record",
                    "name": "VariableScaleDecimal",
                    "namespace": "io.debezium.data",
                    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
                },
            },
        ],
    }
    one = Decimal("12.34")
    own = {"scale": 3, "value": b"\x04\xd2"}
    value = avro(schema, {"first": one, "amount": one, "list": [one], "map": {"k": one}, "own": own})
    features = {
        "amount": "number",
        "list": {"as": "number", "field": "list[0]"},
        "map": {"as": "number", "field": "map.k"},
        "own": "number",
    }
    recipe = recipe_from(features, {})
    config = PointsConfig(**points_of(recipe), dtype="float64", format="avro")
    decoder = PointDecoder(config, recipe=recipe, labeled=False, schemas=Shelf({1: json.dumps(schema)}))
    found = decoder.decode([Raw(value, 0), Raw(value, 1)])
    assert whys(found) == []
    assert found.rows[0].points.X.tolist() == [[12.34, 12.34, 12.34, 1.234]] * 2

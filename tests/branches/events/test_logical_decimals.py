"""Decimals that a schema tells of are numbers."""

from __future__ import annotations

import json
import sys
from collections import Counter
from fractions import Fraction

from hypothesis import given, strategies as st

from streamsvm.branches.events.logical_decimals import decimal_of
from streamsvm.branches.events.options import points_of, recipe_from
from streamsvm.config import PointsConfig
from streamsvm.ingest import PointDecoder
from tests.ingest.rows import InColumns, Raw

DECIMAL = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "version": 1, "parameters": {"scale": "2"}}


def unscaled(number: int, extra: int = 0) -> bytes:
    """Return an integer as Java's `BigInteger.toByteArray` writes it, behind so many bytes that repeat its sign."""
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1 + extra, "big", signed=True)


def test_a_hostile_schema_costs_no_more_than_its_bytes() -> None:
    """Many decimals of a row, and many rows: their product is not walked through."""
    calls: Counter[str] = Counter()
    many = {"type": "struct", "fields": [{**DECIMAL, "field": f"f{index}"} for index in range(1_000)]}
    fields = [{"type": "array", "items": many, "field": "rows"}, {**DECIMAL, "field": "amount"}]
    value = {"schema": {"type": "struct", "fields": fields}, "payload": {"amount": "BNI=", "rows": [{}] * 10_000}}
    recipe = recipe_from({"amount": "number"}, {"envelope": "connect"})
    reader = PointDecoder(PointsConfig(**points_of(recipe), dtype="float64"), recipe=recipe, labeled=False)
    sys.setprofile(lambda _, event, __: calls.update([event]))
    try:
        found = reader.decode(InColumns([Raw(json.dumps(value).encode())]))
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

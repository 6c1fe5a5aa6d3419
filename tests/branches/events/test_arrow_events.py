"""Raw events as Arrow columns: the points of the same events in JSON, to the bit, and what is refused."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, strategies as st

from streamsvm.branches.events.features.recipe import Recipe
from streamsvm.branches.events.options import points_of, recipe_from
from streamsvm.config import PointsConfig
from streamsvm.ingest import Decoded, PointDecoder
from tests.branches.events.payments import in_arrow, stream
from tests.ingest.rows import ARROW, Raw, whys


def decoded(recipe: Recipe, record: Raw, **options: Any) -> Decoded:
    return PointDecoder(PointsConfig(**points_of(recipe), **options), recipe=recipe).decode([record])


def assert_same(recipe: Recipe, value: bytes, events: list[dict[str, Any]], **options: Any) -> None:
    """Compare what is made of a record of Arrow with what is made of the same events in JSON."""
    one = decoded(recipe, Raw(value, headers=ARROW), **options)
    other = decoded(recipe, Raw(json.dumps(events).encode()), **options)
    (rows,), (others,) = one.rows, other.rows
    assert rows.accepted.tolist() == others.accepted.tolist()
    assert rows.points.sha256() == others.points.sha256()
    assert one.ids == other.ids
    assert one.absences == other.absences
    assert whys(one) == whys(other)


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
    assert_same(ANY, in_arrow(events, schema), events)


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
    assert_same(recipe, value, plain, dtype="float64")

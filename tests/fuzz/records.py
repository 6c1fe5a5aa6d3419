"""Records of points against references that share no code with the product: Python's JSON, pyarrow and fastavro."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final

import fastavro
import pyarrow as pa

from streamsvm.ingest import (
    DEEPEST_NESTING,
    FRAME,
    LARGEST_FEATURE,
    LARGEST_WEIGHT,
    SMALLEST_WEIGHT,
    PointDecoder,
    dead_letter as deadletter,
)
from tests.contract.cases import Case, configured
from tests.contract.readers import rows_of
from tests.fuzz.targets import Target, of_cases, words
from tests.ingest.rows import ARROW, AVRO, POINT, POINTS, Raw, Shelf

LARGEST: Final = LARGEST_FEATURE["float64"]
NEIGHBOURS: Final = (b'{"x":[5,6],"y":1}', b"nonsense")
LABELED_BY: Final = "2 features, labels -1 and 1, float64, 20 rows"
LABELED: Final = configured(LABELED_BY)[0]
ODD_FIELDS: Final = [
    {"name": "x", "type": {"type": "array", "items": "float"}},
    {"name": "y", "type": ["boolean", "int", "string"]},
    {"name": "op", "type": ["null", {"type": "map", "values": "bytes"}]},
    {"name": "w", "type": ["null", "float", "string"]},
]
ODD: Final = {"type": "array", "items": {"type": "record", "name": "Odd", "fields": ODD_FIELDS}}
SHELF: Final = Shelf({1: POINT, 2: POINTS, 3: json.dumps(ODD)})

Row = tuple[tuple[float, ...], Any, float] | None
"""Features, label and weight; None where there is no point."""
Reference = Callable[[bytes, bool, list[Row]], tuple[list[Row] | None, bool]]
"""Gives the rows of a record, labeled or not, or None where it cannot tell them apart, and whether that is certain.

The third argument is what the decoder made of it, for a reference that may only be asked about what was accepted.

Where it is not, the record may be rejected; but what is accepted must be what the reference says.
"""
Decoders = Callable[[bool], PointDecoder]
"""Returns a decoder of labeled rows or not."""


@cache
def _of_points(labeled: bool) -> PointDecoder:
    return PointDecoder(LABELED, labeled=labeled, schemas=SHELF)


def of_records(
    headers: tuple[tuple[str, bytes], ...], reference: Reference, decoders: Decoders = _of_points
) -> Callable[[Sequence[bytes]], list[str]]:
    """Look at records that are decoded together: each is what a reference says, and has a dead letter where it is not.

    Whether a case is decoded as a labeled point is a function of its bytes only.
    """

    def look(values: Sequence[bytes]) -> list[str]:
        found = [""] * len(values)
        for labeled in (False, True):
            some = [at for at, value in enumerate(values) if bool(len(value) % 3) == labeled]
            for at, said in zip(some, together([values[at] for at in some], labeled) if some else (), strict=True):
                found[at] = said
        return found

    def together(values: Sequence[bytes], labeled: bool) -> list[str]:
        records = [Raw(value, at, headers=headers) for at, value in enumerate([*values, *NEIGHBOURS])]
        decoded = decoders(labeled).decode(records)
        for one in decoded.rejected:
            deadletter.encode("topic", one, None, (), model="m")
            assert all(bad.reason != "undecodable" for bad in one.rejections), one.rejections[0].what
        said = []
        for value, told in zip(values, rows_of(decoded, len(records), labeled=labeled), strict=False):
            rows = [row_of(row, labeled=labeled) for row in told]
            assert all(abs(x) <= LARGEST for row in rows if row for x in row[0]), f"{rows} is accepted"
            _compare(rows, *reference(value, labeled, rows))
            said.append("accepted" if any(rows) else "rejected")
        return said

    return look


def row_of(row: Any, *, labeled: bool) -> Row:
    """Return what a reference would call a row."""
    if not isinstance(row, dict) or "passed over" in row:
        return None
    return tuple(row["x"]), (row["label"] if labeled else None), row.get("weight", 1.0)


def _compare(found: list[Row], expected: list[Row] | None, certain: bool) -> None:
    if expected is None or (not certain and not any(found)):
        assert not any(found), f"decoded {found}, the reference cannot"
    elif certain:
        assert found == expected, f"decoded {found}, the reference says {expected}"
    else:
        pairs = zip(found, expected, strict=True)
        assert all(row in (None, other) for row, other in pairs), f"decoded {found}, the reference says {expected}"


def point_of(row: Any, *, labeled: bool) -> Row:
    """Return a point by the rules as they are documented, of a decoded object."""
    if not isinstance(row, dict) or not isinstance(row.get("x"), list) or row.get("op") is not None:
        return None
    x, weight, y, mark = row["x"], row.get("w", 1.0), row.get("y"), row.get("id")
    if not all(is_number(entry) for entry in (*x, weight)) or not all(map(is_text, (*row, mark))):
        return None
    if not isinstance(y, bool | int | float | str | None) or isinstance(mark, bool | float | list | dict):
        return None
    entries, u = tuple(map(as_float, x)), as_float(weight)
    if len(entries) != LABELED.dimension or not all(abs(entry) <= LARGEST for entry in entries):
        return None
    if not SMALLEST_WEIGHT <= u <= LARGEST_WEIGHT:
        return None
    if labeled and (isinstance(y, bool | str) or y not in LABELED.labels):
        return None
    return entries, (int(y) if labeled else None), u


def is_number(entry: Any) -> bool:
    """Tell whether a value is a number of JSON."""
    return isinstance(entry, int | float) and not isinstance(entry, bool)


def is_text(text: Any) -> bool:
    """Tell whether a value is something else than text with half of a surrogate pair."""
    return not isinstance(text, str) or not any("\ud800" <= one <= "\udfff" for one in text)


def as_float(number: float) -> float:
    """Return a number as float64, infinite beyond its range."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _json_rows(value: bytes, labeled: bool, _: list[Row]) -> tuple[list[Row] | None, bool]:
    """Return what Python's own parser makes of a record; not certain of what is no UTF-8 in a field that is ignored."""
    if depth(value) > DEEPEST_NESTING:
        return [None], True
    parsed, certain = loads(value)
    if parsed is None:
        return None, True
    rows = parsed if isinstance(parsed, list) else [parsed]
    found = [point_of(row, labeled=labeled) for row in rows]
    return ([None] if not rows or len(rows) > LABELED.ROWS_PER_RECORD else found), certain


def loads(value: bytes) -> tuple[Any, bool]:
    """Parse JSON, or bytes that are JSON but for what stands in their texts; the latter is not certain."""
    with suppress(ValueError):
        return json.loads(value.decode()), True
    with suppress(ValueError):
        return json.loads(value.decode(errors="replace"), strict=False), False
    return None, True


def depth(value: bytes) -> int:
    """Return how deep JSON nests; 0 where it cannot nest too deep."""
    if value.count(b"[") + value.count(b"{") <= DEEPEST_NESTING:
        return 0
    deepest = depth = 0
    for byte in value:
        depth += (byte in b"[{") - (byte in b"]}")
        deepest = max(deepest, depth)
    return deepest


def _arrow_rows(value: bytes, labeled: bool, ours: list[Row]) -> tuple[list[Row] | None, bool]:
    """Return what pyarrow's own reader makes of a record that we accept something of; else ours stands."""
    if not any(ours):  # pyarrow reads unchecked what we have refused, and may well end the process
        return ours, True
    read = ("x", "y", "w", "id", "op")
    names = pa.ipc.open_stream(value).schema.names
    options = pa.ipc.IpcReadOptions(included_fields=[index for index, name in enumerate(names) if name in read])
    try:
        rows = pa.ipc.open_stream(value, options=options).read_all().to_pylist()
    except UnicodeDecodeError:  # a name inside of `op`, of which only is read whether it is null
        return ours, True
    return [point_of(_without_nulls(row), labeled=labeled) for row in rows], True


def _without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    return {name: cell for name, cell in row.items() if cell is not None}


@cache
def _parsed(text: str | None) -> Any:
    return None if text is None else fastavro.parse_schema(json.loads(text))


def _avro_rows(value: bytes, labeled: bool, _: list[Row]) -> tuple[list[Row] | None, bool]:
    """Return what fastavro makes of a record."""
    data = avro_data(value, SHELF)
    return (None if data is None else [point_of(_without_nulls(row), labeled=labeled) for row in data]), True


def avro_data(value: bytes, shelf: Shelf) -> list[Any] | None:
    """Return what fastavro makes of a value that names a schema; None if it refuses it."""
    if len(value) < FRAME.size or value[0]:
        return None
    schema = _parsed(shelf.schema(FRAME.unpack_from(value)[1]))
    if schema is None:
        return None
    body = io.BytesIO(value[FRAME.size :])
    try:
        datum: Any = fastavro.schemaless_reader(body, schema, None)
    except Exception:  # noqa: BLE001 - whatever a foreign library raises for foreign bytes
        return None
    rows = datum if isinstance(datum, list) else [datum]
    return None if body.read(1) or not rows or len(rows) > LABELED.ROWS_PER_RECORD else rows


def _plain(case: Case) -> bool:
    return not case.headers and not case.schemas and not _may_be_deleted(case)


def _may_be_deleted(case: Case) -> bool:
    """Return whether a case has a marker of deletions, which the references do not know."""
    return b"__" in (case.value or b"")


RECORDS: Final = (
    Target("json", of_cases("points", chosen=_plain, good=5), words("json"), of_records((), _json_rows)),
    Target(
        "arrow",
        of_cases("points", chosen=lambda case: "arrow" in str(case.headers) and not _may_be_deleted(case)),
        words("binary"),
        of_records(ARROW, _arrow_rows),
    ),
    Target(
        "avro",
        of_cases("points", chosen=lambda case: case.by == LABELED_BY and bool(case.schemas)),
        words("binary"),
        of_records(AVRO, _avro_rows),
    ),
)

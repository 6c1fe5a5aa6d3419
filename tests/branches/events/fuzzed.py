"""Raw events against references: a second evaluation of the recipe, and foreign readers of each format."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache, partial
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from streamsvm.branches.events import arrow_events, envelopes
from streamsvm.branches.events.features.columns import columns_of
from streamsvm.branches.events.features.recipe import Envelope
from streamsvm.branches.events.options import points_of
from streamsvm.config import PointsFormat
from streamsvm.ingest import DEEPEST_NESTING, LARGEST_WEIGHT, SMALLEST_WEIGHT, PointDecoder
from tests.branches.events.payments import MANY as ITEMS, ROW as PAYMENT
from tests.branches.events.protobuf_payments import FRAME as PROTOBUF_FRAME, INSTALLED, PROTOBUF, payment_class
from tests.branches.events.recipes import payments
from tests.branches.events.reference import Rejected, columns
from tests.contract.cases import Case
from tests.fuzz.records import (
    Decoders,
    Reference,
    Row,
    as_float,
    avro_data,
    depth,
    is_number,
    is_text,
    loads,
    of_records,
)
from tests.fuzz.targets import Target, of_cases, words
from tests.ingest.rows import ARROW, Shelf, few_rows

RECIPE: Final = payments()
PLAIN_RECIPE: Final = RECIPE.plain()
OF_EVENTS: Final = few_rows(20)(**points_of(RECIPE), dtype="float64")
SHELF: Final = Shelf({1: json.dumps(PAYMENT), 2: json.dumps(ITEMS)}, PROTOBUF)


@cache
def _decoder(format_: PointsFormat, envelope: Envelope, labeled: bool) -> PointDecoder:
    recipe = msgspec.structs.replace(RECIPE, envelope=envelope)
    config = few_rows(20)(**points_of(recipe), dtype="float64", format=format_)
    return PointDecoder(config, labeled=labeled, schemas=SHELF, recipe=recipe)


def decoders_of(format_: PointsFormat = "auto", envelope: Envelope = "none") -> Decoders:
    """Return the decoders of a format, with something around each event or nothing."""
    return partial(_decoder, format_, envelope)


def _event_rows(value: bytes, labeled: bool, ours: list[Row]) -> tuple[list[Row] | None, bool]:
    """Return what the second evaluation of the recipe makes of a record; ours where it agrees but for the last bits."""
    if depth(value) > DEEPEST_NESTING:
        return [None], True
    parsed, certain = loads(value)
    if parsed is None:
        return None, True
    return _event_rows_of(parsed if isinstance(parsed, list) else [parsed], labeled, ours), certain


def _event_rows_of(events: Sequence[Any], labeled: bool, ours: list[Row]) -> list[Row]:
    found = [_event_row(event, labeled=labeled) for event in events]
    if not found or len(found) > OF_EVENTS.ROWS_PER_RECORD:
        return [None]
    if len(found) == len(ours):
        found = [own if _same(own, other) else other for own, other in zip(ours, found, strict=True)]
    return found


def _around(opened: Callable[[Any], Any]) -> Reference:
    """Return a reference for JSON with something around each event; `opened` gives the event, or None."""

    def rows(value: bytes, labeled: bool, ours: list[Row]) -> tuple[list[Row] | None, bool]:
        if depth(value) > DEEPEST_NESTING:
            return [None], True
        parsed, certain = loads(value)
        if parsed is None:
            return [None], True
        many = parsed if isinstance(parsed, list) else [parsed]
        # What is not text anywhere in an envelope rejects the event, as it does in an event itself.
        texts = [is_text(json.dumps(one, ensure_ascii=False)) for one in many]
        events = [opened(one) if good else None for one, good in zip(many, texts, strict=True)]
        return _event_rows_of(events, labeled, ours), certain

    return rows


def _of_connect(row: Any) -> Any:
    return row["payload"] if isinstance(row, dict) and sorted(row) == ["payload", "schema"] else None


def _of_debezium(row: Any) -> Any:
    found = row["payload"] if isinstance(row, dict) and sorted(row) == ["payload", "schema"] else row
    known = isinstance(found, dict) and isinstance(found.get("op"), str) and found["op"] in ("c", "r", "u")
    return found.get("after") if known else None


def _events_of_arrow(value: bytes, labeled: bool, ours: list[Row]) -> tuple[list[Row] | None, bool]:
    """Return what pyarrow's own reader makes of a record that we accept something of; else ours stands."""
    if not any(ours):  # pyarrow reads unchecked what we have refused, and may well end the process
        return ours, True
    names = pa.ipc.open_stream(value).schema.names
    read = READ_OF_EVENTS | ({"is_fraud"} if labeled else {"id"})  # a column that nobody reads may be damaged
    options = pa.ipc.IpcReadOptions(included_fields=[at for at, name in enumerate(names) if name in read])
    try:
        rows = pa.ipc.open_stream(value, options=options).read_all().to_pylist()
    except UnicodeDecodeError:  # a name in a struct that nobody reads: pyarrow makes a dictionary of all or nothing
        return ours, True
    return _event_rows_of([_as_json(row) for row in rows], labeled, ours), True


READ_OF_EVENTS: Final = frozenset({path[0] for path in columns_of(RECIPE).paths} | {"weight"})


def _as_json(value: Any) -> Any:
    """Return what a value of Arrow means as an event; what JSON has not is something that no feature takes."""
    if isinstance(value, dict):
        return {name: _as_json(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_as_json(one) for one in value]
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value if isinstance(value, bool | int | float | str | None) else [[]]


def _events_of_avro(value: bytes, labeled: bool, ours: list[Row]) -> tuple[list[Row] | None, bool]:
    """Return what fastavro makes of a record."""
    data = avro_data(value, SHELF)
    return (None if data is None else _event_rows_of(data, labeled, ours)), True


def _events_of_protobuf(value: bytes, labeled: bool, ours: list[Row]) -> tuple[list[Row] | None, bool]:
    """Return what Google's JSON makes of a message of the one schema, which begins with the indexes 1 and 0."""
    if value[: len(PROTOBUF_FRAME)] != PROTOBUF_FRAME:
        return [None], False
    from google.protobuf import json_format

    message = payment_class()()
    try:
        message.ParseFromString(value[len(PROTOBUF_FRAME) :])
    except Exception:  # noqa: BLE001 - whatever a foreign library raises for foreign bytes
        return [None], True
    told = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return _event_rows_of([told], labeled, ours), True


def _event_row(event: Any, *, labeled: bool) -> Row:
    if not isinstance(event, dict) or not is_text(json.dumps(event, ensure_ascii=False)):
        return None
    weight, mark, label = event.get("weight"), event.get("id"), event.get("is_fraud")
    if weight is not None and not (is_number(weight) and SMALLEST_WEIGHT <= as_float(weight) <= LARGEST_WEIGHT):
        return None
    if labeled and not isinstance(label, bool):
        return None
    is_mark = isinstance(mark, str | None) or (isinstance(mark, int) and not isinstance(mark, bool))
    if not labeled and not (is_mark and (not isinstance(mark, int) or abs(mark) < 1 << 63)):
        return None
    try:
        made = columns(PLAIN_RECIPE, event)
    except Rejected:
        return None
    return tuple(made.values()), (2 * bool(label) - 1 if labeled else None), 1.0 if weight is None else as_float(weight)


def _same(own: Row, other: Row) -> bool:
    if own is None or other is None:
        return own is other
    close = all(math.isclose(x, z, rel_tol=1e-12, abs_tol=1e-12) for x, z in zip(own[0], other[0], strict=True))
    return close and own[1:] == other[1:]


def of_payments(envelope: str = "", form: str = "") -> Callable[[], Sequence[bytes]]:
    """Return the values of cases of payments: in JSON, with something around them, or in another format."""
    by = ("payments", "payments, float64") if not envelope else (f"payments, in {envelope}",)

    def chosen(case: Case) -> bool:
        if form == "protobuf":
            return case.by == "payments, protobuf"
        return case.by in by and (form in str(case.headers) if form else not case.headers)

    return of_cases("events", chosen=chosen, good=5)


LOOKS: Final[dict[str, tuple[Callable[[], Sequence[bytes]], str, Callable[[Sequence[bytes]], list[str]]]]] = {
    "event": (of_payments(), "", of_records((), _event_rows, decoders_of())),
    "event-connect": (
        of_payments("connect"), "", of_records((), _around(_of_connect), decoders_of(envelope="connect")),
    ),
    "event-debezium": (
        of_payments("debezium"), "", of_records((), _around(_of_debezium), decoders_of(envelope="debezium")),
    ),
    "event-arrow": (of_payments(form="arrow"), "-binary", of_records(ARROW, _events_of_arrow, decoders_of())),
    "event-avro": (of_payments(form="avro"), "-binary", of_records((), _events_of_avro, decoders_of("avro"))),
}  # fmt: skip
if INSTALLED:
    protobuf = of_records((), _events_of_protobuf, decoders_of("protobuf"))
    LOOKS["event-protobuf"] = (of_payments(form="protobuf"), "-binary", protobuf)
TARGETS: Final = tuple(
    Target(name, corpus, words("binary", "event-binary") if of else words("json", "event"), look)
    for name, (corpus, of, look) in LOOKS.items()
)
COUNTS: Final = {
    "event": 3_000,
    "event-connect": 2_000,
    "event-debezium": 2_000,
    "event-arrow": 1_000,
    "event-avro": 1_000,
    "event-protobuf": 1_000,
}
"""How many cases a test looks at."""


def nulls_for_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take what is null in a column for what stands in its place."""
    monkeypatch.setattr(arrow_events, "_missing", lambda column: np.zeros(len(column), np.bool_))


def deleted_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Learn the state before a deletion."""
    sound = envelopes._debezium

    def opened(row: Any) -> Any:
        is_deletion = isinstance(row, dict) and row.get("op") == "d" and isinstance(row.get("before"), dict)
        return row["before"] if is_deletion else sound(row)

    monkeypatch.setitem(envelopes._OPENERS, "debezium", opened)  # type: ignore[arg-type]


DEFECTS: Final[dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None]]]] = {
    "arrow-nulls": ("event-arrow", nulls_for_zeros),
    "debezium-deletions": ("event-debezium", deleted_rows),
}

"""The events of `tests.branches.events.recipes` in Avro and Arrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

NULLABLE = {name: ["null", kind] for name, kind in (("risk", "double"), ("weight", "float"))}
AVRO_FIELDS: dict[str, Any] = {
    "id": "string",
    "ts": "string",
    "amount": "double",
    **NULLABLE,
    "customer": {
        "type": "record",
        "name": "Customer",
        "fields": [{"name": "since", "type": "string"}, {"name": "age", "type": ["null", "int"]}],
    },
    "items": {
        "type": "array",
        "items": {"type": "record", "name": "Item", "fields": [{"name": "price", "type": "int"}]},
    },
    "card": {"type": "record", "name": "Card", "fields": [{"name": "country", "type": ["null", "string"]}]},
    "channel": {"type": "enum", "name": "Channel", "symbols": ["web", "app", "till"]},
    "merchant": "string",
    "vip": "boolean",
    "is_fraud": "boolean",
}
ROW = {
    "type": "record",
    "name": "Payment",
    "fields": [{"name": name, "type": kind} for name, kind in AVRO_FIELDS.items()],
}
MANY = {"type": "array", "items": ROW}


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

"""The events of `tests.branches.events.recipes` in Avro and Arrow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

ROW = json.loads(Path(__file__).with_name("payment.avsc").read_text())
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

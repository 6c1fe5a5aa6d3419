"""Golden records of points: the same three rows, one of them bad, in every format."""

from __future__ import annotations

import numpy as np

from streamsvm.ingest import arrow, avro, encode

SCHEMAS = {1: avro.schema_of(1, many=False), 2: avro.schema_of(1, many=True)}
X = np.array([[0.1, -2.5e30], [1.0, 2.0], [1e-40, 16777217.0]])
Y = (1, 7, -1)
WEIGHT = np.array([1.0, 1.0, 2.5])
IDS = ("a", "b", "ü")


def records() -> dict[str, bytes]:
    """Return today's bytes of each format, by the name of its file; those that begin with `one` hold the first row."""
    rows = list(zip(X.tolist(), Y, WEIGHT.tolist(), IDS, strict=True))
    data = [{"x": x, "y": y, "w": w, "id": mark} for x, y, w, mark in rows]
    return {
        "one-1.json.point": encode(*rows[0]),
        "many-1.json.point": b"[" + b",".join(encode(*row) for row in rows) + b"]",
        "many-1.arrow.point": arrow.encode(X, Y, WEIGHT, IDS),
        "many-1.arrow32.point": arrow.encode(X.astype(np.float32), Y, WEIGHT, IDS),
        "one-1.avro.point": avro.AvroWriter(SCHEMAS[1], 1).encode(data[0]),
        "many-1.avro.point": avro.AvroWriter(SCHEMAS[2], 2).encode(data),
    }

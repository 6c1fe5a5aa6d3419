"""Points that say of themselves that they were deleted."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from streamsvm.config import PointsConfig
from streamsvm.ingest.avro import AvroWriter
from streamsvm.ingest.decoder import Decoded, PointDecoder
from tests.ingest.rows import ARROW, AVRO, Raw, Shelf, whys

DELETIONS: list[dict[str, Any]] = [
    {"__deleted": "true"},
    {"__deleted": True},
    {"__op": "d"},
    {"__deleted": "false", "__op": "d"},
]
STATES: list[dict[str, Any]] = [
    {},
    {"__deleted": "false"},
    {"__deleted": False, "__op": "u"},
    {"__op": "c"},
    {"__deleted": None, "__op": None},
    {"__deleted": "TRUE", "__op": "D"},
    {"__deleted": 1, "__op": 1},
]
MARKED = [marks for pair in zip(STATES, (DELETIONS * 2)[: len(STATES)], strict=True) for marks in pair]


def expect(found: Decoded, marks: list[dict[str, Any]]) -> None:
    (rows,) = found.rows
    assert whys(found) == []
    assert rows.accepted.tolist() == [one not in DELETIONS for one in marks]
    assert rows.passed_over is not None
    assert rows.passed_over.tolist() == [one in DELETIONS for one in marks]
    assert found.passed_over == {"delete": sum(one in DELETIONS for one in marks)}
    assert rows.points.X[:, 0].tolist() == [0.0 if one in DELETIONS else at + 0.5 for at, one in enumerate(marks)]


@pytest.mark.parametrize("labels", [(0, 1), ("no", "yes")], ids=["numbers", "text"])
@pytest.mark.parametrize("labeled", [True, False])
def test_deleted_points_are_passed_over(labels: tuple[Any, Any], labeled: bool) -> None:
    """In JSON, Avro and Arrow, a record each or an array; a deleted point need not be one."""
    config = PointsConfig(dimension=1, labels=labels)
    points = [
        {**one, **({} if one in DELETIONS else {"y": labels[1]}), "x": None if one in DELETIONS else [at + 0.5]}
        for at, one in enumerate(MARKED)
    ]

    def decoded(*records: Raw, shelf: Shelf | None = None) -> Decoded:
        return PointDecoder(config, labeled=labeled, schemas=shelf).decode(list(records))

    expect(decoded(*(Raw(json.dumps(one).encode(), at) for at, one in enumerate(points))), MARKED)
    array = decoded(Raw(json.dumps(points).encode()))
    expect(array, MARKED)
    assert array.unread.rows == {}
    fields: list[dict[str, Any]] = [
        {"name": "x", "type": {"type": "array", "items": "double"}},
        {"name": "y", "type": "string" if labels[0] == "no" else "long"},
        {"name": "__deleted", "type": ["null", "string", "boolean"]},
        {"name": "__op", "type": ["null", "string"]},
    ]
    writer = AvroWriter(schema := json.dumps({"type": "record", "name": "P", "fields": fields}), 1)
    marks = [one for one in MARKED if type(one.get("__op")) is not int]
    full = [
        {"x": [at + 0.5], "y": labels[1], **dict.fromkeys(("__deleted", "__op")), **one} for at, one in enumerate(marks)
    ]
    records = [Raw(writer.encode(one), at, headers=AVRO) for at, one in enumerate(full)]
    expect(decoded(*records, shelf=Shelf({1: schema})), marks)
    of_text = [at for at, one in enumerate(marks) if not isinstance(one.get("__deleted"), bool)]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([at + 0.5 for at in of_text]), 1)
    columns = [pa.array([full[at][name] for at in of_text]) for name in ("y", "__deleted", "__op")]
    batch = pa.record_batch([vectors, *columns], names=["x", "y", "__deleted", "__op"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    found = decoded(Raw(sink.getvalue().to_pybytes(), headers=ARROW))
    assert found.rows[0].accepted.tolist() == [marks[at] not in DELETIONS for at in of_text]
    assert found.passed_over["delete"] == sum(marks[at] in DELETIONS for at in of_text)
    assert found.unread.rows == {}

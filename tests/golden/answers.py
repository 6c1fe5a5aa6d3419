"""What readers say of points and events by the golden messages, for the packages' own tests, which have no Python."""

from __future__ import annotations

import json
from typing import Any, Final

from streamsvm.ingest import BatchScorer
from streamsvm.kafka import Record
from streamsvm.model import message as codec
from streamsvm.registry import Loaded
from streamsvm.supports import Unsupported
from tests.golden import HERE
from tests.golden.every_model import KINDS
from tests.golden.model import parts_of, path_of
from tests.interop.inputs import in_python

FILE: Final = HERE / "answers.json"
POINTS: Final[list[Any]] = [
    [0.1, -2.5, 1e6],
    [5.0, -2.4, -3e38],
    {"mean": -9, "kurtosis µ": -2.6, "dm": 0},
    [1.0, 2.0],
    {"mean": 1.0, "dm": 0.0},
    [1.0, None, 3.0],
]
"""The last three are wrong."""
REASONS: Final = 2
SCORED: Final = b'[{"x": [0.1, -2.5, 1000000.0], "id": "a"}, {"x": "?"}, {"x": [5.0, -2.4, 0.5], "id": 7}]'


def events_of(message: dict[str, Any]) -> list[Any]:
    """Return the message's own examples, one of them without a field, and columns instead of an event."""
    events = [example["event"] for example in parts_of(message)["recipe"]["examples"]]
    return [*events, {name: value for name, value in events[0].items() if name != "signal"}, [1.0]]


def answers() -> dict[str, Any]:
    """Return what the file holds."""
    return {"models": [of_model(kind) for kind in KINDS], "scores": scores()}


def of_model(kind: str) -> dict[str, Any]:
    """Return what a golden message makes of points or events, and its reasons if it has any."""
    value = path_of(kind).read_bytes()
    message = json.loads(value)
    points = events_of(message) if "recipe" in parts_of(message) else POINTS
    told = in_python(value, {str(at): json.dumps(point) for at, point in enumerate(points)})
    assert not isinstance(told, str), told
    loaded = Loaded(version=codec.decode(value), sha256="", offset=0, loaded_at=0.0)
    whole = [None if "error" in answer else point for point, answer in zip(points, told, strict=True)]
    try:
        for point, answer in zip(whole, told, strict=True):
            if point is not None:
                (why,) = loaded.explain([point] if isinstance(point, list) or loaded.columns else point, REASONS)
                fields = [{"field": one.field, "adds": one.adds} for one in why.fields]
                answer["reasons"] = {"baseline": why.baseline, "fields": fields, "rest": why.rest}
    except Unsupported:
        pass
    told = [{"error": True} if "error" in answer else answer for answer in told]
    return {"model": path_of(kind).name, "points": points, "answers": told}


def scores() -> dict[str, Any]:
    """Return a record of scores: its value and headers as text."""
    version = codec.decode(path_of("linear").read_bytes())
    scorer = BatchScorer(
        version,
        "ab" * 32,
        max_record_bytes=10_000,
        max_message_bytes=99_999,
        reasons=REASONS,
    )
    (record,) = scorer.score([Record("points", 3, 7, b"k", SCORED, (), 1_700_000_000_000, None)]).records
    headers = {name: content.decode() for name, content in record.headers}
    return {"value": record.value.decode(), "headers": headers}


def written() -> bytes:
    """Return the file, with a line for each model."""
    held = answers()
    models = ",\n".join(json.dumps(model, ensure_ascii=False) for model in held["models"])
    return f'{{"models": [\n{models}\n],\n"scores": {json.dumps(held["scores"], ensure_ascii=False)}}}\n'.encode()

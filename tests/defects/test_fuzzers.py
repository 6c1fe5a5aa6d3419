"""Each fuzzer finds what it is there for: with a reader's care taken away, a case escapes."""

from __future__ import annotations

import base64
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import msgspec
import numpy as np
import pytest

from consumers.host.web import head, server
from streamsvm.coreset import state
from streamsvm.ingest import Point, arrow, arrow_stream, avro, decoder as points, json_rows
from streamsvm.model import message as model_codec
from tests.fuzz.every_target import TARGETS
from tests.fuzz.running import MOST_KEPT, run
from tests.plugged import of_branches


def half_a_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what msgspec raises for half of a surrogate pair pass, and catch nothing else."""

    def convert_row(row: Any) -> Any:
        return msgspec.convert(row, Point)

    monkeypatch.setattr(json_rows, "convert_row", convert_row)
    monkeypatch.setattr(points, "blaming_the_record", NoBlame)


class NoBlame:
    def __enter__(self) -> None: ...
    def __exit__(self, *exception: object) -> None: ...


def two_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a weight for twice as much where a record is decoded by itself."""
    sound = points.PointDecoder._check

    def check(decoder: points.PointDecoder, point: Point) -> int:
        point.w *= 2.0
        return sound(decoder, point)

    monkeypatch.setattr(points.PointDecoder, "_check", check)


def arrow_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Arrow's errors pass."""
    monkeypatch.setattr(arrow, "BROKEN", ())
    monkeypatch.setattr(arrow_stream, "BROKEN", ())
    monkeypatch.setattr(points, "blaming_the_record", NoBlame)


def avro_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let fastavro's errors pass."""
    monkeypatch.setattr(avro, "_BROKEN", ())
    monkeypatch.setattr(points, "blaming_the_record", NoBlame)


def unchecked_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the errors of base64 and of numpy pass."""
    monkeypatch.setattr(model_codec, "from_base64", lambda text, _: np.frombuffer(base64.b64decode(text), "<f8"))


def unchecked_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the errors of MessagePack pass."""
    sound = msgspec.msgpack.decode

    def decode(value: memoryview) -> Any:
        try:
            return sound(value)
        except msgspec.MsgspecError as error:
            raise RuntimeError("the head is no MessagePack") from error

    monkeypatch.setattr(state.msgspec.msgpack, "decode", decode)


def unbounded_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail for a request of another method."""
    sound = head.parse

    def parse(received: bytes) -> head.HttpRequest | HTTPStatus:
        request = sound(received)
        if request is HTTPStatus.METHOD_NOT_ALLOWED:
            raise ValueError(received)
        return request

    monkeypatch.setattr(server, "parse", parse)


def another_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the compiled reader of JSON give each point the weight 3."""
    sound = points.PointDecoder._scanned_points

    def scanned(decoder: points.PointDecoder, found: Any) -> Any:
        found.weight[:] = 3.0
        return sound(decoder, found)

    monkeypatch.setattr(points.PointDecoder, "_scanned_points", scanned)


DEFECTS: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "json-half-a-pair": ("json", half_a_pair),
    "json-two-values": ("json", two_values),
    "arrow-errors": ("arrow", arrow_errors),
    "avro-errors": ("avro", avro_errors),
    "model-numbers": ("model", unchecked_numbers),
    "checkpoint-head": ("checkpoint", unchecked_head),
    "http-methods": ("http", unbounded_methods),
    "a-weight-of-the-compiled-reader": ("contract-points", another_weight),
    **{name: defect for found in of_branches("fuzzed", "DEFECTS") for name, defect in found.items()},
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_escapes(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a reader's care taken away its fuzzer finds a case within a thousand, and keeps it."""
    name, plant = DEFECTS[defect]
    plant(monkeypatch)
    found = run(TARGETS[name], 1_000)
    assert found.escapes > 0
    assert 0 < len(found.kept) <= MOST_KEPT

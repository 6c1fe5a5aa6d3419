"""Some seconds of the fuzzers, or a minute, always the same cases; and that each of them finds what it is there for."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from consumers.host.web import head, server
from streamsvm.checkpoint import forms
from streamsvm.ingest import Point, arrow, arrow_stream, avro, decoder as points, json_rows
from streamsvm.model import message as model_codec
from tests.fuzz.every_target import TARGETS
from tests.fuzz.records import _compare
from tests.fuzz.running import MOST_KEPT, Found, run
from tests.fuzz.targets import Target
from tests.plugged import of_branches

COUNTS = {
    "json": 4_000,
    "arrow": 2_500,
    "avro": 2_500,
    "contract-points": 4_000,
    "contract-events": 4_000,
    "model": 3_000,
    "checkpoint": 2_000,
    "state-record": 2_000,
    "http": 2_000,
    **{name: count for found in of_branches("fuzzed", "COUNTS") for name, count in found.items()},
}
OTHERS = 6_000


@pytest.mark.long(keep=("*-a quarter",))  # the first quarter of the same sequence
@pytest.mark.parametrize("share", [4, 1], ids=["a quarter", "all"])
@pytest.mark.parametrize("name", TARGETS)
def test_nothing_escapes(name: str, share: int) -> None:
    """Every case of a fixed sequence is refused in its reader's own way, or means what the reference says."""
    found = run(TARGETS[name], COUNTS.get(name, OTHERS) // share)
    assert found.escapes == 0, found.kept[:3]
    assert len(found.outcomes) > 1, f"every case was {found.outcomes}: nothing was tried"


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


def unchecked_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not look where arrays end."""
    monkeypatch.setattr(forms.StateReader, "end", lambda _: None)
    monkeypatch.setattr(forms.msgspec.json, "decode", lambda value, type: json.loads(bytes(value)))  # noqa: A006


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
    "checkpoint-lengths": ("checkpoint", unchecked_lengths),
    "http-methods": ("http", unbounded_methods),
    "a-weight-of-the-compiled-reader": ("contract-points", another_weight),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_escapes(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a reader's care taken away its fuzzer finds a case within a thousand, and keeps it."""
    name, plant = DEFECTS[defect]
    plant(monkeypatch)
    found = run(TARGETS[name], 1_000)
    assert found.escapes > 0
    assert 0 < len(found.kept) <= MOST_KEPT


def test_a_run_goes_on_where_it_ended(tmp_path: Path) -> None:
    """In two parts or at once: the same counts, each case once; a file of another target is refused."""
    seen: list[bytes] = []

    def look(values: Sequence[bytes]) -> list[str]:
        seen.extend(values)
        return ["long" if len(value) > 50 else "short" for value in values]

    target = Target("alias", TARGETS["alias"].corpus, TARGETS["alias"].words, look)
    path = tmp_path / "alias.json"
    run(target, 40, path=path)
    run(target, 100, path=path)
    parts, seen[:] = list(seen), []
    whole = run(target, 100)
    assert seen == parts
    assert Found(**json.loads(path.read_text())).outcomes == whole.outcomes
    assert Found.load(path, "alias", 0).tried == 100
    with pytest.raises(SystemExit):
        Found.load(path, "head", 0)


def test_the_reference_is_strict_where_it_is_certain() -> None:
    """A row too many, one too few or another value is no agreement; what is uncertain may be rejected, not changed."""
    one = ((1.0, 2.0), 1, 1.0)
    _compare([one, None], [one, None], True)
    _compare([None], [one, one], False)
    _compare([one, None], [one, one], False)
    for found, expected, certain in (
        ([one, None], [one, one], True),
        ([one], None, True),
        ([one], [((1.0, 2.5), 1, 1.0)], False),
        ([None], [one], True),
    ):
        with pytest.raises(AssertionError):
            _compare(found, expected, certain)

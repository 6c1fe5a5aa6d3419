"""Fields that nobody reads are counted, whatever the format and the way of decoding, and change no row."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
import structlog
from hypothesis import given, strategies as st

from consumers.metrics import TRAINER, Metrics
from consumers.streams import UnreadWatch
from streamsvm.config import Label, PointsConfig
from streamsvm.ingest import MOST_FIELDS, PointDecoder, Unread, UnreadFields, arrow
from streamsvm.kafka import Record

NUMBERS: tuple[Label, Label] = (-1, 1)
WORDS: tuple[Label, Label] = ("noise", "pulsar")


def records(values: list[bytes], *headers: tuple[str, bytes]) -> list[Record]:
    return [Record("t", 0, offset, None, value, headers, 0, 0) for offset, value in enumerate(values)]


def decode(
    values: list[bytes], labels: tuple[Label, Label] = NUMBERS, *, batches: int = 1
) -> tuple[Any, dict[str, int]]:
    """Decode in so many batches; return the last one, and all that was counted."""
    decoder, counted, found = PointDecoder(PointsConfig(dimension=2, labels=labels)), {}, None
    for some in np.array_split(np.array(values, dtype=object), batches):
        found = decoder.decode(records(list(some)))
        for name, rows in found.unread.rows.items():
            counted[name] = counted.get(name, 0) + rows
    return found, counted


def point(label: Label, **more: Any) -> dict[str, Any]:
    return {"x": [1.0, 2.0], "y": label, **more}


@pytest.mark.parametrize("labels", [NUMBERS, WORDS])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("batches", [1, 5])
def test_every_row_with_such_a_field_is_counted_once(labels: tuple[Label, Label], rows: int, batches: int) -> None:
    """By the compiled parser's decline, many at once, row by row, and in arrays; `w`, `id` and `op` are read."""
    values = []
    for index in range(40):
        more: dict[str, Any] = {"id": "a", "w": 2.0}
        if index % 2:
            more["weight"] = 5
        if index % 10 == 0:
            more |= {"weight": {"deep": [1, "}"]}, "kind": "ä"}
        one = point(labels[index % 2], **more)
        values.append(json.dumps(one if rows == 1 else [one, point(labels[0]), one]).encode())
    found, counted = decode(values, labels, batches=batches)
    times = 1 if rows == 1 else 2
    assert counted == {"weight": 24 * times, "kind": 4 * times}
    assert not found.rejected


def test_a_clean_stream_has_none() -> None:
    """And a broken record among the others says nothing of fields."""
    values = [json.dumps(point(1, id=1)).encode(), b"{", b"[1]", b'{"x":1,"y":1}', b'{"x":[1,2],"y":1,"op":"delete"}']
    found, counted = decode(values)
    assert counted == {}
    assert [bad.rejections[0].reason for bad in found.rejected] == [
        "malformed_json", "wrong_type", "wrong_type", "unsupported_operation",
    ]  # fmt: skip


def test_only_so_many_fields_are_told_apart() -> None:
    """A producer that makes a name for each record does not fill the memory, nor the log."""
    values = [json.dumps(point("noise", **{f"f{index}": 1})).encode() for index in range(200)]
    _, counted = decode(values, WORDS, batches=20)
    assert len(counted) == MOST_FIELDS
    unread = UnreadFields()
    unread.note(json.dumps({f"{index}": 0 for index in range(99)}).encode(), [])
    assert len(unread._names) == MOST_FIELDS
    assert unread.one.decode(b'{"x":[1.0],"another":1}').x == [1.0]


_names = st.sampled_from(["x", "y", "w", "id", "op", "weight", "W", "", "x ", "ä", "unread_0", "__class__", "a`b"])
_cells = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, width=32)
    | st.text('aä"\\', max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("aä", max_size=2), inner, max_size=2),
    max_leaves=4,
)


def _points_of(names: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(names, _cells, max_size=5).map(lambda made: {"x": [1.0, 2.0], "y": 1} | made)


_any_points = _points_of(_names | st.just('a"b'))


_mutations = st.lists(st.tuples(st.integers(0, 200), st.sampled_from(b'\xff\xff\x1b"\\{},:01N')), max_size=2)


@given(
    st.lists(
        st.tuples(st.lists(_any_points, min_size=1, max_size=2), st.booleans(), _mutations), min_size=1, max_size=8
    )
)
def test_what_was_met_before_decides_nothing(made: list[tuple[list[dict[str, Any]], bool, Any]]) -> None:
    """A record is accepted or rejected alike, in the same words, by a decoder that met others and by one that did not.

    Damaged ones, too: what stands in a field that nobody reads is not looked at.
    """
    used = PointDecoder(PointsConfig(dimension=2))
    for rows, many, mutations in made:
        value = bytearray(msgspec.json.encode(rows if many else rows[0]))
        for place, byte in mutations:
            value[place % len(value)] = byte
        fresh = PointDecoder(PointsConfig(dimension=2))
        expected, found = (one.decode(records([bytes(value)])) for one in (fresh, used))
        assert [bad.rejections for bad in found.rejected] == [bad.rejections for bad in expected.rejected]
        for one, other in zip(found.rows, expected.rows, strict=True):
            np.testing.assert_array_equal(one.accepted, other.accepted)
            np.testing.assert_array_equal(one.points.X, other.points.X)


@pytest.mark.parametrize("text", [b'"\xff"', b'"\\ud800"', b"NaN", b"1e999"])
def test_a_field_that_is_not_read_may_hold_anything(text: bytes) -> None:
    """Whether its name was met before or not."""
    damaged, plain = b'{"x":[1,2],"y":1,"q":' + text + b"}", b'{"x":[1,2],"y":1,"q":1}'
    for values in ([damaged, plain, damaged], [plain, damaged, damaged]):
        decoder = PointDecoder(PointsConfig(dimension=2))
        assert not any(decoder.decode(records([value])).rejected for value in values)


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "\x00", "\x1b[2J"])
def test_a_name_of_any_characters_is_counted(name: str) -> None:
    """Among them those that no decoder takes in a field's name; the records after it are decoded as ever."""
    values = [json.dumps(point("noise", **more)).encode() for more in ({name: 1}, {"weight": 1}, {name: 1}, {})]
    decoder, counted = PointDecoder(PointsConfig(dimension=2, labels=WORDS)), Counter[str]()
    for value in values:
        found = decoder.decode(records([value]))
        assert not found.rejected
        counted.update(found.unread.rows)
    assert counted == {name: 2, "weight": 1}


def test_the_log_escapes_a_name() -> None:
    """What producers write must not steer a terminal."""
    with structlog.testing.capture_logs() as said:
        UnreadWatch("labeled", Metrics(TRAINER)).note(Unread({"\x1b[2J": 1}))
    assert said[0]["field"] == "\\x1b[2J"


def test_columns_of_arrow_are_counted() -> None:
    """A column that is not read stands for a field of each row."""
    batch = pa.record_batch(
        [pa.FixedSizeListArray.from_arrays(pa.array([1.0] * 6), 2), pa.array([1, -1, 1]), pa.array([5.0] * 3)],
        names=["x", "y", "weight"],
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    value = sink.getvalue().to_pybytes()
    decoder = PointDecoder(PointsConfig(dimension=2))
    found = decoder.decode(records([value, value], ("content-type", arrow.CONTENT_TYPE.encode())))
    assert found.unread == Unread({"weight": 6})
    assert not found.rejected


def test_each_field_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    """With what it may be meant for; the metric counts on."""
    metrics = Metrics(TRAINER)
    watch = UnreadWatch("labeled", metrics)
    with structlog.testing.capture_logs() as said:
        for _ in range(3):
            watch.note(Unread({"weight": 10, "Y": 1, "source": 1}))
    assert [(line["field"], line["remedy"].split("?")[0]) for line in said[:2]] == [
        ("weight", "did the producer mean w"),
        ("Y", "did the producer mean y"),
    ]
    assert len(said) == 3
    assert metrics.values("streamsvm_unread_fields") == {(): 36.0}
    assert capsys.readouterr().err == ""

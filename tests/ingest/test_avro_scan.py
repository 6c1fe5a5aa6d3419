"""The compiled reader of Avro: whatever it accepts, the general reader accepts with the same bits."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from streamsvm.config import PointsConfig
from streamsvm.errors import TransientError
from streamsvm.ingest import avro_programs
from streamsvm.ingest.avro import AvroReader
from streamsvm.ingest.decoder import Decoded, PointDecoder
from tests.examples import examples
from tests.ingest.rows import AVRO, POINT, POINTS, Raw, Shelf, few_rows, zigzag

CONFIG = few_rows(6)(dimension=2, labels=(-1, 1), dtype="float64")


class Watched(AvroReader):
    """Notes how many rows the compiled reader gave of each record, or reads nothing by it."""

    taken: list[int]
    compiled = True

    def scan(self, *given: Any) -> Any:
        found = super().scan(*given) if self.compiled else None
        self.taken = [] if found is None else found[0].rows.tolist()
        return found


def decoder(config: PointsConfig, shelf: Shelf, *, labeled: bool, compiled: bool) -> tuple[PointDecoder, Watched]:
    made, reader = PointDecoder(config, labeled=labeled, schemas=shelf), Watched(shelf, config, labeled=labeled)
    reader.compiled = compiled
    made._avro = reader
    return made, reader


def told(decoded: Decoded) -> Any:
    """Return everything that a batch became, in bytes where they count."""
    arrays = [
        (array.dtype.str, array.tobytes())
        for rows in decoded.rows
        for array in (
            rows.offset, rows.row, rows.last, rows.time_ms, rows.accepted, rows.leader_epoch,
            rows.points.X, rows.points.y, rows.points.weight,
        )
    ]  # fmt: skip
    rejected = [(one.record.offset, one.rows, one.rejections) for one in decoded.rejected]
    ids = [(type(mark), mark) for mark in decoded.ids]
    return arrays, rejected, ids, decoded.unread.rows


def both(
    values: Sequence[bytes | None], shelf: Shelf, config: PointsConfig = CONFIG, *, labeled: bool = True
) -> list[int]:
    """Decode a batch with the compiled reader and without; return how many rows it gave of each record."""
    records = [Raw(value, offset, leader_epoch=offset % 3, headers=AVRO) for offset, value in enumerate(values)]
    fast, reader = decoder(config, shelf, labeled=labeled, compiled=True)
    slow, _ = decoder(config, shelf, labeled=labeled, compiled=False)
    assert told(fast.decode(records)) == told(slow.decode(records))
    return reader.taken


def schema_of(fields: Mapping[str, Any], name: str = "P") -> dict[str, Any]:
    """Return the schema of a record, such as a point."""
    return {"type": "record", "name": name, "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def framed(body: bytes, schema_id: int = 1) -> bytes:
    return struct.pack(">bI", 0, schema_id) + body


def sized(body: bytes) -> bytes:
    return zigzag(len(body)) + body


# ----------------------------------------------------------------------------------------- schemas and data, by chance

NO_UTF_8 = (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"abcdefgh\xe2\x82", b"\xf4\x90\x80\x80", b"\xf0\x8f")
TEXTS = st.text(max_size=12).map(str.encode) | st.sampled_from((*NO_UTF_8, b"yes", b"no"))
WHOLE = st.sampled_from([-1, 0, 1, 2, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]) | st.integers(-(2**63), 2**63 - 1)
REAL = st.sampled_from([-1.0, 0.0, -0.0, 1.0, 1e-15, 1e15, 1e101, float("nan"), float("inf")]) | st.floats(-1e6, 1e6)
SMALL = REAL.filter(lambda real: not abs(real) > 1e38 or real == float("inf"))
BODIES: dict[str, st.SearchStrategy[bytes]] = {
    "int": WHOLE.map(zigzag),
    "long": WHOLE.map(zigzag),
    "double": REAL.map(lambda real: struct.pack("<d", real)),
    "float": SMALL.map(lambda real: struct.pack("<f", real)),
    "boolean": st.sampled_from([b"\0", b"\1", b"\2"]),
    "bytes": st.binary(max_size=5).map(sized),
    "string": TEXTS.map(sized),
    "null": st.just(b""),
    "enum": st.sampled_from([-1, 0, 1, 1, 2, 3]).map(zigzag),
    "fixed": st.binary(min_size=3, max_size=3),
}
INTS = {"type": "array", "items": "int"}
NUMBERS = ["int", "long", "double", "float"]
PRIMITIVES = [*NUMBERS, "boolean", "bytes", "string", "null"]


def body(draw: Any, schema: Any, named: dict[str, Any]) -> bytes:
    """Draw the bytes of a value of a type; types that were met are known by their names."""
    if isinstance(schema, str) and schema not in BODIES:
        schema = named[schema]
    if isinstance(schema, list):
        index = draw(st.integers(0, len(schema) - 1))
        return zigzag(index) + body(draw, schema[index], named)
    if isinstance(schema, dict) and "name" in schema:
        named[schema["name"]] = schema
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "record":
        return b"".join(body(draw, field["type"], named) for field in schema["fields"])
    if kind not in ("array", "map"):
        return draw(BODIES[kind])
    left, out = draw(st.integers(*schema.get("sizes", (0, 4)))), b""
    while left:  # in one block or several, some of which say their size
        count = draw(st.integers(1, left))
        key = TEXTS.map(sized) if kind == "map" else st.just(b"")
        items = b"".join(draw(key) + body(draw, schema.get("items", schema.get("values")), named) for _ in range(count))
        out += (zigzag(-count) + zigzag(len(items)) if draw(st.booleans()) else zigzag(count)) + items
        left -= count
    return out + zigzag(0)


def enum(name: str) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": ["no", "yes", "other"]}


@st.composite
def any_kind(draw: Any, name: str, depth: int = 3) -> Any:
    """Draw a type of whatever shape; names of types begin with `name`."""
    shape = draw(st.sampled_from(["plain"] * 4 + ["enum", "fixed", "array", "map", "union", "record"] * (depth > 0)))
    if shape == "plain":
        return draw(st.sampled_from([*PRIMITIVES, {"type": "int", "logicalType": "date"}]))
    if shape == "enum":
        return enum(name + "e")
    if shape == "fixed":
        return {"type": "fixed", "name": name + "f", "size": 3}
    inner = draw(any_kind(name + shape[0], depth - 1))
    if shape in ("array", "map"):
        return {"type": shape, "items" if shape == "array" else "values": inner}
    if shape == "union":
        plain = draw(st.lists(st.sampled_from(PRIMITIVES), max_size=3, unique=True))
        return [*plain, schema_of({"a": inner}, name + "r")]
    again = inner["name"] if isinstance(inner, dict) and "name" in inner else inner
    return {
        "type": "record",
        "name": name + "r",
        "fields": [{"name": "a", "type": inner}, {"name": "b", "type": again}],
    }


def usual(*kinds: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([*kinds, ["null", *kinds], [*kinds, "null"]])


@st.composite
def points(draw: Any, name: str) -> Any:
    """Draw the type of a record of points, one or an array of them."""
    fields: dict[str, Any] = {}
    if draw(st.integers(0, 3)):
        sizes = 2, draw(st.sampled_from([2, 2, 2, 3]))
        fields["x"] = {"type": "array", "items": draw(st.sampled_from(NUMBERS)), "sizes": sizes}
    else:
        fields |= {feature: draw(st.sampled_from(NUMBERS) | usual("float")) for feature in ("a", "b")}
    usually = {"y": (7, usual("long") | usual("boolean", "string", "double") | st.just(enum(name + "y"))),
               "w": (1, usual("double") | usual("float", "int")),
               "id": (1, usual("string", "long") | st.just(enum(name + "i"))), "op": (0, usual("string"))}  # fmt: skip
    for field, (often, kinds) in usually.items():
        if draw(st.integers(0, often)) if often else not draw(st.integers(0, 3)):
            fields[field] = draw(kinds | any_kind(name + field))
    for other in draw(st.sets(st.sampled_from(["p", "q", "r"]))):
        fields[other] = draw(any_kind(name + other))
    order = draw(st.permutations(list(fields)))
    row = schema_of({one: fields[one] for one in order}, name)
    return {"type": "array", "items": row, "sizes": (0, 7)} if draw(st.booleans()) else row


@st.composite
def damaged(draw: Any, value: bytes) -> bytes:
    """Draw a value, or one that was cut, continued or changed."""
    change, at = draw(st.sampled_from(["none"] * 3 + ["cut", "more", "byte"])), draw(st.integers(0, len(value)))
    some = draw(st.binary(min_size=1, max_size=1))
    return {"none": value, "cut": value[:at], "more": value + some, "byte": value[:at] + some + value[at + 1 :]}[change]


@settings(max_examples=examples(400), deadline=None)
@given(data=st.data())
def test_batches_of_any_schemas_are_what_the_general_reader_makes_of_them(data: Any) -> None:
    """Rows, dead letters, ids and unread fields, whatever stands beside a record in its batch."""
    names = data.draw(st.sampled_from([(), ("a", "b")]))
    labels = data.draw(st.sampled_from([(-1, 1), (0, 1), (False, True), ("no", "yes"), (2**53, 1)]))
    config = few_rows(6)(
        dimension=2,
        labels=labels,
        dtype=data.draw(st.sampled_from(["float32", "float64"])),
        feature_names=names,
        max_record_bytes=data.draw(st.sampled_from([100, 10_000])),
    )
    kinds = [data.draw(points(f"P{index}")) for index in range(data.draw(st.integers(1, 3)))]
    shelf = Shelf({index: json.dumps(kind) for index, kind in enumerate(kinds)})
    values = [
        data.draw(damaged(framed(body(data.draw, kinds[index], {}), index)))
        for index in data.draw(st.lists(st.integers(0, len(kinds) - 1), min_size=1, max_size=5))
    ]
    both([*values, None, b"", framed(b"", 99)], shelf, config, labeled=data.draw(st.booleans()))


@given(text=st.text(max_size=20) | st.text(st.sampled_from("aé€😀\x7f\x80"), max_size=20), junk=st.binary(max_size=12))
@settings(max_examples=examples(1500), deadline=None)
@example(text="", junk=b"\xed\x9f\xbf\xee\x80\x80")
@example(text="abcdefg", junk=b"\xf4\x8f\xbf\xbf")
def test_text_is_utf_8_where_python_says_so(text: str, junk: bytes) -> None:
    """Every text of Python is; bytes are where Python can decode them."""
    for content in (text.encode(), text.encode() + junk, junk + text.encode()):
        shape = schema_of({"x": INTS, "id": "string"})
        value = framed(zigzag(2) + zigzag(1) + zigzag(1) + zigzag(0) + sized(content))
        try:
            content.decode()
        except UnicodeDecodeError:
            expected = -1
        else:
            expected = 1
        assert both([value], Shelf({1: json.dumps(shape)}), labeled=False) == [expected]


def test_integers_of_every_length_are_read_alike() -> None:
    """Those of ten bytes too; what is longer, or beyond 64 bits, is left to the general reader."""
    shape = schema_of({"x": {"type": "array", "items": "long"}, "y": "long"})
    shelf = Shelf({1: json.dumps(shape)})
    for power in range(63):
        for number in (2**power, -(2**power), 2**power - 1):
            assert both([framed(zigzag(2) + zigzag(number) + zigzag(1) + zigzag(0) + zigzag(1))], shelf) == [1]
    padded = [bytes([0x82] + [0x80] * more + [0]) for more in range(12)]
    taken = both([framed(zigzag(2) + one + zigzag(1) + zigzag(0) + zigzag(1)) for one in padded], shelf)
    assert taken == [1] * 9 + [-1] * 3
    assert both([framed(zigzag(2) + b"\xff" * 9 + b"\x03" + zigzag(1) + zigzag(0) + zigzag(1))], shelf) == [-1]


def test_schemas_that_are_too_large_are_left_to_the_general_reader() -> None:
    """Few named types can stand for very many instructions, or, where they are empty, for none at all."""
    for leaf in ([{"name": "a", "type": "int"}], []):
        kind: Any = {"type": "record", "name": "L0", "fields": leaf}
        for level in range(1, 14):
            kind = {"type": "record", "name": f"L{level}", "fields": [
                {"name": "a", "type": kind}, {"name": "b", "type": f"L{level - 1}"}]}  # fmt: skip
        row = schema_of({"x": INTS, "y": "int", "z": kind})
        value = framed(zigzag(2) + zigzag(1) + zigzag(1) + zigzag(0) + zigzag(1) + zigzag(3) * (2**13 if leaf else 0))
        large = CONFIG.model_copy(update={"max_record_bytes": 10**6})
        assert both([value], Shelf({1: json.dumps(row)}), large) == []
    assert avro_programs.MOST_INSTRUCTIONS < 2**13


def test_a_block_that_announces_any_number_of_items_takes_no_memory() -> None:
    """Neither of rows nor of what is passed over."""
    row = schema_of({"z": INTS, "x": INTS, "y": "int"})
    shelf = Shelf({1: json.dumps(row), 2: json.dumps({"type": "array", "items": row})})
    good = zigzag(0) + zigzag(2) + zigzag(1) + zigzag(1) + zigzag(0) + zigzag(1)
    for count in (2**62, -(2**62), -(2**63), 2**63 - 1, 7, -7):
        block = zigzag(count) + (zigzag(1) if count < 0 else b"")
        assert (
            both([framed(block + good), framed(zigzag(1) + block + good, 2), framed(block + good, 2)], shelf)
            == [-1] * 3
        )
    six, seven = (framed(zigzag(count) + good * count + zigzag(0), 2) for count in (6, 7))
    assert both([framed(good), six, seven], shelf) == [1, 6, -1]


def test_a_record_that_is_too_large_asks_nobody() -> None:
    """What its size decides must not wait for a registry that is away."""
    shelf = Shelf({1: POINT, 2: POINTS}, away=True)
    made, _ = decoder(CONFIG.model_copy(update={"max_record_bytes": 100}), shelf, labeled=True, compiled=True)
    (rejected,) = made.decode([Raw(framed(bytes(200)), 0, headers=AVRO)]).rejected
    assert rejected.rejections[0].reason == "oversize_record"
    with pytest.raises(TransientError):
        made.decode([Raw(framed(bytes(50)), 0, headers=AVRO)])
    assert shelf.asked == [1]

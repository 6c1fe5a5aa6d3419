"""What decoding a record may take: bombs of every format are refused before they go off, under a memory limit, too."""

from __future__ import annotations

import base64
import json
import resource
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from streamsvm.config import PointsConfig
from streamsvm.errors import InvalidPoint
from streamsvm.ingest import AvroWriter, PointDecoder, arrow, json_rows
from tests.contract.cases import cases
from tests.ingest.rows import ARROW, AVRO, POINTS, SHELF, Raw, Shelf, as_arrow, as_avro, as_json, few_rows, zigzag

CONFIG = PointsConfig(dimension=2, labels=(0, 1))
GOOD = as_arrow(np.array([[1.0, 2.0], [3.0, 4.0]]), [0, 1])
MEGABYTE = 1_000_000


def reasons(
    value: bytes, headers: Sequence[tuple[str, bytes]] = (), config: PointsConfig = CONFIG, shelf: Shelf | None = None
) -> set[str]:
    """Return why rows of one record are rejected."""
    decoded = PointDecoder(config, schemas=shelf).decode([Raw(value, headers=tuple(headers))])
    return {bad.reason for one in decoded.rejected for bad in one.rejections}


COMPRESSED = zlib.decompress(base64.b85decode(
    b"c-rmTze~eF6bJCvON~K7$<QH!NOX{Hb`%$N5Zr_=j{Xc-=r7uU)k$~%1pfqAccGh;|AnjnfSm8$kD6xD(cydWNqU!e@7-"
    b"OxMr*C38c{;hRw$;BmMG$1+-d>$iF*-"
    b"W>+VVvuxr+K{ep8yu;ggEF*BXrunY5C(UXl+61P@~yES!UwruLi@IGJO?VO}pnj`Tocc1clBOVP&D#$*X+z&ZRY<hNIc5UUFa_<&-"
    b"pUnKw%$E#YPM>k&lzeOOJbNYy=WNJO5KxconT^`>K(n6M?W68a&7X(3n-o_Px6Teao#T_;d^*a<-"
    b"F`kO&U>eq!~STTPbS^rz`l#r<&k&s=<2DTa=gdCw^et~D&xMt;qFJ3=f1yH+GoA84l13iZ|ax6uiJXr{>rjLv$+~=zWTVN{5*MBJmkfe`nY>pZ"
    b"2CN3^yeP`RX=n#dkfT#Qk)Y200000000000000000000000000091{z<f)f&37b3-&kfEL;"
))  # fmt: skip
"""A stream of two rows, of version 4 and compressed as Arrow 0.17 was, whose last buffer unpacks to 400 MB.

Its framing is that of an uncompressed stream but for the version, and the key `ARROW:experimental_compression` of the
batch's metadata. A case of the contract has one that unpacks to a megabyte.
"""


def test_arrow_itself_unpacks_what_hides_its_compression() -> None:
    """The oracle: pyarrow takes the stream for compressed, so that only our look at its version keeps it out."""
    (case,) = (case for case in cases("points") if case.name.endswith("compressed as Arrow 0.17 was"))
    table = pa.ipc.open_stream(case.value).read_all()
    assert table.column("w").chunk(0).buffers()[1].size == 1 << 20 > 1_000 * len(case.value or b"")


def columns_of_nothing(columns: int, rows: int) -> bytes:
    """Return a stream with as many columns of nulls, which take no bytes."""
    names = [f"f{index}" for index in range(columns)]
    batch = pa.record_batch([pa.nulls(rows)] * columns, names=names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


DOUBLES = {"type": "array", "items": "double"}


def record(name: str, *fields: object) -> dict[str, object]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": "x" if index == 0 else f"f{index}", "type": kind} for index, kind in enumerate(fields)],
    }


def nested_nothing(depth: int, width: int) -> dict[str, object]:
    """Return a record that holds records that hold records ... of nulls: width^depth of them, without a byte."""
    inner: object = "null"
    for level in range(depth):
        inner = record(f"N{level}", inner, *([f"N{level - 1}" if level else "null"] * (width - 1)))
    return record("P", DOUBLES, inner)


def one_in_another(levels: int) -> dict[str, object]:
    """Return a record that holds a record ... so deep, whose text is flat: each type names the one before it."""
    chain: list[dict[str, object]] = [{"type": "record", "name": "N0", "fields": []}]
    chain += [record(f"N{level}", f"N{level - 1}") for level in range(1, levels)]
    return record("P", DOUBLES, ["null", *chain], f"N{levels - 1}")


NAMESAKES = record("a.P", DOUBLES, {"type": "record", "name": "b.P", "fields": []}, ["null", "a.P"])
"""Holds itself, behind another type of the same name."""
LESS_THAN_NOTHING = record("Q", *(["null"] * 500), ["null", {"type": "fixed", "name": "F", "size": -5}])
"""Items whose sizes would add up to less than nothing."""
EMPTY_ROWS = {"type": "array", "items": record("P", DOUBLES)}
SCHEMAS = Shelf(
    {
        1: json.dumps(nested_nothing(16, 16)),
        2: json.dumps({"type": "array", "items": record("P", DOUBLES, *(["null"] * 20_000))}),
        3: json.dumps(EMPTY_ROWS),
        4: json.dumps(record("P", DOUBLES, {"type": "array", "items": record("Q", "int", *(["null"] * 500))})),
        5: json.dumps(record("R", DOUBLES, nested_nothing(16, 16), {"type": "fixed", "name": "F", "size": 2_000})),
        6: json.dumps(record("P", DOUBLES, {"type": "array", "items": LESS_THAN_NOTHING})),
        7: json.dumps(NAMESAKES),
        8: json.dumps(one_in_another(11_000), separators=(",", ":")),
        9: json.dumps(one_in_another(400)),
    }
)


def framed(schema_id: int, datum: bytes) -> bytes:
    return b"\0" + struct.pack(">I", schema_id) + datum


def in_blocks(rows: int, each: int) -> bytes:
    """Return an array of empty rows in blocks of a few."""
    return framed(3, (zigzag(each) + bytes(each)) * (rows // each) + b"\0")


WIDE = PointsConfig(dimension=4_000, labels=(0, 1), feature_names=tuple(f"f{index}" for index in range(4_000)))
LIMIT = 256 * CONFIG.max_record_bytes


@dataclass(frozen=True)
class Bomb:
    """A record that once was decoded into hundreds of megabytes, or more."""

    value: Callable[[], bytes]
    reason: str
    headers: tuple[tuple[str, bytes], ...] = ()
    config: PointsConfig = CONFIG


BOMBS = {
    "arrow-compressed": Bomb(lambda: COMPRESSED, "malformed_arrow", ARROW),
    "arrow-columns-of-nothing": Bomb(lambda: columns_of_nothing(4_000, 10_000), "too_many_rows", ARROW, WIDE),
    "avro-nothing-in-nothing": Bomb(lambda: framed(1, b"\0"), "incompatible_schema", AVRO),
    "avro-rows-of-nothing": Bomb(lambda: framed(2, zigzag(9_000) + bytes(9_001)), "incompatible_schema", AVRO),
    "avro-small-blocks": Bomb(lambda: in_blocks(MEGABYTE * 4 // 5, 5), "too_many_rows", AVRO),
    "avro-field-of-nothings": Bomb(
        lambda: framed(4, b"\0" + zigzag(900_000) + bytes(900_001)), "incompatible_schema", AVRO
    ),
    "avro-nothing-before-what-is-cut-off": Bomb(lambda: framed(5, b"\0\0"), "incompatible_schema", AVRO),
    "avro-negative-size": Bomb(
        lambda: framed(6, b"\0" + zigzag(200_000) + bytes(200_001)), "incompatible_schema", AVRO
    ),
    "avro-namesakes-without-a-bottom": Bomb(
        lambda: framed(7, b"\0\2" * 400_000 + b"\0\0"), "incompatible_schema", AVRO
    ),
    "avro-one-in-another": Bomb(lambda: framed(8, b"\0\0"), "incompatible_schema", AVRO),
    "json-empty-objects": Bomb(lambda: b"[" + b"{}," * 333_000 + b"{}]", "too_many_rows"),
    "json-nested-objects": Bomb(
        lambda: b'{"x":[1,2],"y":NaN,"z":[' + (b'{"":' * 90 + b"0" + b"}" * 90 + b",") * 2_000 + b"0]}", "unknown_label"
    ),
    "json-bad-rows-of-many-features": Bomb(
        lambda: b"[" + b"{}," * 9_000 + b"{}]", "too_many_rows", (), PointsConfig(dimension=100_000)
    ),
}


def test_no_bomb_goes_off(tmp_path: Path) -> None:
    """A process that has no more memory than the limit decodes each to one reason, and no MemoryError."""
    for name, one in BOMBS.items():
        (tmp_path / name).write_bytes(value := one.value())
        assert len(value) <= MEGABYTE
    found = subprocess.run(
        [sys.executable, "-m", "tests.ingest.test_bounds", tmp_path],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        timeout=300,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == {name: [one.reason] for name, one in BOMBS.items()}


def under_a_limit(folder: Path) -> dict[str, list[str]]:
    """Return why each bomb is rejected, within the memory that the process has now and what a record may take."""
    for good, headers in ((GOOD, ARROW), (framed(3, b"\2\0\0"), AVRO), (b'[{"x":[1,2],"y":1}, 7]', ())):
        reasons(good, headers, shelf=SCHEMAS)  # loads what is loaded once
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + LIMIT,) * 2)
    return {
        name: sorted(reasons((folder / name).read_bytes(), one.headers, one.config, SCHEMAS))
        for name, one in BOMBS.items()
    }


def test_types_of_one_name_in_two_namespaces_are_two() -> None:
    """A point may hold both, and one of them again; and types may name one another some levels deep."""
    inner = {"type": "record", "name": "b.P", "fields": [{"name": "a", "type": "int"}]}
    fields = [("x", DOUBLES), ("y", "int"), ("f", inner), ("g", "b.P")]
    point = {"type": "record", "name": "a.P", "fields": [{"name": name, "type": kind} for name, kind in fields]}
    value = framed(1, zigzag(2) + struct.pack("<dd", 1.0, 2.0) + b"\0" + zigzag(1) + zigzag(5) + zigzag(6))
    assert reasons(value, AVRO, shelf=Shelf({1: json.dumps(point)})) == set()
    assert reasons(framed(9, b"\0\0"), AVRO, shelf=SCHEMAS) == {"wrong_dimension"}


def test_a_full_record_of_plain_points_is_not_refused() -> None:
    """No bound is in the way of an ordinary record."""
    x = np.zeros((10_000, 8))
    config = PointsConfig(dimension=8, labels=(0, 1))
    y = [1] * len(x)
    for value, headers in ((as_json(x, y), ()), (as_arrow(x, y), ARROW), (as_avro(x, y), AVRO)):
        assert 0.3 * MEGABYTE < len(value) < MEGABYTE
        assert reasons(value, headers, config, SHELF) == set()


def test_rows_in_many_blocks_are_counted_and_kept() -> None:
    """An Avro array in small blocks that stays within its rows comes out as one in one block, also row by row."""
    config = few_rows(100)(dimension=2, labels=(0, 1))
    one = AvroWriter(POINTS, 2).encode([{"x": [1.0, 2.0], "y": 1, "w": None, "id": None}])[6:-1]
    with_size = zigzag(-2) + zigzag(2 * len(one)) + one * 2
    value = framed(2, (zigzag(1) + one) * 50 + with_size * 20 + b"\0")
    padded = framed(2, (zigzag(1) + one) * 50 + with_size * 26 + b"\0")
    assert reasons(value, AVRO, config, SHELF) == set()
    assert reasons(padded, AVRO, config, SHELF) == {"too_many_rows"}
    assert reasons(value[:-1], AVRO, config, SHELF) == {"malformed_avro"}


def test_memory_that_is_not_there_is_no_rejection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's own error for it is also one of damaged streams; it passes all the same."""

    def none_left(*arguments: object, **options: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 64 failed")

    monkeypatch.setattr(arrow.pa.ipc, "open_stream", none_left)
    with pytest.raises(MemoryError):
        reasons(GOOD, ARROW)


def test_rows_are_counted_before_they_are_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte of zeros is refused for its rows, and none of them is looked at."""

    def convert(row: object) -> InvalidPoint:
        raise AssertionError(row)

    monkeypatch.setattr(json_rows, "convert_row", convert)
    assert reasons(b"[" + b"0," * 400_000 + b"0]") == {"too_many_rows"}
    assert reasons(b"[" + b"NaN," * 200_000 + b"0]") == {"too_many_rows"}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(under_a_limit(Path(sys.argv[1]))))

"""What is fed with cases: each reader of foreign bytes of the trunk, what it may answer, what a reference says.

A target's `look` returns a word for what became of each of a few cases, for the counts. Whatever it raises is an
*escape*: an error that the reader may not raise, or an `AssertionError` where reader and reference differ.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import selectors
import socket
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import fastavro
import msgspec
import numpy as np
import pyarrow as pa
from prometheus_client import CollectorRegistry

from consumers.host.runtime import Health
from consumers.host.web.access import Names
from consumers.host.web.connections import HttpConnection, Phase
from consumers.host.web.head import HttpRequest
from consumers.host.web.server import _listen, _Loop, _Routes
from consumers.settings import HttpConfig
from consumers.streams.score_settlement import positions_of
from streamsvm import places
from streamsvm.checkpoint import format as checkpoint
from streamsvm.checkpoint import records
from streamsvm.delivery.settlement import AttemptRecord
from streamsvm.errors import CorruptCheckpoint, InvalidMessage
from streamsvm.ingest import dead_letter as deadletter
from streamsvm.ingest.decoder import (
    DEEPEST_NESTING,
    LARGEST_FEATURE,
    LARGEST_WEIGHT,
    SMALLEST_WEIGHT,
    Decoded,
    PointDecoder,
)
from streamsvm.ingest.framed import FRAME
from streamsvm.ingest.label_records import LabelDecoder
from streamsvm.ingest.scored import scores_of
from streamsvm.kafka import Record
from streamsvm.kafka.attempts import Stamp
from streamsvm.model import deciles_header, skill_header
from streamsvm.model import message as model_codec
from streamsvm.model.pointers import decode_alias, decode_head, decode_owner, decode_retired
from streamsvm.model.version import version_number
from streamsvm.registry.loading import _published_at
from streamsvm.verification.auditor import incarnation_in
from tests.fuzz.mutation import Mutator
from tests.golden import HERE
from tests.ingest.rows import ARROW, AVRO, POINT, POINTS, InColumns, Raw, Shelf, few_rows

CORPUS: Final = Path(__file__).parent / "corpus"
LARGEST: Final = LARGEST_FEATURE["float64"]
INTEGER_DIGITS: Final = 0
"""No limit on the digits of an integer: the reference shall read what is written."""
NEIGHBOURS: Final = (b'{"x":[5,6],"y":1}', b"nonsense")

Row = tuple[tuple[float, ...], Any, float] | None
"""Features, label and weight; None where there is no point."""


@dataclass(frozen=True)
class Target:
    """A reader under attack."""

    name: str
    corpus: Callable[[], Sequence[bytes]]
    words: Sequence[bytes]
    look: Callable[[Sequence[bytes]], list[str]]

    def mutator(self) -> Mutator:
        """Return what makes its cases."""
        return Mutator(self.corpus(), self.words)


def kept(name: str, *also: Path) -> Callable[[], Sequence[bytes]]:
    """Return the corpus of a target: its kept files, and others; that of what it is the flat form of."""
    name = name.removesuffix("-flat")

    def read() -> Sequence[bytes]:
        found = [path.read_bytes() for path in (*sorted((CORPUS / name).glob("*")), *also)]
        assert found, f"there is no corpus in {CORPUS / name}"
        return found

    return read


# ------------------------------------------------------------------------------------------------------------ records

LABELED: Final = few_rows(20)(dimension=2, labels=(-1, 1), dtype="float64")
ODD_FIELDS: Final = [
    {"name": "x", "type": {"type": "array", "items": "float"}},
    {"name": "y", "type": ["boolean", "int", "string"]},
    {"name": "op", "type": ["null", {"type": "map", "values": "bytes"}]},
    {"name": "w", "type": ["null", "float", "string"]},
]
ODD: Final = {"type": "array", "items": {"type": "record", "name": "Odd", "fields": ODD_FIELDS}}
SHELF: Final = Shelf({1: POINT, 2: POINTS, 3: json.dumps(ODD)})


MANY: Final = "first"
OTHERS: Final = "other neighbours"
ALONE: Final = "alone"
ALONE_ONE_IN: Final = 16
AGAIN_ONE_IN: Final = 4
"""Of the cases that are rejected, and that the reference is certain of, so many are looked at a second time."""


Decoders = Callable[[str, bool], PointDecoder]
"""Returns a decoder of labeled rows or not; each place has one of its own, which has met other fields before."""


@cache
def _of_points(place: str, labeled: bool) -> PointDecoder:
    return PointDecoder(LABELED, labeled=labeled, schemas=SHELF)


def _decoded(
    records: Sequence[Raw], place: str, decoders: Decoders, *, labeled: bool
) -> tuple[list[list[Row]], Decoded]:
    """Return what the decoder makes of each record, whose offsets are 0, 1, ..., and its answer."""
    found = decoders(place, labeled).decode(records)
    made: list[list[Row]] = [[] for _ in records]
    for rows in found.rows:
        points = rows.points
        for at, good, x, sign, weight in zip(
            rows.offset.tolist(), rows.accepted.tolist(), points.X.tolist(), points.y.tolist(),
            points.weight.tolist(), strict=True,
        ):  # fmt: skip
            assert not good or all(abs(one) <= LARGEST_FEATURE["float64"] for one in x), f"{x} is accepted"
            made[at].append((tuple(x), sign if labeled else None, weight) if good else None)
    told = {(one.record.offset, bad.row) for one in found.rejected for bad in one.rejections}
    without = {(at, row) for at, rows in enumerate(made) for row, one in enumerate(rows) if one is None}
    assert told <= without
    assert len(without - told) == sum(found.passed_over.values())
    return made, found


Reference = Callable[[bytes, bool, list[Row]], tuple[list[Row] | None, bool]]
"""Gives the rows of a record, labeled or not, or None where it cannot tell them apart, and whether that is certain.

The third argument is what the decoder made of it, for a reference that may only be asked about what was accepted.

Where it is not, the record may be rejected; but what is accepted must be what the reference says.
"""


def of_records(
    headers: tuple[tuple[str, bytes], ...], reference: Reference, decoders: Decoders = _of_points
) -> Callable[[Sequence[bytes]], list[str]]:
    """Look at records: each comes out of every batch as it does alone, and as a reference says.

    All are decoded together, and compared with the reference. What is accepted, what the reference is not certain of,
    and some of the rest are decoded again, among others, by another decoder, in columns, of two partitions; one in
    `ALONE_ONE_IN`, and a case that is looked at by itself, alone as well. Whether a case is decoded as a labeled point,
    and how often, are functions of its bytes only.
    """

    def look(values: Sequence[bytes]) -> list[str]:
        found = [""] * len(values)
        for labeled in (False, True):
            some = [at for at, value in enumerate(values) if bool(len(value) % 3) == labeled]
            for at, said in zip(some, together([values[at] for at in some], labeled) if some else (), strict=True):
                found[at] = said
        return found

    def together(values: Sequence[bytes], labeled: bool) -> list[str]:
        chosen = [*values, *NEIGHBOURS]
        many = [Raw(v, at, headers=headers) for at, v in enumerate(chosen)]
        among, answer = _decoded(many, MANY, decoders, labeled=labeled)
        for one in answer.rejected:  # each can be written as a dead letter
            deadletter.encode("topic", one, None, (), model="m")
            reasons = [bad.reason for bad in one.rejections]
            assert "undecodable" not in reasons, f"the decoder failed unexpectedly: {one.rejections[0].what}"
        again, singles = [], []
        for at, value in enumerate(values):
            expected, certain = reference(value, labeled, among[at])
            _compare(among[at], expected, certain)
            draw = zlib.crc32(value)
            if any(among[at]) or not certain or not draw % AGAIN_ONE_IN:
                again.append(at)
            if not draw % ALONE_ONE_IN or len(values) == 1:
                singles.append(at)
        again.reverse()
        records = [Raw(values[at], place, place % 2, headers=headers) for place, at in enumerate(again)]
        others = _decoded(InColumns(records), OTHERS, decoders, labeled=labeled)[0] if again else []
        for at, other in zip(again, others, strict=True):
            assert other == among[at], f"{other} among some records, {among[at]} among others"
        for at in singles:
            (alone,), _ = _decoded([Raw(values[at], headers=headers)], ALONE, decoders, labeled=labeled)
            assert alone == among[at], f"alone {alone}, among others {among[at]}"
        return ["accepted" if any(among[at]) else "rejected" for at in range(len(values))]

    return look


def _compare(found: list[Row], expected: list[Row] | None, certain: bool) -> None:
    if expected is None or (not certain and not any(found)):
        assert not any(found), f"decoded {found}, the reference cannot"
    elif certain:
        assert found == expected, f"decoded {found}, the reference says {expected}"
    else:
        pairs = zip(found, expected, strict=True)
        assert all(row in (None, other) for row, other in pairs), f"decoded {found}, the reference says {expected}"


def messages(look: Callable[[bytes], str]) -> Callable[[Sequence[bytes]], list[str]]:
    """Look at one message after the other."""
    return lambda values: [look(value) for value in values]


def point_of(row: Any, *, labeled: bool) -> Row:
    """Return a point by the rules as they are documented, of a decoded object."""
    if not isinstance(row, dict) or not isinstance(row.get("x"), list) or row.get("op") is not None:
        return None
    x, weight, y, mark = row["x"], row.get("w", 1.0), row.get("y"), row.get("id")
    if not all(is_number(entry) for entry in (*x, weight)) or not all(map(is_text, (*row, mark))):
        return None
    if not isinstance(y, bool | int | float | str | None) or isinstance(mark, bool | float | list | dict):
        return None
    entries, u = tuple(map(as_float, x)), as_float(weight)
    if len(entries) != LABELED.dimension or not all(abs(entry) <= LARGEST for entry in entries):
        return None
    if not SMALLEST_WEIGHT <= u <= LARGEST_WEIGHT:
        return None
    if labeled and (isinstance(y, bool | str) or y not in LABELED.labels):
        return None
    return entries, (int(y) if labeled else None), u


def is_number(entry: Any) -> bool:
    """Tell whether a value is a number of JSON."""
    return isinstance(entry, int | float) and not isinstance(entry, bool)


def is_text(text: Any) -> bool:
    """Tell whether a value is something else than text with half of a surrogate pair."""
    return not isinstance(text, str) or not any("\ud800" <= one <= "\udfff" for one in text)


def as_float(number: float) -> float:
    """Return a number as float64, infinite beyond its range."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _json_rows(value: bytes, labeled: bool, _: list[Row]) -> tuple[list[Row] | None, bool]:
    """Return what Python's own parser makes of a record; not certain of what is no UTF-8 in a field that is ignored."""
    if depth(value) > DEEPEST_NESTING:
        return [None], True
    parsed, certain = loads(value)
    if parsed is None:
        return None, True
    rows = parsed if isinstance(parsed, list) else [parsed]
    found = [point_of(row, labeled=labeled) for row in rows]
    return ([None] if not rows or len(rows) > LABELED.ROWS_PER_RECORD else found), certain


def loads(value: bytes) -> tuple[Any, bool]:
    """Parse JSON, or bytes that are JSON but for what stands in their texts; the latter is not certain."""
    with suppress(ValueError):
        return json.loads(value.decode()), True
    with suppress(ValueError):
        return json.loads(value.decode(errors="replace"), strict=False), False
    return None, True


def depth(value: bytes) -> int:
    """Return how deep JSON nests; 0 where it cannot nest too deep."""
    if value.count(b"[") + value.count(b"{") <= DEEPEST_NESTING:
        return 0
    deepest = depth = 0
    for byte in value:
        depth += (byte in b"[{") - (byte in b"]}")
        deepest = max(deepest, depth)
    return deepest


def _arrow_rows(value: bytes, labeled: bool, ours: list[Row]) -> tuple[list[Row] | None, bool]:
    """Return what pyarrow's own reader makes of a record that we accept something of; else ours stands."""
    if not any(ours):  # pyarrow reads unchecked what we have refused, and may well end the process
        return ours, True
    read = ("x", "y", "w", "id", "op")
    names = pa.ipc.open_stream(value).schema.names
    options = pa.ipc.IpcReadOptions(included_fields=[index for index, name in enumerate(names) if name in read])
    try:
        rows = pa.ipc.open_stream(value, options=options).read_all().to_pylist()
    except UnicodeDecodeError:  # a name inside of `op`, of which only is read whether it is null
        return ours, True
    return [point_of(_without_nulls(row), labeled=labeled) for row in rows], True


def _without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    return {name: cell for name, cell in row.items() if cell is not None}


@cache
def _parsed(text: str | None) -> Any:
    return None if text is None else fastavro.parse_schema(json.loads(text))


def _avro_rows(value: bytes, labeled: bool, _: list[Row]) -> tuple[list[Row] | None, bool]:
    """Return what fastavro makes of a record."""
    data = avro_data(value, SHELF)
    return (None if data is None else [point_of(_without_nulls(row), labeled=labeled) for row in data]), True


def avro_data(value: bytes, shelf: Shelf) -> list[Any] | None:
    """Return what fastavro makes of a value that names a schema; None if it refuses it."""
    if len(value) < FRAME.size or value[0]:
        return None
    schema = _parsed(shelf.schema(FRAME.unpack_from(value)[1]))
    if schema is None:
        return None
    body = io.BytesIO(value[FRAME.size :])
    try:
        datum: Any = fastavro.schemaless_reader(body, schema, None)
    except Exception:  # noqa: BLE001 - whatever a foreign library raises for foreign bytes
        return None
    rows = datum if isinstance(datum, list) else [datum]
    return None if body.read(1) or not rows or len(rows) > LABELED.ROWS_PER_RECORD else rows


# ----------------------------------------------------------------------------------------------------------- messages


def _model(value: bytes) -> str:
    try:
        version = model_codec.decode(value)
    except InvalidMessage:
        return "refused"
    again = model_codec.decode(model_codec.encode(version))
    assert (again.key, again.labels, again.lineage) == (version.key, version.labels, version.lineage)
    assert np.isfinite(version.model.decision_function(version.model.scaler.mean[None])).all()
    assert len(json.loads(value)["features"]["mean"]) == version.model.dimension
    return "accepted"


def plain_record(decode: Callable[[bytes], Any], *, passes_over: bool = False) -> Callable[[bytes], str]:
    """Look at a record: what it says is what was written, with nothing left out but names that readers pass over."""

    def look(value: bytes) -> str:
        try:
            found = decode(value)
        except InvalidMessage:
            return "refused"
        plain = json.loads(msgspec.json.encode(found))
        # A name that is passed over may be of any bytes.
        told = json.loads(value.decode(errors="replace")) if passes_over else json.loads(value)
        told = {name: one for name, one in told.items() if name in plain or not passes_over}
        assert {name: plain[name] for name in told} == told, f"{plain} of {told}"
        return "accepted"

    return look


def _dead_letter(value: bytes) -> str:
    """Read a dead letter whose headers are the lines of the case, name and content apart by a colon."""
    headers = [line.partition(b":")[::2] for line in value.split(b"\n")]
    try:
        found = deadletter.decode(value, [(name.decode("latin-1"), content) for name, content in headers])
    except InvalidMessage:
        return "refused"
    assert found.rows
    return "accepted"


def headers_of(case: bytes) -> tuple[tuple[tuple[str, bytes], ...], bytes]:
    """Return the headers of a case, its lines up to an empty one, and the rest: its value."""
    head, _, value = case.partition(b"\n\n")
    lines = [line.partition(b":")[::2] for line in head.split(b"\n")]
    return tuple((name.decode("latin-1"), content) for name, content in lines), value


INT64: Final = 1 << 63


def _part(headers: tuple[tuple[str, bytes], ...]) -> AttemptRecord:
    """Return a record of an attempt to write scores."""
    return AttemptRecord(
        attempt="a", number=1, parts=1, topic="scores", partition=0, offset=1, key=b"k", value=b"", headers=headers,
        visible=True,
    )  # fmt: skip


def _source(case: bytes) -> str:
    """Read where a score of any headers says that it comes from: whatever is made of it fits into the arrays."""
    headers, value = headers_of(case)
    place = places.source_of(headers)
    assert place is None or (0 <= place.partition < 1 << 31 and 0 <= place.offset + 1 < INT64)
    scores_of(value, headers, "points", "m")
    positions_of([_part(headers)], "points")
    return "refused" if place is None else "accepted"


def _version_headers(case: bytes) -> str:
    """Read what the headers of a version's record tell: each is in its range, or is none."""
    headers, key = headers_of(case)
    told = dict(headers)
    number, incarnation = version_number(key, "m"), incarnation_in(told)
    record = Record("models", 0, 1, key, b"", headers, INT64 - 1, None)
    assert all(one is None or -1 <= one < INT64 - 1 for one in (number, incarnation))
    published = _published_at(record)
    assert published is None or places.time_of(published) is None or math.isfinite(published)
    found = [skill_header.decode(headers), deciles_header.decode(headers), Stamp.of(headers)]
    return "accepted" if any(one is not None for one in (number, incarnation, published, *found)) else "refused"


class _OfLabels(NamedTuple):
    """A record of a labels topic."""

    value: bytes
    key: bytes | None = b"k"
    headers: tuple[tuple[str, bytes], ...] = ()
    partition: int = 0
    offset: int = 3
    timestamp_ms: int | None = None
    leader_epoch: int | None = None


def _labels(value: bytes) -> str:
    """Read a record of a labels topic, by its own key and by ids: each row is a label, or is rejected."""
    accepted = 0
    for key in ("record", "id"):
        (labels,), rejected = LabelDecoder(LABELED, key).decode([_OfLabels(value)])
        refused = {rejection.row for record in rejected for rejection in record.rejections}
        assert {row for row, sign in enumerate(labels.sign.tolist()) if not sign} == refused
        assert not any(one.reason == "undecodable" for record in rejected for one in record.rejections)
        accepted += len(labels.sign) - len(refused)
    return "accepted" if accepted else "refused"


def _checkpoint(value: bytes) -> str:
    """Read a checkpoint whose checksum is right, whatever else is wrong: what a defect of ours, or a person, writes."""
    for content in (value, _sealed(value)):
        try:
            snapshot = checkpoint.decode(content)
        except CorruptCheckpoint:
            continue
        again = checkpoint.decode(checkpoint.encode(snapshot))
        assert again.keys() == snapshot.keys() if isinstance(snapshot, Mapping) else type(again) is type(snapshot)
        return "accepted"
    return "refused"


def _state_record(value: bytes) -> str:
    """Read a bucket's record, or a partition's without buckets, whose checksum is right, whatever else is wrong."""
    accepted = False
    for content in (value, _sealed(value)):
        with suppress(CorruptCheckpoint):
            name, bucket = records.decode_bucket(content)
            again = records.encode_bucket(bucket)
            assert records.decode_bucket(again.value)[0] == again.name
            assert (again.name.level, again.name.index) == (name.level, name.index)
            accepted = True
        with suppress(CorruptCheckpoint):
            partition, state = records.decode_partition(content, {})
            again_, found = records.decode_partition(records.encode_partition(partition, state, ()), {})
            assert (again_, found.position) == (partition, state.position)
            accepted = True
    return "accepted" if accepted else "refused"


def _sealed(value: bytes) -> bytes:
    size = hashlib.sha256().digest_size
    return value[:-size] + hashlib.sha256(value[:-size]).digest() if len(value) > size else value


# --------------------------------------------------------------------------------------------------------------- HTTP


class _AtOnce(_Routes):
    """Makes every answer in the thread that asks for it."""

    def later(self, request: HttpRequest, address: str, then: Callable[[bytes], None]) -> bool:
        """Make it."""
        then(self.answer(request))
        return True


@cache
def _http_loop() -> _Loop:
    config = HttpConfig(port=0)
    return _Loop(
        _listen(config), Names(config), _AtOnce(Health(stuck_after_s=60.0), CollectorRegistry(), lambda _: None)
    )


STATUSES: Final = frozenset(
    map(int, ["200", "304", "400", "403", "404", "405", "408", "413", "414", "421", "431", "501", "503", "505"])
)


def _http(value: bytes) -> str:
    """Read one request, after which the client says no more, as the loop does; the answer is one of a few."""
    loop = _http_loop()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.sendall(value)
        theirs.shutdown(socket.SHUT_WR)
        connection = HttpConnection(socket=ours, address="127.0.0.1", begun_at=0.0)
        loop._selector.register(ours, selectors.EVENT_READ, connection)
        try:
            loop._read(connection)
        except ConnectionAbortedError:
            return "none"
        finally:
            with suppress(KeyError):
                loop._selector.unregister(ours)
            loop._connections.remove(connection)
    answer = bytes(connection.unsent) if connection.phase is Phase.WRITING else loop._answers.popleft()[1]
    assert not loop._answers
    status = int(answer.split(b" ", 2)[1])
    assert answer.startswith(b"HTTP/1.")
    assert status in STATUSES, answer[:80]
    assert answer.count(b"\nHTTP/1.") == 0
    return str(status)


# --------------------------------------------------------------------------------------------------------------- all

JSON_WORDS: Final = tuple(
    word.encode("utf-8", "surrogatepass")
    for word in (
        '"x":[1,2]',
        '"y":1',
        '"y":-1',
        '"w":2.5',
        '"id":"a"',
        '"op":1',
        '"z":',
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        '"',
        "\\",
        "\\ud800",
        '"\\ud800"',
        '"\\ud83d\\ude00"',
        "\\u0000",
        "\ud800",
        "null",
        "true",
        "NaN",
        "-Infinity",
        "1e400",
        "1e-400",
        "-0",
        "-0.0",
        "1e12345678",
        "9007199254740993",
        "18446744073709551616",
        "0.1",
        "\ufeff",
        " ",
        "\n",
        "é",
        "\x00",
        "\x1f",
        "5e-324",
        "1.7976931348623157e308",
        "[" * 60,
        "]" * 60,
        '"x"',
        '"y"',
        '"w"',
        "1",
        "2",
        "-1",
    )
)
MODEL_WORDS: Final = (
    *JSON_WORDS,
    b'"version":1',
    b'"number":',
    b'"sha256":',
    b'"offset":',
    b'"probes":',
    b'"mean":[0]',
    b"streamsvm.model/1",
    b'{"part":"info_x"},',
    b'"part":"',
    b"info_",
    b'"parts":[]',
    b"1e308",
    b"-1e308",
    b"AAAA",
    b"=",
)
HTTP_WORDS: Final = (
    b"GET ",
    b"POST ",
    b"HEAD ",
    b"/metrics",
    b"/healthz",
    b"/readyz",
    b" HTTP/1.1",
    b" HTTP/1.0",
    b" HTTP/9.9",
    b"\r\n",
    b"\n",
    b"\r",
    b"Host: a\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: -1\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b'If-None-Match: "a"\r\n',
    b"Accept: */*\r\n",
    b"Accept-Encoding: gzip\r\n",
    b"Expect: 100-continue\r\n",
    b"?name[]=a",
    b"?name[]=%zz",
    b"%00",
    b"%2e%2e/",
    b"\x00",
    b"\xff",
    b":",
    b" ",
    b"\t",
    b"a" * 200,
    b"//",
    b"http://a/",
)
LETTER_WORDS: Final = (
    b"\n__streams.errors.partition:",
    b"\nstreamsvm.deadletter.rows:",
    b'[{"row":0,"reason":"a","message":"b"}]',
    b":",
    b"\n",
    b"-1",
    b"9" * 5_000,
    b"[]",
    b"1_0",
    b"\xff",
)
HEADER_WORDS: Final = (
    b"\nstreamsvm.source:points/0/5",
    b"/",
    b"\n\n",
    b"\n---\n",
    b"\n",
    b":",
    b"-1",
    b"1_0",
    b"9223372036854775807",
    b"9223372036854775806",
    b"2147483648",
    b"9" * 20,
    b"9" * 5_000,
    "\u0661".encode(),
    b"\xff",
    b"9999-12-31T23:59:59-14:00",
    b"0001-01-01T00:00:00",
)
BINARY_WORDS: Final = (
    b"\0" * 8,
    b"\xff" * 8,
    b"\xff\xff\xff\xff\0\0\0\0",
    b"ARROW:experimental_compression",
    b"zstd",
    b"x",
    b"y",
    b"\x02",
    b"\x04\x04\0\0",
    b"\xfe\xff\xff\xff\x0f",
)

RECORDS: Final[dict[str, tuple[Sequence[bytes], Callable[[Sequence[bytes]], list[str]], Sequence[str]]]] = {
    "json": (JSON_WORDS, of_records((), _json_rows), ("one-1.json.point", "many-1.json.point")),
    "arrow": (BINARY_WORDS, of_records(ARROW, _arrow_rows), ("many-1.arrow.point", "many-1.arrow32.point")),
    "avro": (BINARY_WORDS, of_records(AVRO, _avro_rows), ("one-1.avro.point", "many-1.avro.point")),
}
MESSAGES: Final = {
    "model": (MODEL_WORDS, _model),
    "alias": (MODEL_WORDS, plain_record(decode_alias)),
    "head": (MODEL_WORDS, plain_record(decode_head, passes_over=True)),
    "owner": (MODEL_WORDS, plain_record(decode_owner, passes_over=True)),
    "retired": (MODEL_WORDS, plain_record(decode_retired)),
    "letter": (LETTER_WORDS, _dead_letter),
    "label": (JSON_WORDS, _labels),
    "score": ((*JSON_WORDS, *HEADER_WORDS), _source),
    "version-headers": ((*MODEL_WORDS, *HEADER_WORDS), _version_headers),
    "checkpoint": ((*BINARY_WORDS, *MODEL_WORDS), _checkpoint),
    "state-record": ((*BINARY_WORDS, *MODEL_WORDS), _state_record),
    "http": (HTTP_WORDS, _http),
}
OWN: Final = {
    name: Target(name, kept(name, *(HERE / file for file in files)), words, look)
    for name, (words, look, files) in RECORDS.items()
} | {name: Target(name, kept(name), words, messages(look)) for name, (words, look) in MESSAGES.items()}

with suppress(AttributeError):
    sys.set_int_max_str_digits(INTEGER_DIGITS)

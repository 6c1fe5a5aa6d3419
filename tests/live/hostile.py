"""Records that nobody should have sent, from a seed, each with what must become of it.

What is expected is known from how a record is made, never by asking the decoder.
"""

from __future__ import annotations

import gzip
import json
import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from streamsvm.ingest import DEEPEST_NESTING
from tests.streams import DIMENSION

MOST_BYTES = 4_000
"""The largest record that is looked at: `points.max_record_bytes` of the trainer under test."""
MOST_ROWS = 30
"""The most rows that a record may have: its `ROWS_PER_RECORD`."""
GOOD_SHARE = 0.1


@dataclass(frozen=True)
class Expected:
    """A record, and what must become of it.

    Attributes
    ----------
    value : bytes or None
    headers : tuple of (str, bytes)
    rows : int
        Rows that it counts for.
    weights : tuple of float
        Of the rows to be learned.
    rejected : tuple of (int, str)
        Index and reason of each row to be rejected.
    """

    value: bytes | None
    rows: int = 1
    weights: tuple[float, ...] = ()
    rejected: tuple[tuple[int, str], ...] = ()
    headers: tuple[tuple[str, bytes], ...] = ()


def hostile(count: int, seed: int) -> Iterator[Expected]:
    """Yield records, about one in ten of them good; the same seed gives the same records."""
    chance = random.Random(seed)
    for _ in range(count):
        yield _good(chance) if chance.random() < GOOD_SHARE else chance.choice(KINDS)(chance)


def good(seed: int) -> Expected:
    """Return one good record."""
    return _good(random.Random(seed))


def _point(chance: random.Random, **changed: Any) -> dict[str, Any]:
    x = [round(chance.gauss(0, 1), 6) for _ in range(DIMENSION)]
    return {"x": x, "y": chance.choice((-1, 1)), "w": chance.randrange(1, 8) / 4, **changed}


def _good(chance: random.Random) -> Expected:
    point = _point(chance)
    return Expected(_json(point), weights=(point["w"],))


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _one(value: bytes | None, reason: str, **headers: str) -> Expected:
    named = tuple((name.replace("_", "-"), text.encode()) for name, text in headers.items())
    return Expected(value, rejected=((0, reason),), headers=named)


def _cut_short(chance: random.Random) -> Expected:
    whole = _json(_point(chance))
    return _one(whole[: chance.randrange(1, len(whole) - 1)], "malformed_json")


def _not_json(chance: random.Random) -> Expected:
    values = (b"x,y\n1,2", b"<point/>", b"{'x': [1, 2, 3]}", b'{"x": [1, 2, 3,], "y": 1}', b"\xef\xbb\xbf{}", b"nul")
    return _one(chance.choice(values), "malformed_json")


def _binary(chance: random.Random) -> Expected:
    return _one(b"\xff" + chance.randbytes(chance.randrange(1, 200)), "malformed_json")


def _wrong_content(chance: random.Random) -> Expected:
    kind, value, reason = chance.choice(
        (
            ("application/gzip", gzip.compress(_json(_point(chance)), mtime=0), "unknown_content_type"),
            ("application/x-protobuf", b"\x0a\x0c" + struct.pack("<3f", 1, 2, 3), "unknown_content_type"),
            ("application/octet-stream", struct.pack("<4d", 1, 2, 3, 4), "unknown_content_type"),
            ("application/vnd.confluent.avro", b"\0" + struct.pack(">I", 7) + chance.randbytes(20), "unknown_schema"),
            ("application/vnd.apache.arrow.stream", b"\xff\xff\xff\xff" + chance.randbytes(60), "malformed_arrow"),
        )
    )
    return _one(value, reason, content_type=kind)


def _deep(chance: random.Random) -> Expected:
    depth = chance.randrange(DEEPEST_NESTING + 1, 1_500)
    opening, closing = chance.choice(((b"[", b"]"), (b'{"x":', b"}")))
    whole = opening * depth + b"1" + closing * depth
    return _one(whole if len(whole) <= MOST_BYTES else whole[: depth * len(opening)][:MOST_BYTES], "malformed_json")


def _not_finite(chance: random.Random) -> Expected:
    entry = chance.choice(("NaN", "Infinity", "-Infinity", "1e999", "-1e400", "3.5e38", "9" * 400, "-" + "9" * 1_000))
    return _one(_with_entry(chance, entry), "not_finite")


def _with_entry(chance: random.Random, entry: str) -> bytes:
    entries = ["0.5"] * DIMENSION
    entries[chance.randrange(DIMENSION)] = entry
    return f'{{"x": [{", ".join(entries)}], "y": 1}}'.encode()


def _wrong_entry(chance: random.Random) -> Expected:
    return _one(_with_entry(chance, chance.choice(('"1"', "null", "true", "[1]", "{}"))), "wrong_type")


def _wrong_dimension(chance: random.Random) -> Expected:
    size = chance.choice((0, 1, DIMENSION - 1, DIMENSION + 1, 100))
    return _one(_json(_point(chance, x=[1.0] * size)), "wrong_dimension")


def _unknown_label(chance: random.Random) -> Expected:
    return _one(_json(_point(chance, y=chance.choice((0, 2, 0.5, "1", "spam", True, 10**15)))), "unknown_label")


def _missing(chance: random.Random) -> Expected:
    point = _point(chance)
    del point[chance.choice(("x", "y"))]
    return _one(_json(point), "missing_field")


def _wrong_weight(chance: random.Random) -> Expected:
    return _one(_json(_point(chance, w=chance.choice((0, -1, 1e-300, 1e300, -0.0)))), "invalid_weight")


def _wrong_type(chance: random.Random) -> Expected:
    values = (7, "text", True, {"x": 1, "y": 1}, {"x": "123", "y": 1}, {"x": {}, "y": 1}, _point(chance, w="1"))
    return _one(_json(chance.choice(values)), "wrong_type")


def _operation(chance: random.Random) -> Expected:
    return _one(_json(_point(chance, op=chance.choice(("delete", "", 1, {})))), "unsupported_operation")


def _half_a_pair(chance: random.Random) -> Expected:
    """Half of a surrogate pair, escaped, so that the record itself is ASCII: as text or as a name, in any place."""
    point = _json(_point(chance))
    half = chance.choice((b'"\\ud800"', b'"\\udfff"', b'"a\\uDBFFb"'))
    places = (
        point.replace(b"{", b'{"id": ' + half + b", ", 1),
        point.replace(b"{", b"{" + half + b": 1, ", 1),
        _json(_point(chance, w=0)).replace(b'"w": 0', b'"w": ' + half, 1),
        _with_entry(chance, half.decode()),
    )
    return _one(chance.choice(places), "malformed_json")


def _empty(chance: random.Random) -> Expected:
    return _one(chance.choice((None, b"", b"[]", b" [ ] ")), "empty_record")


def _oversize(chance: random.Random) -> Expected:
    padding = "p" * (MOST_BYTES + chance.randrange(1, 500))
    return _one(_json(_point(chance, id=padding)), "oversize_record")


def _too_many(chance: random.Random) -> Expected:
    return _one(_json([0] * chance.randrange(MOST_ROWS + 1, 500)), "too_many_rows")


def _array_with_bad_rows(chance: random.Random) -> Expected:
    rows: list[bytes] = []
    weights: list[float] = []
    rejected: list[tuple[int, str]] = []
    kinds = (_wrong_dimension, _unknown_label, _missing, _wrong_weight, _wrong_type, _operation, _not_finite)
    kinds = (*kinds, _half_a_pair)
    for index in range(chance.randrange(2, 9)):
        made = chance.choice(kinds)(chance) if index == 0 or chance.random() < 0.4 else _good(chance)
        assert made.value is not None
        rows.append(made.value)
        weights += made.weights
        rejected += [(index, reason) for _, reason in made.rejected]
    order = b"[" + b",".join(rows) + b"]"
    if len(order) > MOST_BYTES:
        return _one(order, "oversize_record")
    return Expected(order, len(rows), tuple(weights), tuple(rejected))


KINDS: tuple[Callable[[random.Random], Expected], ...] = (
    _cut_short,
    _not_json,
    _binary,
    _wrong_content,
    _deep,
    _not_finite,
    _wrong_entry,
    _wrong_dimension,
    _unknown_label,
    _missing,
    _wrong_weight,
    _wrong_type,
    _operation,
    _half_a_pair,
    _empty,
    _oversize,
    _too_many,
    _array_with_bad_rows,
)

"""Points as JSON: one object a record, or an array of them.

A labeled point is ``{"x": [1.5, ...], "y": 1, "w": 1.0, "id": "..."}``; `w` defaults to 1 and `id` is optional. An
unlabeled point has no `y`. Other fields are ignored, except `op`: a record that asks for an operation must not be
learned as a point.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

from streamsvm.config import Label
from streamsvm.errors import InvalidPoint
from streamsvm.ingest.bounds import too_many_rows
from streamsvm.ingest.deletions import is_deleted
from streamsvm.ingest.framed import framed, is_framed
from streamsvm.ingest.row import Point, excerpt
from streamsvm.ingest.unread_fields import UnreadFields

CONTENT_TYPE: Final = "application/json"

DEEPEST_NESTING: Final = 100
"""Brackets open at once, those inside strings counted too: how deep a parser could go would depend on its caller."""

FAR_EXPONENT: Final = 9_000
"""Bytes that a value has at least in which a wrong exponent can show."""
_FAR: Final = re.compile(rb"[0-9][eE][+-]?[0-9]{5}")

_fast_one = msgspec.json.Decoder(Point)
_fast_many = msgspec.json.Decoder(list[Point])
_raw_many = msgspec.json.Decoder(list[msgspec.Raw])
_loose = msgspec.json.Decoder()
_SURROGATE: Final = "a field name or a string contains an unpaired surrogate"
RowType = TypeVar("RowType")


def rows_of(value: bytes, most_rows: int, unread: UnreadFields) -> Sequence[Point | InvalidPoint]:
    """Parse a value into its rows.

    Parameters
    ----------
    value : bytes
    most_rows : int
        An array with more bad rows among them is refused before any of its rows is converted.
    unread : UnreadFields
        Counts the fields that are not read.

    Raises
    ------
    InvalidPoint
        If the value cannot be parsed into rows.
    """
    _refuse_deep(value)
    many = is_array(value)
    rows = _decode_at_once(value, unread, many=many)
    if rows is None:
        rows = _decode_slowly(value, most_rows, _decode_row, convert_row, many=many)
    unread.note(value, rows)
    return rows


def values_of(value: bytes, most_rows: int) -> Any:
    """Parse a value of any shape; of an array a list of its rows, an `InvalidPoint` for each that cannot be parsed.

    Raises
    ------
    InvalidPoint
        If the value cannot be parsed into rows, as `rows_of`.
    """
    _refuse_deep(value)
    many = is_array(value)
    if not has_far_exponent(value):
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            found = _loose.decode(value)
            if many and len(found) > most_rows:
                raise too_many_rows(len(found), most_rows)
            return found
    rows: list[Any] = _decode_slowly(value, most_rows, _decode_value, _checked, many=many)
    return rows if many else rows[0]


def object_of(value: bytes) -> dict[str, Any] | None:
    """Return a row as most are, one object in plain JSON; None of a value that `values_of` has to look at."""
    if nesting(value) > DEEPEST_NESTING or has_far_exponent(value):
        return None
    try:
        found = _loose.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if type(found) is dict else None


def object_or_fault(row: Any) -> dict[str, Any] | InvalidPoint:
    """Return a parsed value if it is an object, or a rejection; else why it is not an object."""
    return row if isinstance(row, dict | InvalidPoint) else _no_object(row)


def _checked(row: Any) -> Any:
    """Return what Python's parser read, unless it has what JSON has not."""
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return InvalidPoint("malformed_json", _SURROGATE)
    return row


def _decode_value(raw: bytes) -> Any:
    if not has_far_exponent(raw):
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            return _loose.decode(raw)
    try:
        return _checked(json.loads(raw.decode()))
    except ValueError as error:
        return InvalidPoint("malformed_json", str(error))


def _no_object(row: Any) -> InvalidPoint:
    return InvalidPoint("wrong_type", f"a row is {excerpt(json.dumps(row))}, not an object")


def _refuse_deep(value: bytes) -> None:
    if nesting(value) > DEEPEST_NESTING:
        raise InvalidPoint("malformed_json", f"the value nests deeper than {DEEPEST_NESTING}")


def has_far_exponent(value: bytes) -> bool:
    """Return whether a value may hold a number whose exponent msgspec gets wrong, as it does beyond 10,000.

    That shows only where nearly as many digits stand before it, so that it costs ordinary records nothing.
    """
    return len(value) > FAR_EXPONENT and _FAR.search(value) is not None


def _decode_at_once(value: bytes, unread: UnreadFields, *, many: bool) -> Sequence[Point | InvalidPoint] | None:
    """Decode a value in which all is well; None if anything is not.

    What the decoders that know the fields met so far decline is left to those that never change, so that the fields of
    earlier records decide nothing.
    """
    if has_far_exponent(value):
        return None
    for one, several in ((unread.one, unread.many), (_fast_one, _fast_many)):
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            return several.decode(value) if many else [one.decode(value)]
    return None


def is_array(value: bytes | None) -> bool:
    """Return whether a value is an array of points, if it is JSON at all."""
    return value is not None and value.lstrip(b" \t\r\n")[:1] == b"["


def _decode_slowly(
    value: bytes,
    most_rows: int,
    decode: Callable[[bytes], RowType | InvalidPoint],
    convert: Callable[[Any], RowType | InvalidPoint],
    *,
    many: bool,
) -> list[RowType | InvalidPoint]:
    """Decode row by row, to reject only the bad ones; knows the NaN and Infinity that JSON does not."""
    if many:
        try:
            raw = _raw_many.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
        else:
            if len(raw) > most_rows:
                raise too_many_rows(len(raw), most_rows)
            return [decode(bytes(row)) for row in raw]
    try:
        loose = json.loads(value.decode())  # from bytes it would guess UTF-16 and pass over a byte order mark
    except ValueError as error:
        if is_framed(value):
            raise framed(value) from None
        raise InvalidPoint("malformed_json", f"{error}; the value begins {excerpt(repr(value[:200]))}") from None
    rows = loose if isinstance(loose, list) else [loose]
    if len(rows) > most_rows:
        raise too_many_rows(len(rows), most_rows)
    return [convert(row) for row in rows]


def _decode_row(raw: bytes) -> Point | InvalidPoint:
    if not has_far_exponent(raw):
        try:
            return _fast_one.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
    try:
        return convert_row(json.loads(raw.decode()))
    except ValueError as error:
        return InvalidPoint("malformed_json", str(error))


def convert_row(row: Any) -> Point | InvalidPoint:
    """Make a point of a decoded object, whatever format it comes from; the reason where that is impossible."""
    if not isinstance(row, dict):
        return _no_object(row)
    if is_deleted(row):
        return Point([], deleted=True)
    if "x" not in row:
        return InvalidPoint("missing_field", "x is missing")
    if isinstance(row.get("id"), str) and not _is_text(row["id"]):
        return InvalidPoint("malformed_json", "id contains an unpaired surrogate")
    try:
        return msgspec.convert(_with_floats(row), Point)
    except (msgspec.ValidationError, OverflowError) as error:
        return InvalidPoint("wrong_type", str(error))
    except UnicodeEncodeError:  # Python's parser lets an escaped half of a pair through, in names and in texts
        return InvalidPoint("malformed_json", _SURROGATE)


def _is_text(text: str) -> bool:
    """Return whether a string can be written as UTF-8; Python's parser lets escaped halves of a pair through."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def nesting(value: bytes) -> int:
    """Return how many brackets are open at once, at most, as if there were no strings; a pure function of the bytes.

    At most the number of opening ones, which is cheap to count and all that most records need.
    """
    opening = value.count(b"[") + value.count(b"{")
    if opening <= DEEPEST_NESTING:
        return opening
    brackets = np.frombuffer(value.translate(None, _NO_BRACKETS), np.uint8)
    steps = np.where((brackets == ord("[")) | (brackets == ord("{")), 1, -1)
    return int(np.cumsum(steps).max())


_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")


def _with_floats(row: dict[str, Any]) -> dict[str, Any]:
    """Let an integer beyond float64 count as infinite."""
    changed = dict(row)
    if isinstance(changed["x"], list):
        changed["x"] = [_as_float(entry) for entry in changed["x"]]
    if "w" in changed:
        changed["w"] = _as_float(changed["w"])
    return changed


def _as_float(entry: Any) -> Any:
    if isinstance(entry, int) and not isinstance(entry, bool):
        try:
            return float(entry)
        except OverflowError:
            return math.inf if entry > 0 else -math.inf
    return entry


def encode(x: Iterable[float], y: Label | None = None, w: float | None = None, id: str | int | None = None) -> bytes:  # noqa: A002
    """Encode one point as a JSON record; `y`, `w` and `id` are left out where None."""
    optional = {"y": y, "w": w, "id": id}
    given = {name: value for name, value in optional.items() if value is not None}
    return msgspec.json.encode({"x": [float(entry) for entry in x], **given})

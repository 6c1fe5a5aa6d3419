"""How a value says which schema it has, and the schemas that were parsed.

A record names the schema of its value in the header `__value_schema_id`, or in front of the value: a zero byte and the
schema's id (4 bytes, big endian). The header holds the same five bytes, or a byte 1 and the schema's GUID (16 bytes).
Behind either a Protobuf message has its message indexes. With the header the whole value is the datum.

Invariant: a record with the header has no frame in its value, whatever bytes the value begins with. A schema is what
the registry gives for the id, for ever; while it cannot be asked nothing is decided.
Source: Confluent's wire format, and `SchemaId`, `HeaderSchemaIdSerializer` and `DualSchemaIdDeserializer` of its
clients since 8.0 (of several headers of the name the last one counts).
"""

from __future__ import annotations

import struct
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from streamsvm.errors import InvalidPoint
from streamsvm.ingest.columns import Run

FRAME: Final = struct.Struct(">bI")
SCHEMA_HEADER: Final = "__value_schema_id"
FRAMED_FORMATS: Final = frozenset({"avro", "protobuf", "json-schema"})
"""Formats whose records name a schema."""
_BY_ID: Final = 0
"""First byte of a value that names its schema by id."""
_GUID_BYTES: Final = 1 + 16
MOST_SCHEMAS: Final = 256
"""Parsed schemas that are kept; more are parsed again."""
MOST_CHARACTERS: Final = 4_000_000
"""Of the texts of the parsed schemas that are kept; each takes some twenty times its text."""

Schema = TypeVar("Schema")
SchemaKey = int | str
"""What a registry calls a schema: its id, or its GUID in lower-case hexadecimal with hyphens."""


class SchemaHeader(NamedTuple):
    """Which schema a value has, and where the value's own bytes begin.

    Attributes
    ----------
    schema : int or str
    source : bytes
        What names the schema: the header, or the value.
    end : int
        Where in `source` the schema's name ends.
    start : int
        Where in the value the datum begins, of Protobuf the message indexes if they are not in the header.
    """

    schema: SchemaKey
    source: bytes
    end: int
    start: int


def schema_header(headers: Sequence[tuple[str, bytes]]) -> bytes | None:
    """Return what a record's headers say of its schema; None if nothing."""
    found = None
    for name, content in headers:
        if name == SCHEMA_HEADER:
            found = content or b""
    return found


def schema_headers(run: Run) -> list[bytes | None] | None:
    """Return what the headers of each record say of its schema; None if no record has such a header."""
    if run.plain:
        return None
    found: dict[int, bytes] = {}
    for at, record in enumerate(run.records):
        for name, content in record.headers:
            if name == SCHEMA_HEADER:
                found[at] = content or b""
    return [found.get(at) for at in range(len(run))] if found else None


def frame_of(value: bytes, header: bytes | None = None) -> SchemaHeader:
    """Return the schema that a value has by its record's header, or else by its first bytes.

    Raises
    ------
    InvalidPoint
        If the header is not one, or there is none and the value is not framed.
    """
    if header is not None:
        if header[:1] == b"\0" and len(header) >= FRAME.size:
            return SchemaHeader(FRAME.unpack_from(header)[1], header, FRAME.size, 0)
        if header[:1] == b"\1" and len(header) >= _GUID_BYTES:
            return SchemaHeader(str(uuid.UUID(bytes=header[1:_GUID_BYTES])), header, _GUID_BYTES, 0)
        raise _malformed(header)
    if len(value) < FRAME.size or value[0] != _BY_ID:
        raise InvalidPoint(
            "unframed",
            "the value does not begin with a zero byte and a schema id, and its record has no header "
            f"{SCHEMA_HEADER}{_likeness(value)}",
        )
    return SchemaHeader(FRAME.unpack_from(value)[1], value, FRAME.size, FRAME.size)


def frame_of_datum(value: bytes, header: bytes | None = None) -> SchemaHeader:
    """Return the same of a format whose header ends with the schema's name.

    Raises
    ------
    InvalidPoint
    """
    frame = frame_of(value, header)
    if header is not None and frame.end != len(header):
        raise _malformed(header)
    return frame


def _malformed(header: bytes) -> InvalidPoint:
    return InvalidPoint(
        "malformed_schema_id",
        f"the header {SCHEMA_HEADER} holds {len(header)} bytes ({header[:20].hex(' ')}), and neither a byte 0 and a "
        "schema id of 4 bytes nor a byte 1 and a GUID of 16 bytes",
    )


def _likeness(value: bytes) -> str:
    """Return what a value without a frame looks like."""
    if value.lstrip(b" \t\r\n")[:1] in (b"{", b"["):
        return ": it looks like plain JSON"
    for begins, what in _LIKE.items():
        if value.startswith(begins):
            return f": it looks like {what}"
    return f": it begins with the bytes {value[:8].hex(' ')}" if value else ""


_LIKE: Final = {
    b"Obj\x01": "an Avro object container file",
    b"\xc3\x01": "Avro's single-object encoding",
    b"\x1f\x8b": "gzip",
    b"\xff\xff\xff\xff": "an Arrow IPC stream",
    b"\x03\x00": "AWS Glue's schema registry",
}


def is_framed(value: bytes) -> bool:
    """Return whether a value that should be JSON has a frame instead: no JSON begins with a zero byte."""
    return len(value) > FRAME.size and value[0] == _BY_ID


def framed(value: bytes) -> InvalidPoint:
    """Return the rejection of a value that should be plain JSON and is framed."""
    schema_id = FRAME.unpack_from(value)[1]
    is_json = value[FRAME.size :].lstrip(b" \t\r\n")[:1] in (b"{", b"[")
    what = "and then JSON" if is_json else "and then something other than JSON, such as Avro or Protobuf"
    return InvalidPoint("framed", f"the value begins with a zero byte and the schema id {schema_id}, {what}")


def hinted(error: InvalidPoint, headers: Sequence[tuple[str, bytes]]) -> InvalidPoint:
    """Return why a record cannot be parsed; of one that was taken for JSON also that its header names a schema."""
    if error.reason != "malformed_json" or schema_header(headers) is None:
        return error
    what = f"{error.what}; the header {SCHEMA_HEADER} names a schema: if the value is not JSON, set points.format"
    return InvalidPoint(error.reason, what)


def unframed(value: bytes, header: bytes | None = None) -> bytes:
    """Return the JSON in a frame. Its schema is not fetched: the recipe says what a field must be.

    Raises
    ------
    InvalidPoint
    """
    start = frame_of_datum(value, header).start
    return value[start:] if start else value


class KnownSchemas(Generic[Schema]):
    """Schemas by their ids or GUIDs, each parsed once while it is kept.

    Parameters
    ----------
    look_up : callable
        Returns the parsed schema of an id, with the number of characters of its text, or why it is unfit. What it
        raises is raised; of that, an `InvalidPoint`, that there is no such schema, is remembered until `ask_again`.
    """

    def __init__(self, look_up: Callable[[SchemaKey], tuple[Schema | InvalidPoint, int]]) -> None:
        self._look_up = look_up
        self._known: OrderedDict[SchemaKey, tuple[Schema | InvalidPoint, int]] = OrderedDict()
        self._absent: dict[SchemaKey, InvalidPoint] = {}
        self._characters = 0

    def ask_again(self) -> None:
        """Forget which ids are unknown: a batch of records begins.

        A schema is registered before the first record that names it is written. So what was unknown when records had
        been fetched is unknown for each of them, and asking once is enough: else whoever writes garbage decides how
        often a registry is asked. Of records that come later nothing is known: the id may have been given by then.
        """
        self._absent.clear()

    def of(self, schema_id: SchemaKey) -> Schema:
        """Return a schema.

        Raises
        ------
        InvalidPoint
            If there is none, or it is unfit.
        TransientError
            If the registry cannot be asked now.
        """
        entry = self._known.get(schema_id)
        if entry is None:
            entry = self._known[schema_id] = self._fetched(schema_id)
            self._characters += entry[1]
            while len(self._known) > MOST_SCHEMAS or self._characters > MOST_CHARACTERS:
                self._characters -= self._known.popitem(last=False)[1][1]
        found = entry[0]
        if isinstance(found, InvalidPoint):
            raise InvalidPoint(found.reason, found.what)
        return found

    def _fetched(self, schema_id: SchemaKey) -> tuple[Schema | InvalidPoint, int]:
        absent = self._absent.get(schema_id)
        if absent is not None:
            raise InvalidPoint(absent.reason, absent.what)
        try:
            return self._look_up(schema_id)
        except InvalidPoint as error:
            self._absent[schema_id] = InvalidPoint(error.reason, error.what)
            raise


def unknown(schema_id: SchemaKey, *, configured: bool) -> InvalidPoint:
    """Return the rejection of a record whose schema nobody has."""
    if configured:
        return InvalidPoint("unknown_schema", f"the registry has no schema {schema_id}")
    return InvalidPoint("unknown_schema", f"schema {schema_id} cannot be looked up: registry.url is not configured")

"""How a value says which schema it has, and the schemas that were parsed.

A value begins with a zero byte and the id of its schema (4 bytes, big endian). Behind them a Protobuf message has its
message indexes.

Invariant: a schema is what the registry gives for the id, for ever; while it cannot be asked nothing is decided.
Source: Confluent's wire format.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from streamsvm.errors import InvalidPoint

FRAME: Final = struct.Struct(">bI")
FRAMED_FORMATS: Final = frozenset({"avro", "protobuf", "json-schema"})
"""Formats whose values begin with a schema's id."""
SCHEMA_HEADER: Final = "__value_schema_id"
"""Some serializers can name the schema here instead; such a record is rejected."""
BY_HEADER: Final = "by-header"
"""The format of such a record."""
_BY_ID: Final = 0
"""First byte of a value that names its schema by id."""
MOST_SCHEMAS: Final = 256
"""Parsed schemas that are kept; more are parsed again."""
MOST_CHARACTERS: Final = 4_000_000
"""Of the texts of the parsed schemas that are kept; each takes some twenty times its text."""

Schema = TypeVar("Schema")


def schema_id_of(value: bytes) -> int:
    """Return the id of the schema that a value names in its first bytes.

    Raises
    ------
    InvalidPoint
        If the value does not begin with one.
    """
    if len(value) < FRAME.size or value[0] != _BY_ID:
        raise InvalidPoint("unframed", f"the value does not begin with a zero byte and a schema id{_likeness(value)}")
    schema_id: int = FRAME.unpack_from(value)[1]
    return schema_id


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


def named_by_header() -> InvalidPoint:
    """Return the rejection of a record whose header names its schema."""
    return InvalidPoint(
        "unframed",
        f"the record's header {SCHEMA_HEADER} names the schema, which is not supported: let the serializer write the "
        "schema's id in front of the value, as it does by default",
    )


def unframed(value: bytes) -> bytes:
    """Return the JSON in a frame. Its schema is not fetched: the recipe says what a field must be.

    Raises
    ------
    InvalidPoint
    """
    schema_id_of(value)
    return value[FRAME.size :]


class KnownSchemas(Generic[Schema]):
    """Schemas by their ids, each parsed once while it is kept.

    Parameters
    ----------
    look_up : callable
        Returns the parsed schema of an id, with the number of characters of its text, or why it is unfit. What it
        raises is raised; of that, an `InvalidPoint`, that there is no such schema, is remembered until `ask_again`.
    """

    def __init__(self, look_up: Callable[[int], tuple[Schema | InvalidPoint, int]]) -> None:
        self._look_up = look_up
        self._known: OrderedDict[int, tuple[Schema | InvalidPoint, int]] = OrderedDict()
        self._absent: dict[int, InvalidPoint] = {}
        self._characters = 0

    def ask_again(self) -> None:
        """Forget which ids are unknown: a batch of records begins.

        A schema is registered before the first record that names it is written. So what was unknown when records had
        been fetched is unknown for each of them, and asking once is enough: else whoever writes garbage decides how
        often a registry is asked. Of records that come later nothing is known: the id may have been given by then.
        """
        self._absent.clear()

    def of(self, schema_id: int) -> Schema:
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

    def _fetched(self, schema_id: int) -> tuple[Schema | InvalidPoint, int]:
        absent = self._absent.get(schema_id)
        if absent is not None:
            raise InvalidPoint(absent.reason, absent.what)
        try:
            return self._look_up(schema_id)
        except InvalidPoint as error:
            self._absent[schema_id] = InvalidPoint(error.reason, error.what)
            raise


def unknown(schema_id: int, *, configured: bool) -> InvalidPoint:
    """Return the rejection of a record whose schema nobody has."""
    if configured:
        return InvalidPoint("unknown_schema", f"the registry has no schema {schema_id}")
    return InvalidPoint("unknown_schema", f"schema {schema_id} cannot be looked up: registry.url is not configured")

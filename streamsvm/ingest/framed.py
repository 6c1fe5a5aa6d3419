"""The registry's framing, a zero byte and the schema's id (4 bytes, big endian), and the schemas that were parsed.

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
MOST_SCHEMAS: Final = 256
"""Parsed schemas that are kept; more are parsed again."""
MOST_CHARACTERS: Final = 4_000_000
"""Of the texts of the parsed schemas that are kept; each takes some twenty times its text."""

Schema = TypeVar("Schema")


def framed_id(value: bytes, reason: str) -> int:
    """Return the schema's id of a value.

    Raises
    ------
    InvalidPoint
        Of the given reason, if the value has no such frame.
    """
    if len(value) < FRAME.size or value[0] != 0:
        raise InvalidPoint(reason, "the value does not begin with a zero byte and a schema id")
    schema_id: int = FRAME.unpack_from(value)[1]
    return schema_id


def unframed(value: bytes) -> bytes:
    """Return the JSON in a frame. Its schema is not asked for: what a field must be is said by the recipe.

    Raises
    ------
    InvalidPoint
    """
    framed_id(value, "malformed_json")
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
            entry = self._known[schema_id] = self._asked(schema_id)
            self._characters += entry[1]
            while len(self._known) > MOST_SCHEMAS or self._characters > MOST_CHARACTERS:
                self._characters -= self._known.popitem(last=False)[1][1]
        found = entry[0]
        if isinstance(found, InvalidPoint):
            raise InvalidPoint(found.reason, found.what)
        return found

    def _asked(self, schema_id: int) -> tuple[Schema | InvalidPoint, int]:
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

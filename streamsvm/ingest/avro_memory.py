"""What the datum of an Avro schema may take, and which schemas are refused because few bytes could take too much.

A schema that is recursive, too deep, or repeats what takes no bytes is refused whatever the datum. Of the others it is
known how much memory a value of so many bytes takes at most, before anything is made of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

DEEPEST_SCHEMA: Final = 32
"""Levels of the text."""
DEEPEST_DATUM: Final = 500
"""Levels of a datum. A schema of 1 MB can nest 14,000, its types naming one another; fastavro reads each level by a
recursion in C, and 8,000 overflow a stack of 8 MB, which ends the process."""


@dataclass(frozen=True, slots=True)
class DatumCost:
    """What a datum of a schema takes: at least so many bytes; of memory at most `fixed`, and so much for each byte.

    `depth` is how many levels of other data it holds.
    """

    least_bytes: int
    fixed: float = 0.0
    for_a_byte: float = 0.0
    depth: int = 0

    def repeated(self, place: float) -> float:
        """Return the memory for a byte of many of them, with so much for the place of each."""
        return self.for_a_byte + (self.fixed + place) / self.least_bytes


_POINTER: Final = 2 * 8
"""A place in a list, which grows ahead of what it holds."""
_LIST: Final = 80.0
_DICT: Final = 200.0
_FIELD: Final = 64.0
"""A field beyond the fifth."""
_POINT: Final = 256.0
"""What a row becomes beside its datum."""
_NUMBER: Final = DatumCost(1, 64.0)
"""Also once more as a float."""
_PRIMITIVES: Final = {
    "null": DatumCost(0),
    "boolean": DatumCost(1),
    "int": _NUMBER,
    "long": _NUMBER,
    "float": DatumCost(4, 64.0),
    "double": DatumCost(8, 64.0),
    "bytes": DatumCost(1, 64.0, 1.0),
    "string": DatumCost(1, 80.0, 4.0),
}


class Examined:
    """Walks a schema, and refuses one that is recursive, too deep, or repeats what takes no bytes.

    Parameters
    ----------
    schema : dict, list or str
        As fastavro parsed it: there every name is a full one, so that what a name means is not told in two ways.

    Attributes
    ----------
    of_a_row : DatumCost
        What a row takes: of an array an item, else the whole.

    Raises
    ------
    ValueError
    """

    def __init__(self, schema: Any) -> None:
        self._known = dict(_PRIMITIVES)
        self._open: set[str] = set()
        whole = self._walk(schema, 0)
        self.of_a_row = self._items if isinstance(schema, dict) and schema["type"] == "array" else whole

    def _walk(self, schema: Any, depth: int) -> DatumCost:
        """Return what a datum takes."""
        if depth > DEEPEST_SCHEMA:
            raise ValueError(f"the schema nests deeper than {DEEPEST_SCHEMA}")
        cost = self._cost(schema, depth)
        if cost.depth > DEEPEST_DATUM:
            raise ValueError(f"the data of the schema nest deeper than {DEEPEST_DATUM}")
        return cost

    def _cost(self, schema: Any, depth: int) -> DatumCost:
        if isinstance(schema, list):
            return self._union([self._walk(branch, depth + 1) for branch in schema])
        if isinstance(schema, str):
            if schema in self._open:
                raise ValueError(f"the schema {schema[:80]} contains itself")
            return self._known[schema]
        kind = schema["type"]
        if kind == "array":
            items = self._items = self._walk(schema["items"], depth + 1)
            if not items.least_bytes:
                raise ValueError(
                    "an array's items take no bytes, so that a few bytes could announce any number of items"
                )
            return DatumCost(1, _LIST, items.repeated(_POINTER), items.depth + 1)
        if kind == "map":
            values = self._walk(schema["values"], depth + 1)
            entry = DatumCost(1 + values.least_bytes, values.fixed + 80.0, max(4.0, values.for_a_byte))
            return DatumCost(1, _DICT, entry.repeated(2 * _FIELD), values.depth + 1)
        if kind == "record":
            return self._named(schema, self._record(self._fields(schema, depth)))
        if kind == "fixed":
            return self._named(schema, DatumCost(_size(schema["size"]), 64.0, 1.0))
        if kind == "enum":
            return self._named(schema, DatumCost(1))
        return self._walk(kind, depth + 1)

    def _fields(self, schema: Mapping[str, Any], depth: int) -> list[DatumCost]:
        self._open.add(schema["name"])
        costs = [self._walk(field["type"], depth + 1) for field in schema["fields"]]
        self._open.discard(schema["name"])
        return costs

    @staticmethod
    def _union(branches: list[DatumCost]) -> DatumCost:
        return DatumCost(
            1 + min((branch.least_bytes for branch in branches), default=0),
            max((branch.fixed for branch in branches), default=0.0),
            max((branch.for_a_byte for branch in branches), default=0.0),
            _deepest(branches),
        )

    @staticmethod
    def _record(fields: list[DatumCost]) -> DatumCost:
        return DatumCost(
            sum(field.least_bytes for field in fields),
            _DICT + _FIELD * max(0, len(fields) - 5) + sum(field.fixed for field in fields),
            max((field.for_a_byte for field in fields), default=0.0),
            _deepest(fields),
        )

    def _named(self, schema: Mapping[str, Any], cost: DatumCost) -> DatumCost:
        return self._known.setdefault(schema["name"], cost)


def _deepest(parts: list[DatumCost]) -> int:
    return 1 + max((part.depth for part in parts), default=0)


def _size(size: Any) -> int:
    """Return the size of a fixed; fastavro takes a negative one for everything that is left."""
    if type(size) is not int or size < 0:
        raise ValueError(f"the size of a fixed is {size!r}")
    return size


def _largest(cost: DatumCost, value_bytes: int, rows: int) -> float:
    """Return the most memory that at most so many rows of a value take, the first of which may be cut off."""
    if cost.least_bytes:
        rows = min(rows, max(1, value_bytes // cost.least_bytes))
    return rows * (cost.fixed + _POINT) + cost.for_a_byte * value_bytes


def most_memory(
    cost: DatumCost, value_bytes: int, most_rows: int, most_bytes: int, *, many: bool
) -> tuple[bool, float]:
    """Return whether a value's rows must be counted as they are read, and the most memory that it then takes.

    Parameters
    ----------
    cost : DatumCost
        Of a row.
    value_bytes : int
    most_rows : int
        A value with more is refused.
    most_bytes : int
        Memory that decoding may take.
    many : bool
        Whether a value is an array of rows.
    """
    if not many:
        return False, _largest(cost, value_bytes, 1)
    needed = _largest(cost, value_bytes, value_bytes)
    return (False, needed) if needed <= most_bytes else (True, _largest(cost, value_bytes, most_rows))

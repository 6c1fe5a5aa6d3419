"""Which Avro schemas are refused, whatever the datum, because few bytes could become endless, bottomless or very many.

Refused are a schema that contains itself, one whose text or data nest too deep, an array whose items take no bytes, and
data that hold far more values than bytes.
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
MOST_VALUES: Final = 50_000
"""Values that a datum holds beside those in arrays and maps."""
MOST_VALUES_FOR_A_BYTE: Final = 8
"""Values of an array's or a map's items for each byte that they take at least, records counted as values, too."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The fewest bytes of a datum of a schema, how many values it holds beside those in arrays, and its levels."""

    least_bytes: int
    values: int = 1
    depth: int = 0


_PRIMITIVES: Final = {
    "null": Shape(0),
    "boolean": Shape(1),
    "int": Shape(1),
    "long": Shape(1),
    "float": Shape(4),
    "double": Shape(8),
    "bytes": Shape(1),
    "string": Shape(1),
}


class Examined:
    """Walks a schema, and refuses one that is unsafe.

    Parameters
    ----------
    schema : dict, list or str
        As fastavro parsed it: there every name is a full one, so that what a name means is not told in two ways.

    Attributes
    ----------
    least_bytes : int
        The fewest bytes of a row: of an array an item, else the whole.

    Raises
    ------
    ValueError
    """

    def __init__(self, schema: Any) -> None:
        self._known = dict(_PRIMITIVES)
        self._open: set[str] = set()
        whole = self._walk(schema, 0)
        of_a_row = self._items if isinstance(schema, dict) and schema["type"] == "array" else whole
        self.least_bytes = of_a_row.least_bytes

    def _walk(self, schema: Any, depth: int) -> Shape:
        if depth > DEEPEST_SCHEMA:
            raise ValueError(f"the schema nests deeper than {DEEPEST_SCHEMA}")
        shape = self._shape(schema, depth)
        if shape.depth > DEEPEST_DATUM:
            raise ValueError(f"the data of the schema nest deeper than {DEEPEST_DATUM}")
        if shape.values > MOST_VALUES:
            raise ValueError(f"the data of the schema hold more than {MOST_VALUES} values, arrays aside")
        return shape

    def _shape(self, schema: Any, depth: int) -> Shape:
        if isinstance(schema, list):
            branches = [self._walk(branch, depth + 1) for branch in schema]
            least = 1 + min((branch.least_bytes for branch in branches), default=0)
            return Shape(least, max((branch.values for branch in branches), default=0), _deepest(branches))
        if isinstance(schema, str):
            if schema in self._open:
                raise ValueError(f"the schema {schema[:80]} contains itself")
            return self._known[schema]
        kind = schema["type"]
        if kind == "array":
            items = self._items = self._repeated(self._walk(schema["items"], depth + 1))
            return Shape(1, 1, items.depth + 1)
        if kind == "map":
            values = self._walk(schema["values"], depth + 1)
            self._repeated(Shape(1 + values.least_bytes, values.values))
            return Shape(1, 1, values.depth + 1)
        if kind == "record":
            return self._named(schema, self._record(schema, depth))
        if kind == "fixed":
            return self._named(schema, Shape(_size(schema["size"])))
        if kind == "enum":
            return self._named(schema, Shape(1))
        return self._walk(kind, depth + 1)

    @staticmethod
    def _repeated(items: Shape) -> Shape:
        if not items.least_bytes:
            raise ValueError("an array's items take no bytes, so that a few bytes could announce any number of items")
        if items.values > MOST_VALUES_FOR_A_BYTE * items.least_bytes:
            raise ValueError(
                f"items of {items.least_bytes} bytes can hold {items.values} values, more than "
                f"{MOST_VALUES_FOR_A_BYTE} for each byte"
            )
        return items

    def _record(self, schema: Mapping[str, Any], depth: int) -> Shape:
        self._open.add(schema["name"])
        fields = [self._walk(field["type"], depth + 1) for field in schema["fields"]]
        self._open.discard(schema["name"])
        least = sum(field.least_bytes for field in fields)
        return Shape(least, 1 + sum(field.values for field in fields), _deepest(fields))

    def _named(self, schema: Mapping[str, Any], shape: Shape) -> Shape:
        return self._known.setdefault(schema["name"], shape)


def _deepest(parts: list[Shape]) -> int:
    return 1 + max((part.depth for part in parts), default=0)


def _size(size: Any) -> int:
    """Return the size of a fixed; fastavro takes a negative one for everything that is left."""
    if type(size) is not int or size < 0:
        raise ValueError(f"the size of a fixed is {size!r}")
    return size

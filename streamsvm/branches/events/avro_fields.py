"""Fields of raw events in Avro: schemas as programs that fill slots, and what turns decimals into numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from streamsvm.branches.events.field_slots import Tree, tree_of
from streamsvm.branches.events.logical_decimals import Convert, of_avro
from streamsvm.field_paths import Path
from streamsvm.ingest.avro_programs import (
    BEGIN,
    BYTES,
    DECIMAL_SCALE,
    END,
    ENUM,
    FIXED,
    MOST_EXACT_POWER,
    PLAIN,
    REFUSE,
    ROW,
    SLOT,
    SLOT_OF_DECIMAL,
    SLOT_OF_SYMBOL,
    Program,
    Role,
    UnsupportedSchema,
    Writer,
    require,
)
from streamsvm.ingest.slots import INTEGER, REAL, TEXT as TEXT_KIND, TRUTH

KINDS: Final = {
    "int": INTEGER,
    "long": INTEGER,
    "float": REAL,
    "double": REAL,
    "boolean": TRUTH,
    "string": TEXT_KIND,
}
"""What a slot holds of a type."""
_BYTES_OF: Final[Mapping[str, Callable[[Any], tuple[int, int]]]] = {
    "bytes": lambda _: (BYTES, 0),
    "fixed": lambda schema: (FIXED, schema["size"]),
}


@dataclass(frozen=True, slots=True)
class AvroFields:
    """How `streamsvm.ingest.avro.AvroReader` reads events.

    Attributes
    ----------
    paths : sequence of Path
        The fields that a program reads, each into its slot.
    """

    paths: Sequence[Path]

    @property
    def slots(self) -> int:
        """How many slots an event fills."""
        return len(self.paths)

    def program(self, schema: Any, *, least_bytes: int) -> Program | None:
        """Return what reads many events of a schema; None if each has to be parsed."""
        return compile_fields(schema, self.paths, least_bytes=least_bytes) if self.paths else None

    def convert(self, schema: Any) -> Convert | None:
        """Return what turns the decimals of a parsed event into numbers; None if there are none."""
        return of_avro(schema)


def compile_fields(schema: Any, paths: Sequence[Path], *, least_bytes: int) -> Program | None:
    """Make a program that reads fields of raw events into slots; None if the schema is left to the general reader.

    Parameters
    ----------
    schema : dict
        That of an event, a record, as fastavro parsed it, without logical types.
    paths : sequence of Path
        The fields, each once. Those that lead into arrays or maps are left to the general reader.
    least_bytes : int
        Bytes that an event takes at least.
    """
    try:
        written = _FieldsCompiler()
        instructions = written.event(schema, tree_of(paths))
    except (UnsupportedSchema, ValueError):
        return None
    return Program(np.array(instructions, np.int32), max(1, least_bytes), many=False, symbols=tuple(written.symbols))


class _FieldsCompiler(Writer):
    """Writes the program of a schema of raw events."""

    def __init__(self) -> None:
        super().__init__()
        self.symbols: list[bytes] = []

    def event(self, schema: Any, tree: Tree) -> list[list[int]]:
        self._add(BEGIN)
        self._fields(self._name(schema), tree)
        self._add(ROW)
        self._add(END)
        return self._code

    def _fields(self, record: Any, tree: Tree) -> None:
        names = [field["name"] for field in record["fields"]]
        require(len(set(names)) == len(names))  # of two fields of one name the general reader takes the last
        for field in record["fields"]:
            found = tree.get(field["name"])
            role = None if found is None else self._slot(found) if isinstance(found, int) else self._inside(found)
            self._value(field["type"], role)

    def _inside(self, tree: Tree) -> Role:
        def role(kind: str, schema: Any) -> None:
            require(kind not in ("array", "map"))
            if kind == "record":
                self._fields(schema, tree)
            elif kind != "null":
                self._add(REFUSE)

        return role

    def _slot(self, index: int) -> Role:
        def role(kind: str, schema: Any) -> None:
            if kind in KINDS:
                self._add(PLAIN[kind], 0, SLOT, index, KINDS[kind])
            elif (
                kind in ("bytes", "fixed")
                and isinstance(schema, dict)
                and schema.get(DECIMAL_SCALE, 99) <= MOST_EXACT_POWER
            ):
                self._add(*_BYTES_OF[kind](schema), SLOT_OF_DECIMAL, index, schema[DECIMAL_SCALE])
            elif kind == "enum":
                self._add(ENUM, len(schema["symbols"]), SLOT_OF_SYMBOL, index, len(self.symbols))
                self.symbols.extend(symbol.encode() for symbol in schema["symbols"])
            elif kind != "null":
                self._add(REFUSE)

        return role

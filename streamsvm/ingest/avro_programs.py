"""Schemas of Avro as programs: lists of instructions that `streamsvm.ingest.avro_scan` runs over the bytes of records.

Each instruction reads one value, and says what becomes of it. A schema that cannot become a program is left to the
general reader.

Source: the Avro specification 1.12, "Binary Encoding", https://avro.apache.org/docs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import PointsConfig
from streamsvm.ingest.deletions import MARKERS
from streamsvm.ingest.row import LARGEST_EXACT

MOST_INSTRUCTIONS: Final = 4_096
"""Of a program: 80 KiB. A few named types that contain one another can stand for any number of them."""
DEEPEST: Final = 32
"""Arrays and maps open at once."""
MOST_LEVELS: Final = 64
"""Records, unions, arrays and maps within one another."""

# What an instruction reads. Those up to VECTOR begin with an integer of variable length.
LONG, ENUM, UNION, BYTES, TEXT, BLOCK, VECTOR = range(7)
FLOAT, DOUBLE, BOOLEAN, FIXED, JUMP, NEXT, BEGIN, ROW, END, REFUSE = range(7, 17)
# What becomes of it.
SKIP, FEATURE, WEIGHT, LABEL, SYMBOL, WORDS, SLOT, SLOT_OF_SYMBOL, NUMBER_ID, TEXT_ID, SLOT_OF_DECIMAL = range(11)
NUMERIC: Final = {"int": LONG, "long": LONG, "float": FLOAT, "double": DOUBLE}
PLAIN: Final = {**NUMERIC, "boolean": BOOLEAN, "bytes": BYTES, "string": TEXT}
PRIMITIVES: Final = {*PLAIN, "null"}
DECIMAL_SCALE: Final = "decimalScale"
"""Attribute of a schema of bytes, in place of the logical type: fastavro would read it as a Python decimal."""
MOST_EXACT_POWER: Final = 22
"""Greatest power of ten that float64 has exactly: an integer of 53 bits divided by one is rounded once."""
LEAST_BYTES: Final = {LONG: 1, FLOAT: 4, DOUBLE: 8}


@dataclass(frozen=True, slots=True)
class Program:
    """How the rows of a schema are read.

    Attributes
    ----------
    instructions : ndarray of shape (k, 5), int32
        What is read, an operand of that, what becomes of it, and two operands of that. Targets of jumps count from the
        program's beginning.
    least_row : int
        Bytes that a valid row takes at least, without a header.
    many : bool
        Whether a record is an array of rows.
    symbols : tuple of bytes
        Those of enums that go into slots.
    """

    instructions: NDArray[np.int32]
    least_row: int
    many: bool
    symbols: tuple[bytes, ...] = ()


_MARKERS: Final = ("op", *MARKERS)
"""Fields that make of a record something other than a point: the general reader looks at a record that has one."""


class UnsupportedSchema(Exception):
    """The schema is left to the general reader."""


def compile_schema(
    schema: Any,
    *,
    many: bool,
    features: tuple[str, ...],
    config: PointsConfig,
    labeled: bool,
    least_bytes: int,
) -> Program | None:
    """Make a program of a schema; None if it is left to the general reader.

    Parameters
    ----------
    schema : dict
        That of points, or of arrays of points, as fastavro parsed it, without logical types.
    many : bool
        Whether it is that of arrays.
    features : tuple of str
        Fields that are the features; empty if the field x holds them.
    config : PointsConfig
    labeled : bool
        Whether a row must have a label.
    least_bytes : int
        Bytes that a row takes at least, by its schema.
    """
    try:
        written = _Compiler(config, features, labeled=labeled)
        instructions = written.points(schema, many=many)
    except UnsupportedSchema:
        return None
    return Program(np.array(instructions, np.int32), max(1, least_bytes + written.least_of_x), many)


Role = Callable[[str, Any], None]
"""Writes what reads a value of a type, of which the schema is given, too."""


class Writer:
    """Writes the program of one schema."""

    def __init__(self) -> None:
        self._code: list[list[int]] = []
        self._named: dict[str, Any] = {}
        self._depth = self._levels = self._values = 0

    def _add(self, read: int, operand: int = 0, then: int = SKIP, first: int = 0, second: int = 0) -> int:
        require(len(self._code) < MOST_INSTRUCTIONS and abs(operand) < 1 << 31)
        self._code.append([read, operand, then, first, second])
        return len(self._code) - 1

    def _value(self, schema: Any, role: Role | None) -> None:
        """Read a value of any type: by its role, or to pass over it (None)."""
        self._values += 1  # records of nothing take no instructions
        self._levels += 1
        require(self._values <= MOST_INSTRUCTIONS and self._levels <= MOST_LEVELS)
        schema = self._name(schema)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, list):
            self._union(kind, role)
        elif isinstance(kind, dict):
            self._value(kind, role)
        elif role is not None:
            role(kind, schema)
        else:
            self._pass_over(kind, schema)
        self._levels -= 1

    def _name(self, schema: Any) -> Any:
        """Return what a schema is, where it is the name of an earlier one; remember it, where it has a name."""
        if isinstance(schema, str):
            return self._named.get(schema, schema)
        if isinstance(schema, dict) and schema["type"] in ("record", "enum", "fixed"):
            require(schema["name"] not in PRIMITIVES)
            self._named[schema["name"]] = schema
        return schema

    def _union(self, branches: list[Any], role: Role | None) -> None:
        at = self._add(UNION, len(branches))
        for _ in branches:
            self._add(JUMP)
        ends = []
        for index, branch in enumerate(branches):
            self._code[at + 1 + index][1] = len(self._code)
            self._value(branch, role)
            if index + 1 < len(branches):
                ends.append(self._add(JUMP))
        for end in ends:
            self._code[end][1] = len(self._code)
        for index in range(len(branches)):  # a branch of nothing but a jump
            place = self._code[at + 1 + index]
            while place[1] < len(self._code) and self._code[place[1]][0] == JUMP:
                place[1] = self._code[place[1]][1]

    def _repeated(self, item: Callable[[], None]) -> None:
        require(self._depth < DEEPEST)
        self._depth += 1
        at = self._add(BLOCK)
        item()
        self._add(NEXT, at)
        self._code[at][1] = len(self._code)
        self._depth -= 1

    def _pass_over(self, kind: str, schema: Any) -> None:
        if kind in PLAIN:
            self._add(PLAIN[kind])
        elif kind == "enum":
            self._add(ENUM, len(schema["symbols"]))
        elif kind == "fixed":
            self._add(FIXED, schema["size"])
        elif kind == "array":
            self._repeated(lambda: self._value(schema["items"], None))
        elif kind == "map":
            self._repeated(lambda: self._entry(schema["values"]))
        elif kind == "record":
            for field in schema["fields"]:
                self._value(field["type"], None)
        else:
            require(kind == "null")

    def _entry(self, values: Any) -> None:
        self._add(TEXT)
        self._value(values, None)


class _Compiler(Writer):
    """Writes the program of a schema of points."""

    def __init__(self, config: PointsConfig, features: tuple[str, ...], *, labeled: bool) -> None:
        super().__init__()
        self._config = config
        self._features = {name: index for index, name in enumerate(features)}
        self._labeled = labeled
        self.least_of_x = 0
        """Bytes that x takes beyond those of an empty array."""
        require(len(self._features) == len(features) and not self._features.keys() & {"x", "y", "w", "id", *_MARKERS})

    def points(self, schema: Any, *, many: bool) -> list[list[int]]:
        if many:
            self._name(schema)
            self._repeated(lambda: self._row(schema["items"]))
        else:
            self._row(schema)
        self._add(END)
        return self._code

    def _row(self, record: Any) -> None:
        record = self._name(record)
        fields = {field["name"]: field["type"] for field in record["fields"]}
        require(len(fields) == len(record["fields"]))  # of two fields of one name the general reader takes the last
        require("x" in fields or bool(self._features))
        require("y" in fields or not self._labeled)
        self._add(BEGIN)
        for name, kind in fields.items():
            if name == "x":
                items = self._name(kind)["items"]
                entry = NUMERIC[items["type"] if isinstance(items, dict) else items]
                self.least_of_x = 1 + self._config.dimension * LEAST_BYTES[entry]
                self._add(VECTOR, entry)
            elif name in self._features:
                self._value(kind, self._feature(self._features[name]))
            else:
                roles = {
                    "y": self._label,
                    "w": self._weight,
                    "id": self._id,
                    **dict.fromkeys(_MARKERS, self._operation),
                }
                self._value(kind, roles.get(name))
        self._add(ROW)

    def _feature(self, index: int) -> Role:
        def role(kind: str, schema: Any) -> None:  # noqa: ARG001
            if kind in NUMERIC:
                self._add(NUMERIC[kind], 0, FEATURE, index)
            else:
                self._add(REFUSE)

        return role

    def _weight(self, kind: str, schema: Any) -> None:  # noqa: ARG002
        if kind in NUMERIC:
            self._add(NUMERIC[kind], 0, WEIGHT)
        elif kind != "null":
            self._add(REFUSE)

    def _operation(self, kind: str, schema: Any) -> None:  # noqa: ARG002
        if kind != "null":
            self._add(REFUSE)

    def _id(self, kind: str, schema: Any) -> None:
        if kind in ("int", "long"):
            self._add(LONG, 0, NUMBER_ID)
        elif kind == "string":
            self._add(TEXT, 0, TEXT_ID)
        elif kind == "enum" and self._labeled:
            self._pass_over(kind, schema)
        elif kind != "null":
            self._add(REFUSE)

    def _label(self, kind: str, schema: Any) -> None:
        if not self._labeled and kind in (*NUMERIC, "boolean", "string", "enum", "null"):
            self._pass_over(kind, schema)
            return
        labels = self._config.labels
        if len(labels) > 2:  # the compiled reader knows signs only; the general one reads such records
            self._add(REFUSE)
            return
        form = type(labels[0])
        if form is int and kind in NUMERIC and max(map(abs, labels)) < LARGEST_EXACT:  # type: ignore[arg-type]
            self._add(NUMERIC[kind], 0, LABEL)
        elif form is bool and kind == "boolean":
            self._add(BOOLEAN, 0, LABEL)
        elif form is str and kind == "string":
            self._add(TEXT, 0, WORDS)
        elif form is str and kind == "enum":
            symbols = list(schema["symbols"])
            negative, positive = (symbols.index(label) if label in symbols else -1 for label in labels)
            self._add(ENUM, len(symbols), SYMBOL, negative, positive)
        else:
            self._add(REFUSE)


def require(condition: bool) -> None:
    """Leave the schema to the general reader, unless something is true of it."""
    if not condition:
        raise UnsupportedSchema

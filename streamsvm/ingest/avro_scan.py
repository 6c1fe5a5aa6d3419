"""A compiled reader for many Avro points; it declines every record of which it cannot say that all its rows are valid.

A writer's schema becomes a program, once: a list of instructions, each of which reads one value and says what becomes
of it. One compiled loop runs the programs of a batch over its bytes, and writes features, signs and weights where the
decoder keeps them. A schema that cannot become a program is left to the general reader, and so is a record that the
loop declines: it may be valid or not. `streamsvm.ingest.avro` is that reader, and the reference for what is accepted.

No library does this: the readers of columns that there are (arrow-avro, polars) take container files that their user
trusts, and answer for a file, not for a record.

Invariant: an accepted record has the rows that the general reader gives it. No byte of its neighbours is read, and what
is allocated is bounded by the bytes there are.
Source: the Avro specification 1.12, "Binary Encoding", https://avro.apache.org/docs; RFC 3629 for UTF-8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import Label, PointsConfig
from streamsvm.ingest.decimals import DECLINED, EIGHT, HIGH_BITS, NONE, ONE, PADDING, byte, compiled, inlined, word
from streamsvm.ingest.row import LARGEST_EXACT, LARGEST_WEIGHT, SMALLEST_WEIGHT

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
SKIP, FEATURE, WEIGHT, LABEL, SYMBOL, WORDS, NUMBER_ID, TEXT_ID = range(8)
NUMERIC: Final = {"int": LONG, "long": LONG, "float": FLOAT, "double": DOUBLE}
PLAIN: Final = {**NUMERIC, "boolean": BOOLEAN, "bytes": BYTES, "string": TEXT}
PRIMITIVES: Final = {*PLAIN, "null"}
LEAST_BYTES: Final = {LONG: 1, FLOAT: 4, DOUBLE: 8}
FOUR_BYTES: Final = np.uint64(4)
SEVEN: Final = np.uint64(7)
LONGEST: Final = np.uint64(63)
LOW_SEVEN: Final = np.uint64(127)
NO_ID, A_NUMBER = -2, -1
"""In place of an id's length."""


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
    """

    instructions: NDArray[np.int32]
    least_row: int
    many: bool


@dataclass(frozen=True, slots=True)
class Scanned:
    """The rows of the accepted records.

    Attributes
    ----------
    rows : ndarray of shape (records,), int64
        How many rows a record has; -1 where it was declined.
    X : ndarray of shape (n, d), of the dtype of `points.dtype`
    sign : ndarray of shape (n,), int8
    weight : ndarray of shape (n,), float64
    ids : ndarray of shape (n, 2), int64
        Where an id's text begins in `buffer`, and its length; or a number and -1; or none, and -2.
    buffer : bytes
    """

    rows: NDArray[np.int64]
    X: NDArray[np.floating]
    sign: NDArray[np.int8]
    weight: NDArray[np.float64]
    ids: NDArray[np.int64]
    buffer: bytes

    def ids_of(self, rows: slice) -> list[str | int | None]:
        """Return the ids of some rows."""
        found = self.ids[rows]
        if (found[:, 1] == NO_ID).all():
            return [None] * len(found)
        return [
            None if size == NO_ID else value if size == A_NUMBER else self.buffer[value : value + size].decode()
            for value, size in found.tolist()
        ]


def scan(
    values: Sequence[bytes],
    size: NDArray[np.int64],
    programs: Sequence[Program],
    which: NDArray[np.int64],
    skipped: int,
    config: PointsConfig,
    largest: float,
    most_rows: int,
) -> Scanned:
    """Read records.

    Parameters
    ----------
    values : sequence of n bytes
    size : ndarray of shape (n,), int64
        Bytes of each value.
    programs : sequence of Program
        At least one.
    which : ndarray of shape (n,), int64
        The program of each value; -1 declines it.
    skipped : int
        Bytes of the header that each value with a program begins with.
    config : PointsConfig
    largest : float
        A record with a feature of larger magnitude is declined.
    most_rows : int
        A record with more rows is declined.
    """
    entry = np.cumsum([0, *(len(program.instructions) for program in programs[:-1])])
    code = np.concatenate([program.instructions for program in programs]) if len(programs) > 1 else None
    least = np.array([program.least_row for program in programs])
    most = np.array([most_rows if program.many else min(1, most_rows) for program in programs])
    taken = which >= 0
    room = np.where(taken, np.minimum(most[which], size // least[which]), 0)
    n = int(room.sum())
    X, weight = np.empty((n, config.dimension)), np.empty(n)  # of one dtype: the reader is compiled once
    sign, ids, rows = np.empty(n, np.int8), np.empty((n, 2), np.int64), np.empty(len(size), np.int64)
    buffer = b"".join([*(value if good else b"" for value, good in zip(values, taken.tolist(), strict=True)), PADDING])
    words, lengths = _words(config.labels)
    count = _scan(
        np.frombuffer(buffer, np.uint8),
        np.where(taken, size, 0),
        np.uint64(skipped),
        programs[0].instructions if code is None else code,
        np.where(taken, entry[which], -1),
        room,
        _numbers(config.labels),
        words,
        lengths,
        largest,
        X,
        sign,
        weight,
        ids,
        rows,
    )
    features = X[:count].astype(config.numpy_dtype, copy=False)
    return Scanned(rows, features, sign[:count], weight[:count], ids[:count], buffer)


def warm_up() -> None:
    """Compile the reader, or load it from numba's file cache."""
    config = PointsConfig(dimension=1)
    schema = {"type": "record", "name": "P", "fields": [{"name": "x", "type": {"type": "array", "items": "double"}}]}
    program = compile_schema(schema, many=False, features=(), config=config, labeled=False, least_bytes=1)
    assert program is not None
    value = b"\x02" + np.float64(1.5).tobytes() + b"\x00"
    found = scan([value], np.array([len(value)]), [program], np.zeros(1, np.int64), 0, config, 2.0, 1)
    assert found.X.tolist() == [[1.5]]


# ------------------------------------------------------------------------------------------------- schemas to programs


class _Unsupported(Exception):
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
    except _Unsupported:
        return None
    return Program(np.array(instructions, np.int32), max(1, least_bytes + written.least_of_x), many)


class _Compiler:
    """Writes the program of one schema."""

    def __init__(self, config: PointsConfig, features: tuple[str, ...], *, labeled: bool) -> None:
        self._config = config
        self._features = {name: index for index, name in enumerate(features)}
        self._labeled = labeled
        self._code: list[list[int]] = []
        self._named: dict[str, Any] = {}
        self._depth = self._levels = self._values = 0
        self.least_of_x = 0
        """Bytes that x takes beyond those of an empty array."""
        _require(len(self._features) == len(features) and not self._features.keys() & {"x", "y", "w", "id", "op"})

    def points(self, schema: Any, *, many: bool) -> list[list[int]]:
        if many:
            self._name(schema)
            self._repeated(lambda: self._row(schema["items"]))
        else:
            self._row(schema)
        self._add(END)
        return self._code

    def _add(self, read: int, operand: int = 0, then: int = SKIP, first: int = 0, second: int = 0) -> int:
        _require(len(self._code) < MOST_INSTRUCTIONS and abs(operand) < 1 << 31)
        self._code.append([read, operand, then, first, second])
        return len(self._code) - 1

    def _row(self, record: Any) -> None:
        record = self._name(record)
        fields = {field["name"]: field["type"] for field in record["fields"]}
        _require(len(fields) == len(record["fields"]))  # of two fields of one name the general reader takes the last
        _require("x" in fields or bool(self._features))
        _require("y" in fields or not self._labeled)
        self._add(BEGIN)
        for name, kind in fields.items():
            if name == "x":
                self._vector(self._name(kind))
            elif name in self._features:
                self._value(kind, self._feature(self._features[name]))
            else:
                roles = {"y": self._label, "w": self._weight, "id": self._id, "op": self._operation}
                self._value(kind, roles.get(name))
        self._add(ROW)

    def _vector(self, kind: Any) -> None:
        items = kind["items"]
        entry = NUMERIC[items["type"] if isinstance(items, dict) else items]
        self.least_of_x = 1 + self._config.dimension * LEAST_BYTES[entry]
        self._add(VECTOR, entry)

    def _value(self, schema: Any, role: Callable[[str, Any], None] | None) -> None:
        """Read a value of any type: by its role, or to pass over it (None)."""
        self._values += 1  # records of nothing take no instructions
        self._levels += 1
        _require(self._values <= MOST_INSTRUCTIONS and self._levels <= MOST_LEVELS)
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
            _require(schema["name"] not in PRIMITIVES)
            self._named[schema["name"]] = schema
        return schema

    def _union(self, branches: list[Any], role: Callable[[str, Any], None] | None) -> None:
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
        _require(self._depth < DEEPEST)
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
            _require(kind == "null")

    def _entry(self, values: Any) -> None:
        self._add(TEXT)
        self._value(values, None)

    def _feature(self, index: int) -> Callable[[str, Any], None]:
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


def _require(condition: bool) -> None:
    if not condition:
        raise _Unsupported


def _numbers(labels: tuple[Label, Label]) -> NDArray[np.float64]:
    """Return the labels as numbers, or any two where they are text."""
    return np.array([float(label) if isinstance(label, int) else 0.0 for label in labels])


def _words(labels: tuple[Label, Label]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the labels' bytes, one after the other, and how many each has."""
    words = [label.encode(errors="surrogatepass") if isinstance(label, str) else b"" for label in labels]
    return np.frombuffer(b"".join(words), np.uint8), np.array(list(map(len, words)))


# ---------------------------------------------------------------------------------------------------------------- bytes


@compiled()
def _scan(
    buffer: NDArray[np.uint8],
    size: NDArray[np.int64],
    skipped: np.uint64,
    code: NDArray[np.int32],
    entry: NDArray[np.int64],
    room: NDArray[np.int64],
    labels: NDArray[np.float64],
    words: NDArray[np.uint8],
    lengths: NDArray[np.int64],
    largest: float,
    X: NDArray[np.float64],
    sign: NDArray[np.int8],
    weight: NDArray[np.float64],
    ids: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> int:
    """Fill `rows`, and `X`, `sign`, `weight` and `ids` row after row; return how many rows there are."""
    base = np.uint64(buffer.ctypes.data)
    begin, left = np.empty(DEEPEST, np.int64), np.empty(DEEPEST, np.int64)
    row, stop = np.int64(0), base  # a literal 0 would have what it calls compiled once more
    for record in range(len(size)):
        at = stop
        stop = at + np.uint64(size[record])
        first, last = row, row + room[record]
        rows[record] = -1
        start = entry[record]
        if start < 0:
            continue
        at += skipped
        at_code, depth = start, -1
        value, real = 0, 0.0
        while True:
            read, then = code[at_code, 0], code[at_code, 2]
            operand = np.int64(code[at_code, 1])
            at_code += 1
            if read <= VECTOR:
                at, value = _long(at, stop)
                if at == DECLINED:
                    break
                real = np.float64(value)
                if read == UNION:
                    if not 0 <= value < operand:
                        break
                    at_code = start + np.int64(code[at_code + value, 1])
                    continue
                if read == VECTOR:
                    at = _entries(at, stop, value, operand, X, row, largest)
                    if at == DECLINED:
                        break
                    continue
                if read == BLOCK:
                    if value == 0:
                        at_code = start + operand
                        continue
                    at, value = _items(at, stop, value)
                    if at == DECLINED:
                        break
                    depth += 1
                    begin[depth], left[depth] = at_code, value
                    continue
                if read == ENUM:
                    if not 0 <= value < operand:
                        break
                elif read != LONG:  # text or bytes
                    if not 0 <= value <= np.int64(stop - at):
                        break
                    if read == TEXT and not _is_text(at, at + np.uint64(value)):
                        break
                    at += np.uint64(value)
            elif read == DOUBLE:
                if stop - at < EIGHT:
                    break
                real = np.uint64(word(at)).view(np.float64)
                at += EIGHT
            elif read == FLOAT:
                if stop - at < FOUR_BYTES:
                    break
                real = np.float64(np.uint32(word(at)).view(np.float32))
                at += FOUR_BYTES
            elif read == NEXT:
                left[depth] -= 1
                if left[depth]:
                    at_code = begin[depth]
                else:
                    depth -= 1
                    at_code = start + operand
                continue
            elif read == BEGIN:
                if row == last:
                    break
                sign[row], weight[row], ids[row, 1] = 1, 1.0, NO_ID
                continue
            elif read == ROW:
                row += 1
                continue
            elif read == JUMP:
                at_code = start + operand
                continue
            elif read == BOOLEAN:
                if at == stop:
                    break
                real = 1.0 if byte(at) else 0.0
                at += ONE
            elif read == FIXED:
                if np.int64(stop - at) < operand:
                    break
                at += np.uint64(operand)
            else:
                if read == END and at == stop and row > first:
                    rows[record] = row - first
                break
            if then == SKIP:
                continue
            operand = np.int64(code[at_code - 1, 3])
            if then == FEATURE:
                if not abs(real) <= largest:
                    break
                X[row, operand] = real
            elif then == WEIGHT:
                if not SMALLEST_WEIGHT <= real <= LARGEST_WEIGHT:
                    break
                weight[row] = real
            elif then == LABEL:
                if real == labels[1]:
                    sign[row] = 1
                elif real == labels[0]:
                    sign[row] = -1
                else:
                    break
            elif then == SYMBOL:
                if value == code[at_code - 1, 4]:
                    sign[row] = 1
                elif value == operand:
                    sign[row] = -1
                else:
                    break
            elif then == WORDS:
                text = at - np.uint64(value)
                if value == lengths[1] and _equals(text, words, lengths[0], value):
                    sign[row] = 1
                elif value == lengths[0] and _equals(text, words, np.int64(0), value):
                    sign[row] = -1
                else:
                    break
            elif then == TEXT_ID:
                ids[row, 0], ids[row, 1] = np.int64(at - np.uint64(value) - base), value
            else:
                ids[row, 0], ids[row, 1] = value, A_NUMBER
        if rows[record] < 0:
            row = first
    return int(row)


@inlined()
def _long(at, stop):  # type: ignore[no-untyped-def]
    """Read an integer of variable length; return where it ends, or `DECLINED`, and its value."""
    bits, shift = NONE, NONE
    while at < stop and shift <= LONGEST:
        part = np.uint64(byte(at))
        at += ONE
        bits |= (part & LOW_SEVEN) << shift
        if part <= LOW_SEVEN:
            if shift == LONGEST and part > ONE:
                break
            return at, np.int64(bits >> ONE) ^ -np.int64(bits & ONE)
        shift += SEVEN
    return DECLINED, np.int64(0)


@inlined()
def _items(at, stop, count):  # type: ignore[no-untyped-def]
    """Return where a block's items begin, or `DECLINED`, and how many they are: a negative count precedes a size."""
    if count < 0:
        at, _ = _long(at, stop)
        count = -count
        if count < 0:  # the least of all integers
            at = DECLINED
    return at, count


@compiled()
def _entries(at, stop, count, kind, X, row, largest):  # type: ignore[no-untyped-def]
    """Read an array of as many numbers as `X` has columns, after the first block's count; return where it ends."""
    filled, dimension = 0, X.shape[1]
    while count:
        at, count = _items(at, stop, count)
        if at == DECLINED or count > dimension - filled:
            return DECLINED
        good = True
        if kind == DOUBLE:
            if np.int64(stop - at) < 8 * count:
                return DECLINED
            for index in range(filled, filled + count):
                entry = np.uint64(word(at)).view(np.float64)
                X[row, index] = entry
                good &= abs(entry) <= largest
                at += EIGHT
        elif kind == FLOAT:
            if np.int64(stop - at) < 4 * count:
                return DECLINED
            for index in range(filled, filled + count):
                entry = np.float64(np.uint32(word(at)).view(np.float32))
                X[row, index] = entry
                good &= abs(entry) <= largest
                at += FOUR_BYTES
        else:
            for index in range(filled, filled + count):
                at, whole = _long(at, stop)
                if at == DECLINED:
                    return DECLINED
                X[row, index] = np.float64(whole)
        if not good:
            return DECLINED
        filled += count
        at, count = _long(at, stop)
        if at == DECLINED:
            return DECLINED
    return at if filled == dimension else DECLINED


@compiled()
def _is_text(at, stop):  # type: ignore[no-untyped-def]
    """Tell whether bytes are UTF-8."""
    while at < stop:
        if stop - at >= EIGHT and not word(at) & HIGH_BITS:
            at += EIGHT
            continue
        lead = byte(at)
        at += ONE
        if lead < 0x80:
            continue
        if 0xC2 <= lead < 0xE0:
            more = 1
        elif 0xE0 <= lead < 0xF0:
            more = 2
        elif 0xF0 <= lead < 0xF5:
            more = 3
        else:
            return False
        if np.int64(stop - at) < more:
            return False
        low = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
        high = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
        for _ in range(more):
            if not low <= byte(at) <= high:
                return False
            low, high = 0x80, 0xBF
            at += ONE
    return True


@inlined()
def _equals(at, words, first, size):  # type: ignore[no-untyped-def]
    """Tell whether bytes at an address are those of `words` from a place on."""
    different = 0
    for index in range(size):
        different += byte(at + np.uint64(index)) != words[first + index]
    return different == 0

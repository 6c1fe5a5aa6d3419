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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import Label, PointsConfig
from streamsvm.ingest.avro_programs import (
    BEGIN,
    BLOCK,
    BOOLEAN,
    DEEPEST,
    DOUBLE,
    END,
    ENUM,
    FEATURE,
    FIXED,
    FLOAT,
    JUMP,
    LABEL,
    LONG,
    MOST_EXACT_POWER,
    NEXT,
    ROW,
    SKIP,
    SLOT,
    SLOT_OF_DECIMAL,
    SLOT_OF_SYMBOL,
    SYMBOL,
    TEXT,
    TEXT_ID,
    UNION,
    VECTOR,
    WEIGHT,
    WORDS,
    Program,
    compile_schema,
)
from streamsvm.ingest.decimals import DECLINED, EIGHT, NONE, ONE, PADDING, byte, compiled, inlined, word
from streamsvm.ingest.row import LARGEST_EXACT, LARGEST_WEIGHT, SMALLEST_WEIGHT
from streamsvm.ingest.slots import REAL, TEXT as TEXT_KIND, Slots, is_text

FOUR_BYTES: Final = np.uint64(4)
SEVEN: Final = np.uint64(7)
LONGEST: Final = np.uint64(63)
LOW_SEVEN: Final = np.uint64(127)
MOST_DECIMAL_BYTES: Final = 64
"""Of a decimal that is read; a longer one is left to the general reader."""
POWERS: Final = np.array([10.0**power for power in range(MOST_EXACT_POWER + 1)])
NO_ID, A_NUMBER = -2, -1
"""In place of an id's length."""


@dataclass(frozen=True, slots=True)
class ScannedAvro:
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

    def ids_of(self, rows: slice) -> list[str | int | None] | None:
        """Return the ids of some rows; None if none has one."""
        found = self.ids[rows]
        if (found[:, 1] == NO_ID).all():
            return None
        return [
            None if size == NO_ID else value if size == A_NUMBER else self.buffer[value : value + size].decode()
            for value, size in found.tolist()
        ]


def scan(
    values: Sequence[bytes],
    size: NDArray[np.int64],
    programs: Sequence[Program],
    which: NDArray[np.int64],
    skipped: NDArray[np.int64],
    *,
    config: PointsConfig,
    largest: float,
    most_rows: int,
) -> ScannedAvro:
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
    skipped : ndarray of shape (n,), int64
        Bytes of the frame that each value begins with.
    config : PointsConfig
    largest : float
        A record with a feature of larger magnitude is declined.
    most_rows : int
        A record with more rows is declined.
    """
    most = np.array([most_rows if program.many else min(1, most_rows) for program in programs])
    found, _ = _run(values, size, programs, which, skipped, config=config, largest=largest, most=most, fields=0)
    return found


def scan_slots(
    values: Sequence[bytes],
    size: NDArray[np.int64],
    programs: Sequence[Program],
    which: NDArray[np.int64],
    skipped: NDArray[np.int64],
    fields: int,
) -> tuple[NDArray[np.bool_], Slots]:
    """Read so many slots of records of one row each; as `scan`.

    Returns
    -------
    ndarray of shape (n,), bool
        Which records were read.
    Slots
        Of the records that were read, one after the other.
    """
    most = np.ones(len(programs), np.int64)
    scanned, slots = _run(
        values, size, programs, which, skipped, config=_NO_POINTS, largest=0.0, most=most, fields=fields
    )
    return scanned.rows > 0, slots


_NO_POINTS: Final = PointsConfig(dimension=1, labels=(-1, 1))


def _run(
    values: Sequence[bytes],
    size: NDArray[np.int64],
    programs: Sequence[Program],
    which: NDArray[np.int64],
    skipped: NDArray[np.int64],
    *,
    config: PointsConfig,
    largest: float,
    most: NDArray[np.int64],
    fields: int,
) -> tuple[ScannedAvro, Slots]:
    entry = np.cumsum([0, *(len(program.instructions) for program in programs[:-1])])
    taken = which >= 0
    buffer = b"".join([*(value if good else b"" for value, good in zip(values, taken.tolist(), strict=True)), PADDING])
    code, buffer, symbols = _joined(programs, buffer)
    least = np.array([program.least_row for program in programs])
    room = np.where(taken, np.minimum(most[which], size // least[which]), 0)
    n = int(room.sum())
    X, weight = np.empty((n, 0 if fields else config.dimension)), np.empty(n)  # one dtype: the reader is compiled once
    sign, ids, rows = np.empty(n, np.int8), np.empty((n, 2), np.int64), np.empty(len(size), np.int64)
    kind, value, length = Slots.empty(fields, n)
    words, lengths = _words(config.labels)
    count = _scan(
        np.frombuffer(buffer, np.uint8),
        np.where(taken, size, 0),
        skipped.astype(np.uint64),
        code,
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
        symbols,
        kind,
        value,
        length,
    )
    features = X[:count].astype(config.numpy_dtype, copy=False)
    slots = Slots(kind[:, :count], value[:, :count], length[:, :count], buffer)
    return ScannedAvro(rows, features, sign[:count], weight[:count], ids[:count], buffer), slots


def _joined(programs: Sequence[Program], buffer: bytes) -> tuple[NDArray[np.int32], bytes, NDArray[np.int64]]:
    """Return the programs as one, the buffer with their symbols behind it, and where each is in it, shape (m, 2)."""
    symbols = [symbol for program in programs for symbol in program.symbols]
    if len(programs) == 1 and not symbols:
        return programs[0].instructions, buffer, np.empty((0, 2), np.int64)
    code = np.concatenate([program.instructions for program in programs])
    start = first = 0
    for program in programs:
        own = code[start : start + len(program.instructions)]
        own[own[:, 2] == SLOT_OF_SYMBOL, 4] += first
        start, first = start + len(own), first + len(program.symbols)
    lengths = np.array(list(map(len, symbols)), np.int64)
    begin = len(buffer) + np.cumsum(lengths) - lengths
    return code, b"".join([buffer, *symbols, PADDING]), np.column_stack([begin, lengths])


def warm_up() -> None:
    """Compile the reader, or load it from numba's file cache."""
    config = PointsConfig(dimension=1)
    schema = {"type": "record", "name": "P", "fields": [{"name": "x", "type": {"type": "array", "items": "double"}}]}
    program = compile_schema(schema, many=False, features=(), config=config, labeled=False, least_bytes=1)
    assert program is not None
    value = b"\x02" + np.float64(1.5).tobytes() + b"\x00"
    found = scan(
        [value],
        np.array([len(value)]),
        [program],
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
        config=config,
        largest=2.0,
        most_rows=1,
    )
    assert found.X.tolist() == [[1.5]]


def _numbers(labels: tuple[Label, ...]) -> NDArray[np.float64]:
    """Return the labels as numbers, or any where they are text."""
    return np.array([float(label) if isinstance(label, int) else 0.0 for label in labels])


def _words(labels: tuple[Label, ...]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the labels' bytes, one after the other, and how many each has."""
    words = [label.encode(errors="surrogatepass") if isinstance(label, str) else b"" for label in labels]
    return np.frombuffer(b"".join(words), np.uint8), np.array(list(map(len, words)))


# ---------------------------------------------------------------------------------------------------------------- bytes


@compiled()
def _scan(
    buffer: NDArray[np.uint8],
    size: NDArray[np.int64],
    skipped: NDArray[np.uint64],
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
    symbols: NDArray[np.int64],
    kinds: NDArray[np.uint8],
    slots: NDArray[np.int64],
    slot_lengths: NDArray[np.int64],
) -> int:
    """Fill `rows`, and row after row `X`, `sign`, `weight`, `ids` and the slots; return how many rows there are."""
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
        at += skipped[record]
        at_code, depth = start, -1
        value, real = np.int64(0), 0.0
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
                    if read == TEXT and not is_text(at, at + np.uint64(value)):
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
                for field in range(len(kinds)):
                    kinds[field, row] = 0  # a record that was declined may have left something
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
                value = operand
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
            elif then == SLOT:
                kind = np.int64(code[at_code - 1, 4])
                kinds[operand, row] = kind
                if kind == TEXT_KIND:
                    slots[operand, row], slot_lengths[operand, row] = np.int64(at - np.uint64(value) - base), value
                elif kind == REAL:
                    slots[operand, row] = np.float64(real).view(np.int64)
                else:
                    slots[operand, row] = np.int64(real) if read == BOOLEAN else value
            elif then == SLOT_OF_SYMBOL:
                symbol = np.int64(code[at_code - 1, 4]) + value
                kinds[operand, row] = TEXT_KIND
                slots[operand, row], slot_lengths[operand, row] = symbols[symbol, 0], symbols[symbol, 1]
            elif then == SLOT_OF_DECIMAL:
                is_exact, unscaled = _unscaled(at, value)
                if not is_exact:
                    break
                kinds[operand, row] = REAL
                real = np.float64(unscaled) / POWERS[np.int64(code[at_code - 1, 4])]
                slots[operand, row] = np.float64(real).view(np.int64)
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
def _unscaled(at, size):  # type: ignore[no-untyped-def]
    """Return the integer in so many bytes before an address, and whether it has at most 53 bits.

    It is in two's complement, big endian; bytes in front that only repeat its sign are passed over.
    """
    if not 1 <= size <= MOST_DECIMAL_BYTES:
        return False, np.int64(0)
    at -= np.uint64(size)
    sign = np.int64(-1) if byte(at) > 0x7F else np.int64(0)
    made = sign
    for index in range(size):
        if not -LARGEST_EXACT <= made <= LARGEST_EXACT:
            return False, np.int64(0)
        made = made * 256 + np.int64(byte(at + np.uint64(index)))
    return -LARGEST_EXACT <= made <= LARGEST_EXACT, made


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


@inlined()
def _equals(at, words, first, size):  # type: ignore[no-untyped-def]
    """Return whether bytes at an address are those of `words` from a place on."""
    different = 0
    for index in range(size):
        different += byte(at + np.uint64(index)) != words[first + index]
    return different == 0

"""A compiled parser for many JSON points of the most common shape; it declines everything else.

The shape is an object with `x`, an array of d numbers; `y`, a number; optionally `w`, a number; and optionally `id`, a
short integer or plain ASCII text. Each field appears at most once, in any order, with whitespace anywhere. A declined
record may be valid or not (an example is a number whose exponent has six digits): a full JSON parser then decides.

Invariant: an accepted record has the values that any correct JSON parser gives it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.ingest.decimals import (
    DECLINED,
    FOUR,
    MINUS,
    NINE,
    ONE,
    PADDING,
    THREE,
    TWO,
    ZERO,
    byte,
    compiled,
    inlined,
    number,
)

MOST_ID_DIGITS: Final = np.uint64(18)
X_FIELD, Y_FIELD, WEIGHT_FIELD, ID_FIELD = 1, 2, 4, 8
QUOTE, BACKSLASH, COLON, COMMA = b'"\\:,'
OPEN, CLOSE, OPEN_LIST, CLOSE_LIST = b"{}[]"
X_, Y_, W_, I_, D_ = b"xywid"
SPACE, NEWLINE, RETURN, TAB = b" \n\r\t"
FIRST_PLAIN, LAST_PLAIN = b" ~"
SEPARATOR: Final = b"\0"
"""Byte between two values. It is not a legal byte of JSON, so the parser never runs into the next value."""
DOUBLE: Final = np.dtype(np.float64)


@dataclass(frozen=True, slots=True)
class Scanned:
    """The parsed records.

    Attributes
    ----------
    X : ndarray of shape (n, d), of the dtype asked for
    y, weight : ndarray of shape (n,), float64
    accepted : ndarray of shape (n,), bool
        False where the record was declined; its values are then meaningless.
    size : ndarray of shape (n,), int64
        Bytes of each record.
    ids : ndarray of shape (n, 2), int64
        Where in `buffer` the text of each id, or its digits, begins, and its length; 0 without one.
    buffer : ndarray of uint8
    """

    X: NDArray[np.floating]
    y: NDArray[np.float64]
    weight: NDArray[np.float64]
    accepted: NDArray[np.bool_]
    size: NDArray[np.int64]
    ids: NDArray[np.int64]
    buffer: NDArray[np.uint8]

    def ids_of(self, start: int, stop: int) -> ScannedIds | None:
        """Return the ids of some records; None if none has one."""
        ids = self.ids[start:stop]
        return ScannedIds(self.buffer, ids) if ids[:, 1].any() else None


class ScannedIds(Sequence[str | int | None]):
    """Ids that are read from the records where they are asked for; a number is the text of its digits."""

    def __init__(self, buffer: NDArray[np.uint8], ids: NDArray[np.int64]) -> None:
        self._buffer, self._ids = buffer, ids

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: Any) -> Any:
        begin, size = self._ids[index].tolist()
        return self._buffer[begin : begin + size].tobytes().decode() if size else None


def scan(
    values: Sequence[bytes],
    size: NDArray[np.int64],
    dimension: int,
    largest: float,
    dtype: np.dtype[np.floating] = DOUBLE,
) -> Scanned:
    """Parse records of one point each.

    Parameters
    ----------
    values : sequence of n bytes
    size : ndarray of shape (n,), int64
        Number of bytes of each value.
    dimension : int
    largest : float
        A record with a feature of larger magnitude is declined.
    dtype : numpy dtype
        Storage type of the features, which are first rounded correctly to float64.
    """
    n = len(values)
    X, others, accepted = np.empty((n, dimension), dtype), np.empty((2, n)), np.empty(n, np.bool_)
    buffer, ids = _padded(values), np.empty((n, 2), np.int64)
    _scan(buffer, size, X, others, ids, accepted, largest)
    return Scanned(X, others[0], others[1], accepted, size, ids, buffer)


def scan_array(
    value: bytes, dimension: int, largest: float, most_rows: int, dtype: np.dtype[np.floating] = DOUBLE
) -> Scanned | None:
    """Parse one record that is an array of points; None if it, or any row of it, is declined.

    Parameters
    ----------
    value : bytes
    dimension : int
    largest : float
        An array with a feature of larger magnitude is declined.
    most_rows : int
        An array with more rows is declined.
    dtype : numpy dtype
        As for `scan`.
    """
    n = min(value.count(b"{"), most_rows, len(value) // (2 * dimension))  # an entry takes two bytes at least
    X, others = np.empty((n, dimension), dtype), np.empty((2, n))
    buffer, ids = _padded([value]), np.empty((n, 2), np.int64)
    rows = _scan_array(buffer, len(value), X, others, ids, largest)
    if rows < 0:
        return None
    size = np.full(rows, len(value), np.int64)
    return Scanned(X[:rows], others[0, :rows], others[1, :rows], np.ones(rows, np.bool_), size, ids[:rows], buffer)


def warm_up(dtype: np.dtype[np.floating]) -> None:
    """Compile the parser, or load it from numba's file cache."""
    assert scan_array(b'[{"x": [1.5], "y": 1}]', 1, 2.0, 1, dtype) is not None
    value = b'{"x": [1.5], "y": 1}'
    assert scan([value], np.array([len(value)]), 1, 2.0, dtype).accepted.all()


def _padded(values: Sequence[bytes]) -> NDArray[np.uint8]:
    return np.frombuffer(SEPARATOR.join([*values, PADDING]), np.uint8)


@compiled()
def _scan(
    buffer: NDArray[np.uint8],
    size: NDArray[np.int64],
    X: NDArray[np.floating],
    others: NDArray[np.float64],
    ids: NDArray[np.int64],
    accepted: NDArray[np.bool_],
    largest: float,
) -> None:
    """Fill `X`, `others`, which are y and weight of each record, `ids` and `accepted`."""
    at = np.uint64(buffer.ctypes.data)
    begin = at
    for row in range(len(size)):
        end = at + np.uint64(size[row])
        stop = _record(skip(at), X, others, ids, row, largest)
        accepted[row] = stop != DECLINED and skip(stop) == end
        ids[row, 0] -= np.int64(begin)
        at = end + ONE


@compiled()
def _scan_array(
    buffer: NDArray[np.uint8],
    size: int,
    X: NDArray[np.floating],
    others: NDArray[np.float64],
    ids: NDArray[np.int64],
    largest: float,
) -> int:
    """Fill `X`, `others`, which are y and weight of each row, and `ids`; return the number of rows, or -1."""
    start = np.uint64(buffer.ctypes.data)
    end = start + np.uint64(size)
    at = skip(start)
    if byte(at) != OPEN_LIST:
        return -1
    for row in range(len(X)):
        at = _record(skip(at + ONE), X, others, ids, row, largest)
        if at == DECLINED:
            return -1
        ids[row, 0] -= np.int64(start)
        at = skip(at)
        if byte(at) == CLOSE_LIST:
            return row + 1 if skip(at + ONE) == end else -1
        if byte(at) != COMMA:
            return -1
    return -1


@inlined()
def _record(at, X, others, ids, row, largest):  # type: ignore[no-untyped-def]
    """Parse one point; return the address after it, or `DECLINED` if it has another shape."""
    others[1, row] = 1.0
    ids[row, 0], ids[row, 1] = 0, 0
    if byte(at) != OPEN:
        return DECLINED
    seen = 0
    while True:
        at = skip(at + ONE)
        field = _field(at)
        if not field or seen & field:
            return DECLINED
        seen |= field
        at = skip(at + (FOUR if field == ID_FIELD else THREE))
        if byte(at) != COLON:
            return DECLINED
        at = skip(at + ONE)
        if field == X_FIELD:
            if byte(at) != OPEN_LIST:
                return DECLINED
            for index in range(X.shape[1]):
                at, entry = number(skip(at + ONE))
                if at == DECLINED or not abs(entry) <= largest:
                    return DECLINED
                at = skip(at)
                if byte(at) != (COMMA if index + 1 < X.shape[1] else CLOSE_LIST):
                    return DECLINED
                X[row, index] = entry
            at += ONE
        elif field == ID_FIELD:
            text = np.uint64(byte(at) == QUOTE)
            first, at = at + text, _identity(at)
            ids[row, 0], ids[row, 1] = np.int64(first), np.int64(at - text - first)
        else:
            at, others[0 if field == Y_FIELD else 1, row] = number(at)
        if at == DECLINED:
            return DECLINED
        at = skip(at)
        if byte(at) == CLOSE:
            break
        if byte(at) != COMMA:
            return DECLINED
    return at + ONE if seen & (X_FIELD | Y_FIELD) == X_FIELD | Y_FIELD else DECLINED


@inlined()
def _field(at):  # type: ignore[no-untyped-def]
    """Return which field's quoted name begins here; 0 if it is another name."""
    if byte(at) != QUOTE:
        return 0
    letter = byte(at + ONE)
    if letter == I_:
        return ID_FIELD if byte(at + TWO) == D_ and byte(at + THREE) == QUOTE else 0
    field = X_FIELD if letter == X_ else Y_FIELD if letter == Y_ else WEIGHT_FIELD if letter == W_ else 0
    return field if byte(at + TWO) == QUOTE else 0


@inlined()
def _identity(at):  # type: ignore[no-untyped-def]
    """Skip an id: text without escapes, or an integer of at most 18 digits, which fits into 64 bits, but for -0."""
    if byte(at) == QUOTE:
        at += ONE
        while FIRST_PLAIN <= byte(at) <= LAST_PLAIN and byte(at) != BACKSLASH:
            if byte(at) == QUOTE:
                return at + ONE
            at += ONE
        return DECLINED
    if byte(at) == MINUS:
        at += ONE
        if byte(at) == ZERO:
            return DECLINED
    first = at
    while ZERO <= byte(at) <= NINE:
        at += ONE
    if not ONE <= at - first <= MOST_ID_DIGITS or (at - first > ONE and byte(first) == ZERO):
        return DECLINED
    return at


@inlined()
def skip(at):  # type: ignore[no-untyped-def]
    """Skip whitespace."""
    while byte(at) == SPACE or TAB <= byte(at) <= NEWLINE or byte(at) == RETURN:
        at += ONE
    return at

"""JSON points of the plainest kind, many records at once: a compiled parser that knows one shape and declines the rest.

The shape is an object of `x`, an array of d numbers, `y`, a number, and optionally `w`, a number, and `id`, a short
integer or plain ASCII text, each at most once and in any order, with whitespace anywhere. What is declined may be right
or wrong: a full JSON parser then tells.

Invariant: what is accepted has the value that any correct parser gives it. Numbers are rounded correctly: exactly where
digits and power of ten are small (W. D. Clinger, "How to read floating point numbers accurately", 1990), else by 128
bits of a power of five (D. Lemire, "Number parsing at a gigabyte per second", 2021), and declined where those do not
decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

LEAST_POWER, LARGEST_POWER = -342, 308
MOST_DIGITS: Final = 19
"""Significant digits that fit into 64 bits."""
MOST_ID_DIGITS: Final = 18
FAR: Final = 100_000
DECLINED: Final = -1
X_FIELD, Y_FIELD, WEIGHT_FIELD, ID_FIELD = 1, 2, 4, 8
TEN, EXACT = np.uint64(10), np.uint64(1 << 53)
QUOTE, BACKSLASH, COLON, COMMA = b'"\\:,'
OPEN, CLOSE, OPEN_LIST, CLOSE_LIST = b"{}[]"
MINUS, PLUS, POINT, SMALL_E, LARGE_E, ZERO, NINE = b"-+.eE09"
X_, Y_, W_, I_, D_ = b"xywid"
SPACE, NEWLINE, RETURN, TAB = b" \n\r\t"
FIRST_PLAIN, LAST_PLAIN = b" ~"


def _powers_of_five() -> NDArray[np.uint64]:
    """Return the 128 leading bits of 5^q for each q, shape (651, 2), high word first; rounded up where q < 0."""
    rows = []
    for q in range(LEAST_POWER, LARGEST_POWER + 1):
        power = 5 ** abs(q)
        bits = power.bit_length()
        if q >= 0:
            leading = power << (128 - bits) if bits <= 128 else power >> (bits - 128)
        else:
            quotient = (1 << (2 * bits + 128)) // power + 1
            excess = quotient.bit_length() - 128
            leading = quotient >> excess if q < -27 else (1 << (2 * bits + 128 - excess)) // power + 1
        rows.append((leading >> 64, leading & (1 << 64) - 1))
    return np.array(rows, dtype=np.uint64)


_FIVES = _powers_of_five()
_TENS = np.array([float(10**power) for power in range(23)])


@dataclass(frozen=True, slots=True)
class Scanned:
    """What was parsed.

    Attributes
    ----------
    X : ndarray of shape (n, d), float64
    y, weight : ndarray of shape (n,), float64
    accepted : ndarray of shape (n,), bool
        False where the record is declined; its values are then meaningless.
    """

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    weight: NDArray[np.float64]
    accepted: NDArray[np.bool_]


def scan(values: Sequence[bytes], dimension: int, largest: float) -> Scanned:
    """Parse records of one point each.

    Parameters
    ----------
    values : sequence of n bytes
    dimension : int
    largest : float
        A record with a feature of greater magnitude is declined.
    """
    n = len(values)
    ends = np.cumsum(np.fromiter(map(len, values), np.int64, n))
    buffer = np.frombuffer(b"".join(values), np.uint8)
    X, others, accepted = np.empty((n, dimension)), np.empty((2, n)), np.empty(n, np.bool_)
    _scan(buffer, ends, X, others, accepted, largest, _FIVES, _TENS)
    return Scanned(X, others[0], others[1], accepted)


def warm_up() -> None:
    """Compile, or load from numba's file cache."""
    assert scan([b'{"x": [1.5], "y": 1}'], 1, 2.0).accepted.all()


_compiled = partial(njit, cache=True, nogil=True, error_model="numpy")


@_compiled()
def _scan(
    buffer: NDArray[np.uint8],
    ends: NDArray[np.int64],
    X: NDArray[np.float64],
    others: NDArray[np.float64],
    accepted: NDArray[np.bool_],
    largest: float,
    fives: NDArray[np.uint64],
    tens: NDArray[np.float64],
) -> None:
    """Fill `X`, `others`, which are y and weight of each record, and `accepted`."""
    start = 0
    for row in range(len(ends)):
        others[1, row] = 1.0
        accepted[row] = _record(buffer, start, ends[row], X, others, row, largest, fives, tens)
        start = ends[row]


@_compiled()
def _record(buffer, at, end, X, others, row, largest, fives, tens):  # type: ignore[no-untyped-def]
    """Parse one record; tell whether all of it was understood."""
    at = _skip(buffer, at, end)
    if at >= end or buffer[at] != OPEN:
        return False
    seen = 0
    while True:
        at = _skip(buffer, at + 1, end)
        at, field = _name(buffer, at, end)
        if at < 0 or seen & field:
            return False
        seen |= field
        at = _skip(buffer, at, end)
        if at >= end or buffer[at] != COLON:
            return False
        at = _skip(buffer, at + 1, end)
        if field == X_FIELD:
            if at >= end or buffer[at] != OPEN_LIST:
                return False
            for index in range(X.shape[1]):
                at, entry = _number(buffer, _skip(buffer, at + 1, end), end, fives, tens)
                at = _skip(buffer, at, end) if at >= 0 and abs(entry) <= largest else end
                if at >= end or buffer[at] != (COMMA if index + 1 < X.shape[1] else CLOSE_LIST):
                    return False
                X[row, index] = entry
            at += 1
        elif field == ID_FIELD:
            at = _identity(buffer, at, end)
        else:
            at, others[0 if field == Y_FIELD else 1, row] = _number(buffer, at, end, fives, tens)
        at = _skip(buffer, at, end) if at >= 0 else end
        if at >= end:
            return False
        if buffer[at] == CLOSE:
            break
        if buffer[at] != COMMA:
            return False
    return seen & (X_FIELD | Y_FIELD) == X_FIELD | Y_FIELD and _skip(buffer, at + 1, end) == end


@_compiled()
def _name(buffer, at, end):  # type: ignore[no-untyped-def]
    """Read a field's name; return where its closing quote ends, or `DECLINED`, and which field it is."""
    if at + 3 >= end or buffer[at] != QUOTE:
        return DECLINED, 0
    letter = buffer[at + 1]
    if letter == I_ and buffer[at + 2] == D_ and buffer[at + 3] == QUOTE:
        return at + 4, ID_FIELD
    field = X_FIELD if letter == X_ else Y_FIELD if letter == Y_ else WEIGHT_FIELD if letter == W_ else 0
    return (at + 3 if field and buffer[at + 2] == QUOTE else DECLINED), field


@_compiled()
def _identity(buffer, at, end):  # type: ignore[no-untyped-def]
    """Pass over an id: text without escapes, or an integer that is no problem to anyone."""
    if at < end and buffer[at] == QUOTE:
        at += 1
        while at < end and FIRST_PLAIN <= buffer[at] <= LAST_PLAIN and buffer[at] != BACKSLASH:
            if buffer[at] == QUOTE:
                return at + 1
            at += 1
        return DECLINED
    if at < end and buffer[at] == MINUS:
        at += 1
    first = at
    while at < end and ZERO <= buffer[at] <= NINE:
        at += 1
    if not 1 <= at - first <= MOST_ID_DIGITS or (at - first > 1 and buffer[first] == ZERO):
        return DECLINED
    return at


@_compiled()
def _skip(buffer, at, end):  # type: ignore[no-untyped-def]
    """Pass over whitespace."""
    while at < end and buffer[at] <= SPACE and (buffer[at] in (SPACE, NEWLINE, RETURN, TAB)):
        at += 1
    return at


@_compiled()
def _number(buffer, at, end, fives, tens):  # type: ignore[no-untyped-def]
    """Parse a number; return where it ends, or `DECLINED`, and its value."""
    negative = at < end and buffer[at] == MINUS
    if negative:
        at += 1
    first, digits = at, np.uint64(0)
    while at < end and ZERO <= buffer[at] <= NINE:
        digits = digits * TEN + np.uint64(buffer[at] - ZERO)
        at += 1
    whole = at - first
    if whole == 0 or (whole > 1 and buffer[first] == ZERO):
        return DECLINED, 0.0
    power, fractional = 0, False
    if at < end and buffer[at] == POINT:
        at += 1
        power, fractional = at, True
        while at < end and ZERO <= buffer[at] <= NINE:
            digits = digits * TEN + np.uint64(buffer[at] - ZERO)
            at += 1
        power -= at
        if power == 0:
            return DECLINED, 0.0
    if whole - power > MOST_DIGITS and not _fits(buffer, first, whole - power):
        return DECLINED, 0.0
    if at < end and buffer[at] in (SMALL_E, LARGE_E):
        at, exponent = _exponent(buffer, at + 1, end)
        if at < 0:
            return DECLINED, 0.0
        power, fractional = power + exponent, True
    if digits == 0:
        if negative and not fractional:
            return DECLINED, 0.0  # an integer, which has no negative zero
        return at, -0.0 if negative else 0.0
    if digits < EXACT and -22 <= power <= 22:
        magnitude = np.float64(digits) / tens[-power] if power < 0 else np.float64(digits) * tens[power]
    elif LEAST_POWER <= power <= LARGEST_POWER:
        magnitude = np.uint64(_rounded(digits, power, fives)).view(np.float64)
    else:
        return DECLINED, 0.0
    if magnitude == 0.0:
        return DECLINED, 0.0
    return at, -magnitude if negative else magnitude


@_compiled()
def _fits(buffer, at, digits):  # type: ignore[no-untyped-def]
    """Tell whether so many digits from a place on, and a point between them, have at most `MOST_DIGITS` that count."""
    while digits and (buffer[at] == ZERO or buffer[at] == POINT):
        digits -= 1 if buffer[at] == ZERO else 0
        at += 1
    return digits <= MOST_DIGITS


@_compiled()
def _exponent(buffer, at, end):  # type: ignore[no-untyped-def]
    """Parse what follows the e; return where it ends, or `DECLINED`, and the exponent, if it is not absurd."""
    shrinks = at < end and buffer[at] == MINUS
    if at < end and (buffer[at] == MINUS or buffer[at] == PLUS):
        at += 1
    first, exponent = at, 0
    while at < end and ZERO <= buffer[at] <= NINE:
        if exponent < FAR:
            exponent = exponent * 10 + int(buffer[at]) - ZERO
        at += 1
    return (DECLINED if at == first else at), (-exponent if shrinks else exponent)


@_compiled()
def _rounded(digits, power, fives):  # type: ignore[no-untyped-def]
    """Return the bits of the float64 nearest to digits times ten to the power; 0 where that takes more than 128 bits.

    Subnormal numbers and those beyond float64 are left to others, too.
    """
    zeros = 0
    while not digits >> np.uint64(63):
        digits <<= np.uint64(1)
        zeros += 1
    high, low = _product(digits, fives[power - LEAST_POWER, 0])
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        second, _ = _product(digits, fives[power - LEAST_POWER, 1])
        low += second
        if low < second:
            high += np.uint64(1)
    if low == np.uint64(0xFFFFFFFFFFFFFFFF) and not -27 <= power <= 55:
        return np.uint64(0)
    top = np.int64(high >> np.uint64(63))
    mantissa = high >> np.uint64(top + 9)
    exponent = ((217706 * power) >> 16) + 63 + top - zeros + 1023
    if exponent <= 0:
        return np.uint64(0)
    halfway = low <= np.uint64(1) and -4 <= power <= 23 and mantissa & np.uint64(3) == np.uint64(1)
    if halfway and mantissa << np.uint64(top + 9) == high:
        mantissa &= ~np.uint64(1)
    mantissa = (mantissa + (mantissa & np.uint64(1))) >> np.uint64(1)
    if mantissa >= np.uint64(1 << 53):
        mantissa = np.uint64(1 << 52)
        exponent += 1
    if exponent >= 0x7FF:
        return np.uint64(0)
    return (mantissa & ~np.uint64(1 << 52)) | (np.uint64(exponent) << np.uint64(52))


@_compiled()
def _product(a: Any, b: Any) -> Any:
    """Multiply two 64-bit words; return the high and the low word."""
    mask = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    a_low, a_high, b_low, b_high = a & mask, a >> shift, b & mask, b >> shift
    lowest = a_low * b_low
    middle = a_high * b_low + (lowest >> shift)
    other = a_low * b_high + (middle & mask)
    return a_high * b_high + (middle >> shift) + (other >> shift), a * b

"""Decimal numbers in bytes, compiled: the float64 that any correct parser gives, or none.

Numbers are rounded correctly: exactly where digits and power of ten are small (W. D. Clinger, "How to read floating
point numbers accurately", 1990), else by 128 bits of a power of five (D. Lemire, "Number parsing at a gigabyte per
second", 2021), and declined where those do not decide. Eight digits are read as one word (Lemire, the same).

A place is an address, and tables are constants of the code: a call with an array counts references, which would take
as long as the parsing. The parsed bytes end with `PADDING`, which cannot be part of a number, so that no loop has to
check for the end.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from streamsvm.compiling import njit

PADDING: Final = bytes(8)
DECLINED: Final = np.uint64(2**64 - 1)
"""Where nothing ends."""

LEAST_POWER, LARGEST_POWER = -342, 308
MOST_DIGITS: Final = 19
"""Significant digits that fit into 64 bits."""
FAR: Final = 100_000
"""Exponents from here on are declined: a value that holds so many digits besides is for the full parser."""
NONE, ONE, TWO, THREE, FOUR, EIGHT, SIXTY_THREE = map(np.uint64, (0, 1, 2, 3, 4, 8, 63))
EXACT: Final = np.uint64(1 << 53)
MINUS, PLUS, POINT, SMALL_E, LARGE_E, ZERO, NINE = b"-+.eE09"
ZEROS, SIXES, LOW_SEVEN, HIGH_BITS, LOWEST_BYTE = map(
    np.uint64,
    (
        0x3030303030303030,
        0x7676767676767676,
        0x7F7F7F7F7F7F7F7F,
        0x8080808080808080,
        0xFF,
    ),
)


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
_WHOLE_TENS = np.array([10**power for power in range(9)], dtype=np.uint64)


_intrinsic: Any = intrinsic
compiled = partial(njit, cache=True, nogil=True, error_model="numpy")
inlined = partial(compiled, forceinline=True)


@_intrinsic
def byte(typing: Any, at: Any) -> Any:  # noqa: ARG001
    """Return the byte at an address."""

    def load(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.load(builder.inttoptr(arguments[0], ir.IntType(8).as_pointer()))

    return types.uint8(types.uint64), load


@_intrinsic
def word(typing: Any, at: Any) -> Any:  # noqa: ARG001
    """Return the eight bytes at an address, which need not be aligned, the first one lowest."""

    def load(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        word = builder.load(builder.inttoptr(arguments[0], ir.IntType(64).as_pointer()), align=1)
        return word if sys.byteorder == "little" else builder.bswap(word)

    return types.uint64(types.uint64), load


@_intrinsic
def zeros_below(typing: Any, marks: Any) -> Any:  # noqa: ARG001
    """Return how many zero bits stand below the lowest one; 64 where there is none."""

    def count(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), count


@inlined()
def number(at):  # type: ignore[no-untyped-def]
    """Parse a number of JSON; return where it ends, or `DECLINED`, and its value.

    Parameters
    ----------
    at : uint64
        Its address.
    """
    negative = np.uint64(byte(at) == MINUS)
    at += negative
    length, digits, places = _short(word(at))
    if length:
        magnitude = np.float64(digits) / _TENS[places]
        fractional = places > NONE
    else:
        length, fractional, magnitude = _long(at)
    if not length or (negative and magnitude == 0.0 and not fractional):  # an integer has no negative zero
        return DECLINED, 0.0
    return at + length, magnitude * (1.0 - 2.0 * np.float64(negative))


@inlined()
def _short(word):  # type: ignore[no-untyped-def]
    """Parse a number without sign and exponent that ends within a word: most of those that people send are so short.

    Returns its length, 0 where it is of another kind, its digits as a number, and how many stand behind the point.

    No branch hangs on how many digits there are before the point and after it: a wrong guess takes longer than this.
    """
    digits, marks = _digits(word)
    whole = _before(marks)
    length, count, places = whole, whole, NONE
    ends = marks != NONE
    if ends and (word >> EIGHT * whole) & LOWEST_BYTE == POINT:
        marks &= marks - ONE
        length = _before(marks)
        count, places = length - ONE, length - ONE - whole
        ends = marks != NONE and places > NONE
        before_point = (ONE << EIGHT * whole) - ONE
        digits = (digits & before_point) | (digits >> EIGHT & ~before_point)
    last = (word >> (EIGHT * length & SIXTY_THREE)) & LOWEST_BYTE
    leading_zero = whole > ONE and not digits & LOWEST_BYTE
    if not ends or not whole or leading_zero or last in (SMALL_E, LARGE_E):
        return NONE, NONE, NONE
    return length, _joined(digits, count), places


@inlined()
def _digits(word):  # type: ignore[no-untyped-def]
    """Return the bytes as digits, and set the highest bit of each byte that is not a digit."""
    digits = word ^ ZEROS
    return digits, (((digits & LOW_SEVEN) + SIXES) | digits) & HIGH_BITS


@inlined()
def _before(marks):  # type: ignore[no-untyped-def]
    """Return how many bytes stand before the first one that is marked; 8 where there is none."""
    return zeros_below(marks) >> THREE


@inlined()
def _joined(digits, count):  # type: ignore[no-untyped-def]
    """Return the number that the lowest `count` bytes, 1 to 8, are the digits of."""
    digits <<= EIGHT * (EIGHT - count)
    pairs = (digits * np.uint64(10 * 2**8 + 1)) >> np.uint64(8) & np.uint64(0x00FF00FF00FF00FF)
    fours = (pairs * np.uint64(100 * 2**16 + 1)) >> np.uint64(16) & np.uint64(0x0000FFFF0000FFFF)
    return (fours * np.uint64(10_000 * 2**32 + 1)) >> np.uint64(32)


@inlined()
def _run(at, value):  # type: ignore[no-untyped-def]
    """Append all digits from a place on to a number, modulo 2^64; return where they end, and the number."""
    while True:
        digits, marks = _digits(word(at))
        count = _before(marks)
        if count:
            value = value * _WHOLE_TENS[count] + _joined(digits, count)
            at += count
        if count < EIGHT:
            return at, value


@inlined()
def _long(first):  # type: ignore[no-untyped-def]
    """Parse an unsigned number; return its length (0: declined), whether it has a point or exponent, and its value."""
    at, digits = _run(first, NONE)
    count = at - first
    if count == NONE or (count > ONE and byte(first) == ZERO):
        return NONE, False, 0.0
    power, fractional = np.int64(0), False
    if byte(at) == POINT:
        point = at
        at, digits = _run(point + ONE, digits)
        power, fractional = np.int64(point + ONE) - np.int64(at), True
        if power == 0:
            return NONE, False, 0.0
        count += at - point - ONE
    if count > MOST_DIGITS and not _fits(first, count):
        return NONE, False, 0.0
    if byte(at) == SMALL_E or byte(at) == LARGE_E:
        at, exponent = _exponent(at + ONE)
        if at == DECLINED:
            return NONE, False, 0.0
        power, fractional = power + exponent, True
    magnitude = 0.0
    if digits:
        if digits < EXACT and -22 <= power <= 22:
            magnitude = np.float64(digits) / _TENS[-power] if power < 0 else np.float64(digits) * _TENS[power]
        elif LEAST_POWER <= power <= LARGEST_POWER:
            magnitude = np.uint64(_rounded(digits, power)).view(np.float64)
        if magnitude == 0.0:
            return NONE, False, 0.0
    return at - first, fractional, magnitude


@inlined()
def _fits(at, digits):  # type: ignore[no-untyped-def]
    """Return whether so many digits from a place on, and a point between them, have at most `MOST_DIGITS`."""
    while digits and (byte(at) == ZERO or byte(at) == POINT):
        digits -= np.uint64(byte(at) == ZERO)
        at += ONE
    return digits <= MOST_DIGITS


@inlined()
def _exponent(at):  # type: ignore[no-untyped-def]
    """Parse what follows the e; return where it ends, or `DECLINED`, as for one that is absurd, and the exponent."""
    shrinks = byte(at) == MINUS
    if shrinks or byte(at) == PLUS:
        at += ONE
    first, exponent = at, 0
    while ZERO <= byte(at) <= NINE:
        if exponent < FAR:
            exponent = exponent * 10 + int(byte(at)) - ZERO
        at += ONE
    return (DECLINED if at == first or exponent >= FAR else at), (-exponent if shrinks else exponent)


@compiled()
def _rounded(digits, power):  # type: ignore[no-untyped-def]
    """Return the bits of the float64 nearest to digits times ten to the power; 0 where that takes more than 128 bits.

    Subnormal numbers and those beyond float64 are left to others, too.
    """
    zeros = 0
    while not digits >> np.uint64(63):
        digits <<= np.uint64(1)
        zeros += 1
    high, low = _product(digits, _FIVES[power - LEAST_POWER, 0])
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        second, _ = _product(digits, _FIVES[power - LEAST_POWER, 1])
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


@compiled()
def _product(a: Any, b: Any) -> Any:
    """Multiply two 64-bit words; return the high and the low word."""
    mask = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    a_low, a_high, b_low, b_high = a & mask, a >> shift, b & mask, b >> shift
    lowest = a_low * b_low
    middle = a_high * b_low + (lowest >> shift)
    other = a_low * b_high + (middle & mask)
    return a_high * b_high + (middle >> shift) + (other >> shift), a * b

"""A compiled reader of the declared fields of many JSON events; it declines every record of which it is not certain.

One loop walks through a record's objects along the declared paths, and passes over what no path leads to. Declined are
values other than single ones under a declared path, declared texts and keys with escapes, keys that come twice,
integers beyond 53 bits, and what is no JSON: a full parser then decides. What is passed over has to be JSON, too.

Invariant: the fields of an accepted record are those that a full parser gives.
Source: RFC 8259.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.branches.events.field_slots import FieldSlots, Tree, same, tree_of
from streamsvm.field_paths import DEEPEST, Path
from streamsvm.ingest.decimals import (
    DECLINED,
    EIGHT,
    FOUR,
    HIGH_BITS,
    LARGE_E,
    NINE,
    NONE,
    ONE,
    PADDING,
    POINT,
    SMALL_E,
    THREE,
    ZERO,
    byte,
    compiled,
    inlined,
    number,
    word,
    zeros_below,
)
from streamsvm.ingest.json_rows import DEEPEST_NESTING, FAR_EXPONENT
from streamsvm.ingest.json_scan import (
    BACKSLASH,
    CLOSE,
    CLOSE_LIST,
    COLON,
    COMMA,
    OPEN,
    OPEN_LIST,
    QUOTE,
    SEPARATOR,
    skip,
)
from streamsvm.ingest.row import LARGEST_EXACT
from streamsvm.ingest.slots import INTEGER, REAL, TEXT, TRUTH, is_text

_NAMEABLE: Final = re.compile(r'[^\\"\x00-\x1f]+')
"""Keys that stand in a record as they are."""
MOST_LEVELS: Final = 60
"""Arrays and objects within one another that are passed over."""

LETTER_T, LETTER_F, LETTER_N, LETTER_U, LETTER_E = b"tfnue"
_ESCAPES: Final = b'"\\/bfnrt'
FIVE: Final = np.uint64(5)
ONES, QUOTES, BACKSLASHES, SPACES, BRACES = (
    np.uint64(0x0101010101010101 * one) for one in (1, QUOTE, BACKSLASH, 0x20, OPEN)
)
FOUR_LOW: Final = np.uint64(0xFFFFFFFF)
TRUE_, FALS, NULL = (np.uint64(int.from_bytes(text, "little")) for text in (b"true", b"fals", b"null"))
ESCAPED, NOT_ASCII, BRACKET = 1, 2, 4
"""What a text has: flags, and from BRACKET on how many brackets it has at most."""


class EventScanner:
    """Reads fields of JSON objects.

    Parameters
    ----------
    paths : sequence of Path
        Each once.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._count = len(paths)
        self._entries: NDArray[np.int64] | None = None
        self._keys = b""
        try:
            tree = tree_of(paths)
        except ValueError:
            return
        if paths and all(_NAMEABLE.fullmatch(str(step)) for path in paths for step in path):
            self._entries, self._first, self._keys = _tables(tree)

    def scan(
        self, values: Sequence[bytes | None], size: NDArray[np.int64], most_bytes: int
    ) -> tuple[NDArray[np.bool_], FieldSlots] | None:
        """Read records; None if the paths are of a kind that this reader cannot follow.

        Parameters
        ----------
        values : sequence of n bytes or None
        size : ndarray of shape (n,), int64
            Bytes of each value.
        most_bytes : int
            Of a record; longer ones are declined.

        Returns
        -------
        ndarray of shape (n,), bool
            Which records were read.
        FieldSlots
            Of the records that were read, one after the other.
        """
        if self._entries is None:
            return None
        short = size <= min(most_bytes, FAR_EXPONENT - 1)
        kept: list[Any] = [*values, PADDING]
        for at in np.flatnonzero(~short | (size == 0)).tolist():  # a value of no bytes may be None
            kept[at] = b""
        buffer = SEPARATOR.join(kept)
        kind, value, length = FieldSlots.empty(self._count, len(size))
        accepted = np.empty(len(size), np.bool_)
        count = _scan(
            np.frombuffer(buffer, np.uint8),
            np.where(short, size, 0),
            np.frombuffer(self._keys, np.uint8),
            self._entries,
            self._first,
            kind,
            value,
            length,
            accepted,
        )
        return accepted, FieldSlots(kind[:, :count], value[:, :count], length[:, :count], buffer)


def warm_up() -> None:
    """Compile the reader, or load it from numba's file cache."""
    value = b'{"a": {"b": 1.5}}'
    found = EventScanner([("a", "b")]).scan([value], np.array([len(value)]), 100)
    assert found is not None
    assert found[0].all()


def _tables(root: Tree) -> tuple[NDArray[np.int64], NDArray[np.int64], bytes]:
    """Return a tree as arrays.

    Returns
    -------
    ndarray of shape (entries, 3), int64
        For each key where it begins, its bytes, and what is under it: the place of a field, or -1 - an object's number.
    ndarray of shape (objects + 1,), int64
        Which entries are first in each object.
    bytes
        The keys.
    """
    objects, entries, first, keys = [root], list[tuple[int, int, int]](), [0], b""
    for inside in objects:  # which grows meanwhile
        for key, child in inside.items():
            if isinstance(child, dict):
                objects.append(child)
            text = key.encode()
            entries.append((len(keys), len(text), child if isinstance(child, int) else -len(objects)))
            keys += text
        first.append(len(entries))
    return np.array(entries, np.int64), np.array(first, np.int64), keys + PADDING


@compiled()
def _scan(
    buffer: NDArray[np.uint8],
    size: NDArray[np.int64],
    keys: NDArray[np.uint8],
    entries: NDArray[np.int64],
    first: NDArray[np.int64],
    kinds: NDArray[np.uint8],
    slots: NDArray[np.int64],
    lengths: NDArray[np.int64],
    accepted: NDArray[np.bool_],
) -> int:
    """Fill the slots, event after event, and `accepted`; return how many events there are."""
    base, key_base = np.uint64(buffer.ctypes.data), np.uint64(keys.ctypes.data)
    begin_next, row = base, np.int64(0)
    seen, above = np.full(len(entries), -1), np.empty(DEEPEST, np.int64)
    for record in range(len(size)):
        at = begin_next
        end = at + np.uint64(size[record])
        begin_next = end + ONE
        accepted[record] = False
        for field in range(len(kinds)):
            kinds[field, row] = 0
        at = skip(at)
        if byte(at) != OPEN:
            continue
        at = skip(at + ONE)
        depth, inside, brackets, is_empty = 0, np.int64(0), 1, byte(at) == CLOSE
        expected = np.int64(0)
        while True:
            if not is_empty:
                if byte(at) != QUOTE:
                    break
                begin = at + ONE
                at, flags = _text(begin)
                if at == DECLINED or flags & ESCAPED:
                    break
                if flags & NOT_ASCII and not is_text(begin, at):
                    break
                brackets += flags // BRACKET
                found = np.int64(-1)
                for tried in range(first[inside], first[inside + 1]):
                    entry = expected + tried - first[inside]
                    if entry >= first[inside + 1]:
                        entry -= first[inside + 1] - first[inside]
                    if entries[entry, 1] == np.int64(at - begin) and same(
                        begin, key_base + np.uint64(entries[entry, 0]), np.int64(at - begin)
                    ):
                        found = entry
                        expected = entry + 1
                        break
                if expected >= first[inside + 1]:
                    expected = first[inside]
                at = skip(at + ONE)
                if byte(at) != COLON:
                    break
                at = skip(at + ONE)
                if found < 0:
                    at, more = _passed(at)
                    if at == DECLINED:
                        break
                    brackets += more
                else:
                    if seen[found] == record:
                        break
                    seen[found] = record
                    child = entries[found, 2]
                    letter = byte(at)
                    if letter == LETTER_N:
                        if word(at) & FOUR_LOW != NULL:
                            break
                        at += FOUR
                    elif child < 0:
                        if letter != OPEN:
                            break
                        brackets += 1
                        above[depth] = inside
                        depth += 1
                        inside = -1 - child
                        expected = first[inside]
                        at = skip(at + ONE)
                        is_empty = byte(at) == CLOSE
                        continue
                    elif letter == QUOTE:
                        begin = at + ONE
                        at, flags = _text(begin)
                        if at == DECLINED or flags & ESCAPED:
                            break
                        if flags & NOT_ASCII and not is_text(begin, at):
                            break
                        brackets += flags // BRACKET
                        kinds[child, row] = TEXT
                        slots[child, row], lengths[child, row] = np.int64(begin - base), np.int64(at - begin)
                        at += ONE
                    elif letter in (LETTER_T, LETTER_F):
                        at, truth = _truth(at)
                        if at == DECLINED:
                            break
                        kinds[child, row], slots[child, row] = TRUTH, truth
                    else:
                        at, real, is_whole = _number(at)
                        if at == DECLINED or (is_whole and abs(real) >= LARGEST_EXACT):
                            break
                        kinds[child, row] = INTEGER if is_whole else REAL
                        slots[child, row] = np.int64(real) if is_whole else np.float64(real).view(np.int64)
            is_empty = False
            at = skip(at)
            letter = byte(at)
            while letter == CLOSE and depth:
                depth -= 1
                inside = above[depth]
                expected = first[inside]
                at = skip(at + ONE)
                letter = byte(at)
            if letter == COMMA:
                at = skip(at + ONE)
                continue
            accepted[record] = letter == CLOSE and skip(at + ONE) == end and brackets <= DEEPEST_NESTING
            break
        row += accepted[record]
        if row == kinds.shape[1]:
            break
    return int(row)


@compiled()
def _text(at):  # type: ignore[no-untyped-def]
    """Return where a text's closing quote stands, or `DECLINED`, and what it has; `at` is behind the opening one."""
    has, brackets = 0, 0
    while True:
        eight = word(at)
        quotes, backslashes, braces = eight ^ QUOTES, eight ^ BACKSLASHES, (eight | SPACES) ^ BRACES
        marks = ((quotes - ONES) & ~quotes) | ((backslashes - ONES) & ~backslashes) | ((eight - SPACES) & ~eight)
        marks &= HIGH_BITS
        opening = (braces - ONES) & ~braces & HIGH_BITS
        if marks == NONE:
            has |= NOT_ASCII if eight & HIGH_BITS else 0
            brackets += 8 if opening else 0
            at += EIGHT
            continue
        before = zeros_below(marks) >> THREE
        below = (ONE << EIGHT * before) - ONE
        has |= NOT_ASCII if eight & below & HIGH_BITS else 0
        brackets += 8 if opening & below else 0
        at += before
        if byte(at) == QUOTE:
            return at, has + BRACKET * brackets
        if byte(at) != BACKSLASH:
            return DECLINED, 0
        has |= ESCAPED
        at = _behind_escape(at + ONE)
        if at == DECLINED:
            return DECLINED, 0


@inlined()
def _behind_escape(at):  # type: ignore[no-untyped-def]
    """Return what follows an escape, or `DECLINED`: surrogates are left to others."""
    letter = byte(at)
    if letter == LETTER_U:
        code = 0
        for index in range(1, 5):
            digit = _hexadecimal(byte(at + np.uint64(index)))
            if digit < 0:
                return DECLINED
            code = code * 16 + digit
        return DECLINED if 0xD800 <= code <= 0xDFFF else at + FIVE
    for known in _ESCAPES:
        if letter == known:
            return at + ONE
    return DECLINED


@inlined()
def _hexadecimal(letter):  # type: ignore[no-untyped-def]
    """Return what a hexadecimal digit means; -1 of another byte."""
    if ZERO <= letter <= NINE:
        return np.int64(letter) - ZERO
    small = np.int64(letter) | 0x20
    return small - 0x57 if 0x61 <= small <= 0x66 else -1


@inlined()
def _truth(at):  # type: ignore[no-untyped-def]
    """Return what follows true or false, or `DECLINED`, and 1 or 0."""
    four = word(at) & FOUR_LOW
    if four == TRUE_:
        return at + FOUR, 1
    if four == FALS and byte(at + FOUR) == LETTER_E:
        return at + FIVE, 0
    return DECLINED, 0


@compiled()
def _number(at):  # type: ignore[no-untyped-def]
    """Return what follows a number, or `DECLINED`, its value, and whether it is written as an integer."""
    end, real = number(at)
    is_whole = end != DECLINED
    while is_whole and at < end:
        letter = byte(at)
        is_whole = letter != POINT and letter != SMALL_E and letter != LARGE_E
        at += ONE
    return end, real, is_whole


@compiled()
def _passed(at):  # type: ignore[no-untyped-def]
    """Return what follows a value of any kind, or `DECLINED`, and how many brackets it has at most."""
    depth, brackets, objects = 0, 0, NONE
    while True:
        letter = byte(at)
        if letter == QUOTE:
            at, more = _passed_text(at)
            brackets += more
        elif letter in (OPEN, OPEN_LIST):
            brackets += 1
            is_object = letter == OPEN
            at = skip(at + ONE)
            if byte(at) == (CLOSE if is_object else CLOSE_LIST):
                at += ONE
            else:
                if depth == MOST_LEVELS:
                    return DECLINED, 0
                depth += 1
                objects = (objects << ONE) | np.uint64(is_object)
                if is_object:
                    at, more = _passed_key(at)
                    brackets += more
                    if at == DECLINED:
                        return DECLINED, 0
                continue
        elif letter in (LETTER_T, LETTER_F):
            at, _ = _truth(at)
        elif letter == LETTER_N:
            at = at + FOUR if word(at) & FOUR_LOW == NULL else DECLINED
        else:
            at, _, _ = _number(at)
        if at == DECLINED:
            return DECLINED, 0
        if depth == 0:
            return at, brackets
        at = skip(at)
        letter = byte(at)
        while depth and letter == (CLOSE if objects & ONE else CLOSE_LIST):
            depth -= 1
            objects >>= ONE
            at += ONE
            if depth == 0:
                return at, brackets
            at = skip(at)
            letter = byte(at)
        if letter != COMMA:
            return DECLINED, 0
        at = skip(at + ONE)
        if objects & ONE:
            at, more = _passed_key(at)
            brackets += more
            if at == DECLINED:
                return DECLINED, 0


@inlined()
def _passed_text(at):  # type: ignore[no-untyped-def]
    """Return what follows a text, or `DECLINED`, and how many brackets it has at most."""
    begin = at + ONE
    at, flags = _text(begin)
    if at == DECLINED or (flags & NOT_ASCII and not is_text(begin, at)):
        return DECLINED, 0
    return at + ONE, flags // BRACKET


@inlined()
def _passed_key(at):  # type: ignore[no-untyped-def]
    """Return where the value of a key begins, or `DECLINED`, and how many brackets the key has at most."""
    if byte(at) != QUOTE:
        return DECLINED, 0
    at, brackets = _passed_text(at)
    if at == DECLINED:
        return DECLINED, 0
    at = skip(at)
    return (skip(at + ONE) if byte(at) == COLON else DECLINED), brackets

"""Fields of many events as compiled readers of bytes leave them: a kind, a word and a length for each.

Texts stay where they are, as addresses in the bytes of the records. Those of few distinct values become a code for each
event, and those that are read as times become numbers, without an object for each.

Invariant: `FieldSlots.fields` gives what a list of the parsed values gives.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.branches.events.features.fields import Coded, FieldValues, Instants, Numeric
from streamsvm.field_paths import Path
from streamsvm.ingest.decimals import EIGHT, NONE, ONE, PADDING, byte, compiled, inlined, word
from streamsvm.ingest.slots import INTEGER, MISSING, REAL, TEXT, TRUTH, Slots

MOST_DISTINCT: Final = 1_024
"""Distinct texts of a field in a batch that are coded, or half as many as there are events, whichever is more. Where
there are more of them, the text of each event is made for itself."""
_PLACES_A_TEXT: Final = 4
"""How many places the table has for each text that it may hold, at least; all together they are a power of two."""
_MOST_STEPS: Final = 32
"""Places of the table that are looked at for one text: who sends texts that collide gains nothing."""
_UNREAD: Final = np.iinfo(np.int64).min
_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
_HALF: Final = np.uint64(32)


Tree = dict[str, "Tree | int"]
"""Keys of an object, and under each what is inside, or the place of the field among the paths."""


def tree_of(paths: Sequence[Path]) -> Tree:
    """Return paths as a tree.

    Raises
    ------
    ValueError
        If one leads into an array, or goes on where another one ends.
    """
    root: Tree = {}
    for at, path in enumerate(paths):
        inside = root
        for step in path[:-1]:
            found = inside.setdefault(str(step), {})
            if isinstance(found, int):
                raise ValueError("a path goes on where another one ends")
            inside = found
        if not all(isinstance(step, str) for step in path) or path[-1] in inside:
            raise ValueError("a path leads into an array, or ends where another one goes on")
        inside[str(path[-1])] = at
    return root


@dataclass(frozen=True, slots=True)
class FieldSlots(Slots):
    """Fields of events, a slot each."""

    def fields(self, paths: Sequence[Path], times: Collection[Path]) -> dict[Path, FieldValues]:
        """Return each field, of which `times` are read as times of ISO 8601 before anything else."""
        return {path: self._field(at, is_time=path in times) for at, path in enumerate(paths)}

    def _field(self, at: int, *, is_time: bool) -> FieldValues:
        kind, value = self.kind[at], self.value[at]
        missing = kind == MISSING
        lacks = bool(missing.any())
        kinds = set(np.flatnonzero(np.bincount(kind, minlength=TEXT + 1)).tolist()) - {MISSING}
        only = kinds.pop() if len(kinds) == 1 else None
        if only is None:
            return self._listed(at)
        if only != TEXT:
            array = value.view(np.float64) if only == REAL else value.astype(np.bool_) if only == TRUTH else value
            return Numeric(array, missing if lacks else None)
        found = self._instants(at, missing, lacks=lacks) if is_time else self._coded(at, lacks=lacks)
        return self._listed(at) if found is None else found

    def _coded(self, at: int, *, lacks: bool) -> Coded | None:
        codes = np.empty(self.kind.shape[1], np.int64)
        first = np.empty(max(MOST_DISTINCT, len(codes) // 2), np.int64)
        buffer = np.frombuffer(self.buffer, np.uint8)
        count = code_texts(buffer, self.kind[at], self.value[at], self.length[at], codes, first)
        if count < 0:
            return None
        values: list[Any] = self._texts(self.value[at][first[:count]], self.length[at][first[:count]])
        if lacks:
            values.append(None)
            codes[codes < 0] = count
        return Coded(values, codes)

    def _instants(self, at: int, missing: NDArray[np.bool_], *, lacks: bool) -> Instants | None:
        address = np.frombuffer(self.buffer, np.uint8).ctypes.data + self.value[at]
        micros, local = read_times(address, np.where(missing, -1, self.length[at]))
        if micros is None or local is None:
            return None
        return Instants(micros, local, missing if lacks else None, partial(self._listed, at))

    def _texts(self, begin: NDArray[np.int64], length: NDArray[np.int64]) -> list[str]:
        buffer = self.buffer
        return [buffer[at : at + size].decode() for at, size in zip(begin.tolist(), length.tolist(), strict=True)]

    def _listed(self, at: int) -> list[Any]:
        """Return the value of each event, None where it is missing."""
        kind, value, length = self.kind[at], self.value[at], self.length[at]
        texts = kind == TEXT
        listed: list[Any] = [None] * len(kind)
        for rows, values in (
            (texts, self._texts(value[texts], length[texts])),
            (kind == INTEGER, value[kind == INTEGER].tolist()),
            (kind == REAL, value.view(np.float64)[kind == REAL].tolist()),
            (kind == TRUTH, value[kind == TRUTH].astype(np.bool_).tolist()),
        ):
            for row, one in zip(np.flatnonzero(rows).tolist(), values, strict=True):
                listed[row] = one
        return listed


def read_times(
    address: NDArray[np.int64], length: NDArray[np.int64]
) -> tuple[NDArray[np.int64] | None, NDArray[np.bool_] | None]:
    """Read times of ISO 8601 such as 2026-01-31T12:00:00.123+01:00; fraction and offset, or all but the date, may lack.

    Parameters
    ----------
    address : ndarray of shape (n,), int64
        Where each text is in memory.
    length : ndarray of shape (n,), int64
        Its bytes; -1 where there is none.

    Returns
    -------
    ndarray of shape (n,), int64, or None
        Microseconds since the epoch, 0 where there is no text. None if a text is written in another way, or is no time.
    ndarray of shape (n,), bool, or None
        Whether a text has no offset, so that the microseconds are those of a zone's clocks.
    """
    micros, local = np.empty(len(address), np.int64), np.empty(len(address), np.bool_)
    return (micros, local) if _times(address, length, micros, local) else (None, None)


def warm_up() -> None:
    """Compile, or load from numba's file cache, what `FieldSlots.fields` runs."""
    kind, value, length = FieldSlots.empty(1, 1)
    kind[:], length[:] = TEXT, 20
    slots = FieldSlots(kind, value, length, b"2026-01-31T12:00:00Z" + PADDING)
    assert isinstance(slots.fields([("t",)], ())["t",], Coded)
    assert isinstance(slots.fields([("t",)], {("t",)})["t",], Instants)


# ----------------------------------------------------------------------- texts


@compiled()
def code_texts(
    buffer: NDArray[np.uint8],
    kind: NDArray[np.uint8],
    value: NDArray[np.int64],
    length: NDArray[np.int64],
    codes: NDArray[np.int64],
    first: NDArray[np.int64],
) -> int:
    """Give each distinct text a number, in the order in which they come; what is missing has -1.

    Fills `codes`, and `first`: the event in which each text came first. Returns how many texts there are, -1 if more
    than there is room for, or if too many of them collide.
    """
    base = np.uint64(buffer.ctypes.data)
    places = 1
    while places < _PLACES_A_TEXT * len(first):
        places *= 2
    table = np.full(places, -1, np.int64)
    count = 0
    for event in range(len(kind)):
        codes[event] = -1
        if kind[event] != TEXT:
            continue
        at, size = base + np.uint64(value[event]), length[event]
        place = _hashed(at, size) & (places - 1)
        for _ in range(_MOST_STEPS):
            known = table[place]
            if known < 0:
                if count == len(first):
                    return -1
                table[place], codes[event], first[count] = count, count, event
                count += 1
                break
            other = first[known]
            if length[other] == size and same(at, base + np.uint64(value[other]), size):
                codes[event] = known
                break
            place = (place + 1) & (places - 1)
        if codes[event] < 0:
            return -1
    return count


@inlined()
def _hashed(at, size):  # type: ignore[no-untyped-def]
    """Return a hash of bytes, not negative; what follows them is read, too, but does not count."""
    mixed, rest = np.uint64(size) * _MULTIPLIER, np.uint64(size)
    while rest >= EIGHT:
        mixed = (mixed ^ word(at)) * _MULTIPLIER
        mixed ^= mixed >> _HALF
        at += EIGHT
        rest -= EIGHT
    if rest:
        mixed = (mixed ^ (word(at) & ((ONE << EIGHT * rest) - ONE))) * _MULTIPLIER
        mixed ^= mixed >> _HALF
    return np.int64(mixed >> ONE)


@inlined()
def same(at, other, size):  # type: ignore[no-untyped-def]
    """Return whether so many bytes are the same at two addresses."""
    rest = np.uint64(size)
    while rest >= EIGHT:
        if word(at) != word(other):
            return False
        at += EIGHT
        other += EIGHT
        rest -= EIGHT
    return rest == NONE or ((word(at) ^ word(other)) & ((ONE << EIGHT * rest) - ONE)) == NONE


# ----------------------------------------------------------------------- times

_DASH, _COLON, _POINT, _COMMA, _TEE, _SPACE, _ZED, _PLUS, _ZERO = b"-:.,T Z+0"
_DATE, _SHORTEST, _LONGEST = 10, 19, 35
"""Characters of a date; of a time with seconds; with nine digits of a second and an offset."""
_DAYS_IN: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FIRST_YEAR, _LAST_YEAR = 2, 9_998
"""Beyond them an offset can lead out of the calendar; the general reader decides."""


@compiled()
def _times(
    address: NDArray[np.int64], length: NDArray[np.int64], micros: NDArray[np.int64], local: NDArray[np.bool_]
) -> bool:
    """Fill `micros` and `local`; False if a text is no time as `read_times` describes."""
    for event in range(len(address)):
        micros[event], local[event] = 0, False
        if length[event] < 0:
            continue
        at, size = np.uint64(address[event]), length[event]
        if size == _DATE:
            days = _days(at)
            if days == _UNREAD:
                return False
            micros[event], local[event] = days * 86_400_000_000, True
            continue
        if not _SHORTEST <= size <= _LONGEST:
            return False
        seconds = _clock(at)
        if seconds == _UNREAD:
            return False
        next_, fraction = _SHORTEST, 0
        mark = byte(at + np.uint64(next_)) if next_ < size else np.uint8(0)
        if mark in (_POINT, _COMMA):
            next_, fraction = _fraction(at, next_ + 1, size)
            mark = byte(at + np.uint64(next_)) if next_ < size else np.uint8(0)
        if fraction < 0:
            return False
        if next_ == size:
            local[event] = True
        elif mark == _ZED and next_ + 1 == size:
            pass
        elif mark in (_PLUS, _DASH):
            offset = _offset(at, next_ + 1, size)
            if offset < 0:
                return False
            seconds += offset if mark == _DASH else -offset
        else:
            return False
        micros[event] = seconds * 1_000_000 + fraction
    return True


@inlined()
def _figure(at, first, count):  # type: ignore[no-untyped-def]
    """Return the number that some digits write, counted from a text's beginning; negative if one is no digit."""
    made = np.int64(0)
    for index in range(first, first + count):
        digit = np.int64(byte(at + np.uint64(index))) - _ZERO
        made = made * 10 + (digit if 0 <= digit <= 9 else -1_000_000)
    return made


@inlined()
def _days(at):  # type: ignore[no-untyped-def]
    """Return the days of a date since the epoch, or `_UNREAD`."""
    year, month, day = _figure(at, 0, 4), _figure(at, 5, 2), _figure(at, 8, 2)
    marked = byte(at + np.uint64(4)) == _DASH and byte(at + np.uint64(7)) == _DASH
    if not (marked and _FIRST_YEAR <= year <= _LAST_YEAR and 1 <= month <= 12 and day >= 1):
        return _UNREAD
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if day > _DAYS_IN[month - 1] + leap:
        return _UNREAD
    year -= month <= 2  # years from March on: the leap day is the last one
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return 365 * year + year // 4 - year // 100 + year // 400 + of_year - 719_468


@inlined()
def _clock(at):  # type: ignore[no-untyped-def]
    """Return the seconds of a date and a time of day, or `_UNREAD`."""
    days = _days(at)
    hour, minute, second = _figure(at, 11, 2), _figure(at, 14, 2), _figure(at, 17, 2)
    marked = byte(at + np.uint64(13)) == _COLON and byte(at + np.uint64(16)) == _COLON
    marked &= byte(at + np.uint64(10)) in (_TEE, _SPACE)
    if days == _UNREAD or not (marked and 0 <= hour <= 23 and 0 <= minute <= 59 and 0 <= second <= 59):
        return _UNREAD
    return ((days * 24 + hour) * 60 + minute) * 60 + second


@inlined()
def _fraction(at, first, size):  # type: ignore[no-untyped-def]
    """Return where the digits of a second end, and how many microseconds they are; negative if they are wrong."""
    micros, unit, index = np.int64(0), np.int64(100_000), first
    while index < size:
        digit = np.int64(byte(at + np.uint64(index))) - _ZERO
        if not 0 <= digit <= 9:
            break
        micros += digit * unit
        unit //= 10
        index += 1
    return index, (micros if 1 <= index - first <= 9 else -1)


@inlined()
def _offset(at, first, size):  # type: ignore[no-untyped-def]
    """Return the seconds of an offset written 01:00 or 0100, negative if it is written in another way."""
    colon = size - first == 5 and byte(at + np.uint64(first + 2)) == _COLON
    if not colon and size - first != 4:
        return -1
    hours, minutes = _figure(at, first, 2), _figure(at, first + 2 + colon, 2)
    return hours * 3_600 + minutes * 60 if 0 <= hours <= 23 and 0 <= minutes <= 59 else -1

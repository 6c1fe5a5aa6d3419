"""What a row leaves wherever its bytes went: its values, its record, its id, hashes of them; looked for in any bytes.

A *trace* is a run of bytes that nothing else is likely to have, in one of five forms:

==================  =================================================================================================
form                traces
==================  =================================================================================================
`value`             float64 and float32 values of either byte order: single ones, pairs, and the whole row; the whole
                    row as a packed version writes it
`half precision`    float16 values of either byte order: four in a row, and the whole row
`text`              values as people and programs write them: single ones, of less than nine digits only where no
                    digit stands beside them; pairs of six digits, and the whole row, with usual separators; the record
`id`                the row's id and its record's key, but not as a part of a longer name in text
`hash`              SHA-256, SHA-1 and MD5 of record, id and key, raw and in hexadecimal; the 64 bits by which labels
                    are joined
==================  =================================================================================================

All but text are looked for in base64, too, at any place in it.

Invariant: nothing shorter than `LEAST` bytes is a trace, and no value that is round: finding one says something. So a
row of few, round values may have no trace of some form; `Traces.untold` says so.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b, md5, sha1, sha256
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.model.machine import Scaler
from streamsvm.model.packing import Grid

LEAST: Final = 6
"""Fewest bytes of a trace: among 10^9 random bytes one is met by chance once in 300,000."""
DIGITS: Final = 6
"""Fewest significant decimal digits of a value that is not round."""
ALONE: Final = 9
"""Fewest digits of a value in text that says something wherever it stands: of the numbers of a thousand versions some
begin as one of a thousand rows does, for seven digits."""
BESIDE: Final = 6
"""Bytes on either side of a name by which text is told."""
FORMS: Final = ("value", "half precision", "text", "id", "hash")
SEPARATORS: Final = (", ", ",", " ", "\t", ";")
_VALUES: Final = (("<f8", 1), (">f8", 1), ("<f4", 2), (">f4", 2))
_HALVES: Final = (("<f2", 4), (">f2", 4))
_MASK: Final = np.uint64((1 << 8 * LEAST) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What stands in the log at a place.

    Attributes
    ----------
    place : str
        As people write it.
    values : ndarray of shape (d,)
        Features, of the type in which they are learned.
    id : str
        Empty where it has none.
    key, record : bytes
        Of its record; empty where there is none.
    packed : bytes
        As a packed version and its ONNX copy write it; empty where none does.
    """

    place: str
    values: NDArray[np.floating]
    id: str = ""
    key: bytes = b""
    record: bytes = b""
    packed: bytes = b""

    def scaled(self, scaler: Scaler, grid: Grid | None = None) -> Content:
        """Return the values as a version scales, and maybe packs, them: that is how support vectors stand in it."""
        values = scaler.transform(np.asarray(self.values, np.float64)[None, :])
        packed = b""
        if grid is not None:
            packed = grid.packed(values).tobytes()
        return Content(place=self.place, values=values[0], packed=packed)


Found = frozenset[tuple[str, str]]
"""Place and form of each trace that was met."""


class Traces:
    """The traces of some rows, looked for together.

    Parameters
    ----------
    contents : iterable of Content

    Attributes
    ----------
    contents : tuple of Content
    untold : frozenset of (str, str)
        Place and form of what a row has no trace of.
    """

    def __init__(self, contents: Iterable[Content]) -> None:
        self.contents = tuple(contents)
        self._of: dict[bytes, set[tuple[str, str]]] = {}
        for content in self.contents:
            for form, trace in traces_of(content):
                self._of.setdefault(trace, set()).add((content.place, form))
        self._short = {trace for trace in self._of if _is_short(trace)}
        self._names = {name for one in self.contents for name in (one.id.encode(), one.key)}
        self._longer: dict[int, list[bytes]] = {}
        for trace in self._of:
            self._longer.setdefault(int.from_bytes(trace[:LEAST], "little"), []).append(trace)
        self._heads = np.array(sorted(self._longer), np.uint64)
        self._likely = np.zeros(1 << 16, np.bool_)
        self._likely[(self._heads & np.uint64(0xFFFF)).astype(np.intp)] = True
        told = {pair for pairs in self._of.values() for pair in pairs}
        self.untold = frozenset((one.place, form) for one in self.contents for form in FORMS) - told

    def __len__(self) -> int:
        return len(self._of)

    def met(self, content: bytes) -> Found:
        """Return which rows some bytes hold a trace of, and in which form."""
        if len(content) < LEAST or not len(self._heads):
            return frozenset()
        padded = content + bytes(8 - LEAST)
        windows = np.ndarray((len(content) - LEAST + 1,), "<u8", padded, strides=(1,))
        likely = np.flatnonzero(self._likely[(windows & np.uint64(0xFFFF)).astype(np.intp)])
        heads = windows[likely] & _MASK
        at = np.minimum(np.searchsorted(self._heads, heads), len(self._heads) - 1)
        found = set[tuple[str, str]]()
        for place in likely[self._heads[at] == heads].tolist():
            head = int.from_bytes(content[place : place + LEAST], "little")
            for trace in self._longer[head]:
                if content.startswith(trace, place) and self._says(content, trace, place):
                    found |= self._of[trace]
        return frozenset(found)

    def _says(self, content: bytes, trace: bytes, place: int) -> bool:
        """Return whether a trace says something where it stands."""
        if trace in self._short:
            return _is_apart(content, trace, place)
        return trace not in self._names or not _goes_on(content, trace, place)


def traces_of(content: Content) -> Iterator[tuple[str, bytes]]:
    """Yield form and bytes of every trace of a row."""
    seen = set[tuple[str, bytes]]()
    for form, trace in _every(content):
        if len(trace) >= LEAST and (form, trace) not in seen:
            seen.add((form, trace))
            yield form, trace


def _every(content: Content) -> Iterator[tuple[str, bytes]]:
    values = np.asarray(content.values)
    telling = np.array([_is_telling(value) for value in values.tolist()], np.bool_)
    for form, kinds in (("value", _VALUES), ("half precision", _HALVES)):
        for raw in _numbers(values, telling, kinds):
            yield from ((form, trace) for trace in (raw, *_in_base64(raw)))
    if telling.any():
        yield from (("value", trace) for trace in (content.packed, *_in_base64(content.packed)))
    yield from (("text", text.encode()) for text in _texts(values, telling))
    if content.record:
        yield "text", content.record
        yield from (("text", trace) for trace in _in_base64(content.record))
    names = [name for name in (content.id.encode(), content.key) if name]
    for name in names:
        yield from (("id", trace) for trace in (name, *_in_base64(name)))
    for name in (*names, *([content.record] if content.record else [])):
        yield from (("hash", trace) for trace in _hashes(name))


def _is_telling(value: float) -> bool:
    """Return whether a value has so many digits that no other is likely to be the same."""
    if not np.isfinite(value):
        return False
    return min(_digits(f"{float(np.float32(value)):.9e}"), _digits(str(np.float32(value)))) >= DIGITS


def _digits(written: str) -> int:
    """Return how many significant digits a number has as it is written."""
    return len(written.partition("e")[0].lstrip("-").replace(".", "").strip("0"))


def _numbers(
    values: NDArray[np.floating], telling: NDArray[np.bool_], kinds: tuple[tuple[str, int], ...]
) -> Iterator[bytes]:
    """Yield runs of values that are not round, and the whole row, as numbers of several types."""
    whole = len(set(values[values != 0].tolist())) > 1 or bool(telling.any())
    for kind, length in kinds:
        with np.errstate(over="ignore"):
            written = values.astype(kind)
        for first in range(len(values) - length + 1):
            if telling[first : first + length].all():
                yield written[first : first + length].tobytes()
        if whole:
            yield written.tobytes()


def _in_base64(raw: bytes) -> Iterator[bytes]:
    """Yield what base64 has of a run of bytes, wherever it begins in what was encoded."""
    for skipped in (0, 2, 1):
        kept = raw[skipped:]
        yield b64encode(kept[: len(kept) // 3 * 3])


def _is_short(trace: bytes) -> bool:
    """Return whether a trace is a number in text that may be a part of a longer one."""
    return b"." in trace and not trace.strip(b"0123456789.e+-") and _digits(trace.decode()) < ALONE


def _is_apart(content: bytes, trace: bytes, place: int) -> bool:
    """Return whether no digit stands beside a number that some bytes hold."""
    beside = content[max(0, place - 1) : place], content[place + len(trace) : place + len(trace) + 1]
    return not any(map(bytes.isdigit, beside))


def _goes_on(content: bytes, name: bytes, place: int) -> bool:
    """Return whether a name is a part of a longer one, as `c-1` is of `c-17`: in text, where letters stand beside it.

    In a binary form the byte beside a name may be a length, or a number's.
    """
    end = place + len(name)
    before, after = content[max(0, place - BESIDE) : place], content[end : end + BESIDE]
    joined = (len(pair) == 2 and pair.isalnum() for pair in (before[-1:] + name[:1], name[-1:] + after[:1]))
    return any(joined) and (before + after).decode("latin-1").isprintable()


def _texts(values: NDArray[np.floating], telling: NDArray[np.bool_]) -> Iterator[str]:
    numbers = values.tolist()
    short = [str(np.float32(value)) for value in numbers], [f"{value:.6g}" for value in numbers]
    long = [repr(float(value)) for value in numbers], *([f"{value:.{n}g}" for value in numbers] for n in (9, 17))
    for written in (short[0], *long):
        yield from (one for one, told in zip(written, telling, strict=True) if told and _digits(one) > DIGITS)
    for written in short:
        for first in range(len(written) - 1):
            if telling[first : first + 2].all():
                yield from (separator.join(written[first : first + 2]) for separator in SEPARATORS)
    if len(set(values[values != 0].tolist())) > 1:
        for written in (short[0], long[0]):
            yield from (separator.join(written) for separator in SEPARATORS)


def _hashes(name: bytes) -> Iterator[bytes]:
    for made in (sha256(name), sha1(name, usedforsecurity=False), md5(name, usedforsecurity=False)):
        yield from (made.digest(), made.hexdigest().encode(), made.hexdigest().upper().encode())
        yield from _in_base64(made.digest())
    of_join = blake2b(name, digest_size=8).digest()
    number = int.from_bytes(of_join, "little")
    yield from (of_join, of_join[::-1], str(number).encode(), of_join.hex().encode())
    yield from _in_base64(of_join)

"""Values of many rows as compiled readers of bytes leave them: a kind, a word and a length for each.

Texts stay where they are, as addresses in the bytes of the records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from streamsvm.ingest.decimals import EIGHT, HIGH_BITS, ONE, byte, compiled, word

MISSING, INTEGER, REAL, TRUTH, TEXT = range(5)
"""Kinds of values. A slot that nothing was written into is missing."""


@dataclass(frozen=True, slots=True)
class Slots:
    """Slots of n rows.

    Attributes
    ----------
    kind : ndarray of shape (slots, n), uint8
        MISSING, INTEGER, REAL, TRUTH or TEXT.
    value : ndarray of shape (slots, n), int64
        An integer; the bits of a float64; 0 or 1; or where a text begins in `buffer`.
    length : ndarray of shape (slots, n), int64
        Bytes of a text.
    buffer : bytes
        Ends with `PADDING`. Texts in it are UTF-8.
    """

    kind: NDArray[np.uint8]
    value: NDArray[np.int64]
    length: NDArray[np.int64]
    buffer: bytes

    @staticmethod
    def empty(slots: int, rows: int) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
        """Return slots that are all missing."""
        shape = (slots, rows)
        return np.zeros(shape, np.uint8), np.zeros(shape, np.int64), np.zeros(shape, np.int64)

    def slice(self, start: int, stop: int) -> Self:
        """Return the slots of some of the rows."""
        part = (slice(None), slice(start, stop))
        return type(self)(self.kind[part], self.value[part], self.length[part], self.buffer)


@compiled()
def is_text(at, stop):  # type: ignore[no-untyped-def]
    """Return whether bytes are UTF-8."""
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

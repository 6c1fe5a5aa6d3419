"""Support vectors in few bits: the scaled values of each feature lie on a grid, and a vector is its places on these.

- A feature whose values in the training set are evenly spaced, at most `FEW` places from the least to the greatest, has
  exactly these: a bit for a one-hot column, none for a constant one.
- Any other has at least `FEW` places from its least value to its greatest, and so many more that neighbours are `FINE`
  of the kernel's width 1 / sqrt(gamma) apart, at most `MOST`. Beyond these, which only a feature of far outliers
  reaches, a value becomes the last place on its side: hundreds of widths away, where the kernel is 0 but for a point's
  own copy.

Written, a vector is its places, feature after feature, each in the bits of its feature, the least bit first, from the
least bit of the first byte on; it ends with a whole byte. The value at a place is low + place * step, in float64.

Invariant: rounding what is rounded changes nothing.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.errors import InvalidMessage
from streamsvm.model.kernels import Float

FEW: Final = 255
MOST: Final = 65_535
"""Places beside the first."""
FINE: Final = 1 / 128
MOST_ENTRIES: Final = 1 << 26
"""Of all support vectors: half a gigabyte once they are read, however few bits they were written in."""
_EVEN: Final = 1e-3
"""Share of a step by which evenly spaced values may be off: they were scaled."""

Places = NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class Grid:
    """The places of each feature.

    Attributes
    ----------
    low, step : ndarray of shape (d,), float64
    bits : ndarray of shape (d,), int64
        0 to 16.
    """

    low: Float
    step: Float
    bits: NDArray[np.int64]

    @classmethod
    def of(cls, Z: Float, gamma: float) -> Grid:
        """Return the grid of a training set, at least one scaled point, under a kernel."""
        columns = [_column(values, gamma) for values in np.ascontiguousarray(Z.T)]
        low, step, last = (np.array(entries, np.float64) for entries in zip(*columns, strict=True))
        return cls(low, step, np.frexp(last)[1].astype(np.int64))

    @property
    def vector_bytes(self) -> int:
        """Bytes of a vector."""
        return -(-int(self.bits.sum()) // 8)

    def places(self, Z: Float) -> Places:
        """Return the places nearest to scaled points, shape (n, d)."""
        at = np.rint((Z - self.low) / self.step)
        return np.asarray(np.clip(at, 0.0, 2.0**self.bits - 1.0), np.uint16)

    def values(self, places: Places) -> Float:
        """Return the scaled features at places."""
        return np.asarray(self.low + places * self.step, np.float64)

    def rounded(self, Z: Float) -> Float:
        """Return scaled points at their nearest places."""
        return self.values(self.places(Z))

    def packed(self, Z: Float) -> NDArray[np.uint8]:
        """Return support vectors as they are written, shape (n, `vector_bytes`)."""
        columns = zip(self.places(Z).T, self.bits.tolist(), strict=True)
        bits = [column[:, None] >> np.arange(count, dtype=np.uint16) & 1 for column, count in columns]
        return np.packbits(np.hstack(bits), axis=1, bitorder="little")

    def unpacked(self, text: str, count: int) -> Float:
        """Return so many support vectors, shape (count, d), of base64 of `packed`; raises `InvalidMessage`."""
        try:
            raw = np.frombuffer(base64.b64decode(text, validate=True), np.uint8)
        except ValueError as error:
            raise InvalidMessage(f"support_vectors is not base64: {error}") from None
        if count * len(self.bits) > MOST_ENTRIES:
            raise InvalidMessage(
                f"support_vectors has {count * len(self.bits)} entries; at most {MOST_ENTRIES} are read"
            )
        if len(raw) != count * self.vector_bytes:
            raise InvalidMessage(
                f"support_vectors has {len(raw)} bytes for {count} dual coefficients and {self.vector_bytes} bytes each"
            )
        places, first = np.zeros((count, len(self.bits)), np.uint16), 0
        rows = raw.reshape(count, self.vector_bytes)
        for j, many in enumerate(self.bits.tolist()):
            for at in range(many):
                places[:, j] |= (rows[:, (first + at) // 8] >> ((first + at) % 8) & 1).astype(np.uint16) << at
            first += many
        return self.values(places)


def _column(values: Float, gamma: float) -> tuple[float, float, int]:
    """Return the least value of a feature's grid, its step and its last place."""
    found = np.unique(values)
    low, width = float(found[0]), float(found[-1] - found[0])
    if not width > 0.0:
        return low, 1.0, 0
    if len(found) <= FEW + 1:
        step = float(np.diff(found).min())
        at = (found - low) / step
        if at[-1] < FEW + 0.5 and float(np.abs(at - np.rint(at)).max()) < _EVEN:
            last = round(float(at[-1]))
            return low, width / last, last
    step = min(width / FEW, FINE / gamma**0.5)
    last = int(np.ceil(min(width / step - _EVEN, 2.0 * MOST)))
    if last <= MOST:
        return low, step, last
    return float(np.median(values)) - MOST // 2 * step, step, MOST

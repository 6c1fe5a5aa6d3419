"""Arrays of numbers in model messages, checked as they are read."""

from __future__ import annotations

import base64
import re
from typing import Final, Literal

import numpy as np

from streamsvm.errors import InvalidMessage
from streamsvm.model.kernels import Float

SHA256: Final = re.compile("[0-9a-f]{64}")
"""A hash as messages spell it."""

Bits = Literal[32, 64]

LARGEST: Final = 1e150
"""Largest magnitude of any number in a model. Beyond it squares overflow, and a decision value would depend on the
number of points that are scored at once."""


def vector(entries: list[float], length: int, name: str, of: str = "features") -> Float:
    """Return entries as a vector of so many finite numbers; raises `InvalidMessage`."""
    vector = np.array(entries, dtype=np.float64)
    if len(vector) != length:
        raise InvalidMessage(f"{name} has {len(vector)} entries for {length} {of}")
    if not np.isfinite(vector).all():
        raise InvalidMessage(f"an entry of {name} is not finite")
    return vector


def bounded(array: Float, name: str) -> Float:
    """Return an array none of whose numbers is beyond `LARGEST`; raises `InvalidMessage`."""
    if len(array) and (largest := float(np.abs(array).max())) > LARGEST:
        raise InvalidMessage(f"an entry of {name} is {largest:.3g} in magnitude; the largest allowed is {LARGEST:g}")
    return array


def to_base64(array: Float, bits: Bits = 64) -> str:
    """Return the bytes of floats of so many bits, little-endian, row by row."""
    return base64.b64encode(np.ascontiguousarray(array, dtype=f"<f{bits // 8}").tobytes()).decode("ascii")


def from_base64(text: str, name: str, bits: Bits = 64) -> Float:
    """Return the finite values, shape (n,), float64, that `to_base64` wrote; raises `InvalidMessage`."""
    try:
        array = np.frombuffer(base64.b64decode(text, validate=True), dtype=f"<f{bits // 8}").astype(np.float64)
    except ValueError as error:
        raise InvalidMessage(f"{name} is not base64 of float{bits} values: {error}") from None
    if not np.isfinite(array).all():
        raise InvalidMessage(f"an entry of {name} is not finite")
    return array


def table(rows: list[list[float]], count: int, entries: int, name: str, of: str) -> Float:
    """Return rows as a matrix, shape (count, entries), of finite numbers; raises `InvalidMessage`."""
    if len(rows) != count:
        raise InvalidMessage(f"{name} has {len(rows)} entries for {count} probes")
    return np.array([vector(row, entries, f"an entry of {name}", of) for row in rows]).reshape(count, entries)

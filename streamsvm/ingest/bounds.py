"""Bounds on what decoding a record may take, checked before anything is made of it.

Each format tells from a record's framing, without decoding, how much memory its decoded form could take at most. The
figures are sizes of Python objects and array entries (CPython 3.11 on 64 bits), rounded up: what is bounded is a
multiple, not a byte.

Invariant: whether a record is refused depends on its bytes and the configuration only, not on the memory at hand.
"""

from __future__ import annotations

from typing import Final

from streamsvm.config import PointsConfig
from streamsvm.errors import InvalidPoint

ROW_BYTES: Final = 600
"""A row beside its features: its place, its label and weight, and, where it is rejected, the reason and its words."""
ENTRY_BYTES: Final = 12
"""A feature as float64, and once more as float32: a rejected row keeps its place in the array of features."""
LISTED_ENTRY_BYTES: Final = 2 * ENTRY_BYTES + 40
"""A feature of a raw event: as an entry of a matrix, and where an array of events is read, of a list."""


def refuse_expansion(needed: float, allowed: int) -> None:
    """Refuse a record that could take more memory than is allowed.

    Parameters
    ----------
    needed : float
        Bytes.
    allowed : int
        `points.max_decoded_bytes`.

    Raises
    ------
    InvalidPoint
    """
    if needed > allowed:
        raise InvalidPoint(
            "expands_too_far",
            f"decoding the record could take {needed:.3g} bytes; points.max_decoded_bytes is {allowed}",
        )


def refuse_size(value: bytes | None, config: PointsConfig) -> bytes:
    """Return a record's value, unless there is none or it is too large.

    Raises
    ------
    InvalidPoint
    """
    if not value:
        raise InvalidPoint("empty_record", "the record has no value")
    if len(value) > config.max_record_bytes:
        raise InvalidPoint(
            "oversize_record",
            f"the value has {len(value)} bytes; points.max_record_bytes is {config.max_record_bytes}",
        )
    return value


def too_many_rows(rows: int, most: int) -> InvalidPoint:
    """Return the rejection of a record that holds, or begins with, more rows than are allowed."""
    return InvalidPoint("too_many_rows", f"the record holds {rows} rows; points.max_rows_per_record is {most}")

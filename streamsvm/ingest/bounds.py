"""Bounds on the size of a record, checked before anything is made of it."""

from __future__ import annotations

from streamsvm.config import PointsConfig
from streamsvm.errors import InvalidPoint


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
    return InvalidPoint(
        "too_many_rows",
        f"the record holds {rows} rows; {most} of this dimension are allowed",
    )

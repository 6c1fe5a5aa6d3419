"""Columns of Arrow as the values that JSON has for them: of Parquet files, of tables, and of topics that are sampled.

Binary is text if it is UTF-8, a timestamp or a date its text in ISO 8601, a map with keys of text an object. A value
that JSON has no type for is `Unreachable`: whoever needs the field learns what it is, and others pass over it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsvm.branches.events.features.frames import plain, text_of
from streamsvm.field_paths import Unreachable, repeated

PER_S: Final[Mapping[str, int]] = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
FIRST_S: Final = -62_135_596_800
LAST_S: Final = 253_402_300_799
"""The years 1 to 9999, in seconds since the epoch."""

_DURATION: Final = "it is a duration; write its seconds as a number"
_TIME_OF_DAY: Final = "it is a time of day; write a timestamp, or its minutes as a number"
_OUT_OF_RANGE: Final = "it is not in the years 1 to 9999; write a time that is, or null"


def is_bytes(kind: Any) -> bool:
    """Return whether a type is one of bytes."""
    fits = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
    return any(one(kind) for one in fits)


def rows_of(table: Any) -> list[dict[str, Any]]:
    """Return the rows of a table or a record batch as events."""
    columns = [values_of(column) for column in table.columns]
    return [dict(zip(table.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def values_of(column: Any) -> list[Any]:
    """Return a column's values; None where one is missing."""
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in values_of(chunk)]
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        is_uuid = kind.extension_name == "arrow.uuid"
        return [value and str(value) for value in column.to_pylist()] if is_uuid else values_of(column.storage)
    if pa.types.is_dictionary(kind):
        words = values_of(column.dictionary)
        return [None if code is None else words[code] for code in column.indices.to_pylist()]
    if pa.types.is_struct(kind):
        return _objects(column)
    if pa.types.is_map(kind):
        maps = values_of(column.cast(pa.list_(pa.struct([kind.key_field, kind.item_field]))))
        return [None if entries is None else dict(map(_entry, entries)) for entries in maps]
    if hasattr(kind, "value_field"):
        items = iter(values_of(column.flatten()))
        lengths = pc.list_value_length(column).to_pylist()
        return [None if length is None else list(islice(items, length)) for length in lengths]
    return _single(column)


def _entry(entry: Mapping[str, Any]) -> tuple[str, Any]:
    key, item = entry.values()
    return str(key), item


def _objects(column: Any) -> list[Any]:
    names, there = [field.name for field in column.type], column.is_valid().to_pylist()
    if (twice := repeated(names)) is not None:
        return _unreachable(column, f"it has two fields called {twice}")
    inner = zip(*map(values_of, column.flatten()), strict=True) if names else [()] * len(column)
    return [dict(zip(names, row, strict=True)) if one else None for row, one in zip(inner, there, strict=True)]


def _single(column: Any) -> list[Any]:
    """Return values that have none inside."""
    kind, is_in = column.type, pa.types
    if is_in.is_timestamp(kind):
        return _times(column, kind.unit, kind.tz)
    if is_in.is_date(kind):
        midnights = _times(column.cast(pa.timestamp("s")), "s", None)
        return [one[:10] if isinstance(one, str) else one for one in midnights]
    if is_in.is_time(kind) or is_in.is_duration(kind):
        return _unreachable(column, _TIME_OF_DAY if is_in.is_time(kind) else _DURATION)
    if is_bytes(kind):
        values = column.to_pylist()
        if is_in.is_fixed_size_binary(kind):  # what is shorter than the column was filled up
            values = [value and value.rstrip(b"\0") for value in values]
        return [None if value is None else text_of(value) for value in values]
    if any(fits(kind) for fits in (is_in.is_union, is_in.is_interval, is_in.is_run_end_encoded)):
        return _unreachable(column, f"it is of the type {kind}; write text or a number")
    return list(map(plain, column.to_pylist()))


def _times(column: Any, unit: str, zone: str | None) -> list[Any]:
    """Return times in ISO 8601, those of a zone with its offset; what is less than a microsecond is cut off."""
    missing = column.is_null().to_numpy(zero_copy_only=False)
    counts = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    seconds = counts // PER_S[unit]
    beyond = ((seconds < FIRST_S) | (seconds > LAST_S)) & ~missing
    rest = (counts - seconds * PER_S[unit]) * PER_S["us"] // PER_S[unit]
    micros = np.where(beyond, 0, seconds) * PER_S["us"] + rest
    try:
        times = pa.array(micros, pa.timestamp("us", zone)).to_pylist()
    except (OverflowError, pa.ArrowInvalid):  # the year 9999 ended on the zone's clocks, or the zone is not known here
        times = pa.array(micros, pa.timestamp("us", "UTC")).to_pylist()
    texts = [time.isoformat() for time in times]
    for row in np.flatnonzero(missing).tolist():
        texts[row] = None
    for row in np.flatnonzero(beyond).tolist():
        texts[row] = Unreachable(_OUT_OF_RANGE)
    return texts


def _unreachable(column: Any, why: str) -> list[Any]:
    return [Unreachable(why) if there else None for there in column.is_valid().to_pylist()]

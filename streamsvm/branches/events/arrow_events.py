"""Raw events as Arrow: a record is one IPC stream of record batches, a row is one event, a column a field.

A path leads into structs, maps with keys of text, and lists by index. A value means what it means in JSON: null is a
missing field, a dictionary stands for its values, a timestamp for its text in ISO 8601 (with a Z if its type has a
time zone), a date for its text, a decimal for its number, bytes for their text in UTF-8. NaN is a number that is not
finite, not a missing one. Where a field's type has no counterpart in JSON (durations, unions, views), each event that
has the field is rejected.

Invariant: columns that no feature needs are not decoded, and nothing is made for each row that is not a value of a
field.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streamsvm.branches.events.arrow_values import FIRST_S, LAST_S, PER_S, is_bytes, values_of
from streamsvm.branches.events.features.fields import Coded, FieldValues, Instants, Numeric, listed
from streamsvm.branches.events.field_slots import read_times
from streamsvm.config import PointsConfig
from streamsvm.errors import InvalidPoint
from streamsvm.field_paths import Path, Unreachable, shown
from streamsvm.ingest.arrow_stream import BROKEN, one_line, read, survey

_LIST: Final = (pa.types.is_list, pa.types.is_large_list)
_TEXT: Final = (pa.string(), pa.large_string())


class ArrowEvents:
    """The events of one record.

    Parameters
    ----------
    value : bytes
    paths : sequence of Path
        The fields that are read; others are not decoded.
    config : PointsConfig

    Raises
    ------
    InvalidPoint
        If the value cannot be parsed into rows, or holds too many.
    """

    def __init__(self, value: bytes, paths: Sequence[Path], config: PointsConfig) -> None:
        schema, self._rows = survey(value, config.most_rows, dictionaries=True)
        self._paths = tuple(paths)
        try:
            options = _options(schema, frozenset(str(path[0]) for path in self._paths))
        except MemoryError:
            raise
        except BROKEN as error:
            raise InvalidPoint("malformed_arrow", f"the stream cannot be read: {one_line(error)}") from None
        self._columns = read(value, self._rows, options) if options is not None else {}

    def __len__(self) -> int:
        return self._rows

    def fields(self, times: Collection[Path] = ()) -> dict[Path, FieldValues]:
        """Return each of the paths' values of all events; texts of `times` are read as times, where they are such."""
        return {path: self._field(path, is_time=path in times) for path in self._paths}

    def _field(self, path: Path, *, is_time: bool) -> FieldValues:
        column = self._columns.get(str(path[0]))
        for at, step in enumerate(path[1:], 1):
            if column is None:
                break
            column = _inside(column, step, path[:at])
            if isinstance(column, Coded):
                return column
        if column is None:
            return _all_missing(self._rows)
        found = _instants(column) if is_time and column.type in _TEXT else None
        return _values(column) if found is None else found


@lru_cache(maxsize=64)
def _options(schema_message: bytes, wanted: frozenset[str]) -> Any:
    """Return which columns to decode; None if the stream has none of those wanted."""
    names = pa.ipc.read_schema(pa.py_buffer(schema_message)).names
    if twice := sorted(name for name in wanted if names.count(name) > 1):
        raise ValueError(f"two columns have the name {twice[0]}")
    included = [index for index, name in enumerate(names) if name in wanted]
    return pa.ipc.IpcReadOptions(included_fields=included, use_threads=False) if included else None


def _all_missing(rows: int) -> Coded:
    return Coded([None], np.zeros(rows, np.intp))


def _unreachable(column: Any, why: str) -> Coded:
    """Return a field that has no value where it is null, and elsewhere one that cannot be read."""
    return Coded([Unreachable(why), None], _missing(column).astype(np.intp))


def _missing(column: Any) -> NDArray[np.bool_]:
    missing: NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return missing


# ------------------------------------------------------------------------ paths


def _inside(column: Any, step: str | int, outer: Path) -> Any:
    """Return the column that a step leads to; None if there is none, a `Coded` if the step leads nowhere."""
    kind = column.type
    if pa.types.is_null(kind):
        return None
    if isinstance(step, str) and pa.types.is_struct(kind):
        places = kind.get_all_field_indices(step)
        if len(places) > 1:
            raise InvalidPoint("malformed_arrow", f"{shown(outer)} has two fields of the name {step[:80]}")
        return pc.struct_field(column, places) if places else None
    if isinstance(step, str) and pa.types.is_map(kind) and kind.key_type in _TEXT:
        return pc.map_lookup(column, pa.scalar(step, kind.key_type), "last")
    if isinstance(step, int) and pa.types.is_fixed_size_list(kind):
        first = (np.arange(len(column)) + column.offset) * kind.list_size + step
        return _taken(column.values, first, _missing(column) | (step >= kind.list_size))
    if isinstance(step, int) and any(fits(kind) for fits in _LIST):
        offsets = column.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        return _taken(column.values, offsets[:-1] + step, _missing(column) | (step >= np.diff(offsets)))
    wanted = "an object" if isinstance(step, str) else "an array"
    return _unreachable(column, f"{shown(outer)} is {_kind_text(kind)}, not {wanted}")


def _taken(values: Any, index: NDArray[np.int64], missing: NDArray[np.bool_]) -> Any:
    return values.take(pa.array(np.where(missing, 0, index), mask=missing))


def _kind_text(kind: Any) -> str:
    if pa.types.is_struct(kind) or pa.types.is_map(kind):
        return "an object"
    if pa.types.is_fixed_size_list(kind) or any(fits(kind) for fits in _LIST):
        return "an array"
    if pa.types.is_boolean(kind):
        return "a boolean"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "a number"
    is_text = kind in _TEXT or pa.types.is_timestamp(kind) or pa.types.is_date(kind)
    return "text" if is_text else f"of the type {one_line(kind)}"


# ----------------------------------------------------------------------- values


def _values(column: Any) -> FieldValues:
    """Return the values of a column, which has no path inside any more."""
    kind = column.type
    if pa.types.is_null(kind):
        return _all_missing(len(column))
    if pa.types.is_dictionary(kind):
        return _of_dictionary(column)
    if kind in _TEXT:
        return _of_dictionary(column.dictionary_encode())
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _numeric(column)
    if pa.types.is_timestamp(kind):
        return _texts_of_times(column, kind.unit, "us", "Z" if kind.tz else "")
    if pa.types.is_date(kind):
        return _texts_of_times(column.cast(pa.timestamp("s")), "s", "D", "")
    if is_bytes(kind) or isinstance(kind, pa.BaseExtensionType):
        return values_of(column)
    if pa.types.is_decimal(kind):
        return [None if value is None else float(value) for value in column.to_pylist()]
    return _unreachable(column, f"it is {_kind_text(kind)}, not a single value")


def _instants(column: Any) -> Instants | None:
    """Return texts as times; None if one is not as most are."""
    _, offsets, texts = column.buffers()
    if texts is None or not len(column):
        return None
    width = np.int32 if column.type == pa.string() else np.int64
    begin = np.frombuffer(offsets, width)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    missing = _missing(column) if column.null_count else None
    length = np.diff(begin) if missing is None else np.where(missing, -1, np.diff(begin))
    micros, local = read_times(texts.address + begin[:-1], length)
    if micros is None or local is None:
        return None
    return Instants(micros, local, missing, column.to_pylist)


def _numeric(column: Any) -> Numeric:
    missing = None
    if column.null_count:
        missing = _missing(column)
        column = column.fill_null(False if pa.types.is_boolean(column.type) else 0)
    array: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return Numeric(array.astype(np.float64) if array.dtype.kind == "f" else array, missing)


def _of_dictionary(column: Any) -> FieldValues:
    words = _values(column.dictionary) if column.dictionary.type not in _TEXT else None
    if isinstance(words, Coded):
        return _unreachable(column, "it is a dictionary of what is not a single value")
    values = _texts(column.dictionary) if words is None else listed(words)
    codes = column.indices
    if codes.null_count:
        codes = codes.cast(pa.int64()).fill_null(len(values))
        values = [*values, None]
    return Coded(values, codes.to_numpy(zero_copy_only=False).astype(np.intp))


def _texts(column: Any) -> list[str | None]:
    texts: list[str | None] = column.to_numpy(zero_copy_only=False).tolist()
    return texts


def _texts_of_times(column: Any, unit: str, precision: str, ending: str) -> list[Any]:
    """Return times as ISO 8601 writes them; what is less than a microsecond is cut off."""
    counts = column.fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    seconds = counts // PER_S[unit]
    beyond = (seconds < FIRST_S) | (seconds > LAST_S)
    rest = (counts - seconds * PER_S[unit]) * 1_000_000 // PER_S[unit]
    micros = np.where(beyond, 0, seconds) * 1_000_000 + rest
    times = micros.astype("datetime64[us]").astype(f"datetime64[{precision}]")
    texts: list[Any] = [f"{text}{ending}" for text in np.datetime_as_string(times).tolist()]
    for row in np.flatnonzero(beyond).tolist():
        texts[row] = Unreachable("it is not in the years 1 to 9999")
    for row in np.flatnonzero(_missing(column)).tolist():
        texts[row] = None
    return texts

"""Points as Arrow: a record is one IPC stream of record batches, a row is one point.

Columns: `x`, a FixedSizeList of float32 or float64, or instead of it one numeric column for each of
`points.feature_names`; `y`; optionally `w` (null: 1) and `id`. Other columns are not read. `op` means what it does in
JSON. Dictionaries are not accepted, because points consist of numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamsvm.config import Label, PointsConfig
from streamsvm.errors import InvalidPoint
from streamsvm.ingest.arrow_stream import BROKEN, CONTENT_TYPE as CONTENT_TYPE, one_line, read, survey
from streamsvm.ingest.deletions import MARKERS, is_deleted
from streamsvm.ingest.json_rows import convert_row
from streamsvm.ingest.row import Point
from streamsvm.ingest.unread_fields import MOST_FIELDS

_PLAIN: Final = (pa.bool_(), pa.string(), pa.large_string(), pa.null())


@dataclass(frozen=True, slots=True)
class Columns:
    """Rows of a record column by column, not checked.

    Attributes
    ----------
    X : ndarray of shape (n, d), float32 or float64
    y : ndarray of shape (n,), list or None
        None where the column is missing.
    weight : ndarray of shape (n,), float64, or None
    ids : list or None
    """

    X: NDArray[np.floating]
    y: NDArray[Any] | list[Any] | None
    weight: NDArray[np.float64] | None
    ids: list[str | int | None] | None


class ArrowRows:
    """The rows of one record.

    Parameters
    ----------
    value : bytes
    config : PointsConfig

    Raises
    ------
    InvalidPoint
        If the value cannot be parsed into rows, or holds too many.
    """

    def __init__(self, value: bytes, config: PointsConfig) -> None:
        schema, self._rows = survey(value, config.most_rows)
        try:
            options, self._features, self.unread = _plan(schema, config.feature_names)
        except MemoryError:
            raise
        except BROKEN as error:
            raise InvalidPoint("malformed_arrow", f"the stream cannot be read: {one_line(error)}") from None
        self._columns = read(value, self._rows, options)
        self._dimension = config.dimension

    def __len__(self) -> int:
        return self._rows

    def columns(self) -> Columns | None:
        """Return the columns as arrays where none lacks a value; None if they are to be read row by row."""
        op, ids = self._columns.get("op"), self._columns.get("id")
        X = self._matrix()
        y = self._column("y")
        weight = self._column("w")
        if (
            X is None
            or (op is not None and op.null_count < self._rows)
            or any(is_deleted(row) for row in self._markers())
            or (ids is not None and not (pa.types.is_integer(ids.type) or ids.type in _PLAIN[1:]))
            or (y is None and "y" in self._columns)
            or (weight is None and "w" in self._columns and self._columns["w"].null_count < self._rows)
            or (weight is not None and weight.dtype.kind not in "fiu")
        ):
            return None
        return Columns(
            X,
            y if y is None or y.dtype.kind in "biuf" else y.tolist(),
            None if weight is None else weight.astype(np.float64),
            None if ids is None else ids.to_pylist(),
        )

    def _markers(self) -> Iterator[dict[str, Any]]:
        """Yield the fields of each row that say whether it was deleted; nothing if there are none."""
        columns = {name: self._columns[name].to_pylist() for name in MARKERS if name in self._columns}
        return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))

    def _matrix(self) -> NDArray[np.floating] | None:
        if not self._features:
            x = self._columns.get("x")
            if x is None or not _is_vector(x.type) or x.type.list_size != self._dimension or x.null_count:
                return None
            entries = x.values.slice(x.offset * self._dimension, self._rows * self._dimension)
            return None if entries.null_count else _numbers(entries).reshape(self._rows, self._dimension)
        columns = [self._column(name) for name in self._features]
        if any(column is None or column.dtype.kind not in "fiu" for column in columns):
            return None
        return np.stack([column.astype(np.float64) for column in columns if column is not None], axis=1)

    def _column(self, name: str) -> NDArray[Any] | None:
        """Return a column of plain values as an array; None if it is missing, is of another type, or lacks a value."""
        column = self._columns.get(name)
        if column is None or column.null_count or not _is_plain(column.type):
            return None
        return _numbers(column)

    def points(self) -> list[Point | InvalidPoint]:
        """Return the rows one by one, as JSON's would be."""
        refused = self._refused()
        if refused is not None:
            return [refused] * self._rows
        columns = {name: column.to_pylist() for name, column in self._columns.items() if name != "op"}
        if self._features:
            columns["x"] = [list(x) for x in zip(*(columns.pop(name) for name in self._features), strict=True)]
        op = self._columns.get("op")
        if op is not None:
            columns["op"] = [str(op.type) if given else None for given in op.is_valid().to_pylist()]
        names = list(columns)
        return [
            convert_row({name: cell for name, cell in zip(names, row, strict=True) if cell is not None})
            for row in zip(*columns.values(), strict=True)
        ]

    def _refused(self) -> InvalidPoint | None:
        """Return why no row can be a point. Columns that pass grow only in proportion as Python objects."""
        if not self._features:
            if "x" not in self._columns:
                return InvalidPoint(
                    "missing_field", "there is no column x, and no column for each of points.feature_names"
                )
            x = self._columns["x"].type
            if not _is_vector(x):
                return InvalidPoint("wrong_type", f"x is {one_line(x)}, not a FixedSizeList of float32 or float64")
            if x.list_size != self._dimension:
                return InvalidPoint(
                    "wrong_dimension", f"x has {x.list_size} entries; points.dimension is {self._dimension}"
                )
        for name, column in self._columns.items():
            if name not in ("x", "op") and not _is_plain(column.type):
                return InvalidPoint(
                    "wrong_type", f"the column {name[:80]} has the unsupported type {one_line(column.type)}"
                )
        return None


def _numbers(values: pa.Array) -> NDArray[Any]:
    """Return values, none of them null, as an array: a view of the record's bytes where they are numbers.

    `to_numpy` would import pandas, and `flatten` the functions of pyarrow: a second at the first record of a topic.
    """
    kind, n = values.type, len(values)
    if not n or not (pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)):
        found: NDArray[Any] = values.to_numpy(zero_copy_only=False)
        return found
    letter = "f" if pa.types.is_floating(kind) else "i" if pa.types.is_signed_integer(kind) else "u"
    dtype = np.dtype(f"{letter}{kind.bit_width // 8}")
    return np.frombuffer(values.buffers()[1], dtype, n, values.offset * dtype.itemsize)


@lru_cache(maxsize=64)
def _plan(schema_message: bytes, feature_names: tuple[str, ...]) -> tuple[Any, tuple[str, ...], tuple[str, ...]]:
    """Return how a schema is read, the columns of features (none where `x` is), and what is not read."""
    fields = pa.ipc.read_schema(pa.py_buffer(schema_message))
    names = fields.names
    by_columns = bool(feature_names) and "x" not in names and set(feature_names) <= set(names)
    features = feature_names if by_columns else ()
    read = {"x", "y", "w", "id", "op", *features}
    twice = sorted(name for name in read if names.count(name) > 1)
    if twice:
        raise ValueError(f"two columns have the name {twice[0]}")
    read |= {name for name in MARKERS if names.count(name) == 1 and _is_plain(fields.field(name).type)}
    included = [index for index, name in enumerate(names) if name in read]
    if not set(names) & (read - MARKERS):
        raise ValueError("none of the columns x, y, w and id exists")
    options = pa.ipc.IpcReadOptions(included_fields=included, use_threads=False)
    return options, features, _unread(names, read)


def _unread(names: list[str], read: set[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in read)[:MOST_FIELDS]


def _is_vector(type_: Any) -> bool:
    return pa.types.is_fixed_size_list(type_) and type_.value_type in (pa.float32(), pa.float64())


def _is_plain(type_: Any) -> bool:
    return type_ in _PLAIN or pa.types.is_integer(type_) or type_ in (pa.float32(), pa.float64())


def encode(
    X: NDArray[np.floating],
    y: Sequence[Label] | None = None,
    weight: NDArray[np.float64] | None = None,
    ids: Sequence[str | int | None] | None = None,
) -> bytes:
    """Encode points as one record.

    Parameters
    ----------
    X : ndarray of shape (n, d), float32 or float64
        Written as it is.
    y, weight, ids : sequence of n, optional
        Left out where None; ids are all text or all integers.
    """
    entries = pa.array(np.ascontiguousarray(X).reshape(-1))
    given = {"y": y, "w": weight, "id": ids}
    arrays = {"x": pa.FixedSizeListArray.from_arrays(entries, X.shape[1])}
    arrays |= {name: pa.array(values) for name, values in given.items() if values is not None}
    batch = pa.record_batch(list(arrays.values()), names=list(arrays))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    encoded: bytes = sink.getvalue().to_pybytes()
    return encoded

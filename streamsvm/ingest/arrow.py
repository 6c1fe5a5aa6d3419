"""Points as Arrow: a record is one IPC stream of record batches, a row is one point.

Columns: `x`, a FixedSizeList of float32 or float64, or instead of it one numeric column for each of
`points.feature_names`; `y`; optionally `w` (null: 1) and `id`. Other columns are not read. `op` means what it does in
JSON. Not accepted are compressed buffers and dictionaries, whose size only decoding would tell, nor messages of a
format version before 5, which say in another way that they are compressed.

Invariant: the messages are walked, their rows counted and their buffers found within the message that they belong to,
each byte in one buffer only, before anything is allocated for them.
Source: the Arrow columnar format, "Serialization and Interprocess Communication", https://arrow.apache.org/docs/format.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamsvm.config import Label, PointsConfig
from streamsvm.errors import InvalidPoint
from streamsvm.ingest.bounds import refuse_expansion, too_many_rows
from streamsvm.ingest.json_rows import convert_row
from streamsvm.ingest.row import Point
from streamsvm.ingest.unread_fields import MOST_FIELDS

CONTENT_TYPE: Final = "application/vnd.apache.arrow.stream"

FRAME: Final = struct.Struct("<Ii")
BUFFER: Final = struct.Struct("<qq")
CONTINUATION: Final = 0xFFFFFFFF
SCHEMA, DICTIONARY, BATCH = 1, 2, 3
"""Kinds of message (`MessageHeader` of Message.fbs)."""
FIFTH: Final = 4
"""Format version 5 (`MetadataVersion`), which is written since Arrow 1.0 of 2020."""
CELL_BYTES: Final = 64
"""A value of a column as a Python object, and its place in three lists."""

_PLAIN: Final = (pa.bool_(), pa.string(), pa.large_string(), pa.null())
_BROKEN: Final = (pa.ArrowException, OSError, ValueError, KeyError, IndexError, OverflowError, TypeError)


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
        schema, self._rows = _survey(value, config.max_rows_per_record)
        try:
            plan = _plan(schema, config.feature_names)
            refuse_expansion(len(value) + self._rows * plan.columns * CELL_BYTES, config.decoded_bytes)
            reader = pa.ipc.open_stream(pa.py_buffer(value), options=plan.options)
            table = pa.Table.from_batches(list(reader), reader.schema)
            table.validate(full=True)
        except MemoryError:  # one of Arrow's is an ArrowException, too, and says nothing of the record
            raise
        except _BROKEN as error:
            raise InvalidPoint("malformed_arrow", f"the stream cannot be read: {_one_line(error)}") from None
        if len(table) != self._rows:
            raise InvalidPoint("malformed_arrow", f"the stream announces {self._rows} rows but holds {len(table)}")
        self._columns = {name: _joined(table.column(name)) for name in table.column_names}
        self._dimension = config.dimension
        self._features = plan.features
        self.unread = plan.unread
        """Columns that are not read."""

    def __len__(self) -> int:
        return self._rows

    def columns(self) -> Columns | None:
        """Return the columns as arrays where none lacks a value; None if row by row will tell more."""
        op, ids = self._columns.get("op"), self._columns.get("id")
        X = self._matrix()
        y = self._column("y")
        weight = self._column("w")
        if (
            X is None
            or (op is not None and op.null_count < self._rows)
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

    def _matrix(self) -> NDArray[np.floating] | None:
        if not self._features:
            x = self._columns.get("x")
            if x is None or not _is_vector(x.type) or x.type.list_size != self._dimension or x.null_count:
                return None
            entries = x.flatten()
            return None if entries.null_count else entries.to_numpy().reshape(self._rows, self._dimension)
        columns = [self._column(name) for name in self._features]
        if any(column is None or column.dtype.kind not in "fiu" for column in columns):
            return None
        return np.stack([column.astype(np.float64) for column in columns if column is not None], axis=1)

    def _column(self, name: str) -> NDArray[Any] | None:
        """Return a column of plain values as an array; None if it is missing, is of another type, or lacks a value."""
        column = self._columns.get(name)
        if column is None or column.null_count or not _is_plain(column.type):
            return None
        values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return values

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
                return InvalidPoint("wrong_type", f"x is {_one_line(x)}, not a FixedSizeList of float32 or float64")
            if x.list_size != self._dimension:
                return InvalidPoint(
                    "wrong_dimension", f"x has {x.list_size} entries; points.dimension is {self._dimension}"
                )
        for name, column in self._columns.items():
            if name not in ("x", "op") and not _is_plain(column.type):
                return InvalidPoint(
                    "wrong_type", f"the column {name[:80]} has the unsupported type {_one_line(column.type)}"
                )
        return None


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is read of a schema: how many columns, `features` being empty where `x` is; and what is not read."""

    options: Any
    columns: int
    features: tuple[str, ...]
    unread: tuple[str, ...]


@lru_cache(maxsize=64)
def _plan(schema_message: bytes, feature_names: tuple[str, ...]) -> _Plan:
    names = pa.ipc.read_schema(pa.py_buffer(schema_message)).names
    by_columns = bool(feature_names) and "x" not in names and set(feature_names) <= set(names)
    features = feature_names if by_columns else ()
    read = {"x", "y", "w", "id", "op", *features}
    twice = sorted(name for name in read if names.count(name) > 1)
    if twice:
        raise ValueError(f"two columns have the name {twice[0]}")
    included = [index for index, name in enumerate(names) if name in read]
    if not included:
        raise ValueError("none of the columns x, y, w and id exists")
    options = pa.ipc.IpcReadOptions(included_fields=included, use_threads=False)
    return _Plan(options, len(included), features, _unread(names, read))


def _unread(names: list[str], read: set[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in read)[:MOST_FIELDS]


def _survey(value: bytes, most_rows: int) -> tuple[bytes, int]:
    """Walk the messages without decoding any; return the schema's message and the number of rows."""
    schema, rows = b"", 0
    try:
        for message in _messages(value):
            if message.kind == SCHEMA and not schema:
                schema = value[message.start : message.body]
            elif message.kind != BATCH or not schema:
                what = "a dictionary" if message.kind == DICTIONARY else f"a message of kind {message.kind}"
                raise InvalidPoint("malformed_arrow", f"the stream holds {what}; only record batches are allowed")
            else:
                if _field(value, message.header, 3):
                    raise InvalidPoint(
                        "malformed_arrow",
                        "the record batch is compressed; send it uncompressed, and compress the topic instead",
                    )
                _check_buffers(value, message)
                rows += _scalar(value, "<q", _field(value, message.header, 0))
                if rows > most_rows:
                    raise too_many_rows(rows, most_rows)
    except (struct.error, ValueError) as error:
        raise InvalidPoint("malformed_arrow", f"the stream's framing is damaged: {error}") from None
    if not schema:
        raise InvalidPoint("malformed_arrow", "the stream has no schema")
    if not rows:
        raise InvalidPoint("empty_record", "the stream holds no rows")
    return schema, rows


@dataclass(frozen=True, slots=True)
class _Message:
    """A message's kind, where it starts, where its body begins, how long that is, and where its header's table is."""

    kind: int
    start: int
    body: int
    body_bytes: int
    header: int


def _messages(value: bytes) -> Iterator[_Message]:
    """Yield the messages.

    Raises
    ------
    ValueError, struct.error
        If the framing is damaged, or a message is not of format version 5.
    """
    at = 0
    while at < len(value):
        continuation, size = FRAME.unpack_from(value, at)
        if continuation != CONTINUATION or size < 0:
            raise ValueError(f"no message begins at byte {at}")
        body = at + FRAME.size + size
        if not size:
            if body != len(value):
                raise ValueError(f"{len(value) - body} bytes follow the end of the stream")
            return
        root = at + FRAME.size
        message = root + _int(value, "<i", root, least=0)
        version = _scalar(value, "<h", _field(value, message, 0))
        if version != FIFTH:
            raise ValueError(f"the message at byte {at} has format version {version + 1}, not {FIFTH + 1}")
        body_bytes = _scalar(value, "<q", _field(value, message, 3))
        if body + body_bytes > len(value):
            raise ValueError(
                f"a body of {body_bytes} bytes is announced at byte {body}, but the value has only {len(value)} bytes"
            )
        at_header = _field(value, message, 2)
        kind = _scalar(value, "<B", _field(value, message, 1))
        yield _Message(kind, at, body, body_bytes, at_header + _int(value, "<i", at_header, least=0))
        at = body + body_bytes


def _check_buffers(value: bytes, batch: _Message) -> None:
    """Look that the buffers of a record batch lie in its body, and are together no larger than it.

    Raises
    ------
    ValueError, struct.error
    """
    at = _field(value, batch.header, 2)
    if not at:
        return
    at += _int(value, "<I", at)
    count = _int(value, "<I", at)
    if not count:
        return
    if at + 4 + count * BUFFER.size > len(value):
        raise ValueError(f"{count} buffers are announced at byte {at} of {len(value)}")
    offset, length = np.frombuffer(value, "<i8", 2 * count, at + 4).reshape(count, 2).T
    inside = (offset >= 0) & (length >= 0) & (length <= batch.body_bytes) & (offset <= batch.body_bytes - length)
    if not inside.all():
        first = int(np.argmin(inside))
        raise ValueError(
            f"buffer {first} has {length[first]} bytes at byte {offset[first]} of a body of {batch.body_bytes} bytes"
        )
    if int(length.sum()) > batch.body_bytes:
        raise ValueError(f"the buffers have {length.sum()} bytes together, but the body has {batch.body_bytes}")


def _field(value: bytes, table: int, index: int) -> int:
    """Return where a field of a FlatBuffers table lies; 0 if it is left out."""
    vtable = table - _int(value, "<i", table)
    size = _int(value, "<H", vtable, least=4)
    slot = 4 + 2 * index
    offset = _int(value, "<H", vtable + slot, least=0) if slot + 2 <= size else 0
    return table + offset if offset else 0


def _scalar(value: bytes, layout: str, at: int) -> int:
    """Return a scalar field; a field that is left out is 0."""
    return _int(value, layout, at, least=0) if at else 0


def _int(value: bytes, layout: str, at: int, least: int | None = None) -> int:
    if at < 0:  # would count from the end
        raise ValueError("an offset is negative")
    number: int = struct.unpack_from(layout, value, at)[0]
    if least is not None and number < least:
        raise ValueError(f"a length or offset is {number}")
    return number


def _joined(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _is_vector(type_: Any) -> bool:
    return pa.types.is_fixed_size_list(type_) and type_.value_type in (pa.float32(), pa.float64())


def _is_plain(type_: Any) -> bool:
    return type_ in _PLAIN or pa.types.is_integer(type_) or type_ in (pa.float32(), pa.float64())


def _one_line(told: object) -> str:
    return " ".join(str(told).split())[:200]


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

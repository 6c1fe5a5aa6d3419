"""Arrow IPC streams before they are decoded: their messages, rows and buffers.

Not accepted are compressed buffers, whose size only decoding would tell, and messages of a format version before 5,
which say in another way that they are compressed. Dictionaries are accepted where they are asked for, each in one
message.

Invariant: the messages are walked, their rows counted and their buffers found within the message that they belong to,
each byte in one buffer only, before anything is allocated for them.
Source: the Arrow columnar format, "Serialization and Interprocess Communication", https://arrow.apache.org/docs/format.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamsvm.errors import InvalidPoint
from streamsvm.ingest.bounds import too_many_rows

CONTENT_TYPE: Final = "application/vnd.apache.arrow.stream"

FRAME: Final = struct.Struct("<Ii")
BUFFER: Final = struct.Struct("<qq")
CONTINUATION: Final = 0xFFFFFFFF
SCHEMA, DICTIONARY, BATCH = 1, 2, 3
"""Kinds of message (`MessageHeader` of Message.fbs)."""
FIFTH: Final = 4
"""Format version 5 (`MetadataVersion`), which is written since Arrow 1.0 of 2020."""

BROKEN: Final = (pa.ArrowException, OSError, ValueError, KeyError, IndexError, OverflowError, TypeError)
"""What pyarrow raises because of bytes. A lack of memory is an ArrowException and a MemoryError: catch that before."""


def survey(value: bytes, most_rows: int, *, dictionaries: bool = False) -> tuple[bytes, int]:
    """Walk the messages without decoding any.

    Returns
    -------
    bytes
        The schema's message.
    int
        The number of rows.

    Raises
    ------
    InvalidPoint
        If the value is not such a stream, has no rows, or too many.
    """
    schema, rows, words = b"", 0, 0
    try:
        for message in _messages(value):
            if message.kind == SCHEMA and not schema:
                schema = value[message.start : message.body]
            elif message.kind == DICTIONARY and schema and dictionaries:
                words += _check_batch(value, _dictionary(value, message))
                if words > 8 * len(value):  # a value takes a bit or more, unless it is null
                    raise InvalidPoint("malformed_arrow", f"dictionaries hold {words} values in {len(value)} bytes")
            elif message.kind != BATCH or not schema:
                what = "a dictionary" if message.kind == DICTIONARY else f"a message of kind {message.kind}"
                raise InvalidPoint("malformed_arrow", f"the stream holds {what}; only record batches are allowed")
            else:
                rows += _check_batch(value, message)
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
class ArrowMessage:
    """A message's kind, where it starts, where its body begins, how long that is, and where its header's table is."""

    kind: int
    start: int
    body: int
    body_bytes: int
    header: int


def _messages(value: bytes) -> Iterator[ArrowMessage]:
    """Yield the messages.

    Raises
    ------
    ValueError, struct.error
        If the framing is damaged, or a message is not of format version 5.
    """
    at = 0
    while at < len(value):
        found = message_at(value, at)
        if found is None:
            if at + FRAME.size != len(value):
                raise ValueError(f"{len(value) - at - FRAME.size} bytes follow the end of the stream")
            return
        end = found.body + found.body_bytes
        if end > len(value):
            raise ValueError(
                f"a body of {found.body_bytes} bytes is announced at byte {found.body}, but the value has only "
                f"{len(value)} bytes"
            )
        yield found
        at = end


def message_at(value: bytes, at: int) -> ArrowMessage | None:
    """Return the message that begins at a byte; None where the stream ends. Its body may be elsewhere.

    Raises
    ------
    ValueError, struct.error
    """
    continuation, size = FRAME.unpack_from(value, at)
    if continuation != CONTINUATION or size < 0:
        raise ValueError(f"no message begins at byte {at}")
    if not size:
        return None
    root = at + FRAME.size
    message = root + _int(value, "<i", root, least=0)
    version = _scalar(value, "<h", field(value, message, 0))
    if version != FIFTH:
        raise ValueError(f"the message at byte {at} has format version {version + 1}, not {FIFTH + 1}")
    body_bytes = _scalar(value, "<q", field(value, message, 3))
    at_header = field(value, message, 2)
    kind = _scalar(value, "<B", field(value, message, 1))
    return ArrowMessage(kind, at, root + size, body_bytes, at_header + _int(value, "<i", at_header, least=0))


def _dictionary(value: bytes, message: ArrowMessage) -> ArrowMessage:
    """Return the record batch of one column in a dictionary's message."""
    if field(value, message.header, 2) and _int(value, "<B", field(value, message.header, 2)):
        raise InvalidPoint("malformed_arrow", "the stream extends a dictionary, which is not supported; send it anew")
    return words_of(value, message)


def words_of(value: bytes, message: ArrowMessage) -> ArrowMessage:
    """Return the record batch in a dictionary's message; raises `ValueError` if there is none."""
    at = field(value, message.header, 1)
    if not at:
        raise ValueError("a dictionary has no values")
    return replace(message, header=at + _int(value, "<i", at, least=0))


def _check_batch(value: bytes, batch: ArrowMessage) -> int:
    """Return the number of rows of a record batch that is safe to decode.

    Raises
    ------
    InvalidPoint, ValueError, struct.error
    """
    if is_compressed(value, batch):
        raise InvalidPoint(
            "malformed_arrow",
            "the record batch is compressed; send it uncompressed, and compress the topic instead",
        )
    buffers_of(value, batch)
    return rows_of(value, batch)


def rows_of(value: bytes, batch: ArrowMessage) -> int:
    """Return the number of rows that a record batch announces."""
    return _scalar(value, "<q", field(value, batch.header, 0))


def is_compressed(value: bytes, batch: ArrowMessage) -> bool:
    """Return whether the buffers of a record batch are compressed."""
    return field(value, batch.header, 3) > 0


def buffers_of(value: bytes, batch: ArrowMessage) -> NDArray[np.int64]:
    """Return offset and length of each buffer of a record batch: in its body, and together no larger than it.

    Raises
    ------
    ValueError, struct.error
    """
    at = field(value, batch.header, 2)
    at += _int(value, "<I", at) if at else 0
    count = _int(value, "<I", at) if at else 0
    if not count:
        return np.empty((0, 2), np.int64)
    if at + 4 + count * BUFFER.size > len(value):
        raise ValueError(f"{count} buffers are announced at byte {at} of {len(value)}")
    found = np.frombuffer(value, "<i8", 2 * count, at + 4).reshape(count, 2)
    offset, length = found.T
    inside = (offset >= 0) & (length >= 0) & (length <= batch.body_bytes) & (offset <= batch.body_bytes - length)
    if not inside.all():
        first = int(np.argmin(inside))
        raise ValueError(
            f"buffer {first} has {length[first]} bytes at byte {offset[first]} of a body of {batch.body_bytes} bytes"
        )
    if int(length.sum()) > batch.body_bytes:
        raise ValueError(f"the buffers have {length.sum()} bytes together, but the body has {batch.body_bytes}")
    return found


def field(value: bytes, table: int, index: int) -> int:
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


def read(value: bytes, rows: int, options: Any) -> dict[str, Any]:
    """Return the columns of a stream that `survey` accepted, one array each, by their names.

    Raises
    ------
    InvalidPoint
        If it is not what it says.
    """
    try:
        reader = pa.ipc.open_stream(pa.py_buffer(value), options=options)
        table = pa.Table.from_batches(list(reader), reader.schema)
        table.validate(full=True)
        columns = {name: _joined(table.column(name)) for name in table.column_names}
    except MemoryError:
        raise
    except BROKEN as error:
        raise InvalidPoint("malformed_arrow", f"the stream cannot be read: {one_line(error)}") from None
    if columns and len(table) != rows:
        raise InvalidPoint("malformed_arrow", f"the stream announces {rows} rows but holds {len(table)}")
    return columns


def _joined(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def one_line(said: object) -> str:
    """Return what a library says, as one short line."""
    return " ".join(str(said).split())[:200]

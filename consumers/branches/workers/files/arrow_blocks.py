"""Where the messages of an Arrow file are, and how large each is once it is decompressed, before one is decoded.

A compressed buffer begins with the number of its bytes before compression; pyarrow allocates as many and refuses one
that has others. So the numbers that stand there bound what decoding takes.
Source: the Arrow columnar format, "IPC File Format", https://arrow.apache.org/docs/format; its File.fbs.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa

from consumers.branches.workers.files.bounds import require_bounded
from streamsvm.ingest.arrow_stream import (
    BATCH,
    DICTIONARY,
    ArrowMessage,
    buffers_of,
    field,
    is_compressed,
    message_at,
    rows_of,
    words_of,
)

MAGIC: Final = b"ARROW1"
TAIL: Final = struct.Struct("<i6s")
BLOCK: Final = np.dtype([("offset", "<i8"), ("header", "<i4"), ("", "<i4"), ("body", "<i8")])
DICTIONARIES, BATCHES = 2, 3
"""Fields of the footer."""
LENGTH: Final = struct.Struct("<q")
NOT_COMPRESSED: Final = -1
"""The length of a buffer among compressed ones that is written as it is."""


class ArrowBlocks:
    """The messages of a file.

    Parameters
    ----------
    path : Path

    Raises
    ------
    ConfigurationError
        If the dictionaries, which are read with any batch, would take too much memory.
    pyarrow.ArrowInvalid
        If it is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file, _damage():
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - TAIL.size))
            length, magic = TAIL.unpack(file.read(TAIL.size))
            self._end = size - TAIL.size - length
            if magic != MAGIC or length <= 0 or self._end < len(MAGIC):
                raise ValueError("it does not end as an Arrow file does")
            file.seek(self._end)
            footer = file.read(length)
            (root,) = struct.unpack_from("<I", footer)
            dictionaries, self._batches = (
                self._blocks(footer, field(footer, root, at)) for at in (DICTIONARIES, BATCHES)
            )
            needed = sum(self._needed(file, block, DICTIONARY)[0] for block in dictionaries)
            stored = int(dictionaries["body"].sum())
        require_bounded(path, "its dictionaries", needed, stored)

    def _blocks(self, footer: bytes, at: int) -> np.ndarray[Any, Any]:
        """Return what a vector of blocks names, each inside the file."""
        if not at:
            return np.empty(0, BLOCK)
        at += struct.unpack_from("<I", footer, at)[0]
        (count,) = struct.unpack_from("<I", footer, at)
        found = np.frombuffer(footer, BLOCK, count, at + 4)
        for name in ("offset", "header", "body"):
            if (wrong := (found[name] < 0) | (found[name] > self._end)).any():
                raise ValueError(f"a message has the {name} {found[name][wrong][0]} in a file of {self._end} bytes")
        if (found["offset"] + found["header"] + found["body"] > self._end).any():
            raise ValueError("a message ends behind the file")
        return found

    def __len__(self) -> int:
        return len(self._batches)

    def require_bounded(self, index: int) -> None:
        """Refuse a record batch that would take too much memory.

        Raises
        ------
        ConfigurationError
        pyarrow.ArrowInvalid
            If it is damaged.
        """
        with self._path.open("rb") as file, _damage():
            block = self._batches[index]
            needed, rows = self._needed(file, block, BATCH)
            if rows > 8 * needed:
                raise ValueError(f"record batch {index} announces {rows} rows in {needed} bytes")
        require_bounded(self._path, f"record batch {index}", needed, int(block["body"]))

    def _needed(self, file: BinaryIO, block: Any, kind: int) -> tuple[int, int]:
        """Return how many bytes a message takes in memory, and its rows."""
        offset, header, body = (int(block[name]) for name in ("offset", "header", "body"))
        file.seek(offset)
        value = file.read(header)
        found = message_at(value, 0)
        if found is None or (found.kind, found.body, found.body_bytes) != (kind, header, body):
            raise ValueError(f"the message at byte {offset} is another one than the footer says")
        batch = found if kind == BATCH else words_of(value, found)
        return _bytes_of(file, value, batch, offset + header), rows_of(value, batch)


def _bytes_of(file: BinaryIO, value: bytes, batch: ArrowMessage, body: int) -> int:
    buffers = buffers_of(value, batch)
    if not is_compressed(value, batch):
        return int(buffers[:, 1].sum())
    needed = 0
    for offset, length in buffers[buffers[:, 1] > 0].tolist():
        file.seek(body + offset)
        (own,) = LENGTH.unpack(file.read(min(length, LENGTH.size)))
        if own < NOT_COMPRESSED:
            raise ValueError(f"a compressed buffer says that it has {own} bytes")
        needed += length - LENGTH.size if own == NOT_COMPRESSED else own
    return needed


@contextmanager
def _damage() -> Iterator[None]:
    try:
        yield
    except (struct.error, ValueError) as error:
        raise pa.ArrowInvalid(str(error)) from None

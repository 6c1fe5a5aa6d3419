"""How large the pages of a Parquet row group are once they are decompressed, before one is decoded.

What the footer says of sizes binds nobody: a reader takes what stands at the beginning of each page. So these are
walked. A page is at most 2 GiB, and a run of equal values takes a few bytes however long it is; that is why a column of
vectors is measured by its values.
Source: Parquet's parquet.thrift, and the compact protocol of Apache Thrift.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa

from consumers.branches.workers.files.bounds import PART_BYTES, require_bounded

HEADER_BYTES: Final = 1 << 12
LONGEST_HEADER: Final = 16 << 20
"""Most bytes of the header of a page: pyarrow reads none that is longer."""
DEEPEST: Final = 8
DELTA_BYTE_ARRAY: Final = 7
"""The encoding in which a value says how much of the one before it begins with: a byte can be any text."""
DELTAS: Final = frozenset((6, DELTA_BYTE_ARRAY))
"""Encodings of text that pyarrow 26 does not decode into words and their numbers."""
DATA, DICTIONARY, DATA_2 = 5, 7, 8
"""Fields of a page's header that hold one of its kind."""
ENCODING: Final = {DATA: 2, DICTIONARY: 2, DATA_2: 4}
BOOL_TRUE, BOOL_FALSE, BYTE, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
"""Types of the compact protocol; 4 to 6 are numbers of several widths."""


@dataclass(frozen=True, slots=True)
class PageSizes:
    """How a row group is to be read so that text takes no more memory than its pages do.

    Attributes
    ----------
    words : list of str
        Columns of text to be read as words and their numbers.
    most_rows : int
        Rows that may be read at once.
    """

    words: list[str]
    most_rows: int


def bounded_pages(
    path: Path, metadata: Any, part: int, columns: Collection[str], text: Collection[str], vectors: Collection[str]
) -> PageSizes:
    """Walk the pages of some columns of a row group.

    Parameters
    ----------
    path : Path
    metadata : pyarrow.parquet.FileMetaData
    part : int
        The row group.
    columns, text, vectors : collection of str
        Those that are read, and which of these have text and vectors.

    Raises
    ------
    ConfigurationError
        If they would take too much memory.
    pyarrow.ArrowInvalid
        If they are damaged.
    """
    group, needed, values, stored = metadata.row_group(part), 0, 0, 0
    words, longest = list(text), 1
    with path.open("rb") as file:
        for index in range(group.num_columns):
            chunk = group.column(index)
            name = next((one for one in columns if f"{chunk.path_in_schema}.".startswith(f"{one}.")), None)
            if name is None:
                continue
            stored += chunk.total_compressed_size
            pages = list(_pages(file, chunk))
            largest = {kind: max((one[1] for one in pages if one[0] == kind), default=0) for kind in ENCODING}
            needed += sum(largest.values())
            if name in vectors:
                values += sum(one[3] for one in pages if one[0] != DICTIONARY)
            if name in words and any(one[2] in DELTAS for one in pages):
                words.remove(name)
                grows = [one[1] for one in pages if one[0] == DICTIONARY or one[2] == DELTA_BYTE_ARRAY]
                longest = max([longest, *grows])
    require_bounded(path, f"row group {part}", needed + 8 * values, stored)
    return PageSizes(words, max(1, PART_BYTES // longest))


def _pages(file: BinaryIO, chunk: Any) -> Iterator[tuple[int, int, int, int]]:
    """Yield kind, bytes once decompressed, encoding and number of values of each page of a column's chunk."""
    at, size = chunk.data_page_offset, os.fstat(file.fileno()).st_size
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < at:
        at = chunk.dictionary_page_offset
    end, left = at + chunk.total_compressed_size, chunk.num_values
    if left <= 0:
        return  # none of its pages is read
    if not 0 < at <= end <= size:
        raise pa.ArrowInvalid(f"a column lies at the bytes {at} to {end} of a file of {size} bytes")
    while at < end and left > 0:
        header, length = _header_at(file, at, min(end - at, LONGEST_HEADER))
        plain, packed = header.get(2, -1), header.get(3, -1)
        at += length + packed
        if plain < 0 or packed < 0 or at > end:
            raise pa.ArrowInvalid(f"a page of {packed} bytes, {plain} when decompressed, ends at byte {at} of {end}")
        kind = next((kind for kind in ENCODING if isinstance(header.get(kind), dict)), 0)
        if kind:
            values = header[kind].get(1, -1)
            if values < 0:
                raise pa.ArrowInvalid(f"a page announces {values} values")
            yield kind, plain, header[kind].get(ENCODING[kind], -1), values
            left -= 0 if kind == DICTIONARY else values


def _header_at(file: BinaryIO, at: int, most: int) -> tuple[dict[int, Any], int]:
    """Return a page's header, and its length."""
    for size in (min(HEADER_BYTES, most), most):
        file.seek(at)
        source = BytesIO(file.read(size))
        try:
            return _struct(source, 0), source.tell()
        except EOFError:
            continue
    raise pa.ArrowInvalid(f"the page at byte {at} has no header")


def _struct(source: BytesIO, depth: int) -> dict[int, Any]:
    """Return the fields of a struct by their numbers: numbers and structs, of others None."""
    found, number = dict[int, Any](), 0
    while (head := _byte(source)) != 0:
        number = number + (head >> 4) if head >> 4 else _zigzag(source)
        kind = head & 15
        found[number] = None if kind in (BOOL_TRUE, BOOL_FALSE) else _value(source, kind, depth + 1)
    return found


def _value(source: BytesIO, kind: int, depth: int) -> Any:
    if depth > DEEPEST:
        raise pa.ArrowInvalid("the header of a page is nested too deeply")
    if kind in (BOOL_TRUE, BOOL_FALSE, BYTE):
        return _byte(source)
    if BYTE < kind < DOUBLE:
        return _zigzag(source)
    if kind == STRUCT:
        return _struct(source, depth)
    if kind in (DOUBLE, BINARY):
        _skip(source, 8 if kind == DOUBLE else _varint(source))
    elif kind in (LIST, SET):
        head = _byte(source)
        for _ in range(head >> 4 if head >> 4 < 15 else _varint(source)):
            _value(source, head & 15, depth + 1)
    elif kind == MAP:
        count = _varint(source)
        kinds = _byte(source) if count else 0
        for _ in range(count):
            _value(source, kinds >> 4, depth + 1)
            _value(source, kinds & 15, depth + 1)
    else:
        raise pa.ArrowInvalid(f"the header of a page has a field of type {kind}")
    return None


def _byte(source: BytesIO) -> int:
    if not (found := source.read(1)):
        raise EOFError
    return found[0]


def _varint(source: BytesIO) -> int:
    number = 0
    for shift in range(0, 70, 7):
        byte = _byte(source)
        number |= (byte & 127) << shift
        if byte < 128:
            return number
    raise pa.ArrowInvalid("a number in the header of a page has more than ten bytes")


def _zigzag(source: BytesIO) -> int:
    number = _varint(source)
    return (number >> 1) ^ -(number & 1)


def _skip(source: BytesIO, count: int) -> None:
    if len(source.read(count)) < count:
        raise EOFError

"""Bytes, lines and batches of bounded size."""

from __future__ import annotations

import bz2
import codecs
import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from streamsvm.errors import ConfigurationError
from streamsvm.ingest.files.faults import bad_row, shown

BATCH_CELLS: Final = 1 << 18
"""Most features in a batch, rows times dimension; a single row may have more."""

LONGEST_LINE_BYTES: Final = 1 << 24

COMPRESSED: Final[Mapping[str, Callable[..., Any]]] = {".gz": gzip.open, ".bz2": bz2.open}


def empty(path: Path) -> ConfigurationError:
    """Return the error of a file without points."""
    return ConfigurationError(f"{path} holds no points", "The file must have at least one row.")


def batch_rows(dimension: int) -> int:
    """Return how many rows of so many features are read at a time."""
    return max(1, BATCH_CELLS // max(1, dimension))


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file, unpacking it as its name's ending says."""
    opened: IO[bytes] = COMPRESSED.get(path.suffix.lower(), open)(path, "rb")
    return opened


def decoded(path: Path, file: IO[bytes], decoder: Any) -> Iterator[Any]:
    """Decode each line; `ConfigurationError` names the first that cannot be."""
    for row, line in enumerate(lines_of(path, file)):
        try:
            yield decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise bad_row(path, row, f"{error}; the line is {shown(line.decode(errors='replace').strip())}") from None


def lines_of(path: Path, file: IO[bytes]) -> Iterator[bytes]:
    """Yield lines that are not blank, however long the file's lines are."""
    bom, count = codecs.BOM_UTF8, 0
    while line := file.readline(LONGEST_LINE_BYTES):
        if len(line) == LONGEST_LINE_BYTES:
            raise bad_row(path, count, f"the line is longer than {LONGEST_LINE_BYTES} bytes")
        if count == 0:
            line = line.removeprefix(bom)
        if not line.isspace():
            count += 1
            yield line


def chunks(rows: Iterable[Any], size: int) -> Iterator[tuple[int, list[Any]]]:
    """Cut into lists of `size`; yield the index of each one's first row with it."""
    rows, first_row = iter(rows), 0
    while chunk := list(islice(rows, size)):
        yield first_row, chunk
        first_row += len(chunk)

"""Parquet, Arrow and CSV files as tables of the columns that are used, part by part.

Whatever a format calls a type, a table has numbers as numbers and labels as the records of a topic would have them. A
cell that cannot be converted is null here, and so rejects its row.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

from consumers.branches.workers.files.arrow_blocks import ArrowBlocks
from consumers.branches.workers.files.parquet_pages import PageSizes, bounded_pages
from streamsvm.branches.workers.files_part import Layout
from streamsvm.config import Label
from streamsvm.errors import ConfigurationError
from streamsvm.ingest.files.faults import listed, reading

FORMATS: Final = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".csv": "csv",
}
BATCH_ROWS: Final = 65_536
BATCH_CELLS: Final = 1 << 22
"""Most cells of a batch: 32 MiB of numbers. Of wider rows a batch has fewer; how many decides nothing."""
LIST_CELLS: Final = 256
"""What a list counts for whose type says no length."""
BATCH_TEXT_BYTES: Final = 1 << 25
"""Most bytes of a batch's text that stood in a dictionary, unless one cell has more."""
SHOWN: Final = 100
"""Characters that are kept of a label that is not known."""
CSV_BLOCK_BYTES: Final = 4 << 20
CSV_COLUMNS: Final = 20_000
"""Most columns of a CSV: its reader takes 9 KB for each."""
PARQUET_BUFFER_BYTES: Final = 1 << 16
"""What is read at once of each column: otherwise it would be all of its row group."""


def format_of(path: Path) -> str | None:
    """Return the format of a file by its ending; None for another file."""
    return FORMATS.get(path.suffix.lower())


class TableFile:
    """One file; whoever reads it holds the context of `reading`.

    Parameters
    ----------
    path : Path
    constants : mapping of str to str
        Columns that the file itself does not have.

    Raises
    ------
    ConfigurationError
        If it cannot be read.
    """

    def __init__(self, path: Path, constants: dict[str, str]) -> None:
        self.path, self._constants = path, constants
        self._format = format_of(path)
        with _reading(path):
            self._schema, self.parts = self._opened()

    def _opened(self) -> tuple[Any, int]:
        if self._format == "parquet":
            with pa.parquet.ParquetFile(self.path) as file:
                self._metadata = file.metadata
                return file.schema_arrow, file.num_row_groups
        if self._format == "arrow":
            self._blocks = ArrowBlocks(self.path)
            with pa.OSFile(str(self.path)) as source, pa.ipc.open_file(source) as file:
                return file.schema, file.num_record_batches
        with _csv(self.path, []) as file:
            return file.schema, 1

    @property
    def names(self) -> list[str]:
        """Its columns, those of its folders last."""
        return [*self._schema.names, *(name for name in self._constants if name not in self._schema.names)]

    def kinds(self, layout: Layout) -> dict[str, str]:
        """Return the type of each column that is used, as the format names it.

        Raises
        ------
        ConfigurationError
            If a column is missing, stands there twice, or has a type that cannot be what it is to be.
        """
        found = {}
        for name in layout.columns:
            if name in self._constants and name not in self._schema.names:
                found[name] = "folder"
                continue
            times = self._schema.names.count(name)
            if times != 1:
                raise ConfigurationError(
                    f"{self.path} has {'no column' if not times else f'{times} columns'} {name}",
                    f"The columns are {listed(self.names)}.",
                )
            kind = self._schema.field(name).type
            if self._format != "csv" and not _fits(name, kind, layout):
                raise ConfigurationError(
                    f"{self.path}: the column {name} is of type {kind}, which cannot be {_role(name, layout)}",
                    "Choose another column, or convert it.",
                )
            found[name] = "text" if self._format == "csv" else str(kind)
        return found

    def tables(self, part: int, columns: Sequence[str]) -> Iterator[Any]:
        """Yield record batches of some columns of a part, all in the file's own types; those of folders as text."""
        own = self._own(columns)
        with _reading(self.path):
            for batch in self._read(part, own):
                for piece in _pieces(batch):
                    found = {name: _plain(piece.column(name)) for name in own}
                    for name in columns:
                        if name not in found:
                            found[name] = pa.array([self._constants[name]] * len(piece), pa.string())
                    yield pa.record_batch([found[name] for name in columns], names=list(columns))

    def require_bounded(self, part: int, columns: Sequence[str]) -> None:
        """Refuse a part some columns of which would take too much memory.

        Raises
        ------
        ConfigurationError
        """
        with _reading(self.path):
            if self._format == "arrow":
                self._blocks.require_bounded(part)
            elif self._format == "parquet":
                self._pages(part, self._own(columns))

    def _own(self, columns: Sequence[str]) -> list[str]:
        return [name for name in columns if name not in self._constants or name in self._schema.names]

    def _pages(self, part: int, columns: Sequence[str]) -> PageSizes:
        kinds = {name: self._schema.field(name).type for name in columns}
        text = [name for name, kind in kinds.items() if _is_text(kind) or _is_binary(kind)]
        vectors = [name for name, kind in kinds.items() if _is_vector(kind)]
        return bounded_pages(self.path, self._metadata, part, columns, text, vectors)

    def _read(self, part: int, columns: list[str]) -> Iterator[Any]:
        width = sum(_width(self._schema.field(name).type) for name in columns)
        rows = max(1, min(BATCH_ROWS, BATCH_CELLS // max(1, width)))
        if self._format == "parquet":
            pages = self._pages(part, columns)
            # Text as words and their numbers takes no more than its pages do.
            how = {"read_dictionary": pages.words, "buffer_size": PARQUET_BUFFER_BYTES}
            with pa.parquet.ParquetFile(self.path, metadata=self._metadata, **how) as file:
                yield from file.iter_batches(
                    min(rows, pages.most_rows), row_groups=[part], columns=columns, use_threads=False
                )
        elif self._format == "arrow":
            self._blocks.require_bounded(part)
            places = [self._schema.get_field_index(name) for name in columns]
            options = pa.ipc.IpcReadOptions(included_fields=places, use_threads=False)
            with pa.OSFile(str(self.path)) as source, pa.ipc.open_file(source, options=options) as file:
                batch = file.get_batch(part)
            # A file may say anything of its buffers: without this, offsets past their end would be read.
            batch.validate(full=True)
            yield from (batch.slice(start, rows) for start in range(0, len(batch), rows))
        else:
            with _csv(self.path, columns) as file:
                yield from file


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Do as `reading`, and say in plain words what the reader of CSV means by a straddling object."""
    with reading(path):
        try:
            yield
        except pa.ArrowInvalid as error:
            if "straddling object" not in str(error):
                raise
            raise pa.ArrowInvalid(f"a line has more than {CSV_BLOCK_BYTES:,} bytes") from None


def _csv(path: Path, columns: list[str]) -> Any:
    """Open a CSV, whose first line names the columns; every cell is read as text, and an empty one is null."""
    with path.open("rb") as file:
        first = re.split(rb"[\r\n]", file.read(CSV_BLOCK_BYTES), maxsplit=1)[0]
        if len(first) == CSV_BLOCK_BYTES or first.count(b",") >= CSV_COLUMNS:
            raise pa.ArrowInvalid(f"the header has {len(first):,} bytes and {first.count(b',') + 1:,} columns")
        file.seek(0)
        header = pa.csv.open_csv(file, pa.csv.ReadOptions(use_threads=False, block_size=CSV_BLOCK_BYTES)).schema.names
    return pa.csv.open_csv(
        path,
        read_options=pa.csv.ReadOptions(use_threads=False, block_size=CSV_BLOCK_BYTES),
        convert_options=pa.csv.ConvertOptions(
            column_types=dict.fromkeys(header, pa.string()),
            include_columns=columns,
            null_values=[""],
            strings_can_be_null=True,
        ),
    )


def _pieces(batch: Any) -> Iterator[Any]:
    """Yield a batch in pieces whose text is of a bounded length once no dictionary holds it."""
    length = np.zeros(len(batch), np.int64)
    for column in batch.columns:
        words = column.dictionary if pa.types.is_dictionary(column.type) else None
        if words is not None and len(words) and (_is_text(words.type) or _is_binary(words.type)):
            of_word = pa.compute.binary_length(words).fill_null(0).to_numpy(zero_copy_only=False)
            length += of_word[column.indices.fill_null(0).to_numpy(zero_copy_only=False)]
    cuts = np.flatnonzero(np.diff(np.cumsum(length) // BATCH_TEXT_BYTES)) + 1
    for start, end in itertools.pairwise((0, *cuts.tolist(), len(batch))):
        if start < end:
            yield batch.slice(start, end - start)


def _plain(column: Any) -> Any:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_binary(kind: Any) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_vector(kind: Any) -> bool:
    lists = pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return bool(lists and pa.types.is_floating(kind.value_type))


def _width(kind: Any) -> int:
    """Return the cells of a row of a column."""
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size)
    return LIST_CELLS if pa.types.is_list(kind) or pa.types.is_large_list(kind) else 1


def _fits(name: str, kind: Any, layout: Layout) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if name in layout.features:
        return _is_number(kind) or (len(layout.features) == 1 and _is_vector(kind))
    if name == layout.label:
        return _is_number(kind) or _is_text(kind) or pa.types.is_boolean(kind)
    if name == layout.weight:
        return _is_number(kind)
    if name == layout.key:
        return bool(_is_text(kind) or _is_binary(kind) or pa.types.is_integer(kind))
    if name == layout.partition:
        return bool(pa.types.is_integer(kind))
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind))


def _role(name: str, layout: Layout) -> str:
    if name in layout.features:
        return "a feature"
    roles = {layout.label: "the label", layout.weight: "the weight", layout.key: "the key"}
    return roles.get(name, "the partition" if name == layout.partition else "the time")


# ------------------------------------------------------------------ cells as the decoder of records takes them


def numbers(column: Any) -> Any:
    """Return a column as float64; null where a cell cannot be read as a number."""
    return _cast(column, pa.float64(), float)


def labels(column: Any, known: Sequence[Label]) -> Any:
    """Return a column of labels as records write them; text that should be a number or a truth value is read so."""
    if not _is_text(column.type):
        return numbers(column) if pa.types.is_decimal(column.type) else column
    # Longer than any of them, it stays unknown; a record has room for it.
    column = _beginnings(column, max(SHOWN, *(1 + len(str(label)) for label in known)))
    if isinstance(known[0], bool):
        return _cast(column, pa.bool_(), {"true": True, "false": False}.__getitem__)
    return column if isinstance(known[0], str) else _cast(column, pa.float64(), float)


def _beginnings(column: Any, most: int) -> Any:
    """Return the first characters of text; null where it is not UTF-8, which Parquet's reader does not look at."""
    try:
        return pa.compute.utf8_slice_codeunits(column, 0, most)
    except pa.ArrowInvalid:
        cells = column.cast(pa.large_binary()).to_pylist()
        return pa.array([_converted(cell, lambda text: text.decode()[:most]) for cell in cells], pa.string())


def times(column: Any | None, rows: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return milliseconds since the epoch; -1 where there is no time.

    Raises
    ------
    ConfigurationError
        If a cell cannot be read as a time.
    """
    if column is None:
        return np.full(rows, -1, np.int64)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
    found = _cast(column, pa.int64(), int).fill_null(-1)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.int64)


def whole_numbers(column: Any) -> Any:
    """Return a column as int64; null where a cell cannot be read as a whole number."""
    return _cast(column, pa.int64(), int)


def texts(column: Any) -> Any:
    """Return the bytes of keys: of text in UTF-8, of a whole number its decimal digits."""
    if pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    return column.cast(pa.large_binary())


def vectors(columns: Sequence[Any], dimension: int) -> Any:
    """Return the features as a column of vectors, in which a cell is null where it cannot be read as a number."""
    if len(columns) == 1 and not _is_number(columns[0].type) and not _is_text(columns[0].type):
        return _of_length(columns[0], dimension)
    given = [numbers(column) for column in columns]
    rows = len(given[0])
    if not any(column.null_count for column in given):
        X = np.empty((rows, len(given)))
        for index, column in enumerate(given):
            X[:, index] = column.to_numpy(zero_copy_only=False)
        return pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), len(given))
    rows_of_cells = zip(*(column.to_pylist() for column in given), strict=True)
    entries = pa.array([cell for row in rows_of_cells for cell in row], pa.float64())
    return pa.FixedSizeListArray.from_arrays(entries, len(given))


def _of_length(column: Any, dimension: int) -> Any:
    """Return vectors, null where one has another number of entries."""
    wanted = pa.list_(pa.float64(), dimension)
    fixed = pa.types.is_fixed_size_list(column.type)
    if fixed and column.type.list_size == dimension and not column.null_count:
        return column.cast(wanted)
    lengths = pa.compute.list_value_length(column).fill_null(-1).to_numpy(zero_copy_only=False)
    right = lengths == dimension
    entries = pa.compute.list_flatten(column.filter(pa.array(right))).cast(pa.float64())
    whole = pa.FixedSizeListArray.from_arrays(entries, dimension)
    return whole.take(pa.array(np.cumsum(right) - 1, mask=~right)).cast(wanted)


def _cast(column: Any, kind: Any, convert: Callable[[str], Any]) -> Any:
    try:
        return column.cast(kind, safe=not _is_number(column.type) or pa.types.is_integer(kind))
    except pa.ArrowInvalid:
        return pa.array([_converted(cell, convert) for cell in column.to_pylist()], kind)


def _converted(cell: Any, convert: Callable[[Any], Any]) -> Any:
    try:
        found = None if cell is None else convert(cell)
    except (ValueError, KeyError, OverflowError):
        return None
    return None if type(found) is int and not -(1 << 63) <= found < 1 << 63 else found

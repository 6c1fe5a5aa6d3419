"""CSV files, by pyarrow."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from streamsvm.errors import ConfigurationError
from streamsvm.ingest.files.cells import NUMBER, table_batch
from streamsvm.ingest.files.delimiters import delimiter_of
from streamsvm.ingest.files.faults import bad_row, reading
from streamsvm.ingest.files.reading import empty, lines_of, open_bytes
from streamsvm.ingest.files.roles import ReadOptions, Roles, roles_of
from streamsvm.ingest.files.source import OnIncomplete, PointSource, SourceBatch

CSV_BLOCK_BYTES: Final = 1 << 20
"""Number of bytes of a CSV that are parsed at once. The reader reads ahead, and holds some thirty such blocks."""

CSV_CELL_BYTES: Final = 32
"""A block has room for this many bytes per cell of a row, more than a float64 takes."""


def open_csv(path: Path, options: ReadOptions) -> PointSource:
    """Open a CSV file; its dialect is a delimiter, and quotes."""
    delimiter = delimiter_of(path, options.delimiter)
    with open_bytes(path) as file:
        cells = csv.reader((line.decode() for line in lines_of(path, file)), delimiter=delimiter)
        rows = [[cell.strip() for cell in row] for row in islice(cells, 2)]
    header = options.header
    if header is None and rows:
        header = _has_header(path, rows)
    if len(rows) <= bool(header):
        raise empty(path)
    names = rows[0] if header else [str(index) for index in range(len(rows[0]))]
    roles = roles_of(path, names, options, last_is_label=True)
    read = partial(_read_csv, path, delimiter, names, roles, header=bool(header), on_incomplete=options.on_incomplete)
    known = tuple(names[index] for index in roles.features) if header else ()
    return PointSource(
        name=str(path),
        dimension=len(roles.features),
        feature_names=known,
        labeled=options.labeled,
        rows=None,
        batches=read,
    )


def _has_header(path: Path, rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first line is a header: it has text where the second has numbers, and no number there."""
    if len(rows) == 1:
        return not any(map(_is_number, rows[0]))
    over_numbers = [_is_number(above) for above, below in zip(*rows, strict=False) if _is_number(below)]
    if any(over_numbers) and not all(over_numbers):
        raise ConfigurationError(
            f"{path}: the first line may be a header or a row, because text and numbers both stand above numbers",
            "Set header to true or false.",
        )
    return bool(over_numbers) and not any(over_numbers)


def _is_number(cell: str) -> bool:
    return NUMBER.fullmatch(cell) is not None


def _read_csv(
    path: Path,
    delimiter: str,
    names: Sequence[str],
    roles: Roles,
    *,
    header: bool,
    on_incomplete: OnIncomplete | None,
) -> Iterator[SourceBatch]:
    """Read cells as text, so that a bad one can be shown; names may repeat, so Arrow gets the indices for them."""
    ragged: list[Any] = []

    def on_ragged(row: Any) -> str:
        ragged.append(row)
        return "error"

    indices = [str(index) for index in range(len(names))]
    used = roles.used
    with reading(path), open_bytes(path) as file:
        try:
            batches = pa.csv.open_csv(
                file,
                pa.csv.ReadOptions(
                    use_threads=False,
                    block_size=max(CSV_BLOCK_BYTES, CSV_CELL_BYTES * len(names)),
                    column_names=indices,
                    skip_rows_after_names=int(header),
                ),
                pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=on_ragged),
                pa.csv.ConvertOptions(
                    column_types=dict.fromkeys(indices, pa.string()),
                    strings_can_be_null=False,
                    include_columns=[indices[i] for i in used],
                ),
            )
            first_row = 0
            for table in batches:
                column = {i: table.column(indices[i]) for i in used}
                batch = table_batch(path, names, roles, column, first_row, typed=False, on_incomplete=on_incomplete)
                if len(batch):
                    yield batch
                first_row += table.num_rows
        except pa.ArrowInvalid:
            if not ragged:
                raise
            row = ragged[0]
            problem = f"it has {row.actual_columns} cells, the first line has {row.expected_columns}"
            raise bad_row(path, row.number - 1 - header, problem) from None

"""Parquet files, by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from streamsvm.ingest.files.cells import table_batch
from streamsvm.ingest.files.faults import reading
from streamsvm.ingest.files.reading import batch_rows, empty
from streamsvm.ingest.files.roles import ReadOptions, Roles, roles_of
from streamsvm.ingest.files.source import OnIncomplete, PointSource, SourceBatch


def open_parquet(path: Path, options: ReadOptions) -> PointSource:
    """Open a Parquet file."""
    with pa.parquet.ParquetFile(path) as file:
        names, rows = file.schema_arrow.names, file.metadata.num_rows
    if not rows:
        raise empty(path)
    roles = roles_of(path, names, options, last_is_label=False)
    known = tuple(names[index] for index in roles.features)
    read = partial(_read_parquet, path, names, roles, options.on_incomplete)
    return PointSource(
        name=str(path),
        dimension=len(known),
        feature_names=known,
        labeled=options.labeled,
        rows=rows if options.on_incomplete is None else None,
        batches=read,
    )


def _read_parquet(
    path: Path, names: Sequence[str], roles: Roles, on_incomplete: OnIncomplete | None
) -> Iterator[SourceBatch]:
    used = roles.used
    first_row = 0
    with reading(path), pa.parquet.ParquetFile(path) as file:
        for table in file.iter_batches(
            batch_rows(len(roles.features)), columns=[names[i] for i in used], use_threads=False
        ):
            column = {i: table.column(names[i]) for i in used}
            batch = table_batch(path, names, roles, column, first_row, typed=True, on_incomplete=on_incomplete)
            if len(batch):
                yield batch
            first_row += table.num_rows

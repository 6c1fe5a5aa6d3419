"""Files of raw events: a row of a CSV or Parquet file, or a line of JSON, as the event that it would be on a topic."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import numpy as np
import pyarrow.parquet as pq

from streamsvm.branches.events.arrow_values import rows_of
from streamsvm.branches.events.csv_columns import NUMBER, CsvColumns, read_cell
from streamsvm.branches.events.event_points import EventReader
from streamsvm.branches.events.features.recipe import Recipe
from streamsvm.branches.events.options import points_of
from streamsvm.config import PointsConfig
from streamsvm.errors import ConfigurationError
from streamsvm.field_paths import shown
from streamsvm.ingest.decoding import Markers
from streamsvm.ingest.files.delimiters import delimiter_of
from streamsvm.ingest.files.faults import CORRECT, bad_cell, bad_row, reading, refuse_repeated, shown as quoted
from streamsvm.ingest.files.reading import batch_rows, chunks, decoded, empty, lines_of, open_bytes
from streamsvm.ingest.files.source import Format, OnIncomplete, PointSource, SourceBatch
from streamsvm.ingest.row import LARGEST_FEATURE
from streamsvm.points import label_codes

Event = dict[str, Any]

CHUNK: Final = 4_096
"""Rows that are read at once, and by the first of which the columns of a CSV are judged."""

_object_decoder = msgspec.json.Decoder(dict[str, Any])


def events_in(
    path: Path, format_: Format, recipe: Recipe | None, delimiter: str | None = None, markers: Markers | None = None
) -> Iterator[Event]:
    """Yield the rows of a file as events.

    A cell of a CSV is missing if it is empty, NA, NaN or null (`is_missing`), unless that is a value of a vocabulary
    which the recipe declares for the column: a category's values, or the labels. Blanks around a cell do not count,
    unless such a value has them. Other cells are what JSON would read, a number, true, false, or else text; but the
    column is text in all its rows if the recipe says so, or if it says nothing and the first rows do (`holds_texts`).
    Where the recipe declares a number or a time that may be missing, a cell that is none is missing.

    Parameters
    ----------
    path : Path
    format_ : {"csv", "jsonl", "parquet"}
    recipe : Recipe, optional
        Says which columns of a CSV are text.
    delimiter : str, optional
        Of a CSV. Default: found by its first rows, as `delimiter_of` does.
    markers : Markers, optional
        Filled, by column, with the cells of a CSV that were taken as missing though they are not empty.

    Raises
    ------
    ConfigurationError
        If the file or a row of it cannot be read, or the format has no named columns.
    """
    openers: Mapping[str, Callable[[Path], Iterator[Event]]] = {
        "csv": partial(_csv, CsvColumns.of(recipe), delimiter, {} if markers is None else markers),
        "jsonl": _jsonl,
        "parquet": _parquet,
    }
    if format_ not in openers:
        raise ConfigurationError(
            f"{path} is a {format_} file, which has no named columns", "Use csv, jsonl or parquet."
        )
    if delimiter is not None and format_ != "csv":
        raise ConfigurationError(f"{path} is a {format_} file, to which delimiter does not apply", "Leave it out.")
    with reading(path):
        yield from openers[format_](path)


def untyped_in(path: Path, format_: Format, delimiter: str | None = None) -> Iterator[Event]:
    """Yield the rows of a file as `events_in` does, but those of a CSV with the text of each cell.

    What the columns hold can then be told from all rows that are kept, by `typed`.
    """
    if format_ != "csv":
        yield from events_in(path, format_, None, delimiter)
        return
    with reading(path):
        rows = _rows(path, delimiter)
        names = next(rows)
        for cells in rows:
            yield dict(zip(names, cells, strict=True))


def event_source(
    path: Path,
    format_: Format,
    recipe: Recipe,
    *,
    delimiter: str | None = None,
    on_incomplete: OnIncomplete | None = None,
    dtype: Literal["float32", "float64"] = "float64",
    markers: Markers | None = None,
) -> PointSource:
    """Return a file of raw events as points, by a recipe that has a label.

    Parameters
    ----------
    path, format_, recipe, delimiter
        As of `events_in`.
    markers : Markers, optional
        As of `events_in`, each time that the file was read to its end.
    dtype : "float32" or "float64"
        What a model stores: a feature that it cannot hold is an error. Others are for the caller to round.
    on_incomplete : callable, optional
        Skip the rows that the recipe rejects because a field is missing, and call this with their number.

    Raises
    ------
    ConfigurationError
        As `events_in` does. Reading raises it too, for the first other row that the recipe rejects.
    """
    if recipe.label is None:
        raise ConfigurationError("events.label is not given", "Give the label's field and values under [events].")
    config = PointsConfig(**points_of(recipe), dtype="float64")
    reader = partial(EventReader, recipe, config, LARGEST_FEATURE[dtype], labeled=True)
    read = partial(_batches, path, format_, recipe, config, reader, delimiter, on_incomplete, markers)
    return PointSource(
        name=str(path),
        dimension=config.dimension,
        feature_names=config.feature_names,
        labeled=True,
        rows=None,
        batches=read,
    )


def _batches(
    path: Path,
    format_: Format,
    recipe: Recipe,
    config: PointsConfig,
    begun: Callable[[], EventReader],
    delimiter: str | None,
    on_incomplete: OnIncomplete | None,
    markers: Markers | None,
) -> Iterator[SourceBatch]:
    reader, found = begun(), Markers()
    of_code = dict(zip(label_codes(config.classes), config.labels, strict=True))
    events = events_in(path, format_, recipe, delimiter, found)
    for first_row, rows in chunks(events, batch_rows(config.dimension)):
        made = reader.read(rows)
        for row, fault in sorted(made.faults.items()):
            if fault.reason != "missing_field" or on_incomplete is None:
                is_label = recipe.label is not None and fault.what == f"{shown(recipe.label.field)} is missing"
                remedy = _NO_LABEL if is_label else _REMEDIES.get(fault.reason, CORRECT)
                raise bad_row(path, first_row + row, fault.what, remedy)
        good = np.array([row not in made.faults for row in range(len(rows))], np.bool_)
        if on_incomplete is not None and not good.all():
            on_incomplete(int((~good).sum()))
        points = made.points.take(good)
        labels = [of_code[code] for code in points.y.tolist()]
        at = None if good.all() else np.flatnonzero(good).astype(np.int64) + first_row
        if len(points):
            yield SourceBatch(np.asarray(points.X, np.float64), labels, points.weight, None, first_row, at)
    if markers is not None:
        markers.update(found)


_NO_LABEL: Final = "Fill in the label, or skip such rows with on_incomplete."
_REMEDIES: Final = {
    "missing_field": "Fill in the value, set the feature's option missing, or skip such rows with on_incomplete.",
    "unknown_label": "Correct the row, or add the value to events.label.",
    "wrong_type": "Correct the row, or declare the field as another kind; or, of a CSV, set the feature's option "
    "missing.",
}


# -------------------------------------------------------------------- formats


def _csv(columns: CsvColumns, delimiter: str | None, markers: Markers, path: Path) -> Iterator[Event]:
    rows = _rows(path, delimiter)
    names = next(rows)
    first = list(islice(rows, CHUNK))
    columns = columns.judging(names, first)
    kinds = [
        (name, name in columns.texts, columns.codes.get(name, frozenset()), columns.readable.get(name))
        for name in names
    ]
    for row, cells in enumerate(chain(first, rows)):
        event: Event = {}
        for (name, text, codes, is_readable), cell in zip(kinds, cells, strict=True):
            value = read_cell(cell, text=text, codes=codes)
            if value is not None and (is_readable is None or is_readable(value)):
                event[name] = value
                is_unread = type(value) is str and not text and name in columns.declared
                if is_unread and NUMBER.fullmatch(cell.strip()) is not None:
                    raise bad_cell(path, row, name, f"{quoted(cell)} is too large for a number")
            elif marker := cell.strip():
                markers.setdefault(name, Counter())[marker] += 1
        yield event


def _rows(path: Path, delimiter: str | None) -> Iterator[list[str]]:
    """Yield the names of the columns of a CSV, and then the cells of each row, as many as names."""
    separator = delimiter_of(path, delimiter)
    with open_bytes(path) as file:
        rows = csv.reader((line.decode() for line in lines_of(path, file)), delimiter=separator)
        names = [name.strip() for name in next(rows, [])]
        if not names or "" in names:
            raise ConfigurationError(f"{path}: the first line must name every column", "Add or correct the header.")
        refuse_repeated(path, names)
        yield names
        for row, cells in enumerate(rows):
            if len(cells) != len(names):
                raise bad_row(path, row, f"it has {len(cells)} cells, the first line has {len(names)}")
            yield cells


def _jsonl(path: Path) -> Iterator[Event]:
    with open_bytes(path) as file:
        yield from decoded(path, file, _object_decoder)


def _parquet(path: Path) -> Iterator[Event]:
    with pq.ParquetFile(path) as file:
        if not file.metadata.num_rows:
            raise empty(path)
        refuse_repeated(path, file.schema_arrow.names)
        for batch in file.iter_batches(CHUNK, use_threads=False):
            for row in rows_of(batch):
                yield {name: value for name, value in row.items() if value is not None}

"""Files of raw events: a row of a CSV or Parquet file, or a line of JSON, as the event that it would be on a topic."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow.parquet as pq

from streamsvm.config import PointsConfig, points_of
from streamsvm.errors import ConfigurationError
from streamsvm.features.frames import plain
from streamsvm.features.paths import shown
from streamsvm.features.recipe import LARGEST_NUMBER, Category, Hash, Number, Recipe, Time
from streamsvm.ingest.events import EventReader
from streamsvm.ingest.files.cells import MISSING_CELLS
from streamsvm.ingest.files.faults import CORRECT, bad_row, reading
from streamsvm.ingest.files.reading import batch_rows, chunks, decoded, empty, lines_of, open_bytes
from streamsvm.ingest.files.source import Format, OnIncomplete, Source, SourceBatch

Event = dict[str, Any]

NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
"""A cell that is a number in JSON, too: not one with zeros in front, which is an identifier."""
LARGEST_EXACT: Final = 1 << 53
CHUNK: Final = 4_096

_object_decoder = msgspec.json.Decoder(dict[str, Any])


def events_in(path: Path, format_: Format, recipe: Recipe | None, delimiter: str | None = None) -> Iterator[Event]:
    """Yield the rows of a file as events.

    Parameters
    ----------
    path : Path
    format_ : {"csv", "jsonl", "parquet"}
    recipe : Recipe, optional
        Says which columns of a CSV are text. Without it a cell is a number, a boolean or text by what stands in it.
    delimiter : str, optional
        Of a CSV. Default: a tab for .tsv, else a comma.

    Raises
    ------
    ConfigurationError
        If the file or a row of it cannot be read, or the format has no named columns.
    """
    openers: Mapping[str, Callable[[Path], Iterator[Event]]] = {
        "csv": partial(_csv, texts=_texts(recipe), codes=_codes(recipe), delimiter=delimiter),
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


def event_source(
    path: Path,
    format_: Format,
    recipe: Recipe,
    *,
    delimiter: str | None = None,
    on_incomplete: OnIncomplete | None = None,
) -> Source:
    """Return a file of raw events as points, by a recipe that has a label.

    Parameters
    ----------
    path, format_, recipe, delimiter
        As of `events_in`.
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
    read = partial(_batches, path, format_, recipe, config, delimiter, on_incomplete)
    return Source(
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
    delimiter: str | None,
    on_incomplete: OnIncomplete | None,
) -> Iterator[SourceBatch]:
    reader = EventReader(recipe, config, LARGEST_NUMBER, labeled=True)
    events = events_in(path, format_, recipe, delimiter)
    for first_row, rows in chunks(events, batch_rows(config.dimension)):
        made = reader.read(rows)
        for row, fault in sorted(made.faults.items()):
            if fault.reason != "missing_field" or on_incomplete is None:
                raise bad_row(path, first_row + row, fault.what, _REMEDIES.get(fault.reason, CORRECT))
        good = np.array([row not in made.faults for row in range(len(rows))], np.bool_)
        if on_incomplete is not None and not good.all():
            on_incomplete(int((~good).sum()))
        points = made.points.take(good)
        labels = [config.labels[int(sign > 0)] for sign in points.y.tolist()]
        at = None if good.all() else np.flatnonzero(good).astype(np.int64) + first_row
        if len(points):
            yield SourceBatch(points.X.astype(np.float64, copy=False), labels, points.weight, None, first_row, at)


_REMEDIES: Final = {
    "missing_field": "Fill in the value, set the feature's option missing, or skip such rows with on_incomplete.",
    "unknown_label": "Correct the row, or add the value to events.label.",
    "wrong_type": "Correct the row, or declare the field as another kind.",
}


# -------------------------------------------------------------------- formats


def _texts(recipe: Recipe | None) -> frozenset[str]:
    """Return the columns whose cells stay text, though they may look like numbers."""
    if recipe is None:
        return frozenset()
    paths = [
        one.field
        for one in recipe.of_fields
        if isinstance(one, Category | Hash) or (isinstance(one, Number) and one.parse is not None)
    ]
    times = [one for one in recipe.of_fields if isinstance(one, Time) and one.format == "iso8601"]
    paths += [path for one in times for path in (one.field, one.since) if path is not None]
    label = recipe.label
    if label is not None and isinstance(label.positive[0], str):
        paths.append(label.field)
    return frozenset(shown(path) for path in (*paths, *(() if recipe.id is None else (recipe.id,))))


def _codes(recipe: Recipe | None) -> Mapping[str, frozenset[str]]:
    """Return the vocabularies of the columns that are categories."""
    found: dict[str, frozenset[str]] = {}
    for one in () if recipe is None else recipe.of_fields:
        if isinstance(one, Category):
            found[shown(one.field)] = found.get(shown(one.field), frozenset()).union(one.values)
    return found


def _csv(
    path: Path, texts: frozenset[str], codes: Mapping[str, frozenset[str]], delimiter: str | None
) -> Iterator[Event]:
    separator = delimiter or ("\t" if ".tsv" in (ending.lower() for ending in path.suffixes) else ",")
    if len(separator) != 1:
        raise ConfigurationError(
            f"the delimiter {separator!r} is not one character", "Give a single character, such as ; or a tab."
        )
    with open_bytes(path) as file:
        rows = csv.reader((line.decode() for line in lines_of(path, file)), delimiter=separator)
        names = [name.strip() for name in next(rows, [])]
        if not names or len(set(names)) < len(names) or "" in names:
            raise ConfigurationError(
                f"{path}: the first line must name every column, and no two the same", "Add or correct the header."
            )
        for row, cells in enumerate(rows):
            if len(cells) != len(names):
                raise bad_row(path, row, f"it has {len(cells)} cells, the first line has {len(names)}")
            yield {
                name: value
                for name, cell in zip(names, cells, strict=True)
                if (value := _cell(cell.strip(), text=name in texts, codes=codes.get(name, frozenset()))) is not None
            }


def _cell(cell: str, *, text: bool, codes: frozenset[str]) -> str | float | bool | None:
    """Return what a cell holds; a whole number written as 2.0 is the code 2 of a vocabulary that has 2 and not 2.0."""
    if cell.lower() in MISSING_CELLS:
        return None
    if text:
        whole = cell.removesuffix(".0")
        return whole if cell not in codes and whole in codes and NUMBER.fullmatch(cell) else cell
    if cell.lower() in ("true", "false"):
        return cell.lower() == "true"
    if NUMBER.fullmatch(cell) is None:
        return cell
    value = float(cell)
    return int(value) if value.is_integer() and abs(value) <= LARGEST_EXACT else value


def _jsonl(path: Path) -> Iterator[Event]:
    with open_bytes(path) as file:
        yield from decoded(path, file, _object_decoder)


def _parquet(path: Path) -> Iterator[Event]:
    with pq.ParquetFile(path) as file:
        if not file.metadata.num_rows:
            raise empty(path)
        for batch in file.iter_batches(CHUNK, use_threads=False):
            for row in batch.to_pylist():
                yield {name: plain(value) for name, value in row.items() if value is not None}

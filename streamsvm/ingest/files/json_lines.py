"""Files of one JSON value a line: points as records have them, or objects with a field a column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamsvm.errors import ConfigurationError
from streamsvm.ingest.files.cells import checked_weights, ids_of, labels_of
from streamsvm.ingest.files.faults import CORRECT, NO_FEATURE, bad_cell, bad_row, reading, shown
from streamsvm.ingest.files.reading import batch_rows, chunks, decoded, empty, open_bytes
from streamsvm.ingest.files.roles import ReadOptions, Roles, roles_of
from streamsvm.ingest.files.source import PointSource, SourceBatch


class _PointRow(msgspec.Struct):
    """A line in the project's own form; the fields of `streamsvm.ingest.decoder`."""

    x: list[float]
    y: int | float | str | bool | None = None
    w: float | None = None
    id: str | int | None = None
    op: Any = None


_point_decoder = msgspec.json.Decoder(_PointRow)

_object_decoder = msgspec.json.Decoder(dict[str, Any])


def open_jsonl(path: Path, options: ReadOptions) -> PointSource:
    """Open a file of points as records have them, or of objects with a field for each column."""
    with open_bytes(path) as file:
        first = next(decoded(path, file, _object_decoder), None)
    if first is None:
        raise empty(path)
    if isinstance(first.get("x"), list):
        return _open_point_lines(path, options, first)
    names = list(first)
    roles = roles_of(path, names, options, last_is_label=False)
    known = tuple(names[index] for index in roles.features)
    return PointSource(
        name=str(path),
        dimension=len(known),
        feature_names=known,
        labeled=options.labeled,
        rows=None,
        batches=partial(_read_objects, path, names, roles),
    )


def _open_point_lines(path: Path, options: ReadOptions, first: Mapping[str, Any]) -> PointSource:
    for option in ("label_column", "weight_column", "id_column", "columns"):
        if getattr(options, option) is not None:
            raise ConfigurationError(
                f"{path} holds points with the fields x, y, w and id, and {option} does not apply to them",
                "Leave it out.",
            )
    if not first["x"]:
        raise bad_row(path, 0, "x has no entries")
    read = partial(_read_point_lines, path, len(first["x"]), labeled=options.labeled)
    return PointSource(
        name=str(path), dimension=len(first["x"]), feature_names=(), labeled=options.labeled, rows=None, batches=read
    )


def _read_point_lines(path: Path, dimension: int, *, labeled: bool) -> Iterator[SourceBatch]:
    with reading(path), open_bytes(path) as file:
        for first_row, points in chunks(decoded(path, file, _point_decoder), batch_rows(dimension)):
            for row, point in enumerate(points, first_row):
                if len(point.x) != dimension:
                    raise bad_row(path, row, f"x has {len(point.x)} entries, the first row's has {dimension}")
                if point.op is not None:
                    raise bad_row(
                        path, row, f"the row has the field op = {shown(point.op)}; only plain points can be read"
                    )
            X = np.array([point.x for point in points], np.float64)
            weight = np.array([1.0 if point.w is None else point.w for point in points], np.float64)
            yield SourceBatch(
                X,
                labels_of(path, "y", [point.y for point in points], first_row) if labeled else None,
                checked_weights(path, "w", weight, first_row) if any(p.w is not None for p in points) else None,
                [point.id for point in points] if any(point.id is not None for point in points) else None,
                first_row,
            )


def _read_objects(path: Path, names: Sequence[str], roles: Roles) -> Iterator[SourceBatch]:
    with reading(path), open_bytes(path) as file:
        for first_row, rows in chunks(decoded(path, file, _object_decoder), batch_rows(len(roles.features))):
            yield _object_batch(path, names, roles, rows, first_row)


def _object_batch(
    path: Path, names: Sequence[str], roles: Roles, rows: Sequence[Mapping[str, Any]], first_row: int
) -> SourceBatch:
    fields = set(names)
    for row, fields_of_row in enumerate(rows, first_row):
        if fields_of_row.keys() != fields:
            different = ", ".join(sorted(fields ^ fields_of_row.keys()))
            raise bad_row(path, row, f"the row's fields differ from those of the first row: {different}")

    def numbers(index: int) -> NDArray[np.float64]:
        return _plain_numbers(path, names[index], [row[names[index]] for row in rows], first_row)

    def values(index: int) -> list[Any]:
        return [row[names[index]] for row in rows]

    return SourceBatch(
        np.stack([numbers(index) for index in roles.features], axis=1),
        None if roles.label is None else labels_of(path, names[roles.label], values(roles.label), first_row),
        None if roles.weight is None else checked_weights(path, names[roles.weight], numbers(roles.weight), first_row),
        None if roles.id is None else ids_of(path, names[roles.id], values(roles.id), first_row),
        first_row,
    )


def _plain_numbers(path: Path, column: str, values: Sequence[Any], first_row: int) -> NDArray[np.float64]:
    """Return a column of JSON values as float64; booleans are 0 and 1."""
    if not set(map(type, values)) <= {float, int, bool}:
        row = next(row for row, value in enumerate(values) if not isinstance(value, int | float))
        if values[row] is None:
            raise bad_cell(path, first_row + row, column, "the value is missing")
        raise bad_cell(path, first_row + row, column, f"{shown(values[row])} is not a number", NO_FEATURE)
    try:
        return np.array(values, np.float64)
    except OverflowError:
        raise ConfigurationError(
            f"{path}: column {column}, rows {first_row + 1} to {first_row + len(values)}: an integer is too large "
            "for float64",
            CORRECT,
        ) from None

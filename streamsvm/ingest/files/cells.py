"""From cells to features, labels, weights and ids, the same in every format."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from streamsvm.config import Label
from streamsvm.errors import ConfigurationError
from streamsvm.ingest.files.faults import NO_FEATURE, UnusableColumns, bad_cell, listed, missing_cell, shown
from streamsvm.ingest.files.roles import Roles
from streamsvm.ingest.files.source import Id, OnIncomplete, SourceBatch
from streamsvm.ingest.row import LARGEST_FEATURE, LARGEST_WEIGHT, SMALLEST_WEIGHT

MISSING_CELLS: Final = ("", "na", "nan", "null")
"""Cells of a CSV that mean a missing value, in lower case and without blanks around them; in every file of points and
of events, but for a value that the configuration declares for its column."""

LONGEST_INTEGER: Final = 300
"""Most characters of a label that is read as an integer; longer numbers are beyond float64 in any case."""

NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)

LEAST_COUNTED: Final = 20
"""Rows without which a column is not said to count them."""

MOST_NAMED: Final = 12
"""Columns whose content an error quotes."""

_INTEGER: Final = re.compile(r"[+-]?\d+", re.ASCII)

_PADDED: Final = re.compile(r"[+-]?0\d.*", re.ASCII)
"""A number with zeros before it, as codes have and as nobody writes a number: "01" is not 1, but text."""


def is_missing(cell: str) -> bool:
    """Return whether a cell of a CSV, without blanks around it, says that its value is missing."""
    return cell.lower() in MISSING_CELLS


def checked_features(
    name: object, columns: Sequence[str], X: NDArray[np.float64], first_row: int
) -> NDArray[np.float64]:
    """Return the features, all finite and as a record may have them; `ConfigurationError` names the first that is not.

    Every file is read as float64, so the limit is that of `points.dtype = float64`.
    """
    largest = LARGEST_FEATURE["float64"]
    good = np.abs(X) <= largest  # NaN is not
    if good.all():
        return X
    row, column = (int(index) for index in np.argwhere(~good)[0])
    called, value = columns[column] if columns else f"x[{column}]", X[row, column]
    if np.isfinite(value):
        problem = f"{value:g} is too large; a feature must be at most {largest:g} in magnitude"
        raise bad_cell(name, first_row + row, called, problem, "Correct the row, or scale the column.")
    raise bad_cell(name, first_row + row, called, f"{value} is not a finite number")


def checked_weights(name: object, column: str, weight: NDArray[np.float64], first_row: int) -> NDArray[np.float64]:
    """Return the weights, all such as a record may have; `ConfigurationError` names the first that is not."""
    good = (weight >= SMALLEST_WEIGHT) & (weight <= LARGEST_WEIGHT)
    if not good.all():
        row = int(np.argmin(good))
        raise bad_cell(
            name,
            first_row + row,
            column,
            f"the weight {weight[row]} is not in [{SMALLEST_WEIGHT:g}, {LARGEST_WEIGHT:g}]",
        )
    return weight


def labels_of(name: object, column: str, values: Sequence[Any], first_row: int) -> list[Label]:
    """Return labels of the three kinds there are; whole floats become integers."""
    if set(map(type, values)) <= {int, str, bool}:
        return list(values)
    return [_label(name, column, value, first_row + row) for row, value in enumerate(values)]


def _label(name: object, column: str, value: Any, row: int) -> Label:
    if isinstance(value, int | str):
        return value
    if value is None:
        raise bad_cell(name, row, column, "the label is missing")
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise ConfigurationError(
        f"{name}: row {row + 1}, column {column}: the label {shown(value)} is neither a whole number nor text",
        "Choose the label_column.",
    )


def _numbers(name: object, column: str, values: Any, first_row: int) -> NDArray[np.float64]:
    """Return a column of Arrow's as float64; text is read, booleans are 0 and 1."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if _is_text(values.type):
        values = pc.utf8_trim_whitespace(values)
    if values.null_count:
        raise missing_cell(name, first_row + int(np.argmax(values.is_null())), column)
    try:
        numbers = pc.cast(values, pa.float64(), safe=False)
    except pa.ArrowNotImplementedError:
        raise ConfigurationError(
            f"{name}: column {column} holds {values.type}, not numbers", "List the feature columns without this one."
        ) from None
    except pa.ArrowInvalid:
        row = _first_unreadable(values)
        cell = values[row].as_py()
        if is_missing(cell):
            raise missing_cell(name, first_row + row, column) from None
        raise bad_cell(name, first_row + row, column, f"{shown(cell)} is not a number", NO_FEATURE) from None
    found: NDArray[np.float64] = numbers.to_numpy(zero_copy_only=False)
    if np.isnan(found).any():  # as a table writes a missing number, and one of the cells of `MISSING_CELLS`
        raise missing_cell(name, first_row + int(np.argmax(np.isnan(found))), column)
    return found


def _first_unreadable(values: Any) -> int:
    """Bisect for the first cell that is not a number, with the parser that refused it."""
    good, bad = 0, len(values)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            pc.cast(values.slice(good, middle - good), pa.float64())
        except pa.ArrowInvalid:
            bad = middle
        else:
            good = middle
    return good


def table_batch(
    name: object,
    names: Sequence[str],
    roles: Roles,
    column: Mapping[int, Any],
    first_row: int,
    *,
    typed: bool,
    on_incomplete: OnIncomplete | None,
) -> SourceBatch:
    """Make a batch of Arrow's columns, by their index in the file."""
    if first_row == 0:
        _refuse_unusable(name, names, roles, column, on_incomplete)
    incomplete = np.zeros(len(column[roles.features[0]]), bool)
    if on_incomplete is not None:
        column, incomplete = _filled(roles, column)
    X = np.stack([_numbers(name, names[index], column[index], first_row) for index in roles.features], axis=1)
    X = checked_features(name, [names[index] for index in roles.features], X, first_row)
    y = weight = ids = None
    if roles.label is not None:
        label = column[roles.label]
        plain = _listed(name, names[roles.label], label) if typed else _read_labels(label)
        y = labels_of(name, names[roles.label], plain, first_row)
    if roles.weight is not None:
        given = _numbers(name, names[roles.weight], column[roles.weight], first_row)
        weight = checked_weights(name, names[roles.weight], given, first_row)
    if roles.id is not None:
        plain = _listed(name, names[roles.id], column[roles.id])
        ids = ids_of(name, names[roles.id], plain if typed else [cell.strip() or None for cell in plain], first_row)
    batch = SourceBatch(X, y, weight, ids, first_row)
    if on_incomplete is None or not incomplete.any():
        return batch
    on_incomplete(int(incomplete.sum()))
    return _without(batch, incomplete)


def _listed(name: object, column: str, values: Any) -> list[Any]:
    """Return labels or ids; a time or bytes are neither."""
    kind = values.type
    if pa.types.is_temporal(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        raise ConfigurationError(
            f"{name}: column {column} holds {kind}, neither whole numbers nor text",
            "Write it as text, or choose another column.",
        )
    found: list[Any] = values.to_pylist()
    return found


def _refuse_unusable(
    name: object, names: Sequence[str], roles: Roles, column: Mapping[int, Any], on_incomplete: OnIncomplete | None
) -> None:
    """Name every feature column that does not hold numbers, and what to do, at once; looks at the first rows.

    A column of which half the cells are numbers is one of numbers with bad cells, which are named one by one.
    """
    found = {index: _no_number(column[index]) for index in roles.features}
    bad = {index: why for index, why in found.items() if why}
    good = [index for index in roles.features if index not in bad]
    counting = [index for index in good if _counts_rows(column[index])] if bad else []
    usable = tuple(names[index] for index in good if index not in counting)
    if not bad or not usable:
        return
    lacking = [names[index] for index in good if _missing_cells(column[index]).any()]
    said = "; ".join(f"{names[index]} holds {why}" for index, why in list(bad.items())[:MOST_NAMED])
    more = f"; and {len(bad) - MOST_NAMED} more" if len(bad) > MOST_NAMED else ""
    lack = f". Values are missing in {listed(lacking)}" if lacking and on_incomplete is None else ""
    counts = "".join(f". {names[index]} counts the rows" for index in counting)
    raise UnusableColumns(
        f"{name}: {len(bad)} of {len(roles.features)} feature columns are not numbers: {said}{more}{counts}{lack}",
        f"Make numbers of them, or list the others as the columns: {listed(usable)}."
        + (" Skip the rows that lack a value with on_incomplete." if lack else ""),
        usable=usable,
        lacking=bool(lack),
        counting=names[counting[0]] if counting and roles.id is None else "",
    )


def _counts_rows(values: Any) -> bool:
    """Return whether each cell is one more than the one before: such a column is rarely a feature."""
    try:
        numbers = pc.cast(values, pa.int64()).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return len(values) >= LEAST_COUNTED and not values.null_count and bool((np.diff(numbers) == 1).all())


def _no_number(values: Any) -> str:
    """Say what a column holds instead of numbers; empty if at least half of its cells are numbers, or none is there."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not _is_text(values.type):
        numeric = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
        other = pa.types.is_boolean(values.type) or pa.types.is_decimal(values.type) or pa.types.is_null(values.type)
        return "" if numeric or other else str(values.type)
    present = values.filter(pa.array(~_missing_cells(values)))
    cells = pc.utf8_trim_whitespace(present)
    right = pc.match_substring_regex(cells, rf"^({NUMBER.pattern}|[+-]?(?i:inf(inity)?))$")
    if not len(present) or 2 * (pc.sum(right).as_py() or 0) >= len(present):
        return ""
    return shown(cells.filter(pc.invert(right))[0].as_py())


def _filled(roles: Roles, column: Mapping[int, Any]) -> tuple[dict[int, Any], NDArray[np.bool_]]:
    """Put ones where a cell is missing, so that all others are checked at their place; say in which rows."""
    filled, incomplete = dict(column), np.zeros(len(column[roles.features[0]]), bool)
    for index in (*roles.features, roles.label, roles.weight):
        if index is None:
            continue
        values = column[index]
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        missing = _missing_cells(values)
        if missing.any():
            valid = pa.scalar("1" if _is_text(values.type) else 1).cast(values.type)  # as a weight, too
            filled[index] = pc.if_else(pa.array(missing), valid, values)
            incomplete |= missing
    return filled, incomplete


def _missing_cells(values: Any) -> NDArray[np.bool_]:
    missing = pc.is_null(values, nan_is_null=True)
    if _is_text(values.type):
        cells = pc.utf8_lower(pc.utf8_trim_whitespace(values))
        missing = pc.or_(missing, pc.is_in(cells, pa.array(MISSING_CELLS, values.type)))
    found: NDArray[np.bool_] = missing.to_numpy(zero_copy_only=False)
    return found


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _without(batch: SourceBatch, left_out: NDArray[np.bool_]) -> SourceBatch:
    kept = np.flatnonzero(~left_out)
    return SourceBatch(
        batch.X[kept],
        None if batch.y is None else [batch.y[row] for row in kept],
        None if batch.weight is None else batch.weight[kept],
        None if batch.ids is None else [batch.ids[row] for row in kept],
        batch.first_row,
        np.asarray(batch.first_row + kept, np.int64),
    )


def _read_labels(cells: Any) -> list[Any]:
    """Read a column of text as labels, each distinct cell once."""
    coded = cells.dictionary_encode()
    distinct = [_cell_label(cell) for cell in coded.dictionary.to_pylist()]
    return [distinct[code] for code in coded.indices.to_pylist()]


def _cell_label(cell: str) -> int | float | str | None:
    """Return what a cell of text means as a label; None if it is missing."""
    cell = cell.strip()
    if is_missing(cell):
        return None
    if _PADDED.fullmatch(cell):
        return cell
    if _INTEGER.fullmatch(cell) and len(cell) <= LONGEST_INTEGER:
        return int(cell)
    if NUMBER.fullmatch(cell):
        return float(cell)
    return cell


def ids_of(name: object, column: str, values: list[Any], first_row: int) -> list[Id | None]:
    """Return identifiers as they stand; `ConfigurationError` names the first that is neither text nor an integer."""
    for row, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, str | int | None):
            raise bad_cell(name, first_row + row, column, f"the id {shown(value)} is neither text nor an integer")
    return values

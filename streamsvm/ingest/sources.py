"""Reads points from files, batch by batch: CSV, LIBSVM/svmlight, JSON lines, Parquet and npz. Not from Kafka.

Opening a `Source` reads its schema; afterwards it can be read any number of times. Reading takes memory for one batch,
not for the file; the exceptions, `shuffled` and files of arrays (npz), say so.

Invariants: every batch holds finite float64 features of one dimension; labels that are whole numbers, text or booleans;
and weights that a record may have. A file that violates this raises one error, which names the file, the row and the
column. Messages count rows from 1, without blank lines and the header.

Numbers and labels are read in the same way everywhere in a file:

- a label that is a whole number is an integer, however it is written (``1``, ``+1``, ``1.0``); any other number is
  refused;
- a CSV has no types, so a cell that can be read as a number is a number; spaces around a cell are ignored;
- an identifier is kept as written: text in a CSV, text or an integer in other formats.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import re
import tokenize
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Final, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import ArrayLike, NDArray

from streamsvm.config import Label
from streamsvm.errors import ConfigurationError
from streamsvm.ingest.decoder import LARGEST_WEIGHT, SMALLEST_WEIGHT

Format = Literal["csv", "jsonl", "npz", "parquet", "svm"]
Column = str | int
"""A column's name, or its index from 0; a negative index counts from the last."""
Id = str | int
OnIncomplete = Callable[[int], object]
"""Called with the number of rows of a batch that were skipped."""

FORMATS: Final[Mapping[str, Format]] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".npz": "npz",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".svm": "svm",
    ".svmlight": "svm",
    ".libsvm": "svm",
}
"""The format that a file's ending stands for; all but Parquet and npz may be followed by .gz or .bz2."""

LABEL_NAMES: Final = frozenset({"y", "label", "class", "target"})
"""Names, in lower case, by which a column of labels is recognised."""

BATCH_CELLS: Final = 1 << 18
"""Most features in a batch, rows times dimension; a single row may have more."""
CSV_BLOCK_BYTES: Final = 1 << 20
"""Number of bytes of a CSV that are parsed at once. The reader reads ahead, and holds some thirty such blocks."""
CSV_CELL_BYTES: Final = 32
"""A block has room for this many bytes per cell of a row, more than a float64 takes."""
LONGEST_LINE_BYTES: Final = 1 << 24
LONGEST_INTEGER: Final = 300
"""Most characters of a label that is read as an integer; longer numbers are beyond float64 in any case."""
SPARSE_ROWS: Final = 4096
"""Number of rows of a sparse file that are parsed at once while its dimension is not known."""
LARGEST_DIMENSION: Final = 100_000
"""The limit of `points.dimension`. An index in a sparse file decides how much memory is allocated, so it is checked."""

MISSING_CELLS: Final = ("", "na", "nan", "null")
"""Cells of a CSV that mean a missing value, in lower case."""

_FOREIGN: Final[Mapping[Format, tuple[str, ...]]] = {
    "csv": ("dimension",),
    "jsonl": ("header", "delimiter", "dimension", "on_incomplete"),
    "npz": (
        "label_column",
        "weight_column",
        "id_column",
        "columns",
        "header",
        "delimiter",
        "dimension",
        "on_incomplete",
    ),
    "parquet": ("header", "delimiter", "dimension"),
    "svm": ("label_column", "weight_column", "id_column", "columns", "header", "delimiter", "on_incomplete"),
}
_COMPRESSED: Final[Mapping[str, Callable[..., Any]]] = {".gz": gzip.open, ".bz2": bz2.open}
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_INTEGER: Final = re.compile(r"[+-]?\d+", re.ASCII)
_CORRECT: Final = "Correct the row or remove it from the file."
_COMPLETE: Final = "Fill in the value, or skip such rows with on_incomplete."
_NO_FEATURE: Final = (
    "Correct the row. If the column is not a feature, pass it as id_column, or list the feature columns without it."
)


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """Consecutive points of a source.

    Attributes
    ----------
    X : ndarray of shape (n, d), float64
        Finite features.
    y : list of int, str or bool, or None
        Labels; None from a source without them.
    weight : ndarray of shape (n,), float64, or None
        Weights in [1e-15, 1e15]; None where every point weighs 1.
    ids : list of str, int or None, or None
        Identifiers; None if no point has one.
    first_row : int
        Index of the first point in the source, from 0.
    """

    X: NDArray[np.float64]
    y: list[Label] | None
    weight: NDArray[np.float64] | None
    ids: list[Id | None] | None
    first_row: int

    def __len__(self) -> int:
        return len(self.X)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Points that can be read any number of times, always in the same order.

    Attributes
    ----------
    name : str
        What messages call it.
    dimension : int
        Number of features.
    feature_names : tuple of str
        Names in the order of the features; empty where there are none.
    labeled : bool
        Whether batches have labels.
    rows : int or None
        Number of points; None if it is not known without reading all of them.
    batches : callable
        Returns an iterator over the batches; each call starts at the first batch. The iterator raises
        `ConfigurationError` at the first row that is not a valid point.
    """

    name: str
    dimension: int
    feature_names: tuple[str, ...]
    labeled: bool
    rows: int | None
    batches: Callable[[], Iterator[SourceBatch]] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    labeled: bool
    label_column: Column | None
    weight_column: Column | None
    id_column: Column | None
    columns: tuple[Column, ...] | None
    header: bool | None
    delimiter: str | None
    dimension: int | None
    on_incomplete: OnIncomplete | None


@dataclass(frozen=True, slots=True)
class _Roles:
    """Which columns, by index, are the features, the label, the weight and the identifier."""

    features: tuple[int, ...]
    label: int | None
    weight: int | None
    id: int | None

    @property
    def used(self) -> list[int]:
        """All of them."""
        return [index for index in (*self.features, self.label, self.weight, self.id) if index is not None]


def open_source(
    path: str | Path,
    *,
    format: Format | None = None,  # noqa: A002
    labeled: bool = True,
    label_column: Column | None = None,
    weight_column: Column | None = None,
    id_column: Column | None = None,
    columns: Sequence[Column] | None = None,
    header: bool | None = None,
    delimiter: str | None = None,
    dimension: int | None = None,
    on_incomplete: OnIncomplete | None = None,
) -> Source:
    """Open a file of points and read its schema.

    Parameters
    ----------
    path : str or Path
        The file; CSV, JSON lines and svm files may be compressed (.gz, .bz2).
    format : {"csv", "jsonl", "npz", "parquet", "svm"}, optional
        Default: by the file's extension (`FORMATS`). npz holds arrays X and, for labels, y; they stay in memory. JSON
        lines are points (``{"x": [...], "y": 1}``) if the first one has a list `x`, else objects with a field for each
        column.
    labeled : bool
        Whether the file has labels. False: every column is a feature; the labels of an svm file are ignored.
    label_column : str or int, optional
        Default: the column named y, label, class or target, in upper or lower case, if there is exactly one; else the
        last column of a CSV.
    weight_column, id_column : str or int, optional
        Default: none.
    columns : sequence of str or int, optional
        The features, in order. Default: all other columns.
    header : bool, optional
        Whether the first line of a CSV names the columns. Default: it does if it has text over numbers.
    delimiter : str, optional
        Character between the cells of a CSV. Default: a tab for .tsv, else a comma.
    dimension : int, optional
        Number of features of an svm file, which the file may not say. Default: the largest index, found by reading the
        file once before.
    on_incomplete : callable, optional
        Skip the rows of a CSV or Parquet file that lack a feature, the label or the weight (`MISSING_CELLS`, null or
        NaN), and call this with their number, batch by batch. Default: such a row is an error.

    Raises
    ------
    ConfigurationError
        If the file is missing, empty or of an unknown format, or has no such column. Reading raises it too, for ragged
        rows, missing values, and cells that are not finite numbers.
    """
    path = Path(path)
    if not path.is_file():
        raise ConfigurationError(
            f"{path} is a directory, not a file" if path.is_dir() else f"{path} does not exist",
            "Give the path of a file of points.",
        )
    known = format or _format_of(path)
    if known not in _FOREIGN:
        raise ConfigurationError(f"unknown file format {known!r}", f"Supported formats: {', '.join(_FOREIGN)}.")
    features = None if columns is None else tuple(columns)
    options = _Options(
        labeled=labeled,
        label_column=label_column,
        weight_column=weight_column,
        id_column=id_column,
        columns=features,
        header=header,
        delimiter=delimiter,
        dimension=dimension,
        on_incomplete=on_incomplete,
    )
    _refuse_foreign(path, known, options)
    opener = {
        "csv": _open_csv,
        "jsonl": _open_jsonl,
        "npz": _open_npz,
        "parquet": _open_parquet,
        "svm": _open_svm,
    }[known]
    with _reading(path):
        return opener(path, options)


def from_arrays(
    name: str,
    X: ArrayLike,
    y: Iterable[Any] | None = None,
    *,
    weight: ArrayLike | None = None,
    ids: Sequence[Id | None] | None = None,
    feature_names: Sequence[str] = (),
) -> Source:
    """Make a source of points in memory.

    Parameters
    ----------
    name : str
        What messages call it.
    X : array-like of shape (n, d)
        Finite features. Not copied as a whole: float32 is converted to float64 batch by batch, which is exact.
    y : iterable of n labels, optional
        Whole numbers, text or booleans; also an array.
    weight : array-like of shape (n,), optional
    ids : sequence of n identifiers, optional
    feature_names : sequence of d str, optional

    Raises
    ------
    ConfigurationError
        If there is no point or a value is not valid.
    """
    features = np.asarray(X)
    labels = None if y is None else _labels(name, "y", y.tolist() if isinstance(y, np.ndarray) else list(y), 0)
    weights = None if weight is None else _checked_weights(name, "weight", np.asarray(weight, np.float64), 0)
    marks = None if ids is None else list(ids)
    if features.ndim != 2 or features.size == 0:
        raise ConfigurationError(
            f"{name} holds no points: its shape is {features.shape}", "Pass an array with one row per point."
        )
    for part in (labels, weights, marks):
        if part is not None and len(part) != len(features):
            raise ConfigurationError(f"{name} has {len(features)} rows and {len(part)} labels, weights or ids")
    names = tuple(feature_names)

    def batches() -> Iterator[SourceBatch]:
        step = _batch_rows(features.shape[1])
        for start in range(0, len(features), step):
            part = slice(start, start + step)
            yield SourceBatch(
                _checked_features(name, names, np.asarray(features[part], np.float64), start),
                None if labels is None else labels[part],
                None if weights is None else weights[part],
                None if marks is None else marks[part],
                start,
            )

    return Source(
        name=name,
        dimension=features.shape[1],
        feature_names=names,
        labeled=labels is not None,
        rows=len(features),
        batches=batches,
    )


def shuffled(source: Source, seed: int) -> Source:
    """Return the same points in a random order, which the seed decides.

    Holds the whole source in memory, at most three times 8 bytes per feature. A file that is sorted by class should be
    shuffled before it is streamed, unless learning from a sorted stream is intended.
    """
    parts = list(source.batches())
    order = np.random.default_rng(seed).permutation(sum(len(part) for part in parts))
    labels = list(chain.from_iterable(part.y or () for part in parts))
    ids = list(chain.from_iterable(part.ids or [None] * len(part) for part in parts))
    weights = [np.ones(len(part)) if part.weight is None else part.weight for part in parts]
    return from_arrays(
        source.name,
        np.concatenate([part.X for part in parts])[order],
        [labels[row] for row in order] if source.labeled else None,
        weight=np.concatenate(weights)[order] if any(part.weight is not None for part in parts) else None,
        ids=[ids[row] for row in order] if any(part.ids is not None for part in parts) else None,
        feature_names=source.feature_names,
    )


def _format_of(path: Path) -> Format:
    endings = [ending.lower() for ending in path.suffixes]
    if endings and endings[-1] in _COMPRESSED:
        endings.pop()
    known = FORMATS.get(endings[-1]) if endings else None
    if known is None:
        raise ConfigurationError(
            f"the format of {path} cannot be guessed from its file extension",
            f"Pass the format (csv, jsonl, npz, parquet or svm), or use one of the extensions {', '.join(FORMATS)}.",
        )
    return known


def _refuse_foreign(path: Path, known: Format, options: _Options) -> None:
    for option in _FOREIGN[known]:
        if getattr(options, option) is not None:
            raise ConfigurationError(
                f"{path} is read as {known}, and {option} does not apply to that format", "Leave it out."
            )
    if not options.labeled and options.label_column is not None:
        raise ConfigurationError(
            f"label_column is {options.label_column!r}, but the options say that {path} has no labels",
            "Remove one of the two options.",
        )


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Say which file it was that could not be read."""
    try:
        yield
    except (pa.ArrowException, csv.Error, OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ConfigurationError(
            f"{path} cannot be read: {reason}",
            "Check that the file is complete and that its format is the one given, or the one of its extension.",
        ) from error


def _empty(path: Path) -> ConfigurationError:
    return ConfigurationError(f"{path} holds no points", "The file must have at least one row.")


def _bad_row(name: object, row: int, problem: str, remedy: str = _CORRECT) -> ConfigurationError:
    """Return the error for a row, given by its index from 0."""
    return ConfigurationError(f"{name}: row {row + 1}: {problem}", remedy)


def _bad_cell(name: object, row: int, column: str, problem: str, remedy: str = _CORRECT) -> ConfigurationError:
    return ConfigurationError(f"{name}: row {row + 1}, column {column}: {problem}", remedy)


def _missing(name: object, row: int, column: str) -> ConfigurationError:
    return _bad_cell(name, row, column, "the value is missing", _COMPLETE)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _batch_rows(dimension: int) -> int:
    return max(1, BATCH_CELLS // max(1, dimension))


def _open_bytes(path: Path) -> IO[bytes]:
    opened: IO[bytes] = _COMPRESSED.get(path.suffix.lower(), open)(path, "rb")
    return opened


def _roles(path: Path, names: Sequence[str], options: _Options, *, last_is_label: bool) -> _Roles:
    def find(column: Column | None) -> int | None:
        return None if column is None else _find(path, names, column)

    weight, mark = find(options.weight_column), find(options.id_column)
    label = find(options.label_column)
    if options.labeled and label is None:
        label = _guess_label(path, names, last_is_label=last_is_label)
    if options.columns is None:
        features = tuple(index for index in range(len(names)) if index not in (label, weight, mark))
        _refuse_unnamed(path, names, features)
    else:
        features = tuple(_find(path, names, column) for column in options.columns)
    roles = _Roles(features, label, weight, mark)
    for index, times in Counter(roles.used).items():
        if times > 1:
            raise ConfigurationError(
                f"{path}: column {names[index]} is used twice",
                "Use each column once: as a feature, the label, the weight or the id.",
            )
    if not features:
        raise ConfigurationError(f"{path} has no feature column", f"The columns are {_listed(names)}.")
    return roles


def _find(path: Path, names: Sequence[str], column: Column) -> int:
    if isinstance(column, str) and names.count(column) > 1:
        raise ConfigurationError(
            f"{path} has several columns named {column}", "Give the column's index instead of its name."
        )
    if isinstance(column, str) and column in names:
        return names.index(column)
    if isinstance(column, int) or re.fullmatch(r"-?\d+", column):
        index = int(column)
        if -len(names) <= index < len(names):
            return index % len(names)
    raise ConfigurationError(f"{path} has no column {column}", f"The columns are {_listed(names)}.")


def _guess_label(path: Path, names: Sequence[str], *, last_is_label: bool) -> int:
    named = [index for index, name in enumerate(names) if name.lower() in LABEL_NAMES]
    if len(named) == 1:
        return named[0]
    if last_is_label:
        return len(names) - 1
    raise ConfigurationError(
        f"{path} has {'several columns' if named else 'no column'} named y, label, class or target",
        f"Give the label_column, one of: {_listed(names)}.",
    )


def _refuse_unnamed(path: Path, names: Sequence[str], features: Iterable[int]) -> None:
    for index in features:
        if not names[index]:
            raise ConfigurationError(
                f"{path}: column {index} has no name, so it may be a row index and not a feature",
                "List the feature columns, or pass this column as the id_column.",
            )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:30])
    return f"{shown} and {len(names) - 30} more" if len(names) > 30 else shown


def _checked_features(
    name: object, columns: Sequence[str], X: NDArray[np.float64], first_row: int
) -> NDArray[np.float64]:
    if np.isfinite(X).all():
        return X
    row, column = (int(index) for index in np.argwhere(~np.isfinite(X))[0])
    called = columns[column] if columns else f"x[{column}]"
    raise _bad_cell(name, first_row + row, called, f"{X[row, column]} is not a finite number")


def _checked_weights(name: object, column: str, weight: NDArray[np.float64], first_row: int) -> NDArray[np.float64]:
    good = (weight >= SMALLEST_WEIGHT) & (weight <= LARGEST_WEIGHT)
    if not good.all():
        row = int(np.argmin(good))
        raise _bad_cell(
            name,
            first_row + row,
            column,
            f"the weight {weight[row]} is not in [{SMALLEST_WEIGHT:g}, {LARGEST_WEIGHT:g}]",
        )
    return weight


def _labels(name: object, column: str, values: Sequence[Any], first_row: int) -> list[Label]:
    """Return labels of the three kinds there are; whole floats become integers."""
    if set(map(type, values)) <= {int, str, bool}:
        return list(values)
    return [_label(name, column, value, first_row + row) for row, value in enumerate(values)]


def _label(name: object, column: str, value: Any, row: int) -> Label:
    if isinstance(value, int | str):
        return value
    if value is None:
        raise _bad_cell(name, row, column, "the label is missing")
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise ConfigurationError(
        f"{name}: row {row + 1}, column {column}: the label {_shown(value)} is neither a whole number nor text",
        "Choose the label_column.",
    )


def _numbers(name: object, column: str, values: Any, first_row: int) -> NDArray[np.float64]:
    """Return a column of Arrow's as float64; text is read, booleans are 0 and 1."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if _is_text(values.type):
        values = pc.utf8_trim_whitespace(values)
    if values.null_count:
        raise _missing(name, first_row + int(np.argmax(values.is_null())), column)
    try:
        numbers = pc.cast(values, pa.float64(), safe=False)
    except pa.ArrowNotImplementedError:
        raise ConfigurationError(
            f"{name}: column {column} holds {values.type}, not numbers", "List the feature columns without this one."
        ) from None
    except pa.ArrowInvalid:
        row = _first_unreadable(values)
        cell = values[row].as_py()
        if cell == "":
            raise _missing(name, first_row + row, column) from None
        raise _bad_cell(name, first_row + row, column, f"{_shown(cell)} is not a number", _NO_FEATURE) from None
    found: NDArray[np.float64] = numbers.to_numpy(zero_copy_only=False)
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


def _table_batch(
    name: object,
    names: Sequence[str],
    roles: _Roles,
    column: Mapping[int, Any],
    first_row: int,
    *,
    typed: bool,
    on_incomplete: OnIncomplete | None,
) -> SourceBatch:
    """Make a batch of Arrow's columns, by their index in the file."""
    incomplete = np.zeros(len(column[roles.features[0]]), bool)
    if on_incomplete is not None:
        column, incomplete = _filled(roles, column)
    X = np.stack([_numbers(name, names[index], column[index], first_row) for index in roles.features], axis=1)
    X = _checked_features(name, [names[index] for index in roles.features], X, first_row)
    y = weight = ids = None
    if roles.label is not None:
        plain = column[roles.label].to_pylist() if typed else _read_labels(column[roles.label])
        y = _labels(name, names[roles.label], plain, first_row)
    if roles.weight is not None:
        given = _numbers(name, names[roles.weight], column[roles.weight], first_row)
        weight = _checked_weights(name, names[roles.weight], given, first_row)
    if roles.id is not None:
        plain = column[roles.id].to_pylist()
        ids = _ids(name, names[roles.id], plain if typed else [cell.strip() or None for cell in plain], first_row)
    batch = SourceBatch(X, y, weight, ids, first_row)
    if on_incomplete is None or not incomplete.any():
        return batch
    on_incomplete(int(incomplete.sum()))
    return _without(batch, incomplete)


def _filled(roles: _Roles, column: Mapping[int, Any]) -> tuple[dict[int, Any], NDArray[np.bool_]]:
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
    )


def _read_labels(cells: Any) -> list[Any]:
    """Read a column of text as labels, each distinct cell once."""
    coded = cells.dictionary_encode()
    distinct = [_cell_label(cell) for cell in coded.dictionary.to_pylist()]
    return [distinct[code] for code in coded.indices.to_pylist()]


def _cell_label(cell: str) -> int | float | str | None:
    """Return what a cell of text means as a label; None if it is blank."""
    cell = cell.strip()
    if _INTEGER.fullmatch(cell) and len(cell) <= LONGEST_INTEGER:
        return int(cell)
    if _NUMBER.fullmatch(cell):
        return float(cell)
    return cell or None


def _ids(name: object, column: str, values: list[Any], first_row: int) -> list[Id | None]:
    for row, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, str | int | None):
            raise _bad_cell(name, first_row + row, column, f"the id {_shown(value)} is neither text nor an integer")
    return values


def _open_csv(path: Path, options: _Options) -> Source:
    delimiter = options.delimiter or ("\t" if ".tsv" in (ending.lower() for ending in path.suffixes) else ",")
    if len(delimiter) != 1:
        raise ConfigurationError(
            f"the delimiter {delimiter!r} is not one character", "Give a single character, such as ; or a tab."
        )
    with _open_bytes(path) as file:
        lines = csv.reader((line.decode() for line in _lines(path, file)), delimiter=delimiter)
        rows = [[cell.strip() for cell in row] for row in islice(lines, 2)]
    header = options.header
    if header is None and rows:
        header = _has_header(path, rows)
    if len(rows) <= bool(header):
        raise _empty(path)
    names = rows[0] if header else [str(index) for index in range(len(rows[0]))]
    roles = _roles(path, names, options, last_is_label=True)
    read = partial(_read_csv, path, delimiter, names, roles, header=bool(header), on_incomplete=options.on_incomplete)
    known = tuple(names[index] for index in roles.features) if header else ()
    return Source(
        name=str(path),
        dimension=len(roles.features),
        feature_names=known,
        labeled=options.labeled,
        rows=None,
        batches=read,
    )


def _has_header(path: Path, rows: Sequence[Sequence[str]]) -> bool:
    """Tell whether the first line is a header: it has text where the second has numbers, and no number there."""
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
    return _NUMBER.fullmatch(cell) is not None


def _read_csv(
    path: Path,
    delimiter: str,
    names: Sequence[str],
    roles: _Roles,
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
    with _reading(path), _open_bytes(path) as file:
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
                batch = _table_batch(path, names, roles, column, first_row, typed=False, on_incomplete=on_incomplete)
                if len(batch):
                    yield batch
                first_row += table.num_rows
        except pa.ArrowInvalid:
            if not ragged:
                raise
            row = ragged[0]
            problem = f"it has {row.actual_columns} cells, the first line has {row.expected_columns}"
            raise _bad_row(path, row.number - 1 - header, problem) from None


def _open_parquet(path: Path, options: _Options) -> Source:
    with pa.parquet.ParquetFile(path) as file:
        names, rows = file.schema_arrow.names, file.metadata.num_rows
    if not rows:
        raise _empty(path)
    roles = _roles(path, names, options, last_is_label=False)
    known = tuple(names[index] for index in roles.features)
    read = partial(_read_parquet, path, names, roles, options.on_incomplete)
    return Source(
        name=str(path),
        dimension=len(known),
        feature_names=known,
        labeled=options.labeled,
        rows=rows if options.on_incomplete is None else None,
        batches=read,
    )


def _read_parquet(
    path: Path, names: Sequence[str], roles: _Roles, on_incomplete: OnIncomplete | None
) -> Iterator[SourceBatch]:
    used = roles.used
    first_row = 0
    with _reading(path), pa.parquet.ParquetFile(path) as file:
        for table in file.iter_batches(
            _batch_rows(len(roles.features)), columns=[names[i] for i in used], use_threads=False
        ):
            column = {i: table.column(names[i]) for i in used}
            batch = _table_batch(path, names, roles, column, first_row, typed=True, on_incomplete=on_incomplete)
            if len(batch):
                yield batch
            first_row += table.num_rows


class _PointRow(msgspec.Struct):
    """A line in the project's own form; the fields of `streamsvm.ingest.decoder`."""

    x: list[float]
    y: int | float | str | bool | None = None
    w: float | None = None
    id: str | int | None = None
    op: Any = None


_point_decoder = msgspec.json.Decoder(_PointRow)
_object_decoder = msgspec.json.Decoder(dict[str, Any])


def _open_jsonl(path: Path, options: _Options) -> Source:
    with _open_bytes(path) as file:
        first = next(_decoded(path, file, _object_decoder), None)
    if first is None:
        raise _empty(path)
    if isinstance(first.get("x"), list):
        return _open_point_lines(path, options, first)
    names = list(first)
    roles = _roles(path, names, options, last_is_label=False)
    known = tuple(names[index] for index in roles.features)
    return Source(
        name=str(path),
        dimension=len(known),
        feature_names=known,
        labeled=options.labeled,
        rows=None,
        batches=partial(_read_objects, path, names, roles),
    )


def _open_point_lines(path: Path, options: _Options, first: Mapping[str, Any]) -> Source:
    for option in ("label_column", "weight_column", "id_column", "columns"):
        if getattr(options, option) is not None:
            raise ConfigurationError(
                f"{path} holds points with the fields x, y, w and id, and {option} does not apply to them",
                "Leave it out.",
            )
    if not first["x"]:
        raise _bad_row(path, 0, "x has no entries")
    read = partial(_read_point_lines, path, len(first["x"]), labeled=options.labeled)
    return Source(
        name=str(path), dimension=len(first["x"]), feature_names=(), labeled=options.labeled, rows=None, batches=read
    )


def _decoded(path: Path, file: IO[bytes], decoder: Any) -> Iterator[Any]:
    for row, line in enumerate(_lines(path, file)):
        try:
            yield decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _bad_row(path, row, f"{error}; the line is {_shown(line.decode(errors='replace').strip())}") from None


def _lines(path: Path, file: IO[bytes]) -> Iterator[bytes]:
    """Yield lines that are not blank, however long the file's lines are."""
    bom, count = codecs.BOM_UTF8, 0
    while line := file.readline(LONGEST_LINE_BYTES):
        if len(line) == LONGEST_LINE_BYTES:
            raise _bad_row(path, count, f"the line is longer than {LONGEST_LINE_BYTES} bytes")
        if count == 0:
            line = line.removeprefix(bom)
        if not line.isspace():
            count += 1
            yield line


def _chunks(rows: Iterable[Any], size: int) -> Iterator[tuple[int, list[Any]]]:
    """Cut into lists of `size`; yield the index of each one's first row with it."""
    rows, first_row = iter(rows), 0
    while chunk := list(islice(rows, size)):
        yield first_row, chunk
        first_row += len(chunk)


def _read_point_lines(path: Path, dimension: int, *, labeled: bool) -> Iterator[SourceBatch]:
    with _reading(path), _open_bytes(path) as file:
        for first_row, points in _chunks(_decoded(path, file, _point_decoder), _batch_rows(dimension)):
            for row, point in enumerate(points, first_row):
                if len(point.x) != dimension:
                    raise _bad_row(path, row, f"x has {len(point.x)} entries, the first row's has {dimension}")
                if point.op is not None:
                    raise _bad_row(
                        path, row, f"the row has the field op = {_shown(point.op)}; only plain points can be read"
                    )
            X = np.array([point.x for point in points], np.float64)
            weight = np.array([1.0 if point.w is None else point.w for point in points], np.float64)
            yield SourceBatch(
                X,
                _labels(path, "y", [point.y for point in points], first_row) if labeled else None,
                _checked_weights(path, "w", weight, first_row) if any(p.w is not None for p in points) else None,
                [point.id for point in points] if any(point.id is not None for point in points) else None,
                first_row,
            )


def _read_objects(path: Path, names: Sequence[str], roles: _Roles) -> Iterator[SourceBatch]:
    with _reading(path), _open_bytes(path) as file:
        for first_row, rows in _chunks(_decoded(path, file, _object_decoder), _batch_rows(len(roles.features))):
            yield _object_batch(path, names, roles, rows, first_row)


def _object_batch(
    path: Path, names: Sequence[str], roles: _Roles, rows: Sequence[Mapping[str, Any]], first_row: int
) -> SourceBatch:
    fields = set(names)
    for row, fields_of_row in enumerate(rows, first_row):
        if fields_of_row.keys() != fields:
            different = ", ".join(sorted(fields ^ fields_of_row.keys()))
            raise _bad_row(path, row, f"the row's fields differ from those of the first row: {different}")

    def numbers(index: int) -> NDArray[np.float64]:
        return _plain_numbers(path, names[index], [row[names[index]] for row in rows], first_row)

    def values(index: int) -> list[Any]:
        return [row[names[index]] for row in rows]

    return SourceBatch(
        np.stack([numbers(index) for index in roles.features], axis=1),
        None if roles.label is None else _labels(path, names[roles.label], values(roles.label), first_row),
        None if roles.weight is None else _checked_weights(path, names[roles.weight], numbers(roles.weight), first_row),
        None if roles.id is None else _ids(path, names[roles.id], values(roles.id), first_row),
        first_row,
    )


def _plain_numbers(path: Path, column: str, values: Sequence[Any], first_row: int) -> NDArray[np.float64]:
    """Return a column of JSON values as float64; booleans are 0 and 1."""
    if not set(map(type, values)) <= {float, int, bool}:
        row = next(row for row, value in enumerate(values) if not isinstance(value, int | float))
        if values[row] is None:
            raise _bad_cell(path, first_row + row, column, "the value is missing")
        raise _bad_cell(path, first_row + row, column, f"{_shown(values[row])} is not a number", _NO_FEATURE)
    try:
        return np.array(values, np.float64)
    except OverflowError:
        raise ConfigurationError(
            f"{path}: column {column}, rows {first_row + 1} to {first_row + len(values)}: an integer is too large "
            "for float64",
            _CORRECT,
        ) from None


def _open_npz(path: Path, options: _Options) -> Source:
    """Load the arrays; nothing in them is unpickled."""
    wanted = ("X", "y") if options.labeled else ("X",)
    try:
        with zipfile.ZipFile(path) as file:  # what numpy alone would take for a pickle is refused here
            names = [name.removesuffix(".npy") for name in file.namelist()]
        missing = [name for name in wanted if name not in names]
        if missing:
            raise ConfigurationError(
                f"{path} lacks the array {' and the array '.join(missing)}", f"The file's arrays are: {_listed(names)}."
            )
        with np.load(path, allow_pickle=False) as arrays:
            X, y = arrays["X"], arrays["y"] if options.labeled else None
    except (zipfile.BadZipFile, ValueError, SyntaxError, tokenize.TokenError) as error:  # a header is parsed as Python
        reason = " ".join(str(error).split())
        raise ConfigurationError(
            f"{path} cannot be read: {reason}", "Write a numeric X and y with numpy.savez, without object arrays."
        ) from error
    if X.dtype.kind not in "fiub" or (y is not None and y.ndim != 1):
        shapes = f"X is {X.dtype} of shape {X.shape}" + ("" if y is None else f", y of shape {y.shape}")
        raise ConfigurationError(
            f"{path}: {shapes}",
            "X must be a numeric array with one row per point, and y must hold one label per point.",
        )
    return from_arrays(str(path), X, y)


def _open_svm(path: Path, options: _Options) -> Source:
    """Read ahead for the number of rows, the largest index, and whether indices begin at 0 or at 1."""
    if options.dimension is not None and not 1 <= options.dimension <= LARGEST_DIMENSION:
        raise ConfigurationError(f"dimension is {options.dimension}", f"dimension must be 1 to {LARGEST_DIMENSION}.")
    rows, lowest, highest = 0, 1, -1
    with _open_bytes(path) as file:
        for first_row, lines in _chunks(_sparse_lines(path, file), SPARSE_ROWS):
            indices = _parse_sparse(path, lines, first_row, None)[0].indices
            rows = first_row + len(lines)
            if len(indices):
                lowest, highest = min(lowest, int(indices.min())), max(highest, int(indices.max()))
    if not rows:
        raise _empty(path)
    first_index = 0 if lowest == 0 else 1
    found = highest + 1 - first_index
    dimension = found if options.dimension is None else options.dimension
    if dimension < max(found, 1):
        raise ConfigurationError(
            f"{path} has {found} features, dimension is {dimension}", f"Set dimension to {max(found, 1)} or more."
        )
    read = partial(_read_svm, path, dimension, first_index, labeled=options.labeled)
    return Source(
        name=str(path), dimension=dimension, feature_names=(), labeled=options.labeled, rows=rows, batches=read
    )


def _sparse_lines(path: Path, file: IO[bytes]) -> Iterator[bytes]:
    """Yield lines that hold a point: comments and lines of nothing else are left out."""
    for line in _lines(path, file):
        content = line.partition(b"#")[0].strip()
        if content:
            yield content


def _parse_sparse(path: Path, lines: Sequence[bytes], first_row: int, width: int | None) -> tuple[Any, Any]:
    """Parse lines with scikit-learn's reader, indices as they are; in a chunk it refuses, look for the row."""
    from sklearn.datasets import load_svmlight_file  # a second's import, for this format only

    def parse(some: Sequence[bytes]) -> tuple[Any, Any]:
        X, y = load_svmlight_file(io.BytesIO(b"\n".join(some)), n_features=width, zero_based=True)
        return X, y

    try:
        X, y = parse(lines)
    except (ValueError, OverflowError):
        for row, line in enumerate(lines, first_row):
            try:
                parse([line])
            except (ValueError, OverflowError) as error:
                raise _bad_row(path, row, f"{error}; the line is {_shown(line.decode(errors='replace'))}") from None
        raise
    if X.shape[1] > LARGEST_DIMENSION + 1:
        raise ConfigurationError(
            f"{path}: rows {first_row + 1} to {first_row + len(lines)} have a feature of index {X.shape[1] - 1}",
            f"At most {LARGEST_DIMENSION} features are supported.",
        )
    return X, y


def _read_svm(path: Path, dimension: int, first_index: int, *, labeled: bool) -> Iterator[SourceBatch]:
    with _reading(path), _open_bytes(path) as file:
        for first_row, lines in _chunks(_sparse_lines(path, file), _batch_rows(dimension)):
            sparse, y = _parse_sparse(path, lines, first_row, dimension + first_index)
            X = _checked_features(path, (), sparse.toarray()[:, first_index:], first_row)
            yield SourceBatch(
                X, _labels(path, "label", y.tolist(), first_row) if labeled else None, None, None, first_row
            )

"""Opens a file by its format, and refuses options that the format has no use for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from streamsvm.errors import ConfigurationError
from streamsvm.ingest.files.csv_files import open_csv
from streamsvm.ingest.files.faults import reading
from streamsvm.ingest.files.json_lines import open_jsonl
from streamsvm.ingest.files.parquet_files import open_parquet
from streamsvm.ingest.files.reading import COMPRESSED
from streamsvm.ingest.files.roles import ReadOptions
from streamsvm.ingest.files.source import Column, Format, OnIncomplete, PointSource

FORMATS: Final[Mapping[str, Format]] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}
"""The format that a file's ending stands for; all but Parquet may be followed by .gz or .bz2."""

_LIBSVM: Final = (
    "is a LIBSVM file, which is not supported",
    "Read it with scikit-learn's load_svmlight_file, and write a CSV or Parquet file.",
)
_NOT_READ: Final[Mapping[str, tuple[str, str]]] = {
    **dict.fromkeys((".svm", ".svmlight", ".libsvm"), _LIBSVM),
    ".npz": (
        "is an npz file, which is not supported",
        "Read it with numpy.load, and write a CSV or Parquet file.",
    ),
}
"""What is said of files whose ending names a format that is not read, and the way out."""

_FOREIGN: Final[Mapping[Format, tuple[str, ...]]] = {
    "csv": (),
    "jsonl": ("header", "delimiter", "on_incomplete"),
    "parquet": ("header", "delimiter"),
}


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
    on_incomplete: OnIncomplete | None = None,
) -> PointSource:
    """Open a file of points and read its schema.

    Parameters
    ----------
    path : str or Path
        The file; CSV and JSON lines may be compressed (.gz, .bz2).
    format : {"csv", "jsonl", "parquet"}, optional
        Default: by the file's extension (`FORMATS`). JSON lines are points (``{"x": [...], "y": 1}``) if the first one
        has a list `x`, else objects with a field for each column.
    labeled : bool
        Whether the file has labels. False: every column is a feature.
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
        Character between the cells of a CSV. Default: found by its first rows, as `delimiter_of` does.
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
    known = format_of(path, format)
    features = None if columns is None else tuple(columns)
    options = ReadOptions(
        labeled=labeled,
        label_column=label_column,
        weight_column=weight_column,
        id_column=id_column,
        columns=features,
        header=header,
        delimiter=delimiter,
        on_incomplete=on_incomplete,
    )
    _refuse_foreign(path, known, options)
    opener = {
        "csv": open_csv,
        "jsonl": open_jsonl,
        "parquet": open_parquet,
    }[known]
    with reading(path):
        return opener(path, options)


def format_of(path: Path, format_: Format | None = None) -> Format:
    """Return a file's format: the one given, or that of its name.

    Raises
    ------
    ConfigurationError
        If the file is missing, or its format unknown.
    """
    if not path.is_file():
        raise ConfigurationError(
            f"{path} is a directory, not a file" if path.is_dir() else f"{path} does not exist",
            "Give the path of a file of points.",
        )
    known = format_ or _format_of(path)
    if known not in _FOREIGN:
        raise ConfigurationError(f"unknown file format {known!r}", f"Supported formats: {', '.join(_FOREIGN)}.")
    return known


def _format_of(path: Path) -> Format:
    endings = [ending.lower() for ending in path.suffixes]
    if endings and endings[-1] in COMPRESSED:
        endings.pop()
    known = FORMATS.get(endings[-1]) if endings else None
    if known is None and endings and endings[-1] in _NOT_READ:
        what, remedy = _NOT_READ[endings[-1]]
        raise ConfigurationError(f"{path} {what}", remedy)
    if known is None:
        raise ConfigurationError(
            f"the format of {path} cannot be guessed from its file extension",
            f"Pass the format (csv, jsonl or parquet), or use one of the extensions {', '.join(FORMATS)}.",
        )
    return known


def _refuse_foreign(path: Path, known: Format, options: ReadOptions) -> None:
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

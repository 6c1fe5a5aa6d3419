"""What is wrong with a file, in one line: the file, the row, the column, and what to do."""

from __future__ import annotations

import csv
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from streamsvm.errors import ConfigurationError
from streamsvm.field_paths import repeated

CORRECT: Final = "Correct the row or remove it from the file."

_COMPLETE: Final = "Fill in the value, or skip such rows with on_incomplete."

NO_FEATURE: Final = (
    "Correct the row. If the column is not a feature, pass it as id_column, or list the feature columns without it."
)


class UnusableColumns(ConfigurationError):
    """Some columns are no features.

    Attributes
    ----------
    usable : tuple of str
        The columns that are numbers.
    lacking : bool
        Whether rows of these lack values, and are not skipped.
    counting : str
        A column, not among them, that counts the rows and is not named as the id; empty if there is none.
    """

    def __init__(
        self, what: str, remedy: str = "", *, usable: tuple[str, ...] = (), lacking: bool = False, counting: str = ""
    ) -> None:
        super().__init__(what, remedy)
        self.usable = usable
        self.lacking = lacking
        self.counting = counting


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Say which file it was that could not be read."""
    try:
        yield
    except (pa.ArrowException, csv.Error, OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        remedy = "Check that the file is complete and that its format is the one given, or the one of its extension."
        if isinstance(error, UnicodeDecodeError) or "NUL" in reason or "UTF8" in reason:
            remedy = f"If it is text, such as cp1252 or UTF-16, save it as UTF-8. {remedy}"
        raise ConfigurationError(f"{path} cannot be read: {reason}", remedy) from error


def refuse_repeated(path: Path, names: Sequence[str]) -> None:
    """Refuse a table of which two columns have one name."""
    if (twice := repeated(names)) is not None:
        raise ConfigurationError(f"{path} has several columns named {twice}", "Rename all but one of them.")


def bad_row(name: object, row: int, problem: str, remedy: str = CORRECT) -> ConfigurationError:
    """Return the error for a row, given by its index from 0."""
    return ConfigurationError(f"{name}: row {row + 1}: {problem}", remedy)


def bad_cell(name: object, row: int, column: str, problem: str, remedy: str = CORRECT) -> ConfigurationError:
    """Return the error of a cell; `row` counts from 0."""
    return ConfigurationError(f"{name}: row {row + 1}, column {column}: {problem}", remedy)


def missing_cell(name: object, row: int, column: str) -> ConfigurationError:
    """Return the error of a cell that holds nothing."""
    return bad_cell(name, row, column, "the value is missing", _COMPLETE)


def shown(value: object) -> str:
    """Return a value as a message quotes it, not too long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def listed(names: Sequence[str]) -> str:
    """Return names as a message lists them, not too many."""
    shown = ", ".join(names[:30])
    return f"{shown} and {len(names) - 30} more" if len(names) > 30 else shown

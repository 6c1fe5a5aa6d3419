"""What stands between the cells of a CSV: found in its first lines, and said."""

from __future__ import annotations

from pathlib import Path

import typer

from streamsvm.ingest.files.delimiters import delimiter_of, usual_delimiter
from streamsvm.ingest.files.opening import format_of
from streamsvm.ingest.files.source import Format


def found_delimiter(file: Path | None, format_: Format | None, given: str | None) -> str | None:
    """Return what stands between the cells of a CSV, and say so if a person did not and its name says another.

    Raises
    ------
    ConfigurationError
        If it is unclear, or the file cannot be read.
    """
    is_said = given is not None
    if is_said or not file or format_of(file, format_) != "csv":
        return given
    found = delimiter_of(file)
    if found != usual_delimiter(file):
        typer.echo(f"delimiter {found!r} found", err=True)
    return found

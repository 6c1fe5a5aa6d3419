"""The arguments and options of commands that read a file of points."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer

from streamsvm.errors import ConfigurationError
from streamsvm.supports import FOREIGN_COLUMNS, require

PointsFile = Annotated[Path | None, typer.Argument(help="CSV, JSON lines or Parquet file.")]
Dataset = Annotated[str | None, typer.Option(help="A bundled data set instead of a file: htru2.")]
Format = Annotated[
    Literal["csv", "jsonl", "parquet"] | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="Format of the file: csv, jsonl or parquet. Default: by its extension.",
    ),
]
LabelColumn = Annotated[str | None, typer.Option(help="Name or index of the label column.")]
WeightColumn = Annotated[str | None, typer.Option(help="Name or index of the weight column.")]
IdColumn = Annotated[str | None, typer.Option("--id", help="Name or index of a column that is not a feature.")]
FeatureColumns = Annotated[str | None, typer.Option(help="Feature columns in order, separated by commas.")]
Header = Annotated[
    bool | None, typer.Option("--header/--no-header", help="Whether the first line of a CSV names its columns.")
]
Delimiter = Annotated[str | None, typer.Option(help="Character between the cells of a CSV.")]
SkipIncomplete = Annotated[
    bool, typer.Option("--skip-incomplete", help="Skip rows of a CSV or Parquet file that lack a value.")
]


def event_file(option: str, file: Path | None, foreign: Mapping[str, object]) -> Path:
    """Return the file of raw events; options that choose columns are for points."""
    if file is None:
        raise ConfigurationError(
            "--events needs a file", "For example: streamsvm replay payments.csv --events --topic t"
        )
    given = [f"--{name}" for name, value in foreign.items() if value is not None]
    require({"--events": True, FOREIGN_COLUMNS: ", ".join(given)}, {"--events": option})
    return file

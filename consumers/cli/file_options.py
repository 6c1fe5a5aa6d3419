"""What the commands that read a file of points have in common: faults in the words of the command line, and what next.

`streamsvm.ingest.files` names its parameters in messages, as a library must; here they are the flags that a person
can type.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from consumers.settings import Settings
from streamsvm.config import Label, PointsConfig
from streamsvm.datasets import dataset_source
from streamsvm.errors import ConfigurationError
from streamsvm.ingest.decoding import Markers, decoding_of
from streamsvm.ingest.files.cells import LEAST_COUNTED
from streamsvm.ingest.files.faults import UnusableColumns
from streamsvm.ingest.files.opening import format_of, open_source
from streamsvm.ingest.files.source import Format, OnIncomplete, PointSource, SourceBatch
from streamsvm.model.described import MOST_LABELS
from streamsvm.model.positive_label import TwoLabels, two_labels

FLAGS: Final = {
    "label_column": "--label",
    "weight_column": "--weight",
    "id_column": "--id",
    "on_incomplete": "--skip-incomplete",
    "create_partitions": "--create",
}
_NAMED: Final = re.compile("|".join(FLAGS))
SHOWN_LABELS: Final = 5
"""Labels that are shown where there are too many: a file of numbers to predict may have as many as rows."""


def source_of(file: Path | None, dataset: str | None, columns: str | None, **options: Any) -> PointSource:
    """Open the file that a command names, or else a bundled data set.

    Parameters
    ----------
    file : Path or None
    dataset : str or None
        Looked at where there is no file.
    columns : str or None
        Of the file, with commas between them.
    **options
        Of `streamsvm.ingest.files.opening.open_source`.
    """
    if file is None:
        return dataset_source(dataset or "")
    named = None if columns is None else [column.strip() for column in columns.split(",")]
    return open_source(file, columns=named, **options)


def rows_by_recipe(
    file: Path,
    settings: Settings,
    format_: Format | None,
    delimiter: str | None,
    on_incomplete: OnIncomplete | None,
    markers: Markers,
) -> PointSource:
    """Open a file of raw events by the features of a configuration, which has some; count cells taken as missing.

    Raises
    ------
    ConfigurationError
        If the file cannot be read.
    """
    assert settings.recipe is not None
    assert settings.points is not None
    return decoding_of(settings.recipe).source(
        file,
        format_of(file, format_),
        settings.recipe,
        delimiter=delimiter,
        on_incomplete=on_incomplete,
        dtype=settings.points.dtype,
        markers=markers,
    )


def taken_as_missing(markers: Markers) -> list[str]:
    """Return, for each column, which cells were taken as missing and how many there are of each."""
    counts = {
        column: ", ".join(f"{count:,} {marker!r}" for marker, count in sorted(found.items()))
        for column, found in markers.items()
    }
    return [f"{column}: {text} taken as missing" for column, text in sorted(counts.items())]


@contextmanager
def in_flags(typed: Sequence[str] = ()) -> Iterator[None]:
    """Let an error name flags where it names a parameter.

    Parameters
    ----------
    typed : sequence of str
        The command line, without the program: the error about columns ends in the whole command that fits.
    """
    try:
        yield
    except UnusableColumns as error:
        raise ConfigurationError(error.what, f"With the other columns: {_with_columns(typed, error)}") from error
    except ConfigurationError as error:
        what, remedy = (_NAMED.sub(lambda found: FLAGS[found[0]], text) for text in (error.what, error.remedy))
        raise type(error)(what, remedy) from error


def _with_columns(typed: Sequence[str], error: UnusableColumns) -> str:
    """Return what was typed, with the columns that are numbers."""
    words, kept = iter(typed), ["streamsvm"]
    for word in words:
        if word == "--columns":
            next(words, None)
        elif not word.startswith("--columns="):
            kept.append(word)
    kept += ["--columns", ",".join(error.usable)]
    if error.counting:
        kept += ["--id", error.counting]
    if error.lacking:
        kept.append("--skip-incomplete")
    return shlex.join(kept)


def first_look(source: PointSource) -> list[str]:
    """Read the first rows, so that what is wrong with them is said before anything is made; return notes about them.

    Raises
    ------
    ConfigurationError
        As reading does.
    """
    batch = next(iter(source.batches()), None)
    if batch is None or len(batch) < LEAST_COUNTED or not source.feature_names:
        return []
    counting = [
        name for name, values in zip(source.feature_names, batch.X.T, strict=True) if (np.diff(values) == 1.0).all()
    ]
    return [
        f"note: the column {name} counts the rows. If it is not a feature, leave it out: --id {shlex.quote(name)}"
        for name in counting
    ]


class SkippedRowCounter:
    """Counts the rows that were left out.

    Parameters
    ----------
    limit : int, optional
        Points after which reading ends: rows behind them do not count.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._rows = self._kept = 0
        self._limit = limit

    def noting(self, source: PointSource) -> PointSource:
        """Return the same source, of whose last batch only the rows up to the limit count."""

        def batches() -> Iterator[SourceBatch]:
            for batch in source.batches():
                if self._limit is not None and self._kept + len(batch) >= self._limit:
                    last = self._limit - self._kept - 1
                    row = batch.first_row + last if batch.rows is None else int(batch.rows[last])
                    self._rows = row + 1 - self._limit
                self._kept += len(batch)
                yield batch

        return replace(source, batches=batches)

    def __call__(self, rows: int) -> None:
        """Count some more."""
        self._rows += rows

    @property
    def rows(self) -> int:
        """How many there are so far."""
        return self._rows

    def forget(self) -> None:
        """Count anew, as for another reading."""
        self._rows = self._kept = 0

    def __str__(self) -> str:
        return f", {self._rows:,} incomplete rows skipped" if self._rows else ""


class Labels:
    """Notes which labels a source gives while it is read, as far as `MOST_LABELS`."""

    def __init__(self) -> None:
        self._seen: Counter[Label] = Counter()

    def noting(self, source: PointSource) -> PointSource:
        """Return the same source, whose labels are noted."""

        def batches() -> Iterator[SourceBatch]:
            for batch in source.batches():
                if batch.y is not None and len(self._seen) <= MOST_LABELS:
                    self._seen.update(batch.y)
                yield batch

        return replace(source, batches=batches)

    def next_step(self, topic: str, source: PointSource, positive: str | None) -> Iterator[str]:
        """Yield how to learn what was sent: the command, or what is in its way; of two labels, which is positive.

        Raises
        ------
        ConfigurationError
            If `positive` is none of the labels.
        """
        labels = sorted(self._seen, key=lambda label: (isinstance(label, str), label))
        if len(labels) == 2 and type(labels[0]) is type(labels[1]):
            two = positive_of(self._seen, positive)
            labels = [two.negative, two.positive]
            yield two.said
        yield _command(topic, source, labels)


def positive_of(counts: Mapping[Label, int], positive: str | None) -> TwoLabels:
    """Return which of two labels is positive; see `streamsvm.model.positive_label.two_labels`.

    Raises
    ------
    ConfigurationError
        If what a person says is none of them.
    """
    try:
        return two_labels(counts, positive)
    except ValueError as error:
        raise ConfigurationError(str(error), "Give one of them as --positive.") from None


def _command(topic: str, source: PointSource, labels: Sequence[Label]) -> str:
    """Return how to learn what was sent: the command, or what is in its way.

    Parameters
    ----------
    topic : str
    source : PointSource
    labels : sequence of Label
        Those that it has; of two, the second is positive.
    """
    if not 2 <= len(labels) <= MOST_LABELS:
        shown = f"only {labels[0]!r}" if len(labels) == 1 else ", ".join(map(repr, labels[:SHOWN_LABELS])) + ", ..."
        return f"a trainer needs 2 to {MOST_LABELS} labels, but {source.name} has {shown}: check --label"
    command = ["streamsvm", "train", "--input-topic", topic, "--points-dimension", str(source.dimension)]
    if list(labels) != [-1, 1]:
        command += ["--points-labels", _list_option("labels", labels)]
    if source.feature_names:
        command += ["--points-feature-names", _list_option("feature_names", source.feature_names)]
    return f"to train on them: {shlex.join(command)}"


def events_step(topic: str, config: str | None) -> str:
    """Return the command that learns events: by the file that declares their features, if a file does."""
    return shlex.join(["streamsvm", "train", *(("--config", config) if config else ()), "--input-topic", topic])


def _list_option(name: str, values: Sequence[Label]) -> str:
    """Write a list as the command line reads it: with commas where that comes back as the same, else as JSON."""
    commas = ",".join(map(str, values))
    try:
        same = getattr(PointsConfig.model_validate({"dimension": len(values), name: commas}), name) == tuple(values)
    except ValueError:
        same = False
    return commas if same else json.dumps(list(values))

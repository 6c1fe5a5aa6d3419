"""A source as points: the whole of it, labels as the learner counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from consumers.evaluate.plan import Step, silent
from streamsvm.config import Label, PointsConfig
from streamsvm.errors import ConfigurationError
from streamsvm.ingest.decoder import LARGEST_FEATURE
from streamsvm.ingest.files.faults import bad_cell
from streamsvm.ingest.files.source import PointSource, SourceBatch
from streamsvm.learning.training import MOST_CLASSES
from streamsvm.model.positive_label import TwoLabels, two_labels, written
from streamsvm.points import Points, is_lost_as_float32, label_codes


@dataclass(frozen=True, slots=True)
class LoadedPoints:
    """All points of a source.

    Attributes
    ----------
    points : Points
    labels : tuple
        Of two, negative and positive.
    two : TwoLabels or None
        Why of two it is that one; None of more.
    at : ndarray of shape (n,), int64
        Row of each point in the source.
    rounded : tuple of str
        The columns of which float32, where points are stored so, makes different values the same.
    """

    points: Points
    labels: tuple[Label, ...]
    two: TwoLabels | None
    at: NDArray[np.int64]
    rounded: tuple[str, ...] = ()


def load(source: PointSource, step: Step = silent, positive: str | None = None) -> tuple[Points, tuple[Label, ...]]:
    """Read a whole source; return its points and its labels: of two, negative and positive.

    Raises
    ------
    ConfigurationError
        If it has fewer than two labels, or more than a point has room for, or a row is not a valid point.
    """
    table = read(source, step, positive=positive)
    return table.points, table.labels


def read(
    source: PointSource, step: Step = silent, config: PointsConfig | None = None, positive: str | None = None
) -> LoadedPoints:
    """Read a whole source.

    Parameters
    ----------
    source : PointSource
    step : callable
    config : PointsConfig, optional
        Of the trainer that is to learn them: its labels, and the numbers that it stores. Default: float64, and the
        labels that the source has.
    positive : str, optional
        Of two labels, the positive one. Default: that of `config`; or by their names, or the rarer one.

    Raises
    ------
    ConfigurationError
        As `load`; and if a row is none that the trainer accepts.
    """
    batches, rows = [], 0
    for batch in source.batches():
        batches.append(batch)
        rows += len(batch)
        step("reading", rows, source.rows)
    at = np.concatenate([_rows_of(batch) for batch in batches] or [np.empty(0, np.int64)])
    given = _of_one_type(source, list(chain.from_iterable(batch.y or () for batch in batches)))
    if config is not None and not given:
        raise ConfigurationError(f"{source.name} holds no points", "The file must have a complete row of each label.")
    labels = _sorted_labels(source, given) if config is None else config.labels
    two = None
    if len(labels) == 2 and type(labels[0]) is type(labels[1]):
        two = _two(labels, given, config is not None, positive)
        labels = (two.negative, two.positive)
    index = {(type(label), label): place for place, label in enumerate(labels)}
    if config is not None:
        _check_labels(source, given, at, index, labels)
        _check_dimension(source, config)
    codes = np.array(label_codes(len(labels)), np.int8)
    y = codes[np.fromiter((index[type(label), label] for label in given), np.intp, len(given))]
    weight = [np.ones(len(batch)) if batch.weight is None else batch.weight for batch in batches]
    X, rounded = np.concatenate([batch.X for batch in batches]), tuple[str, ...]()
    if config is not None:
        _check_range(source, X, at, config.dtype)
        if config.dtype == "float32":
            lost = [column for column in range(X.shape[1]) if is_lost_as_float32(X[:, column])]
            rounded = tuple(_name_of(source, column) for column in lost)
        X = X.astype(config.numpy_dtype)
    return LoadedPoints(Points(X, y, np.concatenate(weight)), tuple(labels), two, at, rounded)


def _name_of(source: PointSource, column: int) -> str:
    return source.feature_names[column] if source.feature_names else f"x[{column}]"


def _rows_of(batch: SourceBatch) -> NDArray[np.int64]:
    first = batch.first_row
    return np.arange(first, first + len(batch), dtype=np.int64) if batch.rows is None else batch.rows


def _sorted_labels(source: PointSource, given: list[Label]) -> tuple[Label, ...]:
    labels = sorted(set(given), key=lambda label: (isinstance(label, str), label))
    if not 2 <= len(labels) <= MOST_CLASSES:
        shown = ", ".join(repr(label) for label in labels[:5]) + (", ..." if len(labels) > 5 else "")
        raise ConfigurationError(
            f"{source.name} has {len(labels)} labels ({shown}); evaluate supports 2 to {MOST_CLASSES}",
            "Choose the label column with --label, or remove rows with other labels.",
        )
    return tuple(labels)


def _two(labels: Sequence[Label], given: list[Label], configured: bool, positive: str | None) -> TwoLabels:
    seen = Counter(given)
    rows = {label: seen[label] for label in labels}
    if not configured:
        try:
            return two_labels(rows, positive)
        except ValueError as error:
            raise ConfigurationError(str(error), "Give one of them as --positive.") from None
    negative, positive_ = labels
    if positive not in (None, written(positive_)):
        raise ConfigurationError(
            f"--positive is {positive}, but the configuration says that {positive_!r} is positive",
            "Leave out --positive, or change the configuration's labels.",
        )
    share = rows[positive_] / max(sum(rows.values()), 1)
    return TwoLabels(negative, positive_, share, "as configured")


def _check_labels(
    source: PointSource, given: list[Label], at: NDArray[np.int64], known: Container[object], labels: tuple[Label, ...]
) -> None:
    for row, label in zip(at.tolist(), given, strict=True):
        if (type(label), label) not in known:
            raise bad_cell(
                source.name,
                row,
                "of the label",
                f"{label!r} is none of points.labels, {', '.join(map(repr, labels))}",
                "Correct the row, or points.labels.",
            )


def _check_dimension(source: PointSource, config: PointsConfig) -> None:
    if source.dimension != config.dimension:
        raise ConfigurationError(
            f"{source.name} has {source.dimension} features; points.dimension is {config.dimension}",
            "Choose the columns with --columns, or correct points.dimension.",
        )


def _check_range(source: PointSource, X: NDArray[np.float64], at: NDArray[np.int64], dtype: str) -> None:
    largest = LARGEST_FEATURE[dtype]
    beyond = np.abs(X) > largest
    if not beyond.any():
        return
    row, column = (int(index) for index in np.argwhere(beyond)[0])
    raise bad_cell(
        source.name,
        int(at[row]),
        _name_of(source, column),
        f"{X[row, column]:g} is too large; a feature must be at most {largest:g} in magnitude",
        "Correct the row, scale the column, or set points.dtype = float64.",
    )


def _of_one_type(source: PointSource, labels: list[Label]) -> list[Label]:
    """Return labels all as text where some are: of a column with 01 and 10, only 01 shows that its labels are text.

    1 and "1", which a JSON file can have both, stay two labels.

    Raises
    ------
    ConfigurationError
        If some are true or false and others numbers: Python takes true for 1.
    """
    kinds, distinct = set(map(type, labels)), set(labels)
    if {bool, int} <= kinds:
        truth, number = (next(label for label in labels if type(label) is kind) for kind in (bool, int))
        raise ConfigurationError(
            f"{source.name}: the labels mix true or false and numbers, such as {truth!r} and {number!r}",
            "Write all labels as numbers, or all as true and false.",
        )
    if not {str, int} <= kinds or len(set(map(str, distinct))) < len(distinct):
        return labels
    return list(map(str, labels))


def check_parts(source: PointSource, train: Points, test: Points, labels: int) -> None:
    """Check that there is something to learn of every label, and something set aside.

    Raises
    ------
    ConfigurationError
    """
    if not len(test):
        raise ConfigurationError(
            f"{source.name} has {len(train):,} points, and --test-share holds out none of them", "Raise --test-share."
        )
    if len(np.unique(train.y)) < labels:
        every = "both" if labels == 2 else "all"
        raise ConfigurationError(
            f"the training part of the {len(train) + len(test):,} points of {source.name} does not hold {every} labels",
            "Give more points of the rarer label, a lower --test-share or another --seed.",
        )

"""A source as points: the whole of it, labels as the learner counts them."""

from __future__ import annotations

from itertools import chain

import numpy as np

from consumers.evaluate.plan import Step, silent
from streamsvm.config import Label
from streamsvm.errors import ConfigurationError
from streamsvm.ingest.files.source import Source
from streamsvm.learning.tasks import MOST_CLASSES
from streamsvm.points import Points


def load(source: Source, step: Step = silent) -> tuple[Points, tuple[Label, ...]]:
    """Read a whole source; return its points and its labels, sorted: of two, negative and positive.

    Raises
    ------
    ConfigurationError
        If it has fewer than two labels, or more than a point has room for, or a row is not a valid point.
    """
    batches, read = [], 0
    for batch in source.batches():
        batches.append(batch)
        read += len(batch)
        step("reading", read, source.rows)
    given = _of_one_type(source, list(chain.from_iterable(batch.y or () for batch in batches)))
    labels = sorted(set(given), key=lambda label: (isinstance(label, str), label))
    if not 2 <= len(labels) <= MOST_CLASSES:
        shown = ", ".join(repr(label) for label in labels[:5]) + (", ..." if len(labels) > 5 else "")
        raise ConfigurationError(
            f"{source.name} has {len(labels)} labels ({shown}); evaluate supports 2 to {MOST_CLASSES}",
            "Choose the label column with --label, or remove rows with other labels.",
        )
    index = {label: place for place, label in enumerate(labels)}
    y = np.fromiter((index[label] for label in given), np.int8, len(given))
    weight = [np.ones(len(batch)) if batch.weight is None else batch.weight for batch in batches]
    y = 2 * y - 1 if len(labels) == 2 else y
    points = Points(np.concatenate([batch.X for batch in batches]), y, np.concatenate(weight))
    return points, tuple(labels)


def _of_one_type(source: Source, labels: list[Label]) -> list[Label]:
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


def check_parts(source: Source, train: Points, test: Points, labels: int) -> None:
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

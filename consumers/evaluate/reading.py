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
    given = list(chain.from_iterable(batch.y or () for batch in batches))
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

"""Raw events as people give them, mappings or a data frame, as the columns of a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.branches.events.features.columns import FeatureColumns
from streamsvm.branches.events.features.frames import events_of
from streamsvm.model.features import InvalidFeatures, column_names, features_of, shown_names

SENT_OTHERWISE: Final = (
    "Send the field as the trainer's events have it, or let the feature's option missing allow for it."
)


def features_of_events(columns: FeatureColumns, events: Any) -> NDArray[np.float64]:
    """Return what a recipe makes of raw events, shape (n, d).

    Parameters
    ----------
    columns : FeatureColumns
    events : sequence of mappings, or data frame
        Of JSON's types, or as `streamsvm.branches.events.features.frames.events_of` makes them so.

    Raises
    ------
    InvalidFeatures
        If it is neither; else naming the first event that the recipe rejects, and the field.
    """
    try:
        rows = events_of(events)
    except InvalidFeatures:
        raise
    except ValueError as error:
        raise InvalidFeatures(str(error), "For a single event pass [event].") from None
    made = columns.of_events(rows)
    if made.faults:
        row = min(made.faults)
        raise InvalidFeatures(f"event {row}: {made.faults[row].what}", SENT_OTHERWISE)
    return made.X


def features_of_either(columns: FeatureColumns, X: Any) -> Any:
    """Return the features of raw events; what has no names, or those of the columns, is features already.

    Parameters
    ----------
    columns : FeatureColumns
    X : array_like, mapping, sequence of mappings, or data frame
        Data frames and mappings are columns if they have every column's name, else raw events.

    Raises
    ------
    InvalidFeatures
        If they can be read as both, and the features differ; else as `features_of_events` does.
    """
    rows = [X] if isinstance(X, Mapping) else X
    of_mappings = isinstance(rows, list | tuple) and bool(rows) and all(isinstance(row, Mapping) for row in rows)
    names = list(rows[0]) if of_mappings else column_names(X)
    if names is None or names == list(range(len(names))):  # pandas counts columns that were given no name
        return X
    if not set(columns.names) <= set(names):
        return features_of_events(columns, rows)
    if not {path[0] for path in columns.paths} <= set(names):
        return X
    made = features_of_events(columns, rows)
    named = [{name: row[name] for name in columns.names} for row in rows] if of_mappings else None
    given = features_of(named or {name: X[name] for name in columns.names}, columns.dimension, columns.names)
    if not np.array_equal(made, given):
        raise InvalidFeatures(
            f"{shown_names(columns.names)} are names of fields and of the version's columns, and both can be meant",
            "Pass loaded.features(events) for raw events, or an array for columns.",
        )
    return made

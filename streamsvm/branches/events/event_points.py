"""Raw events as points: the features of a recipe, and label, weight and id from the fields that it names.

Invariant: as in `streamsvm.ingest.decoder`, whether an event is accepted depends on its bytes and the recipe only, and
a bad event rejects only itself. A rejection names the field.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.branches.events.features.columns import columns_of
from streamsvm.branches.events.features.fields import (
    Coded,
    FieldValues,
    Instants,
    Numeric,
    listed,
    without_placeholders,
)
from streamsvm.branches.events.features.recipe import EventTime, Recipe
from streamsvm.branches.events.features.values import MICROSECONDS, EventFault, Faults, numbers, times, value_text
from streamsvm.branches.events.features.zones import UTC_NAME, UTC_TABLE, ZoneTable
from streamsvm.config import Label, PointsConfig
from streamsvm.field_paths import Path, picked, shown
from streamsvm.ingest.decoding import Absences
from streamsvm.ingest.row import LARGEST_FEATURE, LARGEST_WEIGHT, SMALLEST_WEIGHT
from streamsvm.points import Points

LARGEST_ID: Final = 1 << 63
"""Beyond it an integer cannot be written into a score that every language reads."""


@dataclass(frozen=True, slots=True)
class EventPoints:
    """Events as points.

    Attributes
    ----------
    points : Points
        Meaningless in rows that have a fault.
    ids : list of (str, int or None)
    faults : mapping of int to EventFault
        Why a row is rejected, by its index.
    time_ms : ndarray of shape (n,), int64, or None
        When each event happened, -1 where it does not say; None if the recipe names no field.
    """

    points: Points
    ids: list[str | int | None]
    faults: Mapping[int, EventFault]
    time_ms: NDArray[np.int64] | None = None


class EventReader:
    """Makes points of parsed events.

    Parameters
    ----------
    recipe : Recipe
    config : PointsConfig
        Its dimension, labels and names follow from the recipe.
    largest : float
        Largest magnitude of a feature.
    labeled : bool
        Whether an event must have a label.

    Attributes
    ----------
    paths : tuple of Path
        The fields that are read, each once.
    times : frozenset of Path
        Those that are times written as text.
    """

    def __init__(self, recipe: Recipe, config: PointsConfig, largest: float, *, labeled: bool) -> None:
        self._columns = columns_of(recipe)
        self._recipe = recipe
        self._config = config
        self._largest = largest
        self._labeled = labeled
        self._events = 0
        self._absent: Counter[Path] = Counter()
        label = recipe.label
        self._codes: dict[Label, int] = {} if label is None else label.codes
        kind = type(next(iter(self._codes), None))
        self._label_types = {int, float} if kind is int else {kind}
        others = (label.field if label and labeled else None, recipe.weight, recipe.id)
        timed = None if recipe.time is None else recipe.time.field
        self.times = self._columns.texts_of_times
        if recipe.time is not None and recipe.time.format == "iso8601":
            self.times |= {recipe.time.field}
        self.paths = tuple(dict.fromkeys((*self._columns.paths, *(one for one in (*others, timed) if one is not None))))

    def take_absences(self) -> Absences:
        """Return what was counted since the last call."""
        counted = Absences(self._events, {shown(path): count for path, count in self._absent.items()})
        self._events, self._absent = 0, Counter()
        return counted

    def read(self, events: Sequence[Mapping[str, Any]]) -> EventPoints:
        """Make points of events, mappings of JSON's types."""
        return self.read_fields({path: picked(events, path) for path in self.paths}, len(events))

    def read_fields(self, fields: Mapping[Path, FieldValues], rows: int) -> EventPoints:
        """Make points of so many events, of which each of `paths` is given by itself."""
        dtype = self._config.numpy_dtype
        fields = {path: without_placeholders(fields[path]) for path in self.paths}
        made = self._columns.of_fields(fields, rows)
        faults = Faults(dict(made.faults))
        X = self._within_range(made.X, faults) if self._largest < LARGEST_FEATURE["float64"] else made.X
        labels = self._labels_of(fields, rows, faults) if self._labeled else np.ones(rows, np.int8)
        weight = self._weights_of(fields, rows, faults)
        ids = self._ids_of(fields, rows, faults)
        time_ms = None if self._recipe.time is None else self._times_of(fields, self._recipe.time, faults)
        self._events += rows
        self._absent.update(made.absent)
        points = Points(X.astype(dtype, copy=False), labels, weight)
        return EventPoints(points, ids, faults.by_row, time_ms)

    def _within_range(self, X: NDArray[np.float64], faults: Faults) -> NDArray[np.float64]:
        """Note the first column of each row that the storage dtype cannot hold."""
        if X.size and np.abs(X).max() > self._largest:
            beyond = np.abs(X) > self._largest
            for row in np.flatnonzero(beyond.any(axis=1)).tolist():
                name = self._columns.names[int(np.argmax(beyond[row]))]
                what = f"the feature {name} is {X[row].max():.3g}, beyond the range of points.dtype"
                faults.by_row.setdefault(row, EventFault("not_finite", what))
            X[beyond] = 0.0
        return X

    def _labels_of(self, fields: Mapping[Path, FieldValues], rows: int, faults: Faults) -> NDArray[np.int8]:
        label = self._recipe.label
        if label is None:
            for row in range(rows):
                faults.by_row.setdefault(row, EventFault("missing_field", "events.label is not configured"))
            return np.ones(rows, np.int8)
        field = fields[label.field]
        coded = field.coded() if isinstance(field, Numeric) else field if isinstance(field, Coded) else listed(field)
        values, codes = (coded.values, coded.codes) if isinstance(coded, Coded) else (coded, None)
        made = self._codes_of_values(values)
        labels = made if codes is None else made[codes]
        for row in np.flatnonzero(labels == _UNKNOWN).tolist():
            faults.by_row.setdefault(row, self._unknown_label(values[row if codes is None else codes[row]]))
        labels[labels == _UNKNOWN] = 1
        return labels

    def _codes_of_values(self, values: Sequence[Any]) -> NDArray[np.int8]:
        """Return what `Points.y` holds for values, `_UNKNOWN` for one that means no label."""
        known, kinds = self._codes, self._label_types
        if set(map(type, values)) <= kinds:
            return np.array([known.get(value, _UNKNOWN) for value in values], np.int8)
        return np.array([known.get(value, _UNKNOWN) if type(value) in kinds else _UNKNOWN for value in values], np.int8)

    def _unknown_label(self, value: object) -> EventFault:
        label = self._recipe.label
        assert label is not None
        if value is None:
            return EventFault("missing_field", f"{shown(label.field)} is missing")
        negative, positive, several = (
            ", ".join(map(value_text, side[:_LABELS_SHOWN])) for side in (label.negative, label.positive, label.labels)
        )
        known = f"events.label means {negative} as negative and {positive} as positive"
        if several:
            known = f"events.label has the labels {several}" + ", ..." * (len(label.labels) > _LABELS_SHOWN)
        return EventFault("unknown_label", f"{shown(label.field)} is {value_text(value)}; {known}")

    def _weights_of(self, fields: Mapping[Path, FieldValues], rows: int, faults: Faults) -> NDArray[np.float64]:
        path = self._recipe.weight
        if path is None:
            return np.ones(rows)
        field = fields[path]
        if isinstance(field, Numeric) and field.is_number and field.missing is None:
            weight = np.array(numbers(field.array, path, faults))
        else:
            weight = numbers([1.0 if value is None else value for value in listed(field)], path, faults)
        beyond = ~((weight >= SMALLEST_WEIGHT) & (weight <= LARGEST_WEIGHT))
        for row in np.flatnonzero(beyond).tolist():
            faults.by_row.setdefault(row, EventFault("invalid_weight", f"{shown(path)} is {weight[row]!s}"))
        weight[beyond] = 1.0
        return weight

    def _ids_of(self, fields: Mapping[Path, FieldValues], rows: int, faults: Faults) -> list[str | int | None]:
        path = self._recipe.id
        if not path:
            return [None] * rows
        values = list(listed(fields[path]))
        if set(map(type, values)) <= {str, type(None)}:
            return values
        for row, value in enumerate(values):
            is_integer = isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST_ID
            if not (value is None or isinstance(value, str) or is_integer):
                if not self._labeled:  # where points are scored their ids go out; learned ones need none
                    faults.wrong(row, path, value, "text or an integer of at most 63 bits")
                values[row] = None
        return values

    def _times_of(self, fields: Mapping[Path, FieldValues], time: EventTime, faults: Faults) -> NDArray[np.int64]:
        """Return milliseconds since the epoch, -1 where an event does not say."""
        field = fields[time.field]
        zone = ZoneTable(UTC_TABLE if time.zone == UTC_NAME else self._recipe.zones[time.zone])
        if isinstance(field, Instants) and field.missing is None and time.format == "iso8601":
            made = times(field, time.field, faults, time.format, zone) // (MICROSECONDS // 1_000)
            if not len(made) or made.min() >= 0:
                return made
        values = listed(field)
        filler = _EPOCH if time.format == "iso8601" else 0
        given = [filler if value is None else value for value in values]
        made = times(given, time.field, faults, time.format, zone) // (MICROSECONDS // 1_000)
        for row in np.flatnonzero(made < 0).tolist():
            faults.wrong(row, time.field, values[row], "a time since 1970")
        missing = np.array([value is None for value in values], np.bool_)
        return np.where(missing | (made < 0), -1, made)


_EPOCH: Final = "1970-01-01T00:00:00Z"
_LABELS_SHOWN: Final = 5
_UNKNOWN: Final = -2
"""Where a value means no label: no code of one."""

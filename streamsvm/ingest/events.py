"""Raw events as points: the features of a recipe, and label, weight and id from the fields that it names.

Invariant: as in `streamsvm.ingest.decoder`, whether an event is accepted depends on its bytes and the recipe only, and
a bad event rejects only itself. A rejection names the field.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import Label, PointsConfig
from streamsvm.errors import InvalidPoint
from streamsvm.features.columns import columns_of
from streamsvm.features.paths import Path, picked, shown
from streamsvm.features.recipe import Recipe
from streamsvm.features.values import Fault, Faults, numbers, told
from streamsvm.ingest.row import LARGEST_WEIGHT, SMALLEST_WEIGHT, Point
from streamsvm.points import Points

LARGEST_ID: Final = 1 << 63
"""Beyond it an integer cannot be written into a score that every language reads."""


@dataclass(frozen=True, slots=True)
class Absences:
    """How often declared fields were absent or null.

    Attributes
    ----------
    events : int
        Number of events looked at, rejected ones included.
    by_field : mapping of str to int
        Events without each field, by its path; fields that every event had are left out.
    """

    events: int = 0
    by_field: Mapping[str, int] = field(default_factory=dict)


NO_ABSENCES: Final = Absences()


@dataclass(frozen=True, slots=True)
class EventPoints:
    """Events as points.

    Attributes
    ----------
    points : Points
        Meaningless in rows that have a fault.
    ids : list of (str, int or None)
    faults : mapping of int to Fault
        Why a row is rejected, by its index.
    """

    points: Points
    ids: list[str | int | None]
    faults: Mapping[int, Fault]


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
        self._signs: dict[Label, int] = {}
        if label is not None:
            self._signs = dict.fromkeys(label.negative, -1) | dict.fromkeys(label.positive, 1)
        kind = type(next(iter(self._signs), None))
        self._label_types = {int, float} if kind is int else {kind}
        others = (label.field if label and labeled else None, recipe.weight, None if labeled else recipe.id)
        self.paths = tuple(dict.fromkeys((*self._columns.paths, *(one for one in others if one is not None))))

    def take_absences(self) -> Absences:
        """Return what was counted since the last call."""
        counted = Absences(self._events, {shown(path): count for path, count in self._absent.items()})
        self._events, self._absent = 0, Counter()
        return counted

    def read(self, events: Sequence[Mapping[str, Any]]) -> EventPoints:
        """Make points of events, mappings of JSON's types."""
        return self.read_fields({path: picked(events, path) for path in self.paths}, len(events))

    def read_fields(self, fields: Mapping[Path, Sequence[Any]], rows: int) -> EventPoints:
        """Make points of so many events, of which each of `paths` is given by itself."""
        dtype = self._config.numpy_dtype
        made = self._columns.of_fields(fields, rows)
        faults = Faults(dict(made.faults))
        X = self._within_range(made.X, faults) if dtype != np.float64 else made.X
        signs = self._signs_of(fields, rows, faults) if self._labeled else np.ones(rows, np.int8)
        weight = self._weights_of(fields, rows, faults)
        ids = self._ids_of(fields, rows, faults)
        self._events += rows
        self._absent.update(made.absent)
        return EventPoints(Points(X.astype(dtype, copy=False), signs, weight), ids, faults.by_row)

    def rows(self, events: Sequence[dict[str, Any] | InvalidPoint]) -> list[Point | InvalidPoint]:
        """Return events one by one, as every format's rows; what is not an event stays as it is."""
        good = [event for event in events if not isinstance(event, InvalidPoint)]
        made = self._one_by_one(self.read(good))
        return [event if isinstance(event, InvalidPoint) else next(made) for event in events]

    def _one_by_one(self, made: EventPoints) -> Iterator[Point | InvalidPoint]:
        negative, positive = self._config.labels
        for row, (x, sign) in enumerate(zip(made.points.X, made.points.y, strict=True)):
            fault = made.faults.get(row)
            if fault is not None:
                yield InvalidPoint(*fault)
                continue
            label = (positive if sign > 0 else negative) if self._labeled else None
            yield Point(x.tolist(), label, float(made.points.weight[row]), made.ids[row])

    def _within_range(self, X: NDArray[np.float64], faults: Faults) -> NDArray[np.float64]:
        """Note the first column of each row that the storage dtype cannot hold."""
        if X.size and np.abs(X).max() > self._largest:
            beyond = np.abs(X) > self._largest
            for row in np.flatnonzero(beyond.any(axis=1)).tolist():
                name = self._columns.names[int(np.argmax(beyond[row]))]
                what = f"the feature {name} is {X[row].max():.3g}, beyond the range of points.dtype"
                faults.by_row.setdefault(row, Fault("not_finite", what))
            X[beyond] = 0.0
        return X

    def _signs_of(self, fields: Mapping[Path, Sequence[Any]], rows: int, faults: Faults) -> NDArray[np.int8]:
        label, known = self._recipe.label, self._signs
        if label is None:
            for row in range(rows):
                faults.by_row.setdefault(row, Fault("missing_field", "events.label is not configured"))
            return np.ones(rows, np.int8)
        values = fields[label.field]
        if set(map(type, values)) <= self._label_types:
            signs = [known.get(value, 0) for value in values]
        else:
            signs = [known.get(value, 0) if type(value) in self._label_types else 0 for value in values]
        made = np.array(signs, np.int8)
        for row in np.flatnonzero(made == 0).tolist():
            faults.by_row.setdefault(row, self._unknown_label(values[row]))
        made[made == 0] = 1
        return made

    def _unknown_label(self, value: object) -> Fault:
        label = self._recipe.label
        assert label is not None
        if value is None:
            return Fault("missing_field", f"{shown(label.field)} is missing")
        sides = [", ".join(map(told, side[:_LABELS_SHOWN])) for side in (label.negative, label.positive)]
        known = f"events.label means {sides[0]} as negative and {sides[1]} as positive"
        return Fault("unknown_label", f"{shown(label.field)} is {told(value)}; {known}")

    def _weights_of(self, fields: Mapping[Path, Sequence[Any]], rows: int, faults: Faults) -> NDArray[np.float64]:
        path = self._recipe.weight
        if path is None:
            return np.ones(rows)
        weight = numbers([1.0 if value is None else value for value in fields[path]], path, faults)
        beyond = ~((weight >= SMALLEST_WEIGHT) & (weight <= LARGEST_WEIGHT))
        for row in np.flatnonzero(beyond).tolist():
            faults.by_row.setdefault(row, Fault("invalid_weight", f"{shown(path)} is {weight[row]!s}"))
        weight[beyond] = 1.0
        return weight

    def _ids_of(self, fields: Mapping[Path, Sequence[Any]], rows: int, faults: Faults) -> list[str | int | None]:
        path = self._recipe.id
        if path is None or self._labeled:
            return [None] * rows
        values = list(fields[path])
        if set(map(type, values)) <= {str, type(None)}:
            return values
        for row, value in enumerate(values):
            is_integer = isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST_ID
            if not (value is None or isinstance(value, str) or is_integer):
                faults.wrong(row, path, value, "text or an integer of at most 63 bits")
                values[row] = None
        return values


_LABELS_SHOWN: Final = 5

"""Values of one field of many events as arrays, where a format has them so; else a field is a sequence of values.

Invariant: a field as arrays has the columns and the faults that the list of its values has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamsvm.field_paths import UNAVAILABLE


@dataclass(frozen=True, slots=True)
class Coded:
    """Values of which each distinct one is kept once.

    Attributes
    ----------
    values : sequence
        Of JSON's types; None is a missing one.
    codes : ndarray of shape (n,), integers
        Which of `values` each event has.
    """

    values: Sequence[Any]
    codes: NDArray[np.integer]

    def listed(self) -> list[Any]:
        """Return the value of each event."""
        values = self.values
        return [values[code] for code in self.codes.tolist()]

    def count_missing(self) -> int:
        """Return how many events lack the field."""
        if None not in self.values:
            return 0
        return int(np.isin(self.codes, [code for code, value in enumerate(self.values) if value is None]).sum())


@dataclass(frozen=True, slots=True)
class Numeric:
    """Numbers, or truths.

    Attributes
    ----------
    array : ndarray of shape (n,), bool, integer or float64
        Meaningless where the field is missing.
    missing : ndarray of shape (n,), bool, or None
        Where the field is missing; None if nowhere.
    """

    array: NDArray[Any]
    missing: NDArray[np.bool_] | None = None

    @property
    def is_number(self) -> bool:
        """Whether the values are numbers, not truths."""
        return self.array.dtype.kind in "iuf"

    def coded(self) -> Coded:
        """Return the same with each distinct value once."""
        bits = self.array.view(np.int64) if self.array.dtype == np.float64 else self.array  # -0.0 is another than 0.0
        found, codes = np.unique(bits, return_inverse=True)
        values = found.view(self.array.dtype)
        if self.missing is None:
            return Coded(values.tolist(), codes)
        return Coded([*values.tolist(), None], np.where(self.missing, len(values), codes))

    def listed(self) -> list[Any]:
        """Return the value of each event, None where it is missing."""
        values: list[Any] = self.array.tolist()
        if self.missing is not None:
            for row in np.flatnonzero(self.missing).tolist():
                values[row] = None
        return values

    def count_missing(self) -> int:
        """Return how many events lack the field."""
        return 0 if self.missing is None else int(self.missing.sum())


@dataclass(frozen=True, slots=True)
class Instants:
    """Texts that are times in ISO 8601, read already.

    Attributes
    ----------
    micros : ndarray of shape (n,), int64
        Microseconds since the epoch. Meaningless where the field is missing.
    local : ndarray of shape (n,), bool
        Where the text has no offset, so that the microseconds are those of a zone's clocks.
    missing : ndarray of shape (n,), bool, or None
        Where the field is missing; None if nowhere.
    texts : callable
        Returns the texts, None where one is missing.
    """

    micros: NDArray[np.int64]
    local: NDArray[np.bool_]
    missing: NDArray[np.bool_] | None
    texts: Callable[[], Sequence[Any]]

    def __len__(self) -> int:
        return len(self.micros)

    def listed(self) -> Sequence[Any]:
        """Return the text of each event, None where it is missing."""
        return self.texts()

    def count_missing(self) -> int:
        """Return how many events lack the field."""
        return 0 if self.missing is None else int(self.missing.sum())


FieldValues = Sequence[Any] | Coded | Numeric | Instants


def without_placeholders(field: FieldValues) -> FieldValues:
    """Return a field that is missing where it is `UNAVAILABLE`."""
    if isinstance(field, Coded):
        return Coded(_without(field.values), field.codes) if UNAVAILABLE in field.values else field
    if isinstance(field, Numeric | Instants) or UNAVAILABLE not in field:
        return field
    return _without(field)


def _without(values: Sequence[Any]) -> list[Any]:
    return [None if type(value) is str and value == UNAVAILABLE else value for value in values]


def taken(field: FieldValues, rows: NDArray[np.intp]) -> FieldValues:
    """Return the values of some events."""
    if isinstance(field, Coded):
        return Coded(field.values, field.codes[rows])
    if isinstance(field, Numeric):
        return Numeric(field.array[rows], None if field.missing is None else field.missing[rows])
    if isinstance(field, Instants):
        missing = None if field.missing is None else field.missing[rows]
        return Instants(field.micros[rows], field.local[rows], missing, lambda: _taken(field.texts(), rows))
    return _taken(field, rows)


def _taken(values: Sequence[Any], rows: NDArray[np.intp]) -> list[Any]:
    return [values[row] for row in rows.tolist()]


def listed(field: FieldValues) -> Sequence[Any]:
    """Return the value of each event."""
    return field.listed() if isinstance(field, Coded | Numeric | Instants) else field


def count_missing(field: FieldValues) -> int:
    """Return how many events lack a field."""
    if isinstance(field, Coded | Numeric | Instants):
        return field.count_missing()
    return sum(value is None for value in field) if type(None) in set(map(type, field)) else 0

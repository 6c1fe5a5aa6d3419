"""A recipe compiled: from the fields of events to a matrix, column by column."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.branches.events.features.fields import (
    Coded,
    FieldValues,
    Instants,
    Numeric,
    count_missing,
    listed,
    without_placeholders,
)
from streamsvm.branches.events.features.notations import Parse, number_of_text
from streamsvm.branches.events.features.recipe import (
    MISSING,
    OTHER,
    Category,
    Constant,
    Cross,
    Feature,
    Flag,
    Hash,
    Number,
    OfField,
    Recipe,
    Time,
    widths_of,
)
from streamsvm.branches.events.features.values import (
    MICROSECONDS,
    EventFault,
    Faults,
    numbers,
    parsed,
    texts,
    times,
    truths,
)
from streamsvm.branches.events.features.zones import UTC_NAME, UTC_TABLE, ZoneTable
from streamsvm.field_paths import Path, picked

Float = NDArray[np.float64]

MOST_REMEMBERED: Final = 1 << 16
"""Values whose hash is kept: a hash takes ten times as long as a look at a table."""
LONGEST_REMEMBERED: Final = 200
"""Characters of such a value, so that they cannot take all memory."""
DAY_S: Final = 86_400
_MONDAY: Final = 3
"""Days from a Monday to the epoch's Thursday."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A batch of events as a matrix.

    Attributes
    ----------
    X : ndarray of shape (n, d), float64
        Meaningless in rows that have a fault.
    faults : mapping of int to EventFault
        Why a row is rejected, by its index.
    absent : mapping of Path to int
        In how many rows each declared field was absent or null; fields that no row lacked are left out.
    """

    X: Float
    faults: Mapping[int, EventFault]
    absent: Mapping[Path, int]


class FeatureColumns:
    """A recipe, ready to be evaluated.

    Parameters
    ----------
    recipe : Recipe
        One that `streamsvm.branches.events.features.recipe.check` accepts.

    Attributes
    ----------
    names : tuple of str
        One for each column, all different.
    places : dict of str to slice
        The columns of each feature.
    paths : tuple of Path
        The fields that the columns need, each once.
    texts_of_times : frozenset of Path
        Those that are times of the format iso8601.
    """

    def __init__(self, recipe: Recipe) -> None:
        widths = widths_of(recipe)
        names: dict[str, tuple[str, ...]] = {}
        self._parts: list[tuple[slice, _Compiled | _Crossed]] = []
        places = self.places = dict[str, slice]()
        start = 0
        for feature in recipe.features:
            names[feature.name] = _names_of(feature, names)
            place = places[feature.name] = slice(start, start + widths[feature.name])
            if isinstance(feature, Cross):
                self._parts.append((place, _Crossed(places[feature.of[0]], places[feature.of[1]])))
            else:
                self._parts.append((place, _Compiled(feature, recipe)))
            start = place.stop
        self.names = tuple(name for one in names.values() for name in one)
        self.texts_of_times = frozenset(
            path
            for feature in recipe.of_fields
            if isinstance(feature, Time) and feature.format == "iso8601"
            for path in paths_of(feature)
        )
        self.paths = tuple(dict.fromkeys(path for feature in recipe.of_fields for path in paths_of(feature)))

    @property
    def dimension(self) -> int:
        """Number of columns."""
        return len(self.names)

    def of_events(self, events: Sequence[Mapping[str, Any]]) -> Evaluated:
        """Evaluate parsed events, mappings of JSON's types."""
        fields = {path: without_placeholders(picked(events, path)) for path in self.paths}
        return self.of_fields(fields, len(events))

    def of_fields(self, fields: Mapping[Path, FieldValues], rows: int) -> Evaluated:
        """Evaluate events whose fields are already apart.

        Parameters
        ----------
        fields : mapping of Path to sequence, Coded or Numeric
            For each of `paths` a value of each event, None where it is missing; as `without_placeholders` gives them.
        rows : int
            Number of events.
        """
        faults = Faults()
        absent = {path: missing for path in self.paths if (missing := count_missing(fields[path]))}
        X = np.zeros((rows, self.dimension))
        for place, part in self._parts:
            if isinstance(part, _Crossed):
                part.fill(X, place)
            else:
                part.fill(X[:, place], fields, absent, faults)
        return Evaluated(X, faults.by_row, absent)


def columns_of(recipe: Recipe) -> FeatureColumns:
    """Compile a recipe.

    Raises
    ------
    ValueError
        If two columns would have the same name.
    """
    made = FeatureColumns(recipe)
    if len(set(made.names)) < len(made.names):
        twice = next(name for name in made.names if made.names.count(name) > 1)
        raise ValueError(f"features makes two columns of the name {twice!r}: rename a feature")
    return made


def paths_of(feature: OfField) -> tuple[Path, ...]:
    """Return the fields that a feature reads."""
    since = feature.since if isinstance(feature, Time) else None
    return (feature.field,) if since is None else (feature.field, since)


# ----------------------------------------------------------------------- names


def _names_of(feature: Feature, before: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    name = feature.name
    if isinstance(feature, Cross):
        first, second = feature.of
        return tuple(f"{one} & {other}" for one in before[first] for other in before[second])
    own: tuple[str, ...] = (name,)
    if isinstance(feature, Number) and feature.buckets:
        own = tuple(f"{name}{text}" for text in _intervals(feature.buckets))
    elif isinstance(feature, Category):
        own = tuple(f"{name}={value}" for value in (*feature.values, OTHER))
    elif isinstance(feature, Hash):
        own = tuple(f"{name}#{index}" for index in range(1 << feature.bits))
    elif isinstance(feature, Time):
        waves = {part: (f"{name}.{part}.sin", f"{name}.{part}.cos") for part in feature.parts}
        own = tuple(text for part in feature.parts for text in ((f"{name}.age",) if part == "age" else waves[part]))
    return (*own, f"{name}={MISSING}") if feature.missing == "indicator" else own


def _intervals(borders: Sequence[float]) -> list[str]:
    texts = [repr(border).removesuffix(".0") for border in borders]
    between = [f"[{low},{high})" for low, high in pairwise(texts)]
    return [f"<{texts[0]}", *between, f">={texts[-1]}"]


# ---------------------------------------------------------------------- filling


class _Crossed:
    """The products of the columns of two features."""

    def __init__(self, first: slice, second: slice) -> None:
        self._first, self._second = first, second

    def fill(self, X: Float, place: slice) -> None:
        products = X[:, self._first, np.newaxis] * X[:, np.newaxis, self._second]
        X[:, place] = products.reshape(len(X), place.stop - place.start)


class _Compiled:
    """One feature: fills its columns from the values of its field."""

    def __init__(self, feature: OfField, recipe: Recipe) -> None:
        self._paths = paths_of(feature)
        self._rejects = feature.missing == "reject"
        self._indicates = feature.missing == "indicator"
        self._constant = feature.missing.constant if isinstance(feature.missing, Constant) else None
        self._of_numbers = isinstance(feature, Number)
        self._of_texts_of_times = isinstance(feature, Time) and feature.format == "iso8601"
        self._fill = _FILLERS[type(feature)](feature, recipe)
        self._harmless: Any = _HARMLESS[type(feature)](feature)

    def fill(self, out: Float, fields: Mapping[Path, FieldValues], absent: Mapping[Path, int], faults: Faults) -> None:
        """Fill columns of zeros, shape (n, width)."""
        found = [fields[path] for path in self._paths]
        only = found[0] if len(found) == 1 else None
        if isinstance(only, Numeric) and not (self._of_numbers and only.is_number):
            only = only.coded()
        if isinstance(only, Coded) and len(only.values) < len(out):
            self._fill_distinct(out, only, faults)
        elif isinstance(only, Numeric):
            self._fill_missing(out, [only.array], only.missing, faults)
        elif self._takes_instants(found):
            self._fill_missing(out, found, _missing_of(found), faults)
        else:
            values = [listed(one) for one in found]
            missing = np.array([[value is None for value in one] for one in values]) if self._lacks(absent) else None
            self._fill_missing(out, values, missing, faults)

    def _takes_instants(self, found: Sequence[FieldValues]) -> bool:
        """Return whether all fields are times that were read already, none of which gets a constant."""
        if not (self._of_texts_of_times and all(isinstance(one, Instants) for one in found)):
            return False
        return self._constant is None or all(count_missing(one) == 0 for one in found)

    def _lacks(self, absent: Mapping[Path, int]) -> bool:
        return bool(absent.keys() & set(self._paths))

    def _fill_missing(
        self, out: Float, values: Sequence[Any], missing: NDArray[np.bool_] | None, faults: Faults
    ) -> None:
        """Fill columns; `missing`, of shape (fields, n) or (n,), says where values are missing, None that none is."""
        if missing is None:
            self._fill(out, values, faults)
            return
        lacking = np.atleast_2d(missing)
        if self._rejects:
            for path, one in zip(self._paths, lacking, strict=True):
                faults.missing(np.flatnonzero(one).tolist(), path)
        filler = self._harmless if self._constant is None else self._constant
        self._fill(out, [_filled(*one, filler) for one in zip(values, lacking, strict=True)], faults)
        anywhere = lacking.any(axis=0)
        if self._constant is None:
            out[anywhere] = 0.0
        if self._indicates:
            out[anywhere, -1] = 1.0

    def _fill_distinct(self, out: Float, field: Coded, faults: Faults) -> None:
        """Evaluate each distinct value once."""
        (path,) = self._paths
        few, found = np.zeros((len(field.values), out.shape[1])), Faults()
        self.fill(few, {path: field.values}, {path: 1} if None in field.values else {}, found)
        held = few != 0.0
        if out.shape[1] > 1 and held.sum(axis=1).max(initial=0) <= 1:
            # Categories and hashes fill one column of a row at most: copying that one is less than copying all.
            column = held.argmax(axis=1)
            out[np.arange(len(out)), column[field.codes]] = few[np.arange(len(few)), column][field.codes]
        else:
            out[:] = few[field.codes]
        if found.by_row:
            for row in np.flatnonzero(np.isin(field.codes, list(found.by_row))).tolist():
                faults.by_row.setdefault(row, found.by_row[int(field.codes[row])])


def _missing_of(found: Sequence[Any]) -> NDArray[np.bool_] | None:
    """Return where times are missing, shape (fields, n); None if nowhere."""
    if all(one.missing is None for one in found):
        return None
    return np.array([np.zeros(len(one), np.bool_) if one.missing is None else one.missing for one in found])


def _filled(values: Any, missing: NDArray[np.bool_], filler: Any) -> Any:
    """Return values with a filler where they are missing."""
    if isinstance(values, Instants):
        return replace(values, micros=np.where(missing, 0, values.micros), local=values.local & ~missing)
    if isinstance(values, np.ndarray):
        return np.where(missing, float(filler), values.astype(np.float64))
    return [filler if value is None else value for value in values]


Fill = Callable[[Float, Sequence[Any], Faults], None]
"""Takes columns, a sequence of values (or an array of numbers) for each path, and where faults are noted."""


def _number_filler(feature: Number, _: Recipe) -> Fill:
    path, clip, unit, edges = feature.field, feature.clip, feature.unit, np.array(feature.buckets)
    parse, wanted = _notation_of(feature), _wanted_by(feature)

    def fill(out: Float, values: Sequence[Any], faults: Faults) -> None:
        v = numbers(values[0] if parse is None else parsed(values[0], parse, path, faults, wanted), path, faults)
        if clip is not None:
            v = np.clip(v, *clip)
        if unit != 1.0:
            v = v / unit
            v[~(np.abs(v) <= 1e300)] = 0.0
        if len(edges):
            out[np.arange(len(v)), np.searchsorted(edges, v, "right")] = 1.0
        else:
            out[:, 0] = np.copysign(np.log1p(np.abs(v)), v) if feature.log1p else v

    return fill


def _notation_of(feature: Number) -> Parse | None:
    """Return what reads a feature's values that are no numbers of JSON; None where it takes these only."""
    if feature.parse == "text":
        return number_of_text(feature.decimal, feature.thousands, feature.currency)
    return None


def _wanted_by(feature: Number) -> str:
    """Say what a value of a feature has to be."""
    if feature.parse == "text":
        of = [f"the decimal separator {feature.decimal!r}"]
        of.append(f"the thousands separator {feature.thousands!r}" if feature.thousands else "no thousands separator")
        of.append(f"the currency {feature.currency!r}" if feature.currency else "no currency")
        return f"a number, or a text that writes one with {', '.join(of[:-1])} and {of[-1]}"
    return "a number"


def _category_filler(feature: Category, _: Recipe) -> Fill:
    path, index = feature.field, _Places({value: at for at, value in enumerate(feature.values)})

    def fill(out: Float, values: Sequence[Any], faults: Faults) -> None:
        found = texts(values[0], path, faults)
        at = np.fromiter(map(index.__getitem__, found), np.intp, len(found))
        out[np.arange(len(at)), at] = 1.0

    return fill


class _Places(dict[str, int]):
    """Columns by a vocabulary's values; the one behind them for all other values, which are not kept."""

    def __missing__(self, _: str) -> int:
        return len(self)


def _hash_filler(feature: Hash, _: Recipe) -> Fill:
    path, remembered = feature.field, dict[str, tuple[int, float]]()

    def hashed(text: str) -> tuple[int, float]:
        digest = hashlib.sha256(f"{feature.seed}:{text}".encode(errors="surrogatepass")).digest()
        made = int.from_bytes(digest[:4], "big") % (1 << feature.bits), -1.0 if digest[4] % 2 else 1.0
        if len(text) <= LONGEST_REMEMBERED:
            if len(remembered) >= MOST_REMEMBERED:
                remembered.clear()
            remembered[text] = made
        return made

    def fill(out: Float, values: Sequence[Any], faults: Faults) -> None:
        made = [remembered.get(text) or hashed(text) for text in texts(values[0], path, faults)]
        at = np.array([column for column, _ in made], np.intp)
        out[np.arange(len(made)), at] = [sign for _, sign in made]

    return fill


def _time_filler(feature: Time, recipe: Recipe) -> Fill:
    zone = ZoneTable(UTC_TABLE if feature.zone == UTC_NAME else recipe.zones[feature.zone])
    path, since = feature.field, feature.since

    def fill(out: Float, values: Sequence[Any], faults: Faults) -> None:
        time = times(values[0], path, faults, feature.format, zone)
        seconds = time // MICROSECONDS
        local = seconds + zone.offset_at(seconds)
        column = 0
        for part in feature.parts:
            if part == "age":
                assert since is not None
                begun = times(values[1], since, faults, feature.format, zone)
                out[:, column] = (time - begun) / (DAY_S * MICROSECONDS)
                column += 1
            else:
                out[:, column : column + 2] = _WAVES[part][_STEPS[part](local)]
                column += 2

    return fill


def _flag_filler(feature: Flag, _: Recipe) -> Fill:
    path = feature.field

    def fill(out: Float, values: Sequence[Any], faults: Faults) -> None:
        out[:, 0] = truths(values[0], path, faults)

    return fill


_FILLERS: Final[Mapping[type, Callable[[Any, Recipe], Fill]]] = {
    Number: _number_filler,
    Category: _category_filler,
    Hash: _hash_filler,
    Time: _time_filler,
    Flag: _flag_filler,
}
_HARMLESS: Final[Mapping[type, Callable[[Any], Any]]] = {
    Number: lambda _: 0.0,
    Category: lambda _: "",
    Hash: lambda _: "",
    Time: lambda feature: "1970-01-01" if feature.format == "iso8601" else 0,
    Flag: lambda _: False,
}
"""What a missing value counts as until its columns are overwritten."""


# ------------------------------------------------------------------------ waves


def _wave(steps: int) -> Float:
    """Return sine and cosine of so many equal steps around a circle, shape (steps, 2)."""
    angles = [2.0 * math.pi * step / steps for step in range(steps)]
    return np.array([(math.sin(angle), math.cos(angle)) for angle in angles])


MINUTES: Final = 1_440
_WAVES: Final = {"hour": _wave(MINUTES), "weekday": _wave(7), "month": _wave(12)}
"""The time of day counts by minutes, so that a table holds every value that there is."""


def _month(local: NDArray[np.int64]) -> NDArray[np.int64]:
    return (local.astype("datetime64[s]").astype("datetime64[M]").astype(np.int64)) % 12


_STEPS: Final[Mapping[str, Callable[[NDArray[np.int64]], NDArray[np.int64]]]] = {
    "hour": lambda local: (local // 60) % MINUTES,
    "weekday": lambda local: (local // DAY_S + _MONDAY) % 7,
    "month": _month,
}
"""How many steps from a circle's beginning (midnight, Monday, January) a zone's clocks are, in seconds."""

"""What the columns of a CSV hold: texts or numbers, and which cells are no values.

A CSV has no types, so a column is judged as a whole: one postal code with a zero in front says that all of them are
texts. A recipe says it where it can; else the cells do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import msgspec

from streamsvm.branches.events.features.columns import paths_of
from streamsvm.branches.events.features.notations import number_of_text
from streamsvm.branches.events.features.recipe import Category, Hash, Number, OfField, Recipe, Time
from streamsvm.branches.events.features.text_numbers import MOSTLY, as_text
from streamsvm.branches.events.features.values import LARGEST_EXACT, time_of_text
from streamsvm.field_paths import Path, shown
from streamsvm.ingest.decoding import Markers
from streamsvm.ingest.files.cells import is_missing

NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
"""A cell that is a number in JSON, too: not one with zeros in front, which is an identifier."""
FEW_VALUES: Final = 12
"""Distinct cells up to which a column with texts among them is a category."""
FEW_WITH_MARKERS: Final = 50
"""Distinct texts up to which NA and the like can be one more value."""
REPEATED: Final = 4
"""Times that a value of a category comes on the average, at least."""
NO_TINY_SHARE: Final = 0.01
"""Share of the rows from which NA and the like are a value of a category."""

MOST_STRAY: Final = 12
"""Distinct texts up to which they stand among numbers, or times, for missing ones: `error`, `-`, `#DIV/0!`, `<30`."""

_PADDED: Final = re.compile(r"[+-]?0[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")
"""A number with zeros in front, as codes have and as nobody writes a number."""
_BOOLEANS: Final = ("true", "false")

_decoder = msgspec.json.Decoder()

Cell = str | float | bool | None


def number_of(cell: str) -> float | None:
    """Return the number that a cell is in JSON, an integer if it is a whole one; None if it is none, or too large."""
    if NUMBER.fullmatch(cell) is None:
        return None
    try:
        found: float = _decoder.decode(cell)
    except msgspec.DecodeError:
        return None
    return found


def holds_texts(cells: Counter[str]) -> bool:
    """Return whether cells, without blanks around them and without missing ones, are the texts of one column."""
    if any(_PADDED.fullmatch(cell) for cell in cells):
        return True
    texts = [cell for cell in cells if cell.lower() not in _BOOLEANS and number_of(cell) is None]
    is_mostly_text = 2 * len(texts) > len(cells)
    is_category = bool(texts) and len(cells) <= FEW_VALUES and _are_repeated(cells)
    return (is_mostly_text or is_category) and as_text(texts, many=False) is None


def stray_texts(cells: Counter[str]) -> frozenset[str]:
    """Return the few texts, such as `error`, in a column of numbers, or of times, that has many others.

    In another notation than JSON's, and in times, they are the cells without a figure.
    """
    if any(_PADDED.fullmatch(cell) for cell in cells):
        return frozenset()
    unread = {cell for cell in cells if number_of(cell) is None}
    for texts in (unread, {cell for cell in unread if not re.search("[0-9]", cell)}):
        others = cells.keys() - texts
        is_few = 0 < len(texts) <= MOST_STRAY and len(others) >= max(FEW_VALUES + 1, REPEATED * len(texts))
        as_times = sum(time_of_text(cell) is not None for cell in others) >= MOSTLY * len(others)
        if is_few and (not others & unread or as_text(others, many=False) is not None or as_times):
            return frozenset(texts)
    return frozenset()


def marker_values(cells: Counter[str], markers: Mapping[str, int], rows: int) -> frozenset[str]:
    """Return which markers of a missing value, such as NA, are one of the few values of a category.

    Parameters
    ----------
    cells : Counter
        The other cells of the column, without the empty ones.
    markers : mapping of str to int
        How often each is there.
    rows : int
    """
    values = cells + Counter(markers)
    if not cells or len(cells) > FEW_WITH_MARKERS or not _are_repeated(values) or not holds_texts(cells):
        return frozenset()
    are_numbers = as_text(cells, many=False) is not None
    have_times = any(time_of_text(cell) is not None for cell in cells)
    if are_numbers or have_times:
        return frozenset()
    return frozenset(marker for marker, count in markers.items() if count >= NO_TINY_SHARE * rows)


def _are_repeated(cells: Counter[str]) -> bool:
    return cells.total() >= REPEATED * len(cells)


def typed(
    rows: Sequence[Mapping[str, str]], labels: Set[str] = frozenset()
) -> tuple[list[dict[str, Any]], dict[str, Counter[str]]]:
    """Return the rows of a CSV as events, as all of them together say what its columns hold, and the markers.

    Texts that stray into a column of numbers are markers, too.

    Parameters
    ----------
    rows : sequence of mappings
        The cell of each column, the same ones in each row.
    labels : set of str
        Columns in which NA and the like always mean that a row has none.
    """
    events: list[dict[str, Any]] = [{} for _ in rows]
    missing: Markers = {}
    for name in rows[0] if rows else ():
        cells = [row[name].strip() for row in rows]
        counts = Counter(cells)
        markers = {cell: count for cell, count in counts.items() if cell and is_missing(cell)}
        present = Counter({cell: count for cell, count in counts.items() if not is_missing(cell)})
        values = strays = frozenset[str]()
        if name not in labels:
            values, strays = marker_values(present, markers, len(rows)), stray_texts(present)
        markers |= {stray: present.pop(stray) for stray in strays}
        is_text = holds_texts(present)
        read = {cell: read_cell(cell, text=is_text, codes=values) for cell in counts if cell not in strays}
        for event, cell in zip(events, cells, strict=True):
            if (value := read.get(cell)) is not None:
                event[name] = value
        if taken := {marker: count for marker, count in markers.items() if marker not in values}:
            missing[name] = Counter(taken)
    return events, missing


@dataclass(frozen=True, slots=True)
class CsvColumns:
    """What is known of the columns of a CSV.

    Attributes
    ----------
    texts : set of str
        Whose cells stay text, though they may look like numbers.
    codes : mapping of str to set of str
        The vocabularies: values of a category, and labels that are text.
    declared : set of str
        Those of which the recipe says how they are read.
    readable : mapping of str to callable
        Of columns whose numbers or times may be missing, whether a value is one; others are missing.
    """

    texts: frozenset[str]
    codes: Mapping[str, frozenset[str]]
    declared: frozenset[str]
    readable: Mapping[str, Callable[[Cell], bool]]

    @classmethod
    def of(cls, recipe: Recipe | None) -> Self:
        """Return what a recipe says; nothing without one."""
        if recipe is None:
            return cls(frozenset(), {}, frozenset(), {})
        texts = {one.field for one in recipe.of_fields if isinstance(one, Category | Hash)}
        texts |= {one.field for one in recipe.of_fields if isinstance(one, Number) and one.parse is not None}
        times = [one for one in recipe.of_fields if isinstance(one, Time) and one.format == "iso8601"]
        texts |= {path for one in times for path in (one.field, one.since) if path is not None}
        texts |= set() if recipe.id is None else {recipe.id}
        vocabularies = [(one.field, one.values) for one in recipe.of_fields if isinstance(one, Category)]
        label = recipe.label
        if label is not None and isinstance(label.classes[0], str):
            texts.add(label.field)
            vocabularies.append((label.field, tuple(map(str, label.codes))))
        codes: dict[str, frozenset[str]] = {}
        for path, values in vocabularies:
            codes[shown(path)] = codes.get(shown(path), frozenset()).union(values)
        read = [(path, _readable(one)) for one in recipe.of_fields for path in paths_of(one)]
        readable = {shown(path): found for path, found in read if found is not None}
        kept = [path for path, found in read if found is None] + _roles(recipe)
        return cls(
            _names(texts),
            codes,
            _names(texts | {path for one in recipe.of_fields for path in paths_of(one)} | set(_roles(recipe))),
            {name: found for name, found in readable.items() if name not in _names(set(kept))},
        )

    def events(self, rows: Iterable[Mapping[str, str]]) -> list[dict[str, Any]]:
        """Return rows of cells as events; texts and numbers as a recipe reads them."""
        found = []
        for cells in rows:
            event = {}
            for name, cell in cells.items():
                value = read_cell(cell, text=name in self.texts, codes=self.codes.get(name, frozenset()))
                if value is not None and (name not in self.readable or self.readable[name](value)):
                    event[name] = value
            found.append(event)
        return found

    def judging(self, names: Sequence[str], rows: Sequence[Sequence[str]]) -> Self:
        """Return the same, with what the first rows say of the columns that no recipe declares."""
        found = set()
        for at, name in enumerate(names):
            if name not in self.declared:
                cells = Counter(row[at].strip() for row in rows)
                if holds_texts(Counter({cell: count for cell, count in cells.items() if not is_missing(cell)})):
                    found.add(name)
        return replace(self, texts=self.texts | found)


def _roles(recipe: Recipe) -> list[Path]:
    """Return the fields that are read for something else than a feature of their own."""
    others = [recipe.weight, recipe.id]
    others += [None if one is None else one.field for one in (recipe.label, recipe.time)]
    return [path for path in others if path is not None]


def _readable(feature: OfField) -> Callable[[Cell], bool] | None:
    """Return whether a number or time can read a value; None for other features, and where it may not be missing."""
    if feature.missing == "reject" or not isinstance(feature, Number | Time):
        return None
    if isinstance(feature, Time) and feature.format == "iso8601":
        return lambda value: isinstance(value, str) and time_of_text(value) is not None
    if isinstance(feature, Number) and feature.parse is not None:
        parse = number_of_text(feature.decimal, feature.thousands, feature.currency)
        return lambda value: parse(value) is not None
    return lambda value: isinstance(value, int | float) and not isinstance(value, bool)


def _names(paths: Set[Path]) -> frozenset[str]:
    return frozenset(map(shown, paths))


def read_cell(cell: str, *, text: bool, codes: frozenset[str]) -> Cell:
    """Return what a cell holds, None if it is missing; a number that is too large for one is text.

    A value of the vocabulary is that value. So is one written otherwise than JSON would: 2.0 and 2e0 are the code 2 of
    a vocabulary that has 2 and not 2.0, and True is its true.
    """
    if cell in codes:
        return cell
    cell = cell.strip()
    if cell in codes:
        return cell
    if is_missing(cell):
        return None
    if text:
        return _code(cell, codes) if codes else cell
    if cell.lower() in _BOOLEANS:
        return cell.lower() == "true"
    number = number_of(cell)
    return cell if number is None else number


def _code(cell: str, codes: frozenset[str]) -> str:
    if cell.lower() in _BOOLEANS:
        written = cell.lower()
    elif NUMBER.fullmatch(cell) is None:
        return cell
    else:
        value = float(cell)
        written = str(int(value)) if value.is_integer() and abs(value) <= LARGEST_EXACT else cell
    return written if written in codes else cell

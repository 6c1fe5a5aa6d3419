"""Recognises texts that are numbers to people, and finds the options by which a feature reads them.

A notation is proposed where the values leave no choice: nearly all of them are read by it, and no other notation that
reads as many makes another number of one. So "1,234" alone is never taken for 1234, nor for 1.234.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from streamsvm.branches.events.features.naming_numbers import FEW_NUMBERS
from streamsvm.branches.events.features.notations import (
    DECIMAL_SEPARATORS,
    THOUSANDS_SEPARATORS,
    Parse,
    is_currency,
    number_of_text,
)

MOSTLY: Final = 0.95
"""Share of the distinct values that must be numbers."""
_CURRENCY: Final = re.compile("[$€£¥]|USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD")
_UNIT: Final = re.compile(r"[^A-Za-z]*[0-9](\s*)([^\W\d_][^\s\d.,]{0,7}|°[^\s\d.,]{0,2})")
"""A number with a unit behind, as in `71.4 kg`; one letter without a blank, as in `12A`, is a code's."""
_IN_PARENTHESES: Final = re.compile(r"\s*([$€£¥]?)\s*\((?=.*[0-9])([^()]*)\)\s*")
_PLAIN: Final = re.compile("[+-]?[0-9]+", re.ASCII)
_PADDED_WITH_ZEROS: Final = re.compile(r"\D*0[0-9]|\D*0[.,'\u2019_\s][0-9]{3}(?![0-9])", re.ASCII)
"""Begins with a zero: as a first group of thousands it would be idle, and figures alone are then an identifier."""


@dataclass(frozen=True, slots=True)
class Written:
    """How values write numbers.

    Attributes
    ----------
    options : mapping or None
        Of a feature that reads them; None where the values do not say which, or a person has to decide.
    why : str
        What was seen, and what to do.
    parse : callable or None
        Returns the number of a value, by the options; None where there are none.
    """

    options: Mapping[str, Any] | None
    why: str
    parse: Parse | None = None


def as_text(values: Collection[str], *, many: bool) -> Written | None:
    """Return how texts write numbers; None if they do not.

    Parameters
    ----------
    values : collection of str
        Distinct, at least one.
    many : bool
        Whether there are so many that figures without a separator are numbers rather than codes.
    """
    figures = [value for value in values if _PLAIN.fullmatch(value)]
    if len(figures) >= MOSTLY * len(values) and any(map(_PADDED_WITH_ZEROS.match, figures)):
        return None
    if len(figures) == len(values):
        if not many:
            return None
        return Written(None, f'figures as text: as = "number", parse = "text", unless they are {_CODES}')
    if any(map(_IN_PARENTHESES.fullmatch, values)):
        signed = as_text({_IN_PARENTHESES.sub(r"-\1\2", value) for value in values}, many=True)
        what = "numbers, some in parentheses, as bookkeepers write those below 0: write them with a minus"
        return None if signed is None else Written(None, what)
    marks = Counter(mark for value in values for mark in set(_CURRENCY.findall(value)))
    kind, bare = "currencies", [_CURRENCY.sub("", value) for value in values]
    if not marks and (units := _units(values)):
        marks, kind = units, "units"
        bare = [value[: unit.start(2)] if (unit := _UNIT.fullmatch(value)) else value for value in values]
    if len(marks) > 1 and marks.most_common(2)[1][1] > (1 - MOSTLY) * len(values):
        some = ", ".join(mark for mark, _ in marks.most_common(3))
        if _best(bare, "") is not None:
            return Written(None, f"numbers as text in several {kind} ({some}): convert them to one before")
        return None
    mark = marks.most_common(1)[0][0] if marks else ""
    found = _best(list(values), mark)
    if found is None:
        return None
    what = f"the unit {mark}" if kind == "units" else "a currency"
    return _described(found, what if mark else "", values)


def _units(values: Collection[str]) -> Counter[str]:
    """Return the units behind nearly all numbers, with how many of them have each; none where they may be codes."""
    found = [unit for value in values if (unit := _UNIT.fullmatch(value)) is not None]
    units = Counter(unit[2] for unit in found if is_currency(unit[2]))
    are_codes = all(len(unit) == 1 for unit in units) and (len(units) > 1 or not any(unit[1] for unit in found))
    is_mostly = len(values) > FEW_NUMBERS and units.total() >= MOSTLY * len(values)
    return units if is_mostly and not are_codes else Counter()


_CODES: Final = "codes or an identifier"


@dataclass(frozen=True, slots=True)
class _Reading:
    """A notation, and the number that each value is by it."""

    options: Mapping[str, Any]
    parse: Parse
    numbers: Sequence[float | None]

    @property
    def count(self) -> int:
        return sum(number is not None for number in self.numbers)


def _best(values: Sequence[str], currency: str) -> list[_Reading] | None:
    """Return the readings of most values that differ in a number, the simplest first; None if they are no numbers."""
    readings = list(_readings(values, currency))
    most = max(reading.count for reading in readings)
    if most < MOSTLY * len(values):
        return None
    best = [reading for reading in readings if reading.count == most]
    kept: list[_Reading] = []
    for reading in best:
        if all(reading.numbers != other.numbers for other in kept):
            kept.append(reading)
    return kept


def _readings(values: Sequence[str], currency: str) -> Iterator[_Reading]:
    for thousands, decimal in product(THOUSANDS_SEPARATORS, DECIMAL_SEPARATORS):
        if thousands == decimal:
            continue
        parse = number_of_text(decimal, thousands, currency)
        options = {"decimal": decimal, "thousands": thousands, "currency": currency}
        default = {"decimal": ".", "thousands": "", "currency": ""}
        given = {name: value for name, value in options.items() if value != default[name]}
        numbers = [None if thousands and _PADDED_WITH_ZEROS.match(value) else parse(value) for value in values]
        finite = [None if number is None or math.isinf(number) else number for number in numbers]
        yield _Reading({"as": "number", "parse": "text", **given}, parse, finite)


def _described(readings: Sequence[_Reading], mark: str, values: Collection[str]) -> Written:
    first = readings[0]
    if len(readings) > 1:
        at = next(at for at, number in enumerate(first.numbers) if number != readings[1].numbers[at])
        value = list(values)[at]
        choices = " or ".join(f"{_shown(one.options)} ({one.numbers[at]:.10g})" for one in readings)
        return Written(None, f"numbers as text, but {value!r} can be read in {len(readings)} ways: add {choices}")
    what = [
        *([mark] if mark else []),
        *(["a percent sign"] if any("%" in value for value in values) else []),
        *(["thousands separators"] if first.options.get("thousands") else []),
        *(["a decimal comma"] if first.options.get("decimal") else []),
    ]
    why = f"numbers as text{' with ' if what else ''}{' and '.join(what)}"
    return Written(first.options, why, first.parse)


def _shown(options: Mapping[str, Any]) -> str:
    return ", ".join(f'{name} = "{value}"' for name, value in options.items() if name != "as")

"""Made-up events with the columns that a recipe makes of them, by which a reader in any language checks its own code.

They are a pure function of the recipe: what stands in it, fixed times and numbers. Nothing in them is of the stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from streamsvm.branches.events.features.notations import MOST_CHARACTERS
from streamsvm.branches.events.features.recipe import Category, Flag, Hash, Number, OfField, Recipe, Time
from streamsvm.field_paths import Path

if TYPE_CHECKING:
    from streamsvm.branches.events.features.columns import FeatureColumns

COUNT: Final = 4
RELATIVE: Final = 1e-12
"""How far a reader's column may be from the one given, as a share of it, where it is beyond 1."""

_SHARES: Final = (0.123, 0.875, -0.5, 1.75)
"""Where numbers lie in the range that a recipe knows of, the last two outside."""
_TIMES: Final = (1_768_484_096, 1_782_907_199, 951_827_696, 1_900_000_000)
"""In seconds: winter and summer, a leap day, years ahead."""
_TEXTS: Final = ("2026-01-15T13:34:56Z", "2026-07-01T13:59:59.5+02:00", "2000-02-29T12:34:56", "2030-03-17T17:46:40Z")


class Example(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An event, and its columns that are not 0, by their names."""

    event: dict[str, Any]
    columns: dict[str, float]


def examples_of(recipe: Recipe, columns: FeatureColumns) -> tuple[Example, ...]:
    """Return the examples of a recipe; the last one lacks every field that it may lack.

    Where two features want a field to be of different types, an event that cannot have both is left out.
    """
    events = [_event(recipe, index) for index in range(COUNT)]
    made = columns.of_events(events)
    return tuple(
        Example(event, {name: value for name, value in zip(columns.names, row, strict=True) if value})
        for index, (event, row) in enumerate(zip(events, made.X.tolist(), strict=True))
        if index not in made.faults
    )


def disagreement(columns: FeatureColumns, given: tuple[Example, ...]) -> str:
    """Say in which column this build makes something else of the given events; empty if in none."""
    if len(given) > COUNT:
        return f"there are {len(given)} examples; a recipe has at most {COUNT}"
    made = columns.of_events([example.event for example in given])
    for index, (example, row) in enumerate(zip(given, made.X.tolist(), strict=True)):
        if (fault := made.faults.get(index)) is not None:
            return f"example {index}: this build rejects the event: {fault.what}"
        if unknown := sorted(example.columns.keys() - set(columns.names)):
            return f"example {index}: the recipe has no column {unknown[0]!r}"
        for name, value in zip(columns.names, row, strict=True):
            expected = example.columns.get(name, 0.0)
            if not abs(value - expected) <= RELATIVE * max(1.0, abs(expected)):
                return f"example {index}: this build computes {name} as {value!r}, but the message says {expected!r}"
    return ""


def _event(recipe: Recipe, index: int) -> dict[str, Any]:
    event: dict[str, Any] = {}
    for feature in recipe.of_fields:
        for path, value in _values(feature, index):
            _put(event, path, value)
    return event


def _values(feature: OfField, index: int) -> Iterator[tuple[Path, Any]]:
    if index == COUNT - 1 and feature.missing != "reject":
        return
    if isinstance(feature, Time):
        stretch = {"iso8601": None, "s": 1, "ms": 1_000, "us": 1_000_000}[feature.format]
        for path, at in ((feature.field, index), (feature.since, (index + 2) % COUNT)):
            if path is not None:
                yield path, _TEXTS[at] if stretch is None else _TIMES[at] * stretch
    else:
        yield feature.field, _value(feature, index)


def _value(feature: Number | Category | Hash | Flag, index: int) -> Any:
    if isinstance(feature, Category):
        return [*feature.values[: COUNT - 2], "?"][min(index, len(feature.values[: COUNT - 2]))]
    if isinstance(feature, Hash):
        return ("a", "bc", "é", "4711")[index]
    if isinstance(feature, Flag):
        return index % 2 == 0
    low, high = feature.clip or (0.0, 100.0 * feature.unit)
    if feature.buckets:
        low, high = feature.buckets[0] * feature.unit, feature.buckets[-1] * feature.unit or 1.0
    return _written(feature, low + _SHARES[index] * (high - low))


def _written(feature: Number, number: float) -> Any:
    """Return a number as the feature's events write it, to four decimals; what would be too long stays a number."""
    if feature.parse == "text":
        text = f"{number:{',' if feature.thousands else ''}.4f}"
        text = text.translate({ord(","): feature.thousands, ord("."): feature.decimal})
        text = f"{text} {feature.currency}" if feature.currency else text
        return text if len(text) <= MOST_CHARACTERS else number
    return number


def _put(event: dict[str, Any], path: Path, value: Any) -> None:
    """Put a value under a path, unless another feature's field stands there or in its way."""
    inside: Any = event
    for step, following in zip(path, (*path[1:], None), strict=True):
        inside = _opened(inside, step, value if following is None else [] if isinstance(following, int) else {})
        if inside is None:
            return


def _opened(inside: Any, step: str | int, fresh: Any) -> Any:
    """Return what stands at a step, put there first if nothing does; None where no step leads inside."""
    if isinstance(step, str) and isinstance(inside, dict):
        return inside.setdefault(step, fresh)
    if isinstance(step, int) and isinstance(inside, list):
        inside.extend([None] * (step + 1 - len(inside)))
        inside[step] = fresh if inside[step] is None else inside[step]
        return inside[step]
    return None

"""Where a field stands in an event: keys of objects and indices of arrays, from the outside in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

Path = tuple[str | int, ...]
"""For example ("card", "country") or ("items", 0, "price")."""

DEEPEST: Final = 16
"""Most steps of a path. Records nest deeper only if they are made to."""
LARGEST_INDEX: Final = 10_000

_STEP: Final = re.compile(r"[^.\[\]]+|\[[0-9]{1,5}\]")
_WRITTEN: Final = re.compile(r"[^.\[\]]+(\[[0-9]{1,5}\]|\.[^.\[\]]+)*")


UNAVAILABLE: Final = "__debezium_unavailable_value"
"""What Debezium writes for a column that an update of its row did not bring along: a missing value."""


class Unreachable:
    """Stands for a field whose place in an event cannot exist: what should hold it is something else.

    Attributes
    ----------
    why : str
    """

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why


def path_of(written: object) -> Path:
    """Read a path as it is written in a configuration: `card.country`, `items[0].price`, or a list of the steps.

    A list is needed for a key that holds a dot or a bracket.

    Raises
    ------
    ValueError
        Saying what a path looks like.
    """
    if isinstance(written, str) and _WRITTEN.fullmatch(written):
        return checked(tuple(int(step[1:-1]) if step[0] == "[" else step for step in _STEP.findall(written)))
    if isinstance(written, list | tuple):
        return checked(tuple(written))
    raise ValueError(f"{written!r} is not a field: write card.country, items[0].price, or a list of keys")


def checked(path: Path) -> Path:
    """Return a path that can be followed.

    Raises
    ------
    ValueError
        If it is empty, too long, or has a step that is not a key or an index.
    """
    if not 1 <= len(path) <= DEEPEST:
        raise ValueError(f"a field has 1 to {DEEPEST} keys, but {len(path)} are given")
    if not isinstance(path[0], str):
        raise ValueError(f"a field begins with a key, not with {path[0]!r}")
    for step in path:
        if isinstance(step, bool) or not isinstance(step, str | int) or step == "":
            raise ValueError(f"{step!r} is not a key of an object or an index of an array")
        if isinstance(step, int) and not 0 <= step <= LARGEST_INDEX:
            raise ValueError(f"the index {step} is not 0 to {LARGEST_INDEX}")
    return path


def shown(path: Path) -> str:
    """Write a path for people: as `path_of` reads it, unless a key holds a dot or a bracket."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def repeated(names: Sequence[object]) -> str | None:
    """Return the first name that two columns have, as text; None if all differ."""
    return next((name for name, times in Counter(map(str, names)).items() if times > 1), None)


def unreadable(value: object, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield the places inside an event whose values cannot be read, and why."""
    if isinstance(value, Unreachable):
        yield path, value.why
    elif isinstance(value, Mapping | list):
        for step, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from unreadable(inner, (*path, step))


def picked(events: Sequence[Mapping[str, Any]], path: Path) -> list[Any]:
    """Return a field of each event; None where it is absent or null, or where what should hold it is.

    An `Unreachable` stands where what should hold the field is neither an object nor an array.
    """
    return followed([event.get(path[0]) for event in events], path, 1)  # type: ignore[arg-type]


def followed(values: list[Any], path: Path, depth: int) -> list[Any]:
    """Follow the rest of a path from what stands under so many of its first steps, as `picked` does."""
    for at, step in enumerate(path[depth:], depth):
        values = [_inside(value, step, path[:at]) for value in values]
    return values


def _inside(value: object, step: str | int, outer: Path) -> object:
    if isinstance(step, str) and isinstance(value, dict):
        return value.get(step)
    if isinstance(step, int) and isinstance(value, list):
        return value[step] if step < len(value) else None
    if value is None or value == UNAVAILABLE:
        return None
    if isinstance(value, Unreachable):
        return value
    wanted = "an object" if isinstance(step, str) else "an array"
    return Unreachable(f"{shown(outer)} is {_NAMES.get(type(value), 'a value')}, not {wanted}")


_NAMES: Final = {
    dict: "an object",
    list: "an array",
    str: "text",
    bool: "a boolean",
    int: "a number",
    float: "a number",
}

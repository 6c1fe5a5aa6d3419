"""Names of the algorithms that options choose: the trunk's own, and those that rooms add (`streamsvm.sockets`).

The types are for options: whoever checks a value against one, as pydantic and typer do, refuses an unknown name and
lists those there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from streamsvm.sockets import choices

OWN: Final = {
    "coreset.reducer": ("uniform", "calibrated"),
    "coreset.structure": ("tree", "chain"),
}
"""The trunk's own names, by option."""


def names(option: str) -> tuple[str, ...]:
    """Return the choices of an option, the trunk's own first."""
    return (*OWN[option], *dict(choices(option)))


def described(option: str) -> str:
    """Return what rooms say about an option, to stand behind the trunk's own description."""
    return "".join(f" {text}" for name, text in choices("descriptions") if name == option)


def one_of(option: str) -> str:
    """Return the choices of an option in words: 'tree', 'chain' or 'other'."""
    *others, last = (f"'{name}'" for name in names(option))
    return f"{', '.join(others)} or {last}" if others else last


if TYPE_CHECKING:
    ReducerName = str
    StructureName = str
else:
    ReducerName = Literal[names("coreset.reducer")]
    StructureName = Literal[names("coreset.structure")]

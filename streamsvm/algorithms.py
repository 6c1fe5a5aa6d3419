"""Names of the algorithms that options choose: the trunk's own, and those that rooms add (`streamsvm.plugs`).

The types are for options: whoever checks a value against one, as pydantic and typer do, refuses an unknown name and
lists those there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from streamsvm.plugs import added

OWN: Final = {
    "svm.solver": ("stda",),
    "coreset.reducer": ("uniform", "calibrated"),
    "coreset.structure": ("tree", "chain"),
}
"""The trunk's own names, by option."""
COUNTER: Final = "counter"
"""The structure that a `tree` without `coreset.buckets` is. A room has it."""


def names(option: str) -> tuple[str, ...]:
    """Return the choices of an option, the trunk's own first."""
    return (*OWN[option], *added(option))


def one_of(option: str) -> str:
    """Return the choices of an option in words: 'tree', 'chain' or 'other'."""
    *others, last = (f"'{name}'" for name in names(option))
    return f"{', '.join(others)} or {last}" if others else last


if TYPE_CHECKING:
    SolverName = str
    ReducerName = str
    StructureName = str
else:
    SolverName = Literal[names("svm.solver")]
    ReducerName = Literal[names("coreset.reducer")]
    StructureName = Literal[names("coreset.structure")]

"""Every measure of a tree, with the bound that it is asked to keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from tests.structure import code, spread
from tests.structure.tree import BESIDE, Module, Tree
from tests.structure.walk import Walk

PUBLISH: Final = "VersionPublisher.publish"
FORGET: Final = "forget_command"
LIFE: Final = "consumers.trainer.life"
NEAR: Final = 3
"""Calls within which a reader still follows; further rooms are counted in a row of their own."""


@dataclass(frozen=True)
class Measure:
    """One row.

    Attributes
    ----------
    name : str
    now : float or None
        None where the tree has nothing to measure.
    asked : int or None
        The most that is allowed; None in a row that only tells.
    violations : sequence of str
        What makes up a number that is too large, or all that is counted where there is no bound.
    """

    name: str
    now: float | None
    asked: int | None = None
    violations: Sequence[str] = field(default=())

    @property
    def is_kept(self) -> bool:
        """Whether there is no bound, or it is kept."""
        return self.asked is None or (self.now is not None and self.now <= self.asked)


def measures(tree: Tree) -> list[Measure]:
    """Return all rows of a tree."""
    return [*_size(tree), *_spread(tree), *_rooms(tree), *_code(tree)]


def learning_lines(tree: Tree) -> dict[str, int]:
    """Return the lines of each module that one must know to change learning or publishing.

    These are the trunk's without `BESIDE`: a branch counts until it stands in a folder of its own.
    """
    return {module.path.as_posix(): module.lines for module in tree.trunk if not module.matches(BESIDE)}


def _size(tree: Tree) -> list[Measure]:
    learning = learning_lines(tree)
    return [
        Measure("product, lines", tree.product_lines, 93_300),
        Measure("outside branches/, papers/ and drop-ins, lines", tree.trunk_lines),
        Measure("trunk of learning and publishing, lines", sum(learning.values()), 33_000, _longest(learning)),
    ]


def _spread(tree: Tree) -> list[Measure]:
    named = spread.names_of(tree)
    in_trunk = {branch: [one for one in found if one.is_trunk] for branch, found in named.items()}
    own = {branch: set(spread.own_files(tree, branch)) for branch in named}
    others = set().union(*own.values())
    in_trunk = {branch: [one for one in found if one.name not in others] for branch, found in in_trunk.items()}
    rows = [
        Measure(
            "branches that the trunk names, of nine",
            sum(bool(found) for found in in_trunk.values()),
            0,
            [f"{branch}: {_paths(found)}" for branch, found in in_trunk.items() if found],
        ),
        Measure("files outside its own that name a branch, median", median(map(len, named.values()))),
    ]
    return [*rows, *(Measure(f"  {branch}", len(found), None, [_paths(found)]) for branch, found in named.items())]


def _rooms(tree: Tree) -> list[Measure]:
    walk, rows = Walk(tree), []
    for name, asked in ((PUBLISH, 14), (FORGET, 25)):
        start = walk.find(name)
        rooms = walk.rooms(start) if start is not None else {}
        near = sorted(room for room, calls in rooms.items() if calls <= NEAR)
        called = name.rpartition(".")[2].removesuffix("_command")
        rows += [
            Measure(f"rooms of {called}, within {NEAR} calls", len(near) if rooms else None, asked, near),
            Measure(f"rooms of {called}, to the end", len(rooms) if rooms else None),
        ]
    return rows


def _code(tree: Tree) -> list[Measure]:
    found: Mapping[str, tuple[int, Sequence[tuple[str, int]]]] = {
        f"modules over {code.LONG_LINES} lines, tables apart": (0, code.long_modules(tree)),
        f"classes with over {code.MANY_ATTRIBUTES} attributes, compiled state apart": (0, code.large_classes(tree)),
        f"functions with {code.MANY_PARAMETERS} or more positional parameters": (20, code.long_signatures(tree)),
    }
    rows = [
        Measure(name, len(held), asked, [f"{one}: {count}" for one, count in held])
        for name, (asked, held) in found.items()
    ]
    most = max((count for _, count in found[list(found)[1]][1]), default=0)
    imports = sorted(tree.imports_of(LIFE)) if LIFE in tree.modules else None
    doubled = [f"{name}: {', '.join(places)}" for name, places in code.doubled_classes(tree)]
    return [
        rows[0],
        Measure("own imports of life.py", len(imports) if imports is not None else None, 20, imports or ()),
        rows[1],
        Measure(f"  most attributes, where over {code.MANY_ATTRIBUTES}", most),
        rows[2],
        Measure("class names that exist twice", len(doubled), 10, doubled),
    ]


def _longest(lines: Mapping[str, int], count: int = 12) -> list[str]:
    return [f"{path}: {lines[path]}" for path in sorted(lines, key=lambda path: -lines[path])[:count]]


def _paths(modules: Sequence[Module]) -> str:
    return ", ".join(sorted(module.path.as_posix() for module in modules))


def table(rows: Sequence[Measure], before: Sequence[Measure] | None, what: Callable[[float | None], str]) -> str:
    """Return rows as text: `measure | now | asked`, or with a column before it."""
    head = ["measure", *(["before"] if before else []), "now", "asked"]
    lines = [head]
    for at, row in enumerate(rows):
        was = [what(before[at].now)] if before else []
        lines.append([row.name, *was, what(row.now), "" if row.asked is None else what(row.asked)])
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    return "\n".join(
        " | ".join(
            [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        ).rstrip()
        for line in lines
    )

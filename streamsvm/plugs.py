"""Rooms beside the trunk: packages of `streamsvm` that add choices to its options, found by their folder.

A room is a package with a module `plug`, whose `PLUG` lists by socket and name what the room adds. A socket is a table
of the trunk: `svm.solver` is the solvers by the names they have in the configuration, `estimators` what
`streamsvm.estimators` offers besides its own. The trunk names no room, so one whose folder is deleted leaves nothing
behind but choices and estimators that are unknown then.

Invariant: `plug` imports nothing else of its room. What a name stands for is imported when it is first asked for, so a
program that uses no room loads none of what rooms need.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

_PACKAGE: Final = __name__.partition(".")[0]
_FOLDER: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Choices of a room that go with some values of another option only; a row of `streamsvm.supports`.

    Attributes
    ----------
    option : str
        The option's dotted name.
    choices : tuple of str
    other : str
        The other option.
    only : tuple of str
        Its values that the choices go with.
    why, remedy : str
        As in `streamsvm.supports.Row`.
    """

    option: str
    choices: tuple[str, ...]
    other: str
    only: tuple[str, ...]
    why: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plug:
    """What a room adds to the trunk.

    Attributes
    ----------
    adds : mapping of str to mapping of str to str
        By socket and name, where the object is: `package.module:attribute`.
    says : mapping of str to str
        By option, sentences for its description.
    refusals : tuple of Refusal
    """

    adds: Mapping[str, Mapping[str, str]]
    says: Mapping[str, str] = field(default_factory=dict)
    refusals: tuple[Refusal, ...] = ()


@cache
def plugs() -> tuple[Plug, ...]:
    """Return the plugs of the rooms that are there, in the order of their names."""
    return tuple(import_module(f"{_PACKAGE}.{room}.plug").PLUG for room in rooms())


def rooms() -> Iterator[str]:
    """Yield the names of the packages that have a plug; none of them is imported."""
    for package in pkgutil.iter_modules([str(_FOLDER)]):
        if package.ispkg and "plug" in (part.name for part in pkgutil.iter_modules([str(_FOLDER / package.name)])):
            yield package.name


def added(socket: str) -> dict[str, str]:
    """Return what rooms add to a socket: where the object of each name is."""
    return {name: place for plug in plugs() for name, place in plug.adds.get(socket, {}).items()}


def said(option: str) -> str:
    """Return what rooms say about an option, to stand behind the trunk's own description."""
    return "".join(f" {plug.says[option]}" for plug in plugs() if option in plug.says)


Object = TypeVar("Object")


class PluggedTable(Mapping[str, Object], Generic[Object]):
    """What a socket has by name: the trunk's own, then that of the rooms, which is imported at its first use.

    Parameters
    ----------
    socket : str
    own : mapping of str to object
    """

    def __init__(self, socket: str, own: Mapping[str, Object]) -> None:
        self._own, self._added = dict(own), added(socket)

    def __getitem__(self, name: str) -> Object:
        return self._own[name] if name in self._own else _loaded(self._added[name])

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self._added

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from self._added

    def __len__(self) -> int:
        return len(self._own) + len(self._added)


def _loaded(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)

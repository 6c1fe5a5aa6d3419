"""How a branch is plugged into the trunk, which does not contain its name.

The trunk is what the one sentence of the design needs. Everything else is a *branch*: a folder in
`streamsvm/branches/`, in `consumers/branches/`, or in both; or a *room*, a folder of `streamsvm` itself, which adds
choices to options and names to the package.

Each folder has a module `plug` with a mapping ``PLUGS`` of plain text. It lists, by socket, where the branch's objects
are: ``{"message_parts": ("streamsvm.branches.x.part:PART",)}``. A socket of choices also has a name for each:
``{"coreset.reducer": {"other": "streamsvm.x.reducers:other"}}``. A module of the trunk that has a socket calls
`plugged` with the socket's name, and gets the objects. If a folder is deleted, all of the branch is gone with it.

Nothing of a branch is imported before one of its sockets is read, and then only what is listed for that socket. Of
choices, only the one that is chosen is imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Final, Generic, TypeVar

LIBRARY: Final = "streamsvm.branches"
DAEMONS: Final = "consumers.branches"
ROOMS: Final = LIBRARY.partition(".")[0]
PLUG: Final = "plug"
Kind = TypeVar("Kind")
Object = TypeVar("Object")


@cache
def branches(root: str = LIBRARY) -> tuple[str, ...]:
    """Return the branches in a folder, in ascending order of their names."""
    return tuple(sorted(found.name for found in iter_modules(_places(root)) if found.ispkg))


@cache
def rooms() -> tuple[str, ...]:
    """Return the packages of `streamsvm` itself that have a plug, in ascending order of their names."""
    names = branches(ROOMS)
    return tuple(name for name in names if any(one.name == PLUG for one in iter_modules(_places(ROOMS, name))))


def _places(root: str, *below: str) -> list[str]:
    """Return the folders of a package, or of one in it, without importing that."""
    spec = find_spec(root)
    found = spec.submodule_search_locations if spec is not None else None
    return [str(Path(place, *below)) for place in found or ()]


def plugged(socket: str, kind: type[Kind], root: str = LIBRARY) -> tuple[Kind, ...]:
    """Return what the branches have for a socket, in the order of the branches' names.

    Parameters
    ----------
    socket : str
    kind : type
        What the socket takes.
    root : str
        `LIBRARY` or `DAEMONS`.

    Raises
    ------
    TypeError
        If something else is plugged in.
    """
    return tuple(_checked(where, import_name(where), kind) for where in plugs(socket, root))


def plugs(socket: str, root: str = LIBRARY) -> Iterator[str]:
    """Yield what stands at a socket, as text, without loading it."""
    for found in _at(socket, root):
        yield from found


def choices(socket: str) -> Iterator[tuple[str, str]]:
    """Yield what stands at a socket of choices, by its name, as text."""
    for found in _at(socket, LIBRARY):
        yield from found.items()


def _at(socket: str, root: str) -> Iterator[Any]:
    """Yield what each branch has for a socket; those of the library are followed by the rooms."""
    packages = [f"{root}.{name}" for name in branches(root)]
    packages += [f"{ROOMS}.{name}" for name in rooms() if root == LIBRARY]
    for package in packages:
        own = import_module(f"{package}.{PLUG}").PLUGS
        if socket in own:
            yield own[socket]


class Choices(Mapping[str, Object], Generic[Object]):
    """What a socket of choices has by name: the trunk's own, then those plugged in.

    Parameters
    ----------
    socket : str
    own : mapping of str to object
    """

    def __init__(self, socket: str, own: Mapping[str, Object]) -> None:
        self._own, self._plugged = dict(own), dict(choices(socket))

    def __getitem__(self, name: str) -> Object:
        return self._own[name] if name in self._own else import_name(self._plugged[name])

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self._plugged

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from self._plugged

    def __len__(self) -> int:
        return len(self._own) + len(self._plugged)


def _checked(where: str, found: object, kind: type[Kind]) -> Kind:
    if not isinstance(found, kind):
        raise TypeError(f"{where} is no {kind.__name__}")
    return found


def import_name(where: str) -> Any:
    """Return the object at `module:name`."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)

"""How a branch is plugged into the trunk, which does not know its name.

The trunk is the one sentence of the design. What that sentence does not need is a *branch*: a folder of its own in
`streamsvm/branches/` and one in `consumers/branches/`, each with a module `plug` that says, in a mapping ``PLUGS`` of
plain text, what it has for which socket: ``{"message_parts": ("streamsvm.branches.x.part:PART",)}``. Whoever in the
trunk has a socket asks for what is plugged in there. A folder that is deleted takes everything of the branch with it.

Nothing of a branch is loaded before its socket is asked for, and then only what stands at that socket.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Final, TypeVar

LIBRARY: Final = "streamsvm.branches"
DAEMONS: Final = "consumers.branches"
PLUG: Final = "plug"
Kind = TypeVar("Kind")


@cache
def branches(root: str = LIBRARY) -> tuple[str, ...]:
    """Return the branches in a folder, in ascending order of their names."""
    spec = find_spec(root)
    places = spec.submodule_search_locations if spec is not None else None
    return tuple(sorted(found.name for found in iter_modules(places) if found.ispkg)) if places else ()


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
    for name in branches(root):
        yield from import_module(f"{root}.{name}.{PLUG}").PLUGS.get(socket, ())


def _checked(where: str, found: object, kind: type[Kind]) -> Kind:
    if not isinstance(found, kind):
        raise TypeError(f"{where} is no {kind.__name__}")
    return found


def import_name(where: str) -> object:
    """Return the object at `module:name`."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)

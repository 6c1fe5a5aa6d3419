"""The socket of the status: what a branch adds to `/status.json` and to the page of a trainer, where it is on.

A branch plugs a `Block` in at the socket `status`. Its field is in the shape of the status, and so in the schema,
wherever the branch is installed; it is in the JSON, and its piece on the page, only where the branch is on.

Invariant: this module knows no shape of the trunk, so that a branch can declare its own with it whichever is loaded
first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from consumers.metrics import Metrics
from consumers.page.markup import Markup
from consumers.settings import Settings
from streamsvm.sockets import DAEMONS, import_name, plugged

SOCKET: Final = "status"
STATUS: Final = ""
"""The part of the status that is the trainer's status itself."""
INPUT: Final = "input"
Shape = TypeVar("Shape", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """What a branch adds to the status of a trainer.

    Attributes
    ----------
    part : str
        Where it stands: `STATUS` or `INPUT`.
    name : str
        Of its field in the JSON.
    shape : type of Struct
    wanted : callable
        Tells whether a configuration turns the branch on.
    collect : callable
        Returns the block's value from settings and metrics.
    draw : str
        Module and name, ``module:name``, of what takes the value and the whole status, and returns the piece of the
        page. It is loaded where the branch is on.
    """

    part: str
    name: str
    shape: type[msgspec.Struct]
    wanted: Callable[[Settings], bool]
    collect: Callable[[Settings, Metrics], msgspec.Struct]
    draw: str


def open_to_branches(part: str) -> Callable[[type[Shape]], type[Shape]]:
    """Return a decorator that adds the fields of the branches to a part of the status."""

    def opened(trunk: type[Shape]) -> type[Shape]:
        fields: Any = [(one.name, one.shape | msgspec.UnsetType, msgspec.UNSET) for one in _blocks(part)]
        made: Any = msgspec.defstruct(
            trunk.__name__,
            fields,
            bases=(trunk,),
            module=trunk.__module__,
            namespace={"__doc__": trunk.__doc__},
            frozen=True,
            kw_only=True,
        )
        return made if fields else trunk

    return opened


def collected(part: str, settings: Settings, metrics: Metrics) -> dict[str, Any]:
    """Return the fields of the branches that are on."""
    return {one.name: one.collect(settings, metrics) for one in _blocks(part) if one.wanted(settings)}


def pieces(part: str, holder: msgspec.Struct, status: msgspec.Struct) -> list[Markup]:
    """Return what the branches that are on show of their fields.

    Parameters
    ----------
    part : str
    holder : Struct
        That part of the status.
    status : Struct
        The whole.
    """
    found = []
    for one in _blocks(part):
        value = getattr(holder, one.name)
        if value is not msgspec.UNSET:
            draw = import_name(one.draw)
            assert callable(draw)
            found.append(draw(value, status))
    return found


def count_of(metrics: Metrics, name: str) -> int:
    """Return the value of a metric without labels; 0 where it has none."""
    return int(metrics.values(name).get((), 0.0))


def counts_of(metrics: Metrics, name: str) -> dict[str, int]:
    """Return the values of a metric by its label."""
    return {labels[0]: int(value) for labels, value in metrics.values(name).items()}


def _blocks(part: str) -> list[Block]:
    return [one for one in plugged(SOCKET, Block, DAEMONS) if one.part == part]

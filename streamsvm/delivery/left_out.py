"""Where a model reads on from that must be without rows: a branch knows, at the socket ``resuming``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.model.left_out import LeftOut
from streamsvm.model.pointers import Head
from streamsvm.sockets import plugged


@dataclass(frozen=True, slots=True)
class Resuming:
    """What stands at the socket.

    Attributes
    ----------
    obeys : callable of (Snapshot, LeftOut) -> bool
        Tells whether a checkpoint was made without the rows, or is of another input.
    emptied : callable of (Snapshot, LeftOut, Head or None) -> Snapshot
        Returns what to continue from instead of a checkpoint that may hold rows; the same one, if it obeys.
    """

    obeys: Callable[[Snapshot, LeftOut], bool]
    emptied: Callable[[Snapshot, LeftOut, Head | None], Snapshot]


def obeys(snapshot: Snapshot, left_out: LeftOut) -> bool:
    """Tell whether a checkpoint was made without the rows, or is of another input."""
    return _resuming().obeys(snapshot, left_out)


def emptied(snapshot: Snapshot, left_out: LeftOut, head: Head | None) -> Snapshot:
    """Return what to continue from instead of a checkpoint that may hold rows; the same one, if it obeys."""
    return _resuming().emptied(snapshot, left_out, head)


def _resuming() -> Resuming:
    (found,) = plugged("resuming", Resuming)  # who reads the record knows what follows of it
    return found

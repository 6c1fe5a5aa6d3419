"""What a version's record says of how far it can be from the best model over all rows, as far as the trunk knows it.

A header of the record, not hashed, has it. What it holds, and who proves it, is the business of a branch, which reads
it at the socket ``version_bounds``. Without such a branch no version has bounds, and readers leave the header.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from streamsvm.sockets import plugged

SOCKET = "version_bounds"


class VersionBounds(Protocol):
    """Bounds of the optimum over all rows, and of a version's objective there; ``str`` of them is a sentence."""

    @property
    def gap(self) -> float | None:
        """How far the version can be from the best model, as a share of that one's objective; None: not known."""

    @property
    def proven(self) -> bool:
        """Whether the gap is proven, and not estimated."""

    @property
    def bounded(self) -> int:
        """Rows that were learned with other values than they came with."""

    def header(self) -> tuple[str, str]:
        """Return name and content of the header: the same bounds give the same bytes."""

    def plain(self) -> dict[str, object]:
        """Return everything as a plain JSON value."""

    def figures(self) -> str:
        """Return both bounds for people, neither rounded to the side that says too much."""


@dataclass(frozen=True, slots=True)
class Header:
    """What stands at the socket.

    Attributes
    ----------
    name : str
    decode : callable
        Takes the content; returns None if that is nothing that makes sense.
    """

    name: str
    decode: Callable[[bytes], VersionBounds | None]


def header_in(headers: Iterable[tuple[str, bytes]]) -> tuple[str, bytes] | None:
    """Return the header with bounds among those of a version's record, unread; None if there is none that we know."""
    found: Mapping[str, bytes] = dict(headers)
    return next(((one.name, found[one.name]) for one in plugged(SOCKET, Header) if one.name in found), None)


def read_bounds(headers: Iterable[tuple[str, bytes]]) -> VersionBounds | None:
    """Return what the headers of a version's record say; None if that is nothing, or nothing that makes sense."""
    found = dict(headers)
    said = (one.decode(found[one.name]) for one in plugged(SOCKET, Header) if one.name in found)
    return next(filter(None, said), None)

"""Rows of an input that a model must be without, as far as the trunk knows of them.

A record of the aliases topic, ``name@erased``, names them. What it holds, who writes it and what is made of it is the
business of a branch, which reads it at the socket ``left_out``. Without such a branch the record stays `UnknownRecord`:
readers of models go on, since published versions stay what they are, and whoever would learn the rows refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import numpy as np

from streamsvm.errors import ConfigurationError
from streamsvm.points import Position, Rows
from streamsvm.sockets import plugged

Places = Mapping[int, Collection[Position]]
"""Positions by partition."""
_REMEDY: Final = "Use the installation that wrote the record: this one lacks the branch that reads it."


class LeftOut(Protocol):
    """What such a record says.

    Attributes
    ----------
    sha256 : str
        By which a checkpoint names the record that it obeys.
    incarnation : int
        The newest incarnation that may have learned one of the rows.
    rows : collection
        Of as many entries as there are rows.
    """

    @property
    def sha256(self) -> str: ...  # noqa: D102

    @property
    def incarnation(self) -> int: ...  # noqa: D102

    @property
    def rows(self) -> Collection[Any]: ...  # noqa: D102

    def is_of(self, topic: str, topic_id: str) -> bool:
        """Return whether the rows are of this topic, not of another one of the same name."""

    def places(self, before: int | None = None) -> Mapping[int, frozenset[Position]]:
        """Return the places by partition; `before` a version's number, only those that it must be without."""


@dataclass(frozen=True, slots=True)
class UnknownRecord:
    """A record that no branch of this installation reads."""


@dataclass(frozen=True, slots=True)
class LeftOutDecoder:
    """What reads the record's value, at the socket; raises `InvalidMessage` if it is not one."""

    decode: Callable[[bytes], LeftOut]


def left_out_key(name: str) -> str:
    """Return the key of the record."""
    return f"{name}@erased"


def decode_left_out(value: bytes) -> LeftOut | UnknownRecord:
    """Read the record's value.

    Raises
    ------
    InvalidMessage
        If it is no such record.
    """
    readers = plugged("left_out", LeftOutDecoder)
    return readers[0].decode(value) if readers else UnknownRecord()


def require_read(name: str, found: LeftOut | UnknownRecord | None) -> LeftOut | None:
    """Return what was read.

    Raises
    ------
    ConfigurationError
        If there is something that this installation cannot read.
    """
    if isinstance(found, UnknownRecord):
        raise ConfigurationError(
            f"the aliases topic holds the record {left_out_key(name)}: rows of the input were erased, and this "
            "installation would learn them again",
            _REMEDY,
        )
    return found


def masked(rows: Rows, places: Places) -> Rows:
    """Return rows of which those at some places are rejected; the same object where none is."""
    own = places.get(rows.partition)
    if not own or not len(rows):
        return rows
    here = frozenset(own)
    if len(here) < len(rows):  # the shorter of the two is gone through
        first, last = int(rows.offset[0]), int(rows.offset[-1])
        here = frozenset(at for at in here if first <= at.offset <= last)
    if not here:
        return rows
    every = zip(rows.offset.tolist(), rows.row.tolist(), strict=True)
    accepted = rows.accepted & ~np.fromiter((at in here for at in every), np.bool_, len(rows))
    points, unknown = rows.points, ~accepted & rows.accepted
    # Nothing of them goes on, not even where nobody looks.
    X = np.where(unknown[:, None], np.zeros(1, points.X.dtype), points.X)
    return replace(rows, accepted=accepted, points=replace(points, X=X))

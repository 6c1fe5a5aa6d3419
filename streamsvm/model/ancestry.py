"""Which earlier versions a version names by their hashes, so that an old one is reached in few steps.

Each version names its predecessor (`lineage.parent`), and beside it the greatest multiples of 2, 4, 8, ... below its
number (`lineage.links`): 100 names 99, and 98, 96 and 64. From the newest version n, whose hash stands in the aliases
topic, version t is reached by always going to the least number that is named and not below t. At most log2(n) + 2
versions are read: the first step leads to a multiple of a power of two that is less than this power above t, and every
further one at least halves the power.

Links by distance (n - 2, n - 4, n - 8, ...) would do as well for readers, but a writer would have to remember the hash
of every version to make the next ones. Of the multiples it remembers log2(n), in its head record.

Source: deterministic skip lists (Munro, Papadakis, Sedgewick 1992), as a chain of hashes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec


class Ancestor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An earlier version: its number, and the SHA-256 of its value."""

    number: int
    sha256: str


Numbered = TypeVar("Numbered")


def linked(number: int) -> tuple[int, ...]:
    """Return the numbers that a version links to besides its predecessor, descending."""
    found: list[int] = []
    span = 2
    while span < number:
        at = (number - 1) // span * span
        if at != number - 1 and at not in found[-1:]:
            found.append(at)
        span *= 2
    return tuple(found)


def chosen(number: int, known: Iterable[tuple[int, Numbered]]) -> tuple[Numbered, ...]:
    """Return what is known of the versions that version `number` links to, in the order of its links.

    Parameters
    ----------
    number : int
    known : iterable of (int, anything)
        Numbers of versions, each with what is known of it.
    """
    of = dict(known)
    return tuple(of[at] for at in linked(number) if at in of)

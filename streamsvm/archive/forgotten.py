"""Rows that an archive must not remember, by their positions.

A forgotten row is learned as one that was rejected when it came: it keeps its place in the count of rows, and changes
nothing else. So buckets without it are those of a stream in which a rejected row stood there, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from streamsvm.errors import CorruptCheckpoint
from streamsvm.points import Position, Rows

MOST: Final = 1 << 20
"""Most forgotten rows: their list is read at every start."""
Forgotten = Mapping[int, Collection[Position]]
"""Positions by partition."""


def masked(rows: Rows, forgotten: Forgotten) -> Rows:
    """Return rows of which the forgotten ones are rejected; the same object where none is."""
    own = forgotten.get(rows.partition)
    if not own or not len(rows):
        return rows
    first, last = int(rows.offset[0]), int(rows.offset[-1])
    here = [at for at in own if first <= at.offset <= last]
    if not here:
        return rows
    accepted = rows.accepted.copy()
    for at in here:
        accepted[(rows.offset == at.offset) & (rows.row == at.row)] = False
    points, unknown = rows.points, ~accepted & rows.accepted
    # Nothing of them goes on, not even where nobody looks.
    X = np.where(unknown[:, None], np.zeros(1, points.X.dtype), points.X)
    return replace(rows, accepted=accepted, points=replace(points, X=X))


def encode(forgotten: Forgotten) -> bytes:
    """Return the bytes of `forgotten.json`: only places, nothing of what stood there."""
    plain = {str(p): sorted(list(at) for at in own) for p, own in sorted(forgotten.items()) if own}
    return json.dumps(plain, sort_keys=True).encode() + b"\n"


def decode(content: bytes) -> dict[int, frozenset[Position]]:
    """Read the bytes of `forgotten.json`.

    Raises
    ------
    CorruptCheckpoint
    """
    try:
        plain = json.loads(content)
        found = {int(p): frozenset(Position(int(at[0]), int(at[1])) for at in own) for p, own in plain.items()}
    except (ValueError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise CorruptCheckpoint(f"it is damaged: {error}") from None
    if sum(map(len, found.values())) > MOST:
        raise CorruptCheckpoint(f"it names more than {MOST} rows")
    return found

"""What a worker of its own knows of each partition that it owns, learned or awaited."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from streamsvm.branches.workers.coreset_records import Opening
from streamsvm.branches.workers.coreset_writer import PartitionWriter
from streamsvm.coreset.partition import PartitionState
from streamsvm.points import Position, Rows


class NewestRows:
    """The newest rows of a partition before its position.

    Parameters
    ----------
    most : int
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts = deque[Rows]()

    def add(self, rows: Rows) -> None:
        """Take in rows that were learned; what is kept is all of their arrays, until newer ones came."""
        if not len(rows):
            return
        self._parts.append(rows.slice(max(0, len(rows) - self._most), len(rows)).detached())
        count = sum(map(len, self._parts))
        while count - len(self._parts[0]) >= self._most:
            count -= len(self._parts.popleft())

    def rows(self) -> Rows | None:
        """Return them, in the order of the log."""
        if not self._parts:
            return None
        whole = Rows.union(list(self._parts))
        return whole.slice(max(0, len(whole) - self._most), len(whole))


@dataclass(slots=True)
class Owned:
    """A partition that is learned."""

    opening: Opening
    writer: PartitionWriter
    newest: NewestRows
    published: Position
    published_at: float
    published_rows: int
    rows: int
    begun: PartitionState | None
    read_to: int | None = None


@dataclass(slots=True)
class Awaited:
    """A partition that is owned and not learned yet."""

    why: str = "it was not looked at yet"
    look_at: float = -math.inf
    follow: int | None = field(default=None)

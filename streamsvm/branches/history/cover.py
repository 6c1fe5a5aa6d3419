"""Which buckets of an archive make a range of a partition, and which rows must be read from the log besides.

A range of a complete tree is the union of two nodes a level at most. The rule here is greedier and needs no complete
tree: from the left, the longest bucket that begins here and ends within the range; where none begins here, the rows up
to the next that does must be read. So a bucket that is missing or damaged costs its two halves, or a read, and never an
answer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from streamsvm.branches.history.names import Node
from streamsvm.points import Position

Range = tuple[Position, Position]
"""Rows from the first position up to but not including the second."""


@dataclass(frozen=True, slots=True)
class Read:
    """Rows of a range that no bucket holds by itself."""

    start: Position
    end: Position


Step = Node | Read


def cover(nodes: Iterable[Node], start: Position, end: Position) -> list[Step]:
    """Return what makes a range of a partition, the oldest first, without an overlap.

    Parameters
    ----------
    nodes : iterable of Node
        Of that partition.
    start, end : Position
    """
    longest: dict[Position, list[Node]] = {}
    for node in nodes:
        if start <= node.start and node.end <= end:
            longest.setdefault(node.start, []).append(node)
    begins, found, at = sorted(longest), list[Step](), start
    while at < end:
        here = longest.get(at)
        if here:
            found.append(max(here, key=lambda node: (node.end, node.level, node.sha256)))
            at = found[-1].end
            continue
        place = bisect_left(begins, at)
        after = begins[place] if place < len(begins) else end
        found.append(Read(at, after))
        at = after
    return found


def without(ranges: Sequence[Range], holes: Sequence[Range]) -> list[Range]:
    """Return ranges, in order and apart, without the rows of others."""
    left = sorted(ranges)
    for first, last in holes:
        left = [part for start, end in left for part in _outside(start, end, first, last)]
    return left


def _outside(start: Position, end: Position, first: Position, last: Position) -> Iterator[Range]:
    if last <= start or end <= first or last <= first:
        yield start, end
        return
    if start < first:
        yield start, first
    if last < end:
        yield last, end


def before(nodes: Sequence[Node], time_ms: int) -> int | None:
    """Return the index of the first bucket that has a record of a time or later; None if none has.

    Parameters
    ----------
    nodes : sequence of Node
        Of one partition, in order and apart.
    time_ms : int
    """
    return next((index for index, node in enumerate(nodes) if node.last_time_ms >= time_ms), None)


def spans(nodes: Iterable[Node]) -> list[Node]:
    """Return the shortest buckets, so that each row is in one of them: spans, and what is left of lost ones."""
    found = list[Node]()
    for node in sorted(nodes, key=lambda one: (one.level, one.start)):
        if not any(other.start < node.end and node.start < other.end for other in _near(found, node)):
            found.append(node)
            found.sort(key=lambda one: one.start)
    return found


def _near(sorted_nodes: Sequence[Node], node: Node) -> Sequence[Node]:
    place = bisect_left([one.start for one in sorted_nodes], node.start)
    return sorted_nodes[max(0, place - 1) : place + 1] if sorted_nodes else []

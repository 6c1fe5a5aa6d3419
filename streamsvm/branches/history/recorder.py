"""One partition's rows on their way into the archive, as a trainer learns them or as a rebuild reads them again.

Invariant: the buckets that come out depend on the rows and their number alone, not on where recording began: who begins
within a span waits for the next one. What is missing before that is made again from the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from streamsvm.branches.history.aligned import are_siblings, waiting
from streamsvm.branches.history.names import Node
from streamsvm.branches.history.store import Store
from streamsvm.branches.history.stretches import SpanPartition
from streamsvm.config import ModelConfig
from streamsvm.coreset.structure import Bucket
from streamsvm.errors import CorruptCheckpoint
from streamsvm.learning.partition_state import PartitionState
from streamsvm.points import Position, Rows


class Recorder:
    """Makes the buckets of one partition.

    Parameters
    ----------
    partition : int
    base : Position
        Where the numbers of its series begin.
    config : ModelConfig
        As of `streamsvm.branches.history.stretches.archived`.
    at : Position
        The next row that will come.
    rows : int
        Rows between both.
    """

    def __init__(self, partition: int, base: Position, config: ModelConfig, at: Position, rows: int) -> None:
        self.partition, self.base = partition, base
        self._config, self._at = config, at
        self._span = config.coreset.span_rows or 1
        self.skipping = -rows % self._span
        """Rows that are left out until a span begins."""
        self._first_row = rows + self.skipping
        self._own: SpanPartition | None = None
        self._begin_if_due()

    @staticmethod
    def restored(
        partition: int, base: Position, config: ModelConfig, state: PartitionState, waits: Sequence[Bucket]
    ) -> Recorder:
        """Return a recorder that goes on where another was saved.

        Parameters
        ----------
        partition, base, config
            As of the class.
        state : PartitionState
            Its open span.
        waits : sequence of Bucket
            Those that wait for their siblings, the oldest first.
        """
        made = Recorder(partition, base, config, state.position, 0)
        made._own = SpanPartition(partition, base, config)
        made._own.restore(replace(state, buckets=(*waits, *state.buckets)))
        return made

    @property
    def position(self) -> Position:
        """The next row to record."""
        return self._at if self._own is None else self._own.position

    @property
    def state(self) -> PartitionState | None:
        """The open span, for the next start; None before one begins."""
        return None if self._own is None else self._own.state()

    def learn(self, rows: Rows, until: Position | None = None) -> list[Bucket]:
        """Take rows in, and return the buckets that this completes."""
        if self._own is None:
            self._skip(rows, until)
        return [] if self._own is None else self._own.learn(rows, until)

    def _skip(self, rows: Rows, until: Position | None) -> None:
        first, stop = rows.index_of(self._at), len(rows) if until is None else rows.index_of(until)
        passed = min(self.skipping, stop - first)
        if passed > 0:
            self.skipping -= passed
            self._at = rows.position_after(first + passed - 1)
        self._begin_if_due()

    def _begin_if_due(self) -> None:
        if not self.skipping:
            self._own = SpanPartition(self.partition, self._at, self._config, self._first_row)


def waits_at(store: Store, nodes: Sequence[Node], at: Position) -> list[Bucket]:
    """Return the buckets that wait for their siblings where a span begins, the oldest first.

    One that is missing or damaged, and those before it, are left out: what they would become is made by a rebuild.

    Parameters
    ----------
    store : Store
    nodes : sequence of Node
        Of one series.
    at : Position
    """
    ends: dict[Position, list[Node]] = {}
    for node in nodes:
        ends.setdefault(node.end, []).append(node)
    found = list[Bucket]()
    while here := ends.get(at, ()):
        place = waiting([(node.level, node.number) for node in here])
        if place is None:
            break
        (node, *_) = [node for node in here if (node.level, node.number) == place]
        try:
            found.append(store.read(node))
        except CorruptCheckpoint:
            break
        at = node.start
    return found[::-1]


def missing_parents(nodes: Sequence[Node]) -> list[tuple[Node, Node]]:
    """Return the pairs of siblings, of the lowest level that has any, which did not become one.

    Parameters
    ----------
    nodes : sequence of Node
        Of one series.
    """
    there = {(node.level, node.number): node for node in nodes}
    pairs = [
        (node, there[level, number + 1])
        for (level, number), node in there.items()
        if not number % 2 and (level, number + 1) in there and (level + 1, number // 2) not in there
    ]
    lowest = min((older.level for older, _ in pairs), default=0)
    return sorted(pair for pair in pairs if pair[0].level == lowest and pair[0].end == pair[1].start)


def parent_of(older: Bucket, newer: Bucket, partition: int, config: ModelConfig) -> Bucket:
    """Return what two siblings become, as if they had become it when the newer was made."""
    assert are_siblings(older, newer)
    return SpanPartition(partition, older.extent.start, config).parent(older, newer)


def series_of(nodes: Sequence[Node]) -> dict[tuple[int, Position], list[Node]]:
    """Return buckets by partition and base, in order: each incarnation counts its rows anew."""
    found: dict[tuple[int, Position], list[Node]] = {}
    for node in nodes:
        found.setdefault((node.partition, node.base), []).append(node)
    return found


def of_partitions(nodes: Sequence[Node]) -> Mapping[int, list[Node]]:
    """Return buckets by partition, in order."""
    found: dict[int, list[Node]] = {}
    for node in nodes:
        found.setdefault(node.partition, []).append(node)
    return found

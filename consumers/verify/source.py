"""Where the rows come from that `verify` goes through again: the input topic, or what a branch puts in its place."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from types import MappingProxyType
from typing import Final

from streamsvm.errors import TransientError
from streamsvm.ingest.decoder import PointDecoder
from streamsvm.kafka import Cluster, SchemaRegistry
from streamsvm.model.left_out import Places, masked
from streamsvm.points import Position, Positions, Rows
from streamsvm.verification.recomputation import Recomputation

BATCH_RECORDS: Final = 1_000
POLL_S: Final = 0.1
BACKLOG_BYTES: Final = 64 << 20
"""Decoded rows that wait because other partitions must come first; beyond it only those others are read."""


class ReplaySource(ABC):
    """Reads rows and brings a learner from cut to cut.

    Parameters
    ----------
    topic : str
        The input.
    timeout_s : float
    """

    def __init__(self, topic: str, timeout_s: float) -> None:
        self._topic, self._timeout_s = topic, timeout_s
        self._backlog: dict[int, deque[Rows]] = {}

    @abstractmethod
    def close(self) -> None:
        """Let go of the broker."""

    @abstractmethod
    def _read(self, behind: Positions, positions: Positions) -> None:
        """Read on into the backlog: all partitions, or at least those that are behind."""

    def advance(self, recomputation: Recomputation, cut: Positions) -> None:
        """Learn each partition up to its part of a cut.

        Raises
        ------
        OffsetOutOfRange
            If the log no longer holds what is needed.
        TransientError
            If nothing came in time.
        """
        since = time.monotonic()
        while behind := self._behind(recomputation.positions, cut):
            if any(self._learn(recomputation, partition, cut[partition]) for partition in behind):
                since = time.monotonic()
            elif time.monotonic() - since > self._timeout_s:
                raise self._stuck(behind, cut)
            else:
                self._read(behind, recomputation.positions)

    def _behind(self, positions: Positions, cut: Positions) -> dict[int, Position]:
        """Return the partitions that a cut has not been reached in, nor passed because its last record is gone."""
        return {
            partition: at
            for partition, at in positions.items()
            if at < cut[partition]
            and not ((waiting := self._backlog.get(partition)) and waiting[0].index_of(cut[partition]) == 0)
        }

    def _learn(self, recomputation: Recomputation, partition: int, until: Position) -> bool:
        """Learn what waits of a partition up to its part of a cut; return whether there was anything."""
        waiting = self._backlog.get(partition)
        if not waiting:
            return False
        while waiting:
            rest = recomputation.learn(waiting.popleft(), until)
            if len(rest):
                waiting.appendleft(rest)
                break
        return True

    def _stuck(self, behind: Positions, cut: Positions) -> TransientError:
        partition, at = next(iter(sorted(behind.items())))
        return TransientError(
            f"{self._topic}[{partition}] returned no records from offset {at.offset} to {cut[partition].offset} "
            f"within {self._timeout_s:g} s",
            "Check that the broker runs and that no transaction is open there, and try again.",
        )


class InputSource(ReplaySource):
    """The input topic.

    Parameters
    ----------
    cluster : Cluster
    recomputation : Recomputation
    timeout_s : float
    schemas : SchemaRegistry, optional
    without : mapping of partition to positions
        Rows that are learned as rejected ones.
    """

    def __init__(
        self,
        cluster: Cluster,
        recomputation: Recomputation,
        timeout_s: float,
        schemas: SchemaRegistry | None = None,
        without: Places = MappingProxyType({}),
    ) -> None:
        super().__init__(recomputation.topic, timeout_s)
        self._without = without
        self._decoder = PointDecoder(recomputation.config.points, schemas=schemas, recipe=recomputation.config.recipe)
        self._input = cluster.input(self._topic, None)
        self._assigned: frozenset[int] = frozenset()

    def close(self) -> None:
        """Let go of the broker."""
        self._input.close()

    def _read(self, behind: Positions, positions: Positions) -> None:
        """Read on: all partitions, or only those that are behind where too much of the others waits already."""
        waiting_bytes = sum(rows.points.nbytes for waiting in self._backlog.values() for rows in waiting)
        if waiting_bytes > BACKLOG_BYTES:
            self._assign(behind)
        elif not behind.keys() <= self._assigned:
            self._assign(positions)
        for rows in self._decoder.decode(self._input.poll(BATCH_RECORDS, POLL_S)).rows:
            self._backlog.setdefault(rows.partition, deque()).append(masked(rows, self._without).detached())

    def _assign(self, positions: Positions) -> None:
        self._input.assign({partition: at.offset for partition, at in positions.items()})
        self._assigned = frozenset(positions)
        self._backlog = {}

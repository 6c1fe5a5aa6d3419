"""Joins of two logs as bytes: the part of a checkpoint that those have whose labels come from a log of their own.

Invariant: as of `streamsvm.checkpoint.partition_codec`, whose arrays these are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamsvm.checkpoint.partition_codec import PlacedArray, PlacedPoints, StateReader, StateWriter
from streamsvm.errors import CorruptCheckpoint
from streamsvm.joining.joiner import JoinState, LogState
from streamsvm.model.version import PartitionCut, partition_cuts, positions
from streamsvm.points import Position, Rows

_JOIN_DTYPES: Final = ("<u8", "<i8", "<i8", "<i4", "|i1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """What a checkpoint holds of a join.

    Attributes
    ----------
    topic, topic_id : str
        Of the labels.
    base : mapping of partition to Position
        Where labels began to count.
    partitions : mapping of partition to JoinState
    waiting : mapping of partition to Rows
        Joined, and not learned yet; partitions in which nothing waits are left out.
    """

    topic: str
    topic_id: str
    base: Mapping[int, Position]
    partitions: Mapping[int, JoinState]
    waiting: Mapping[int, Rows]


class PlacedJoinLog(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Describes how far a log is merged."""

    next: tuple[int, int]
    time_ms: int
    leader_epoch: int


class PlacedWaiting(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Describes rows that are joined and wait to be learned."""

    offset: PlacedArray
    row: PlacedArray
    time_ms: PlacedArray
    leader_epoch: PlacedArray
    labels_offset: PlacedArray
    points: PlacedPoints


class PlacedJoin(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Describes the join of a partition."""

    partition: int
    features: PlacedJoinLog
    labels: PlacedJoinLog
    scalars: tuple[int, int, int, int]
    counts: tuple[int, ...]
    rows: tuple[PlacedArray, PlacedArray, PlacedArray, PlacedArray, PlacedArray]
    row_points: PlacedPoints
    early: tuple[PlacedArray, PlacedArray, PlacedArray, PlacedArray, PlacedArray]
    waiting: PlacedWaiting | None


class PlacedJoining(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Describes a join."""

    topic: str
    topic_id: str
    base: tuple[PartitionCut, ...]
    partitions: tuple[PlacedJoin, ...]


class JoinWriter(StateWriter):
    """Writes a join besides the states of partitions."""

    def joining(self, joining: Joining) -> PlacedJoining:
        """Append a join."""
        return PlacedJoining(
            topic=joining.topic,
            topic_id=joining.topic_id,
            base=partition_cuts(joining.base, {}),
            partitions=tuple(
                self.join(partition, state, joining.waiting.get(partition))
                for partition, state in sorted(joining.partitions.items())
            ),
        )

    def join(self, partition: int, state: JoinState, waiting: Rows | None) -> PlacedJoin:
        """Append the join of a partition."""
        features, labels = (
            PlacedJoinLog(next=log.next, time_ms=log.time_ms, leader_epoch=log.leader_epoch)
            for log in (state.features, state.labels)
        )
        rows = (state.row_key, state.row_time, state.row_offset, state.row_row, state.row_sign)
        early = (state.early_key, state.early_time, state.early_offset, state.early_row, state.early_sign)
        return PlacedJoin(
            partition=partition,
            features=features,
            labels=labels,
            scalars=state.scalars,
            counts=state.counts,
            rows=tuple(self.array(array) for array in rows),  # type: ignore[arg-type]
            row_points=self.points(state.row_points),
            early=tuple(self.array(array) for array in early),  # type: ignore[arg-type]
            waiting=None if waiting is None else self.waiting(waiting),
        )

    def waiting(self, rows: Rows) -> PlacedWaiting:
        """Append rows that wait to be learned."""
        assert rows.labels_offset is not None
        return PlacedWaiting(
            offset=self.array(rows.offset),
            row=self.array(rows.row),
            time_ms=self.array(rows.time_ms),
            leader_epoch=self.array(rows.leader_epoch),
            labels_offset=self.array(rows.labels_offset),
            points=self.points(rows.points),
        )


class JoinReader(StateReader):
    """Reads a join besides the states of partitions."""

    def joining(self, placed: PlacedJoining) -> Joining:
        """Read a join."""
        # In the order in which they were written.
        partitions, waiting = {}, {}
        for one in placed.partitions:
            partitions[one.partition] = self.join(one)
            if one.waiting is not None:
                waiting[one.partition] = self.waiting(one.partition, one.waiting)
        return Joining(
            topic=placed.topic,
            topic_id=placed.topic_id,
            base=positions(placed.base),
            partitions=partitions,
            waiting=waiting,
        )

    def join(self, placed: PlacedJoin) -> JoinState:
        """Read the join of a partition."""
        row_key, row_time, row_offset, row_row, row_sign = self.columns(placed.rows, _JOIN_DTYPES)
        row_points = self.points(placed.row_points)
        early_key, early_time, early_offset, early_row, early_sign = self.columns(placed.early, _JOIN_DTYPES)
        if len(row_points) != len(row_key):
            raise CorruptCheckpoint("a join has arrays of different lengths")
        features, labels = (
            LogState(next=Position(*log.next), time_ms=log.time_ms, leader_epoch=log.leader_epoch)
            for log in (placed.features, placed.labels)
        )
        return JoinState(
            features=features,
            labels=labels,
            scalars=placed.scalars,
            counts=placed.counts,
            row_key=row_key,
            row_time=row_time,
            row_offset=row_offset,
            row_row=row_row,
            row_sign=row_sign,
            row_points=row_points,
            early_key=early_key,
            early_time=early_time,
            early_offset=early_offset,
            early_row=early_row,
            early_sign=early_sign,
        )

    def columns(self, placed: Sequence[PlacedArray], dtypes: Sequence[str]) -> list[NDArray[Any]]:
        """Read arrays of one length, each of its type."""
        if [one.dtype for one in placed] != list(dtypes):
            raise CorruptCheckpoint(f"columns of a join are described as {[one.dtype for one in placed]}")
        columns = [self.array(one) for one in placed]
        if len({one.shape for one in columns}) != 1 or columns[0].ndim != 1:
            raise CorruptCheckpoint("a join has arrays of different lengths")
        return columns

    def waiting(self, partition: int, placed: PlacedWaiting) -> Rows:
        """Read rows that wait to be learned."""
        written = (placed.offset, placed.row, placed.time_ms, placed.leader_epoch, placed.labels_offset)
        offset, row, time_ms, epoch, labels = self.columns(written, ["<i8"] * len(written))
        points = self.points(placed.points)
        if len(points) != len(offset):
            raise CorruptCheckpoint("rows that wait have arrays of different lengths")
        return Rows(
            partition=partition,
            offset=offset,
            row=row,
            last=np.zeros(len(offset), np.bool_),
            time_ms=time_ms,
            accepted=np.ones(len(offset), np.bool_),
            points=points,
            leader_epoch=epoch,
            labels_offset=labels,
        )

"""Rows as they are decoded: blocks in which all is well, and rows one by one between them.

Invariant: rows are added in the order of their partitions, those of each in the order of its log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import PointsConfig
from streamsvm.ingest.columns import RawRecord, Run, or_unknown, stretches
from streamsvm.ingest.row import Point
from streamsvm.points import LookedUp, Points, Rows, id_hashes

Ids = Sequence[str | int | None]


@dataclass(frozen=True, slots=True)
class Rejection:
    """One rejected row: where it stood, why, and the particulars."""

    row: int
    reason: str
    what: str


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record with at least one rejected row.

    Attributes
    ----------
    record : RawRecord
    rows : int
        Rows of the parsed record.
    rejections : tuple of Rejection
    """

    record: RawRecord
    rows: int
    rejections: tuple[Rejection, ...]


class RowsBuilder:
    """Collects rows, of any partitions: blocks in which all is well, and rows one by one between them.

    Parameters
    ----------
    config : PointsConfig
    keeps_ids : bool
    name : str
        Of the model under which ids are hashed; empty: they are not.
    """

    def __init__(self, config: PointsConfig, *, keeps_ids: bool, name: str = "") -> None:
        self._config, self._keeps_ids, self._name = config, keeps_ids, name
        self._blocks: dict[int, list[Rows]] = {}
        self.ids: list[str | int | None] = []
        self.rejected: list[RejectedRecord] = []
        self._begin()

    def _begin(self) -> None:
        self._x: list[list[float]] = []
        self._sign: list[int] = []
        self._weight: list[float] = []
        self._ids: list[str | int | None] = []
        self._accepted: list[bool] = []
        self._passed: list[bool] = []
        self._at: list[tuple[int, int, int, bool, int, int]] = []

    def add(
        self,
        run: Run,
        rows: int | None,
        points: Points,
        ids: Ids | None,
        *,
        accepted: NDArray[np.bool_] | None = None,
        passed_over: NDArray[np.bool_] | None = None,
        event_ms: NDArray[np.int64] | None = None,
    ) -> None:
        """Add one record of so many rows, or many of one row each (None).

        Parameters
        ----------
        run : Run
        rows : int or None
        points : Points
        ids : sequence of (str, int or None), or None
            None: no row has one.
        accepted : ndarray of shape (n,), bool, optional
            Default: all.
        passed_over : ndarray of shape (n,), bool, optional
            Rows that are not accepted, and not rejected. Default: none.
        event_ms : ndarray of shape (n,), int64, optional
            When each event happened; -1, and the default: at the record's time.
        """
        self._end_block()
        n, several = len(points), rows is not None
        partition, offset, times, epoch = run.partition, run.offset, run.times, run.leader_epoch
        if several:
            offset, epoch = np.full(n, offset[0]), np.full(n, epoch[0])
            times = LookedUp.of(np.full(n, times.take(slice(0, 1)).known()))
            partition = partition[:1]
        if event_ms is not None:
            times = LookedUp.of(np.where(event_ms < 0, times.known(), event_ms))
        last = np.ones(n, dtype=np.bool_)
        last[: n - 1] = not several
        row = np.arange(n) if several else np.zeros(n, dtype=np.int64)
        self._split(
            partition,
            Rows(
                partition=int(partition[0]),
                offset=offset,
                row=row,
                last=last,
                times=times,
                accepted=np.ones(n, dtype=np.bool_) if accepted is None else accepted,
                points=points,
                leader_epoch=epoch,
                passed_over=passed_over,
                id_hash=self._hashes(ids),
            ),
        )
        if self._keeps_ids:
            self.ids.extend([None] * n if ids is None else ids)

    def add_several(self, run: Run, counts: NDArray[np.int64], points: Points, ids: Ids | None) -> None:
        """Add records of so many rows each, at least one."""
        self._end_block()
        end = np.cumsum(counts)
        n = len(points)
        last = np.zeros(n, dtype=np.bool_)
        last[end - 1] = True
        self._split(
            run.partition if run.partition[0] == run.partition[-1] else np.repeat(run.partition, counts),
            Rows(
                partition=int(run.partition[0]),
                offset=np.repeat(run.offset, counts),
                row=np.arange(n) - np.repeat(end - counts, counts),
                last=last,
                times=LookedUp.of(np.repeat(run.times.known(), counts)),
                accepted=np.ones(n, dtype=np.bool_),
                points=points,
                leader_epoch=np.repeat(run.leader_epoch, counts),
                id_hash=self._hashes(ids),
            ),
        )
        if self._keeps_ids:
            self.ids.extend([None] * n if ids is None else ids)

    def accept(self, record: RawRecord, row: int, point: Point, sign: int) -> None:
        """Add a valid row."""
        self._x.append(point.x)
        self._append(record, row, sign, point.w, point.id, accepted=True)

    def reject(self, record: RawRecord, row: int) -> None:
        """Add a row that is not a valid point: it keeps its place."""
        self._append(record, row, 1, 1.0, None, accepted=False)

    def pass_over(self, record: RawRecord, row: int) -> None:
        """Add a row that is neither accepted nor rejected: it keeps its place."""
        self.reject(record, row)
        self._passed[-1] = True

    def _append(
        self, record: RawRecord, row: int, sign: int, weight: float, id_: str | int | None, *, accepted: bool
    ) -> None:
        self._sign.append(sign)
        self._weight.append(weight)
        self._ids.append(id_)
        self._accepted.append(accepted)
        self._passed.append(False)
        time_ms, epoch = or_unknown(record.timestamp_ms), or_unknown(record.leader_epoch)
        self._at.append((record.partition, record.offset, row, False, time_ms, epoch))

    def end_record(self) -> None:
        """Say that the row added last was its record's last."""
        partition, offset, row, _, time_ms, epoch = self._at[-1]
        self._at[-1] = (partition, offset, row, True, time_ms, epoch)

    def _end_block(self) -> None:
        if not self._at:
            return
        accepted = np.array(self._accepted, dtype=np.bool_)
        X = np.zeros((len(accepted), self._config.dimension), self._config.numpy_dtype)  # takes no memory where unused
        if self._x:
            X[accepted] = np.array(self._x, dtype=np.float64)
        partition, offset, row, last, time_ms, epoch = np.array(self._at, dtype=np.int64).T
        points = Points(X, np.array(self._sign, dtype=np.int8), np.array(self._weight, np.float64))
        self.ids.extend(self._ids)
        self._split(
            partition,
            Rows(
                partition=int(partition[0]),
                offset=offset,
                row=row,
                last=last.astype(np.bool_),
                times=LookedUp.of(time_ms),
                accepted=accepted,
                points=points,
                leader_epoch=epoch,
                passed_over=np.array(self._passed) if any(self._passed) else None,
                id_hash=self._hashes(self._ids),
            ),
        )
        self._begin()

    def _hashes(self, ids: Ids | None) -> LookedUp | None:
        if not self._name or ids is None or (type(ids) is list and ids.count(None) == len(ids)):
            return None
        return id_hashes(ids, self._name)

    def _split(self, partition: NDArray[np.int64], rows: Rows) -> None:
        """Keep a block, split by partition: nowhere else are rows of several partitions separated."""
        if partition[0] == partition[-1]:
            self._blocks.setdefault(rows.partition, []).append(rows)
            return
        for own, start, stop in stretches(partition):
            part = replace(rows.slice(start, stop), partition=own)
            self._blocks.setdefault(own, []).append(part)

    def rows(self) -> list[Rows]:
        """Return the rows of each partition, in arrays of their own; those of a block may be the record's bytes."""
        self._end_block()
        return [_whole(blocks) for blocks in self._blocks.values()]


def _whole(blocks: list[Rows]) -> Rows:
    if len(blocks) > 1:
        return Rows.union(blocks)
    (block,) = blocks
    points = block.points
    if points.X.flags.writeable:
        return block
    return replace(block, points=Points(points.X.copy(), points.y, points.weight))

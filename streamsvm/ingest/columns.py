"""Consumed records as a codec sees them: one by one, or as the columns of a batch.

Invariant: a run holds the records of a batch partition by partition, in ascending order, those of each partition in the
order of their offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, cast, overload

import numpy as np
from numpy.typing import NDArray

from streamsvm.points import LookedUp


class RawRecord(Protocol):
    """What a codec needs to know of a consumed record."""

    @property
    def partition(self) -> int:
        """Partition of the record."""
        ...

    @property
    def offset(self) -> int:
        """Offset of the record."""
        ...

    @property
    def value(self) -> bytes | None:
        """Its bytes; None for a tombstone."""
        ...

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        """Its headers; names may repeat."""
        ...

    @property
    def timestamp_ms(self) -> int | None:
        """Its timestamp in the log, milliseconds."""
        ...

    @property
    def leader_epoch(self) -> int | None:
        """Leader epoch it was written under."""
        ...


class RecordBatch(Protocol):
    """Records that can be had column by column, without an object for each.

    Attributes
    ----------
    partitions, offsets, leader_epochs : ndarray of shape (n,), int64
        -1 where there is no epoch.
    sizes : ndarray of shape (n,), int64
        Bytes of each value.
    values : list of n bytes or None
    plain : bool
        Whether no record has headers.
    """

    partitions: NDArray[np.int64]
    offsets: NDArray[np.int64]
    leader_epochs: NDArray[np.int64]
    sizes: NDArray[np.int64]
    values: list[bytes | None]
    plain: bool

    def times_ms(self, at: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the times of the records at these indexes; -1 stands for no time."""
        ...


@dataclass(frozen=True, slots=True)
class Run:
    """Records in the order of their partitions, and their columns."""

    records: Sequence[RawRecord]
    values: list[bytes | None]
    size: NDArray[np.int64]
    partition: NDArray[np.int64]
    offset: NDArray[np.int64]
    times: LookedUp
    leader_epoch: NDArray[np.int64]
    plain: bool

    def __len__(self) -> int:
        return len(self.values)

    @property
    def time_ms(self) -> NDArray[np.int64]:
        """All times, shape (n,); -1 stands for no time."""
        return self.times.known()

    def headers(self, index: int) -> Sequence[tuple[str, bytes]]:
        """Return the headers of a record."""
        return () if self.plain else self.records[index].headers

    @staticmethod
    def of(records: Sequence[RawRecord]) -> Run:
        """Gather the columns of records, at least one, that are in order."""
        places = [(r.partition, r.offset, or_unknown(r.timestamp_ms), or_unknown(r.leader_epoch)) for r in records]
        partition, offset, time_ms, epoch = np.array(places, dtype=np.int64).T
        plain = not any(record.headers for record in records)
        values = [record.value for record in records]
        return Run(
            records,
            values,
            size=np.array([len(value or b"") for value in values]),
            partition=partition,
            offset=offset,
            times=LookedUp.of(time_ms),
            leader_epoch=epoch,
            plain=plain,
        )

    def slice(self, start: int, stop: int) -> Run:
        """Return some of the records."""
        if stop - start == len(self):
            return self
        part = slice(start, stop)
        return Run(
            self.records[part],
            self.values[part],
            size=self.size[part],
            partition=self.partition[part],
            offset=self.offset[part],
            times=self.times.take(part),
            leader_epoch=self.leader_epoch[part],
            plain=self.plain,
        )


def in_order(records: Sequence[RawRecord]) -> Run:
    """Return records, at least one, in the order of their partitions; those of each must be in their log's order."""
    batch = _with_columns(records)
    if batch is None:
        return Run.of(sorted(records, key=lambda record: record.partition))
    values, partition = batch.values, batch.partitions
    columns = batch.sizes, partition, batch.offsets, batch.leader_epochs
    at = np.arange(len(partition))
    if (partition[1:] < partition[:-1]).any():
        at = np.argsort(partition, kind="stable")
        records, values = _Some(records, at), list(map(values.__getitem__, at.tolist()))
        columns = tuple(column[at] for column in columns)  # type: ignore[assignment]
    size, partition, offset, epoch = columns
    return Run(
        records,
        values,
        size=size,
        partition=partition,
        offset=offset,
        times=LookedUp(batch.times_ms, at),
        leader_epoch=epoch,
        plain=batch.plain,
    )


def stretches(partition: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """Yield each partition of a column that is in order, with where its entries start and stop."""
    if not len(partition):
        return
    borders = [0, *(np.flatnonzero(partition[1:] != partition[:-1]) + 1).tolist(), len(partition)]
    for start, stop in pairwise(borders):
        yield int(partition[start]), start, stop


def by_partition(records: Sequence[RawRecord]) -> Iterator[tuple[int, Run]]:
    """Yield each partition, in ascending order, with its records."""
    if not len(records):
        return
    run = in_order(records)
    for partition, start, stop in stretches(run.partition):
        yield partition, run.slice(start, stop)


def _with_columns(records: Sequence[RawRecord]) -> RecordBatch | None:
    """Return records that have columns; to ask for all of the protocol would take as long as decoding many points."""
    return cast(RecordBatch, records) if hasattr(records, "offsets") else None


class _Some(Sequence[RawRecord]):
    """Some records of a batch, each made at its first use."""

    def __init__(self, records: Sequence[RawRecord], at: NDArray[np.intp]) -> None:
        self._records, self._at = records, at

    def __len__(self) -> int:
        return len(self._at)

    @overload
    def __getitem__(self, index: int) -> RawRecord: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[RawRecord]: ...
    def __getitem__(self, index: int | slice) -> RawRecord | Sequence[RawRecord]:
        if isinstance(index, slice):
            return _Some(self._records, self._at[index])
        return self._records[int(self._at[index])]


def or_unknown(number: int | None) -> int:
    """Return -1 where a record has no such number."""
    return -1 if number is None else number

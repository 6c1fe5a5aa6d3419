"""Consumed records as a codec sees them: one by one, or as the columns of a batch.

Invariant: a run holds consecutive records of one partition, in the order of their offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, cast, overload

import numpy as np
from numpy.typing import NDArray


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
    partitions, offsets, times_ms, leader_epochs : ndarray of shape (n,), int64
        -1 where there is no time or epoch.
    sizes : ndarray of shape (n,), int64
        Bytes of each value.
    values : list of n bytes or None
    plain : bool
        Whether no record has headers.
    """

    partitions: NDArray[np.int64]
    offsets: NDArray[np.int64]
    times_ms: NDArray[np.int64]
    leader_epochs: NDArray[np.int64]
    sizes: NDArray[np.int64]
    values: list[bytes | None]
    plain: bool


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive records of one partition, and their columns."""

    records: Sequence[RawRecord]
    values: list[bytes | None]
    size: NDArray[np.int64]
    offset: NDArray[np.int64]
    time_ms: NDArray[np.int64]
    leader_epoch: NDArray[np.int64]
    plain: bool

    def __len__(self) -> int:
        return len(self.values)

    def headers(self, index: int) -> Sequence[tuple[str, bytes]]:
        """Return the headers of a record."""
        return () if self.plain else self.records[index].headers

    @staticmethod
    def of(records: Sequence[RawRecord]) -> Run:
        """Gather the columns of records of one partition."""
        places = [(r.offset, or_unknown(r.timestamp_ms), or_unknown(r.leader_epoch)) for r in records]
        offset, time_ms, epoch = np.array(places, dtype=np.int64).T
        plain = not any(record.headers for record in records)
        values = [record.value for record in records]
        return Run(
            records,
            values,
            size=np.array([len(value or b"") for value in values]),
            offset=offset,
            time_ms=time_ms,
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
            offset=self.offset[part],
            time_ms=self.time_ms[part],
            leader_epoch=self.leader_epoch[part],
            plain=self.plain,
        )


def by_partition(records: Sequence[RawRecord]) -> Iterator[tuple[int, Run]]:
    """Yield each partition, in ascending order, with its records."""
    batch = _with_columns(records)
    if batch is None:
        grouped: dict[int, list[RawRecord]] = {}
        for record in records:
            grouped.setdefault(record.partition, []).append(record)
        for partition in sorted(grouped):
            yield partition, Run.of(grouped[partition])
        return
    columns = batch.sizes, batch.offsets, batch.times_ms, batch.leader_epochs
    partitions = batch.partitions
    if len(partitions) and (partitions == partitions[0]).all():
        yield int(partitions[0]), Run(records, batch.values, *columns, batch.plain)
        return
    for partition in np.unique(partitions).tolist():
        at = np.flatnonzero(partitions == partition)
        values = [batch.values[index] for index in at.tolist()]
        size, offset, time_ms, epoch = (column[at] for column in columns)
        yield (
            partition,
            Run(
                _Some(records, at),
                values,
                size=size,
                offset=offset,
                time_ms=time_ms,
                leader_epoch=epoch,
                plain=batch.plain,
            ),
        )


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

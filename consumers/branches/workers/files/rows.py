"""Rows of files as a learner takes them: checked by the decoder of records, each in its place.

A stretch of a table becomes one record of Arrow, which the decoder of the topic's records takes, so what is a valid
point, and why another row is none, is decided by the same code. Its rows then get the places of `files_part`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from consumers.branches.workers.files.plan import FilePart, FilesPlan
from consumers.branches.workers.files.survey import opened, partitions_in
from consumers.branches.workers.files.tables import TableFile, labels, numbers, times, vectors
from streamsvm.config import PointsConfig
from streamsvm.ingest import arrow
from streamsvm.ingest.decoder import CONTENT_TYPE_HEADER, PointDecoder
from streamsvm.ingest.row_builder import Rejection
from streamsvm.kafka import Record
from streamsvm.points import Rows, Times

CHUNK_ROWS: Final = 4_096
"""Rows decoded at once: a step of learning takes as many."""
_ENTRY: Final = re.compile(r"x\[(\d+)\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRow:
    """A row that is not a valid point.

    Attributes
    ----------
    partition : int
    file : str
    row : int
        In the file, from 1 on; a header is not counted.
    column : str
        Empty where the reason is no single column's.
    reason, message : str
    """

    partition: int
    file: str
    row: int
    column: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows of one partition that follow each other, and those among them that were rejected."""

    rows: Rows
    rejected: tuple[RejectedRow, ...]


def rows_in(plan: FilesPlan, config: PointsConfig, learned: Mapping[int, int]) -> Iterator[Stretch]:
    """Yield the rows of some partitions, each from so many rows on; parts that hold none of them are not opened.

    Parameters
    ----------
    plan : FilesPlan
    config : PointsConfig
    learned : mapping of partition to int
        Rows of each partition that are left out at its beginning.

    Raises
    ------
    ConfigurationError
        If a file cannot be read.
    StateError
        If it is another one than was hashed.
    """
    reader = _Reader(plan, config)
    before = dict.fromkeys(learned, 0)
    for part in plan.parts:
        after = {partition: before[partition] + part.rows[partition] for partition in learned}
        if any(part.rows[partition] and after[partition] > done for partition, done in learned.items()):
            yield from reader.read(part, before, learned)
        before = after


class _Reader:
    def __init__(self, plan: FilesPlan, config: PointsConfig) -> None:
        self._plan, self._layout, self._config = plan, plan.origin.layout, config
        self._decoder = PointDecoder(config)
        self._base = plan.origin.base
        own_bytes = max(1, 8 * (config.dimension + 4))
        self._chunk = max(1, min(CHUNK_ROWS, config.max_rows_per_record, config.max_record_bytes // (2 * own_bytes)))
        self._table: TableFile | None = None
        self._open = -1

    def read(self, part: FilePart, before: Mapping[int, int], learned: Mapping[int, int]) -> Iterator[Stretch]:
        layout, file = self._layout, self._plan.files[part.file]
        file.require_unchanged()
        if self._table is None or self._open != part.file:
            self._table, self._open = opened(file), part.file
        index, row = dict(before), part.first_row
        by = layout.partition or layout.key
        for batch in self._table.tables(part.index, layout.columns):
            column = batch.column(by) if by else None
            partition = partitions_in(column, len(batch), file.name, row, layout, len(part.rows))
            for own in sorted(learned):
                at = np.flatnonzero(partition == own)
                skipped = min(len(at), max(0, learned[own] - index[own]))
                first = index[own] + skipped
                index[own] += len(at)
                for start in range(skipped, len(at), self._chunk):
                    chunk = at[start : start + self._chunk]
                    yield self._stretch(own, first, batch.take(pa.array(chunk)), file.name, row + chunk)
                    first += len(chunk)
            row += len(batch)
        file.require_unchanged()

    def _stretch(self, partition: int, first: int, table: Any, name: str, places: NDArray[np.int64]) -> Stretch:
        """Decode a stretch that begins at the row `first` of its partition."""
        layout, config = self._layout, self._config
        x = vectors([table.column(feature) for feature in layout.features], config.dimension)
        y = labels(table.column(layout.label), config.labels)
        columns = {"x": x, "y": y}
        if layout.weight:
            columns["w"] = numbers(table.column(layout.weight))
        record = Record("", partition, 0, None, _encoded(columns), _HEADERS, None, None)
        decoded = self._decoder.decode([record])
        (rows,) = decoded.rows
        time_ms = times(table.column(layout.time) if layout.time else None, len(places))
        rejected = [bad for one in decoded.rejected for bad in one.rejections]
        return Stretch(
            self._placed(rows, partition, first, time_ms),
            tuple(self._rejected(bad, partition, name, places, columns) for bad in rejected),
        )

    def _placed(self, rows: Rows, partition: int, first: int, time_ms: NDArray[np.int64]) -> Rows:
        n, (base, _) = len(rows), self._base[partition]
        index = np.arange(first, first + n, dtype=np.int64)
        if self._plan.origin.in_topic:
            offset, row, last = base + index, np.zeros(n, np.int64), np.ones(n, np.bool_)
        else:
            offset, row, last = np.full(n, base), index, index == self._plan.origin.rows[partition] - 1
        return replace(rows, offset=offset, row=row, last=last, times=Times.of(time_ms), leader_epoch=np.full(n, -1))

    def _rejected(
        self, bad: Rejection, partition: int, name: str, places: NDArray[np.int64], columns: Mapping[str, Any]
    ) -> RejectedRow:
        return RejectedRow(
            partition=partition,
            file=name,
            row=int(places[bad.row]) + 1,
            column=self._column_at_fault(bad, columns),
            reason=bad.reason,
            message=bad.what,
        )

    def _column_at_fault(self, bad: Rejection, columns: Mapping[str, Any]) -> str:
        layout = self._layout
        if bad.reason == "unknown_label" or not columns["y"][bad.row].is_valid:
            return layout.label
        if bad.reason == "invalid_weight":
            return layout.weight
        if len(layout.features) == 1:
            return layout.features[0]
        named = _ENTRY.search(bad.what)
        entries = columns["x"][bad.row].as_py()
        lacking = [index for index, entry in enumerate(entries or ()) if entry is None or entry != entry]
        at = int(named[1]) if named else lacking[0] if lacking else -1
        return layout.features[at] if 0 <= at < len(layout.features) else ""


_HEADERS: Final = ((CONTENT_TYPE_HEADER, arrow.CONTENT_TYPE.encode()),)


def _encoded(columns: Mapping[str, Any]) -> bytes:
    batch = pa.record_batch(list(columns.values()), names=list(columns))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    value: bytes = sink.getvalue().to_pybytes()
    return value

"""What was read of one log and is not merged yet: rows of a known time, and behind them those without."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from streamsvm.joining import log_time
from streamsvm.joining.log_time import Ahead
from streamsvm.joining.rows import FeatureRows, LabelRows, LogState
from streamsvm.points import Position

_Chunk = TypeVar("_Chunk", bound=FeatureRows | LabelRows)


@dataclass(slots=True)
class ReadLog:
    """What was read of one log and is not merged yet: rows of a known time, and behind them those without."""

    next: Position
    time_ms: int = -1
    leader_epoch: int = -1
    read_ms: int = -1
    chunks: deque[FeatureRows | LabelRows] = field(default_factory=deque)
    times: deque[NDArray[np.int64]] = field(default_factory=deque)
    at: int = 0
    open: deque[FeatureRows | LabelRows] = field(default_factory=deque)
    ahead: int = 0
    newest_ahead: Ahead | None = None

    @property
    def waiting(self) -> int:
        """Rows of a known time that are not merged yet."""
        return sum(map(len, self.chunks)) - self.at

    def add(self, chunk: FeatureRows | LabelRows) -> None:
        """Let rows wait that follow those before."""
        if not len(chunk):
            return
        self.open.append(chunk)
        if len(self.open) == 1:
            stamps, last = chunk.time_ms, chunk.last
        else:
            stamps = np.concatenate([one.time_ms for one in self.open])
            last = np.concatenate([one.last for one in self.open])
        times, ahead, newest = log_time.decided(stamps, last, self.read_ms)
        if ahead:
            self.ahead += ahead
            offset = self._open_offset(newest)
            self.newest_ahead = Ahead(offset, int(stamps[newest]), int(times[newest]))
        if len(times):
            self.read_ms = int(times[-1])
        self._note(times)

    def _open_offset(self, row: int) -> int:
        """Return the offset of one of the rows that had no time."""
        for chunk in self.open:
            if row < len(chunk):
                break
            row -= len(chunk)
        return int(chunk.offset[row])

    def _note(self, times: NDArray[np.int64]) -> None:
        """Let the first of the rows that had no time be merged, under these times."""
        while len(times):
            chunk = self.open.popleft()
            if len(chunk) > len(times):
                self.open.appendleft(part_of(chunk, slice(len(times), None)))
                chunk = part_of(chunk, slice(0, len(times)))
            self.chunks.append(chunk)
            self.times.append(times[: len(chunk)])
            times = times[len(chunk) :]

    def advance(self, at: int) -> None:
        """Note that the chunk at hand is merged up to a row."""
        if at == self.at:
            return
        chunk, last = self.chunks[0], at - 1
        offset = int(chunk.offset[last])
        self.next = Position(offset + 1) if chunk.last[last] else Position(offset, int(chunk.row[last]) + 1)
        self.time_ms, self.leader_epoch = int(self.times[0][last]), int(chunk.leader_epoch[last])
        self.at = at
        if at == len(chunk):
            self.chunks.popleft()
            self.times.popleft()
            self.at = 0

    def state(self) -> LogState:
        """Return how far it is merged."""
        return LogState(next=self.next, time_ms=self.time_ms, leader_epoch=self.leader_epoch)

    def merged_of(self, chunk: FeatureRows | LabelRows) -> int:
        """Return how many rows at the beginning of a chunk are merged already."""
        offset, row = chunk.offset, chunk.row
        if self.chunks or self.open or not len(offset) or (int(offset[0]), int(row[0])) >= self.next:
            return 0
        first = int(np.searchsorted(offset, self.next.offset, side="left"))
        after = int(np.searchsorted(offset, self.next.offset, side="right"))
        return first + int(np.searchsorted(row[first:after], self.next.row, side="left"))

    def at_hand(self, nothing: FeatureRows | LabelRows) -> tuple[FeatureRows | LabelRows, NDArray[np.int64], int]:
        """Return the chunk to be merged, its times and its first row that is not merged; `nothing` if there is none."""
        return (self.chunks[0], self.times[0], self.at) if self.chunks else (nothing, nothing.offset, 0)


def part_of(chunk: _Chunk, rows: slice) -> _Chunk:
    """Return some of the rows."""
    return type(chunk)(**{name: getattr(chunk, name)[rows] for name in type(chunk).__dataclass_fields__})

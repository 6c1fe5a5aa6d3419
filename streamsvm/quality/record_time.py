"""The time of a stream by its records, which a few records of a wrong clock do not move.

Rows are taken in blocks of `BLOCK` as they come. The time is the greatest median of a block's timestamps: it never runs
backwards, and a timestamp far in the future counts only where half of a block agrees with it. Two partitions of
different times alternate without moving it back. It is a function of the rows in their order alone.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

BLOCK: Final = 101
"""Rows of a block, an odd number so that a median is a timestamp. So up to fifty records of a wrong clock in a
row are told from the stream's time. With fewer the time is known sooner. No version depends on it."""


class RecordTime:
    """The time of the rows that were noted.

    Attributes
    ----------
    time_ms : int
        -1 before the first block is full.
    """

    def __init__(self) -> None:
        self.time_ms = -1
        self._rest: NDArray[np.int64] = np.empty(0, np.int64)

    def note(self, time_ms: NDArray[np.int64]) -> None:
        """Take in the timestamps, shape (n,), of rows that follow those before; -1 stands for none."""
        waiting = np.concatenate([self._rest, time_ms])
        blocks = len(waiting) // BLOCK
        if blocks:
            whole = waiting[: blocks * BLOCK].reshape(blocks, BLOCK)
            self.time_ms = max(self.time_ms, int(np.partition(whole, BLOCK // 2, axis=1)[:, BLOCK // 2].max()))
        self._rest = waiting[blocks * BLOCK :].copy()

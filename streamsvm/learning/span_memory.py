"""A memory of spans: each is bounded, screened and audited by itself, as the first leaf of a stream is.

`streamsvm.coreset.spans` has the structure. What spans become, and what counts of them, is said by those who use this.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import ModelConfig
from streamsvm.coreset.audit_sample import Held
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.shift import FullLeaf
from streamsvm.coreset.spans import Spans
from streamsvm.coreset.structure import NO_TIMES, Extent, Learned, PilotOf
from streamsvm.learning.memories import MemoryState, PartitionMemory, Weighing
from streamsvm.learning.tasks import Task
from streamsvm.points import Points


@dataclass(frozen=True, slots=True, kw_only=True)
class SpansState:
    """What a memory of spans knows besides what it holds.

    Attributes
    ----------
    learned : Learned
        Of everything sealed since the base.
    times : ndarray of shape (k,), int64
        Times of some rows of the open span, whose median is that of the span; empty where nobody asks.
    voting : object or None
        What says by what spans count, where that is learned; only who plugged it in knows its type.
    """

    learned: Learned
    times: NDArray[np.int64]
    voting: object | None = None


def span_times(times: NDArray[np.int64]) -> tuple[int, int]:
    """Return the time of a span, twice: the (lower) median of its rows' times; -1 of none."""
    if not len(times):
        return NO_TIMES
    median = int(np.partition(times, (len(times) - 1) // 2)[(len(times) - 1) // 2])
    return median, median


class SpanMemory(PartitionMemory):
    """One partition's spans; parameters as of `PartitionMemory`."""

    structure: Spans

    def __init__(self, partition: int, config: ModelConfig, task: Task) -> None:
        super().__init__(partition, config, task)
        self._times = np.empty(0, np.int64)
        self.structure = self._empty()

    @abstractmethod
    def _empty(self) -> Spans:
        """Return the empty structure."""

    @property
    def _span_rows(self) -> int:
        return self._config.coreset.span_rows

    @property
    def _begun_rows(self) -> int:
        """Rows of the open span that are sealed."""
        return sum(bucket.extent.rows for bucket in self.structure.known)

    @property
    def sealed_count(self) -> int:
        """See `PartitionMemory`."""
        return self.structure.learned.count

    @property
    def leaf_number(self) -> int:
        """The rows before it: a leaf is then named by its place in the log, wherever reading began."""
        return self.structure.learned.rows

    def learned(self, leaf: Extent) -> Learned:
        """See `PartitionMemory`."""
        return self.structure.learned.join(leaf.learned)

    def begin_after(self, learned: Learned) -> None:
        """Take what was learned before the base, where a span begins, for granted."""
        assert not self.structure.learned.rows
        assert not learned.rows % self._span_rows
        self.structure.learned = learned

    def rows_to_screen(self, known: int, share: float) -> int:  # noqa: ARG002
        """Return what is left of the span."""
        return self._span_rows - known

    def ends_a_span(self, leaf_rows: int) -> bool:
        """Return whether the open span is full with a leaf of so many rows."""
        return self._begun_rows + leaf_rows == self._span_rows

    def seen(self, leaf: Extent) -> Moments | None:  # noqa: ARG002
        """Return None: every node knows its own rows only."""
        return None

    def insert(self, points: Points, extent: Extent, pilot_of: PilotOf, audit: tuple[Held, ...]) -> None:
        """See `PartitionMemory`."""
        is_full = self.ends_a_span(extent.rows)
        times = span_times(self._times) if is_full else NO_TIMES
        self.structure.insert(points, extent, pilot_of, audit=audit, times=times)
        if is_full:
            self._times = np.empty(0, np.int64)

    def is_unlike(self, leaf: FullLeaf) -> bool | None:  # noqa: ARG002
        """Return None: nobody watches spans for a change of the stream."""
        return None

    def weighing(self, leaf: Extent) -> Weighing | None:  # noqa: ARG002
        """Return None: all spans count alike."""
        return None

    def state(self) -> SpansState:
        """See `PartitionMemory`."""
        return SpansState(learned=self.structure.learned, times=self._times)

    def restore(self, state: MemoryState | None) -> None:
        """See `PartitionMemory`."""
        if isinstance(state, SpansState):
            self.structure.learned, self._times = state.learned, state.times

"""A partition that forgets: every node knows its own range of the log only, each span is a first leaf of its own.

Source of the rules: `streamsvm.coreset.forgetting` (what counts), `streamsvm.coreset.dyadic` (what is held),
`streamsvm.learning.voting` (which horizons count, where nobody says).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from streamsvm.branches.memories.options import ForgettingOptions
from streamsvm.config import CoresetConfig, ModelConfig
from streamsvm.coreset.audit_sample import Held
from streamsvm.coreset.dyadic import Dyadic
from streamsvm.coreset.forgetting import Decay, Everything, Forgetting, TimeDecay, TimeWindow, Window
from streamsvm.coreset.screens import turned
from streamsvm.coreset.shift import HeldWatch
from streamsvm.coreset.structure import NO_TIMES, Learned, Structure
from streamsvm.learning.auditing import audit_shares, make_reservoirs
from streamsvm.learning.bounding import first_bounds
from streamsvm.learning.partition import Partition
from streamsvm.learning.partition_at_cut import span_times
from streamsvm.learning.partition_state import Forgetful, PartitionState
from streamsvm.learning.tasks import Task
from streamsvm.learning.voting import Voting
from streamsvm.points import Points, Position, Rows
from streamsvm.sections import section

LATEST_MS: Final = (1 << 53) - 1
"""Milliseconds since the epoch: the year 287,396."""


def partition_of(partition: int, base: Position, config: ModelConfig, task: Task) -> Partition:
    """Return an empty partition of the configured memory."""
    kind = ForgetfulPartition if config.coreset.forgets else Partition
    return kind(partition, base, config, task)


def forgetting_of(config: CoresetConfig) -> Forgetting:
    """Return the rule of a configuration that forgets."""
    length = section(config, ForgettingOptions)
    if length.window_points is not None:
        return Window(length.window_points)
    if length.window_s is not None:
        return TimeWindow(length.window_s * 1e3)
    if length.half_life_points is not None:
        return Decay(length.half_life_points)
    return Everything() if length.half_life_s is None else TimeDecay(length.half_life_s * 1e3)


class ForgetfulPartition(Partition):
    """One partition's spans; parameters as of `Partition`."""

    structure: Dyadic

    def __init__(self, partition: int, base: Position, config: ModelConfig, task: Task) -> None:
        super().__init__(partition, base, config, task)
        self._times = np.empty(0, np.int64)
        self._held_watch = HeldWatch()
        self._voting = Voting(self._span_rows) if config.coreset.memory == "adaptive" else None

    def _empty_structure(self) -> Structure:
        config, coreset = self._config, self._config.coreset
        return Dyadic(
            self._partition,
            config.seed,
            coreset.bucket_points,
            self._task.reducer(coreset),
            span_rows=self._span_rows,
            open_points=max(coreset.leaf_rows, coreset.bucket_points),
            audit_points=tuple(audit_shares(config, self._task).values()),
            most=coreset.dyadic_buckets,
            forgetting=forgetting_of(coreset),
            classes=self._task.classes,
        )

    @property
    def _span_rows(self) -> int:
        assert self._config.coreset.span_rows is not None
        return self._config.coreset.span_rows

    @property
    def _begun_rows(self) -> int:
        """Rows of the open span that are sealed."""
        return sum(bucket.extent.rows for bucket in self.structure.known)

    @property
    def sealed_count(self) -> int:
        """See `Partition`."""
        return self.structure.learned.count

    @property
    def forgetting(self) -> Forgetting | None:
        """See `Partition`."""
        return self.structure.forgetting

    def begin_after(self, learned: Learned) -> None:
        """Take what was learned before the base, where a span begins, for granted."""
        assert not self.learned.rows
        assert not learned.rows % self._span_rows
        self.structure.learned = learned

    def _forgetful(self) -> Forgetful | None:
        return Forgetful(learned=self.structure.learned, times=self._times, voting=self._voting)

    @property
    def _leaf_name(self) -> tuple[int, int, int]:
        # By rows, not by leaves: a leaf is then named by its place in the log, whoever began to read where.
        return self._config.seed, self._partition, self.structure.learned.rows

    def _rows_to_screen(self, known: int) -> int:
        return self._span_rows - known

    def add(self, rows: Rows) -> int:
        """Add rows as `Partition` does."""
        if self.structure.forgetting.by_time:
            self._note_times(rows)
        return super().add(rows)

    def _note_times(self, rows: Rows) -> None:
        """Keep the time of every k-th row of the span, so many as a leaf has rows."""
        every = self._span_rows // self._config.coreset.leaf_rows
        first = -(self._begun_rows + self.leaf.rows) % every
        times = rows.time_ms[first::every]
        # Whatever a producer wrote: beyond this a checkpoint, which holds float64, would round it.
        self._times = np.concatenate([self._times, np.minimum(times[times >= 0], LATEST_MS)])

    def _insert(self, solved: dict[tuple[Position, Position], Any]) -> None:
        is_full = self._begun_rows + self.leaf.rows == self._span_rows
        audit, times = (self._audit_of_the_span(), span_times(self._times)) if is_full else ((), NO_TIMES)
        points, extent = self.bounding.seal(self.leaf, self.observed)
        if self._voting is not None:
            self._voting = self._voting.judged(points, extent.moments, self._config)
        self.structure.insert(points, extent, self._pilots(solved, None), audit=audit, times=times)
        if self._voting is not None:
            self._voting = self._voting.moved(self.structure.buckets, self._partition, self._config, self._task)
        if is_full:
            self.audit = make_reservoirs(self._partition, self._config, self._task)
            self._times = np.empty(0, np.int64)

    def _look_for_shift(self) -> None:
        """Count a leaf unlike what is held, where age alone says what counts; shares follow a change by themselves."""
        if self._voting is not None or not self.structure.reducer.observes:
            return
        screened, moments = self.leaf.screened, self.leaf.extent.moments
        is_shifted = self._held_watch.shifted(self.structure.buckets, moments, self.leaf.points)
        if screened is not None and not is_shifted:
            is_shifted = turned(screened, Points.union([bucket.points for bucket in self.structure.known]))
        self.structure.reducer.observed.shifted += is_shifted

    def _audit_of_the_span(self) -> tuple[Held, ...]:
        """Return the audit samples of the span that is full, clipped as it was learned."""
        bounds = self.bounding.outlier_bounds or first_bounds(self._config.coreset, None, self.leaf.points)
        states = [reservoir.state() for reservoir in self.audit]
        if bounds is None:
            return tuple(states)
        return tuple(replace(held, points=bounds.draw_in(held.points)[0]) for held in states)

    def restore(self, saved: PartitionState) -> None:
        """Restore the state from a checkpoint."""
        if saved.forgetful is not None:
            self.structure.learned = saved.forgetful.learned
            self._times, self._voting = saved.forgetful.times, saved.forgetful.voting
        super().restore(saved)

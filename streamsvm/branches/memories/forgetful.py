"""A memory that forgets: every node knows its own range of the log only, each span is a first leaf of its own.

Source of the rules: `forgetting` (what counts), `dyadic` (what is held), `voting` (which horizons count, where nobody
says).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np

from streamsvm.branches.memories.dyadic import Dyadic, stretch_of
from streamsvm.branches.memories.forgetting import (
    Decay,
    Everything,
    ForgettingRule,
    Stretch,
    TimeDecay,
    TimeWindow,
    Window,
    latest,
)
from streamsvm.branches.memories.voting import Voting
from streamsvm.config import CoresetConfig, ModelConfig
from streamsvm.coreset.audit_sample import Held
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.shift import FullLeaf, KeptPointsWatch
from streamsvm.coreset.spans import OPEN
from streamsvm.coreset.structure import NO_TIMES, Bucket, Extent, Learned, PilotOf
from streamsvm.learning.auditing import audit_shares
from streamsvm.learning.memories import Horizon, MemoryState
from streamsvm.learning.span_memory import SpanMemory, SpansState, span_times
from streamsvm.learning.tasks import Task
from streamsvm.points import Points, Position, Rows

LATEST_MS: Final = (1 << 53) - 1
"""Milliseconds since the epoch: the year 287,396."""
LEAST_TIMES: Final = 5
"""Rows of a known time that an open span must have before it has one: of fewer, a strange one may be the median."""


def forgetting_of(config: CoresetConfig) -> ForgettingRule:
    """Return the rule of a configuration that forgets."""
    if config.memory == "adaptive":
        return Everything()
    rows, seconds, is_window = config.length_rows, config.length_s, config.memory == "window"
    if rows is not None:
        return Window(rows) if is_window else Decay(rows)
    assert seconds is not None
    return TimeWindow(seconds * 1e3) if is_window else TimeDecay(seconds * 1e3)


@dataclass(frozen=True, slots=True)
class ForgetfulWeighing:
    """What counts of a partition that forgets, as it stood at a cut.

    Attributes
    ----------
    rule : ForgettingRule
    voting : Voting or None
        Experts and shares of horizons, if they say what counts.
    learned : Learned
        Of everything sealed since the base.
    times : tuple of (int, int)
        Of the open span.
    buckets : tuple of Bucket
        The oldest first.
    leaf : Extent
    """

    rule: ForgettingRule
    voting: Voting | None
    learned: Learned
    times: tuple[int, int]
    buckets: tuple[Bucket, ...]
    leaf: Extent

    @property
    def now_ms(self) -> int:
        """See `streamsvm.learning.memories.Weighing`."""
        return latest(self._stretches())[-1]

    def _stretches(self) -> list[Stretch]:
        """Return the buckets as a rule of forgetting sees them, the open span as one."""
        full = [bucket for bucket in self.buckets if bucket.level != OPEN]
        rows = self.leaf.rows + sum(bucket.extent.rows for bucket in self.buckets[len(full) :])
        return [*map(stretch_of, full), Stretch(rows, self.times)]

    def factors(self, now_ms: int, leaf: Moments) -> list[float]:
        """Return by what the weights of each bucket, and of the open leaf, count."""
        if self.voting is not None:
            return self.voting.factors(self.buckets, leaf)
        found = self.rule.factors(self._stretches(), now_ms)
        return found + found[-1:] * (len(self.buckets) + 1 - len(found))

    def horizons(self, now_ms: int) -> tuple[Horizon, ...]:
        """Return the newest rows that count, and their share, the longest first."""
        if self.voting is not None:
            return self.voting.horizons(self.leaf)
        stretches = self._stretches()
        pairs = zip(stretches, self.rule.factors(stretches, now_ms), strict=True)
        return (Horizon(sum(stretch.rows for stretch, factor in pairs if factor > 0.0), 1.0),)

    def oldest(self, now_ms: int) -> tuple[Position, Learned]:
        """Return where the oldest rows that count begin, and what was learned before them."""
        factors = self.rule.factors(self._stretches(), now_ms)
        for bucket, factor in zip(self.buckets, factors, strict=False):
            if factor > 0.0:
                assert bucket.before is not None
                return bucket.extent.start, bucket.before
        return self.leaf.start, self.learned


class ForgetfulMemory(SpanMemory):
    """One partition's spans, the older ones of which count less or not at all; parameters as of `PartitionMemory`."""

    forgets: ClassVar[bool] = True
    structure: Dyadic

    def __init__(self, partition: int, config: ModelConfig, task: Task) -> None:
        super().__init__(partition, config, task)
        self._kept_watch = KeptPointsWatch()
        self._voting = Voting(self._span_rows) if config.coreset.memory == "adaptive" else None

    def _empty(self) -> Dyadic:
        config, coreset = self._config, self._config.coreset
        return Dyadic(
            self._partition,
            config.seed,
            coreset.bucket_points,
            self._task.reducer(coreset),
            span_rows=self._span_rows,
            open_points=max(coreset.leaf_rows, coreset.bucket_points),
            audit_points=tuple(audit_shares(config, self._task).values()),
            most=coreset.sizes.buckets,
            forgetting=forgetting_of(coreset),
            classes=self._task.classes,
        )

    @property
    def learns_horizons(self) -> bool:
        """Whether experts of several horizons say which rows count."""
        return self._voting is not None

    def note(self, rows: Rows, leaf_rows: int) -> None:
        """Keep the time of every k-th row of the span, so many as a leaf has rows, where time counts."""
        if not self.structure.forgetting.by_time:
            return
        every = self._span_rows // self._config.coreset.leaf_rows
        first = -(self._begun_rows + leaf_rows) % every
        times = rows.time_ms[first::every]
        # Whatever a producer wrote: beyond this a checkpoint, which holds float64, would round it.
        self._times = np.concatenate([self._times, np.minimum(times[times >= 0], LATEST_MS)])

    def insert(self, points: Points, extent: Extent, pilot_of: PilotOf, audit: tuple[Held, ...]) -> None:
        """Judge the experts by a leaf before it is learned, and move them over the borders that it leaves."""
        if self._voting is not None:
            self._voting = self._voting.judged(points, extent.moments, self._config)
        super().insert(points, extent, pilot_of, audit)
        if self._voting is not None:
            self._voting = self._voting.moved(self.structure.buckets, self._partition, self._config, self._task)

    def is_unlike(self, leaf: FullLeaf) -> bool | None:
        """Compare a leaf with what is held, where age alone says what counts; shares follow a change by themselves."""
        if self._voting is not None:
            return None
        buckets = self.structure.buckets
        before = self.structure.extent_of(buckets).moments if buckets else leaf.moments
        return self._kept_watch.shifted(buckets, before, leaf)

    def weighing(self, leaf: Extent) -> ForgetfulWeighing:
        """See `PartitionMemory`."""
        return ForgetfulWeighing(
            rule=self.structure.forgetting,
            voting=self._voting,
            learned=self.structure.learned,
            times=span_times(self._times) if len(self._times) >= LEAST_TIMES else NO_TIMES,
            buckets=self.structure.buckets,
            leaf=leaf,
        )

    def state(self) -> SpansState:
        """See `PartitionMemory`."""
        return replace(super().state(), voting=self._voting)

    def restore(self, state: MemoryState | None) -> None:
        """See `PartitionMemory`."""
        super().restore(state)
        if isinstance(state, SpansState):
            assert state.voting is None or isinstance(state.voting, Voting)
            self._voting = state.voting

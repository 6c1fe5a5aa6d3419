"""A partition as it stood at a cut, and what it brings to the cut.

Invariant: nothing here changes after it is made, whatever the partition learns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import ModelConfig
from streamsvm.coreset.audit_sample import EVERY_LABEL, LABELS, Held, Sampled, merged
from streamsvm.coreset.clipping import Bounds
from streamsvm.coreset.dyadic import OPEN, stretch_of
from streamsvm.coreset.forgetting import Forgetting, Horizon, Stretch, latest
from streamsvm.coreset.leaf import totals_of
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.outliers import Found, OutlierBounds
from streamsvm.coreset.reducers.base import Observed
from streamsvm.coreset.screens import calibrated
from streamsvm.coreset.structure import NO_TIMES, Learned
from streamsvm.coreset.totals import Totals
from streamsvm.learning.auditing import audit_shares
from streamsvm.learning.bounding import Places, first_bounds
from streamsvm.learning.partition_state import PartitionState
from streamsvm.learning.tasks import Task
from streamsvm.points import Points, Position

LEAST_TIMES: Final = 5
"""Rows of a known time that an open span must have before it has one: of fewer, a strange one may be the median."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAtCut:
    """A partition as it stood at a cut. Nothing in it changes any more, whatever the partition learns.

    Attributes
    ----------
    state : PartitionState
        Buckets by reference; the arrays of leaf and audit sample are those of the partition, which copies them before
        it changes them.
    bounds : Bounds or None
        By which the next row is clipped.
    outlier_bounds : OutlierBounds or None
        None before anything was sealed.
    places : tuple of (offsets, rows)
        Where the points of a first leaf stand in the log; empty where that is not known.
    forgetting : Forgetting or None
        None where nothing is forgotten.
    """

    state: PartitionState
    bounds: Bounds | None
    outlier_bounds: OutlierBounds | None
    places: tuple[Places, ...]
    forgetting: Forgetting | None = None

    @property
    def now_ms(self) -> int:
        """The latest time of a span; -1 where none has one, or age is not counted in time."""
        return latest(self._stretches())[-1]

    def parts(self, config: ModelConfig, task: Task, now_ms: int) -> CutParts:
        """Return everything that is held, under the weights that it has in a cut.

        Parameters
        ----------
        config : ModelConfig
        task : Task
        now_ms : int
            The latest time of all partitions.
        """
        state = self.state
        points, moments, found = self._open_points(config, task)
        factors = self._factors(now_ms, moments)
        held = [(bucket.points, bucket.extent.moments) for bucket in state.buckets] + [(points, moments)]
        counting = [(*one, factor) for one, factor in zip(held, factors, strict=True) if factor > 0.0]
        whole = Moments.zero(config.points.dimension, task.classes)
        for _, own, factor in counting:
            whole = whole.merge(own.scaled(factor))
        return CutParts(
            points=tuple(own.scaled(factor) for own, _, factor in counting if len(own)),
            moments=whole,
            audit=tuple(self._sampled(factors, whole.class_weight, config, task)),
            found=found,
            horizons=self.horizons(now_ms),
            totals=self._totals(points) if keeps_totals(config, task) else (),
        )

    def _totals(self, open_points: Points) -> tuple[tuple[Points, Totals], ...]:
        """Return everything that is held with its totals; empty where a bucket has none."""
        found = [(bucket.points, bucket.totals) for bucket in self.state.buckets]
        leaf = self.state
        found.append((open_points, totals_of(open_points, leaf.leaf_points, leaf.screened, leaf.leaf_totals)))
        known = tuple((points, totals) for points, totals in found if totals is not None)
        return known if len(known) == len(found) else ()

    def _stretches(self) -> list[Stretch]:
        """Return what is held as a rule of forgetting sees it, the open span as one."""
        state = self.state
        full = [bucket for bucket in state.buckets if bucket.level != OPEN]
        rows = state.leaf_extent.rows + sum(bucket.extent.rows for bucket in state.buckets[len(full) :])
        known = np.empty(0, np.int64) if state.forgetful is None else state.forgetful.times
        times = span_times(known) if len(known) >= LEAST_TIMES else NO_TIMES
        return [*map(stretch_of, full), Stretch(rows, times)]

    def _factors(self, now_ms: int, leaf: Moments) -> list[float]:
        """Return by what the weights of each bucket, and of the open leaf, count."""
        if self.forgetting is None:
            return [1.0] * (len(self.state.buckets) + 1)
        if self.state.forgetful is not None and self.state.forgetful.voting is not None:
            return self.state.forgetful.voting.factors(self.state.buckets, leaf)
        found = self.forgetting.factors(self._stretches(), now_ms)
        return found + found[-1:] * (len(self.state.buckets) + 1 - len(found))

    def horizons(self, now_ms: int) -> tuple[Horizon, ...]:
        """Return the newest rows that count, and their share, the longest first; empty where nothing is forgotten."""
        state = self.state
        if self.forgetting is None or state.forgetful is None:
            return ()
        if state.forgetful.voting is not None:
            return state.forgetful.voting.horizons(state.leaf_extent)
        stretches = self._stretches()
        pairs = zip(stretches, self.forgetting.factors(stretches, now_ms), strict=True)
        return (Horizon(sum(stretch.rows for stretch, factor in pairs if factor > 0.0), 1.0),)

    def oldest(self, now_ms: int) -> tuple[Position, Learned]:
        """Return where the oldest rows that count begin, and what was learned before them; only where some do not."""
        assert self.forgetting is not None
        assert self.state.forgetful is not None
        factors = self.forgetting.factors(self._stretches(), now_ms)
        for bucket, factor in zip(self.state.buckets, factors, strict=False):
            if factor > 0.0:
                assert bucket.before is not None
                return bucket.extent.start, bucket.before
        return self.state.leaf_extent.start, self.state.forgetful.learned

    def open_points(self, config: ModelConfig, task: Task) -> Points:
        """Return the points of the open leaf as a cut has them."""
        return self._open_points(config, task)[0]

    def _open_points(self, config: ModelConfig, task: Task) -> tuple[Points, Moments, Found | None]:
        """Return points and moments of the open leaf, a first leaf clipped as if sealed; and the outliers of that."""
        state = self.state
        bounds = self._first_bounds(config)
        if bounds is None:
            points = state.leaf_points
            calm = points if state.screened is None else calibrated(points, state.screened, Observed())
            return calm, state.leaf_extent.moments, None
        points, found = bounds.draw_in(state.leaf_points)
        if found is None:
            return points, state.leaf_extent.moments, None
        return points, Moments.zero(points.dimension, task.classes).add(points), found

    def _sampled(
        self, factors: Sequence[float], class_weight: NDArray[np.float64], config: ModelConfig, task: Task
    ) -> Iterator[Sampled]:
        """Yield the audit sample, or that of each label, of everything that counts."""
        more = config.coreset.audit_points // (config.coreset.bucket_audit_points or 1)
        shares = audit_shares(config, task)
        for place, ((label, most), own) in enumerate(zip(shares.items(), self.clipped_audit(config), strict=True)):
            older = [
                bucket.audit[place].scaled(factor)
                for bucket, factor in zip(self.state.buckets, factors, strict=False)
                if factor > 0.0 and bucket.audit
            ]
            held = merged([*older, own.scaled(factors[-1])], more * most) if older else own
            yield held.sampled(
                class_weight if label == EVERY_LABEL else np.where(np.equal(LABELS, label), class_weight, 0.0)
            )

    def clipped_audit(self, config: ModelConfig) -> Iterator[Held]:
        """Yield the audit sample, or that of each label, clipped like the next row: models learn clipped points."""
        outliers = self.outlier_bounds or self._first_bounds(config)
        for held in self.state.audit:
            points = held.points if self.bounds is None else self.bounds.clip(held.points)[0]
            yield replace(held, points=points if outliers is None else outliers.draw_in(points)[0])

    def _first_bounds(self, config: ModelConfig) -> OutlierBounds | None:
        return first_bounds(config.coreset, self.outlier_bounds, self.state.leaf_points)


@dataclass(frozen=True, slots=True, kw_only=True)
class CutParts:
    """What a partition brings to a cut, under the weights that it has there.

    Attributes
    ----------
    points : tuple of Points
        The oldest first; none is empty.
    moments : Moments
        Of the rows that they stand for.
    audit : tuple of Sampled
        The audit sample of these rows, or that of each label.
    found : Found or None
        The outliers of an open first leaf.
    horizons : tuple of Horizon
        What they are of; empty where nothing is forgotten.
    totals : tuple of (Points, Totals)
        Of buckets and open leaf; empty where nobody keeps them.
    """

    points: tuple[Points, ...]
    moments: Moments
    audit: tuple[Sampled, ...]
    found: Found | None
    horizons: tuple[Horizon, ...]
    totals: tuple[tuple[Points, Totals], ...] = ()


def span_times(times: NDArray[np.int64]) -> tuple[int, int]:
    """Return the time of a span, twice: the (lower) median of its rows' times; -1 of none."""
    if not len(times):
        return NO_TIMES
    median = int(np.partition(times, (len(times) - 1) // 2)[(len(times) - 1) // 2])
    return median, median


def keeps_totals(config: ModelConfig, task: Task) -> bool:
    """Tell whether totals of all rows are kept: not where an estimator of more classes shares one structure."""
    return config.totals and task.classes == 2

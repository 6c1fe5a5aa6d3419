"""A partition as it stood at a cut, and what it brings to the cut.

Invariant: nothing here changes after it is made, whatever the partition learns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import ModelConfig
from streamsvm.coreset.accounting import Account, Accounting
from streamsvm.coreset.audit_sample import EVERY_LABEL, LABELS, Held, Sampled, merged
from streamsvm.coreset.clipping import FeatureRanges
from streamsvm.coreset.leaf import account_of
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.outliers import Found, OutlierBounds
from streamsvm.coreset.reducers.base import Observed
from streamsvm.learning.accounts import accounting_of
from streamsvm.learning.auditing import audit_shares
from streamsvm.learning.bounding import Places, first_bounds
from streamsvm.learning.memories import Horizon, Weighing
from streamsvm.learning.partition_state import PartitionState
from streamsvm.learning.tasks import Task
from streamsvm.points import Points


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAtCut:
    """A partition as it stood at a cut. Nothing in it changes any more, whatever the partition learns.

    Attributes
    ----------
    state : PartitionState
        Buckets by reference; the arrays of leaf and audit sample are those of the partition, which copies them before
        it changes them.
    bounds : FeatureRanges or None
        By which the next row is clipped.
    outlier_bounds : OutlierBounds or None
        None before anything was sealed.
    places : tuple of (offsets, rows)
        Where the points of a first leaf stand in the log; empty where that is not known.
    weighing : Weighing or None
        What counts, and how much; None: all that is held, as it is.
    """

    state: PartitionState
    bounds: FeatureRanges | None
    outlier_bounds: OutlierBounds | None
    places: tuple[Places, ...]
    weighing: Weighing | None = None

    @property
    def now_ms(self) -> int:
        """The latest time of a span; -1 where none has one, or age is not counted in time."""
        return -1 if self.weighing is None else self.weighing.now_ms

    def parts(self, config: ModelConfig, task: Task, now_ms: int) -> CutParts:
        """Return all parts, under the weights that they have in a cut.

        Parameters
        ----------
        config : ModelConfig
        task : Task
        now_ms : int
            The latest time of all partitions.
        """
        state = self.state
        points, moments, found = self._open_points(config, task)
        weighing = self.weighing
        factors = [1.0] * (len(state.buckets) + 1) if weighing is None else weighing.factors(now_ms, moments)
        sets = [(bucket.points, bucket.extent.moments) for bucket in state.buckets] + [(points, moments)]
        counting = [(*one, factor) for one, factor in zip(sets, factors, strict=True) if factor > 0.0]
        whole = Moments.zero(config.points.dimension, task.classes)
        for _, own, factor in counting:
            whole = whole.merge(own.scaled(factor))
        return CutParts(
            points=tuple(own.scaled(factor) for own, _, factor in counting if len(own)),
            moments=whole,
            audit=tuple(self._sampled(factors, whole.class_weight, config, task)),
            found=found,
            horizons=self.horizons(now_ms),
            totals=self._totals(points, accounting_of(config, task)),
        )

    def _totals(self, open_points: Points, accounting: Accounting | None) -> tuple[tuple[Points, Account], ...]:
        """Return all parts with their accounts; empty where nobody keeps any, or a bucket has none."""
        if accounting is None:
            return ()
        found = [(bucket.points, bucket.totals) for bucket in self.state.buckets]
        leaf = self.state
        of_leaf = account_of(open_points, leaf.leaf_points, leaf.screened, leaf.leaf_totals, accounting)
        found.append((open_points, of_leaf))
        known = tuple((points, totals) for points, totals in found if totals is not None)
        return known if len(known) == len(found) else ()

    def horizons(self, now_ms: int) -> tuple[Horizon, ...]:
        """Return the newest rows that count, and their share, the longest first; empty where nothing is forgotten."""
        return () if self.weighing is None else self.weighing.horizons(now_ms)

    def open_points(self, config: ModelConfig, task: Task) -> Points:
        """Return the points of the open leaf as a cut has them."""
        return self._open_points(config, task)[0]

    def _open_points(self, config: ModelConfig, task: Task) -> tuple[Points, Moments, Found | None]:
        """Return points and moments of the open leaf, a first leaf clipped as if sealed; and the outliers of that."""
        state = self.state
        bounds = self._first_bounds(config)
        if bounds is None:
            points = state.leaf_points
            calm = points if state.screened is None else state.screened.calibrated(points, Observed())
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
            sample = merged([*older, own.scaled(factors[-1])], more * most) if older else own
            yield sample.sampled(
                class_weight if label == EVERY_LABEL else np.where(np.equal(LABELS, label), class_weight, 0.0)
            )

    def clipped_audit(self, config: ModelConfig) -> Iterator[Held]:
        """Yield the audit sample, or that of each label, clipped like the next row: models learn clipped points."""
        outliers = self.outlier_bounds or self._first_bounds(config)
        for sample in self.state.audit:
            points = sample.points if self.bounds is None else self.bounds.clip(sample.points)[0]
            yield replace(sample, points=points if outliers is None else outliers.draw_in(points)[0])

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
    totals : tuple of (Points, Account)
        Of buckets and open leaf; empty where nobody keeps them.
    """

    points: tuple[Points, ...]
    moments: Moments
    audit: tuple[Sampled, ...]
    found: Found | None
    horizons: tuple[Horizon, ...]
    totals: tuple[tuple[Points, Account], ...] = ()

"""A partition as it was at a cut, and the points, moments and audit sample that it contributes.

`Partition.standing` makes a `PartitionAtCut` in the main loop, at no cost. The training thread calls `parts`, possibly
much later: the partition has learned on by then, and the result must be the same.

Invariant: nothing here changes after it is made, whatever the partition learns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import ModelConfig
from streamsvm.coreset.audit_sample import EVERY_LABEL, LABELS, Held, Sampled, merged
from streamsvm.coreset.clipping import FeatureRanges
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.outliers import Found, OutlierBounds, Waiting
from streamsvm.coreset.reducers.base import Observed
from streamsvm.learning.auditing import audit_shares
from streamsvm.learning.bounding import Judged, Places, first_bounds, first_judged
from streamsvm.learning.memories import Horizon, Weighing
from streamsvm.learning.partition_state import PartitionState
from streamsvm.learning.tasks import Task
from streamsvm.points import Points


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAtCut:
    """A partition as it was at a cut. Nothing in it changes any more, whatever the partition learns.

    Attributes
    ----------
    state : PartitionState
        Buckets by reference; the arrays of leaf and audit sample are those of the partition, which copies them before
        it changes them.
    bounds : FeatureRanges or None
        The bounds by which the next row is clipped.
    outlier_bounds : OutlierBounds or None
        None before anything was sealed.
    places : tuple of (offsets, rows)
        Where the points of a first leaf stand in the log; empty where that is not known.
    weighing : Weighing or None
        Which buckets count, and how much; None: all, as they are.
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
        leaf = self.open_part(config, task)
        points, moments = leaf.points, leaf.moments
        weighing = self.weighing
        # One factor for each bucket, and the last one for the open leaf. A memory that forgets gives factors below 1.
        factors = [1.0] * (len(state.buckets) + 1) if weighing is None else weighing.factors(now_ms, moments)
        sets = [(bucket.points, bucket.extent.moments) for bucket in state.buckets] + [(points, moments)]
        counting = [(*one, factor) for one, factor in zip(sets, factors, strict=True) if factor > 0.0]
        whole = Moments.zero(config.points.dimension, task.classes)
        for _, own, factor in counting:
            whole = whole.merge(own.scaled(factor))
        return CutParts(
            points=tuple(own.scaled(factor) for own, _, factor in counting if len(own)),
            moments=whole,
            audit=tuple(self._sampled(factors, whole.class_weight, config, task, leaf)),
            found=leaf.found,
            horizons=self.horizons(now_ms),
            left_out=0 if leaf.others is None else int(np.count_nonzero(~leaf.others.only_heavy())),
        )

    def horizons(self, now_ms: int) -> tuple[Horizon, ...]:
        """Return the newest rows that count, and their share, the longest first; empty where nothing is forgotten."""
        return () if self.weighing is None else self.weighing.horizons(now_ms)

    def open_rows(self, config: ModelConfig) -> Points:
        """Return all rows of an open first leaf, drawn in."""
        bounds = self._first_bounds(config)
        return self.state.leaf_points if bounds is None else bounds.draw_in(self.state.leaf_points)[0]

    def open_part(self, config: ModelConfig, task: Task) -> OpenPart:
        """Return the open leaf and what waits, as a cut has them."""
        state, bounds = self.state, self._first_bounds(config)
        points = state.leaf_points
        moments, waiting, found = state.leaf_extent.moments, state.waiting, None
        if bounds is not None:
            judged = first_judged(bounds, points, config.coreset)
            if judged.found is not None:
                found, stay = judged.found, judged.stay()
                if judged.waits is not None:
                    waiting = Waiting(points.take(judged.waits), judged.points.take(judged.waits))
                points = judged.points.take(stay)
                moments = Moments.zero(points.dimension, task.classes).add(points)
        elif state.screened is not None:
            points = state.screened.calibrated(points, Observed())
        leaf = OpenPart(points=points, moments=moments, found=found)
        bounds = bounds or self.outlier_bounds
        return leaf if waiting is None or bounds is None else leaf.with_judged(Judged.of(waiting, bounds, [points]))

    def _sampled(
        self,
        factors: Sequence[float],
        class_weight: NDArray[np.float64],
        config: ModelConfig,
        task: Task,
        leaf: OpenPart,
    ) -> Iterator[Sampled]:
        """Yield the audit sample, or that of each label, of everything that counts."""
        more = config.coreset.audit_points // (config.coreset.bucket_audit_points or 1)
        shares = audit_shares(config, task)
        for place, ((label, most), own) in enumerate(
            zip(shares.items(), self.clipped_audit(config, leaf), strict=True)
        ):
            older = [
                bucket.audit[place].scaled(factor)
                for bucket, factor in zip(self.state.buckets, factors, strict=False)
                if factor > 0.0 and bucket.audit
            ]
            sample = merged([*older, own.scaled(factors[-1])], more * most) if older else own
            yield sample.sampled(
                class_weight if label == EVERY_LABEL else np.where(np.equal(LABELS, label), class_weight, 0.0)
            )

    def clipped_audit(self, config: ModelConfig, leaf: OpenPart) -> Iterator[Held]:
        """Yield the audit sample, or that of each label, as its rows are learned, and clipped like the next row.

        Of outliers only those of an open first leaf, and those that go on waiting, are not drawn in there yet. What was
        learned as it came stays so, also where buckets hold nothing like it any more: bounds of all rows are charged
        for what was drawn in, and for nothing else.
        """
        first = None if self.outlier_bounds is not None else self._first_bounds(config)
        for held in self.state.audit:
            points = held.points if self.bounds is None else self.bounds.clip(held.points)[0]
            if first is not None:
                points = first.draw_in(points)[0]
            elif leaf.others is not None and self.outlier_bounds is not None:
                points = _waiting_drawn_in(points, leaf.others, self.outlier_bounds)
            yield replace(held, points=points)

    def _first_bounds(self, config: ModelConfig) -> OutlierBounds | None:
        return first_bounds(config.coreset, self.outlier_bounds, self.state.leaf_points)


def _waiting_drawn_in(points: Points, waiting: Waiting, bounds: OutlierBounds) -> Points:
    """Return points with those of rows that wait drawn in, all of which lie beyond their bounds."""
    beyond = bounds.beyond(points)
    if beyond is None:
        return points
    rows = np.flatnonzero(beyond)
    places = waiting.places(points.take(rows))
    rows, learned = rows[places >= 0], waiting.learned.take(places[places >= 0])
    X, weight = points.X.copy(), points.weight.copy()
    X[rows], weight[rows] = learned.X, learned.weight
    return Points(X, points.y, weight)


@dataclass(frozen=True, slots=True, kw_only=True)
class CutParts:
    """The parts of a cut that come from one partition, under the weights that they have in the cut.

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
        Which rows count, and their shares; empty where nothing is forgotten.
    left_out : int
        Rows that none of the points stands for, because they lie beyond `coreset.max_leverage`, and nothing else does.
    """

    points: tuple[Points, ...]
    moments: Moments
    audit: tuple[Sampled, ...]
    found: Found | None
    horizons: tuple[Horizon, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPart:
    """The open leaf at a cut, with the rows that wait.

    Attributes
    ----------
    points : Points
        What counts of both.
    moments : Moments
        Of both.
    found : Found or None
        The outliers of a first leaf.
    others : Waiting or None
        Rows that waited and are not the stream's own; None where none waited.
    """

    points: Points
    moments: Moments
    found: Found | None
    others: Waiting | None = None

    def with_judged(self, judged: Judged) -> OpenPart:
        """Return the same with rows that waited."""
        others = judged.others
        return replace(
            self,
            points=Points.union([self.points, judged.own, others.learned.take(others.only_heavy())]),
            moments=self.moments.add(judged.own).add(others.learned),
            others=others,
        )

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
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.outliers import Found, RowBound
from streamsvm.coreset.reducers.base import Observed
from streamsvm.learning.auditing import audit_shares
from streamsvm.learning.bounding import Places, first_drawn_in
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
    bound : RowBound or None
        Within which the next row is learned; None before anything was sealed.
    places : tuple of (offsets, rows)
        Where the points of a first leaf stand in the log; empty where that is not known.
    weighing : Weighing or None
        Which buckets count, and how much; None: all, as they are.
    """

    state: PartitionState
    bound: RowBound | None
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
        leaf = self.open_part()
        weighing = self.weighing
        # One factor for each bucket, and the last one for the open leaf. A memory that forgets gives factors below 1.
        factors = [1.0] * (len(state.buckets) + 1) if weighing is None else weighing.factors(now_ms, leaf.moments)
        sets = [(bucket.points, bucket.extent.moments) for bucket in state.buckets] + [(leaf.points, leaf.moments)]
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
        )

    def horizons(self, now_ms: int) -> tuple[Horizon, ...]:
        """Return the newest rows that count, and their share, the longest first; empty where nothing is forgotten."""
        return () if self.weighing is None else self.weighing.horizons(now_ms)

    def open_part(self) -> OpenPart:
        """Return the open leaf as a cut has it."""
        state, audit = self.state, tuple(self.state.audit)
        points, moments, found = first_drawn_in(self.bound, state.leaf_points, state.leaf_extent.moments)
        if found is not None:
            bound = RowBound.of_first_leaf(state.leaf_points)
            audit = tuple(replace(held, points=bound.draw_in(held.points)[0]) for held in audit)
        elif state.screened is not None:
            points = state.screened.calibrated(points, Observed())
        return OpenPart(points=points, moments=moments, audit=audit, found=found)

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
        for place, ((label, most), own) in enumerate(zip(shares.items(), leaf.audit, strict=True)):
            older = [
                bucket.audit[place].scaled(factor)
                for bucket, factor in zip(self.state.buckets, factors, strict=False)
                if factor > 0.0 and bucket.audit
            ]
            sample = merged([*older, own.scaled(factors[-1])], more * most) if older else own
            yield sample.sampled(
                class_weight if label == EVERY_LABEL else np.where(np.equal(LABELS, label), class_weight, 0.0)
            )


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
    """

    points: tuple[Points, ...]
    moments: Moments
    audit: tuple[Sampled, ...]
    found: Found | None
    horizons: tuple[Horizon, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPart:
    """The open leaf at a cut.

    Attributes
    ----------
    points : Points
    moments : Moments
        Of the rows that they stand for.
    audit : tuple of Held
        The audit sample, or that of each label, as its rows are learned.
    found : Found or None
        The outliers of a first leaf.
    """

    points: Points
    moments: Moments
    audit: tuple[Held, ...]
    found: Found | None

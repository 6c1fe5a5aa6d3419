"""What a partition is, for a checkpoint and for whoever adopts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamsvm.coreset.audit_sample import Held
from streamsvm.coreset.screens import AnyScreened
from streamsvm.coreset.structure import Bucket, Extent, Learned, joined
from streamsvm.coreset.totals import Totals
from streamsvm.learning.voting import Voting
from streamsvm.points import Points, Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgetful:
    """What a partition that forgets knows besides what it holds.

    Attributes
    ----------
    learned : Learned
        Of everything sealed since the base.
    times : ndarray of shape (k,), int64
        Times of some rows of the open span, whose median is that of the span; empty where age is not counted in time.
    voting : Voting or None
        Experts and shares of horizons, if they say what counts.
    """

    learned: Learned
    times: NDArray[np.int64]
    voting: Voting | None = None


def learned(forgetful: Forgetful | None, buckets: Sequence[Bucket], leaf: Extent) -> Learned:
    """Return the totals of all rows that a partition learned."""
    if forgetful is not None:
        return forgetful.learned.join(leaf.learned)
    return joined([bucket.extent for bucket in buckets] + [leaf]).learned


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """The complete state of a partition, for a checkpoint; independent of every other partition.

    Attributes
    ----------
    sealed : int
        Number of leaves sealed.
    leader_epoch : int
    buckets : tuple of Bucket
        The oldest first.
    leaf_points : Points
    leaf_extent : Extent
        Its `end` is the partition's position.
    screened : Screened, ClassScreened or None
        The state of the open leaf's screen, if it is screened.
    audit : tuple of Held
        The audit sample, or that of each label; none if `audit_points` is 0. Where buckets have their own: that of the
        open span.
    forgetful : Forgetful or None
        What a partition that forgets knows besides.
    labels_offset : int
        Offset after the newest record of the labels log that counted; -1 where labels do not come from a log of their
        own, or none did yet.
    leaf_totals : Totals or None
        Of an open leaf that is not screened, if some of its points did not come as they are, and totals are kept.
    """

    sealed: int
    leader_epoch: int
    buckets: tuple[Bucket, ...]
    leaf_points: Points
    leaf_extent: Extent
    screened: AnyScreened | None = None
    audit: tuple[Held, ...] = ()
    forgetful: Forgetful | None = None
    labels_offset: int = -1
    leaf_totals: Totals | None = None

    @property
    def position(self) -> Position:
        """The next row to learn."""
        return self.leaf_extent.end

    @property
    def learned(self) -> Learned:
        """Totals of all rows learned since the base."""
        return learned(self.forgetful, self.buckets, self.leaf_extent)

    @property
    def rows_accepted(self) -> int:
        """Number of rows learned so far, without rejected rows."""
        return self.learned.count


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLeaf:
    """How full a partition's open leaf is.

    Attributes
    ----------
    sealed : int
        Number of leaves sealed before this one.
    start, end : Position
        The leaf's rows; `end` is exclusive.
    rows, span : int
        Rows seen, and the number of rows at which the leaf is full.
    points : int
        Points that the leaf holds.
    """

    sealed: int
    start: Position
    end: Position
    rows: int
    span: int
    points: int

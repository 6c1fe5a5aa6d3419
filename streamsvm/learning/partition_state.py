"""What a partition is, for a checkpoint and for another process that adopts it."""

from __future__ import annotations

from dataclasses import dataclass

from streamsvm.coreset.audit_sample import Held
from streamsvm.coreset.screens import LeafScreened
from streamsvm.coreset.structure import Bucket, Extent, Learned
from streamsvm.learning.memories import MemoryState, learned
from streamsvm.points import Points, Position


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
    screened : LeafScreened or None
        The state of the open leaf's screen, if it is screened.
    audit : tuple of Held
        The audit sample, or that of each label; none if `audit_points` is 0. Where buckets have their own: that of the
        open span.
    memory : MemoryState or None
        What the partition's memory knows besides its buckets.
    beside_offset : int
        Offset after the newest record of a log beside the input that counted; -1 where there is none, or none did yet.
    """

    sealed: int
    leader_epoch: int
    buckets: tuple[Bucket, ...]
    leaf_points: Points
    leaf_extent: Extent
    screened: LeafScreened | None = None
    audit: tuple[Held, ...] = ()
    memory: MemoryState | None = None
    beside_offset: int = -1

    @property
    def position(self) -> Position:
        """The next row to learn."""
        return self.leaf_extent.end

    @property
    def learned(self) -> Learned:
        """Totals of all rows learned since the base."""
        return learned(self.memory, self.buckets, self.leaf_extent)

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

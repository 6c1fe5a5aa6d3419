"""A structure over spans: every bucket knows its own range of the log only.

A *span* is a range of so many rows, and the leaf of this structure. Its first leaf of rows is held whole, as a bucket
of level 0, and screens the rest (`streamsvm.learning.span_memory`). When the span is full, both become a bucket of
level 1. What spans become together is the business of those who use this: `_grown`.

Invariant: the bucket of a span is a pure function of its own range of the log, of where that lies, the configuration
and the seed. What came before changes nothing in it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from streamsvm.coreset.audit_sample import merged
from streamsvm.coreset.reducers.base import Reducer
from streamsvm.coreset.structure import NO_TIMES, Bucket, Learned, PilotOf, Structure
from streamsvm.points import Points

OPEN: Final = 0
"""Level of what is sealed of a span that is not full."""
SPAN: Final = 1
"""Level of a span."""


class Spans(Structure):
    """Buckets of spans.

    Parameters
    ----------
    partition, seed, bucket_points, reducer
        As in `Structure`.
    span_rows : int
    open_points : int
        Most points of the bucket of a span that is not full.
    audit_points : sequence of int
        Most points of a bucket's audit sample, or of that of each label.
    classes : int
    """

    def __init__(
        self,
        partition: int,
        seed: int,
        bucket_points: int,
        reducer: Reducer[Any],
        *,
        span_rows: int,
        open_points: int,
        audit_points: Sequence[int],
        classes: int = 2,
    ) -> None:
        super().__init__(partition, seed, bucket_points, reducer)
        self._span_rows, self._open_points = span_rows, open_points
        self._audit_points = tuple(audit_points)
        self.learned = Learned.nothing(classes)

    @property
    def known(self) -> tuple[Bucket, ...]:
        """What is sealed of the open span; nothing else may touch the rest of it."""
        return self._buckets[-1:] if self._buckets and self._buckets[-1].level == OPEN else ()

    def with_leaf(self, leaf: Bucket, pilot_of: PilotOf | None) -> list[Bucket]:
        """Return the buckets after a leaf; see `Structure`."""
        begun = self.known
        older = list(self._buckets[: len(self._buckets) - len(begun)])
        part = self._union(*begun, replace(leaf, before=self.learned))
        self.learned = self.learned.join(leaf.extent.learned)
        assert part.extent.rows <= self._span_rows
        if part.extent.rows < self._span_rows:
            return [*older, self._made(OPEN, self.learned.rows, part, pilot_of, self._open_points)]
        assert part.before is not None
        number = part.before.rows // self._span_rows
        return self._grown([*older, self._made(SPAN, number, part, pilot_of)], pilot_of)

    @abstractmethod
    def _grown(self, buckets: list[Bucket], pilot_of: PilotOf | None) -> list[Bucket]:
        """Return the buckets after the last one, a span, was added."""

    def _ageing(self, older: Bucket, newer: Bucket) -> float:  # noqa: ARG002
        """Return by what the older of two buckets that become one is multiplied."""
        return 1.0

    def _union(self, *buckets: Bucket) -> Bucket:
        """Return one or two buckets that follow one another as one, not reduced: weights as of its end."""
        if len(buckets) == 1:
            return buckets[0]
        older, newer = buckets
        factor = self._ageing(older, newer) if newer.level else 1.0
        extent = replace(older.extent, moments=older.extent.moments.scaled(factor)).join(newer.extent)
        samples = zip(older.audit, newer.audit, self._audit_points, strict=True) if older.audit else ()
        return Bucket(
            newer.level,
            newer.index,
            Points.union([older.points.scaled(factor), newer.points]),
            extent,
            tuple(merged([old.scaled(factor), new], most) for old, new, most in samples) or newer.audit,
            _times(older.times, newer.times),
            older.before,
        )

    def _made(self, level: int, index: int, union: Bucket, pilot_of: PilotOf | None, most: int | None = None) -> Bucket:
        node = self.node(level, index, union.points, union.extent, pilot_of, most)
        return replace(node, audit=union.audit, times=union.times, before=union.before)


def _times(older: tuple[int, int], newer: tuple[int, int]) -> tuple[int, int]:
    if older == NO_TIMES or newer == NO_TIMES:
        return older if newer == NO_TIMES else newer
    return min(older[0], newer[0]), max(older[1], newer[1])

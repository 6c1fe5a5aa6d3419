"""The structure of a partition that forgets: two buckets a level, each a function of its own range of the log.

A *span* is a range of so many rows, and the leaf of this structure. Its first leaf of rows is held whole, as a bucket
of level 0, and screens the rest (`streamsvm.learning.partition`). When the span is full, both become a bucket of level
1. A bucket of level l > 1 is made of two siblings, the numbers 2 k and 2 k + 1 of level l - 1, as soon as a third of
that level follows them. So for any length there is a border between it and twice it from the end: a counter, which
merges two at once, has none but the beginning after 2^k spans.

Invariant: a bucket is a pure function of its own range of the log, of where that lies, the configuration and the seed.
What came before changes nothing in it, and neither does what is dropped. The exception is a partition that has more
than `most` buckets: its two oldest become one then, again and again. Windows and half-lives are never so long.

What is decayed is decayed as of a bucket's end: at a merge the older half is multiplied by what it lost while the newer
one came, before both are reduced, so that totals are those of decayed weights.

Sources: the exponential histogram of Datar, Gionis, Indyk and Motwani 2002 (two buckets a size). Of coresets as its
buckets we know no source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from streamsvm.coreset.audit_sample import merged
from streamsvm.coreset.forgetting import Forgetting, Stretch
from streamsvm.coreset.reducers.base import Reducer
from streamsvm.coreset.structure import NO_TIMES, Bucket, Learned, PilotOf, Structure
from streamsvm.points import Points

OPEN: Final = 0
"""Level of what is sealed of a span that is not full."""
SPAN: Final = 1
"""Level of a span."""
FOLDED: Final = 63
"""Level of the oldest bucket, where others were merged into it although they are no siblings."""


class Dyadic(Structure):
    """Two buckets a level.

    Parameters
    ----------
    partition, seed, bucket_points, reducer
        As in `Structure`.
    span_rows : int
    open_points : int
        Most points of the bucket of a span that is not full.
    audit_points : sequence of int
        Most points of a bucket's audit sample, or of that of each label.
    most : int
        Buckets, at least 2.
    forgetting : Forgetting
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
        most: int,
        forgetting: Forgetting,
        classes: int = 2,
    ) -> None:
        super().__init__(partition, seed, bucket_points, reducer)
        self._span_rows, self._open_points, self._most = span_rows, open_points, most
        self._audit_points = tuple(audit_points)
        self.forgetting = forgetting
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
        buckets = self._grown([*older, self._made(SPAN, number, part, pilot_of)], pilot_of)
        return buckets[self.forgetting.expired([stretch_of(bucket) for bucket in buckets]) :]

    def _grown(self, buckets: list[Bucket], pilot_of: PilotOf | None) -> list[Bucket]:
        level = SPAN
        while (at := self._siblings(buckets, level)) is not None:
            older, newer = buckets[at : at + 2]
            level += 1
            buckets[at : at + 2] = [self._made(level, older.index // 2, self._union(older, newer), pilot_of)]
        while len(buckets) > self._most:
            whole = self._union(*buckets[:2])
            number = (whole.before.rows if whole.before else 0) + whole.extent.rows
            buckets[:2] = [self._made(FOLDED, number // self._span_rows, whole, pilot_of)]
        return buckets

    def _siblings(self, buckets: Sequence[Bucket], level: int) -> int | None:
        """Return the place of the first of two siblings that a third bucket of the level follows."""
        for at, (older, newer, third) in enumerate(zip(buckets, buckets[1:], buckets[2:], strict=False)):
            of_a_level = older.level == newer.level == third.level == level
            if not of_a_level or older.index % 2 or newer.index != older.index + 1:
                continue
            if self.forgetting.joinable(stretch_of(older), stretch_of(newer)):
                return at
        return None

    def _union(self, *buckets: Bucket) -> Bucket:
        """Return one or two buckets that follow one another as one, not reduced: weights as of its end."""
        if len(buckets) == 1:
            return buckets[0]
        older, newer = buckets
        factor = self.forgetting.ageing(stretch_of(older), stretch_of(newer)) if newer.level else 1.0
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


def stretch_of(bucket: Bucket) -> Stretch:
    """Return a bucket's range as a rule of forgetting sees it."""
    return Stretch(bucket.extent.rows, bucket.times)


def _times(older: tuple[int, int], newer: tuple[int, int]) -> tuple[int, int]:
    if older == NO_TIMES or newer == NO_TIMES:
        return older if newer == NO_TIMES else newer
    return min(older[0], newer[0]), max(older[1], newer[1])

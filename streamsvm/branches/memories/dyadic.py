"""The structure of a partition that forgets: two buckets a level, each a function of its own range of the log.

The bucket of a *span* (`streamsvm.coreset.spans`) has the level 1. A bucket of level l > 1 is made of two siblings, the
numbers 2 k and 2 k + 1 of level l - 1, as soon as a third of that level follows them. So for any length there is a
border between it and twice it from the end: a counter, which merges two at once, has none but the beginning after 2^k
spans.

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
from typing import Any, Final

from streamsvm.branches.memories.forgetting import ForgettingRule, Stretch
from streamsvm.coreset.reducers.base import Reducer
from streamsvm.coreset.spans import SPAN, Spans
from streamsvm.coreset.structure import Bucket, PilotOf

FOLDED: Final = 63
"""Level of the oldest bucket, where others were merged into it although they are no siblings."""


class Dyadic(Spans):
    """Two buckets a level.

    Parameters
    ----------
    partition, seed, bucket_points, reducer, span_rows, open_points, audit_points, classes
        As in `Spans`.
    most : int
        Buckets, at least 2.
    forgetting : ForgettingRule
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
        forgetting: ForgettingRule,
        classes: int = 2,
    ) -> None:
        super().__init__(
            partition,
            seed,
            bucket_points,
            reducer,
            span_rows=span_rows,
            open_points=open_points,
            audit_points=audit_points,
            classes=classes,
        )
        self._most, self.forgetting = most, forgetting

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
        return buckets[self.forgetting.expired([stretch_of(bucket) for bucket in buckets]) :]

    def _siblings(self, buckets: Sequence[Bucket], level: int) -> int | None:
        """Return the place of the first of two siblings that a third bucket of the level follows."""
        for at, (older, newer, third) in enumerate(zip(buckets, buckets[1:], buckets[2:], strict=False)):
            of_a_level = older.level == newer.level == third.level == level
            if not of_a_level or older.index % 2 or newer.index != older.index + 1:
                continue
            if self.forgetting.joinable(stretch_of(older), stretch_of(newer)):
                return at
        return None

    def _ageing(self, older: Bucket, newer: Bucket) -> float:
        return self.forgetting.ageing(stretch_of(older), stretch_of(newer))


def stretch_of(bucket: Bucket) -> Stretch:
    """Return a bucket's range as a rule of forgetting sees it."""
    return Stretch(bucket.extent.rows, bucket.times)

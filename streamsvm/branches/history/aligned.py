"""The structure of an archive: every bucket of a complete binary tree over spans, each a function of its own rows.

A *span* is what it is in `streamsvm.coreset.spans`: so many rows, of which the first leaf screens the others. Spans
are numbered from the beginning of the partition. Bucket k of level l + 1 is made of the buckets 2 k and 2 k + 1 of
level l as soon as both are there, and all are kept by whoever collects them (`Aligned.taken`). So any range of whole
spans is the union of two buckets a level at most, and a bucket that is lost can be made again from its own rows alone.

Invariant: a bucket is a pure function of its own rows and their positions, of its number, the configuration and the
seed. Of what came before it knows the count of rows, which is its number, and nothing else.

Long buckets have more points than short ones, by the square root of their length. A stretch is as near as its longest
bucket, and of those there are few: all levels together take 3.4 times the bytes of the spans instead of twice.

Two siblings become one at once, since the two remain besides; nothing is aged or dropped; and no totals of earlier rows
stand in a bucket.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from streamsvm.coreset.spans import SPAN, Spans
from streamsvm.coreset.structure import Bucket, Learned, PilotOf

GROWING: Final = 11
"""Level up to which buckets grow: of 2^10 spans, 32 times a span's points."""


class Aligned(Spans):
    """A complete binary tree over spans; holds those buckets only that wait for their siblings.

    Parameters are those of `Spans`.
    """

    def __init__(self, *given: object, **named: object) -> None:
        super().__init__(*given, **named)  # type: ignore[arg-type]
        self._made_since: list[Bucket] = []

    def taken(self) -> list[Bucket]:
        """Return the buckets that were made since the last call, in the order in which they were made."""
        made, self._made_since = self._made_since, []
        return made

    def with_leaf(self, leaf: Bucket, pilot_of: PilotOf | None) -> list[Bucket]:
        """Return the buckets after a leaf; see `Structure`."""
        buckets = super().with_leaf(leaf, pilot_of)
        self.learned = only_rows(self.learned.rows, len(self.learned.class_weight))
        return buckets

    def _grown(self, buckets: list[Bucket], pilot_of: PilotOf | None) -> list[Bucket]:
        self._made_since.append(buckets[-1])
        while len(buckets) > 1 and are_siblings(*buckets[-2:]):
            older, newer = buckets[-2:]
            buckets[-2:] = [self.parent(older, newer, pilot_of)]
            self._made_since.append(buckets[-1])
        return buckets

    def parent(self, older: Bucket, newer: Bucket, pilot_of: PilotOf | None) -> Bucket:
        """Return the bucket that two siblings become."""
        level = older.level + 1
        return self._made(level, older.index // 2, self._union(older, newer), pilot_of, self.points_of(level))

    def points_of(self, level: int) -> int:
        """Return the most points of a bucket of a level: those of a span, times the square root of its length."""
        return math.isqrt(self._bucket_points**2 << min(level, GROWING) - SPAN)


def are_siblings(older: Bucket, newer: Bucket) -> bool:
    """Return whether two buckets are the halves of one of the next level."""
    return older.level == newer.level >= SPAN and not older.index % 2 and newer.index == older.index + 1


def only_rows(rows: int, classes: int) -> Learned:
    """Return totals of which nothing is said but the rows."""
    nothing = Learned.nothing(classes)
    return Learned(
        rows=rows,
        count=0,
        class_weight=nothing.class_weight,
        first_time_ms=nothing.first_time_ms,
        last_time_ms=nothing.last_time_ms,
    )


def waiting(ends: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """Return, of the buckets (level, index) that end at one place, the one that waits there for its sibling."""
    return next((one for one in ends if not one[1] % 2), None)

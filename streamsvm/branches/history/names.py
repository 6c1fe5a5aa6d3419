"""What a file of the archive is called: everything that is needed to choose it, and the hash of its content.

``<partition>_<base>_<start>_<end>_<level>_<number>_<first time>_<last time>_<sha256>.bucket``, positions as
``offset.row``, times in milliseconds (-1: none). So the listing of a directory is the whole index; there is no second
one that could disagree with the files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from streamsvm.checkpoint.records import BucketRecord
from streamsvm.coreset.structure import Bucket
from streamsvm.points import Position

SUFFIX: Final = ".bucket"
_POSITION: Final = r"(\d{1,19})\.(\d{1,19})"
_NAME: Final = re.compile(
    rf"(\d{{1,10}})_{_POSITION}_{_POSITION}_{_POSITION}_(\d{{1,2}})_(\d{{1,19}})_(-?\d{{1,19}})_(-?\d{{1,19}})_([0-9a-f]{{64}})"
    rf"{re.escape(SUFFIX)}",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Node:
    """A bucket of the archive, without its content.

    Attributes
    ----------
    partition : int
    base : Position
        Where the numbers of its series begin: the first row of its incarnation.
    start, end : Position
        Its rows; `end` is exclusive.
    level, number : int
        Its place in the tree over spans; level 1 is a span.
    first_time_ms, last_time_ms : int
        As of its `Extent`; -1 where none has a time.
    sha256 : str
        Of its record, as `streamsvm.checkpoint.records` writes it.
    """

    partition: int
    base: Position
    start: Position
    end: Position
    level: int
    number: int
    first_time_ms: int
    last_time_ms: int
    sha256: str

    @property
    def name(self) -> str:
        """The name of its file."""
        positions = "_".join(f"{at.offset}.{at.row}" for at in (self.base, self.start, self.end))
        return (
            f"{self.partition}_{positions}_{self.level}_{self.number}_{self.first_time_ms}_{self.last_time_ms}_"
            f"{self.sha256}{SUFFIX}"
        )

    @property
    def place(self) -> str:
        """Where its rows are, for people."""
        return f"partition {self.partition}, offsets {self.start.offset:,}-{self.end.offset:,}"

    @staticmethod
    def of(partition: int, base: Position, bucket: Bucket, record: BucketRecord) -> Node:
        """Return the node of a bucket."""
        extent = bucket.extent
        return Node(
            partition=partition,
            base=base,
            start=extent.start,
            end=extent.end,
            level=bucket.level,
            number=bucket.index,
            first_time_ms=extent.first_time_ms,
            last_time_ms=extent.last_time_ms,
            sha256=record.name.sha256,
        )

    @staticmethod
    def parse(name: str) -> Node | None:
        """Return the node of a file's name; None if the name is of something else."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        numbers = [int(part) for part in found.groups()[:-1]]
        node = Node(
            partition=numbers[0],
            base=Position(numbers[1], numbers[2]),
            start=Position(numbers[3], numbers[4]),
            end=Position(numbers[5], numbers[6]),
            level=numbers[7],
            number=numbers[8],
            first_time_ms=numbers[9],
            last_time_ms=numbers[10],
            sha256=found.groups()[-1],
        )
        return node if node.base <= node.start < node.end and node.level >= 1 else None

    def first_row(self, span_rows: int) -> int:
        """Return how many rows of its series come before it."""
        return self.number * self.rows(span_rows)

    def rows(self, span_rows: int) -> int:
        """Return how many rows it is of, rejected ones included."""
        return span_rows << self.level - 1

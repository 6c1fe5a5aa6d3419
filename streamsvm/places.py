"""Numbers that another program wrote, and places in topics: the range is looked at first, then there is a number.

A program that may write to a topic chooses every byte of its headers, keys and values. Python reads integers of any
size, and underscores, signs and digits of every script; an array, a float or a client does not take them. So a number
of a header or a key is read here, and one of a JSON record has one of the types below, which `msgspec` checks.

The ranges are those of Kafka's protocol: a partition and a leader epoch are int32, an offset is an int64. Whether a
topic *has* a partition or an offset is another question, which its reader must ask.

Invariant: no bytes raise. What is returned fits into an int64, and so does the number after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Final, NamedTuple

from msgspec import Meta

PARTITIONS: Final = 1 << 31
"""Partitions are below."""
OFFSETS: Final = (1 << 63) - 1
"""Offsets, and all numbers without a smaller range, are below."""
ROWS: Final = 1 << 31
"""Rows of one record are below: no record has as many bytes."""
MOST_DIGITS: Final = 20
"""Keys of the coresets topic pad offsets to so many."""
SOURCE_HEADER: Final = "streamsvm.source"
"""Topic, partition and offset of the record that a score was made from, with slashes between them."""

Partition = Annotated[int, Meta(ge=0, lt=PARTITIONS)]
Incarnation = Annotated[int, Meta(ge=0, lt=100_000_000)]
"""Keys of the coresets topic have eight digits of it."""
Offset = Annotated[int, Meta(ge=0, lt=OFFSETS)]
OffsetOrUnknown = Annotated[int, Meta(ge=-1, lt=OFFSETS)]
"""-1 where nobody knows it."""
Row = Annotated[int, Meta(ge=0, lt=ROWS)]
Epoch = Annotated[int, Meta(ge=-1, lt=PARTITIONS)]
"""A leader epoch; -1 where the broker gives none."""
Count = Annotated[int, Meta(ge=0, lt=OFFSETS)]
"""A number of something, or the number of a version or an incarnation."""


class Place(NamedTuple):
    """Where a record stands."""

    topic: str
    partition: int
    offset: int


def whole_number(text: bytes | str, below: int = OFFSETS) -> int | None:
    """Return a number that is written in ASCII digits only and is below a bound; None for anything else."""
    if not 0 < len(text) <= MOST_DIGITS or not (text.isascii() and text.isdigit()):
        return None
    number = int(text)
    return number if number < below else None


def place_of(topic: bytes, partition: bytes, offset: bytes) -> Place | None:
    """Return a place that is written in three texts; None if it is not one."""
    found = whole_number(partition, PARTITIONS), whole_number(offset)
    if found[0] is None or found[1] is None:
        return None
    try:
        return Place(topic.decode(), found[0], found[1])
    except UnicodeDecodeError:
        return None


def time_of(seconds: float) -> datetime | None:
    """Return a time of seconds since the epoch; None where the calendar ends before it: a producer may write any."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def source_of(headers: Iterable[tuple[str, bytes]]) -> Place | None:
    """Return where the record stands that a score was made from; None if its headers do not say so."""
    parts = dict(headers).get(SOURCE_HEADER, b"").rsplit(b"/", 2)
    return place_of(parts[0], parts[1], parts[2]) if len(parts) == 3 else None


def rejected_source_of(headers: Iterable[tuple[str, bytes]]) -> Place | None:
    """Return where the record stands that a dead letter was made from; None if its headers do not say so."""
    values = dict(headers)
    parts = [values.get(f"__streams.errors.{what}", b"") for what in ("topic", "partition", "offset")]
    return place_of(parts[0], parts[1], parts[2])

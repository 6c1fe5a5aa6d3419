"""A partition read from its end backwards, in growing spans, until the caller has seen enough."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streamsvm.kafka import Cluster, Record

PARTITION: Final = 0
FIRST_SPAN: Final = 512
"""Offsets that are read first; a version and its transaction's marker take two."""
GROWTH: Final = 8


def spans(
    cluster: Cluster, topic: str, timeout_s: float, first: int | None = None, end: int | None = None
) -> Iterator[tuple[Iterator[Record], bool]]:
    """Yield the records of each span, and whether it is the last: whether it reaches the partition's beginning.

    The first span goes to `end`, the others to where the one before begins; each offset is read once.
    Exhaust the records of a span before asking for the next; an empty partition is one empty span.

    Parameters
    ----------
    cluster : Cluster
    topic : str
    timeout_s : float
        Seconds to wait without progress.
    first : int, optional
        Offsets of the first span, `FIRST_SPAN` by default.
    end : int, optional
        The offset before which is read; the partition's end by default.

    Raises
    ------
    TopicMissing, TransientError
        As for `Cluster.read_to_end`.
    """
    low, high = cluster.log_range(topic, PARTITION)
    span, upper = FIRST_SPAN if first is None else first, high if end is None else max(low, end)
    while True:
        start = max(low, upper - span)
        yield _between(cluster, topic, start, end, timeout_s), start == low
        if start == low:
            return
        end = upper = start
        span *= GROWTH


def _between(cluster: Cluster, topic: str, start: int, end: int | None, timeout_s: float) -> Iterator[Record]:
    for record in cluster.read_to_end(topic, PARTITION, start=start, timeout_s=timeout_s):
        if end is not None and record.offset >= end:
            return
        yield record

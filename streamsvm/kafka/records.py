"""What crosses the border between the broker and the rest: bytes, coordinates and headers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple, overload

import numpy as np
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message as Consumed
from numpy.typing import NDArray


class Record(NamedTuple):
    """One consumed record.

    A named tuple and not a frozen dataclass: one is made for every record of the input, and this is
    0.3 microseconds against 0.9.

    Attributes
    ----------
    topic, partition, offset
        Where it lies; `offset` is this record's own.
    key, value
        Bytes as stored; a value of None is a tombstone.
    headers
        In the order of the record, names may repeat; a header without a value reads as ``b""``.
    timestamp_ms
        Milliseconds since the epoch, by the producer or the broker as the topic is configured.
    leader_epoch
        The epoch of the leader that appended it, None from a broker that does not say.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int | None
    leader_epoch: int | None


class Batch(Sequence[Record]):
    """Consumed records: column by column, or one by one, each made at its first use.

    A record takes longer to make than its value takes to decode; who needs columns only asks for none. A column is made
    by mapping the class's method, which is called without being looked up for each message.

    Parameters
    ----------
    messages : list of confluent_kafka.Message
        None of them an error.

    Attributes
    ----------
    partitions, offsets, leader_epochs : ndarray of shape (n,), int64
        -1 where there is no epoch.
    sizes : ndarray of shape (n,), int64
        Bytes of each value.
    values : list of n bytes or None
    plain : bool
        Whether no record has headers.
    """

    def __init__(self, messages: list[Consumed]) -> None:
        self._messages = messages

    def __len__(self) -> int:
        return len(self._messages)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Batch: ...
    def __getitem__(self, index: int | slice) -> Record | Batch:
        if isinstance(index, slice):
            return Batch(self._messages[index])
        return record_of(self._messages[index])

    @cached_property
    def values(self) -> list[bytes | None]:  # noqa: D102
        return list(map(Consumed.value, self._messages))

    @cached_property
    def sizes(self) -> NDArray[np.int64]:  # noqa: D102
        try:
            return np.fromiter(map(len, self.values), np.int64, len(self))  # type: ignore[arg-type]
        except TypeError:  # one is a tombstone
            return np.fromiter(map(len, self._messages), np.int64, len(self))

    @cached_property
    def partitions(self) -> NDArray[np.int64]:  # noqa: D102
        return self._column(Consumed.partition)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:  # noqa: D102
        return self._by_runs(Consumed.offset, 1)  # within a log they only grow: so nothing is left out between

    def times_ms(self, at: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the times of the records at these indexes; -1 stands for no time."""
        chosen = [self._messages[index] for index in at.tolist()]
        pairs = list(map(Consumed.timestamp, chosen))
        time_ms = np.array(list(map(itemgetter(1), pairs)), dtype=np.int64)
        if len(time_ms) and time_ms.min() <= 0:  # only where there is none; to look at all kinds takes as long again
            time_ms[[kind == TIMESTAMP_NOT_AVAILABLE for kind, _ in pairs]] = -1
        return time_ms

    @cached_property
    def leader_epochs(self) -> NDArray[np.int64]:  # noqa: D102
        return self._by_runs(Consumed.leader_epoch, 0)  # within a log they never fall

    @cached_property
    def plain(self) -> bool:  # noqa: D102
        return not any(map(Consumed.headers, self._messages))

    @cached_property
    def _runs(self) -> list[tuple[int, int]]:
        """Where messages of one partition that follow each other start and stop: a poll has few of them."""
        borders = (np.flatnonzero(self.partitions[1:] != self.partitions[:-1]) + 1).tolist()
        return list(pairwise([0, *borders, len(self)])) if self._messages else []

    def ends(self) -> dict[int, int]:
        """Return the offset after the last record of each partition."""
        last = [stop - 1 for _, stop in self._runs]
        return dict(zip(self.partitions[last].tolist(), (self.offsets[last] + 1).tolist(), strict=True))

    def last(self) -> list[Record]:
        """Return the last record of each run of records of one partition, in order."""
        return [self[stop - 1] for _, stop in self._runs]

    def counts(self) -> dict[int, int]:
        """Return how many records there are of each partition."""
        return {partition: count for partition, count in enumerate(np.bincount(self.partitions).tolist()) if count}

    def _by_runs(self, number: Callable[[Consumed], int | None], step: int) -> NDArray[np.int64]:
        """Return a number of each message, by the ends of each run where it has risen by so much a message."""
        found = np.empty(len(self), np.int64)
        for start, stop in self._runs:
            first, last = number(self._messages[start]), number(self._messages[stop - 1])
            if first is None or last is None or last - first != step * (stop - start - 1):
                return self._column(number)
            found[start:stop] = first - step * start
        return found + np.arange(len(self)) if step else found

    def _column(self, number: Callable[[Consumed], int | None]) -> NDArray[np.int64]:
        """Return a number of each message; -1 for None."""
        try:
            return np.fromiter(map(number, self._messages), np.int64, len(self))
        except TypeError:  # one has none
            numbers = map(number, self._messages)
            return np.array([-1 if each is None else each for each in numbers], dtype=np.int64)


def record_of(message: Consumed) -> Record:
    """Return a consumed message, which must not be an error event, as a record."""
    kind, timestamp_ms = message.timestamp()
    headers = message.headers()
    return Record(
        message.topic(),  # type: ignore[arg-type]
        message.partition(),  # type: ignore[arg-type]
        message.offset(),  # type: ignore[arg-type]
        message.key(),
        message.value(),
        tuple((name, value or b"") for name, value in headers) if headers else (),  # type: ignore[str-unpack,misc]
        timestamp_ms if kind else None,
        message.leader_epoch(),
    )


@dataclass(frozen=True, slots=True)
class Message:
    """One record to produce.

    Attributes
    ----------
    topic
        Where to.
    value
        None is a tombstone: on a compacted topic it retires the key.
    key
        Chooses the partition, as a Java client would, when `partition` is None.
    headers
        In order; names may repeat.
    partition
        An explicit partition. Topics of one partition name it (0): the embedded broker's have four.
    """

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    partition: int | None = None

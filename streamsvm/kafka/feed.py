"""The one place where records and their errors come out of a consumer; every reader is built on it.

Invariant: no record is lost between two calls. An error that ends the reading is raised only after
the records before it were handed over; an error that will pass is logged and never raised.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message as Consumed, TopicPartition

from streamsvm.errors import StreamsvmError, TransientError
from streamsvm.kafka.client import SLICE_S, Link
from streamsvm.kafka.connection import Connection
from streamsvm.kafka.failures import DamagedBatch, Fault, OffsetOutOfRange, error_of, fault_of, text_of
from streamsvm.kafka.log import log_range
from streamsvm.kafka.records import Batch
from streamsvm.kafka.topics import failure_of

logger = logging.getLogger("streamsvm.kafka")

GATHERED_BYTES = 4 * 2**20
"""About how much is gathered at most: records of many rows are large, and a number of them that suits small ones would
take long to come, and much memory."""

EXPECTED_RECORD_BYTES = 256 * 1024
"""How large a record is taken to be before the first came: where it is smaller, only the first batch is a small one;
where it is larger, the first batch takes so many times `GATHERED_BYTES`."""

SHORTEST_WAIT_S = 0.001
"""The client counts whole milliseconds: a shorter wait would not wait at all, and turn this loop into a spin."""


class Feed:
    """Records of one consumer, and what its errors mean.

    Parameters
    ----------
    consumer, link, connection
        The consumer, already assigned or subscribed, and what its callbacks know.
    topic : str
        For messages.
    group : str or None
        The group if it matters whether we may use it.
    on_unplaced : callable, optional
        Called with the partitions for which the client found no position of the group, and the records that came of
        them together with that. It places them; these records are dropped, and come again from the new place.

    Attributes
    ----------
    ends : dict of int to int
        The offset of each partition at which its end was last seen, if end-of-partition is enabled.
    """

    def __init__(
        self,
        consumer: Consumer,
        link: Link,
        connection: Connection,
        topic: str,
        *,
        group: str | None = None,
        on_unplaced: Callable[[set[int], Sequence[Consumed]], None] | None = None,
    ) -> None:
        self._consumer = consumer
        self._link = link
        self._connection = connection
        self._topic = topic
        self._group = group
        self._on_unplaced = on_unplaced
        self._ending: StreamsvmError | None = None
        self._record_bytes: float = EXPECTED_RECORD_BYTES
        self.ends: dict[int, int] = {}

    def take(self, max_records: int, timeout_s: float, *, gather: bool, to_end: bool = False) -> Batch:
        """Return at most `max_records`, as soon as there are any; blocks at most `timeout_s`.

        Parameters
        ----------
        max_records : int
            At least 1.
        timeout_s : float
            Seconds to wait for the first record; 0 takes what is there.
        gather : bool
            Wait up to 0.1 s for the batch to fill (throughput); or return with the first (latency). Either takes about
            `GATHERED_BYTES` at most, judged by the batch before.
        to_end : bool
            Return without records, too, as soon as a partition's end is met.
        """
        deadline, met = time.monotonic() + timeout_s, dict(self.ends)
        while True:
            # Raised at the next call, so that the records read before the error are handed over first.
            if self._ending is not None:
                raise self._ending
            # In slices, because a call into the client cannot be interrupted by a signal.
            wait_s = min(SLICE_S, max(deadline - time.monotonic(), 0.0))
            records = self._records(self._consume(max_records, wait_s, gather))
            if records:
                self._link.saw_answer()
                return records
            if self._ending is None:
                self._link.check()
                if deadline - time.monotonic() < SHORTEST_WAIT_S or (to_end and self.ends != met):
                    return Batch([])

    def resume(self) -> None:
        """Read on after an error that ended the reading, once its cause is out of the way."""
        self._ending = None

    def _consume(self, max_records: int, wait_s: float, gather: bool) -> list[Consumed]:
        try:
            if gather:
                return self._consumer.consume(self._worth_gathering(max_records), wait_s)
            first = self._consumer.consume(1, wait_s)
            if first and max_records > 1:
                # The first record ends the wait; what is already there comes along without another.
                first += self._consumer.consume(min(max_records - 1, self._worth_gathering(max_records)), 0)
            return first
        except KafkaException as error:
            raise self._link.failure(error_of(error), f"read {self._topic}") from error

    def _worth_gathering(self, max_records: int) -> int:
        return min(max_records, 1 + int(GATHERED_BYTES / max(self._record_bytes, 1.0)))

    def _records(self, consumed: list[Consumed]) -> Batch:
        # Nearly always: a batch without events stays in columns, and no record is made for Python.
        if not any(map(Consumed.error, consumed)):
            batch = Batch(consumed)
            if consumed:
                self._record_bytes = float(batch.sizes.mean())
            return batch
        records, unplaced = list[Consumed](), set[int]()
        for message in consumed:
            error = message.error()
            if error is None:
                records.append(message)
            elif self._on_unplaced and error.code() == KafkaError._AUTO_OFFSET_RESET and message.offset() is None:
                unplaced.add(message.partition() or 0)
            # The first error is the cause; those after it are its consequences.
            elif self._ending is None:
                self._ending = self._meaning(error, message)
        if self._on_unplaced and unplaced:
            self._on_unplaced(unplaced, [message for message in records if message.partition() in unplaced])
            records = [message for message in records if message.partition() not in unplaced]
        return Batch(records)

    def _meaning(self, error: KafkaError, message: Consumed) -> StreamsvmError | None:
        """Return the error to raise, or None for an event that is not a reason to end."""
        code, fault, partition, offset = error.code(), fault_of(error), message.partition(), message.offset()
        if code == KafkaError._PARTITION_EOF:
            self.ends[partition or 0] = offset or 0
            return None
        if code == KafkaError._AUTO_OFFSET_RESET:
            return self._misplaced(partition or 0, self._read_to(partition or 0) if offset is None else offset)
        if code == KafkaError.GROUP_AUTHORIZATION_FAILED and self._group is None:
            return None  # the name of a group that nothing is committed to
        if fault in (Fault.DAMAGED, Fault.REFUSED):  # what a writer is refused for is damage to a reader
            return DamagedBatch(
                f"a record batch of {self._topic}[{partition}] is damaged: {text_of(error)}",
                Fault.DAMAGED.remedy,
            )
        of_group = code == KafkaError.GROUP_AUTHORIZATION_FAILED
        doing = f"read {self._topic} as group {self._group}" if of_group else f"read {self._topic}"
        meaning = failure_of(error, self._link, self._connection, self._topic, partition or 0, doing)
        if isinstance(meaning, TransientError):
            self._link.last_trouble = text_of(error)
            logger.debug("temporary error on %s: %s", self._topic, text_of(error))
            return None
        return meaning

    def _read_to(self, partition: int) -> int:
        """Return where the client stands: of a log that was cut below that it names no offset."""
        return max(0, self._consumer.position([TopicPartition(self._topic, partition)])[0].offset)

    def _misplaced(self, partition: int, offset: int) -> StreamsvmError:
        try:
            low, high = log_range(self._connection, self._topic, partition)
        except TransientError:
            return OffsetOutOfRange(self._topic, partition, offset)
        return OffsetOutOfRange(self._topic, partition, offset, low, high)

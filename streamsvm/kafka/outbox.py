"""Sends single messages at least once, in order per partition.

Dead letters and replayed points go out by an `Outbox`. It has no transactions: a message may be stored
twice after a retry, and is never lost without an error. What must be visible all at once is published by
`streamsvm.kafka.producing` instead.

Invariant: a message that was sent is stored, or every later call raises the error that kept it from being stored. A
trainer therefore calls `flush` before it saves a checkpoint: no checkpoint passes a dead letter that was not stored.
"""

from __future__ import annotations

import contextlib
import time
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message as Delivered

from streamsvm.errors import StreamsvmError, TransientError
from streamsvm.kafka.client import SLICE_S, Link, make_producer, serve
from streamsvm.kafka.connection import Connection
from streamsvm.kafka.failures import error_of
from streamsvm.kafka.producing import produce, prompt
from streamsvm.kafka.records import Message

DEFAULT_QUEUED_BYTES = 32 * 2**20
"""Default number of bytes that an outbox queues before `send` blocks."""

PATIENCE_S = 60.0
"""Default time in which an outbox must deliver a message, in seconds."""

_FULL_S = 60.0
"""How long `send` waits for room in a full queue."""
_FOR_EVER_MS = 0
"""librdkafka's value of ``delivery.timeout.ms`` for no limit."""


class Outbox:
    """Sends messages at least once, in order per partition; no message is dropped silently. Not thread-safe.

    The client retries by itself for `patience_s`. A delivery that fails after that, or is refused, ends the outbox:
    every later call raises this first failure. Then create a new outbox, and send all messages again that no `flush`
    has confirmed.

    Parameters
    ----------
    connection : Connection
        The broker; the constructor does not wait for it.
    max_queued_bytes : int
        Most bytes that wait to be sent.
    patience_s : float or None
        Seconds for which the client tries to deliver a message; None: for ever, for callers that can work meanwhile.
        ``delivery.timeout.ms`` of the connection takes precedence.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        max_queued_bytes: int = DEFAULT_QUEUED_BYTES,
        patience_s: float | None = PATIENCE_S,
    ) -> None:
        self._connection = connection
        self._link = Link(connection)
        self._failure: StreamsvmError | None = None
        self._introduced = False
        self._waiting = 0  # messages; the client's own length also counts its events
        timeout_ms = _FOR_EVER_MS if patience_s is None else int(patience_s * 1000)
        self._producer = make_producer(
            connection,
            self._link,
            defaults={**prompt(connection), "delivery.timeout.ms": timeout_ms},
            fixed={"queue.buffering.max.kbytes": max(max_queued_bytes // 1024, 1)},
        )

    def send(self, message: Message) -> None:
        """Queue a message. While the queue is full it blocks until there is room or a delivery fails, at most 60 s.

        Raises
        ------
        PublishRefused
            If the message is larger than the client's ``message.max.bytes``: it was not queued, and the outbox stays
            usable.
        TopicMissing
            If the message names a partition that does not exist: it was not queued, and the outbox stays usable.
        TransientError
            If there was no room; the message was not queued. Or the first failed delivery, as below.
        FatalError, ConfigurationError
            The first failed delivery.
        """
        # First of all the failure of an earlier message: nothing may be queued behind a message that was lost.
        self.poll()
        if not self._introduced:
            self._introduce(message.topic)
        deadline = time.monotonic() + _FULL_S
        while True:
            try:
                produce(self._producer, message, partial(self._delivered, message.topic))
            except BufferError:
                serve(self._producer, self._link, SLICE_S)
                self._check()
                if time.monotonic() >= deadline:
                    raise self._full(message.topic) from None
            except KafkaException as error:
                serve(self._producer, self._link)
                raise self._link.failure(error_of(error), f"send to topic {message.topic}") from error
            else:
                self._waiting += 1
                return

    def poll(self) -> None:
        """Serve delivery reports without blocking. Call it regularly, also while no message is sent.

        Raises
        ------
        PublishRefused, TransientError, FatalError, ConfigurationError
            The first failed delivery.
        """
        serve(self._producer, self._link)
        self._check()

    def flush(self, timeout_s: float) -> None:
        """Return when the broker has stored every message sent. Blocks at most about `timeout_s`.

        Raises
        ------
        TransientError
            If some messages are not acknowledged in time; they remain queued.
        PublishRefused, FatalError, ConfigurationError
            The first failed delivery.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            self._flush(min(SLICE_S, max(deadline - time.monotonic(), 0.0)))
            self._check()
            if self._waiting == 0:
                return
            if time.monotonic() >= deadline:
                trouble = f" ({self._link.last_trouble})" if self._link.last_trouble else ""
                raise TransientError(
                    f"{self._connection.servers} did not acknowledge {self._waiting} messages within {timeout_s:g} "
                    f"s{trouble}",
                    "The messages remain queued: flush again, or check that the broker runs.",
                )

    def close(self) -> None:
        """Close the connection. Queued messages are not sent, so call `flush` before."""
        self._producer.purge()
        self._producer.close()

    def _full(self, topic: str) -> TransientError:
        trouble = f" ({self._link.last_trouble})" if self._link.last_trouble else ""
        return TransientError(
            f"the send queue is full: {self._waiting} messages wait for {self._connection.servers}, and no "
            f"room for another message to topic {topic} became free within {_FULL_S:g} s{trouble}",
            "Check that the topic accepts records: its leader, its in-sync replicas, and the broker's disk.",
        )

    def _introduce(self, topic: str) -> None:
        """Connect before the first message: on its own the client requests its producer id half a second later."""
        self._introduced = True
        # An error is ignored here: the delivery of the message reports it, with the topic and the cause.
        with contextlib.suppress(KafkaException):
            self._producer.list_topics(topic, timeout=SLICE_S)

    def _flush(self, timeout_s: float) -> None:
        try:
            self._producer.flush(timeout_s)
        except KafkaException as error:
            self._link.on_error(error_of(error))

    def _delivered(self, topic: str, error: KafkaError | None, _: Delivered) -> None:
        self._waiting -= 1
        if error is not None and self._failure is None:
            self._failure = self._link.failure(error, f"deliver a message to topic {topic}")

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        self._link.check()

"""Writers: `Outbox` sends single messages at least once, `Publisher` groups of them atomically."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Delivered

from streamsvm.errors import StreamsvmError, TransientError
from streamsvm.kafka.client import SLICE_S, Link, make_producer
from streamsvm.kafka.connection import Connection, Option
from streamsvm.kafka.failures import FENCED, OutcomeUnknown, error_of, text_of
from streamsvm.kafka.records import Message

DEFAULT_QUEUED_BYTES = 32 * 2**20
"""Default bound of what an outbox holds before it blocks."""

_DELIVERY_TIMEOUT_MS = 60_000
_BY_KEY = -1

OnDelivery = Callable[[KafkaError | None, Delivered], None]


class Outbox:
    """Sends messages at least once, in order per partition; nothing is dropped unsaid. Not thread-safe.

    The client retries by itself for ``delivery.timeout.ms`` (here 60 s). A delivery that fails after
    that, or is refused, fails the outbox for good: every later call raises that first failure. Make a
    new one then, and send again whatever a `flush` has not confirmed.

    Parameters
    ----------
    connection : Connection
        The broker; nothing blocks or fails here for want of one.
    max_queued_bytes : int
        Bound of what waits to be sent, in bytes.
    """

    def __init__(self, connection: Connection, *, max_queued_bytes: int = DEFAULT_QUEUED_BYTES) -> None:
        self._connection = connection
        self._link = Link(connection)
        self._failure: StreamsvmError | None = None
        self._producer = make_producer(
            connection,
            self._link,
            defaults={**prompt(connection), "delivery.timeout.ms": _DELIVERY_TIMEOUT_MS},
            fixed={"queue.buffering.max.kbytes": max(max_queued_bytes // 1024, 1)},
        )

    def send(self, message: Message) -> None:
        """Queue a message; blocks while the queue is full, until there is room or a delivery fails.

        Raises
        ------
        PublishRefused
            If the message is larger than the client's ``message.max.bytes``: it was not queued, and
            the outbox goes on.
        TransientError, FatalError, ConfigurationError
            The first failed delivery.
        """
        self.poll()
        while True:
            try:
                produce(self._producer, message, partial(self._delivered, message.topic))
            except BufferError:
                self._producer.poll(SLICE_S)
                self._check()
            except KafkaException as error:
                self._producer.poll(0)
                raise self._link.failure(error_of(error), f"send to topic {message.topic}") from error
            else:
                return

    def poll(self) -> None:
        """Serve delivery reports without blocking; call it now and then also when nothing is sent.

        Raises
        ------
        PublishRefused, TransientError, FatalError, ConfigurationError
            The first failed delivery.
        """
        self._producer.poll(0)
        self._check()

    def flush(self, timeout_s: float) -> None:
        """Return when every message sent is stored by the broker; blocks at most about `timeout_s`.

        Raises
        ------
        TransientError
            If some are still not acknowledged; they remain queued.
        PublishRefused, FatalError, ConfigurationError
            The first failed delivery.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            waiting = self._producer.flush(min(SLICE_S, max(deadline - time.monotonic(), 0.0)))
            self._check()
            if waiting == 0:
                return
            if time.monotonic() >= deadline:
                trouble = f" ({self._link.last_trouble})" if self._link.last_trouble else ""
                raise TransientError(
                    f"{waiting} messages are not acknowledged by {self._connection.servers} "
                    f"within {timeout_s:g} s{trouble}",
                    "They remain queued: flush again, or check that the broker runs.",
                )

    def close(self) -> None:
        """Let go of the broker; what is still queued is not sent, so `flush` before."""
        self._producer.purge()
        self._producer.close()

    def _delivered(self, topic: str, error: KafkaError | None, _: Delivered) -> None:
        if error is not None and self._failure is None:
            self._failure = self._link.failure(error, f"deliver a message to topic {topic}")

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        self._link.check()


class Publisher:
    """Publishes groups of messages, each group atomically; one publisher per transactional id lives.

    On a real broker a group is one transaction: readers see all of it or nothing, and whoever calls
    `start` last fences every other publisher of the same id. The embedded broker has no transactions:
    there a group is produced plainly, idempotently and in order, fences nobody, and a failure in its
    midst leaves its beginning behind.

    Not thread-safe. After `OutcomeUnknown` or a `FatalError` other than `PublishRefused` this object is
    spent: make another.

    Parameters
    ----------
    connection : Connection
        The broker; nothing blocks or fails here for want of one.
    transactional_id : str
        What names the one writer, across restarts.
    transaction_timeout_s : float
        How long, in seconds, one group may take to be stored, and then to be committed; also how long
        a transaction left open by a crash can hold readers back.
    """

    def __init__(self, connection: Connection, transactional_id: str, *, transaction_timeout_s: float = 30.0) -> None:
        self._connection = connection
        self._id = transactional_id
        self._timeout_s = transaction_timeout_s
        self._link = Link(connection)
        self._spent = False
        timeout_ms = int(transaction_timeout_s * 1000)
        fixed: dict[str, Option] = {"delivery.timeout.ms": timeout_ms}
        if not connection.embedded:
            fixed |= {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms}
        self._producer = make_producer(
            connection, self._link, defaults={**prompt(connection), "linger.ms": 0}, fixed=fixed
        )

    def start(self) -> None:
        """Take over the transactional id: fence the predecessor and end what it left open.

        Blocks at most twice the connection's request timeout.

        Raises
        ------
        BrokerUnavailable
            If the broker, or its coordinator of transactions, does not answer in time.
        ConfigurationError
            If the broker forbids the id.
        """
        doing = f"take over transactional id {self._id}"
        try:
            self._producer.list_topics(timeout=self._connection.request_timeout_s)
            self._link.saw_answer()
            if not self._connection.embedded:
                self._producer.init_transactions(self._connection.request_timeout_s)
        except KafkaException as error:
            self._producer.poll(0)
            raise self._link.failure(error_of(error), doing) from error

    def publish(
        self,
        messages: Sequence[Message],
        last: Callable[[Sequence[int]], Sequence[Message]] | None = None,
    ) -> list[int]:
        """Publish a group, and return the offsets of `messages`, in their order.

        Blocks at most about twice the transaction's timeout.

        Parameters
        ----------
        messages : sequence of Message
            What to publish.
        last : callable, optional
            Given the offsets of `messages`, returns messages to add to the same group: those that
            point at the others.

        Raises
        ------
        Fenced
            If another publisher took over the id; nothing was published.
        PublishRefused
            If a message is too large, or refused for another lasting reason; nothing was published.
        OutcomeUnknown
            If the commit, or the abort, was not answered (a `TransientError`). Never publish the same
            again without reading the topic first.
        TransientError
            If the broker failed before the commit; nothing was published.
        TopicMissing, ConfigurationError, FatalError
            If the topic does not exist, the broker forbids it, or the client cannot go on.
        """
        if self._spent:
            raise OutcomeUnknown(
                f"publisher {self._id} has an earlier transaction of unknown outcome", "Make a new publisher."
            )
        self._begin()
        try:
            offsets = self._store(messages)
            if last is not None:
                self._store(last(offsets))
        except BaseException as cause:
            self._abort(cause)
            raise
        self._commit()
        return offsets

    def close(self) -> None:
        """Let go of the broker; a transaction that is open is left to the broker's timeout."""
        self._producer.purge()
        self._producer.close()

    def _begin(self) -> None:
        if self._connection.embedded:
            return
        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            raise self._failure(error, "begin a transaction") from error

    def _store(self, messages: Sequence[Message]) -> list[int]:
        """Produce messages, wait until the broker has stored them all, return their offsets."""
        reports = _Reports(len(messages))
        deadline = time.monotonic() + self._timeout_s
        for index, message in enumerate(messages):
            self._queue(message, partial(reports.delivered, index), deadline)
        while reports.waiting and reports.failure is None:
            self._producer.poll(SLICE_S)
            if time.monotonic() >= deadline:
                raise TransientError(
                    f"{reports.waiting} messages of {self._id} are not acknowledged within {self._timeout_s:g} s",
                    f"Check that the broker at {self._connection.servers} runs.",
                )
        if reports.failure is not None:
            error, topic = reports.failure
            self._producer.poll(0)
            raise self._link.failure(error, f"publish to topic {topic}")
        return reports.offsets

    def _queue(self, message: Message, on_delivery: OnDelivery, deadline: float) -> None:
        while True:
            try:
                produce(self._producer, message, on_delivery)
            except BufferError:
                self._producer.poll(SLICE_S)
                if time.monotonic() >= deadline:
                    raise TransientError(
                        f"no room for a message of {self._id} within {self._timeout_s:g} s",
                        f"Check that the broker at {self._connection.servers} runs.",
                    ) from None
            except KafkaException as error:
                raise self._failure(error, f"publish to topic {message.topic}") from error
            else:
                return

    def _abort(self, cause: BaseException) -> None:
        """Abort, so that the next group can begin; raises only if that did not work."""
        if self._connection.embedded or self._link.fatal is not None:
            return
        try:
            self._producer.abort_transaction(self._timeout_s)
        except KafkaException as error:
            self._spent = True
            failure = self._failure(error, f"abort a transaction of {self._id}")
            if error_of(error).code() in FENCED or self._link.fatal is not None:
                raise failure from cause
            raise OutcomeUnknown(
                f"a transaction of {self._id} failed and could not be aborted: {text_of(error_of(error))}",
                "Make a new publisher, which aborts it.",
            ) from cause

    def _commit(self) -> None:
        if self._connection.embedded:
            return
        try:
            self._producer.commit_transaction(self._timeout_s)
        except KafkaException as error:
            raise self._uncommitted(error) from error

    def _uncommitted(self, exception: KafkaException) -> StreamsvmError:
        error = error_of(exception)
        self._producer.poll(0)
        lost_id = KafkaError.INVALID_PRODUCER_ID_MAPPING
        fatal = self._link.fatal
        if error.code() == lost_id or (fatal is not None and fatal.code() == lost_id):
            return self._unknown(error)
        failure = self._failure(exception, f"commit a transaction of {self._id}")
        if error.code() in FENCED or fatal is not None or error.fatal():
            return failure
        if error.txn_requires_abort():
            self._abort(exception)
            return failure
        return self._unknown(error)

    def _unknown(self, error: KafkaError) -> OutcomeUnknown:
        self._spent = True
        return OutcomeUnknown(
            f"the outcome of a transaction of {self._id} is unknown: {text_of(error)}",
            "Make a new publisher and read the topic to its end before publishing again.",
        )

    def _failure(self, exception: KafkaException, doing: str) -> StreamsvmError:
        self._producer.poll(0)
        return self._link.failure(error_of(exception), doing)


class _Reports:
    """Delivery reports of one group of messages, by their index."""

    def __init__(self, count: int) -> None:
        self.offsets = [-1] * count
        self.waiting = count
        self.failure: tuple[KafkaError, str] | None = None

    def delivered(self, index: int, error: KafkaError | None, message: Delivered) -> None:
        self.waiting -= 1
        if error is None:
            self.offsets[index] = message.offset() or 0
        elif self.failure is None:
            self.failure = error, str(message.topic())


def prompt(connection: Connection) -> dict[str, Option]:
    """Return the options by which a producer notices a missing topic within the request's timeout."""
    return {"topic.metadata.propagation.max.ms": int(connection.request_timeout_s * 1000)}


def produce(producer: Producer, message: Message, on_delivery: OnDelivery) -> None:
    """Hand one message to the client.

    Raises
    ------
    BufferError
        If its queue is full.
    KafkaException
        If it refuses the message.
    """
    producer.produce(
        message.topic,
        value=message.value,
        key=message.key,
        partition=_BY_KEY if message.partition is None else message.partition,
        headers=list(message.headers),
        on_delivery=on_delivery,
    )

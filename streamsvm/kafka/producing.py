"""Publishes groups of messages, each group atomically; single messages are sent by `streamsvm.kafka.outbox`.

A trainer publishes each version as one group (version, head, alias, audit entry), and a scorer each batch of scores.
Both callers, `consumers.trainer.session` and `consumers.scorer.scorer`, rely on one promise: when `publish` raises an
error other than `OutcomeUnknown`, nothing was published; when `publish` returns, everything was. This module keeps that
promise although three things are true of brokers and of the client library.

1. The answer to a commit comes before the commit is visible. The coordinator answers, and writes the markers into the
   partitions afterwards. If it is killed in between, some markers may never be written. So an answer proves nothing to
   a reader. `confirm` waits until the last stable offset of each partition has passed the group, and `publish` confirms
   the previous group before it begins the next one: a marker names a producer and not a transaction, and the marker of
   the second group would otherwise decide about records of the first.
2. A request can arrive twice. If the connection is lost before an answer, the client sends the request again, and the
   first copy may still arrive, much later. The copy of a commit would then commit the next group half written. So this
   publisher ends after a connection was lost while a transaction was being ended (`_doubt_if_repeated`).
3. The client recovers from some errors by itself: it drops the group and takes a new epoch, or a new producer id. After
   a dropped group nothing was published, and the group is sent again (`_Purged`). After a new producer id nobody can
   exclude that another process used the old one meanwhile, and the outcome counts as unknown.

What a caller must do after `OutcomeUnknown`: create another publisher with the same transactional id, `start` it, end
what may be open (`sweep`), read the topic to its end, and only then decide whether to publish the group again. The
order is explained in `streamsvm.delivery.machine`; `consumers.streams.settling` carries it out.

Every record has a stamp in its headers (`streamsvm.kafka.attempts`): the attempt, the number of the record in it, and
how many there are. A successor recognises by the stamps which records belong together.

To read first: `Publisher.publish`, then `_publish`, which is one transaction from top to bottom; then `_commit`,
`_abort` and `_uncommitted`, which decide what an error means.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message as Delivered, Producer

from streamsvm.crashpoints import crash_point
from streamsvm.errors import ConfigurationError, FatalError, StreamsvmError, TransientError
from streamsvm.kafka.attempts import stamped
from streamsvm.kafka.client import SLICE_S, ConnectionLog, Link, make_producer, serve, socket_timeout_ms
from streamsvm.kafka.connection import Connection, Option
from streamsvm.kafka.failures import OutcomeUnknown, error_of, fault_of, text_of
from streamsvm.kafka.log import Marks, Place
from streamsvm.kafka.membership import MemberProgress
from streamsvm.kafka.records import Message

_LOOKS = 4
"""Least number of attempts to see the markers: if a partition's leader is gone, an attempt takes all of its time."""

_LOG_INFO = 6
_SHORTEST_LOOK_S = 0.002
"""First pause between two looks at the stable offsets: markers usually follow the answer within a few milliseconds."""
_LONGEST_LOOK_S = 0.25
"""Longest pause: while markers are missing, the stable offsets are read four times a second at most."""
_BY_KEY = -1
_MOST_GAPS = 2
"""How often a group is sent again after the client dropped it; after that the error is raised."""
_PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})

_FORGOTTEN = KafkaError.INVALID_PRODUCER_ID_MAPPING
_RENEW = "Create a new publisher, and read the topic to its end before publishing again."

OnDelivery = Callable[[KafkaError | None, Delivered], None]


class Publisher:
    """Publishes groups of messages, each group atomically; only one publisher per transactional id can be active.

    On a real broker a group is one transaction: readers see all of it or nothing, and the publisher that called `start`
    last fences all others with the same id. The embedded broker has no transactions: there a group is produced
    idempotently and in order, nobody is fenced, and after a failure the first messages of a group remain.

    Not thread-safe. After `OutcomeUnknown`, or a `FatalError` other than `PublishRefused`, every later group fails in
    the same way: create another publisher. `OutcomeUnknown` is also raised if the client ended by itself for any reason
    that does not prevent a new publisher from continuing.

    Parameters
    ----------
    connection : Connection
        The broker; the constructor does not wait for it.
    transactional_id : str
        The name of the one writer, across restarts.
    transaction_timeout_s : float
        Seconds that a group may take to be stored, and again to be committed. Also the time for which a transaction
        left open by a crash can hold readers up.
    writer : str
        Name of this publisher in the stamps of its records; must be unique for ever. Default: a random name.
    """

    def __init__(
        self,
        connection: Connection,
        transactional_id: str,
        *,
        transaction_timeout_s: float = 30.0,
        writer: str = "",
    ) -> None:
        self._connection = connection
        self._id = transactional_id
        # Random, not the transactional id: a successor has the same id, and its attempts must not be mistaken for ours.
        self._writer = writer or uuid.uuid4().hex[:16]
        self._attempts = 0
        self._attempted: tuple[Message, ...] = ()
        self._marks = Marks(connection)
        # The partitions in which the newest group was committed and its marker was not seen yet, with the offset of its
        # last record there. Empty means that readers have everything.
        self._unmarked: dict[Place, int] = {}
        self._timeout_s = transaction_timeout_s
        self._link = Link(connection)
        self._log = ConnectionLog()
        # The error after which this publisher may not be used. Each later call raises it again, so that a caller that
        # missed the first one cannot publish with a producer whose past is unknown.
        self._ended: StreamsvmError | None = None
        # A message that is delivered later than its transaction may last could only meet an aborted one.
        timeout_ms = int(transaction_timeout_s * 1000)
        fixed: dict[str, Option] = {"delivery.timeout.ms": timeout_ms}
        if not connection.embedded:
            fixed |= {
                "log_level": _LOG_INFO,
                "log.connection.close": True,  # these log lines are the only sign of a lost connection
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "socket.timeout.ms": min(
                    timeout_ms, socket_timeout_ms(connection)
                ),  # librdkafka refuses a larger value
            }
        self._producer = make_producer(
            connection,
            self._link,
            # The caller waits for the whole group before it sends anything else. Lingering would only delay the group:
            # no further message can join the batch.
            defaults={**prompt(connection), "linger.ms": 0},
            fixed=fixed,
            log=self._log,
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
            # Any answer first. If a broker answers this and the take-over fails afterwards, the coordinator is at
            # fault, and not the network or the password: the error message can then name the right one.
            self._producer.list_topics(timeout=self._connection.request_timeout_s)
            self._link.saw_answer()
            if not self._connection.embedded:
                self._producer.init_transactions(self._connection.request_timeout_s)
        except KafkaException as error:
            serve(self._producer, self._link)
            raise self._link.failure(error_of(error), doing) from error

    def publish(
        self,
        messages: Sequence[Message],
        last: Callable[[Sequence[int]], Sequence[Message]] | None = None,
        progress: MemberProgress | None = None,
    ) -> list[int]:
        """Publish a group, and return the offsets of `messages`, in their order.

        Blocks at most about twice the transaction's timeout.

        Parameters
        ----------
        messages : sequence of Message
            What to publish.
        last : callable, optional
            Takes the offsets of `messages` and returns further messages of the same group, which refer to those
            offsets. It is called again if the client has to start the transaction over.
        progress : MemberProgress, optional
            Positions to commit with the group, in the same transaction. The embedded broker cannot do that: there they
            are left out, and the caller commits them afterwards.

        Raises
        ------
        Fenced
            If another publisher took the id over, or the broker ended a transaction of this one that took too long;
            nothing was published.
        PublishRefused
            If a message is too large, or refused for another permanent reason; nothing was published.
        OutcomeUnknown
            If the commit or the abort was not answered (a `TransientError`). Never publish the same messages again
            without reading the topic first.
        TransientError
            If the broker failed before the commit, or another member of the group now holds the partitions of
            `progress`; nothing was published.
        TopicMissing, ConfigurationError, FatalError
            If the topic does not exist, the broker forbids the write, or the client cannot continue.
        """
        # Nothing of a dropped group was committed, so it is safe to send the same group again. A client that drops the
        # group every time has another reason than a gap in sequence numbers: the last attempt reports it.
        for _ in range(_MOST_GAPS):
            try:
                return self._publish(messages, last, progress)
            except _Purged:
                continue
        return self._publish(messages, last, progress)

    @property
    def attempted(self) -> tuple[Message, ...]:
        """The stamped messages of the newest group, as far as they were made; empty once readers have passed them.

        A broker that takes a late copy of an earlier commit for the end of this group commits what it has by then, and
        refuses the rest: then the log does not hold all that a settlement needs.
        """
        return self._attempted

    def confirm(self) -> None:
        """Wait until readers of committed records can read past the group that was published last.

        A broker answers a commit before it writes the markers, and a broker that is killed in between may never write
        them: the answer alone proves nothing. `publish` confirms each group before it begins the next one, so that the
        marker of one transaction never decides about the records of another. Call `confirm` to be certain at once. It
        also waits for other transactions that were open below the group's records. On the embedded broker it does
        nothing.

        Blocks at most about the transaction's timeout.

        Raises
        ------
        OutcomeUnknown
            If the markers were not written in time: a new publisher must find out the outcome, see `sweep`.
        """
        deadline, pause_s = time.monotonic() + self._timeout_s, _SHORTEST_LOOK_S
        while self._unmarked:
            reason = "the last stable offsets do not advance"
            try:
                stable = self._marks.stable(self._unmarked, self._timeout_s / _LOOKS)
            except TransientError as error:
                # Not the end: while a partition changes its leader nobody answers, and the markers may still come.
                reason = error.what
            else:
                # Greater, not equal: the stable offset is the next one that a reader of committed records will get.
                self._unmarked = {place: last for place, last in self._unmarked.items() if stable[place] <= last}
            if not self._unmarked:
                self._attempted = ()  # only now: until readers have passed them, a settlement may need the bytes
                return
            if time.monotonic() >= deadline:
                (topic, partition), last = next(iter(self._unmarked.items()))
                self._ended = OutcomeUnknown(
                    f"{self._id} committed the record at {topic}[{partition}]@{last}, but readers could not read "
                    f"past it within {self._timeout_s:g} s: {reason}",
                    _RENEW,
                )
                raise self._ended
            # Serves the client while it waits. Otherwise its queue of callbacks would grow, and an error that the
            # client reports by a callback would be noticed only afterwards.
            serve(self._producer, self._link, pause_s)
            pause_s = min(2 * pause_s, _LONGEST_LOOK_S)

    def sweep(self, messages: Sequence[Message]) -> None:
        """End what a broker may have left open, without publishing; call it after `start` where readers are blocked.

        A broker that is killed between deciding a transaction and marking its partitions may consider the transaction
        finished when it is back, although markers are missing (Apache Kafka 4.3.1: "these partitions are likely deleted
        already"). Then readers of committed records are held up there, and `start` finds nothing to end. Only the
        markers of this id's next transaction end it. So this method begins a transaction, adds every partition, and
        aborts: an abort cannot commit by accident what the broker had given up.
        On the embedded broker it does nothing.

        Blocks at most about twice the transaction's timeout.

        Parameters
        ----------
        messages : sequence of Message
            One for each partition where readers are held up; only readers of aborted records see them.

        Raises
        ------
        Fenced, OutcomeUnknown, TransientError, TopicMissing, ConfigurationError, FatalError
            As for `publish`.
        """
        if self._connection.embedded:
            return
        self._begin()
        try:
            attempt = self._new_attempt()
            # Stored before the abort: a partition belongs to the transaction, and gets the marker of its end, only once
            # a record was produced to it.
            stored = self._store(self._stamped(messages, attempt, 1, len(messages)))
        except BaseException as cause:
            self._abort(cause)
            raise
        self._abort(TransientError(f"the abort of a transaction of {self._id} did not finish", "Go on."))
        # The marker of this abort may be lost as well. The commit of the next group would then show its records to
        # readers, so the next `publish` waits until readers have passed them.
        self._unmarked = _last(stored.places)

    def poll(self) -> None:
        """Serve the client's callbacks without blocking; call it regularly while nothing is published."""
        serve(self._producer, self._link)

    def close(self) -> None:
        """Close the connection; an open transaction is aborted, by this call or by the broker after its timeout."""
        if self._ended is None and self._link.fatal is None:
            # What is still queued belongs to a transaction that will be aborted; sending it first would only take time.
            self._producer.purge()
            self._producer.close()
        del self._producer  # a client that has failed is only destroyed, because its `close` would try to abort

    def _publish(
        self,
        messages: Sequence[Message],
        last: Callable[[Sequence[int]], Sequence[Message]] | None,
        progress: MemberProgress | None,
    ) -> list[int]:
        if self._ended is not None:
            raise self._ended
        # Before `begin`: the marker of this transaction would also decide about records of the last one that have none.
        self.confirm()
        self._begin()
        attempt, count = self._new_attempt(), len(messages)
        # How many parts the attempt has is unknown until `last` has made the rest, so the first records say 0. Kept
        # before they are sent: after an error the caller must know what the broker may have received.
        self._attempted = tuple(self._stamped(messages, attempt, 1, 0 if last else count))
        try:
            stored = self._store(self._attempted)
            places, offsets = list(stored.places), stored.offsets
            if last is not None:
                # In the same transaction, and only now: the broker gives an offset when it stores a record, and the
                # head and the alias of a version name the offset of its record.
                pointers = last(offsets)
                made = self._stamped(pointers, attempt, count + 1, count + len(pointers))
                self._attempted += tuple(made)
                stored = self._store(made)
                places += stored.places
                crash_point("publish.sent")
            if progress is not None:
                # After the records: the group's positions must not be committed for records that were not stored.
                crash_point("scores.sent")
                self._add(progress, attempt)
                crash_point("scores.placed")
        # Also for KeyboardInterrupt: readers cannot pass a transaction that stays open.
        except BaseException as cause:
            self._abort(cause)
            raise
        self._commit()
        if self._connection.embedded:
            self._attempted = ()
        else:
            self._unmarked = _last(places)
        return offsets

    def _new_attempt(self) -> str:
        self._attempts += 1
        return f"{self._writer}.{self._attempts}"

    def _stamped(self, messages: Sequence[Message], attempt: str, first: int, parts: int) -> Sequence[Message]:
        return stamped(messages, attempt, self._id, first, parts)

    def _begin(self) -> None:
        if self._connection.embedded:
            return
        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            raise self._failure(error, "begin a transaction") from error

    def _store(self, messages: Sequence[Message]) -> _Reports:
        """Produce messages, wait until the broker has stored all of them, and return their offsets."""
        reports = _Reports(len(messages))
        # Our own deadline, beside `delivery.timeout.ms` of the client: the client's clock starts per message.
        deadline = time.monotonic() + self._timeout_s
        for index, message in enumerate(messages):
            self._queue(message, partial(reports.delivered, index), deadline)
        while reports.waiting and reports.failure is None:
            serve(self._producer, self._link, SLICE_S)
            if reports.waiting and reports.failure is None and time.monotonic() >= deadline:
                raise TransientError(
                    f"{reports.waiting} messages of {self._id} were not acknowledged within {self._timeout_s:g} s",
                    f"Check that the broker at {self._connection.servers} runs.",
                )
        if reports.failure is not None:
            error, topic = reports.failure
            # The reason is often reported after the failed delivery: serve the callbacks before asking what it was.
            serve(self._producer, self._link)
            # A purge with a fatal error is the consequence of that error, which then is what must be raised.
            if error.code() in _PURGED and self._link.fatal is None:
                raise self._dropped(sorted({message.topic for message in messages}))
            raise self._link.failure(error, f"publish to topic {topic}")
        return reports

    def _add(self, progress: MemberProgress, attempt: str) -> None:
        """Add a group's positions to the transaction; their metadata names the attempt that commits them."""
        if self._connection.embedded:
            return
        offsets = progress.stamped(attempt)
        try:
            self._producer.send_offsets_to_transaction(offsets, progress.member, self._timeout_s)
        except KafkaException as error:
            raise self._failure(error, f"commit {progress.what}") from error

    def _dropped(self, topics: Sequence[str]) -> StreamsvmError:
        """Return why the client dropped a group by itself; the client does not name the topic that was the cause.

        The client gives the reason only as the error of a call that is not allowed in the transaction's state.
        `begin_transaction` is such a call, and inside a transaction it has no effect. If the broker has forgotten the
        producer id, another instance may have used it meanwhile. A client that takes a new id by itself would not
        notice that, so the outcome counts as unknown, and the caller reads the topic.
        """
        doing = f"publish to topic {' or '.join(topics)}"
        if not self._connection.embedded:
            try:
                self._producer.begin_transaction()
            except KafkaException as refusal:
                reason = error_of(refusal)
                if reason.code() == _FORGOTTEN:
                    return OutcomeUnknown(f"failed to {doing}: {text_of(reason)}", _RENEW)
                if reason.txn_requires_abort() and issubclass(fault_of(reason).error, ConfigurationError):
                    return self._link.failure(reason, doing)
        return _Purged(f"failed to {doing}: the client library dropped the message", "Try again.")

    def _queue(self, message: Message, on_delivery: OnDelivery, deadline: float) -> None:
        while True:
            try:
                produce(self._producer, message, on_delivery)
            except BufferError:
                serve(self._producer, self._link, SLICE_S)
                if time.monotonic() >= deadline:
                    raise TransientError(
                        f"no room in the send queue for a message of {self._id} within {self._timeout_s:g} s",
                        f"Check that the broker at {self._connection.servers} runs.",
                    ) from None
            except KafkaException as error:
                raise self._failure(error, f"publish to topic {message.topic}") from error
            else:
                return

    def _abort(self, cause: BaseException) -> None:
        """Abort, so that the next group can begin; raises only if the abort fails."""
        if self._connection.embedded:
            return
        # After a fatal error the client refuses every call, an abort, too. The next publisher ends the transaction, or
        # the broker does after its timeout.
        if isinstance(cause, FatalError) and self._link.fatal is not None:
            self._ended = _renewable(cause, f"a transaction of {self._id} failed: {text_of(self._link.fatal)}")
            if self._ended is cause:
                return
            raise self._ended from cause
        # Nothing more is sent by a producer whose outcome is unknown, not even an abort: the next publisher ends what
        # is open.
        if isinstance(cause, OutcomeUnknown):
            self._ended = cause
            return
        self._forget_connections()
        try:
            self._producer.abort_transaction(self._timeout_s)
            self._doubt_if_repeated()
        except KafkaException as error:
            failure = self._failure(error, f"abort a transaction of {self._id}")
            if isinstance(cause, ConfigurationError):  # a transaction that was not permitted cannot be aborted either
                self._ended = cause
                return
            what = f"a transaction of {self._id} failed and could not be aborted: {text_of(error_of(error))}"
            self._ended = _renewable(failure, what)
            raise self._ended from cause

    def _commit(self) -> None:
        if self._connection.embedded:
            return
        self._forget_connections()
        try:
            self._producer.commit_transaction(self._timeout_s)
        except KafkaException as error:
            raise self._uncommitted(error) from error
        self._doubt_if_repeated()

    def _forget_connections(self) -> None:
        """Forget lost connections: only those after the request to end the current transaction matter."""
        # Served first, so that a loss that happened before is counted before it is forgotten.
        serve(self._producer, self._link)
        self._log.lost = False

    def _doubt_if_repeated(self) -> None:
        """End this publisher after a transaction whose end may have been requested twice.

        If a connection is lost before the answer, the client sends the request again and gets an answer. The first
        request may still arrive later. It names the producer's epoch, not the transaction, so it would end the next
        transaction of this epoch half-written. The current transaction is as the answer says; the next one must have
        another epoch, which only a new publisher gets. (A client with one epoch per transaction, KIP-890, would not
        need this.)
        """
        serve(self._producer, self._link)
        if self._log.lost:
            self._ended = OutcomeUnknown(
                f"a connection was lost while a transaction of {self._id} was being ended: its end may arrive twice",
                _RENEW,
            )

    def _uncommitted(self, exception: KafkaException) -> StreamsvmError:
        """Abort after a failed commit if that is still possible; return the error to raise."""
        error = error_of(exception)
        # Also serves the callbacks, so that `fatal` below is up to date.
        failure = self._failure(exception, f"commit a transaction of {self._id}")
        fatal = self._link.fatal
        forgotten = _FORGOTTEN in (error.code(), fatal.code() if fatal is not None else None)
        # An error that requires an abort means that the commit was not applied, so nothing was published. The exception
        # is a producer id that the broker has forgotten: the commit may have been applied before it was forgotten.
        if error.txn_requires_abort() and not forgotten:
            self._abort(failure)
            return failure
        what = f"the outcome of a transaction of {self._id} is unknown: {text_of(error)}"
        self._ended = OutcomeUnknown(what, _RENEW) if forgotten else _renewable(failure, what)
        return self._ended

    def _failure(self, exception: KafkaException, doing: str) -> StreamsvmError:
        serve(self._producer, self._link)
        return self._link.failure(error_of(exception), doing)


def _renewable(failure: StreamsvmError, what: str) -> StreamsvmError:
    """Return the error for a client that ended: `OutcomeUnknown` if a new publisher may continue.

    A broker that was killed may have forgotten a transaction that the client still knows. That ends the client, but the
    next one works. If another instance took over, or a person must act, the failure itself is returned.
    """
    # The exact type: a subclass of `FatalError`, such as `Fenced`, has a cause that a new publisher would meet again.
    by_itself = isinstance(failure, TransientError) or type(failure) is FatalError
    return OutcomeUnknown(what, _RENEW) if by_itself else failure


class _Purged(TransientError):
    """The client dropped a group by itself to begin a new epoch; nothing of the group was committed.

    After a refused message the sequence numbers of the messages have a gap. The client notices this in the next
    transaction: it fails that transaction, and takes a new epoch when it is aborted. Then the group can be published.
    """


class _Reports:
    """Delivery reports of one group of messages, by their index."""

    def __init__(self, count: int) -> None:
        self.offsets = [-1] * count
        self.places: list[tuple[Place, int]] = []
        self.waiting = count
        self.failure: tuple[KafkaError, str] | None = None

    def delivered(self, index: int, error: KafkaError | None, message: Delivered) -> None:
        self.waiting -= 1
        if error is None:
            offset = self.offsets[index] = message.offset() or 0
            self.places.append(((str(message.topic()), message.partition() or 0), offset))
        elif self.failure is None:
            self.failure = error, str(message.topic())


def _last(places: Sequence[tuple[Place, int]]) -> dict[Place, int]:
    """Return the last offset of each partition."""
    last: dict[Place, int] = {}
    for place, offset in places:
        last[place] = max(offset, last.get(place, -1))
    return last


def prompt(connection: Connection) -> dict[str, Option]:
    """Return the options with which a producer notices a missing topic within the request timeout."""
    return {"topic.metadata.propagation.max.ms": int(connection.request_timeout_s * 1000)}


def produce(producer: Producer, message: Message, on_delivery: OnDelivery) -> None:
    """Queue one message in the client.

    Raises
    ------
    BufferError
        If the client's queue is full.
    KafkaException
        If the client refuses the message.
    """
    producer.produce(
        message.topic,
        value=message.value,
        key=message.key,
        partition=_BY_KEY if message.partition is None else message.partition,
        headers=list(message.headers),
        on_delivery=on_delivery,
    )

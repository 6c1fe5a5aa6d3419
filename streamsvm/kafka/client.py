"""Making clients: defaults that follow from measurements, guarantees nobody may switch off, one log.

The client library reports through callbacks that it calls only inside `poll`, `consume` and `flush`,
on the caller's thread: no state here needs a lock. What others may read at any time is one boolean.
"""

from __future__ import annotations

import json
import logging
import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from streamsvm.errors import ConfigurationError, StreamsvmError, TopicMissing
from streamsvm.kafka.connection import Connection, Option
from streamsvm.kafka.failures import Fault, error_of, fault_of, text_of, topic_missing, translate, unavailable

SLICE_S = 0.1
"""Longest single wait inside the client, in seconds: signals and deadlines are seen this often."""

CLOSE_TIMEOUT_S = 5.0
"""Longest time, in seconds, that letting go of the broker may take."""

_STATISTICS_INTERVAL_MS = 1000
_CONNECTED = frozenset({"UP", "UPDATE", "REAUTH"})
"""States of a connection over which answers come."""
_LOGGING_IN = frozenset({"AUTH_HANDSHAKE", "AUTH_REQ"})
"""States of a login, or of one that is renewed: then over a connection that was up before, and is."""

REPEAT_AFTER_S = 60.0
"""A line of the client that repeats is said as a count in so many seconds."""

_KINDS_OF_LINES = 200
_NUMBERS = re.compile(r"\d+")
_SUPPRESSED = re.compile(r", \d+ identical error\(s\) suppressed")

logger = logging.getLogger("streamsvm.kafka.client")


class ClientLog:
    """Passes the client library's lines on to our logger; one that repeats is said once, then as a count.

    Lines of one facility that differ in numbers only count as the same: they are what an unreachable broker or a wrong
    password produces twenty times a second, for ever. All clients of a process share one, so that making a client anew
    at each attempt says nothing anew. Safe from any thread.

    Parameters
    ----------
    clock : callable
        Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kinds: dict[tuple[str, str], _Repeated] = {}
        self._due_at = math.inf

    def log(self, level: int, template: str, *args: object) -> None:
        """Log one line of the client; the signature is `logging.Logger.log`'s, which the client calls."""
        line = template % args if args else template
        facility, text = (str(args[0]), str(args[-1])) if len(args) > 1 else ("", line)
        if facility == "CONFWARN" and "property and will be ignored by this" in text:
            return  # options are shared by consumers and producers; options for the other kind are expected
        if facility == LOST_CONNECTION:
            level = logging.DEBUG  # tried again; what does not come back is an error of ours, with the same reason
        # Here, too, because a client whose callbacks nobody serves still logs.
        self.summarise()
        if self._is_new(level, facility, text, line):
            logger.log(level, "%s", line)

    def summarise(self) -> None:
        """Log how often each line was repeated, a minute after it was logged last; returns at once."""
        if self._clock() < self._due_at:
            return
        for repeated in self._take_due():
            logger.log(repeated.level, "repeated %d times in %.0f s: %s", repeated.count, REPEAT_AFTER_S, repeated.line)

    def _is_new(self, level: int, facility: str, text: str, line: str) -> bool:
        """Count a line; True if it is the first of its kind for a while."""
        # Ports, ids and counts differ from line to line; without them it is the same complaint.
        kind = facility, _NUMBERS.sub("#", _SUPPRESSED.sub("", text))
        with self._lock:
            known = self._kinds.get(kind)
            if known is not None:
                known.count += 1
                return False
            # Lines hold words of the broker, so their kinds have no bound of their own. Forgetting all only repeats
            # some lines.
            if len(self._kinds) >= _KINDS_OF_LINES:
                self._kinds.clear()
            due_at = self._clock() + REPEAT_AFTER_S
            self._kinds[kind] = _Repeated(level, line, due_at)
            self._due_at = min(self._due_at, due_at)
            return True

    def _take_due(self) -> list[_Repeated]:
        """Return what is due to be said, and begin its next minute; what did not come again is forgotten."""
        now = self._clock()
        with self._lock:
            due = {kind: repeated for kind, repeated in self._kinds.items() if repeated.due_at <= now}
            for kind, repeated in due.items():
                if repeated.count:
                    self._kinds[kind] = _Repeated(repeated.level, repeated.line, now + REPEAT_AFTER_S)
                else:
                    del self._kinds[kind]
            self._due_at = min((repeated.due_at for repeated in self._kinds.values()), default=math.inf)
        return [repeated for repeated in due.values() if repeated.count]


@dataclass(slots=True)
class _Repeated:
    """A line that was said, and how often it came since."""

    level: int
    line: str
    due_at: float
    count: int = 0


CLIENT_LOG = ClientLog()
"""Where every client of this process logs."""

FOLLOWS_PARTITIONS: dict[str, Option] = {"topic.metadata.refresh.interval.ms": 10_000}
"""Of members of a group, which learn of new partitions by nothing else: a question to a broker each ten seconds. By the
client's own default, five minutes, records of new partitions would wait so long, and nothing would say so."""

LOST_CONNECTION = "FAIL"
"""What the client calls lines about a connection that was refused or lost."""
_TROUBLES = frozenset({LOST_CONNECTION, "REQTMOUT"})
"""The same, and those about one that was given up for want of an answer."""


class ConnectionLog:
    """Passes one client's lines on, and notes whether one is about a lost connection; nothing else shows that.

    A client that loses a connection in the midst of a request asks again over another one, and its caller hears only
    of the answer. The first request may still be on its way. Safe from any thread.

    Attributes
    ----------
    lost : bool
        Whether a connection was lost since this was last set to False. Serve the client's callbacks before looking.
    """

    def __init__(self) -> None:
        self.lost = False

    def log(self, level: int, template: str, *args: object) -> None:
        """Note and pass on one line; the signature is `logging.Logger.log`'s, which the client calls."""
        if args and str(args[0]) in _TROUBLES:
            self.lost = True
        CLIENT_LOG.log(level, template, *args)


class Link:
    """What a client knows about its way to the broker, kept by the client's callbacks."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._untrusted: KafkaError | None = None
        self._all_down = False
        self.up = False
        self._connects: dict[str, int] = {}  # how often each broker had been connected to when it was last up
        self.open: dict[tuple[str, int], int] = {}
        """Of partitions that are fetched: offsets between the last stable one and the end, as of the last second; those
        of open transactions, and what stands behind them. Partitions without any are left out."""
        self.fatal: KafkaError | None = None
        self.last_trouble = ""

    def on_error(self, error: KafkaError) -> None:
        """Note a client-wide error; raises nothing, since it runs inside the client."""
        code = error.code()
        if error.fatal():
            self.fatal = error
        elif fault_of(error) is Fault.UNTRUSTED:
            self._untrusted = error
        # It says that nothing works, not why: the trouble that was noted before is what a person needs.
        if code == KafkaError._ALL_BROKERS_DOWN:
            self.up, self._all_down = False, True
            self._connection.outage.met()
        else:
            self.last_trouble = text_of(error)

    def on_statistics(self, text: str) -> None:
        """Note whether any broker's connection is up, and what is open; it comes every second, whatever happens."""
        # Statistics come every second even where nothing else happens: the one regular moment that a client offers.
        CLIENT_LOG.summarise()
        statistics = json.loads(text)
        self.open = {
            (topic, int(number)): one["hi_offset"] - one["ls_offset"]
            for topic, found in statistics.get("topics", {}).items()
            for number, one in found.get("partitions", {}).items()
            if 0 <= one.get("ls_offset", -1) < one.get("hi_offset", -1)
        }
        # A logical broker, as a group's coordinator, stands for a real one, which is in the list itself.
        brokers = {
            name: (broker.get("state"), broker.get("connects", 0))
            for name, broker in statistics.get("brokers", {}).items()
            if broker.get("source") not in ("logical", "internal")
        }
        self._connects |= {name: connects for name, (state, connects) in brokers.items() if state in _CONNECTED}
        self.up = any(
            state in _CONNECTED or (state in _LOGGING_IN and self._connects.get(name) == connects)
            for name, (state, connects) in brokers.items()
        )
        if self.up:
            self.saw_answer()

    def saw_answer(self) -> None:
        """Note that a broker answered: it accepted the credentials, so later failures have another cause."""
        # Credentials that were accepted once are right: a refusal before this answer no longer counts.
        self.up, self._all_down, self._untrusted = True, False, None
        self._connection.accepted.set()
        self._connection.outage.over()

    def answer(self, future: Future[Any]) -> Any:
        """Return an admin client's answer, or raise `KafkaException`; one that was destroyed never answers."""
        timeout_s = 2 * self._connection.request_timeout_s
        try:
            return future.result(timeout_s)
        except TimeoutError:
            what = f"the client library did not answer within {timeout_s:g} s"
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, what)) from None

    def check(self) -> None:
        """Raise errors that do not go away by waiting.

        Raises
        ------
        FatalError
            If the client is broken for good.
        ConfigurationError
            If every broker refuses our credentials or certificate, and none ever accepted this connection's.
        """
        if self.fatal is not None:
            raise translate(self.fatal, self._connection, "go on with this client")
        if self._untrusted is not None and self._all_down and not self._connection.accepted.is_set():
            raise translate(self._untrusted, self._connection, "connect")

    def failure(self, error: KafkaError, doing: str) -> StreamsvmError:
        """Return our error for the client's, preferring the root cause that a callback reported."""
        if self.fatal is not None:
            return translate(self.fatal, self._connection, doing)
        if fault_of(error) is Fault.UNREACHABLE and not self._connection.accepted.is_set():
            if self._untrusted is not None:
                return translate(self._untrusted, self._connection, doing)
            # The client reports only that it timed out; what the last connection attempt met is the cause.
            return unavailable(self._connection, self.last_trouble)
        return translate(error, self._connection, doing)


def socket_timeout_ms(connection: Connection) -> int:
    """Return how long one request may go unanswered, in milliseconds; a fetch alone may take over a second."""
    return int(connection.options.get("socket.timeout.ms", max(int(connection.request_timeout_s * 1000), 2000)))


def options_for(
    connection: Connection, defaults: Mapping[str, Option], fixed: Mapping[str, Option]
) -> dict[str, Option]:
    """Return the options of one client: `defaults`, over them the person's, over them `fixed`.

    The order of the names matters: of two names for one option the client takes the later.
    """
    return {
        "socket.timeout.ms": socket_timeout_ms(connection),
        "socket.connection.setup.timeout.ms": socket_timeout_ms(connection),
        # A client that connects to the brokers it needs only tries a hundred times a second while none answers, without
        # growing pauses, and as long as it lives; and a new one waits before its first connection.
        "enable.sparse.connections": False,
        "reconnect.backoff.max.ms": 10_000,
        **defaults,
        **connection.options,
        "client.id": connection.client_id,
        **fixed,
    }


ASKS: Final[Mapping[str, Option]] = MappingProxyType({"metadata.recovery.strategy": "none"})
"""Of a client that only asks questions: while no broker answers, one that begins anew with the bootstrap servers does
so several times a second. What it knows of a cluster that has moved is forgotten with it."""


def close_within(consumer: Consumer, timeout_s: float) -> None:
    """Close a consumer; blocks at most `timeout_s`.

    While no broker answers, the client waits without end for the answer to its last commit. Then it is left to a
    thread that ends with the process: what it still had to say is lost, and was for observers only.
    """
    closing = threading.Thread(target=consumer.close, name="kafka-close", daemon=True)
    closing.start()
    closing.join(timeout_s)
    if closing.is_alive():
        logger.warning("a consumer did not close within %.0f s: no broker answers its last commit", timeout_s)


def make_consumer(
    connection: Connection,
    link: Link,
    group: str | None = None,
    *,
    defaults: Mapping[str, Option] | None = None,
    fixed: Mapping[str, Option] | None = None,
    on_commit: Callable[[KafkaError | None, list[TopicPartition]], None] | None = None,
    log: ConnectionLog | None = None,
) -> Consumer:
    """Return a consumer that keeps our guarantees; `defaults` yield to the person's options, `fixed` do not.

    Without a group the client still wants a name for one; nothing is ever committed under it.
    """
    options = options_for(
        connection,
        {
            # The client's default is a second: a buffer that was full once would stay empty for that long after it is
            # read.
            "fetch.queue.backoff.ms": 10,
            # A misspelt topic must be an error; the embedded broker knows no other way to create one.
            "allow.auto.create.topics": connection.embedded,
            **(defaults or {}),
        },
        {
            "group.id": group or f"{connection.client_id}-reader",
            # A position that the log does not hold must be an error here: a silent jump would skip points or learn them
            # twice.
            "auto.offset.reset": "error",
            # Positions are committed by a transaction, or for observers only; the client must not commit on its own.
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": "read_committed",
            # A damaged batch would otherwise become points of a model.
            "check.crcs": True,
            "statistics.interval.ms": _STATISTICS_INTERVAL_MS,
            **(fixed or {}),
        },
    )
    callbacks: dict[str, Any] = {
        "error_cb": link.on_error,
        "stats_cb": link.on_statistics,
        "throttle_cb": connection.throttling.note,
    }
    if on_commit is not None:
        callbacks["on_commit"] = on_commit
    try:
        return Consumer({**options, **callbacks}, logger=log or CLIENT_LOG)
    except (KafkaException, ValueError, TypeError) as error:
        raise _bad_options(error, connection) from error


@contextmanager
def lent_consumer(connection: Connection, topic: str, fixed: Mapping[str, Option]) -> Iterator[tuple[Consumer, Link]]:
    """Lend a consumer without an assignment for questions about a topic: a kept one if it answers, else a new one.

    Afterwards it is kept or closed; closed after an error, since it may know what is no longer so.
    """
    purpose = frozenset(fixed.items())
    lent: _Lendable | None = connection.kept.take(purpose)
    if lent is not None and not lent.answers(connection, topic):
        lent.close()
        lent = None
    if lent is None:
        link = Link(connection)
        lent = _Lendable(make_consumer(connection, link, defaults=ASKS, fixed=fixed), link)
    try:
        yield lent.consumer, lent.link
        lent.consumer.unassign()
    except BaseException:
        lent.close()
        raise
    connection.kept.give(purpose, lent)


@dataclass(frozen=True, slots=True)
class _Lendable:
    """A consumer for one thread at a time."""

    consumer: Consumer
    link: Link

    def answers(self, connection: Connection, topic: str) -> bool:
        """Return whether a broker answers it; where its connection broke meanwhile, a new client would wait for one."""
        try:
            partitions_of(self.consumer, self.link, connection, topic)
        except StreamsvmError as error:
            return isinstance(error, TopicMissing)
        return True

    def close(self) -> None:
        self.consumer.close()


def make_producer(
    connection: Connection,
    link: Link,
    *,
    defaults: Mapping[str, Option] | None = None,
    fixed: Mapping[str, Option] | None = None,
    log: ConnectionLog | None = None,
) -> Producer:
    """Return an idempotent producer; `defaults` yield to the person's options, `fixed` do not.

    Keys choose partitions as a Java client's would, so that both kinds of producers agree.
    """
    options = options_for(
        connection,
        {"compression.type": "zstd", "partitioner": "murmur2_random", **(defaults or {})},
        {"enable.idempotence": True, **(fixed or {})},
    )
    try:
        callbacks = {"error_cb": link.on_error, "throttle_cb": connection.throttling.note}
        return Producer({**options, **callbacks}, logger=log or CLIENT_LOG)
    except (KafkaException, ValueError, TypeError) as error:
        raise _bad_options(error, connection) from error


class Admin:
    """Asks brokers what no other client can be asked. Safe from any thread.

    That is little: what topics there are and what they are like, to create one, and who is in a group. If a group's
    coordinator moves while it is asked, the client library may end the process (librdkafka#5040, librdkafka#4605). So
    members are asked for only before a slot is claimed, and a group's positions are asked of a consumer.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection, self._link = connection, Link(connection)
        options: dict[str, Any] = {**options_for(connection, ASKS, {}), "error_cb": self._link.on_error}
        try:
            self.client = AdminClient(options, logger=CLIENT_LOG)
        except (KafkaException, ValueError, TypeError) as error:
            raise _bad_options(error, connection) from error

    def ask(
        self,
        doing: str,
        question: Callable[..., Mapping[Any, Future[Any]]],
        about: object,
        instead: Mapping[int, object] = MappingProxyType({}),
        *,
        share: float = 1.0,
        **options: object,
    ) -> dict[Any, Any]:
        """Return the answers by what they are about; blocks at most twice the connection's request timeout for each.

        Parameters
        ----------
        doing : str
            What is attempted, as the object of "failed to"; what it is about follows.
        question, about, **options
            The client's method and its arguments.
        instead : mapping, optional
            Answers in place of errors, by their codes.
        share : float
            Of the connection's request timeout.

        Raises
        ------
        StreamsvmError
            If a broker does not answer, or answers with another error.
        """
        answers = {}
        timeout_s = share * self._connection.request_timeout_s
        futures = question(self.client, about, request_timeout=timeout_s, **options)
        for key, future in futures.items():
            try:
                answers[key] = self._link.answer(future)
            except KafkaException as failure:
                error = error_of(failure)
                # The future's error says that the question timed out, not what the connection met.
                self.client.poll(0)  # serves the callbacks that know why
                if error.code() > 0:  # a broker's own
                    self._connection.outage.over()
                if error.code() not in instead:
                    raise self._link.failure(error, f"{doing} {getattr(key, 'name', key)}") from failure
                answers[key] = instead[error.code()]
            self._link.saw_answer()
        return answers


def _bad_options(error: Exception, connection: Connection) -> StreamsvmError:
    if isinstance(error, KafkaException):
        return translate(error_of(error), connection, "make a client")
    return ConfigurationError(f"failed to make a client: {error}", "Correct the broker options.")


def serve(producer: Producer, link: Link, timeout_s: float = 0.0) -> None:
    """Serve a producer's callbacks, waiting at most `timeout_s` for one; what ends the client is noted."""
    try:
        producer.poll(timeout_s)
    except KafkaException as error:
        link.on_error(error_of(error))


def partitions_of(client: Consumer | Producer, link: Link, connection: Connection, topic: str) -> tuple[int, ...]:
    """Return the partitions of a topic; one question to the broker, blocks at most the request's timeout.

    Raises
    ------
    TopicMissing
        If there is no such topic. Asking does not create it, except on the embedded broker.
    BrokerUnavailable
        If no broker answers in time.
    """
    doing = f"look up topic {topic}"
    try:
        metadata = client.list_topics(topic, timeout=connection.request_timeout_s)
    except KafkaException as error:
        if isinstance(client, Producer):
            serve(client, link)
        # Polling serves the callback that knows why the question failed.
        elif not client.assignment():  # else a record might come out
            client.poll(0)
        raise link.failure(error_of(error), doing) from error
    link.saw_answer()
    found = metadata.topics[topic]
    if found.error is not None and found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        raise topic_missing(topic)
    # A topic without a leader exists all the same, and its partitions are known.
    if found.error is not None and found.error.code() != KafkaError.LEADER_NOT_AVAILABLE:
        raise translate(found.error, connection, doing)
    return tuple(sorted(found.partitions))

"""Calls that block for as long as the broker is away, or for ever: each is made in a thread of its own.

librdkafka's `send_offsets_to_transaction` may pass its own limit of time where the group's coordinator went away
meanwhile (confluentinc/librdkafka issue 5456). A call that does not return cannot be ended, only be left behind.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

import structlog

from consumers.host.runtime import Health
from consumers.streams.ports import Stop
from streamsvm.errors import BrokerUnavailable, StreamsvmError, TopicMissing
from streamsvm.kafka import Cluster, Connection, MemberProgress, Message, OutcomeUnknown, Publisher

log = structlog.get_logger("streamsvm")

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
LOOK_S: Final = 0.1
"""Between two looks whether to stop, in seconds."""
ASK_AGAIN_S: Final = 2.0
"""Until a topic that is not there yet is asked for again, in seconds."""
SAY_AGAIN_S: Final = 60.0
"""Until the log says once more what a start waits for, in seconds."""


class Aside(Generic[T]):
    """One call in a daemon thread.

    Parameters
    ----------
    call : callable
    """

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._returned: list[T] = []
        self._failure: BaseException | None = None
        # A daemon thread: a call that never returns must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="aside", daemon=True)
        self._thread.start()

    def over(self, timeout_s: float) -> bool:
        """Wait at most `timeout_s` and return whether the call ended, well or not."""
        # Waiting in slices keeps the main loop alive, which beats between them.
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def finished(self, timeout_s: float) -> bool:
        """Wait at most `timeout_s` and return whether the call returned; what it raised is raised here."""
        over = self.over(timeout_s)
        if over and self._failure is not None:
            raise self._failure
        return over

    @property
    def returned(self) -> T:
        """What the call returned, once it is over; what it raised is raised here."""
        if self._failure is not None:
            raise self._failure
        return self._returned[0]

    def _run(self) -> None:
        try:
            self._returned.append(self._call())
        except BaseException as error:  # noqa: BLE001 - raised where the call is waited for
            self._failure = error


class Stopped(Exception):
    """The daemon was stopped before its start took anything over."""


def heeding(stop: Stop, beat: Callable[[], None], call: Callable[[], T]) -> T:
    """Return what a question of a start returns, which may wait for a broker; a stop does not wait for it.

    Signals are only heard between two steps of the interpreter, and a question to a broker is one step.

    Raises
    ------
    Stopped
        If told to stop meanwhile. The question is left behind: it must change nothing.
    """
    aside = Aside(call)
    while not aside.finished(LOOK_S):
        beat()
        if stop.is_set():
            raise Stopped
    return aside.returned


def awaited(stop: Stop, health: Health, condition: str, call: Callable[[], T]) -> T:
    """Return what a question of a start returns, asked until its topic and a broker are there; says what is missing.

    Raises
    ------
    Stopped
        If told to stop meanwhile.
    """
    said, say_again_at = "", 0.0
    while True:
        try:
            return heeding(stop, health.beat, call)
        except (TopicMissing, BrokerUnavailable) as missing:
            health.require(condition, missing.what)
            if missing.what != said or time.monotonic() > say_again_at:
                log.warning("waiting", what=missing.what, remedy=missing.remedy)
                said, say_again_at = missing.what, time.monotonic() + SAY_AGAIN_S
        stop.wait(ASK_AGAIN_S)


class Pending(Protocol[T_co]):
    """A call that is being made, as `Aside` makes it."""

    def over(self, timeout_s: float) -> bool:
        """Wait at most `timeout_s` and return whether the call ended, well or not."""
        ...

    @property
    def returned(self) -> T_co:
        """What the call returned, once it is over; what it raised is raised here."""
        ...


class MakePending(Protocol):
    """Makes a call beside the main loop, as `Aside` does; one without a thread of its own replays exactly."""

    def __call__(self, call: Callable[[], T], /) -> Pending[T]:
        """Begin the call."""
        ...


class BoundedPublisher(Publisher):
    """A publisher each of whose calls returns in time, or is left behind.

    A call that was left behind can do no harm any more once another publisher has taken the id: whatever it does then
    is refused.

    Parameters
    ----------
    connection, transactional_id, transaction_timeout_s, writer
        See `streamsvm.kafka.Publisher`.
    lost_s : float
        A call that takes longer than this, in seconds, does not return. More than any call may take by itself.
    """

    def __init__(
        self,
        connection: Connection,
        transactional_id: str,
        *,
        transaction_timeout_s: float,
        writer: str = "",
        lost_s: float,
    ) -> None:
        super().__init__(connection, transactional_id, transaction_timeout_s=transaction_timeout_s, writer=writer)
        self._lost_s = lost_s
        self._lost: StreamsvmError | None = None

    def start(self) -> None:
        """See `streamsvm.kafka.Publisher`; `OutcomeUnknown` if it does not return."""
        self._bounded(super().start)

    def publish(
        self,
        messages: Sequence[Message],
        last: Callable[[Sequence[int]], Sequence[Message]] | None = None,
        progress: MemberProgress | None = None,
    ) -> list[int]:
        """See `streamsvm.kafka.Publisher`; `OutcomeUnknown` if it does not return."""
        publish = super().publish
        return self._bounded(lambda: publish(messages, last, progress))

    def confirm(self) -> None:
        """See `streamsvm.kafka.Publisher`; `OutcomeUnknown` if it does not return."""
        self._bounded(super().confirm)

    def sweep(self, messages: Sequence[Message]) -> None:
        """See `streamsvm.kafka.Publisher`; `OutcomeUnknown` if it does not return."""
        sweep = super().sweep
        self._bounded(lambda: sweep(messages))

    def close(self) -> None:
        """Let go of the broker, unless a call was left behind: the client stays with it, and ends with the process."""
        if self._lost is None:
            super().close()

    def _bounded(self, call: Callable[[], T]) -> T:
        # The client is still inside the lost call, and is not safe to enter from a second thread.
        if self._lost is not None:
            raise self._lost
        aside = Aside(call)
        if not aside.finished(self._lost_s):
            self._lost = OutcomeUnknown(
                f"the client library did not return within {self._lost_s:g} s", "A new publisher replaces this one."
            )
            raise self._lost
        return aside.returned


class BoundedCluster(Cluster):
    """A cluster whose publishers are bounded.

    Parameters
    ----------
    connection, transaction_timeout_s
        See `streamsvm.kafka.Cluster`.
    lost_s : float
        See `BoundedPublisher`.
    """

    def __init__(self, connection: Connection, *, transaction_timeout_s: float, lost_s: float) -> None:
        super().__init__(connection, transaction_timeout_s=transaction_timeout_s)
        self._lost_s = lost_s

    def publisher(
        self, transactional_id: str, writer: str = "", *, transaction_timeout_s: float | None = None
    ) -> BoundedPublisher:
        """Make a bounded publisher; else as `streamsvm.kafka.Cluster.publisher`."""
        return BoundedPublisher(
            self._connection,
            transactional_id,
            transaction_timeout_s=self._timeout_s if transaction_timeout_s is None else transaction_timeout_s,
            writer=writer,
            lost_s=self._lost_s,
        )

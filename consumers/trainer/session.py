"""One process's right to publish: taken at the start, given up at any doubt, taken again while the process owns it.

`streamsvm.delivery.Delivery` says what may happen next; this module does it on a broker. A producer is used for one
doubt only: the next one takes the transactional id over, and then settles every partition that the id writes
(`consumers.streams.settling`) before anything is committed. A version counts as published when readers of committed
records have passed it, for a commit is answered before its markers are written.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

import structlog

from consumers.metrics import Metrics
from consumers.settings import Settings
from consumers.streams.settling import TIMEOUTS, PersonNeeded, Unsettled
from consumers.streams.topics import READ_TIMEOUT_S, KnownPointers, read_pointers, written_places
from consumers.streams.version_settlement import VersionSettlement
from streamsvm.crashpoints import crash_point
from streamsvm.delivery.machine import Delivery, State
from streamsvm.errors import BrokerUnavailable, FatalError, Fenced, StreamsvmError, TransientError
from streamsvm.kafka import TRANSACTION_TIMEOUT_S, Backoff, Cluster, Message, Publisher, PublishRefused, Stamp
from streamsvm.model.pointers import Head, Owner, encode_owner, owner_key

log = structlog.get_logger("streamsvm.trainer")

LOOK_TIMEOUT_S: Final = 2.0
FIRST_DELAY_S: Final = 0.5
LONGEST_DELAY_S: Final = 30.0
STUCK_S: Final = TIMEOUTS * TRANSACTION_TIMEOUT_S
"""In doubt for longer than this, with a broker that answers, a trainer ends: nothing it waits for can still come."""
JITTER: Final = 0.3
"""Share of a wait, which keeps processes from asking in step."""


class InDoubt(TransientError):
    """Whether a transaction stands only the topic can say, or it does not stand and its producer is of no more use."""


class Session:
    """Publishes for one process.

    Parameters
    ----------
    settings : Settings
    cluster : Cluster
    delivery : Delivery
    metrics : Metrics
    monotonic : callable
        Seconds, for the time between attempts.
    wait : callable
        Waits so many seconds.
    waiting : callable
        Told, while a start waits for a transaction to end that it cannot end itself, why it waits; waits a moment, and
        returns whether to go on waiting.
    """

    def __init__(
        self,
        settings: Settings,
        cluster: Cluster,
        delivery: Delivery,
        metrics: Metrics,
        monotonic: Callable[[], float],
        *,
        wait: Callable[[float], object] = time.sleep,
        waiting: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._delivery = delivery
        self._metrics = metrics
        self._monotonic = monotonic
        self._waiting = waiting
        self._id = f"streamsvm/{settings.name}/{settings.output.models_topic}"
        self._settlement = VersionSettlement(
            cluster,
            self._id,
            written_places(settings),
            transaction_timeout_s=TRANSACTION_TIMEOUT_S,
            monotonic=monotonic,
            wait=wait,
            models_topic=settings.output.models_topic,
            name=settings.name,
        )
        self._publishers = 0
        self._publisher: Publisher | None = None
        self._backoff = Backoff(FIRST_DELAY_S, LONGEST_DELAY_S, JITTER)
        # Seeded by the session: two trainers that fence each other must not wait for the same times.
        self._random = random.Random(delivery.session)
        self._due_at = 0.0
        self._fenced_at: float | None = None
        self._doubted_at: float | None = None
        self.trouble = ""
        """Why it cannot publish now, for people; empty if it can."""

    def look(self) -> KnownPointers:
        """Read head and owner without fencing anybody; `TransientError` if something hides them."""
        return read_pointers(self._cluster, self._settings, LOOK_TIMEOUT_S)

    def take_over(self, now: datetime) -> KnownPointers:
        """Take the transactional id and the ownership, then return what the topic holds.

        From then on nobody else publishes, so that what is found stays true. While a transaction is open that only time
        or a person can end, it waits.
        """
        self._delivery.fits()
        self._take_and_settle()
        owner = Owner(self._delivery.session, now.isoformat())
        key = owner_key(self._settings.name)
        # Committed before the topic is read: what is found from then on, nobody else can change.
        self._transaction([_alias(self._settings, key, encode_owner(owner))], None)
        self._delivery.owned()
        crash_point("start.owned")
        return read_pointers(self._cluster, self._settings, READ_TIMEOUT_S)

    def publish(
        self,
        messages: Sequence[Message],
        last: Callable[[Sequence[int]], Sequence[Message]] | None = None,
        committed: Callable[[Sequence[int]], Head | None] = lambda _: None,
    ) -> None:
        """Publish a group in one transaction; `committed` returns the head that it wrote, if it wrote one.

        Raises
        ------
        PublishRefused
            If the broker refused it for good: nothing was published, and the session goes on.
        InDoubt
            If nothing was published, or nobody knows: `renew` before anything else.
        """
        self._delivery.sends()
        try:
            offsets = self._transaction(messages, last)
        except PublishRefused:
            self._delivery.refused()
            raise
        except (TransientError, Fenced) as error:
            # Remembered, because a fence may be another process's, or a broker's that ended a slow transaction; the
            # owner record tells.
            self._fenced_at = self._monotonic() if isinstance(error, Fenced) else None
            self._settlement.remember(self._publisher.attempted if self._publisher is not None else ())
            self._delivery.doubts()
            self._postpone(error)
            log.error(
                "publish_in_doubt",
                what=error.what,
                remedy="no action needed: the trainer reads the topic to find out whether the version was published",
            )
            raise InDoubt(error.what, error.remedy) from error
        except BaseException:
            self._delivery.ends()
            raise
        head = committed(offsets)
        if head is None:
            self._delivery.records_committed()
        else:
            crash_point("publish.committed")
            self._delivery.published(head)
            crash_point("publish.noted")

    def renew(self, *, at_once: bool = False) -> bool:
        """Try to resolve a doubt if an attempt is due; return whether publishing is possible now.

        Raises
        ------
        Fenced
            If another process owns the model by now.
        StateError
            If the models topic no longer holds what it did, or holds a half of what was published.
        TransientError
            If it has been in doubt for three transaction timeouts although the broker answers: another process may do
            better.
        """
        # Called at every turn of the loop: without a doubt there is nothing to do.
        if self._delivery.ready:
            return True
        if self._monotonic() < self._due_at and not at_once:
            return False
        try:
            self._renew()
        except TransientError as error:
            self._delivery.doubts()
            self._postpone(error)
            log.warning("publish_waits", what=error.what, remedy=error.remedy)
            self._give_up_if_stuck(error)
            return False
        # The next doubt is another trouble, and deserves a prompt first attempt.
        self._backoff.reset()
        self.trouble, self._fenced_at, self._doubted_at = "", None, None
        self._metrics.increase("streamsvm_producer_renewals")
        log.info("producer_renewed", next_version=self._delivery.next_number)
        return True

    def doubt(self, why: str) -> None:
        """Take the id over and settle before the next version, because readers are blocked."""
        if self._delivery.ready:
            self._delivery.doubts()
            self.trouble = why
            log.warning("readers_held_up", what=why, remedy="no action needed: the trainer ends the open transaction")

    def unconfirmed(self, error: TransientError) -> None:
        """Wait before the next attempt, because the broker did not say whether the input is still the same topic."""
        self._delivery.doubts()
        self._postpone(error)
        log.warning("publish_waits", what=error.what, remedy=error.remedy)

    def close(self) -> None:
        """Let go of the broker."""
        if self._publisher is not None:
            publisher, self._publisher = self._publisher, None
            publisher.close()

    def _renew(self) -> None:
        crash_point("renew.begun")
        self._refuse_if_replaced()
        self._take()
        crash_point("renew.fenced")
        self._settle()
        found = read_pointers(self._cluster, self._settings, READ_TIMEOUT_S)
        self._delivery.renews(found.owner, found.head)

    def _refuse_if_replaced(self) -> None:
        """Raise `Fenced`, before fencing anybody, if the topic can be read and names another owner of the model."""
        try:
            found = self.look()
        except BrokerUnavailable:
            raise
        except TransientError:
            if self._may_be_taken_over():
                raise
            return  # our own transaction may still be open there: taking the id over, and settling, ends it
        self._delivery.check_owner(found.owner)

    def _may_be_taken_over(self) -> bool:
        """Return whether what hides the owner may be the owner record of a process that took the id from us just now.

        Who was fenced has nothing open that a living broker knows of. But a broker that came back may have fenced us
        for a timeout, and left our transaction without its end: then nobody else will end it. Another process that took
        the id ends its own within a transaction's timeout, or is gone.
        """
        if self._fenced_at is None or self._monotonic() - self._fenced_at > TRANSACTION_TIMEOUT_S:
            return False
        place = written_places(self._settings)[0]
        hidden = self._cluster.stored_at(*place, self._cluster.marks([place])[place].stable, LOOK_TIMEOUT_S)
        stamp = None if hidden is None else Stamp.of(hidden.headers)
        return stamp is None or not stamp.attempt.startswith(f"{self._delivery.session}/")

    def _take_and_settle(self) -> None:
        """Take the id at a start; wait, instead of ending, while somebody else must end a transaction."""
        while True:
            self._take()
            crash_point("start.fenced")
            try:
                self._settle()
            except Unsettled as error:
                self._delivery.doubts()
                log.warning("start_waits", what=error.what, remedy=error.remedy)
                if not self._waiting(str(error)):
                    raise
            else:
                return

    def _settle(self) -> None:
        assert self._publisher is not None
        self._settlement.settle(self._publisher)
        self._delivery.settled()

    def _give_up_if_stuck(self, error: TransientError) -> None:
        """End where a doubt lasts although the broker answers; not where only a person can end it."""
        now = self._monotonic()
        # While the broker is away, or a person must act, another process would fare no better: the clock starts when
        # that is over.
        if self._doubted_at is None or isinstance(error, BrokerUnavailable | PersonNeeded):
            self._doubted_at = now
        elif now - self._doubted_at > STUCK_S:
            raise TransientError(
                f"publishing has failed for {now - self._doubted_at:.0f} s although the broker answers: {error.what}",
                "Start the process again. If the error recurs, check the broker's log.",
            ) from error

    def _take(self) -> None:
        assert self._delivery.state is State.TAKING
        # A producer whose transaction ended in doubt is never used again: what it sent may still be applied.
        self.close()
        # Each publisher has a name of its own in its stamps, so that attempts of one process are told apart.
        self._publishers += 1
        publisher = self._cluster.publisher(self._id, f"{self._delivery.session}/{self._publishers}")
        self._publisher = publisher
        try:
            publisher.start()
        # The later start goes on; fencing back would never end.
        except Fenced:  # another one started at the same moment
            self._delivery.ends()
            raise
        self._delivery.taken()

    def _transaction(
        self, messages: Sequence[Message], last: Callable[[Sequence[int]], Sequence[Message]] | None
    ) -> list[int]:
        if self._publisher is None:
            raise FatalError(
                "there is no producer to publish with: an earlier start of the producer failed",
                "Start the process again.",
            )
        offsets = self._publisher.publish(messages, last)
        crash_point("publish.answered")
        # The answer to a commit comes before its markers: a version counts as published when readers can have it.
        self._publisher.confirm()
        return offsets

    def _postpone(self, error: StreamsvmError) -> None:
        self._due_at = self._monotonic() + self._backoff.next_s(self._random.random())
        # What a person has to do stands where people look first.
        self.trouble = str(error) if isinstance(error, PersonNeeded) else error.what


def _alias(settings: Settings, key: str, value: bytes) -> Message:
    return Message(settings.output.aliases_topic, value, key.encode(), partition=0)

"""One process's right to publish: taken at the start, given up at a doubt, and taken again.

`streamsvm.delivery.machine.Delivery` is the state machine, and its page explains the states; this module does the work
on a broker, and drives it. A start calls `look` (which harms nobody) and `take_over`. The main loop calls
`begin` and `ended` for each version, and `renew` in every turn, which does nothing unless there is a doubt. A broker
takes its time for a transaction, in which the loop goes on: it is made in a thread of its own, the only one that uses
the producer meanwhile, and what became of it is noted by the loop.

A producer is used until its first doubt. The next one takes the transactional id over, and settles every partition that
the id writes to (`consumers.streams.settling`), before anything is committed. A version counts as published when
readers of committed records have passed it, because a broker answers a commit before it writes the markers.

Attempts after a doubt have growing pauses with a random part. Without the random part, two trainers with the same name
would fence each other in step for ever. If a doubt lasts for `STUCK_S` although the broker answers, the process ends: a
new process has new connections, and nothing that this one waits for can still come.
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
from consumers.streams.abandonable import Aside, MakePending, Pending
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
"""How long a look at the owner may take before the id is taken: it only spares another process a fence."""
FIRST_DELAY_S: Final = 0.5
"""Pause before the first attempt after a doubt: most doubts are a lost connection."""
LONGEST_DELAY_S: Final = 30.0
STUCK_S: Final = TIMEOUTS * TRANSACTION_TIMEOUT_S
"""A trainer that is in doubt for longer than this, with a broker that answers, ends: by then every transaction that it
could wait for has passed its timeout."""
JITTER: Final = 0.3
"""Random share of a pause, so that two processes do not try in step."""
CLOSE_S: Final = 5.0
"""How long a session that is closed waits for its transaction. Longer ones are left behind: whoever takes the id ends
them, and readers see all of one or nothing."""

Committed = Callable[[Sequence[int]], Head | None]
"""Takes the offsets of what was committed, and returns the head that this wrote, if it wrote one."""


class InDoubt(TransientError):
    """A transaction failed, or its outcome is unknown: its producer must not be used again, and the topic is read."""


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
        Called while a start waits for a transaction that it cannot end itself, with the reason. It waits a moment, and
        returns whether to go on waiting.
    aside : callable
        Makes a call beside the main loop.
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
        aside: MakePending = Aside,
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._delivery = delivery
        self._metrics = metrics
        self._monotonic = monotonic
        self._waiting = waiting
        self._aside = aside
        self._sending: tuple[Pending[list[int]], Committed] | None = None
        self._sent_at = 0.0
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
        key = owner_key(self._settings.name).encode()
        # Committed before the topic is read: what is found from then on, nobody else can change.
        self._transaction([Message(self._settings.output.aliases_topic, encode_owner(owner), key, partition=0)], None)
        self._delivery.owned()
        crash_point("start.owned")
        return read_pointers(self._cluster, self._settings, READ_TIMEOUT_S)

    def publish(
        self,
        messages: Sequence[Message],
        last: Callable[[Sequence[int]], Sequence[Message]] | None = None,
        committed: Committed = lambda _: None,
    ) -> None:
        """Publish a group in one transaction, and wait for what becomes of it.

        Raises
        ------
        PublishRefused
            If the broker refused it for good: nothing was published, and the session goes on.
        InDoubt
            If nothing was published, or that is unknown: call `renew` before anything else.
        """
        self._delivery.sends()
        self._conclude(lambda: self._transaction(messages, last), committed)

    def begin(
        self,
        messages: Sequence[Message],
        last: Callable[[Sequence[int]], Sequence[Message]] | None,
        committed: Committed,
    ) -> None:
        """Begin to publish a group in one transaction: `ended` says what became of it."""
        self._delivery.sends()
        self._sent_at = self._monotonic()
        self._sending = self._aside(lambda: self._transaction(messages, last)), committed

    @property
    def sending(self) -> bool:
        """Whether a transaction was begun of which nobody has asked yet what became."""
        return self._sending is not None

    @property
    def sending_s(self) -> float:
        """For how long what was begun has been under way; 0 if nothing is."""
        return self._monotonic() - self._sent_at if self.sending else 0.0

    def ended(self, timeout_s: float) -> bool:
        """Wait at most `timeout_s` and return whether what was begun is published.

        Raises
        ------
        PublishRefused, InDoubt
            As of `publish`.
        """
        assert self._sending is not None
        pending, committed = self._sending
        if not pending.over(timeout_s):
            return False
        self._sending = None
        self._conclude(lambda: pending.returned, committed)
        return True

    def _conclude(self, outcome: Callable[[], list[int]], committed: Committed) -> None:
        """Note what became of a transaction: `outcome` returns its offsets, or raises why there are none."""
        try:
            offsets = outcome()
        except PublishRefused:
            self._delivery.refused()
            raise
        except (TransientError, Fenced) as error:
            # A fence can mean that another process took the id, or that the broker ended a slow transaction. The time
            # of it is needed later, to find out which (`_may_be_taken_over`).
            self._fenced_at = self._monotonic() if isinstance(error, Fenced) else None
            # The broker may have stored a part of the attempt only. The settlement then completes it from these bytes.
            self._settlement.remember(self._publisher.attempted if self._publisher is not None else ())
            self._delivery.doubts()
            self._postpone(error)
            log.error(
                "publish_in_doubt",
                what=error.what,
                remedy="no action needed: the trainer reads the topic to find out whether the version was published",
            )
            raise InDoubt(error.what, error.remedy) from error
        # Whatever else happened, an exit signal included: it is unknown what was sent, so nothing more may be.
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
        if self.sending or (self._monotonic() < self._due_at and not at_once):
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
        """Wait before the next attempt, because the broker did not confirm that the input is still the same topic."""
        self._delivery.doubts()
        self._postpone(error)
        log.warning("publish_waits", what=error.what, remedy=error.remedy)

    def close(self) -> None:
        """Close the publisher, if there is one; of a transaction that is under way nothing is noted any more."""
        sending, self._sending = self._sending, None
        publisher, self._publisher = self._publisher, None
        if sending is not None:
            log.warning(
                "publish_left",
                next_version=self._delivery.next_number,
                remedy="no action needed: the next start reads the topic to find out whether the version was published",
            )
            # Else the client is still inside a call, and is not safe to enter from a second thread.
            if not sending[0].over(CLOSE_S):
                return
        if publisher is not None:
            publisher.close()

    def _renew(self) -> None:
        crash_point("renew.begun")
        # First of all: a process that was replaced must not take the id from its successor.
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
            # The owner record cannot be read, most likely because a transaction of our own is still open there. To take
            # the id over, and to settle, ends it; afterwards `renews` checks the owner again.
            return
        self._delivery.check_owner(found.owner)

    def _may_be_taken_over(self) -> bool:
        """Return whether an open transaction on the topic may be that of a process that took the id from us just now.

        If we were fenced, a running broker has ended our transactions. The open one is then most likely the successor's
        owner record, and taking the id back would fence the successor in the middle of its start. It ends its
        transaction within a transaction's timeout, or is gone; so this is true for that long at most.

        The exception: a broker that was restarted may have fenced us for a timeout and left our transaction without an
        end. Then nobody else will end it. The stamp of the open record shows whose it is.
        """
        if self._fenced_at is None or self._monotonic() - self._fenced_at > TRANSACTION_TIMEOUT_S:
            return False
        place = written_places(self._settings)[0]
        hidden = self._cluster.stored_at(*place, self._cluster.marks([place])[place].stable, LOOK_TIMEOUT_S)
        stamp = None if hidden is None else Stamp.of(hidden.headers)
        return stamp is None or not stamp.attempt.startswith(f"{self._delivery.session}/")

    def _take_and_settle(self) -> None:
        """Take the id at a start; wait, instead of failing, while a transaction is open that only others can end."""
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
        """Raise if a doubt has lasted too long although the broker answers; not if only a person can end the doubt."""
        now = self._monotonic()
        # While no broker answers, or while a person must act, a new process could not do more than this one. The time
        # begins to count when that is over.
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
        # Each publisher has a name of its own in its stamps, so that attempts of one process are distinct.
        self._publishers += 1
        publisher = self._cluster.publisher(self._id, f"{self._delivery.session}/{self._publishers}")
        self._publisher = publisher
        try:
            publisher.start()
        # Another process took the id at the same moment. The later one goes on, and this one ends: if it tried again,
        # the two would fence each other for ever.
        except Fenced:
            self._delivery.ends()
            raise
        self._delivery.taken()

    def _transaction(
        self, messages: Sequence[Message], last: Callable[[Sequence[int]], Sequence[Message]] | None
    ) -> list[int]:
        publisher = self._publisher  # `close` may let go of it meanwhile
        if publisher is None:
            raise FatalError(
                "there is no producer to publish with: an earlier start of the producer failed",
                "Start the process again.",
            )
        offsets = publisher.publish(messages, last)
        crash_point("publish.answered")
        # A broker answers a commit before it writes the markers. A version counts as published once readers can read
        # it.
        publisher.confirm()
        return offsets

    def _postpone(self, error: StreamsvmError) -> None:
        self._due_at = self._monotonic() + self._backoff.next_s(self._random.random())
        # `trouble` is shown by the health page, where people look first. If only a person can end the doubt, it
        # contains what to do.
        self.trouble = str(error) if isinstance(error, PersonNeeded) else error.what

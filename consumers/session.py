"""One process's right to publish: taken at the start, given up at any doubt, taken again while the process owns it.

`streamsvm.delivery.Delivery` says what may happen next; this module does it on a broker. A producer is used for one
doubt only: the next one takes the transactional id over, which ends whatever transaction was left open.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

import structlog

from consumers.ports import Cluster, Publisher
from consumers.topics import READ_TIMEOUT_S, Found, read_pointers
from streamsvm.codec import model as model_codec
from streamsvm.codec.model import Head, Owner
from streamsvm.config import Settings
from streamsvm.crashpoints import crash_point
from streamsvm.delivery import Delivery, State
from streamsvm.errors import BrokerUnavailable, FatalError, Fenced, StreamsvmError, TransientError
from streamsvm.kafka import Backoff, Message, PublishRefused
from streamsvm.metrics import Metrics

log = structlog.get_logger("streamsvm.trainer")

LOOK_TIMEOUT_S: Final = 2.0
FIRST_DELAY_S: Final = 0.5
LONGEST_DELAY_S: Final = 30.0
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
    """

    def __init__(
        self,
        settings: Settings,
        cluster: Cluster,
        delivery: Delivery,
        metrics: Metrics,
        monotonic: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._delivery = delivery
        self._metrics = metrics
        self._monotonic = monotonic
        self._publisher: Publisher | None = None
        self._backoff = Backoff(FIRST_DELAY_S, LONGEST_DELAY_S, JITTER)
        self._random = random.Random(delivery.session)
        self._due_at = 0.0
        self._fenced = False
        self.trouble = ""
        """Why it cannot publish now, for people; empty if it can."""

    def look(self) -> Found:
        """Read head and owner without fencing anybody; `TransientError` if something hides them."""
        return read_pointers(self._cluster, self._settings, LOOK_TIMEOUT_S)

    def take_over(self, now: datetime) -> Found:
        """Take the transactional id and the ownership, then return what the topic holds.

        From then on nobody else publishes, so that what is found stays true.
        """
        self._delivery.fits()
        self._take()
        crash_point("start.fenced")
        owner = Owner(self._delivery.session, now.isoformat())
        key = model_codec.owner_key(self._settings.name)
        self._transaction([_alias(self._settings, key, model_codec.encode_owner(owner))], None)
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
            self._fenced = isinstance(error, Fenced)
            self._delivery.doubts()
            self._postpone(error)
            log.error("publish_in_doubt", what=error.what, remedy="the topic is asked next; nothing to be done")
            raise InDoubt(error.what, error.remedy) from error
        except BaseException:
            self._delivery.ends()
            raise
        head = committed(offsets)
        if head is None:
            self._delivery.told()
        else:
            crash_point("publish.committed")
            self._delivery.published(head)
            crash_point("publish.noted")

    def renew(self, *, at_once: bool = False) -> bool:
        """Try to get out of a doubt, if it is time to; tell whether it may publish now.

        Raises
        ------
        Fenced
            If another process owns the model by now.
        StateError
            If the models topic no longer holds what it did.
        """
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
            return False
        self._backoff.reset()
        self.trouble, self._fenced = "", False
        self._metrics.increase("streamsvm_producer_renewals")
        log.info("producer_renewed", next_version=self._delivery.next_number)
        return True

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
        found = read_pointers(self._cluster, self._settings, READ_TIMEOUT_S)
        self._delivery.renews(found.owner, found.head)

    def _refuse_if_replaced(self) -> None:
        """Find out before fencing, where the topic can be read, that another process owns the model."""
        try:
            found = self.look()
        except BrokerUnavailable:
            raise
        except TransientError:
            if self._fenced:  # nothing of ours is open any more: whatever hides the owner, the id may be another's
                raise
            return  # our own transaction may still be open there: taking the id over ends it
        self._delivery.check_owner(found.owner)

    def _take(self) -> None:
        assert self._delivery.state is State.TAKING
        self.close()
        publisher = self._cluster.publisher(f"streamsvm/{self._settings.name}/{self._settings.output.models_topic}")
        self._publisher = publisher
        try:
            publisher.start()
        except Fenced:  # another one started at the same moment
            self._delivery.ends()
            raise
        self._delivery.taken()

    def _transaction(
        self, messages: Sequence[Message], last: Callable[[Sequence[int]], Sequence[Message]] | None
    ) -> list[int]:
        if self._publisher is None:
            raise FatalError("there is no producer to publish with", "Start the process again.")
        return self._publisher.publish(messages, last)

    def _postpone(self, error: StreamsvmError) -> None:
        self._due_at = self._monotonic() + self._backoff.next_s(self._random.random())
        self.trouble = error.what


def _alias(settings: Settings, key: str, value: bytes) -> Message:
    return Message(settings.output.aliases_topic, value, key.encode(), partition=0)

"""Ends what dead transactions of one transactional id left in the partitions, and completes what readers see a part of.

`streamsvm.delivery.settlement` lists the cases and judges them; this module reads from the broker and writes. A trainer
(`consumers.streams.version_settlement`) and a scorer (`score_settlement`) each have a subclass. `settle` is called each
time an id is taken over, before anything is committed under the id.

While a transaction is open that this id cannot end, a settlement logs whose transaction it is, and waits. After three
transaction timeouts its owner cannot be alive: then the settlement takes the other id over, or, if it may not, prints
the exact command with which a person can end the transaction.

Invariant: a settlement aborts, and then completes by a transaction of its own. It never commits records that it did not
write.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from copy import copy
from typing import Final, Self

import structlog

from consumers.streams.topics import READ_TIMEOUT_S
from streamsvm.crashpoints import crash_point
from streamsvm.delivery.settlement import NOT_STORED, AttemptRecord, AttemptVerdict, Judgement
from streamsvm.errors import StateError, TransientError
from streamsvm.kafka import Cluster, Message, Place, Publisher, Record, Stamp, Stored

log = structlog.get_logger("streamsvm.delivery")

GRACE_S: Final = 1.0
"""Seconds to wait for a transaction that is about to end by itself."""

SWEPT_S: Final = 5.0
"""Seconds to wait for the markers of our own abort."""

LOOK_S: Final = 0.1
"""Seconds between two checks of the stable offsets."""

TIMEOUTS: Final = 3
"""Number of transaction timeouts after which the transaction of another writer cannot be alive any more."""

SLACK_MS: Final = 600_000
"""Milliseconds by which other records of an attempt may be older than its pointers, because clocks are adjusted."""

SHORT_SLACK_MS: Final = 40_000
"""The same for the search that every settlement makes. Pointers and positions are stamped last, and each step before
them may have taken a transaction's timeout. With a shorter time the first scores of a slow batch would be taken for
missing."""

FAMILY: Final = "streamsvm/"
"""Prefix of the transactional ids of trainers and of people's moves."""

NO_PARTITION: Final = -1
"""Partition of a part that was to go to whichever partition the client chooses."""

FILLER_KEY: Final = b"streamsvm@settling"
"""Key of the record that is aborted: a compacted topic accepts no record without a key. No reader receives it."""


class Unsettled(TransientError):
    """An open transaction blocks readers, and cannot be ended from here, or not yet."""


class PersonNeeded(Unsettled):
    """An open transaction blocks readers, and only a person can end it."""


class Settlement(ABC):
    """Settles one transactional id, each time that the id is taken over.

    Parameters
    ----------
    cluster : Cluster
    transactional_id : str
    places : sequence of (str, int)
        Every partition that the id writes to.
    family : str
        Prefix of the ids that may be taken over if their transactions block readers. Anybody can write any id into the
        stamp of a record, so a stamp alone must not be enough to fence that id's owner.
    transaction_timeout_s : float
        Transaction timeout of all writers to these partitions.
    monotonic : callable
        Seconds.
    wait : callable
        Waits for a number of seconds.
    """

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        places: Sequence[Place],
        *,
        family: str,
        transaction_timeout_s: float,
        monotonic: Callable[[], float],
        wait: Callable[[float], object],
    ) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._places = tuple(places)
        self._family = family
        self._timeout_s = transaction_timeout_s
        self._monotonic = monotonic
        self._wait = wait
        self._since: dict[tuple[Place, int], float] = {}
        self._remembered: tuple[AttemptRecord, ...] = ()

    def remember(self, attempted: Sequence[Message]) -> None:
        """Keep the stamped messages of an attempt that failed: the log may not hold all of them."""
        self._remembered = parts_not_stored(attempted)

    @property
    def _patience_s(self) -> float:
        return TIMEOUTS * self._timeout_s

    def settle(self, publisher: Publisher) -> None:
        """End what is open in the partitions, and complete what readers see a part of; `publisher` has just started.

        Raises
        ------
        Unsettled
            If a transaction is open that another writer may still end: try again.
        PersonNeeded
            If one is open that only a person can end; the message has the command.
        StateError
            If readers see a part of an attempt, and the log no longer holds the rest.
        TransientError, Fenced, ConfigurationError, FatalError
            As for `streamsvm.kafka.Publisher.publish`: take the id again, then settle again.
        """
        # No transactions there, so nothing can hang.
        if self._cluster.embedded:
            return
        # Read once, before this process writes anything: a later end would be behind a transaction of its own.
        ends = {place: mark.end for place, mark in self._cluster.marks(self._places).items()}
        # A broker answers a commit before it writes the markers, so most open transactions end by themselves in a
        # moment.
        blocked = self._blocked(ends, GRACE_S)
        # Kept for `_complete`: after the sweep the partitions no longer show which records were open.
        left_open = dict(blocked)
        if blocked:
            self._say(blocked)
            publisher.sweep(filler_messages(self._swept_with(blocked)))
            crash_point("settle.swept")
            blocked = self._blocked(ends, SWEPT_S)
        while blocked:
            self._end_others(blocked)
            blocked = self._blocked(ends, SWEPT_S)
        self._complete(publisher, left_open)
        # Nothing is open any more: times of waiting that are kept would be wrong for the next open transaction there.
        self._since.clear()

    @abstractmethod
    def _complete(self, publisher: Publisher, left_open: Mapping[Place, int]) -> None:
        """Publish again the missing parts of attempts that readers see a part of; `left_open`: offsets of what hung."""

    def _of(self, transactional_id: str) -> Self:
        """Return the settlement of another id of the family, for the same partitions."""
        other = copy(self)
        other._id, other._since, other._remembered = transactional_id, {}, ()
        return other

    def _swept_with(self, blocked: Iterable[Place]) -> set[Place]:
        """Return the partitions to abort in: each blocked one, and those a successor checks if this process dies."""
        return set(blocked)

    # ------------------------------------------------------------------- ending

    def _blocked(self, ends: Mapping[Place, int], wait_s: float) -> dict[Place, int]:
        """Return the stable offset of each partition where it stays below the given end for this long."""
        return blocked_below(self._cluster, ends, wait_s, self._monotonic, self._wait)

    def _say(self, blocked: Mapping[Place, int]) -> None:
        log.warning(
            "transaction_left_open",
            transactional_id=self._id,
            at=[_where(place, offset) for place, offset in blocked.items()],
            remedy="no action needed: the transaction is aborted, and what readers see a part of is completed",
        )

    def _end_others(self, blocked: Mapping[Place, int]) -> None:
        """Take over the ids whose transactions block readers, if their owners cannot be alive any more."""
        theirs: dict[str, list[Place]] = {}
        refusals: list[Unsettled] = []
        for place, offset in blocked.items():
            who, refusal = self._blame(place, offset)
            if refusal is None:
                theirs.setdefault(who, []).append(place)
            else:
                refusals.append(refusal)
        if not theirs:
            # Of several reasons the one that needs a person is raised: the others end by themselves.
            raise next((one for one in refusals if isinstance(one, PersonNeeded)), refusals[0])
        for who, places in theirs.items():
            self._settle_for(who, places)

    def _blame(self, place: Place, offset: int) -> tuple[str, Unsettled | None]:
        """Return the id whose transaction blocks readers, and why it cannot be ended now; None if it can."""
        now = self._monotonic()
        # Our own waiting is counted, not the record's age: its timestamp is another machine's clock.
        waited_s = now - self._since.setdefault((place, offset), now)
        record = self._cluster.stored_at(*place, offset, READ_TIMEOUT_S)
        stamp = None if record is None else Stamp.of(record.headers)
        where = _where(place, offset)
        who = stamp.transactional_id if stamp is not None else ""
        if waited_s < self._patience_s:
            whose = f"a transaction of {who}" if who else "a transaction of a writer that does not name itself"
            return who, Unsettled(
                f"{whose} is open at {where}",
                f"The transaction ends by itself, or is ended in {self._patience_s - waited_s:.0f} s; no action "
                "needed.",
            )
        # Our own sweep has run by then. What still hangs belongs to a producer id that the broker gave up, and no
        # producer reaches it.
        if who == self._id:
            return who, self._person_needed(place, offset, f"{who} (whose producer the broker has forgotten)")
        if not who.startswith(self._family):
            return who, self._person_needed(place, offset, who or "a writer that does not name itself")
        return who, None

    def _person_needed(self, place: Place, offset: int, whose: str) -> PersonNeeded:
        topic, partition = place
        return PersonNeeded(
            f"a transaction of {whose} is open at {_where(place, offset)}, and nothing ends it",
            "Make sure that the transaction's writer has ended, then run: kafka-transactions.sh --bootstrap-server "
            f"{self._cluster.servers} abort --topic {topic} --partition {partition} --start-offset {offset}",
        )

    def _settle_for(self, transactional_id: str, places: Sequence[Place]) -> None:
        """Take over the id of a dead writer: end what it left open, and complete what readers see a part of."""
        log.warning(
            "taking_over_the_id_of_another",
            transactional_id=transactional_id,
            at=[_where(place, None) for place in places],
            remedy="the writer's transaction outlived three transaction timeouts. If the writer still runs, it "
            "recovers by itself",
        )
        other, publisher = self._of(transactional_id), self._cluster.publisher(transactional_id)
        try:
            publisher.start()
            left_open = {place: mark.stable for place, mark in self._cluster.marks(places).items()}
            publisher.sweep(filler_messages(other._swept_with(places)))
            # Past the first open record is enough: what comes after it may be the work of living writers.
            blocked = self._blocked({place: offset + 1 for place, offset in left_open.items()}, SWEPT_S)
            for place, offset in blocked.items():
                # We own the id, and its abort did not help: then no producer can end it.
                raise self._person_needed(place, offset, transactional_id)
            # Under the other's id: the parts belong to its attempts, and its next start looks for them there.
            other._complete(publisher, left_open)
        finally:
            publisher.close()

    # --------------------------------------------------------------- completing

    def _is_mine(self, record: Record) -> bool:
        stamp = Stamp.of(record.headers)
        return stamp is not None and stamp.transactional_id == self._id

    def _parts(
        self, places: Sequence[Place], attempts: Container[str], since_ms: int | None, until_ms: int | None = None
    ) -> list[AttemptRecord]:
        """Return every record of attempts in these partitions, between two times."""

        def wanted(record: Record) -> bool:
            stamp = Stamp.of(record.headers)
            return stamp is not None and stamp.attempt in attempts

        found = self._cluster.stored(places, wanted, since_ms=since_ms, until_ms=until_ms, timeout_s=READ_TIMEOUT_S)
        return list(map(part_of, found))

    def _report(self, judgement: Judgement) -> None:
        """Log what is completed; raise an error if it cannot be completed."""
        if judgement.verdict is AttemptVerdict.LOST:
            raise StateError(
                f"readers see only a part of a transaction of {self._id}, and it cannot be completed: {judgement.why}",
                "The broker lost records that it had stored. Restore them, or use other output topics; readers keep "
                "the version that their alias names.",
            )
        log.warning(
            "transaction_completed",
            transactional_id=self._id,
            attempt=judgement.attempt,
            published_again=[part.where for part in (*judgement.first, *judgement.pointers)],
            gone=list(judgement.gone),
            remedy="no action needed: readers saw a part of the transaction; the rest is completed",
        )


def blocked_below(
    cluster: Cluster,
    ends: Mapping[Place, int],
    wait_s: float,
    monotonic: Callable[[], float],
    wait: Callable[[float], object],
) -> dict[Place, int]:
    """Return the stable offset of each partition where it stays below the given end for this long."""
    deadline = monotonic() + wait_s
    while True:
        marks = cluster.marks(ends)
        blocked = {place: marks[place].stable for place, end in ends.items() if marks[place].stable < end}
        if not blocked or monotonic() >= deadline:
            return blocked
        wait(LOOK_S)


def newest_attempts(begun: Mapping[str, int]) -> dict[str, int]:
    """Return the attempts that began last, by their clocks.

    Earlier attempts of an id are complete: a publisher confirms each attempt before the next, and its successor settles
    first. Looking for an earlier attempt could mean reading all scores since a time long ago.
    """
    since_ms = max(begun.values(), default=0) - SLACK_MS
    return {attempt: time_ms for attempt, time_ms in begun.items() if time_ms >= since_ms}


def part_of(one: Stored) -> AttemptRecord:
    """Return a stored record as a part of its attempt."""
    record, stamp = one.record, Stamp.of(one.record.headers)
    assert stamp is not None
    return AttemptRecord(
        attempt=stamp.attempt,
        number=stamp.part,
        parts=stamp.parts,
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        key=record.key,
        value=record.value,
        headers=record.headers,
        visible=one.committed,
    )


def since_ms(stored: Iterable[Stored], slack_ms: int) -> int | None:
    """Return the time from which to look for other parts of these records' attempts; None: from the beginning."""
    times = [one.record.timestamp_ms for one in stored if one.record.timestamp_ms is not None]
    return min(times) - slack_ms if times else None


def parts_not_stored(attempted: Iterable[Message]) -> tuple[AttemptRecord, ...]:
    """Return stamped messages as parts of their attempt that the log does not hold, as far as anybody knows."""
    return tuple(
        AttemptRecord(
            attempt=stamp.attempt,
            number=stamp.part,
            parts=stamp.parts,
            topic=message.topic,
            partition=NO_PARTITION if message.partition is None else message.partition,
            offset=NOT_STORED,
            key=message.key,
            value=message.value,
            headers=tuple(message.headers),
            visible=False,
        )
        for message in attempted
        if (stamp := Stamp.of(message.headers)) is not None
    )


def messages_of(parts: Iterable[AttemptRecord]) -> list[Message]:
    """Return messages that publish the parts again, each to its own partition, or to any if it never had one."""
    return [
        Message(part.topic, part.value, part.key, part.headers, None if part.partition < 0 else part.partition)
        for part in parts
    ]


def filler_messages(places: Iterable[Place]) -> list[Message]:
    """Return one message for each partition, which is sent to be aborted."""
    return [Message(topic, b"", FILLER_KEY, partition=partition) for topic, partition in sorted(places)]


def _where(place: Place, offset: int | None) -> str:
    topic, partition = place
    return f"{topic}[{partition}]" + ("" if offset is None else f"@{offset}")

"""Ends what dead transactions of one transactional id left in the partitions, and completes what readers half see.

`streamsvm.delivery.settlement` has the cases and judges; this module asks the broker and writes. It runs after every
taking of an id, before anything is committed under it. While a transaction is open that this id cannot end, it says
whose it is, waits, takes that one's id after three transaction timeouts, or says the exact command for a person.

Invariant: a settlement aborts, and then completes by a transaction of its own; it never commits what it did not write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import structlog

from consumers.ports import Cluster, Publisher
from consumers.topics import READ_TIMEOUT_S
from streamsvm.codec.model import decode_head, head_key
from streamsvm.crashpoints import crash_point
from streamsvm.delivery import Judgement, Part, Verdict, judge, redirected
from streamsvm.errors import StateError, TransientError
from streamsvm.kafka import Message, Place, Record, Stored, stamp_of
from streamsvm.verification import number_in

log = structlog.get_logger("streamsvm.delivery")

GRACE_S: Final = 1.0
"""How long a transaction that is about to end by itself is waited for."""
SWEPT_S: Final = 5.0
"""How long the markers of an abort of ours are waited for."""
LOOK_S: Final = 0.1
"""Between two looks at the stable offsets."""
TIMEOUTS: Final = 3
"""Transaction timeouts after which a transaction of another writer cannot be alive any more."""
SLACK_MS: Final = 600_000
"""How much older than its pointers the other records of an attempt are looked for: clocks are set now and then."""
FILLER_KEY: Final = b"streamsvm@settling"
"""A compacted topic takes no record without a key. The record is aborted: no reader of committed records gets it."""


class Unsettled(TransientError):
    """Readers are held up by a transaction that cannot be ended from here, or not yet."""


class PersonNeeded(Unsettled):
    """Readers are held up by a transaction that only a person can end."""


class Settlement:
    """Settles one transactional id, as often as it is taken.

    Parameters
    ----------
    cluster : Cluster
    transactional_id : str
    places : sequence of (str, int)
        Every partition that the id writes. The first one is the ledger: every attempt has a record there, but for those
        of one record.
    transaction_timeout_s : float
        Of whoever writes to these partitions.
    monotonic : callable
        Seconds.
    wait : callable
        Waits so many seconds.
    models_topic : str
        Where the versions are.
    name : str
        Of the model.
    """

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        places: Sequence[Place],
        *,
        transaction_timeout_s: float,
        monotonic: Callable[[], float],
        wait: Callable[[float], object],
        models_topic: str,
        name: str,
    ) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._places = tuple(places)
        self._patience_s = TIMEOUTS * transaction_timeout_s
        self._monotonic = monotonic
        self._wait = wait
        self._models_topic = models_topic
        self._name = name
        self._since: dict[tuple[Place, int], float] = {}

    def settle(self, publisher: Publisher) -> None:
        """End what is open in the partitions, and complete what readers half see; `publisher` has just taken the id.

        Raises
        ------
        Unsettled
            If a transaction is open that another writer may yet end: try again.
        PersonNeeded
            If one is open that only a person can end; the message has the command.
        StateError
            If readers see a part of an attempt, and the log does not hold the rest any more.
        TransientError, Fenced, ConfigurationError, FatalError
            As for `streamsvm.kafka.Publisher.publish`: take the id again, then settle again.
        """
        if self._cluster.embedded:
            return
        ends = {place: mark.end for place, mark in self._cluster.marks(self._places).items()}
        held_up = self._held_up(ends, GRACE_S)
        swept = bool(held_up)
        if swept:
            unstamped = self._unstamped(held_up)
            self._say(held_up)
            publisher.sweep(_fillers({self._places[0], *held_up}))
            crash_point("settle.swept")
            held_up = self._held_up(ends, SWEPT_S)
        while held_up:
            self._end_others(held_up)
            held_up = self._held_up(ends, SWEPT_S)
        self._since.clear()
        self._complete(publisher, thoroughly=swept)
        if swept and unstamped:
            self._refuse_unpaired()

    # ------------------------------------------------------------------- ending

    def _held_up(self, ends: Mapping[Place, int], wait_s: float) -> dict[Place, int]:
        """Return the stable offset of each partition where it stays below the given end for so long."""
        deadline = self._monotonic() + wait_s
        while True:
            marks = self._cluster.marks(ends)
            held_up = {place: marks[place].stable for place, end in ends.items() if marks[place].stable < end}
            if not held_up or self._monotonic() >= deadline:
                return held_up
            self._wait(LOOK_S)

    def _say(self, held_up: Mapping[Place, int]) -> None:
        log.warning(
            "transaction_left_open",
            transactional_id=self._id,
            at=[_where(place, offset) for place, offset in held_up.items()],
            remedy="it is aborted now, and what readers see a part of is completed; nothing to be done",
        )

    def _end_others(self, held_up: Mapping[Place, int]) -> None:
        """Take over the ids whose transactions hold readers up, once they cannot be alive any more."""
        theirs: dict[str, list[Place]] = {}
        refusals: list[Unsettled] = []
        for place, offset in held_up.items():
            who, refusal = self._blame(place, offset)
            if refusal is None:
                theirs.setdefault(who, []).append(place)
            else:
                refusals.append(refusal)
        if not theirs:
            raise next((one for one in refusals if isinstance(one, PersonNeeded)), refusals[0])
        for who, places in theirs.items():
            self._settle_for(who, places)

    def _blame(self, place: Place, offset: int) -> tuple[str, Unsettled | None]:
        """Return whose transaction holds readers up, and why it cannot be ended now; None if it can."""
        now = self._monotonic()
        waited_s = now - self._since.setdefault((place, offset), now)
        record = self._cluster.stored_at(*place, offset, READ_TIMEOUT_S)
        stamp = None if record is None else stamp_of(record.headers)
        where = _where(place, offset)
        if stamp is not None and stamp.transactional_id == self._id:
            return self._id, self._person_needed(place, offset, f"{self._id}, whose producer the broker has forgotten,")
        who = stamp.transactional_id if stamp is not None else ""
        if waited_s < self._patience_s:
            whose = f"a transaction of {who}" if who else "a transaction of a writer that does not name itself"
            return who, Unsettled(
                f"{whose} is open at {where}",
                f"It ends by itself, or is ended in {self._patience_s - waited_s:.0f} s; nothing to be done.",
            )
        if stamp is None:
            return "", self._person_needed(place, offset, "a writer that does not name itself")
        return who, None

    def _person_needed(self, place: Place, offset: int, whose: str) -> PersonNeeded:
        topic, partition = place
        return PersonNeeded(
            f"a transaction of {whose} is open at {_where(place, offset)}, and nothing ends it",
            "Make sure that its writer is gone, then run: "
            f"kafka-transactions.sh --bootstrap-server {self._cluster.servers} abort "
            f"--topic {topic} --partition {partition} --start-offset {offset}",
        )

    def _settle_for(self, transactional_id: str, places: Sequence[Place]) -> None:
        """Take over the id of a writer that is gone: end what it left open, and complete what readers half see."""
        log.warning(
            "taking_over_the_id_of_another",
            transactional_id=transactional_id,
            at=[_where(place, None) for place in places],
            remedy="its transaction outlived three transaction timeouts; if its process lives, it goes on by itself",
        )
        publisher = self._cluster.publisher(transactional_id)
        try:
            publisher.start()
            publisher.sweep(_fillers({self._places[0], *places}))
            if self._held_up({place: self._cluster.marks([place])[place].end for place in places}, SWEPT_S):
                raise self._blameless(transactional_id, places)
            other = Settlement(
                self._cluster,
                transactional_id,
                self._places,
                transaction_timeout_s=self._patience_s / TIMEOUTS,
                monotonic=self._monotonic,
                wait=self._wait,
                models_topic=self._models_topic,
                name="",
            )
            other._complete(publisher, thoroughly=True)
        finally:
            publisher.close()

    def _blameless(self, transactional_id: str, places: Sequence[Place]) -> Unsettled:
        marks = self._cluster.marks(places)
        place = next((place for place in places if marks[place].stable < marks[place].end), places[0])
        return self._person_needed(place, marks[place].stable, transactional_id)

    # --------------------------------------------------------------- completing

    def _complete(self, publisher: Publisher, *, thoroughly: bool) -> None:
        """Publish again what is missing of attempts that readers half see."""
        ledger = self._cluster.stored(*self._places[0], self._is_mine, timeout_s=READ_TIMEOUT_S)
        newest = next((at for at in reversed(range(len(ledger))) if ledger[at].committed), 0)
        suspects = {_part(one).attempt for one in ledger[newest:]}
        if not thoroughly and all(one.committed for one in ledger[newest:]):
            return
        for judgement in judge(
            self._parts([one for one in ledger if _part(one).attempt in suspects]), self._models_topic
        ):
            self._carry_out(judgement, publisher)

    def _is_mine(self, record: Record) -> bool:
        stamp = stamp_of(record.headers)
        return stamp is not None and stamp.transactional_id == self._id

    def _parts(self, in_ledger: Sequence[Stored]) -> list[Part]:
        """Return every record of the attempts that have these in the ledger."""
        parts = [_part(one) for one in in_ledger]
        attempts = {part.attempt for part in parts}
        times = [one.record.timestamp_ms for one in in_ledger]
        since_ms = min((time - SLACK_MS for time in times if time is not None), default=None)

        def wanted(record: Record) -> bool:
            stamp = stamp_of(record.headers)
            return stamp is not None and stamp.attempt in attempts

        for place in self._places[1:]:
            found = self._cluster.stored(*place, wanted, since_ms=since_ms, timeout_s=READ_TIMEOUT_S)
            parts += map(_part, found)
        return parts

    def _carry_out(self, judgement: Judgement, publisher: Publisher) -> None:
        if judgement.verdict is Verdict.LOST:
            raise StateError(
                f"a transaction of {self._id} is half visible, and cannot be completed: {judgement.why}",
                "The broker lost records that it had stored. Restore them, or go on with another output.models_topic; "
                "readers keep what their alias names.",
            )
        if judgement.verdict is not Verdict.TORN:
            return
        log.warning(
            "transaction_completed",
            attempt=judgement.attempt,
            published_again=[part.where for part in (*judgement.first, *judgement.pointers)],
            remedy="the broker had shown readers a part of it; nothing to be done",
        )

        def pointers(offsets: Sequence[int]) -> list[Message]:
            at = judgement.version_offset
            moved = next(
                (offset for part, offset in zip(judgement.first, offsets, strict=True) if self._is_version(part)), at
            )
            return _messages(redirected(judgement.pointers, -1 if moved is None else moved))

        publisher.publish(_messages(judgement.first), pointers)
        crash_point("settle.completed")
        publisher.confirm()

    def _is_version(self, part: Part) -> bool:
        return part.topic == self._models_topic and part.value is not None

    def _unstamped(self, held_up: Mapping[Place, int]) -> bool:
        """Tell whether a record that hangs has no stamp: an earlier release of ours, or another program, wrote it."""
        records = [self._cluster.stored_at(*place, offset, READ_TIMEOUT_S) for place, offset in held_up.items()]
        return any(record is not None and stamp_of(record.headers) is None for record in records)

    def _refuse_unpaired(self) -> None:
        """Refuse if a release without stamps left a version that readers see and no head names."""
        key = head_key(self._name).encode()
        found = self._cluster.newest(self._places[0][0], [key], READ_TIMEOUT_S).get(key)
        newest = decode_head(found.value).number if found is not None and found.value else 0

        def wanted(record: Record) -> bool:
            number = number_in(record.key, self._name)
            return number is not None and number > newest and stamp_of(record.headers) is None

        versions = self._cluster.stored(self._models_topic, 0, wanted, timeout_s=READ_TIMEOUT_S)
        alone = [f"{self._models_topic}[0]@{one.record.offset}" for one in versions if one.committed]
        if alone:
            raise StateError(
                f"readers see versions of {self._name} that no head names, and an earlier release wrote them without "
                f"saying what else belongs to them: {', '.join(alone)}",
                "Go on with another output.models_topic, or write the head record by hand; readers keep what their "
                "alias names.",
            )


def _part(one: Stored) -> Part:
    record, stamp = one.record, stamp_of(one.record.headers)
    assert stamp is not None
    return Part(
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


def _messages(parts: Iterable[Part]) -> list[Message]:
    return [Message(part.topic, part.value, part.key, part.headers, part.partition) for part in parts]


def _fillers(places: Iterable[Place]) -> list[Message]:
    return [Message(topic, b"", FILLER_KEY, partition=partition) for topic, partition in sorted(places)]


def _where(place: Place, offset: int | None) -> str:
    topic, partition = place
    return f"{topic}[{partition}]" + ("" if offset is None else f"@{offset}")

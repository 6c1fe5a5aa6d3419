"""Ends what dead transactions of one transactional id left in the partitions, and completes what readers see a part of.

`streamsvm.delivery.settlement` lists the cases and judges them; this module asks the broker and writes. It runs each
time an id is taken over, before anything is committed under the id. While a transaction is open that this id cannot
end, it says whose transaction it is and waits. After three transaction timeouts it takes the other id over, or, if it
may not, prints the exact command with which a person can end the transaction.

Invariant: a settlement aborts, and then completes by a transaction of its own. It never commits records that it did not
write.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Final, Protocol

import structlog

from consumers.streams.ports import Cluster, Publisher
from consumers.streams.topics import READ_TIMEOUT_S
from streamsvm.crashpoints import crash_point
from streamsvm.delivery import Judgement, Part, Verdict, judge, redirected
from streamsvm.errors import StateError, TransientError
from streamsvm.ingest.scored import SOURCE_HEADER
from streamsvm.kafka import Message, Place, Progress, Record, Standing, Stored, stamp_of
from streamsvm.model.message import decode_head, head_key, version_number

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
FILLER_KEY: Final = b"streamsvm@settling"
"""Key of the record that is aborted: a compacted topic accepts no record without a key. No reader receives it."""


class Unsettled(TransientError):
    """A transaction holds readers up that cannot be ended from here, or not yet."""


class PersonNeeded(Unsettled):
    """A transaction holds readers up that only a person can end."""


class Settlement(ABC):
    """Settles one transactional id, each time that the id is taken over.

    Parameters
    ----------
    cluster : Cluster
    transactional_id : str
    places : sequence of (str, int)
        Every partition that the id writes to.
    family : str
        Prefix of the ids that may be taken over if their transactions hold readers up. Anybody can write any id into
        the stamp of a record, so a stamp alone must not make us fence that id's owner.
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
        if self._cluster.embedded:
            return
        ends = {place: mark.end for place, mark in self._cluster.marks(self._places).items()}
        held_up = self._held_up(ends, GRACE_S)
        left_open = dict(held_up)
        if held_up:
            self._say(held_up)
            publisher.sweep(_fillers(self._swept_with(held_up)))
            crash_point("settle.swept")
            held_up = self._held_up(ends, SWEPT_S)
        while held_up:
            self._end_others(held_up)
            held_up = self._held_up(ends, SWEPT_S)
        self._complete(publisher, left_open)
        self._since.clear()

    @abstractmethod
    def _complete(self, publisher: Publisher, left_open: Mapping[Place, int]) -> None:
        """Publish again the missing parts of attempts that readers see a part of; `left_open`: offsets of what hung."""

    @abstractmethod
    def _of(self, transactional_id: str) -> Settlement:
        """Return the settlement of another id of the family, for the same partitions."""

    def _swept_with(self, held_up: Iterable[Place]) -> set[Place]:
        """Return where to abort: each hanging partition, and those that a successor checks if this process dies."""
        return set(held_up)

    # ------------------------------------------------------------------- ending

    def _held_up(self, ends: Mapping[Place, int], wait_s: float) -> dict[Place, int]:
        """Return the stable offset of each partition where it stays below the given end for this long."""
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
            remedy="no action needed: the transaction is aborted, and what readers see a part of is completed",
        )

    def _end_others(self, held_up: Mapping[Place, int]) -> None:
        """Take over the ids whose transactions hold readers up, when those cannot be alive any more."""
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
        """Return the id whose transaction holds readers up, and why it cannot be ended now; None if it can."""
        now = self._monotonic()
        waited_s = now - self._since.setdefault((place, offset), now)
        record = self._cluster.stored_at(*place, offset, READ_TIMEOUT_S)
        stamp = None if record is None else stamp_of(record.headers)
        where = _where(place, offset)
        who = stamp.transactional_id if stamp is not None else ""
        if waited_s < self._patience_s:
            whose = f"a transaction of {who}" if who else "a transaction of a writer that does not name itself"
            return who, Unsettled(
                f"{whose} is open at {where}",
                f"The transaction ends by itself, or is ended in {self._patience_s - waited_s:.0f} s; no action "
                "needed.",
            )
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
            publisher.sweep(_fillers(other._swept_with(places)))
            held_up = self._held_up({place: offset + 1 for place, offset in left_open.items()}, SWEPT_S)
            for place, offset in held_up.items():
                raise self._person_needed(place, offset, transactional_id)
            other._complete(publisher, left_open)
        finally:
            publisher.close()

    # --------------------------------------------------------------- completing

    def _is_mine(self, record: Record) -> bool:
        stamp = stamp_of(record.headers)
        return stamp is not None and stamp.transactional_id == self._id

    def _parts(
        self, places: Sequence[Place], attempts: Container[str], since_ms: int | None, until_ms: int | None = None
    ) -> list[Part]:
        """Return every record of attempts in these partitions, between two times."""

        def wanted(record: Record) -> bool:
            stamp = stamp_of(record.headers)
            return stamp is not None and stamp.attempt in attempts

        found = self._cluster.stored(places, wanted, since_ms=since_ms, until_ms=until_ms, timeout_s=READ_TIMEOUT_S)
        return list(map(_part, found))

    def _report(self, judgement: Judgement) -> None:
        """Log what is completed; raise an error if it cannot be completed."""
        if judgement.verdict is Verdict.LOST:
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


class VersionSettlement(Settlement):
    """Settles the id of a trainer, or of people's moves.

    Every attempt of more than one record has a record in the aliases topic. This topic is small, and keeps aborted
    records long enough, so it shows whether a predecessor died between its abort and the completion. If a person
    aborted the transaction before any settlement ran, the aliases topic shows nothing; so the parts of the newest
    attempt are looked for even if nothing hangs.

    Parameters
    ----------
    cluster, transactional_id, places, family, transaction_timeout_s, monotonic, wait
        See `Settlement`; the first place is that of the aliases.
    models_topic : str
        Where the versions are.
    name : str
        Of the model; empty for ids that publish no versions of it.
    """

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        places: Sequence[Place],
        *,
        family: str = FAMILY,
        transaction_timeout_s: float,
        monotonic: Callable[[], float],
        wait: Callable[[float], object],
        models_topic: str,
        name: str = "",
    ) -> None:
        super().__init__(
            cluster,
            transactional_id,
            places,
            family=family,
            transaction_timeout_s=transaction_timeout_s,
            monotonic=monotonic,
            wait=wait,
        )
        self._models_topic = models_topic
        self._name = name

    def _of(self, transactional_id: str) -> VersionSettlement:
        return VersionSettlement(
            self._cluster,
            transactional_id,
            self._places,
            family=self._family,
            transaction_timeout_s=self._timeout_s,
            monotonic=self._monotonic,
            wait=self._wait,
            models_topic=self._models_topic,
        )

    def _swept_with(self, held_up: Iterable[Place]) -> set[Place]:
        return {self._places[0], *held_up}

    def _complete(self, publisher: Publisher, left_open: Mapping[Place, int]) -> None:
        aliases, *others = self._places
        mine = self._cluster.stored([aliases], self._is_mine, timeout_s=READ_TIMEOUT_S)
        newest = next((at for at in reversed(range(len(mine))) if mine[at].committed), 0)
        doubtful = bool(left_open) or not all(one.committed for one in mine[newest:])
        if not doubtful and not self._lacks_parts(mine, others):
            return
        attempts = {_part(one).attempt for one in mine[newest:]}
        concerned = [one for one in mine if _part(one).attempt in attempts]
        parts = [*map(_part, concerned), *self._parts(others, attempts, _since_ms(concerned, SLACK_MS))]
        for judgement in judge(parts, self._models_topic):
            if judgement.verdict in (Verdict.TORN, Verdict.LOST):
                self._report(judgement)
                self._publish_again(judgement, publisher)
        if self._name and self._unstamped(left_open):
            self._refuse_unpaired()

    def _lacks_parts(self, mine: Sequence[Stored], others: Sequence[Place]) -> bool:
        """Tell whether readers receive the newest attempt without some of the parts that the log holds.

        A part that the log no longer holds, such as a retired version, cannot be completed.
        """
        newest = [one for one in mine if _part(one).attempt == _part(mine[-1]).attempt]
        parts = [_part(one) for one in newest]
        visible = {part.number for part in parts if part.visible}
        if len(visible) >= max((part.parts for part in parts), default=0):
            return False
        found = self._parts(others, {parts[0].attempt}, _since_ms(newest, SHORT_SLACK_MS))
        visible |= {part.number for part in found if part.visible}
        return any(part.number not in visible for part in found)

    def _publish_again(self, judgement: Judgement, publisher: Publisher) -> None:
        def pointers(offsets: Sequence[int]) -> list[Message]:
            at = judgement.version_offset
            for part, offset in zip(judgement.first, offsets, strict=True):
                at = offset if part.topic == self._models_topic and part.value is not None else at
            return [] if at is None else _messages(redirected(judgement.pointers, at))

        publisher.publish(_messages(judgement.first), pointers)
        crash_point("settle.completed")
        publisher.confirm()

    def _unstamped(self, left_open: Mapping[Place, int]) -> bool:
        """Tell whether a record that hung has no stamp, so that an earlier release or another program wrote it."""
        records = [self._cluster.stored_at(*place, offset, READ_TIMEOUT_S) for place, offset in left_open.items()]
        return any(record is not None and stamp_of(record.headers) is None for record in records)

    def _refuse_unpaired(self) -> None:
        """Refuse if a release without stamps left a version that readers see, but that no head record names."""
        key = head_key(self._name).encode()
        found = self._cluster.newest(self._places[0][0], [key], READ_TIMEOUT_S).get(key)
        newest = decode_head(found.value).number if found is not None and found.value else 0

        def wanted(record: Record) -> bool:
            number = version_number(record.key, self._name)
            return number is not None and number > newest and stamp_of(record.headers) is None

        versions = self._cluster.stored([(self._models_topic, 0)], wanted, timeout_s=READ_TIMEOUT_S)
        alone = [f"{self._models_topic}[0]@{one.record.offset}" for one in versions if one.committed]
        if alone:
            raise StateError(
                f"readers see versions of {self._name} without a head record, and the earlier release that wrote "
                f"them did not record which other records belong to them: {', '.join(alone)}",
                "Use another output.models_topic, or write the head record by hand; readers keep the version that "
                "their alias names.",
            )


class Group(Protocol):
    """The positions of a consumer group, which scorers commit with their scores."""

    def standings(self) -> dict[int, Standing]:
        """Return the position of every partition of the input."""

    def progress(self, positions: Mapping[int, int]) -> Progress:
        """Return positions in the form in which a publisher commits them."""

    def confirm(self, positions: Mapping[int, int]) -> None:
        """Wait until positions that were committed can be read."""

    def vacant(self) -> list[str]:
        """Return transactional ids of slots that no living member has."""


class ScoreSettlement(Settlement):
    """Settles the id of a scorer's slot: scores, dead letters, and the group's positions.

    The positions are ended last: while they are in doubt, no member can read them, so nobody scores again what readers
    already have. The metadata of a position names the attempt that committed it, so a successor knows what to look for.
    While a position is in doubt, the attempt that moves it is unknown. If the attempt belongs to this id, its scores
    came after the position that was committed last; so all attempts since then are looked for. An attempt that readers
    see a part of was decided, and its positions with it, so they are committed again. A position that is already
    committed, or a later one, is not changed; neither are positions of other slots that are in doubt.

    Parameters
    ----------
    cluster, transactional_id, places, family, transaction_timeout_s, monotonic, wait
        See `Settlement`.
    input_topic : str
    group : Group
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
        input_topic: str,
        group: Group,
    ) -> None:
        super().__init__(
            cluster,
            transactional_id,
            places,
            family=family,
            transaction_timeout_s=transaction_timeout_s,
            monotonic=monotonic,
            wait=wait,
        )
        self._input_topic = input_topic
        self._group = group
        self._doubted_at: float | None = None

    def _of(self, transactional_id: str) -> ScoreSettlement:
        return ScoreSettlement(
            self._cluster,
            transactional_id,
            self._places,
            family=self._family,
            transaction_timeout_s=self._timeout_s,
            monotonic=self._monotonic,
            wait=self._wait,
            input_topic=self._input_topic,
            group=self._group,
        )

    def _complete(self, publisher: Publisher, left_open: Mapping[Place, int]) -> None:
        standings = self._standings()
        told = {one.attempt: one.time_ms for one in standings.values() if one.transactional_id == self._id}
        begun, decided = _newest(told), set(told)
        looked_at = [
            self._cluster.stored([place], self._is_mine, start=offset, timeout_s=READ_TIMEOUT_S)
            for place, offset in left_open.items()
        ]
        doubted = [one.time_ms for one in standings.values() if one.in_doubt]
        if doubted:
            since_ms = max(0, min(doubted) - SHORT_SLACK_MS)
            looked_at.append(
                self._cluster.stored(self._places, self._is_mine, since_ms=since_ms, timeout_s=READ_TIMEOUT_S)
            )
        for one in chain.from_iterable(looked_at):
            attempt, time_ms = _part(one).attempt, one.record.timestamp_ms or 0
            begun[attempt] = min(time_ms, begun.get(attempt, time_ms))
        if begun:
            parts = self._parts_of(begun, decided)
            for judgement in judge(parts, decided=decided):
                if judgement.verdict is not Verdict.VOID:
                    mine = [part for part in parts if part.attempt == judgement.attempt]
                    moved = {} if judgement.attempt in decided else positions_of(mine, self._input_topic)
                    self._publish_again(judgement, moved, publisher)
        self._give_positions_back(publisher)

    def _standings(self) -> dict[int, Standing]:
        """Return the group's positions, after waiting for transactions that are about to end by themselves."""
        deadline = self._monotonic() + GRACE_S
        while True:
            standings = self._group.standings()
            if not any(one.in_doubt for one in standings.values()) or self._monotonic() >= deadline:
                return standings
            self._wait(LOOK_S)

    def _parts_of(self, begun: Mapping[str, int], decided: Container[str]) -> list[Part]:
        """Return every record of attempts that began at these times, reading no more than necessary.

        Most attempts are complete, and their records are close together. Records that completed an attempt later may be
        anywhere behind them.
        """
        since_ms = min(begun.values()) - SHORT_SLACK_MS
        parts = self._parts(self._places, begun, since_ms, max(begun.values()) + SHORT_SLACK_MS)
        judgements = judge(parts, decided=decided)
        if len(judgements) == len(begun) and all(one.verdict is Verdict.WHOLE and not one.gone for one in judgements):
            return parts
        return self._parts(self._places, begun, since_ms)

    def _publish_again(self, judgement: Judgement, positions: Mapping[int, int], publisher: Publisher) -> None:
        """Publish the missing parts of a decided batch, with its positions if the group has not reached them yet.

        The positions carry the stamp of the original batch, so that a successor that finds this repair incomplete looks
        for the batch again.
        """
        standings = self._group.standings()
        behind = {
            partition: offset
            for partition, offset in positions.items()
            if (at := standings.get(partition)) is not None and (at.offset or 0) < offset
        }
        if not behind and judgement.verdict is Verdict.WHOLE:
            return
        self._report(judgement)
        progress = replace(self._group.progress(behind), attempt=judgement.attempt) if behind else None
        publisher.publish(_messages(judgement.first), progress=progress)
        crash_point("settle.completed")
        publisher.confirm()
        self._group.confirm(behind)

    def _give_positions_back(self, publisher: Publisher) -> None:
        """Abort the transaction that holds the group's positions, of any slot; no part of it is visible."""
        in_doubt = {partition: one.offset or 0 for partition, one in self._group.standings().items() if one.in_doubt}
        if not in_doubt:
            self._doubted_at = None
            return
        publisher.sweep(_fillers(self._places[:1]), self._group.progress(in_doubt))
        deadline = self._monotonic() + SWEPT_S
        while any(one.in_doubt for one in self._group.standings().values()):
            if self._monotonic() >= deadline:
                raise self._doubt(sorted(in_doubt))
            self._wait(LOOK_S)
        self._doubted_at = None

    def _doubt(self, partitions: Sequence[int]) -> Unsettled:
        """Return why positions stay in doubt; after three timeouts, first settle the slots without a living member."""
        now = self._monotonic()
        self._doubted_at = now if self._doubted_at is None else self._doubted_at
        what = f"an open transaction moves the positions of the group in partitions {', '.join(map(str, partitions))}"
        if now - self._doubted_at < self._patience_s:
            return Unsettled(what, "The transaction ends by itself, or this scorer settles its slot; no action needed.")
        self._doubted_at = now
        for transactional_id in self._group.vacant():
            with suppress(Unsettled):  # it was another slot's
                self._settle_for(transactional_id, ())
            if not any(one.in_doubt for one in self._group.standings().values()):
                return Unsettled(f"{what}; it was ended", "No action needed.")
        return PersonNeeded(
            f"{what}, and nothing ends it",
            f"Find the transaction: kafka-transactions.sh --bootstrap-server {self._cluster.servers} find-hanging "
            "--broker-id ID --topic __consumer_offsets --max-transaction-timeout 1; then abort it with the command "
            "that is printed.",
        )


def _newest(begun: Mapping[str, int]) -> dict[str, int]:
    """Return the attempts that began last, as far as clocks can tell.

    Earlier attempts of an id are complete: a publisher confirms each attempt before the next, and its successor settles
    first. Looking for an earlier attempt could mean reading all scores since a time long ago.
    """
    since_ms = max(begun.values(), default=0) - SLACK_MS
    return {attempt: time_ms for attempt, time_ms in begun.items() if time_ms >= since_ms}


def positions_of(parts: Iterable[Part], input_topic: str) -> dict[int, int]:
    """Return the next offset to read in each partition of the input after a batch, by its scores and dead letters."""
    positions: dict[int, int] = {}
    for part in parts:
        source = source_of(part.headers)
        if source is not None and source[0] == input_topic:
            _, partition, offset = source
            positions[partition] = max(offset + 1, positions.get(partition, 0))
    return positions


def source_of(headers: Sequence[tuple[str, bytes]]) -> tuple[str, int, int] | None:
    """Return topic, partition and offset of the record from which a score or a dead letter was made."""
    told = dict(headers)
    try:
        if SOURCE_HEADER in told:
            topic, partition, offset = told[SOURCE_HEADER].decode().rsplit("/", 2)
        else:
            topic, partition, offset = (
                told[f"__streams.errors.{what}"].decode() for what in ("topic", "partition", "offset")
            )
        return topic, int(partition), int(offset)
    except (KeyError, ValueError):
        return None


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


def _since_ms(stored: Iterable[Stored], slack_ms: int) -> int | None:
    """Return the time from which to look for other parts of these records' attempts; None: from the beginning."""
    times = [one.record.timestamp_ms for one in stored if one.record.timestamp_ms is not None]
    return min(times) - slack_ms if times else None


def _messages(parts: Iterable[Part]) -> list[Message]:
    return [Message(part.topic, part.value, part.key, part.headers, part.partition) for part in parts]


def _fillers(places: Iterable[Place]) -> list[Message]:
    return [Message(topic, b"", FILLER_KEY, partition=partition) for topic, partition in sorted(places)]


def _where(place: Place, offset: int | None) -> str:
    topic, partition = place
    return f"{topic}[{partition}]" + ("" if offset is None else f"@{offset}")

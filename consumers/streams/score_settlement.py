"""Settles the transactional id of a scorer's slot: scores, dead letters, and the group's positions."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Final, Protocol

from consumers.streams.settling import (
    GRACE_S,
    LOOK_S,
    SHORT_SLACK_MS,
    SWEPT_S,
    PersonNeeded,
    Settlement,
    Unsettled,
    filler_messages,
    messages_of,
    newest_attempts,
    part_of,
)
from consumers.streams.topics import READ_TIMEOUT_S
from streamsvm.crashpoints import crash_point
from streamsvm.delivery.settlement import AttemptRecord, AttemptVerdict, Judgement, judge
from streamsvm.kafka import Cluster, GroupStanding, MemberProgress, Message, Place, Publisher
from streamsvm.places import rejected_source_of, source_of

_AFTER_ID: Final = "~"
_ID_CHARACTERS: Final = 8
"""Of a topic's id in each record of its attempts: 48 random bits tell the topics of one name apart."""


def writer_of(topic_id: str) -> str:
    """Return a name for a publisher's attempts that says of which input they are; nobody else has the name."""
    return f"{topic_id[:_ID_CHARACTERS]}{_AFTER_ID if topic_id else ''}{uuid.uuid4().hex[:16]}"


class Group(Protocol):
    """The positions of a consumer group, which scorers commit with their scores."""

    def standings(self) -> dict[int, GroupStanding]:
        """Return the position of every partition of the input."""

    def progress(self, positions: Mapping[int, int]) -> MemberProgress:
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
    committed, or a later one, is not changed; neither are positions of other slots that are in doubt. An attempt whose
    input was deleted and made again since changes no position: its own are of another log.

    Parameters
    ----------
    cluster, transactional_id, places, family, transaction_timeout_s, monotonic, wait
        See `Settlement`.
    input_topic : str
    group : Group
    topic_id : callable
        Returns the id of the input now; empty where the broker gives none.
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
        topic_id: Callable[[], str] = str,
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
        self._topic_id = topic_id
        self._doubted_at: float | None = None
        self._remembered_at_ms = 0

    def remember_at(self, attempted: Sequence[Message], time_ms: int) -> None:
        """Keep the stamped messages of a batch that failed, and when it did: the log may not hold all of them."""
        self.remember(attempted)
        self._remembered_at_ms = time_ms

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
            topic_id=self._topic_id,
        )

    def _complete(self, publisher: Publisher, left_open: Mapping[Place, int]) -> None:
        standings = self._standings()
        times_ms = {one.attempt: one.time_ms for one in standings.values() if one.transactional_id == self._id}
        begun, decided = newest_attempts(times_ms), set(times_ms)
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
            attempt, time_ms = part_of(one).attempt, one.record.timestamp_ms or 0
            begun[attempt] = min(time_ms, begun.get(attempt, time_ms))
        for part in self._remembered:
            begun.setdefault(part.attempt, self._remembered_at_ms)
        if begun:
            parts = self._parts_of(begun, decided)
            parts += [part for part in self._remembered if not _passed(part, self._input_topic, standings)]
            for judgement in judge(parts, decided=decided):
                if judgement.verdict is not AttemptVerdict.VOID:
                    mine = [part for part in parts if part.attempt == judgement.attempt]
                    stays = judgement.attempt in decided or self._is_of_another_input(judgement.attempt)
                    moved = {} if stays else positions_of(mine, self._input_topic)
                    self._publish_again(judgement, moved, publisher)
        self._remembered = ()
        self._give_positions_back(publisher)

    def _is_of_another_input(self, attempt: str) -> bool:
        of, separator, _ = attempt.partition(_AFTER_ID)
        return bool(separator) and of != self._topic_id()[:_ID_CHARACTERS]

    def _standings(self) -> dict[int, GroupStanding]:
        """Return the group's positions, after waiting for transactions that are about to end by themselves."""
        deadline = self._monotonic() + GRACE_S
        while True:
            standings = self._group.standings()
            if not any(one.in_doubt for one in standings.values()) or self._monotonic() >= deadline:
                return standings
            self._wait(LOOK_S)

    def _parts_of(self, begun: Mapping[str, int], decided: Container[str]) -> list[AttemptRecord]:
        """Return every record of attempts that began at these times, reading no more than necessary.

        Most attempts are complete, and their records are close together. Records that completed an attempt later may be
        anywhere behind them.
        """
        since_ms = min(begun.values()) - SHORT_SLACK_MS
        parts = self._parts(self._places, begun, since_ms, max(begun.values()) + SHORT_SLACK_MS)
        judgements = judge(parts, decided=decided)
        if len(judgements) == len(begun) and all(
            one.verdict is AttemptVerdict.WHOLE and not one.gone for one in judgements
        ):
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
        if not behind and judgement.verdict is AttemptVerdict.WHOLE:
            return
        self._report(judgement)
        progress = replace(self._group.progress(behind), attempt=judgement.attempt) if behind else None
        publisher.publish(messages_of(judgement.first), progress=progress)
        crash_point("settle.completed")
        publisher.confirm()
        self._group.confirm(behind)

    def _give_positions_back(self, publisher: Publisher) -> None:
        """Abort the transaction that holds the group's positions, of any slot; no part of it is visible."""
        in_doubt = {partition: one.offset or 0 for partition, one in self._group.standings().items() if one.in_doubt}
        if not in_doubt:
            self._doubted_at = None
            return
        publisher.sweep(filler_messages(self._places[:1]), self._group.progress(in_doubt))
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


def _passed(part: AttemptRecord, input_topic: str, standings: Mapping[int, GroupStanding]) -> bool:
    """Return whether the group is past the record that a part was made from: then another scorer has scored it."""
    position = positions_of([part], input_topic)
    return any(
        (at := standings.get(partition)) is not None and (at.offset or 0) >= offset
        for partition, offset in position.items()
    )


def positions_of(parts: Iterable[AttemptRecord], input_topic: str) -> dict[int, int]:
    """Return the next offset to read in each partition of the input after a batch, by its scores and dead letters."""
    positions: dict[int, int] = {}
    for part in parts:
        source = rejected_source_of(part.headers) or source_of(part.headers)
        if source is not None and source.topic == input_topic:
            _, partition, offset = source
            positions[partition] = max(offset + 1, positions.get(partition, 0))
    return positions

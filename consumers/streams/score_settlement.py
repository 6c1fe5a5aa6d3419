"""Settles the transactional id of a scorer's slot: scores, dead letters, and how far the input was scored."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Self

from consumers.streams.scored_progress import ScoredProgress, time_of
from consumers.streams.settling import (
    FILLER_KEY,
    GRACE_S,
    SHORT_SLACK_MS,
    SWEPT_S,
    Settlement,
    filler_messages,
    messages_of,
    newest_attempts,
    part_of,
)
from consumers.streams.topics import READ_TIMEOUT_S
from streamsvm.crashpoints import crash_point
from streamsvm.delivery.settlement import AttemptRecord, AttemptVerdict, Judgement, judge
from streamsvm.kafka import Cluster, Message, Place, Publisher, Stored
from streamsvm.places import rejected_source_of, source_of


class ScoreSettlement(Settlement):
    """Settles the id of a scorer's slot: scores, dead letters, and how far the input was scored.

    Progress is ended last: while a record of it is in doubt, no member reads on there, so nobody scores again what
    readers already have. A slot's newest progress says which attempt was its last, and an attempt whose progress
    readers see was decided: what is missing of its scores is published again. So is progress that is missing of an
    attempt of which readers see anything, unless readers see later progress in its stead. What then still hangs is of
    attempts of which nobody sees anything, and is aborted.

    The commit of what is published again also ends the attempt's own record that hangs in the same partition: both say
    the same. If that transaction is aborted instead, because another takes the id over, so is that record: therefore
    aborted progress is looked at, too.

    Parameters
    ----------
    cluster, transactional_id, places, family, transaction_timeout_s, monotonic, wait
        See `Settlement`; the places are those of scores and dead letters.
    input_topic : str
    progress : ScoredProgress
    now_ms : callable
        Milliseconds since the epoch.
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
        progress: ScoredProgress,
        now_ms: Callable[[], int],
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
        self._progress = progress
        self._now_ms = now_ms
        self._remembered_at_ms = 0

    def remember_at(self, attempted: Sequence[Message], time_ms: int) -> None:
        """Keep the stamped messages of a batch that failed, and when it did: the log may not hold all of them."""
        self.remember(attempted)
        self._remembered_at_ms = time_ms

    def _of(self, transactional_id: str) -> Self:
        other = super()._of(transactional_id)
        other._since = self._since
        return other

    def _settle_for(self, transactional_id: str, places: Sequence[Place]) -> None:
        # Progress is left to `_complete`, which comes after: it is ended last.
        super()._settle_for(transactional_id, [place for place in places if place in self._places])

    def _complete(self, publisher: Publisher, left_open: Mapping[Place, int]) -> None:
        hung = self._hung_progress()
        clear = [place for place in self._progress.places if place not in hung]
        witnesses = self._progress.last_of(self._id, clear, self._now_ms())
        decided = {part_of(one).attempt for one in witnesses if one.committed}
        begun = newest_attempts(self._begun(witnesses))
        hanging = [
            self._cluster.stored([place], self._is_mine, start=offset, timeout_s=READ_TIMEOUT_S)
            for place, offset in left_open.items()
        ]
        for attempt, time_ms in self._begun([*chain.from_iterable(hanging), *hung.values()]).items():
            begun[attempt] = min(time_ms, begun.get(attempt, time_ms))
        for part in self._remembered:
            begun.setdefault(part.attempt, self._remembered_at_ms)
        if begun:
            parts = [*self._parts_of([*self._places, *clear], begun, decided), *map(part_of, hung.values())]
            parts += self._not_passed(self._remembered, hung)
            for judgement in judge(parts, decided=decided):
                if judgement.verdict is not AttemptVerdict.VOID:
                    self._publish_again(judgement, hung, publisher)
        self._remembered = ()
        self._end_progress(hung, publisher)

    def _begun(self, records: Iterable[Stored]) -> dict[str, int]:
        """Return when each attempt began; what is published again keeps the time that its value names."""
        begun: dict[str, int] = {}
        for one in records:
            attempt = part_of(one).attempt
            is_progress = one.record.topic == self._progress.topic and one.record.key != FILLER_KEY
            time_ms = time_of(one.record) if is_progress else one.record.timestamp_ms or 0
            begun[attempt] = min(time_ms, begun.get(attempt, time_ms))
        return begun

    def _hung_progress(self) -> dict[Place, Stored]:
        """Return this id's first record of progress in each partition in which it hangs.

        Raises
        ------
        Unsettled
            If another's hangs there.
        """
        while True:
            ends = {place: mark.end for place, mark in self._cluster.marks(self._progress.places).items()}
            blocked = self._blocked(ends, GRACE_S)
            found = {
                place: self._cluster.stored_at(*place, offset, READ_TIMEOUT_S) for place, offset in blocked.items()
            }
            own = {place: record for place, record in found.items() if record is not None and self._is_mine(record)}
            if own.keys() == blocked.keys():
                return {place: Stored(record, committed=False) for place, record in own.items()}
            self._end_others({place: offset for place, offset in blocked.items() if place not in own})

    def _parts_of(
        self, places: Sequence[Place], begun: Mapping[str, int], decided: Container[str]
    ) -> list[AttemptRecord]:
        """Return every record of attempts that began at these times, reading no more than necessary.

        Most attempts are complete, and their records are close together. Records that completed an attempt later may be
        anywhere behind them.
        """
        since_ms = min(begun.values()) - SHORT_SLACK_MS
        parts = self._parts(places, begun, since_ms, max(begun.values()) + SHORT_SLACK_MS)
        judgements = judge(parts, decided=decided)
        if len(judgements) == len(begun) and all(
            one.verdict is AttemptVerdict.WHOLE and not one.gone for one in judgements
        ):
            return parts
        return self._parts(places, begun, since_ms)

    def _not_passed(self, parts: Sequence[AttemptRecord], hung: Container[Place]) -> list[AttemptRecord]:
        """Return remembered parts, but those made from a record that was scored by another scorer since."""
        # Nobody has read on where this id's own progress hangs.
        ends = [
            {
                partition: at
                for partition, at in positions_of([part], self._input_topic).items()
                if self._progress.place_of(partition) not in hung
            }
            for part in parts
        ]
        newest = self._progress.newest(set[int]().union(*ends))  # asked once: a batch has thousands of parts
        return [
            part
            for part, position in zip(parts, ends, strict=True)
            if not any(partition in newest and newest[partition].offset >= at for partition, at in position.items())
        ]

    def _publish_again(self, judgement: Judgement, hung: Container[Place], publisher: Publisher) -> None:
        """Publish the missing parts of a decided batch, but no progress that readers have passed."""
        missing = tuple(part for part in judgement.first if self._is_missed(part, hung))
        if not missing:
            return
        self._report(replace(judgement, first=missing))
        publisher.publish(messages_of(missing))
        crash_point("settle.completed")
        publisher.confirm()

    def _is_missed(self, part: AttemptRecord, hung: Container[Place]) -> bool:
        is_result = part.topic != self._progress.topic
        return is_result or (part.topic, part.partition) in hung or self._progress.is_ahead(part)

    def _end_progress(self, hung: Mapping[Place, object], publisher: Publisher) -> None:
        """Abort what still hangs of this id's progress: of its attempts no part is visible."""
        marks = self._cluster.marks(hung)
        left = {place: mark.end for place, mark in marks.items() if mark.stable < mark.end}
        if not left:
            return
        publisher.sweep(filler_messages(left))
        crash_point("settle.progress.swept")
        while blocked := self._blocked(left, SWEPT_S):
            self._end_others(blocked)


def positions_of(parts: Iterable[AttemptRecord], input_topic: str) -> dict[int, int]:
    """Return the next offset to read in each partition of the input after a batch, by its scores and dead letters."""
    positions: dict[int, int] = {}
    for part in parts:
        source = rejected_source_of(part.headers) or source_of(part.headers)
        if source is not None and source.topic == input_topic:
            _, partition, offset = source
            positions[partition] = max(offset + 1, positions.get(partition, 0))
    return positions

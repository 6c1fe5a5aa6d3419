"""Settles the transactional id of a trainer, or of people's moves: versions, aliases and the audit trail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Self

from consumers.streams.settling import (
    FAMILY,
    SHORT_SLACK_MS,
    SLACK_MS,
    Settlement,
    filler_messages,
    messages_of,
    part_of,
    since_ms,
)
from consumers.streams.topics import READ_TIMEOUT_S
from streamsvm.crashpoints import crash_point
from streamsvm.delivery.settlement import AttemptVerdict, Judgement, judge, redirected
from streamsvm.kafka import Cluster, Message, Place, Publisher, Record, Stored
from streamsvm.model.pointers import decode_head, head_key
from streamsvm.model.version import version_number


# The aliases topic is the witness: every publishing transaction writes it, and it is small enough to be read at each
# start.
class VersionSettlement(Settlement):
    """Settles the id of a trainer, or of people's moves.

    Every attempt of more than one record has a record in the aliases topic. This topic is small, and keeps aborted
    records long enough, so it shows whether a predecessor died between its abort and the completion. If a person
    aborted the transaction before any settlement ran, the aliases topic shows nothing; so the parts of the newest
    attempt are looked for even if nothing hangs. If a late copy of an earlier commit ended the transaction half sent,
    the aliases topic never got its record: a version past the one that the newest head names shows that, and the
    process that sent it knows the rest.

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

    def _of(self, transactional_id: str) -> Self:
        other = super()._of(transactional_id)
        other._name = ""
        return other

    def _swept_with(self, blocked: Iterable[Place]) -> set[Place]:
        return {self._places[0], *blocked}

    def _complete(self, publisher: Publisher, left_open: Mapping[Place, int]) -> None:
        aliases, *others = self._places
        mine = self._cluster.stored([aliases], self._is_mine, timeout_s=READ_TIMEOUT_S)
        unnamed = self._unnamed(mine)
        if unnamed:
            # Another process may have taken the id meanwhile, and be publishing: this fails unless the id is ours.
            publisher.sweep(filler_messages({aliases}))
            mine = self._cluster.stored([aliases], self._is_mine, timeout_s=READ_TIMEOUT_S)
            unnamed = self._unnamed(mine)
        newest = next((at for at in reversed(range(len(mine))) if mine[at].committed), 0)
        doubtful = bool(left_open or self._remembered) or not all(one.committed for one in mine[newest:])
        if not doubtful and not unnamed and not self._lacks_parts(mine, others):
            return
        # Compaction may have taken from the aliases what told of it, while another's open transaction was waited for.
        attempts = {part_of(one).attempt for one in (*mine[newest:], *unnamed)}
        attempts |= {part.attempt for part in self._remembered}
        concerned = [one for one in mine if part_of(one).attempt in attempts]
        parts = [
            *map(part_of, concerned),
            *self._parts(others, attempts, since_ms((*concerned, *unnamed), SLACK_MS)),
        ]
        parts += [part for part in self._remembered if part.attempt in attempts]
        for judgement in judge(parts, self._models_topic):
            if judgement.verdict in (AttemptVerdict.TORN, AttemptVerdict.LOST):
                self._report(judgement)
                self._publish_again(judgement, publisher)
        self._remembered = ()

    def _unnamed(self, mine: Sequence[Stored]) -> list[Stored]:
        """Return what readers receive of versions of ours that are past the one which the newest head names."""
        if not self._name or not mine:
            return []
        key = head_key(self._name).encode()
        heads = [one for one in mine if one.committed and one.record.key == key and one.record.value]
        head = decode_head(heads[-1].record.value or b"") if heads else None

        def wanted(record: Record) -> bool:
            number = version_number(record.key, self._name)
            return number is not None and number > (head.number if head else 0) and self._is_mine(record)

        since, models = since_ms(heads[-1:] or mine, SLACK_MS), (self._models_topic, 0)
        start, of_models = (head.offset + 1, None) if head else (None, since)
        found = [
            *self._cluster.stored([models], wanted, start=start, since_ms=of_models, timeout_s=READ_TIMEOUT_S),
            *self._cluster.stored(
                [place for place in self._places[1:] if place != models],
                wanted,
                since_ms=since,
                timeout_s=READ_TIMEOUT_S,
            ),
        ]
        return [one for one in found if one.committed]

    def _lacks_parts(self, mine: Sequence[Stored], others: Sequence[Place]) -> bool:
        """Return whether readers receive the newest attempt without some parts that the log or this process has.

        A part that neither holds, such as a retired version, cannot be completed.
        """
        newest = [one for one in mine if part_of(one).attempt == part_of(mine[-1]).attempt]
        parts = [part_of(one) for one in newest]
        visible = {part.number for part in parts if part.visible}
        if len(visible) >= max((part.parts for part in parts), default=0):
            return False
        found = self._parts(others, {parts[0].attempt}, since_ms(newest, SHORT_SLACK_MS))
        visible |= {part.number for part in found if part.visible}
        found += [part for part in self._remembered if part.attempt == parts[0].attempt]
        return any(part.number not in visible for part in found)

    def _publish_again(self, judgement: Judgement, publisher: Publisher) -> None:
        def pointers(offsets: Sequence[int]) -> list[Message]:
            at = judgement.version_offset
            for part, offset in zip(judgement.first, offsets, strict=True):
                at = offset if part.topic == self._models_topic and part.value is not None else at
            return [] if at is None else messages_of(redirected(judgement.pointers, at))

        publisher.publish(messages_of(judgement.first), pointers)
        crash_point("settle.completed")
        publisher.confirm()

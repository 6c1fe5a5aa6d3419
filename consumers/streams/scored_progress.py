"""How far a model has scored its input: records of a compacted topic, committed in one transaction with the scores.

What a consumer group says about itself may be deleted, expire, be moved by a person's tool, or be another model's. So
a scorer goes on from these records, and takes the group's position for a hint where there is none yet. Each slot of a
group has a record of its own for each partition of the input, under the key ``MODEL TOPIC PARTITION TRANSACTIONAL_ID``;
the one that was written last counts. A slot's own ones tell its successor which attempt was its last
(`consumers.streams.score_settlement`).

The records of a partition of the input lie in the partition of the same number, modulo how many there are. They are
flushed before the group's generation is checked: a member that was replaced either fails that check, or its successor
finds its transaction open, and waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from consumers.settings import Settings
from consumers.streams.identity import TopicIdentity
from consumers.streams.settling import GRACE_S, blocked_below
from consumers.streams.topics import BOUNDED, READ_TIMEOUT_S, SOON, refuse_shared
from streamsvm.delivery.settlement import AttemptRecord
from streamsvm.errors import StateError, TransientError
from streamsvm.kafka import Cluster, Message, Place, Record, Stored, TopicSpec
from streamsvm.places import Count, Epoch, Offset

TAIL: Final = 64
"""Offsets at the end of a partition that are looked at first for the newest record; sixteen times as many each time."""
RECENT_MS: Final = 60_000
"""The last attempt of a slot is looked for among so many milliseconds first, and then among all."""


class ScoredTo(msgspec.Struct, frozen=True):
    """How far a model has scored a partition of its input.

    Attributes
    ----------
    offset : int
        The next to score.
    topic_id : str
        Of the input; empty where the broker gives none.
    leader_epoch : int
        That appended the record before `offset`; -1 where nobody knows it.
    incarnation : int
        One more each time that scoring was begun anew on purpose.
    time_ms : int
        When the batch was scored, in milliseconds since the epoch.
    """

    offset: Offset
    topic_id: str = ""
    leader_epoch: Epoch = -1
    incarnation: Count = 1
    time_ms: Count = 0


_decode = msgspec.json.Decoder(ScoredTo).decode
_encode = msgspec.json.encode


def progress_spec(topic: str, partitions: int) -> TopicSpec:
    """Return what the topic must be like."""
    return TopicSpec(topic, partitions, config={"cleanup.policy": "compact", **SOON, **BOUNDED})


def scorer_topics(settings: Settings, partitions: int) -> list[TopicSpec]:
    """Return what a scorer's topics must be like, for an input of so many partitions; the last is of its progress."""
    scoring = settings.scoring
    return [
        TopicSpec(scoring.output_topic, partitions),
        TopicSpec(scoring.dead_letters, 1),
        progress_spec(scoring.progress, partitions),
    ]


def check_scorer_names(settings: Settings) -> None:
    """Refuse topics of a scorer that are the same one; see `consumers.streams.topics.check_names`."""
    scoring, output = settings.scoring, settings.output
    refuse_shared(
        {
            "scoring.topic": scoring.topic,
            "the scores": scoring.output_topic,
            "the dead letters": scoring.dead_letters,
            "the progress of scoring": scoring.progress,
            "output.models_topic": output.models_topic,
            "the aliases": output.aliases_topic,
            "the audit trail": output.audit_topic,
        }
    )


class ScoredProgress:
    """Reads and makes the records of one model and one input. Not thread-safe.

    Parameters
    ----------
    cluster : Cluster
    model, input_topic : str
    topic : str
        Of the records.
    partitions : sequence of int
        Of that topic.
    identity : TopicIdentity
        Of the input.
    monotonic : callable
        Seconds.
    wait : callable
        Waits for a number of seconds.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        model: str,
        input_topic: str,
        topic: str,
        partitions: Sequence[int],
        identity: TopicIdentity,
        monotonic: Callable[[], float],
        wait: Callable[[float], object],
    ) -> None:
        self._cluster, self.topic, self._identity = cluster, topic, identity
        self._monotonic, self._wait = monotonic, wait
        self._of = f"{model} {input_topic}"
        self._count = len(partitions)
        self.places: tuple[Place, ...] = tuple((topic, number) for number in partitions)

    def messages(self, transactional_id: str, scored: Mapping[int, ScoredTo]) -> list[Message]:
        """Return what a slot commits with the scores of a batch."""
        return [
            Message(self.topic, _encode(to), f"{self._of} {p} {transactional_id}".encode(), partition=p % self._count)
            for p, to in sorted(scored.items())
        ]

    def newest(self, partitions: Iterable[int]) -> dict[int, ScoredTo]:
        """Return how far partitions of the input are scored, those of which nothing is known left out.

        Raises
        ------
        TransientError
            If a transaction is open there, or no broker answers.
        StateError
            If a record is not one of these.
        """
        wanted = sorted(partitions)
        self._require_stable({self.place_of(partition) for partition in wanted})
        with self._cluster.keeping():
            ranges = self._cluster.log_ranges(self.topic, {self.place_of(partition)[1] for partition in wanted})
            found = {p: self._newest(place := self.place_of(p), self._prefix(p), *ranges[place[1]]) for p in wanted}
        return {partition: to for partition, to in found.items() if to is not None}

    def has_begun(self, partition: int) -> bool:
        """Return whether anything was ever written where the records of a partition of the input lie."""
        return self._cluster.log_range(*self.place_of(partition))[1] > 0

    def is_ahead(self, part: AttemptRecord) -> bool:
        """Return whether a record of an attempt, of any model, is ahead of what is committed in its stead."""
        to, prefix = _read(part.value or b"", part.where), b" ".join((part.key or b"").split(b" ", 3)[:3])
        place = part.topic, part.partition
        newest = self._newest(place, prefix + b" ", *self._cluster.log_range(*place))
        if newest is None:
            return True
        if newest.topic_id != to.topic_id:
            return to.topic_id == self._identity.topic_id
        return (to.incarnation, to.offset) > (newest.incarnation, newest.offset)

    def last_of(self, transactional_id: str, places: Iterable[Place], now_ms: int) -> list[Stored]:
        """Return the newest records of a slot in these partitions, aborted ones too; nothing may be open there."""
        wanted = list(places)

        def is_own(record: Record) -> bool:
            # Nobody reads what was sent to be aborted: it has a key of its own.
            return (record.key or b"").endswith(f" {transactional_id}".encode())

        for since_ms in (now_ms - RECENT_MS, None):
            if found := self._cluster.stored(wanted, is_own, since_ms=since_ms, timeout_s=READ_TIMEOUT_S):
                return found
        return []

    def place_of(self, partition: int) -> Place:
        """Return where the records of a partition of the input lie."""
        return self.topic, partition % self._count

    def _require_stable(self, places: Iterable[Place]) -> None:
        if self._cluster.embedded:
            return
        # What living members commit from now on does not matter: one of them always does.
        ends = {place: mark.end for place, mark in self._cluster.marks(places).items()}
        blocked = blocked_below(self._cluster, ends, GRACE_S, self._monotonic, self._wait)
        doubted = [f"{topic}[{number}]" for topic, number in sorted(blocked)]
        if doubted:
            raise TransientError(
                f"how far the input was scored is in doubt: a transaction is open in {', '.join(doubted)}",
                "It ends by itself, or is settled; no action needed.",
            )

    def _prefix(self, partition: int) -> bytes:
        return f"{self._of} {partition} ".encode()

    def _newest(self, place: Place, prefix: bytes, low: int, end: int) -> ScoredTo | None:
        begin, most = end, TAIL
        while begin > low:
            begin, until, most = max(low, begin - most), begin, 16 * most
            newest: Record | None = None
            for record in self._cluster.read_to_end(*place, start=begin, timeout_s=READ_TIMEOUT_S):
                if record.offset >= until:
                    break  # the rest was read before
                if (record.key or b"").startswith(prefix):
                    newest = record
            if newest is not None:
                where = f"{newest.topic}[{newest.partition}]@{newest.offset}"
                return None if newest.value is None else _read(newest.value, where)
        return None


def time_of(record: Record) -> int:
    """Return when the batch was scored of which a record says how far it went.

    Raises
    ------
    StateError
        If it is not such a record.
    """
    return _read(record.value or b"", f"{record.topic}[{record.partition}]@{record.offset}").time_ms


def _read(value: bytes, where: str) -> ScoredTo:
    try:
        return _decode(value)
    except msgspec.DecodeError as error:
        raise StateError(
            f"the record at {where} does not say how far the input was scored: {error}",
            "Another program or a newer streamsvm wrote it: use that version, or another scoring.progress_topic.",
        ) from None

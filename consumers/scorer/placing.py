"""Where a scorer reads on in a partition that its group gives it: by what was committed with the scores.

The group's position is a hint. It counts where no record says how far this model has scored the partition, and
somebody else than another model committed it; where it differs from such a record, a person moved it, and is told what
moves a scorer.

After an unclean leader election the log may lack records that were scored, and hold others at their offsets. The record
names the leader epoch of the last one that was scored. Where that differs now, scoring goes on at the first record that
a later leader appended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import structlog

from consumers.settings import ScoringConfig
from consumers.streams.identity import TopicIdentity
from consumers.streams.scored_progress import ScoredProgress, ScoredTo
from consumers.streams.topics import READ_TIMEOUT_S
from streamsvm.errors import LogGap, TransientError
from streamsvm.kafka import FROM_THE_FIRST, Cluster, GroupPosition, OffsetOutOfRange, Record, Recreated

log = structlog.get_logger("streamsvm.scorer")

UNKNOWN: Final = -1
Hints = Mapping[int, GroupPosition]
"""The group's positions; empty where its coordinator does not answer."""
FROM_THE_BEGINNING: Final = (
    "To score from the first record, start once with `streamsvm score --scoring-on-gap beginning` and the same options."
)


class Placing:
    """Says where to read on, and how far a batch brings the model. Not thread-safe.

    Parameters
    ----------
    cluster : Cluster
    progress : ScoredProgress
    model : str
    scoring : ScoringConfig
    identity : TopicIdentity
        Of the input.
    reset : str
        What `--reset-scores` said: ``MODEL/INCARNATION``.
    """

    def __init__(
        self,
        cluster: Cluster,
        progress: ScoredProgress,
        *,
        model: str,
        scoring: ScoringConfig,
        identity: TopicIdentity,
        reset: str = "",
    ) -> None:
        self._cluster, self._progress, self._identity = cluster, progress, identity
        self._model, self._scoring, self._reset = model, scoring, reset
        self._incarnations: dict[int, int] = {}
        self._ranges: Mapping[int, tuple[int, int]] = {}
        self._said: set[tuple[int, int]] = set()

    def place(
        self, partitions: Iterable[int], hints: Mapping[int, GroupPosition], begun: Mapping[int, int]
    ) -> dict[int, int]:
        """Return the offset from which to read each partition.

        Parameters
        ----------
        partitions : iterable of int
        hints : mapping of partition to GroupPosition
            The group's positions; empty where its coordinator does not answer.
        begun : mapping of partition to int
            The first record that was read of it.

        Raises
        ------
        Recreated
            If the model has scored another topic of the name, and `scoring.on_gap` is not `beginning`.
        LogGap
            If retention has removed the record that comes next, and `scoring.on_gap` is `fail`; or if scored records
            are no longer in the log, and `scoring.on_changed` is `fail`.
        TransientError
            If it cannot be told now.
        """
        wanted = sorted(partitions)
        known = self._progress.newest(wanted)
        with self._cluster.keeping():
            self._ranges = self._cluster.log_ranges(self._scoring.topic, wanted)
            return {p: self._placed(p, known.get(p), hints, begun.get(p)) for p in wanted}

    def scored(self, newest: Mapping[int, Record], time_ms: int) -> dict[int, ScoredTo]:
        """Return how far the model has come once everything up to these records is scored."""
        topic_id, incarnations = self._identity.topic_id, self._incarnations
        epochs = {p: UNKNOWN if one.leader_epoch is None else one.leader_epoch for p, one in newest.items()}
        return {
            p: ScoredTo(one.offset + 1, topic_id, epochs[p], incarnations.get(p, 1), time_ms)
            for p, one in newest.items()
        }

    def _placed(self, partition: int, known: ScoredTo | None, hints: Hints, begun: int | None) -> int:
        incarnation = 1 if known is None else known.incarnation
        if self._reset == f"{self._model}/{incarnation}":
            self._say_once(
                "scores_begun_anew", partition, incarnation + 1, remedy="no action needed: --reset-scores asks for this"
            )
            self._incarnations[partition] = incarnation + 1
            return self._chosen(partition, _answered(partition, hints))
        self._incarnations[partition] = incarnation
        if known is None:
            hinted = self._hinted(partition, _answered(partition, hints))
            if hinted is not None:
                return hinted
            if begun is None:
                return FROM_THE_FIRST
            return self._still_there(partition, ScoredTo(begun, self._identity.topic_id))
        if self._is_another(known.topic_id):
            return self._of_another(partition, known.offset, known.topic_id)
        self._compare(partition, known, hints)
        return self._still_there(partition, known)

    def _chosen(self, partition: int, hint: GroupPosition) -> int:
        """Return where a person wants to begin: where a tool has put the group's position, or at the first record."""
        if hint.model or not hint.is_there:
            return FROM_THE_FIRST
        assert hint.offset is not None
        return self._still_there(partition, ScoredTo(hint.offset, self._identity.topic_id))

    def _hinted(self, partition: int, hint: GroupPosition) -> int | None:
        if not hint.is_there:
            return None
        assert hint.offset is not None
        if hint.model == self._model and self._progress.has_begun(partition):
            return None  # the scores of that transaction, and its progress, were aborted
        if hint.model not in ("", self._model):
            self._say_once(
                "position_of_another_model",
                partition,
                hint.offset,
                of=hint.model,
                remedy=f"{self._model} has scored nothing here and begins at the first record. Give each model a group "
                "of its own: --scoring-group",
            )
            return None
        if self._is_another(hint.topic_id):
            return self._of_another(partition, hint.offset, hint.topic_id)
        log.info("begins_at_position", partition=partition, at=hint.offset, why="nothing is known of scores before")
        return self._still_there(partition, ScoredTo(hint.offset, hint.topic_id))

    def _is_another(self, topic_id: str) -> bool:
        # A person's tool names no id, nor does a broker that gives none.
        now = self._identity.topic_id
        return bool(topic_id and now) and topic_id != now

    def _of_another(self, partition: int, offset: int, topic_id: str) -> int:
        topic, now = self._scoring.topic, self._identity.topic_id
        if self._scoring.on_gap == "fail":
            raise Recreated(
                f"the topic {topic} was recreated: offset {offset} of {topic}[{partition}], to which it was scored, is "
                f"one of the id {topic_id}, and the topic has the id {now}",
                topic_id=now,
            )
        return FROM_THE_FIRST

    def _compare(self, partition: int, known: ScoredTo, hints: Hints) -> None:
        """Tell a person who moved the group's position that it moves nothing."""
        if partition not in hints:
            return
        hint = hints[partition]
        if hint.is_there and not hint.model and hint.offset != known.offset:
            assert hint.offset is not None
            self._say_once(
                "position_ignored",
                partition,
                hint.offset,
                scored_to=known.offset,
                remedy="scoring goes on where the scores end. To go on where the group's position is, whatever was "
                f"scored, start each scorer of the group with --reset-scores {self._model}/{known.incarnation}",
            )

    def _say_once(self, event: str, partition: int, offset: int, **more: object) -> None:
        if (partition, offset) not in self._said:
            self._said.add((partition, offset))
            log.warning(event, partition=partition, at=offset, **more)

    # ----------------------------------------------------- what the log holds

    def _still_there(self, partition: int, known: ScoredTo) -> int:
        """Return the next offset to score, before which the log is the one that was scored."""
        topic = self._scoring.topic
        low, end = self._ranges[partition]
        if low <= known.offset <= end and not self._changed(partition, known, low):
            return known.offset
        self._identity.confirm({})  # a topic that was made again is another matter
        if known.offset < low or not self._identity.topic_id:
            return self._past(OffsetOutOfRange(topic, partition, known.offset, low, end))
        begin = min(known.offset, end)
        if known.leader_epoch != UNKNOWN:
            begin = self._first_after(partition, known.leader_epoch, low, begin)
        if begin == known.offset:
            return begin
        what = (
            f"offsets {begin} to {known.offset - 1} of {topic}[{partition}] were scored and are no longer in the log: "
            "an unclean leader election or a broker that lost its disk took them"
        )
        if self._scoring.on_changed == "fail":
            raise LogGap(
                what,
                f"Their scores stand. To score what the log holds from offset {begin} on, start with "
                "--scoring-on-changed score.",
            )
        self._say_once(
            "scored_records_lost",
            partition,
            begin,
            what=what,
            remedy=f"no action needed: their scores stand, and what the log holds from offset {begin} on is scored",
        )
        return begin

    def _past(self, gap: OffsetOutOfRange) -> int:
        if self._scoring.on_gap == "fail":
            raise LogGap(gap.what, FROM_THE_BEGINNING) from gap
        self._say_once(
            "reading_from_the_beginning",
            gap.partition,
            gap.offset,
            why=gap.what,
            remedy="no action needed: scoring.on_gap = beginning asks for this",
        )
        return FROM_THE_FIRST

    def _changed(self, partition: int, known: ScoredTo, low: int) -> bool:
        if known.leader_epoch == UNKNOWN or known.offset <= low:
            return False
        now = self._cluster.leader_epoch(self._scoring.topic, partition, known.offset - 1)
        return now not in (None, known.leader_epoch)

    def _first_after(self, partition: int, leader_epoch: int, low: int, high: int) -> int:
        """Return the first offset of a later leader than this; `high` if there is none below it.

        By halving: leader epochs never fall within a log (KIP-101).
        """
        while low < high:
            middle = (low + high) // 2
            record = self._cluster.stored_at(self._scoring.topic, partition, middle, READ_TIMEOUT_S)
            if record is None or record.offset >= high:
                high = middle
            elif record.leader_epoch is None or record.leader_epoch <= leader_epoch:
                low = record.offset + 1
            else:
                high = middle
        return low


def _answered(partition: int, hints: Hints) -> GroupPosition:
    if partition not in hints:
        raise TransientError("the group's coordinator does not answer", "No action needed.")
    return hints[partition]

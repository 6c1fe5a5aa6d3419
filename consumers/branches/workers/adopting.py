"""A trainer that reads no points: it opens the coresets topic for workers, and adopts what they leave there.

To the trainer's loop it stands where `consumers.trainer.intake` stands otherwise. When it begins it leaves, for each
partition that the topic knows less of, the state of its checkpoint, and then the opening: workers go on from there, and
moving from one process to workers loses nothing. Its checkpoints hold what was adopted, so one process can go on from
them, and moving back loses nothing either.

What manifests say counts once they were checked: that all of their parts are there, whole and of that partition, and
that the input has as many records. A cut is due, and a worker is late, by checked ones only; offsets of their headers
end where the input does.

Invariant: only states of complete manifests are adopted, each at a higher position than the one before. Rows that a
manifest brings are scored before any model has learned them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import structlog

from consumers.branches.workers.coresets_topic import (
    READ_TO,
    WATERMARK,
    CoresetsWriter,
    Due,
    check_topic,
    log_faults,
    manifest_headers,
    newest_of,
    number_of,
    read_partition,
    read_with,
)
from consumers.branches.workers.settings import coresets_topic
from consumers.host.runtime import Health
from consumers.metrics import Metrics
from consumers.settings import Settings
from consumers.trainer.source import InputOnly
from streamsvm.branches.workers.combiner import adopt
from streamsvm.branches.workers.coreset_log import PartitionLog
from streamsvm.branches.workers.coreset_records import FORMAT, Complete, Opening
from streamsvm.branches.workers.coreset_writer import PartitionWriter
from streamsvm.crashpoints import crash_point
from streamsvm.delivery.pipeline import Pipeline
from streamsvm.delivery.reading import Ends
from streamsvm.errors import StateError, TransientError
from streamsvm.ingest.row_builder import RejectedRecord
from streamsvm.kafka import Cluster, Input, Outbox
from streamsvm.model.left_out import Places
from streamsvm.points import Position, Positions, Rows

log = structlog.get_logger("streamsvm.trainer")

LATE_AFTER_S: Final = 40.0
"""A manifest counts as late if it is so old while the input has more: workers write one after 30 s at the latest."""
ASK_EVERY_S: Final = 1.0
"""Between two questions where a partition of the input ends, which are asked if a manifest names a later offset."""
REPORT_EVERY_S: Final = 10.0
"""Between two times at which records that were passed over are named, for each partition."""
READ_AGAIN_S: Final = 60.0
"""Between two readings of a partition of the topic from its beginning, where more was written than is held."""


@dataclass(slots=True)
class _Followed:
    """A partition of the topic."""

    log: PartitionLog
    offset: int
    opening: Opening
    noted: Position
    heard_at: float
    position: Position
    rows: int
    """Of the highest manifest that was adopted."""
    end: int
    """Where the partition of the input ended when that was asked for."""
    requested_at: float
    read_to: int | None = None
    read_again_at: float = -math.inf
    warn_at: float = -math.inf


class Adopting(InputOnly):
    """What workers learn, in one life of a trainer.

    Parameters
    ----------
    settings : Settings
        As they go on from the checkpoint.
    pipeline : Pipeline
        Of a combiner.
    cluster : Cluster
    follower : Input
        Of the coresets topic.
    outbox : Outbox
        Of openings and first states.
    topic_id : str
        Of the input; empty where the broker tells none.
    left_out : mapping of partition to positions
        Rows that count as rejected ones: workers are told in the opening.
    incarnation : callable
        Returns the incarnation that publishes.
    note : callable
        Takes rows that were just learned: the newest ones, not all.
    log_ends : callable
        Returns where the input's partitions ended at the newest look at them.
    metrics : Metrics
    health : Health
    monotonic : callable
        Seconds.
    """

    def __init__(
        self,
        settings: Settings,
        pipeline: Pipeline,
        *,
        cluster: Cluster,
        follower: Input,
        outbox: Outbox,
        topic_id: str,
        left_out: Places,
        incarnation: Callable[[], int],
        note: Callable[[Rows], None],
        log_ends: Callable[[], Mapping[int, int]],
        metrics: Metrics,
        health: Health,
        monotonic: Callable[[], float],
    ) -> None:
        self._settings, self._config, self._pipeline = settings, settings.models(), pipeline
        self._cluster, self._follower = cluster, follower
        self._writer = CoresetsWriter(coresets_topic(settings), outbox, metrics)
        self._topic_id, self._incarnation, self._log_ends = topic_id, incarnation, log_ends
        self._left_out = left_out
        self._note, self._metrics, self._health, self._monotonic = note, metrics, health, monotonic
        self._followed: dict[int, _Followed] = {}
        self._ended = False

    # ------------------------------------------------------- as an intake is

    waits_for_schema = False
    nothing_valid = False  # workers keep the positions of invalid rows
    newest_rejected: RejectedRecord | None = None

    @property
    def ends(self) -> Ends:
        """Where each partition's end was last met: not known here."""
        return dict.fromkeys(self._pipeline.learner.positions)

    @property
    def ahead(self) -> Mapping[int, int]:
        """The offset before which each partition holds nothing that is still to be learned."""
        return self._pipeline.ahead

    @property
    def high_watermarks(self) -> Mapping[int, int | None]:
        """The offset after each partition's last record, as of the newest looks at the input."""
        found: dict[int, int | None] = dict.fromkeys(self._pipeline.learner.positions)
        found |= {partition: one.end for partition, one in self._followed.items()}
        for partition, end in self._log_ends().items():
            if partition in found:
                found[partition] = max(end, found[partition] or 0)
        return found

    def surveyed(self) -> tuple[Positions, Positions]:
        """See `Source.surveyed`."""
        return self._pipeline.learner.positions, self._pipeline.reading(self.ends)

    def assign(self, offsets: Mapping[int, int]) -> None:  # noqa: ARG002 - each worker knows how far it is
        """Open the partitions that are not open yet, and follow what workers leave in all of them.

        Raises
        ------
        ConfigurationError
            If the coresets topic cannot be used.
        TransientError
            If no broker answers.
        """
        new = self._pipeline.learner.positions.keys() - self._followed.keys()
        if not new:
            return
        topic = self._cluster.describe(coresets_topic(self._settings))
        check_topic(topic, max(self._pipeline.learner.positions) + 1, self._cluster.max_message_bytes)
        with self._cluster.keeping():
            for partition in sorted(new):
                self._health.beat()
                self._followed[partition] = self._open(partition)
        self._follower.assign({partition: one.offset for partition, one in self._followed.items()})

    def end(self) -> None:
        """Adopt nothing more than what was read."""
        self._ended = True

    def read(self, most: int, timeout_s: float) -> int:
        """Take in what workers left; return 0 where nothing came, else `most`."""
        if self._ended or not self._followed:
            return 0
        came = newest_of(self._follower, coresets_topic(self._settings), timeout_s)
        self._health.require("broker", "" if self._follower.connected() else "no broker connection is up")
        for record in came:
            one = self._followed[record.partition]
            one.offset = record.offset + 1
            one.log.feed(record.offset, record.key, record.value, manifest_headers(record))
        for partition in {record.partition for record in came}:
            one = self._followed[partition]
            if one.log.taken_back:  # by another hand: else a worker that starts finds no opening
                self._writer.open(one.opening)
            self._note_again(partition, one)
        return most if came else 0

    def refresh(self, *, may_train: bool) -> None:
        """Adopt what was left if that makes a cut due that may be trained, or while reading again."""
        if self._pipeline.reads_again or (
            may_train
            and self._enough(lambda _, one: one.log.claimed()[0])
            # Now that it is worth it, by what is really there.
            and self._enough(lambda partition, one: self._rows_of(self._checked(partition, one)))
        ):
            self._adopt()

    def _enough(self, rows_of: Callable[[int, _Followed], int]) -> bool:
        leaf_rows, leaves = self._config.coreset.leaf_rows, self._pipeline.learner.leaves_since_cut
        for partition, one in self._followed.items():
            leaves += max(0, rows_of(partition, one) // leaf_rows - one.rows // leaf_rows)
        return leaves >= self._settings.training.every_leaves

    @staticmethod
    def _rows_of(complete: Complete | None) -> int:
        return 0 if complete is None else complete.manifest.rows

    def hold(self) -> None:
        """Take in what was left; workers go on."""
        self.read(1, 0.0)

    def release(self) -> None:
        """Nothing was paused."""

    def poll_letters(self) -> None:
        """Letters are the workers'."""

    def show_progress(self) -> None:
        """Progress is shown by the workers."""

    def look(self) -> None:
        """Say of which partition nothing has come for so long that its worker must be gone, though there is more."""
        now = self._monotonic()
        ends = self.high_watermarks
        late = []
        for partition, one in self._followed.items():
            if now - one.heard_at <= LATE_AFTER_S or (ends.get(partition) or 0) <= max(
                one.position.offset, one.read_to or 0
            ):
                continue
            complete = self._checked(partition, one)
            if complete is None or not self._saw(partition, one, complete):
                late.append(partition)
        why = (
            f"no manifest of the partitions {sorted(late)} for {LATE_AFTER_S:.0f} s: do their workers run?"
            if late
            else ""
        )
        self._health.require("workers", why)

    def flush(self, timeout_s: float) -> None:  # noqa: ARG002 - what is adopted is stored already
        """Adopt all that was read, for a checkpoint."""
        self._adopt(at_once=True)

    # ------------------------------------------------------------------ inside

    def _open(self, partition: int) -> _Followed:
        """Leave what a worker goes on from: the state that is kept here if the topic has less, then the opening."""
        settings, config, state = self._settings, self._config, self._pipeline.learner.state().partitions[partition]
        base, read_to = self._pipeline.base[partition], self._pipeline.read_to.get(partition)
        opening = Opening(
            format=FORMAT,
            name=settings.name,
            incarnation=self._incarnation(),
            topic=settings.input.topic,
            topic_id=self._topic_id,
            partition=partition,
            base=(*base,),
            configuration=config.canonical(),
            configuration_sha256=config.learned_sha256(),
            left_out=tuple((*at,) for at in sorted(self._left_out.get(partition, ()))),
        )
        found, end = read_partition(self._cluster, settings, partition)
        later = found.opening
        if later is not None and later.incarnation > opening.incarnation:
            raise StateError(
                f"the coresets topic {coresets_topic(settings)} was opened by incarnation {later.incarnation} of "
                f"{settings.name}, but this trainer is at {opening.incarnation}: workers follow the later one",
                f"Find out who wrote the record {later.key.decode()} of partition {partition}: a trainer of the same "
                "name, which then has to end, or another program. Of the latter, write a tombstone (the same key and "
                "partition, and no value), and start this trainer again.",
            )
        # As workers will read it, once the opening is there.
        found.pin(opening)
        input_end = self._cluster.log_range(settings.input.topic, partition)[1]
        highest = found.highest(input_end)
        log_faults(settings, partition, found, self._metrics)
        if state.position > base and (highest is None or highest.state.position < state.position):
            publication = PartitionWriter(opening, highest).write(state, None)
            headers = {} if read_to is None else {READ_TO: str(read_to).encode()}
            self._writer.publish([Due(partition, publication, headers)])
            crash_point("coresets.left")
            log.info("state_left_for_workers", partition=partition, offset=state.position.offset)
        # Last: a worker that finds it finds what was left before it.
        if later != opening:
            self._writer.open(opening)
            crash_point("coresets.opened")
        position, rows = self._pipeline.learner.position(partition), state.learned.rows
        now = self._monotonic()
        one = _Followed(found, end, opening, position, now, position, rows, end=input_end, requested_at=now)
        if highest is not None:
            self._saw(partition, one, highest)
        return one

    def _end_of(self, partition: int, one: _Followed, offset: int, *, at_once: bool = False) -> int:
        """Return where a partition of the input ends; it is fetched where the offset lies beyond what is known."""
        now = self._monotonic()
        one.end = max(one.end, self._log_ends().get(partition, 0))
        if offset > one.end and (at_once or now - one.requested_at >= ASK_EVERY_S):
            one.requested_at = now
            with suppress(TransientError):
                one.end = self._cluster.log_range(self._settings.input.topic, partition)[1]
        return one.end

    def _checked(self, partition: int, one: _Followed, *, at_once: bool = False) -> Complete | None:
        """Return the highest complete manifest that the input is long enough for, past the adopted one."""
        end = self._end_of(partition, one, one.log.claimed()[1], at_once=at_once)
        complete = one.log.highest(end)
        if one.log.again and self._monotonic() >= one.read_again_at:
            one.read_again_at = self._monotonic() + READ_AGAIN_S
            one.log, _ = read_with(one.log.rest(), self._cluster, self._settings)
            complete = one.log.highest(end)
        if self._monotonic() >= one.warn_at and one.log.faults:
            one.warn_at = self._monotonic() + REPORT_EVERY_S
            log_faults(self._settings, partition, one.log, self._metrics)
        return complete

    def _saw(self, partition: int, one: _Followed, complete: Complete) -> bool:
        """Take in what a complete manifest has besides its state; return whether it is a new one."""
        self._note_read_to(partition, one, complete.headers)
        if complete.manifest.at <= one.position:
            return False
        one.position, one.heard_at = complete.manifest.at, self._monotonic()
        self._metrics.put("streamsvm_coresets_manifest_timestamp_seconds", time.time(), partition=str(partition))
        return True

    def _note_again(self, partition: int, one: _Followed) -> None:
        """Take in what the adopted manifest has, where it was written again."""
        again, one.log.rewritten_headers = one.log.rewritten_headers, {}
        if again:
            self._note_read_to(partition, one, again)
        if again and one.read_to is not None:
            adopt(self._pipeline, {}, 0, {partition: one.read_to})

    def _note_read_to(self, partition: int, one: _Followed, headers: Mapping[str, bytes]) -> None:
        read_to, watermark = number_of(headers, READ_TO), number_of(headers, WATERMARK)
        end = self._end_of(partition, one, max(read_to or 0, watermark or 0), at_once=True)
        if read_to is not None and min(read_to, end) > (one.read_to or 0):
            one.read_to, one.heard_at = min(read_to, end), self._monotonic()

    def _adopt(self, *, at_once: bool = False) -> None:
        """Adopt the highest complete manifest of each partition."""
        with self._cluster.keeping():
            self._adopt_all(at_once=at_once)

    def _adopt_all(self, *, at_once: bool) -> None:
        leaf_rows, again = self._config.coreset.leaf_rows, self._pipeline.reads_again
        states, leaves, read_to = {}, 0, {}
        for partition, one in self._followed.items():
            complete = self._checked(partition, one, at_once=at_once)
            if complete is None:
                continue
            self._saw(partition, one, complete)
            one.log.adopt(complete)
            self._score(one, complete, again=again)
            if complete.state.position <= self._pipeline.learner.position(partition):
                continue
            states[partition] = complete.state
            leaves += complete.manifest.rows // leaf_rows - one.rows // leaf_rows
            one.rows = complete.manifest.rows
            if one.read_to is not None:
                read_to[partition] = one.read_to
            self._metrics.increase("streamsvm_coresets_adopted")
        if states:
            adopt(self._pipeline, states, leaves, read_to)

    def _score(self, one: _Followed, complete: Complete, *, again: bool) -> None:
        """Let rows be scored that no manifest brought before; while reading again the newest version knows them."""
        newest = complete.newest
        if newest is None:
            return
        begin = newest.index_of(one.noted)
        one.noted = max(one.noted, complete.state.position)
        if begin < len(newest) and not again:
            self._note(newest.slice(begin, len(newest)))

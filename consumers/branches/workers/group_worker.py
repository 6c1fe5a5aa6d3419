"""A worker of its own (`streamsvm scale worker`): learns the partitions that it owns, into the coresets topic.

It restores each partition from the highest complete manifest, reads the input from there, rejects and dead-letters as a
trainer does, and publishes states: parts, manifest, tombstones, without a transaction. It keeps nothing on a disk.

Invariant: what is published is a function of the input and of the opening that a trainer wrote. So two workers that
both believe to own a partition write the same bytes, and whoever wakes up late harms nothing. No manifest passes a dead
letter that is not stored. None is published before the input's id was asked for after its newest row was fetched.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from typing import Final

import structlog

from consumers import constants
from consumers.branches.workers.coresets_topic import (
    PROMISE,
    READ_TO,
    WATERMARK,
    CoresetsWriter,
    Due,
    check_topic,
    is_opening,
    log_faults,
    newest_of,
    number_of,
    read_partition,
    topic_spec,
)
from consumers.branches.workers.owned_partitions import Awaited, NewestRows, Owned
from consumers.branches.workers.ownership import FixedShare, Ownership
from consumers.branches.workers.settings import WorkerConfig, coresets_topic
from consumers.host.clock import Clock
from consumers.host.runtime import STARTING, Health, schemas_of
from consumers.metrics import Metrics
from consumers.settings import Settings
from consumers.streams.abandonable import Stopped, heeding
from consumers.streams.dead_letters import DeadLetters
from consumers.streams.identity import TopicIdentity, identity_of
from consumers.streams.ports import Stop
from consumers.streams.topics import LETTERS_PROMISE, OutputWatch, check_input
from consumers.trainer.intake import FLUSH_TIMEOUT_S, Intake
from consumers.trainer.pacing import LEARN_S
from consumers.trainer.source import Source
from consumers.trainer.warming import WarmUp
from streamsvm.branches.workers.coreset_records import NEWEST_ROWS, Opening
from streamsvm.branches.workers.coreset_writer import PartitionWriter
from streamsvm.config.model import learned_part
from streamsvm.coreset.partition import PartitionState
from streamsvm.crashpoints import crash_point
from streamsvm.delivery.decision import reset_token
from streamsvm.delivery.events import RowsLearned
from streamsvm.delivery.reading import NoGoal, Reading
from streamsvm.errors import LogGap, StateError, TopicMissing, TransientError
from streamsvm.ingest.decoder import PointDecoder
from streamsvm.kafka import Cluster, OffsetOutOfRange, TopicInfo, TopicSpec
from streamsvm.learning.learner import Learner, LearnerState
from streamsvm.model.comparison import configuration_differences
from streamsvm.points import Position
from streamsvm.sections import section

log = structlog.get_logger("streamsvm.worker")

POLL_S: Final = 0.05
LOOK_AGAIN_S: Final = 2.0
"""Between two looks whether a trainer has opened a partition."""
SHOW_EVERY_S: Final = 5.0
"""Between two commits of group offsets, for observers."""
PUBLISH_INTERVAL_S: Final = 1.0
"""Least time between two manifests of a partition: a model can be no fresher, and each writes the open leaf again."""
PUBLISH_AFTER_S: Final = 30.0
"""A manifest is written after that even without a full leaf: as much is learned again when a partition moves."""
NEVER: Final = 1 << 62
"""Leaves after which a cut falls due in a worker: cuts are the trainer's."""


class GroupWorker:
    """A worker's life from its start to its stop.

    Parameters
    ----------
    settings : Settings
    cluster : Cluster
    metrics : Metrics
        Made of `consumers.metrics.WORKER`.
    health : Health
    stop : Stop
    monotonic : callable
        Seconds.
    """

    def __init__(
        self,
        settings: Settings,
        cluster: Cluster,
        metrics: Metrics,
        health: Health,
        stop: Stop,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._given, self._settings = settings, settings
        self._cluster, self._metrics, self._health, self._stop = cluster, metrics, health, stop
        self._monotonic = monotonic
        self._config = settings.models()
        self._owned: dict[int, Owned] = {}
        self._awaited: dict[int, Awaited] = {}
        self._follows: dict[int, int] = {}
        self._incarnation: Opening | None = None
        self._reading: Reading | None = None
        self._intake: Source | None = None
        self._shown_at = -math.inf
        self._known: TopicIdentity | None = None
        self._over = 0
        """The incarnation that cannot be learned any more: the input lacks records of it."""

    def run(self) -> None:
        """Start, work until stopped, publish what was learned, stop.

        Raises
        ------
        StreamsvmError
            If it cannot start, or cannot go on; whatever was published stays published.
        """
        with ExitStack() as stack, self._health.failing():
            self._health.require("start", STARTING)
            try:
                self._begin(stack)
            except Stopped:
                log.info("stopped", remedy="the worker stopped before it owned a partition; nothing was written")
                return
            stack.enter_context(self._cluster.keeping())
            self._health.require("start", "")
            log.info("worker_started", topic=self._settings.input.topic, coresets=coresets_topic(self._settings))
            while not self._stop.is_set():
                self._turn()
            self._publish_last()
            self._show(at_once=True)
            log.info("stopped", partitions=sorted(self._owned))

    def _publish_last(self) -> None:
        try:
            self._publish(list(self._owned), at_once=True)
        except LogGap as gap:
            if self._settings.input.on_gap == "fail":
                raise
            log.warning("not_published", why=gap.what, remedy="no action needed: the trainer begins anew")

    # -------------------------------------------------------------- beginning

    def _begin(self, stack: ExitStack) -> None:
        settings, cluster = self._settings, self._cluster
        source = heeding(self._stop, self._health.beat, lambda: cluster.describe(settings.input.topic))
        check_input(source)
        coresets, letters = self._made(coresets_topic(settings)), self._made(settings.input.dead_letters)
        check_topic(coresets, len(source.partitions), cluster.max_message_bytes)
        # Before the group is joined: nobody waits for partitions of a process that compiles.
        WarmUp(self._config, self._health, self._stop, Clock(), registry=bool(settings.registry.url)).run()
        self._schemas = stack.enter_context(schemas_of(settings))
        self._letters = DeadLetters(settings.name, source.name, settings.input.dead_letters, self._metrics)
        self._letters.fit(letters, cluster.max_message_bytes)
        self._letters_outbox = cluster.outbox(patience_s=None)
        stack.callback(self._letters_outbox.close)
        outbox = cluster.outbox()
        stack.callback(outbox.close)
        self._writer = CoresetsWriter(coresets_topic(settings), outbox, self._metrics)
        self._reader = cluster.input(source.name, None)
        stack.callback(lambda: self._reader.close())  # it may be another one by then
        self._follower = cluster.input(coresets_topic(settings), None)
        stack.callback(self._follower.close)
        own = [(topic_spec(settings, len(source.partitions)), PROMISE)]
        own.append((TopicSpec(settings.input.dead_letters, 1), LETTERS_PROMISE))
        self._topics_watch = OutputWatch(settings, cluster, self._health, own)
        self._ownership = self._join()
        stack.callback(self._ownership.close)

    def _made(self, topic: str) -> TopicInfo:
        """Describe a topic that a trainer makes, having waited until it has.

        Raises
        ------
        Stopped
            If told to stop meanwhile.
        """
        warned = False
        while True:
            try:
                return self._cluster.describe(topic)
            except TopicMissing as missing:
                if self._stop.wait(LOOK_AGAIN_S if warned else POLL_S):
                    raise Stopped from None
                self._health.beat()
                self._health.require("start", missing.what)
                if not warned:
                    log.warning(
                        "topic_awaited",
                        what=missing.what,
                        remedy="start the trainer with --from-coresets, or run `streamsvm topics create` with its "
                        "options: either makes the topic",
                    )
                warned = True

    def _join(self) -> Ownership:
        settings, worker = self._settings, section(self._settings, WorkerConfig)
        if worker.ordinal is not None and worker.of is not None:
            every_s = constants.WATCH_INTERVAL_S
            return FixedShare(
                self._cluster, settings.input.topic, ordinal=worker.ordinal, of=worker.of, look_every_s=every_s
            )
        return self._cluster.member(settings.input.topic, group=f"streamsvm-{settings.name}-workers")

    # ---------------------------------------------------------------- turning

    def _turn(self) -> None:
        self._health.beat()
        try:
            self._take_over(self._ownership.poll())
            self._follow()
            self._restore()
            self._work()
            self._publish([p for p in self._owned if self._is_due(p)])
        except (LogGap, OffsetOutOfRange) as gap:
            if self._settings.input.on_gap == "fail" or self._incarnation is None:
                with suppress(TransientError):
                    self._identity.confirm({})  # a topic made again that is still shorter is named by both ids
                raise
            self._wait_for_reset(gap)
        self._topics_watch.turn(self._monotonic())
        self._topics_watch.refuse_made_again(coresets_topic(self._settings))
        self._show()
        self._show_gauges()

    def _wait_for_reset(self, gap: StateError) -> None:
        """Let go of everything until the trainer has begun anew, as `input.on_gap = reset` asks of it."""
        assert self._incarnation is not None
        log.warning(
            "waiting_for_a_reset",
            why=gap.what,
            incarnation=self._incarnation.incarnation,
            remedy="no action needed: input.on_gap = reset asks the trainer to begin anew, and this worker follows",
        )
        self._over = self._incarnation.incarnation
        self._known = None  # the next incarnation may be of another topic
        # A reader that met the gap says so for ever.
        self._reader.close()
        self._reader = self._cluster.input(self._settings.input.topic, None)
        awaited = set(self._owned)
        self._drop(awaited)
        now = self._monotonic()
        self._awaited |= {partition: Awaited(gap.what, now + LOOK_AGAIN_S) for partition in awaited}

    def _work(self) -> None:
        reading, intake = self._reading, self._intake
        if reading is None or intake is None:
            self._stop.wait(POLL_S)
            return
        self._learn(reading)
        reading.pass_markers(intake.ends)
        if intake.waits_for_schema:
            intake.hold()
            self._stop.wait(POLL_S)
        elif not reading.backlog:  # else the next turn goes on learning
            intake.release()
            intake.read(constants.BATCH_RECORDS, POLL_S)
        intake.poll_letters()

    def _learn(self, reading: Reading) -> None:
        learner = reading.learner
        begun, sealed = self._monotonic(), learner.leaves_sealed
        until = begun + LEARN_S
        for event in reading.learn():
            assert isinstance(event, RowsLearned)
            accepted = int(event.rows.accepted.sum())
            self._metrics.increase("streamsvm_input_rows", accepted, outcome="accepted")
            self._metrics.increase("streamsvm_input_rows", event.rows.rejected, outcome="rejected")
            if len(event.rows):
                own = self._owned[event.rows.partition]
                own.newest.add(event.rows)
                own.rows += len(event.rows)
            now, leaves = self._monotonic(), learner.leaves_sealed - sealed
            for _ in range(leaves):
                self._metrics.observe("streamsvm_coreset_reduce_seconds", (now - begun) / leaves)
            begun, sealed = now, sealed + leaves
            crash_point("input.learned")
            if now >= until:
                return

    # -------------------------------------------------------------- ownership

    def _take_over(self, owned: frozenset[int]) -> None:
        """Let go of partitions that are no longer owned, having published what was learned of them; await new ones."""
        lost = (self._owned.keys() | self._awaited.keys()) - owned
        if lost:
            # The next owner goes on from here instead of reading again. Whoever lost them long ago harms nothing by it.
            self._publish([p for p in lost if p in self._owned], at_once=True)
            log.info("partitions_let_go", partitions=sorted(lost))
            for partition in lost:
                self._awaited.pop(partition, None)
                self._follows.pop(partition, None)
            self._drop(lost)
        new = owned - self._owned.keys() - self._awaited.keys()
        self._awaited |= {partition: Awaited() for partition in new}
        if lost and not new:
            self._follower.assign(self._follows)

    def _drop(self, lost: frozenset[int] | set[int]) -> None:
        states = self._states()
        gone = [partition for partition in lost if self._owned.pop(partition, None) is not None]
        for partition in gone:
            for gauge in ("streamsvm_input_lag_records", "streamsvm_coresets_manifest_timestamp_seconds"):
                if (str(partition),) in self._metrics.values(gauge):
                    self._metrics.drop(gauge, str(partition))
        if gone:
            self._begin_reading({p: state for p, state in states.items() if p in self._owned})

    def _states(self) -> dict[int, PartitionState]:
        return {} if self._reading is None else dict(self._reading.learner.state().partitions)

    def _begin_reading(self, states: dict[int, PartitionState]) -> None:
        """Read on with the partitions that are owned now, from where each stands."""
        before = self._reading
        if not self._owned:
            self._reading = self._intake = None
            self._reader.assign({})
            return
        base = {partition: Position(*own.opening.base) for partition, own in self._owned.items()}
        learner = Learner(self._config, base, NEVER)
        learner.restore(LearnerState({p: state for p, state in states.items() if p in base}, 0))
        read_to = {p: own.read_to for p, own in self._owned.items() if own.read_to is not None}
        if before is not None:
            read_to |= {p: offset for p, offset in before.read_to.items() if p in base}
        reading = Reading(
            NoGoal(), learner, name=self._settings.name, topic=self._settings.input.topic, read_to=read_to
        )
        self._intake = self._made_intake(reading)
        self._reading = reading
        self._intake.assign(reading.assign(dict.fromkeys(base)).offsets)

    def _made_intake(self, reading: Reading) -> Source:
        """Return what reads rows for these partitions."""
        return Intake(
            self._settings,
            reading,
            reader=self._reader,
            outbox=self._letters_outbox,
            dead_letters=self._letters,
            decoder=PointDecoder(
                self._config.points, schemas=self._schemas, recipe=self._config.recipe, name=self._settings.name
            ),
            metrics=self._metrics,
            health=self._health,
            monotonic=self._monotonic,
            clock=lambda: datetime.now(UTC),
            left_out={
                partition: frozenset(Position(*at) for at in own.opening.left_out)
                for partition, own in self._owned.items()
                if own.opening.left_out
            },
        )

    # -------------------------------------------------------------- restoring

    def _follow(self) -> None:
        """Look for a new opening of a partition that is followed: then everything of the old one is let go."""
        if not self._follows:
            return
        for record in newest_of(self._follower, coresets_topic(self._settings), 0.0):
            self._follows[record.partition] = record.offset + 1
            if is_opening(record, self._settings.name) and record.partition in self._awaited:
                self._awaited[record.partition].look_at = -math.inf
            elif is_opening(record, self._settings.name) and record.partition in self._owned:
                own, key = self._owned[record.partition], record.key or b""
                taken_back = record.value is None and key == own.opening.key
                if taken_back or (record.value not in (None, own.opening.encode()) and key >= own.opening.key):
                    log.info("reopened", partition=record.partition, key=(record.key or b"").decode())
                    self._drop({record.partition})
                    self._awaited[record.partition] = Awaited()

    def _restore(self) -> None:
        """Take up partitions whose time to be looked at has come."""
        now = self._monotonic()
        due = [partition for partition, one in self._awaited.items() if one.look_at <= now]
        if not due:
            return
        found: dict[int, Owned] = {}
        with self._cluster.keeping():
            for partition in due:
                self._health.beat()
                own = self._restored(partition)
                if own is not None:
                    found[partition] = own
        if found:
            highest = max([own.opening.incarnation for own in (*found.values(), *self._owned.values())])
            self._enter(
                next(o.opening for o in (*found.values(), *self._owned.values()) if o.opening.incarnation == highest)
            )
            over = {p for p, own in self._owned.items() if own.opening.incarnation < highest}
            states = {p: state for p, state in self._states().items() if p not in over}
            for partition in over:
                del self._owned[partition]
                self._awaited[partition] = Awaited("its trainer has begun anew in other partitions")
            for partition, own in found.items():
                if own.opening.incarnation < highest:
                    self._awaited[partition].look_at = now + LOOK_AGAIN_S
                    continue
                del self._awaited[partition]
                self._owned[partition] = own
                if own.begun is not None:
                    states[partition], own.begun = own.begun, None
            self._begin_reading(states)
        self._follower.assign(self._follows)

    def _restored(self, partition: int) -> Owned | None:
        """Return a partition as the coresets topic has it; None if no trainer has opened it yet."""
        settings, begun = self._settings, self._monotonic()
        found, end = read_partition(self._cluster, settings, partition)
        self._follows[partition] = end
        awaited, opening = self._awaited[partition], found.opening
        if opening is None or opening.incarnation <= self._over:
            log_faults(settings, partition, found, self._metrics)
            if opening is None:
                awaited.why = f"no trainer with --from-coresets has opened it in {coresets_topic(settings)} yet"
            awaited.look_at = self._monotonic() + LOOK_AGAIN_S
            return None
        self._check(opening)
        highest = found.highest()
        log_faults(settings, partition, found, self._metrics)
        if highest is not None:
            found.adopt(highest)
        self._writer.clear(partition, found.garbage())
        position = Position(*opening.base) if highest is None else highest.state.position
        rows, newest = 0 if highest is None else highest.manifest.rows, NewestRows(NEWEST_ROWS)
        if highest is not None and highest.newest is not None:
            newest.add(highest.newest)
        log.info(
            "partition_restored",
            partition=partition,
            offset=position.offset,
            row=position.row,
            rows=rows,
            seconds=round(self._monotonic() - begun, 3),
        )
        return Owned(
            opening=opening,
            writer=PartitionWriter(opening, highest),
            newest=newest,
            published=position,
            published_at=self._monotonic(),
            published_rows=rows,
            rows=rows,
            begun=None if highest is None else highest.state,
            read_to=None if highest is None else self._read_to_of(partition, highest.headers),
        )

    def _read_to_of(self, partition: int, headers: Mapping[str, bytes]) -> int | None:
        """Return before which offset nothing is left to learn, by a manifest's header; not beyond the input."""
        read_to = number_of(headers, READ_TO)
        if read_to is None:
            return None
        return min(read_to, self._cluster.log_range(self._settings.input.topic, partition)[1])

    def _check(self, opening: Opening) -> None:
        """Refuse to learn what the trainer would not.

        Raises
        ------
        StateError
        """
        settings, name = self._settings, self._settings.input.topic
        topic_id = self._identity.topic_id
        if (opening.topic, opening.topic_id) != (name, topic_id):
            raise StateError(
                f"the trainer of {settings.name} learns the topic {opening.topic!r} with id "
                f"{opening.topic_id or 'unknown'}, but this worker's input {name!r} has the id "
                f"{topic_id or 'unknown'}",
                "Give worker and trainer the same input. Where the topic was recreated, the trainer must begin anew "
                "first.",
            )
        models = self._given.begun_with(opening.configuration).models()
        if models.learned_sha256() != opening.configuration_sha256:
            own, trainers = learned_part(models.canonical()), learned_part(opening.configuration)
            differences = "; ".join(configuration_differences(trainers, own))
            raise StateError(
                f"the configuration of this worker differs from its trainer's: {differences}",
                "Give workers and trainer the same configuration file.",
            )

    @property
    def _identity(self) -> TopicIdentity:
        """The input as it was when the first partition was taken up, or the first since the trainer began anew."""
        if self._known is None:
            self._known = identity_of(self._cluster, self._settings.input.topic)
        return self._known

    def _enter(self, opening: Opening) -> None:
        """Go on under the configuration of an incarnation."""
        self._identity.remedy = (
            f"Let the trainer begin anew with --reset {reset_token(opening.name, opening.incarnation)}, and start the "
            "workers again; or set input.on_gap = reset, for all of them."
        )
        if self._incarnation is not None and self._incarnation.configuration == opening.configuration:
            self._incarnation = opening
            return
        self._incarnation = opening
        self._settings = self._given.begun_with(opening.configuration)
        self._config = self._settings.models()

    # -------------------------------------------------------------- publishing

    def _is_due(self, partition: int) -> bool:
        assert self._reading is not None
        own, learner = self._owned[partition], self._reading.learner
        waited = self._monotonic() - own.published_at
        if learner.position(partition) <= own.published:
            # Markers of transactions behind the last record: the trainer is told that nothing is left to learn.
            passed = self._reading.read_to.get(partition)
            return waited >= PUBLISH_AFTER_S and passed is not None and passed > (own.read_to or 0)
        if waited >= PUBLISH_AFTER_S:
            return True
        if waited < PUBLISH_INTERVAL_S:
            return False
        leaf_rows = self._config.coreset.leaf_rows
        return own.rows // leaf_rows > own.published_rows // leaf_rows

    def _publish(self, partitions: list[int], *, at_once: bool = False) -> None:
        """Publish the states of partitions, dead letters first.

        Raises
        ------
        StreamsvmError
            If something could not be stored, or the input is another topic by now.
        """
        if not partitions or self._reading is None or self._intake is None:
            return
        reading, intake = self._reading, self._intake
        if intake.nothing_valid:  # positions stay: a better configuration is to read all of it again
            return
        try:
            intake.flush(FLUSH_TIMEOUT_S if at_once else FLUSH_TIMEOUT_S / 6)
        except TransientError as error:
            self._put_off(partitions, error, at_once=at_once)
            return
        reading.pass_markers(intake.ends)
        due, standing = [], {}
        states = reading.learner.state().partitions
        try:
            # Only now: a manifest counts if the topic was asked for its id after its newest row was fetched.
            self._identity.confirm({partition: states[partition].position.offset for partition in partitions})
        except TransientError as error:
            self._put_off(partitions, error, at_once=at_once)
            return
        for partition in partitions:
            own, state = self._owned[partition], states[partition]
            passed = reading.read_to.get(partition)
            if state.position <= own.published and (passed is None or passed <= (own.read_to or 0)):
                continue
            own.read_to = passed
            headers = dict[str, bytes]()
            watermark = intake.high_watermarks.get(partition)
            for name, number in ((WATERMARK, watermark), (READ_TO, passed)):
                if number is not None:
                    headers[name] = str(number).encode()
            due.append(Due(partition, own.writer.write(state, own.newest.rows()), headers))
            standing[partition] = state
        self._writer.publish(due)
        now = self._monotonic()
        for partition, state in standing.items():
            own = self._owned[partition]
            own.published, own.published_at, own.published_rows = state.position, now, state.learned.rows
            self._metrics.put("streamsvm_coresets_manifest_timestamp_seconds", time.time(), partition=str(partition))

    def _put_off(self, partitions: list[int], error: TransientError, *, at_once: bool) -> None:
        """Publish later: dead letters are not stored, or the broker does not say whether the input is the same."""
        log.warning("manifests_late", what=error.what, remedy=error.remedy)
        if at_once:
            raise error
        for partition in partitions:  # not at each turn
            self._owned[partition].published_at = self._monotonic()

    # ----------------------------------------------------------------- telling

    def _show(self, *, at_once: bool = False) -> None:
        """Commit group offsets, for observers."""
        now = self._monotonic()
        if at_once or now - self._shown_at >= SHOW_EVERY_S:
            self._shown_at = now
            self._ownership.commit({partition: own.published.offset for partition, own in self._owned.items()})

    def _show_gauges(self) -> None:
        self._metrics.put("streamsvm_worker_partitions", len(self._owned))
        waiting = "; ".join(f"partition {p}: {one.why}" for p, one in sorted(self._awaited.items()))
        self._health.require("partitions", waiting)
        if self._reading is None or self._intake is None:
            return
        self._metrics.put("streamsvm_points_held", self._reading.learner.points_held + self._reading.rows_waiting())
        ends = self._intake.high_watermarks
        for partition, offset in self._intake.ahead.items():
            if (end := ends.get(partition)) is not None:
                self._metrics.put("streamsvm_input_lag_records", max(0, end - offset), partition=str(partition))

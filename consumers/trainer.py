"""The trainer: labeled points in at a topic, model versions out at another.

One thread polls, learns, publishes and saves; a second one trains. Positions in the checkpoint are the truth, group
offsets are for observers. What is delivered, and how a start decides, is `streamsvm.delivery`; this module only carries
it out.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter, deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import structlog

from consumers.deadletters import DeadLetters
from consumers.ports import Cluster, Stop
from consumers.ports import Worker as AnyWorker
from consumers.publishing import VersionPublisher
from consumers.runtime import Health
from consumers.topics import READ_TIMEOUT_S, check_names, output_topics, read_head
from consumers.worker import TrainFunction, Worker
from streamsvm.build import build
from streamsvm.checkpoint import CheckpointDirectory
from streamsvm.codec import model as model_codec
from streamsvm.codec.checkpoint import Snapshot
from streamsvm.codec.points import PointDecoder
from streamsvm.config import ModelConfig, Settings, SvmConfig
from streamsvm.delivery import Begin, Delivery, Present, Resume, decide
from streamsvm.disk import FileSystem
from streamsvm.errors import ConfigurationError, StateError, TransientError
from streamsvm.kafka import TopicInfo
from streamsvm.learner import Cut, Learner, warm_up
from streamsvm.metrics import Metrics
from streamsvm.points import Position, Rows
from streamsvm.training import train

log = structlog.get_logger("streamsvm.trainer")

POLL_S: Final = 0.1
BUSY_POLL_S: Final = 0.01
"""While a model trains: how long its result may wait for the loop."""
METRICS_INTERVAL_S: Final = 0.5
HOLD_BEFORE_PAUSE_S: Final = 1.0
FLUSH_TIMEOUT_S: Final = 30.0
LOOK_TIMEOUT_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Clock:
    """The two clocks that the trainer reads; tests give their own.

    Attributes
    ----------
    monotonic : callable
        Seconds that never go back, for intervals.
    now : callable
        The time of day, for headers and metrics only: no model depends on it.
    """

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


class Trainer:
    """The daemon's life from its start to its stop.

    Parameters
    ----------
    settings : Settings
    cluster : Cluster
    metrics : Metrics
        Made of `streamsvm.metrics.TRAINER`.
    health : Health
    stop : Stop
        When it is set the trainer finishes the model in training, publishes it, saves, and returns.
    reset : str
        What `--reset` said.
    clock : Clock
    make_worker : callable
        Given what to train with, returns who trains.
    train_function : callable
    session : str
        Names this process in what it publishes; a random one by default.
    """

    def __init__(
        self,
        settings: Settings,
        cluster: Cluster,
        metrics: Metrics,
        health: Health,
        stop: Stop,
        *,
        reset: str = "",
        clock: Clock | None = None,
        make_worker: Callable[[TrainFunction, SvmConfig], AnyWorker] = Worker,
        train_function: TrainFunction = train,
        session: str = "",
    ) -> None:
        self._settings = settings
        self._config: ModelConfig = settings.models()
        self._cluster = cluster
        self._metrics = metrics
        metrics.begin("streamsvm_input_rows", "outcome", ("accepted", "rejected"))
        self._health = health
        self._stop = stop
        self._reset = reset
        self._clock = clock or Clock()
        self._dead_letters = DeadLetters(
            settings.input.topic, settings.input.dead_letters, metrics, self._clock.monotonic
        )
        self._make_worker = make_worker
        self._train = train_function
        self._session = session or uuid.uuid4().hex
        self._sequence = 0
        self._backlog: deque[Rows] = deque()
        self._waiting: Cut | None = None
        self._held_since: float | None = None
        self._paused = False
        self._catching_up = False
        self._seen_levels: set[str] = set()
        self._held_peak = 0
        self._saved_at = 0.0
        self._measured_at = 0.0

    def run(self) -> None:
        """Start, work until stopped, stop.

        Raises
        ------
        StreamsvmError
            If it cannot start, or cannot go on; whatever was published stays published.
        """
        with ExitStack() as stack, self._health.failing():  # red before anything is closed
            for condition in ("start", "broker", "replay"):
                self._health.require(condition, "starting")
            self._directory = stack.enter_context(
                CheckpointDirectory(
                    FileSystem(self._settings.checkpoint.directory), self._settings.checkpoint.generations
                )
            )
            self._start(stack)
            self._health.require("start", "")
            while not self._stop.is_set():
                self._turn()
            log.info("stopping", remedy="waiting for the model in training; a second signal stops at once")
            self._finish()

    # ------------------------------------------------------------------ start

    def _start(self, stack: ExitStack) -> None:
        settings = self._settings
        check_names(settings)
        topic = self._cluster.describe(settings.input.topic)
        self._check_partitions(topic)
        self._topic_id = topic.topic_id or ""
        self._cluster.create(output_topics(self._settings))
        self._check_message_size(self._cluster.describe(settings.output.models_topic))
        self._dead_letters.fit(self._cluster.describe(settings.input.dead_letters), self._cluster.max_message_bytes)
        snapshot = self._load()
        with suppress(TransientError):  # a transaction that a kill left open hides the head until it is fenced
            decide(snapshot, self._present(topic, LOOK_TIMEOUT_S))  # refuses before anybody is fenced
        publisher = self._cluster.publisher(f"streamsvm/{settings.name}/{settings.output.models_topic}")
        stack.callback(publisher.close)
        publisher.start()
        begun = decide(snapshot, self._present(topic))  # from now on nobody else publishes: what is found stays true
        self._restore(begun, topic)
        self._versions = VersionPublisher(
            settings,
            publisher,
            self._delivery,
            self._base,
            self._topic_id,
            self._session,
            self._metrics,
            self._clock.now,
        )
        self._outbox = self._cluster.outbox()
        stack.callback(self._outbox.close)
        self._warm_up()
        self._decoder = PointDecoder(self._config.points)
        self._worker = self._make_worker(self._train, self._config.svm)
        stack.callback(self._worker.close)
        self._save()
        self._input = self._cluster.input(settings.input.topic, settings.input.group or f"streamsvm-{settings.name}")
        stack.callback(self._input.close)
        self._assign()
        log.info(
            "started",
            name=settings.name,
            topic=topic.name,
            partitions=len(topic.partitions),
            incarnation=self._delivery.incarnation,
            next_version=self._delivery.next_number,
            positions={str(partition): list(at) for partition, at in self._learner.positions.items()},
        )

    def _check_partitions(self, topic: TopicInfo) -> None:
        most = self._config.coreset.max_partitions
        if len(topic.partitions) > most:
            raise ConfigurationError(
                f"the topic {topic.name} has {len(topic.partitions)} partitions, coreset.max_partitions is {most}",
                "Raise coreset.max_partitions: it bounds memory, and belongs to the configuration of a model.",
            )

    def _check_message_size(self, topic: TopicInfo) -> None:
        largest = model_codec.largest_bytes(self._config)
        takes = {f"the topic {topic.name} (max.message.bytes)": int(topic.config.get("max.message.bytes", largest))}
        takes["the client (message.max.bytes)"] = self._cluster.max_message_bytes
        who, limit = min(takes.items(), key=lambda one: one[1])
        if largest > limit:
            raise ConfigurationError(
                f"a model may take {largest} bytes, {who} takes {limit}",
                f"Lower coreset.train_points to {model_codec.train_points_within(self._config, limit)}, "
                "or raise that limit.",
            )

    def _warm_up(self) -> None:
        """Compile before the first poll; say so where it takes a while."""
        begun = self._clock.monotonic()
        log.debug("compiling", solver=self._config.svm.solver, reducer=self._config.coreset.reducer)
        warm_up(self._config)
        seconds = self._clock.monotonic() - begun
        if seconds > 1.0:
            log.info("compiled", seconds=round(seconds, 1), remedy="a cold start; the next one loads it from the cache")

    def _load(self) -> Snapshot | None:
        """Return the newest checkpoint that is valid; refuse to go on if there are some and none is."""
        faults = []
        for generation in self._directory.generations():
            if generation.snapshot is not None:
                return generation.snapshot
            faults.append(f"{generation.name}: {generation.fault}")
            log.warning("checkpoint_unusable", file=generation.name, why=generation.fault)
        if faults:
            raise StateError(
                f"no checkpoint in {self._settings.checkpoint.directory} is usable: {'; '.join(faults)}",
                "Put back a good copy, or move the directory away to be told how to begin anew.",
            )
        return None

    def _present(self, topic: TopicInfo, timeout_s: float = READ_TIMEOUT_S) -> Present:
        """Return what the topics say now."""
        return Present(
            self._settings.name,
            topic.name,
            self._topic_id,
            self._config.canonical(),
            self._config.sha256(),
            {partition: self._cluster.log_range(topic.name, partition) for partition in topic.partitions},
            read_head(self._cluster, self._settings, timeout_s),
            self._reset,
        )

    def _restore(self, begun: Begin | Resume, topic: TopicInfo) -> None:
        every = self._settings.training.every_leaves
        if isinstance(begun, Begin):
            self._delivery = Delivery(begun.incarnation, begun.head)
            starts = self._cluster.starts(topic.name, topic.partitions, self._settings.input.start)
            self._base = {partition: Position(offset) for partition, offset in sorted(starts.items())}
            self._learner = Learner(self._config, self._base, every)
            return
        if begun.reset_ignored:
            log.warning("reset_ignored", asked=self._reset, remedy="nothing needed a reset; remove the option")
        snapshot = begun.snapshot
        self._delivery = Delivery(snapshot.incarnation, begun.head)
        added = self._cluster.starts(topic.name, set(topic.partitions) - snapshot.base.keys(), "earliest")
        self._base = dict(
            sorted(({partition: Position(first) for partition, first in added.items()} | dict(snapshot.base)).items())
        )
        self._learner = Learner(self._config, self._base, every)
        self._learner.restore(snapshot.learner)
        self._sequence = snapshot.sequence
        if snapshot.pending is not None and self._delivery.admits(snapshot.pending.positions):
            self._waiting = snapshot.pending

    def _assign(self) -> None:
        """Read on from the learner's positions; while behind the head, only the partitions that are behind."""
        positions = self._learner.positions
        self._catching_up = self._delivery.replaying(positions)
        if not self._catching_up:
            self._compare_with_head()
        else:
            published = self._delivery.published_cut
            positions = {p: at for p, at in positions.items() if p in published and at < published[p]}
        self._input.assign({partition: at.offset for partition, at in positions.items()})
        self._backlog.clear()
        self._health.require("replay", "reading again up to the newest version" if self._catching_up else "")

    # ------------------------------------------------------------------- turn

    def _turn(self) -> None:
        """Do one round of the main loop; blocks at most about `POLL_S`, but for a publish or a checkpoint."""
        self._health.beat()
        self._collect(0.0)
        self._learn()
        self._feed_worker()
        if self._backlog:
            self._hold()
        else:
            self._release()
            wait_s = POLL_S if self._worker.training is None else BUSY_POLL_S
            self._read(self._settings.input.batch_records, wait_s)
        self._outbox.poll()
        now = self._clock.monotonic()
        if now - self._saved_at >= self._settings.checkpoint.interval_s:
            self._save_or_warn()
        if now - self._measured_at >= METRICS_INTERVAL_S:
            self._measure()

    def _read(self, most: int, timeout_s: float) -> None:
        """Take records from the client into the backlog; bad rows go to the dead letters on the way."""
        records = self._input.poll(most, timeout_s)
        self._health.require("broker", "" if self._input.connected() else "no broker connection is up")
        if not records:
            return
        decoded = self._decoder.decode(records)
        for letter in self._dead_letters.letters(records, decoded.rejected):
            self._outbox.send(letter)
        self._backlog.extend(decoded.rows)
        for partition, count in Counter(record.partition for record in records).items():
            self._metrics.increase("streamsvm_input_records", count, partition=str(partition))

    def _learn(self) -> None:
        """Learn the backlog until it ends or a cut falls due that nobody can take yet."""
        published = self._delivery.published_cut if self._catching_up else {}
        while not self._learner.cut_due or self._take_cut():
            if self._catching_up and not self._delivery.replaying(self._learner.positions):
                log.info("caught_up", version=self._delivery.next_number - 1)
                self._assign()
                return
            if not self._backlog:
                return
            rows = self._backlog.popleft()
            known = rows.index_of(self._learner.positions[rows.partition])
            done = self._learner.learn(rows, until=published.get(rows.partition))
            self._count(rows.slice(known, done))
            self._held_peak = max(self._held_peak, self._points_held() + len(rows))
            rest = rows.slice(done, len(rows))
            if len(rest) and not (self._catching_up and self._reached(rows.partition)):
                if self._catching_up and not self._learner.cut_due:
                    self._refuse_gap(rest)
                self._backlog.appendleft(rest)

    def _refuse_gap(self, rest: Rows) -> None:
        """Refuse to go on where reading again passed the newest version's cut without ever standing at it."""
        at, cut = self._learner.positions[rest.partition], self._delivery.published_cut[rest.partition]
        raise StateError(
            f"{self._settings.name}@{self._delivery.next_number - 1} was made from {self._settings.input.topic}"
            f"[{rest.partition}] up to offset {cut.offset} row {cut.row}, but after offset {at.offset} row {at.row} "
            f"the log goes on at offset {int(rest.offset[0])}",
            "Records were removed in between: an input topic must not be compacted. Put back a newer checkpoint.",
        )

    def _count(self, learned: Rows) -> None:
        accepted = int(learned.accepted.sum())
        self._metrics.increase("streamsvm_input_rows", accepted, outcome="accepted")
        self._metrics.increase("streamsvm_input_rows", len(learned) - accepted, outcome="rejected")

    def _reached(self, partition: int) -> bool:
        return self._learner.positions[partition] >= self._delivery.published_cut[partition]

    def _take_cut(self) -> bool:
        """Materialise a due cut, or decline it if it was published before; False: it must wait for the worker."""
        if not self._delivery.admits(self._learner.positions):
            self._learner.decline_cut()
            return True
        if self._settings.training.policy == "every" and (self._worker.training or self._waiting):
            return False
        if self._waiting is not None:
            self._metrics.increase("streamsvm_cuts_skipped")
        self._waiting = self._learner.cut()
        self._held_peak = max(self._held_peak, self._points_held())
        self._feed_worker()
        return True

    def _compare_with_head(self) -> None:
        """At exactly the newest version's cut the training set must be the one it was trained on.

        Asking for it counts leaves from here on, as publishing that version did.
        """
        head = self._delivery.head
        if head is None or self._learner.positions != self._delivery.published_cut:
            return
        found = self._learner.cut().points.sha256()
        if found == head.training_set_sha256:
            return
        what = (
            f"reading again gave another training set for {self._settings.name}@{head.number}: "
            f"{found}, published {head.training_set_sha256}"
        )
        if head.build == build():
            raise StateError(what, "The input log no longer holds what that version was made from.")
        log.warning("training_set_differs", what=what, remedy="this is another build or CPU than the version's")

    def _feed_worker(self) -> None:
        if self._waiting is not None and self._worker.training is None:
            waiting, self._waiting = self._waiting, None
            self._metrics.put("streamsvm_training_points", len(waiting.points))
            self._worker.submit(waiting)

    def _hold(self) -> None:
        """Wait for the worker without reading; after a while pause the input, so that its client stays served."""
        now = self._clock.monotonic()
        if self._held_since is None:
            self._held_since = now
        if self._paused:
            self._read(1, 0.0)
        elif now - self._held_since > HOLD_BEFORE_PAUSE_S:
            self._input.pause()
            self._paused = True
        self._collect(POLL_S)

    def _release(self) -> None:
        self._held_since = None
        if self._paused:
            self._input.resume()
            self._paused = False

    # ---------------------------------------------------------------- publish

    def _collect(self, timeout_s: float) -> None:
        result = self._worker.take(timeout_s)
        if result is not None:
            self._versions.publish(result)

    # ------------------------------------------------------------- checkpoint

    def _save(self) -> None:
        """Write a checkpoint, then show observers how far it reaches."""
        begun = self._clock.monotonic()
        if self._sequence:
            self._outbox.flush(FLUSH_TIMEOUT_S)
        self._sequence += 1
        pending = self._waiting or self._worker.training
        state = self._learner.state()
        written = self._directory.save(
            Snapshot(
                self._settings.name,
                self._delivery.incarnation,
                self._sequence,
                self._settings.input.topic,
                self._topic_id,
                self._base,
                self._config.canonical(),
                self._config.sha256(),
                build(),
                self._delivery.head,
                state,
                pending,
            )
        )
        self._saved_at = self._clock.monotonic()
        self._metrics.put("streamsvm_checkpoint_timestamp_seconds", self._clock.now().timestamp())
        self._metrics.put("streamsvm_checkpoint_bytes", written)
        self._metrics.observe("streamsvm_checkpoint_seconds", self._saved_at - begun)
        log.debug("checkpoint_written", sequence=self._sequence, bytes=written)

    def _save_or_warn(self) -> None:
        try:
            self._save()
        except TransientError as error:
            self._saved_at = self._clock.monotonic()
            self._metrics.increase("streamsvm_checkpoint_failures")
            self._health.require("checkpoint", str(error))
            log.error("checkpoint_failed", what=error.what, remedy=error.remedy)
            return
        self._health.require("checkpoint", "")
        self._show_progress()

    def _show_progress(self) -> None:
        """Commit group offsets, for observers."""
        self._input.commit({partition: at.offset for partition, at in self._learner.positions.items()})

    def _finish(self) -> None:
        """Save first, so that nothing hangs on the training; then publish all that is due, and save again."""
        self._save()
        while self._worker.training or self._waiting or self._learner.cut_due:
            self._health.beat()
            if self._learner.cut_due:
                self._take_cut()
            self._feed_worker()
            self._collect(POLL_S)
        self._save()
        self._show_progress()
        self._measure()
        log.info("stopped", next_version=self._delivery.next_number)

    def _points_held(self) -> int:
        """Count buckets, leaves, the backlog, and the training sets that wait or train."""
        in_flight = sum(len(cut.points) for cut in (self._waiting, self._worker.training) if cut is not None)
        return self._learner.points_held + sum(len(rows) for rows in self._backlog) + in_flight

    def _measure(self) -> None:
        self._measured_at = self._clock.monotonic()
        levels: Counter[str] = Counter()
        held = 0
        for state in self._learner.buckets().values():
            for bucket in state:
                levels[str(bucket.level)] += len(bucket.points)
                held += bucket.points.nbytes
        self._metrics.put("streamsvm_points_held", self._points_held())
        self._metrics.put("streamsvm_points_held_peak", self._held_peak)
        levels["leaf"] = self._learner.points_held - sum(levels.values())
        for level in self._seen_levels | levels.keys():
            self._metrics.put("streamsvm_coreset_points", levels.get(level, 0), level=level)
        self._seen_levels |= levels.keys()
        self._metrics.put("streamsvm_coreset_bytes", held)
        for partition, at in self._learner.positions.items():
            end = self._input.high_watermark(partition)
            if end is not None:
                self._metrics.put("streamsvm_input_lag_records", max(0, end - at.offset), partition=str(partition))

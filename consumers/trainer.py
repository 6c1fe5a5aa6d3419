"""The trainer: labeled points in at a topic, model versions out at another.

One thread polls, learns, publishes and saves; a second one trains. Positions in the checkpoint are the truth, group
offsets are for observers. What is delivered, and how a start decides, is `streamsvm.delivery`; the start is carried out
in `consumers.startup`, publishing in `consumers.session` and `consumers.publishing`, and the loop stands here.

A gap in the input log ends the loop. Under `input.on_gap = reset` the trainer then lets go of everything and starts
over in process, by the very steps of a fresh start: the table decides, and nothing of the old life is left.
"""

from __future__ import annotations

import logging
import uuid
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final

import structlog

from consumers.clock import Clock
from consumers.conditions import Conditions
from consumers.deadletters import DeadLetters
from consumers.freshness import Freshness
from consumers.gatekeeping import MakeGate, gate_of
from consumers.gauges import Gauges
from consumers.keeping import Keeper
from consumers.limits import RejectionLimits
from consumers.outliers import OutlierLog
from consumers.page.board import TrainerBoard
from consumers.ports import Cluster, Stop
from consumers.ports import Worker as AnyWorker
from consumers.publishing import VersionPublisher
from consumers.quality import QualityWatch
from consumers.rereading import compare_with_head, refuse_gap
from consumers.runtime import Health, schemas_of
from consumers.saving import Saver
from consumers.schemas import SchemaWait
from consumers.session import STUCK_S, Session
from consumers.standstill import MakeStandstill, Standstill
from consumers.startup import Started, Startup, check_partitions
from consumers.topics import written_places
from consumers.unread import UnreadWatch
from consumers.watch import MakeWatch, Surveyor, ThreadedWatch
from consumers.worker import Worker
from streamsvm import prequential, tuning
from streamsvm.build import build
from streamsvm.checkpoint import CheckpointDirectory
from streamsvm.codec import json_scan
from streamsvm.codec.avro import Schemas
from streamsvm.codec.checkpoint import Snapshot
from streamsvm.codec.points import Decoded, PointDecoder, RejectedRecord
from streamsvm.config import ModelConfig, Settings
from streamsvm.crashpoints import crash_point
from streamsvm.delivery import Delivery
from streamsvm.disk import Disk, FileSystem
from streamsvm.errors import ConfigurationError, LogGap, TopicMissing, TransientError
from streamsvm.kafka import Batch, OffsetOutOfRange, Record
from streamsvm.learner import Cut, warm_up
from streamsvm.learning.recipe import Made, TrainFunction
from streamsvm.metrics import Metrics
from streamsvm.points import Position, Rows
from streamsvm.signing import Signer
from streamsvm.training import limited, train

log = structlog.get_logger("streamsvm.trainer")

POLL_S: Final = 0.1
BUSY_POLL_S: Final = 0.01
"""While a model trains: how long its result may wait for the loop."""
METRICS_INTERVAL_S: Final = 0.5
HOLD_BEFORE_PAUSE_S: Final = 1.0
FLUSH_TIMEOUT_S: Final = 30.0
SHORT_FLUSH_S: Final = 5.0
"""How long a checkpoint holds up the loop for dead letters that cannot be delivered; the next one tries again."""
START_OVER_AFTER_S: Final = 1.0
START_LOOKS_S: Final = 5.0
"""Between two looks of a start that waits for somebody else's transaction to end."""
LONG_COMPILE_S: Final = 1.0
"""Loading what an earlier start compiled is over by then; compiling it takes a minute."""


class _Stopped(Exception):
    """Told to stop before the start took anything over."""


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
    disk : Disk
        Where checkpoints are; the configured directory by default.
    make_worker : callable
        Given what to train with, returns who trains.
    make_watch : callable
        Given cluster and topic, returns who looks at the input topic now and then.
    make_gate : callable
        Given settings, cluster, what is current, what returns the rows not learned yet, metrics, and the newest head,
        returns who says which version becomes current.
    make_standstill : callable
        Given what to ask with, the output's partitions, a patience, seconds and metrics, returns who looks whether
        readers are held up.
    train_function : callable
    schemas : Schemas, optional
        Where Avro's schemas come from; the configured registry, if there is one, by default.
    session : str
        Names this process in what it publishes, with a number if it starts over; a random one by default.
    board : TrainerBoard
        Where the loop leaves what people are shown; one that nobody looks at by default.
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
        disk: Disk | None = None,
        make_worker: Callable[[TrainFunction, ModelConfig], AnyWorker] = Worker,
        make_watch: MakeWatch = ThreadedWatch,
        make_gate: MakeGate = gate_of,
        make_standstill: MakeStandstill = Standstill,
        train_function: TrainFunction = train,
        schemas: Schemas | None = None,
        session: str = "",
        board: TrainerBoard | None = None,
    ) -> None:
        self._configured = settings
        self._use(settings)
        self._signer = Signer.of(settings.output.signing_key_file)
        self._cluster = cluster
        self._disk = disk or FileSystem(settings.checkpoint.directory, trusted=settings.checkpoint.trust_directory)
        self._metrics = metrics
        self._health = health
        self._stop = stop
        self._reset = reset
        self._clock = clock or Clock()
        self._make_worker = make_worker
        self._make_watch = make_watch
        self._make_gate = make_gate
        self._make_standstill = make_standstill
        self._train = train_function
        self._schemas = schemas
        self._name = session or uuid.uuid4().hex
        self._lives = 0
        self._gauges = Gauges(metrics)
        self._conditions = Conditions()
        self._outliers = OutlierLog(settings.input.topic)
        self._board = board or TrainerBoard(settings, metrics)
        metrics.begin("streamsvm_input_rows", "outcome", ("accepted", "rejected"))

    def run(self) -> None:
        """Start, work until stopped, stop.

        Raises
        ------
        StreamsvmError
            If it cannot start, or cannot go on; whatever was published stays published.
        """
        while self._ends_in_gap() and not self._stop.wait(START_OVER_AFTER_S):
            pass

    def _ends_in_gap(self) -> bool:
        """Live once; tell whether to start over because the log has a gap and the configuration says to."""
        try:
            self._live()
        except (LogGap, OffsetOutOfRange) as gap:
            if self._settings.input.on_gap == "fail" or self._stop.is_set():
                raise
            log.warning("starting_over", why=gap.what, remedy="no action needed: input.on_gap = reset asks for this")
            return True
        return False

    def _live(self) -> None:
        self._forget()
        passing = () if self._settings.input.on_gap == "fail" else (LogGap, OffsetOutOfRange)
        with ExitStack() as stack, self._health.failing(unless=passing):  # red before anything is closed
            for condition in ("start", "broker", "replay"):
                self._health.require(condition, "starting")
            checkpoints = stack.enter_context(CheckpointDirectory(self._disk, self._settings.checkpoint.generations))
            if not self._start(stack, checkpoints):
                log.info("stopped", remedy="the trainer stopped before it took over the model; nothing was published")
                return
            self._health.require("start", "")
            while not self._stop.is_set():
                self._turn()
            log.info("stopping", remedy="the trainer waits for the model in training; a second signal stops it at once")
            self._finish()

    def _use(self, settings: Settings) -> None:
        self._settings = settings
        self._config: ModelConfig = settings.models()

    def _session_name(self) -> str:
        """Return what names this life: who starts over takes the model from its owner as a new process does."""
        return self._name if self._lives == 1 else f"{self._name}.{self._lives}"

    def _forget(self) -> None:
        """Begin a life with nothing."""
        self._lives += 1
        self._use(self._configured)
        self._undecoded: deque[Sequence[Record]] = deque()
        self._backlog: deque[Rows] = deque()
        self._fetched: dict[int, int] = {}
        self._waiting: Cut | None = None
        self._unpublished: Made | None = None
        self._held_since: float | None = None
        self._paused = False
        self._catching_up = False
        self._held_peak = 0
        self._measured_at = 0.0
        self._trains_since: float | None = None
        self._compiles_since = 0.0

    # ------------------------------------------------------------------ start

    def _start(self, stack: ExitStack, checkpoints: CheckpointDirectory) -> bool:
        """Start; False if told to stop before anything was taken over."""
        settings, clock = self._settings, self._clock
        stack.enter_context(limited(self._config.svm))  # for pilots too, whether or not a training runs beside them
        self._dead_letters = DeadLetters(
            settings.name, settings.input.topic, settings.input.dead_letters, self._metrics, clock.monotonic
        )
        self._limits = RejectionLimits(
            settings.input,
            self._is_proven,
            section="input",
            who="trainer",
            hint=f"Or input.topic may be the wrong topic. The rejected records are in {settings.input.dead_letters}.",
        )
        self._unread = UnreadWatch(settings.input.topic, self._metrics)
        self._saver = Saver(settings.checkpoint, checkpoints, self._metrics, self._health, clock.monotonic, clock.now)
        self._delivery = Delivery(settings.name, self._session_name())
        self._session = Session(
            settings,
            self._cluster,
            self._delivery,
            self._metrics,
            clock.monotonic,
            self._stop.wait,
            self._waits,
        )
        stack.callback(self._session.close)
        startup = Startup(settings, self._cluster, checkpoints, self._delivery, self._session, self._reset, clock.now)
        startup.look(self._dead_letters)
        schemas = stack.enter_context(schemas_of(settings)) if self._schemas is None else self._schemas
        if not self._warmed_up():
            return False
        started = startup.run()
        self._adopt(started)
        self._outbox = self._cluster.outbox()
        stack.callback(self._outbox.close)
        self._decoder = PointDecoder(self._config.points, schemas=schemas)
        self._schema_wait = SchemaWait(self._metrics, self._health, clock.monotonic)
        self._worker = self._make_worker(self._train, self._config)
        stack.callback(self._worker.close)
        self._save()
        crash_point("start.saved")
        watch = self._make_watch(self._cluster, settings.input.topic)
        stack.callback(watch.close)
        self._standstill = self._make_standstill(
            self._cluster.marks, written_places(settings), STUCK_S, clock.monotonic, self._metrics
        )
        left_out = len(started.topic.partitions) > len(started.base)
        self._surveyor = Surveyor(settings.input, self._topic_id, watch, clock.monotonic, at_once=left_out)
        self._input = self._cluster.input(settings.input.topic, settings.input.group or f"streamsvm-{settings.name}")
        stack.callback(self._input.close)
        self._assign()
        log.info(
            "started",
            name=settings.name,
            session=self._delivery.session,
            topic=started.topic.name,
            partitions=len(started.topic.partitions),
            incarnation=self._delivery.incarnation,
            next_version=self._delivery.next_number,
            positions={str(partition): list(at) for partition, at in self._learner.positions.items()},
        )
        return True

    def _waits(self, why: str) -> bool:
        """Say why the start waits, wait a moment, and return whether to go on waiting."""
        self._health.beat()
        self._health.require("publish", why)
        return not self._stop.wait(START_LOOKS_S)

    def _adopt(self, started: Started) -> None:
        self._use(started.settings)
        self._topic_id = started.topic_id
        self._base = started.base
        self._learner = started.learner
        self._waiting = started.waiting
        self._sequence = started.sequence
        self._read_to = started.read_to
        gate = self._make_gate(
            self._settings,
            self._cluster,
            started.current,
            lambda: self._backlog,
            self._metrics,
            self._delivery.head,
        )
        self._quality = QualityWatch(
            self._settings, self._cluster, started.current, gate, self._metrics, self._clock.monotonic
        )
        self._freshness = Freshness(
            self._metrics, self._learner, self._config.coreset.leaf_rows * self._settings.training.every_leaves
        )
        self._versions = VersionPublisher(
            self._settings,
            self._session,
            self._delivery,
            lambda: self._base,
            self._topic_id,
            self._quality,
            self._metrics,
            self._clock.now,
            self._board,
            self._signer,
        )
        self._keeper = Keeper(self._settings, self._cluster, self._metrics, self._clock.now)
        self._board.adopted(self._delivery.head, started.current)
        self._metrics.put("streamsvm_model_version", self._delivery.next_number - 1)
        self._metrics.put("streamsvm_input_mostly_rejected", 0)
        self._health.require("input", "")

    def _warmed_up(self) -> bool:
        """Compile before the id is taken over, so that the predecessor goes on meanwhile; False if told to stop."""
        self._compiles_since = self._clock.monotonic()
        log.debug("compiling", solver=self._config.svm.solver, reducer=self._config.coreset.reducer)
        try:
            self._warm_up()
        except _Stopped:
            return False
        seconds = self._clock.monotonic() - self._compiles_since
        if seconds > LONG_COMPILE_S:
            log.info(
                "compiled", seconds=round(seconds, 1), remedy="the compiled code is cached; the next start loads it"
            )
        return not self._stop.is_set()

    def _warm_up(self) -> None:
        dtype = self._config.points.numpy_dtype
        warm_up(self._config, self._compiling)
        tuning.warm_up(self._config, self._compiling)
        self._compiling("preparing the baseline")
        prequential.warm_up(dtype)
        self._compiling("preparing the parser of JSON")
        json_scan.warm_up(dtype)

    def _compiling(self, what: str) -> None:
        """Look whether to stop before each part, for a part may take many seconds; say it where it takes a while."""
        self._health.beat()
        if self._stop.is_set():
            raise _Stopped
        takes_long = self._clock.monotonic() - self._compiles_since > LONG_COMPILE_S
        log.log(logging.INFO if takes_long else logging.DEBUG, "compiling", what=what)

    def _assign(self) -> None:
        """Read on from the learner's positions; while behind the head, only the partitions that are behind."""
        self._pass_markers()
        positions = self._learner.positions
        read_again, self._catching_up = self._catching_up, self._delivery.replaying(positions)
        if not self._catching_up:
            compare_with_head(self._settings.name, self._delivery, self._learner)
            if positions == self._delivery.published_cut:
                self._freshness.caught_up()
            if read_again and positions != self._delivery.published_cut:
                self._learner.call_for_cut()  # while reading again, cuts of what lies past the newest one were declined
        else:
            published = self._delivery.published_cut
            positions = {p: at for p, at in positions.items() if p in published and at < published[p]}
        self._release()
        self._undecoded.clear()
        self._backlog.clear()
        self._fetched = {partition: self._read_to.get(partition, at.offset) for partition, at in positions.items()}
        self._input.assign(self._fetched)
        self._health.require(
            "replay", "the trainer is replaying the log up to the newest version" if self._catching_up else ""
        )

    # ------------------------------------------------------------------- turn

    def _turn(self) -> None:
        """Do one round of the main loop; blocks at most about `POLL_S`, but for a publish or a checkpoint."""
        self._health.beat()
        self._collect(0.0)
        self._learn()
        self._feed_worker()
        if self._backlog or self._undecoded:
            self._hold()
        else:
            self._release()
            wait_s = POLL_S if self._worker.training is None else BUSY_POLL_S
            self._read(self._settings.input.batch_records, wait_s)
        self._outbox.poll()
        self._survey()
        self._look_after_readers()
        if self._saver.due:
            self._save_or_warn()
        self._saver.watch()
        self._look_after_training()
        if self._clock.monotonic() - self._measured_at >= METRICS_INTERVAL_S:
            self._measure()

    def _read(self, most: int, timeout_s: float) -> None:
        """Take records from the client, and decode them."""
        try:
            records = self._input.poll(most, timeout_s)
        except TopicMissing as missing:
            raise LogGap(missing.what, missing.remedy) from missing
        self._health.require("broker", "" if self._input.connected() else "no broker connection is up")
        if records:
            self._note(records)
            self._undecoded.append(records)
        self._decode()

    def _note(self, records: Sequence[Record]) -> None:
        """Note what was read, decoded or not."""
        if isinstance(records, Batch):
            ends, counts, size = records.ends(), records.counts(), int(records.sizes.sum())
        else:
            size = sum(len(record.value or b"") for record in records)
            ends = {record.partition: record.offset + 1 for record in records}
            counts = Counter(record.partition for record in records)
        self._fetched |= ends
        self._metrics.increase("streamsvm_input_bytes", size)
        for partition, count in counts.items():
            self._metrics.increase("streamsvm_input_records", count, partition=str(partition))

    def _decode(self) -> None:
        """Turn what was read into the backlog; bad rows go to the dead letters on the way.

        While a schema cannot be had nothing is decided: what was read waits, and so does what comes after it.
        """
        while self._undecoded and self._schema_wait.over:
            try:
                decoded = self._decoder.decode(self._undecoded[0])
            except TransientError as error:
                self._schema_wait.failed(error)
                return
            self._schema_wait.end()
            self._take_in(self._undecoded.popleft(), decoded)

    def _take_in(self, records: Sequence[Record], decoded: Decoded) -> None:
        for letter in self._dead_letters.letters(records, decoded.rejected):
            self._outbox.send(letter)
        if decoded.rejected:
            crash_point("deadletters.sent")
        self._unread.tell(decoded.unread)
        self._backlog.extend(decoded.rows)
        self._count_rejected(records, decoded.rejected)

    def _count_rejected(self, records: Sequence[Record], rejected: Sequence[RejectedRecord]) -> None:
        """Stop when this is plainly the wrong stream, all its letters delivered; a proven one is not ready instead."""
        try:
            self._limits.count(records, rejected)
        except ConfigurationError:
            self._outbox.flush(FLUSH_TIMEOUT_S)
            raise
        self._health.require("input", self._limits.trouble)
        self._metrics.put("streamsvm_input_mostly_rejected", bool(self._limits.trouble))

    def _is_proven(self) -> bool:
        """Tell whether this incarnation has enough valid points, those that wait to be learned included."""
        waiting = sum(int(rows.accepted.sum()) for rows in self._backlog)
        return self._learner.points_accepted + waiting >= self._settings.input.proven_after_points

    def _learn(self) -> None:
        """Learn the backlog until it ends or a cut falls due that nobody can take yet."""
        published = self._delivery.published_cut if self._catching_up else {}
        while not self._learner.cut_due or self._take_cut():
            if self._catching_up and not self._delivery.replaying(self._learner.positions):
                log.info("caught_up", version=self._delivery.next_number - 1)
                self._assign()
                return
            if not self._backlog:
                self._refuse_missing_end()
                return
            rows = self._backlog.popleft()
            known, begun = rows.index_of(self._learner.positions[rows.partition]), self._clock.monotonic()
            done = self._learner.learn(rows, until=published.get(rows.partition))
            self._freshness.learned(begun, self._clock.monotonic())
            crash_point("input.learned")
            self._count(rows.slice(known, done))
            self._held_peak = max(self._held_peak, self._points_held() + len(rows))
            rest = rows.slice(done, len(rows))
            if len(rest) and not (self._catching_up and self._reached(rows.partition)):
                if self._catching_up and not self._learner.cut_due:
                    goes_on = f"continues at offset {int(rest.offset[0])}"
                    refuse_gap(self._settings, self._delivery, self._learner, rows.partition, goes_on)
                self._backlog.appendleft(rest)

    def _refuse_missing_end(self) -> None:
        """Do not wait for the last records of the newest version's cut where the log ends without them."""
        if not self._catching_up or self._undecoded:
            return
        for partition in self._fetched:
            end, cut = self._input.seen_end(partition), self._delivery.published_cut[partition]
            if end is not None and Position(end) >= cut > self._learner.positions[partition]:
                ends = f"ends at offset {end}"
                refuse_gap(self._settings, self._delivery, self._learner, partition, ends)

    def _count(self, learned: Rows) -> None:
        self._quality.note(learned)
        if not self._catching_up:  # the version that scores has not learned them: it was cut before
            self._quality.score(learned)
        accepted = int(learned.accepted.sum())
        self._metrics.increase("streamsvm_input_rows", accepted, outcome="accepted")
        self._metrics.increase("streamsvm_input_rows", len(learned) - accepted, outcome="rejected")

    def _reached(self, partition: int) -> bool:
        return self._learner.positions[partition] >= self._delivery.published_cut[partition]

    def _take_cut(self) -> bool:
        """Materialise a due cut, or decline it if it was published before; False: it must wait for the worker."""
        if not self._delivery.admits(self._learner.positions):
            self._learner.decline_cut()
            self._freshness.emitted(None)
            return True
        if self._settings.training.policy == "every" and self._in_flight:
            return False
        if self._waiting is not None:
            self._metrics.increase("streamsvm_cuts_skipped")
        self._waiting = self._learner.cut()
        self._freshness.emitted(self._waiting)
        crash_point("cut.emitted")
        self._held_peak = max(self._held_peak, self._points_held())
        self._feed_worker()
        return True

    def _feed_worker(self) -> None:
        if self._waiting is not None and self._worker.training is None and self._unpublished is None:
            waiting, self._waiting = self._waiting, None
            self._trains_since = self._clock.monotonic()
            self._metrics.put("streamsvm_training_points", len(waiting.points))
            self._worker.submit(waiting, self._delivery.tuning)

    def _hold(self) -> None:
        """Wait, for the worker or for a schema, without reading; after a while pause the input, to serve its client."""
        now = self._clock.monotonic()
        if self._held_since is None:
            self._held_since = now
        if self._paused:
            self._read(1, 0.0)
        elif now - self._held_since > HOLD_BEFORE_PAUSE_S:
            self._input.pause()
            self._paused = True
        self._decode()
        self._collect(POLL_S)
        if self._undecoded and self._worker.training is None:
            self._stop.wait(POLL_S)

    def _release(self) -> None:
        self._held_since = None
        if self._paused:
            self._input.resume()
            self._paused = False

    # ---------------------------------------------------------------- publish

    @property
    def _in_flight(self) -> list[Cut]:
        """The cuts emitted and not yet settled, the newest first."""
        unpublished = self._unpublished.cut if self._unpublished else None
        return [cut for cut in (self._waiting, self._worker.training, unpublished) if cut is not None]

    def _collect(self, timeout_s: float) -> None:
        """Take a finished training and publish it; one in doubt is kept until the topic said what became of it."""
        if self._unpublished is None:
            self._unpublished = self._worker.take(timeout_s)
            if self._unpublished is not None:
                self._trains_since = None
                crash_point("cut.trained")
        elif timeout_s and not self._delivery.ready:
            self._stop.wait(timeout_s)
        if self._session.renew():
            self._versions.tell()
        result = self._unpublished
        if self._delivery.ready and result is not None and self._versions.publish(result):
            self._unpublished = None
            self._freshness.settled(result.cut, self._delivery.published_cut, self._in_flight, self._clock.monotonic())
            self._keeper.published(self._delivery.next_number - 1)
        self._health.require("publish", self._session.trouble)

    def _look_after_readers(self) -> None:
        """Settle where readers of committed records are held up, although nothing is to be published just now."""
        held_up = "" if self._cluster.embedded else self._standstill.turn()
        self._health.require("readers", held_up)
        if held_up:
            self._session.doubt(held_up)

    def _training_s(self) -> float:
        return 0.0 if self._trains_since is None else self._clock.monotonic() - self._trains_since

    def _look_after_training(self) -> None:
        """Say when a training takes so long that its thread must be stuck."""
        running_s = self._training_s()
        stuck = running_s > self._settings.training.stuck_after_s
        self._health.suspect("training", f"a model has been training for {running_s:.0f} s" if stuck else "")

    # ------------------------------------------------------------------ watch

    def _survey(self) -> None:
        """Look at the input topic now and then; new partitions are taken up once reading again is over."""
        added = self._surveyor.turn(self._learner.positions, self._reading)
        if added and not self._catching_up:
            self._take_up(dict(added))

    @property
    def _reading(self) -> dict[int, Position]:
        """Where reading stands: what is fetched is safe from retention, learned or not; so is what is passed over."""
        return {
            p: max(at, Position(max(self._fetched.get(p, 0), self._read_to.get(p, 0), self._input.seen_end(p) or 0)))
            for p, at in self._learner.positions.items()
        }

    def _pass_markers(self) -> None:
        """Note where reading goes on although no position does: past markers of transactions and aborted records."""
        positions = self._learner.positions
        for partition, fetched in self._fetched.items():
            end = self._input.seen_end(partition)
            learned = max(positions[partition], Position(self._read_to.get(partition, 0)))
            if end is not None and learned >= Position(fetched):
                self._read_to[partition] = end
        self._read_to = {p: offset for p, offset in self._read_to.items() if offset > positions[p].offset}

    def _take_up(self, added: dict[int, int]) -> None:
        """Learn new partitions from their first record on."""
        check_partitions(self._config, self._settings.input.topic, len(self._base) + len(added))
        starts = {partition: Position(first) for partition, first in added.items()}
        self._base = dict(sorted({**self._base, **starts}.items()))
        self._learner.extend(starts)
        log.info("partitions_added", partitions=sorted(added), first={str(p): first for p, first in added.items()})
        self._assign()

    # ------------------------------------------------------------- checkpoint

    def _save(self, flush_s: float = FLUSH_TIMEOUT_S) -> None:
        """Write a checkpoint; none passes a dead letter that is not acknowledged."""
        if self._sequence:
            self._outbox.flush(flush_s)
        self._sequence += 1
        self._pass_markers()
        self._saver.save(
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
                self._learner.state(),
                next(iter(self._in_flight), None),
                self._read_to,
            )
        )

    def _save_or_warn(self) -> None:
        try:
            self._save(SHORT_FLUSH_S)
        except TransientError as error:
            self._saver.failed(error)
            return
        self._show_progress()

    def _show_progress(self) -> None:
        """Commit group offsets, for observers."""
        self._input.commit({partition: at.offset for partition, at in self._learner.positions.items()})
        crash_point("offsets.committed")

    def _finish(self) -> None:
        """Save first, so that nothing hangs on the training; then publish all that is due, and save again."""
        self._save()
        while self._in_flight or self._learner.cut_due or self._versions.untold:
            self._health.beat()
            self._look_after_training()
            if self._learner.cut_due:
                self._take_cut()
            self._feed_worker()
            if not self._session.renew(at_once=True):
                log.warning(
                    "stopped_in_doubt",
                    next_version=self._delivery.next_number,
                    what=self._session.trouble,
                    remedy="the next start reads the topic, and publishes versions that are still due",
                )
                break
            self._collect(POLL_S)
        self._save()
        self._show_progress()
        crash_point("stop.saved")
        self._measure()
        log.info("stopped", next_version=self._delivery.next_number)

    def _points_held(self) -> int:
        """Count buckets, leaves, audit samples, the backlog, and the cuts that wait, train, or wait to be published."""
        in_flight = sum(cut.points_held for cut in self._in_flight)
        return self._learner.points_held + sum(len(rows) for rows in self._backlog) + in_flight

    def _measure(self) -> None:
        self._measured_at = self._clock.monotonic()
        self._pass_markers()
        positions, log_ranges = self._learner.positions, self._surveyor.log
        self._gauges.points(self._points_held(), self._held_peak)
        self._gauges.coreset(self._learner)
        self._quality.show()
        self._freshness.show()
        self._conditions.tell(self._learner.observed().counts())
        self._outliers.tell(self._learner.outliers())
        ahead = {p: self._read_to.get(p, at.offset) for p, at in positions.items()}
        self._gauges.lag({p: (offset, self._input.high_watermark(p)) for p, offset in ahead.items()})
        self._gauges.headroom({p: at.offset - log_ranges[p][0] for p, at in positions.items() if p in log_ranges})
        self._metrics.put("streamsvm_training_running_seconds", self._training_s())
        self._board.look(self._learner, self._clock.now(), self._clock.monotonic())

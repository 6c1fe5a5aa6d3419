"""The trainer: labeled points in at a topic, model versions out at another.

`streamsvm train` makes a `Trainer` of its settings and its `Components`, and calls `run`. This module is the main loop:
it decides when each part does its work, and leaves to the parts what the work is. Read it after
`consumers.trainer.life`, which lists the parts, and read `_turn` first: one call is one turn of the loop, and its
lines are in the order in which things must happen.

Three threads. The main thread reads, learns, decides what is published, and saves. The training thread
(`consumers.trainer.training_thread`) only trains, and another one only waits for the broker to commit a version
(`consumers.trainer.session`). So everything below runs in the main thread, and no lock is needed.

Who decides what
----------------
- What is learned, trained and published next: `streamsvm.delivery.pipeline.Pipeline`. It is given rows and results, and
  returns events; it does no I/O.
- Whether publishing is possible now: `streamsvm.delivery.machine.Delivery`, driven by `consumers.trainer.session`.
- How a start goes on: `consumers.trainer.beginning`, which makes a `Life` or raises.
- What comes in: `consumers.trainer.intake`. What is shown to people: `consumers.trainer.observer`.
- When to train, and how long to learn at a stretch: `consumers.trainer.pacing`. The clock decides in which order things
  are done, never what is learned: the same log gives the same versions on a slow machine.

What always holds
-----------------
The positions in a checkpoint are the truth. Group offsets are only shown to observers. A stop finishes the training
that runs, publishes its version, saves, and only then returns (`_finish`).

A gap in the input log (records gone, topic recreated) ends a life. With `input.on_gap = "reset"` the trainer then
closes everything and starts again within the same process, by the very steps of a fresh start, so that there is no
second, less tested way to begin.
"""

from __future__ import annotations

import os
import socket
import uuid
from contextlib import ExitStack, suppress
from typing import Final

import structlog

from consumers import constants
from consumers.host.memory_limit import shortage
from consumers.host.runtime import STALE_AFTER_S, STARTING
from consumers.settings import Settings
from consumers.streams.abandonable import Stopped
from consumers.trainer.beginning import begin
from consumers.trainer.components import Components
from consumers.trainer.life import Life
from consumers.trainer.observer import Observer
from consumers.trainer.pacing import LEARN_S, Pace
from consumers.trainer.publishing import Outcome
from streamsvm.checkpoint.directory import CheckpointDirectory
from streamsvm.checkpoint.disk import FileSystem
from streamsvm.crashpoints import crash_point
from streamsvm.delivery.events import CaughtUp, CutTaken, Refused, RowsLearned
from streamsvm.errors import LogGap, TransientError
from streamsvm.kafka import OffsetOutOfRange, Place
from streamsvm.registry.signing import Signer

log = structlog.get_logger("streamsvm.trainer")

POLL_S: Final = 0.1
"""How long a turn waits for records. Longer, and a stop or a finished training would wait for the poll."""
BUSY_POLL_S: Final = 0.01
"""While a model trains: how long its result may wait for the loop. Or a cut, once all is read that is known of."""
START_OVER_AFTER_S: Final = 1.0
"""Pause before a new life: without it a topic with a lasting gap would make the trainer start many times a second."""


class Trainer:
    """The daemon's life from its start to its stop.

    Parameters
    ----------
    settings : Settings
    components : Components
    reset : str
        What `--reset` said.
    session : str
        Names this process in what it publishes, with a number if it starts over; a random one by default.
    """

    def __init__(self, settings: Settings, components: Components, *, reset: str = "", session: str = "") -> None:
        self._settings = settings
        self._components = components
        self._health = components.health
        self._stop = components.stop
        self._reset = reset
        self._name = session or f"{os.getpid()}@{socket.gethostname()}#{uuid.uuid4().hex[:16]}"
        self._lives = 0
        self._signer = Signer.of(settings.output.signing_key_file)
        self._disk = components.disk or FileSystem(
            settings.checkpoint.directory, trusted=settings.checkpoint.trust_directory
        )
        self._observer = Observer(settings, components)
        share = 1.0 if settings.training.policy == "every" else constants.TRAINING_SHARE
        self._pace = Pace(share, components.clock.monotonic)

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
        """Run one life; return whether to start over, because `input.on_gap` asks for it."""
        try:
            self._live()
        except (LogGap, OffsetOutOfRange) as gap:
            if self._settings.input.on_gap == "fail" or self._stop.is_set():
                raise
            log.warning("starting_over", why=gap.what, remedy="no action needed: input.on_gap = reset asks for this")
            return True
        return False

    def _live(self) -> None:
        self._lives += 1
        passing = () if self._settings.input.on_gap == "fail" else (LogGap, OffsetOutOfRange)
        with ExitStack() as stack, self._health.failing(unless=passing):  # red before anything is closed
            for condition in ("start", "broker", "replay"):
                self._health.require(condition, STARTING)
            try:
                checkpoints = stack.enter_context(CheckpointDirectory(self._disk, constants.CHECKPOINTS))
                life = self._begin(stack, checkpoints)
            except Stopped:
                log.info("stopped", remedy="the trainer stopped before it took over the model; nothing was published")
                return
            stack.enter_context(self._components.cluster.keeping())  # what looks now and then need not log in each time
            self._health.require("start", "")
            try:
                while not self._stop.is_set():
                    self._turn(life)
            except (LogGap, OffsetOutOfRange) as gap:
                with suppress(TransientError):
                    life.confirm()  # a topic made again that is still shorter is named by both ids
                if isinstance(gap, OffsetOutOfRange):  # the reader knows no way out, the trainer does
                    raise LogGap(gap.what, life.identity.remedy) from gap
                raise
            # Not in a `finally`: after an error nothing may be published or saved by a life whose state is in question.
            log.info("stopping", remedy="the trainer waits for the model in training; a second signal stops it at once")
            self._finish(life)
            checkpoints.ended = life.delivery.session

    def _begin(self, stack: ExitStack, checkpoints: CheckpointDirectory) -> Life:
        # A new life has a new name in the owner record. It then takes the model from the former life of this process in
        # the same way in which any process takes it from any other.
        session = self._name if self._lives == 1 else f"{self._name}.{self._lives}"
        with self._components.cluster.keeping():
            life = begin(
                self._settings,
                self._components,
                checkpoints,
                stack,
                session=session,
                reset=self._reset,
                signer=self._signer,
            )
        self._observer.adopted(life)
        # Saved before anything is read: a start that fails from here on is repeated from this checkpoint, and need not
        # decide a second time how to begin.
        life.save_or_report()
        crash_point("start.saved")
        self._assign(life)
        self._observer.started(life)
        return life

    def _turn(self, life: Life) -> None:
        """Do one turn of the main loop; works or blocks at most about `POLL_S`, but for a publish or a slow disk."""
        self._health.beat()
        # First, whether this process may still work at all: as the model's owner.
        life.owner.turn()
        self._observer.turns()
        # A finished training is published before more is learned: a version should not wait for a batch of rows.
        self._collect(life, 0.0)
        out_of_time = self._learn(life)
        self._train(life)
        life.intake.refresh(may_train=self._pace.ready and not life.pipeline.in_flight)
        # If rows are still waiting to be learned, reading more would only make the backlog larger.
        if not out_of_time:
            self._take_in(life)
        life.intake.poll_letters()
        life.intake.look()
        self._survey(life)
        if not self._components.cluster.embedded:
            life.input_watch.turn(lambda: self._read_places(life))
        self._look_after_readers(life)
        for attachment in life.attachments.all:
            attachment.turn()
        # Last, so that a checkpoint contains all that this turn did.
        life.save_on()
        life.saver.watch()
        self._observer.look_after_training()
        self._observer.measure(life)

    def _take_in(self, life: Life) -> None:
        """Read, unless rows that were read before are not learned yet."""
        if life.pipeline.backlog or life.intake.waits_for_schema:
            self._hold(life)
        else:
            life.intake.release()
            self._read(life)

    def _read(self, life: Life) -> None:
        """Read, and note how long nothing, or not enough, came."""
        most, clock = constants.BATCH_RECORDS, self._components.clock.monotonic
        begun, pipeline = clock(), life.pipeline
        is_busy = pipeline.training or life.session.sending
        if not is_busy and pipeline.in_flight:  # a cut that waits is trained when nothing comes
            is_busy = pipeline.has_read(life.intake.high_watermarks)
        came = life.intake.read(most, BUSY_POLL_S if is_busy else POLL_S)
        if came < most:
            self._pace.waited(clock() - begun, came=came)

    def _assign(self, life: Life) -> None:
        """Read on from the learner's positions; while behind the head, only the partitions that are behind."""
        assigned = life.pipeline.assign(life.intake.ends)
        life.intake.assign(assigned.offsets)
        self._observer.note(assigned, life)

    def _learn(self, life: Life) -> bool:
        """Learn the rows that wait, until a due cut must wait; return whether the time of a turn ran out before."""
        clock = self._components.clock.monotonic
        self._observer.looks()
        begun = clock()
        until = begun + LEARN_S
        for event in life.pipeline.learn():
            self._observer.note(event, life, begun)
            if isinstance(event, RowsLearned):
                crash_point("input.learned")
                life.quality.learned(event.rows, again=event.again)
            elif isinstance(event, CutTaken):
                # At once, not at the end of the turn: the training thread may be idle, and learning goes on beside it.
                crash_point("cut.emitted")
                self._train(life)
            elif isinstance(event, CaughtUp):
                # Until now only the partitions behind the head were read; from here on all are.
                self._assign(life)
                return False
            begun = clock()
            if begun >= until:
                return True
        if life.pipeline.reads_again and not life.intake.waits_for_schema:
            life.pipeline.refuse_missing_end(life.intake.ends)
        return False

    def _train(self, life: Life, *, at_once: bool = False) -> None:
        """Hand the waiting cut to the training thread, if the thread is free and its share of time allows it."""
        if not (at_once or self._pace.ready):
            return
        cut = life.pipeline.next_training()
        if cut is not None:
            self._pace.begin()
            self._observer.training()
            life.worker.submit(cut, life.delivery.tuning)

    def _hold(self, life: Life) -> None:
        """Wait for the training thread, or for a schema, without reading."""
        life.intake.hold()
        self._collect(life, POLL_S)
        if life.intake.waits_for_schema and not life.pipeline.training:
            self._stop.wait(POLL_S)

    def _collect(self, life: Life, timeout_s: float) -> None:
        """Publish a finished training; a result whose publishing is in doubt is kept until the topic shows its fate."""
        pipeline, delivery = life.pipeline, life.delivery
        if life.session.sending:
            self._settle(life, life.versions.ended(timeout_s))
        elif pipeline.unpublished is None:
            made = life.worker.take(timeout_s)
            if made is not None:
                pipeline.trained(made)
                self._pace.end()
                self._observer.trained(made)
                crash_point("cut.trained")
        elif timeout_s and not delivery.ready:
            # A result is in doubt and no other can be in training: without this wait the loop would spin.
            self._stop.wait(timeout_s)
        if life.session.renew():
            life.versions.write_pending()
        if delivery.ready and pipeline.unpublished is not None:
            self._publish(life)
        self._look_after_publishing(life)

    def _publish(self, life: Life) -> None:
        pipeline = life.pipeline
        assert pipeline.unpublished is not None
        try:
            # Only now, after the newest row of the version was fetched. If the topic had been recreated before that,
            # the broker would report another id, and the version would mix rows of two topics.
            life.confirm()
        except TransientError as error:
            life.session.unconfirmed(error)
            return
        event = life.versions.begin(pipeline.unpublished, life.topic_id, pipeline.base)
        self._settle(life, life.versions.ended(0.0) if life.session.sending else event)

    def _settle(self, life: Life, event: Outcome | None) -> None:
        """Note what became of a version, once that is known."""
        if event is None:
            return
        life.pipeline.settled()
        self._observer.note(event, life)
        if isinstance(event, Refused):
            life.versions.write_pending()
        life.keeper.published(life.delivery.next_number - 1)

    def _look_after_publishing(self, life: Life) -> None:
        """Report why nothing can be published, a transaction that takes long, and one that must be stuck."""
        sending_s = life.session.sending_s
        slow = f"a transaction has been under way for {sending_s:.0f} s" if sending_s > STALE_AFTER_S else ""
        self._health.require("publish", life.session.trouble or slow)
        # The loop goes on beside a call that never returns: its beats say nothing of that one.
        self._health.suspect("publish", slow if sending_s > self._health.stuck_after_s else "")

    def _look_after_readers(self, life: Life) -> None:
        """Settle where readers of committed records are blocked, although nothing is to be published just now."""
        blocked = "" if self._components.cluster.embedded else life.standstill.turn()
        self._health.require("readers", blocked)
        if blocked:
            life.session.doubt(blocked)

    def _read_places(self, life: Life) -> list[Place]:
        """Return what is read: the input's partitions, and those of the labels' topic where there is one."""
        topics = (self._settings.input.topic, self._settings.labels_topic)
        return [(topic, partition) for topic in topics if topic for partition in life.intake.surveyed()[1]]

    def _survey(self, life: Life) -> None:
        """Look at the input topic now and then; new partitions are taken up once reading again is over."""
        pipeline = life.pipeline
        added = life.surveyor.turn(life.intake.surveyed)
        if added:
            life.intake.admit(added)
        if added and not pipeline.reads_again:
            pipeline.extend(added)
            if short := shortage(life.config, len(pipeline.base), self._components.memory_limit()):
                log.warning("memory_short", what=short, remedy="give the container more memory")
            self._health.require("memory", short)
            log.info("partitions_added", partitions=sorted(added), first={str(p): at for p, at in added.items()})
            self._assign(life)

    def _finish(self, life: Life) -> None:
        """Save first, so that nothing hangs on the training; then publish all that is due, and save again."""
        life.intake.end()
        life.save_or_report()
        while life.pipeline.in_flight or life.pipeline.learner.cut_due or life.versions.has_pending_entries:
            self._health.beat()
            self._observer.look_after_training()
            event = life.pipeline.take_due_cut()
            if event is not None:
                self._observer.note(event, life)
            if isinstance(event, CutTaken):
                crash_point("cut.emitted")
            self._train(life, at_once=True)
            if not (life.session.sending or life.session.renew(at_once=True)):
                log.warning(
                    "stopped_in_doubt",
                    next_version=life.delivery.next_number,
                    what=life.session.trouble,
                    remedy="the next start reads the topic, and publishes versions that are still due",
                )
                break
            self._collect(life, POLL_S)
        life.save()
        life.show_progress()
        crash_point("stop.saved")
        self._observer.measure(life, at_once=True)
        log.info("stopped", next_version=life.delivery.next_number)

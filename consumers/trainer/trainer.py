"""The trainer: labeled points in at a topic, model versions out at another.

One thread polls, learns, publishes and saves; a second one trains. Positions in the checkpoint are the truth, group
offsets are for observers. What is learned, trained and published next is `streamsvm.delivery.Pipeline`; a start is made
in `consumers.trainer.beginning`, what comes in passes `consumers.trainer.intake`, and the loop that drives them stands
here.

A gap in the input log ends the loop. Under `input.on_gap = reset` the trainer then lets go of everything and starts
over in process, by the very steps of a fresh start: the table decides, and nothing of the old life is left.
"""

from __future__ import annotations

import uuid
from contextlib import ExitStack, suppress
from typing import Final

import structlog

from consumers.settings import Settings
from consumers.streams.abandonable import Stopped
from consumers.trainer.attachment import StartOver
from consumers.trainer.beginning import begin
from consumers.trainer.components import Components
from consumers.trainer.life import Life
from consumers.trainer.observer import Observer
from consumers.trainer.pacing import LEARN_S, Pace
from consumers.trainer.standing_by import LOST, Turn, TurnLost
from consumers.trainer.startup import check_partitions
from consumers.trainer.warming import warm_up
from streamsvm.checkpoint.directory import CheckpointDirectory
from streamsvm.checkpoint.disk import FileSystem
from streamsvm.crashpoints import crash_point
from streamsvm.delivery.events import CaughtUp, CutTaken, Refused, RowsLearned
from streamsvm.errors import Fenced, LogGap, StateError, TransientError
from streamsvm.kafka import OffsetOutOfRange
from streamsvm.registry.signing import Signer

log = structlog.get_logger("streamsvm.trainer")

POLL_S: Final = 0.1
BUSY_POLL_S: Final = 0.01
"""While a model trains: how long its result may wait for the loop."""
START_OVER_AFTER_S: Final = 1.0


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
        self._name = session or uuid.uuid4().hex
        self._lives = 0
        self._signer = Signer.of(settings.output.signing_key_file)
        self._disk = components.disk or FileSystem(
            settings.checkpoint.directory, trusted=settings.checkpoint.trust_directory
        )
        self._observer = Observer(settings, components)
        share = 1.0 if settings.training.policy == "every" else settings.training.share
        self._pace = Pace(share, components.clock.monotonic)
        self._turn_to_train: Turn | None = None

    def run(self) -> None:
        """Start, work until stopped, stop.

        Raises
        ------
        StreamsvmError
            If it cannot start, or cannot go on; whatever was published stays published.
        """
        self._components.metrics.put("streamsvm_standby", 0)
        with ExitStack() as stack:
            if self._settings.training.standby and not self._takes_its_turn(stack):
                log.info("stopped", remedy="the trainer stopped while it stood by; nothing was published")
                return
            try:
                while self._ends_in_gap() and not self._stop.wait(START_OVER_AFTER_S):
                    pass
            except Fenced as fenced:
                if self._turn_to_train is None:
                    raise
                raise TurnLost(fenced.what, LOST) from fenced

    def _takes_its_turn(self, stack: ExitStack) -> bool:
        """Stand by, compiled, until no other copy works; return whether it is this one's turn, and not the stop's."""
        parts = self._components
        with self._health.failing():
            try:
                warm_up(self._settings, parts)
            except Stopped:
                return False
            self._turn_to_train = Turn(
                self._settings, parts.cluster, parts.metrics, self._health, self._stop, parts.clock
            )
            stack.callback(self._turn_to_train.close)
            return self._turn_to_train.wait()

    def _ends_in_gap(self) -> bool:
        """Live once; return whether to start over: a branch says so, or the configuration does after a gap."""
        try:
            self._live()
        except StartOver as why:
            log.info(
                "starting_over", why=str(why), remedy="no action needed: the trainer begins without what was taken"
            )
            return True
        except (LogGap, OffsetOutOfRange) as gap:
            if self._settings.input.on_gap == "fail" or self._stop.is_set():
                raise
            log.warning("starting_over", why=gap.what, remedy="no action needed: input.on_gap = reset asks for this")
            return True
        return False

    def _live(self) -> None:
        self._lives += 1
        passing: tuple[type[Exception], ...] = (StartOver,)
        if self._settings.input.on_gap != "fail":
            passing = (*passing, LogGap, OffsetOutOfRange)
        with ExitStack() as stack, self._health.failing(unless=passing):  # red before anything is closed
            for condition in ("start", "broker", "replay"):
                self._health.require(condition, "starting")
            try:
                life = self._begin(stack)
            except Stopped:
                log.info("stopped", remedy="the trainer stopped before it took over the model; nothing was published")
                return
            self._health.require("start", "")
            try:
                while not self._stop.is_set():
                    self._turn(life)
            except (LogGap, OffsetOutOfRange):
                with suppress(TransientError):
                    life.confirm()  # a topic made again that is still shorter is named by both ids
                raise
            log.info("stopping", remedy="the trainer waits for the model in training; a second signal stops it at once")
            self._finish(life)

    def _begin(self, stack: ExitStack) -> Life:
        checkpoints = stack.enter_context(self._locked())
        # Who starts over takes the model from its owner, its own former life, as a new process does.
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
        life.save()
        crash_point("start.saved")
        for part in life.parts:
            part.began(checkpoints)
        self._assign(life)
        self._observer.started(life)
        return life

    def _locked(self) -> CheckpointDirectory:
        """Take the checkpoint directory; a copy whose turn it is waits for one that still holds it."""
        while True:
            try:
                return CheckpointDirectory(self._disk, self._settings.checkpoint.generations)
            except StateError as taken:
                if self._turn_to_train is None:
                    raise
                if self._turn_to_train.wait_for_frozen(taken):
                    raise Stopped from taken

    def _turn(self, life: Life) -> None:
        """Do one round of the main loop; works or blocks at most about `POLL_S`, but for a publish or a slow disk."""
        self._health.beat()
        if self._turn_to_train is not None:
            self._turn_to_train.check()
        life.owner.turn()
        self._observer.turns()
        self._collect(life, 0.0)
        out_of_time = self._learn(life)
        self._train(life)
        life.intake.refresh(may_train=self._pace.ready and not life.pipeline.in_flight)
        if not out_of_time:
            self._take_in(life)
        life.intake.poll_letters()
        life.intake.look()
        self._survey(life)
        self._look_after_readers(life)
        for part in life.parts:
            won = part.turn()
            if won is not None:
                self._observer.promoted(won)
        life.save_on()
        life.saver.watch()
        self._observer.look_after_training()
        self._observer.measure(life)

    def _take_in(self, life: Life) -> None:
        """Read, unless what was read before still waits."""
        if life.pipeline.backlog or life.intake.waits_for_schema:
            self._hold(life)
        else:
            life.intake.release()
            self._read(life)

    def _read(self, life: Life) -> None:
        """Read, and note how long nothing, or not enough, came."""
        most, clock = self._settings.input.batch_records, self._components.clock.monotonic
        begun = clock()
        came = life.intake.read(most, BUSY_POLL_S if life.pipeline.training else POLL_S)
        if came < most:
            self._pace.waited(clock() - begun, came=came)

    def _assign(self, life: Life) -> None:
        """Read on from the learner's positions; while behind the head, only the partitions that are behind."""
        assigned = life.pipeline.assign(life.intake.ends)
        life.intake.assign(assigned.offsets)
        self._observer.note(assigned, life)

    def _learn(self, life: Life) -> bool:
        """Learn what waits, until a cut falls due that nobody can take yet; tell whether time ran out before."""
        clock = self._components.clock.monotonic
        self._observer.looks()
        begun = clock()
        until = begun + LEARN_S
        for event in life.pipeline.learn():
            self._observer.note(event, life, begun)
            if isinstance(event, RowsLearned):
                crash_point("input.learned")
                life.quality.learned(event.rows, again=event.again)
                for part in life.parts:
                    part.learned(event.rows)
            elif isinstance(event, CutTaken):
                crash_point("cut.emitted")
                self._train(life)
            elif isinstance(event, CaughtUp):
                self._assign(life)
                return False
            begun = clock()
            if begun >= until:
                return True
        if life.pipeline.reads_again and not life.intake.waits_for_schema:
            life.pipeline.refuse_missing_end(life.intake.ends)
        return False

    def _train(self, life: Life, *, at_once: bool = False) -> None:
        """Hand the cut that waits to the training thread, if that is free and not to rest."""
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
        """Take a finished training and publish it; one in doubt is kept until the topic said what became of it."""
        pipeline, delivery = life.pipeline, life.delivery
        if pipeline.unpublished is None:
            made = life.worker.take(timeout_s)
            if made is not None:
                pipeline.trained(made)
                self._pace.end()
                self._observer.trained(made)
                crash_point("cut.trained")
        elif timeout_s and not delivery.ready:
            self._stop.wait(timeout_s)
        if life.session.renew():
            life.versions.write_pending()
        if delivery.ready and pipeline.unpublished is not None:
            self._publish(life)
        self._health.require("publish", life.session.trouble)

    def _publish(self, life: Life) -> None:
        pipeline = life.pipeline
        assert pipeline.unpublished is not None
        try:
            # Only now: a version counts if the topic was asked for its id after its newest row was fetched.
            life.confirm()
        except TransientError as error:
            life.session.unconfirmed(error)
            return
        event = life.versions.publish(pipeline.unpublished, life.topic_id, pipeline.base)
        if event is None:
            return
        pipeline.settled()
        self._observer.note(event, life)
        if isinstance(event, Refused):
            life.versions.write_pending()
        life.keeper.published(life.delivery.next_number - 1)

    def _look_after_readers(self, life: Life) -> None:
        """Settle where readers of committed records are blocked, although nothing is to be published just now."""
        blocked = "" if self._components.cluster.embedded else life.standstill.turn()
        self._health.require("readers", blocked)
        if blocked:
            life.session.doubt(blocked)

    def _survey(self, life: Life) -> None:
        """Look at the input topic now and then; new partitions are taken up once reading again is over."""
        pipeline = life.pipeline
        added = life.surveyor.turn(life.intake.surveyed)
        if added:
            life.intake.admit(added)
        if added and not pipeline.reads_again:
            check_partitions(life.config, self._settings.input.topic, len(pipeline.base) + len(added))
            pipeline.extend(added)
            log.info("partitions_added", partitions=sorted(added), first={str(p): at for p, at in added.items()})
            self._assign(life)

    def _finish(self, life: Life) -> None:
        """Save first, so that nothing hangs on the training; then publish all that is due, and save again."""
        life.intake.end()
        life.save()
        while life.pipeline.in_flight or life.pipeline.learner.cut_due or life.versions.has_pending_entries:
            self._health.beat()
            self._observer.look_after_training()
            event = life.pipeline.take_due_cut()
            if event is not None:
                self._observer.note(event, life)
            if isinstance(event, CutTaken):
                crash_point("cut.emitted")
            self._train(life, at_once=True)
            if not life.session.renew(at_once=True):
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

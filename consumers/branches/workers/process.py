"""A worker process: reads, decodes and learns its partitions, and hands them over when the trainer asks.

`python -m consumers.branches.workers.process FD`, started by a trainer and by nobody else: FD is the inherited end of a
pair of sockets. Settings come over it, so that no secret stands on a command line.

It ends with the trainer: when the other end of its socket is gone. Signals are left to the trainer, which finishes what
is in training first.
"""

from __future__ import annotations

import os
import queue
import signal
import socket
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Final

import structlog

from consumers import constants
from consumers.branches.workers.messages import (
    ERRORS,
    NOTHING_VALID,
    Assign,
    Channel,
    Counted,
    Failed,
    Handed,
    Late,
    Newest,
    Prepare,
    Progress,
    Ready,
    Rejected,
    Report,
    Show,
    States,
    ToWorker,
    newest_of,
    to_worker,
)
from consumers.host.exit_codes import EXIT_CLEAN, EXIT_UNFORESEEN, exit_code
from consumers.host.runtime import Health, configure_logging, schemas_of, spare_the_collector
from consumers.metrics import TRAINER, Metrics
from consumers.settings import Settings
from consumers.streams.dead_letters import DeadLetters
from consumers.trainer import kernels
from consumers.trainer.intake import Intake
from consumers.trainer.pacing import LEARN_S
from streamsvm.branches.workers.handing import Receiver, Sender
from streamsvm.delivery.events import CaughtUp, RowsLearned
from streamsvm.delivery.reading import FixedGoal, Reading
from streamsvm.errors import StateError, StreamsvmError, TransientError
from streamsvm.ingest.decoder import PointDecoder
from streamsvm.kafka import Cluster, Connection
from streamsvm.learning.cutting import LearnerState
from streamsvm.learning.learner import Learner
from streamsvm.learning.training import limited
from streamsvm.points import Position, Rows

log = structlog.get_logger("streamsvm.worker")

POLL_S: Final = 0.05
REPORT_EVERY_S: Final = 0.1
"""Between two messages of how far a worker is, while it learns."""
IDLE_REPORT_EVERY_S: Final = 1.0
NEWEST_ROWS: Final = 500
"""Most rows of a partition that one such message carries: what the trainer scores, and its gate judges by."""
NEVER: Final = 1 << 62
"""Leaves after which a cut falls due in a worker: cuts are the trainer's."""


class ForwardedMetrics(Metrics):
    """Metrics that are kept here, and whose changes are handed on."""

    def __init__(self) -> None:
        super().__init__(TRAINER)
        self._increased: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        self._put: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        self._observed: list[Counted] = []

    def increase(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Add to a counter."""
        super().increase(name, amount, **labels)
        key = name, tuple(sorted(labels.items()))
        self._increased[key] = self._increased.get(key, 0.0) + amount

    def put(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        super().put(name, value, **labels)
        self._put[name, tuple(sorted(labels.items()))] = value

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Add an observation to a histogram."""
        super().observe(name, value, **labels)
        self._observed.append(Counted("observe", name, labels, value))

    def changes(self) -> list[Counted]:
        """Return what changed since the last call."""
        found = [Counted("increase", name, dict(labels), by) for (name, labels), by in self._increased.items() if by]
        found += [Counted("put", name, dict(labels), float(value)) for (name, labels), value in self._put.items()]
        found += self._observed
        self._increased, self._put, self._observed = {}, {}, []
        return found


class NewestRowsByPartition:
    """The newest rows of each partition since the last look, so many as a message carries."""

    def __init__(self) -> None:
        self._parts: dict[int, deque[Rows]] = {}

    def note(self, rows: Rows) -> None:
        """Take in rows that were learned."""
        parts = self._parts.setdefault(rows.partition, deque())
        parts.append(rows.slice(max(0, len(rows) - NEWEST_ROWS), len(rows)).detached())
        count = sum(map(len, parts))
        while count - len(parts[0]) >= NEWEST_ROWS:
            count -= len(parts.popleft())

    def take(self) -> list[Newest]:
        """Return them, and forget them."""
        found = []
        for parts in self._parts.values():
            rows = Rows.union(list(parts))
            found.append(newest_of(rows.slice(max(0, len(rows) - NEWEST_ROWS), len(rows))))
        self._parts = {}
        return found


class Work:
    """The partitions of one worker, and the loop that learns them.

    Parameters
    ----------
    channel : Channel
    prepare : Prepare
    stack : ExitStack
        What is opened is closed there.
    """

    def __init__(self, channel: Channel, prepare: Prepare, stack: ExitStack) -> None:
        self._channel, self._prepare, self._stack = channel, prepare, stack
        self._settings = Settings(**prepare.settings)
        self._metrics = ForwardedMetrics()
        self._health = Health(stuck_after_s=constants.STUCK_AFTER_S)
        self._connection = Connection(
            options=prepare.kafka,
            client_id=prepare.client_id,
            embedded=prepare.embedded,
        )
        self._inbox: queue.SimpleQueue[ToWorker | None] = queue.SimpleQueue()
        self._newest = NewestRowsByPartition()
        self._sender, self._receiver = Sender(), Receiver()
        self._reading: Reading | None = None
        self._intake: Intake | None = None
        self._idle = self._was_idle = self._waits = False
        self._reported_at = self._cpu_s = 0.0

    def run(self) -> None:
        """Prepare, then learn until the trainer is gone."""
        self._stack.enter_context(limited(self._settings.models().svm))
        kernels.prepare(self._settings.models(), registry=bool(self._settings.registry.url))
        threading.Thread(target=self._listen, name="listening", daemon=True).start()
        self._channel.send(Ready())
        while self._obey():
            self._turn()

    def _listen(self) -> None:
        try:
            while True:
                self._inbox.put(to_worker(self._channel.receive()))
        except EOFError:
            self._inbox.put(None)

    def _obey(self) -> bool:
        """Do what the trainer requested; return whether it is still there."""
        block = self._intake is None
        while True:
            try:
                message = self._inbox.get(block=block, timeout=POLL_S if block else None)
            except queue.Empty:
                return True
            block = False
            match message:
                case Assign():
                    self._assign(message)
                case Report():
                    self._report(message)
                case Show():
                    if self._intake is not None:
                        self._intake.show_progress()
                case _:
                    return False

    # ------------------------------------------------------------- beginning

    def _assign(self, message: Assign) -> None:
        if self._reading is None:
            self._begin(message)
        reading, intake = self._reading, self._intake
        assert reading is not None
        assert intake is not None
        learner = reading.learner
        learner.extend({partition: Position(*at) for partition, at in message.bases.items()})
        states = {one.partition: self._receiver.decode(one.partition, one.buckets, one.value) for one in message.states}
        if states:
            learner.restore(LearnerState(states, 0))
        reading.begin(
            FixedGoal(
                {partition: Position(*at) for partition, at in message.published_cut.items()}, message.next_number
            ),
            read_to=message.read_to,
            points_elsewhere=message.points_elsewhere,
        )
        assigned = reading.assign(intake.ends)
        intake.assign({} if message.ends else assigned.offsets)
        self._waits = message.ends
        self._send_progress(at_once=True)

    def _begin(self, message: Assign) -> None:
        """Make what needs the settings as they go on from the checkpoint."""
        settings = Settings(**message.settings)
        config = settings.models()
        if config.sha256() != message.configuration_sha256:
            raise StateError(
                f"worker {self._prepare.number} has the configuration {config.sha256()}, the trainer "
                f"{message.configuration_sha256}",
                "This is a defect: report it. With training.workers = 1 the trainer works without workers.",
            )
        cluster, topic = Cluster(self._connection), settings.input.topic
        schemas = self._stack.enter_context(schemas_of(settings))
        letters = DeadLetters(settings.name, topic, settings.input.dead_letters, self._metrics, time.monotonic)
        letters.fit(cluster.describe(settings.input.dead_letters), cluster.max_message_bytes)
        outbox = cluster.outbox(patience_s=None)
        self._stack.callback(outbox.close)
        reader = cluster.input(topic, f"streamsvm-{settings.name}")
        self._stack.callback(reader.close)
        self._settings, self._cpu_s = settings, time.process_time()
        self._reading = Reading(FixedGoal(), Learner(config, {}, NEVER), name=settings.name, topic=topic)
        self._intake = Intake(
            settings,
            self._reading,
            reader=reader,
            outbox=outbox,
            dead_letters=letters,
            decoder=PointDecoder(config.points, schemas=schemas, recipe=config.recipe),
            metrics=self._metrics,
            health=self._health,
            monotonic=time.monotonic,
            clock=lambda: datetime.now(UTC),
            left_out={p: frozenset(Position(*at) for at in own) for p, own in message.left_out.items()},
        )

    # --------------------------------------------------------------- learning

    def _turn(self) -> None:
        reading, intake = self._reading, self._intake
        if reading is None or intake is None:
            return
        self._health.beat()
        self._learn(reading, intake)
        if self._waits or intake.waits_for_schema:
            intake.hold()
            self._idle = True
            time.sleep(POLL_S)
        elif reading.backlog:
            self._idle = False  # the next turn goes on learning
        else:
            intake.release()
            self._idle = not intake.read(constants.BATCH_RECORDS, POLL_S)
        intake.poll_letters()
        self._send_progress()

    def _learn(self, reading: Reading, intake: Intake) -> None:
        learner = reading.learner
        begun, sealed = time.monotonic(), learner.leaves_sealed
        until = begun + LEARN_S
        for event in reading.learn():
            if isinstance(event, CaughtUp):
                # The newest version's cut is reached here; others may still be behind it.
                self._waits = True
                return
            assert isinstance(event, RowsLearned)
            accepted = int(event.rows.accepted.sum())
            self._metrics.increase("streamsvm_input_rows", accepted, outcome="accepted")
            self._metrics.increase("streamsvm_input_rows", event.rows.rejected, outcome="rejected")
            if not event.again and len(event.rows):
                self._newest.note(event.rows)
            now, leaves = time.monotonic(), learner.leaves_sealed - sealed
            for _ in range(leaves):
                self._metrics.observe("streamsvm_coreset_reduce_seconds", (now - begun) / leaves)
            begun, sealed = now, sealed + leaves
            if now >= until:
                return
        if not intake.waits_for_schema:
            reading.refuse_missing_end(intake.ends)

    # ---------------------------------------------------------------- telling

    def _send_progress(self, *, at_once: bool = False) -> None:
        now = time.monotonic()
        due = IDLE_REPORT_EVERY_S if self._idle and self._was_idle else REPORT_EVERY_S
        if not at_once and now - self._reported_at < due:
            return
        reading, intake = self._reading, self._intake
        assert reading is not None
        assert intake is not None
        self._reported_at, self._was_idle = now, self._idle
        cpu_s, self._cpu_s = time.process_time() - self._cpu_s, time.process_time()
        self._metrics.increase("streamsvm_worker_cpu_seconds", cpu_s, worker=str(self._prepare.number))
        learner = reading.learner
        reading.pass_markers(intake.ends)
        self._channel.send(
            Progress(
                positions={partition: (*at,) for partition, at in learner.positions.items()},
                ahead=reading.ahead,
                fetched=dict(reading.fetched),
                watermarks=dict(intake.high_watermarks),
                leaves=learner.leaves_since_cut,
                rows=learner.rows,
                points_held=learner.points_held + sum(map(len, reading.backlog)),
                idle=self._idle,
                waiting_for=self._waiting_for(),
                counted=self._metrics.changes(),
                newest=self._newest.take(),
                rejected=_rejected(intake),
                valid=reading.points_accepted() > 0,
                nothing_valid=intake.nothing_valid,
            )
        )

    def _waiting_for(self) -> dict[str, str]:
        waiting: Mapping[str, str] = self._health.ready()[1]["waiting_for"]
        return {condition: why for condition, why in waiting.items() if condition not in ("start", "loop")}

    def _report(self, message: Report) -> None:
        """Hand over what was learned; what goes before it in the log was reported before."""
        reading, intake = self._reading, self._intake
        if reading is None or intake is None:
            self._channel.send(Late(message.ticket, "the worker is not assigned yet", ""))
            return
        if message.settle and intake.nothing_valid and not message.valid:
            self._send_progress(at_once=True)
            self._channel.send(Late(message.ticket, NOTHING_VALID, ""))
            return
        try:
            if message.settle:
                intake.flush(message.timeout_s)
        except TransientError as error:
            self._channel.send(Late(message.ticket, error.what, error.remedy))
            return
        self._send_progress(at_once=True)
        reading.pass_markers(intake.ends)
        learner = reading.learner
        leaves = learner.leaves_since_cut
        learner.decline_cut()
        handed = []
        for partition, state in learner.state().partitions.items():
            buckets, value = self._sender.encode(partition, state)
            handed.append(Handed(partition=partition, buckets=buckets, value=value))
        self._channel.send(
            States(
                ticket=message.ticket,
                partitions=handed,
                leaves=leaves,
                read_to=dict(reading.read_to),
                observed=learner.observed(),
                outliers=learner.outliers(),
                clipped=learner.rows_clipped - learner.outliers().rows,
            )
        )


def _rejected(intake: Intake) -> Rejected | None:
    newest = intake.newest_rejected
    if newest is None:
        return None
    first = newest.rejections[0]
    return Rejected(
        partition=newest.record.partition,
        offset=newest.record.offset,
        row=first.row,
        reason=first.reason,
        what=first.what,
    )


def serve(channel: Channel) -> int:
    """Work until the trainer is gone; return the exit status."""
    try:
        prepare = to_worker(channel.receive())
        assert isinstance(prepare, Prepare)
        configure_logging(Settings(**prepare.settings).log)
        with ExitStack() as stack:
            Work(channel, prepare, stack).run()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return EXIT_CLEAN
    except StreamsvmError as error:
        kind = next(base.__name__ for base in type(error).__mro__ if base.__name__ in ERRORS)
        return _last(channel, Failed(kind, error.what, error.remedy), exit_code(error))
    except Exception as error:  # noqa: BLE001 - a defect, told with its traceback by the trainer
        what = f"unexpected {type(error).__name__}: {error}"
        return _last(channel, Failed("", what, traceback.format_exc()), EXIT_UNFORESEEN)
    return EXIT_CLEAN


def _last(channel: Channel, failed: Failed, status: int) -> int:
    try:
        channel.send(failed)
    except OSError:  # the trainer is gone, too
        log.error("worker_failed", what=failed.what, remedy=failed.remedy)
    return status


def main() -> None:
    """Run a worker on the inherited socket."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    spare_the_collector()
    status = serve(Channel(socket.socket(fileno=int(sys.argv[1]))))
    sys.stderr.flush()
    # Threads of clients may be blocked on a broker that is gone; nothing here is left to be saved.
    os._exit(status)


if __name__ == "__main__":
    main()

"""The trainer's side of its workers: starts them, sends them where to learn on, and adopts what they learned.

To the trainer's loop it stands where `consumers.trainer.intake` stands otherwise. What a worker tells some times a
second is for people; states come when they are asked for: when enough leaves were completed for a cut that may be
trained now, when the newest version's cut is reached again, and before a checkpoint. They are adopted together, once
all workers have answered.

Invariant: a checkpoint follows an answer of every worker after its dead letters were stored, so none passes a letter
that is not.
"""

from __future__ import annotations

import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn

import structlog

import consumers
from consumers import constants
from consumers.branches.workers.messages import (
    ERRORS,
    NOTHING_VALID,
    Assign,
    Channel,
    Failed,
    FromWorker,
    Handed,
    Late,
    Prepare,
    Progress,
    Ready,
    Report,
    Show,
    States,
    from_worker,
    rows_of,
)
from consumers.branches.workers.recordless import Recordless
from consumers.branches.workers.settings import TrainingByWorkers
from consumers.host.runtime import Health
from consumers.metrics import Metrics
from consumers.settings import Settings
from consumers.streams.ports import Stop
from consumers.trainer.intake import NothingValid
from streamsvm.branches.workers.combiner import WorkerReport, adopt, combiner_of
from streamsvm.branches.workers.handing import Receiver, Sender
from streamsvm.delivery.pipeline import Pipeline
from streamsvm.delivery.reading import Goal
from streamsvm.errors import TransientError
from streamsvm.ingest.row_builder import RejectedRecord, Rejection
from streamsvm.kafka import Connection, Record
from streamsvm.learning.partition_state import PartitionState
from streamsvm.model.left_out import Places
from streamsvm.points import Position, Positions, Rows
from streamsvm.sections import section

log = structlog.get_logger("streamsvm.trainer")

START_S: Final = 600.0
"""How long a worker may take to prepare: everything is compiled already, and a machine may be busy."""
END_S: Final = 5.0
"""How long a worker may take to end once its socket is closed; then it is killed."""
LOOK_S: Final = 0.2


def owner(partition: int, workers: int) -> int:
    """Return the number of the worker that owns a partition."""
    return partition % workers


class Hand:
    """One worker process, seen from the trainer.

    Parameters
    ----------
    number, workers : int
    settings : Settings
    connection : Connection
    inbox : queue
        Where its messages are put, with its number; None once it is gone.
    """

    def __init__(
        self,
        number: int,
        workers: int,
        settings: Settings,
        connection: Connection,
        inbox: queue.SimpleQueue[tuple[int, bytes | None]],
    ) -> None:
        self.number = number
        self._inbox = inbox
        own, its = socket.socketpair()
        with its:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, and a module of ours
                [sys.executable, "-m", "consumers.branches.workers.process", str(its.fileno())],
                pass_fds=[its.fileno()],
                env=environment(),
                stdin=subprocess.DEVNULL,
            )
        self._channel = Channel(own)
        self.send(
            Prepare(
                number=number,
                workers=workers,
                settings=plain(settings),
                kafka=dict(connection.options),
                client_id=f"{connection.client_id}-{number}",
                embedded=connection.embedded,
            )
        )
        threading.Thread(target=self._listen, name=f"worker-{number}", daemon=True).start()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def send(self, message: Prepare | Assign | Report | Show) -> None:
        """Send it a message; one that is gone is found out by its silence."""
        with suppress(OSError):
            self._channel.send(message)

    def ended(self) -> str:
        """Say how it ended; waits a moment for that."""
        try:
            status = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return "closed its socket, but still runs"
        if status < 0:
            return f"was ended by {signal.Signals(-status).name}"
        return f"ended with status {status}"

    def let_go(self) -> None:
        """Let it end."""
        self._channel.close()

    def close(self) -> None:
        """Wait until it has ended; kill it if it does not."""
        self.let_go()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _listen(self) -> None:
        with suppress(EOFError):
            while True:
                self._inbox.put((self.number, self._channel.receive()))
        self._inbox.put((self.number, None))


@dataclass(slots=True)
class _Collection:
    """One request that all workers hand over what they learned, and what they answered."""

    ticket: int = 0
    since: float | None = None
    """When they were asked; None once all have answered, or where nobody waits any more."""
    states: dict[int, tuple[States, dict[int, PartitionState]]] = field(default_factory=dict)
    late: Late | None = None


@dataclass(slots=True)
class _Reported:
    """The newest report of a worker."""

    progress: Progress | None = None
    at: float = 0.0
    leaves: int = 0
    """Completed, and not handed over yet."""
    handed: int = 0
    """Handed over, and not adopted yet."""
    answered: int = 0


class Hands:
    """All workers of one life of a trainer, prepared.

    Parameters
    ----------
    settings : Settings
    connection : Connection
    """

    def __init__(self, settings: Settings, connection: Connection) -> None:
        self.count = section(settings, TrainingByWorkers).workers
        self.inbox: queue.SimpleQueue[tuple[int, bytes | None]] = queue.SimpleQueue()
        self.all: list[Hand] = []
        try:
            for number in range(self.count):
                self.all.append(Hand(number, self.count, settings, connection, self.inbox))
        except BaseException:
            self.close()
            raise

    def wait(self, health: Health, stop: Stop, monotonic: Callable[[], float]) -> bool:
        """Wait until all are prepared; False if the daemon stops meanwhile.

        Raises
        ------
        StreamsvmError
            If one ends.
        """
        ready, until = set[int](), monotonic() + START_S
        while len(ready) < self.count:
            health.beat()
            if stop.is_set():
                return False
            if monotonic() > until:
                raise TransientError(
                    f"{self.count - len(ready)} workers were not prepared within {START_S:.0f} s",
                    "Start again on a machine that is less busy, or with fewer workers.",
                )
            with suppress(queue.Empty):
                number, frame = self.inbox.get(timeout=LOOK_S)
                message = None if frame is None else from_worker(frame)
                if not isinstance(message, Ready):
                    self.fail(number, message)
                ready.add(number)
        log.info("workers_ready", workers=self.count, processes=[hand.pid for hand in self.all])
        return True

    def fail(self, number: int, message: FromWorker | None) -> NoReturn:
        """Raise what ended a worker."""
        if isinstance(message, Failed):
            if message.kind:
                raise ERRORS[message.kind](f"worker {number}: {message.what}", message.remedy)
            raise RuntimeError(f"worker {number}: {message.what}\n{message.remedy}")
        hand = self.all[number]
        raise TransientError(
            f"worker {number} of {self.count} (process {hand.pid}) {hand.ended()}",
            "Start the trainer again: nothing is lost, it goes on from its newest checkpoint. If this recurs, look at "
            "the memory of the machine, and at the log above.",
        )

    def close(self) -> None:
        """Let all of them end, at the same time."""
        for hand in self.all:
            hand.let_go()
        for hand in self.all:
            hand.close()


class Crew(Recordless):
    """What the workers read, learn and report, in one life of a trainer.

    Parameters
    ----------
    settings : Settings
        As they go on from the checkpoint.
    pipeline : Pipeline
        Of a combiner.
    goal : Goal
        How far the newest version has come.
    hands : Hands
    left_out : mapping of partition to positions
        Rows that count as rejected ones.
    note : callable
        Takes rows that were just learned: the newest ones, not all.
    metrics : Metrics
    health : Health
    monotonic : callable
        Seconds.
    """

    def __init__(
        self,
        settings: Settings,
        pipeline: Pipeline,
        goal: Goal,
        hands: Hands,
        *,
        left_out: Places,
        note: Callable[[Rows], None],
        metrics: Metrics,
        health: Health,
        monotonic: Callable[[], float],
    ) -> None:
        super().__init__(pipeline)
        self._settings = settings
        self._pipeline, self._combiner = pipeline, combiner_of(pipeline)
        self._goal = goal
        self._hands = hands
        self._left_out = {partition: [(*at,) for at in sorted(own)] for partition, own in left_out.items()}
        self._note = note
        self._metrics = metrics
        self._health = health
        self._monotonic = monotonic
        self._reports = [_Reported(at=monotonic()) for _ in hands.all]
        self._senders = [Sender() for _ in hands.all]
        self._receivers = [Receiver() for _ in hands.all]
        self._given: set[int] = set()
        self._collection = _Collection()
        self._ended: tuple[int, Failed | None] | None = None
        self._gauges: dict[tuple[str, tuple[tuple[str, str], ...]], dict[int, float]] = {}
        self._conditions: set[str] = set()
        metrics.put("streamsvm_workers", hands.count)

    @property
    def nothing_valid(self) -> bool:
        """Whether rows were rejected and none of any worker was ever valid, so that no position may be kept."""
        progress = [one.progress for one in self._reports if one.progress is not None]
        return any(one.nothing_valid for one in progress) and not self._valid

    @property
    def _valid(self) -> bool:
        progress = [one.progress for one in self._reports if one.progress is not None]
        return any(one.valid for one in progress)

    @property
    def high_watermarks(self) -> Mapping[int, int | None]:
        """The offset after each partition's last record, by the newest reports."""
        found: dict[int, int | None] = dict.fromkeys(self._pipeline.learner.positions)
        for report in self._reports:
            found |= {} if report.progress is None else report.progress.watermarks
        return found

    def surveyed(self) -> tuple[Positions, Positions]:
        """See `Source.surveyed`."""
        return self._pipeline.learner.positions, self._pipeline.reading(self.ends)

    @property
    def ahead(self) -> Mapping[int, int]:
        """The offset before which each partition holds nothing that a worker has still to learn."""
        found = dict(self._pipeline.ahead)
        for report in self._reports:
            found |= {} if report.progress is None else report.progress.ahead
        return found

    # ------------------------------------------------------------- the loop's

    def assign(self, offsets: Mapping[int, int]) -> None:  # noqa: ARG002 - each worker knows how far it is
        """Let the workers learn on: up to the newest version's cut while reading again, else without an end."""
        self._assign(ends=False)

    def end(self) -> None:
        """Let the workers learn nothing more."""
        self._assign(ends=True)

    def read(self, most: int, timeout_s: float) -> int:
        """Take in what workers reported; return 0 where all of them wait for records, else `most`.

        Raises
        ------
        StreamsvmError
            If a worker ended.
        """
        self._take(timeout_s)
        self._refuse_if_ended()
        waiting = all(report.progress is not None and report.progress.idle for report in self._reports)
        return 0 if waiting else most

    def refresh(self, *, may_train: bool) -> None:
        """Ask for states if they would make a cut due that may be trained, or end reading again."""
        if self._collection.since is not None:
            return
        leaves = self._combiner.leaves_since_cut + sum(report.leaves + report.handed for report in self._reports)
        enough = leaves >= self._settings.training.every_leaves
        if self._reached if self._pipeline.reads_again else may_train and enough:
            self._ask(settle=False, timeout_s=0.0)

    def hold(self) -> None:
        """Take in what was reported; workers go on."""
        self._take(0.0)

    def look(self) -> None:
        """Say which worker has not been heard of for so long that it must be stuck."""
        now, most = self._monotonic(), constants.STUCK_AFTER_S
        for number, report in enumerate(self._reports):
            silent_s = now - report.at
            stuck = f"worker {number} has been silent for {silent_s:.0f} s" if silent_s > most else ""
            self._health.suspect(f"worker {number}", stuck)

    def flush(self, timeout_s: float) -> None:
        """Return when every worker has handed over what it learned, its dead letters stored.

        Raises
        ------
        NothingValid
            If no worker found a valid row.
        TransientError
            If one does not in time.
        """
        if not self._given:  # a start saves before it reads: nothing was learned
            return
        self._ask(settle=True, timeout_s=timeout_s)
        # A worker answers between two turns, and a turn may be a reduction.
        until = self._monotonic() + 2 * timeout_s
        collection = self._collection
        while collection.since is not None:
            self._health.beat()
            self._take(LOOK_S)
            self._refuse_if_ended()
            if self._monotonic() > until:
                silent = [number for number, report in enumerate(self._reports) if report.answered < collection.ticket]
                collection.since = None
                raise TransientError(
                    f"worker {silent[0]} did not hand over what it learned within {2 * timeout_s:.0f} s",
                    "The trainer tries again. If this recurs, the machine has too few processors for its workers.",
                )
        if collection.late is not None:
            late, collection.late = collection.late, None
            if late.what == NOTHING_VALID:
                raise NothingValid(late.what)
            raise TransientError(late.what, late.remedy)

    def show_progress(self) -> None:
        """Let each worker commit group offsets, for observers."""
        for hand in self._hands.all:
            hand.send(Show())

    def _refuse_if_ended(self) -> None:
        """Raise what ended a worker, at every call: a checkpoint that fails by it is no reason to go on."""
        if self._ended is not None:
            self._hands.fail(*self._ended)

    # ---------------------------------------------------------------- asking

    @property
    def _reached(self) -> bool:
        """Whether every partition is at the newest version's cut, by the newest reports."""
        positions: dict[int, Position] = {}
        for one in self._reports:
            positions |= {} if one.progress is None else {p: Position(*at) for p, at in one.progress.positions.items()}
        return not self._goal.replaying({**self._pipeline.learner.positions, **positions})

    def _ask(self, *, settle: bool, timeout_s: float) -> None:
        self._collection = _Collection(self._collection.ticket + 1, self._monotonic())
        valid = self._valid or self._pipeline.points_accepted() > 0
        for hand in self._hands.all:
            hand.send(Report(self._collection.ticket, settle, timeout_s, valid))

    def _assign(self, *, ends: bool) -> None:
        state, base, read_to = self._pipeline.learner.state().partitions, self._pipeline.base, self._pipeline.read_to
        config, settings = self._settings.models(), plain(self._settings)
        accepted = {partition: one.rows_accepted for partition, one in state.items()}
        for hand, sender in zip(self._hands.all, self._senders, strict=True):
            own = [partition for partition in state if owner(partition, self._hands.count) == hand.number]
            new = [partition for partition in own if partition not in self._given]
            handed = []
            for partition in new:
                if state[partition].position > base[partition]:
                    buckets, value = sender.encode(partition, state[partition])
                    handed.append(Handed(partition=partition, buckets=buckets, value=value))
            again = self._pipeline.reads_again
            cut = {p: (*at,) for p, at in self._goal.published_cut.items() if p in own} if again else {}
            hand.send(
                Assign(
                    settings=settings,
                    configuration_sha256=config.sha256(),
                    bases={partition: (*base[partition],) for partition in new},
                    states=handed,
                    read_to={partition: read_to[partition] for partition in new if partition in read_to},
                    published_cut=cut,
                    next_number=self._goal.next_number,
                    points_elsewhere=sum(count for partition, count in accepted.items() if partition not in own),
                    ends=ends,
                    left_out=self._left_out,
                )
            )
            self._given.update(new)

    # ------------------------------------------------------------- taking in

    def _take(self, timeout_s: float) -> None:
        try:
            self._heard(*self._hands.inbox.get(block=timeout_s > 0, timeout=timeout_s or None))
            while True:
                self._heard(*self._hands.inbox.get(block=False))
        except queue.Empty:
            return

    def _heard(self, number: int, frame: bytes | None) -> None:
        report, message = self._reports[number], None if frame is None else from_worker(frame)
        report.at = self._monotonic()
        match message:
            case Progress():
                report.progress, report.leaves = message, message.leaves
                self._progressed(number, message)
            case States():
                self._handed_over(number, message)
            case Late():
                if message.ticket == self._collection.ticket:
                    self._collection.late, report.answered = message, message.ticket
                    self._adopt_if_all()
            case Ready():
                pass
            case Failed() | None:
                # The first one says why; what follows is its silence.
                self._ended = self._ended or (number, message)

    def _progressed(self, number: int, message: Progress) -> None:
        for one in message.counted:
            if one.kind == "increase":
                self._metrics.increase(one.name, one.value, **one.labels)
            elif one.kind == "observe":
                self._metrics.observe(one.name, one.value, **one.labels)
            else:
                values = self._gauges.setdefault((one.name, tuple(sorted(one.labels.items()))), {})
                values[number] = one.value
                self._metrics.put(one.name, max(values.values()), **one.labels)
        for newest in message.newest:
            self._note(rows_of(newest))
        self._pipeline.note_read(message.fetched)
        progress = [report.progress for report in self._reports if report.progress is not None]
        self._pipeline.points_in_workers = sum(one.points_held for one in progress)
        self._combiner.report_rows(number, message.rows)
        if message.rejected is not None:
            self._rejected(message)
        self._require(progress)

    def _rejected(self, message: Progress) -> None:
        one, before = message.rejected, self.newest_rejected
        assert one is not None
        # The same one is told again and again; whoever shows it looks whether it is another object.
        if before is None or (one.partition, one.offset) != (before.record.partition, before.record.offset):
            record = Record(self._settings.input.topic, one.partition, one.offset, None, None, (), -1, -1)
            self.newest_rejected = RejectedRecord(record, one.row + 1, (Rejection(one.row, one.reason, one.what),))

    def _require(self, progress: Sequence[Progress]) -> None:
        waiting: dict[str, list[str]] = {}
        for number, report in enumerate(self._reports):
            for condition, why in ({} if report.progress is None else report.progress.waiting_for).items():
                waiting.setdefault(condition, []).append(f"worker {number}: {why}")
        if len(progress) == self._hands.count:
            self._conditions |= {"broker", *waiting}
        for condition in self._conditions:
            self._health.require(condition, "; ".join(waiting.get(condition, ())))

    def _handed_over(self, number: int, message: States) -> None:
        # Decoded even if nobody waits for it any more: the next one names buckets that this one brings.
        receiver = self._receivers[number]
        states = {one.partition: receiver.decode(one.partition, one.buckets, one.value) for one in message.partitions}
        report = self._reports[number]
        report.leaves, report.handed, report.answered = 0, report.handed + message.leaves, message.ticket
        self._collection.states[number] = message, states
        self._combiner.report(
            number, WorkerReport(observed=message.observed, outliers=message.outliers, clipped=message.clipped)
        )
        self._adopt_if_all()

    def _adopt_if_all(self) -> None:
        collection = self._collection
        if any(report.answered < collection.ticket for report in self._reports):
            return
        states_of, collection.states, collection.since = collection.states, {}, None
        for number, (message, states) in states_of.items():
            leaves, self._reports[number].handed = self._reports[number].handed, 0
            adopt(self._pipeline, states, leaves, message.read_to)


def plain(settings: Settings) -> dict[str, Any]:
    """Return settings as `Settings` takes them, in plain values."""
    return settings.model_dump(mode="json")


def environment() -> dict[str, str]:
    """Return this process's environment, in which this very package is found."""
    root = str(Path(consumers.__file__).parents[1])
    path = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    own = {name: value for name, value in os.environ.items() if not name.startswith("STREAMSVM_")}
    return {**own, "PYTHONPATH": os.pathsep.join(path)}

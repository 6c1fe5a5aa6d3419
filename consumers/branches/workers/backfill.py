"""`streamsvm scale backfill`: learn what the input holds at the start, by several processes, and end.

Each process is a worker of its own (`consumers.branches.workers.group_worker`) with a fixed share of the partitions. It
ends when each of them was learned up to the mark: the end of what was committed when the backfill began.

Invariant: what is published is what workers publish, under the same keys. So a backfill can be killed and started
again, or run beside workers, and whoever learns on goes on from its manifests. Nothing is kept on a disk.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Task as ProgressTask
from rich.text import Text

from consumers.branches.workers.backfill_process import Share, progress_of
from consumers.branches.workers.coresets_topic import check_topic, read_partition
from consumers.branches.workers.crew import environment, plain
from consumers.branches.workers.files.plan import FilesPlan
from consumers.branches.workers.settings import WorkerConfig, coresets_topic
from consumers.host.exit_codes import EXIT_CLEAN, EXIT_RETRYABLE
from consumers.settings import Settings
from consumers.streams.identity import identity_of
from consumers.streams.ports import Stop
from consumers.streams.topics import check_input
from consumers.trainer import kernels
from streamsvm.errors import ConfigurationError
from streamsvm.kafka import Cluster
from streamsvm.sections import section

log = structlog.get_logger("streamsvm.backfill")

LOOK_S: Final = 0.1
"""Between two looks at the processes."""
LOG_EVERY_S: Final = 10.0
"""Between two lines of the log that say how far it is, where standard error is not a terminal."""

Show = Callable[[int], None]


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))


def backfill(settings: Settings, cluster: Cluster, processes: int, stop: Stop) -> int:
    """Learn what the input holds now, and publish it in the coresets topic; blocks until that is done.

    Parameters
    ----------
    settings : Settings
    cluster : Cluster
    processes : int
        At least 1; no more are started than the input has partitions.
    stop : Stop
        Once set, the processes publish what they have learned and end.

    Returns
    -------
    int
        The exit status: 0 if all was learned; that of the first process that failed; 75 if `stop` was set before.

    Raises
    ------
    ConfigurationError
        If no trainer has opened a partition, or a topic cannot be used.
    Recreated
        If the input was deleted and made again meanwhile.
    TopicMissing, BrokerUnavailable, TransientError
        As for `Cluster.read_to_end`.
    """
    identity = identity_of(cluster, settings.input.topic, remedy="Let the trainer begin anew, then start it again.")
    source = cluster.describe(settings.input.topic)
    check_input(source)
    check_topic(cluster.describe(coresets_topic(settings)), len(source.partitions), cluster.max_message_bytes)
    begun = _standing(settings, cluster, source.partitions)
    marks = {p: max(end, begun[p]) for p, end in cluster.starts(source.name, source.partitions, "latest").items()}
    # The marks are of the log that was learned, whose manifests each worker confirms.
    return learn(Task(settings, cluster, begun, marks, lambda: identity.confirm(marks)), processes, stop)


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be learned.

    Attributes
    ----------
    settings : Settings
    cluster : Cluster
    begun, marks : mapping of partition to int
        From where on, and up to where: offsets, or rows of files.
    confirm : callable
        Called once all was learned; raises if it was learned from something else than is there now.
    plan : FilesPlan or None
        The files; None: the input topic.
    """

    settings: Settings
    cluster: Cluster
    begun: Mapping[int, int]
    marks: Mapping[int, int]
    confirm: Callable[[], None]
    plan: FilesPlan | None = None

    @property
    def unit(self) -> str:
        """What is counted."""
        return "records" if self.plan is None else "rows"

    def done(self, ends: Mapping[int, int]) -> int:
        """Count what lies between where it began and where it stands."""
        return sum(max(0, min(end, self.marks[p]) - self.begun[p]) for p, end in ends.items())

    def share(self, ordinal: int, of: int) -> Share:
        """Return what one of so many processes is to learn."""
        connection = self.cluster.connection
        fixed = section(self.settings, WorkerConfig).model_copy(update={"ordinal": ordinal, "of": of})
        return Share(
            settings=plain(self.settings.model_copy(update={"worker": fixed})),
            marks={partition: mark for partition, mark in self.marks.items() if partition % of == ordinal},
            kafka=dict(connection.options),
            client_id=f"{connection.client_id}-{ordinal}",
            embedded=connection.embedded,
            plan=self.plan,
        )


def learn(task: Task, processes: int, stop: Stop) -> int:
    """Learn by processes of this machine; return the exit status, as `backfill` does."""
    # Once, before several processes would each do it.
    kernels.prepare(task.settings.models(), registry=bool(task.settings.registry.url))
    of = min(processes, len(task.marks))
    log.info("backfill_began", processes=of, **{task.unit: task.done(task.marks)})
    crew = [_Process(task.share(ordinal, of), ordinal) for ordinal in range(of)]
    try:
        status = _follow(task, crew, stop)
    finally:
        for one in crew:
            one.end()
    done = {p: reached for one in crew for p, reached in one.ahead.items()}
    task.confirm()
    if not status and all(done.get(partition, -1) >= mark for partition, mark in task.marks.items()):
        log.info("backfill_finished", **{task.unit: task.done(done)})
        return EXIT_CLEAN
    log.warning(
        "backfill_stopped",
        remedy="start it again: it goes on from what is stored",
        **{task.unit: task.done(done)},
    )
    return status or EXIT_RETRYABLE


def _standing(settings: Settings, cluster: Cluster, partitions: Iterable[int]) -> dict[int, int]:
    """Return the offset from which each partition is to be learned."""
    standing = {}
    with cluster.keeping():
        for partition in sorted(partitions):
            found, _ = read_partition(cluster, settings, partition)
            if found.opening is None:
                raise ConfigurationError(
                    f"no trainer of {settings.name} has opened partition {partition} in {coresets_topic(settings)}",
                    "Start `streamsvm train --from-coresets` with the same configuration first: it says where learning "
                    "begins. It may go on running.",
                )
            highest, base = found.highest(), found.opening.base[0]
            standing[partition] = base if highest is None else max(base, highest.manifest.at.offset)
    return standing


def _follow(task: Task, crew: list[_Process], stop: Stop) -> int:
    """Show how far the processes are until all have ended; return the first status that is not 0."""
    status = EXIT_CLEAN
    with shown(task.done(task.marks), task.unit) as show:
        while any(one.status is None for one in crew):
            show(sum(task.done(one.ahead) for one in crew))
            failed = next((one for one in crew if one.status not in (None, EXIT_CLEAN)), None)
            if failed is not None and not status:
                status = failed.status or EXIT_CLEAN
                log.error(
                    "backfill_process_failed",
                    ordinal=failed.ordinal,
                    status=status,
                    remedy="its own line says why; started again, the backfill goes on from what is stored",
                )
            if status or stop.is_set():
                for one in crew:
                    one.ask_to_stop()
                time.sleep(LOOK_S)
            else:
                stop.wait(LOOK_S)
    return status or next((one.status for one in crew if one.status), EXIT_CLEAN)


class _Rate(ProgressColumn):
    """How many a second."""

    def render(self, task: ProgressTask) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s")


@contextmanager
def shown(total: int, unit: str) -> Iterator[Show]:
    """Show a bar on standard error, or lines of the log where that is not a terminal; yields what takes a count."""
    if not sys.stderr.isatty():
        began = shown_at = time.monotonic()

        def show(done: int) -> None:
            nonlocal shown_at
            now = time.monotonic()
            if now - shown_at >= LOG_EVERY_S:
                shown_at = now
                a_second = done / (now - began)
                left_s = round((total - done) / a_second) if done else None
                log.info("backfill_progress", of=total, a_second=round(a_second), seconds_left=left_s, **{unit: done})

        yield show
        return
    columns = (SpinnerColumn(), TextColumn(f"{unit} learned"), BarColumn(), MofNCompleteColumn(), _Rate())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.update(task, completed=done)


class _Process:
    """One worker process, as its parent knows it."""

    def __init__(self, share: Share, ordinal: int) -> None:
        self.ordinal = ordinal
        self.ahead: dict[int, int] = {}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "consumers.branches.workers.backfill_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
        )
        self._listener = threading.Thread(target=self._listen, name=f"backfill-{ordinal}", daemon=True)
        self._listener.start()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended already: its status tells
            self._process.stdin.write(msgspec.json.encode(share) + b"\n")
            self._process.stdin.flush()

    @property
    def status(self) -> int | None:
        """The exit status; None while it runs. One that a signal ended may be started again."""
        found = self._process.poll()
        return EXIT_RETRYABLE if found is not None and found < 0 else found

    def ask_to_stop(self) -> None:
        """Let it publish what it has learned and end."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def end(self) -> None:
        """Ask it to stop, and wait until it has; blocks as long as it publishes."""
        self.ask_to_stop()
        self._process.wait()
        self._listener.join()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.ahead = progress_of(line)

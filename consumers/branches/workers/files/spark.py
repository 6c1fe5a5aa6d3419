"""Spark as the engine of a backfill: it schedules tasks, and each task is a worker that reads files.

A task has one partition, unless fewer tasks are asked for, or of one machine: each reads all files for its own rows.

Nothing of Spark's data path is used: a task is given its share as bytes, reads the files itself, and publishes in the
coresets topic itself. So a task that runs twice, or that is killed and runs again, harms nothing, as two workers of one
partition do not; and what comes out are the bytes of any other engine.

Files must be at the same paths on every machine, and the broker reachable from all of them.
"""

from __future__ import annotations

import logging
import os
import re
import resource
import socket
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import structlog

from consumers.branches.workers.backfill import Task, processors, shown
from consumers.branches.workers.backfill_process import Share, worker_of
from consumers.branches.workers.crew import environment
from consumers.host.exit_codes import EXIT_CLEAN, EXIT_RETRYABLE
from consumers.host.runtime import configure_logging, spare_the_collector
from consumers.settings import Settings
from consumers.streams.ports import Stop
from consumers.trainer import kernels
from streamsvm.errors import ConfigurationError, FatalError, StateError, StreamsvmError, TransientError

log = structlog.get_logger("streamsvm.backfill")

LOOK_S: Final = 0.5
CONNECT_S: Final = 5.0
IDLE_S: Final = 90.0
"""After so long without a task that runs, the cluster is taken for one that gives none."""
KILLED: Final = (
    "Python worker exited unexpectedly",
    "SocketException: Connection reset",
    "ExecutorLostFailure",
    "OutOfMemoryError",
    "exited with code 137",
)
"""What Spark says of a task whose process is gone."""


class TaskResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a task comes to.

    Attributes
    ----------
    rows : dict of int to int
        Learned of each of its partitions.
    seconds : float
        From when it had taken up its partitions to its end.
    peak_bytes : int
        Most memory of its process so far.
    what, remedy : str
        Of an error that another try does not mend; empty: there was none.
    settled : bool
        Whether that is an error of the configuration; else of what is stored.
    """

    rows: dict[int, int]
    seconds: float
    peak_bytes: int
    what: str = ""
    remedy: str = ""
    settled: bool = False


GONE: Final = ("SparkContext was shut down", "stopped SparkContext", "SparkEnv.get()", "masters are unresponsive")
"""What Spark says where its cluster has ended the application, or went away."""


def require_spark(master: str | None) -> str | None:
    """Refuse where Spark is not installed, or its master does not answer; blocks some seconds at most.

    Returns
    -------
    str or None
        The master: as given, else that of `spark-submit`; None: as Spark's own configuration says.

    Raises
    ------
    ConfigurationError
        If pyspark is missing.
    TransientError
        If nothing listens where the master should.
    """
    try:
        import pyspark
    except ImportError:
        raise ConfigurationError(
            "--engine spark needs pyspark, which is not installed",
            "Run pip install 'streamsvm[spark]', and have Java 17; or leave out --engine.",
        ) from None
    if master is None and "PYSPARK_GATEWAY_PORT" in os.environ:  # the Java of spark-submit runs already
        pyspark.SparkContext._ensure_initialized()  # else its configuration cannot be read
        master = pyspark.SparkConf().get("spark.master")
    if master is None or not master.startswith("spark://"):
        return master
    places = [urlsplit(f"spark://{one}") for one in master.removeprefix("spark://").split(",")]
    if not any(_listens(place.hostname or "", place.port or 7077) for place in places):
        raise TransientError(
            f"no Spark master answers at {master}", "Start it, or correct --master: its page shows the URL."
        )
    return master


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), CONNECT_S).close()
    except OSError:
        return False
    return True


def learn_by_spark(task: Task, master: str | None, stop: Stop, *, tasks: int | None = None) -> int:
    """Learn files by tasks of Spark; return the exit status.

    Parameters
    ----------
    task : Task
    master : str or None
        Of `require_spark`.
    stop : Stop
    tasks : int, optional
        At least 1; by default as many as one machine runs at once, on a cluster one a partition.

    Raises
    ------
    StreamsvmError
        If a task failed for a reason that another try does not mend, or the cluster runs none.
    """
    of = min(tasks or _slots(master) or len(task.marks), len(task.marks))
    shares = [msgspec.json.encode(task.share(ordinal, of)) for ordinal in range(of)]
    if master is None or master.startswith("local"):  # on a cluster each machine compiles for itself
        kernels.prepare(task.settings.models(), registry=False)
    context = _context(master, task.settings.name)
    try:
        results = _Job(context, shares).follow(task, stop)
    finally:
        context.stop()
    if results is None:
        log.warning("backfill_stopped", remedy="start it again: it goes on from what is stored")
        return EXIT_RETRYABLE
    for result in results:
        if result.what:
            raise (ConfigurationError if result.settled else StateError)(result.what, result.remedy)
    task.confirm()
    log.info(
        "backfill_finished",
        rows=sum(sum(result.rows.values()) for result in results),
        task_seconds=round(sum(result.seconds for result in results), 1),
        peak_task_bytes=max(result.peak_bytes for result in results),
    )
    return EXIT_CLEAN


def _slots(master: str | None) -> int | None:
    """Return how many tasks run at once where Spark is one process of this machine; None: it is not."""
    local = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?", master or "")
    if local is None:
        return None
    return processors() if local[1] == "*" else int(local[1] or 1)


def _context(master: str | None, name: str) -> Any:
    """Start Spark; blocks for seconds.

    Raises
    ------
    TransientError
        If it does not start.
    """
    from pyspark import SparkConf, SparkContext

    logging.getLogger("py4j").setLevel(logging.ERROR)  # the bridge logs each connection that it closes
    conf = SparkConf().setAppName(f"streamsvm backfill {name}")
    conf.set("spark.ui.showConsoleProgress", "false")
    if master is not None:
        conf.setMaster(master)
    if (master or "").startswith("local"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
        conf.set("spark.ui.enabled", "false")
    conf.setExecutorEnv("PYTHONPATH", environment()["PYTHONPATH"])
    try:
        return SparkContext(conf=conf)
    except Exception as error:
        raise TransientError(
            f"Spark does not start: {_first_line(error)}", "See its own lines above. It needs Java 17 or later."
        ) from error


class _Job:
    """The tasks, and the thread that waits for them."""

    def __init__(self, context: Any, shares: list[bytes]) -> None:
        self._context = context
        self._rows = context.accumulator(0)
        self._results: list[TaskResult] | None = None
        self._error: Exception | None = None
        self._shares = shares
        self._thread = threading.Thread(target=self._run, name="spark", daemon=True)

    def _run(self) -> None:
        try:
            dealt = self._context.parallelize(self._shares, len(self._shares))
            found = dealt.map(_Learns(self._rows)).collect()
            self._results = [msgspec.json.decode(one, type=TaskResult) for one in found]
        except Exception as error:  # noqa: BLE001 - told by the thread that waits
            self._error = error

    def follow(self, task: Task, stop: Stop) -> list[TaskResult] | None:
        """Show how far it is; return what the tasks came to, None if `stop` was set."""
        self._thread.start()
        busy_at = time.monotonic()
        with shown(task.done(task.marks), task.unit) as show:
            while self._thread.is_alive():
                if stop.wait(LOOK_S):
                    self._cancel()
                    return None
                show(min(self._rows.value, task.done(task.marks)))
                if self._runs():
                    busy_at = time.monotonic()
                elif time.monotonic() - busy_at > IDLE_S:
                    self._cancel()
                    raise TransientError(
                        f"Spark has run no task for {IDLE_S:.0f} s",
                        "Look at the master's page: it needs a worker with a free core and the memory asked for.",
                    )
        if self._error is not None:
            raise _meaning(self._error) from self._error
        return self._results or []

    def _runs(self) -> bool:
        """Return whether a task runs now."""
        tracker = self._context.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return any(stage is not None and stage.numActiveTasks > 0 for stage in stages)

    def _cancel(self) -> None:
        self._context.cancelAllJobs()
        self._thread.join()


class _Learns:
    """What a task runs; it is sent to the executors."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows

    def __call__(self, encoded: bytes) -> bytes:
        spare_the_collector()
        result = run_share(encoded)
        self._rows.add(sum(result.rows.values()))
        return msgspec.json.encode(result)


# Made once: msgspec looks a type up when it first decodes one, and two threads that do so at a time end the process.
_SHARES: Final = msgspec.json.Decoder(Share)


def run_share(encoded: bytes) -> TaskResult:
    """Learn a share in this process, as an executor does.

    Raises
    ------
    StreamsvmError
        If another try may mend it: Spark then makes one.
    """
    share = _SHARES.decode(encoded)
    settings, reached = Settings(**share.settings), dict[int, int]()
    configure_logging(settings.log)
    began = time.monotonic()

    def enough(ahead: Mapping[int, int]) -> bool:
        nonlocal began
        began = began if reached else time.monotonic()
        reached.update(ahead)
        return all(ahead.get(partition, -1) >= mark for partition, mark in share.marks.items())

    try:
        worker_of(share, settings, threading.Event(), enough).run()
    except (ConfigurationError, StateError) as error:
        settled = isinstance(error, ConfigurationError)
        return _result({}, began, what=error.what, remedy=error.remedy, settled=settled)
    return _result({partition: reached[partition] for partition in share.marks}, began)


def _result(rows: dict[int, int], began: float, **error: Any) -> TaskResult:
    peak_bytes = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return TaskResult(rows=rows, seconds=time.monotonic() - began, peak_bytes=peak_bytes, **error)


def _meaning(error: Exception) -> StreamsvmError:
    """Return what the failure of a job means."""
    text = str(error)
    if any(sign in text for sign in KILLED):
        return TransientError(
            "a task of Spark was ended from outside, as often as Spark tries: most often its memory ran out",
            "Give executors more memory outside of Java (spark.executor.memoryOverhead), or fewer cores each; then "
            "start the backfill again: it goes on from what is stored.",
        )
    if any(sign in text for sign in GONE):
        return TransientError(
            "the Spark cluster ended this application, or went away",
            "See Spark's own lines above; then start the backfill again: it goes on from what is stored.",
        )
    said = [line.strip() for line in text.splitlines() if line.strip().startswith("streamsvm.errors.")]
    if said:
        return TransientError(f"a task of Spark failed: {said[-1].partition(': ')[2]}", "Start the backfill again.")
    return FatalError(f"Spark ended the job: {_first_line(error)}", "See its own lines above.")


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith(("Caused by:", "py4j", "java", "org.apache"))]
    return (causes or lines or [type(error).__name__])[-1][:300]

"""Spark as the engine of a backfill: the bytes of processes; what is wrong with Spark is said in a line.

They need pyspark, which no other test does: `make spark` puts it into a folder and runs them. Else they are skipped.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from consumers.branches.workers.backfill import processors
from consumers.branches.workers.files import spark
from consumers.branches.workers.files.backfill import Files
from consumers.branches.workers.files.spark import TaskResult, require_spark, run_share
from consumers.settings import Settings
from streamsvm.errors import ConfigurationError, FatalError, TransientError
from streamsvm.kafka import Cluster, Connection
from tests.branches.workers.files.history import Backfilling, History, given, large
from tests.branches.workers.files.spark_run import Job
from tests.branches.workers.files.standalone import FOLDER, ROOT, environment_of_spark, standalone_cluster
from tests.branches.workers.test_backfill import copy_openings, manifests, second
from tests.branches.workers.test_group_workers import adopting_settings
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import Running

needs_spark = pytest.mark.skipif(
    not (FOLDER / "pyspark").is_dir() or shutil.which("java") is None,
    reason=f"no pyspark in {FOLDER}, or no Java: `make spark` runs this",
)
ROWS = 100_000
JOB_S = 240.0


@pytest.fixture
def connection(embedded_broker: TestBroker) -> Connection:
    return embedded_broker.connection


@pytest.fixture
def settings(embedded_broker: TestBroker, tmp_path: Path) -> Settings:
    return large(adopting_settings(embedded_broker, tmp_path / "checkpoint"))


def run(
    settings: Settings, connection: Connection, files: Files, master: str, folder: Path, *, submits: str = ""
) -> tuple[int, str]:
    """Run a backfill by Spark in a process; return its status and what it wrote.

    `submits` is the master of `spark-submit`, by which it is then started: that writes all to standard output.
    """
    job = Job.of(settings, connection, files, master=master)
    path = folder / "job.json"
    path.write_bytes(msgspec.json.encode(job))
    command = [sys.executable, "-m", "tests.branches.workers.files.spark_run", str(path)]
    if submits:
        script = Path(__file__).with_name("spark_run.py")
        command = ["bash", str(FOLDER / "bin" / "spark-submit"), "--master", submits, str(script), str(path)]
    done = subprocess.run(
        command, env=environment_of_spark(), cwd=ROOT, capture_output=True, text=True, timeout=JOB_S, check=False
    )
    return done.returncode, done.stdout + done.stderr


def prepared(settings: Settings, connection: Connection, folder: Path, rows: int) -> Files:
    """Fill the topic, write the files, and learn them by processes, in the second coresets topic."""
    history, topic = History.of(rows), settings.input.topic
    history.send(connection, topic)
    files = given([history.timed(connection, topic).files(folder / "files")], folder)
    running = Backfilling(settings, connection, files, processes=1)
    running.wait_until_recorded()
    with Running(settings, connection) as trainer:
        trainer.wait_until_started()
    running.stop.set()
    running.wait()
    copy_openings(settings, connection)
    assert Backfilling(second(settings), connection, files).wait() == 0
    return files


@pytest.mark.long
@pytest.mark.timeout(900)
@needs_spark
def test_spark_and_equal(settings: Settings, connection: Connection, tmp_path: Path) -> None:
    """100,000 rows on `local[2]`: the manifests of processes, byte for byte; a second run has nothing to do."""
    files = prepared(settings, connection, tmp_path, ROWS)
    status, said = run(settings, connection, files, "local[2]", tmp_path)
    assert status == 0, said[-3_000:]
    assert manifests(settings, connection) == manifests(second(settings), connection)
    assert "peak_task_bytes" in said
    status, said = run(settings, connection, files, "local[2]", tmp_path)
    assert status == 0, said[-3_000:]
    assert manifests(settings, connection) == manifests(second(settings), connection)


@pytest.fixture
def cluster_of_two(tmp_path: Path) -> Iterator[str]:
    """Start a standalone cluster of two workers; yields its URL."""
    with standalone_cluster(tmp_path) as url:
        yield url


@pytest.mark.long
@pytest.mark.timeout(900)
@needs_spark
def test_a_cluster_of_two_workers(
    settings: Settings, connection: Connection, tmp_path: Path, cluster_of_two: str
) -> None:
    """The same bytes, of tasks on two executors; a task's error comes back as the command's own."""
    files = prepared(settings, connection, tmp_path, 20_000)
    status, said = run(settings, connection, files, cluster_of_two, tmp_path)
    assert status == 0, said[-3_000:]
    assert manifests(settings, connection) == manifests(second(settings), connection)


@pytest.mark.long
@pytest.mark.timeout(900)
@needs_spark
def test_spark_submit_names_the_master(
    settings: Settings, connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is not there is said in a line, before a file is looked at; `local[2]` learns the same bytes."""
    monkeypatch.setenv("SPARK_HOME", str(FOLDER / "pyspark"))
    files = prepared(settings, connection, tmp_path, 2_000)
    before = manifests(settings, connection)
    status, said = run(settings, connection, files, "", tmp_path, submits="spark://127.0.0.1:1")
    assert status == 1
    assert "no Spark master answers at spark://127.0.0.1:1" in said, said[-3_000:]
    assert manifests(settings, connection) == before
    status, said = run(settings, connection, files, "", tmp_path, submits="local[2]")
    assert status == 0, said[-3_000:]
    assert manifests(settings, connection) == manifests(second(settings), connection)


SPECULATION = """
spark.speculation true
spark.speculation.interval 10ms
spark.speculation.minTaskRuntime 0ms
spark.speculation.multiplier 0
spark.speculation.quantile 0.1
spark.eventLog.enabled true
spark.eventLog.compress false
"""


@pytest.mark.long
@pytest.mark.timeout(900)
@needs_spark
def test_a_speculative_task_writes_the_same(
    settings: Settings, connection: Connection, tmp_path: Path, cluster_of_two: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark begins a task a second time, beside the first, where it has a free core: the same bytes."""
    files = prepared(settings, connection, tmp_path, ROWS)
    folder, events = tmp_path / "conf", tmp_path / "events"
    folder.mkdir()
    events.mkdir()
    (folder / "spark-defaults.conf").write_text(f"{SPECULATION}spark.eventLog.dir {events.as_uri()}\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(folder))
    status, said = run(settings, connection, files, cluster_of_two, tmp_path)
    assert status == 0, said[-3_000:]
    begun = "".join(path.read_text() for path in events.rglob("events_*"))
    assert '"Speculative":true' in begun
    assert manifests(settings, connection) == manifests(second(settings), connection)


@pytest.mark.long
@needs_spark
def test_a_task_that_is_killed_is_said_in_a_line(
    settings: Settings, connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the system has no memory left; what was stored stays, and another start ends it."""
    files = prepared(settings, connection, tmp_path, 2_000)
    killer = tmp_path / "site" / "sitecustomize.py"
    killer.parent.mkdir()
    # In the Python process of a task, and nowhere else: it ends as the kernel would end it.
    killer.write_text(
        "import os, signal, sys, threading\n"
        "if sys.orig_argv[1:3] == ['-m', 'pyspark.daemon']:\n"
        "    os.register_at_fork(after_in_child=lambda: threading.Timer(\n"
        "        1.0, lambda: os.kill(os.getpid(), signal.SIGKILL)).start())\n"
    )
    with monkeypatch.context() as patched:
        patched.setenv("PYTHONPATH", f"{killer.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        status, said = run(settings, connection, files, "local[1]", tmp_path)
    assert status == 1
    assert [line for line in said.splitlines() if line.startswith("a task of Spark was ended from outside")], said
    status, said = run(settings, connection, files, "local[1]", tmp_path)
    assert status == 0, said[-3_000:]
    assert manifests(settings, connection) == manifests(second(settings), connection)


def test_spark_that_is_not_there_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the package, nor the master: before a file is looked at."""
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ConfigurationError, match="needs pyspark") as raised:
        require_spark(None)
    assert "streamsvm[spark]" in raised.value.remedy
    monkeypatch.setitem(sys.modules, "pyspark", object())
    assert require_spark("local[2]") == "local[2]"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"spark://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(TransientError, match=re.escape(f"no Spark master answers at {nobody}")):
        require_spark(nobody)
    with socket.create_server(("127.0.0.1", 0)) as server:
        require_spark(f"spark://127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.parametrize(
    ("master", "slots"),
    [("local", 1), ("local[3]", 3), ("local[2, 4]", 2), ("spark://host:7077", None), ("yarn", None), (None, None)],
)
def test_one_machine_gets_as_many_tasks_as_it_runs_at_once(master: str | None, slots: int | None) -> None:
    """Each task reads all files, so more of them would only read more; a cluster gets one a partition."""
    assert spark._slots(master) == slots
    assert spark._slots("local[*]") == processors()


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (
            "...\norg.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n",
            TransientError,
            "memory",
        ),
        ("ExecutorLostFailure (executor 1 exited)", TransientError, "ended from outside"),
        ("x\n  streamsvm.errors.BrokerUnavailable: no broker answers\nat org...", TransientError, "no broker answers"),
        ("Job 0 cancelled because SparkContext was shut down", TransientError, "ended this application"),
        ("java.lang.IllegalStateException: stopped", FatalError, "Spark ended the job"),
    ],
)
def test_what_ends_a_job_is_told(text: str, kind: type[Exception], said: str) -> None:
    """In a line, whatever Java has to say."""
    meaning = spark._meaning(RuntimeError(text))
    assert isinstance(meaning, kind)
    assert said in str(meaning)


@pytest.mark.enough("embedded")
def test_a_task_run_twice_writes_the_same(settings: Settings, connection: Connection, tmp_path: Path) -> None:
    """Without Spark: what its tasks run, one a partition, each of them twice, the second beside the first."""
    from concurrent.futures import ThreadPoolExecutor

    from consumers.branches.workers.backfill import Task

    files = prepared(settings, connection, tmp_path, 2_000)
    made: list[Task] = []

    def caught(task: Task, *_: Any) -> int:
        made.append(task)
        return 0

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("consumers.branches.workers.files.backfill.learn", caught)
        assert Backfilling(settings, connection, files).wait() == 0
    (task,) = made
    shares = [msgspec.json.encode(task.share(ordinal, len(task.marks))) for ordinal in range(len(task.marks))]
    with ThreadPoolExecutor(2) as pool:
        for share in shares:
            first, again = pool.map(run_share, [share, share])
            assert isinstance(first, TaskResult)
            assert first.rows == again.rows != {}
    assert manifests(settings, connection) == manifests(second(settings), connection)
    assert Cluster(connection).log_range(settings.input.topic, 0)[1] == task.marks[0]

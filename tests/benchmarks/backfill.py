"""A backfill of files by processes and by Spark: `python -m tests.benchmarks.backfill --engines process:1,process:2`.

Points in four partitions, as Parquet files, go before a topic of a real broker. Each engine learns all of them into a
coresets topic of its own:

- `process:N`, and `killed:N`, whose processes are all killed three times, and started again;
- `spark:MASTER`, and `cluster:N`, a standalone cluster of N workers of a core each, with as many tasks;
  `killed:spark` is `spark:local[2]`, killed three times. pyspark must be in the folder that the environment names in
  STREAMSVM_TEST_SPARK, or in .venv/spark (`make spark`);
- with `--in-topic`, where the topic holds the same rows as records of JSON, and some more, `topic:N`, which reads
  these instead of files, and `half:N`, half of the files and then the topic. All go on with the rest of the topic, not
  timed, before bytes are compared: what is learned last knows its leader epoch, and a file does not.

Lines of JSON:

- `wall_s`: the whole command, the survey of the files and the start of processes or of Spark in it;
- `core_rate`: points a second of one core while it learns. Of processes: between the first and the last look at which
  they were learning, over their number; of Spark: all points over the seconds of its tasks;
- `peak_bytes`: most memory of one process, or task;
- `bytes_equal`: whether the manifests are those of the first engine, byte for byte.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest import mock

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from consumers.branches.workers import backfill as processes
from consumers.branches.workers.coresets_topic import CoresetsWriter, files_of, read_partition, topic_spec
from consumers.branches.workers.files.backfill import Files, backfill_files
from consumers.branches.workers.metrics import WORKER
from consumers.branches.workers.settings import coresets_topic
from consumers.metrics import Metrics
from consumers.settings import CheckpointConfig, InputConfig, LogConfig, OutputConfig, Settings, TrainingConfig
from streamsvm.branches.workers.coreset_records import FORMAT, Opening
from streamsvm.config import PointsConfig
from streamsvm.errors import StreamsvmError
from streamsvm.kafka import Cluster, Connection, TopicSpec
from streamsvm.points import Position
from tests.branches.workers.files.spark_run import Job
from tests.branches.workers.files.standalone import environment_of_spark, standalone_cluster
from tests.brokers.jvm import JvmBroker
from tests.consumers.trainers import produce

PARTITIONS: Final = 4
FILES: Final = 8
TOPIC: Final = "backfill.points"
ROOT: Final = Path(__file__).parents[2]
FIRST_MS: Final = 1_700_000_000_000
KILLS: Final = 3
MORE: Final = 10_000
GROUP_ROWS: Final = 1 << 17


def write_files(folder: Path, n: int, dimension: int) -> None:
    """Write Gaussian points of two classes with keys and times, in Parquet files of several row groups."""
    random, index = np.random.default_rng(5), 0
    for number in range(FILES + 1):  # the last one is for the topic alone
        left, writer = n // FILES + (number < n % FILES) if number < FILES else MORE, None
        with ExitStack() as stack:
            while left:  # no more memory than a group takes: what is started then counts for its own
                rows = min(left, GROUP_ROWS)
                y = np.where(random.random(rows) < 0.5, 1, -1)
                X = random.normal(size=(rows, dimension)) + 0.5 * y[:, None]
                columns: dict[str, Any] = {f"f{column}": X[:, column] for column in range(dimension)}
                keys = index + np.arange(rows)
                group = pa.table(columns | {"y": y, "user": keys, "at": FIRST_MS + keys})
                if writer is None:
                    path = folder / f"{number:02}.parquet"
                    writer = stack.enter_context(pa.parquet.ParquetWriter(path, group.schema))
                writer.write_table(group)
                index, left = index + rows, left - rows


def send(connection: Connection, folder: Path, dimension: int) -> None:
    """Send the files' rows as records, whose partitions the producer chooses by their keys."""
    options = {"partitioner": "murmur2_random", "queue.buffering.max.messages": 1_000_000, "linger.ms": 50}
    producer, encoder = Producer({**connection.options, **options}), msgspec.json.Encoder()
    for path in sorted(folder.iterdir()):
        for batch in pa.parquet.ParquetFile(path).iter_batches():
            X = np.stack([batch.column(f"f{index}").to_numpy() for index in range(dimension)], axis=1)
            rest = (batch.column(name).to_pylist() for name in ("y", "user", "at"))
            for x, y, user, at in zip(X.tolist(), *rest, strict=True):
                value = encoder.encode({"x": x, "y": y})
                while True:
                    try:
                        producer.produce(TOPIC, value, key=str(user).encode(), timestamp=at)
                    except BufferError:
                        producer.poll(0.1)
                    else:
                        break
            producer.poll(0)
    assert producer.flush(120.0) == 0


def settings_of(number: int, dimension: int) -> Settings:
    """Return settings whose coresets topic has a number."""
    topic = f"backfill.{number}.coresets"
    return Settings(
        name="m",
        kafka={"bootstrap.servers": "unused:1"},
        input=InputConfig(topic=TOPIC),
        points=PointsConfig(dimension=dimension),
        output=OutputConfig(models_topic="backfill.models"),
        training=TrainingConfig(policy="latest", from_coresets=True, coresets_topic=topic),
        checkpoint=CheckpointConfig(directory=Path("unused")),
        log=LogConfig(level="info"),
    )


def open_when_recorded(settings: Settings, cluster: Cluster, at_beginning: bool) -> None:
    """Open the partitions as a trainer would, once the files are recorded, or at the topic's beginning."""
    config = settings.models()
    if at_beginning:
        cluster.create([topic_spec(settings, PARTITIONS)])
        topic, topic_id = TOPIC, cluster.describe(TOPIC).topic_id or ""
        base = {p: Position(cluster.log_range(TOPIC, p)[0], 0) for p in range(PARTITIONS)}
    else:
        while (cut := _recorded(cluster, settings)) is None:
            time.sleep(0.2)
        topic, topic_id, base = cut.topic, cut.topic_id, cut.base
    outbox = cluster.outbox()
    writer = CoresetsWriter(coresets_topic(settings), outbox, Metrics(WORKER))
    for partition, at in base.items():
        opening = Opening(
            format=FORMAT,
            name=settings.name,
            incarnation=1,
            topic=topic,
            topic_id=topic_id,
            partition=partition,
            base=(*at,),
            configuration=config.canonical(),
            configuration_sha256=config.sha256(),
        )
        writer.open(opening)
    outbox.close()


def _recorded(cluster: Cluster, settings: Settings) -> Any:
    try:
        return files_of(cluster, settings)
    except Exception:  # noqa: BLE001 - the topic is not made yet
        return None


def by_processes(settings: Settings, connection: Connection, files: Files | None, count: int) -> dict[str, Any]:
    """Run processes; return their rate and peak memory. Without files they read the topic."""
    looks: list[tuple[float, int]] = []

    @contextmanager
    def shown(total: int, unit: str) -> Iterator[Any]:
        yield lambda done: looks.append((time.monotonic(), done)) if unit != "bytes" else None

    cluster, stop = Cluster(connection), threading.Event()
    with mock.patch.object(processes, "shown", shown):
        if files is None:
            status = processes.backfill(settings, cluster, count, stop)
        else:
            status = backfill_files(settings, cluster, files, stop, engine="process", master=None, processes=count)
    assert status == 0
    learning = [look for look in looks if 0 < look[1] < looks[-1][1]] or looks
    (began, first), (ended, last) = learning[0], learning[-1]
    peak = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {"core_rate": round((last - first) / max(ended - began, 1e-3) / count), "peak_bytes": peak}


class Started:
    """A backfill as a process of its own, which can be killed with all that it started."""

    def __init__(self, settings: Settings, connection: Connection, files: Files, **how: Any) -> None:
        job = Job.of(settings, connection, files, **how)
        self._file = tempfile.NamedTemporaryFile(suffix=".json")  # noqa: SIM115 - closed by `end`
        Path(self._file.name).write_bytes(msgspec.json.encode(job))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.branches.workers.files.spark_run", self._file.name],
            env=environment_of_spark(),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def kill(self) -> None:
        """Kill it, with all that it started; it must run."""
        assert self._process.poll() is None, f"it ended before it was killed {KILLS} times: give more points"
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()
        self._file.close()

    def end(self) -> str:
        """Wait for its end; return what it wrote."""
        told, _ = self._process.communicate()
        assert self._process.returncode == 0, told[-3_000:]
        self._file.close()
        return told


def by_spark(
    settings: Settings, connection: Connection, files: Files, master: str, n: int, tasks: int | None = None
) -> dict[str, Any]:
    """Run Spark in a process; return its rate and the peak memory of a task."""
    told = Started(settings, connection, files, master=master, processes=tasks).end()
    seconds, peak = (re.search(rf"{name}\W+([\d.]+)", told) for name in ("task_seconds", "peak_task_bytes"))
    assert seconds is not None
    assert peak is not None
    return {"core_rate": round(n / float(seconds[1])), "peak_bytes": int(peak[1])}


def killed(settings: Settings, connection: Connection, files: Files, how: str) -> dict[str, Any]:
    """Kill a backfill each time that more rows are stored, start it again, and let the last one end."""
    chosen = {"master": "local[2]"} if how == "spark" else {"engine": "process", "processes": int(how)}
    stored = [0]
    for _ in range(KILLS):
        started = Started(settings, connection, files, **chosen)
        while (rows := rows_stored(settings, connection)) == stored[-1]:
            time.sleep(0.05)
        started.kill()
        stored.append(rows)
    Started(settings, connection, files, **chosen).end()
    return {"killed_after_rows": stored[1:]}


def rows_stored(settings: Settings, connection: Connection) -> int:
    """Count the rows of all partitions that another start goes on after; 0 where there is no topic yet."""
    try:
        found = [
            read_partition(Cluster(connection), settings, partition)[0].highest() for partition in range(PARTITIONS)
        ]
    except StreamsvmError:
        return 0
    return sum(one.manifest.rows for one in found if one is not None)


def manifests(settings: Settings, connection: Connection) -> list[bytes]:
    """Return each partition's highest complete manifest."""
    found = [read_partition(Cluster(connection), settings, partition)[0].highest() for partition in range(PARTITIONS)]
    return [b"" if one is None else one.manifest.encode() for one in found]


def main() -> None:
    """Run all engines, and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.backfill", description=__doc__)
    parser.add_argument("--points", type=int, default=5_000_000)
    parser.add_argument("--dimension", type=int, default=8)
    parser.add_argument("--engines", default="process:1,process:2", help="separated by commas")
    parser.add_argument("--in-topic", action="store_true", help="the topic holds the same rows")
    given = parser.parse_args()
    broker = JvmBroker(port=0)
    broker.start()
    try:
        with TemporaryDirectory() as folder:
            measure(Connection(options={"bootstrap.servers": broker.bootstrap_servers}), Path(folder), given)
    finally:
        broker.stop()


def measure(connection: Connection, folder: Path, given: argparse.Namespace) -> None:
    """Make the files and a topic, which begins at offset 1 or holds their rows, and run each engine."""
    cluster, n = Cluster(connection), given.points
    topic = TopicSpec(TOPIC, PARTITIONS, config={"retention.ms": "-1"})  # the times of the rows are long ago
    cluster.create([topic, TopicSpec(settings_of(0, 1).input.dead_letters, 1)])
    points = folder / "points"
    points.mkdir()
    write_files(points, n, given.dimension)
    if given.in_topic:
        send(connection, points, given.dimension)
    else:
        make_room(connection)
    columns = {"key": "user", "time": "at", "label": "y", "features": ",".join(f"f{i}" for i in range(given.dimension))}
    files = Files(
        paths=sorted(points.iterdir())[:FILES],
        columns=columns,
        in_topic=given.in_topic,
        dead_letters=folder / "letters",
    )
    half = replace(files, paths=files.paths[: FILES // 2])
    expected: list[bytes] | None = None
    for number, engine in enumerate(given.engines.split(",")):
        settings, (kind, _, how) = settings_of(number, given.dimension), engine.partition(":")
        with ExitStack() as stack:
            if kind == "cluster":
                master = stack.enter_context(standalone_cluster(Path(stack.enter_context(TemporaryDirectory()))))
            opening = threading.Thread(target=open_when_recorded, args=(settings, cluster, kind == "topic"))
            opening.start()
            began = time.monotonic()
            if kind == "topic":
                opening.join()
                found = by_processes(settings, connection, None, int(how))
            elif kind == "process":
                found = by_processes(settings, connection, files, int(how))
            elif kind == "half":
                by_processes(settings, connection, half, int(how))
                found = by_processes(settings, connection, None, int(how))
            elif kind == "killed":
                found = killed(settings, connection, files, how)
            elif kind == "cluster":
                found = by_spark(settings, connection, files, master, n, int(how))
            else:
                found = by_spark(settings, connection, files, how, n)
            wall_s = time.monotonic() - began
            opening.join()
            if given.in_topic:
                by_processes(settings, connection, None, 1)
        own = manifests(settings, connection)
        expected = expected or own
        told = {"engine": engine, "points": n, "wall_s": round(wall_s, 1), "rate": round(n / wall_s), **found}
        print(json.dumps({**told, "bytes_equal": own == expected and all(own), "load": os.getloadavg()[0]}), flush=True)


def make_room(connection: Connection) -> None:
    """Let the topic begin at offset 1."""
    for partition in range(PARTITIONS):
        produce(connection, TOPIC, [b"{}"], partition)
    admin = AdminClient(dict(connection.options))
    for done in admin.delete_records([TopicPartition(TOPIC, p, 1) for p in range(PARTITIONS)]).values():
        done.result(30.0)


if __name__ == "__main__":
    main()

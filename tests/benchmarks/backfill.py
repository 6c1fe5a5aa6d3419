"""A backfill of files by processes and by Spark: `python -m tests.benchmarks.backfill --engines process:1,process:2`.

Points in four partitions, as Parquet files, go before a topic of a real broker. Each engine learns all of them into a
coresets topic of its own: `process:N`, or `spark:MASTER`, for which pyspark must be in the folder that the environment
names in STREAMSVM_TEST_SPARK (`make spark`). Lines of JSON:

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
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest import mock

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from consumers.branches.workers import backfill as processes
from consumers.branches.workers.coresets_topic import CoresetsWriter, files_of, read_partition
from consumers.branches.workers.crew import environment, plain
from consumers.branches.workers.files.backfill import Files, backfill_files
from consumers.branches.workers.metrics import WORKER
from consumers.branches.workers.settings import coresets_topic
from consumers.metrics import Metrics
from consumers.settings import CheckpointConfig, InputConfig, LogConfig, OutputConfig, Settings, TrainingConfig
from streamsvm.branches.workers.coreset_records import FORMAT, Opening
from streamsvm.config import PointsConfig
from streamsvm.kafka import Cluster, Connection, TopicSpec
from tests.branches.workers.files.spark_run import Job
from tests.brokers.jvm import JvmBroker
from tests.consumers.trainers import produce

PARTITIONS: Final = 4
FILES: Final = 8
TOPIC: Final = "backfill.points"
ROOT: Final = Path(__file__).parents[2]


def write_files(folder: Path, n: int, dimension: int) -> None:
    """Write Gaussian points of two classes with keys, in Parquet files of several row groups."""
    random, each = np.random.default_rng(5), -(-n // FILES)
    for number in range(FILES):
        rows = min(each, n - number * each)
        y = np.where(random.random(rows) < 0.5, 1, -1)
        X = random.normal(size=(rows, dimension)) + 0.5 * y[:, None]
        columns: dict[str, Any] = {f"f{index}": X[:, index] for index in range(dimension)}
        columns |= {"y": y, "user": number * each + np.arange(rows)}
        pa.parquet.write_table(pa.table(columns), folder / f"{number:02}.parquet", row_group_size=1 << 17)


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


def open_when_recorded(settings: Settings, cluster: Cluster) -> None:
    """Open the partitions as a trainer would, once the files are recorded."""
    while (cut := _recorded(cluster, settings)) is None:
        time.sleep(0.2)
    config, outbox = settings.models(), cluster.outbox()
    writer = CoresetsWriter(coresets_topic(settings), outbox, Metrics(WORKER))
    for partition, base in cut.base.items():
        opening = Opening(
            format=FORMAT,
            name=settings.name,
            incarnation=1,
            topic=cut.topic,
            topic_id=cut.topic_id,
            partition=partition,
            base=(*base,),
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


def by_processes(settings: Settings, connection: Connection, files: Files, count: int) -> dict[str, Any]:
    """Run processes; return their rate and peak memory."""
    looks: list[tuple[float, int]] = []

    @contextmanager
    def shown(total: int, unit: str) -> Iterator[Any]:
        yield lambda done: looks.append((time.monotonic(), done)) if unit == "rows" else None

    with mock.patch.object(processes, "shown", shown):
        status = backfill_files(
            settings, Cluster(connection), files, threading.Event(), engine="process", master=None, processes=count
        )
    assert status == 0
    learning = [look for look in looks if 0 < look[1] < looks[-1][1]]
    (began, first), (ended, last) = learning[0], learning[-1]
    peak = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {"core_rate": round((last - first) / (ended - began) / count), "peak_bytes": peak}


def by_spark(settings: Settings, connection: Connection, files: Files, master: str, n: int) -> dict[str, Any]:
    """Run Spark in a process; return its rate and the peak memory of a task."""
    job = Job(
        settings=plain(settings),
        kafka=dict(connection.options),
        embedded=connection.embedded,
        paths=list(map(str, files.paths)),
        columns=dict(files.columns),
        in_topic=files.in_topic,
        dead_letters=str(files.dead_letters),
        master=master,
    )
    own = environment()
    own["PYTHONPATH"] += os.pathsep + os.environ["STREAMSVM_TEST_SPARK"]
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        Path(file.name).write_bytes(msgspec.json.encode(job))
        command = [sys.executable, "-m", "tests.branches.workers.files.spark_run", file.name]
        done = subprocess.run(command, env=own, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    told = done.stdout + done.stderr
    seconds, peak = (re.search(rf"{name}\W+([\d.]+)", told) for name in ("task_seconds", "peak_task_bytes"))
    assert seconds is not None
    assert peak is not None
    return {"core_rate": round(n / float(seconds[1])), "peak_bytes": int(peak[1])}


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
    given = parser.parse_args()
    broker = JvmBroker(port=0)
    broker.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            measure(Connection(options={"bootstrap.servers": broker.bootstrap_servers}), Path(folder), given)
    finally:
        broker.stop()


def measure(connection: Connection, folder: Path, given: argparse.Namespace) -> None:
    """Make the files and a topic that begins at offset 1, and run each engine."""
    cluster, n = Cluster(connection), given.points
    cluster.create([TopicSpec(TOPIC, PARTITIONS), TopicSpec(settings_of(0, 1).input.dead_letters, 1)])
    for partition in range(PARTITIONS):
        produce(connection, TOPIC, [b"{}"], partition)
    admin = AdminClient(dict(connection.options))
    for done in admin.delete_records([TopicPartition(TOPIC, p, 1) for p in range(PARTITIONS)]).values():
        done.result(30.0)
    write_files(folder, n, given.dimension)
    files = Files(paths=[folder], columns={"key": "user"}, in_topic=False, dead_letters=folder / "letters")
    expected: list[bytes] | None = None
    for number, engine in enumerate(given.engines.split(",")):
        settings, (kind, _, how) = settings_of(number, given.dimension), engine.partition(":")
        opening = threading.Thread(target=open_when_recorded, args=(settings, cluster))
        opening.start()
        began = time.monotonic()
        if kind == "process":
            found = by_processes(settings, connection, files, int(how))
        else:
            found = by_spark(settings, connection, files, how, n)
        wall_s = time.monotonic() - began
        opening.join()
        own = manifests(settings, connection)
        expected = expected or own
        told = {"engine": engine, "points": n, "wall_s": round(wall_s, 1), "rate": round(n / wall_s), **found}
        print(json.dumps({**told, "bytes_equal": own == expected and all(own), "load": os.getloadavg()[0]}), flush=True)


if __name__ == "__main__":
    main()

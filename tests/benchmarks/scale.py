"""One process beside several workers on a real broker: `python -m tests.benchmarks.scale --group-workers 1,2`.

The trainer as it is deployed, at default settings, from its first turn until every point of a filled topic is learned;
then it is stopped, and its last checkpoint holds what it has learned. Beside it workers (`streamsvm scale worker
--ordinal K --of N`) and a trainer that adopts what they leave in the coresets topic: the time of each process from when
it was prepared until the trainer has adopted every point, and `published_share`, the bytes that were left over those of
the input. The wall ends when the trainer has the last manifest, which comes up to a second after the last point was
learned.

`rate` is points a second of the wall, `cpu_us_a_point` the processor time of all processes, workers and trainer with
its training thread, over all points. The broker's is not in it. `bytes_equal` says whether everything that was learned,
each partition's record and each bucket's, and the model that is trained on the union of them, has the bytes of what one
process learned of the same topic.

Where each worker has no core of its own, the wall says little of how workers share the work. So there are also the
processor time of each worker over its own points, and what the slowest one would do with a core for itself:
`slowest_worker_rate`, its points over its own seconds of processor time. Runs take turns; figures are medians.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from consumers.branches.workers import topic_spec
from consumers.branches.workers.settings import coresets_topic
from consumers.settings import CheckpointConfig, InputConfig, LogConfig, OutputConfig, Settings, TrainingConfig
from streamsvm.checkpoint import CheckpointDirectory, FileSystem, encode_bucket, encode_partition
from streamsvm.config import ModelConfig, PointsConfig
from streamsvm.kafka import Cluster, Connection, TopicSpec
from streamsvm.learning import Learner, LearnerState, train
from tests.benchmarks.ingest import FORMATS, headers_of, make, values_of
from tests.benchmarks.runner import Child, all_cores, known, numbers, parser_of, words, written
from tests.benchmarks.trainers import TIMEOUT_S, serve, trained
from tests.brokers.jvm import JvmBroker

RECORDS: Final[Mapping[str, str]] = {"json": "json", "arrow": "arrow-4096"}
"""One point a record, or 4,096 rows of one."""
WORKER: Final = """
from consumers.branches.workers import group_worker
from consumers.cli.app import main
group_worker.PUBLISH_AFTER_S = 1.0
main()
"""
"""A worker whose last manifest does not wait for half a minute: the wall would be of that."""
KIND: Final = re.compile(rb"/\d+[^/]*/([bln])/")
KINDS: Final = {b"b": "buckets", b"l": "open_leaves", b"n": "newest_rows", b"": "other"}
"""What a key of the coresets topic is of; manifests, openings and tombstones are the rest."""


def points_of(n: int, format_: str, partitions: int) -> int:
    """Return about n points: as many whole records in each partition."""
    whole = FORMATS[RECORDS[format_]] * partitions
    return max(1, n // whole) * whole


def topic_of(format_: str, partitions: int) -> str:
    return f"scale.{format_}.{partitions}"


def fill(connection: Connection, format_: str, n: int, dimension: int, partitions: int) -> int:
    """Put n points into a new topic, record by record over its partitions; lz4. Return the bytes of all values."""
    size = 0
    Cluster(connection).create([TopicSpec(topic_of(format_, partitions), partitions)])
    X, y = make(n, dimension)
    producer = Producer({**connection.options, "compression.type": "lz4", "linger.ms": 20})
    headers = list(headers_of(RECORDS[format_]))
    for index, value in enumerate(values_of(RECORDS[format_], X, y)):
        size += len(value)
        while True:
            try:
                producer.produce(topic_of(format_, partitions), value, partition=index % partitions, headers=headers)
                break
            except BufferError:
                producer.poll(0.1)
        if index % 100 == 0:
            producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    producer.close()
    return size


# ----------------------------------------------------------------------------------------------------------- one run


def settings_of(connection: Connection, topic: str, dimension: int, directory: str, name: str, **more: Any) -> Settings:
    """Return a trainer's settings: the default ones, in topics and a folder of its own."""
    return Settings(
        name=name,
        kafka={"bootstrap.servers": connection.servers},
        input=InputConfig(topic=topic),
        points=PointsConfig(dimension=dimension),
        output=OutputConfig(models_topic=f"{name}-models"),
        log=LogConfig(level="error"),
        **({"checkpoint": CheckpointConfig(directory=Path(directory))} | more),
    )


def run(connection: Connection, format_: str, n: int, dimension: int, partitions: int, number: int) -> dict[str, Any]:
    """Run the trainer over a filled topic; return its times, and the digest of what it has learned."""
    with tempfile.TemporaryDirectory() as directory:
        name, topic = f"scale-{os.getpid()}-{number}", topic_of(format_, partitions)
        settings = settings_of(connection, topic, dimension, directory, name)
        metrics = trained(settings, connection, n, "learned")
        learned = _learned(Path(directory), n)
    lap = metrics.laps["learned"]
    return {
        "wall_s": lap.wall_s,
        "trainer_cpu_s": lap.cpu_s,
        "worker_cpu_s": [],
        "worker_points": [],
        "versions": metrics.registry.get_sample_value("streamsvm_model_version"),
        "digest": digest_of(learned, settings.models()),
    }


def _cpu_s(pid: int) -> float:
    """Return the processor time that a process has had by now."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def run_group(
    connection: Connection, format_: str, n: int, dimension: int, partitions: int, workers: int, number: int
) -> dict[str, Any]:
    """Run a trainer that adopts, and workers of their own, over a filled topic; as `run`, with the bytes left."""
    name = f"scale-group-{os.getpid()}-{number}"
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        kept = CheckpointConfig(directory=Path(directory), interval_s=1.0)
        more = {"checkpoint": kept, "training": TrainingConfig(from_coresets=True)}
        settings = settings_of(connection, topic_of(format_, partitions), dimension, directory, name, **more)
        cluster = Cluster(connection)
        cluster.create([topic_spec(settings, partitions), TopicSpec(settings.input.dead_letters)])
        processes = [_worker(stack, settings, worker, workers) for worker in range(workers)]
        begun = [_cpu_s(process.pid) for process in processes]
        metrics = trained(settings, connection, n, "adopted")
        cpu_s = [_cpu_s(process.pid) - before for process, before in zip(processes, begun, strict=True)]
        learned = _learned(Path(directory), n)
        left = dict.fromkeys(KINDS.values(), 0)
        for partition in range(partitions):
            for record in cluster.read_to_end(coresets_topic(settings), partition, timeout_s=TIMEOUT_S):
                found = KIND.match((record.key or b"").removeprefix(name.encode()))
                kind = "other" if found is None or not record.value else KINDS[found[1]]
                left[kind] += len(record.key or b"") + len(record.value or b"")
    lap = metrics.laps["adopted"]
    shares = [sum(p % workers == worker for p in range(partitions)) / partitions for worker in range(workers)]
    return {
        "wall_s": lap.wall_s,
        "trainer_cpu_s": lap.cpu_s,
        "worker_cpu_s": cpu_s,
        "worker_points": [round(n * share) for share in shares],
        "versions": metrics.registry.get_sample_value("streamsvm_model_version"),
        "published_bytes": sum(left.values()),
        "published_of": left,
        "digest": digest_of(learned, settings.models()),
    }


def _worker(stack: ExitStack, settings: Settings, ordinal: int, of: int) -> subprocess.Popen[str]:
    """Start a worker, and wait until everything is compiled and it asks for its partitions."""
    points = settings.points
    assert points is not None
    options = {
        "name": settings.name,
        "bootstrap-servers": settings.kafka["bootstrap.servers"],
        "input-topic": settings.input.topic,
        "points-dimension": points.dimension,
        "ordinal": ordinal,
        "of": of,
        "http-port": 0,
    }
    given = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    command = [sys.executable, "-c", WORKER, "scale", "worker", *given]
    process = stack.enter_context(
        subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    )
    assert process.stderr is not None
    for line in process.stderr:
        if '"worker_started"' in line:
            break
    else:
        raise RuntimeError(f"worker {ordinal} ended")
    rest = threading.Thread(target=process.stderr.read, daemon=True)
    rest.start()
    stack.callback(rest.join)
    stack.callback(process.terminate)
    return process


def _learned(directory: Path, n: int) -> LearnerState:
    with CheckpointDirectory(FileSystem(directory), 3) as checkpoints:
        newest = next(one.snapshot for one in checkpoints.generations() if one.snapshot is not None)
    assert sum(state.learned.rows for state in newest.learner.partitions.values()) == n
    return newest.learner


def digest_of(state: LearnerState, config: ModelConfig) -> str:
    """Hash each partition's record, those of its buckets, and the model of the cut of all of them."""
    digest = hashlib.sha256()
    for partition, own in sorted(state.partitions.items()):
        buckets = [encode_bucket(bucket) for bucket in own.buckets]
        for bucket in buckets:
            digest.update(bucket.value)
        digest.update(encode_partition(partition, own, [bucket.name for bucket in buckets]))
    cut = Learner(config, {}, 1).taken_of(state).make()
    trained = train(cut.points, cut.moments, config.svm)
    digest.update(cut.points.sha256().encode())
    digest.update(trained.model.machine.coefficients.tobytes())  # type: ignore[union-attr]
    return digest.hexdigest()


def either(
    connection: Connection, format_: str, n: int, dimension: int, partitions: int, workers: int, number: int
) -> dict[str, Any]:
    """Run workers, or one process alone if there are none."""
    if workers:
        return run_group(connection, format_, n, dimension, partitions, workers, number)
    return run(connection, format_, n, dimension, partitions, number)


# ------------------------------------------------------------------------------------------------------------- running


def measure(
    n: int,
    dimension: int,
    partitions: Sequence[int],
    formats: Sequence[str],
    workers: Sequence[int],
    rounds: int,
) -> Iterator[dict[str, Any]]:
    """Yield the rows of one topic after the other; one process always runs, for it has the bytes to compare with."""
    each = list(dict.fromkeys([0, *workers]))
    with ExitStack() as stack:
        broker = JvmBroker()
        stack.callback(broker.stop)
        broker.start()
        connection = Connection(options={"bootstrap.servers": broker.bootstrap_servers})
        command = [sys.executable, "-m", "tests.benchmarks.scale", "--serve", broker.bootstrap_servers]
        ours = Child.start(stack, command, all_cores())
        for format_, count in itertools.product(formats, partitions):
            points = points_of(n, format_, count)
            size = fill(connection, format_, points, dimension, count)
            runs: dict[int, list[dict[str, Any]]] = {number: [] for number in each}
            for turn in range(rounds + 1):  # the first is not measured: caches, and the broker's own compiler
                for number in each if turn % 2 else reversed(each):
                    runs[number].append(ours.ask(format_, points, dimension, count, number))
            reference = runs[0][0]["digest"]
            one = statistics.median(points / run["wall_s"] for run in runs[0][1:])
            for number in each:
                found = row(number, count, format_, points, dimension, runs[number][1:], size if number else 0)
                equal = all(run["digest"] == reference for run in runs[number])
                yield {**found, "bytes_equal": equal, "times_one": round(found["rate"] / one, 2)}


def row(
    workers: int,
    partitions: int,
    format_: str,
    points: int,
    dimension: int,
    runs: Sequence[Mapping[str, Any]],
    size: int = 0,
) -> dict[str, Any]:
    """Return the medians of some runs; of workers with the bytes of the input."""
    slowest = [
        min(own / cpu_s for own, cpu_s in zip(run["worker_points"], run["worker_cpu_s"], strict=True) if cpu_s)
        for run in runs
        if run["worker_cpu_s"]
    ]
    each = [
        [cpu_s / own * 1e6 for own, cpu_s in zip(run["worker_points"], run["worker_cpu_s"], strict=True) if own]
        for run in runs
    ]
    cpu = [(run["trainer_cpu_s"] + sum(run["worker_cpu_s"])) / points * 1e6 for run in runs]
    left = [run["published_bytes"] / size for run in runs] if size else []
    return {
        "workers": workers,
        "published_share": round(statistics.median(left), 4) if left else None,
        "published_of": {k: round(v / size, 4) for k, v in runs[-1]["published_of"].items()} if size else {},
        "partitions": partitions,
        "format": format_,
        "rate": round(statistics.median(points / run["wall_s"] for run in runs)),
        "cpu_us_a_point": round(statistics.median(cpu), 4),
        "trainer_cpu_us_a_point": round(statistics.median(run["trainer_cpu_s"] / points * 1e6 for run in runs), 4),
        "worker_cpu_us_a_point": [round(statistics.median(own), 4) for own in zip(*each, strict=True)],
        "slowest_worker_rate": round(statistics.median(slowest)) if slowest else None,
        "versions": sorted({int(run["versions"]) for run in runs}),
        "points": points,
        "dimension": dimension,
        "rounds": len(runs),
    }


def lines(rows: Sequence[Mapping[str, Any]], load: float) -> Iterator[str]:
    """Yield the table as text."""
    cores = len(os.sched_getaffinity(0))
    yield f"One process and workers, {cores} cores for everything, load average {load:.1f} at the start"
    yield ""
    yield (
        f"{'format':<7}{'part.':>6}{'workers':>8}{'points':>12}{'points/s':>12}{'x one':>7}{'CPU us/pt':>11}"
        f"{'trainer':>9}  {'each worker, own points':<26}{'slowest/CPU s':>14}{'left':>7}  bytes equal"
    )
    for one in rows:
        each = " ".join(f"{cpu:.3f}" for cpu in one["worker_cpu_us_a_point"]) or "-"
        alone = "-" if one["slowest_worker_rate"] is None else f"{one['slowest_worker_rate']:,}"
        left = "-" if one["published_share"] is None else f"{one['published_share']:.1%}"
        workers = one["workers"] or "none"
        yield (
            f"{one['format']:<7}{one['partitions']:>6}{workers:>8}{one['points']:>12,}{one['rate']:>12,}"
            f"{one['times_one']:>7.2f}{one['cpu_us_a_point']:>11.3f}{one['trainer_cpu_us_a_point']:>9.3f}  {each:<26}"
            f"{alone:>14}{left:>7}  {'yes' if one['bytes_equal'] else 'NO'}"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table."""
    parser = parser_of("scale", __doc__, rounds=3)
    parser.add_argument("--group-workers", type=numbers, default=[1, 2], help="numbers of workers")
    parser.add_argument("--partitions", type=numbers, default=[2, 8], help="partitions of the input")
    parser.add_argument("--format", type=words, default=[*RECORDS], help="formats of the records")
    parser.add_argument("--points", type=int, default=2_000_000, help="points of a topic (%(default)s)")
    parser.add_argument("--dimension", type=int, default=8, help="features of a point (%(default)s)")
    parser.add_argument("--serve", default="", metavar="SERVERS", help="answer lines on standard input with runs")
    asked = parser.parse_args(arguments)
    if asked.serve:
        serve(asked.serve, either)
        return
    known(parser, "--format", asked.format, [*RECORDS])
    load, sizes = os.getloadavg()[0], (asked.points, asked.dimension, asked.partitions)
    rows = list(measure(*sizes, asked.format, asked.group_workers, asked.rounds))
    print(*lines(rows, load), sep="\n")
    written(asked.json, rows)


if __name__ == "__main__":
    main()

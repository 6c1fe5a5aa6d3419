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

from consumers.branches.workers import topic_spec
from consumers.branches.workers.settings import coresets_topic
from consumers.settings import CheckpointConfig, InputConfig, LogConfig, OutputConfig, Settings, TrainingConfig
from streamsvm.checkpoint import CheckpointDirectory, FileSystem
from streamsvm.config import ModelConfig, PointsConfig
from streamsvm.coreset import Names, encode_state
from streamsvm.kafka import Cluster, Connection, TopicSpec
from streamsvm.learning import LearnerState, TakenCut, train
from tests.benchmarks.ingest import FORMATS, make, store, values_of
from tests.benchmarks.runner import Child, aligned, all_cores, known, numbers, parser_of, shown, words, written
from tests.benchmarks.trainers import TIMEOUT_S, serve, started_broker, trained

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
    """Put n points into a new topic, record by record over its partitions; return the bytes of all values."""
    values = values_of(RECORDS[format_], *make(n, dimension))
    return store(connection, topic_of(format_, partitions), partitions, RECORDS[format_], values)


# ----------------------------------------------------------------------------------------------------------- one run


def settings_of(
    connection: Connection, topic: str, dimension: int, directory: Path, name: str, workers: int
) -> Settings:
    """Return a trainer's settings: the default ones, in topics and a folder of its own; with workers it only adopts."""
    interval: dict[str, Any] = {"interval_s": 1.0} if workers else {}
    return Settings(
        name=name,
        kafka={"bootstrap.servers": connection.servers},
        input=InputConfig(topic=topic),
        points=PointsConfig(dimension=dimension),
        output=OutputConfig(models_topic=f"{name}-models"),
        log=LogConfig(level="error"),
        checkpoint=CheckpointConfig(directory=directory, **interval),
        training=TrainingConfig(from_coresets=bool(workers)),
    )


def _cpu_s(pid: int) -> float:
    """Return the processor time that a process has had by now."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def run(
    connection: Connection, format_: str, n: int, dimension: int, partitions: int, workers: int, number: int
) -> dict[str, Any]:
    """Run a trainer over a filled topic, by itself or beside workers from which it adopts.

    Return the times of all processes, the digest of what was learned, and the bytes that workers left.
    """
    name = f"scale-{os.getpid()}-{number}"
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        settings = settings_of(connection, topic_of(format_, partitions), dimension, Path(directory), name, workers)
        if workers:
            made = [topic_spec(settings, partitions), TopicSpec(settings.input.dead_letters)]
            Cluster(connection).create(made)
        processes = [_worker(stack, settings, worker, workers) for worker in range(workers)]
        begun = [_cpu_s(process.pid) for process in processes]
        metrics = trained(settings, connection, n, "adopted" if workers else "learned")
        cpu_s = [_cpu_s(process.pid) - before for process, before in zip(processes, begun, strict=True)]
        learned = _learned(Path(directory), n)
        left = left_by(connection, settings, partitions) if workers else {}
    lap = metrics.laps["adopted" if workers else "learned"]
    shares = [sum(p % workers == worker for p in range(partitions)) / partitions for worker in range(workers)]
    return {
        "wall_s": lap.wall_s,
        "trainer_cpu_s": lap.cpu_s,
        "worker_cpu_s": cpu_s,
        "worker_points": [round(n * share) for share in shares],
        "versions": metrics.registry.get_sample_value("streamsvm_model_version"),
        "published_of": left,
        "digest": digest_of(learned, settings.models()),
    }


def left_by(connection: Connection, settings: Settings, partitions: int) -> dict[str, int]:
    """Return the bytes that workers left in the coresets topic, by what they are of."""
    left = dict.fromkeys(KINDS.values(), 0)
    for partition in range(partitions):
        for record in Cluster(connection).read_to_end(coresets_topic(settings), partition, timeout_s=TIMEOUT_S):
            key, value = record.key or b"", record.value or b""
            named = KIND.match(key.removeprefix(settings.name.encode()))
            kind = KINDS[named[1]] if named and value else "other"
            left[kind] += len(key) + len(value)
    return left


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
    """Hash the state of each partition, and the model of the cut of all of them."""
    digest = hashlib.sha256()
    for _, own in sorted(state.partitions.items()):
        digest.update(encode_state(own, Names(1, "", "")))
    cut = TakenCut(state.partitions, config).make()
    trained = train(cut.points, cut.moments, config.svm)
    digest.update(cut.points.sha256().encode())
    digest.update(trained.model.machine.coefficients.tobytes())  # type: ignore[union-attr]
    return digest.hexdigest()


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
        connection = stack.enter_context(started_broker())
        command = [sys.executable, "-m", "tests.benchmarks.scale", "--serve", connection.servers]
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
    left = [sum(run["published_of"].values()) / size for run in runs] if size else []
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


HEADING: Final = (
    *("format", "part.", "workers", "points", "points/s", "x one", "CPU us/pt", "trainer", "each worker, own points"),
    *("slowest/CPU s", "left", "bytes equal"),
)


def lines(rows: Sequence[Mapping[str, Any]], load: float) -> Iterator[str]:
    """Yield the table as text."""
    cores = len(os.sched_getaffinity(0))
    yield f"One process and workers, {cores} cores for everything, load average {load:.1f} at the start"
    yield ""
    yield from aligned(HEADING, map(_cells, rows))


def _cells(one: Mapping[str, Any]) -> list[object]:
    found = [one["format"], one["partitions"], one["workers"] or "none", f"{one['points']:,}", f"{one['rate']:,}"]
    found += [f"{one['times_one']:.2f}", f"{one['cpu_us_a_point']:.3f}", f"{one['trainer_cpu_us_a_point']:.3f}"]
    found.append(" ".join(f"{cpu:.3f}" for cpu in one["worker_cpu_us_a_point"]) or "-")
    found += [shown(one["slowest_worker_rate"], ","), shown(one["published_share"], ".1%")]
    return [*found, "yes" if one["bytes_equal"] else "NO"]


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
        serve(asked.serve, run)
        return
    known(parser, "--format", asked.format, [*RECORDS])
    load, sizes = os.getloadavg()[0], (asked.points, asked.dimension, asked.partitions)
    rows = list(measure(*sizes, asked.format, asked.group_workers, asked.rounds))
    print(*lines(rows, load), sep="\n")
    written(asked.json, rows)


if __name__ == "__main__":
    main()

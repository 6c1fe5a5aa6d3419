"""From topic to model on a real broker, one core for the consumer, by format: `python -m tests.benchmarks.ingest`.

Ours is the trainer as it is deployed, from the first turn of its loop until the model of all points is published: with
validation, coreset, training in a second thread on the same core, transactions and checkpoints, at default settings: a
version falls due with every leaf, and one is trained at a time while the loop goes on. Records are dealt out in turn
over the partitions, in blocks of a producer's batch. Beside it the loops of `ingest_peers`, which run in an environment
of their own (`--peers PYTHON`), on the same points, single-point JSON records in one partition. Contenders take turns;
the broker has the other core. Processor time is that of the consumer's whole process, the client's threads among them:
on a machine that others use it tells more than the wall.

Avro's schemas come from a stand-in, asked once a run. Decoding alone is timed in this process, without a broker.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
from confluent_kafka import Producer
from threadpoolctl import threadpool_limits

from consumers.host.runtime import configure_logging, spare_the_collector
from consumers.settings import CheckpointConfig, InputConfig, LogConfig, OutputConfig, Settings
from consumers.trainer.components import Components
from consumers.trainer.trainer import Trainer
from streamsvm.config import PointsConfig
from streamsvm.ingest import arrow, avro
from streamsvm.ingest.decoder import PointDecoder, encode
from streamsvm.kafka import Cluster, Connection, Record, TopicSpec
from tests.benchmarks.contenders import _FinishingLine, _StartingGun
from tests.benchmarks.timing import ROUNDS_AT_LEAST, Interval
from tests.brokers.jvm import JvmBroker

ROOT = Path(__file__).parents[2]
PEERS: Final = ("bare", "decode", "sgd", "river", "quix")
LENGTH: Final[Mapping[str, Fraction]] = {
    "arrow-4096": Fraction(8),
    "river": Fraction(1, 10),
    "quix": Fraction(1, 10),
}
"""Points of a contender's stream over those of the others', so that none is done in a blink, and none takes minutes."""
FORMATS: Final[Mapping[str, int]] = {"json": 1, "json-array": 256, "arrow-256": 256, "arrow-4096": 4096, "avro": 256}
"""Rows a record."""
LEAF_ROWS: Final = 2_000
SHARES: Final = 10
"""Streams of the slow loops are whole parts of the others' streams."""
TIMEOUT_S: Final = 300.0


class _Shelf:
    """The one schema that is written."""

    def schema(self, schema_id: int | str) -> str | None:
        return avro.schema_of(1, many=True) if schema_id == 1 else None


def make(n: int, dimension: int) -> tuple[Any, Any]:
    """Return two Gaussian classes, one third positive, features with four decimals, as float32."""
    random = np.random.default_rng(dimension)
    y = np.where(random.random(n) < 1 / 3, 1, -1)
    X = random.normal(size=(n, dimension)) + 1.28 / np.sqrt(dimension) * y[:, None]
    return np.round(X, 4), y


def values_of(format_: str, X: Any, y: Any) -> Iterator[bytes]:
    """Yield the records of a stream."""
    size = FORMATS[format_]
    writer = avro.AvroWriter(avro.schema_of(1, many=True), 1)
    for start in range(0, len(X), size):
        part, labels = X[start : start + size], y[start : start + size].tolist()
        if format_ == "json":
            yield encode(part[0], labels[0])
        elif format_ == "json-array":
            yield b"[" + b",".join(map(encode, part.tolist(), labels)) + b"]"
        elif format_ == "avro":
            rows = zip(part.tolist(), labels, strict=True)
            yield writer.encode([{"x": x, "y": label, "w": None, "id": None} for x, label in rows])
        else:
            yield arrow.encode(part.astype(np.float32), labels)


def headers_of(format_: str) -> tuple[tuple[str, bytes], ...]:
    kinds = {"arrow": arrow.CONTENT_TYPE, "avro": avro.CONTENT_TYPE}
    kind = kinds.get(format_.partition("-")[0])
    return () if kind is None else (("content-type", kind.encode()),)


def whole_points(formats: Sequence[str], partitions: Sequence[int]) -> int:
    """Return of how many points streams must be a multiple, so that each partition ends with a leaf and a record."""
    lengths = (
        Fraction(math.lcm(LEAF_ROWS, FORMATS[name]) * count) / LENGTH.get(name, Fraction(1))
        for name in formats
        for count in partitions
    )
    return math.lcm(SHARES, *(length.numerator for length in lengths))


def topic_of(format_: str, dimension: int, partitions: int) -> str:
    return f"{format_}.{dimension}" if partitions == 1 else f"{format_}.{dimension}.{partitions}"


def fill(connection: Connection, n: int, dimension: int, formats: Sequence[str], partitions: int) -> None:
    """Make a topic for each format, lz4; a longer one repeats its points."""
    X, y = make(n, dimension)
    Cluster(connection).create([TopicSpec(topic_of(format_, dimension, partitions), partitions) for format_ in formats])
    for format_ in formats:
        producer = Producer(
            {**connection.options, "compression.type": "lz4", "linger.ms": 20, "queue.buffering.max.messages": 10**6}
        )
        length = LENGTH.get(format_, Fraction(1))
        rows = slice(0, min(n, int(n * length)))
        values = list(values_of(format_, X[rows], y[rows])) * max(1, int(length))
        share = len(values) // partitions
        assert share * partitions == len(values), f"{len(values)} records do not divide over {partitions} partitions"
        block = next(size for size in (100, 50, 25, 20, 10, 8, 5, 4, 2, 1) if share % size == 0)
        most = min(10**5, 2**28 // len(values[0]))
        for index, value in enumerate(values):
            if index % 100 == 0:
                while len(producer) > most:
                    producer.poll(0.1)
            at = index // block % partitions
            producer.produce(
                topic_of(format_, dimension, partitions), value, partition=at, headers=list(headers_of(format_))
            )
        assert producer.flush(TIMEOUT_S) == 0
        producer.close()


# ---------------------------------------------------------------------------------------------------------------- ours


def train(connection: Connection, format_: str, n: int, dimension: int, partitions: int, run: int) -> dict[str, Any]:
    """Run the trainer from the topic's beginning until the model of all points is published."""
    with tempfile.TemporaryDirectory() as directory:
        settings = Settings(
            name=f"ingest-{run}",
            kafka={"bootstrap.servers": connection.servers},
            input=InputConfig(topic=topic_of(format_, dimension, partitions)),
            points=PointsConfig(dimension=dimension),
            output=OutputConfig(models_topic=f"ingest-models-{os.getpid()}-{run}"),
            checkpoint=CheckpointConfig(directory=Path(directory)),
        )
        stop, health = threading.Event(), _StartingGun()
        metrics = _FinishingLine(n, health, stop)
        alarm = threading.Timer(TIMEOUT_S, stop.set)
        alarm.start()
        try:
            components = Components(
                cluster=Cluster(connection), metrics=metrics, health=health, stop=stop, schemas=_Shelf()
            )
            Trainer(settings, components).run()
        finally:
            alarm.cancel()
    assert metrics.learned is not None
    assert metrics.published is not None, f"{format_}: the model of all points was not published"
    return {
        "seen": metrics.seen,
        "wall_s": metrics.published.wall_s,
        "cpu_s": metrics.published.cpu_s,
        "learned_s": metrics.learned.wall_s,
        "loop_s": metrics.learned.loop_s,
        "versions": metrics.versions,
        "longest_turn_s": metrics.registry.get_sample_value("streamsvm_loop_longest_turn_seconds"),
    }


def serve(servers: str) -> None:
    """Answer each line of `FORMAT N DIMENSION PARTITIONS` with a run."""
    configure_logging(LogConfig(level="error"))
    spare_the_collector()
    connection = Connection(options={"bootstrap.servers": servers})
    runs = itertools.count()
    with threadpool_limits(1):
        for line in sys.stdin:
            format_, n, dimension, partitions = line.split()
            told = train(connection, format_, int(n), int(dimension), int(partitions), next(runs))
            print(json.dumps(told), flush=True)


# ------------------------------------------------------------------------------------------------------------ decoding


def decoding(dimension: int, runs: int) -> dict[str, float]:
    """Return CPU microseconds a point of decoding alone, least of the runs."""
    n = 4096 * 10
    X, y = make(n, dimension)
    found = {}
    for format_, size in FORMATS.items():
        decoder = PointDecoder(PointsConfig(dimension=dimension), schemas=_Shelf())
        records = [
            Record("t", 0, offset, None, value, headers_of(format_), 1_700_000_000_000, 0)
            for offset, value in enumerate(values_of(format_, X, y))
        ]
        batch = 1_000 if size == 1 else 1 if size == 4096 else 16
        batches = [records[start : start + batch] for start in range(0, len(records), batch)]
        laps = []
        for _ in range(runs + 1):
            began = time.process_time()
            for part in batches:
                decoder.decode(part)
            laps.append(time.process_time() - began)
        found[format_] = min(laps) / n * 1e6
    return found


# ------------------------------------------------------------------------------------------------------------- running


@dataclass(frozen=True, slots=True)
class Child:
    """A process that answers lines with lines of JSON."""

    process: subprocess.Popen[str]

    def ask(self, *words: object) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"{words}: the process ended with {self.process.wait()}")
        told: dict[str, Any] = json.loads(answer)
        return told


def child(stack: ExitStack, cores: int | str, command: Sequence[str]) -> Child:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    process = stack.enter_context(
        subprocess.Popen(
            ["taskset", "-c", str(cores), *command],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    )
    stack.callback(process.kill)
    return Child(process)


def measure(
    n: int,
    dimensions: Sequence[int],
    partitions: Sequence[int],
    rounds: int,
    only: Sequence[str],
    peers: str,
    core: int,
    broker_core: int,
) -> Iterator[list[dict[str, Any]]]:
    """Run every contender in turn; yield one row for each, dimension and partitions, anew after each round."""
    laps: dict[tuple[str, int, int], list[dict[str, Any]]] = {}
    formats = [name for name in FORMATS if name in only]
    os.sched_setaffinity(0, {broker_core})  # the broker inherits it
    with ExitStack() as stack:
        broker = JvmBroker()
        stack.callback(broker.stop)
        broker.start()
        connection = Connection(options={"bootstrap.servers": broker.bootstrap_servers})
        for dimension in dimensions:
            for count in partitions:
                fill(connection, n, dimension, formats, count)
            if peers and not ("json" in formats and 1 in partitions):
                fill(connection, n, dimension, ["json"], 1)
        ours = child(stack, core, [sys.executable, "-m", "tests.benchmarks.ingest", "--serve", connection.servers])
        theirs = child(stack, core, [peers, "tests/benchmarks/ingest_peers.py", connection.servers]) if peers else None
        names = [(name, count) for name in formats for count in partitions]
        names += [(name, 1) for name in PEERS if theirs and name in only]
        for turn in range(rounds + 1):
            for dimension in dimensions:
                for name, count in [*names[turn % len(names) :], *names[: turn % len(names)]]:
                    points = int(n * LENGTH.get(name, Fraction(1)))
                    if name in FORMATS:
                        lap = ours.ask(name, points, dimension, count)
                    else:
                        assert theirs is not None
                        lap = theirs.ask(name, f"json.{dimension}", points, dimension)
                    if "missing" in lap:
                        continue
                    assert lap["seen"] == points, f"{name} saw {lap['seen']} of {points} points"
                    if turn:  # the first round compiles, and fills caches
                        laps.setdefault((name, dimension, count), []).append(lap | {"points": points})
            if turn:
                yield [row(name, dimension, count, told) for (name, dimension, count), told in laps.items()]


def row(name: str, dimension: int, partitions: int, laps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    speed = Interval.of([lap["points"] / lap["wall_s"] for lap in laps])
    cpu = Interval.of([lap["cpu_s"] / lap["points"] * 1e6 for lap in laps])
    found = {
        "contender": "streamsvm" if name in FORMATS else name,
        "format": name if name in FORMATS else "json",
        "partitions": partitions,
        "dimension": dimension,
        "rounds": len(laps),
        "points": laps[0]["points"],
        "rate": round(speed.median),
        "least": round(speed.least),
        "greatest": round(speed.greatest),
        "cpu_us_per_point": round(cpu.median, 3),
    }
    if name in FORMATS:
        learned = Interval.of([lap["points"] / lap["learned_s"] for lap in laps])
        loop = Interval.of([lap["loop_s"] / lap["points"] * 1e6 for lap in laps])
        found |= {"learned_per_s": round(learned.median), "loop_us_per_point": round(loop.median, 3)}
        found["versions"] = sorted({lap["versions"] for lap in laps})
        found["longest_turn_s"] = max(lap["longest_turn_s"] for lap in laps)
    return found


def lines(
    rows: Sequence[Mapping[str, Any]],
    before: Sequence[Mapping[str, Any]],
    decode: Mapping[int, Mapping[str, float]],
    load: float,
) -> Iterator[str]:
    """Yield the table as text; `before` has rows of an earlier run."""
    peers = {(one["contender"], one["dimension"]): one for one in rows if one["contender"] != "streamsvm"}
    earlier = {_place(one): one["rate"] for one in before}
    yield f"From topic to model, {rows[0]['rounds']} rounds after one unmeasured, load average {load:.1f} at the start"
    points = " or ".join(f"{n:,}" for n in sorted({one["points"] for one in rows}, reverse=True))
    yield f"{points} points; thousand points/s: median (least-greatest); ours until the model of all is published"
    yield ""
    yield (
        f"{'contender':<12}{'d':>3}{'part.':>6} {'thousand points/s':>26} {'before':>8} {'x sgd':>7} {'x river':>8} "
        f"{'x bare':>7} {'CPU us/pt':>10} {'sgd CPU x':>10} {'learned k/s':>12} {'decode us':>10} {'versions':>9} "
        f"{'turn ms':>8}"
    )
    for one in sorted(rows, key=lambda one: (one["dimension"], one["contender"] != "streamsvm", one["partitions"])):
        ours, d = one["contender"] == "streamsvm", one["dimension"]

        def ratio(to: str, one: Mapping[str, Any] = one) -> str:
            other = peers.get((to, one["dimension"]))
            return "-" if other is None else f"{one['rate'] / other['rate']:.2f}"

        sgd, was = peers.get(("sgd", d)), earlier.get(_place(one))
        cpu = "-" if sgd is None else f"{sgd['cpu_us_per_point'] / one['cpu_us_per_point']:.2f}"
        interval = f"({one['least'] / 1e3:,.0f}-{one['greatest'] / 1e3:,.0f})"
        alone = decode[d].get(one["format"]) if ours else None
        learned = f"{one['learned_per_s'] / 1e3:,.0f}" if ours else "-"
        versions = "-".join(map(str, (one["versions"][0], one["versions"][-1]))) if ours else "-"
        turn = f"{one['longest_turn_s'] * 1e3:,.0f}" if ours else "-"
        yield (
            f"{one['format'] if ours else one['contender']:<12}{d:>3}{one['partitions']:>6} "
            f"{one['rate'] / 1e3:>11,.0f} {interval:>14} {'-' if was is None else f'{was / 1e3:,.0f}':>8} "
            f"{ratio('sgd'):>7} {ratio('river'):>8} {ratio('bare'):>7} {one['cpu_us_per_point']:>10.2f} {cpu:>10} "
            f"{learned:>12} {'-' if alone is None else f'{alone:.3f}':>10} {versions:>9} {turn:>8}"
        )


def _place(one: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(one[name] for name in ("contender", "format", "partitions", "points", "dimension"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, and write what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.ingest", description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=2_560_000, help="points of a stream (default %(default)s)")
    parser.add_argument("--dimension", default="8,24", help="features a point, several with commas (%(default)s)")
    parser.add_argument("--partitions", default="1,8,64", help="partitions of our input (default %(default)s)")
    parser.add_argument(
        "--before", default="", metavar="FILE", help="JSON of an earlier run, for a column of its rates"
    )
    parser.add_argument("--only", default=",".join((*FORMATS, *PEERS)), help="contenders (%(default)s)")
    parser.add_argument("--rounds", type=int, default=ROUNDS_AT_LEAST, help="measured rounds (%(default)s)")
    parser.add_argument("--peers", default="", metavar="PYTHON", help="interpreter of the other loops' environment")
    parser.add_argument("--core", type=int, default=0, help="the consumers' core (%(default)s)")
    parser.add_argument("--broker-core", type=int, default=1, help="the broker's core (%(default)s)")
    parser.add_argument("--json", default="", metavar="FILE", help="also write JSON")
    parser.add_argument("--into", default="", metavar="FILE", help="also write the table")
    parser.add_argument("--serve", default="", metavar="SERVERS", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        serve(options.serve)
        return
    load = os.getloadavg()[0]
    dimensions = [int(part) for part in options.dimension.split(",")]
    partitions = [int(part) for part in options.partitions.split(",")]
    only = options.only.split(",")
    whole = whole_points([name for name in FORMATS if name in only], partitions)
    n = max(options.points // whole, 1) * whole
    before = json.loads(Path(options.before).read_text(encoding="utf-8"))["rows"] if options.before else []
    decode = {dimension: decoding(dimension, options.rounds) for dimension in dimensions}
    text = ""
    cores = options.core, options.broker_core
    for rows in measure(n, dimensions, partitions, options.rounds, only, options.peers, *cores):
        text = "\n".join(lines(rows, before, decode, load)) + "\n"
        if options.into:
            Path(options.into).write_text(text, encoding="utf-8")
        if options.json:
            report = {"benchmark": "ingest", "load_average": load, "rows": rows, "decode_us_per_point": decode}
            Path(options.json).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    main()

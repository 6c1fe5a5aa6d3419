"""Turns of the trainer's main loop while it reads at full rate and trains: `python -m tests.benchmarks.turns`.

The daemon as it is deployed, a process of its own at default settings, reads a topic of each `--format` from a real
broker for `--seconds`; the topic is filled before it starts and should hold more than it can read. The length of every
turn of its loop is noted, and /healthz is asked twenty times a second from outside. What waits for a turn is a stop, a
new partition, and whoever asks whether the loop still turns. The daemon has one core, broker and probes the other.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from confluent_kafka import Producer

from consumers.trainer import observer
from streamsvm.kafka import Cluster, Connection, TopicSpec
from tests.benchmarks.contenders import NotedTurns
from tests.benchmarks.ingest import FORMATS, LATE_S, TIMEOUT_S, headers_of, make, values_of
from tests.brokers.jvm import JvmBroker, free_ports

TOPIC: Final = "turns"
NOTES: Final = "BENCHMARK_TURNS"
"""Variable that names the file into which the daemon writes the lengths of its turns, in seconds."""
REPEATED: Final = 253_952
"""Points that are encoded, whole records of each format; the topic repeats them."""
POINTS: Final[Mapping[str, int]] = {"json": 32_000_000, "json-array": 100_000_000, "arrow-4096": 200_000_000}
"""In the topic: more than is read in a minute."""
PROBE_EVERY_S: Final = 0.05
PATIENCE_S: Final = 10.0
LAG: Final = "streamsvm_input_lag_records"
QUANTILES: Final = {"median": 0.5, "p99": 0.99, "p99.9": 0.999, "greatest": 1.0}


def daemon() -> None:
    """Run the command line with noted turns, and write them down at its end."""
    from consumers.cli.app import main as command_line

    vars(observer)["Turns"] = NotedTurns
    try:
        command_line()
    finally:
        np.save(os.environ[NOTES], np.array(NotedTurns.lengths))


def fill(connection: Connection, format_: str, points: int, dimension: int, partitions: int) -> None:
    """Fill the topic with records of a format, dealt out over its partitions."""
    Cluster(connection).create([TopicSpec(TOPIC, partitions)])
    values, headers = list(values_of(format_, *make(REPEATED, dimension))), list(headers_of(format_))
    most = max(4_000, 100_000 // FORMATS[format_])
    options = {**connection.options, "compression.type": "lz4", "linger.ms": 20, "queue.buffering.max.messages": 10**6}
    producer = Producer(options)
    for at in range(points // FORMATS[format_]):
        while len(producer) > most:
            producer.poll(0.1)
        producer.produce(TOPIC, values[at % len(values)], partition=at // 25 % partitions, headers=headers)
    assert producer.flush(TIMEOUT_S) == 0
    producer.close()


def measure(format_: str, seconds: float, points: int, dimension: int, partitions: int, core: int) -> dict[str, Any]:
    """Return what a run of so many seconds came to."""
    with tempfile.TemporaryDirectory() as directory:
        broker = JvmBroker()
        try:
            broker.start()
            connection = Connection(options={"bootstrap.servers": broker.bootstrap_servers})
            fill(connection, format_, points, dimension, partitions)
            found = _run(connection, Path(directory), seconds, dimension, partitions, core)
            return {"format": format_, **found}
        finally:
            broker.stop()


def _run(
    connection: Connection, directory: Path, seconds: float, dimension: int, partitions: int, core: int
) -> dict[str, Any]:
    notes = directory / "turns.npy"
    (port,) = free_ports(1)
    address = f"http://127.0.0.1:{port}"
    options = {
        "name": TOPIC,
        "bootstrap-servers": connection.options["bootstrap.servers"],
        "input-topic": TOPIC,
        "points-dimension": dimension,
        "checkpoint-directory": directory / "checkpoint",
        "http-port": port,
        "log-level": "warning",
    }
    command = ["taskset", "-c", str(core), sys.executable, "-m", "tests.benchmarks.turns", "--daemon", "train"]
    command += [part for name, value in options.items() for part in (f"--{name}", str(value))]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    with subprocess.Popen(command, env={**os.environ, **threads, NOTES: str(notes)}) as trainer:
        try:
            _wait_until_ready(trainer, address)
            answers, failed = _probe(address, seconds)
            with urllib.request.urlopen(f"{address}/metrics", timeout=PATIENCE_S) as answer:
                told = _metrics(answer.read().decode())
        finally:
            trainer.send_signal(signal.SIGTERM)
        assert trainer.wait(TIMEOUT_S) == 0
    lengths = np.load(notes)
    return {
        "partitions": partitions,
        "dimension": dimension,
        "seconds": seconds,
        "points": int(told['streamsvm_input_rows_total{outcome="accepted"}']),
        "versions": int(told["streamsvm_model_version"]),
        "records_left": int(sum(value for name, value in told.items() if name.startswith(LAG))),
        "turns": len(lengths),
        "turn_ms": _quantiles_ms(lengths),
        "probes": len(answers),
        "probe_ms": _quantiles_ms(np.array(answers)),
        "probes_failed": failed,
        "probes_late": sum(answer > LATE_S for answer in answers),
    }


def _wait_until_ready(trainer: subprocess.Popen[bytes], address: str) -> None:
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until:
        assert trainer.poll() is None, f"the trainer ended with {trainer.returncode}"
        with suppress(OSError), urllib.request.urlopen(f"{address}/readyz", timeout=PATIENCE_S):
            return
        time.sleep(PROBE_EVERY_S)
    raise AssertionError("the trainer is not ready")


def _probe(address: str, seconds: float) -> tuple[list[float], int]:
    """Return how long each answer of /healthz took, and how many were none."""
    answers, failed, until = [], 0, time.monotonic() + seconds
    while (asked := time.monotonic()) < until:
        try:
            urllib.request.urlopen(f"{address}/healthz", timeout=PATIENCE_S).close()
        except OSError:
            failed += 1
        answers.append(time.monotonic() - asked)
        time.sleep(max(0.0, PROBE_EVERY_S - answers[-1]))
    return answers, failed


def _metrics(text: str) -> dict[str, float]:
    lines = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in lines}


def _quantiles_ms(seconds: Any) -> dict[str, float]:
    return {name: round(float(np.quantile(seconds, share)) * 1e3, 2) for name, share in QUANTILES.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each number of partitions, print a table, and write what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.turns", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="of each run (default %(default)s)")
    parser.add_argument("--format", default="json,arrow-4096", help="several with commas (%(default)s)")
    parser.add_argument("--points", type=int, help="in the topic; the default depends on the format")
    parser.add_argument("--dimension", type=int, default=8)
    parser.add_argument("--partitions", default="1,16,64", help="several with commas (%(default)s)")
    parser.add_argument("--core", type=int, default=0, help="the daemon's core (%(default)s)")
    parser.add_argument("--broker-core", type=int, default=1, help="of broker and probes (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write JSON")
    options = parser.parse_args(arguments)
    rows = []
    for format_, count in product(options.format.split(","), map(int, options.partitions.split(","))):
        os.sched_setaffinity(0, {options.broker_core})
        points = options.points or POINTS[format_]
        rows.append(measure(format_, options.seconds, points, options.dimension, count, options.core))
        one = rows[-1]
        print(
            f"{format_}, {count} partitions: {one['points']:,} points, {one['versions']} versions in "
            f"{one['seconds']:.0f} s; "
            f"{one['turns']:,} turns, ms: {one['turn_ms']}; {one['probes']} probes, ms: {one['probe_ms']}, "
            f"{one['probes_failed']} failed, {one['probes_late']} late"
            + ("" if one["records_left"] else "; the topic ended before the run: ask for more --points"),
            flush=True,
        )
        if options.json:
            report = {"benchmark": "turns", "load_average": os.getloadavg()[0], "rows": rows}
            options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--daemon"]:
        sys.argv.pop(1)
        daemon()
    else:
        main()

"""What a daemon costs a broker and a processor: `python -m tests.benchmarks.connections [--other TREE] [--json FILE]`.

A scorer answers `--rate` points a second, a trainer learns as many, on an Apache Kafka, by plaintext and by SASL_SSL.
Then the broker is killed, and both wait for it. Each figure is taken over `--seconds`, once a state has lasted for
`--settle`: connections that were begun (by SASL_SSL one that succeeds is a TLS handshake and a login) and processor
time. TREE is another checkout, whose `.venv` runs its daemons in turns with these.

Connections are counted of all programs in this network namespace: where others run,
`unshare --net sh -c 'ip link set lo up; exec python -m tests.benchmarks.connections'`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from streamsvm.ingest import encode
from streamsvm.kafka import Cluster, Connection, TopicSpec
from tests.benchmarks.houses import ROOT
from tests.benchmarks.runner import ONE_THREAD, Interval, in_turns, parser_of, words, written
from tests.brokers.secured import SecuredBroker
from tests.registry.test_subscriber import NAME, Trainer, version_of

DIMENSION: Final = 8
READY_S: Final = 180.0
TICKS: Final = os.sysconf("SC_CLK_TCK")
STATES: Final = ("at work", "broker gone")
FIGURES: Final = ("connections a minute", "% of a core")


def cpu_s(pid: int) -> float:
    """Return the processor time of a process so far, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def begun() -> int:
    """Return how many connections were begun in this network namespace so far."""
    heading, values = (line.split() for line in Path("/proc/net/snmp").read_text().splitlines() if line[:4] == "Tcp:")
    return int(values[heading.index("ActiveOpens")])


def figures(pid: int, seconds: float) -> dict[str, float]:
    """Return what the next seconds cost."""
    opened, spent, since = begun(), cpu_s(pid), time.monotonic()
    time.sleep(seconds)
    lasted = time.monotonic() - since
    return dict(zip(FIGURES, (60 * (begun() - opened) / lasted, 100 * (cpu_s(pid) - spent) / lasted), strict=True))


@contextmanager
def fed(connection: Connection, topic: str, rate: float, record: bytes) -> Iterator[None]:
    """Send a record to a topic at a rate, over one connection, until the end of the block."""
    producer, ended = Producer({**connection.options, "linger.ms": 0}), threading.Event()

    def feed() -> None:
        while not ended.wait(1 / rate):
            producer.produce(topic, record)
            producer.poll(0)

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        producer.purge()


def settings(daemon: str, topic: str, directory: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment that configures a daemon."""
    given = {
        "name": NAME,
        "output__models_topic": f"{topic}.models",
        "http__port": "0",
        **{f"kafka__{name.replace('.', '_')}": str(value) for name, value in options.items()},
    }
    if daemon == "score":
        given |= {"scoring__topic": topic, "scoring__output_topic": f"{topic}.scores"}
    else:
        given |= {"input__topic": topic, "points__dimension": str(DIMENSION), "checkpoint__directory": directory}
    return {f"STREAMSVM_{name.upper()}": value for name, value in given.items()}


def measured(broker: SecuredBroker, protocol: str, daemon: str, tree: Path, asked: Any, turn: int) -> dict[str, Any]:
    """Return the figures of a daemon of a checkout in each state."""
    plain, topic = Connection(options={"bootstrap.servers": broker.bootstrap_servers}), f"{daemon}-{time.time_ns()}"
    Cluster(plain).create([TopicSpec(topic)])
    record = encode([0.5] * DIMENSION, **({} if daemon == "score" else {"y": 1}))
    if daemon == "score":
        Cluster(plain).create([TopicSpec(f"{topic}{suffix}") for suffix in (".models", ".models.aliases")])
        with closing(Trainer(plain, f"{topic}.models")) as trainer:
            trainer.publish(version_of(1, dimension=DIMENSION))
    options = broker.options() if protocol == "sasl_ssl" else plain.options
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        environment = {**os.environ, **ONE_THREAD, **settings(daemon, topic, directory, options)}
        said = stack.enter_context(Path(directory, "log").open("w"))
        command = [tree / ".venv/bin/streamsvm", daemon]
        process = subprocess.Popen(command, env=environment, stdout=said, stderr=said, cwd=tree)
        stack.callback(process.wait)
        stack.callback(process.send_signal, signal.SIGKILL)
        with fed(plain, topic, asked.rate, record):
            deadline = time.monotonic() + READY_S
            while '"started"' not in (log := Path(directory, "log").read_text()) and " started" not in log:
                assert process.poll() is None, log
                assert time.monotonic() < deadline, log
                time.sleep(0.5)
            time.sleep(asked.settle)
            at_work = figures(process.pid, asked.seconds)
        broker.kill()
        stack.callback(broker.start)
        time.sleep(asked.settle + 30)
        gone = figures(process.pid, asked.seconds)
    return dict(zip(STATES, (at_work, gone), strict=True))


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Measure, and print."""
    parser = parser_of("connections", __doc__)
    parser.add_argument("--daemons", type=words, default=["score", "train"])
    parser.add_argument("--protocols", type=words, default=["plaintext", "sasl_ssl"])
    parser.add_argument("--rate", type=float, default=60.0, help="points a second (%(default)s)")
    parser.add_argument("--settle", type=float, default=30.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--other", type=Path, metavar="TREE", help="a checkout to compare this one with")
    asked = parser.parse_args(arguments)
    trees, rows = {"this": ROOT} | ({"other": asked.other.resolve()} if asked.other else {}), list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        broker = SecuredBroker(Path(directory))
        broker.start()
        stack.callback(broker.stop)
        for daemon in asked.daemons:
            for protocol in asked.protocols:
                each = {name: partial(measured, broker, protocol, daemon, tree, asked) for name, tree in trees.items()}
                for name, runs in in_turns(each, asked.rounds).items():
                    for state in STATES:
                        found = {figure: Interval.of([run[state][figure] for run in runs]) for figure in FIGURES}
                        row = {"daemon": daemon, "protocol": protocol, "tree": name, "state": state}
                        told = ", ".join(
                            f"{one.median:.1f} ({one.least:.1f} to {one.greatest:.1f}) {figure}"
                            for figure, one in found.items()
                        )
                        print(f"{daemon}, {protocol}, {name}, {state}: {told}", flush=True)
                        rows.append(row | {figure: vars_of(one) for figure, one in found.items()})
    written(asked.json, rows)
    return rows


def vars_of(one: Interval) -> list[float]:
    """Return an interval as JSON has it."""
    return [one.median, one.least, one.greatest]


if __name__ == "__main__":
    main()

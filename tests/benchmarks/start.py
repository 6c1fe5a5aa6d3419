"""How long a start takes, beside what it cannot do without: `python -m tests.benchmarks.start [--json FILE]`.

A linear trainer, a scorer and a worker start by their commands at default settings on a real broker: `started` is the
time from the beginning of the process until the trainer or worker has begun to read, or the scorer has its model. Each
was started once before, so that numba's file cache and Python's bytecode are there. Beside it, in turn, `bare`: a
process that only imports the modules of others that the daemon has loaded; and `kernels`: what the daemon itself spent
on loading compiled functions, after its imports. The ratio is `started` over the sum of the two, the median over
rounds. Processor time is that of all threads of a process; the wall has the broker's answers in it, among others to the
transaction that fences a predecessor.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:  # a bare process loads nothing of ours
    from streamsvm.kafka import Connection

KINDS: Final = ("trainer", "scorer", "worker")
OWN: Final = ("streamsvm", "consumers", "tests")
NOTES: Final = "BENCHMARK_START"
"""Variable that names the file into which a daemon writes what its start took."""
BEGUN: Final = "BENCHMARK_BEGUN"
"""Variable with the time at which a process was asked for, seconds since the epoch."""
STARTED: Final = {"trainer": "start", "scorer": "model", "worker": "start"}
"""The condition of readiness by which each says that it has started."""
DIMENSION: Final = 8
PARTITIONS: Final = 4
TIMEOUT_S: Final = 180.0


def daemon(kind: str) -> None:
    """Run the command line until it has started, write down what that took, and stop."""
    from consumers.cli import main as command_line
    from consumers.host import Health

    notes, kernels, require = Path(os.environ[NOTES]), [0.0, 0.0], Health.require

    def noted(health: Any, condition: str, missing: str) -> None:
        require(health, condition, missing)
        if condition == STARTED[kind] and not missing and not notes.exists():
            told = _spent() | {
                "kernels_cpu_s": kernels[0],
                "kernels_wall_s": kernels[1],
                "modules": [name for name in sys.modules if name.split(".")[0] not in (*OWN, "__main__")],
                "own_modules": sum(name.split(".")[0] in OWN[:2] for name in sys.modules),
            }
            notes.write_text(json.dumps(told), encoding="utf-8")
            os.kill(os.getpid(), signal.SIGTERM)

    def timed(load: Callable[..., None]) -> Callable[..., None]:
        @wraps(load)
        def run(*arguments: Any, **named: Any) -> None:
            cpu, wall = time.process_time(), time.perf_counter()
            load(*arguments, **named)
            kernels[0] += time.process_time() - cpu
            kernels[1] += time.perf_counter() - wall

        return run

    vars_of_health: Any = Health
    vars_of_health.require = noted
    if kind != "scorer":  # it loads none
        from consumers.trainer import kernels as trainers

        vars(trainers)["prepare"] = timed(trainers.prepare)
    command_line()


def bare(modules: Sequence[str]) -> None:
    """Import modules of others, and print what that took."""
    for name in modules:
        importlib.import_module(name)
    print(json.dumps(_spent()))


def _spent() -> dict[str, float]:
    return {"cpu_s": time.process_time(), "wall_s": time.time() - float(os.environ[BEGUN])}


class Starts:
    """Starts daemons and bare processes on one broker."""

    def __init__(self, connection: Connection, directory: Path) -> None:
        self._servers = str(connection.options["bootstrap.servers"])
        self._directory = directory
        self._number = 0

    def daemon(self, kind: str) -> dict[str, Any]:
        """Return what one start took."""
        self._number += 1
        notes = self._directory / f"{self._number}.json"
        command = [sys.executable, "-m", "tests.benchmarks.start", "--daemon", kind]
        self._run([*command, *self._command_of(kind)], {NOTES: str(notes)})
        told: dict[str, Any] = json.loads(notes.read_text(encoding="utf-8"))
        return told

    def _command_of(self, kind: str) -> list[str]:
        from tests.registry.test_subscriber import NAME

        options: dict[str, object] = {
            "bootstrap-servers": self._servers,
            "name": NAME,
            "http-port": 0,
            "log-level": "error",
        }
        if kind == "scorer":
            options |= {"scoring-topic": "start-points", "output-models-topic": "start-models"}
        else:
            options |= {"input-topic": "start", "points-dimension": DIMENSION}
        if kind == "trainer":
            options["checkpoint-directory"] = self._directory / f"checkpoint-{self._number}"
        verb = {"trainer": ["train"], "scorer": ["score"], "worker": ["scale", "worker"]}[kind]
        return [*verb, *(part for name, value in options.items() for part in (f"--{name}", str(value)))]

    def bare(self, modules: Sequence[str]) -> dict[str, Any]:
        """Return what importing modules takes."""
        path = self._directory / "modules.json"
        path.write_text(json.dumps(modules), encoding="utf-8")
        told: dict[str, Any] = json.loads(
            self._run([sys.executable, "-m", "tests.benchmarks.start", "--bare", str(path)], {})
        )
        return told

    def _run(self, command: Sequence[str], more: dict[str, str]) -> str:
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
        ran = subprocess.run(
            command,
            env={**kept, **threads, **more, BEGUN: repr(time.time())},
            stdout=subprocess.PIPE,
            text=True,
            timeout=TIMEOUT_S,
            check=True,
        )
        return ran.stdout


def prepare(connection: Connection) -> None:
    """Make the topics, and a version for the scorer."""
    from consumers.branches.workers import topic_spec
    from consumers.settings import InputConfig, Settings
    from streamsvm.kafka import Cluster, TopicSpec
    from tests.registry.test_subscriber import NAME, Trainer, version_of

    settings = Settings(name=NAME, input=InputConfig(topic="start"))
    topics = [TopicSpec(name, PARTITIONS) for name in ("start", "start-points")]
    topics += [TopicSpec(name) for name in ("start-models", "start-models.aliases", settings.input.dead_letters)]
    topics.append(topic_spec(settings, PARTITIONS))  # the worker waits for what a trainer makes
    Cluster(connection).create(topics)
    with closing(Trainer(connection, "start-models")) as trainer:
        trainer.publish(version_of(1, dimension=DIMENSION))


def measure(connection: Connection, kinds: Sequence[str], rounds: int) -> list[dict[str, Any]]:
    """Return a row for each kind of daemon."""
    prepare(connection)
    with tempfile.TemporaryDirectory() as directory:
        starts = Starts(connection, Path(directory))
        first = {kind: starts.daemon(kind) for kind in kinds}
        laps: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {kind: [] for kind in kinds}
        for _ in range(rounds):
            for kind in kinds:
                laps[kind].append((starts.daemon(kind), starts.bare(first[kind]["modules"])))
    return [_row(kind, laps[kind]) for kind in kinds]


def _row(kind: str, laps: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, Any]:
    row: dict[str, Any] = {"daemon": kind}
    for clock in ("cpu_s", "wall_s"):
        row[f"started_{clock}"] = statistics.median(start[clock] for start, _ in laps)
        row[f"kernels_{clock}"] = statistics.median(start[f"kernels_{clock}"] for start, _ in laps)
        row[f"bare_{clock}"] = statistics.median(alone[clock] for _, alone in laps)
        ratios = [start[clock] / (start[f"kernels_{clock}"] + alone[clock]) for start, alone in laps]
        row[f"ratio_{clock}"] = statistics.median(ratios)
    row["modules"] = laps[0][0]["own_modules"]
    row["modules_of_others"] = len(laps[0][0]["modules"])
    return row


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure on the broker that the tests would use, and print."""
    from streamsvm.kafka import Connection
    from tests.benchmarks.runner import parser_of, words, written
    from tests.brokers import start_real_broker

    parser = parser_of("start", __doc__)
    parser.add_argument("--only", type=words, default=KINDS, help="daemons (all)")
    asked = parser.parse_args(arguments)
    broker = start_real_broker()
    try:
        connection = Connection(options={"bootstrap.servers": broker.bootstrap_servers})
        rows = measure(connection, asked.only, asked.rounds)
    finally:
        broker.stop()
    for row in rows:
        for clock in ("cpu_s", "wall_s"):
            print(
                f"{row['daemon']:<8} {'processor' if clock == 'cpu_s' else 'wall':<9} started "
                f"{row[f'started_{clock}']:.2f} s, bare {row[f'bare_{clock}']:.2f} s, kernels "
                f"{row[f'kernels_{clock}']:.2f} s: {row[f'ratio_{clock}']:.2f} times; {row['modules']} modules, "
                f"{row['modules_of_others']} of others"
            )
    written(asked.json, rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--daemon"]:
        sys.argv.pop(1)
        daemon(sys.argv.pop(1))
    elif sys.argv[1:2] == ["--bare"]:
        bare(json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")))
    else:
        main()

"""The whole stack in containers: built, started, watched, stopped, killed one by one, and its topics counted.

Run by `make test-deploy`, which sets STREAMSVM_TEST_DEPLOY=1; it needs a Docker engine and the images of
`deploy/compose.yaml` other than Grafana's. Grafana's part is played by Prometheus: every query of every panel is sent
to the Prometheus of the running stack, and an empty answer fails.

A container is killed as the kernel kills what takes too much memory: from outside, without a word to the engine, whose
restart policy then has to bring it back. (`docker kill` would tell the engine that it is meant to stay down.)
"""

from __future__ import annotations

import json
import math
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from confluent_kafka import Producer

from streamsvm.codec import model as model_codec
from streamsvm.errors import TransientError
from streamsvm.kafka import Connection, Record, describe_topic, log_range, read_to_end
from tests.deploy.files import COMPOSE, Query, queries

pytestmark = [
    pytest.mark.deploy,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        os.environ.get("STREAMSVM_TEST_DEPLOY") != "1",
        reason="starts containers: set STREAMSVM_TEST_DEPLOY=1, or run make test-deploy",
    ),
]

SERVICES = ("trainer", "scorer", "replay", "questions", "prometheus")
"""All but Grafana; what they depend on comes with them."""
MALFORMED = (b"not json", b'{"x": [1.0], "y": 1}', b'{"x": [1, 2, 3, 4, 5, 6, 7, 8], "y": 7}')
UNSCORABLE = MALFORMED[:2]
REASONS = {"malformed_json", "wrong_dimension", "unknown_label"}
OFF = ("streamsvm_tuning_",)
"""Metrics of what the stack's trainer is not configured to do."""
UP_S, ANSWER_S, STOP_S = 900.0, 240.0, 90.0

Found = TypeVar("Found")


@dataclass(frozen=True)
class Stack:
    """A running compose project."""

    project: str
    override: Path
    ports: dict[str, int]

    def compose(self, *arguments: str, check: bool = True) -> str:
        """Run docker compose on the project and return what it printed."""
        command = ["docker", "compose", "-p", self.project, "-f", str(COMPOSE), "-f", str(self.override), *arguments]
        environment = os.environ | {name: str(port) for name, port in self.ports.items()}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=UP_S)
        assert not check or done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def query(self, promql: str) -> list[dict[str, Any]]:
        """Return Prometheus's answer without series that are not numbers."""
        asked = urllib.parse.urlencode({"query": promql})
        address = f"http://127.0.0.1:{self.ports['PROMETHEUS_PORT']}/api/v1/query?{asked}"
        with urllib.request.urlopen(address, timeout=10) as answer:
            series: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return [one for one in series if not math.isnan(float(one["value"][1]))]

    def value(self, promql: str) -> float:
        """Return the one number that a query answers, 0 if there is none yet."""
        answer = self.query(promql)
        return float(answer[0]["value"][1]) if answer else 0.0

    def inspect(self, service: str, template: str) -> str:
        """Return what the engine says of a service's container."""
        container = self.compose("ps", "--all", "--quiet", service).strip()
        command = ["docker", "inspect", "--format", template, container]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    @property
    def connection(self) -> Connection:
        """The broker, as a program on this machine reaches it."""
        return Connection({"bootstrap.servers": f"localhost:{self.ports['KAFKA_PORT']}"}, "test")

    def end(self, topic: str) -> int:
        """Return how long a topic is, its transactions' markers counted."""
        partitions = describe_topic(self.connection, topic).partitions
        return sum(log_range(self.connection, topic, partition)[1] for partition in partitions)

    def stored(self, topic: str) -> list[Record]:
        """Return the committed records of a topic."""
        return [
            record
            for partition in describe_topic(self.connection, topic).partitions
            for record in read_to_end(self.connection, topic, partition, timeout_s=ANSWER_S)
        ]

    def kill(self, service: str) -> None:
        """Kill a container's first process from a container that sees all processes."""
        pid = self.inspect(service, "{{.State.Pid}}")
        inside = ["docker", "run", "--rm", "--pid", "host", "--user", "0", "--entrypoint", "/bin/sh", "streamsvm:local"]
        subprocess.run([*inside, "-c", f"kill -9 {pid}"], check=True, timeout=UP_S)

    def well(self, service: str) -> bool:
        """Tell whether a container runs, and is healthy if it can say so."""
        state = self.inspect(service, "{{.State.Status}} {{if .State.Health}}{{.State.Health.Status}}{{end}}").split()
        return state in (["running"], ["running", "healthy"])

    def send(self, topic: str, *values: bytes) -> None:
        """Send records from outside the containers, as a program on this machine would."""
        producer = Producer({"bootstrap.servers": f"localhost:{self.ports['KAFKA_PORT']}"})
        for value in values:
            producer.produce(topic, value)
        assert producer.flush(30) == 0


def eventually(what: str, within_s: float, look: Callable[[], Found]) -> Found:
    """Look until there is something to see."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            found = look()
        except (OSError, TransientError):  # Prometheus or the broker does not answer yet
            pass
        else:
            if found:
                return found
        assert time.monotonic() < deadline, f"{what}: not within {within_s:.0f} s"
        time.sleep(1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Build and start everything under a name and on ports of its own; leave nothing behind."""
    override = tmp_path_factory.mktemp("stack") / "override.json"
    said = {"environment": {"NUMBA_DEBUG_CACHE": "1"}}
    override.write_text(json.dumps({"services": {"trainer": said, "scorer": said}}))
    names = ("KAFKA_PORT", "TRAINER_PORT", "SCORER_PORT", "PROMETHEUS_PORT", "GRAFANA_PORT")
    started = Stack(f"streamsvm-test-{secrets.token_hex(4)}", override, {name: free_port() for name in names})
    try:
        started.compose("up", "--build", "--detach", "--quiet-pull", *SERVICES)
        started.send("candidates", *MALFORMED)
        started.send("points", *UNSCORABLE)
        eventually("3 versions", ANSWER_S, lambda: started.value("max(streamsvm_model_version)") >= 3)
        yield started
    except BaseException:
        print(started.compose("ps", "--all", check=False))
        print(started.compose("logs", "--tail", "60", check=False))
        raise
    finally:
        started.compose("down", "--volumes", "--remove-orphans", "--timeout", "20")


def test_every_panel_has_an_answer(stack: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    """No query of the dashboard comes back empty from a stack that works."""
    asked = [query for query in queries() if not any(metric in query.promql for metric in OFF)]
    answers: dict[Query, list[dict[str, Any]]] = {}

    def all_answered() -> bool:
        answers.update({query: stack.query(query.runnable) for query in asked if not answers.get(query)})
        return all(answers.values())

    try:
        eventually("an answer to every query", ANSWER_S, all_answered)
    finally:
        with capsys.disabled():
            print(f"\n{stack.compose('ps', '--all')}\n{table(answers)}")
    (dead_letters,) = (query for query in asked if query.panel == "Dead letters by reason")
    counted = {one["metric"]["reason"] for one in answers[dead_letters] if float(one["value"][1]) > 0}
    assert counted == REASONS


def table(answers: dict[Query, list[dict[str, Any]]]) -> str:
    """Return panel, query and value, a line each."""
    lines = []
    for query, series in answers.items():
        values = ", ".join(" ".join([*one["metric"].values(), f"{float(one['value'][1]):.6g}"]) for one in series)
        lines.append(f"{query.panel:<36} | {query.runnable:<110} | {values or 'EMPTY'}")
    return "\n".join(lines)


@pytest.mark.parametrize("daemon", ["trainer", "scorer"])
def test_daemon_is_healthy_and_confined(stack: Stack, daemon: str) -> None:
    """The image's health check passes; the daemon is not root, and may not write to its root."""
    eventually("healthy", ANSWER_S, lambda: stack.inspect(daemon, "{{.State.Health.Status}}") == "healthy")
    assert stack.compose("exec", "-T", daemon, "id", "-u").strip() == "10001"
    assert stack.inspect(daemon, "{{.HostConfig.ReadonlyRootfs}}") == "true"
    port = stack.ports[f"{daemon.upper()}_PORT"]

    def ready() -> bool:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10) as answer:
            said: dict[str, Any] = json.load(answer)
        return bool(said["ready"])

    eventually("ready", ANSWER_S, ready)


def test_daemons_compile_nothing(stack: Stack) -> None:
    """The kernels that the image was built with are those that run: numba loads and never saves."""
    trainer, scorer = (stack.compose("logs", "--no-color", daemon) for daemon in ("trainer", "scorer"))
    assert "data loaded from" in trainer
    assert "data saved to" not in trainer + scorer


def test_model_can_be_read_from_outside(stack: Stack) -> None:
    """The command line on this machine shows the model that the containers made."""
    command = [str(Path(sys.executable).parent / "streamsvm"), "model", "show", "--name", "pulsars"]
    shown = subprocess.run(
        [*command, "--bootstrap-servers", f"localhost:{stack.ports['KAFKA_PORT']}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert shown.returncode == 0, shown.stderr
    assert "pulsars@" in shown.stdout


def test_stopped_trainer_ends_clean_and_goes_on(stack: Stack) -> None:
    """`docker stop` ends in a checkpoint and status 0; the next start counts on where that one stopped."""
    before = stack.value("max(streamsvm_model_version)")
    begun = time.monotonic()
    stack.compose("stop", "trainer")
    assert time.monotonic() - begun < STOP_S
    assert stack.inspect("trainer", "{{.State.ExitCode}}") == "0"
    restarted_at = time.time()
    stack.compose("start", "trainer")
    newer = f"max(streamsvm_model_version) and (max(streamsvm_model_published_timestamp_seconds) > {restarted_at})"
    assert eventually("a version after the restart", ANSWER_S, lambda: stack.value(newer)) > before
    assert stack.inspect("trainer", "{{.RestartCount}}") == "0"


@pytest.mark.parametrize("service", ["trainer", "scorer", "kafka", "replay", "questions", "prometheus"])
def test_killed_container_comes_back_and_the_work_goes_on(
    stack: Stack, service: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The engine starts it again by itself; then there are new versions, new scores, and answers about both."""
    eventually("well before", ANSWER_S, lambda: all(stack.well(name) for name in ("kafka", *SERVICES)))
    started = stack.inspect(service, "{{.State.StartedAt}}")
    begun = time.monotonic()
    stack.kill(service)
    eventually("another start", ANSWER_S, lambda: stack.inspect(service, "{{.State.StartedAt}}") != started)
    eventually("well again", ANSWER_S, lambda: all(stack.well(name) for name in ("kafka", *SERVICES)))
    well_s = time.monotonic() - begun
    models, scores, since = eventually(
        "an answering broker", ANSWER_S, lambda: (stack.end("models"), stack.end("scores"), time.time())
    )
    eventually("another version", ANSWER_S, lambda: stack.end("models") > models)
    eventually("more scores", ANSWER_S, lambda: stack.end("scores") > scores)
    newer = f"max(streamsvm_model_published_timestamp_seconds) > {since}"
    eventually("a scrape that knows the version", ANSWER_S, lambda: stack.query(newer))
    with capsys.disabled():
        print(f"\n{service} killed: all is well after {well_s:.0f} s, all works after {time.monotonic() - begun:.0f} s")


def test_topics_hold_each_thing_once(stack: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    """After all that: each version once and none missing, one answer to each record, a letter to each bad one."""
    stack.compose("stop", "replay", "questions")
    asked = {
        f"points/{partition}/{offset}"
        for partition in describe_topic(stack.connection, "points").partitions
        for offset in range(*log_range(stack.connection, "points", partition))
    }
    begun = time.monotonic()
    eventually(
        "an answer to every record",
        ANSWER_S,
        lambda: len(stack.stored("scores")) + len(stack.stored("points.dlq")) >= len(asked),
    )
    drained_s = time.monotonic() - begun
    scores, letters = stack.stored("scores"), stack.stored("points.dlq")
    answers = Counter(_source(record) for record in (*scores, *letters))
    assert not [source for source, count in answers.items() if count > 1], "answered twice"
    assert answers.keys() == asked
    assert len(letters) == len(UNSCORABLE)

    stack.compose("stop", "trainer")
    versions = stack.stored("models")
    numbers = [
        model_codec.decode(record.value or b"", dict(record.headers)[model_codec.SHA256_HEADER].decode()).number
        for record in versions
    ]
    assert numbers == list(range(1, len(numbers) + 1))
    pointers = {record.key: record.value or b"" for record in stack.stored("models.aliases")}
    assert model_codec.decode_head(pointers[model_codec.head_key("pulsars").encode()]).number == numbers[-1]
    rejected = Counter(_source(record) for record in stack.stored("candidates.dlq"))
    assert len(rejected) == len(MALFORMED)
    verified = stack.compose("run", "--rm", "--no-deps", "-T", "trainer", "verify")
    assert f"clean: {len(numbers)} identical" in verified
    with capsys.disabled():
        print(f"\n{verified.strip()}\nmodels: versions 1 to {numbers[-1]}, each once; head {numbers[-1]}")
        print(
            f"points: {len(asked)} records; {len(scores)} scores and {len(letters)} letters, {drained_s:.0f} s to drain"
        )
        print(f"candidates: {stack.end('candidates')} records; letters for {len(rejected)}")


def _source(record: Record) -> str:
    """Return which record an answer or a letter is of."""
    headers = dict(record.headers)
    return (headers.get("streamsvm.source") or headers["streamsvm.deadletter.id"]).decode()

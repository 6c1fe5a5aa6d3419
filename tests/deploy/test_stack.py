"""The whole stack in containers: built, started, watched, stopped and started again.

Run by `make test-deploy`, which sets STREAMSVM_TEST_DEPLOY=1; it needs a Docker engine and the images of
`deploy/compose.yaml` other than Grafana's. Grafana's part is played by Prometheus: every query of every panel is sent
to the Prometheus of the running stack, and an empty answer fails.
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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from confluent_kafka import Producer

from tests.deploy.files import COMPOSE, Query, queries

pytestmark = [
    pytest.mark.deploy,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(
        os.environ.get("STREAMSVM_TEST_DEPLOY") != "1",
        reason="starts containers: set STREAMSVM_TEST_DEPLOY=1, or run make test-deploy",
    ),
]

SERVICES = ("trainer", "replay", "prometheus")
"""All but Grafana; what they depend on comes with them."""
MALFORMED = (b"not json", b'{"x": [1.0], "y": 1}', b'{"x": [1, 2, 3, 4, 5, 6, 7, 8], "y": 7}')
REASONS = {"malformed_json", "wrong_dimension", "unknown_label"}
UP_S, ANSWER_S, STOP_S = 900.0, 120.0, 90.0

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

    def send(self, *values: bytes) -> None:
        """Send records from outside the containers, as a program on this machine would."""
        producer = Producer({"bootstrap.servers": f"localhost:{self.ports['KAFKA_PORT']}"})
        for value in values:
            producer.produce("candidates", value)
        assert producer.flush(30) == 0


def eventually(what: str, within_s: float, look: Callable[[], Found]) -> Found:
    """Look until there is something to see."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            found = look()
        except OSError:  # Prometheus does not answer yet
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
    override.write_text(json.dumps({"services": {"trainer": {"environment": {"NUMBA_DEBUG_CACHE": "1"}}}}))
    names = ("KAFKA_PORT", "TRAINER_PORT", "PROMETHEUS_PORT", "GRAFANA_PORT")
    started = Stack(f"streamsvm-test-{secrets.token_hex(4)}", override, {name: free_port() for name in names})
    try:
        started.compose("up", "--build", "--detach", "--quiet-pull", *SERVICES)
        started.send(*MALFORMED)
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
    asked = [query for query in queries() if "$scorer" not in query.promql or "$instance" in query.promql]
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


def test_trainer_is_healthy_and_unprivileged(stack: Stack) -> None:
    """The image's health check passes, and the trainer is not root."""
    eventually("healthy", ANSWER_S, lambda: stack.inspect("trainer", "{{.State.Health.Status}}") == "healthy")
    assert stack.compose("exec", "-T", "trainer", "id", "-u").strip() == "10001"
    with urllib.request.urlopen(f"http://127.0.0.1:{stack.ports['TRAINER_PORT']}/readyz", timeout=10) as answer:
        assert json.load(answer)["ready"]


def test_trainer_compiles_nothing(stack: Stack) -> None:
    """The kernels that the image was built with are those that run: numba loads and never saves."""
    logs = stack.compose("logs", "--no-color", "trainer")
    assert "data loaded from" in logs
    assert "data saved to" not in logs


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

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
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest
from confluent_kafka import Producer

from streamsvm.errors import TransientError
from streamsvm.kafka import Cluster, Connection, Record
from streamsvm.model import decode_head, head_key, message as model_codec
from tests.deploy.files import COMPOSE, images

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
LASTING = ("trainer", "scorer", "kafka", "replay", "questions", "prometheus")
"""All that go on for ever."""
KILLED = LASTING * int(os.environ.get("STREAMSVM_TEST_DEPLOY_KILLS", "1"))
"""In the order in which they are killed."""
MALFORMED = (b"not json", b'{"x": [1.0], "y": 1}', b'{"x": [1, 2, 3, 4, 5, 6, 7, 8], "y": 7}')
UNSCORABLE = MALFORMED[:2]
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
        ports = {name: str(port) for name, port in self.ports.items()}
        environment = local_images() | os.environ | ports
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=UP_S)
        assert not check or done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def prometheus(self, path: str) -> dict[str, Any]:
        """Return what Prometheus answers at a path of its API."""
        address = f"http://127.0.0.1:{self.ports['PROMETHEUS_PORT']}/api/v1/{path}"
        with urllib.request.urlopen(address, timeout=10) as answer:
            answered: dict[str, Any] = json.load(answer)["data"]
        return answered

    def query(self, promql: str) -> list[dict[str, Any]]:
        """Return Prometheus's answer without series that are not numbers."""
        series: list[dict[str, Any]] = self.prometheus(f"query?{urllib.parse.urlencode({'query': promql})}")["result"]
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
        return Connection(options={"bootstrap.servers": f"localhost:{self.ports['KAFKA_PORT']}"}, client_id="test")

    def ends(self, topic: str) -> dict[int, int]:
        """Return where each partition of a topic ends, its transactions' markers counted."""
        partitions = Cluster(self.connection).describe(topic).partitions
        return {partition: Cluster(self.connection).log_range(topic, partition)[1] for partition in partitions}

    def stored(self, topic: str, after: Mapping[int, int] | None = None) -> list[Record]:
        """Return the committed records of a topic; only those from these offsets on, if given."""
        return [
            record
            for partition in Cluster(self.connection).describe(topic).partitions
            for record in Cluster(self.connection).read_to_end(
                topic, partition, start=(after or {}).get(partition), timeout_s=ANSWER_S
            )
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


def here(reference: str) -> bool:
    """Tell whether the engine has an image of this name."""
    return subprocess.run(["docker", "image", "inspect", reference], capture_output=True, check=False).returncode == 0


@cache
def local_images() -> dict[str, str]:
    """Return the images that are here under their tag only: made or loaded by hand, they have no digest."""
    tags = {name: (reference, reference.partition("@")[0]) for name, reference in images().items()}
    return {name: tag for name, (reference, tag) in tags.items() if not here(reference) and here(tag)}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(directory: Path) -> Iterator[Stack]:
    """Build and start everything under a name and on ports of its own; leave nothing behind."""
    override = directory / "override.json"
    said = {"environment": {"NUMBA_DEBUG_CACHE": "1"}}
    place = {"image": "streamsvm:local", "pull_policy": "never", "user": "472"}  # Grafana's, without its server
    override.write_text(json.dumps({"services": {"trainer": said, "scorer": said, "grafana": place}}))
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


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The stack, for all tests of this module."""
    with running(tmp_path_factory.mktemp("stack")) as started:
        yield started


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


@pytest.mark.parametrize("service", KILLED)
def test_killed_container_comes_back_and_the_work_goes_on(
    stack: Stack, service: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The engine starts it again by itself; new versions and scores follow, and the topics hold each thing once."""
    eventually("well before", ANSWER_S, lambda: all(stack.well(name) for name in LASTING))
    started = stack.inspect(service, "{{.State.StartedAt}}")
    stack.kill(service)
    eventually("another start", ANSWER_S, lambda: stack.inspect(service, "{{.State.StartedAt}}") != started)
    eventually("well again", ANSWER_S, lambda: all(stack.well(name) for name in LASTING))
    models, scores, since = eventually(
        "an answering broker", ANSWER_S, lambda: (stack.ends("models"), stack.ends("scores"), time.time())
    )
    eventually("another version", ANSWER_S, lambda: stack.stored("models", after=models))
    eventually("more scores", ANSWER_S, lambda: stack.stored("scores", after=scores))
    newer = f"max(streamsvm_model_published_timestamp_seconds) > {since}"
    eventually("a scrape that knows the version", ANSWER_S, lambda: stack.query(newer))
    counted = counts(stack)
    with capsys.disabled():
        print(f"\n{service} killed: {counted}")


def counts(stack: Stack) -> dict[str, int]:
    """Count what the topics hold now; fail if a version or an answer is missing, there twice, or not reproducible."""
    records, scores, letters = answered(stack)
    before = version_numbers(stack)
    verified = verify(stack)
    numbers = version_numbers(stack)
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(before) <= verified <= len(numbers)
    rejected = {_source(record) for record in stack.stored("candidates.dlq")}
    assert len(rejected) == len(MALFORMED)
    candidates = sum(stack.ends("candidates").values())
    return {"versions": verified, "candidates": candidates, "points": records, "scores": scores, "letters": letters}


def answered(stack: Stack) -> tuple[int, int, int]:
    """Wait until each record that `points` now holds has one answer; return the records, their scores and letters."""
    asked = {
        f"points/{partition}/{offset}"
        for partition in Cluster(stack.connection).describe("points").partitions
        for offset in range(*Cluster(stack.connection).log_range("points", partition))
    }

    def all_answered() -> tuple[int, int, int] | None:
        scores, letters = (Counter(map(_source, stack.stored(topic))) for topic in ("scores", "points.dlq"))
        answers = scores + letters
        assert not [source for source, count in answers.items() if count > 1], "answered twice"
        if not asked <= answers.keys():
            return None
        return len(asked), sum(scores[one] for one in asked), sum(letters[one] for one in asked)

    records, scores, letters = eventually("an answer to every record", ANSWER_S, all_answered)
    assert (scores + letters, letters) == (records, len(UNSCORABLE))
    return records, scores, letters


def version_numbers(stack: Stack) -> list[int]:
    """Return the numbers of the published versions, in the topic's order."""
    return [
        model_codec.decode(record.value or b"", dict(record.headers)[model_codec.SHA256_HEADER].decode()).number
        for record in stack.stored("models")
    ]


def verify(stack: Stack) -> int:
    """Have every version recomputed from the log, and return how many there are, all of them the same bytes."""
    run = ["run", "--rm", "--no-deps", "-T", "-e", "NUMBA_DEBUG_CACHE=0", "trainer", "verify", "--json"]
    report = json.loads(stack.compose(*run))
    assert report["clean"], report
    return int(report["counts"]["identical"])


def test_topics_hold_each_thing_once(stack: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    """After all that, with nothing more coming in: each version and each answer once, and the head is the last one."""
    stack.compose("stop", "replay", "questions")
    records, _, _ = answered(stack)
    assert len(stack.stored("scores")) + len(stack.stored("points.dlq")) == records
    stack.compose("stop", "trainer")
    counted = counts(stack)
    pointers = {record.key: record.value or b"" for record in stack.stored("models.aliases")}
    head = decode_head(pointers[head_key("pulsars").encode()])
    assert head.number == counted["versions"]
    with capsys.disabled():
        print(f"\nat the end: {counted}")


def _source(record: Record) -> str:
    """Return which record an answer or a letter is of."""
    headers = dict(record.headers)
    letter = headers.get("streamsvm.deadletter.id", b"").partition(b"/")[2]  # the model's name comes first
    return (headers.get("streamsvm.source") or letter).decode()

"""The whole stack in containers: built, started, watched, stopped, killed one by one, and its topics counted.

Run by `make test-deploy`, which sets STREAMSVM_TEST_DEPLOY=1; it needs a Docker engine and the images of
`deploy/compose.yaml` other than Grafana's.

A container is killed as the kernel kills what takes too much memory: from outside, without a word to the engine, whose
restart policy then has to bring it back. (`docker kill` would tell the engine that it is meant to stay down.)
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka import Producer

from streamsvm.errors import TransientError
from streamsvm.kafka import Cluster, Connection, Record
from streamsvm.model import decode_head, head_key
from tests.brokers.jvm import free_ports
from tests.deploy.files import COMPOSE, images
from tests.deploy.prometheus import Prometheus, page

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
"""All that go on for ever; each is killed once."""
PORTS = ("KAFKA_PORT", "TRAINER_PORT", "SCORER_PORT", "PROMETHEUS_PORT", "GRAFANA_PORT")
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

    @property
    def prometheus(self) -> Prometheus:
        """The Prometheus that watches it."""
        return Prometheus(f"http://127.0.0.1:{self.ports['PROMETHEUS_PORT']}")

    def inspect(self, service: str, template: str) -> str:
        """Return what the engine says of a service's container."""
        container = self.compose("ps", "--all", "--quiet", service).strip()
        command = ["docker", "inspect", "--format", template, container]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    @property
    def connection(self) -> Connection:
        """The broker, as a program on this machine reaches it."""
        return Connection(options={"bootstrap.servers": f"localhost:{self.ports['KAFKA_PORT']}"}, client_id="test")

    def ranges(self, topic: str) -> dict[int, tuple[int, int]]:
        """Return where each partition of a topic begins and ends, its transactions' markers counted."""
        cluster = Cluster(self.connection)
        return {partition: cluster.log_range(topic, partition) for partition in cluster.describe(topic).partitions}

    def stored(self, topic: str, after: Mapping[int, tuple[int, int]] | None = None) -> list[Record]:
        """Return the committed records of a topic; only those behind such ranges, if given."""
        cluster = Cluster(self.connection)
        starts = {partition: end for partition, (_, end) in (after or {}).items()}
        return [
            record
            for partition in cluster.describe(topic).partitions
            for record in cluster.read_to_end(topic, partition, start=starts.get(partition), timeout_s=ANSWER_S)
        ]

    def kill(self, service: str) -> None:
        """Kill a container's first process from a container that sees all processes."""
        pid = self.inspect(service, "{{.State.Pid}}")
        inside = ["docker", "run", "--rm", "--pid", "host", "--user", "0", "--entrypoint", "/bin/sh", "streamsvm:local"]
        subprocess.run([*inside, "-c", f"kill -9 {pid}"], check=True, timeout=UP_S)

    def all_well(self) -> bool:
        """Tell whether each container runs, and is healthy if it can say so."""
        template = "{{.State.Status}} {{if .State.Health}}{{.State.Health.Status}}{{end}}"
        states = [self.inspect(service, template).split() for service in LASTING]
        return all(state in (["running"], ["running", "healthy"]) for state in states)

    def send(self, topic: str, *values: bytes) -> None:
        """Send records from outside the containers, as a program on this machine would."""
        producer = Producer({"bootstrap.servers": f"localhost:{self.ports['KAFKA_PORT']}"})
        for value in values:
            producer.produce(topic, value)
        assert producer.flush(30) == 0


def eventually(what: str, look: Callable[[], Found]) -> Found:
    """Look until there is something to see."""
    deadline = time.monotonic() + ANSWER_S
    while True:
        try:
            found = look()
        except (OSError, TransientError):  # Prometheus or the broker does not answer yet
            pass
        else:
            if found:
                return found
        assert time.monotonic() < deadline, f"{what}: not within {ANSWER_S:.0f} s"
        time.sleep(1)


def here(reference: str) -> bool:
    """Tell whether the engine has an image of this name."""
    return subprocess.run(["docker", "image", "inspect", reference], capture_output=True, check=False).returncode == 0


@cache
def local_images() -> dict[str, str]:
    """Return the images that are here under their tag only: made or loaded by hand, they have no digest."""
    tags = {name: (reference, reference.partition("@")[0]) for name, reference in images().items()}
    return {name: tag for name, (reference, tag) in tags.items() if not here(reference) and here(tag)}


@contextmanager
def running(directory: Path) -> Iterator[Stack]:
    """Build and start everything under a name and on ports of its own; leave nothing behind."""
    override = directory / "override.json"
    said = {"environment": {"NUMBA_DEBUG_CACHE": "1"}}
    place = {"image": "streamsvm:local", "pull_policy": "never", "user": "472"}  # Grafana's, without its server
    override.write_text(json.dumps({"services": {"trainer": said, "scorer": said, "grafana": place}}))
    ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
    started = Stack(f"streamsvm-test-{secrets.token_hex(4)}", override, ports)
    try:
        started.compose("up", "--build", "--detach", "--quiet-pull", *SERVICES)
        started.send("candidates", *MALFORMED)
        started.send("points", *UNSCORABLE)
        eventually("3 versions", lambda: started.prometheus.value("max(streamsvm_model_version)") >= 3)
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
    eventually("healthy", lambda: stack.inspect(daemon, "{{.State.Health.Status}}") == "healthy")
    assert stack.compose("exec", "-T", daemon, "id", "-u").strip() == "10001"
    assert stack.inspect(daemon, "{{.HostConfig.ReadonlyRootfs}}") == "true"
    address = f"http://127.0.0.1:{stack.ports[f'{daemon.upper()}_PORT']}/readyz"
    eventually("ready", lambda: json.loads(page(address))["ready"])


def test_stopped_trainer_ends_clean_and_goes_on(stack: Stack) -> None:
    """`docker stop` ends in a checkpoint and status 0; the next start counts on where that one stopped."""
    before = stack.prometheus.value("max(streamsvm_model_version)")
    begun = time.monotonic()
    stack.compose("stop", "trainer")
    assert time.monotonic() - begun < STOP_S
    assert stack.inspect("trainer", "{{.State.ExitCode}}") == "0"
    restarted_at = time.time()
    stack.compose("start", "trainer")
    newer = f"max(streamsvm_model_version) and (max(streamsvm_model_published_timestamp_seconds) > {restarted_at})"
    assert eventually("a version after the restart", lambda: stack.prometheus.value(newer)) > before
    assert stack.inspect("trainer", "{{.RestartCount}}") == "0"


@pytest.mark.parametrize("service", LASTING)
def test_killed_container_comes_back_and_the_work_goes_on(stack: Stack, service: str) -> None:
    """The engine starts it again by itself; new versions and scores follow, and the topics hold each thing once."""
    eventually("well before", stack.all_well)
    started = stack.inspect(service, "{{.State.StartedAt}}")
    stack.kill(service)
    eventually("another start", lambda: stack.inspect(service, "{{.State.StartedAt}}") != started)
    eventually("well again", stack.all_well)
    models, scores, since = eventually(
        "an answering broker", lambda: (stack.ranges("models"), stack.ranges("scores"), time.time())
    )
    eventually("another version", lambda: stack.stored("models", after=models))
    eventually("more scores", lambda: stack.stored("scores", after=scores))
    newer = f"max(streamsvm_model_published_timestamp_seconds) > {since}"
    eventually("a scrape that knows the version", lambda: stack.prometheus.query(newer))
    check_versions(stack)
    check_answers(stack)


def check_versions(stack: Stack) -> int:
    """Have every version recomputed from the log: the same bytes, none missing or there twice; return how many."""
    before = len(stack.stored("models"))
    run = ["run", "--rm", "--no-deps", "-T", "-e", "NUMBA_DEBUG_CACHE=0", "trainer", "verify", "--json"]
    report = json.loads(stack.compose(*run))
    assert report["clean"], report
    identical = int(report["counts"]["identical"])
    assert before <= identical <= len(stack.stored("models"))
    rejected = {source_of(record) for record in stack.stored("candidates.dlq")}
    assert len(rejected) == len(MALFORMED)
    return identical


def check_answers(stack: Stack) -> int:
    """Wait until each record that `points` now holds has one answer; return how many records that are."""
    asked = {
        f"points/{partition}/{offset}"
        for partition, (begin, end) in stack.ranges("points").items()
        for offset in range(begin, end)
    }

    def all_answered() -> Counter[str] | None:
        answers = Counter(source_of(record) for topic in ("scores", "points.dlq") for record in stack.stored(topic))
        assert not [source for source, count in answers.items() if count > 1], "answered twice"
        return answers if asked <= answers.keys() else None

    eventually("an answer to every record", all_answered)
    assert len(stack.stored("points.dlq")) == len(UNSCORABLE)
    return len(asked)


def test_topics_hold_each_thing_once(stack: Stack) -> None:
    """After all that, with nothing more coming in: each version and each answer once, and the head is the last one."""
    stack.compose("stop", "replay", "questions")
    records = check_answers(stack)
    assert len(stack.stored("scores")) + len(stack.stored("points.dlq")) == records
    stack.compose("stop", "trainer")
    pointers = {record.key: record.value or b"" for record in stack.stored("models.aliases")}
    head = decode_head(pointers[head_key("pulsars").encode()])
    assert head.number == check_versions(stack)


def source_of(record: Record) -> str:
    """Return which record an answer or a letter is of."""
    headers = dict(record.headers)
    letter = headers.get("streamsvm.deadletter.id", b"").partition(b"/")[2]  # the model's name comes first
    return (headers.get("streamsvm.source") or letter).decode()

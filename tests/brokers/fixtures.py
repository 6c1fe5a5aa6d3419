"""Fixtures of brokers; a plugin, so that any test may ask for one.

- `broker`: a `TestBroker`, once for each kind: a test that takes it runs on the embedded broker and on a
  real one. The markers `real_broker` and `embedded_broker` restrict it to one kind.
- `connection`: the connection of `broker`.
- `real_broker`, `embedded_broker`: one kind only, by name.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from streamsvm.kafka import Cluster, Connection, EmbeddedBroker, TopicSpec
from tests.brokers.choice import NoBroker, RealBroker
from tests.brokers.shared import SharedBroker, find_real_broker

USED = pytest.StashKey[list[str]]()
SHARED = pytest.StashKey[SharedBroker]()


@dataclass(frozen=True)
class TestBroker:
    """A broker under test; its kind is "embedded" or "real"."""

    __test__ = False

    kind: str
    connection: Connection

    def name(self, hint: str = "topic") -> str:
        """Return a name that no other test uses."""
        return f"{hint}-{uuid.uuid4().hex[:12]}"

    def topic(self, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Create a topic of a unique name; settings apply on a real broker only."""
        name = self.name()
        Cluster(self.connection).create([TopicSpec(name, partitions, config=config or {})])
        return name

    def connect(self, request_timeout_s: float = 10.0, **options: str | int | bool) -> Connection:
        """Return another connection; option names with underscores for dots."""
        named = {name.replace("_", "."): value for name, value in options.items()}
        return Connection(
            options={**self.connection.options, **named},
            embedded=self.connection.embedded,
            request_timeout_s=request_timeout_s,
        )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[USED] = []
    config.addinivalue_line("markers", "real_broker: runs on a real broker only")
    config.addinivalue_line("markers", "embedded_broker: runs on the embedded broker only")
    if not hasattr(config, "workerinput") and config.getoption("numprocesses", None):
        config.stash[SHARED] = SharedBroker()


def pytest_unconfigure(config: pytest.Config) -> None:
    shared = config.stash.get(SHARED, None)
    if shared is not None:
        shared.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "broker" not in metafunc.fixturenames:
        return
    kinds = ["embedded", "real"]
    for only in kinds:
        if metafunc.definition.get_closest_marker(f"{only}_broker"):
            kinds = [only]
    metafunc.parametrize("broker", kinds, indirect=True)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    shared = config.stash.get(SHARED, None)
    told = [str(getattr(shared.found, "description", shared.found))] if shared and shared.found else []
    for line in [*config.stash[USED], *told]:
        terminalreporter.write_line(f"real broker: {line}")


@pytest.fixture(scope="session")
def _running_real_broker(pytestconfig: pytest.Config) -> Iterator[RealBroker]:
    try:
        running = find_real_broker()
    except NoBroker as error:
        pytestconfig.stash[USED].append(str(error))
        if error.forced:
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    pytestconfig.stash[USED].append(running.description)
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="session")
def real_broker(_running_real_broker: RealBroker) -> TestBroker:
    """A real broker, the same for the whole test run; skips where none can be had."""
    return TestBroker("real", Connection(options={"bootstrap.servers": _running_real_broker.bootstrap_servers}))


@pytest.fixture(scope="session")
def embedded_broker() -> Iterator[TestBroker]:
    """The embedded broker, the same for the whole test run."""
    with EmbeddedBroker() as running:
        yield TestBroker("embedded", running.connection)


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> TestBroker:
    """Each kind of broker in turn."""
    chosen: TestBroker = request.getfixturevalue(f"{request.param}_broker")
    return chosen


@pytest.fixture
def connection(broker: TestBroker) -> Connection:
    """The way to each kind of broker in turn."""
    return broker.connection

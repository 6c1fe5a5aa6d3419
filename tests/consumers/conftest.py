"""What many tests of daemons start from: a connection, and settings of a trainer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from consumers.settings import Settings
from streamsvm.kafka import Cluster, Connection, TopicSpec
from tests.brokers.fixtures import TestBroker
from tests.brokers.jvm import CannotRun
from tests.consumers.forged import train
from tests.consumers.losing import unverifying
from tests.consumers.trainers import settings_for
from tests.live.proxy import Proxy


@pytest.fixture
def connection(broker: TestBroker) -> Connection:
    """A connection whose reads answer soon: the embedded broker keeps an idle fetch for its whole wait."""
    return broker.connect(fetch_wait_max_ms=10)


@pytest.fixture
def settings(broker: TestBroker, tmp_path: Path) -> Settings:
    """Settings of a trainer whose input has four partitions, on both kinds of brokers."""
    made = settings_for(broker.name("t"), tmp_path / "checkpoint")
    Cluster(broker.connection).create([TopicSpec(made.input.topic, 4)])
    return made


@pytest.fixture(scope="module")
def shared() -> dict[str, Settings]:
    """What `trained` made for each kind of broker."""
    return {}


@pytest.fixture
def trained(broker: TestBroker, shared: dict[str, Settings], tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Five versions of one partition's 200 rows, of which one is no valid point; for tests that write elsewhere."""
    if broker.kind not in shared:
        shared[broker.kind] = train(broker, tmp_path_factory.mktemp("checkpoint"))
    return shared[broker.kind]


@pytest.fixture(scope="module")
def losing() -> Iterator[Proxy]:
    """A network before a broker that can lose markers: `network.unmarked` says which."""
    try:
        with unverifying() as network:
            yield network
    except CannotRun as missing:
        pytest.skip(str(missing))


@pytest.fixture
def lossy(losing: Proxy) -> Iterator[Connection]:
    """A connection over that network, which loses nothing until it is told to."""
    losing.unmarked = None
    yield Connection(options={"bootstrap.servers": losing.address, "fetch.wait.max.ms": 10})
    losing.unmarked = None

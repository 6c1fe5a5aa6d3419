"""Where the broker's faults are played: a stream of known outcome, trainers that read it, a broker to be ill-treated.

Every trainer of a scene reads the same topic and writes topics of its own, so all must publish the same bytes: those of
one clean run.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import threading
import urllib.error
import urllib.request
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from consumers.settings import Settings
from streamsvm.kafka import Cluster, Connection, TopicSpec
from tests.brokers.fixtures import TestBroker
from tests.brokers.jvm import CannotRun, JvmBroker
from tests.consumers.trainers import produce, records, run_until, settings_for
from tests.deadline import Late
from tests.live.process import Daemon, arguments
from tests.live.proxy import Proxy
from tests.live.stage import Stage
from tests.promise.topics import check_counts, check_promise, published

ROWS = 2_000
VERSIONS = ROWS // 40
RSS_GROWTH = 60 * 2**20
"""What a trainer may take more, in bytes, while its broker is away: the client's buffers, and a second producer."""

PATIENCE_S = 240.0
LOOK_S = 0.05


class Trainee:
    """A trainer as a process, on topics and in a directory of its own.

    Parameters
    ----------
    settings : Settings
    direct, through : Connection
        How the tests reach the broker, and how the trainer does.
    clean : list of key and value
        What it has to publish.
    counts : Counter
        Where the versions found to be as promised are counted.
    altered : sequence of str
        Defects and disturbances of `tests.defects`.
    """

    def __init__(
        self,
        settings: Settings,
        direct: Connection,
        through: Connection,
        clean: list[tuple[bytes | None, bytes | None]],
        counts: Counter[str],
        altered: Sequence[str] = (),
    ) -> None:
        self.settings, self.direct = settings, direct
        self._through, self._clean, self._counts, self._altered = through, clean, counts, altered
        self.daemon: Daemon

    def begin(self, environment: dict[str, str] | None = None, **more: Any) -> Daemon:
        """Start a life of the process."""
        self._counts["processes"] += 1
        options = {"coreset_train_points": self.settings.coreset.train_points, **more}
        command = arguments(self.settings, self._through, **options)
        if self._altered:
            self.daemon = Daemon(["+".join(self._altered), *command], environment, "tests.defects.process")
        else:
            self.daemon = Daemon(command, environment)
        self._http = self.daemon.wait_for("configuration")["http"]
        return self.daemon

    def ready(self) -> tuple[bool, dict[str, str]]:
        """Ask /readyz: whether it works now, and what it waits for."""
        said = json.loads(self._ask("readyz"))
        return said["ready"], said["waiting_for"]

    def _ask(self, path: str) -> bytes:
        try:
            with urllib.request.urlopen(f"{self._http}/{path}", timeout=PATIENCE_S) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as refused:
            with refused:
                return bytes(refused.read())
        except OSError:
            raise AssertionError(f"the process ended with {self.daemon.wait()}: {self.daemon.said[-3000:]}") from None

    def version(self) -> int:
        """Return the number of the newest version that it knows to be published."""
        found = re.search(rb"^streamsvm_model_version (\S+)", self._ask("metrics"), re.MULTILINE)
        return int(float(found[1])) if found else 0

    def wait_until(self, happened: Callable[[], bool], what: str) -> None:
        """Look again and again until something has happened, or fail when the process ends or it takes too long."""
        pause, waited_s = threading.Event(), 0.0
        while not happened():
            status = self.daemon.ended()
            assert status is None, f"the process ended with {status} before {what}"
            if waited_s > PATIENCE_S:
                raise Late(f"{what}; it waits for {self.ready()[1]}")
            pause.wait(LOOK_S)
            waited_s += LOOK_S

    def check_amid(self) -> None:
        """Check that something is left to publish, so that a fault of now concerns it."""
        assert self.version() < VERSIONS, "everything is published: this shows nothing"

    def finish(self) -> None:
        """Let it publish what is left of the stream, and stop it; it must have gone on by itself."""
        self.wait_until(lambda: self.version() == VERSIONS, "all versions are out")
        assert self.daemon.stop() == 0, self.daemon.said[-3000:]
        self.check()

    def check(self) -> None:
        """Check that every version is there once, with every point counted once, and the bytes of the clean run."""
        found = check_promise(self.direct, self.settings)
        check_counts(found)
        assert found[-1].stream.rows == ROWS
        assert published(self.direct, self.settings) == self._clean
        self._counts["versions"] += len(found)


@dataclass
class Scene:
    """A stream, and trainers of it.

    Attributes
    ----------
    direct, through : Connection
        How tests reach the broker, and how trainers do.
    counts : Counter
        What happened in the test that runs: faults, and versions checked.
    """

    direct: Connection
    through: Connection
    directory: Path
    counts: Counter[str] = field(default_factory=Counter)
    trainees: list[Trainee] = field(default_factory=list)
    _clean: list[tuple[bytes | None, bytes | None]] = field(default_factory=list)
    _stream: Settings | None = None

    def trainee(self, *altered: str) -> Trainee:
        """Return a trainer that has not begun; whatever becomes of it, it ends with the test."""
        made = Trainee(self._elsewhere(), self.direct, self.through, self._clean_run(), self.counts, altered)
        self.trainees.append(made)
        return made

    def rival_of(self, trainee: Trainee) -> Trainee:
        """Return another trainer of the same topics, on a copy of the directory as it is now."""
        directory = self.directory / uuid.uuid4().hex[:8]
        shutil.copytree(trainee.settings.checkpoint.directory, directory)
        checkpoint = trainee.settings.checkpoint.model_copy(update={"directory": directory})
        settings = trainee.settings.model_copy(update={"checkpoint": checkpoint})
        made = Trainee(settings, self.direct, self.through, self._clean_run(), self.counts)
        self.trainees.append(made)
        return made

    def tell(self, item: pytest.Item) -> None:
        """Give a test's counts to its report, and begin anew."""
        item.user_properties.extend(self.counts.items())
        self.counts.clear()

    def dismiss(self) -> None:
        """Kill every trainer that still runs."""
        for trainee in self.trainees:
            if hasattr(trainee, "daemon"):
                trainee.daemon.kill()
        self.trainees.clear()

    def _clean_run(self) -> list[tuple[bytes | None, bytes | None]]:
        if self._stream is None:
            self._stream = settings_for(f"scene-{uuid.uuid4().hex[:8]}", self.directory / "clean")
            Cluster(self.direct).create([TopicSpec(self._stream.input.topic, 1)])
            produce(self.direct, self._stream.input.topic, records(ROWS))
            run_until(self._stream, self.direct, ROWS)
            self._clean = published(self.direct, self._stream)
            assert len(self._clean) == VERSIONS
        return self._clean

    def _elsewhere(self) -> Settings:
        self._clean_run()
        assert self._stream is not None
        name = uuid.uuid4().hex[:8]
        models = f"{self._stream.output.models_topic}-{name}"
        return self._stream.model_copy(
            update={
                "output": self._stream.output.model_copy(update={"models_topic": models}),
                "checkpoint": self._stream.checkpoint.model_copy(update={"directory": self.directory / name}),
            }
        )


@dataclass
class FaultyBroker(Scene):
    """A scene with one broker, that trainers reach by a proxy.

    Attributes
    ----------
    broker : JvmBroker
    proxy : Proxy
    """

    broker: JvmBroker = field(kw_only=True)
    proxy: Proxy = field(kw_only=True)


@contextlib.contextmanager
def faulty_broker(directory: Path, **settings: str) -> Iterator[FaultyBroker]:
    """Run a broker behind a proxy; skips where no JVM can be had."""
    with Proxy() as proxy:
        try:
            broker = JvmBroker(
                {name.replace("_", "."): value for name, value in settings.items()}, advertised=proxy.address
            )
            broker.start()
        except CannotRun as error:
            pytest.skip(f"no broker to ill-treat: {error}")
        proxy.forward_to(broker.behind_proxy)
        direct, through = (
            Connection(options={"bootstrap.servers": servers}, request_timeout_s=10.0)
            for servers in (broker.bootstrap_servers, proxy.address)
        )
        faulty = FaultyBroker(direct, through, directory, broker=broker, proxy=proxy)
        try:
            yield faulty
        finally:
            faulty.dismiss()
            broker.discard()


@pytest.fixture(scope="session")
def _faulty_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyBroker]:
    settings = {"broker_session_timeout_ms": "3000", "broker_heartbeat_interval_ms": "500"}
    with faulty_broker(tmp_path_factory.mktemp("faulty"), **settings) as faulty:
        yield faulty


@pytest.fixture
def faulty(_faulty_broker: FaultyBroker, request: pytest.FixtureRequest) -> Iterator[FaultyBroker]:
    """A broker of the fault tests' own behind a faulty network; both are well again after each test."""
    yield _faulty_broker
    _faulty_broker.tell(request.node)
    _faulty_broker.dismiss()
    _faulty_broker.proxy.mend()
    _faulty_broker.proxy.loss = None
    _faulty_broker.broker.revive()


@pytest.fixture
def stage(real_broker: TestBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A trainer of a topic of its own, which is still to be created; no process outlives the test."""
    made = Stage(real_broker.connection, settings_for(real_broker.name("fault"), tmp_path / "checkpoint"))
    yield made
    request.node.user_properties.append(("processes", len(made.started)))
    made.clear()

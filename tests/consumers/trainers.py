"""A trainer under test: settings for a small stream, and ways to run one until something has happened."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Self

import pytest

from consumers.host import Health
from consumers.metrics import TRAINER, Metrics
from consumers.page import TrainerBoard
from consumers.settings import CheckpointConfig, InputConfig, OutputConfig, Settings, TrainingConfig
from consumers.trainer import Components, Trainer
from streamsvm.config import CoresetConfig, PointsConfig, SvmConfig
from streamsvm.ingest import encode
from streamsvm.kafka import Cluster, Connection, Message, Outbox, Record
from streamsvm.learning import Trained, train
from streamsvm.model import LinearMachine, Version, message as model_codec
from streamsvm.points import Points
from tests.deadline import Late
from tests.streams import DIMENSION, gaussian

DEADLINE_S = 60.0
START_S = 240.0
"""A start may have to compile what no test before it has compiled."""


def settings_for(prefix: str, directory: Path, **training: Any) -> Settings:
    """Return settings whose topics begin with `prefix`: a leaf every 20 rows, a model every two leaves."""
    return Settings(
        name="m",
        kafka={"bootstrap.servers": "unused:1"},
        input=InputConfig(topic=f"{prefix}-in"),
        points=PointsConfig(dimension=DIMENSION),
        coreset=CoresetConfig(points=110, structure="tree", train_points=500),
        svm=SvmConfig(C=1.0),
        output=OutputConfig(models_topic=f"{prefix}-models"),
        training=TrainingConfig(**{"policy": "every", "every_leaves": 2, **training}),
        checkpoint=CheckpointConfig(directory=directory, interval_s=0.05),
    )


def changed(settings: Settings, section: str, **options: object) -> Settings:
    """Return the settings with options of a section changed."""
    return settings.model_copy(update={section: getattr(settings, section).model_copy(update=options)})


def produce(connection: Connection, topic: str, values: Sequence[bytes | None], partition: int = 0) -> None:
    """Put records into one partition and wait until they are stored."""
    send(connection, *(Message(topic, value, partition=partition) for value in values))


def send(connection: Connection, *messages: Message) -> None:
    """Send messages and wait until they are stored."""
    with closing(Outbox(connection)) as outbox:
        for message in messages:
            outbox.send(message)
        outbox.flush(30.0)


def records(n: int, seed: int = 0) -> list[bytes]:
    """Return n labeled points, one a record."""
    return encoded(gaussian(n, seed))


def encoded(points: Points) -> list[bytes]:
    """Return points as records, one each."""
    return [encode(x, int(y), float(w)) for x, y, w in zip(points.X, points.y, points.weight, strict=True)]


def versions(connection: Connection, settings: Settings) -> list[Version]:
    """Return every version of the models topic, its hash checked."""
    return [
        model_codec.decode(record.value, dict(record.headers)[model_codec.SHA256_HEADER].decode())
        for record in topic(connection, settings.output.models_topic)
        if record.value is not None
    ]


def topic(connection: Connection, name: str) -> list[Record]:
    """Return every record of partition 0."""
    return list(Cluster(connection).read_to_end(name, 0, timeout_s=30.0))


def stored(connection: Connection, name: str) -> list[Record]:
    """Return every record of every partition: on the embedded broker each topic has four."""
    partitions = Cluster(connection).describe(name).partitions
    return [record for p in partitions for record in Cluster(connection).read_to_end(name, p, timeout_s=30.0)]


def aliases(connection: Connection, settings: Settings, key: str) -> list[bytes]:
    """Return what the aliases topic holds under a key, the oldest first."""
    return [r.value or b"" for r in topic(connection, settings.output.aliases_topic) if r.key == key.encode()]


def trail(connection: Connection, settings: Settings) -> list[dict[str, Any]]:
    """Return the entries of the audit trail."""
    return [json.loads(record.value or b"") for record in topic(connection, settings.output.audit_topic)]


def retired(connection: Connection, settings: Settings) -> list[int]:
    """Return the number of each version that has a tombstone, in their order on the topic."""
    keys = [r.key or b"" for r in topic(connection, settings.output.models_topic) if r.value is None]
    return [int(key.rsplit(b"@", 1)[1]) for key in keys]


def train_and_change(change: Callable[[int, LinearMachine], LinearMachine]) -> Callable[..., Trained]:
    """Return a training whose n-th machine, from 1 on, is what is made of it."""
    numbers = count(1)

    def train_one(*arguments: Any) -> Trained:
        trained = train(*arguments)
        machine = trained.model.machine
        assert isinstance(machine, LinearMachine)
        return replace(trained, model=replace(trained.model, machine=change(next(numbers), machine)))

    return train_one


class Running:
    """A trainer in a thread.

    `settings, connection`: What it runs with. `cluster`: Another way to the broker than the plain one. `options`: More
    arguments of `Trainer`, and of its `Components`.
    """

    def __init__(
        self, settings: Settings, connection: Connection, cluster: Cluster | None = None, **options: Any
    ) -> None:
        self.metrics, self.health = Metrics(TRAINER).with_process(), Health(stuck_after_s=60.0)
        self.board = TrainerBoard(settings, self.metrics)
        stop = threading.Event()
        own = {name: options.pop(name) for name in ("reset", "session") if name in options}
        components = Components(
            cluster=cluster or Cluster(connection),
            metrics=self.metrics,
            health=self.health,
            stop=stop,
            **{"board": self.board, **options},
        )
        self.begin(Trainer(settings, components, **own).run, stop, "trainer")

    def begin(self, run: Callable[[], None], stop: threading.Event, name: str) -> None:
        """Prepare the thread of a daemon that ends when it is asked to."""
        self.failure: BaseException | None = None
        self._daemon, self._stop = run, stop
        self._thread = threading.Thread(target=self._run, name=f"{name}-under-test", daemon=True)

    def _run(self) -> None:
        try:
            self._daemon()
        except BaseException as error:  # noqa: BLE001 - shown to the test
            self.failure = error

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def ask_to_stop(self) -> None:
        """Ask it to stop."""
        self._stop.set()

    def stop(self) -> None:
        """Ask it to stop and wait until it has."""
        self.ask_to_stop()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), f"{self._thread.name} did not stop"
        if self.failure is not None:
            raise self.failure

    def ended(self) -> bool:
        """Tell whether it has ended, by itself or because it was asked to."""
        return not self._thread.is_alive()

    def value(self, name: str, **labels: str) -> float:
        """Return a metric's value now; 0 where it has none yet."""
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

    def wait_until(self, happened: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
        """Wait for something to have happened, or fail when the daemon ends or takes too long."""
        pause = threading.Event()
        waited_s = 0.0
        while not happened():
            if not self._thread.is_alive():
                self.stop()
                raise AssertionError(f"{self._thread.name} ended early")
            if waited_s > deadline_s:
                raise Late(f"it did not happen in time: {self.health.ready()}")
            pause.wait(0.02)
            waited_s += 0.02

    def wait_until_started(self) -> None:
        """Wait until it has begun: told to stop before that, it takes nothing over and writes nothing."""
        self.wait_until(lambda: "start" not in self.health.ready()[1]["waiting_for"], START_S)

    def wait_for_rows(self, n: int) -> None:
        """Wait until n rows were learned; a clean stop then publishes every version that is due."""
        self.wait_until_started()
        self.wait_until(
            lambda: (
                self.value("streamsvm_input_rows_total", outcome="accepted")
                + self.value("streamsvm_input_rows_total", outcome="rejected")
                >= n
            )
        )


def ends_by(
    error: type[BaseException], said: str | None, settings: Settings, connection: Connection, **options: Any
) -> Any:
    """Run a trainer until it ends by itself, by an error that says this; return the error."""
    with pytest.raises(error, match=said) as ended, Running(settings, connection, **options) as running:
        running.wait_until(lambda: False)
    return ended.value


def run_until(settings: Settings, connection: Connection, rows: int, **options: Any) -> Running:
    """Run a trainer until it has read so many rows in this life, then stop it cleanly."""
    with Running(settings, connection, **options) as running:
        running.wait_for_rows(rows)
    return running


def learn(settings: Settings, connection: Connection, rows: int, *, seed: int = 0, **options: Any) -> Running:
    """Put so many points into the input, and run a trainer until it has read as many."""
    produce(connection, settings.input.topic, records(rows, seed))
    return run_until(settings, connection, rows, **options)

"""A trainer that really runs, on the HTRU2 survey through an embedded broker, with its page answering."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from consumers.host import HttpServer
from consumers.page.site import Site
from consumers.page.status import TrainerStatus
from consumers.settings import CheckpointConfig, HttpConfig, InputConfig, OutputConfig, Settings, TrainingConfig
from streamsvm.config import CoresetConfig, PointsConfig, SvmConfig
from streamsvm.datasets import load_htru2
from streamsvm.ingest import encode
from streamsvm.kafka import Cluster, Connection, Message, Outbox, TopicSpec
from tests.consumers.trainers import Running

NAME = "pulsar"
LEAF_ROWS = 100
EVERY_LEAVES = 10
SPLIT_SEED = 7


def settings_of(topic: str, directory: Path, feature_names: tuple[str, ...], **svm: Any) -> Settings:
    """Return settings for the survey: leaves of 100 rows, a model every ten of them."""
    coreset = {
        "points": 11 * LEAF_ROWS // 2,
        "structure": "tree",
        "train_points": 2_000,
    }
    return Settings(
        name=NAME,
        kafka={"bootstrap.servers": "unused:1"},
        input=InputConfig(topic=topic),
        points=PointsConfig(dimension=8, labels=(0, 1), feature_names=feature_names),
        coreset=CoresetConfig(**coreset),
        svm=SvmConfig(**svm),
        training=TrainingConfig(policy="every", every_leaves=EVERY_LEAVES),
        output=OutputConfig(models_topic=f"{topic}-models"),
        checkpoint=CheckpointConfig(directory=directory, interval_s=1.0),
        http=HttpConfig(port=0),
    )


@dataclass
class Stage:
    """The running trainer, the address of its page, and what is still to be produced."""

    running: Running
    site: Site
    url: str
    connection: Connection
    topic: str
    _sent: int = field(default=0)

    def status(self) -> TrainerStatus:
        """Return the status as `/status.json` has it."""
        status = self.site.status()
        assert isinstance(status, TrainerStatus)
        return status

    def produce(self, points: int, bad: int = 0) -> None:
        """Put so many more points of the survey, and records that are no points, evenly into both partitions."""
        X, y, _ = load_htru2()
        order = np.random.Generator(np.random.PCG64(SPLIT_SEED)).permutation(len(y))[self._sent : self._sent + points]
        outbox = Outbox(self.connection)
        for place, index in enumerate(order):
            outbox.send(Message(self.topic, encode(X[index], int(y[index] > 0), 1.0), partition=place % 2))
        for _ in range(bad):
            outbox.send(Message(self.topic, b'{"x": [1, 2], "y": 1}', partition=0))
        outbox.flush(30.0)
        outbox.close()
        self._sent += points

    def settle(self) -> TrainerStatus:
        """Wait until all that was produced is learned, and every version due is published and shown."""
        due = self._sent // (LEAF_ROWS * EVERY_LEAVES)

        def shown() -> bool:
            status = self.status()
            newest = status.versions[0].number if status.versions else 0
            rows = sum(part.rows for part in status.structure.partitions)
            return newest >= due - 1 and rows >= self._sent and status.input.lag_total == 0 and status.process.ready

        self.running.wait_until(shown)
        return self.status()


@contextmanager
def staged(connection: Connection, topic: str, directory: Path, **options: Any) -> Iterator[Stage]:
    """Run a trainer and its page; options are those of `settings_of`, and other `feature_names` than the survey's."""
    names = options.pop("feature_names", load_htru2()[2])
    settings = settings_of(topic, directory, names, **options)
    Cluster(connection).create([TopicSpec(topic, 2)])
    running = Running(settings, connection)
    site = Site(settings, running.board, running.metrics, running.health)
    with running, HttpServer(settings.http, running.health, running.metrics.registry, site.answer) as http:
        yield Stage(running, site, http.url, connection, topic)

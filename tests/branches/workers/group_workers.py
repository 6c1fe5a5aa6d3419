"""Workers of their own under test: in threads, beside a trainer that adopts what they leave in the coresets topic."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import numpy as np

from consumers.branches.workers import group_worker
from consumers.branches.workers.group_worker import GroupWorker
from consumers.branches.workers.metrics import WORKER
from consumers.branches.workers.settings import WorkerConfig, coresets_topic
from consumers.host import Health
from consumers.metrics import Metrics
from consumers.settings import Settings
from streamsvm.ingest import encode
from streamsvm.kafka import Cluster, Connection
from streamsvm.learning import Learner, train
from streamsvm.model import Version, message as model_codec, positions
from streamsvm.points import Position
from tests import streams
from tests.consumers.trainers import Running, produce, topic, versions
from tests.promise.states import Left, look
from tests.promise.topics import hold, of_records
from tests.streams import gaussian

PARTITIONS = 4
ROWS = 130
"""Of each partition."""
# No test of this process waits as long as a worker does between two manifests.
group_worker.PUBLISH_INTERVAL_S, group_worker.PUBLISH_AFTER_S = 0.05, 0.2  # type: ignore[misc]


class WorkerRunning(Running):
    """A worker in a thread.

    `settings, connection`: What it runs with. `worker`: Options of its section; by default it is one of a group.
    """

    def __init__(self, settings: Settings, connection: Connection, **worker: Any) -> None:
        settings = settings.model_copy(update={"worker": WorkerConfig(**worker)})
        self.metrics, self.health = Metrics(WORKER).with_process(), Health(stuck_after_s=60.0)
        stop = threading.Event()
        self.begin(GroupWorker(settings, Cluster(connection), self.metrics, self.health, stop).run, stop, "worker")


def check_topic(connection: Connection, settings: Settings, partitions: int) -> list[Left]:
    """Check that at every prefix of every partition's log the highest manifest is complete; return what was found."""
    cluster, found = Cluster(connection), list[Left]()
    for partition in range(partitions):
        records = cluster.read_to_end(coresets_topic(settings), partition, timeout_s=30.0)
        found.append(look(of_records(records)))
    hold(anomaly for one in found for anomaly in one.anomalies())
    return found


def fill(
    connection: Connection,
    topic_: str,
    begin: int = 0,
    end: int = ROWS,
    partitions: Iterable[int] = range(PARTITIONS),
) -> None:
    """Put each partition's own points into it."""
    for partition in partitions:
        points = gaussian(ROWS, seed=partition)
        values: list[bytes | None] = [
            encode(points.X[at], int(points.y[at]), float(points.weight[at])) for at in range(begin, end)
        ]
        produce(connection, topic_, values, partition)


def of_one_learner(settings: Settings, version: Version, bad: tuple[int, ...] = ()) -> tuple[str, bytes]:
    """Return training set and coefficients of a version's cut, made without broker, processes or daemon."""
    config, cut = settings.models(), positions(version.lineage.cut)
    learner = Learner(config, dict.fromkeys(cut, Position(0)), 1 << 30)
    for partition, end in cut.items():
        accepted = np.ones(ROWS, np.bool_)
        accepted[list(bad)] = False
        rows = streams.rows_of(gaussian(ROWS, seed=partition), partition, accepted=accepted)
        learner.learn(rows, until=end)
    made = learner.cut()
    assert dict(made.positions) == cut
    trained = train(made.points, made.moments, config.svm)
    return made.points.sha256(), trained.model.machine.coefficients.tobytes()  # type: ignore[union-attr]


def check(settings: Settings, connection: Connection, bad: tuple[int, ...] = ()) -> list[Version]:
    """Check numbers, chain and bytes of every version; return them."""
    found = versions(connection, settings)
    assert [version.number for version in found] == list(range(1, len(found) + 1))
    hashes = [model_codec.sha256(record.value) for record in topic(connection, settings.output.models_topic)]
    assert [version.lineage.parent for version in found] == [None, *hashes[:-1]]
    for version in found:
        expected = of_one_learner(settings, version, bad)
        assert (version.lineage.training_set_sha256, version.model.machine.coefficients.tobytes()) == expected  # type: ignore[union-attr]
    return found

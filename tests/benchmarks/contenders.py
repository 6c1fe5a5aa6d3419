"""Who runs from a topic to a model: other people's loops, and ours.

Every clock starts with the consumer assigned and its connection up, just before the first poll; clients are made and
closed outside it. Other people's loops use the client's default options but for `fetch.queue.backoff.ms`, which they
share with ours: at its default of a second, a loop that outruns the fetcher stands still up to half of a short run.

- `client`: `consume(1000)` and `value()`, nothing else: the ceiling of any Python consumer of single-point records.
- `sgd_loop`: what is written today. Batches of 1,000; a typed msgspec decoder (orjson, of about the same speed, is not
  among this project's dependencies); StandardScaler and SGDClassifier by `partial_fit`. It validates nothing: a bad
  record ends it. Nor does it publish, save, or know where it stands.
- `streamsvm`: the trainer as it is deployed, with validation, coresets and a model topic. Two moments of one run:
  `streamsvm_learned` when the last point is in the summary, `streamsvm_published` when the model of all points is on
  the topic. Training runs in a second thread: its CPU time is in both, and in neither's poll loop.

Without a broker, on records fetched before: `sgd_loop` again, and `streamsvm_learned` as the library alone (decoder and
learner, training sets materialised when due, nothing trained).
"""

from __future__ import annotations

import itertools
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from confluent_kafka import Consumer, TopicPartition
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import StandardScaler

from consumers.host.runtime import Health
from consumers.metrics import TRAINER, Metrics
from consumers.settings import CheckpointConfig, InputConfig, OutputConfig, Settings, TrainingConfig
from consumers.trainer.components import Components
from consumers.trainer.gauges import Turns
from consumers.trainer.trainer import Trainer
from streamsvm.config import PointsConfig, SvmConfig
from streamsvm.ingest.decoder import PointDecoder
from streamsvm.kafka import Cluster, Connection, Input, Record
from streamsvm.kafka.embedded import EMBEDDED_PARTITIONS
from streamsvm.learning.learner import Learner
from streamsvm.points import Position
from tests.benchmarks.timing import Lap, Outcome, Stopwatch
from tests.sizes import sized

BROKER: Final = "broker"
PREFETCHED: Final = "prefetched"
BATCH: Final = 1_000
LEAVES_A_PARTITION: Final = 20
VERSIONS_DUE: Final = 8
LEAVES: Final = LEAVES_A_PARTITION * EMBEDDED_PARTITIONS
TIMEOUT_S: Final = 60.0

_runs = itertools.count()


@dataclass(frozen=True, slots=True)
class Stream:
    """One filled topic.

    Attributes
    ----------
    connection : Connection
    topic : str
    n, dimension : int
        Points, one a record, dealt out in turn over the partitions; features a point.
    batches : list of list of Record
        The same records as a poll returned them, at most `BATCH` at once.
    """

    connection: Connection
    topic: str
    n: int
    dimension: int
    batches: list[list[Record]]


def whole(points: int) -> int:
    """Return the greatest n <= points that fills every leaf of every partition, at least one point a leaf."""
    return max(points // LEAVES, 1) * LEAVES


def _fetch(connection: Connection, topic: str, n: int) -> list[list[Record]]:
    reader = Input(connection, topic, group=None)
    reader.assign(dict.fromkeys(range(EMBEDDED_PARTITIONS), 0))
    batches: list[list[Record]] = []
    missing = n
    while missing:
        batch = list(reader.poll(min(BATCH, missing), TIMEOUT_S))
        assert batch, f"{missing} records of {topic} did not come"
        batches.append(batch)
        missing -= len(batch)
    reader.close()
    return batches


def settings_for(stream: Stream, directory: Path, run: int) -> Settings:
    """Return default settings but for the leaf's size, which follows the stream's length.

    A partition has `LEAVES_A_PARTITION` leaves. At 160,000 points a leaf, a bucket and a training set have their
    default sizes; for fewer points they keep their proportions. A version falls due every tenth leaf, the last with the
    last point; policy `latest` publishes those for which there is time. No checkpoint falls into so short a run.
    """
    leaf = stream.n // LEAVES
    return Settings(
        name=f"benchmark-{run}",
        kafka={"bootstrap.servers": stream.connection.servers},
        input=InputConfig(topic=stream.topic),
        points=PointsConfig(dimension=stream.dimension),
        coreset=sized(leaf_rows=leaf, bucket_points=leaf, train_points=10 * leaf),
        svm=SvmConfig(),
        training=TrainingConfig(policy="latest", every_leaves=LEAVES // VERSIONS_DUE),
        output=OutputConfig(models_topic=f"models-{run}"),
        checkpoint=CheckpointConfig(directory=directory),
    )


# ------------------------------------------------------------------------------------------------ other people's loops


def client(stream: Stream) -> list[Outcome]:
    """Consume and take the bytes out."""
    consumer = _consumer(stream)
    watch, batches = _begun(_consumed(consumer, stream.n))
    seen = sum(map(len, batches))
    lap = watch.lap()
    consumer.close()
    return [Outcome(BROKER, "client", seen, lap)]


def sgd_loop(stream: Stream) -> list[Outcome]:
    """Consume, decode, scale, fit."""
    consumer = _consumer(stream)
    watch, batches = _begun(_consumed(consumer, stream.n))
    seen = _fit_batches(batches)
    lap = watch.lap()
    consumer.close()
    return [Outcome(BROKER, "sgd_loop", seen, lap)]


def _begun(batches: Iterator[list[bytes]]) -> tuple[Stopwatch, Iterator[list[bytes]]]:
    """Start a watch when the first records are at hand, as ours does."""
    first = next(batches)
    return Stopwatch(), itertools.chain([first], batches)


def sgd_prefetched(stream: Stream) -> list[Outcome]:
    """Decode, scale, fit."""
    watch = Stopwatch()
    seen = _fit_batches([record.value or b"" for record in batch] for batch in stream.batches)
    return [Outcome(PREFETCHED, "sgd_loop", seen, watch.lap())]


class _Labeled(msgspec.Struct):
    x: list[float]
    y: int


def _fit_batches(batches: Iterable[Sequence[bytes]]) -> int:
    decoder = msgspec.json.Decoder(_Labeled)
    scaler = StandardScaler()
    model = SGDClassifier(loss="hinge", alpha=1e-4, random_state=0)
    seen = 0
    for values in batches:
        points = [decoder.decode(value) for value in values]
        X = np.array([point.x for point in points])
        y = np.array([point.y for point in points])
        scaler.partial_fit(X)
        model.partial_fit(scaler.transform(X), y, classes=(-1, 1))
        seen += len(y)
    return seen


def _consumer(stream: Stream) -> Consumer:
    options = {"group.id": "benchmark", "enable.auto.commit": False, "fetch.queue.backoff.ms": 10}
    consumer = Consumer({**stream.connection.options, **options})
    consumer.list_topics(stream.topic, timeout=TIMEOUT_S)
    consumer.assign([TopicPartition(stream.topic, partition, 0) for partition in range(EMBEDDED_PARTITIONS)])
    return consumer


def _consumed(consumer: Consumer, n: int) -> Iterator[list[bytes]]:
    missing = n
    while missing:
        messages = consumer.consume(min(BATCH, missing), TIMEOUT_S)
        assert messages, f"{missing} records did not come"
        for message in messages:
            assert message.error() is None, message.error()
        yield [message.value() or b"" for message in messages]
        missing -= len(messages)


# ---------------------------------------------------------------------------------------------------------------- ours


def streamsvm(stream: Stream) -> list[Outcome]:
    """Run the real trainer from the beginning of the topic until the model of all points is published."""
    run = next(_runs)
    with tempfile.TemporaryDirectory() as directory:
        settings = settings_for(stream, Path(directory), run)
        stop = threading.Event()
        health = Health(stuck_after_s=TIMEOUT_S)
        metrics = _FinishingLine(stream.n, stop)
        alarm = threading.Timer(TIMEOUT_S, stop.set)
        alarm.start()
        try:
            components = Components(cluster=Cluster(stream.connection), metrics=metrics, health=health, stop=stop)
            Trainer(settings, components).run()
        finally:
            alarm.cancel()
    assert metrics.learned is not None, f"only {metrics.seen} of {stream.n} points were learned in {TIMEOUT_S:.0f} s"
    assert metrics.published is not None, "the model of all points was not published in time"
    return [
        Outcome(BROKER, "streamsvm_learned", metrics.seen, metrics.learned),
        Outcome(BROKER, "streamsvm_published", metrics.covered, metrics.published, metrics.versions),
    ]


class NotedTurns(Turns):
    """Turns whose lengths are kept; those before the last start of a life are not."""

    lengths: Final[list[float]] = []

    def __init__(self, now: float) -> None:
        super().__init__(now)
        self.lengths.clear()

    def next(self, now: float) -> None:
        """Note how long the turn took that ended."""
        self.lengths.append(now - self._began)
        super().next(now)


class _FinishingLine(Metrics):
    """The trainer's metrics: the watch starts when the first records are at hand, before they are decoded.

    Notes when all points are learned, and when published, which stops the trainer.
    """

    def __init__(self, n: int, stop: threading.Event) -> None:
        super().__init__(TRAINER)
        self._n, self._stop = n, stop
        self._watch: Stopwatch | None = None
        self.seen = self.covered = self.versions = 0
        self.learned: Lap | None = None
        self.published: Lap | None = None

    def increase(self, name: str, amount: float = 1.0, **labels: str) -> None:
        super().increase(name, amount, **labels)
        if name == "streamsvm_input_records" and self._watch is None:
            self._watch = Stopwatch()
        if name == "streamsvm_input_rows" and labels["outcome"] == "accepted":
            self.seen += int(amount)
            if self.learned is None and self.seen >= self._n:
                self.learned = self._lap()

    def put(self, name: str, value: float, **labels: str) -> None:
        super().put(name, value, **labels)
        if name == "streamsvm_model_points_covered":
            self.versions += 1
            self.covered = int(value)
            if self.published is None and self.covered >= self._n:
                self.published = self._lap()
                self._stop.set()

    def _lap(self) -> Lap:
        assert self._watch is not None
        return self._watch.lap()


def streamsvm_prefetched(stream: Stream) -> list[Outcome]:
    """Decode and learn, and materialise the training set of every version that falls due."""
    settings = settings_for(stream, Path(), 0)
    config = settings.models()
    decoder = PointDecoder(config.points)
    base = {partition: Position(0) for partition in range(EMBEDDED_PARTITIONS)}
    learner = Learner(config, base, settings.training.every_leaves)
    watch = Stopwatch()
    for batch in stream.batches:
        for rows in decoder.decode(batch).rows:
            done = 0
            while done < len(rows):
                done = learner.learn(rows)
                if learner.cut_due:
                    learner.cut()
    lap = watch.lap()
    return [Outcome(PREFETCHED, "streamsvm_learned", learner.points_accepted, lap)]


CONTENDERS: Final = (client, sgd_loop, streamsvm, sgd_prefetched, streamsvm_prefetched)
"""In the order of the first round."""

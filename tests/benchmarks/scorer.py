"""The scorer on a real broker: `python -m tests.benchmarks.scorer [--json FILE]`.

Rates by the most records of a batch, each batch a transaction: single points of eight features in four partitions, from
the first committed batch until the last. Figures are of this machine and this minute.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, Final

import structlog

from consumers import constants
from consumers.host import Health
from consumers.metrics import SCORER, Metrics
from consumers.scorer import Scorer, ScorerComponents
from consumers.settings import OutputConfig, ScoringConfig, Settings
from streamsvm.ingest import encode
from streamsvm.kafka import Cluster, Connection, Message, Outbox, TopicSpec
from tests.benchmarks.runner import numbers, parser_of, written
from tests.brokers.choice import start_real_broker
from tests.registry.test_subscriber import NAME, Trainer, version_of

DIMENSION: Final = 8
PARTITIONS: Final = 4
DEADLINE_S: Final = 300.0
POINTS: Final = "streamsvm_scored_points_total"


class Running:
    """A scorer in a thread, and what it says of itself."""

    def __init__(self, settings: Settings, connection: Connection) -> None:
        self._metrics, self._stop = Metrics(SCORER), threading.Event()
        health = Health(stuck_after_s=60.0)
        components = ScorerComponents(connection=connection, metrics=self._metrics, health=health, stop=self._stop)
        scorer = Scorer(settings, components)
        self._thread = threading.Thread(target=scorer.run, daemon=True)

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join(DEADLINE_S)

    def value(self, name: str, **labels: str) -> float:
        """Return a metric's value now."""
        return self._metrics.registry.get_sample_value(name, labels) or 0.0

    def wait(self, holds: Callable[[], bool]) -> float:
        """Wait until something holds, and return the seconds it took."""
        begun = time.monotonic()
        while not holds():
            assert self._thread.is_alive(), "the scorer ended"
            assert time.monotonic() - begun < DEADLINE_S, "it takes too long"
            time.sleep(0.002)
        return time.monotonic() - begun


def settings_of(topic: str) -> Settings:
    """Return a scorer's settings."""
    return Settings(
        name=NAME,
        kafka={"bootstrap.servers": "unused:1"},
        output=OutputConfig(models_topic=f"{topic}-models"),
        scoring=ScoringConfig(topic=topic, output_topic=f"{topic}-scores", group=topic),
    )


def feed(connection: Connection, topic: str, count: int) -> None:
    """Store points."""
    with closing(Outbox(connection)) as outbox:
        for number in range(count):
            outbox.send(Message(topic, encode([float(number)] * DIMENSION, id=number), partition=number % PARTITIONS))
        outbox.flush(DEADLINE_S)


def rate(connection: Connection, batch: int, points: int) -> dict[str, Any]:
    """Return the rate at one size of batches."""
    constants.SCORED_AT_ONCE = batch
    settings = settings_of(f"rate-{batch}")
    models = settings.output.models_topic
    Cluster(connection).create(
        [TopicSpec(settings.scoring.topic, PARTITIONS), TopicSpec(models), TopicSpec(f"{models}.aliases")]
    )
    with closing(Trainer(connection, models)) as trainer:
        trainer.publish(version_of(1, dimension=DIMENSION))
    feed(connection, settings.scoring.topic, points)
    with Running(settings, connection) as scorer:
        scorer.wait(lambda: scorer.value(POINTS) > 0)
        before, batches = scorer.value(POINTS), scorer.value("streamsvm_scored_batches_total", outcome="committed")
        seconds = scorer.wait(lambda: scorer.value(POINTS) >= points)
        batches = scorer.value("streamsvm_scored_batches_total", outcome="committed") - batches
    return {
        "batch_records": batch,
        "points_per_s": (points - before) / seconds,
        "ms_per_transaction": 1e3 * seconds / batches,
    }


def main(arguments: Sequence[str] | None = None, start: Callable[[], Any] = start_real_broker) -> list[dict[str, Any]]:
    """Measure on the broker that the tests would use, and print."""
    parser = parser_of("scorer", __doc__)
    parser.add_argument("--batches", type=numbers, default=[100, 500, 2_000, 5_000, 10_000])
    parser.add_argument("--points", type=int, default=100_000)
    asked = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    broker = start()
    try:
        connection = Connection(options={"bootstrap.servers": broker.bootstrap_servers})
        rates = [rate(connection, batch, asked.points) for batch in asked.batches]
    finally:
        broker.stop()
    for row in rates:
        print(
            f"batches of {row['batch_records']:,}: {row['points_per_s']:,.0f} points/s, "
            f"{row['ms_per_transaction']:.0f} ms a transaction"
        )
    written(asked.json, rates)
    return rates


if __name__ == "__main__":
    main()

"""The scorer on a real broker: `python -m tests.benchmarks.scorer [--json FILE]`.

Rates by the most records of a batch, each batch a transaction: single points of eight features in four partitions, from
the first committed batch until the last. Then pins: from when a pin is asked for until the running scorer serves the
pinned version, while points stream in. Figures are of this machine and this minute.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
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


@contextmanager
def trainer_of(settings: Settings, connection: Connection) -> Iterator[Trainer]:
    """Create the topics, and yield what publishes versions."""
    models = settings.output.models_topic
    Cluster(connection).create(
        [TopicSpec(settings.scoring.topic, PARTITIONS), TopicSpec(models), TopicSpec(f"{models}.aliases")]
    )
    with closing(Trainer(connection, models)) as trainer:
        yield trainer


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
    with trainer_of(settings, connection) as trainer:
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


def moves(connection: Connection, count: int) -> list[float]:
    """Return the seconds from each pin until the scorer serves by it."""
    constants.SCORED_AT_ONCE = 500
    settings, taken, over = settings_of("moves"), [], threading.Event()

    def stream() -> None:
        with closing(Outbox(connection)) as outbox:
            number = 0
            while not over.wait(0.005):
                outbox.send(Message(settings.scoring.topic, encode([1.0] * DIMENSION), partition=number % PARTITIONS))
                number += 1

    with trainer_of(settings, connection) as trainer, Running(settings, connection) as scorer:
        aliases = [trainer.publish(version_of(number, dimension=DIMENSION)) for number in (1, 2)]
        scorer.wait(lambda: scorer.value("streamsvm_serving_version") == 2)
        feeder = threading.Thread(target=stream, daemon=True)
        feeder.start()
        for move in range(count):
            alias = aliases[move % 2]
            begun = time.monotonic()
            trainer.pin(alias)
            scorer.wait(lambda wanted=alias.number: scorer.value("streamsvm_serving_version") == wanted)  # type: ignore[misc]
            taken.append(time.monotonic() - begun)
        over.set()
        feeder.join()
    return taken


def main(arguments: Sequence[str] | None = None, start: Callable[[], Any] = start_real_broker) -> dict[str, Any]:
    """Measure on the broker that the tests would use, and print."""
    parser = parser_of("scorer", __doc__)
    parser.add_argument("--batches", type=numbers, default=[100, 500, 2_000, 5_000, 10_000])
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--moves", type=int, default=60)
    asked = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    broker = start()
    try:
        connection = Connection(options={"bootstrap.servers": broker.bootstrap_servers})
        rates = [rate(connection, batch, asked.points) for batch in asked.batches]
        taken = sorted(moves(connection, asked.moves))
    finally:
        broker.stop()
    for row in rates:
        print(
            f"batches of {row['batch_records']:,}: {row['points_per_s']:,.0f} points/s, "
            f"{row['ms_per_transaction']:.0f} ms a transaction"
        )
    nearest = (1e3 * taken[min(int(share * len(taken)), len(taken) - 1)] for share in (0.5, 0.9, 0.99, 1.0))
    print(f"{len(taken)} pins are served: ms at 50, 90, 99 and 100 %: {', '.join(f'{t:.0f}' for t in nearest)}")
    found = {"rates": rates, "pins_s": taken}
    written(asked.json, found)
    return found


if __name__ == "__main__":
    main()

"""The scorer on a real broker: `python -m tests.benchmarks.scorer [--json FILE]`.

Rates by the most records of a batch, each batch a transaction: single points of eight features in four partitions, from
the first committed batch until the last. Figures are of this machine and this minute.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, Final

import structlog

from consumers import constants
from streamsvm.kafka import Connection
from tests.benchmarks.runner import numbers, parser_of, written
from tests.brokers.choice import start_real_broker
from tests.consumers.scorer.running import Running, points as made, produce, settings_for
from tests.registry.test_subscriber import Trainer, version_of

DIMENSION: Final = 8
DEADLINE_S: Final = 300.0
POINTS: Final = "streamsvm_scored_points_total"
BATCHES: Final = "streamsvm_scored_batches_total"


def wait(scorer: Running, points: int) -> float:
    """Wait until a scorer has answered so many points, and return the seconds it took."""
    begun = time.monotonic()
    while scorer.value(POINTS) < points:
        assert not scorer.ended(), "the scorer ended"
        assert time.monotonic() - begun < DEADLINE_S, "it takes too long"
        time.sleep(0.002)
    return time.monotonic() - begun


def rate(connection: Connection, batch: int, points: int) -> dict[str, Any]:
    """Return the rate at one size of batches."""
    constants.SCORED_AT_ONCE = batch
    settings = settings_for(connection)
    with closing(Trainer(connection, settings.output.models_topic)) as trainer:
        trainer.publish(version_of(1, dimension=DIMENSION))
    produce(connection, settings.scoring.topic, made(range(points), DIMENSION))
    with Running(settings, connection) as scorer:
        wait(scorer, 1)
        before, batches = scorer.value(POINTS), scorer.value(BATCHES, outcome="committed")
        seconds = wait(scorer, points)
        batches = scorer.value(BATCHES, outcome="committed") - batches
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

"""A trainer as it is deployed, run in this process until it has learned or published all points of a topic."""

from __future__ import annotations

import itertools
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from threadpoolctl import threadpool_limits

from consumers.host import Health, configure_logging, spare_the_collector
from consumers.metrics import TRAINER, Metrics
from consumers.settings import LogConfig, Settings
from consumers.trainer import Components, Trainer
from streamsvm.kafka import Cluster, Connection
from tests.benchmarks.runner import Lap, Stopwatch
from tests.brokers.jvm import JvmBroker

TIMEOUT_S: Final = 1_200.0


class Started(Health):
    """Starts the watch when the trainer begins to read."""

    watch: Stopwatch | None = None

    def __init__(self) -> None:
        super().__init__(stuck_after_s=TIMEOUT_S)

    def require(self, condition: str, missing: str) -> None:
        super().require(condition, missing)
        if condition == "start" and not missing:
            self.watch = Stopwatch()


class Finish(Metrics):
    """The trainer's metrics: notes when all points were learned, adopted or published, and stops at one of these.

    `stops_at`: `learned`, `adopted` (the coreset's weight, each point of weight 1) or `published`. `longest_turn_s`: Of
    the main loop. `laps`: From when the trainer began to read; `first` is when the first records were at hand.
    """

    def __init__(self, n: int, start: Started, stops_at: str) -> None:
        super().__init__(TRAINER)
        self.stop, self.laps = threading.Event(), dict[str, Lap]()
        self.seen = self.versions = 0
        self.longest_turn_s = 0.0
        self._n, self._start, self._stops_at = n, start, stops_at

    def increase(self, name: str, amount: float = 1.0, **labels: str) -> None:
        super().increase(name, amount, **labels)
        if name == "streamsvm_input_records":
            self._note("first", True)
        if name == "streamsvm_input_rows" and labels["outcome"] == "accepted":
            self.seen += int(amount)
            self._note("learned", self.seen >= self._n)

    def put(self, name: str, value: float, **labels: str) -> None:
        super().put(name, value, **labels)
        if name == "streamsvm_loop_longest_turn_seconds":
            self.longest_turn_s = max(self.longest_turn_s, value)
        if name == "streamsvm_coreset_weight":
            self._note("adopted", value >= self._n)
        if name == "streamsvm_model_points_covered":
            self.versions += 1
            self._note("published", value >= self._n)

    def _note(self, what: str, reached: bool) -> None:
        if reached and what not in self.laps and self._start.watch is not None:
            self.laps[what] = self._start.watch.lap()
            if what == self._stops_at:
                self.stop.set()

    def since_first(self, what: str) -> Lap:
        """Return the time from when the first records were at hand."""
        first, then = self.laps["first"], self.laps[what]
        return Lap(then.wall_s - first.wall_s, then.cpu_s - first.cpu_s, then.loop_s - first.loop_s)


def trained(settings: Settings, connection: Connection, n: int, stops_at: str, **more: Any) -> Finish:
    """Run a trainer until all points are where they are to be."""
    start = Started()
    metrics = Finish(n, start, stops_at)
    alarm = threading.Timer(TIMEOUT_S, metrics.stop.set)
    alarm.start()
    try:
        parts = Components(cluster=Cluster(connection), metrics=metrics, health=start, stop=metrics.stop, **more)
        Trainer(settings, parts).run()
    finally:
        alarm.cancel()
    assert stops_at in metrics.laps, f"not every point was {stops_at} within {TIMEOUT_S:.0f} s"
    return metrics


@contextmanager
def started_broker() -> Iterator[Connection]:
    """Start a real broker on the processors of this process, and end it."""
    broker = JvmBroker()
    try:
        broker.start()
        yield Connection(options={"bootstrap.servers": broker.bootstrap_servers})
    finally:
        broker.stop()


def serve(servers: str, run: Callable[..., dict[str, Any]]) -> None:
    """Answer each line of words, a format and numbers, with a run."""
    configure_logging(LogConfig(level="error"))
    spare_the_collector()
    connection = Connection(options={"bootstrap.servers": servers})
    runs = itertools.count()
    with threadpool_limits(1):
        for line in sys.stdin:
            format_, *numbers = line.split()
            print(json.dumps(run(connection, format_, *map(int, numbers), next(runs))), flush=True)

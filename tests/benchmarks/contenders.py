"""Our side of a run from a topic to a model: how long turns took, and when all points were learned and published."""

from __future__ import annotations

import threading
from typing import Final

from consumers.metrics import TRAINER, Metrics
from consumers.trainer.gauges import Turns
from tests.benchmarks.timing import Lap, Stopwatch


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

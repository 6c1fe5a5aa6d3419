"""Counts what a seal and a poll take, and prints it as JSON: `python -m tests.counted_work`.

Counts, not seconds: they are the same on a busy machine. Each thing is done once before it is counted, since what is
loaded and made once is no part of it.

- *Seal*: the learner at default settings over points of `DIMENSION` features, so many rows of each partition that
  leaves are reduced, merged and screened. What a call of `learn` takes that ends with no seal, and what a seal adds to
  it (`tests.benchmarks.seal`): calls, and passes over arrays of rows (`tests.passes`).
- *Poll*: the intake of a trainer at default settings, and its decoder, over `RECORDS` JSON records of a point each, of
  one partition and of `PARTITIONS`: calls, passes, and the most memory that it takes.

Invariant: every count is an integer that rises with each call or pass more; the mean of batches is rounded up, others
to the nearest.
"""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache, reduce
from math import ceil
from operator import or_
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
from confluent_kafka import TIMESTAMP_CREATE_TIME
from confluent_kafka import Message as Consumed

from consumers.host.runtime import Health
from consumers.metrics import TRAINER, Metrics
from consumers.settings import Settings
from consumers.streams.dead_letters import DeadLetters
from consumers.trainer.intake import Intake
from streamsvm.config import ModelConfig, PointsConfig
from streamsvm.delivery.reading import NoGoal, Reading
from streamsvm.ingest.decoder import PointDecoder
from streamsvm.kafka import Batch
from streamsvm.learning.learner import Learner, warm_up
from streamsvm.points import Position
from tests.benchmarks.reduce_rate import generated
from tests.benchmarks.seal import CallCount, Sealing, learn, seconds
from tests.passes import PassCount, noted_points

DIMENSION: Final = 8
PARTITIONS: Final = 16
ROWS: Final[Mapping[int, int]] = {1: 60_000, PARTITIONS: 320_000}
"""Rows of a stream, by its number of partitions."""
RECORDS: Final = 4_000
SHOWN: Final = 25
"""How many names of what is called most often are told with a count."""

Counts = dict[str, tuple[int, list[str]]]
"""Counts by name, each with what was called most often."""


def counted() -> Counts:
    """Count everything."""
    return reduce(or_, (count(partitions) for count in (seals, polls) for partitions in ROWS))


def seals(partitions: int) -> Counts:
    """Count what the learner does; the number of partitions is one of `ROWS`."""
    rows, calls, passes = ROWS[partitions], CallCount(), PassCount()
    points = generated(rows, DIMENSION)
    _learned_once()
    called = learn(points, partitions, rows, calls)
    with passes.running():
        passed = learn(noted_points(points), partitions, rows, passes)
    found: Counts = {}
    for what, names, sealing in (("calls", calls.calls, called), ("passes over rows", passes.passes, passed)):
        where = f", {_partitions(partitions)}"
        found[f"{what} of a seal{where}"] = _a_seal(sealing), _most(names)
        found[f"{what} of a batch without a seal{where}"] = ceil(sealing.spent[0] / sealing.calls[0]), []
    return found


@cache
def _learned_once() -> None:
    """Load and make what is loaded and made once."""
    warm_up(ModelConfig(points=PointsConfig(dimension=DIMENSION)))
    learn(generated(ROWS[1], DIMENSION), 1, ROWS[1], seconds)


def _a_seal(sealing: Sealing) -> int:
    assert sealing.a_seal is not None
    return round(sealing.a_seal)


def polls(partitions: int) -> Counts:
    """Count what the intake does."""
    calls, passes, poll = CallCount(), PassCount(), Polled(partitions)
    poll.read()
    where = f", {_partitions(partitions)}"
    found: Counts = {f"calls of a poll{where}": (round(calls(poll.next())[1]), _most(calls.calls))}
    found[f"kilobytes of a poll{where}"] = _kilobytes(poll.next()), []
    with passes.running():
        noted = Polled(partitions)
        found[f"passes over rows of a poll{where}"] = round(passes(noted.next())[1]), _most(passes.passes)
    return found


class Polled:
    """An intake whose client has a batch of records of several partitions each time.

    Parameters
    ----------
    partitions : int
        In turn, as a client brings them: some records of one, then of the next.
    """

    def __init__(self, partitions: int) -> None:
        settings = Settings(points=PointsConfig(dimension=DIMENSION))
        assert settings.points is not None
        self._partitions, self._at = partitions, 0
        self._batches: list[Batch] = []
        metrics, bases = Metrics(TRAINER.of(settings)), dict.fromkeys(range(partitions), Position(0))
        learner = Learner(settings.models(), bases, every_leaves=1)
        self._reading = Reading(NoGoal(), learner, name="m", topic="t")
        reader: Any = SimpleNamespace(
            poll=lambda most, timeout_s: self._batches.pop(), connected=lambda: True, in_open_transactions=dict
        )
        outbox: Any = SimpleNamespace(send=None, poll=lambda: None)
        self._intake = Intake(
            settings,
            self._reading,
            reader=reader,
            outbox=outbox,
            dead_letters=DeadLetters("m", "t", "t.dlq", metrics),
            decoder=PointDecoder(settings.points),
            metrics=metrics,
            health=Health(stuck_after_s=60.0),
            monotonic=lambda: 0.0,
            clock=lambda: datetime.now(UTC),
        )
        points = generated(RECORDS, DIMENSION)
        self._values = [
            json.dumps({"x": x, "y": y}).encode()
            for x, y in zip(np.round(points.X, 4).tolist(), points.y.tolist(), strict=True)
        ]

    def next(self) -> Callable[[], int]:
        """Return what reads the next batch, which is there then; what was read before is gone."""
        self._reading.backlog.clear()
        each = RECORDS // self._partitions
        places = [(partition, self._at + at) for partition in reversed(range(self._partitions)) for at in range(each)]
        self._batches.append(
            Batch([_message(*place, value) for place, value in zip(places, self._values, strict=True)])
        )
        self._at += each
        return lambda: self._intake.read(RECORDS, 0.0)

    def read(self) -> None:
        """Read the next batch, every record of which is a row then."""
        assert self.next()() == self._reading.rows_waiting() == RECORDS


def _message(partition: int, offset: int, value: bytes) -> Consumed:
    return Consumed(
        topic="t", partition=partition, offset=offset, value=value, timestamp=(TIMESTAMP_CREATE_TIME, 1), leader_epoch=0
    )


def _kilobytes(work: Callable[[], int]) -> int:
    """Return the most memory that work takes at a time, of arrays and of Python's objects."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return round(tracemalloc.get_traced_memory()[1] / 1_000)
    finally:
        tracemalloc.stop()


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"


def _most(names: Counter[str]) -> list[str]:
    return [f"{count:,} {name}" for name, count in names.most_common(SHOWN)]


if __name__ == "__main__":
    print(json.dumps(counted()))

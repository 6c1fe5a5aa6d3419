"""Scores from several threads while versions are swapped: `python -m tests.benchmarks.swaps [--json FILE]`.

Every version scores the same points otherwise, by its scaler and by its coefficients. Threads take `subscriber.model`
as any service does and score batches of one to some dozens of points, while a trainer publishes versions of which each
is awaited. A batch whose scores are not, bit for bit, those of one single version is *torn*: there must be none. The
broker is the embedded one.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console

from streamsvm.kafka import Cluster, Connection, EmbeddedBroker, TopicSpec
from streamsvm.model.kernels import Float
from streamsvm.model.machine import LinearMachine, Model, Scaler
from streamsvm.model.version import Version
from streamsvm.registry.subscriber import ModelSubscriber
from tests.test_subscriber import NAME, Trainer, version_of

DIMENSION: Final = 8
BATCHES: Final = (1, 2, 7, 64)
TOPIC: Final = "swaps"
DEADLINE_S: Final = 120.0


@dataclass
class Counts:
    """What one run came to.

    Attributes
    ----------
    scores : int
        Points scored.
    batches : int
    torn : int
        Batches that no single version gives.
    swaps : int
        Versions swapped in while threads scored.
    versions : int
        How many of them scored something.
    seconds : float
    """

    scores: int = 0
    batches: int = 0
    torn: int = 0
    swaps: int = 0
    versions: int = 0
    seconds: float = 0.0


def version(number: int) -> Version:
    """Return a version whose every part depends on its number, so that any two halves give a score of neither."""
    random = np.random.default_rng(number)
    scaler = Scaler(random.normal(size=DIMENSION), random.uniform(0.5, 2.0, DIMENSION))
    machine = LinearMachine(random.normal(size=DIMENSION), float(random.normal()))
    return replace(version_of(number, dimension=DIMENSION), model=Model(scaler, machine))


class Scorers:
    """Threads that score without pause.

    Parameters
    ----------
    take : callable
        Returns the model that serves now.
    threads, scores : int
        How many, and at least how many scores together.
    swaps : int
        Versions after the first.
    """

    def __init__(self, take: Callable[[], Model], threads: int, scores: int, swaps: int) -> None:
        self._take = take
        self._wanted = scores // threads
        random = np.random.default_rng(0)
        self._X = [random.normal(size=(rows, DIMENSION)) for rows in BATCHES]
        models = [version(number).model for number in range(1, swaps + 2)]
        self._known = [{model.decision_function(X).tobytes(): i for i, model in enumerate(models)} for X in self._X]
        self._swapped = threading.Event()
        self._results: list[tuple[Counts, set[int]]] = []
        self._threads = [threading.Thread(target=self._score, daemon=True) for _ in range(threads)]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def finish(self) -> Counts:
        """Say that every version was swapped in, and return what was counted once all scores are made."""
        self._swapped.set()
        for thread in self._threads:
            thread.join()
        assert len(self._results) == len(self._threads), "a thread failed"
        parts = [counts for counts, _ in self._results]
        total = Counts(*(sum(getattr(part, name) for part in parts) for name in ("scores", "batches", "torn")))
        total.versions = len(set().union(*(seen for _, seen in self._results)))
        return total

    def _score(self) -> None:
        counts, seen = Counts(), set[int]()
        while counts.scores < self._wanted or not self._swapped.is_set():
            which = counts.batches % len(self._X)
            found = self._known[which].get(self._decide(self._X[which]))
            counts.scores += len(self._X[which])
            counts.batches += 1
            counts.torn += found is None
            if found is not None:
                seen.add(found)
        self._results.append((counts, seen))

    def _decide(self, X: Float) -> bytes:
        return self._take().decision_function(X).tobytes()


def measure(
    connection: Connection,
    threads: int,
    scores: int,
    swaps: int,
    through: Callable[[ModelSubscriber], Callable[[], Model]] = lambda subscriber: lambda: subscriber.model,
) -> Counts:
    """Score from threads while versions are swapped; `through` is how a thread comes to the model."""
    Cluster(connection).create([TopicSpec(TOPIC), TopicSpec(f"{TOPIC}.aliases")])
    subscriber = ModelSubscriber(connection, NAME, models_topic=TOPIC, dimension=DIMENSION)
    with closing(Trainer(connection, TOPIC)) as trainer, subscriber:
        trainer.publish(version(1))
        subscriber.wait_ready(DEADLINE_S)
        scorers, begun = Scorers(through(subscriber), threads, scores, swaps), time.monotonic()
        scorers.start()
        for number in range(2, swaps + 2):
            trainer.publish(version(number))
            subscriber.wait_for(number, DEADLINE_S)
        counts = scorers.finish()
    counts.swaps, counts.seconds = swaps, time.monotonic() - begun
    return counts


def main(arguments: Sequence[str] | None = None) -> Counts:
    """Run it, and print one line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scores", type=int, default=1_000_000)
    parser.add_argument("--swaps", type=int, default=200)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args(arguments)
    with EmbeddedBroker() as broker:
        fast = Connection(options={**broker.connection.options, "fetch.wait.max.ms": 5}, embedded=True)
        counts = measure(fast, given.threads, given.scores, given.swaps)
    Console(file=sys.stdout, highlight=False).print(
        f"{counts.scores:,} scores in {counts.batches:,} batches from {given.threads} threads during {counts.swaps} "
        f"swaps, by {counts.versions} versions, in {counts.seconds:.1f} s: {counts.torn} batches torn"
    )
    if given.json is not None:
        given.json.write_text(json.dumps(asdict(counts), indent=1) + "\n")
    return counts


if __name__ == "__main__":
    sys.exit(1 if main().torn else 0)

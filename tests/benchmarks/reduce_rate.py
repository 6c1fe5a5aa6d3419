"""How fast points become a coreset, beside SGD, the paper's tree, and one matrix-vector product over the same array.

    python -m tests.benchmarks.reduce_rate [--dimensions 8,24,300] [--memory 10000] [--batch 1000] [--points N]
        [--rounds 5] [--flat N] [--json]

One core: `learner.learn` over rows in batches as the poll loop offers them (1,000 by default), nothing decoded and
nothing trained, against `SGDClassifier.partial_fit` over the same batches, and `alg2`, the paper's tree (`sensitivity`,
fan-in 2) in the same memory. `matvec` is one product of the whole float32 array with a vector.

Points are two Gaussian classes, one third positive, about one in eight on the wrong side of the best plane. An array of
them is passed again and again: its learner cannot tell. A leaf spans a share of what came before it, so reductions and
pilots grow rare and the rate rises with the stream: `first` is that of the first `WARM_LEAVES` leaves, `whole` that of
all n rows, `late` that of their second half, in which everything that falls due is included. Time is CPU time of the
thread; contenders take turns, and a figure is the median over rounds, with its least and greatest.

`--flat N` passes N points and prints the resident set as it goes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.linear_model import SGDClassifier

from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig
from streamsvm.learning.learner import Learner, warm_up
from streamsvm.points import Points, Position, Rows, Times
from tests.benchmarks.coreset import counter_of
from tests.config.sizes import sized

ARRAY_BYTES: Final = 256 << 20
SIGNAL: Final = 1.13
"""Distance of a class's mean from the plane between them, in standard deviations."""
WARM_LEAVES: Final = 20
POINTS: Final = {8: 20_000_000, 24: 20_000_000, 300: 6_000_000}
PEER_POINTS: Final = 200_000
FLAT_STEPS: Final = 20


def generated(n: int, d: int, seed: int = 0) -> Points:
    """Return n points of two Gaussian classes."""
    random = np.random.Generator(np.random.PCG64(seed))
    y = np.where(random.random(n) < 1 / 3, 1, -1).astype(np.int8)
    X = random.standard_normal((n, d), dtype=np.float32)
    X += (SIGNAL / np.sqrt(d) * y[:, None]).astype(np.float32)
    return Points(X, y, np.ones(n))


@dataclass(slots=True)
class Stream:
    """The same points again and again, as rows of one partition, in batches."""

    points: Points
    batch: int

    def rows(self, start: int, stop: int) -> Iterator[Rows]:
        """Yield the rows from `start` up to `stop`; making them takes time that is not to be measured."""
        n = len(self.points)
        while start < stop:
            first = start % n
            count = min(self.batch, stop - start, n - first)
            offset = np.arange(start, start + count)
            yield Rows(
                partition=0,
                offset=offset,
                row=np.zeros(count, np.int64),
                last=np.ones(count, np.bool_),
                times=Times.of(np.full(count, 1_700_000_000_000, np.int64)),
                accepted=np.ones(count, np.bool_),
                points=self.points.take(slice(first, first + count)),
                leader_epoch=np.zeros(count, np.int64),
            )
            start += count


def learn(learner: Learner, stream: Stream, start: int, stop: int) -> float:
    """Learn rows; return the CPU seconds of learning."""
    seconds = 0.0
    for rows in stream.rows(start, stop):
        begun = time.thread_time()
        done = learner.learn(rows)
        seconds += time.thread_time() - begun
        assert done == len(rows)
    return seconds


def learner_of(d: int, coreset: CoresetConfig) -> Learner:
    """Return a warm learner that never makes a cut."""
    config = ModelConfig(points=PointsConfig(dimension=d), coreset=coreset, seed=1)
    warm_up(config)
    return Learner(config, {0: Position(0)}, every_leaves=1 << 40)


def ours(stream: Stream, memory: int, structure: str, n: int) -> dict[str, float]:
    """Return points a second, of parts of the stream."""
    d = stream.points.dimension
    coreset = CoresetConfig(structure=structure, points=memory).settled(PointsConfig(dimension=d), "linear")
    learner, warm = learner_of(d, coreset), WARM_LEAVES * coreset.leaf_rows
    assert warm < n // 2
    first = learn(learner, stream, 0, warm)
    then = learn(learner, stream, warm, n // 2)
    late = learn(learner, stream, n // 2, n)
    assert learner.points_held <= memory
    return {"first": warm / first, "whole": n / (first + then + late), "late": (n - n // 2) / late}


def alg2(stream: Stream, memory: int) -> float:
    """Return points a second of the paper's tree."""
    sizes = counter_of(memory, PEER_POINTS)
    n = min(PEER_POINTS, 20_000_000 // stream.points.dimension**2 + 4 * sizes["leaf_rows"])
    return n / learn(learner_of(stream.points.dimension, sized(reducer="sensitivity", **sizes)), stream, 0, n)


def sgd(stream: Stream) -> float:
    """Return points a second of `partial_fit`, features unscaled."""
    model, seconds = SGDClassifier(shuffle=False), 0.0
    for rows in stream.rows(0, PEER_POINTS):
        begun = time.thread_time()
        model.partial_fit(rows.points.X, rows.points.y, classes=[-1, 1])
        seconds += time.thread_time() - begun
    return PEER_POINTS / seconds


def matvec(stream: Stream) -> float:
    """Return points a second of one matrix-vector product."""
    vector = np.ones(stream.points.dimension, np.float32)
    begun = time.thread_time()
    stream.points.X @ vector
    return len(stream.points) / (time.thread_time() - begun)


def measure(d: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return one row of figures."""
    n = options.points or POINTS.get(d, 2_000_000)
    stream = Stream(generated(min(n, ARRAY_BYTES // (4 * d)), d), options.batch)
    contenders: dict[str, Callable[[], float | dict[str, float]]] = {
        "chain": lambda: ours(stream, options.memory, "chain", n),
        "tree": lambda: ours(stream, options.memory, "tree", n),
        "sgd": lambda: sgd(stream),
        "alg2": lambda: alg2(stream, options.memory),
        "matvec": lambda: matvec(stream),
    }
    contenders = {name: run for name, run in contenders.items() if name in options.only}
    found: dict[str, list[float]] = {}
    for turn in range(options.rounds):
        names = list(contenders)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            made = contenders[name]()
            for label, rate in made.items() if isinstance(made, dict) else [("", made)]:
                found.setdefault(f"{name} {label}".strip(), []).append(rate)
    rates = {name: [statistics.median(r), min(r), max(r)] for name, r in found.items()}
    row: dict[str, Any] = {"d": d, "n": n, "memory_points": options.memory, "batch": options.batch, "rates": rates}
    for peer in ("sgd", "alg2", "matvec"):
        for name in ("chain late", "tree late", "chain whole", "tree whole"):
            if peer in rates and name in rates:
                row[f"{name} / {peer}"] = rates[name][0] / rates[peer][0]
    return row


def flat(n: int, d: int, options: argparse.Namespace) -> dict[str, Any]:
    """Pass n points and return the resident set, MiB, as it went."""
    stream = Stream(generated(1_000_000, d), options.batch)
    learner = learner_of(d, CoresetConfig(structure="chain", points=options.memory))
    resident, seconds = [], 0.0
    for step in range(FLAT_STEPS):
        seconds += learn(learner, stream, step * n // FLAT_STEPS, (step + 1) * n // FLAT_STEPS)
        resident.append(round(_resident_bytes() / 2**20, 1))
    return {"n": n, "d": d, "points_held": learner.points_held, "points_per_s": n / seconds, "resident_mib": resident}


def _resident_bytes() -> int:
    """Return the resident set of this process (Linux)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="How fast points become a coreset.")
    parser.add_argument("--dimensions", type=lambda text: [int(part) for part in text.split(",")], default=[8, 24, 300])
    parser.add_argument("--memory", type=int, default=10_000)
    parser.add_argument("--batch", type=int, default=1_000)
    parser.add_argument("--points", type=int, help="length of our stream; the default depends on d")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", type=lambda text: text.split(","), default=["chain", "tree", "sgd", "alg2", "matvec"])
    parser.add_argument("--flat", type=int, metavar="N", help="pass N points and print the resident set instead")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if options.flat:
        rows = [flat(options.flat, options.dimensions[0], options)]
    else:
        rows = [measure(d, options) for d in options.dimensions]
    if options.json:
        print(json.dumps({"rows": rows}, indent=1))
        return
    for row in rows:
        for name, figure in row.items():
            print(f"{name:<24} {figure}")


if __name__ == "__main__":
    main()

"""Points a second that an RBF machine's coreset learns, and microseconds to score one.

    python -m tests.benchmarks.kernel_rates --data DIR [--set ijcnn1] [--rows 1500000]
        [--points 4500 | --memory-bytes B] [--before] [--json]

The stream has the training rows of a set again and again, each copy moved by noise of 1 % of a standard deviation for
each copy before it, shuffled, in portions of 10,000 rows that are at hand before the time is taken. One partition,
alpha 1e-4, gamma 0.1, no tuning; the pass alone, no training. `--before`: by the sizes that held before
`coreset.leaf_parts`.

`learned_per_s` is of all rows, `late_per_s` of the second half of them. `scored_us` is what `KernelMachine.decide`
takes for a point with 1,000 support vectors of 20 features, in blocks of 1,024 rows; `served_us` what it takes the
scorer's compiled machine. CPU time, one thread.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from pathlib import Path
from typing import Any, Final

import numpy as np
from threadpoolctl import threadpool_limits

from streamsvm.config import ModelConfig
from streamsvm.estimators.evaluation import split
from streamsvm.estimators.stream import Stream
from streamsvm.learning.tasks import TwoClasses
from streamsvm.model.kernels import RbfKernel
from streamsvm.model.machine import KernelMachine, Model, Scaler
from streamsvm.points import Points
from streamsvm.svm.compiled_machine import compiled
from tests.benchmarks.kernels import PORTION, TEST_SHARE, read

NOISE: Final = 0.01
WARMING: Final = 30_000
TERMS: Final = 1_000
FEATURES: Final = 20
SCORED: Final = 20_000


def repeated(points: Points, rows: int) -> Points:
    """Return a stream of so many distinct rows."""
    random = np.random.default_rng(0)
    copies = -(-rows // len(points))
    order = random.permutation(copies * len(points))[:rows]
    copy, own = np.divmod(order, len(points))
    X = points.X[own]
    for start in range(0, rows, PORTION):
        part = slice(start, start + PORTION)
        noise = random.normal(size=X[part].shape) * (NOISE * copy[part, None])
        X[part] += (noise * points.X.std(axis=0)).astype(X.dtype)
    return Points(X, points.y[own], np.ones(rows))


def config_of(dimension: int, asked: argparse.Namespace) -> ModelConfig:
    """Return the configuration that learns."""
    coreset: dict[str, Any] = {"max_partitions": 1}
    coreset |= {"memory_bytes": asked.memory_bytes} if asked.memory_bytes else {"memory_points": asked.points}
    coreset |= {"leaf_parts": "none"} if asked.before else {}
    svm = {"kernel": "rbf", "alpha": 1e-4, "gamma": 0.1}
    return ModelConfig.model_validate({"points": {"dimension": dimension}, "coreset": coreset, "svm": svm})


def learn(config: ModelConfig, points: Points) -> list[float]:
    """Return the CPU time at the end of each portion."""
    stream, begun, ends = Stream(config, TwoClasses()), time.process_time(), []
    for start in range(0, len(points), PORTION):
        stream.learn(points.take(slice(start, start + PORTION)))
        ends.append(time.process_time() - begun)
    return ends


def scored_us() -> tuple[float, float]:
    """Return the microseconds that a point takes a reader, and the scorer: medians of five, in turn."""
    random = np.random.default_rng(0)
    machine = KernelMachine(
        RbfKernel(1 / FEATURES), random.normal(size=(TERMS, FEATURES)), random.normal(size=TERMS), 0.0
    )
    Z = random.normal(size=(SCORED, FEATURES))
    served = compiled(Model(Scaler.identity(FEATURES), machine)).machine
    taken: tuple[list[float], list[float]] = [], []
    for _ in range(5):
        for one, seconds in zip((machine, served), taken, strict=True):
            begun = time.process_time()
            one.decide(Z)
            seconds.append((time.process_time() - begun) / SCORED * 1e6)
    return statistics.median(taken[0]), statistics.median(taken[1])


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    """Return the figures."""
    train, _ = split(read(asked.set, asked.data), TEST_SHARE, 0)
    points, config = repeated(train, asked.rows), config_of(train.dimension, asked)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # conditions of the coreset
        learn(config, points.take(slice(0, WARMING)))
        ends = learn(config, points)
        half = len(ends) // 2
        late = (len(points) - half * PORTION) / (ends[-1] - [0.0, *ends][half])
        coreset, (scored, served) = config.coreset, scored_us()
        return {
            "set": asked.set,
            "rows": len(points),
            "dimension": points.dimension,
            "points_held": coreset.partition_points,
            "leaf_rows": coreset.leaf_rows,
            "learned_per_s": len(points) / ends[-1],
            "late_per_s": late,
            "scored_us": scored,
            "served_us": served,
        }


def main(arguments: list[str] | None = None) -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="has NAME.npz files with X and y")
    parser.add_argument("--set", default="ijcnn1", metavar="NAME")
    parser.add_argument("--rows", type=int, default=1_500_000)
    parser.add_argument("--points", type=int, default=4_500)
    parser.add_argument("--memory-bytes", type=lambda text: int(float(text)), default=0)
    parser.add_argument("--before", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    row = measure(asked)
    if asked.json:
        print(json.dumps(row, indent=2))
        return
    line = (
        "{set}: {rows:,} rows, d = {dimension}, {points_held:,} points held, leaf of {leaf_rows:,}: "
        "{learned_per_s:,.0f} points/s, {late_per_s:,.0f} over the second half; a point scored in "
        "{scored_us:.2f} us, by the scorer in {served_us:.2f} us"
    )
    print(line.format(**row))


if __name__ == "__main__":
    main()

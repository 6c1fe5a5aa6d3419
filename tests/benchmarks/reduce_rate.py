"""How fast points become a coreset, beside SGD: `python -m tests.benchmarks.reduce_rate [--dimensions 8,24,300]`.

One core: `learner.learn` over rows in batches as the poll loop offers them (`--batch 1000`), nothing decoded and
nothing trained, against `SGDClassifier.partial_fit` over the same batches. Points are two Gaussian classes, one third
positive, about one in eight on the wrong side of the best plane; an array of them is passed again and again. A leaf
spans a share of what came before it, so reductions and pilots grow rare and the rate rises with the stream: `first` is
that of the first `WARM_LEAVES` leaves, `whole` that of all rows, `late` that of their second half. Time is CPU time of
the thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from sklearn.linear_model import SGDClassifier

from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig
from streamsvm.learning import Learner, warm_up
from streamsvm.points import Points, Position, Rows
from tests.benchmarks.runner import Interval, in_turns, numbers, parser_of, written
from tests.streams import rows_of

ARRAY_BYTES: Final = 256 << 20
SIGNAL: Final = 1.13
"""Distance of a class's mean from the plane between them, in standard deviations."""
WARM_LEAVES: Final = 20
POINTS: Final = {8: 20_000_000, 24: 20_000_000, 300: 6_000_000}
SGD_POINTS: Final = 200_000


def generated(n: int, d: int, seed: int = 0) -> Points:
    """Return n points of two Gaussian classes."""
    random = np.random.Generator(np.random.PCG64(seed))
    y = np.where(random.random(n) < 1 / 3, 1, -1).astype(np.int8)
    X = random.standard_normal((n, d), dtype=np.float32)
    X += (SIGNAL / np.sqrt(d) * y[:, None]).astype(np.float32)
    return Points(X, y, np.ones(n))


def batches(points: Points, batch: int, start: int, stop: int) -> Iterator[Rows]:
    """Yield the rows of one partition from `start` up to `stop`, the same points again and again."""
    while start < stop:
        first = start % len(points)
        count = min(batch, stop - start, len(points) - first)
        yield rows_of(points.take(slice(first, first + count)), first_offset=start)
        start += count


def learned(learner: Learner, points: Points, batch: int, start: int, stop: int) -> float:
    """Learn rows; return the CPU seconds of learning."""
    seconds = 0.0
    for rows in batches(points, batch, start, stop):
        begun = time.thread_time()
        assert learner.learn(rows) == len(rows)
        seconds += time.thread_time() - begun
    return seconds


def ours(points: Points, batch: int, memory: int, structure: str, n: int, _: int = 0) -> dict[str, float]:
    """Return points a second of parts of the stream, by a warm learner that never makes a cut."""
    shape = PointsConfig(dimension=points.dimension)
    coreset = CoresetConfig(structure=structure, points=memory).settled(shape, "linear")
    config = ModelConfig(points=shape, coreset=coreset, seed=1)
    warm_up(config)
    learner, warm = Learner(config, {0: Position(0)}, every_leaves=1 << 40), WARM_LEAVES * coreset.leaf_rows
    assert warm < n // 2
    first, then, late = (
        learned(learner, points, batch, start, stop) for start, stop in ((0, warm), (warm, n // 2), (n // 2, n))
    )
    assert learner.points_held <= memory
    return {"first": warm / first, "whole": n / (first + then + late), "late": (n - n // 2) / late}


def sgd(points: Points, batch: int, _: int = 0) -> dict[str, float]:
    """Return points a second of `partial_fit`, features unscaled."""
    model, seconds = SGDClassifier(shuffle=False), 0.0
    for rows in batches(points, batch, 0, SGD_POINTS):
        begun = time.thread_time()
        model.partial_fit(rows.points.X, rows.points.y, classes=[-1, 1])
        seconds += time.thread_time() - begun
    return {"": SGD_POINTS / seconds}


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Measure, and print."""
    parser = parser_of("reduce_rate", __doc__)
    parser.add_argument("--dimensions", type=numbers, default=[8, 24, 300])
    parser.add_argument("--memory", type=int, default=10_000)
    parser.add_argument("--batch", type=int, default=1_000)
    parser.add_argument("--points", type=int, help="length of our stream; the default depends on the dimension")
    asked = parser.parse_args(arguments)
    rows = []
    for d in asked.dimensions:
        n = asked.points or POINTS.get(d, 2_000_000)
        points = generated(min(n, ARRAY_BYTES // (4 * d)), d)
        own = {name: partial(ours, points, asked.batch, asked.memory, name, n) for name in ("chain", "tree")}
        found = in_turns({**own, "sgd": partial(sgd, points, asked.batch)}, asked.rounds)
        rates = {
            f"{name} {part}".strip(): Interval.of([one[part] for one in made])
            for name, made in found.items()
            for part in made[0]
        }
        for name, rate in rates.items():
            shown = f"{rate.median:>14,.0f} points/s ({rate.least:,.0f} to {rate.greatest:,.0f})"
            print(f"d = {d:<4} {name:<12} {shown}, {rate.median / rates['sgd'].median:.2f} times SGD")
        rows.append({"d": d, "n": n, "rates": {name: [r.median, r.least, r.greatest] for name, r in rates.items()}})
    written(asked.json, rows)
    return rows


if __name__ == "__main__":
    main()

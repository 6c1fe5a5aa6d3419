"""What the bounds of a version cost beside its training: `python -m tests.benchmarks.bounds [--data DIR] [--json]`.

A row is a version of one stream, learned in one order over some partitions, with the defaults: `training_ms` is the
time of everything that a version is made of but its bounds, `solver_ms` that of the solver in it, `bounds_ms` that of
the bounds, and `ratio` is bounds over training. `totals_us` is what keeping totals costs a row of the learner:
`learn_us` less the same without them. All is CPU time of the thread, the median over rounds; the first round is not
counted. `gap` and `kind` are what the version says of itself, `lower` the bound that no model is below.

Without `--data` streams are two Gaussian classes (`tests.benchmarks.reduce_rate`), of 8 and of 24 features.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig
from streamsvm.learning import recipe, training
from streamsvm.learning.accounts import accounting
from streamsvm.learning.learner import Learner
from streamsvm.points import Points, Position
from tests.benchmarks.reduce_rate import generated
from tests.streams import rows_of

BATCH: Final = 1_000
POINTS: Final = 300_000


class Timed:
    """Adds up the time of a function's calls."""

    def __init__(self, function: Any) -> None:
        self._function, self.seconds = function, 0.0

    def __call__(self, *arguments: Any) -> Any:
        """Call it."""
        begun = time.thread_time()
        try:
            return self._function(*arguments)
        finally:
            self.seconds += time.thread_time() - begun


def learned(points: Points, partitions: int, *, totals: bool) -> tuple[Learner, ModelConfig, float]:
    """Learn a stream; return the learner, its configuration, and seconds of `learn` a row."""
    config = ModelConfig(
        points=PointsConfig(dimension=points.dimension),
        coreset=CoresetConfig(max_partitions=partitions, totals=totals),
    )
    learner = Learner(config, dict.fromkeys(range(partitions), Position(0)), 1 << 40)
    # By turns, as a consumer reads them.
    parts = [points.take(slice(partition, None, partitions)) for partition in range(partitions)]
    rows = [rows_of(part, partition) for partition, part in enumerate(parts)]
    spent = 0.0
    for start in range(0, len(parts[0]), BATCH):
        for own in rows:
            piece = own.slice(min(start, len(own)), min(start + BATCH, len(own)))
            begun = time.thread_time()
            learner.learn(piece)
            spent += time.thread_time() - begun
    return learner, config, spent / len(points)


def measure(points: Points, partitions: int, rounds: int) -> dict[str, Any]:
    """Make the version of a stream several times."""
    learner, config, _ = learned(points, partitions, totals=True)
    keeper = accounting()
    assert keeper is not None
    kind: Any = type(keeper)
    plain, found, cells = kind.certified, None, []
    for _ in range(rounds + 1):
        bounds, solver = Timed(plain), Timed(training.train)
        # A plain function: as an attribute of the class it is bound to the keeper.
        kind.certified = lambda *arguments, bounds=bounds: bounds(*arguments)
        begun = time.thread_time()
        try:
            found = recipe.make(learner.cut(), config, train=solver).certified
        finally:
            kind.certified = plain
        cells.append((time.thread_time() - begun - bounds.seconds, solver.seconds, bounds.seconds))
    assert found is not None
    whole, alone, own = (1e3 * median(cell[at] for cell in cells[1:]) for at in range(3))
    learn = {
        totals: [learned(points, partitions, totals=totals)[2] for _ in range(max(1, rounds // 4))]
        for totals in (True, False)
    }
    return {
        "training_ms": whole,
        "solver_ms": alone,
        "bounds_ms": own,
        "ratio": own / whole,
        "learn_us": 1e6 * median(learn[True]),
        "totals_us": 1e6 * (median(learn[True]) - median(learn[False])),
        "gap": found.gap,
        "kind": "proven" if found.kind == "proven" else "estimated",  # type: ignore[attr-defined]
        "lower": found.lower,  # type: ignore[attr-defined]
    }


def streams(options: argparse.Namespace) -> Iterator[tuple[str, Points]]:
    """Yield names and points, shuffled once."""
    if options.data is None:
        for dimension in options.dimension:
            yield f"gaussian {dimension}", generated(options.points, dimension)
        return
    for path in sorted(options.data.glob("*.npz")):
        if not options.sets or path.stem in options.sets:
            with np.load(path) as held:
                order = np.random.default_rng(0).permutation(len(held["y"]))
                X = np.ascontiguousarray(held["X"][order], np.float32)
                y = np.where(held["y"][order] > 0, 1, -1).astype(np.int8)
            yield path.stem, Points(X, y, np.ones(len(y)))


def numbers(text: str) -> list[int]:
    """Return comma-separated whole numbers."""
    return [int(part) for part in text.split(",")]


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What the bounds of a version cost beside its training.")
    parser.add_argument("--data", type=Path, help="directory of .npz files")
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--dimension", type=numbers, default=[8, 24])
    parser.add_argument("--partitions", type=numbers, default=[1, 16])
    parser.add_argument("--points", type=int, default=POINTS)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    rows = []
    for name, points in streams(options):
        for partitions in options.partitions:
            row = {"set": name, "n": len(points), "d": points.dimension, "partitions": partitions}
            row |= measure(points, partitions, options.rounds)
            rows.append(row)
            if not options.json:
                gap = "-" if row["gap"] is None else f"{row['gap']:.3e}"
                print(
                    f"{name:15} {partitions:3}  training {row['training_ms']:8.2f} ms (solver "
                    f"{row['solver_ms']:8.2f})  bounds {row['bounds_ms']:8.2f} ms, {row['ratio']:5.2f} of it  "
                    f"learn {row['learn_us']:.3f} us a row, totals {row['totals_us']:.3f} of it  {row['kind']} {gap}",
                    flush=True,
                )
    if options.json:
        print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()

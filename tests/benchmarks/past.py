"""Models of stretches of the past from an archive: how near, how fast, and of how many bytes.

``python -m tests.benchmarks.past [--rows N] [--train-points N] [--json]``: N rows of 8 features, whose rule turns
slowly, are recorded into an archive on disk, without a broker; then stretches are built on and off the borders of
spans, and everything but a poisoned hundredth. The gap is to a proven lower bound of the least objective over exactly
the rows of the stretch (dual feasible multipliers of all of them, checked in numpy), so it is never less than the true
one. `clean` compares with a stream that never held the poisoned rows: an archive of its own, of the same rows without
them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from streamsvm.branches.history.cover import Range, Read, cover, without
from streamsvm.branches.history.recorder import Recorder
from streamsvm.branches.history.store import Store
from streamsvm.branches.history.stretches import Piece, SpanPartition, archived, cut_of
from streamsvm.checkpoint.disk import FileSystem
from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.learning.learner import warm_up
from streamsvm.learning.recipe import Made, make
from streamsvm.model.kernels import LinearKernel
from streamsvm.model.machine import LinearMachine
from streamsvm.points import Points, Position, Rows, Times
from streamsvm.svm.feasible import balanced
from streamsvm.svm.problem import Problem
from streamsvm.svm.solvers import StdaSolver

DIMENSION: Final = 8
BATCH: Final = 4_000
POISONED: Final = 0.01
BASE: Final = Position(0)


class Stream:
    """Rows by their place, the same at every look."""

    def __init__(self, rows: int) -> None:
        random = np.random.default_rng(1)
        self.rows = rows
        X = random.standard_normal((rows, DIMENSION)).astype(np.float32)
        turn = np.linspace(0.0, np.pi / 2, rows)
        first, second = np.linalg.qr(random.standard_normal((DIMENSION, 2)))[0].T
        score = 2.0 * ((X @ first) * np.cos(turn) + (X @ second) * np.sin(turn)) + 0.4
        y = np.where(score + random.logistic(size=rows) > 0, 1, -1).astype(np.int8)
        self.poison = (int(0.6003 * rows), int((0.6003 + POISONED) * rows))
        y[slice(*self.poison)] *= -1
        self.points = Points(X, y, np.ones(rows))

    def between(self, start: int, end: int) -> Iterator[Rows]:
        """Yield rows in batches."""
        for at in range(start, end, BATCH):
            stop = min(at + BATCH, end)
            offset = np.arange(at, stop)
            yield Rows(
                partition=0,
                offset=offset,
                row=np.zeros(stop - at, np.int64),
                last=np.ones(stop - at, np.bool_),
                times=Times.of(offset),
                accepted=np.ones(stop - at, np.bool_),
                points=self.points.take(slice(at, stop)),
                leader_epoch=np.full(stop - at, -1),
            )


def record(stream: Stream, archive: ModelConfig, store: Store) -> float:
    """Record a stream; return the seconds."""
    recorder, begun = Recorder(0, BASE, archive, BASE, 0), time.perf_counter()
    waiting = []
    for rows in stream.between(0, stream.rows):
        waiting += [(0, BASE, bucket) for bucket in recorder.learn(rows)]
        if len(waiting) > 256:
            store.save(waiting, {})
            waiting = []
    assert recorder.state is not None
    store.save(waiting, {0: (BASE, recorder.state)})
    return time.perf_counter() - begun


def built(
    stream: Stream, store: Store, ranges: list[tuple[int, int]], config: ModelConfig, archive: ModelConfig
) -> tuple[Made, dict[str, Any]]:
    """Build a model of ranges of rows; return it and what it took."""
    begun, pieces, of_buckets, again = time.perf_counter(), list[Piece](), 0, 0
    nodes = store.nodes()
    for start, end in ranges:
        for step in cover(nodes, Position(start), Position(end)):
            if isinstance(step, Read):
                own = SpanPartition(0, step.start, archive)
                for rows in stream.between(step.start.offset, step.end.offset):
                    own.learn(rows)
                again += step.end.offset - step.start.offset
                pieces += own.pieces()
            else:
                pieces.append(Piece.of(store.read(step)))
                of_buckets += store.size(step)
    made = make(cut_of({0: pieces}, config, archive), config)
    figures = {
        "points_held": len(made.cut.points),
        "parts": len(pieces),
        "bytes_read": of_buckets,
        "rows_read": again,
        "seconds": round(time.perf_counter() - begun, 3),
    }
    return made, figures


def gap(made: Made, points: Points, least: float | None = None) -> float:
    """Return how far a machine is from the best over points, over its own scaler and C, at most; `least` if known."""
    fit, model = made.trained.fit, made.trained.model
    assert isinstance(model.machine, LinearMachine)
    Z, upper = model.scaler.transform(points.X), fit.C * points.weight
    margins = points.y * (Z @ model.machine.coefficients + model.machine.intercept)
    primal = model.machine.coefficients @ model.machine.coefficients / 2 + upper @ np.maximum(0.0, 1.0 - margins)
    return float(primal / (least_objective(Z, points.y, upper) if least is None else least) - 1.0)


def least_objective(Z: np.ndarray, y: np.ndarray, upper: np.ndarray) -> float:
    """Return what the objective is at least, by dual feasible multipliers."""
    problem = Problem(Z=Z, y=y, upper=upper, kernel=LinearKernel(), tolerance=1e-6, max_iterations=10_000_000)
    alpha = StdaSolver().solve(problem).alpha
    beta = balanced(y, np.clip(alpha, 0.0, upper))
    w = (beta * y) @ Z
    return float(beta.sum() - w @ w / 2)


def measured(rows: int, bucket_points: int | None, train_points: int) -> list[dict[str, Any]]:
    """Return a row for each stretch."""
    coreset = CoresetConfig(train_points=train_points)
    config = ModelConfig(points=PointsConfig(dimension=DIMENSION), coreset=coreset, svm=SvmConfig(alpha=1e-4))
    archive = archived(config, leaf_rows=2_000, span_rows=None, bucket_points=bucket_points)
    span = archive.coreset.span_rows or 1
    warm_up(config)
    stream = Stream(rows)
    record(Stream(4 * span), archive, _store(Path(tempfile.mkdtemp())))  # compiles what is left
    found = []
    with tempfile.TemporaryDirectory() as directory:
        store = _store(Path(directory))
        seconds = record(stream, archive, store)
        sizes = [store.size(node) for node in store.nodes()]
        found.append(
            {
                "stretch": "recorded",
                "rows": rows,
                "buckets": len(sizes),
                "bytes_a_row": round(sum(sizes) / rows, 3),
                "us_a_row": round(1e6 * seconds / rows, 3),
            }
        )
        tenth = rows // 10 // span * span
        stretches: dict[str, list[tuple[int, int]]] = {
            "on borders, a tenth": [(2 * tenth, 3 * tenth)],
            "off borders, a tenth": [(2 * tenth + 777, 3 * tenth + 5_001)],
            "off borders, a half": [(3 * tenth + 12_345, 8 * tenth + 999)],
            "within a span": [(2 * tenth + 100, 2 * tenth + 9_000)],
            "everything": [(0, rows)],
            "all but the poisoned": [
                (start.offset, end.offset) for start, end in without([_range(0, rows)], [_range(*stream.poison)])
            ],
        }
        for name, ranges in stretches.items():
            points = Points.union([stream.points.take(slice(*one)) for one in ranges])
            made, figures = built(stream, store, ranges, config, archive)
            found.append({"stretch": name, "rows": len(points), "gap": gap(made, points), **figures})
            if name == "all but the poisoned":
                found.append({"stretch": "never poisoned", **_never(stream, config, archive, points, made)})
    return found


def _never(stream: Stream, config: ModelConfig, archive: ModelConfig, points: Points, made: Made) -> dict[str, Any]:
    """Compare with the model of a stream that never held the poisoned rows."""
    clean = Stream.__new__(Stream)
    clean.rows, clean.points, clean.poison = len(points), points, stream.poison
    with tempfile.TemporaryDirectory() as directory:
        store = _store(Path(directory))
        record(clean, archive, store)
        other, figures = built(clean, store, [(0, clean.rows)], config, archive)
    one, two = (each.trained.model.machine for each in (made, other))
    assert isinstance(one, LinearMachine)
    assert isinstance(two, LinearMachine)
    apart = np.linalg.norm(one.coefficients - two.coefficients) / np.linalg.norm(two.coefficients)
    same_totals = bool(
        made.cut.moments.count == other.cut.moments.count
        and np.allclose(made.cut.moments.class_weight, other.cut.moments.class_weight, rtol=1e-12)
    )
    return {
        "rows": len(points),
        "gap": gap(other, points),
        "coefficients_apart": float(apart),
        "same_totals": same_totals,
        **figures,
    }


def _range(start: int, end: int) -> Range:
    return Position(start), Position(end)


def _store(directory: Path) -> Store:
    return Store(FileSystem(directory, trusted=True))


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--bucket-points", type=int, default=None)
    parser.add_argument("--train-points", type=int, default=20_000, help="most points a model is trained on")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = measured(given.rows, given.bucket_points, given.train_points)
    for row in rows:
        print(json.dumps(row) if given.json else "  ".join(f"{name} {value}" for name, value in row.items()))


if __name__ == "__main__":
    main()

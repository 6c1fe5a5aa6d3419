"""Windows, half-lives and horizons: how near, how fast, how soon after a change.

``python -m tests.benchmarks.forgetting [NAME=FILE ...] [--only PART ...] [--json]``

- ``streams``: prequential accuracy, labels a leaf late, of each memory and of windows of fixed length (the best of them
  in hindsight is the mark), and rows until the accuracy after a change is within a point of where it ends up;
- ``window``, ``decay``: gap to the exact optimum of the weighted rows, beside a fresh sample of as many points;
- ``partitions``: the same stream dealt to four partitions;
- ``rate``: rows a CPU second with the default span.

Real sets are files of `X` and `y` (numpy), given as NAME=FILE; streams are made (`tests.benchmarks.changing`).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from consumers.evaluate.prequential import CoresetContender, PrequentialPlan
from streamsvm.checkpoint import format as checkpoint
from streamsvm.checkpoint.format import Snapshot
from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset.moments import Moments
from streamsvm.learning.learner import Learner
from streamsvm.learning.recipe import make
from streamsvm.learning.training import scaler_of, train
from streamsvm.model.machine import LinearMachine, Model
from streamsvm.points import Points, Position, Rows
from streamsvm.svm.objective import primal_objective
from tests.benchmarks.changing import MADE, Stream, turned

LEAF: Final = 200
HORIZONS: Final = (1_600, 6_400, 25_600)
SMOOTH: Final = 200
"""Rows over which accuracy is averaged where a recovery is looked for."""
Figures = dict[str, Any]


def rows_of(points: Points, start: int, partition: int = 0) -> Rows:
    """Return points as records of one row, without times."""
    n = len(points)
    return Rows(
        partition=partition,
        offset=np.arange(start, start + n),
        row=np.zeros(n, np.int64),
        last=np.ones(n, np.bool_),
        time_ms=np.full(n, -1, np.int64),
        accepted=np.ones(n, np.bool_),
        points=points,
        leader_epoch=np.full(n, -1, np.int64),
    )


def contenders(dimension: int) -> Iterator[tuple[str, ModelConfig]]:
    """Yield what is compared, by name."""
    plan = PrequentialPlan(leaf_rows=LEAF)
    yield "all", plan.config(dimension, "all")
    yield "adaptive", plan.config(dimension, "adaptive", span_rows=LEAF)
    yield "adaptive, default span", plan.config(dimension, "adaptive")
    for rows in HORIZONS:
        yield f"window {rows}", plan.config(dimension, "window", window_points=rows, span_rows=LEAF)
    yield "decay", plan.config(dimension, "decay", half_life_points=8 * LEAF, span_rows=LEAF)


def prequential(stream: Stream, config: ModelConfig, partitions: int = 1) -> NDArray[np.bool_]:
    """Return which rows were predicted right, each before it was learned; rows are dealt to partitions in turn."""
    X, y, _ = stream
    contender = CoresetContender(config, LEAF, partitions)
    right = np.zeros(len(y), np.bool_)
    for start in range(0, len(y), LEAF):
        part = Points(X[start : start + LEAF], y[start : start + LEAF], np.ones(len(y[start : start + LEAF])))
        right[start : start + len(part)] = contender.predict(part.X) == part.y
        contender.learn(part)
    return right


def recovery(right: NDArray[np.bool_], changes: Sequence[int]) -> float | None:
    """Return the median number of rows after a change until the accuracy is within a point of its later half's."""
    found = []
    for begin, end in pairwise([*changes, len(right)]):
        later = right[(begin + end) // 2 : end].mean()
        smooth = np.convolve(right[begin:end], np.ones(SMOOTH) / SMOOTH, "valid")
        reached = np.flatnonzero(smooth >= later - 0.01)
        found.append(float(reached[0]) if len(reached) else float(end - begin))
    return float(np.median(found)) if found else None


def of_streams(streams: Mapping[str, Stream], chosen: Sequence[str]) -> Iterator[Figures]:
    """Yield how each contender, or each of those that are named, does on each stream."""
    for name, stream in streams.items():
        for contender, config in contenders(stream[0].shape[1]):
            if chosen and contender not in chosen:
                continue
            begun = time.process_time()
            right = prequential(stream, config)
            yield {
                "stream": name,
                "contender": contender,
                "accuracy": round(100.0 * float(right[LEAF:].mean()), 2),
                "recovery_rows": recovery(right, stream[2]),
                "cpu_seconds": round(time.process_time() - begun, 1),
            }


def of_partitions(streams: Mapping[str, Stream]) -> Iterator[Figures]:
    """Yield what four partitions lose against one, each with leaves of as many rows."""
    for name, stream in streams.items():
        config = PrequentialPlan(leaf_rows=LEAF).config(stream[0].shape[1], "adaptive", span_rows=LEAF)
        for partitions, leaf in ((1, LEAF), (4, LEAF), (4, LEAF // 4)):
            own = PrequentialPlan(leaf_rows=leaf).config(stream[0].shape[1], "adaptive", span_rows=leaf)
            right = prequential(stream, own if leaf != LEAF else config, partitions)
            yield {
                "stream": name,
                "partitions": partitions,
                "leaf_rows": leaf,
                "accuracy": round(100.0 * float(right[LEAF:].mean()), 2),
            }


def objective_of(few: Points, moments: Moments, whole: Points, seen: Moments, svm: SvmConfig) -> float:
    """Return F over weighted rows of the machine of few points, w in the units of the whole."""
    model = train(few, moments, svm).model
    return objective(model, whole, seen, svm)


def objective(model: Model, whole: Points, seen: Moments, svm: SvmConfig) -> float:
    """Return F of a linear model."""
    assert isinstance(model.machine, LinearMachine)
    w = model.machine.coefficients / model.scaler.scale * scaler_of(seen, svm).scale
    decision = model.decision_function(whole.X)
    return primal_objective(decision, whole.y, svm.penalty(seen.weight) * whole.weight, float(w @ w))


def gaps(points: Points, weight: NDArray[np.float64], coreset: CoresetConfig) -> Figures:
    """Return the gap of a cut to the optimum of rows under the weights that they should have, and a fresh sample's."""
    config = ModelConfig(points=PointsConfig(dimension=points.dimension, dtype="float64"), coreset=coreset)
    learner = Learner(config, {0: Position(0)}, 1 << 30)
    learner.learn(rows_of(points, 0))
    cut = learner.cut()
    counting = weight > 1e-6
    whole = points.take(counting).reweighted(weight[counting])
    seen = Moments.zero(points.dimension).add(whole)
    best = objective_of(whole, seen, whole, seen, SvmConfig(tolerance=1e-6))
    ours = objective(make(cut, config).trained.model, whole, seen, config.svm)
    random, sampled = np.random.default_rng(1), []
    for _ in range(5):
        chosen = random.choice(len(whole), min(len(whole), len(cut.points)), p=whole.weight / whole.weight.sum())
        drawn = whole.take(np.sort(chosen)).reweighted(np.ones(len(chosen)))
        sampled.append(objective_of(drawn, Moments.zero(points.dimension).add(drawn), whole, seen, config.svm) / best)
    sample = float(np.mean(sampled)) - 1.0
    gap = max(0.0, ours / best - 1.0)
    return {"gap": gap, "sample_gap": sample, "times_nearer": sample / max(gap, 1e-9), "points": len(cut.points)}


def of_windows(X: NDArray[np.float64], y: NDArray[np.int8], memory_points: int = 10_500) -> Iterator[Figures]:
    """Yield gaps of a window of 100,000 rows, shuffled, and turning inside it; and of half-lives."""
    order = np.random.default_rng(0).permutation(len(y))
    X, y, n, window = X[order], y[order], 250_000, 100_000
    n = min(n, len(y))
    window = min(window, n // 2)
    weight = np.zeros(n)
    weight[-window:] = 1.0
    sizes = CoresetConfig(
        memory="window", window_points=window, memory_points=memory_points, max_partitions=1, audit_points=0
    )
    calm = Points(X[:n], y[:n], np.ones(n))
    yield {"what": "window, shuffled", **gaps(calm, weight, sizes)}
    turning = X[:n].copy()
    turning[-window // 2 :, ::2] = 2.0 * turning.mean(axis=0)[::2] - turning[-window // 2 :, ::2]
    yield {"what": "window, turned inside", **gaps(Points(turning, y[:n], np.ones(n)), weight, sizes)}
    for half_life in (500, 2_000, 8_000):
        m = min(n, 60 * half_life)
        decayed = 0.5 ** (np.arange(m)[::-1] / half_life)
        leaf = max(20, min(LEAF, half_life // 8))
        coreset = CoresetConfig(
            memory="decay", half_life_points=half_life, leaf_rows=leaf, bucket_points=500, max_partitions=1,
            audit_points=0,
        )  # fmt: skip
        yield {"what": f"decay, half-life {half_life}", **gaps(Points(X[:m], y[:m], np.ones(m)), decayed, coreset)}


def of_rates(X: NDArray[np.float64], y: NDArray[np.int8], n: int = 2_000_000) -> Iterator[Figures]:
    """Yield rows a CPU second of learning alone with default sizes, and the bytes of a checkpoint."""
    chosen = np.random.default_rng(0).integers(0, len(y), 200_000)
    points = Points(X[chosen].astype(np.float32), y[chosen], np.ones(len(chosen)))
    for name, options in (
        ("all", {}),
        ("window", {"memory": "window", "window_points": 1_000_000}),
        ("decay", {"memory": "decay", "half_life_points": 1_000_000}),
        ("adaptive", {"memory": "adaptive"}),
    ):
        coreset = CoresetConfig(max_partitions=1, **options)
        learner = Learner(ModelConfig(points=PointsConfig(dimension=X.shape[1]), coreset=coreset), {0: Position(0)}, n)
        learner.learn(rows_of(points, 0))
        begun, most = time.process_time(), 0
        for start in range(len(points), n, len(points)):
            rows, done = rows_of(points, start), 0
            while done < len(rows):
                done = learner.learn(rows)
                learner.decline_cut()
            most = max(most, learner.points_held)
        seconds = time.process_time() - begun
        yield {
            "memory": name,
            "rows_per_cpu_s": round((n - len(points)) / seconds),
            "points_held": most,
            "checkpoint_bytes": len(checkpoint.encode(_snapshot(learner))),
        }


def _snapshot(learner: Learner) -> Snapshot:
    return Snapshot(
        name="m",
        incarnation=1,
        sequence=1,
        topic="in",
        topic_id="",
        base={},
        configuration={},
        configuration_sha256="",
        build={},
        head=None,
        learner=learner.state(),
        pending=None,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("sets", nargs="*", metavar="NAME=FILE", help="files with X and y; the first for the gaps")
    parser.add_argument("--only", nargs="*", default=["streams", "window", "partitions", "rate"])
    parser.add_argument("--in-order", nargs="*", default=["elec2"], help="sets that change by themselves")
    parser.add_argument("--streams", nargs="*", default=[], help="names of streams; all if left out")
    parser.add_argument("--contenders", nargs="*", default=[], help="names of contenders; all if left out")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    sets = {}
    for given in asked.sets:
        name, _, path = given.partition("=")
        with np.load(Path(path)) as found:
            sets[name] = found["X"].astype(np.float64), np.where(found["y"] > 0, 1, -1).astype(np.int8)
    streams: dict[str, Stream] = {name: made() for name, made in MADE.items()}
    for name, (X, y) in sets.items():
        if name in asked.in_order:
            streams[name] = X, y, []
        else:
            streams[f"{name}, turned"] = turned(X, y)
            order = np.random.default_rng(5).permutation(len(y))[:40_000]
            streams[f"{name}, stationary"] = X[order], y[order], []
    streams = {name: own for name, own in streams.items() if not asked.streams or name in asked.streams}
    calm = [own for name, own in sets.items() if name not in asked.in_order]
    parts: dict[str, Iterator[Figures]] = {
        "streams": of_streams(streams, asked.contenders),
        "partitions": of_partitions(streams),
    }
    if calm:
        parts |= {"window": of_windows(*calm[0]), "rate": of_rates(*calm[0])}
    for part in asked.only:
        for figures in parts.get(part, iter(())):
            line = {"part": part, **figures}
            print(
                json.dumps(line) if asked.json else "  ".join(f"{key} {value}" for key, value in line.items()),
                flush=True,
            )


if __name__ == "__main__":
    main()

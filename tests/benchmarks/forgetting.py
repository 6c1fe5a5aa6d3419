"""Windows, half-lives and horizons: how near, how fast, how soon after a change.

``python -m tests.benchmarks.forgetting [NAME=FILE ...] [--only PART ...] [--peers PYTHON] [--json]``

- ``streams``: prequential accuracy, labels a leaf late, of each memory and of windows of fixed length (the best of them
  in hindsight is the mark), rows until the accuracy after a change is within a point of where it ends up, and the CPU
  time of a row beside that of `all`; `--peers PYTHON`, an interpreter that has it: streams of River's own generators,
  too. Others' learners on streams are compared by `tests.benchmarks.worth`;
- ``changes``: the rows until then after each of 12 changes off the borders of leaves;
- ``window``, ``decay``: gap to the exact optimum of the weighted rows, beside a fresh sample of as many points;
- ``partitions``: the same stream dealt to four partitions;
- ``rate``: rows a CPU second with the default span;
- ``length``: points held, the resident set and the bytes of a checkpoint while a stream goes on for `--rows` rows.

Real sets are files of `X` and `y` (numpy), given as NAME=FILE; streams are made (`tests.benchmarks.changing`).
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from consumers.evaluate.predict_then_train import PrequentialPlan
from consumers.evaluate.prequential_contenders import CoresetContender
from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset.moments import Moments
from streamsvm.learning.learner import Learner
from streamsvm.learning.recipe import make
from streamsvm.learning.training import scaler_of, train
from streamsvm.model.machine import LinearMachine, Model
from streamsvm.points import Points, Position, Rows
from streamsvm.svm.objective import primal_objective
from tests.benchmarks.changing import MADE, SEA_BORDERS, Stream, sea, turned
from tests.benchmarks.summaries import state_bytes
from tests.benchmarks.worth_environment import Others
from tests.streams import rows_of

LEAF: Final = 200
HORIZONS: Final = (1_600, 6_400, 25_600)
SMOOTH: Final = 200
"""Rows over which accuracy is averaged where a recovery is looked for."""
CHANGES: Final = 12
ROWS: Final = 60_000
"""Of each stream that a generator makes."""
CHUNK: Final = 200_000
"""Rows that are repeated where a stream is long."""
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
THEIR_STREAMS: Final = ("AGRAWAL", "Hyperplane")
Kernel = Literal["linear", "rbf"]
Right = NDArray[np.bool_]
Figures = dict[str, Any]


def plan_of(leaf_rows: int = LEAF, kernel: Kernel = "linear", seed: int = 0) -> PrequentialPlan:
    """Return a plan of so short leaves, with labels a leaf late."""
    return PrequentialPlan(leaf_rows=leaf_rows, svm=SvmConfig(kernel=kernel), seed=seed)


def contenders(dimension: int, kernel: Kernel = "linear", seed: int = 0) -> Iterator[tuple[str, ModelConfig]]:
    """Yield what is compared, by name."""
    plan = plan_of(LEAF, kernel, seed)
    yield "all", plan.config(dimension, "all")
    yield "adaptive", plan.config(dimension, "adaptive", span_rows=LEAF)
    if kernel == "linear":
        yield "adaptive, default span", plan.config(dimension, "adaptive")
        yield "adaptive, span 1600", plan.config(dimension, "adaptive", span_rows=8 * LEAF)
    for rows in HORIZONS:
        yield f"window {rows}", plan.config(dimension, "window", window_points=rows, span_rows=LEAF)
    yield "decay", plan.config(dimension, "decay", half_life_points=8 * LEAF, span_rows=LEAF)


def prequential(stream: Stream, config: ModelConfig, partitions: int = 1) -> Right:
    """Return which rows were predicted right, each before it was learned; rows are dealt to partitions in turn."""
    X, y, _ = stream
    contender, right = CoresetContender(config, LEAF, partitions), np.zeros(len(y), np.bool_)
    for start in range(0, len(y), LEAF):
        part = Points(X[start : start + LEAF], y[start : start + LEAF], np.ones(len(y[start : start + LEAF])))
        right[start : start + len(part)] = (contender.predict(part.X).decision > 0.0) == (part.y > 0)
        contender.learn(part)
    return right


def recoveries(right: Right, changes: Sequence[int]) -> list[int]:
    """Return for each change after how many rows the next 200 are within a point of the later half until the next."""
    found = []
    for begin, end in pairwise([*changes, len(right)]):
        later = right[(begin + end) // 2 : end].mean()
        smooth = np.convolve(right[begin:end], np.ones(SMOOTH) / SMOOTH, "valid")
        reached = np.flatnonzero(smooth >= later - 0.01)
        found.append(int(reached[0]) if len(reached) else end - begin)
    return found


def recovery(right: Right, changes: Sequence[int]) -> float | None:
    """Return the median of `recoveries`; None of a stream that does not change at once."""
    return float(np.median(recoveries(right, changes))) if changes else None


def of_streams(
    streams: Mapping[str, Stream],
    chosen: Sequence[str],
    kernel: Kernel,
    seed: int = 0,
) -> Iterator[Figures]:
    """Yield how each contender, or each of those that are named, does on each stream."""
    for name, stream in streams.items():
        of_all: float | None = None
        for contender, config in contenders(stream[0].shape[1], kernel, seed):
            if chosen and contender not in chosen:
                continue
            begun = time.process_time()
            right = prequential(stream, config)
            seconds = time.process_time() - begun
            of_all = seconds if contender == "all" else of_all
            times = None if of_all is None else round(seconds / of_all, 2)
            told = contender if kernel == "linear" else f"{contender}, {kernel}"
            yield {"stream": name, "contender": told, **_figures(right, stream, seconds), "times_all": times}


def _figures(right: Right, stream: Stream, seconds: float) -> Figures:
    return {
        "accuracy": round(100.0 * float(right[LEAF:].mean()), 2),
        "recovery_rows": recovery(right, stream[2]),
        "us_a_row": round(1e6 * seconds / len(right), 1),
    }


def with_many_changes(sets: Mapping[str, tuple[Any, Any]]) -> Iterator[tuple[str, Stream]]:
    """Yield streams of 12 changes, as many rows apart as are no multiple of a leaf."""
    borders = tuple(SEA_BORDERS[at % len(SEA_BORDERS)] for at in range(CHANGES + 1))
    yield "SEA", sea(ROWS, borders=borders)
    for name, (X, y) in sets.items():
        yield f"{name}, turned", turned(X, y, ROWS, CHANGES)


def of_changes(sets: Mapping[str, tuple[Any, Any]], chosen: Sequence[str]) -> Iterator[Figures]:
    """Yield after how many rows each contender is back, for each change."""
    for name, stream in with_many_changes(sets):
        for contender, config in contenders(stream[0].shape[1]):
            if chosen and contender not in chosen:
                continue
            right = prequential(stream, config)
            each = recoveries(right, stream[2])
            yield {
                "stream": name,
                "contender": contender,
                "accuracy": round(100.0 * float(right[LEAF:].mean()), 2),
                "median": float(np.median(each)),
                "each": each,
                "rows_into_a_leaf": [change % LEAF for change in stream[2]],
            }


def of_partitions(streams: Mapping[str, Stream]) -> Iterator[Figures]:
    """Yield what four partitions lose against one, each with leaves of as many rows."""
    for name, stream in streams.items():
        config = plan_of().config(stream[0].shape[1], "adaptive", span_rows=LEAF)
        for partitions, leaf in ((1, LEAF), (4, LEAF), (4, LEAF // 4)):
            own = plan_of(leaf).config(stream[0].shape[1], "adaptive", span_rows=leaf)
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
    learner.learn(rows_of(points))
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
    mirrored = np.random.default_rng(1).permutation(X.shape[1])[: X.shape[1] // 2]
    for share in (0.75, 0.5, 0.25):
        turning, last = X[:n].copy(), int(share * window)
        turning[-last:, mirrored] = 2.0 * turning.mean(axis=0)[mirrored] - turning[-last:, mirrored]
        what = f"window, turned for its last {share:.0%}"
        yield {"what": what, **gaps(Points(turning, y[:n], np.ones(n)), weight, sizes)}
    for half_life in (500, 2_000, 8_000):
        m = min(n, 60 * half_life)
        decayed = 0.5 ** (np.arange(m)[::-1] / half_life)
        leaf = max(20, min(LEAF, half_life // 8))
        coreset = CoresetConfig(
            memory="decay", half_life_points=half_life, leaf_rows=leaf, bucket_points=500, max_partitions=1,
            audit_points=0,
        )  # fmt: skip
        yield {"what": f"decay, half-life {half_life}", **gaps(Points(X[:m], y[:m], np.ones(m)), decayed, coreset)}


def long_streams(X: NDArray[np.float64], y: NDArray[np.int8], rows: int) -> Iterator[tuple[str, Learner, Points]]:
    """Yield learners of each memory with default sizes, and the points that are repeated for them."""
    chosen = np.random.default_rng(0).integers(0, len(y), min(CHUNK, rows))
    points = Points(X[chosen].astype(np.float32), y[chosen], np.ones(len(chosen)))
    for name, options in (
        ("all", {}),
        ("window", {"memory": "window", "window_points": 1_000_000}),
        ("decay", {"memory": "decay", "half_life_points": 1_000_000}),
        ("adaptive", {"memory": "adaptive"}),
    ):
        coreset = CoresetConfig(max_partitions=1, **options)
        config = ModelConfig(points=PointsConfig(dimension=X.shape[1]), coreset=coreset)
        yield name, Learner(config, {0: Position(0)}, rows), points


def _learn(learner: Learner, rows: Rows) -> float:
    """Learn rows, and return the CPU seconds of it."""
    begun, done = time.process_time(), 0
    while done < len(rows):
        done = learner.learn(rows)
        learner.decline_cut()
    return time.process_time() - begun


def of_rates(X: NDArray[np.float64], y: NDArray[np.int8], n: int = 2_000_000) -> Iterator[Figures]:
    """Yield rows a CPU second of learning alone with default sizes, and the bytes of a checkpoint."""
    for name, learner, points in long_streams(X, y, n):
        _learn(learner, rows_of(points))
        seconds, most = 0.0, 0
        for start in range(len(points), n, len(points)):
            seconds += _learn(learner, rows_of(points, first_offset=start))
            most = max(most, learner.points_held)
        yield {
            "memory": name,
            "rows_per_cpu_s": round((n - len(points)) / seconds),
            "points_held": most,
            "checkpoint_bytes": state_bytes(learner),
        }


def of_lengths(X: NDArray[np.float64], y: NDArray[np.int8], n: int, chosen: Sequence[str]) -> Iterator[Figures]:
    """Yield what is held while a stream goes on whose features turn every 200,000 rows, at each tenfold length."""
    for name, learner, points in long_streams(X, y, n):
        if chosen and name not in chosen:
            continue
        turning = [points, Points(points.X * np.where(np.arange(points.dimension) % 2, -1, 1), points.y, points.weight)]
        mark, most, seconds = 10 * len(points), 0, 0.0
        for start in range(0, n, len(points)):
            seconds += _learn(learner, rows_of(turning[start // len(points) % 2], first_offset=start))
            most = max(most, learner.points_held)
            done = start + len(points)
            if done >= mark or done >= n:
                mark *= 10
                yield {
                    "memory": name,
                    "rows": done,
                    "most_points_held": most,
                    "rss_mib": round(int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES / 2**20, 1),
                    "checkpoint_bytes": state_bytes(learner),
                    "rows_per_cpu_s": round(done / seconds),
                }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("sets", nargs="*", metavar="NAME=FILE", help="files with X and y; the first for the gaps")
    parser.add_argument("--only", nargs="*", default=["streams", "changes", "window", "partitions", "rate", "length"])
    parser.add_argument("--in-order", nargs="*", default=["elec2"], help="sets that change by themselves")
    parser.add_argument("--streams", nargs="*", default=[], help="names of streams; all if left out")
    parser.add_argument("--contenders", nargs="*", default=[], help="names of contenders; all if left out")
    parser.add_argument("--kernel", choices=("linear", "rbf"), default="linear", help="of the streams' contenders")
    parser.add_argument("--made-rows", type=int, default=ROWS, help="of each stream made here (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of our samples on the streams (default %(default)s)")
    parser.add_argument(
        "--peers", default="", metavar="PYTHON", help="interpreter that has river (tests.benchmarks.worth)"
    )
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the longest stream (default %(default)s)")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    sets = {}
    for given in asked.sets:
        name, _, path = given.partition("=")
        with np.load(Path(path)) as found:
            sets[name] = found["X"].astype(np.float64), np.where(found["y"] > 0, 1, -1).astype(np.int8)
    with ExitStack() as stack:
        peers = stack.enter_context(Others(asked.peers)) if asked.peers else None
        for part, figures in _parts(asked, sets, peers):
            line = {"part": part, **figures}
            print(
                json.dumps(line) if asked.json else "  ".join(f"{key} {value}" for key, value in line.items()),
                flush=True,
            )


def streams_of(
    sets: Mapping[str, tuple[Any, Any]], in_order: Sequence[str], peers: Others | None, made_rows: int = ROWS
) -> dict[str, Stream]:
    """Return all streams by name."""
    streams: dict[str, Stream] = {name: made(made_rows) for name, made in MADE.items()}
    if peers is not None:
        streams |= {f"{name} of River": peers.make(name, made_rows) for name in THEIR_STREAMS}
    for name, (X, y) in sets.items():
        if name in in_order:
            streams[name] = X, y, []
        else:
            streams[f"{name}, turned"] = turned(X, y)
            order = np.random.default_rng(5).permutation(len(y))[:40_000]
            streams[f"{name}, stationary"] = X[order], y[order], []
    return streams


def _parts(
    asked: argparse.Namespace, sets: Mapping[str, tuple[Any, Any]], peers: Others | None
) -> Iterator[tuple[str, Figures]]:
    streams = streams_of(sets, asked.in_order, peers, asked.made_rows)
    streams = {name: own for name, own in streams.items() if not asked.streams or name in asked.streams}
    calm = {name: own for name, own in sets.items() if name not in asked.in_order}
    parts: dict[str, Iterator[Figures]] = {
        "streams": of_streams(streams, asked.contenders, asked.kernel, asked.seed),
        "partitions": of_partitions(streams),
        "changes": of_changes(calm, asked.contenders),
    }
    if calm:
        first = next(iter(calm.values()))
        parts |= {
            "window": of_windows(*first),
            "rate": of_rates(*first),
            "length": of_lengths(*first, asked.rows, asked.contenders),
        }
    for part in asked.only:
        yield from ((part, figures) for figures in parts.get(part, iter(())))


if __name__ == "__main__":
    main()

"""What a row and a seal cost the learner alone, beside SGD: `python -m tests.benchmarks.seal --json`.

    python -m tests.benchmarks.seal [--dimension 8,24,100] [--partitions 1,16,64] [--points N] [--rounds 5]
        [--against DIR] [--json]

`learner.learn` at default settings over batches of 1,000 rows, the partitions in turn, nothing decoded and nothing
trained; beside it `SGDClassifier.partial_fit` over the same batches, one model for all of them. Points are those of
`reduce_rate`. Contenders take turns in processes of their own, with one thread each; a figure is the median over rounds
of processor time, of every thread of the process.

- `us_a_row`, `sgd_us_a_row`: microseconds of the whole stream over its rows.
- `seals`: leaves sealed in all partitions. `us_a_seal`: what the calls of `learn` that ended with a seal took above as
  many calls of the same run that did not, over the seals.
- `calls_a_seal`: the same difference of calls, counted by `sys.setprofile` in a run of its own: functions of Python and
  built-in functions and methods, and compiled kernels. Operators and numpy's ufuncs are called past the profiler.

`--against DIR` runs another checkout of this project beside this one, in turn: `against_us_a_row` and others are its
figures, and `times_its_rate` is the median over rounds of its time a row over ours.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

import numpy as np
from sklearn.linear_model import SGDClassifier

from streamsvm.config import ModelConfig, PointsConfig
from streamsvm.learning.learner import Learner, warm_up
from streamsvm.points import Points, Position, Rows, Times
from tests.benchmarks.reduce_rate import generated

ROOT: Final = Path(__file__).parents[2]
BATCH: Final = 1_000
ARRAY_BYTES: Final = 128 << 20
"""Most bytes of the features that are generated; a longer stream passes them again, which its learner cannot tell."""
END: Final = sys.setprofile.__qualname__
"""What is called, too, where counting ends."""
THREADS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Sealing:
    """What calls of `learn` cost that ended with a seal, and those that did not.

    Attributes
    ----------
    spent, calls : pair of float, pair of int
        Cost, and number of calls of `learn`, without a seal and with one.
    seals : int
    """

    spent: tuple[float, float]
    calls: tuple[int, int]
    seals: int

    @property
    def whole(self) -> float:
        """Cost of all calls."""
        return sum(self.spent)

    @property
    def a_seal(self) -> float | None:
        """Cost of a seal above that of its call's rows; None if no call, or each, ended with one."""
        if not all(self.calls):
            return None
        return (self.spent[1] - self.spent[0] / self.calls[0] * self.calls[1]) / self.seals


def batches(points: Points, partitions: int, n: int) -> Iterator[Rows]:
    """Yield n rows, the partitions in turn; making them takes time that is not to be measured."""
    length, ends, done = len(points), [0] * partitions, 0
    while done < n:
        partition, first = done // BATCH % partitions, done % length
        count = min(BATCH, n - done, length - first)
        offset = ends[partition] + np.arange(count)
        yield Rows(
            partition=partition,
            offset=offset,
            row=np.zeros(count, np.int64),
            last=np.ones(count, np.bool_),
            times=Times.of(np.full(count, 1_700_000_000_000, np.int64)),
            accepted=np.ones(count, np.bool_),
            points=points.take(slice(first, first + count)),
            leader_epoch=np.zeros(count, np.int64),
        )
        ends[partition] += count
        done += count


Meter = Callable[[Callable[[], int]], tuple[int, float]]
"""Runs work; returns what it returned, and what that cost."""


def seconds(work: Callable[[], int]) -> tuple[int, float]:
    """Return seconds of the processor."""
    began = time.process_time()
    done = work()
    return done, time.process_time() - began


class CallCount:
    """Counts calls of functions, methods and built-in ones while it runs.

    Attributes
    ----------
    calls : Counter of str
        By the name of what was called.
    """

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def __call__(self, work: Callable[[], int]) -> tuple[int, float]:
        """Return calls: a `Meter`."""
        before = self.calls.total()

        def note(frame: FrameType, event: str, argument: Any) -> None:
            if event == "call":
                self.calls[frame.f_code.co_qualname] += 1
            elif event == "c_call":
                self.calls[argument.__qualname__] += 1

        sys.setprofile(note)
        try:
            done = work()
        finally:
            sys.setprofile(None)
        del self.calls[END]
        return done, float(self.calls.total() - before)


def learn(points: Points, partitions: int, n: int, meter: Meter) -> Sealing:
    """Learn n rows with a new learner; return what that cost by a meter."""
    config = ModelConfig(points=PointsConfig(dimension=points.dimension), seed=1)
    learner = Learner(config, dict.fromkeys(range(partitions), Position(0)), every_leaves=1 << 40)
    spent, calls, sealed = [0.0, 0.0], [0, 0], 0
    for rows in batches(points, partitions, n):
        done, took = meter(lambda rows=rows: learner.learn(rows))  # type: ignore[misc]
        assert done == len(rows)
        ended = learner.leaves_sealed > sealed
        sealed = learner.leaves_sealed
        spent[ended] += took
        calls[ended] += 1
    return Sealing((spent[0], spent[1]), (calls[0], calls[1]), sealed)


def sgd(points: Points, partitions: int, n: int) -> float:
    """Return seconds of the processor that `partial_fit` took over the same batches."""
    model, seconds = SGDClassifier(shuffle=False), 0.0
    for rows in batches(points, partitions, n):
        began = time.process_time()
        model.partial_fit(rows.points.X, rows.points.y, classes=[-1, 1])
        seconds += time.process_time() - began
    return seconds


def answer(contender: str, points: Points, partitions: int, n: int) -> dict[str, Any]:
    """Return one run of a contender as JSON has it."""
    if contender == "sgd":
        return {"us_a_row": sgd(points, partitions, n) / n * 1e6}
    if contender == "calls":
        return {"calls_a_seal": learn(points, partitions, n, CallCount()).a_seal}
    sealing = learn(points, partitions, n, seconds)
    a_seal = None if sealing.a_seal is None else sealing.a_seal * 1e6
    return {"us_a_row": sealing.whole / n * 1e6, "seals": sealing.seals, "us_a_seal": a_seal}


def serve() -> None:
    """Answer each line of `CONTENDER DIMENSION PARTITIONS N` with a run."""
    points: Points | None = None
    for line in sys.stdin:
        contender, *numbers = line.split()
        d, partitions, n = map(int, numbers)
        if points is None or points.dimension != d:
            points = generated(min(n, max(ARRAY_BYTES // (4 * d), BATCH)), d)
            warm_up(ModelConfig(points=PointsConfig(dimension=d)))
        print(json.dumps(answer(contender, points, partitions, n)), flush=True)


class Checkout:
    """A process that runs the code of one checkout, by this file's measures."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        threads = dict.fromkeys(THREADS, "1")
        self._process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-P", __file__, "--serve"],
                cwd=folder,
                env={**os.environ, **threads, "PYTHONPATH": str(folder)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        stack.callback(self._process.kill)

    def ask(self, *words: object) -> dict[str, Any]:
        """Return what a run came to."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{words}: the process ended with {self._process.wait()}")
        told: dict[str, Any] = json.loads(line)
        return told


def measure(
    dimensions: Sequence[int], partitions: Sequence[int], n: int, rounds: int, against: Path | None
) -> Iterator[dict[str, Any]]:
    """Yield a row of figures for each dimension and number of partitions."""
    with ExitStack() as stack:
        ours = Checkout(stack, ROOT)
        theirs = None if against is None else Checkout(stack, against)
        for d in dimensions:
            for count in partitions:
                yield _measured(ours, theirs, (d, count, n), rounds)


def _measured(ours: Checkout, theirs: Checkout | None, case: tuple[int, int, int], rounds: int) -> dict[str, Any]:
    contenders = {"ours": (ours, "learn"), "sgd": (ours, "sgd")}
    if theirs is not None:
        contenders["theirs"] = (theirs, "learn")
    names, laps = list(contenders), {name: [] for name in contenders}  # type: dict[str, list[dict[str, Any]]]
    for turn in range(rounds):
        for name in [*names[turn % len(names) :], *names[: turn % len(names)]]:
            checkout, contender = contenders[name]
            laps[name].append(checkout.ask(contender, *case))
    d, count, n = case
    row = {
        "dimension": d,
        "partitions": count,
        "points": n,
        **_of(laps["ours"]),
        "calls_a_seal": ours.ask("calls", *case)["calls_a_seal"],
        "sgd_us_a_row": _median(laps["sgd"], "us_a_row"),
    }
    if theirs is not None:
        told = {**_of(laps["theirs"]), "calls_a_seal": theirs.ask("calls", *case)["calls_a_seal"]}
        row |= {f"against_{name}": value for name, value in told.items()}
        pairs = zip(laps["theirs"], laps["ours"], strict=True)
        row["times_its_rate"] = statistics.median(their["us_a_row"] / our["us_a_row"] for their, our in pairs)
    return row


def _of(laps: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "us_a_row": _median(laps, "us_a_row"),
        "seals": laps[0]["seals"],
        "us_a_seal": _median(laps, "us_a_seal"),
    }


def _median(laps: Sequence[dict[str, Any]], name: str) -> float | None:
    figures = [lap[name] for lap in laps if lap[name] is not None]
    return statistics.median(figures) if figures else None


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.seal", description=__doc__.splitlines()[0])

    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    parser.add_argument("--dimension", type=numbers, default=[8, 24, 100], help="features a point (8,24,100)")
    parser.add_argument("--partitions", type=numbers, default=[1, 16, 64], help="several with commas (1,16,64)")
    parser.add_argument("--points", type=int, default=1_000_000, help="rows of a stream (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="of which medians are taken (%(default)s)")
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout to run beside this one")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        serve()
        return
    load = os.getloadavg()[0]
    against = None if options.against is None else options.against.resolve()
    rows = []
    for row in measure(options.dimension, options.partitions, options.points, options.rounds, against):
        rows.append(row)
        if not options.json:
            print(" ".join(f"{name}={_short(value)}" for name, value in row.items()), flush=True)
    if options.json:
        print(json.dumps({"benchmark": "seal", "load_average": load, "rounds": options.rounds, "rows": rows}, indent=1))


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()

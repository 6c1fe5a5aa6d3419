"""What metrics and prequential scoring cost: `python -m tests.benchmarks.overhead`, side by side on the learner's path.

The same rows, in batches of a thousand, go through a learner alone, with the metrics of the main loop, and with scoring
by a trained model and its baseline on top; each from JSON records, and from rows already decoded, of which nothing is
faster. Figures are CPU time of the one thread, a row; a busy machine stretches them less than it does rates. The thread
that trains, the client and the broker are not in them, so that the shares of a whole daemon are smaller.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from threadpoolctl import threadpool_limits

from consumers.metrics import TRAINER, Metrics
from consumers.settings import Settings
from consumers.trainer.freshness import Freshness
from consumers.trainer.gatekeeping import Open
from consumers.trainer.gauges import Gauges
from consumers.trainer.stream_quality import QualityWatch
from streamsvm.config import CoresetConfig, PointsConfig, SvmConfig
from streamsvm.ingest.decoder import PointDecoder, encode
from streamsvm.kafka import Cluster, Record
from streamsvm.learning.learner import Learner, warm_up
from streamsvm.learning.training import train
from streamsvm.model.machine import KernelMachine, Model
from streamsvm.points import Position, Rows
from tests.benchmarks.pipeline import environment
from tests.benchmarks.timing import ROUNDS_AT_LEAST, Interval, Lap, Outcome, Stopwatch, alternate

BATCH: Final = 1_000
SHOWN_EVERY_S: Final = 0.5
CONTENDERS: Final = ("neither", "metrics", "metrics and scoring")
Row = dict[str, Any]


@dataclass(frozen=True)
class Stream:
    """What all contenders read, and the model that scores it.

    Attributes
    ----------
    settings : Settings
    records : list of lists of Record
        Batches.
    rows : list of Rows
        The same, decoded.
    model : Model
        Of the stream's own first half: it costs what a model of another stream costs.
    """

    settings: Settings
    records: list[list[Record]]
    rows: list[Rows]
    model: Model


def make_stream(n: int, dimension: int, kernel: str) -> Stream:
    """Return two Gaussian classes, one third positive, of which a linear rule gets about nine in ten right."""
    random = np.random.default_rng(dimension)
    y = np.where(random.random(n) < 1 / 3, 1, -1)
    X = np.round(random.normal(size=(n, dimension)) + 1.28 / np.sqrt(dimension) * y[:, None], 4)
    settings = Settings(
        points=PointsConfig(dimension=dimension),
        coreset=CoresetConfig(max_partitions=1),
        svm=SvmConfig(kernel="rbf" if kernel == "rbf" else "linear"),
    )
    config = settings.models()
    warm_up(config)
    records = [
        Record("points", 0, index, None, encode(x, int(label)), (), None, None)
        for index, (x, label) in enumerate(zip(X, y, strict=True))
    ]
    batches = [records[start : start + BATCH] for start in range(0, n, BATCH)]
    decoder = PointDecoder(config.points)
    rows = [one for batch in batches for one in decoder.decode(batch).rows]
    learner = Learner(config, {0: Position(0)}, n)
    for one in rows[: len(rows) // 2]:
        learner.learn(one)
    cut = learner.cut()
    return Stream(settings, batches, rows, train(cut.points, cut.moments, config.svm).model)


class MainLoop:
    """The trainer's main loop without its broker: learns rows, and counts, scores and shows as told."""

    def __init__(self, stream: Stream, contender: str) -> None:
        settings = stream.settings
        self.learner = Learner(settings.models(), {0: Position(0)}, 1 << 40)
        self._metrics = Metrics(TRAINER) if contender != "neither" else None
        self._quality = None
        if self._metrics is not None:
            self._gauges = Gauges(self._metrics)
            self._freshness = Freshness(self._metrics, self.learner, 1)
            self._shown_at = time.thread_time()
        if contender == "metrics and scoring":
            assert self._metrics is not None
            nowhere = cast(Cluster, None)  # nothing is current at the start, so that nothing is fetched
            self._quality = QualityWatch(settings, nowhere, None, Open(), self._metrics)
            assert self._quality.prequential is not None
            self._quality.prequential.serve(stream.model)

    def turn(self, rows: Rows) -> None:
        """Learn a batch, with what the trainer does beside it."""
        begun = time.monotonic()
        done = self.learner.learn(rows)
        assert done == len(rows)
        if self._metrics is None:
            return
        self._freshness.learned(begun, time.monotonic())
        accepted = int(rows.accepted.sum())
        self._metrics.increase("streamsvm_input_rows", accepted, outcome="accepted")
        self._metrics.increase("streamsvm_input_rows", len(rows) - accepted, outcome="rejected")
        self._metrics.increase("streamsvm_input_records", len(rows), partition="0")
        if self._quality is not None:
            self._quality.score(rows)
        if time.thread_time() - self._shown_at > SHOWN_EVERY_S:
            self.show()

    def show(self) -> None:
        """Set every gauge of the main loop."""
        self._shown_at = time.thread_time()
        self._gauges.points(self.learner.points_held, 0)
        self._gauges.coreset(self.learner)
        self._freshness.show()
        if self._quality is not None:
            self._quality.show()


def run(stream: Stream, case: str, contender: str) -> list[Outcome]:
    """Send the whole stream through one contender."""
    loop, decoder = MainLoop(stream, contender), PointDecoder(stream.settings.models().points)
    watch = Stopwatch()
    if case == "json":
        for batch in stream.records:
            for rows in decoder.decode(batch).rows:
                loop.turn(rows)
    else:
        for rows in stream.rows:
            loop.turn(rows)
    lap: Lap = watch.lap()
    return [Outcome(case, contender, loop.learner.rows, lap)]


def measure(n: int, dimensions: Sequence[int], kernels: Sequence[str], rounds: int) -> list[Row]:
    """Run every contender on a stream of each dimension and kernel.

    Raises
    ------
    AssertionError
        If a contender did not learn every row.
    """
    found: list[Row] = []
    for kernel, dimension in itertools.product(kernels, dimensions):
        with threadpool_limits(1):
            stream = make_stream(n, dimension, kernel)
            contenders: list[Callable[[], Sequence[Outcome]]] = [
                partial(run, stream, case, contender) for case in ("json", "decoded") for contender in CONTENDERS
            ]
            outcomes = alternate(contenders, rounds)
        assert all(outcome.seen == n for outcome in outcomes)
        machine = stream.model.machine
        support = len(machine.support) if isinstance(machine, KernelMachine) else None
        what = {"kernel": kernel, "d": dimension, "support_vectors": support}
        found.extend(rows_of(outcomes, case, n) | what for case in ("json", "decoded"))
    return found


def rows_of(outcomes: Sequence[Outcome], case: str, n: int) -> Row:
    """Return the CPU time a row of each contender, and what the second and third add, in per cent of the first."""
    laps = {
        name: [one.lap.loop_s / n * 1e6 for one in outcomes if (one.case, one.contender) == (case, name)]
        for name in CONTENDERS
    }
    added = {
        name: Interval.of([100.0 * (b / a - 1.0) for a, b in zip(laps["neither"], laps[name], strict=True)])
        for name in CONTENDERS[1:]
    }
    return {
        "case": case,
        "n": n,
        "us_a_row": {name: round(Interval.of(figures).median, 3) for name, figures in laps.items()},
        "added_per_cent": {
            name: [round(part, 1) for part in (one.median, one.least, one.greatest)] for name, one in added.items()
        },
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print a line for each stream and case, and write JSON where asked."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.overhead", description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=60_000, help="rows of a stream (default %(default)s)")
    parser.add_argument("--dimension", default="8,24", help="features a point, several with commas (%(default)s)")
    parser.add_argument("--kernel", default="linear,rbf", help="kernels, with commas (%(default)s)")
    parser.add_argument("--runs", type=int, default=ROUNDS_AT_LEAST, help="measured rounds (%(default)s)")
    parser.add_argument("--json", default="", metavar="FILE", help="also write JSON; - is standard output")
    options = parser.parse_args(arguments)
    to = sys.stderr if options.json == "-" else sys.stdout
    print(
        f"{'kernel':<7}{'d':>3}  {'rows':<8} {'us a row: neither':>18} {'metrics adds':>22} {'both add':>22}", file=to
    )
    rows = measure(
        options.points, [int(part) for part in options.dimension.split(",")], options.kernel.split(","), options.runs
    )
    for row in rows:
        adds = [
            f"{median:+.1f} % ({least:+.1f} to {greatest:+.1f})"
            for median, least, greatest in row["added_per_cent"].values()
        ]
        print(
            f"{row['kernel']:<7}{row['d']:>3}  {row['case']:<8} {row['us_a_row']['neither']:>18.2f} "
            f"{adds[0]:>22} {adds[1]:>22}",
            file=to,
        )
    report = {"benchmark": "overhead", "runs": options.runs, "environment": environment(), "rows": rows}
    if options.json == "-":
        print(json.dumps(report, indent=2))
    elif options.json:
        Path(options.json).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

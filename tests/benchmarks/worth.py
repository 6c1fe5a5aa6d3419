"""What streamsvm is worth, with today's defaults, beside what people would train instead.

    python -m tests.benchmarks.worth --make-peers DIR      # once: the environment of other people's learners

    python -m tests.benchmarks.worth --data DIR --json FILE [--peers PYTHON] [--only shuffled|streams] [--sets NAMES]
        [--contenders NAMES] [--points 2000,10000,all] [--rounds T]

Each cell, one contender on one set in one round, is kept in FILE. The cheapest cells come first, all of a round before
those of the next. The table names what is missing. A round's number is its seed; ten rounds have the seeds 0, 1, 2, 3,
4, 5, 6, 7, 8 and 9. Nothing is tuned by hand: settings are those that each program finds by its own rules.

*shuffled*: a set is shuffled by the round's number, a fifth is held out, and the rest is learned, by ours in one pass.
The contenders are those of `tests.benchmarks.contenders`, and with their defaults `lightgbm`, scikit-learn's
`hist_gb` (HistGradientBoostingClassifier) and InterpretML's `ebm` (ExplainableBoostingClassifier). With `--points`
those of `SIZED` are measured with so many kept points, too, as `additive@2000` and so on.

*streams*: at most `STREAM_ROWS` rows in their own order, each answered before its label comes; labels come 200 rows at
a time, to everybody. elec2 is half an hour a row; `RTG` is MOA's random tree generator, whose tree is another one in
each quarter; the others are those of `tests.benchmarks.changing`, drawn anew in each round.

- `window`, `decay`, `adaptive` and the same with `_rbf`, `_squared` or `_additive`: `coreset.memory`, with leaves and
  spans of 200 rows, a window of 3,200 and a half-life of 1,600 rows, a version after each leaf.
- `sgd`: the best of five settings in hindsight; only its own time counts. `no_change`: the newest label known.
- `lightgbm`: of the last 10,000 rows, grown anew after each 200. `moa_forest`, `moa_sgbt`: CapyMOA's adaptive random
  forest of ten trees, and its streaming gradient boosted trees (100 iterations, its default).

Figures are scikit-learn's on held-out rows, or on all rows after the first 200. `cpu_s` is the CPU time of learning, on
streams of answering, too; of CapyMOA that of its whole process. `bytes` are those of the rows held at once, at 4 a
feature and 33 more, or of a model of fixed size; CapyMOA does not say. One thread each. The machine may
be shared: compare CPU seconds within one table, and not closely.

Below the table the AUC and the CPU time of each additive machine are compared with those of `lightgbm` and of `ebm`,
set by set, over the rounds that both have.
"""

from __future__ import annotations

import os
import statistics
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from threadpoolctl import threadpool_limits

from consumers.evaluate import (
    Answers,
    CoresetContender,
    PrequentialPlan,
    PrequentialRow,
    SgdContender,
    Stream as Labeled,
    judged_row,
    memories,
)
from consumers.evaluate.predict_then_train import run
from streamsvm.choices import KernelName, Loss
from streamsvm.config import SvmConfig
from streamsvm.estimators import SGD_SETTINGS, probability_scores, scores, split
from streamsvm.points import Points
from tests.benchmarks.changing import Stream, hyperplane, sea, turned
from tests.benchmarks.contenders import OURS, SIZED, Answer, bytes_of, coreset_of
from tests.benchmarks.others import LEARNERS, PACKAGES, Others
from tests.benchmarks.runner import Kept, aligned, known, load, make_environment, parser_of, shown, words

Part = Literal["shuffled", "streams"]
TEST_SHARE: Final = 0.2
STREAM_ROWS: Final = 50_000
"""Of each stream: ensembles of trees take minutes for as many."""
LEAF: Final = 200
WARM_ROWS: Final = 4_000
"""That are learned once, unmeasured, so that nothing is compiled while a clock runs."""
SHUFFLED: Final = {
    "htru2": 0.14,
    "credit_default": 0.7,
    "a9a": 6,
    "elec2": 0.27,
    "w8a": 15,
    "ijcnn1": 3,
    "skin": 0.7,
    "cod_rna": 2.6,
}
STREAMS: Final = {"elec2": 0.3, "RTG": 1.25, "Hyperplane": 0.5, "SEA": 0.15, "ijcnn1": 1.1, "cod_rna": 0.4}
"""Sets of each part, and how many million features their rows have together."""
SETS: Final[Mapping[Part, Mapping[str, float]]] = {"shuffled": SHUFFLED, "streams": STREAMS}
COST: Final[Mapping[Part, Mapping[str, float]]] = {
    "shuffled": {
        "streamsvm": 1,
        "squared": 1,
        "sgd": 1,
        "svm_all": 2,
        "additive": 2,
        "lightgbm": 3,
        "hist_gb": 6,
        "rbf_hinge": 7,
        "rbf": 10,
        "rbf_tuned": 30,
        "ebm": 600,
    },
    "streams": {
        "no_change": 0.1,
        "sgd": 2,
        "window": 10,
        "decay": 10,
        "window_squared": 10,
        "decay_squared": 10,
        "adaptive": 15,
        "adaptive_squared": 15,
        "window_additive": 30,
        "adaptive_additive": 40,
        "moa_forest": 50,
        "window_rbf": 60,
        "decay_rbf": 60,
        "adaptive_rbf": 60,
        "lightgbm": 100,
        "moa_sgbt": 250,
    },
}
"""The contenders of each part, and roughly how their CPU times compare: with the sizes of sets, the order of cells."""
THEIRS: Final = frozenset(LEARNERS)
COMPARED: Final = ("lightgbm", "ebm")
"""With which additive machines are compared."""
NEAR: Final = 0.005
"""Difference of two AUC values that is no difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One contender on one set in one trial; see the module. `load` is the machine's at the end."""

    part: Part
    set: str
    contender: str
    trial: int
    rows: int
    dimension: int
    accuracy: float
    balanced_accuracy: float
    auc: float | None
    average_precision: float | None
    log_loss: float | None
    cpu_s: float
    bytes: int | None
    load: float


@dataclass(frozen=True, slots=True)
class Job:
    """A cell that is to be measured."""

    part: Part
    set: str
    contender: str
    trial: int

    @property
    def key(self) -> str:
        """By which it is kept."""
        return f"{self.part}/{self.set}/{self.contender}/{self.trial}"


# ------------------------------------------------------------------------------------------------------------- shuffled


def learned(name: str, data: str, train: Points, test: Points, trial: int, others: Others | None) -> Answer:
    """Let one contender of shuffled sets learn."""
    if name in THEIRS:
        assert others is not None
        told = others.fit(name, train, test, trial)
        return Answer(told.decision, told.positive, told.seconds, bytes_of(*train.X.shape))
    name, _, size = name.partition("@")
    if size:
        return OURS[name](train, test, trial, coreset=coreset_of(size, len(train)))
    return OURS[name](train, test, trial)


def shuffled(job: Job, points: Points, others: Others | None, warm: set[str]) -> Cell:
    """Measure a cell of shuffled rows."""
    train, test = split(points, TEST_SHARE, job.trial)
    if job.contender not in THEIRS | warm:
        warm.add(job.contender)
        learned(job.contender, job.set, train.take(slice(WARM_ROWS)), test.take(slice(WARM_ROWS)), job.trial, others)
    made = learned(job.contender, job.set, train, test, job.trial, others)
    loss = probability_scores(test, made.positive).log_loss
    return cell_of(job, train, scores(test, made.decision), log_loss=loss, cpu_s=made.cpu_s, bytes=made.bytes)


def cell_of(job: Job, points: Points, found: Any, **figures: Any) -> Cell:
    """Return the cell of what was found of some points."""
    return Cell(
        **asdict(job),
        rows=len(points),
        dimension=points.dimension,
        accuracy=found.accuracy,
        balanced_accuracy=found.balanced_accuracy,
        auc=found.auc,
        average_precision=found.average_precision,
        load=os.getloadavg()[0],
        **figures,
    )


# -------------------------------------------------------------------------------------------------------------- streams


def plan_of(name: str, seed: int) -> PrequentialPlan:
    """Return the plan of a contender."""
    kernels: Mapping[str, KernelName] = {"rbf": "rbf", "additive": "additive"}
    kind = name.partition("_")[2]
    kernel = kernels.get(kind, "linear")
    loss: Loss | None = "squared_hinge" if kind == "squared" else None
    return PrequentialPlan(leaf_rows=LEAF, svm=SvmConfig(kernel=kernel, loss=loss), seed=seed)


def followed(name: str, stream: Labeled, seed: int, others: Others | None) -> tuple[PrequentialRow, int | None]:
    """Let one contender follow a stream; return how it did, and the bytes it held."""
    plan, points, d = plan_of(name, seed), stream.points, stream.points.dimension
    if name in THEIRS:
        assert others is not None
        told = others.follow(name, points.X, points.y, LEAF, LEAF, seed)
        row = judged_row(name, Answers(told.decision, told.positive), stream, plan)
        return replace(row, cpu_seconds=told.seconds), told.bytes
    if name == "no_change":
        known = np.arange(len(points)) // LEAF * LEAF  # labels that are known before each row
        newest = np.concatenate((points.y[:1] * 0 - 1, points.y))[known].astype(np.float64)
        return judged_row(name, Answers(newest, np.full(len(points), np.nan)), stream, plan), 1
    if name == "sgd":
        config = plan.config(d, "all")
        rows = [run(name, SgdContender(config, one), stream, plan)[0] for one in SGD_SETTINGS]
        return max(rows, key=lambda row: row.accuracy), 8 * (3 * d + 1)
    config = {memory: own for memory, _, own in memories(d, plan)}[name.partition("_")[0]]
    contender = CoresetContender(config, LEAF)
    row, _ = run(name, contender, stream, plan)
    return row, contender.points_held * config.points.point_bytes


def streamed(job: Job, stream: Stream, others: Others | None, warm: set[str]) -> Cell:
    """Measure a cell of a stream in its order."""
    X, y, _ = stream
    points = Points(X, y, np.ones(len(y)))
    if job.contender not in THEIRS | warm:
        warm.add(job.contender)
        followed(job.contender, Labeled(points.take(slice(WARM_ROWS)), 2), job.trial, others)
    row, held = followed(job.contender, Labeled(points, 2), job.trial, others)
    return cell_of(job, points, row, log_loss=row.log_loss, cpu_s=row.cpu_seconds, bytes=held)


def stream_of(name: str, data: Path, rows: int, trial: int, others: Others | None) -> Stream:
    """Return a stream; RTG is made by the other interpreter."""
    if name == "RTG":
        assert others is not None
        return others.make("RTG", rows, trial)
    if name in ("Hyperplane", "SEA"):
        return (hyperplane if name == "Hyperplane" else sea)(rows, trial)
    points = load(name, data)
    if name == "elec2":
        return points.X.astype(np.float64)[:rows], points.y[:rows], []
    return turned(points.X.astype(np.float64), points.y, rows, seed=trial)


# ------------------------------------------------------------------------------------------------------------ the cells


def jobs(
    parts: Sequence[Part], sets: Sequence[str], contenders: Sequence[str], trials: int, sizes: Sequence[str] = ()
) -> list[Job]:
    """Return the cells that are asked for, the cheapest of each trial first; no names: all.

    `sizes`: Numbers of kept points with which those of `SIZED` are measured, too.
    """
    found = [
        Job(part, data, name, trial)
        for trial in range(trials)
        for part in parts
        for one in COST[part]
        for name in (one, *(f"{one}@{size}" for size in sizes if part == "shuffled" and one in SIZED))
        for data in SETS[part]
        if (not sets or data in sets) and (not contenders or one in contenders)
    ]
    return sorted(found, key=lambda job: (job.trial, cost(job)))


def cost(job: Job) -> float:
    """Return roughly how a cell's CPU time compares with others'."""
    name, _, size = job.contender.partition("@")
    return COST[job.part][name] * SETS[job.part][job.set] * (30 if size == "all" else 1)


def measure(wanted: Sequence[Job], data: Path, rows: int, others: Others | None, kept: Kept) -> list[Cell]:
    """Return the cells that are wanted, measured if they are not kept; what cannot be measured is printed, once."""
    warm, cells, said = set[str](), list[Cell](), set[str]()
    load_set = cache(lambda name: load(name, data))
    load_stream = cache(lambda name, trial: stream_of(name, data, rows, trial, others))

    def measured(job: Job) -> dict[str, Any]:
        if others is None and (job.contender in THEIRS or (job.part, job.set) == ("streams", "RTG")):
            raise ModuleNotFoundError("--peers PYTHON is not given")
        if job.part == "shuffled":
            return asdict(shuffled(job, load_set(job.set), others, warm))
        return asdict(streamed(job, load_stream(job.set, job.trial), others, warm))

    for job in wanted:
        fresh = job.key not in kept.cells
        try:
            one = Cell(**kept.get(job.key, lambda job=job: measured(job)))
        except (ModuleNotFoundError, FileNotFoundError) as error:
            if f"{job.contender}: {error}" not in said:
                print(f"{job.set}, {job.contender}: not measured, {error}", flush=True)
            said.add(f"{job.contender}: {error}")
            continue
        cells.append(one)
        if fresh:
            print(
                f"{job.key}: accuracy {one.accuracy:.4f}, AUC {one.auc or float('nan'):.4f}, {one.cpu_s:.2f} CPU s, "
                f"load {one.load:.1f}",
                flush=True,
            )
    return cells


# ------------------------------------------------------------------------------------------------------------ the table

HEADING: Final = ("part", "set", "contender", "trials", "accuracy", "balanced", "AUC", "AP", "log loss", "CPU s", "kB")
FIGURES: Final = ("accuracy", "balanced_accuracy", "auc", "average_precision", "log_loss")


def lines(cells: Sequence[Cell], wanted: Sequence[Job]) -> Iterator[str]:
    """Yield the table: means over the trials, the best AUC of each set first, then what is missing."""
    groups: dict[tuple[str, str], dict[str, list[Cell]]] = {}
    for one in cells:
        groups.setdefault((one.part, one.set), {}).setdefault(one.contender, []).append(one)
    order = [(str(part), name) for part, names in SETS.items() for name in names]
    best_first = (
        own
        for of in sorted(groups, key=order.index)
        for own in sorted(groups[of].values(), key=lambda own: -(_mean(own, "auc") or 0.0))
    )
    yield from aligned(HEADING, map(_row, best_first))
    yield from differences([one for one in cells if one.part == "shuffled"])
    there = {Job(one.part, one.set, one.contender, one.trial) for one in cells}
    missing: dict[tuple[str, str, int], list[str]] = {}
    for job in wanted:
        if job not in there:
            missing.setdefault((job.part, job.contender, job.trial), []).append(job.set)
    for (part, contender, trial), sets in missing.items():
        yield f"missing: {part}, {contender}, trial {trial}: {', '.join(sets)}"


def differences(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield how additive machines compare with `lightgbm` and `ebm` on shuffled sets, over rounds that both have."""
    there = {(one.contender, one.set, one.trial): one for one in cells if one.auc is not None}
    names = sorted({name for name, _, _ in there if name.partition("@")[0] == "additive"})
    rows, means = list[list[str]](), dict[tuple[str, str], list[float]]()
    for name, data in product(names, SHUFFLED):
        row = [name, data]
        for other in COMPARED:
            trials = [trial for one, own, trial in there if (one, own) == (name, data) and (other, own, trial) in there]
            pairs = [(there[name, data, trial], there[other, data, trial]) for trial in trials]
            if not pairs:
                row += ["-"] * 3
                continue
            mean = statistics.fmean((ours.auc or 0.0) - (theirs.auc or 0.0) for ours, theirs in pairs)
            means.setdefault((name, other), []).append(mean)
            ratio = sum(ours.cpu_s for ours, _ in pairs) / sum(theirs.cpu_s for _, theirs in pairs)
            row += [str(len(pairs)), f"{mean:+.4f}", f"{ratio:.3g}"]
        if set(row[2:]) != {"-"}:
            rows.append(row)
    if rows:
        heading = [f"{figure}, {other}" for other in COMPARED for figure in ("trials", "AUC", "CPU ratio")]
        yield from ("", *aligned(("ours", "set", *heading), rows))
    for (name, other), found in means.items():
        within, above = sum(abs(mean) <= NEAR for mean in found), sum(mean > NEAR for mean in found)
        yield (
            f"{name} - {other}: mean AUC {statistics.fmean(found):+.4f}; of {len(found)} sets {within} are within "
            f"{NEAR}, {above} above, {len(found) - within - above} below"
        )


def _row(own: Sequence[Cell]) -> list[object]:
    figures = [shown(_mean(own, name), ".4f") for name in FIGURES]
    seconds = statistics.fmean(one.cpu_s for one in own)
    held = max((one.bytes / 1e3 for one in own if one.bytes is not None), default=None)
    return [own[0].part, own[0].set, own[0].contender, len(own), *figures, f"{seconds:.2f}", shown(held, ",.0f")]


def _mean(cells: Sequence[Cell], name: str) -> float | None:
    values = [value for one in cells if (value := getattr(one, name)) is not None]
    return statistics.fmean(values) if values else None


def main(arguments: Sequence[str] | None = None) -> list[Cell]:
    """Measure what is missing, and print the table."""
    parser = parser_of("worth", __doc__, data=False, rounds=1)
    parser.add_argument("--only", choices=("shuffled", "streams"), help="one part")
    parser.add_argument("--contenders", type=words, default=[], metavar="NAMES")
    parser.add_argument("--points", type=words, default=[], metavar="NUMBERS", help="kept points, such as 2000,all")
    parser.add_argument("--rows", type=int, default=STREAM_ROWS, help="most rows of a stream (default %(default)s)")
    parser.add_argument("--peers", default="", metavar="PYTHON", help="interpreter of the others' environment")
    parser.add_argument("--make-peers", type=Path, metavar="DIR", help="make that environment in a folder, and end")
    asked = parser.parse_args(arguments)
    if asked.make_peers is not None:
        make_environment(asked.make_peers, PACKAGES, "--require-hashes", "--only-binary", ":all:")
        return []
    if asked.data is None or asked.json is None:
        parser.error("--data DIR and --json FILE are needed")
    known(parser, "--sets", asked.sets, sorted({*SHUFFLED, *STREAMS}))
    known(parser, "--contenders", asked.contenders, sorted({name for part in COST.values() for name in part}))
    if wrong := [size for size in asked.points if size != "all" and not size.isdecimal()]:
        parser.error(f"--points {','.join(wrong)}: give numbers, or all")
    parts: list[Part] = [asked.only] if asked.only else ["shuffled", "streams"]
    wanted = jobs(parts, asked.sets, asked.contenders, asked.rounds, asked.points)
    with ExitStack() as stack:
        stack.enter_context(threadpool_limits(1))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        others = stack.enter_context(Others(asked.peers)) if asked.peers else None
        cells = measure(wanted, asked.data, asked.rows, others, Kept(asked.json))
    print(*lines(cells, wanted), sep="\n")
    return cells


if __name__ == "__main__":
    main()

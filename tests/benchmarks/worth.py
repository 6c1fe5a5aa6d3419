"""What streamsvm is worth, with today's defaults, beside what people would train instead.

    python -m tests.benchmarks.worth --make-peers DIR      # once: the environment of River, LightGBM and CapyMOA

    python -m tests.benchmarks.worth --data DIR --json FILE [--peers PYTHON] [--only shuffled|streams] [--sets NAMES]
        [--contenders NAMES] [--trials T] [--into FILE]

Each cell, one contender on one set in one trial, is added to FILE as soon as it is measured, and one that FILE has is
not measured again: a command that was killed goes on where it stopped. The cheapest cells come first, all of a trial
before those of the next. The table names what is missing. DIR has NAME.npz files with `X` and `y` (-1 or +1).

*shuffled*: a set is shuffled by the trial's seed, a fifth is held out, and the rest is learned, by ours in one pass.

- `streamsvm`: all defaults but one partition; `infer`: features and class weights as `streamsvm features infer`
  proposes them for the first 20,000 training rows; `rbf`: `svm.kernel = rbf`, all else at its default; `rbf_tuned`:
  also `svm.tune = auto` and a memory of 64 MB (`ours` of `tests.benchmarks.kernels`).
- `svm_all`, `sgd`, `hist_gb`, `river`, `lightgbm`: as in `tests.benchmarks.peers`; the time of `sgd` has what choosing
  its setting takes.

*streams*: at most `STREAM_ROWS` rows in their own order, each answered before its label comes; labels come 200 rows at
a time, to everybody. elec2 is half an hour a row; `RTG` is MOA's random tree generator, whose tree is another one in
each quarter; `Hyperplane` and `SEA` are those of `tests.benchmarks.changing`, and `ijcnn1` and `cod_rna` its `turned`:
a random half of the features is mirrored at four changes. Trials draw the made ones anew.

- `window`, `decay`, `adaptive` and the same with `_rbf`: `coreset.memory`, with leaves and spans of 200 rows, a window
  of 3,200 and a half-life of 1,600 rows, a version after each leaf.
- `sgd`: the best of five settings in hindsight; only its own time counts. `no_change`: the newest label known.
- `lightgbm`: of the last 10,000 rows, grown anew after each 200. `forest`: River's adaptive random forest, ten trees.
  `moa_forest`, `moa_patches`, `moa_sgbt`: CapyMOA's adaptive random forest and random patches, ten trees each, and its
  streaming gradient boosted trees (100 iterations, its default).

Figures are scikit-learn's on held-out rows, or on all rows after the first 200. `cpu_s` is the CPU time of learning, on
streams of answering, too; of CapyMOA that of its whole process. `bytes` are those of the rows held at once, at 4 a
feature and 9 more, or of a model of fixed size; River counts its own, and of CapyMOA it is what the heap shrinks by
without it. One thread each. The machine may be shared: compare CPU seconds within one table, and not closely.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from consumers.evaluate.predict_then_train import PrequentialPlan, PrequentialRow, judged_row, memories, run
from consumers.evaluate.predict_then_train import Stream as Labeled
from consumers.evaluate.prequential_contenders import Answers, CoresetContender, SgdContender
from streamsvm.branches.events.features.columns import FeatureColumns, columns_of
from streamsvm.branches.events.features.inference import proposal
from streamsvm.branches.events.options import recipe_from
from streamsvm.config import PointsConfig, SvmConfig
from streamsvm.estimators.evaluation import SGD_SETTINGS, probability_scores, scores, split
from streamsvm.field_paths import path_of
from streamsvm.points import Points
from tests.benchmarks import kernels, peers
from tests.benchmarks.changing import Stream, hyperplane, sea, turned
from tests.benchmarks.tables import CREDIT, ELECTRICITY
from tests.benchmarks.thresholds import load
from tests.benchmarks.worth_environment import Others, Told, make_peers

Part = Literal["shuffled", "streams"]
TEST_SHARE: Final = 0.2
STREAM_ROWS: Final = 50_000
"""Of each stream: ensembles of trees take minutes for as many."""
LEAF: Final = 200
WARM_ROWS: Final = 4_000
"""That are learned once, unmeasured, so that nothing is compiled while a clock runs."""
INFERRED_ROWS: Final = 20_000
PORTION: Final = 10_000
LABEL: Final = "y"
NAMES_OF: Final[Mapping[str, Sequence[str]]] = {"credit_default": CREDIT, "elec2": ELECTRICITY}

SHUFFLED: Final = peers.SETS
COST: Final[Mapping[Part, Mapping[str, float]]] = {
    "shuffled": {
        "streamsvm": 1,
        "sgd": 1,
        "svm_all": 2,
        "lightgbm": 3,
        "hist_gb": 5,
        "rbf": 7,
        "infer": 9,
        "river": 10,
        "rbf_tuned": 30,
    },
    "streams": {
        "no_change": 0.1,
        "sgd": 2,
        "window": 10,
        "decay": 10,
        "adaptive": 15,
        "moa_forest": 50,
        "moa_patches": 60,
        "window_rbf": 60,
        "decay_rbf": 60,
        "adaptive_rbf": 60,
        "lightgbm": 100,
        "forest": 200,
        "moa_sgbt": 250,
    },
}
"""The contenders of each part, and roughly how their CPU times a row compare: the order of the cells."""
THEIRS: Final = frozenset({"lightgbm", "river", "forest", "moa_forest", "moa_patches", "moa_sgbt"})


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
    bytes: int
    load: float

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What it is of."""
        return self.part, self.set, self.contender, self.trial


@dataclass(frozen=True, slots=True)
class Job:
    """A cell that is to be measured."""

    part: Part
    set: str
    contender: str
    trial: int

    @property
    def key(self) -> tuple[str, str, str, int]:
        """As of the cell."""
        return self.part, self.set, self.contender, self.trial


# ------------------------------------------------------------------------------------------------------------- shuffled


@dataclass(frozen=True, slots=True)
class Learned:
    """What a contender made of training rows: answers to the held-out ones, CPU seconds, and bytes held."""

    decision: Any
    positive: Any
    cpu_s: float
    bytes: int


def _of_peers(made: peers.Answer, dimension: int) -> Learned:
    fixed = 0 if made.points else 8 * (dimension + 1)
    held = made.points * PointsConfig(dimension=dimension).point_bytes + fixed
    return Learned(made.decision, made.positive, made.seconds + made.choosing_s, held)


def infer(train: Points, test: Points, seed: int, names: Sequence[str]) -> Learned:
    """Learn features as `streamsvm features infer` proposes them; making events of rows is not timed."""
    plain = [
        bool((np.concatenate((own, other)) % 1 == 0).all()) for own, other in zip(train.X.T, test.X.T, strict=True)
    ]
    given = list(events(train.take(slice(INFERRED_ROWS)), names, plain))
    begun = time.process_time()
    made = proposal(given, path_of(LABEL))
    assert made.label is not None
    assert made.label[1:] == (-1, 1)
    features = {str(one.path[0]): dict(one.options) for one in made.fields if one.options is not None}
    recipe = recipe_from(features, {"label": {"field": LABEL, "negative": [-1], "positive": [1]}})
    columns, seconds = columns_of(recipe), time.process_time() - begun
    learnable, spent, rejected = evaluated(columns, train, names, plain)
    answerable, _, unknown = evaluated(columns, test, names, plain)
    kept = learnable.take(np.flatnonzero(~rejected))
    weight = {} if made.rare is None else {"class_weight": "balanced"}
    answer = _of_peers(peers.streamsvm(kept, answerable, seed, **weight), columns.dimension)
    decision = np.where(unknown, 0.0, answer.decision)
    return Learned(decision, np.where(unknown, 0.5, answer.positive), answer.cpu_s + seconds + spent, answer.bytes)


def evaluated(columns: FeatureColumns, points: Points, names: Sequence[str], plain: Sequence[bool]) -> Evaluated:
    """Return the features of rows, the CPU seconds of making them of events, and which rows are rejected, (n,)."""
    parts, seconds, rejected = [], 0.0, np.zeros(len(points), np.bool_)
    for start in range(0, len(points), PORTION):
        portion = list(events(points.take(slice(start, start + PORTION)), names, plain))
        begun = time.process_time()
        found = columns.of_events(portion)
        parts.append(found.X.astype(np.float32))
        seconds += time.process_time() - begun
        rejected[[start + row for row in found.faults]] = True
    X = np.concatenate(parts)
    X[rejected] = 0.0
    return replace(points, X=X), seconds, rejected


Evaluated = tuple[Points, float, NDArray[np.bool_]]


def events(points: Points, names: Sequence[str], plain: Sequence[bool]) -> Iterator[dict[str, Any]]:
    """Yield rows as events; numbers of a column that has no decimals are written without."""
    columns = [
        column.astype(np.int64 if is_plain else np.float64).tolist()
        for column, is_plain in zip(points.X.T, plain, strict=True)
    ]
    for *values, label in zip(*columns, points.y.tolist(), strict=True):
        yield {**dict(zip(names, values, strict=True)), LABEL: label}


def rbf_tuned(train: Points, test: Points, seed: int) -> Learned:
    """Learn a tuned kernel machine at 64 MB."""
    made = kernels.ours(train, test, kernels.BYTES, seed, {})
    return Learned(made.decision, made.positive, made.seconds, made.bytes)


def learned(name: str, data: str, train: Points, test: Points, trial: int, others: Others | None) -> Learned:
    """Let one contender of shuffled sets learn."""
    if name in THEIRS:
        assert others is not None
        told = others.fit(name, train, test, trial)
        row = PointsConfig(dimension=train.dimension).point_bytes
        held = len(train) * row if name == "lightgbm" else told.bytes or 8 * (train.dimension + 1)
        return Learned(told.decision, told.positive, told.seconds, held)
    if name == "infer":
        return infer(train, test, trial, NAMES_OF.get(data) or [f"x{at}" for at in range(train.dimension)])
    if name == "rbf_tuned":
        return rbf_tuned(train, test, trial)
    contender = peers.OURS[{"rbf": "streamsvm_rbf"}.get(name, name)]
    return _of_peers(contender(train, test, trial), train.dimension)


def shuffled(job: Job, points: Points, others: Others | None, warm: set[str]) -> Cell:
    """Measure a cell of shuffled rows."""
    train, test = split(points, TEST_SHARE, job.trial)
    if job.contender not in THEIRS | warm:
        warm.add(job.contender)
        learned(job.contender, job.set, train.take(slice(WARM_ROWS)), test.take(slice(WARM_ROWS)), job.trial, others)
    made = learned(job.contender, job.set, train, test, job.trial, others)
    found = scores(test, made.decision)
    return Cell(
        **asdict(job),
        rows=len(train),
        dimension=train.dimension,
        accuracy=found.accuracy,
        balanced_accuracy=found.balanced_accuracy,
        auc=found.auc,
        average_precision=found.average_precision,
        log_loss=probability_scores(test, made.positive).log_loss,
        cpu_s=made.cpu_s,
        bytes=made.bytes,
        load=os.getloadavg()[0],
    )


# -------------------------------------------------------------------------------------------------------------- streams


def plan_of(kernel: Literal["linear", "rbf"], seed: int) -> PrequentialPlan:
    """Return the plan of all contenders."""
    return PrequentialPlan(leaf_rows=LEAF, svm=SvmConfig(kernel=kernel), seed=seed)


def followed(name: str, stream: Labeled, seed: int, others: Others | None) -> tuple[PrequentialRow, int]:
    """Let one contender follow a stream; return how it did, and the bytes it held."""
    kernel: Literal["linear", "rbf"] = "rbf" if name.endswith("_rbf") else "linear"
    plan, points, d = plan_of(kernel, seed), stream.points, stream.points.dimension
    if name in THEIRS:
        assert others is not None
        told = others.follow(name, points.X, points.y, LEAF, LEAF, seed)
        row = judged_row(name, Answers(told.decision, told.positive), stream, plan)
        return replace(row, cpu_seconds=told.seconds), _held(told, d)
    if name == "no_change":
        known = np.arange(len(points)) // LEAF * LEAF  # labels that are known before each row
        newest = np.concatenate((points.y[:1] * 0 - 1, points.y))[known].astype(np.float64)
        return judged_row(name, Answers(newest, np.full(len(points), np.nan)), stream, plan), 1
    if name == "sgd":
        config = plan.config(d, "all")
        rows = [run(name, SgdContender(config, one), stream, plan)[0] for one in SGD_SETTINGS]
        return max(rows, key=lambda row: row.accuracy), 8 * (3 * d + 1)
    config = {memory: own for memory, _, own in memories(d, plan)}[name.removesuffix("_rbf")]
    contender = CoresetContender(config, LEAF)
    row, _ = run(name, contender, stream, plan)
    return row, contender.points_held * config.points.point_bytes


def _held(told: Told, dimension: int) -> int:
    return told.bytes if told.bytes is not None else 8 * (dimension + 1)


def streamed(job: Job, stream: Stream, others: Others | None, warm: set[str]) -> Cell:
    """Measure a cell of a stream in its order."""
    X, y, _ = stream
    points = Points(X, y, np.ones(len(y)))
    if job.contender not in THEIRS | warm:
        warm.add(job.contender)
        followed(job.contender, Labeled(points.take(slice(WARM_ROWS)), 2), job.trial, others)
    row, held = followed(job.contender, Labeled(points, 2), job.trial, others)
    return Cell(
        **asdict(job),
        rows=len(y),
        dimension=X.shape[1],
        accuracy=row.accuracy,
        balanced_accuracy=row.balanced_accuracy,
        auc=row.auc,
        average_precision=row.average_precision,
        log_loss=row.log_loss,
        cpu_s=row.cpu_seconds,
        bytes=held,
        load=os.getloadavg()[0],
    )


def _turned(name: str, data: Path, rows: int, trial: int) -> Stream:
    X, y = load(name, data)
    return turned(X.astype(np.float64), y, rows, seed=trial)


def _elec2(data: Path, rows: int) -> Stream:
    X, y = load("elec2", data)
    return X.astype(np.float64)[:rows], y[:rows], []


STREAMS: Final = ("elec2", "RTG", "Hyperplane", "SEA", "ijcnn1", "cod_rna")


def stream_of(name: str, data: Path, rows: int, trial: int, others: Others | None) -> Stream:
    """Return a stream; RTG is made by the other interpreter."""
    made: Mapping[str, Callable[[], Stream]] = {
        "elec2": lambda: _elec2(data, rows),
        "Hyperplane": lambda: hyperplane(rows, trial),
        "SEA": lambda: sea(rows, trial),
        "ijcnn1": lambda: _turned("ijcnn1", data, rows, trial),
        "cod_rna": lambda: _turned("cod_rna", data, rows, trial),
    }
    if name == "RTG":
        assert others is not None
        return others.make("RTG", rows, trial)
    return made[name]()


# ------------------------------------------------------------------------------------------------------------ the cells


def read_cells(file: Path) -> list[Cell]:
    """Return the cells that a file has; none if there is no file."""
    return [Cell(**one) for one in json.loads(file.read_text())["cells"]] if file.exists() else []


def write_cells(file: Path, cells: Sequence[Cell]) -> None:
    """Write all cells, so that a kill leaves the file as it was, or as it is to be."""
    aside = file.with_name(f"{file.name}.new")
    aside.write_text(json.dumps({"cells": [asdict(one) for one in cells]}, indent=1) + "\n")
    aside.replace(file)


def jobs(parts: Sequence[Part], sets: Sequence[str], contenders: Sequence[str], trials: int) -> list[Job]:
    """Return the cells that are asked for, the cheapest of each trial first; no names: all."""
    of: Mapping[Part, Sequence[str]] = {"shuffled": SHUFFLED, "streams": STREAMS}
    found = [
        Job(part, data, name, trial)
        for trial in range(trials)
        for part in parts
        for name in COST[part]
        for data in of[part]
        if (not sets or data in sets) and (not contenders or name in contenders)
    ]
    return sorted(found, key=lambda job: (job.trial, COST[job.part][job.contender]))


def measure(
    wanted: Sequence[Job],
    data: Path,
    rows: int,
    others: Others | None,
    cells: Sequence[Cell],
    say: Callable[[str], None],
) -> Iterator[Cell]:
    """Measure what is wanted and not among the cells; what can't be is said."""
    done, warm, said = {one.key for one in cells}, set[str](), set[str]()
    load_set = cache(lambda name: _points(name, data))
    load_stream = cache(lambda name, trial: stream_of(name, data, rows, trial, others))
    for job in wanted:
        if job.key in done:
            continue
        if others is None and (job.contender in THEIRS or (job.part, job.set) == ("streams", "RTG")):
            if "peers" not in said:
                say("without --peers PYTHON there are no RTG, and no " + ", ".join(sorted(THEIRS)))
            said.add("peers")
            continue
        try:
            if job.part == "shuffled":
                yield shuffled(job, load_set(job.set), others, warm)
            else:
                yield streamed(job, load_stream(job.set, job.trial), others, warm)
        except (ModuleNotFoundError, FileNotFoundError) as error:
            if str(error) not in said:
                say(f"{job.set}, {job.contender}: not measured, {error}")
            said.add(str(error))


def _points(name: str, data: Path) -> Points:
    X, y = load(name, data)
    return Points(X, y, np.ones(len(y)))


# ------------------------------------------------------------------------------------------------------------ the table

HEADING: Final = (
    f"{'part':<9} {'set':<15}{'contender':<13}{'trials':>7}{'accuracy':>9}{'balanced':>9}{'AUC':>8}{'AP':>8}"
    f"{'log loss':>9}{'CPU s':>9}{'kB':>10}"
)
FIGURES: Final = ("accuracy", "balanced_accuracy", "auc", "average_precision", "log_loss")


def lines(cells: Sequence[Cell], wanted: Sequence[Job]) -> Iterator[str]:
    """Yield the table: means over the trials, the best AUC of each set first, then what is missing."""
    yield HEADING
    groups: dict[tuple[str, str], dict[str, list[Cell]]] = {}
    for one in cells:
        groups.setdefault((one.part, one.set), {}).setdefault(one.contender, []).append(one)
    order = [("shuffled", name) for name in SHUFFLED] + [("streams", name) for name in STREAMS]
    for part, data in sorted(groups, key=order.index):
        of_set = groups[part, data].values()
        for own in sorted(of_set, key=lambda own: -(_mean(own, "auc") or 0.0)):
            figures = "".join(
                f"{'-' if value is None else f'{value:.4f}':>{9 if name in ('accuracy', *FIGURES[1::3]) else 8}}"
                for name in FIGURES
                for value in (_mean(own, name),)
            )
            seconds, held = statistics.fmean(one.cpu_s for one in own), max(one.bytes for one in own)
            yield (
                f"{part:<9} {data:<15}{own[0].contender:<13}{len(own):>7}{figures}{seconds:>9.2f}{held / 1e3:>10,.0f}"
            )
    there = {one.key for one in cells}
    missing: dict[tuple[str, str, int], list[str]] = {}
    for job in wanted:
        if job.key not in there:
            missing.setdefault((job.part, job.contender, job.trial), []).append(job.set)
    for (part, contender, trial), sets in missing.items():
        yield f"missing: {part}, {contender}, trial {trial}: {', '.join(sets)}"


def _mean(cells: Sequence[Cell], name: str) -> float | None:
    values = [value for one in cells if (value := getattr(one, name)) is not None]
    return statistics.fmean(values) if values else None


def markdown(cells: Sequence[Cell], part: Part, contenders: Mapping[str, str]) -> Iterator[str]:
    """Yield a table for README: the AUC of some contenders on each set, the best in bold; a dash where a cell lacks."""
    yield f"| AUC, {part} | " + " | ".join(contenders.values()) + " |"
    yield "|---|" + "---|" * len(contenders)
    for data in SHUFFLED if part == "shuffled" else STREAMS:
        own = {name: _mean([c for c in cells if c.key[:3] == (part, data, name)], "auc") for name in contenders}
        best = max((f"{value:.3f}" for value in own.values() if value is not None), default="")
        told = ["-" if value is None else f"{value:.3f}" for value in own.values()]
        yield f"| `{data}` | " + " | ".join(f"**{one}**" if one == best else one for one in told) + " |"


README: Final[Mapping[Part, Mapping[str, str]]] = {
    "shuffled": {"streamsvm": "streamsvm", "rbf_tuned": "RBF", "sgd": "SGD, tuned", "lightgbm": "LightGBM"},
    "streams": {"adaptive": "streamsvm", "moa_sgbt": "SGBT", "moa_forest": "adaptive random forest", "sgd": "SGD"},
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing, and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.worth", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="has NAME.npz files with X and y")
    parser.add_argument("--only", choices=("shuffled", "streams"), help="one part")
    parser.add_argument("--sets", nargs="+", default=[], metavar="NAME", help="some sets or streams")
    parser.add_argument("--contenders", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--trials", type=int, default=1)
    parser.add_argument("--rows", type=int, default=STREAM_ROWS, help="most rows of a stream (default %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="has the cells measured so far, and gets the others")
    parser.add_argument("--into", type=Path, metavar="FILE", help="also write the table")
    parser.add_argument("--peers", default="", metavar="PYTHON", help="interpreter of the others' environment")
    parser.add_argument("--make-peers", type=Path, metavar="DIR", help="make that environment in a folder, and end")
    asked = parser.parse_args(arguments)
    if asked.make_peers is not None:
        make_peers(asked.make_peers)
        return
    if asked.data is None or asked.json is None:
        parser.error("--data DIR and --json FILE are needed")
    names = {name for part in COST.values() for name in part}
    for option, given, known in (
        ("--sets", asked.sets, {*SHUFFLED, *STREAMS}),
        ("--contenders", asked.contenders, names),
    ):
        if unknown := sorted(set(given) - known):
            parser.error(f"{option} {' '.join(unknown)}: unknown; there are {', '.join(sorted(known))}")
    parts: list[Part] = [asked.only] if asked.only else ["shuffled", "streams"]
    wanted, cells = jobs(parts, asked.sets, asked.contenders, asked.trials), read_cells(asked.json)
    say = partial(print, flush=True)
    with ExitStack() as stack:
        stack.enter_context(threadpool_limits(1))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        others = stack.enter_context(Others(asked.peers)) if asked.peers else None
        for cell in measure(wanted, asked.data, asked.rows, others, cells, say):
            cells.append(cell)
            write_cells(asked.json, cells)
            say(
                f"{cell.part}, {cell.set}, {cell.contender}, trial {cell.trial}: accuracy {cell.accuracy:.4f}, "
                f"AUC {cell.auc or float('nan'):.4f}, {cell.cpu_s:.2f} CPU s, load {cell.load:.1f}"
            )
    tables = (line for part in parts for line in ("", *markdown(cells, part, README[part])))
    text = "\n".join([*lines(cells, wanted), *tables])
    say(text)
    if asked.into is not None:
        asked.into.write_text(text + "\n")


if __name__ == "__main__":
    main()

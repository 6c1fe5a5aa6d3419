"""Rows erased of what a trainer learned: what it costs, and what it leaves.

``python -m tests.benchmarks.deletion --data DIR [--sets NAME ...] [--rows N] [--share S,...] [--where random,margin]
[--json]``: `DIR` has npz files of X and y; the set `generated` is made here. By default sets are whole, and the
generated one has 10,000,000 rows. Each is shuffled and learned; then a share of its rows is erased, drawn at random, or
those nearest the margin of the model of everything, which are the ones that matter. With `--json` the output is one
object; a row of its `rows` has

- `gap_before`: of the model that still has them, over the rows that are left;
- `gap_after`: of the model that is learned again without them, as after `streamsvm history forget`;
- `identical`: whether what is learned is byte for byte that of a stream in which the rows were rejected when they came;
- `seconds`: learning again.

Gaps are to a proven lower bound of the objective over the rows that are left.

`membership` is an attack on random deletions: a tenth of the set never was in the stream, and somebody ranks deleted
rows and these by their loss, the smaller the likelier a member. Each figure is the area under the curve of that ranking
with its standard error; 0.5 is chance:

- `before`: by the model that still has the rows: what anybody learns who has that version;
- `after`: by the model without them: what is left for readers once the others are retired;
- `both`: by how much the loss grows from one to the other: deletion inference (Chen et al. 2021), open to whoever keeps
  the version before; `both_of_members` is the same against rows that stayed.

``python -m tests.benchmarks.deletion --one-row [--rows N] [--every N] [--age N,...]`` erases single rows of the
generated set, at several ages, of a trainer whose checkpoints come every so many rows and are kept at doubling
distances (`checkpoint.keep_bytes`). `rows_read` and `seconds` are what that takes, with reading the kept files, and
without the broker; `anew_seconds` is learning everything again, and `identical` says whether both come to the same
bytes.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from scipy.stats import rankdata

from streamsvm.branches.history.erased import Erased
from streamsvm.branches.history.erasure import emptied
from streamsvm.branches.history.past import Past
from streamsvm.checkpoint.directory import CheckpointDirectory
from streamsvm.checkpoint.disk import FileSystem
from streamsvm.checkpoint.format import encode
from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.learning.learner import Learner
from streamsvm.learning.recipe import Made, make
from streamsvm.model.kernels import LinearKernel
from streamsvm.model.left_out import masked
from streamsvm.model.machine import LinearMachine
from streamsvm.model.pointers import Head
from streamsvm.model.version import PartitionCut
from streamsvm.points import Points, Position, Rows, Times
from streamsvm.svm.feasible import balanced
from streamsvm.svm.problem import Problem
from streamsvm.svm.solvers import StdaSolver

SHARES: Final = (0.001, 0.01, 0.1)
WHERES: Final = ("random", "margin")
GENERATED: Final = "generated"
DIMENSION: Final = 10
"""Of the generated set."""
BATCH: Final = 4_000
BASE: Final = Position(0)


def config_of(points: Points) -> ModelConfig:
    """Return the configuration under which a set is learned."""
    return ModelConfig(points=PointsConfig(dimension=points.dimension), svm=SvmConfig(alpha=1e-4))


def learn(learner: Learner, points: Points, start: int, end: int, gone: np.ndarray, *, reject: bool = True) -> None:
    """Learn a range of a set; rows that are gone were rejected when they came, or are masked."""
    forgotten = {0: frozenset(map(Position, gone.tolist()))}
    for at in range(start, end, BATCH):
        offset = np.arange(at, min(at + BATCH, end))
        n = len(offset)
        rows = Rows(
            partition=0,
            offset=offset,
            row=np.zeros(n, np.int64),
            last=np.ones(n, np.bool_),
            times=Times.of(offset),
            accepted=~np.isin(offset, gone) if reject else np.ones(n, np.bool_),
            points=points.take(offset),
            leader_epoch=np.full(n, -1),
        )
        rows = rows if reject else masked(rows, forgotten)
        while len(rows):
            rows = rows.slice(learner.learn(rows), len(rows))
            if learner.cut_due:
                learner.decline_cut()


def learned(points: Points, gone: np.ndarray, *, reject: bool = True) -> Learner:
    """Return what has learned a whole set."""
    learner = Learner(config_of(points), {0: BASE}, len(points))
    learn(learner, points, 0, len(points), gone, reject=reject)
    return learner


def measured(
    name: str, points: Points, shares: Sequence[float] = SHARES, wheres: Sequence[str] = WHERES
) -> Iterator[dict[str, Any]]:
    """Yield a row for each share and choice of rows, with an attack where they are random ones."""
    kept_out = len(points) // 10
    never, points = points.take(slice(0, kept_out)), points.take(slice(kept_out, len(points)))
    config = config_of(points)
    before = make(learned(points, np.empty(0, np.int64)).cut(), config)
    model = before.trained.model
    assert isinstance(model.machine, LinearMachine)
    margin = np.abs(model.scaler.transform(points.X) @ model.machine.coefficients + model.machine.intercept)
    random = np.random.default_rng(0)
    for where in wheres:
        order = random.permutation(len(margin)) if where == "random" else np.argsort(margin, kind="stable")
        for share in shares:
            gone = np.sort(order[: max(1, int(share * len(order)))])
            left = points.take(np.setdiff1d(np.arange(len(margin)), gone))
            begun = time.perf_counter()
            without = learned(points, gone, reject=False)
            seconds = time.perf_counter() - begun
            states = [encode(snapshot_of(config, one)) for one in (without, learned(points, gone))]
            after, over = make(without.cut(), config), _Over(left)
            yield {
                "set": name,
                "rows": len(points),
                "share": share,
                "where": where,
                "gap_before": over(before),
                "gap_after": over(after),
                "identical": states[0] == states[1],
                "seconds": round(seconds, 3),
                **(attacked(before, after, points.take(gone), never, left) if where == "random" else {}),
            }


def snapshot_of(config: ModelConfig, learner: Learner, sequence: int = 1) -> Snapshot:
    """Return a checkpoint of what was learned."""
    return Snapshot(
        name="m",
        incarnation=1,
        sequence=sequence,
        topic="t",
        topic_id="",
        base={0: BASE},
        configuration=config.canonical(),
        configuration_sha256=config.sha256(),
        build={},
        head=None,
        learner=learner.state(),
        pending=None,
    )


def one_row(rows: int, every: int, ages: Sequence[int] = ()) -> Iterator[dict[str, Any]]:
    """Yield what erasing single rows takes."""
    points = points_of(Path(), GENERATED, rows)
    ages = ages or sorted({min(rows - 1, 10**power) for power in range(3, len(str(rows)))} | {rows // 2, rows - 1})
    with TemporaryDirectory() as place:
        trainer = Trained(points, Path(place), every)
        for age in ages:
            yield trainer.without(rows - 1 - age)


class Trained:
    """A set that a learner with defaults has learned, with the checkpoints that it kept."""

    def __init__(self, points: Points, place: Path, every: int) -> None:
        self.points, self._past = points, Past(FileSystem(place), "m")
        self.config = config_of(points)
        learner = Learner(self.config, {0: BASE}, len(points))
        with CheckpointDirectory(FileSystem(place), 3) as directory:
            directory.retire = lambda disk, name: Past(disk, "m").keep(name, 1 << 40)
            for sequence, at in enumerate(range(0, len(points), every), 1):
                learn(learner, points, at, min(at + every, len(points)), np.empty(0, np.int64))
                directory.save(snapshot_of(self.config, learner, sequence))
            self._generations = [each.snapshot for each in directory.generations() if each.snapshot is not None]
        files = list(place.glob("*.kept"))
        self.files, self.bytes = len(files), sum(file.stat().st_size for file in files)

    def without(self, gone: int) -> dict[str, Any]:
        """Return what erasing a row takes, and learning everything again."""
        erased, end = (
            Erased(topic="t", topic_id="", incarnation=1, continues=1, rows=((0, gone, 0, 1),)),
            len(self.points),
        )
        cut = (PartitionCut(0, end, 0, -1),)
        head = Head(number=1, incarnation=1, cut=cut, sha256="", offset=0, training_set_sha256="", build={}, links=())
        states, taken, read = [], [], 0
        for earlier in (chain(self._generations, self._past.snapshots()), ()):
            begun = time.perf_counter()
            empty = emptied(self._generations[0], erased, head, earlier)
            learner, start = Learner(self.config, {0: BASE}, end), empty.positions[0].offset
            learner.restore(empty.learner)
            learn(learner, self.points, start, end, np.array([gone]))
            taken.append(time.perf_counter() - begun)
            states.append(encode(snapshot_of(self.config, learner)))
            read = read or end - start
        return {
            "rows": end,
            "age": end - 1 - gone,
            "rows_read": read,
            "seconds": round(taken[0], 3),
            "anew_seconds": round(taken[1], 3),
            "identical": states[0] == states[1],
            "files": self.files,
            "bytes": self.bytes,
        }


def attacked(before: Made, after: Made, gone: Points, never: Points, left: Points) -> dict[str, Any]:
    """Return what rankings by losses tell of deleted rows."""
    of = {
        name: (loss(before, own), loss(after, own)) for name, own in (("gone", gone), ("never", never), ("left", left))
    }
    rise = {name: late - early for name, (early, late) in of.items()}
    return {
        "membership": {
            "before": area(-of["gone"][0], -of["never"][0]),
            "after": area(-of["gone"][1], -of["never"][1]),
            "both": area(rise["gone"], rise["never"]),
            "both_of_members": area(rise["gone"], rise["left"]),
        }
    }


def loss(made: Made, points: Points) -> np.ndarray:
    """Return the hinge loss of each row."""
    decided = made.trained.model.decision_function(points.X)
    return np.maximum(0.0, 1.0 - points.y * decided)


def area(positive: np.ndarray, negative: np.ndarray) -> tuple[float, float]:
    """Return the area under the curve of a ranking, ties counted half, and its standard error where it is chance."""
    m, n = len(positive), len(negative)
    ranks = rankdata(np.concatenate([positive, negative]))[:m]
    found = (float(ranks.sum()) - m * (m + 1) / 2) / (m * n)
    return round(found, 4), round(math.sqrt((m + n + 1) / (12 * m * n)), 4)


class _Over:
    """Gaps of machines over the rows that are left, under C of these; machines of one scaler share the lower bound."""

    def __init__(self, left: Points) -> None:
        self._left, self._C = left, 1.0 / (1e-4 * float(left.weight.sum()))
        self._least: dict[bytes, float] = {}

    def __call__(self, made: Made) -> float:
        trained, left = made.trained, self._left
        scaler = trained.model.scaler
        key = scaler.mean.tobytes() + scaler.scale.tobytes()
        if key not in self._least:
            self._least[key] = least_objective(scaler.transform(left.X), left.y, self._C * left.weight)
        made = replace(made, machines=(replace(trained, fit=replace(trained.fit, C=self._C)),))
        return gap(made, left, self._least[key])


def gap(made: Made, points: Points, least: float) -> float:
    """Return how far a machine is from the best over points, over its own scaler and C, at most."""
    fit, model = made.trained.fit, made.trained.model
    assert isinstance(model.machine, LinearMachine)
    Z, upper = model.scaler.transform(points.X), fit.C * points.weight
    margins = points.y * (Z @ model.machine.coefficients + model.machine.intercept)
    primal = model.machine.coefficients @ model.machine.coefficients / 2 + upper @ np.maximum(0.0, 1.0 - margins)
    return float(primal / least - 1.0)


def least_objective(Z: np.ndarray, y: np.ndarray, upper: np.ndarray) -> float:
    """Return what the objective is at least, by dual feasible multipliers."""
    problem = Problem(Z=Z, y=y, upper=upper, kernel=LinearKernel(), tolerance=1e-6, max_iterations=10_000_000)
    alpha = StdaSolver().solve(problem).alpha
    assert alpha is not None
    beta = balanced(y, np.clip(alpha, 0.0, upper))
    w = (beta * y) @ Z
    return float(beta.sum() - w @ w / 2)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", nargs="+", default=["cod_rna", "ijcnn1", "skin"])
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--share", type=_numbers, default=SHARES)
    parser.add_argument("--where", type=lambda text: tuple(text.split(",")), default=WHERES)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one-row", action="store_true")
    parser.add_argument("--every", type=int, default=50_000, help="rows between two checkpoints")
    parser.add_argument("--age", type=lambda text: tuple(map(int, text.split(","))), default=())
    given = parser.parse_args()
    if given.one_row:
        for row in one_row(given.rows or 1_000_000, given.every, given.age):
            print(json.dumps(row), flush=True)
        return
    if given.data is None:
        parser.error("--data is required")
    rows = []
    for name in given.sets:
        for row in measured(name, points_of(given.data, name, given.rows), given.share, given.where):
            rows.append(row)
            if not given.json:
                print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    if given.json:
        print(json.dumps({"rows": rows}, indent=1))


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(map(float, text.split(",")))


def points_of(data: Path, name: str, rows: int | None) -> Points:
    """Return so many points of a set, shuffled; by default all."""
    if name == GENERATED:
        rows = rows or 10_000_000
        random = np.random.default_rng(1)
        y = np.where(random.random(rows) < 0.5, 1, -1).astype(np.int8)
        X = random.standard_normal((rows, DIMENSION), np.float32)
        X[:, :3] += 0.7 * y[:, None].astype(np.float32)
        return Points(X, y, np.ones(rows))
    with np.load(data / f"{name}.npz") as stored:
        order = np.random.default_rng(1).permutation(len(stored["y"]))[:rows]
        X, y = stored["X"][order].astype(np.float32), stored["y"][order]
    return Points(X, np.where(y == y.max(), 1, -1).astype(np.int8), np.ones(len(X)))


if __name__ == "__main__":
    main()

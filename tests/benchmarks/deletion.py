"""Rows deleted from an archive: what it costs, what it leaves, and what a tombstone alone would leave.

``python -m tests.benchmarks.deletion --data DIR [--sets NAME ...] [--rows N] [--share S,...] [--where random,margin]
[--json]``: `DIR` has npz files of X and y; the set `generated` is made here. By default sets are whole, and the
generated one has 10,000,000 rows. Each is shuffled and recorded into an archive; then a share of its rows is deleted,
drawn at random, or those nearest the margin of the model of everything, which are the ones that matter. With `--json`
the output is one object; a row of its `rows` has

- `gap_before`: of the model that still has them, over the rows that are left;
- `gap_tombstone`: of the model without those of them that buckets hold, and nothing made again; a point that
  has the values of rows that stay, too, keeps their share of its weight;
- `gap_rebuilt`: of the model of buckets that were made again without them, as `streamsvm history forget` makes them;
- `identical`: whether these are byte for byte the buckets of a stream in which the rows were rejected when they came;
- `seconds`, `retrain_seconds`: making those buckets again, and recording everything again; the same work where every
  span has lost a row, as at all these shares of a shuffled set (`--one-row` is the other end).

Gaps are to a proven lower bound of the objective over the rows that are left.

`membership` is an attack on random deletions: a tenth of the set never was in the stream, and somebody ranks deleted
rows and these by their loss, the smaller the likelier a member. Each figure is the area under the curve of that ranking
with its standard error; 0.5 is chance:

- `before`: by the model that still has the rows: what anybody learns who has that version;
- `after`: by the model of rebuilt buckets: what is left for readers once the others are retired;
- `both`: by how much the loss grows from one to the other: deletion inference (Chen et al. 2021), open to whoever keeps
  the version before; `both_of_members` is the same against rows that stayed.

``python -m tests.benchmarks.deletion --one-row [--rows N] [--every N] [--age N,...]`` erases single rows of the
generated set, at several ages. `of` is `trainer`, whose checkpoints come every so many rows and are kept at doubling
distances (`checkpoint.keep_bytes`), or `archive`, where the span of the row and the buckets above it are made again.
`rows_read` and `seconds` are what that takes, with reading the kept files, and without the broker; `anew_seconds` is
learning everything again, and `identical` says whether both come to the same bytes.
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
from streamsvm.branches.history.names import Node
from streamsvm.branches.history.past import Past
from streamsvm.branches.history.recorder import Recorder, missing_parents, parent_of
from streamsvm.branches.history.stretches import Piece, archived, cut_of
from streamsvm.checkpoint.directory import CheckpointDirectory
from streamsvm.checkpoint.disk import FileSystem
from streamsvm.checkpoint.format import encode
from streamsvm.checkpoint.records import encode_bucket
from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset.structure import Bucket
from streamsvm.learning.learner import Learner
from streamsvm.learning.recipe import Made, make
from streamsvm.model.left_out import masked
from streamsvm.model.machine import LinearMachine
from streamsvm.model.pointers import Head
from streamsvm.model.version import PartitionCut
from streamsvm.points import Points, Position, Rows, Times
from tests.benchmarks.past import BASE, BATCH, gap, least_objective

SHARES: Final = (0.001, 0.01, 0.1)
WHERES: Final = ("random", "margin")
GENERATED: Final = "generated"
DIMENSION: Final = 10
"""Of the generated set."""
LEAF: Final = 1_000
SPAN_LEAVES: Final = 4


class Archived:
    """A set in an archive in memory; whole spans of it, so that all of it stands in buckets."""

    def __init__(self, points: Points, config: ModelConfig, archive: ModelConfig) -> None:
        self.config, self.archive = config, archive
        self.span = archive.coreset.span_rows or 1
        self.points = points.take(slice(0, len(points) // self.span * self.span))
        begun = time.perf_counter()
        self.nodes = self.recorded(range(0, len(self.points), self.span), np.empty(0, np.int64), reject=False)
        self._join(self.nodes)
        self.seconds = time.perf_counter() - begun

    def rows(self, start: int, gone: np.ndarray, *, reject: bool) -> Iterator[Rows]:
        """Yield the rows of a span; those that are gone are masked, or were rejected when they came."""
        gone = gone[slice(*np.searchsorted(gone, [start, start + self.span]))]
        forgotten = {0: frozenset(map(Position, gone.tolist()))}
        for at in range(start, start + self.span, BATCH):
            offset = np.arange(at, min(at + BATCH, start + self.span))
            n = len(offset)
            rows = Rows(
                partition=0,
                offset=offset,
                row=np.zeros(n, np.int64),
                last=np.ones(n, np.bool_),
                times=Times.of(offset),
                accepted=~np.isin(offset, gone) if reject else np.ones(n, np.bool_),
                points=self.points.take(offset),
                leader_epoch=np.full(n, -1),
            )
            yield rows if reject else masked(rows, forgotten)

    def recorded(self, starts: Sequence[int], gone: np.ndarray, *, reject: bool) -> dict[Node, Bucket]:
        """Return the buckets of spans."""
        found = {}
        for start in starts:
            recorder = Recorder(0, BASE, self.archive, Position(start), start)
            for rows in self.rows(start, gone, reject=reject):
                for bucket in recorder.learn(rows):
                    found[Node.of(0, BASE, bucket, encode_bucket(bucket))] = bucket
        return found

    def _join(self, nodes: dict[Node, Bucket]) -> None:
        while pairs := missing_parents(list(nodes)):
            for older, newer in pairs:
                bucket = parent_of(nodes[older], nodes[newer], 0, self.archive)
                nodes[Node.of(0, BASE, bucket, encode_bucket(bucket))] = bucket

    def without(self, gone: np.ndarray) -> tuple[dict[Node, Bucket], float]:
        """Return the buckets with those that hold such rows made again, and the seconds."""
        begun = time.perf_counter()
        hit = {node for node in self.nodes if np.diff(np.searchsorted(gone, [node.start.offset, node.end.offset]))[0]}
        left = {node: bucket for node, bucket in self.nodes.items() if node not in hit}
        left |= self.recorded(sorted(node.start.offset for node in hit if node.level == 1), gone, reject=False)
        self._join(left)
        return left, time.perf_counter() - begun

    def made(self, nodes: dict[Node, Bucket], drop: Deleted | None = None) -> Made:
        """Return the model of everything; without held points that are to be dropped."""
        found, at = [], Position(0)
        end = Position(len(self.points))
        while at < end:
            node = max((node for node in nodes if node.start == at), key=lambda node: node.end)
            piece, at = Piece.of(nodes[node]), node.end
            if drop:
                share = drop.left(piece.points)
                points = piece.points.reweighted(piece.points.weight * share).take(share > 0.0)
                piece = replace(piece, points=points)
            found.append(piece)
        return make(cut_of({0: found}, self.config, self.archive), self.config)


class Deleted:
    """Rows by their values, since a held point says nothing of its place."""

    def __init__(self, points: Points, gone: np.ndarray) -> None:
        self._keys, self._gone = _keys(points), gone

    def left(self, held: Points) -> np.ndarray:
        """Return the share of the equal rows that is left, for each held point."""
        own, of = np.unique(_keys(held), return_inverse=True)

        def count(keys: np.ndarray) -> np.ndarray:
            at = np.minimum(np.searchsorted(own, keys), len(own) - 1)
            return np.bincount(at[own[at] == keys], minlength=len(own))

        every = count(self._keys)
        assert every.all()
        return (1.0 - count(self._keys[self._gone]) / every)[of]


def _keys(points: Points) -> np.ndarray:
    """Return a hash of values and label of each row: no two of so few rows meet by chance."""
    factors = np.random.default_rng(2).integers(1, 1 << 63, points.dimension + 1, np.uint64) * 2 + 1
    keys = points.y.astype(np.uint64) * factors[0]
    for column, factor in zip(np.ascontiguousarray(points.X.T, np.float32) + np.float32(0.0), factors[1:], strict=True):
        keys ^= keys >> np.uint64(29)
        keys += column.view(np.uint32) * factor
    return keys


def measured(
    name: str, points: Points, shares: Sequence[float] = SHARES, wheres: Sequence[str] = WHERES
) -> Iterator[dict[str, Any]]:
    """Yield a row for each share and choice of rows, and last of random ones an attack."""
    kept_out = len(points) // 10
    never, points = points.take(slice(0, kept_out)), points.take(slice(kept_out, len(points)))
    config = ModelConfig(points=PointsConfig(dimension=points.dimension), svm=SvmConfig(alpha=1e-4))
    archive = archived(config, leaf_rows=LEAF, span_rows=SPAN_LEAVES * LEAF, bucket_points=1_000)
    whole = Archived(points, config, archive)
    before = whole.made(whole.nodes)
    model = before.trained.model
    assert isinstance(model.machine, LinearMachine)
    margin = np.abs(model.scaler.transform(whole.points.X) @ model.machine.coefficients + model.machine.intercept)
    random = np.random.default_rng(0)
    for where in wheres:
        order = random.permutation(len(margin)) if where == "random" else np.argsort(margin, kind="stable")
        for share in shares:
            gone = np.sort(order[: max(1, int(share * len(order)))])
            left = whole.points.take(np.setdiff1d(np.arange(len(margin)), gone))
            drop = Deleted(whole.points, gone)
            nodes, seconds = whole.without(gone)
            begun = time.perf_counter()
            rejected = whole.recorded(range(0, len(whole.points), whole.span), gone, reject=True)
            whole._join(rejected)
            retrain = time.perf_counter() - begun
            rebuilt = whole.made(nodes)
            tombstone = whole.made(whole.nodes, drop)
            over = _Over(left)
            yield {
                "set": name,
                "rows": len(whole.points),
                "share": share,
                "where": where,
                "gap_before": over(before),
                "gap_tombstone": over(tombstone),
                "gap_rebuilt": over(rebuilt),
                "identical": nodes.keys() == rejected.keys(),
                "seconds": round(seconds, 3),
                "retrain_seconds": round(retrain, 3),
                **(attacked(before, rebuilt, whole.points.take(gone), never, left) if where == "random" else {}),
            }


def one_row(rows: int, every: int, ages: Sequence[int] = ()) -> Iterator[dict[str, Any]]:
    """Yield what erasing single rows takes a trainer, and an archive."""
    points = points_of(Path(), GENERATED, rows)
    ages = ages or sorted({min(rows - 1, 10**power) for power in range(3, len(str(rows)))} | {rows // 2, rows - 1})
    with TemporaryDirectory() as place:
        trainer = Trained(points, Path(place), every)
        for age in ages:
            yield {"of": "trainer", **trainer.without(rows - 1 - age)}
    config = ModelConfig(points=PointsConfig(dimension=DIMENSION), svm=SvmConfig(alpha=1e-4))
    archive = archived(config, leaf_rows=LEAF, span_rows=SPAN_LEAVES * LEAF, bucket_points=1_000)
    whole = Archived(points, config, archive)
    for age in ages:
        gone = np.array([max(0, len(whole.points) - 1 - age)])
        nodes, seconds = whole.without(gone)
        begun = time.perf_counter()
        rejected = whole.recorded(range(0, len(whole.points), whole.span), gone, reject=True)
        whole._join(rejected)
        yield {
            "of": "archive",
            "rows": len(whole.points),
            "age": age,
            "rows_read": whole.span,
            "seconds": round(seconds, 3),
            "anew_seconds": round(time.perf_counter() - begun, 3),
            "identical": nodes.keys() == rejected.keys(),
        }


class Trained:
    """A set that a learner with defaults has learned, with the checkpoints that it kept."""

    def __init__(self, points: Points, place: Path, every: int) -> None:
        self.points, self._past = points, Past(FileSystem(place), "m")
        self.config = ModelConfig(points=PointsConfig(dimension=points.dimension), svm=SvmConfig(alpha=1e-4))
        learner = Learner(self.config, {0: BASE}, len(points))
        with CheckpointDirectory(FileSystem(place), 3) as directory:
            directory.retire = lambda disk, name: Past(disk, "m").keep(name, 1 << 40)
            for sequence, at in enumerate(range(0, len(points), every), 1):
                self._learn(learner, at, min(at + every, len(points)), -1)
                directory.save(self._snapshot(learner, sequence))
            self._generations = [each.snapshot for each in directory.generations() if each.snapshot is not None]
        files = list(place.glob("*.kept"))
        self.files, self.bytes = len(files), sum(file.stat().st_size for file in files)

    def _learn(self, learner: Learner, start: int, end: int, gone: int) -> None:
        for at in range(start, end, BATCH):
            offset = np.arange(at, min(at + BATCH, end))
            n = len(offset)
            rows = Rows(
                partition=0,
                offset=offset,
                row=np.zeros(n, np.int64),
                last=np.ones(n, np.bool_),
                times=Times.of(offset),
                accepted=offset != gone,
                points=self.points.take(offset),
                leader_epoch=np.full(n, -1),
            )
            while len(rows):
                rows = rows.slice(learner.learn(rows), len(rows))
                if learner.cut_due:
                    learner.decline_cut()

    def _snapshot(self, learner: Learner, sequence: int) -> Snapshot:
        return Snapshot(
            name="m",
            incarnation=1,
            sequence=sequence,
            topic="t",
            topic_id="",
            base={0: BASE},
            configuration=self.config.canonical(),
            configuration_sha256=self.config.sha256(),
            build={},
            head=None,
            learner=learner.state(),
            pending=None,
        )

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
            self._learn(learner, start, end, gone)
            taken.append(time.perf_counter() - begun)
            states.append(encode(self._snapshot(learner, 1)))
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

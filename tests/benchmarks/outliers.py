"""`coreset.max_leverage` on clean sets and on sets with a bad point: what the bound costs, and what it saves.

    python -m tests.benchmarks.outliers --data DIR [--sets htru2 a9a ...] [--rows 20000] [--seeds 3] [--json]

Any .npz file with X and y (-1, +1) is a set. One row in five, drawn with a fixed seed, is the test; of the rest
`--rows` are one pass through the learner under a trainer's defaults (one partition, leaves of 2,000 rows) and a
training, each seed in an order of its own. Every case is run with the bound and without it, on the same rows:

- *clean*: as the set is.
- *far*: one row, after 30 % of the stream, has 1e30 in every feature; *far first*: row 50, in the first leaf.
- *ten far*: ten rows of the first leaf have all features a thousand times as large as theirs.
- *heavy*: one row, after 30 % of the stream, has the weight 1e15 and the other label.
- *rescaled*: from half of the stream on, and in the test, the first feature is a thousand times as large.

Figures: balanced accuracy on the test, in hundredths; the objective a unit of weight, alpha/2 |w|^2 + mean hinge loss,
over the clean training rows (of *rescaled*: over the rescaled ones), in hundredths; `usual` is the same without the one
row in two hundred that lies farthest from the median in any feature, by its mean absolute deviation. `gain` is with the
bound less without: negative is a loss in accuracy, positive a loss in objective. `drawn in` counts rows beyond
the bound, and `excess` is how many times too far the farthest lay. A figure of several seeds is the mean; least and
greatest gains stand beside it. What the rule does with tails and strangers: results/tails.txt.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import balanced_accuracy_score

from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig
from streamsvm.learning.learner import Learner
from streamsvm.learning.training import train
from streamsvm.points import Points, Position, Rows, Times

CASES: Final = ("clean", "far", "far first", "ten far", "heavy", "rescaled")
BOUND: Final = 0.1
SPLIT_SEED: Final = 7
TEST_SHARE: Final = 0.2
MOST_TEST_ROWS: Final = 20_000
AT: Final = 0.3
"""Of the stream, where a bad point comes that is not in the first leaf."""

Cell = dict[str, Any]


def read(path: Path, rows: int, seed: int) -> tuple[Points, Points]:
    """Return training and test points of a set; the order of the former is the seed's."""
    with np.load(path) as arrays:
        X, y = arrays["X"].astype(np.float32), arrays["y"].astype(np.int8)
    order = np.random.default_rng(SPLIT_SEED).permutation(len(y))
    aside = int(TEST_SHARE * len(y))
    test = order[:aside][:MOST_TEST_ROWS]
    kept = np.random.default_rng(seed).permutation(order[aside:])[:rows]
    return tuple(Points(X[part], y[part], np.ones(len(part))) for part in (kept, test))  # type: ignore[return-value]


def spoiled(case: str, points: Points, test: Points) -> tuple[Points, Points, Points]:
    """Return what is learned, what the objective is measured on, and the test."""
    X, y, weight = points.X.copy(), points.y.copy(), points.weight.copy()
    at = int(AT * len(y))
    if case in ("far", "far first"):
        X[at if case == "far" else 50] = 1e30
    elif case == "ten far":
        X[np.arange(100, 1_100, 100) % len(X)] *= 1_000.0
    elif case == "heavy":
        weight[at], y[at] = 1e15, -y[at]
    elif case == "rescaled":
        X[len(y) // 2 :, 0] *= 1_000.0
        far = test.X.copy()
        far[:, 0] *= 1_000.0
        part = slice(len(y) // 2, None)
        return Points(X, y, weight), Points(X[part], y[part], weight[part]), Points(far, test.y, test.weight)
    return Points(X, y, weight), points, test


def stream_of(points: Points) -> Rows:
    """Lay points out as one partition, one a record."""
    n = len(points)
    none = np.full(n, -1, np.int64)
    return Rows(
        partition=0,
        offset=np.arange(n),
        row=np.zeros(n, np.int64),
        last=np.ones(n, bool),
        times=Times.of(none),
        accepted=np.ones(n, bool),
        points=points,
        leader_epoch=none,
    )


def usual(points: Points) -> NDArray[np.intp]:
    """Return the rows but for the one in two hundred that lies farthest in any feature."""
    away = np.abs(points.X.astype(np.float64) - np.median(points.X, axis=0))
    spread = away.mean(axis=0)
    far = np.divide(away, spread, out=np.zeros_like(away), where=spread > 0.0).max(axis=1)
    return np.argsort(far, kind="stable")[: len(far) - len(far) // 200]


def measured(learned: Points, whole: Points, test: Points, max_leverage: float | None, seed: int) -> Cell:
    """Learn, train and score."""
    coreset = CoresetConfig(max_partitions=1, max_leverage=max_leverage)
    config = ModelConfig(points=PointsConfig(dimension=learned.dimension), coreset=coreset, seed=seed)
    learner = Learner(config, {0: Position(0)}, 1 << 60)
    learner.learn(stream_of(learned))
    cut = learner.cut()
    trained = train(cut.points, cut.moments, config.svm)
    answer = trained.model.decision_function(test.X)
    hinge = np.maximum(0.0, 1.0 - whole.y * trained.model.decision_function(whole.X))
    found = learner.outliers()
    return {
        "balanced": 100.0 * float(balanced_accuracy_score(test.y, np.where(answer > 0, 1, -1))),
        "objective": 100.0 * (0.5e-4 * trained.squared_norm + float(hinge.mean())),
        "usual": 100.0 * (0.5e-4 * trained.squared_norm + float(hinge[usual(whole)].mean())),
        "drawn_in": found.rows + found.weights,
        "excess": found.worst.excess if found.worst else 0.0,
        "place": [found.worst.begin.offset, found.worst.feature] if found.worst else None,
    }


def row_of(path: Path, case: str, rows: int, seeds: int) -> Cell:
    """Return a set's figures of a case, seed by seed, and their gains."""
    cells = []
    for seed in range(seeds):
        prepared = spoiled(case, *read(path, rows, seed))
        cells.append({name: measured(*prepared, bound, seed) for name, bound in (("with", BOUND), ("without", None))})
    gains = {
        figure: [cell["with"][figure] - cell["without"][figure] for cell in cells]
        for figure in ("balanced", "objective", "usual")
    }
    return {"set": path.stem, "case": case, "seeds": cells, "gains": gains}


def line(row: Cell) -> str:
    """Return a row for people."""

    def mean(side: str, figure: str) -> float:
        return statistics.mean(cell[side][figure] for cell in row["seeds"])

    def gain(figure: str) -> str:
        gains: list[float] = row["gains"][figure]
        return f"{statistics.mean(gains):+.3f} ({min(gains):+.3f} to {max(gains):+.3f})"

    worst = max(cell["with"]["excess"] for cell in row["seeds"])
    return (
        f"| {row['set']} | {row['case']} | {mean('with', 'balanced'):.2f} | {mean('without', 'balanced'):.2f} "
        f"| {gain('balanced')} | {mean('with', 'objective'):.4g} | {mean('without', 'objective'):.4g} "
        f"| {gain('objective')} | {gain('usual')} | {mean('with', 'drawn_in'):.0f} | {worst:.3g} |"
    )


def main(arguments: list[str] | None = None) -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", help="names of files without .npz; all by default")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    paths = sorted(path for path in asked.data.glob("*.npz") if not asked.sets or path.stem in asked.sets)
    if not paths:
        sys.exit(f"{asked.data} holds none of the sets asked for, as .npz files")
    rows = []
    if not asked.json:
        print(
            "| set | case | balanced, with | without | gain | objective, with | without | gain "
            "| gain, usual | drawn in | excess |"
        )
        print("|---|---|---|---|---|---|---|---|---|---|---|")
    for path in paths:
        for case in asked.cases:
            rows.append(row_of(path, case, asked.rows, asked.seeds))
            if not asked.json:
                print(line(rows[-1]), flush=True)
    if asked.json:
        print(json.dumps({"rows": rows, "asked": {"rows": asked.rows, "seeds": asked.seeds}}, indent=1))


if __name__ == "__main__":
    main()

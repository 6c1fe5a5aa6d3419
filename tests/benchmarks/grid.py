"""A whole grid of gamma and C with folds, beside its separate fits and beside LIBSVM.

    python -m tests.benchmarks.grid --data DIR [--sets ijcnn1 a9a w8a] [--rows 30000] [--gammas 10] [--boxes 10]
        [--folds 5] [--sample 12 | --exhaustive] [--libsvm] [--json]

Rows of each set are shuffled and standardised; a fifth of the set is held out, and `--rows` of the others are searched.
The grid is 2^-5/d .. 2^4/d times 2^-4 .. 2^5 (fewer values: from the middle of that). `ours` is the nested grid of
`streamsvm.branches.landmarks.nested_grid`, as `svm.tune` runs it: on few of the points.

`separate_s` is what all cells times folds take as fits of their own, by our solver to `tol` 1e-3, without judging them:
`--sample` of the fits are made, spread over the grid, and their mean counts for all; `--exhaustive` makes and judges
every one, as GridSearchCV does, and says the held-out accuracy of the cell that it chooses. `ratio` is `separate_s`
over `ours_s`. With `--libsvm`, scikit-learn's SVC, and LIBSVM's own binding where it is installed (`libsvm-official`),
fit the chosen cell once on all searched rows: `solves` is `ours_s` in units of the faster one. Seconds are of CPU time,
one thread.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from streamsvm.branches.landmarks.nested_grid import Grid, search
from streamsvm.estimators.evaluation import split
from streamsvm.learning.judging import accuracy
from streamsvm.learning.tuning import _dealt
from streamsvm.model.kernels import RbfKernel
from streamsvm.model.machine import KernelMachine
from streamsvm.points import Points
from streamsvm.svm.fit_landmarks import decisions
from streamsvm.svm.problem import Problem
from streamsvm.svm.solvers import SOLVERS
from tests.benchmarks.kernels import read

Float = NDArray[np.float64]

TOLERANCE: Final = 1e-3
POWERS: Final = 10


Fold = tuple[int, int, int]
"""A place among the gammas, one among the boxes, and the fold that is left out."""


def measure(name: str, points: Points, asked: argparse.Namespace) -> dict[str, Any]:
    """Return the row of one set."""
    train, test = split(points, 0.2, 0)
    mean, deviation = train.X.mean(axis=0, dtype=np.float64), train.X.std(axis=0, dtype=np.float64)
    scale = np.where(deviation > 0.0, deviation, 1.0)
    n = min(asked.rows, len(train))
    Z = np.ascontiguousarray((train.X[:n] - mean) / scale)
    y, aside = train.y[:n], (test.X - mean) / scale
    random = np.random.Generator(np.random.PCG64(0))
    fold = _dealt(Points(Z, y, np.ones(n)), random)
    middle = [(POWERS - count) // 2 for count in (asked.gammas, asked.boxes)]
    grid = Grid(
        Z=Z,
        y=y,
        weight=np.ones(n),
        gammas=tuple(2.0 ** (power - 5) / Z.shape[1] for power in range(middle[0], middle[0] + asked.gammas)),
        boxes=tuple(2.0 ** (power - 4) for power in range(middle[1], middle[1] + asked.boxes)),
        tolerance=TOLERANCE,
        judge=accuracy,
    )
    search(replace(grid, Z=Z[:2_000], y=y[:2_000], weight=np.ones(2_000)), random, n)
    begun = time.process_time()
    found = search(grid, random, n)
    ours = time.process_time() - begun
    gamma, box = (values[at] for values, at in zip((grid.gammas, grid.boxes), found.best, strict=True))
    row: dict[str, Any] = {
        "set": name,
        "rows": n,
        "cells": asked.gammas * asked.boxes,
        "folds": asked.folds,
        "ours_s": ours,
        "trained_on": found.points,
        "gamma": gamma,
        "C": box,
        "fold_accuracy": float(found.mean[found.best]),
        "accuracy": _held_out(Z, y, gamma, box, aside, test.y),
    }
    every = list(product(range(asked.gammas), range(asked.boxes), range(asked.folds)))
    row |= (
        _exhaustive(grid, fold, every, aside, test.y)
        if asked.exhaustive
        else _separate(grid, fold, every, asked.sample)
    )
    row["ratio"] = row["separate_s"] / ours
    return row | (_libsvm(Z, y, gamma, box, ours) if asked.libsvm else {})


def _fit(Z: Float, y: Any, gamma: float, box: float) -> KernelMachine:
    problem = Problem(
        Z=Z, y=y, upper=np.full(len(y), box), kernel=RbfKernel(gamma), tolerance=TOLERANCE, max_iterations=10**7
    )
    solution = SOLVERS["stda"]().solve(problem)
    assert solution.alpha is not None
    support = np.flatnonzero(solution.alpha)
    return KernelMachine(RbfKernel(gamma), Z[support], y[support] * solution.alpha[support], solution.intercept)


def _held_out(Z: Float, y: Any, gamma: float, box: float, aside: Float, truth: Any) -> float:
    return float(np.mean((decisions(_fit(Z, y, gamma, box), aside) > 0) == (truth > 0)))


def _separate(grid: Grid, folds: NDArray[np.int64], fits: list[Fold], sample: int) -> dict[str, Any]:
    """Time some of the separate fits."""
    some = [fits[(at * len(fits) + len(fits) // 2) // sample] for at in range(sample)]
    begun = time.process_time()
    for row, column, fold in some:
        kept = folds != fold
        _fit(grid.Z[kept], grid.y[kept], grid.gammas[row], grid.boxes[column])
    mean = (time.process_time() - begun) / len(some)
    return {"separate_s": mean * len(fits), "separate_fits": len(some)}


def _exhaustive(grid: Grid, folds: NDArray[np.int64], fits: list[Fold], aside: Float, truth: Any) -> dict[str, Any]:
    """Make and judge every fit, and hold the chosen cell against the truth."""
    scores, seconds = np.zeros((len(grid.gammas), len(grid.boxes))), 0.0
    for row, column, fold in fits:
        kept = folds != fold
        begun = time.process_time()
        machine = _fit(grid.Z[kept], grid.y[kept], grid.gammas[row], grid.boxes[column])
        seconds += time.process_time() - begun
        scores[row, column] += accuracy(decisions(machine, grid.Z[~kept]), grid.y[~kept], grid.weight[~kept])
    row, column = (int(at) for at in np.unravel_index(int(scores.argmax()), scores.shape))
    gamma, box = grid.gammas[row], grid.boxes[column]
    return {
        "separate_s": seconds,
        "separate_fits": len(fits),
        "exhaustive_gamma": gamma,
        "exhaustive_C": box,
        "exhaustive_accuracy": _held_out(grid.Z, grid.y, gamma, box, aside, truth),
    }


def _libsvm(Z: Float, y: Any, gamma: float, box: float, ours: float) -> dict[str, Any]:
    begun = time.process_time()
    SVC(C=box, gamma=gamma, tol=TOLERANCE, cache_size=1_000).fit(Z, y)
    found = {"libsvm_fork_s": time.process_time() - begun}
    if importlib.util.find_spec("libsvm") is not None:
        from libsvm.svmutil import svm_train  # type: ignore[import-not-found]

        begun = time.process_time()
        svm_train(y.astype(float), Z, f"-q -c {box!r} -g {gamma!r} -e {TOLERANCE} -m 1000")
        found["libsvm_s"] = time.process_time() - begun
    return found | {"solves": ours / min(found.values())}


def shown(row: dict[str, Any]) -> str:
    """Return a row as a line."""
    more = f"  {row['solves']:.2f} LIBSVM solves" if "solves" in row else ""
    other = f" (exhaustive {row['exhaustive_accuracy']:.4f})" if "exhaustive_accuracy" in row else ""
    return (
        f"{row['set']:<15}{row['rows']:>7,} rows  {row['cells']} cells x {row['folds']} folds  ours "
        f"{row['ours_s']:.1f} s  separate {row['separate_s']:.0f} s  ratio {row['ratio']:.1f}  accuracy "
        f"{row['accuracy']:.4f}{other}{more}"
    )


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each set, or JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=["ijcnn1", "a9a", "w8a"])
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--gammas", type=int, default=POWERS)
    parser.add_argument("--boxes", type=int, default=POWERS)
    parser.add_argument("--folds", type=int, default=5, choices=range(1, 6), help="of five, for how many fits are made")
    parser.add_argument("--sample", type=int, default=12)
    parser.add_argument("--exhaustive", action="store_true")
    parser.add_argument("--libsvm", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    rows = []
    with threadpool_limits(1):
        for name in asked.sets:
            rows.append(measure(name, read(name, asked.data), asked))
            if not asked.json:
                print(shown(rows[-1]), flush=True)
    if asked.json:
        print(json.dumps({"rows": rows}, indent=2))


if __name__ == "__main__":
    main()
